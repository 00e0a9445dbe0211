"""The trace of an acquire: sent by the command line (through libholdfast) and over HTTP, seen through every node."""

import json
import signal
import subprocess
import threading

import pytest

from cli_support import Watcher, cluster, endpoints, good, run_cli  # noqa: F401  (a fixture)
from grpc_support import channel_to, stubs  # noqa: F401
from harness import PROGRAM, environment, wait_until

A = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
B = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b8-01"


class Holder:
    """`holdfast lock` or `holdfast elect` in the background, until it is stopped."""

    def __init__(self, cluster, command, name, *flags, **env):
        self.process = subprocess.Popen(
            [PROGRAM, command, "--kill-after", "0.1", *flags, name, "--", "sh", "-c", "echo up; exec sleep 600"],
            text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=environment(HOLDFAST_ENDPOINTS=endpoints(cluster), **env))
        assert self.process.stdout.readline() == "up\n"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.communicate()


def trace_of(cluster, name):
    return cluster.nodes[1].show(name).json["holders"][0].get("trace")


@pytest.mark.sanitized
def test_every_node_and_every_command_shows_the_trace(cluster):
    follower = cluster.followers()[0]
    with Watcher(cluster, "traced") as watcher, Holder(cluster, "lock", "traced", "--trace", A):
        waiting = threading.Thread(target=lambda: follower.acquire("traced", "second", wait_timeout_ms=20000, trace=B))
        waiting.start()
        wait_until(lambda: follower.show("traced").json["queue_length"] == 1, "the second client waits")
        for node in cluster:
            shown = node.show("traced").json
            assert shown["holders"][0]["trace"] == A and shown["waiters"][0]["trace"] == B, shown
        refused = run_cli(cluster, "lock", "-n", "traced", "--", "true")
        assert refused.returncode == 75 and f"trace {A}" in refused.stderr, refused
        shown = good(cluster, "show", "traced")
        assert shown.count("TRACE") == 2 and A in shown and B in shown, shown
        table = good(cluster, "ls", "traced").splitlines()
        assert table[0].split()[-1] == "TRACE" and table[1].split()[-1] == A, table
        rows = json.loads(good(cluster, "ls", "traced", "--json"))["locks"]
        assert rows[0]["holder"]["trace"] == A, rows
        good(cluster, "force-unlock", "traced", "--reason", "drill", "--now")
        waiting.join()
        wait_until(lambda: len(watcher.granted()) == 2, "both grants are reported")
        assert [e.get("trace") for e in watcher.named("granted")] == [A, B]
        assert [e.get("trace") for e in watcher.named("forced")] == [A]
    record = json.loads(good(cluster, "audit", "--json"))["records"][-1]
    assert record["resource"] == "traced" and record["trace"] == A, record
    audit = good(cluster, "audit")
    assert "TRACE" in audit and A in audit, audit
    line = good(cluster, "watch", "--since", watcher.events[0]["id"], "-n", "1", "traced")
    assert " granted " in line and f"trace {A}" in line, line


def test_tables_have_no_column_without_a_trace(cluster):
    cluster.nodes[1].acquire("plain")
    assert "TRACE" not in good(cluster, "ls", "plain")
    assert "TRACE" not in good(cluster, "show", "plain")


@pytest.mark.parametrize("flags, variable, expected", [
    ((), A, A),
    (("--trace", B), A, B),
    (("--trace", ""), A, None),
    ((), "00-1-2-3", None),
    ((), "", None),
], ids=["variable", "flag", "none", "invalid variable", "empty variable"])
def test_the_default_is_a_valid_traceparent_of_the_environment(cluster, flags, variable, expected):
    with Holder(cluster, "lock", "default", *flags, TRACEPARENT=variable):
        assert trace_of(cluster, "default") == expected


def test_an_election_has_a_trace(cluster):
    with Holder(cluster, "elect", "boss", "--trace", A):
        assert trace_of(cluster, "boss") == A


@pytest.mark.parametrize("command", ["lock", "elect"])
def test_an_invalid_trace_is_wrong_usage(cluster, command):
    done = run_cli(cluster, command, "--trace", "00-1-2-3", "wrong", "--", "true")
    assert done.returncode == 64 and "--trace: \"00-1-2-3\" is not a W3C traceparent" in done.stderr, done


# --- the header of HTTP, and the metadata of gRPC


HEADER = {"traceparent": B}


@pytest.mark.parametrize("tier", ["CORRECTNESS", "EFFICIENCY"])
def test_the_header_traceparent_is_the_trace_of_an_acquire(cluster, tier):
    name, node = f"header-{tier}", cluster.followers()[0]
    path = f"/api/v1/locks/{name}/acquire"
    with Watcher(cluster, name) as watcher:
        body = {"client_id": "ann", "tier": tier}
        first = node.request("POST", path, body, headers=HEADER).json
        assert first["acquired"] and trace_of(cluster, name) == B
        assert node.request("POST", path, {"client_id": "bob", "tier": tier}).json["holder"]["trace"] == B
        good(cluster, "force-unlock", name, "--reason", "drill", "--now")
        second = node.request("POST", path, {**body, "trace": A}, headers=HEADER).json
        assert second["acquired"] and trace_of(cluster, name) == A, "the field comes first"
        wait_until(lambda: len(watcher.granted()) == 2, "both grants are reported")
        assert [e.get("trace") for e in watcher.named("granted")] == [B, A]
        assert [e.get("trace") for e in watcher.named("forced")] == [B]
    line = cluster.leader().wait_event("lock_forced", resource=name)[0]
    assert line["trace"] == B and line["tier"] == tier, line
    record = wait_until(lambda: [r for r in json.loads(good(cluster, "audit", "--json"))["records"] if r["resource"] == name],
                        "the audit record")[-1]
    assert record["trace"] == B and record["tier"] == tier, record


@pytest.mark.parametrize("value", ["00-1-2-3", B.upper(), "", B + "-01", "x" * 300])
def test_an_invalid_header_is_ignored(cluster, value):
    answer = cluster.nodes[1].request("POST", "/api/v1/locks/ignored/acquire", {"client_id": "ann"}, headers={"traceparent": value})
    assert answer.json["acquired"] and trace_of(cluster, "ignored") is None, answer
    assert cluster.nodes[1].release("ignored", answer.json["fencing_token"], "ann").json["released"]


def test_every_acquire_over_http_takes_the_header(cluster):
    node = cluster.nodes[2]
    for path, body, name in (("/api/v1/multilock/acquire", {"client_id": "c", "names": ["h/1", "h/2"]}, "h/2"),
                             ("/api/v1/elections/h-boss/campaign", {"client_id": "c", "value": "v"}, "h-boss"),
                             ("/v1/locks/acquire", {"resource": "h-seed", "ownerId": "c"}, "h-seed")):
        assert node.request("POST", path, body, headers=HEADER).status == 200
        assert trace_of(cluster, name) == B, name
    with Watcher(cluster, "h-boss") as watcher:
        node.request("POST", "/api/v1/locks/h-boss/force-unlock", {"actor_id": "me", "reason": "drill", "now": True})
        node.request("POST", "/api/v1/elections/h-boss/campaign", {"client_id": "d", "value": "w", "trace": A})
        events = wait_until(lambda: [e for e in watcher.named("leader_changed") if e.get("client_id") == "d"], "the next leader")
        assert events[0]["trace"] == A, events


def test_the_metadata_of_grpc_is_the_trace(cluster, stubs):  # noqa: F811
    with channel_to(cluster.followers()[0]) as channel:
        locks = stubs.lock_grpc.LockServiceStub(channel)
        elections = stubs.election_grpc.ElectionServiceStub(channel)
        metadata = (("traceparent", B),)
        locks.Lock(stubs.lock.LockRequest(resource_id="g-lock", client_id="c"), metadata=metadata)
        locks.MultiLock(stubs.lock.MultiLockRequest(resource_ids=["g-1", "g-2"], client_id="c"), metadata=metadata)
        elections.Campaign(stubs.election.CampaignRequest(name="g-boss", client_id="c"), metadata=metadata)
        for name in ("g-lock", "g-1", "g-2", "g-boss"):
            assert trace_of(cluster, name) == B, name
        locks.Lock(stubs.lock.LockRequest(resource_id="g-field", client_id="c", trace=A), metadata=metadata)
        assert trace_of(cluster, "g-field") == A
        locks.Lock(stubs.lock.LockRequest(resource_id="g-wrong", client_id="c"), metadata=(("traceparent", "00-1"),))
        assert trace_of(cluster, "g-wrong") is None

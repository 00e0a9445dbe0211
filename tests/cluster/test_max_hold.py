"""max_hold_ms ends a hold that is renewed; if_token makes force-unlock and revoke safe: over HTTP, gRPC, the Redis
protocol and the command line."""

import json
import subprocess
import threading
import time

import pytest

from cli_support import cluster, endpoints, good, run_cli  # noqa: F401  (a fixture)
from grpc_support import channel_to, code_of, grpc, stubs  # noqa: F401
from harness import PROGRAM, allowed, environment, wait_until
from resp_support import connect

OPERATOR = {"actor_id": "me", "reason": "test"}


def token_of(node, name):
    return node.show(name).json["holders"][0]["fencing_token"]


def renew_until_lost(node, name, token):
    """Renews ten times a second; returns the answer that refuses."""
    while True:
        answer = node.request("POST", f"/api/v1/locks/{name}/renew",
                              {"client_id": "test", "fencing_token": token}).json
        if not answer["renewed"]:
            return answer
        time.sleep(0.1)


def test_a_hold_that_is_renewed_for_ever_ends(cluster):
    node = cluster.nodes[1]
    began = time.monotonic()
    granted = node.acquire("stuck", max_hold_ms=1500, ttl_ms=30000).json
    assert granted["acquired"] and "hold_until" in granted, granted
    assert granted["expires_in_ms"] <= 1500
    shown = node.show("stuck").json["holders"][0]
    assert shown["hold_until"] and not shown["long_held"], shown
    waiting = []
    thread = threading.Thread(target=lambda: waiting.append(
        cluster.nodes[2].acquire("stuck", "next", wait_timeout_ms=20000, max_hold_ms=60000).json))
    thread.start()
    refused = renew_until_lost(node, "stuck", granted["fencing_token"])
    assert refused["ended"] == "max_hold", refused
    assert 1.4 <= time.monotonic() - began <= allowed(1.5) + 1
    thread.join()
    assert waiting[0]["acquired"] and 500 <= waiting[0]["waited_ms"] <= 20000, waiting
    assert "hold_until" in waiting[0]


def test_a_waiter_shows_since_when_it_waits(cluster):
    node = cluster.nodes[1]
    token = node.acquire("queued").json["fencing_token"]
    thread = threading.Thread(target=lambda: node.acquire("queued", "second", wait_timeout_ms=20000))
    thread.start()
    row = wait_until(lambda: node.show("queued").json["waiters"], "the second waits")[0]
    assert row["since"].startswith("20"), row
    table = good(cluster, "show", "queued")
    assert "SINCE" in table and row["since"][:19].replace("T", " ") in table, table
    node.release("queued", token)
    thread.join()


@pytest.mark.parametrize("path", ["locks/x/acquire", "multilock/acquire", "elections/x/campaign"])
@pytest.mark.parametrize("value,code", [(99, "invalid_max_hold"), (2678400001, "invalid_max_hold"),
                                        (-1, "field_range"), ("1s", "field_type")])
def test_a_wrong_max_hold_is_refused(cluster, path, value, code):
    body = {"client_id": "c", "max_hold_ms": value}
    if path.startswith("multilock"):
        body["names"] = ["x", "y"]
    answer = cluster.nodes[1].request("POST", f"/api/v1/{path}", body)
    assert answer.status == 400 and answer.code == code, answer


def test_several_names_and_a_leadership_have_a_max_hold(cluster):
    node = cluster.nodes[1]
    several = node.request("POST", "/api/v1/multilock/acquire",
                           {"client_id": "c", "names": ["m/1", "m/2"], "max_hold_ms": 1000}).json
    leader = node.request("POST", "/api/v1/elections/head/campaign",
                          {"client_id": "c", "max_hold_ms": 1000}).json
    assert several["hold_until"] and leader["hold_until"]
    wait_until(lambda: not node.show("m/1").json["held"] and not node.show("m/2").json["held"]
               and not node.show("head").json["held"], "all three have ended")


@pytest.mark.parametrize("action", ["force-unlock", "revoke"])
def test_an_operator_acts_only_on_the_holder_that_was_seen(cluster, action):
    node = cluster.nodes[1]
    name = f"seen-{action}"
    token = node.acquire(name, client="a").json["fencing_token"]
    for wrong, code, status in ((token - 1, "token_mismatch", 409), (0, "field_range", 400)):
        answer = node.request("POST", f"/api/v1/locks/{name}/{action}", {**OPERATOR, "if_token": wrong})
        assert answer.status == status and answer.code == code, answer
    more = ["--deadline", "0s"] if action == "revoke" else []
    done = run_cli(cluster, action, name, "--reason", "r", "--if-token", str(token - 1), *more)
    assert done.returncode != 0 and "token_mismatch" in done.stderr, done
    assert node.show(name).json["held"]
    assert "1 holder " in good(cluster, action, name, "--reason", "r", "--if-token", str(token), *more)
    wait_until(lambda: not node.show(name).json["held"], "it was taken away")


def test_grpc_has_max_hold_and_if_token(cluster, stubs):
    with channel_to(cluster.nodes[1]) as channel:
        locks, admin = stubs.lock_grpc.LockServiceStub(channel), stubs.admin_grpc.AdminServiceStub(channel)
        request = stubs.lock.LockRequest(resource_id="rpc", client_id="c")
        request.max_hold.FromMilliseconds(60000)
        handle = locks.Lock(request).lock_handle
        shown = admin.Show(stubs.admin.ShowRequest(resource_id="rpc"))
        assert handle.hold_until.seconds > 0
        assert abs(handle.hold_until.ToMilliseconds() - shown.holders[0].hold_until.ToMilliseconds()) < 1000
        assert not shown.holders[0].long_held and not shown.lock.long_held
        request.max_hold.FromMilliseconds(50)
        with pytest.raises(grpc.RpcError) as error:
            locks.Lock(request)
        assert code_of(error.value) == (grpc.StatusCode.INVALID_ARGUMENT, "invalid_max_hold")
        force = stubs.admin.ForceUnlockRequest(resource_id="rpc", **OPERATOR, if_token=handle.fence_token + 1)
        with pytest.raises(grpc.RpcError) as error:
            admin.ForceUnlock(force)
        assert code_of(error.value) == (grpc.StatusCode.FAILED_PRECONDITION, "token_mismatch")
        revoke = stubs.admin.RevokeRequest(resource_id="rpc", **OPERATOR, if_token=handle.fence_token + 1)
        with pytest.raises(grpc.RpcError) as error:
            admin.Revoke(revoke)
        assert code_of(error.value) == (grpc.StatusCode.FAILED_PRECONDITION, "token_mismatch")
        force.if_token = handle.fence_token
        assert admin.ForceUnlock(force).holders == 1


def test_the_redis_protocol_has_max_hold(cluster):
    leader = cluster.nodes[cluster.nodes[1].cluster()["leader"]]
    client = connect(leader)
    assert isinstance(client.execute_command("HF.ACQUIRE", "redis", "me", "PX", "30000", "MAXHOLD", "1000"), int)
    assert client.execute_command("PTTL", "redis") <= 1000
    wait_until(lambda: not leader.show("redis").json["held"], "it has ended")


def test_a_command_is_killed_at_its_max_hold(cluster):
    began = time.monotonic()
    done = subprocess.run(
        [PROGRAM, "lock", "--max-hold", "2s", "--kill-after", "200ms", "--status-fd", "1", "wrapped", "--", "sleep", "60"],
        text=True, capture_output=True, timeout=40, env=environment(HOLDFAST_ENDPOINTS=endpoints(cluster)))
    assert done.returncode == 79, done
    assert json.loads(done.stdout)["reason"] == "max_hold", done
    assert time.monotonic() - began <= allowed(2.5) + 1


@pytest.mark.parametrize("command", ["lock", "elect"])
def test_a_wrong_max_hold_is_wrong_usage(cluster, command):
    done = run_cli(cluster, command, "--max-hold", "50ms", "wrong", "--", "true")
    assert done.returncode == 64 and "--max-hold" in done.stderr, done

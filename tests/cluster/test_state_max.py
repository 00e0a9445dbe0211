"""state-max on real nodes (S12.14): what adds state is refused at the limit, what ends something passes, and
a cluster that starts above its limit drains."""

import json
import re
import socket

import pytest
import redis

from cli_support import run_cli
from grpc_support import channel_to, code_of, grpc, stubs  # noqa: F401
from harness import PATIENCE, wait_until

LIMIT = "2MiB"
VALUE = "v" * 4096
BIG = {"metadata": "m" * 4000}  # 4,096 bytes as JSON at most
TTL_MS = 600000


def metric(node, name):
    return float(re.search(rf"^holdfast_{name} (\S+)$", node.request("GET", "/metrics").text, re.M)[1])


def connect(node):
    return redis.Redis(host="127.0.0.1", port=node.resp_port, socket_timeout=PATIENCE, decode_responses=True)


def fill(r, prefix="k"):
    """SET NX of 4 KiB values until the answer is -OOM; their names."""
    names = []
    with pytest.raises(redis.exceptions.RedisError) as refused:
        while len(names) < 2000:
            names.append(f"{prefix}-{len(names)}")
            assert r.set(names[-1], VALUE, nx=True, px=TTL_MS)
    assert "state_full" in str(refused.value) and "state-max" in str(refused.value)
    return names[:-1]


@pytest.mark.sanitized
def test_a_full_state_refuses_more_and_takes_it_again_after_releases(make_cluster):
    cluster = make_cluster(3, "--state-max", LIMIT)
    leader, follower = cluster.leader(), cluster.followers()[0]
    held = leader.acquire("held-before", ttl_ms=TTL_MS).json
    opened = leader.request("POST", "/api/v1/sessions", {"client_id": "c", "ttl_ms": TTL_MS}).json
    with connect(follower) as r:  # checked on the leader
        names = fill(r)
        assert 200 < len(names) < 512, len(names)
        assert metric(leader, "state_bytes") > 0.9 * metric(leader, "state_max_bytes")
        assert metric(leader, "state_max_bytes") == 2 << 20
        assert metric(leader, "state_refused_total") >= 1
        leader.wait_event("state_nearly_full")
        assert metric(leader, "state_nearly_full") == 1

        # The word that clients of Redis look at.
        with socket.create_connection(("127.0.0.1", follower.resp_port), PATIENCE) as raw:
            raw.sendall(f"SET one-more {VALUE} NX PX {TTL_MS}\r\n".encode())
            assert raw.makefile("rb").readline().startswith(b"-OOM state_full: ")

        for node in (leader, follower):
            refused = node.acquire("one-more", **BIG)
            assert refused.status == 429 and refused.code == "state_full", refused
            assert "state-max" in refused.text
        waiting = follower.acquire("held-before", client="other", wait_timeout_ms=5000, **BIG)
        assert waiting.status == 429 and waiting.code == "state_full", waiting
        fast = follower.acquire("quick", tier="EFFICIENCY", **BIG)
        assert fast.status == 429 and fast.code == "state_full", fast
        session = leader.request("POST", "/api/v1/sessions", {"client_id": "c", "ttl_ms": TTL_MS, **BIG})
        assert session.status == 429 and session.code == "state_full", session

        # What ends or prolongs something passes, and so do operators.
        assert r.pexpire(names[0], TTL_MS) == 1
        renewed = leader.request("POST", "/api/v1/locks/held-before/renew",
                             {"client_id": "test", "fencing_token": held["fencing_token"], "ttl_ms": TTL_MS})
        assert renewed.status == 200, renewed
        ident = opened["session_id"]
        assert leader.request("POST", f"/api/v1/sessions/{ident}/keepalive", {}).status == 200
        assert leader.request("DELETE", f"/api/v1/sessions/{ident}").status in (200, 204)
        forced = leader.request("POST", f"/api/v1/locks/{names[1]}/force-unlock",
                            {"actor_id": "olga", "reason": "full", "now": True})
        assert forced.status == 200, forced
        assert leader.release("held-before", held["fencing_token"]).status == 200

        for name in names[2:]:
            assert r.delete(name) == 1
        assert leader.acquire("one-more", **BIG).json["acquired"]
        leader.wait_event("state_not_full")
        assert len(fill(r, "again")) > 200


def test_the_smallest_limit_of_the_members_counts(make_cluster):
    cluster = make_cluster(3, "--state-max", "64MiB")
    small = cluster.followers()[0]
    small.stop()
    small.wait_end()
    small.start("--state-max", LIMIT)
    small.wait_ready()
    leader = cluster.leader()
    assert leader is not small
    wait_until(lambda: metric(leader, "state_max_bytes") == 2 << 20, "the leader knows the smallest limit")
    with connect(leader) as r:
        assert 200 < len(fill(r)) < 512


def test_a_cluster_above_its_limit_starts_and_drains(make_cluster):
    cluster = make_cluster(3, "--state-max", "8MiB")
    with connect(cluster.leader()) as r:
        names = fill(r)
    assert len(names) > 1000
    cluster.kill_all()
    for node in cluster:
        node.start("--state-max", LIMIT)
    cluster.wait_ready()
    leader = cluster.leader()
    assert metric(leader, "state_bytes") > 2 * metric(leader, "state_max_bytes")
    refused = leader.acquire("one-more")
    assert refused.status == 429 and refused.code == "state_full", refused
    with connect(leader) as r:
        assert r.get(names[-1]) == VALUE
        for name in names:
            assert r.delete(name) == 1
        assert leader.acquire("one-more").json["acquired"]
        assert len(fill(r, "again")) > 200


def test_the_tier_efficiency_counts_and_drains(make_cluster):
    cluster = make_cluster(3, "--state-max", LIMIT)
    leader = cluster.leader()
    tokens = []
    connection = leader.connect()
    while True:
        path = f"/api/v1/locks/quick-{len(tokens)}/acquire"
        connection.request("POST", path, body=json.dumps(
            {"client_id": "c", "tier": "EFFICIENCY", **BIG, "ttl_ms": TTL_MS}))
        response = connection.getresponse()
        answer = json.loads(response.read())
        if response.status != 200:
            assert response.status == 429, answer
            break
        tokens.append(answer["fencing_token"])
        assert len(tokens) < 600
    connection.close()
    assert len(tokens) > 200
    durable = leader.acquire("durable", **BIG)
    assert durable.status == 429 and durable.code == "state_full", durable
    for i, token in enumerate(tokens[:20]):
        assert leader.release(f"quick-{i}", token, client="c").status == 200
    assert leader.acquire("durable", **BIG).json["acquired"]


def test_grpc_names_the_same_code(make_cluster, stubs):  # noqa: F811
    node = make_cluster(1, "--state-max", LIMIT).nodes[1]
    with connect(node) as r:
        fill(r)
    with channel_to(node) as channel, pytest.raises(grpc.RpcError) as refused:
        service = stubs.lock_grpc.LockServiceStub(channel)
        for i in range(100):  # there is space for a few that are small
            service.Lock(stubs.lock.LockRequest(resource_id=f"small-{i}", client_id="me"))
    assert code_of(refused.value) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "state_full")


def test_the_command_line_says_what_is_full(make_cluster):
    cluster = make_cluster(1, "--state-max", LIMIT)
    with connect(cluster.leader()) as r:
        names = fill(r)
        assert names
        fill_small = 0
        with pytest.raises(redis.exceptions.RedisError):
            while fill_small < 5000:
                r.set(f"small-{fill_small}", "v", nx=True, px=TTL_MS)
                fill_small += 1
    done = run_cli(cluster, "lock", "-n", "more", "--", "true")
    assert done.returncode != 0
    assert "state" in done.stderr and "limit" in done.stderr, done.stderr


def test_the_default_is_a_quarter_of_the_memory_at_most(make_cluster):
    node = make_cluster(1).nodes[1]
    with open("/proc/meminfo", encoding="ascii") as file:
        machine = 1024 * int(next(line for line in file if line.startswith("MemTotal")).split()[1])
    assert 1 << 20 <= metric(node, "state_max_bytes") <= machine // 4

"""GET /api/v1/hot and `holdfast hot`: the busiest prefixes on the leader, through any node."""

import json
import threading
import time

import pytest

from cli_support import good, run_cli
from grpc_support import channel_to, code_of, grpc, stubs  # noqa: F401
from harness import PATIENCE, wait_until


def hot(node, by, limit=20):
    answer = node.request("GET", f"/api/v1/hot?by={by}&limit={limit}")
    assert answer.status == 200, answer
    assert answer.json["by"] == by and answer.json["node"] == node.id
    return answer.json


def rows(answer):
    return {row["prefix"]: row for row in answer["prefixes"]}


def test_the_busiest_prefixes_are_seen_through_any_node(make_cluster):
    cluster = make_cluster(3)
    leader, follower = cluster.leader(), cluster.followers()[0]
    began = time.monotonic()
    for i in range(12):
        tier = ("CORRECTNESS", "EFFICIENCY")[i % 2]
        token = follower.acquire(f"orders/{i}", tier=tier, ttl_ms=600000).json["fencing_token"]
        if i % 3 == 0:
            assert not leader.acquire(f"orders/{i}", client="other", tier=tier).json["acquired"]
        assert leader.release(f"orders/{i}", token).json["released"]
    for i in range(3):
        assert leader.acquire(f"queue:mail:{i}", ttl_ms=600000).json["acquired"]
    assert follower.acquire("backup", ttl_ms=600000).json["acquired"]
    took = time.monotonic() - began

    for node in (leader, follower):
        answer = hot(node, "rate")
        assert answer["leader"] == leader.id and answer["term"] >= 1 and answer["since"].startswith("20")
        found = rows(answer)
        assert [row["prefix"] for row in answer["prefixes"]] == ["orders/", "queue:mail:", "backup"]
        assert all(row["error"] == 0 and row["tenant"] == "default" for row in found.values())
        window_s = max(answer["window_ms"] / 1000, 1)
        assert abs(found["orders/"]["per_second"] * window_s - 16) < 0.1  # 12, and 4 refused ones
        assert abs(found["queue:mail:"]["per_second"] * window_s - 3) < 0.1
        assert abs(sum(row["share"] for row in found.values()) - 1) < 0.001
        assert abs(answer["total_per_second"] * window_s - 20) < 0.1

    contended = hot(follower, "contention")
    assert list(rows(contended)) == ["orders/"]
    assert abs(rows(contended)["orders/"]["per_second"] * max(contended["window_ms"] / 1000, 1) - 4) < 0.1
    held = hot(follower, "hold")
    assert list(rows(held)) == ["orders/"]  # a hold counts when it ends
    assert 0 < rows(held)["orders/"]["per_second"] * max(held["window_ms"] / 1000, 1) <= 12 * took
    assert hot(follower, "wait")["prefixes"] == []
    assert len(hot(follower, "rate", 2)["prefixes"]) == 2


def test_waits_count_when_they_end_and_a_new_leader_begins_again(make_cluster):
    cluster = make_cluster(3)
    leader = cluster.leader()
    token = leader.acquire("jobs/a", ttl_ms=600000).json["fencing_token"]
    found = []
    waiter = threading.Thread(target=lambda: found.append(leader.acquire("jobs/a", client="b", ttl_ms=600000, wait_timeout_ms=60000)))
    waiter.start()
    wait_until(lambda: rows(hot(leader, "contention")), "it waits")
    assert leader.release("jobs/a", token).json["released"]
    waiter.join(PATIENCE)
    assert found[0].json["acquired"]
    first = hot(leader, "wait")
    assert 0 < rows(first)["jobs/"]["per_second"]
    assert leader.request("POST", "/api/v1/members/transfer", {}).status == 200
    wait_until(lambda: hot(leader, "wait")["leader"] != leader.id, "another node leads")
    second = hot(leader, "wait")
    assert second["prefixes"] == [] and second["since"] > first["since"] and second["term"] > first["term"]


def test_grpc_answers_the_same(make_cluster, stubs):  # noqa: F811
    cluster = make_cluster(3)
    leader, follower = cluster.leader(), cluster.followers()[0]
    for i in range(4):
        assert leader.acquire(f"orders/{i}", ttl_ms=600000).json["acquired"]
        assert not leader.acquire(f"orders/{i}", client="other").json["acquired"]
    assert leader.acquire("backup", ttl_ms=600000).json["acquired"]
    with channel_to(follower) as channel:
        admin = stubs.admin_grpc.AdminServiceStub(channel)
        found = admin.Hot(stubs.admin.HotRequest(by="HOT_BY_RATE"))
        assert (found.node, found.leader, found.by) == (follower.id, leader.id, stubs.admin.HOT_BY_RATE) and found.term >= 1
        assert abs(found.since.ToDatetime().timestamp() - time.time()) < 3600
        assert [(row.tenant, row.prefix, row.error) for row in found.prefixes] == [("default", "orders/", 0), ("default", "backup", 0)]
        window_s = max(found.window.ToTimedelta().total_seconds(), 1)
        assert abs(found.prefixes[0].per_second * window_s - 8) < 0.1 and abs(found.total_per_second * window_s - 9) < 0.1
        assert abs(found.prefixes[0].share - 8 / 9) < 0.001
        contended = admin.Hot(stubs.admin.HotRequest())
        assert contended.by == stubs.admin.HOT_BY_CONTENTION and [row.prefix for row in contended.prefixes] == ["orders/"]
        assert len(admin.Hot(stubs.admin.HotRequest(by="HOT_BY_RATE", limit=1)).prefixes) == 1
        for bad in (stubs.admin.HotRequest(by=9), stubs.admin.HotRequest(limit=101)):
            with pytest.raises(grpc.RpcError) as refused:
                admin.Hot(bad)
            assert code_of(refused.value)[1] == "field_range"


def test_bad_parameters_are_refused(make_cluster):
    node = make_cluster(1).leader()
    for query in ("by=name", "limit=0", "limit=x", "order=1"):
        answer = node.request("GET", f"/api/v1/hot?{query}")
        assert answer.status == 400, (query, answer)
    assert node.request("GET", "/api/v1/hot").json["by"] == "contention"


def test_the_command_prints_a_table_or_json(make_cluster):
    cluster = make_cluster(3)
    for i in range(4):
        assert cluster.leader().acquire(f"orders/{i}", ttl_ms=600000).json["acquired"]
    table = good(cluster, "hot", "--by", "rate").splitlines()
    assert table[0].startswith("by rate, about the last ") and f"on leader {cluster.leader().id} since 20" in table[0]
    assert table[1].split() == ["ACQUIRES/S", "ERROR", "SHARE", "TENANT", "PREFIX"]
    assert table[2].split()[1:] == ["0.00", "100.0%", "default", "orders/"] and len(table) == 3
    assert json.loads(good(cluster, "hot", "--by", "RATE", "--json"))["prefixes"][0]["prefix"] == "orders/"
    for words, said in ((("--by", "name"), "must be contention, hold, wait or rate"), (("--limit", "101"), "must be from 1 to 100"),
                        (("x",), "unexpected argument")):
        done = run_cli(cluster, "hot", *words)
        assert done.returncode == 64 and said in done.stderr, done

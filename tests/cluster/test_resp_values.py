"""Keys that are values, not locks (decision 36); locks of connections that are gone; PING for health checks."""

import shutil
import subprocess
import time

import pytest
import redis

import resp_support
from harness import wait_until


def connect(node):
    return resp_support.connect(node)




def audited(node, name):
    return [record for record in node.request("GET", "/api/v1/audit").json["records"] if record["resource"] == name]


def test_a_value_is_changed_by_every_connection(make_cluster):
    cluster = make_cluster(3)
    leader, follower = cluster.leader(), cluster.followers()[0]
    with connect(leader) as a, connect(follower) as b:
        assert a.set("v", "1") and b.set("v", "2") and a.get("v") == "2"
        assert b.set("v", "3", ex=50) and a.expire("v", 5) and a.ttl("v") <= 5
        assert b.set("v", "4") and a.ttl("v") == -1
        assert a.set("v", "x", nx=True) is None
        assert a.mset({"v": "5", "w": "6"}) and b.mset({"v": "7", "w": "8"})
        assert b.delete("v", "w") == 2 and audited(leader, "v") == []
        # A lock is still its connection's.
        assert a.set("l", "mine", nx=True, px=30000)
        with pytest.raises(redis.ResponseError, match="held by another connection"):
            b.set("l", "stolen")
        assert a.get("l") == "mine" and a.delete("l") == 1
        # A script that looks first acquires a lock, as Spring's RedisLockRegistry does.
        acquire = "if not redis.call('GET', KEYS[1]) then redis.call('SET', KEYS[1], ARGV[1], 'PX', 30000) return 1 end return 0"
        assert a.eval(acquire, 1, "s", "mine") == 1 and b.eval(acquire, 1, "s", "other") == 0
        with pytest.raises(redis.ResponseError, match="held by another connection"):
            b.set("s", "stolen")
        assert a.eval("return redis.call('SET', KEYS[1], 'blind')", 1, "free") == "OK"
        assert b.set("free", "again")
        # A name that no key can have does not exist.
        assert a.delete("x" * 513) == 0 and a.exists("x" * 513) == 0


@pytest.mark.skipif(shutil.which("redis-benchmark") is None, reason="needs redis-benchmark")
def test_redis_benchmark_sets_one_key_from_ten_connections(make_cluster):
    cluster = make_cluster(3)
    for node in cluster.leader(), cluster.followers()[0]:
        done = subprocess.run(["redis-benchmark", "-p", str(node.resp_port), "-t", "set,get", "-c", "10", "-n", "500", "-q"],
                              capture_output=True, text=True, timeout=100)
        assert done.returncode == 0 and "rror" not in done.stdout + done.stderr, done
        assert "SET: " in done.stdout and "GET: " in done.stdout


def test_a_lock_of_a_connection_that_is_gone_ends_with_its_ttl(make_cluster):
    cluster = make_cluster(3)
    with connect(cluster.leader()) as first:
        began = time.monotonic()
        assert first.set("l", "mine", nx=True, px=1500)
    with connect(cluster.followers()[0]) as second:
        refused = 0
        while not second.set("l", "next", nx=True, px=30000):
            refused += 1
            assert second.pttl("l") <= 1500
        assert time.monotonic() - began >= 1.5
        assert refused > 0 and second.get("l") == "next"


def test_nodes_of_one_cluster_are_no_independent_servers_for_redlock(make_cluster):
    release = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"
    clients = [connect(node) for node in make_cluster(3)]
    # One of three is no majority: the library releases it everywhere.
    assert [client.set("r", "mine", nx=True, px=30000) for client in clients] == [True, None, None]
    assert [client.eval(release, 1, "r", "mine") for client in clients] == [1, 0, 0]
    # With one endpoint, one of one is a majority, whichever node it is.
    for client in reversed(clients):
        assert client.set("r", "mine", nx=True, px=30000)
        assert client.eval(release, 1, "r", "mine") == 1
        client.close()


def test_ping_may_say_that_no_majority_is_reached(make_cluster):
    cluster = make_cluster(3, "--resp-ping", "serving", "--request-timeout", "500ms")
    leader = cluster.leader()
    with connect(leader) as r:
        assert r.ping()
        for node in cluster.followers():
            node.kill()

        def refuses():
            try:
                r.ping()
                return False
            except redis.ResponseError as error:
                assert "CLUSTERDOWN" in str(error)
                return True

        wait_until(refuses, "PING is an error without a majority")

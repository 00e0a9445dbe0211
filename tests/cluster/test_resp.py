"""The Redis protocol on real nodes, with redis-py (Debian's python3-redis): its plain calls, pipelines,
channels and locks; through any node; while the leader dies; and clients that mean harm. docs/REDIS.md is
the contract."""

import socket
import threading
import time

import pytest
import redis

from conftest import check_log
from harness import PATIENCE, SANITIZED, Cluster, Ports, allowed, wait_until
from resp_support import connect, error_word


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    """Three nodes for all tests of this file that leave them as they are."""
    with Ports():
        cluster = Cluster(tmp_path_factory.mktemp("resp"), 3).start()
        yield cluster
        for node in cluster:
            node.close_ready()
            node.kill()
    for node in cluster:
        check_log(node)


@pytest.fixture(params=["leader", "follower"])
def node(three, request):
    """Any node will do."""
    return three.leader() if request.param == "leader" else three.followers()[0]


@pytest.fixture
def r(node):
    with connect(node) as client:
        yield client


@pytest.fixture
def name(request):
    return "resp/" + request.node.name.replace("[", "/").rstrip("]")  # no glob


# --- commands ---------------------------------------------------------------------------


def test_set_nx_px_is_a_lock_that_others_see(three, r, name):
    assert r.set(name, "me", nx=True, px=30000) is True
    assert r.set(name, "you", nx=True, px=30000) is None
    assert r.get(name) == "me"
    assert 29 <= r.ttl(name) <= 30 and 20000 < r.pttl(name) <= 30000
    assert r.exists(name) == 1 and r.type(name) == "string"
    shown = three.leader().show(name).json
    holder = shown["holders"][0]
    assert holder["client_id"].startswith("resp:127.0.0.1:")
    assert holder["fencing_token"] == r.execute_command("HF.TOKEN", name, "me")
    refused = three.leader().acquire(name).json
    assert refused["acquired"] is False and refused["holder"]["client_id"] == holder["client_id"]
    assert r.delete(name) == 1
    assert r.get(name) is None and r.ttl(name) == -2
    assert three.leader().acquire(name).json["fencing_token"] > holder["fencing_token"]
    assert r.get(name) == "holdfast:test"
    assert r.set(name, "me", nx=True, px=30000) is None


@pytest.mark.sanitized
def test_plain_calls_of_redis_py(r, name):
    assert r.ping()
    assert r.echo("x") == "x"
    assert r.client_setname("tests") and r.client_getname() == "tests"
    assert any(c["name"] == "tests" for c in r.client_list())
    assert r.info()["redis_version"].startswith("7.") and r.info()["loading"] == 0
    assert "set" in r.command() and r.command_count() > 50
    assert r.config_get("appendonly") == {"appendonly": "yes"}
    assert r.incr(name + "/n") == 1 and r.incrby(name + "/n", 5) == 6 and r.get(name + "/n") == "6"
    assert r.delete(name + "/n") == 1
    assert r.hset(name, mapping={"a": "1", "b": "2"}) == 2
    assert r.hgetall(name) == {"a": "1", "b": "2"} and r.hincrby(name, "a", 2) == 3
    assert r.hexists(name, "b") and r.hdel(name, "a", "b") == 2 and not r.exists(name)
    assert r.set(name, "v", ex=20) and r.expire(name, 40) and r.ttl(name) > 30
    assert r.expire(name, 10, gt=True) is False
    assert r.set(name, "w", xx=True, keepttl=True, get=True) == "v" and r.ttl(name) > 30
    assert r.persist(name) is True and r.ttl(name) == -1 and r.persist(name) is False
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        r.lpush(name, "x")
    with pytest.raises(redis.ResponseError, match="unknown command 'GEOADD'"):
        r.execute_command("GEOADD", name, 0, 0, "x")
    assert r.get("a//b") is None
    with pytest.raises(redis.ResponseError, match="invalid expire time"):
        r.set(name, "v", px=0)
    assert r.unlink(name) == 1


@pytest.mark.sanitized
def test_a_pipeline_is_answered_in_order(r, name):
    pipe = r.pipeline(transaction=False)
    for i in range(300):
        pipe.set(f"{name}/{i}", i, nx=True, px=30000)
    assert pipe.execute() == [True] * 300
    for i in range(300):
        pipe.get(f"{name}/{i}")
    assert pipe.execute() == [str(i) for i in range(300)]
    pipe.set(name, "a", nx=True, px=30000).get(name).set(name, "b").get(name).delete(name).get(name)
    assert pipe.execute() == [True, "a", True, "b", 1, None]
    pipe = r.pipeline()  # with MULTI and EXEC
    pipe.set(name, "a", nx=True, px=30000).get(name).incr(name + "/n").delete(name, name + "/n").get(name)
    assert pipe.execute() == [True, "a", 1, 2, None]
    found = set(r.scan_iter(match=name + "/*", count=50))
    assert found == {f"{name}/{i}" for i in range(300)}
    assert r.delete(*[f"{name}/{i}" for i in range(60)]) == 60


def test_counting_loses_nothing(three, name):
    seen = []

    def count(node):
        with connect(node) as client:
            mine = []
            while len(mine) < 20:
                try:
                    mine.append(client.incr(name))
                except redis.ResponseError as error:
                    assert error_word(error) == "TRYAGAIN"  # 8 conflicts; nothing was done
            seen.extend(mine)

    threads = [threading.Thread(target=count, args=(node,)) for node in three for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == list(range(1, 121))


# --- whose lock it is -------------------------------------------------------------------


def test_a_foreign_lock_is_not_overwritten_and_its_deletion_is_audited(three, node, name):
    with connect(node) as mine, connect(three.leader(), client_name="cleaner") as other:
        mine.set(name, "mine", nx=True, px=60000)
        with pytest.raises(redis.ResponseError, match="held by another connection"):
            other.set(name, "theirs")
        with pytest.raises(redis.ResponseError, match="not shortened"):
            other.pexpire(name, 1000)
        assert mine.get(name) == "mine"
        assert other.delete(name) == 1
        records = three.leader().request("GET", "/api/v1/audit").json["records"]
        record = [x for x in records if x["resource"] == name][-1]
        assert record["action"] == "FORCE_UNLOCK" and record["actorId"].startswith("resp:cleaner@")
        assert "Redis" in record["reason"]


def test_deletion_of_foreign_locks_can_be_switched_off_and_a_password_requested(make_cluster):
    cluster = make_cluster(1, "--resp-del", "refuse", start=False)
    for node in cluster:
        node.env["HOLDFAST_RESP_PASSWORD"] = "open sesame"
    node = cluster.start().leader()
    with connect(node) as outsider:
        with pytest.raises(redis.AuthenticationError):
            outsider.get("a")
    with connect(node, password="open Sesame") as outsider:
        with pytest.raises(redis.RedisError, match="invalid username-password pair"):  # another class in each version
            outsider.get("a")
    with connect(node, password="open sesame") as a, connect(node, password="open sesame") as b:
        assert a.set("a", "v", nx=True, px=30000)
        with pytest.raises(redis.exceptions.NoPermissionError):
            b.delete("a")
        assert a.delete("a") == 1


# --- channels ---------------------------------------------------------------------------


def test_what_is_published_reaches_subscribers_of_every_node(three, name):
    listeners = []
    for node in three:
        pubsub = connect(node).pubsub()
        pubsub.subscribe(name)
        pubsub.psubscribe(name[:-3] + "*")
        for _ in range(2):
            assert pubsub.get_message(timeout=PATIENCE)["type"] in ("subscribe", "psubscribe")
        listeners.append(pubsub)
    for node in three:
        with connect(node) as client:
            client.publish(name, f"from {node.id}")
    for pubsub in listeners:
        heard = [pubsub.get_message(timeout=PATIENCE) for _ in range(6)]
        assert [m["data"] for m in heard if m["type"] == "message"] == [f"from {n.id}" for n in three]
        assert len([m for m in heard if m["type"] == "pmessage"]) == 3
        pubsub.close()


# --- the leader dies --------------------------------------------------------------------


# --- counters -----------------------------------------------------------------------------


def test_a_rate_limiter_counts_within_its_window(three, r, name):
    """Seed 003: INCR, and EXPIRE by whoever was the first."""
    def call(client):
        count = client.incr(name)
        if count == 1:
            assert client.expire(name, 2)
        return count

    with connect(three.followers()[1]) as other:
        begun = time.monotonic()
        assert [call(r), call(other), call(r)] == [1, 2, 3]
        left = other.pttl(name)
        assert 0 < left <= 2000
        wait_until(lambda: call(other) < 3, "the window ends")  # each of them counts, too
        assert time.monotonic() - begun > left / 1000 - 0.1
        assert r.persist(name) is True and r.ttl(name) == -1 and r.persist(name) is False
    assert r.delete(name) == 1


def test_the_window_of_a_counter_outlives_the_leader(make_cluster):
    cluster = make_cluster(3)
    leader = cluster.leader()
    with connect(cluster.followers()[0]) as r:
        assert r.incr("calls") == 1 and r.pexpire("calls", 20000)
        script = r.register_script("""
            local n = redis.call('INCR', KEYS[1])
            if n == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
            return {n, redis.call('PTTL', KEYS[1])}""")
        assert script(keys=["other"], args=[1000])[0] == 1
        leader.kill()

        def answered():
            try:
                return r.incr("calls")
            except redis.RedisError:
                return None

        wait_until(answered, "a new leader answers")
        count, left = script(keys=["calls"], args=[60000])
        assert count >= 3 and 0 < left <= 20000  # the end that the first call has set
        wait_until(lambda: r.exists("other") == 0, "the other window ends")


# --- fencing tokens -----------------------------------------------------------------------


def test_hf_acquire_takes_a_lock_and_tells_its_token(three, r, name):
    first = r.execute_command("HF.ACQUIRE", name, "me", "PX", 30000)
    assert three.leader().show(name).json["holders"][0]["fencing_token"] == first
    assert r.get(name) == "me" and 20000 < r.pttl(name) <= 30000
    assert r.execute_command("HF.TOKEN", name, "me") == first
    assert r.execute_command("HF.TOKEN", name, "you") is None
    assert r.execute_command("HF.ACQUIRE", name, "you", "PX", 30000) is None
    with pytest.raises(redis.ResponseError, match="HF.TOKEN key value"):
        r.execute_command("HF.TOKEN", name)


def test_hf_acquire_waits_until_the_lock_is_free(three, r, name):
    first = r.execute_command("HF.ACQUIRE", name, "me", "PX", 60000)
    got = []
    with connect(three.followers()[1]) as other:
        waiting = threading.Thread(target=lambda: got.append(
            other.execute_command("HF.ACQUIRE", name, "you", "PX", 30000, "WAIT", int(PATIENCE * 1000))))
        waiting.start()
        wait_until(lambda: three.leader().show(name).json["queue_length"] == 1, "it waits")
        assert not got
        assert r.delete(name) == 1
        waiting.join(PATIENCE)
    assert got[0] > first and r.get(name) == "you"


def test_whoever_waits_and_disconnects_leaves_the_queue(three, r, name):
    assert r.execute_command("HF.ACQUIRE", name, "me", "PX", 60000)
    with socket.create_connection(("127.0.0.1", three.followers()[1].resp_port)) as other:
        other.sendall(f"HF.ACQUIRE {name} you PX 30000 WAIT 600000\r\n".encode())
        wait_until(lambda: three.leader().show(name).json["queue_length"] == 1, "it waits")
    wait_until(lambda: three.leader().show(name).json["queue_length"] == 0, "it is out of the queue")


def test_a_holder_that_paused_does_not_pass_the_fence(three, r, name):
    """Issue 13, item 1: it must not get the next holder's token."""
    node = three.leader()

    def check(token):
        return node.request("POST", "/api/v1/fence/check", {"resource": name, "fencing_token": token}).json

    first = r.execute_command("HF.ACQUIRE", name, "paused", "PX", 1000)
    assert check(first)["accepted"]
    with connect(three.followers()[0]) as other:
        second = other.execute_command("HF.ACQUIRE", name, "next", "PX", 30000, "WAIT", int(PATIENCE * 1000))
        assert check(second)["accepted"]
    assert r.execute_command("HF.TOKEN", name, "paused") is None
    assert not check(first)["accepted"]


def test_locks_outlive_the_leader(make_cluster):
    cluster = make_cluster(3)
    leader = cluster.leader()
    follower = cluster.followers()[0]
    with connect(follower) as r, connect(leader) as at_leader:
        assert r.set("a", "mine", nx=True, px=60000)
        assert at_leader.set("b", "mine", nx=True, px=60000)
        assert r.incr("n") == 1
        tokens = [r.execute_command("HF.TOKEN", key, "mine") for key in "ab"]
        leader.kill()
        begun = time.monotonic()

        def answered():
            try:
                return r.set("a", "theirs", nx=True, px=60000) is None
            except redis.RedisError:
                return False

        wait_until(answered, "a new leader answers")
        assert time.monotonic() - begun < allowed(5)
        assert r.mget("a", "b") == ["mine", "mine"]
        assert [r.execute_command("HF.TOKEN", key, "mine") for key in "ab"] == tokens
        assert r.pttl("a") <= 60000
        assert r.incr("n") == 2
        assert r.delete("a") == 1 and r.set("a", "next", nx=True, px=60000)
        assert r.execute_command("HF.TOKEN", "a", "next") > max(tokens)


def test_without_a_majority_the_error_is_one_that_redis_knows(make_cluster):
    cluster = make_cluster(3, "--request-timeout", "300ms")
    node = cluster.leader()
    for other in cluster:
        if other is not node:
            other.kill()
    with connect(node) as r:
        for call in (lambda: r.set("a", "v", nx=True, px=5000), lambda: r.get("a"), lambda: r.incr("n")):
            def is_down(call=call):
                try:
                    call()
                    return False
                except redis.ResponseError as error:
                    word = error_word(error)
                    assert word in ("CLUSTERDOWN", "OUTCOMEUNKNOWN")
                    return word == "CLUSTERDOWN"
            wait_until(is_down, "CLUSTERDOWN")
        assert r.ping()


def test_keys_of_the_efficiency_tier_are_in_the_memory_of_the_leader(make_cluster):
    """S10: no disk, no majority on the way; other nodes cannot read them; gone with the leader."""
    cluster = make_cluster(3, "--resp-tier", "efficiency")
    leader = cluster.leader()
    follower = cluster.followers()[0]
    assert leader.acquire("elsewhere").json["acquired"]
    with connect(leader) as r, connect(follower) as other:
        assert r.set("a", "v", nx=True, px=60000) and r.set("a", "w", nx=True, px=60000) is None
        assert r.set("b", "v", nx=True, px=60000)
        assert r.mget("a", "b") == ["v", "v"] and 50000 < r.pttl("a") <= 60000
        with pytest.raises(redis.ResponseError, match="memory of the leader"):
            other.set("c", "v", nx=True, px=60000)
        assert r.execute_command("HF.TOKEN", "a", "v") % 1024 != 0
        with pytest.raises(redis.ResponseError, match="memory of the leader"):
            other.get("a")
        with pytest.raises(redis.ResponseError, match="in use in the other tier"):
            r.set("elsewhere", "v", nx=True, px=60000)
        assert r.delete("a") == 1 and r.set("a", "v", nx=True, px=60000) and r.incr("n") == 1
        assert r.incr("window") == 1 and r.pexpire("window", 300) and r.incr("window") == 2
        wait_until(lambda: r.exists("window") == 0, "the window ends")
        leader.kill()
        then = cluster.leader(but=leader.id)
    with connect(then) as r:
        wait_until(lambda: answers(r), "the tier is served again")
        assert r.exists("a", "b", "n") == 0


def answers(r):
    try:
        r.get("a")
        return True
    except redis.ResponseError as error:
        assert error_word(error) == "CLUSTERDOWN", error
        return False


# --- clients that mean harm ---------------------------------------------------------------


class Raw:
    def __init__(self, node):
        self.socket = socket.create_connection(("127.0.0.1", node.resp_port), PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, data):
        try:
            self.socket.sendall(data)
        except OSError:
            pass  # it has been disconnected
        return self

    def rest(self):
        """All that comes until the other end closes."""
        got = b""
        try:
            while True:
                piece = self.socket.recv(65536)
                if not piece:
                    return got
                got += piece
        except ConnectionResetError:
            return got


@pytest.mark.parametrize("data, answer", [
    (b"*1\r\n$-5\r\n", b"-ERR Protocol error: invalid bulk length\r\n"),
    (b"*2147483647\r\n", b"-ERR Protocol error: invalid multibulk length\r\n"),
    (b"*1\r\n$4000000000\r\n", b"-ERR Protocol error: invalid bulk length\r\n"),
    (b"*1\r\n:5\r\n", b"-ERR Protocol error: expected '$'\r\n"),
    (b'GET "a\r\n', b"-ERR Protocol error: unbalanced quotes in request\r\n"),
    (b"x" * 70000, b"-ERR Protocol error: too big inline request\r\n"),
    (b"PING\r\n*1\r\n$3\r\nabcdef\r\n",
     b"+PONG\r\n-ERR Protocol error: a bulk string does not end with CR LF\r\n"),
    (b"GET / HTTP/1.1\r\nHost: x\r\n\r\nQUIT\r\n",
     b"-ERR wrong number of arguments for 'get' command\r\n"),
])
def test_bad_bytes_get_an_error_in_redis_form(three, data, answer):
    raw = Raw(three.leader()).send(data)
    if answer.startswith(b"-ERR wrong"):
        assert raw.socket.recv(1000).startswith(answer)
    else:
        assert raw.rest() == answer
    with connect(three.leader()) as r:
        assert r.ping()


def test_a_client_that_does_not_read_does_not_fill_the_node(three):
    leader = three.leader()
    before = resident(leader)
    raws = [Raw(leader) for _ in range(4)]
    for raw in raws:
        raw.socket.settimeout(0.5)
        line = b"*2\r\n$4\r\nECHO\r\n$60000\r\n" + b"x" * 60000 + b"\r\n"
        try:
            for _ in range(1000):
                raw.socket.sendall(line)
            raise AssertionError("60 MB were taken in, and nothing was read")
        except TimeoutError:
            pass
    assert resident(leader) - before < (400 if SANITIZED else 40) << 20  # what is freed stays, there
    with connect(leader) as r:
        assert r.ping()
    for raw in raws:
        raw.socket.close()


def resident(node):
    with open(f"/proc/{node.process.pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096


def test_a_grant_that_could_not_be_reported_is_given_back(three, name):
    """S7.2: its client was gone before."""
    leader = three.leader()
    for _ in range(20):
        raw = Raw(leader)
        raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        raw.send(f"SET {name} v NX PX 60000\r\n".encode())
        raw.socket.close()  # by a reset
    with connect(leader) as r:
        wait_until(lambda: r.set(name, "v", nx=True, px=60000), "the lock is free again")


def test_metrics_and_limits(three):
    leader = three.leader()
    with connect(leader) as r:
        r.ping()
        text = leader.request("GET", "/metrics").text
        figures = dict(line.split() for line in text.splitlines() if line.startswith("holdfast_resp"))
    assert int(figures["holdfast_resp_connections"]) >= 1
    assert int(figures["holdfast_resp_commands_total"]) >= 1

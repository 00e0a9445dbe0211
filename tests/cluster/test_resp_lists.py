"""Lists, sorted sets and blocking commands of the Redis protocol (S13.11, S13.12): the same commands get the same
answers, byte by byte, as from a real redis-server; clients that wait are served."""

import random
import socket
import threading
import time

import pytest
import redis

from conftest import check_log
from harness import PATIENCE, Cluster, Ports, allowed, wait_until
from resp_support import RawClient, connect, error_word, real_redis

pytestmark = pytest.mark.sanitized  # it is C that reads what any client wrote


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    with Ports():
        cluster = Cluster(tmp_path_factory.mktemp("lists"), 3).start()
        yield cluster
        for node in cluster:
            node.close_ready()
            node.kill()
    for node in cluster:
        check_log(node)


@pytest.fixture(scope="module")
def both(three, tmp_path_factory):
    """A connection to us, and one to a real Redis."""
    with real_redis(tmp_path_factory.mktemp("redis")) as path:
        connections = [RawClient(socket.AF_INET, ("127.0.0.1", three.leader().resp_port)), RawClient(socket.AF_UNIX, path)]
        yield connections
        for connection in connections:
            connection.close()


@pytest.fixture
def name(request):
    return "lists/" + request.node.name.replace("[", "/").rstrip("]")


# --- as Redis does it -----------------------------------------------------------------------

LISTS = """
LPUSH a
LPUSH l a b c
LPUSHX none x
RPUSHX none x
RPUSHX l d
LPUSHX l z z2
LLEN l
LLEN none
LRANGE l 0 -1
LRANGE l -3 100
LRANGE l -100 1
LRANGE l 3 1
LRANGE l x 1
LRANGE none 0 -1
LINDEX l 0
LINDEX l -1
LINDEX l 99
LINDEX l x
LINDEX none x
LSET l 1 new
LSET l -1 last
LSET l 99 x
LSET l x y
LSET none x y
LINSERT l BEFORE new before
LINSERT l after new after
LINSERT l after nothing x
LINSERT l beside new x
LINSERT none BEFORE a b
LREM l 1 z
LREM l 0 nothing
LREM l x y
RPUSH r x y x z x
LREM r -2 x
LRANGE r 0 -1
LREM r 0 x
LREM r 9223372036854775807 y
LREM r -9223372036854775808 z
EXISTS r
TYPE l
TYPE r
LPOP l
RPOP l
LPOP none
RPOP none
LPOP l 2
RPOP l 2
LPOP none 2
LPOP none -1
LPOP l 0
LPOP l -1
LPOP l x
LPOP l 1 1
RPOP l 1 1
LPOP l 100
EXISTS l
RPUSH t 1 2 3 4 5 6
LTRIM t 1 -2
LRANGE t 0 -1
LTRIM t x 1
LTRIM none 0 1
LTRIM t 5 1
EXISTS t
RPUSH s 1 2 3
RPOPLPUSH s d
RPOPLPUSH s s
RPOPLPUSH none d
LMOVE s d LEFT RIGHT
LMOVE s s left left
LMOVE s d UP RIGHT
LMOVE none d LEFT RIGHT
LRANGE s 0 -1
LRANGE d 0 -1
RPUSH bin \\x00\\xff\\r\\n
LRANGE bin 0 -1
RPUSH empty ''
LRANGE empty 0 -1
LPOP empty
GET s
INCR s
HGET s f
HSET s f v
ZADD s 1 m
SET s x GET
GETRANGE s 0 1
STRLEN s
SETNX s v
SET s v NX
MGET s none
SET string v
LPUSH string x
LPOP string
LRANGE string 0 -1
RPOPLPUSH s string
RPOPLPUSH string s
BLPOP string 1
BLPOP none string s 1
BLPOP none s d 1
BRPOP d 1
BLPOP s x
BLPOP s -1
BLPOP s
RPUSH q 1 2 3
BRPOPLPUSH q q2 1
BLMOVE q q2 LEFT LEFT 1
BLMOVE q q2 UP LEFT 1
BLMOVE q q2 UP LEFT x
BRPOPLPUSH q q2 -1
LRANGE q2 0 -1
EXPIRE q2 100
TTL q2
LPUSH q2 x
TTL q2
PERSIST q2
TTL q2
SET q2 overwritten
TYPE q2
LPUSH q2 x
MULTI
RPUSH m 1 2
BLPOP m 0
LPOP m
BLPOP m 0
BRPOPLPUSH m m2 0
RPUSH m 3
EXEC
EVAL "return redis.call('blpop', KEYS[1], 0)" 1 m
EVAL "redis.call('rpush', KEYS[1], 'a', 'b') return {redis.call('lpop', KEYS[1]), redis.call('lindex', KEYS[1], 0), redis.call('lindex', KEYS[1], 9), redis.call('lrange', KEYS[1], 0, -1), redis.call('lpop', KEYS[1], 5), redis.call('lpop', KEYS[1], 1)}" 1 m
EVAL "return {redis.pcall('lpush', KEYS[1], 'x').err, redis.call('type', KEYS[1])}" 1 q2
DEL s d m q q2 string bin l r t
""".strip().split("\n")

SORTED_SETS = """
ZADD z 1 a 2 b 3 c
ZADD z 1 a
ZADD z CH 5 a 6 d
ZADD z NX 9 a 9 e
ZADD z XX 9 none
ZADD z XX CH 8 a
ZADD z GT CH 1 a 10 b
ZADD z LT CH 1 a 10 b
ZADD z GT CH 4 new
ZADD z INCR 2.5 a
ZADD z INCR 0 a
ZADD z NX INCR 1 a
ZADD z XX INCR 1 none
ZADD z GT INCR -1 a
ZADD none XX 1 a
ZADD none XX INCR 1 a
ZADD z NX XX 1 a
ZADD z NX GT 1 a
ZADD z GT LT 1 a
ZADD z INCR 1 a 2 b
ZADD z 1
ZADD z 1 a 2
ZADD z x a
ZADD z nan a
ZADD z CH
ZADD z 1 a 'nan(0)' b
ZADD z ' 1' a
ZADD z 0x10 hex
ZADD z inf top -inf bottom
ZADD z INCR -inf top
ZADD z +inf top
ZADD z -0 zero
ZSCORE z zero
ZSCORE z top
ZSCORE z bottom
ZSCORE z none
ZSCORE none a
ZMSCORE z a none hex
ZMSCORE none a b
ZCARD z
ZCARD none
ZRANGE z 0 -1
ZRANGE z 0 -1 WITHSCORES
ZRANGE z 1 2 WITHSCORES
ZRANGE z -2 -1
ZRANGE z 5 1
ZRANGE z x 1
ZRANGE z 0 -1 REV
ZRANGE z 0 1 REV WITHSCORES
ZRANGE z 0 -1 LIMIT 0 1
ZRANGE z 0 -1 LIMIT 0
ZRANGE z 0 -1 LIMIT x 1
ZRANGE z 0 -1 REV REV
ZRANGE z 0 -1 BYSCORE BYLEX
ZRANGE z 1 5 BYSCORE
ZRANGE z (1 5 BYSCORE WITHSCORES
ZRANGE z -inf +inf BYSCORE LIMIT 1 2
ZRANGE z -inf +inf BYSCORE LIMIT -1 2
ZRANGE z -inf +inf BYSCORE LIMIT 1 -5
ZRANGE z -inf +inf BYSCORE LIMIT 100 2
ZRANGE z +inf -inf BYSCORE REV LIMIT 1 2 WITHSCORES
ZRANGE z x 1 BYSCORE
ZRANGE z 1 (y BYSCORE
ZRANGE z '' ( BYSCORE
ZRANGE z - + BYLEX WITHSCORES
ZRANGE z a b BYLEX
ZADD lex 0 a 0 b 0 c 0 aa 0 ''
ZRANGE lex - + BYLEX
ZRANGE lex [a (c BYLEX
ZRANGE lex (c [a BYLEX REV LIMIT 1 1
ZRANGE lex + [aa BYLEX REV
ZRANGE lex + - BYLEX
ZRANGE lex [ [ BYLEX
ZREVRANGE z 0 1
ZREVRANGE z 0 1 WITHSCORES
ZREVRANGE z 0 1 BYSCORE
ZRANGEBYSCORE z 1 (8 WITHSCORES LIMIT 0 2
ZRANGEBYSCORE z 1 8 REV
ZRANGEBYSCORE none 1 8
ZREVRANGEBYSCORE z +inf (1
ZREVRANGEBYSCORE z +inf -inf LIMIT 2 3 WITHSCORES
ZREVRANGEBYSCORE z 1 5
ZCOUNT z -inf +inf
ZCOUNT z (1 5
ZCOUNT z x 5
ZCOUNT none 1 5
ZRANK z a
ZRANK z none
ZRANK none a
ZREVRANK z a
ZREVRANK z none
ZINCRBY z 1.5 a
ZINCRBY z -inf bottom
ZINCRBY z inf bottom
ZINCRBY z x a
ZINCRBY fresh 3 a
TYPE fresh
ZREM fresh a b
EXISTS fresh
ZREM z a none
ZREM none a
ZREMRANGEBYSCORE z (100 +inf
ZREMRANGEBYSCORE z 2 (3
ZREMRANGEBYSCORE z x 1
ZREMRANGEBYSCORE none 0 1
ZREMRANGEBYRANK z 0 0
ZREMRANGEBYRANK z -1 -1
ZREMRANGEBYRANK z x 1
ZREMRANGEBYRANK none 0 1
ZRANGE z 0 -1 WITHSCORES
ZPOPMIN z
ZPOPMAX z
ZPOPMIN z 2
ZPOPMAX z 0
ZPOPMAX z -1
ZPOPMAX z x
ZPOPMIN z 1 2
ZPOPMAX none
ZPOPMAX none 2
ZPOPMAX z 100
EXISTS z
ZADD z 1 a 2 b
GET z
LPUSH z x
RPOPLPUSH z z
SET string v
ZADD string 1 a
ZSCORE string a
ZRANGE string 0 -1
ZPOPMIN string
SET string v GET
EXPIRE z 100
ZADD z 3 c
TTL z
TYPE z
SET z overwritten
TYPE z
MULTI
ZADD m 1 a 2 b
ZRANGE m 0 -1 WITHSCORES
ZPOPMAX m
ZINCRBY m 2 a
EXEC
EVAL "return {redis.call('zadd', KEYS[1], 5, 'c'), redis.call('zscore', KEYS[1], 'a'), redis.call('zscore', KEYS[1], 'none'), redis.call('zrange', KEYS[1], 0, -1, 'WITHSCORES'), redis.call('zrank', KEYS[1], 'c'), redis.call('zincrby', KEYS[1], 1, 'c')}" 1 m
EVAL "redis.setresp(3) local s = redis.call('zscore', KEYS[1], 'a') local r = redis.call('zrange', KEYS[1], 0, -1, 'WITHSCORES') return {tostring(s.double), r[1][1], tostring(r[1][2].double)}" 1 m
DEL z lex m string
""".strip().split("\n")


SETS = """
SADD s b a c
SADD s a d d
SADD s ''
SMEMBERS none
SCARD s
SCARD none
SISMEMBER s a
SISMEMBER s x
SISMEMBER none x
SMISMEMBER s a x ''
SMISMEMBER none a b
TYPE s
SREM s x a a
SREM none a
SADD s
SREM s
SISMEMBER s
SMEMBERS
SSCAN s
SSCAN s x
SSCAN s 0 COUNT 0
SSCAN s 0 COUNT x
SSCAN s 0 MATCH
SSCAN s 0 WHAT x
SSCAN none 0
SSCAN s 0 MATCH c*
GET s
LPUSH s a
ZADD s 1 a
HSET s f v
INCR s
SET string v
SADD string a
SREM string a
SMEMBERS string
SCARD string
SISMEMBER string a
SSCAN string 0
RPUSH l a
SADD l a
DEL l
SADD t x
EXPIRE t 100
SADD t y
TTL t
SREM t x y
EXISTS t
SADD one a
SMEMBERS one
SREM s b c d ''
EXISTS s
MULTI
SADD m a b
SCARD m
EXEC
EVAL "return {redis.call('sadd', KEYS[1], 'c'), redis.call('scard', KEYS[1]), redis.call('sismember', KEYS[1], 'a'), redis.call('srem', KEYS[1], 'a', 'b'), redis.call('smembers', KEYS[1])}" 1 m
EVAL "redis.setresp(3) return redis.call('smembers', KEYS[1])['set']['c']" 1 m
SET one now-a-string
TYPE one
DEL m one string
""".strip().split("\n")


def words_of(line):
    """Words between spaces; quotes around words with spaces; \\xHH, \\r and \\n."""
    import shlex
    return [w.encode().decode("unicode_escape").encode("latin-1") for w in shlex.split(line.replace("\\", "\\\\"))]


@pytest.mark.parametrize("lines", [LISTS, SORTED_SETS, SETS], ids=["lists", "sorted_sets", "sets"])
@pytest.mark.parametrize("protocol", [2, 3])
def test_the_same_commands_get_the_same_answers_from_redis(both, protocol, lines):
    for connection in both:
        connection.request("HELLO", protocol)
    for line in lines:
        ours, theirs = [c.request(*words_of(line)) for c in both]
        assert ours == theirs, line


def random_command(r):
    key = r.choice(["r1", "r2", "r3"])
    element = lambda: r.choice(["", "a", "b", "c", "dd", "\x00", "é", "x" * r.randint(0, 20)])
    number = lambda: r.choice([0, 1, -1, 2, -2, 3, 5, -6, 100])
    score = lambda: r.choice(["0", "1", "-1", "2.5", "-0.25", "inf", "-inf", "1e10", "(1", "(2.5"])
    plain = lambda: r.choice(["0", "1", "-1", "2.5", "-0.25", "1e10", "100"])
    kinds = [
        lambda: [r.choice(["LPUSH", "RPUSH"]), key] + [element() for _ in range(r.randint(1, 4))],
        lambda: [r.choice(["LPOP", "RPOP"]), key], lambda: [r.choice(["LPOP", "RPOP"]), key, r.randint(0, 3)],
        lambda: ["LRANGE", key, number(), number()], lambda: ["LTRIM", key, number(), number()],
        lambda: ["LREM", key, number(), element()], lambda: ["LINDEX", key, number()],
        lambda: ["LSET", key, number(), element()],
        lambda: ["LINSERT", key, r.choice(["BEFORE", "AFTER"]), element(), element()],
        lambda: ["LMOVE", key, r.choice(["r1", "r2"]), r.choice(["LEFT", "RIGHT"]), r.choice(["LEFT", "RIGHT"])],
        lambda: ["ZADD", key] + r.choice([[], ["NX"], ["XX"], ["GT"], ["LT", "CH"], ["CH"]]) + [plain(), element(), plain(), element()],
        lambda: ["ZINCRBY", key, plain(), element()], lambda: ["ZREM", key, element(), element()],
        lambda: ["ZRANGE", key, number(), number(), "WITHSCORES"] + r.choice([[], ["REV"]]),
        lambda: ["ZRANGEBYSCORE", key, score(), score(), "WITHSCORES", "LIMIT", number(), number()],
        lambda: ["ZREVRANGEBYSCORE", key, score(), score()], lambda: ["ZCOUNT", key, score(), score()],
        lambda: ["ZREMRANGEBYSCORE", key, score(), score()], lambda: ["ZREMRANGEBYRANK", key, number(), number()],
        lambda: [r.choice(["ZRANK", "ZREVRANK", "ZSCORE"]), key, element()],
        lambda: [r.choice(["ZPOPMIN", "ZPOPMAX"]), key] + r.choice([[], [2]]),
        lambda: ["DEL", key], lambda: ["TYPE", key],
    ]
    return r.choice(kinds)()


def test_random_commands_get_the_same_answers_from_redis(both):
    seed = random.randrange(1 << 32)
    r = random.Random(seed)
    for connection in both:
        connection.request("HELLO", 2)
        connection.request("DEL", "r1", "r2", "r3")
    history = []
    for _ in range(700):
        words = [w.encode() if isinstance(w, str) else w for w in random_command(r)]
        history.append(words)
        ours, theirs = [c.request(*words) for c in both]
        assert ours == theirs, (seed, history[-12:])


# --- clients that wait ----------------------------------------------------------------------


class Waiting:
    """A blocking command on a connection of its own."""

    def __init__(self, node, *words):
        self.client = RawClient(socket.AF_INET, ("127.0.0.1", node.resp_port))
        self.id = int(self.client.request("CLIENT", "ID")[1:-2])
        self.client.send(*words)

    def answer(self):
        value = self.client.value()
        self.client.close()
        return value

    def is_waiting(self):
        self.client.socket.setblocking(False)
        try:
            return self.client.socket.recv(1, socket.MSG_PEEK) != b"" and False
        except BlockingIOError:
            return True
        finally:
            self.client.socket.settimeout(PATIENCE)


def waiting(node, count):
    """So many clients of the node wait."""
    with connect(node) as r:
        wait_until(lambda: r.info("clients")["blocked_clients"] == count, f"{count} clients wait")


def bulk(*words):
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w.encode()) for w in words)


def test_clients_of_a_node_are_served_in_their_order(three, name):
    for node in three.leader(), three.followers()[0]:
        clients = []
        for i in range(5):
            clients.append(Waiting(node, "BLPOP", "other/" + name, name, 0))
            waiting(node, i + 1)
        with connect(three.followers()[1]) as pusher:
            pusher.rpush(name, "0")
            assert clients[0].answer() == bulk(name, "0")
            waiting(node, 4)
            assert all(c.is_waiting() for c in clients[1:])
            pusher.rpush(name, "1", "2")  # one push serves two
            assert [c.answer() for c in clients[1:3]] == [bulk(name, "1"), bulk(name, "2")]
            pusher.rpush("other/" + name, "3")
            assert clients[3].answer() == bulk("other/" + name, "3")
            pusher.eval("redis.call('rpush', KEYS[1], 'x') redis.call('lpop', KEYS[1]) redis.call('rpush', KEYS[1], '4')", 1, name)
            assert clients[4].answer() == bulk(name, "4")
            assert pusher.exists(name, "other/" + name) == 0
        waiting(node, 0)


def test_a_wait_ends_at_its_time_and_not_before(three, name):
    for node in three.leader(), three.followers()[0]:
        begin = time.monotonic()
        short, long = Waiting(node, "BLPOP", name, "0.3"), Waiting(node, "BRPOPLPUSH", name, name + "2", "0.5")
        assert short.answer() == b"*-1\r\n" and time.monotonic() - begin >= 0.3
        assert long.answer() == b"$-1\r\n" and 0.5 <= time.monotonic() - begin < allowed(3)


def test_a_client_that_goes_leaves_no_trace(three, name):
    node = three.leader()
    gone, stays = Waiting(node, "BLPOP", name, 0), None
    waiting(node, 1)
    stays = Waiting(node, "BLPOP", name, 0)
    waiting(node, 2)
    gone.client.close()
    waiting(node, 1)
    with connect(node) as r:
        r.rpush(name, "a")
        assert stays.answer() == bulk(name, "a") and r.exists(name) == 0
        # A pushed element with no client that waits stays.
        r.rpush(name, "b")
        assert r.lrange(name, 0, -1) == ["b"]
        r.delete(name)


def test_client_unblock(three, name):
    node = three.leader()
    with connect(node) as r:
        a, b = Waiting(node, "BLPOP", name, 0), Waiting(node, "BLMOVE", name, "x", "LEFT", "LEFT", 0)
        waiting(node, 2)
        assert r.client_unblock(a.id) and a.answer() == b"*-1\r\n"
        assert r.execute_command("CLIENT", "UNBLOCK", b.id, "ERROR") == 1
        assert b.answer() == b"-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n"
        assert r.execute_command("CLIENT", "UNBLOCK", a.id) == 0
        with pytest.raises(redis.ResponseError, match="should be TIMEOUT or ERROR"):
            r.execute_command("CLIENT", "UNBLOCK", a.id, "WHY")


def test_a_key_of_another_type_ends_the_wait(three, name):
    node = three.leader()
    client = Waiting(node, "BLPOP", name, 0)
    waiting(node, 1)
    with connect(node) as r:
        r.set(name, "text")
        assert client.answer().startswith(b"-WRONGTYPE")
        r.delete(name)


def test_many_consumers_on_all_nodes_take_each_element_once(three, name):
    """Producers and consumers at every node; what is pushed is popped once, whichever node was faster."""
    count, taken, lock = 240, [], threading.Lock()

    def consume(node):
        with connect(node) as r:
            while True:
                try:
                    _, element = r.blpop(name, 0)
                except redis.ResponseError as error:
                    assert error_word(error) == "TRYAGAIN", error
                    continue
                if element == "end":
                    return
                with lock:
                    taken.append(int(element))

    def produce(node, numbers):
        with connect(node) as r:
            for number in numbers:
                push(r, number)

    def push(r, element):
        while True:
            try:
                return r.rpush(name, element)
            except redis.ResponseError as error:
                assert error_word(error) == "TRYAGAIN", error

    consumers = [threading.Thread(target=consume, args=(node,)) for node in three for _ in range(2)]
    producers = [threading.Thread(target=produce, args=(node, range(i, count, 3))) for i, node in enumerate(three)]
    for thread in consumers + producers:
        thread.start()
    for thread in producers:
        thread.join()
    with connect(three.leader()) as r:
        for _ in consumers:
            push(r, "end")
        for thread in consumers:
            thread.join()
        assert sorted(taken) == list(range(count)) and r.exists(name) == 0


# --- what is ours ---------------------------------------------------------------------------


def test_a_list_belongs_to_everybody(three, name):
    a, b = connect(three.leader()), connect(three.followers()[0])
    with a, b:
        assert a.rpush(name, "x") == 1 and b.rpush(name, "y") == 2 and a.lrem(name, 1, "x") == 1
        assert b.expire(name, 50) and a.expire(name, 40) and b.persist(name) and b.ttl(name) == -1
        assert a.zadd(name + "/z", {"m": 1}) == 1 and b.zincrby(name + "/z", 1, "m") == 2
        assert b.delete(name, name + "/z") == 2
        records = three.leader().request("GET", "/api/v1/audit").json["records"]
        assert not [record for record in records if record["resource"].startswith(name)]
        a.rpush(name, 1)
        assert list(b.scan_iter(match=name + "*", _type="list")) == [name] and not list(b.scan_iter(match=name + "*", _type="zset"))
        a.delete(name)


def test_the_limit_of_a_value_is_a_clear_error(three, name):
    with connect(three.leader()) as r:
        assert r.rpush(name, "x" * 4094) == 1
        for call in lambda: r.rpush(name, ""), lambda: r.lset(name, 0, "x" * 4095), lambda: r.rpush(name + "2", "x" * 4096):
            with pytest.raises(redis.ResponseError, match="limit_value: the elements of a list take at most 4096 bytes"):
                call()
        assert r.lrange(name, 0, -1) == ["x" * 4094] and r.exists(name + "2") == 0
        with pytest.raises(redis.ResponseError, match="limit_value: the members of a sorted set take at most 4096 bytes"):
            r.zadd(name + "/z", {str(i): i for i in range(500)})
        assert r.exists(name + "/z") == 0 and r.delete(name) == 1
        # A script that catches the error of a move has lost no element.
        script = "redis.call('rpush', KEYS[1], 'a') redis.call('rpush', KEYS[2], string.rep('x', 4094)) " \
                 "local e = redis.pcall('rpoplpush', KEYS[1], KEYS[2]) return {e.err ~= nil, redis.call('llen', KEYS[1])}"
        assert r.eval(script, 2, name, name + "2") == [1, 1] and r.delete(name, name + "2") == 2


def test_operators_may_raise_the_limit_of_a_value(make_cluster):
    """Values of all types of up to 64 KiB, on every node, after a restart from a snapshot, and in a transaction of two."""
    cluster = make_cluster(3, "--resp-value-max", "64KiB", "--snapshot-log-size", "64KiB")
    large = "x" * 65536
    with connect(cluster.leader()) as r, connect(cluster.followers()[0]) as other:
        assert r.set("s", large) and other.get("s") == large and other.set("s", large[1:], nx=True) is None
        assert r.set("nx", large, nx=True, px=100000) and r.get("nx") == large and r.delete("nx") == 1
        assert r.hset("h", "f", large[:65000]) == 1 and r.hget("h", "f") == large[:65000]
        assert other.rpush("l", *[large[:16000]] * 4) == 4
        assert other.rpush("l2", *[large[:16000]] * 3) == 3 and r.rpoplpush("l", "l2") == large[:16000]
        assert other.zadd("z", {f"member-{i}": i for i in range(400)}) == 400
        assert r.zadd("z", {f"more-{i}": i for i in range(400)}) == 400 and r.zcard("z") == 800
        assert other.sadd("m", large[:65000]) == 1 and r.sadd("m", *range(100)) == 100
        for call in lambda: r.hset("h", "g", large[:1000]), lambda: r.rpush("l2", large), lambda: r.sadd("m", large[:1000]):
            with pytest.raises(redis.ResponseError, match="at most 65536 bytes"):
                call()
        with pytest.raises(redis.ResponseError, match="limit_answer"):
            r.mget(["s"] * 100)
        assert r.ping()  # the connection is kept
        for i in range(40):
            r.set("filler", large[: 60000 + i])
        before = r.lrange("l2", 0, -1)
    victim = cluster.followers()[0]
    victim.kill()
    victim.start()
    cluster.leader()
    with connect(victim) as r:
        assert wait_until(lambda: answers(r) and r.lrange("l2", 0, -1) == before, "the node has it again")
        assert r.get("s") == large and r.zcard("z") == 800
        assert r.smembers("m") == {large[:65000], *map(str, range(100))}


def answers(client):
    try:
        return client.ping() and client.get("s") is not None
    except redis.RedisError:
        return False

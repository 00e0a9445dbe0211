"""Locks as other people's libraries take them: redis-py's own Lock, and the patterns of lock_patterns.py (Redisson,
redsync, bsm/redislock, Spring). Through any node; while others want the same; while the leader dies."""

import threading
import time

import pytest
import redis

from conftest import check_log
from harness import PATIENCE, Cluster, Ports, busy, wait_until
from lock_patterns import Alone, BsmLock, BsmMultiLock, RedissonLock, SpringLock, ValueLock, token
from resp_support import connect, error_word


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    with Ports():
        cluster = Cluster(tmp_path_factory.mktemp("libraries"), 3).start()
        yield cluster
        for node in cluster:
            node.close_ready()
            node.kill()
    for node in cluster:
        check_log(node)


@pytest.fixture
def pair(three):
    """A client of the leader, and one of a follower."""
    with connect(three.leader()) as a, connect(three.followers()[0]) as b:
        yield a, b


@pytest.fixture
def name(request):
    return "libraries/" + request.node.name.replace("[", "/").rstrip("]")


# --- redis-py -----------------------------------------------------------------------------


def test_the_lock_of_redis_py(pair, name):
    a, b = pair
    mine = a.lock(name, timeout=30)
    theirs = b.lock(name, timeout=30, blocking=False)
    assert mine.acquire() and mine.owned() and mine.locked()
    first = token(a, mine)
    assert not theirs.acquire() and not theirs.owned()
    assert mine.extend(30) and b.pttl(name) > 31000
    assert mine.reacquire() and b.pttl(name) <= 30000
    outsider = b.lock(name, timeout=30)
    outsider.local.token = b"guess"
    with pytest.raises(redis.exceptions.LockError):
        outsider.release()
    with pytest.raises(redis.exceptions.LockError):
        outsider.extend(10)
    assert mine.owned()
    mine.release()
    assert theirs.acquire() and token(b, theirs) > first
    theirs.release()
    with b.lock(name, timeout=30, blocking_timeout=PATIENCE):
        assert b.exists(name)
    assert not a.exists(name)


def test_a_lock_of_redis_py_that_expired_is_not_released(pair, name):
    a, b = pair
    lost = a.lock(name, timeout=1)
    assert lost.acquire()
    first = token(a, lost)
    next_one = b.lock(name, timeout=30, sleep=0.05, blocking_timeout=PATIENCE)
    assert next_one.acquire() and token(b, next_one) > first
    assert token(a, lost) is None  # or its fence would let a holder pass that lost its lock
    with pytest.raises(redis.exceptions.LockNotOwnedError):
        lost.release()
    assert next_one.owned()
    next_one.release()


# --- a value that is compared -----------------------------------------------------------


@pytest.mark.parametrize("kind", [ValueLock, BsmLock, BsmMultiLock, SpringLock, RedissonLock])
def test_a_foreign_release_is_refused(pair, name, kind):
    a, b = pair
    mine, theirs = kind(a, name), kind(b, name)
    assert mine.acquire()
    first = token(b, mine)
    assert not theirs.acquire() and token(b, theirs) is None
    assert not theirs.release()
    assert token(b, mine) == first
    assert mine.release()
    assert theirs.acquire() and token(a, theirs) > first
    assert theirs.release() and not a.exists(name)


@pytest.mark.parametrize("kind", [ValueLock, BsmLock, BsmMultiLock, SpringLock, RedissonLock])
def test_expiry_under_use(pair, name, kind):
    a, b = pair
    lost, next_one = kind(a, name, ttl_ms=1500), kind(b, name)
    assert lost.acquire()
    first = token(a, lost)
    wait_until(next_one.acquire, "the lock expires")
    assert token(a, next_one) > first and token(a, lost) is None
    assert not lost.release()
    assert next_one.release()


def test_extension_of_redsync(pair, name):
    a, b = pair
    mine = ValueLock(a, name)
    assert mine.acquire() and mine.extend(60000) and 31000 < b.pttl(name) <= 60000
    outsider = ValueLock(b, name)
    assert not outsider.extend(90000) and b.pttl(name) <= 60000
    assert mine.release() and not mine.extend(60000)


@pytest.mark.parametrize("kind", [BsmLock, BsmMultiLock])
def test_redislock_is_obtained_again_by_its_token(pair, name, kind):
    a, b = pair
    mine, theirs = kind(a, name), kind(b, name)
    again = kind(b, name, ttl_ms=60000, token=mine.token, metadata="changed")
    assert mine.acquire() and not theirs.acquire()
    first = token(a, mine)
    assert again.acquire() and 31000 < a.pttl(name) <= 60000
    assert token(b, again) == first and token(a, mine) is None  # the value has changed, the grant has not
    assert not mine.release() and again.release() and not a.exists(*mine.keys())


def test_spring_is_notified_when_a_lock_is_free(pair, name):
    a, b = pair
    mine = SpringLock(a, name)
    assert mine.acquire() and mine.acquire()
    with b.pubsub() as pubsub:
        pubsub.subscribe(mine.channel)
        assert pubsub.get_message(timeout=PATIENCE)["type"] == "subscribe"
        assert mine.release()
        assert pubsub.get_message(timeout=PATIENCE)["data"] == name


# --- Redisson -----------------------------------------------------------------------------


def test_redisson_counts_its_depth(pair, name):
    a, b = pair
    mine, theirs = RedissonLock(a, name), RedissonLock(b, name)
    for depth in (1, 2, 3):
        assert mine.acquire() and mine.depth() == depth
    first = token(a, mine)
    assert 0 < theirs.try_lock() <= 30000 and theirs.depth() == 0
    assert mine.release() is False and mine.release() is False and mine.depth() == 1
    assert token(b, mine) == first and token(b, theirs) is None
    assert b.type(name) == "hash" and b.hgetall(name) == {mine.holder: "1"}
    assert mine.release() is True
    assert mine.release() is None
    assert not b.exists(name)


def test_redisson_renews_while_it_holds(pair, name):
    a, b = pair
    ttl_ms = int(2000 * busy())
    mine, theirs = RedissonLock(a, name, ttl_ms=ttl_ms), RedissonLock(b, name)
    assert mine.acquire()
    until = time.monotonic() + ttl_ms / 1000 + 0.6
    while time.monotonic() < until:
        assert mine.renew()
        assert not theirs.acquire() and not theirs.renew()
        time.sleep(0.2)  # Redisson: a third of the TTL
    assert mine.release()
    assert not mine.renew()


def test_redisson_wakes_those_who_wait(three, pair, name):
    a, _ = pair
    mine = RedissonLock(a, name, ttl_ms=60000)
    assert mine.acquire()
    entered = []
    alone = Alone()

    def wait(node, subscribed):
        with connect(node) as client:
            waiter = RedissonLock(client, name, ttl_ms=60000)
            if waiter.lock(PATIENCE, subscribed):
                alone.enter(client, waiter)
                entered.append(node.id)
                waiter.release()

    ready = [threading.Event() for _ in range(6)]
    threads = [threading.Thread(target=wait, args=(three.nodes[i % 3 + 1], ready[i])) for i in range(6)]
    for thread in threads:
        thread.start()
    for event in ready:
        assert event.wait(PATIENCE)
    assert not entered
    assert mine.release()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(entered) == 6 and alone.entered == 6


def test_redisson_forces_a_lock_open_and_that_is_audited(three, pair, name):
    a, b = pair
    mine, operator = RedissonLock(a, name), RedissonLock(b, name)
    assert mine.acquire()
    assert operator.force_unlock() and not operator.force_unlock()
    assert mine.release() is None
    records = three.leader().request("GET", "/api/v1/audit").json["records"]
    assert [r["action"] for r in records if r["resource"] == name] == ["FORCE_UNLOCK"]


# --- many clients at once ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [ValueLock, SpringLock, RedissonLock])
def test_twenty_clients_never_meet(three, name, kind):
    alone = Alone()
    problems = []

    def work(node):
        try:
            with connect(node) as client:
                lock = kind(client, name)
                for _ in range(3):
                    until = time.monotonic() + PATIENCE
                    while not try_again(lock.acquire):
                        assert time.monotonic() < until, "it never got the lock"
                        time.sleep(0.02)
                    alone.enter(client, lock)
                    assert retried(lock.release)
        except Exception as problem:  # a thread's own is not seen by pytest
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(three.nodes[i % 3 + 1],)) for i in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    assert alone.entered == 60


def try_again(call):
    """-TRYAGAIN: the key was changed by others 8 times in a row, and nothing was done."""
    try:
        return call()
    except redis.ResponseError as error:
        assert error_word(error) == "TRYAGAIN"
        return False


def retried(call):
    while True:
        try:
            return call()
        except redis.ResponseError as error:
            assert error_word(error) == "TRYAGAIN"


# --- the leader dies --------------------------------------------------------------------


def test_locks_of_all_kinds_outlive_the_leader(make_cluster):
    cluster = make_cluster(3)
    leader, (one, other) = cluster.leader(), cluster.followers()
    with connect(one) as a, connect(other) as b:
        locks = [kind(a, f"failover/{kind.__name__}", ttl_ms=60000)
                 for kind in (ValueLock, SpringLock, RedissonLock)]
        assert all(lock.acquire() for lock in locks) and locks[2].acquire()
        own = a.lock("failover/redis-py", timeout=60)
        assert own.acquire()
        tokens = [token(a, lock) for lock in [*locks, own]]
        leader.kill()

        def answered():
            try:
                return b.mget(own.name) is not None
            except redis.RedisError:
                return False

        wait_until(answered, "a new leader answers")
        assert [token(b, lock) for lock in [*locks, own]] == tokens
        rivals = [type(lock)(b, lock.name) for lock in locks]
        assert not any(rival.acquire() or rival.release() for rival in rivals)
        assert locks[0].extend(60000) and locks[1].acquire() and locks[2].depth() == 2
        assert own.owned() and own.extend(5)
        assert locks[2].release() is False
        assert all(lock.release() for lock in locks)
        own.release()
        assert all(rival.acquire() for rival in rivals)
        assert min(token(b, rival) for rival in rivals) > max(tokens)


# --- the other tier -----------------------------------------------------------------------


def test_locks_of_all_kinds_in_the_memory_of_the_leader(make_cluster):
    """S10: the same scripts with resp-tier = efficiency, on the leader; others say who that is."""
    cluster = make_cluster(3, "--resp-tier", "efficiency")
    leader = cluster.leader()
    with connect(leader) as a, connect(leader) as b, connect(cluster.followers()[0]) as outsider:
        for kind in (ValueLock, SpringLock, RedissonLock):
            name = f"memory/{kind.__name__}"
            mine, theirs = kind(a, name), kind(b, name)
            assert mine.acquire() and not theirs.acquire() and not theirs.release()
            first = token(a, mine)
            assert first % 1024 != 0  # S3.1
            assert mine.release() and theirs.acquire() and token(a, theirs) > first
            assert theirs.release()
        own = a.lock("memory/redis-py", timeout=30)
        assert own.acquire() and own.extend(30) and own.reacquire() and own.owned()
        own.release()
        with b.pubsub() as pubsub:
            waiting = SpringLock(a, "memory/free")
            pubsub.subscribe(waiting.channel)
            assert pubsub.get_message(timeout=PATIENCE)["type"] == "subscribe"
            assert waiting.acquire() and waiting.release()
            assert pubsub.get_message(timeout=PATIENCE)["data"] == "memory/free"
        with pytest.raises(redis.exceptions.ReadOnlyError, match=f"node {leader.id}"):
            SpringLock(outsider, "memory/x").acquire()

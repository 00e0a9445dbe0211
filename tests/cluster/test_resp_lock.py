"""redis-py's own Lock (Debian's python3-redis) on Holdfast, unmodified: taken, extended, given back by its Lua
scripts; waited for; lost; through any node; and held while the leader dies."""

import json as json_module
import threading
import time

import pytest
import redis
from redis.exceptions import LockError, LockNotOwnedError

import resp_support
from cli_support import run_cli
from conftest import check_log
from harness import PATIENCE, Cluster, Ports, allowed, wait_until
from lock_patterns import token


def connect(node):
    return resp_support.connect(node, decode_responses=False)


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    """Three nodes for all tests of this file that leave them as they are."""
    with Ports():
        cluster = Cluster(tmp_path_factory.mktemp("resp-lock"), 3).start()
        yield cluster
        for node in cluster:
            node.close_ready()
            node.kill()
    for node in cluster:
        check_log(node)


@pytest.fixture(params=["leader", "follower"])
def r(three, request):
    node = three.leader() if request.param == "leader" else three.followers()[0]
    with connect(node) as client:
        yield client


@pytest.fixture
def name(request):
    return "resp-lock/" + request.node.name.replace("[", "/").rstrip("]")


def listed(three, *arguments, json=True):
    """Rows of `holdfast ls`, or its table."""
    done = run_cli([three.leader()], "ls", *arguments, *(["--json"] if json else []))
    assert done.returncode == 0, done.stderr
    return json_module.loads(done.stdout)["locks"] if json else done.stdout


def audited(three, name):
    records = three.leader().request("GET", "/api/v1/audit").json["records"]
    return [record for record in records if record["resource"] == name]


def test_a_lock_is_taken_and_given_back(three, r, name):
    lock = r.lock(name, timeout=30)
    other = r.lock(name, timeout=30)
    assert lock.acquire(blocking=False)
    assert lock.locked() and lock.owned() and other.locked() and not other.owned()
    assert not other.acquire(blocking=False)
    first = token(r, lock)
    assert three.leader().show(name).json["holders"][0]["fencing_token"] == first
    lock.release()
    assert not lock.locked()
    assert other.acquire(blocking=False)
    assert token(r, other) > first
    other.release()
    assert audited(three, name) == []  # an owner's release by a script is no force-unlock


def test_only_the_owner_gives_it_back(three, r, name):
    lock = r.lock(name, timeout=30)
    assert lock.acquire()
    thief = r.lock(name, timeout=30)
    thief.local.token = b"guessed"
    with pytest.raises(LockNotOwnedError):
        thief.extend(10)
    with pytest.raises(LockNotOwnedError):
        thief.reacquire()
    with pytest.raises(LockNotOwnedError):
        thief.release()
    assert lock.owned()
    lock.release()
    with pytest.raises(LockError):
        lock.release()


def test_it_is_extended_and_reacquired(r, name):
    lock = r.lock(name, timeout=10)
    assert lock.acquire()
    assert lock.extend(10) and 15000 < r.pttl(name) <= 20000
    assert lock.extend(5, replace_ttl=True) and 2000 < r.pttl(name) <= 5000
    assert lock.reacquire() and 7000 < r.pttl(name) <= 10000
    lock.release()


def test_a_lock_without_a_timeout_is_held_until_it_is_released(three, r, name):
    lock = r.lock(name)
    assert lock.acquire() and r.ttl(name) == -1
    with pytest.raises(LockError):
        lock.extend(10)
    rows = listed(three, "--no-ttl", name)
    assert [row["name"] for row in rows] == [name]
    assert rows[0]["holder"]["expires_at"] is None and rows[0]["holder"]["expires_in_ms"] is None
    assert "never" in listed(three, "--no-ttl", name, json=False)
    assert r.expire(name, 30) and listed(three, "--no-ttl", name) == []
    assert r.persist(name) and len(listed(three, "--no-ttl", name)) == 1
    lock.release()
    assert not lock.locked() and listed(three, "--no-ttl", name) == []


def test_leases_are_as_short_as_a_client_wants(r, name):
    lock = r.lock(name, timeout=0.2)
    assert lock.acquire() and 0 < r.pttl(name) <= 200
    wait_until(lambda: not lock.locked(), "it expires")
    with pytest.raises(LockNotOwnedError):
        lock.release()
    # Exact for whoever comes later, also where nothing else is in the log (S1.7).
    for ms in (1, 5, 20):
        assert r.set(name, "v", nx=True, px=ms)
        time.sleep(ms / 1000 + 0.002)
        assert r.get(name) is None
        assert r.set(name, "w", nx=True, px=10000) and r.delete(name) == 1


def test_who_waits_gets_it_in_the_end(r, name):
    first = r.lock(name, timeout=30)
    assert first.acquire()
    assert not r.lock(name, timeout=30, sleep=0.01).acquire(blocking_timeout=0.2)
    begun = threading.Event()
    got = []

    def wait():
        begun.set()
        lock = r.lock(name, timeout=30, sleep=0.01)
        got.append(lock.acquire(blocking_timeout=PATIENCE))
        lock.release()

    thread = threading.Thread(target=wait)
    thread.start()
    begun.wait()
    first.release()
    thread.join()
    assert got == [True]


def test_a_lock_that_expired_is_lost(r, name):
    lock = r.lock(name, timeout=1)
    assert lock.acquire()
    wait_until(lambda: not lock.locked(), "it expires")
    with pytest.raises(LockNotOwnedError):
        lock.extend(5)
    with pytest.raises(LockNotOwnedError):
        lock.release()
    assert r.lock(name, timeout=5).acquire(blocking=False)


def test_one_at_a_time_whatever_node_they_use(three, name):
    inside = []
    most = []

    def work(node):
        with connect(node) as client:
            for _ in range(5):
                with client.lock(name, timeout=30, sleep=0.005):
                    inside.append(1)
                    most.append(len(inside))
                    inside.pop()

    threads = [threading.Thread(target=work, args=(node,)) for node in three for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 30


def test_a_lock_outlives_the_leader_and_is_given_back_after(make_cluster):
    cluster = make_cluster(3)
    leader = cluster.leader()
    with connect(cluster.followers()[0]) as r:
        lock = r.lock("job", timeout=60)
        assert lock.acquire()
        first = token(r, lock)
        leader.kill()
        begun = time.monotonic()

        def extended():
            try:
                return lock.reacquire()
            except redis.ResponseError as error:
                assert resp_support.error_word(error) in ("CLUSTERDOWN", "OUTCOMEUNKNOWN", "TRYAGAIN"), error
                return False

        wait_until(extended, "the lock is extended at the new leader")
        assert time.monotonic() - begun < allowed(5)
        assert lock.owned() and token(r, lock) == first
        lock.release()
        next_one = r.lock("job", timeout=60)
        assert next_one.acquire(blocking=False) and token(r, next_one) > first

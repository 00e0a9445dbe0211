"""The tier EFFICIENCY on an operator's own Redis (S10.3): real nodes and a real redis-server, which is killed,
restarted, stopped and shared with somebody else."""

import shutil
import signal
import subprocess
import tempfile
import threading
import time

import pytest
import redis as redis_py

from harness import Cluster, dies_with_us, environment, run, wait_until

pytestmark = pytest.mark.skipif(shutil.which("redis-server") is None,
                                reason="redis-server is not installed: scripts/setup test")

PREFIX = "locks:"
TIMEOUT_MS = 400


class Redis:
    """One redis-server, reached by a socket in a folder of its own: the path must be short."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="hf-redis-")
        self.path = f"{self.folder}/s"
        self.process = None

    def start(self):
        self.process = subprocess.Popen(
            dies_with_us(["redis-server", "--port", "0", "--unixsocket", self.path, "--save", "",
                          "--appendonly", "no", "--dir", self.folder]),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

        def answers():
            try:
                return self.client().ping()
            except redis_py.exceptions.RedisError:
                return False

        wait_until(answers, "redis-server answers")
        return self

    def client(self):
        return redis_py.Redis(unix_socket_path=self.path, decode_responses=True)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def close(self):
        self.kill()
        shutil.rmtree(self.folder)


@pytest.fixture
def redis():
    server = Redis().start()
    yield server
    server.close()


def cluster_with(folder, redis, fallback, count=1, more=()):
    flags = ["--efficiency-backend", "redis", "--redis", redis.path, "--efficiency-fallback", fallback,
             "--redis-prefix", PREFIX, "--redis-timeout", f"{TIMEOUT_MS}ms", *more]
    cluster = Cluster(folder, count, flags).start()
    leader = cluster.leader()
    usable(leader)
    return cluster, leader


def backend(node):
    return node.request("GET", "/api/v1/cluster").json["efficiency"]


def usable(node):
    wait_until(lambda: backend(node)["healthy"], lambda: f"Redis is healthy: {backend(node)}")


def away(node):
    wait_until(lambda: not backend(node)["healthy"], "Redis is known to be away")


def take(node, name, **more):
    return node.acquire(name, tier="EFFICIENCY", **more)


def renew(node, name, token, client="test"):
    return node.request("POST", f"/api/v1/locks/{name}/renew", {"client_id": client, "fencing_token": token})


def release_once(node, name, token):
    return node.request("POST", f"/api/v1/locks/{name}/release",
                    {"client_id": "test", "fencing_token": token, "request_id": "once"})


def metric(node, name):
    for line in node.request("GET", "/metrics").text.splitlines():
        if line.startswith(f"holdfast_{name} "):
            return float(line.split()[1])
    raise AssertionError(f"there is no {name}")


def waiting(node, name, **more):
    """An acquire that waits, in a thread; its answer is what the thread leaves in the list."""
    found = []
    thread = threading.Thread(target=lambda: found.append(take(node, name, **more)))
    thread.start()
    return thread, found


def test_a_lock_is_a_key_that_is_taken_extended_and_given_back(tmp_path, redis):
    _, node = cluster_with(tmp_path, redis, "fail")
    outside = redis.client()
    got = take(node, "jobs/1", client="web-1", ttl_ms=10000).json
    assert got["acquired"] and got["tier"] == "EFFICIENCY"
    token = got["fencing_token"]
    assert token % 1024 != 0, "the token is ours, not one of Redis (S3.1)"
    cluster, mark, client = outside.get(PREFIX + "jobs/1").removeprefix("hf:").split(":")
    assert (int(mark), client, len(cluster)) == (token, "web-1", 32)
    assert 20000 < outside.pttl(PREFIX + "jobs/1") <= 20000 + 2 * TIMEOUT_MS + 1000

    outside.pexpire(PREFIX + "jobs/1", 5000)
    assert renew(node, "jobs/1", token, "web-1").json["renewed"]
    assert outside.pttl(PREFIX + "jobs/1") > 15000

    assert node.release("jobs/1", token, "web-1").json["released"]
    assert not outside.exists(PREFIX + "jobs/1"), "the key is returned before the answer"
    assert backend(node)["backend"] == "redis"


def test_a_lock_that_expires_is_given_back(tmp_path, redis):
    _, node = cluster_with(tmp_path, redis, "fail")
    assert take(node, "short", ttl_ms=1000).json["acquired"]
    assert redis.client().exists(PREFIX + "short")
    wait_until(lambda: not redis.client().exists(PREFIX + "short"), "its key is gone with it")


def test_somebody_outside_and_we_exclude_each_other(tmp_path, redis):
    _, node = cluster_with(tmp_path, redis, "fail")
    outside = redis.client()
    lock = outside.lock(PREFIX + "shared", timeout=30)
    assert lock.acquire(blocking=False)
    refused = take(node, "shared").json
    assert not refused["acquired"] and refused["reason"] == "held"
    assert refused["holder"]["client_id"] == lock.local.token.decode()

    timed_out = take(node, "shared", wait_timeout_ms=300).json
    assert not timed_out["acquired"] and timed_out["reason"] == "timeout"

    # Two of ours wait, in order; who is outside lets go.
    first, first_got = waiting(node, "shared", client="first", wait_timeout_ms=-1)
    wait_until(lambda: metric(node, "redis_grants_waiting") == 1, "the first one waits for Redis")
    second, second_got = waiting(node, "shared", client="second", wait_timeout_ms=-1)
    wait_until(lambda: metric(node, "requests_waiting") == 2, "the second one waits behind it")
    lock.release()
    first.join()
    assert first_got[0].json["acquired"], first_got
    assert first_got[0].json["expires_in_ms"] > 29000, "its TTL begins when its wait is over (S4.3)"
    assert not lock.acquire(blocking=False), "now it is ours"
    assert not second_got
    node.release("shared", first_got[0].json["fencing_token"], "first")
    second.join()
    assert second_got[0].json["acquired"], second_got
    assert second_got[0].json["fencing_token"] > first_got[0].json["fencing_token"]
    assert outside.get(PREFIX + "shared").endswith(":second")
    node.release("shared", second_got[0].json["fencing_token"], "second")
    assert lock.acquire(blocking=False), "who is outside gets it again"


def test_a_client_that_leaves_while_it_waits_for_somebody_outside_leaves_nothing(tmp_path, redis):
    _, node = cluster_with(tmp_path, redis, "fail")
    outside = redis.client()
    outside.set(PREFIX + "n", "theirs", px=60000)
    connection = node.connect()
    connection.request("POST", "/api/v1/locks/n/acquire",
                       body='{"client_id":"c","ttl_ms":5000,"wait_timeout_ms":-1,"tier":"EFFICIENCY"}')
    wait_until(lambda: metric(node, "requests_waiting") == 1, "it waits")
    connection.close()
    wait_until(lambda: metric(node, "redis_keys") == 0, "it left")
    outside.delete(PREFIX + "n")
    assert take(node, "n").json["acquired"]


def test_a_wait_through_a_follower_ends_when_somebody_outside_lets_go(tmp_path, redis):
    cluster, leader = cluster_with(tmp_path, redis, "fail", 3)
    follower = cluster.followers()[0]
    redis.client().set(PREFIX + "n", "theirs", px=60000)
    thread, found = waiting(follower, "n", client="c", wait_timeout_ms=-1)
    wait_until(lambda: metric(follower, "requests_waiting") == 1, "it waits")
    wait_until(lambda: metric(leader, "redis_grants_waiting") == 1, "the leader requests it")
    redis.client().delete(PREFIX + "n")
    thread.join()
    assert found[0].json["acquired"], found
    assert follower.release("n", found[0].json["fencing_token"], "c").json["released"]
    assert not redis.client().exists(PREFIX + "n"), "its key is given back"


def test_the_keys_of_a_session_live_and_end_with_it(tmp_path, redis):
    _, node = cluster_with(tmp_path, redis, "fail")
    session = node.request("POST", "/api/v1/sessions", {"client_id": "c", "ttl_ms": 1000}).json["session_id"]
    names = [f"s/{i}" for i in range(20)]
    for name in names:
        assert take(node, name, client="c", ttl_ms=1000, session_id=session).json["acquired"]
    first_life = redis.client().pttl(PREFIX + names[0]) / 1000
    end = time.monotonic() + first_life + 0.5

    def is_over():
        assert node.request("POST", f"/api/v1/sessions/{session}/keepalive", {}).status == 200
        return time.monotonic() > end

    wait_until(is_over, "the first life of the keys is over")
    assert redis.client().exists(*[PREFIX + name for name in names]) == len(names)
    assert not node.events("redis_lock_lost")
    assert node.request("DELETE", f"/api/v1/sessions/{session}").status == 200
    wait_until(lambda: not redis.client().exists(*[PREFIX + name for name in names]), "they end with it")


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_fallback_fail_refuses_until_redis_is_back(tmp_path, redis, how):
    _, node = cluster_with(tmp_path, redis, "fail", more=["--request-timeout", "1s"])
    held = take(node, "held").json
    redis.kill() if how == "killed" else redis.pause()
    refused = take(node, "new")
    assert refused.status == 503 and refused.code == "backend_unavailable", refused
    away(node)
    refused = take(node, "new")
    assert refused.code == "backend_unavailable" and int(refused.headers["Retry-After"]) >= 1
    assert node.acquire("other").json["acquired"], "the other tier has nothing to do with it"
    # What was granted is released where it was granted (S10.3); that it is, nobody can tell before Redis is back.
    doubtful = release_once(node, "held", held["fencing_token"])
    assert doubtful.status == 504 and doubtful.code == "outcome_unknown", doubtful
    assert doubtful.json["error"]["request_id"] == "once"
    assert not node.show("held").json["held"], "among our own clients it is free"
    redis.start() if how == "killed" else redis.resume()
    answers = []

    def is_released():
        answers.append(release_once(node, "held", held["fencing_token"]))
        return answers[-1].status == 200

    wait_until(is_released, lambda: f"it is confirmed: {answers[-1]}")
    assert answers[-1].json["released"], answers[-1]
    assert not redis.client().exists(PREFIX + "held"), "the key is returned before the release is confirmed"
    usable(node)
    got = take(node, "new")
    assert got.json["acquired"], got
    assert redis.client().get(PREFIX + "new").split(":")[2] == str(got.json["fencing_token"])


def test_fallback_embedded_grants_without_redis_and_never_twice(tmp_path, redis):
    _, node = cluster_with(tmp_path, redis, "embedded")
    redis.pause()
    got = take(node, "n", client="a").json  # in doubt first, then by the fallback
    assert got["acquired"] and got["tier"] == "EFFICIENCY"
    assert take(node, "n", client="b").json["reason"] == "held"
    away(node)
    alone = take(node, "m", client="a").json
    assert alone["acquired"]
    assert renew(node, "m", alone["fencing_token"], "a").json["renewed"]
    redis.resume()
    usable(node)
    # What Redis did late for the one in doubt is cleared away; ours still hold.
    wait_until(lambda: not redis.client().exists(PREFIX + "n"), "nothing is left in Redis")
    assert take(node, "n", client="b").json["reason"] == "held"
    assert node.release("n", got["fencing_token"], "a").json["released"]
    assert node.release("m", alone["fencing_token"], "a").json["released"]
    again = take(node, "n", client="b").json
    assert again["acquired"] and again["fencing_token"] > got["fencing_token"]
    assert redis.client().exists(PREFIX + "n")


def test_fallback_correctness_goes_through_the_log_and_says_so(tmp_path, redis):
    cluster, leader = cluster_with(tmp_path, redis, "correctness", 3)
    follower = cluster.followers()[0]
    before = take(follower, "before").json
    assert before["tier"] == "EFFICIENCY"
    redis.kill()
    got = take(leader, "n", client="a").json
    assert got["acquired"] and got["tier"] == "CORRECTNESS" and got["fencing_token"] % 1024 == 0
    assert got["fencing_token"] > before["fencing_token"]
    through = take(follower, "m", client="a").json
    assert through["acquired"] and through["tier"] == "CORRECTNESS"
    # One name is in one tier, also when Redis is back: the next waits where the holder is.
    redis.start()
    usable(leader)
    assert take(leader, "n", client="b").json["reason"] == "held"
    thread, found = waiting(follower, "n", client="c", wait_timeout_ms=-1)
    wait_until(lambda: leader.show("n").json["waiters"], "it waits")
    assert renew(follower, "n", got["fencing_token"], "a").json["renewed"]
    assert leader.release("n", got["fencing_token"], "a").json["released"]
    thread.join()
    assert found[0].json["tier"] == "CORRECTNESS", found
    assert leader.release("n", found[0].json["fencing_token"], "c").json["released"]
    back = take(leader, "n", client="d").json
    assert back["tier"] == "EFFICIENCY" and back["fencing_token"] > found[0].json["fencing_token"]


def test_a_redis_that_restarts_empty_loses_the_locks_and_says_so(tmp_path, redis):
    _, node = cluster_with(tmp_path, redis, "fail")
    held = take(node, "n", ttl_ms=60000).json
    redis.kill()
    redis.start()
    usable(node)
    node.wait_event("redis_lock_lost", token=held["fencing_token"])

    def expired():
        answer = renew(node, "n", held["fencing_token"]).json
        return not answer["renewed"] and answer["reason"] == "expired"

    wait_until(expired, "it is lost")
    assert node.release("n", held["fencing_token"]).json["reason"] == "expired"
    assert take(node, "n").json["fencing_token"] > held["fencing_token"]


def test_a_short_pause_of_redis_costs_nobody_a_lock(tmp_path, redis):
    _, node = cluster_with(tmp_path, redis, "fail")
    held = take(node, "n", ttl_ms=20000).json
    redis.pause()
    away(node)
    assert renew(node, "n", held["fencing_token"]).json["renewed"], "its key lives long enough for that"
    redis.resume()
    usable(node)
    assert renew(node, "n", held["fencing_token"]).json["renewed"]
    assert not node.events("redis_lock_lost")


def test_after_a_failover_the_keys_of_the_old_leader_are_respected(tmp_path, redis):
    cluster, leader = cluster_with(tmp_path, redis, "fail", 3)
    held = take(leader, "n", ttl_ms=1500).json
    leader.kill()
    other = cluster.leader(but=leader.id)
    usable(other)
    # Its holder may not have heard yet: two holders at a time are not possible, unlike in memory alone.
    assert take(other, "n").json["reason"] == "held"
    got = take(other, "n", wait_timeout_ms=20000).json
    assert got["acquired"] and got["fencing_token"] > held["fencing_token"]


def test_no_two_hold_it_while_redis_is_stopped_and_goes_on(tmp_path, redis):
    """Clients of ours and one outside take turns; nobody is inside together with another."""
    _, node = cluster_with(tmp_path, redis, "fail")
    inside = []
    overlaps = []
    turns = {"ours": 0, "outside": 0}
    done = threading.Event()

    def enter(who):
        inside.append(who)
        if len(inside) > 1:
            overlaps.append(list(inside))
        done.wait(0.005)
        inside.remove(who)
        turns[who] += 1

    def ours(number, wait_ms):
        while not done.wait(0.002):
            answer = take(node, "n", client=f"c{number}", ttl_ms=20000, wait_timeout_ms=wait_ms)
            if answer.status == 200 and answer.json["acquired"]:
                enter("ours")
                node.release("n", answer.json["fencing_token"], f"c{number}")

    def outside():
        while not done.is_set():
            lock = redis_py.Redis(unix_socket_path=redis.path).lock(PREFIX + "n", timeout=60, sleep=0.002)
            if lock.acquire(blocking_timeout=1):
                enter("outside")
                lock.release()

    # Whoever waits in our queue is handed the key without a gap; one alone leaves gaps for others.
    threads = [threading.Thread(target=ours, args=each) for each in [(0, 1000), (1, 0), (2, 0)]]
    threads.append(threading.Thread(target=outside))
    for thread in threads:
        thread.start()
    try:
        for _ in range(2):
            before = dict(turns)
            wait_until(lambda: all(turns[w] > before[w] + 5 for w in turns), lambda: f"all get turns {turns}")
            redis.pause()
            away(node)
            redis.resume()
            usable(node)
    finally:
        redis.resume()
        done.set()
        for thread in threads:
            thread.join()
    assert not overlaps


def test_the_settings_are_checked(tmp_path):
    def check(*flags, **env):
        return run("serve", "--check", "--data", tmp_path / "d", *flags, env=environment(**env))

    fine = ["--efficiency-backend", "redis", "--redis", "127.0.0.1:6379", "--efficiency-fallback", "fail"]
    assert check(*fine).returncode == 0
    for flags, words in [
        (fine[:4], "efficiency-fallback: must be set, to say what happens to new acquire requests"),
        (fine[:2] + fine[4:], "redis: efficiency-backend = redis needs the HOST:PORT"),
        (["--redis", "127.0.0.1:6379"], "--redis: is only valid with efficiency-backend = redis"),
        (["--efficiency-backend", "memcached"], "--efficiency-backend: must be embedded or redis"),
        ([*fine, "--efficiency-fallback", "hope"], "--efficiency-fallback: must be set, to say what happens to"),
        ([*fine, "--redis", "nowhere"], "--redis: must be HOST:PORT"),
        ([*fine, "--redis-timeout", "1ms"], "--redis-timeout: must be 10 ms to 60 s"),
        ([*fine, "--redis-db", "70000"], "--redis-db: must be 0 to 65535"),
        ([*fine, "--redis-user", "me"], "--redis-user: needs redis-password"),
        ([*fine, "--resp-tier", "efficiency"], "--resp-tier: locks of Redis-protocol clients cannot be in the EFFICIENCY tier"),
        ([*fine, "--redis-password", "x"], "--redis-password: not accepted as a flag, because the process list would show it"),
    ]:
        answer = check(*flags)
        assert answer.returncode == 64 and words in answer.stderr, (flags, answer)
    shown = check(*fine, HOLDFAST_REDIS_PASSWORD="hunter2").stdout
    assert "hunter2" not in shown and "# redis-password is set" in shown


def test_metrics_tell_of_redis(tmp_path, redis):
    _, node = cluster_with(tmp_path, redis, "fail")
    assert take(node, "n").json["acquired"]
    text = node.request("GET", "/metrics").text
    assert "holdfast_redis_up 1" in text and "holdfast_redis_keys 1" in text
    assert "holdfast_redis_grants_total 1" in text
    redis.kill()
    away(node)
    assert "holdfast_redis_up 0" in node.request("GET", "/metrics").text

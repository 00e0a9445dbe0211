"""libholdfast against real clusters: it never lies about what it holds, whatever dies."""

import json
import queue
import re
import select
import signal
import socket
import subprocess
import threading
import time

import pytest

from harness import PATIENCE, PROGRAM, SANITIZED, allowed, dies_with_us, environment, wait_until

PROBE = PROGRAM.parent / "tests/cluster/client_probe"


def endpoints(cluster):
    return ",".join(f"127.0.0.1:{node.client_port}" for node in cluster)


class Holder:
    """`client_probe hold`: its lines, each with the time at which it was heard."""

    def __init__(self, cluster, name, ttl_ms, wrapper=(), how="hold"):
        where = cluster if isinstance(cluster, str) else endpoints(cluster)
        self.process = subprocess.Popen(
            dies_with_us([*wrapper, PROBE, how, where, name, ttl_ms]),
            env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.lines = queue.Queue()
        self.seen = []
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        for line in self.process.stdout:
            self.lines.put((time.clock_gettime(time.CLOCK_BOOTTIME), line.rstrip("\n")))

    def hear(self, pattern):
        """The next line that matches, and when it came."""
        while True:
            try:
                at, line = self.lines.get(timeout=PATIENCE)
            except queue.Empty:
                raise AssertionError(f"never heard: {pattern}; but: {self.seen}") from None
            self.seen.append(line)
            match = re.match(pattern, line)
            if match:
                return at, match

    def order(self, word):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def end(self):
        self.process.stdin.close()
        return self.process.wait(PATIENCE)


@pytest.fixture
def hold():
    holders = []

    def begin(*arguments, **options):
        holders.append(Holder(*arguments, **options))
        return holders[-1]

    yield begin
    for holder in holders:
        if holder.process.poll() is None:
            holder.process.kill()
            holder.process.wait()


@pytest.mark.parametrize("seconds", [10, pytest.param(60, marks=pytest.mark.long)])
def test_the_leader_is_killed_again_and_again_and_no_promise_breaks(make_cluster, seconds):
    cluster = make_cluster(5)
    with subprocess.Popen(dies_with_us([PROBE, "load", endpoints(cluster), seconds, 8]),
                          env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as load:
        kills = 0
        while load.poll() is None:
            victim = cluster.leader()
            select.select([], [], [], 1)  # it serves for a while
            victim.kill()
            kills += 1
            cluster.leader(but=victim.id)
            victim.start().wait_ready()
        out, err = load.communicate()
    assert load.returncode == 0, f"{out}\n{err}"
    result = json.loads(out)
    print(kills, "kills:", out)
    assert kills >= 2
    assert result["broken"] == 0
    assert result["granted"] > 10 * kills, result


@pytest.mark.long
def test_a_rolling_restart_costs_nobody_a_lock(make_cluster):
    cluster = make_cluster(3)
    with subprocess.Popen(dies_with_us([PROBE, "load", endpoints(cluster), 15, 8]),
                          env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as load:
        for node in cluster:
            select.select([], [], [], 1)
            assert node.stop() == 0
            node.start().wait_ready()
        out, err = load.communicate()
    assert load.returncode == 0, f"{out}\n{err}"
    result = json.loads(out)
    print(out)
    assert result["lost_events"] == 0 and result["unreachable"] == 0, result


def test_a_minority_refuses_in_time_and_in_words(make_cluster, hold):
    cluster = make_cluster(3)
    first, second = cluster.followers()
    holder = hold(cluster, "alone", 4000)
    holder.hear(r"acquired")
    first.kill()
    second.kill()
    begun = time.monotonic()
    late = hold(cluster, "other", 4000)
    late.hear(r"failed (unreachable|unknown): .+")
    assert time.monotonic() - begun < allowed(7), "5 s is what a call has"
    holder.hear(r"lock lost 0 unconfirmed")
    assert holder.end() == 0


@pytest.mark.sanitized
def test_every_public_call_does_what_it_says(make_cluster):
    cluster = make_cluster(3)
    result = subprocess.run(dies_with_us([PROBE.parent / "client_tour", endpoints(cluster)]),
                            env=environment(), timeout=PATIENCE, check=False, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert result.returncode == 0, result.stdout


def test_a_port_that_speaks_something_else_is_named(hold):
    with socket.create_server(("127.0.0.1", 0)) as server:
        def answer():
            try:
                while True:
                    server.accept()[0].sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            except OSError:
                pass  # the test is over

        threading.Thread(target=answer, daemon=True).start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        _, failed = hold(address, "x", 1000).hear(r"failed unreachable: (.*)")
        assert f"{address} (it does not speak HTTP/2)" in failed[1], failed[1]
        server.shutdown(socket.SHUT_RDWR)


def test_a_lock_lives_through_the_death_of_the_leader(make_cluster, hold):
    cluster = make_cluster(3)
    holder = hold(cluster, "kept", 10000)
    _, acquired = holder.hear(r"acquired (\d+) (\d+)")
    assert 0 < int(acquired[2]) <= 10000 - 10 - 5
    cluster.leader().kill()
    cluster.leader()
    holder.hear(r"client connected")  # the first was before the lock
    held = cluster.running()[0].acquire("kept", client="other")
    assert held.json["acquired"] is False, held
    select.select([], [], [], 4)  # more than a keep-alive later
    holder.order("check")
    _, check = holder.hear(r"check ok (\d+)")
    assert int(check[1]) > 3000
    holder.order("release")
    holder.hear(r"release ok")
    assert holder.end() == 0
    assert cluster.running()[0].acquire("kept", client="other").json["acquired"]


@pytest.mark.sanitized
def test_a_client_cut_off_hears_lost_no_later_than_its_deadline(make_cluster, hold):
    cluster = make_cluster(3)
    holder = hold(cluster, "cut", 3000)
    holder.hear(r"acquired")
    for node in cluster:
        node.signal(signal.SIGSTOP)
    try:
        holder.order("check")
        sent_at, check = holder.hear(r"check ok (\d+)")
        deadline = sent_at + int(check[1]) / 1000
        at, _ = holder.hear(r"lock jeopardy (\d+)")
        assert at < deadline
        at, lost = holder.hear(r"lock lost 0 (\w+)")
        assert lost[1] == "unconfirmed"
        assert at < deadline + allowed(0.2), f"{at - deadline:.3f} s late"
        assert at > deadline - 3, "and not at once"
        holder.order("check")
        holder.hear(r"check lost 0 unconfirmed")
    finally:
        for node in cluster:
            node.signal(signal.SIGCONT)
    # It stays lost, whatever the service says afterwards.
    holder.hear(r"client connected")
    holder.order("check")
    holder.hear(r"check lost 0 unconfirmed")
    holder.order("release")
    holder.hear(r"release lost")
    assert holder.end() == 0


def test_a_client_that_was_stopped_knows_it_when_it_wakes_up(make_cluster, hold):
    cluster = make_cluster(1)
    holder = hold(cluster, "paused", 1000)
    holder.hear(r"acquired")
    holder.process.send_signal(signal.SIGSTOP)
    node = cluster.running()[0]
    other = wait_until(lambda: (lambda a: a if a["acquired"] else None)(
        node.acquire("paused", client="other").json), "the lock expires")
    assert other["fencing_token"] > 0
    holder.process.send_signal(signal.SIGCONT)
    holder.order("check")
    holder.hear(r"check lost 0")
    assert holder.end() == 0


def test_force_unlock_is_heard_at_once(make_cluster, hold):
    cluster = make_cluster(3)
    holder = hold(cluster, "forced", 30000)
    holder.hear(r"acquired")
    answer = cluster.followers()[0].request("POST", "/api/v1/locks/forced/force-unlock",
                                        {"actor_id": "operator", "reason": "stuck"})
    assert answer.status == 200, answer
    begun = time.monotonic()
    holder.hear(r"lock lost")
    assert time.monotonic() - begun < allowed(2)
    holder.order("check")
    holder.hear(r"check lost 0 forced")
    assert holder.end() == 0


def test_a_client_killed_frees_its_lock_by_the_ttl(make_cluster, hold):
    cluster = make_cluster(3)
    holder = hold(cluster, "widow", 2000)
    holder.hear(r"acquired")
    holder.process.kill()
    begun = time.monotonic()
    answer = cluster.running()[0].acquire("widow", client="heir", wait_timeout_ms=20000)
    assert answer.json["acquired"], answer
    assert time.monotonic() - begun < allowed(4)


def test_a_client_that_closes_frees_its_lock_at_once(make_cluster, hold):
    cluster = make_cluster(3)
    holder = hold(cluster, "left", 30000)
    holder.hear(r"acquired")
    assert holder.end() == 0
    assert cluster.running()[0].acquire("left", client="heir").json["acquired"]


def test_a_waiter_gets_it_in_its_turn(make_cluster, hold):
    cluster = make_cluster(3)
    first = hold(cluster, "turn", 10000)
    _, one = first.hear(r"acquired (\d+)")
    second = hold(cluster, "turn", 10000)
    node = cluster.leader()
    wait_until(lambda: node.show("turn").json["queue_length"] == 1, "the second waits")
    first.order("release")
    _, two = second.hear(r"acquired (\d+) (\d+)")
    assert int(two[1]) > int(one[1])
    assert int(two[2]) > 5000
    assert first.end() == 0 and second.end() == 0


def test_a_program_with_a_lock_is_valgrind_clean(make_cluster, hold, tmp_path):
    if SANITIZED:
        pytest.skip("valgrind and the sanitizers do not go together")
    cluster = make_cluster(1)
    log = tmp_path / "valgrind.log"
    holder = hold(cluster, "clean", 10000,
                  wrapper=["valgrind", "-q", "--leak-check=full", "--show-leak-kinds=all",
                           "--errors-for-leak-kinds=all", "--error-exitcode=99",
                           f"--log-file={log}"])
    holder.hear(r"acquired")
    holder.order("export")
    holder.hear(r"export ok hf1\.")
    holder.order("release")
    holder.hear(r"release ok")
    assert holder.end() == 0, log.read_text(encoding="utf-8")


def test_one_session_holds_in_both_tiers_and_a_new_leader_costs_it_the_fast_one_only(make_cluster, hold):
    """S10.2: the client itself declares EFFICIENCY locks lost when the epoch changes."""
    cluster = make_cluster(3)
    holder = hold(cluster, "both", 6000, how="tiers")
    _, match = holder.hear(r"acquired (\d+) (\d+)")
    assert int(match[1]) % 1024 != 0 and int(match[2]) % 1024 == 0
    node = cluster.followers()[0]
    assert node.show("both-fast").json["tier"] == "EFFICIENCY"
    assert node.show("both-safe").json["tier"] == "CORRECTNESS"
    holder.order("check")
    holder.hear(r"fast ok")
    holder.hear(r"safe ok")
    victim = cluster.leader()
    victim.kill()
    holder.hear(r"lock lost \S+ epoch")
    holder.order("check")
    holder.hear(r"fast lost epoch")
    holder.hear(r"safe ok")
    new = cluster.leader(but=victim.id)
    assert new.show("both-safe").json["held"] and not new.show("both-fast").json["held"]
    assert holder.end() == 0

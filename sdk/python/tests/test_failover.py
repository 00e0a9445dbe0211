"""The client while nodes die and pause: a lock survives a failover, and a loss is found by the clock."""

import asyncio
import signal
import threading
import time

import pytest

import holdfast
from harness import allowed, wait_until
from holdfast.clock import system_clock
from holdfast.session import Session


class ShiftedClock:
    """The clock of the machine, which a test can advance."""

    look_s = 1.0

    def __init__(self):
        self.clock = system_clock()
        self.shift_ms = 0

    def now_ms(self):
        return self.clock.now_ms() + self.shift_ms


def client_of(cluster, **more):
    return holdfast.Client([node.client for node in cluster], **more)


def test_a_lock_survives_the_death_of_the_leader(make_cluster):
    cluster = make_cluster()
    with client_of(cluster, session_ttl=9) as client, client_of(cluster) as other:
        lost = []
        with client.lock("kept", on_lost=lost.append) as lock:
            leader = cluster.leader()
            leader.kill()
            cluster.leader(but=leader.id)
            end = time.monotonic() + lock.safe_for
            wait_until(lambda: time.monotonic() + lock.safe_for > end + 1, "a keep-alive is confirmed by the new leader")
            assert other.lock("kept", wait=0).try_acquire() is None
            lock.check()
        with other.lock("kept", wait=0) as next_one:
            assert next_one.fence_token > lock.fence_token
        assert not lost


def test_a_wait_survives_the_death_of_the_leader(make_cluster):
    cluster = make_cluster()
    with client_of(cluster) as holder, client_of(cluster) as waiter:
        lock = holder.lock("waited").acquire()
        got = []
        thread = threading.Thread(target=lambda: got.append(waiter.lock("waited").acquire()))
        thread.start()
        leader = cluster.leader()
        wait_until(lambda: leader.show("waited").json["queue_length"] == 1, "it waits")
        leader.kill()
        left = cluster.leader(but=leader.id)
        wait_until(lambda: left.show("waited").status == 200, "the next leader serves")
        lock.release()
        thread.join(60)
        got[0].check()


def test_a_watch_is_resumed_at_another_node_without_a_gap(make_cluster):
    cluster = make_cluster()
    with client_of(cluster) as writer, client_of(cluster) as reader:
        watch = reader.watch("w/", "0-0")
        names, written = [], []

        def read():
            for event in watch:
                if event.type == "granted":
                    names.append(event.data["name"])

        reading = threading.Thread(target=read)
        reading.start()
        for node in cluster:  # one of them has the watch
            for name in (f"w/{node.id}", f"w/after-{node.id}"):
                written.append(name)
                with writer.lock(name, wait=60):
                    pass
                wait_until(lambda: len(names) == len(written), "it arrived")
                if node.running:
                    node.kill()
            node.start()
            cluster.leader()
        watch.close()
        reading.join()
        assert names == written


def test_keep_alives_leave_a_paused_node(make_cluster):
    cluster = make_cluster()
    paused = cluster.nodes[1]
    with client_of(cluster, session_ttl=4) as client:
        with client.lock("moved") as lock:
            paused.signal(signal.SIGSTOP)
            until = time.monotonic() + 5
            wait_until(lambda: not lock.held or time.monotonic() > until, "more than a TTL has passed")
            lock.check()
            paused.signal(signal.SIGCONT)


def test_without_the_cluster_a_lock_is_lost_in_time_and_for_good(make_cluster):
    cluster = make_cluster()
    with client_of(cluster, session_ttl=2, timeout=2) as client:
        lost = threading.Event()
        lock = client.lock("paused", on_lost=lambda _: lost.set()).acquire()
        for node in cluster:
            node.signal(signal.SIGSTOP)
        safe_for = lock.safe_for
        began = time.monotonic()
        assert 0 < safe_for <= 2
        assert lost.wait(allowed(4)), "reported"
        assert time.monotonic() - began >= safe_for - 0.02, "not before its time"
        with pytest.raises(holdfast.LockLost):
            lock.check()
        for node in cluster:
            node.signal(signal.SIGCONT)
        cluster.leader()
        with client.lock("other", wait=60):
            with pytest.raises(holdfast.LockLost):
                lock.check()
        with pytest.raises(holdfast.LockLost):
            lock.release()


def test_check_needs_no_timer_and_a_late_answer_revives_nothing(make_cluster):
    cluster = make_cluster()
    client = client_of(cluster, session_ttl=30)
    clock = ShiftedClock()
    client.engine.clock = client.engine.caller.clock = client.engine.locks._clock = clock
    with client:
        lost = []
        lock = client.lock("jumped", on_lost=lost.append).acquire()
        lock.check()
        clock.shift_ms = 31000  # as after a pause of this process
        with pytest.raises(holdfast.LockLost):
            lock.check()
        wait_until(lambda: lost == [lock], "the loss is reported")
        with pytest.raises(holdfast.LockLost):
            lock.release()
        with pytest.raises(holdfast.LockLost):
            with client.lock("block"):
                clock.shift_ms += 31000


def test_a_lock_that_is_lost_alone_is_given_back(make_cluster):
    cluster = make_cluster()
    client = client_of(cluster, session_ttl=15)
    clock = ShiftedClock()
    client.engine.clock = client.engine.caller.clock = client.engine.locks._clock = clock
    with client, client_of(cluster) as other:
        lost = []
        with client.lock("stays"):
            lock = client.lock("short", ttl=8, on_lost=lost.append).acquire()
            clock.shift_ms = 8000
            wait_until(lambda: lost == [lock], "the loss is reported")
            with other.lock("short", wait=30) as later:  # keep-alives of the session would keep it
                assert later.fence_token > lock.fence_token
            with pytest.raises(holdfast.LockLost):
                lock.release()


def test_jeopardy_is_reported_and_its_end(make_cluster):
    cluster = make_cluster(1)
    node = cluster.nodes[1]
    client = client_of(cluster, session_ttl=30)
    clock = ShiftedClock()
    client.engine.clock = client.engine.caller.clock = client.engine.locks._clock = clock
    with client:
        events = []
        lock = client.lock("late", on_jeopardy=lambda _: events.append("jeopardy"), on_safe=lambda _: events.append("safe"),
                           on_lost=lambda _: events.append("lost")).acquire()
        node.signal(signal.SIGSTOP)
        clock.shift_ms = 20000  # two thirds of the TTL
        wait_until(lambda: events, "jeopardy is reported")
        assert lock.in_jeopardy and 0 < lock.safe_for <= 10
        node.signal(signal.SIGCONT)
        wait_until(lambda: len(events) > 1, "its end is reported")
        assert events == ["jeopardy", "safe"]
        lock.check()


def test_a_revocation_is_reported_before_the_loss(make_cluster):
    cluster = make_cluster()
    with client_of(cluster) as client, client_of(cluster) as other:
        requests, lost = [], []
        kept = client.lock("kept", on_lost=lost.append).acquire()

        def give_back(lock, revocation):
            requests.append(revocation)
            lock.release()

        given = client.lock("given", on_revoke=give_back, on_lost=lost.append).acquire()
        for name, deadline_ms in (("given", 60000), ("kept", 100)):
            answer = cluster.leader().request("POST", f"/api/v1/locks/{name}/revoke", {
                "actor_id": "operator", "reason": "upgrade", "deadline_ms": deadline_ms})
            assert answer.status == 200, answer
        with other.lock("given", wait=30):
            pass
        (revocation,) = requests
        assert (revocation.actor, revocation.reason) == ("operator", "upgrade")
        assert revocation.deadline is not None and revocation.deadline.tzinfo is not None
        wait_until(lambda: lost == [kept], "only the lock that was kept is lost")
        with pytest.raises(holdfast.NotHeld):
            given.check()


def test_force_unlock_is_reported(make_cluster):
    cluster = make_cluster()
    with client_of(cluster) as client:
        lost = []
        lock = client.lock("forced", on_lost=lost.append).acquire()
        answer = cluster.leader().request("POST", "/api/v1/locks/forced/force-unlock",
                                          {"actor_id": "operator", "reason": "a test"})
        assert answer.status == 200, answer
        wait_until(lambda: lost, "the loss is reported")
        with pytest.raises(holdfast.LockLost) as raised:
            lock.check()
        assert raised.value.code == "forced"


@pytest.mark.parametrize("tier", [holdfast.CORRECTNESS, holdfast.EFFICIENCY])
def test_a_loss_that_no_stream_reported_is_found_by_a_keepalive(make_cluster, monkeypatch, tier):
    cluster = make_cluster()

    async def hear_nothing(session):
        await asyncio.Event().wait()

    monkeypatch.setattr(Session, "_listen", hear_nothing)
    with client_of(cluster, session_ttl=3) as client:
        lost = []
        kept = [client.lock(f"kept/{number}", tier=each, on_lost=lost.append).acquire()
                for number, each in enumerate((holdfast.CORRECTNESS, holdfast.EFFICIENCY))]
        gone = client.lock("gone", tier=tier, on_lost=lost.append).acquire()
        answer = cluster.leader().request("POST", "/api/v1/locks/gone/force-unlock", {"actor_id": "operator", "reason": "a test"})
        assert answer.status == 200, answer
        wait_until(lambda: lost, "a keep-alive finds the loss")
        assert lost == [gone]
        with pytest.raises(holdfast.LockLost) as raised:
            gone.check()
        assert raised.value.code == "forced"
        for lock in kept:
            lock.check()


def test_locks_that_come_and_go_are_not_lost_by_the_comparison(make_cluster):
    """Each keep-alive is compared with a state in which other locks were acquired and released meanwhile."""
    cluster = make_cluster()
    with client_of(cluster, session_ttl=1) as client:  # a keep-alive every 333 ms
        lost = []
        kept = client.lock("kept", on_lost=lost.append).acquire()
        end = time.monotonic() + 4

        def come_and_go(name):
            while time.monotonic() < end:
                client.lock(name, on_lost=lost.append).acquire().release()

        threads = [threading.Thread(target=come_and_go, args=(f"n/{number}",)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        kept.check()
        assert not lost

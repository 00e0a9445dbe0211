"""The fake: the real facades on a cluster in memory, with a manual clock."""

import asyncio
import threading

import pytest

import holdfast
from harness import wait_until
from holdfast.pytest_plugin import holdfast_cluster  # noqa: F401


@pytest.fixture
def fake(holdfast_cluster):  # noqa: F811
    return holdfast_cluster


def test_clients_exclude_each_other_and_tokens_rise(fake):
    with fake.client("a") as a, fake.client("b") as b:
        with a.lock("n") as lock:
            with pytest.raises(holdfast.NotAcquired) as refused:
                b.lock("n", wait=0).acquire()
            assert refused.value.holder == {"client_id": "a"}
        with b.lock("n", wait=0) as later:
            assert later.fence_token > lock.fence_token
            assert fake.holders("n") == ["b"]


def test_a_connected_client_keeps_its_locks(fake):
    with fake.client(session_ttl=30) as client, client.lock("n", ttl=10) as lock:
        fake.advance(3600)
        lock.check()
        assert 9 < lock.safe_for < 10


def test_a_disconnected_client_loses_its_locks_by_the_clock(fake):
    with fake.client("a", session_ttl=30) as a, fake.client("b") as b:
        lost = []
        lock = a.lock("n", ttl=10, on_lost=lost.append).acquire()
        fake.disconnect(a)
        fake.advance(9.98)
        lock.check()
        assert lock.in_jeopardy and not lost
        fake.advance(0.01)
        assert lost == [lock]
        with pytest.raises(holdfast.LockLost):
            lock.check()
        assert b.lock("n", wait=0).try_acquire() is None, "the service still has it: the client gave up first"
        fake.advance(0.02)
        fake.connect(a)
        assert b.lock("n", wait=0).acquire().fence_token > lock.fence_token
        assert not lock.held


def test_a_lock_is_lost_on_demand(fake):
    with fake.client() as client:
        lost = []
        with pytest.raises(holdfast.LockLost) as raised:
            with client.lock("n", on_lost=lost.append) as lock:
                fake.lose(lock)
                assert lost == [lock] and fake.holders("n") == []
        assert raised.value.code == "forced"


def test_waits_end_by_release_and_by_the_clock(fake):
    with fake.client("a") as a, fake.client("b") as b:
        lock = a.lock("n").acquire()
        results = []

        def wait():
            try:
                results.append(b.lock("n", wait=5).acquire())
            except holdfast.WaitTimeout as error:
                results.append(error)

        for end in (lambda: fake.advance(5), lock.release):
            thread = threading.Thread(target=wait)
            thread.start()
            wait_until(lambda: fake.waiters("n") == 1, "it waits")
            end()
            thread.join()
        assert isinstance(results[0], holdfast.WaitTimeout)
        results[1].check()


def test_asyncio_cancellation_leaves_the_queue(fake):
    async def run():
        async with fake.async_client() as client, client.lock("n"):
            waiting = asyncio.create_task(client.lock("n").acquire())
            while fake.waiters("n") == 0:
                await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            while fake.waiters("n") > 0:
                await asyncio.sleep(0)

    asyncio.run(run())


def test_modes(fake):
    with fake.client() as client:
        with client.lock("s", shared=True), client.lock("s", shared=True, wait=0):
            assert client.lock("s", wait=0).try_acquire() is None
        with client.semaphore("p", 2) as one, client.semaphore("p", 2, wait=0) as two:
            assert (one.slot, two.slot) == (0, 1)
            assert client.semaphore("p", 2, wait=0).try_acquire() is None
        with client.multi_lock(["x", "y"]):
            assert client.lock("y", wait=0).try_acquire() is None
        with client.lead("cron"):
            assert client.lead("cron", wait=0).try_acquire() is None


def test_max_hold_ends_a_hold(fake):
    with fake.client() as client:
        lock = client.lock("n", max_hold=60).acquire()
        fake.advance(59)
        lock.check()
        fake.advance(1)
        assert not lock.held and fake.holders("n") == []

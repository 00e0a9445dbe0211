"""The client on a real cluster of three nodes: exclusion, waits, modes, watch, fork."""

import asyncio
import os
import threading

import pytest

import holdfast
from harness import wait_until


@pytest.fixture
def make_client(cluster):
    made = []

    def make(**more):
        made.append(holdfast.Client([node.client for node in cluster], **more))
        return made[-1]

    yield make
    for client in made:
        client.close()


def queue_length(cluster, name):
    answer = cluster.nodes[1].show(name)
    return answer.json["queue_length"] if answer.status == 200 else 0


def test_two_clients_exclude_each_other(make_client):
    first, second = make_client(client_id="first"), make_client()
    with first.lock("wallet:user_123", ttl=30) as lock:
        lock.check()
        assert lock.held and 0 < lock.safe_for < 30 and not lock.in_jeopardy
        with pytest.raises(holdfast.NotAcquired) as refused:
            second.lock("wallet:user_123", wait=0).acquire()
        assert refused.value.code == "held" and refused.value.holder["client_id"] == "first"
        assert second.lock("wallet:user_123", wait=0).try_acquire() is None
        token = lock.fence_token
    with pytest.raises(holdfast.NotHeld):
        lock.check()
    with second.lock("wallet:user_123", wait=0) as lock:
        assert lock.fence_token > token


def test_two_handles_of_a_client_exclude_each_other(make_client):
    client = make_client()
    with client.lock("own"):
        with pytest.raises(holdfast.WaitTimeout):
            client.lock("own", wait=0.2).acquire()


def test_release_is_idempotent(make_client, cluster):
    lock = make_client().lock("twice").acquire()
    lock.release()
    lock.release()
    assert cluster.nodes[1].show("twice").status == 404 or not cluster.nodes[1].show("twice").json["held"]


def test_a_waiter_gets_the_lock_when_it_is_released(make_client, cluster):
    first, second = make_client(), make_client()
    lock = first.lock("handed").acquire()
    got = []
    thread = threading.Thread(target=lambda: got.append(second.lock("handed", wait=60).acquire()))
    thread.start()
    wait_until(lambda: queue_length(cluster, "handed") == 1, "it waits")
    lock.release()
    thread.join()
    got[0].check()
    assert got[0].fence_token > lock.fence_token


def test_a_cancelled_wait_leaves_the_queue(cluster):
    async def run():
        async with holdfast.AsyncClient([node.client for node in cluster]) as client:
            async with client.lock("left", ttl=30):
                waiting = asyncio.create_task(client.lock("left").acquire())
                await asyncio.to_thread(wait_until, lambda: queue_length(cluster, "left") == 1, "it waits")
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
                await asyncio.to_thread(wait_until, lambda: queue_length(cluster, "left") == 0, "it left")

    asyncio.run(run())


def test_asyncio_excludes_and_releases(cluster):
    async def run():
        async with holdfast.AsyncClient([node.client for node in cluster]) as client:
            inside = []

            @client.lock("decorated")
            async def work(number):
                inside.append(number)
                assert len(inside) == 1
                await asyncio.sleep(0)
                inside.remove(number)
                return number

            assert await asyncio.gather(*(work(i) for i in range(5))) == list(range(5))
            async with client.lock("decorated", wait=0) as lock:
                assert lock.held

    asyncio.run(run())


def test_shared_semaphore_multi_lock_and_election(make_client):
    first, second = make_client(), make_client()
    with first.lock("s", shared=True), second.lock("s", shared=True, wait=0):
        assert second.lock("s", wait=0).try_acquire() is None
    with first.semaphore("pool", 2) as one, second.semaphore("pool", 2, wait=0) as two:
        assert {one.slot, two.slot} == {0, 1}
        assert second.semaphore("pool", 2, wait=0).try_acquire() is None
    with first.multi_lock(["m1", "m2"]) as both:
        assert both.name == "m1, m2"
        assert second.lock("m2", wait=0).try_acquire() is None
    with second.lock("m2", wait=0):
        pass
    with first.lead("cron", "host-1") as leader:
        leader.check()
        assert second.lead("cron", "host-2", wait=0).try_acquire() is None
    with second.lead("cron", "host-2", wait=0):
        pass


def test_a_renewal_sets_the_ttl(make_client):
    client = make_client()
    with client.lock("renewed", ttl=2) as lock:
        lock.renew(20)
        assert lock.safe_for > 10
    with client.lead("renewed-leader", ttl=2) as leader:
        leader.renew(20)
        assert leader.safe_for > 10


def test_a_decorator_holds_the_lock_during_each_call(make_client):
    client = make_client()

    @client.lock("job", ttl=30)
    def job():
        return client.lock("job", wait=0).try_acquire()

    assert job() is None and job() is None


def test_a_watch_yields_events_in_order_and_can_be_closed(make_client):
    client = make_client()
    with client.lock("w/before"):
        pass
    with client.watch("w/") as watch:
        seen = []
        ready = threading.Event()

        def read():
            for event in watch:
                seen.append((event.type, event.data["name"]))
                ready.set()

        thread = threading.Thread(target=read)
        thread.start()

        def once():
            with client.lock("w/1"):
                pass
            return ready.is_set()

        wait_until(once, "the first event")
        wait_until(lambda: ("released", "w/1") in seen, "its end")
        watch.close()
        thread.join()
    assert seen[0] in (("granted", "w/1"), ("released", "w/1"))
    assert all(name == "w/1" for _, name in seen)


def test_a_wrong_argument_is_an_error_with_the_code_of_the_service(make_client):
    with pytest.raises(holdfast.Invalid) as wrong:
        make_client().lock("a//b", wait=0).acquire()
    assert wrong.value.code.startswith("invalid")


def test_after_fork_the_client_and_its_handles_raise(make_client):
    client = make_client()
    with client.lock("forked") as lock:
        child = os.fork()
        if child == 0:
            raised = 0
            for use in (lock.check, lock.release, lambda: lock.fence_token, lambda: lock.held, client.lock("x").acquire):
                try:
                    use()
                except holdfast.Forked:
                    raised += 1
            client.close()
            os._exit(raised)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
        lock.check()


def test_without_a_node_a_call_fails_with_the_reason():
    with holdfast.Client("127.0.0.1:1", timeout=0.5) as client:
        with pytest.raises(holdfast.Unreachable, match="127.0.0.1:1"):
            client.lock("x").acquire()


def test_a_closed_client_holds_nothing_and_refuses(make_client, cluster):
    client = make_client()
    lock = client.lock("closed").acquire()
    client.close()
    client.close()
    assert cluster.nodes[1].show("closed").status == 404 or not cluster.nodes[1].show("closed").json["held"]
    assert not lock.held
    with pytest.raises(holdfast.Closed):
        client.lock("closed").acquire()

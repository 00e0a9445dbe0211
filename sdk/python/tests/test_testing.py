"""The fake: the real facades on a cluster in memory, with a manual clock."""

import asyncio
import concurrent.futures
import threading

import pytest

import holdfast
from harness import wait_until
from holdfast.http import Broken
from holdfast.pytest_plugin import holdfast_cluster  # noqa: F401
from holdfast.session import Session
from holdfast.testing import _FakeTransport


@pytest.fixture
def fake(holdfast_cluster):  # noqa: F811
    return holdfast_cluster


def test_clients_exclude_each_other_and_tokens_rise(fake):
    with fake.client("a") as a, fake.client("b") as b:
        with a.lock("n") as lock:
            with pytest.raises(holdfast.NotAcquired) as refused:
                b.lock("n", wait=0).acquire()
            assert refused.value.holder["client_id"] == "a"
        with b.lock("n", wait=0) as later:
            assert later.fence_token > lock.fence_token
            assert fake.holders("n") == ["b"]


def test_a_connected_client_keeps_its_locks(fake):
    with fake.client(session_ttl=30) as client, client.lock("n", ttl=10) as lock:
        fake.advance(3600)
        lock.check()
        assert 6 < lock.safe_for < 10 and not lock.in_jeopardy


def test_a_disconnected_client_loses_its_locks_by_the_clock(fake):
    with fake.client("a", session_ttl=30) as a, fake.client("b") as b:
        events = []
        lock = a.lock("n", ttl=10, on_jeopardy=lambda _: events.append("jeopardy"), on_safe=lambda _: events.append("safe"),
                      on_lost=lambda _: events.append("lost")).acquire()
        fake.disconnect(a)
        fake.advance(9.98)
        lock.check()
        assert lock.in_jeopardy and events == ["jeopardy"]
        fake.advance(0.01)
        assert events == ["jeopardy", "lost"]
        with pytest.raises(holdfast.LockLost):
            lock.check()
        assert b.lock("n", wait=0).try_acquire() is None, "the service still has it: the client gave up first"
        fake.advance(0.02)
        fake.connect(a)
        assert b.lock("n", wait=0).acquire().fence_token > lock.fence_token
        fake.advance(60)
        assert not lock.held, "a loss is final"
        with pytest.raises(holdfast.LockLost):
            lock.release()


def test_jeopardy_ends_with_a_confirmation(fake):
    with fake.client(session_ttl=9) as client:
        events = []
        lock = client.lock("n", on_jeopardy=lambda _: events.append("jeopardy"), on_safe=lambda _: events.append("safe")).acquire()
        fake.disconnect(client)
        fake.advance(7)
        late = []
        lock.on_jeopardy(late.append)
        fake.settle()
        assert late == [lock], "a callback that is registered late is called, too"
        fake.connect(client)
        fake.advance(3)
        assert events == ["jeopardy", "safe"]
        lock.check()


def test_a_lock_is_lost_on_demand(fake):
    with fake.client() as client:
        lost = []
        with pytest.raises(holdfast.LockLost) as raised:
            with client.lock("n", on_lost=lost.append) as lock:
                fake.lose(lock)
                assert lost == [lock] and fake.holders("n") == []
        assert raised.value.code == "forced"


@pytest.fixture
def late_streams(monkeypatch):
    """The streams of sessions begin a second after their locks were lost: only keep-alives find the losses."""
    listen = Session._listen

    async def listen_later(session):
        await asyncio.sleep(1)
        await listen(session)

    monkeypatch.setattr(Session, "_listen", listen_later)


def test_a_loss_before_the_stream_of_the_session_has_its_reason(fake, late_streams):
    with fake.client() as client:
        lost = []
        locks = [client.lock(name, on_lost=lambda lock: lost.append((lock.name, lock_code(lock)))).acquire() for name in "abc"]
        fake.lose(locks[1])
        assert lost == [("b", "forced")]
        fake.lose(locks[2], "max_hold")
        assert lost[1:] == [("c", "max_hold")]
        locks[0].check()


def test_a_loss_is_reported_without_its_reason_if_no_renewal_is_answered(fake, late_streams, monkeypatch):
    request = _FakeTransport.request
    renewals = []

    async def answer_no_renewal(transport, endpoint, method, path, body, timeout):
        if path.endswith("/renew"):
            renewals.append(path)
            await asyncio.sleep(timeout)
            raise Broken("no answer in time")
        return await request(transport, endpoint, method, path, body, timeout)

    monkeypatch.setattr(_FakeTransport, "request", answer_no_renewal)
    with fake.client() as client:
        locks = [client.lock(name).acquire() for name in "abc"]
        fake.use(lambda service: [service.end(service.grant_of(lock.fence_token), "forced", fake.clock.now_ms()) for lock in locks[:2]])
        fake.advance(1)
        assert [lock.held for lock in locks] == [True] * 3, "a keep-alive has found the loss, the renewal waits"
        fake.advance(0.5)
        assert [lock_code(lock) for lock in locks[:2]] == ["unknown"] * 2 and len(renewals) == 1
        locks[2].check()


def lock_code(lock):
    with pytest.raises(holdfast.LockLost) as raised:
        lock.check()
    return raised.value.code


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


def test_another_thread_cancels_a_wait(fake):
    with fake.client() as client, client.lock("n"):
        request = client.lock("n")
        ends = []

        def wait():
            with pytest.raises(concurrent.futures.CancelledError):
                request.acquire()
            ends.append(True)

        waiting = threading.Thread(target=wait)
        waiting.start()
        wait_until(lambda: fake.waiters("n") == 1, "it waits")
        request.cancel()
        waiting.join()
        wait_until(lambda: fake.waiters("n") == 0, "it left")
        with pytest.raises(concurrent.futures.CancelledError):
            request.acquire()
        assert ends == [True]
        fake.settle()
        assert fake.holders("n") == ["test"] and fake.waiters("n") == 0


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


def test_a_lock_that_is_lost_alone_is_given_back(fake):
    with fake.client() as client, client.lock("long") as long:
        short = client.lock("short", max_hold=3600).acquire()
        fake.advance(3600 - 3.605)  # the margin of C1.4
        with pytest.raises(holdfast.LockLost) as lost:
            short.check()
        assert lost.value.code == "max_hold"
        assert fake.holders("short") == [], "before its end at the service"
        long.check()


def test_a_revocation_is_reported_and_a_release_obeys_it(fake):
    with fake.client() as client:
        requests = []

        def give_back(lock, revocation):
            requests.append(revocation)
            lock.release()

        given, kept = client.lock("given", on_revoke=give_back).acquire(), client.lock("kept").acquire()
        fake.revoke(given, 5, reason="upgrade", actor="operator")
        fake.revoke(kept, 5)
        ((actor, reason, deadline),) = requests
        assert (actor, reason) == ("operator", "upgrade") and deadline.timestamp() == fake.clock.now_ms() / 1000 + 5
        assert fake.holders("given") == [] and fake.holders("kept") == ["test"]
        fake.advance(5)
        with pytest.raises(holdfast.LockLost) as lost:
            kept.check()
        assert lost.value.code == "revoked"


def test_a_failover_loses_the_locks_of_the_tier_efficiency(fake):
    with fake.client() as client, client.lock("kept") as kept:
        lost = []
        lock = client.lock("fast", tier=holdfast.EFFICIENCY, on_lost=lost.append).acquire()
        fake.change_leader()
        fake.advance(30)
        assert lost == [lock] and fake.holders("fast") == []
        kept.check()
        with client.lock("fast", tier=holdfast.EFFICIENCY, wait=0) as again:
            assert again.fence_token > lock.fence_token


def test_a_renewal_sets_the_ttl(fake):
    with fake.client(timeout=1) as client:
        lock = client.lock("n", ttl=2).acquire()
        lock.renew(20)
        assert lock.safe_for > 19
        with pytest.raises(holdfast.Invalid):
            lock.renew(0.01)
        fake.disconnect(client)
        late = threading.Thread(target=lambda: pytest.raises(holdfast.OutcomeUnknown, lock.renew, 2))
        late.start()
        wait_until(lambda: fake.advance(0.1) or not late.is_alive(), "it gives up")
        fake.connect(client)
        lock.release()
        with pytest.raises(holdfast.NotHeld):
            lock.renew(8)


def test_a_release_during_a_disconnection_is_repeated(fake):
    with fake.client(timeout=3) as client:
        lock = client.lock("n").acquire()
        fake.disconnect(client)
        release = threading.Thread(target=lambda: pytest.raises(holdfast.OutcomeUnknown, lock.release))
        release.start()
        wait_until(lambda: not lock.held, "from the call on it is not held")
        wait_until(lambda: fake.advance(0.1) or not release.is_alive(), "the call gives up")
        assert fake.holders("n") == ["test"]
        fake.connect(client)
        fake.advance(3)
        assert fake.holders("n") == []


def test_a_new_session_follows_a_lost_one(fake):
    with fake.client() as client:
        lost = client.lock("n").acquire()
        fake.disconnect(client)
        fake.advance(40)
        fake.connect(client)
        fake.advance(3)  # the circuit of the node closes
        with client.lock("n") as again:
            assert again.fence_token > lost.fence_token
        with pytest.raises(holdfast.LockLost):
            lost.check()


def test_a_watch_ends_and_resumes(fake):
    with fake.client() as client:
        watch = client.watch("w/")
        seen = []

        def read():
            for event in watch:
                seen.append(f"{event.type} {event.data['name']}")

        reading = threading.Thread(target=read)
        reading.start()
        wait_until(lambda: watch.last_id is not None, "it has begun")
        for name in ("w/1", "other", "w/2"):
            client.lock(name).acquire().release()
        wait_until(lambda: len(seen) == 4, "all are read")
        watch.close()
        reading.join()
        assert seen == ["granted w/1", "released w/1", "granted w/2", "released w/2"]
        client.lock("w/3").acquire().release()
        resumed = client.watch("w/", watch.last_id)
        assert [next(resumed).data["name"], next(resumed).type] == ["w/3", "released"]
    with pytest.raises(StopIteration):
        next(resumed)


def test_asyncio_watches_and_reports(fake):
    async def run():
        async with fake.async_client() as client:
            events = client.watch("w/")
            for _ in range(2):
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(events.__anext__(), 0.01)
            await asyncio.to_thread(wait_until, lambda: events.last_id is not None, "it has begun")
            lost = asyncio.Event()
            lock = await client.lock("w/1", on_lost=lambda _: lost.set()).acquire()
            await asyncio.to_thread(fake.lose, lock)
            await lost.wait()
            seen = [await events.__anext__(), await events.__anext__()]
            assert [event.type for event in seen] == ["granted", "forced"]

            @client.lock("w/2")
            async def decorated():
                return fake.holders("w/2")

            assert await decorated() == ["test"] and fake.holders("w/2") == []
            last_id = events.last_id
            events.close()
            assert [event async for event in events] == []
            async with client.watch("w/", last_id) as resumed:
                assert (await resumed.__anext__()).data["name"] == "w/2"
            ending = client.watch("w/")
            last = asyncio.ensure_future(ending.__anext__())
            await asyncio.to_thread(wait_until, lambda: ending.last_id is not None, "it has begun")
        with pytest.raises(StopAsyncIteration):
            await last

    asyncio.run(run())


def test_a_decorator_and_an_election(fake):
    with fake.client("a") as client:
        @client.lock("job", ttl=30)
        def job():
            return fake.holders("job")

        assert job() == ["a"] and fake.holders("job") == []
        with client.lead("cron", "host-1") as leader:
            leader.check()
            assert fake.holders("cron") == ["a"]


def test_a_callback_may_use_the_client_and_the_cluster(fake):
    with fake.client() as client:
        done = []

        def again(lock):
            fake.advance(1)
            done.append(client.lock("n", wait=0).acquire())

        lock = client.lock("n", on_lost=again).acquire()
        fake.lose(lock)
        assert done[0].held and done[0].fence_token > lock.fence_token


def test_a_disconnected_client_can_be_closed(fake):
    with fake.client() as client:
        client.lock("n").acquire()
        fake.disconnect(client)
    assert fake.holders("n") == []


def test_a_client_can_be_closed_while_its_node_rests(fake):
    with fake.client() as client:
        client.lock("n").acquire()
        fake.disconnect(client)
        fake.advance(13.12)  # the third keep-alive has failed, and opened the circuit for 125 ms or more
        node = client.engine.caller.endpoints.all[0]
        assert node.open and not node.may_try(fake.clock.now_ms())
    assert fake.holders("n") == []


def test_a_closed_client_holds_nothing(fake):
    client = fake.client()
    lock = client.lock("n").acquire()
    client.close()
    client.close()
    assert not lock.held and fake.holders("n") == []
    with pytest.raises(holdfast.Closed):
        client.lock("n").acquire()
    fake.advance(60)


# --- the fake behaves as the service does ---


def code_of(call):
    """The code of the refusal; the slot or None of a grant, which is released."""
    try:
        lock = call()
    except holdfast.HoldfastError as error:
        return type(error).__name__, error.code
    slot = lock.slot
    lock.release()
    return slot


def run_the_script(first, second, force_unlock):
    """Refusals, grants and events of a short life, without times."""
    watch = first.watch("s/")
    seen = []

    def read():
        for event in watch:
            seen.append((event.type, event.data["name"], event.data.get("client_id"), event.data.get("mode"), event.data.get("part"),
                         event.data.get("ended"), event.data.get("reason"), event.data.get("value"), event.data.get("vacant")))

    reading = threading.Thread(target=read)
    reading.start()
    wait_until(lambda: watch.last_id is not None, "the watch has begun")
    codes = []
    lock = first.lock("s/n", lock_delay=60, metadata={"a": 1}).acquire()
    for call in (lambda: second.lock("s/n", wait=0), lambda: second.lock("s/n", wait=0, shared=True),
                 lambda: second.semaphore("s/n", 2, wait=0), lambda: second.lead("s/n", wait=0),
                 lambda: second.multi_lock(["s/free", "s/n"], wait=0), lambda: second.lock("s/n", wait=0, tier=holdfast.EFFICIENCY),
                 lambda: second.semaphore("s/p", 2, 3, wait=0)):
        codes.append(code_of(call().acquire))
    with pytest.raises(holdfast.NotAcquired) as refused:
        second.lock("s/n", wait=0).acquire()
    codes.append((sorted(refused.value.holder), refused.value.holder["metadata"], refused.value.queue_length))
    with first.semaphore("s/p", 2) as permit:
        codes += [permit.slot, code_of(second.semaphore("s/p", 2, wait=0).acquire), code_of(second.semaphore("s/p", 3, wait=0).acquire),
                  code_of(second.semaphore("s/p", 2, 2, wait=0).acquire)]
    with first.multi_lock(["s/x", "s/y"]):
        codes.append(code_of(second.lock("s/y", wait=0).acquire))
    with first.lead("s/e", "v1"):
        codes.append(code_of(second.lead("s/e", wait=0).acquire))
    with first.lock("s/r", shared=True), second.lock("s/r", shared=True, wait=0):
        codes.append(code_of(first.lock("s/r", wait=0).acquire))
    force_unlock(lock)
    codes.append(code_of(second.lock("s/n", wait=0).acquire))
    wait_until(lambda: not lock.held, "the loss is reported")
    codes.append(code_of(lambda: lock.check()))
    second.lock("s/last").acquire().release()
    wait_until(lambda: seen and seen[-1][:2] == ("released", "s/last"), "all events")
    watch.close()
    reading.join()
    return codes, seen


def test_the_fake_answers_and_reports_as_the_service_does(fake, cluster):
    with fake.client("first") as first, fake.client("second") as second:
        of_the_fake = run_the_script(first, second, fake.lose)
    nodes = [node.client for node in cluster]

    def force_unlock(lock):
        answer = cluster.leader().request("POST", "/api/v1/locks/s%2Fn/force-unlock", {"actor_id": "test", "reason": "test"})
        assert answer.status == 200, answer

    with holdfast.Client(nodes, client_id="first") as first, holdfast.Client(nodes, client_id="second") as second:
        of_the_service = run_the_script(first, second, force_unlock)
    assert of_the_fake[0] == of_the_service[0]
    assert of_the_fake[1] == of_the_service[1]


@pytest.mark.parametrize("wrong, said", [
    (lambda client: client.lock(5), "name of a lock must be a string, not 5"),
    (lambda client: client.lock("n", ttl="30"), "ttl is '30', and must be a number of seconds"),
    (lambda client: client.lock("n", ttl=0.1), "ttl is 0.1 s, and must be at least 1.0 s"),
    (lambda client: client.lock("n", wait=float("nan")), "wait is nan"),
    (lambda client: client.lock("n", wait=float("inf")), "wait is inf"),
    (lambda client: client.lock("n", wait=-1), "wait is -1 s"),
    (lambda client: client.semaphore("n", 2, max_hold=0), "max_hold is 0 s"),
    (lambda client: client.lead("n", lock_delay=-1), "lock_delay is -1 s"),
    (lambda client: client.lock("n", metadata=object()), "metadata cannot be written as JSON"),
    (lambda client: client.multi_lock("ab"), "must be a list, not 'ab'"),
])
def test_a_wrong_argument_is_refused_where_it_is_written(fake, wrong, said):
    with fake.client() as client, pytest.raises(holdfast.Invalid) as refused:
        wrong(client)
    assert said in str(refused.value) and refused.value.code.startswith("invalid_")

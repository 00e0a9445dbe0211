"""A fake for tests of applications: the real facades and the real arithmetic on a cluster in memory, with a manual clock.

    cluster = FakeCluster()
    with cluster.client("a") as client, client.lock("job", ttl=10) as lock:
        cluster.advance(60)          # keep-alives work: still held
        cluster.lose(lock)           # or: cluster.disconnect(client); cluster.advance(31)
        with pytest.raises(LockLost):
            lock.check()

Time moves only by `advance`, also for the end of a wait. Watches are not part of the fake."""

import asyncio
import threading
from typing import Any, Dict, List, Optional, Set, Union

from .aio import AsyncClient
from .client import Client
from .deadline import Life, LockLife
from .engine import Engine
from .errors import Closed, HoldfastError, LockLost, NotHeld
from .handle import Handle
from .held import HELD, LOST, RELEASED, Held
from .locks import refusal
from .request import Request, milliseconds

PATIENCE_S = 30.0  # until a callback of the application counts as hanging


class _Waiter:
    def __init__(self, owner: "_FakeLocks", request: Request, now_ms: int) -> None:
        self.owner = owner
        self.request = request
        self.until_ms = None if request.wait is None else now_ms + milliseconds(request.wait, "wait")
        self.held: Optional[Held] = None
        self.ended = asyncio.Event()


class _Grant:
    def __init__(self, owner: "_FakeLocks", held: Held) -> None:
        self.owner = owner
        self.held = held
        self.hold_until_ms: Optional[int] = held.life.hold and held.life.hold.confirmed_ms + held.life.hold.ttl_ms

    def ends_ms(self) -> int:
        """At the service, which knows no margin."""
        life, session = self.held.life.known, self.owner.life
        ends_ms = min(max(life.confirmed_ms, session.confirmed_ms) + life.ttl_ms, session.confirmed_ms + session.ttl_ms)
        return ends_ms if self.hold_until_ms is None else min(ends_ms, self.hold_until_ms)


class FakeCluster:
    """The service, its clock and its clients."""

    def __init__(self) -> None:
        self._now_ms = 1_000_000
        self._tokens = 0
        self._grants: List[_Grant] = []
        self._queue: List[_Waiter] = []
        self._clients: List["_FakeLocks"] = []
        self._mutex = threading.RLock()

    def now_ms(self) -> int:
        return self._now_ms

    def client(self, client_id: str = "test", session_ttl: float = 30) -> "FakeClient":
        return FakeClient(_FakeEngine(self, client_id, session_ttl))

    def async_client(self, client_id: str = "test", session_ttl: float = 30) -> "FakeAsyncClient":
        return FakeAsyncClient(_FakeEngine(self, client_id, session_ttl))

    # --- what a test does to it ---

    def advance(self, seconds: float) -> None:
        """Lets time pass: with keep-alives for connected clients, without for others. Callbacks of losses have run."""
        with self._mutex:
            clients = list(self._clients)
            self._now_ms += milliseconds(seconds, "seconds")
            for locks in clients:
                locks.confirm(self._now_ms)
        for locks in clients:
            locks.run_tick()
        with self._mutex:
            self._grants = [grant for grant in self._grants if grant.ends_ms() > self._now_ms]
            self.pump()

    def disconnect(self, client: Union[Client, AsyncClient]) -> None:
        """Its keep-alives do not arrive any longer."""
        _locks_of(client).connected = False

    def connect(self, client: Union[Client, AsyncClient]) -> None:
        locks = _locks_of(client)
        locks.run_tick()  # what is lost stays lost
        locks.connected = True

    def lose(self, lock: Handle, why: str = "forced") -> None:
        """Loses this lock now, as after a force-unlock. Its callbacks have run when this returns."""
        with self._mutex:
            self._grants = [grant for grant in self._grants if grant.held is not lock._held]
        locks = lock._engine.locks
        assert isinstance(locks, _FakeLocks)
        locks.run_lose(lock._held, why)
        with self._mutex:
            self.pump()

    def holders(self, name: str) -> List[str]:
        """The client ids."""
        with self._mutex:
            return [grant.owner.client_id for grant in self._grants if name in grant.held.request.names]

    def waiters(self, name: str) -> int:
        with self._mutex:
            return sum(1 for waiter in self._queue if name in waiter.request.names)

    # --- the service ---

    def enqueue(self, waiter: _Waiter) -> None:
        with self._mutex:
            self._queue.append(waiter)
            self.pump()

    def leave(self, waiter: _Waiter) -> None:
        with self._mutex:
            if waiter in self._queue:
                self._queue.remove(waiter)
                self.pump()

    def end(self, held: Held) -> bool:
        """False: the service had ended it before."""
        with self._mutex:
            before = len(self._grants)
            self._grants = [grant for grant in self._grants if grant.held is not held]
            self.pump()
            return len(self._grants) < before

    def end_client(self, locks: "_FakeLocks") -> None:
        with self._mutex:
            self._grants = [grant for grant in self._grants if grant.owner is not locks]
            self._queue = [waiter for waiter in self._queue if waiter.owner is not locks]
            self._clients.remove(locks)
            self.pump()

    def join(self, locks: "_FakeLocks") -> None:
        with self._mutex:
            self._clients.append(locks)

    def pump(self) -> None:
        """Strict queues (S6.1): grants what is first in all of its queues and fits; ends waits that are over."""
        blocked: Set[str] = set()
        for waiter in list(self._queue):
            names = set(waiter.request.names)
            if not names & blocked and all(self._fits(name, waiter.request) for name in names):
                self._grant(waiter)
            elif waiter.until_ms is not None and self._now_ms >= waiter.until_ms:
                self._queue.remove(waiter)
                waiter.owner.wake(waiter)
            else:
                blocked |= names

    def _fits(self, name: str, request: Request) -> bool:
        held = [grant.held.request for grant in self._grants if name in grant.held.request.names]
        if request.mode == "shared":
            return all(other.mode == "shared" for other in held)
        if request.mode == "semaphore":
            return (all(other.mode == "semaphore" for other in held)
                    and sum(other.permits for other in held) + request.permits <= request.limit)
        return not held

    def _grant(self, waiter: _Waiter) -> None:
        self._queue.remove(waiter)
        self._tokens += 1024
        waiter.held = waiter.owner.make_held(waiter.request, self._tokens)
        if waiter.request.mode == "semaphore":
            used = {grant.held.slot for grant in self._grants if grant.held.request.names == waiter.request.names}
            waiter.held.slot = next(slot for slot in range(waiter.request.limit) if slot not in used)
        self._grants.append(_Grant(waiter.owner, waiter.held))
        waiter.owner.wake(waiter)


class _FakeLocks:
    """In place of holdfast.locks.Locks. Coroutines and `tick` run on the engine's loop."""

    def __init__(self, cluster: FakeCluster, engine: "_FakeEngine", client_id: str, session_ttl_ms: int) -> None:
        self.cluster = cluster
        self.engine = engine
        self.client_id = client_id
        self.connected = True
        self.life = Life(cluster.now_ms(), session_ttl_ms)
        self._held: Dict[int, Held] = {}
        self._closed = False
        cluster.join(self)

    def session_life(self, held: Held) -> Optional[Life]:
        return None if self._closed else self.life

    def make_held(self, request: Request, token: int) -> Held:
        now_ms = self.cluster.now_ms()
        ttl_ms = self.life.ttl_ms if request.ttl is None else milliseconds(request.ttl, "ttl", 1000)
        hold = None if request.max_hold is None else Life(now_ms, milliseconds(request.max_hold, "max_hold"))
        held = Held(request, "fake", 1, token, LockLife(Life(now_ms, ttl_ms), hold=hold))
        self._held[token] = held
        return held

    def wake(self, waiter: _Waiter) -> None:
        self.engine.call_soon(waiter.ended.set)

    def confirm(self, sent_ms: int) -> None:
        """Keep-alives of a connected client arrive all the time."""
        if self.connected:
            self.life = self.life.confirm(sent_ms)

    async def acquire(self, request: Request) -> Held:
        if self._closed:
            raise Closed("the client was closed")
        waiter = _Waiter(self, request, self.cluster.now_ms())
        self.cluster.enqueue(waiter)
        try:
            await waiter.ended.wait()
        except asyncio.CancelledError:
            self.cluster.leave(waiter)
            if waiter.held is not None:
                self.drop(waiter.held)
            raise
        if waiter.held is None:
            holders = self.cluster.holders(request.names[0])
            holder = {"client_id": holders[0]} if holders else None
            raise refusal(request, {"reason": "held" if request.wait == 0 else "timeout", "holder": holder})
        return waiter.held

    def drop(self, held: Held) -> None:
        held.state = RELEASED
        self._held.pop(held.token, None)
        self.cluster.end(held)

    async def release(self, held: Held) -> None:
        await self.tick()
        if held.state == LOST:
            raise LockLost(f"{held.name} was lost: {held.why}", held.why)
        if held.state == HELD:
            self.drop(held)

    async def renew(self, held: Held, ttl: float) -> None:
        await self.tick()
        if held.state == LOST:
            raise LockLost(f"{held.name} was lost: {held.why}", held.why)
        if held.state == RELEASED:
            raise NotHeld(f"{held.name} was released")
        sent = held.life.renewal_sent(milliseconds(ttl, "ttl", 1000), self.cluster.now_ms())
        held.life = sent.renewal_applied()

    async def close(self, timeout: float) -> None:
        self._closed = True
        for held in list(self._held.values()):
            held.lose("closed")
        self._held.clear()
        self.cluster.end_client(self)

    async def tick(self) -> None:
        for held in list(self._held.values()):
            if self.cluster.now_ms() >= held.safe_until(self.life):
                await self.lose(held, "unconfirmed")

    async def lose(self, held: Held, why: str) -> None:
        self._held.pop(held.token, None)
        held.lose(why)

    def run_tick(self) -> None:
        self.engine.run(self.tick())

    def run_lose(self, held: Held, why: str) -> None:
        self.engine.run(self.lose(held, why))


class _FakeEngine(Engine):
    locks: Any

    def __init__(self, cluster: FakeCluster, client_id: str, session_ttl: float) -> None:
        super().__init__(["fake:1"], client_id, session_ttl, 10, None, None, None, 1, clock=cluster)
        self.locks = _FakeLocks(cluster, self, client_id, milliseconds(session_ttl, "session_ttl", 1000))

    def call_soon(self, callback: Any) -> None:
        self._loop.call_soon_threadsafe(callback)

    def run(self, work: Any) -> None:
        """On the loop; then waits until the callbacks of the application have run, unless this is one of them."""
        self.submit(work).result(PATIENCE_S)
        if threading.current_thread() is not self._dispatcher:
            ran = threading.Event()
            self.dispatch(ran.set)
            if not ran.wait(PATIENCE_S):
                raise HoldfastError(f"a callback has not returned for {PATIENCE_S} s", "hanging")


class FakeClient(Client):
    """holdfast.Client on a FakeCluster."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine


class FakeAsyncClient(AsyncClient):
    """holdfast.AsyncClient on a FakeCluster."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine


def _locks_of(client: Union[Client, AsyncClient]) -> _FakeLocks:
    locks: Any = client.engine.locks
    assert isinstance(locks, _FakeLocks), "this client has no FakeCluster"
    return locks

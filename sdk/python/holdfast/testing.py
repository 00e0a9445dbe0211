"""A fake for tests of applications: the real client on a cluster in memory, with a manual clock.

    cluster = FakeCluster()
    with cluster.client("a") as client, client.lock("job", ttl=10) as lock:
        cluster.advance(60)          # keep-alives arrive: still held
        cluster.lose(lock)           # or: cluster.disconnect(client); cluster.advance(31)
        with pytest.raises(LockLost):
            lock.check()

Time moves only by `advance`, also for timeouts and the end of a wait. Not part of the fake: deadlock detection, TLS and credentials.
Call it from a thread, or by `asyncio.to_thread`, where callbacks or waits need the loop of the test meanwhile."""

import asyncio
import concurrent.futures
import json
import threading
from typing import Any, Callable, Coroutine, Dict, List, Optional, Tuple, TypeVar, Union

from .aio import AsyncClient
from .client import Client
from .endpoints import Endpoint, Endpoints
from .engine import Engine
from .fake_service import FakeGrant, FakeService
from .fake_time import ManualLoop, ManualTime
from .handle import Handle
from .http import Broken, Connection, NotSent, Response, Transport
from .request import milliseconds

T = TypeVar("T")
CONNECT_S = 1.0
RESUME_MS = 5_000  # within which a client resumes its stream
ALIVE_S = 10.0  # a silent stream shows that it is alive


class FakeCluster:
    """The service, its clock and its clients."""

    def __init__(self) -> None:
        self.clock = ManualTime()
        self._service = FakeService()
        self._mutex = threading.RLock()  # of the service
        self._engines: List["_FakeEngine"] = []

    def client(self, client_id: str = "test", session_ttl: float = 30, timeout: float = 10) -> "FakeClient":
        return FakeClient(_FakeEngine(self, client_id, session_ttl, timeout))

    def async_client(self, client_id: str = "test", session_ttl: float = 30, timeout: float = 10) -> "FakeAsyncClient":
        return FakeAsyncClient(_FakeEngine(self, client_id, session_ttl, timeout))

    # --- what a test does to it ---

    def advance(self, seconds: float) -> None:
        """Lets time pass: with keep-alives for connected clients, without for others. Callbacks of losses have run."""
        target_ms = self.clock.now_ms() + milliseconds(seconds, "seconds")
        while True:
            self.settle()
            next_ms = self.use(lambda service: service.next_ms())
            timer_ms = self.clock.next_ms()
            next_ms = next_ms if timer_ms is None else min(next_ms, timer_ms)
            if next_ms > target_ms:
                break
            self._set(next_ms)
        self._set(target_ms)
        self.settle()

    def settle(self) -> None:
        """Waits until all clients have done what they can do now, and the callbacks of the application have run."""
        while True:
            self.clock.settle()
            begun = [engine.callbacks_begun for engine in self._engines]
            for engine in list(self._engines):
                engine.run_callbacks()
            self.clock.settle()
            if begun == [engine.callbacks_begun for engine in self._engines]:
                return

    def disconnect(self, client: Union[Client, AsyncClient]) -> None:
        """Nothing arrives from or at it any longer. Its close connects it."""
        _engine_of(client).transport.connected = False

    def connect(self, client: Union[Client, AsyncClient]) -> None:
        _engine_of(client).transport.connect()
        self.settle()

    def lose(self, lock: Handle, why: str = "forced") -> None:
        """Loses this lock now: the service ends it, as after a force-unlock, and a connected client is notified. Callbacks have run.
        If the client was reconnected just before, some time passes."""
        self._with_grant(lock, lambda service, grant: service.end(grant, why, self.clock.now_ms()))
        engine = lock._engine
        assert isinstance(engine, _FakeEngine)
        until_ms = self.clock.now_ms() + RESUME_MS
        while engine.transport.connected and lock.held and self.clock.now_ms() < until_ms:
            self.advance(0.1)

    def revoke(self, lock: Handle, seconds: float = 30, reason: str = "test", actor: str = "test") -> None:
        """An operator requests the lock and takes it after that time. Callbacks have run."""
        until_ms = self.clock.now_ms() + milliseconds(seconds, "seconds")
        self._with_grant(lock, lambda service, grant: service.request_revocation(grant, until_ms, actor, reason, self.clock.now_ms()))

    def change_leader(self) -> None:
        """A failover: locks of the tier EFFICIENCY are lost, others are not."""
        self.use(lambda service: service.change_leader(self.clock.now_ms()))
        self.settle()

    def holders(self, name: str) -> List[str]:
        """The client ids."""
        return self.use(lambda service: [grant.request.session.client_id for grant in service.grants_of(name)])

    def waiters(self, name: str) -> int:
        return self.use(lambda service: len(service.waiters_of(name)))

    # --- for the clients ---

    def use(self, work: Callable[[FakeService], T]) -> T:
        with self._mutex:
            return work(self._service)

    def _with_grant(self, lock: Handle, work: Callable[[FakeService, FakeGrant], None]) -> None:
        def find_and_work(service: FakeService) -> None:
            grant = service.grant_of(lock.fence_token)
            if grant is not None:
                work(service, grant)

        self.use(find_and_work)
        self.settle()

    def _set(self, now_ms: int) -> None:
        self.use(lambda service: service.sweep(now_ms))
        self.clock.set(now_ms)

    def join(self, engine: "_FakeEngine") -> None:
        self._engines.append(engine)

    def leave(self, engine: "_FakeEngine") -> None:
        if engine in self._engines:
            self._engines.remove(engine)


class _FakeTransport(Transport):
    """In place of holdfast.http.Transport. While it is disconnected, requests do not leave and answers do not arrive."""

    def __init__(self, cluster: FakeCluster, loop: ManualLoop) -> None:
        self.connected = True
        self._cluster = cluster
        self._loop = loop
        self._backlog: List[Callable[[], None]] = []

    def connect(self) -> None:
        self.connected = True
        backlog, self._backlog = self._backlog, []
        for arrive in backlog:
            self._loop.call_soon_threadsafe(arrive)

    def deliver(self, arrive: Callable[[], None]) -> None:
        """From any thread."""
        if self.connected:
            self._loop.call_soon_threadsafe(arrive)
        else:
            self._backlog.append(arrive)

    async def request(self, endpoint: Endpoint, method: str, path: str, body: bytes, timeout: float) -> Response:
        if not self.connected:
            await asyncio.sleep(min(timeout, CONNECT_S))
            raise NotSent("connecting timed out")
        answered: "asyncio.Future[Response]" = self._loop.create_future()

        def answer(status: int, value: Dict[str, Any]) -> None:
            response = Response(status, {}, json.dumps(value).encode())
            self.deliver(lambda: None if answered.done() else answered.set_result(response))

        now_ms = self._cluster.clock.now_ms()
        self._cluster.use(lambda service: service.handle(method, path, body, now_ms, answer))
        try:
            return await asyncio.wait_for(answered, timeout)
        except asyncio.TimeoutError:
            raise Broken("no answer in time") from None

    async def open(self, endpoint: Endpoint) -> "_FakeConnection":
        if not self.connected:
            await asyncio.sleep(CONNECT_S)
            raise NotSent("connecting timed out")
        return _FakeConnection(self._cluster, self)

    def head(self, endpoint: Endpoint, method: str, path: str, length: int, more: str = "") -> bytes:
        return f"{method} {path} HTTP/1.1\r\n{more}\r\n".encode()

    def close_idle(self, endpoint: Endpoint) -> None:
        pass

    def close(self) -> None:
        pass


class _FakeConnection(Connection):
    """In place of holdfast.http.Connection, for a stream of events."""

    def __init__(self, cluster: FakeCluster, transport: _FakeTransport) -> None:
        self._cluster = cluster
        self._transport = transport
        self._lines: "asyncio.Queue[str]" = asyncio.Queue()
        self._end: Callable[[], None] = lambda: None

    async def send(self, head: bytes, body: bytes) -> None:
        request, *headers = head.decode().split("\r\n")
        values = dict(line.split(": ", 1) for line in headers if ": " in line)
        path, last_id = request.split(" ")[1], values.get("Last-Event-ID")
        self._end = self._cluster.use(lambda service: service.subscribe(path, last_id, self._deliver))

    def _deliver(self, text: str) -> None:
        def arrive() -> None:
            for line in text.split("\n")[:-1]:
                self._lines.put_nowait(line)

        self._transport.deliver(arrive)

    async def head(self) -> Tuple[int, Dict[str, str]]:
        return 200, {}

    async def stream_line(self, buffer: bytearray, chunked: bool) -> Optional[str]:
        while True:
            try:
                return await asyncio.wait_for(self._lines.get(), ALIVE_S)
            except asyncio.TimeoutError:
                if self._transport.connected:
                    return ": alive"

    async def exactly(self, size: int) -> bytes:
        return b""

    def close(self) -> None:
        self._cluster.use(lambda service: self._end())


class _FakeEndpoints(Endpoints):
    """A close needs no time to pass, also after failures."""

    is_closing = False

    def pick(self, now_ms: int, avoid: Optional[Endpoint] = None) -> Optional[Endpoint]:
        return self.all[0] if self.is_closing else super().pick(now_ms, avoid)


class _FakeEngine(Engine):
    def __init__(self, cluster: FakeCluster, client_id: str, session_ttl: float, timeout: float) -> None:
        self.cluster = cluster
        loop = ManualLoop(cluster.clock)
        self.transport = _FakeTransport(cluster, loop)
        self.callbacks_begun = 0
        self._awaited: "Optional[concurrent.futures.Future[Any]]" = None  # by a callback
        super().__init__(["fake:1"], client_id, session_ttl, timeout, self.transport, clock=cluster.clock, loop=loop)
        self.caller.endpoints = self._endpoints = _FakeEndpoints(["fake:1"])
        cluster.join(self)

    def dispatch(self, callback: Callable[[], None]) -> None:
        with self.cluster.clock.changed:
            self.callbacks_begun += 1
        super().dispatch(callback)

    def submit(self, work: Coroutine[Any, Any, T], undo: Optional[Callable[[T], None]] = None
               ) -> "concurrent.futures.Future[T]":
        future = super().submit(work, undo)
        if threading.current_thread() is self._dispatcher:
            with self.cluster.clock.changed:
                self._awaited = future
                self.cluster.clock.changed.notify_all()
        return future

    def run_callbacks(self) -> None:
        """Until they have returned, or one waits for time to pass. A callback that calls this does not wait for itself."""
        if threading.current_thread() is self._dispatcher:
            return
        ran: List[bool] = []

        def mark() -> None:
            with self.cluster.clock.changed:
                ran.append(True)
                self.cluster.clock.changed.notify_all()

        def is_over() -> bool:
            waits = self._awaited is not None and not self._awaited.done()
            return bool(ran) or waits and all(loop.is_idle for loop in self.cluster.clock.loops)

        super().dispatch(mark)
        self.cluster.clock.wait_for(is_over)

    def begin_close(self) -> "Optional[concurrent.futures.Future[None]]":
        self.transport.connect()
        self._endpoints.is_closing = True
        return super().begin_close()

    def end_close(self) -> None:
        self.cluster.leave(self)
        super().end_close()


class FakeClient(Client):
    """holdfast.Client on a FakeCluster."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine


class FakeAsyncClient(AsyncClient):
    """holdfast.AsyncClient on a FakeCluster."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine


def _engine_of(client: Union[Client, AsyncClient]) -> _FakeEngine:
    engine = client.engine
    if not isinstance(engine, _FakeEngine):
        raise TypeError("this client was not made by a FakeCluster")
    return engine

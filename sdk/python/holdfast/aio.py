"""The client for asyncio: holdfast.AsyncClient. The engine is the same, on its own thread: a blocked loop delays no keep-alive."""

import asyncio
import concurrent.futures
import functools
from types import TracebackType
from typing import Any, Awaitable, Callable, Optional, Type, TypeVar

from .client import log
from .errors import HoldfastError, LockLost, NotAcquired
from .facade import Callbacks, Facade
from .handle import Handle
from .request import Request
from .watch import AsyncWatch

T = TypeVar("T")
AF = TypeVar("AF", bound=Callable[..., Awaitable[Any]])


async def result_of(future: "concurrent.futures.Future[T]", undo: Optional[Callable[[T], Any]] = None) -> T:
    """Cancelling the task cancels the work. If it was done already, `undo` gets what nobody will receive."""
    try:
        return await asyncio.wrap_future(future)
    except asyncio.CancelledError:
        if not future.cancel() and undo is not None and future.exception() is None:
            undo(future.result())
        raise


class AsyncLock(Handle):
    """A lock that was granted."""

    async def release(self) -> None:
        """Idempotent. Raises LockLost if it was lost before."""
        await result_of(self._engine.submit(self._engine.locks.release(self._held)))

    async def renew(self, ttl: float) -> None:
        """Sets the TTL. The client keeps the lock alive by itself; this only changes how long it outlives its holder."""
        await result_of(self._engine.submit(self._engine.locks.renew(self._held, ttl)))

    def _dispatcher(self) -> Callable[[Callable[[], None]], None]:
        """Callbacks run on the loop that registers them."""
        loop = asyncio.get_running_loop()

        def dispatch(callback: Callable[[], None]) -> None:
            def pass_on() -> None:
                loop.call_soon_threadsafe(callback)
            self._engine.dispatch(pass_on)

        return dispatch

    async def __aenter__(self) -> "AsyncLock":
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                        trace: Optional[TracebackType]) -> None:
        """A loss is raised here unless the block raised something itself."""
        try:
            await self.release()
        except LockLost:
            if error is None:
                raise
        except HoldfastError as failed:
            log.warning("release: %s", failed)


class AsyncLockRequest:
    """`async with client.lock(NAME) as lock`, or a decorator of a coroutine function."""

    def __init__(self, client: "AsyncClient", request: Request, callbacks: Callbacks[AsyncLock]) -> None:
        self._client = client
        self._request = request
        self._callbacks = callbacks
        self._entered: Optional[AsyncLock] = None

    async def acquire(self) -> AsyncLock:
        """Raises NotAcquired, or WaitTimeout, if it is not granted. Cancelling the task leaves the queue."""
        engine = self._client.engine
        held = await result_of(engine.submit(engine.locks.acquire(self._request), engine.locks.drop),
                               lambda late: engine.submit(engine.locks.release(late)))
        return self._callbacks.attach(AsyncLock(engine, held))

    async def try_acquire(self) -> Optional[AsyncLock]:
        """None if it is not granted."""
        try:
            return await self.acquire()
        except NotAcquired:
            return None

    async def __aenter__(self) -> AsyncLock:
        if self._entered is not None:
            raise RuntimeError("this request is in use; call client.lock() for each `async with`")
        self._entered = await self.acquire()
        return self._entered

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                        trace: Optional[TracebackType]) -> None:
        lock, self._entered = self._entered, None
        assert lock is not None
        await lock.__aexit__(kind, error, trace)

    def __call__(self, function: AF) -> AF:
        """A decorator: each call of the function runs with the lock held."""
        @functools.wraps(function)
        async def locked(*args: Any, **kwargs: Any) -> Any:
            async with await self.acquire():
                return await function(*args, **kwargs)
        return locked  # type: ignore[return-value]


class AsyncClient(Facade[AsyncLock, AsyncLockRequest]):
    """A client of a cluster, for asyncio. The arguments are those of holdfast.Client."""

    def _request(self, request: Request, callbacks: Callbacks[AsyncLock]) -> AsyncLockRequest:
        return AsyncLockRequest(self, request, callbacks)

    def watch(self, prefix: str = "", last_id: Optional[str] = None) -> AsyncWatch:
        """Events of names with this prefix, from now or after `last_id`; an asynchronous iterator with close()."""
        return AsyncWatch(self.engine, prefix, last_id)

    async def close(self) -> None:
        """Closes the session: nothing is held afterwards. Idempotent."""
        closing = self.engine.begin_close()
        if closing is not None:
            try:
                await asyncio.wrap_future(closing)
            except HoldfastError as failed:
                log.warning("close: %s", failed)
            finally:
                self.engine.end_close()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

"""The client for threads: holdfast.Client."""

import concurrent.futures
import functools
import logging
import threading
from types import TracebackType
from typing import Any, Callable, Optional, Set, Type, TypeVar

from .errors import HoldfastError, LockLost, NotAcquired
from .facade import Callbacks, Facade
from .handle import Handle
from .held import Held
from .request import Request
from .watch import Watch

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
log = logging.getLogger("holdfast")


def result_of(future: "concurrent.futures.Future[T]", undo: Optional[Callable[[T], Any]] = None) -> T:
    """Waits. An exception in this thread, such as KeyboardInterrupt, cancels the work."""
    try:
        return future.result()
    except BaseException:
        if not future.cancel() and undo is not None and future.done() and not future.cancelled():
            if future.exception() is None:
                undo(future.result())
        raise


class Lock(Handle):
    """A lock that was granted. Safe to use from any thread."""

    def release(self) -> None:
        """Idempotent. Raises LockLost if it was lost before."""
        result_of(self._engine.submit(self._engine.locks.release(self._held)))

    def renew(self, ttl: float) -> None:
        """Sets the TTL. The client keeps the lock alive by itself; this only changes how long it outlives its holder."""
        result_of(self._engine.submit(self._engine.locks.renew(self._held, ttl)))

    def __enter__(self) -> "Lock":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        """A loss is raised here unless the block raised something itself."""
        try:
            self.release()
        except LockLost:
            if error is None:
                raise
        except HoldfastError as failed:
            log.warning("release: %s", failed)


class LockRequest:
    """`with client.lock(NAME) as lock`, or a decorator. Each use acquires anew and has a handle of its own."""

    def __init__(self, client: "Client", request: Request, callbacks: Callbacks[Lock]) -> None:
        self._client = client
        self._request = request
        self._callbacks = callbacks
        self._entered: Optional[Lock] = None
        self._mutex = threading.Lock()  # of the next two
        self._waits: "Set[concurrent.futures.Future[Held]]" = set()
        self._cancelled = False

    def acquire(self) -> Lock:
        """Raises NotAcquired, or WaitTimeout, if it is not granted, and concurrent.futures.CancelledError after cancel()."""
        engine = self._client.engine
        wait = engine.submit(engine.locks.acquire(self._request), engine.locks.drop)
        with self._mutex:
            self._waits.add(wait)
            if self._cancelled:
                wait.cancel()
        try:
            held = result_of(wait, lambda late: engine.submit(engine.locks.release(late)))
        finally:
            with self._mutex:
                self._waits.discard(wait)
        return self._callbacks.attach(Lock(engine, held))

    def cancel(self) -> None:
        """From any thread: what waits in acquire() leaves the queue, and so does each later call. A lock that was granted stays."""
        with self._mutex:
            self._cancelled = True
            waits = list(self._waits)
        for wait in waits:
            wait.cancel()

    def try_acquire(self) -> Optional[Lock]:
        """None if it is not granted."""
        try:
            return self.acquire()
        except NotAcquired:
            return None

    def __enter__(self) -> Lock:
        if self._entered is not None:
            raise RuntimeError("this request is in use; call client.lock() for each `with`")
        self._entered = self.acquire()
        return self._entered

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        lock, self._entered = self._entered, None
        assert lock is not None
        lock.__exit__(kind, error, trace)

    def __call__(self, function: F) -> F:
        """A decorator: each call of the function runs with the lock held."""
        @functools.wraps(function)
        def locked(*args: Any, **kwargs: Any) -> Any:
            with self.acquire():
                return function(*args, **kwargs)
        return locked  # type: ignore[return-value]


class Client(Facade[Lock, LockRequest]):
    """A client of a cluster, for threads. One for a process is enough; it is safe to share."""

    def _request(self, request: Request, callbacks: Callbacks[Lock]) -> LockRequest:
        return LockRequest(self, request, callbacks)

    def watch(self, prefix: str = "", last_id: Optional[str] = None) -> Watch:
        """Events of names with this prefix, from now or after `last_id`; an iterator with close()."""
        return Watch(self.engine, prefix, last_id)

    def close(self) -> None:
        """Closes the session: nothing is held afterwards. Idempotent."""
        closing = self.engine.begin_close()
        if closing is not None:
            try:
                closing.result()
            except HoldfastError as failed:
                log.warning("close: %s", failed)
            finally:
                self.engine.end_close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

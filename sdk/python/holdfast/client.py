"""The client for threads: holdfast.Client."""

import concurrent.futures
import functools
import logging
import ssl
from types import TracebackType
from typing import Any, Callable, Optional, Sequence, Type, TypeVar, Union

from .engine import Engine
from .errors import HoldfastError, LockLost, NotAcquired
from .handle import Handle
from .options import Requests, make_engine
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

    def on_lost(self, callback: Callable[["Lock"], None]) -> None:
        """`callback` is called once, on the thread for callbacks, when the lock is lost, or soon if it is lost already."""
        self._engine.on_lost(self._held, lambda: self._engine.dispatch(lambda: callback(self)))

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

    def __init__(self, client: "Client", request: Request, on_lost: Optional[Callable[[Lock], None]]) -> None:
        self._client = client
        self._request = request
        self._on_lost = on_lost
        self._entered: Optional[Lock] = None

    def acquire(self) -> Lock:
        """Raises NotAcquired, or WaitTimeout, if it is not granted."""
        engine = self._client.engine
        held = result_of(engine.submit(engine.locks.acquire(self._request), engine.locks.drop),
                         lambda late: engine.submit(engine.locks.release(late)))
        lock = Lock(engine, held)
        if self._on_lost is not None:
            lock.on_lost(self._on_lost)
        return lock

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


class Client:
    """A client of a cluster, for threads. One for a process is enough; it is safe to share.

    `endpoints`: "HOST:PORT,HOST:PORT" or a list. `session_ttl`: seconds that everything of this client outlives it;
    no lock outlives it longer, whatever its ttl. `timeout`: seconds until a call without an answer fails."""

    def __init__(self, endpoints: Union[str, Sequence[str]] = "127.0.0.1:4653", *, client_id: Optional[str] = None,
                 session_ttl: float = 30, timeout: float = 10, connect_timeout: float = 1, token: Optional[str] = None,
                 tenant: Optional[str] = None, tls: Union[None, bool, ssl.SSLContext] = None) -> None:
        self.engine: Engine = make_engine(endpoints, client_id, session_ttl, timeout, connect_timeout, token, tenant, tls)

    def lock(self, name: str, ttl: Optional[float] = None, wait: Optional[float] = None, *,
             on_lost: Optional[Callable[[Lock], None]] = None, **more: Any) -> LockRequest:
        """`wait`: seconds; 0 does not wait, None waits without limit. More: shared, tier, metadata, max_hold, lock_delay."""
        return LockRequest(self, Requests.lock(name, ttl, wait, **more), on_lost)

    def semaphore(self, name: str, limit: int, permits: int = 1, ttl: Optional[float] = None,
                  wait: Optional[float] = None, *, on_lost: Optional[Callable[[Lock], None]] = None,
                  **more: Any) -> LockRequest:
        return LockRequest(self, Requests.semaphore(name, limit, permits, ttl, wait, **more), on_lost)

    def multi_lock(self, names: Sequence[str], ttl: Optional[float] = None, wait: Optional[float] = None, *,
                   on_lost: Optional[Callable[[Lock], None]] = None, **more: Any) -> LockRequest:
        """All names or none, under one token."""
        return LockRequest(self, Requests.multi_lock(names, ttl, wait, **more), on_lost)

    def lead(self, name: str, value: str = "", ttl: Optional[float] = None, wait: Optional[float] = None, *,
             on_lost: Optional[Callable[[Lock], None]] = None, **more: Any) -> LockRequest:
        """Becomes the leader of an election. The token is the epoch."""
        return LockRequest(self, Requests.lead(name, value, ttl, wait, **more), on_lost)

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

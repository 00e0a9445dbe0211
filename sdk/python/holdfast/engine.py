"""The engine of a client: an event loop on a daemon thread of its own, so that keep-alives do not depend on the application.

Facades hand coroutines to it and wait for their results. A callback of the application never runs on this thread."""

import asyncio
import concurrent.futures
import logging
import os
import queue
import socket
import threading
import uuid
from typing import Any, Callable, Coroutine, Optional, Sequence, TypeVar

from .caller import Caller
from .clock import Clock, system_clock
from .endpoints import Endpoints
from .errors import Closed, Forked, LockLost, NotHeld
from .held import HELD, RELEASED, Held
from .http import Transport
from .locks import Locks
from .request import milliseconds

T = TypeVar("T")


class Engine:
    def __init__(self, endpoints: Sequence[str], client_id: Optional[str], session_ttl: float, timeout: float,
                 transport: Transport, *, clock: Optional[Clock] = None,
                 loop: Optional[asyncio.AbstractEventLoop] = None) -> None:
        """`clock` and `loop` are for tests: in place of the real ones."""
        self._pid = os.getpid()
        self.clock = clock or system_clock()
        self.timeout = timeout
        name = client_id or f"{socket.gethostname()}-{self._pid}-{uuid.uuid4().hex[:8]}"
        self.caller = Caller(self.clock, Endpoints(endpoints), transport)
        self._loop = loop or asyncio.new_event_loop()
        self.locks = Locks(self.caller, name, milliseconds(session_ttl, "session_ttl", 1000), timeout)
        self._callbacks: "queue.SimpleQueue[Optional[Callable[[], None]]]" = queue.SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="holdfast", daemon=True)
        self._dispatcher = threading.Thread(target=self._dispatch, name="holdfast-callbacks", daemon=True)
        self._thread.start()
        self._dispatcher.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        pending = asyncio.all_tasks(self._loop)
        for task in pending:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
        self._loop.close()

    def _dispatch(self) -> None:
        while True:
            callback = self._callbacks.get()
            if callback is None:
                return
            try:
                callback()
            except Exception:  # of the application; the next one must still run
                logging.getLogger("holdfast").exception("a callback of the application failed")

    def dispatch(self, callback: Callable[[], None]) -> None:
        self._callbacks.put(callback)

    def check_process(self) -> None:
        if os.getpid() != self._pid:
            raise Forked("this client belongs to the parent process; make a new one after fork")

    def submit(self, work: Coroutine[Any, Any, T], undo: Optional[Callable[[T], None]] = None
               ) -> "concurrent.futures.Future[T]":
        """Starts it. Cancelling the future cancels the work; if the work was done already, `undo` gets its result."""
        try:
            self.check_process()
            if self._closed:
                raise Closed("the client was closed")
        except BaseException:
            work.close()
            raise
        future: "concurrent.futures.Future[T]" = concurrent.futures.Future()

        def finished(task: "asyncio.Task[T]") -> None:
            if task.cancelled():
                if not future.cancel():
                    return
                future.set_running_or_notify_cancel()
            elif not future.set_running_or_notify_cancel():
                if task.exception() is None and undo is not None:
                    undo(task.result())
            elif task.exception() is not None:
                future.set_exception(task.exception())
            else:
                future.set_result(task.result())

        def start() -> None:
            task = self._loop.create_task(work)
            task.add_done_callback(finished)
            future.add_done_callback(lambda f: self._loop.call_soon_threadsafe(task.cancel) if f.cancelled() else None)

        self._loop.call_soon_threadsafe(start)
        return future

    def check(self, held: Held) -> None:
        """Raises unless it is held now, by the clock (C2.2)."""
        self.check_process()
        if held.state == RELEASED:
            raise NotHeld(f"{held.name} was released")
        if self.safe_for_ms(held) <= 0:
            raise LockLost(f"{held.name} was lost: {held.why or 'unconfirmed'}", held.why or "unconfirmed")

    def safe_for_ms(self, held: Held) -> int:
        self.check_process()
        session = self.locks.session_life(held)
        if held.state != HELD or session is None:
            return 0
        return max(held.safe_until(session) - self.clock.now_ms(), 0)

    def observe(self, held: Held, what: str, report: Callable[[], None]) -> None:
        """`report` is called on the engine's thread; it must only pass it on."""
        self.check_process()
        self._loop.call_soon_threadsafe(held.observe, what, report)

    def begin_close(self) -> "Optional[concurrent.futures.Future[None]]":
        """None: it was closed before, or belongs to the parent process."""
        if self._closed or os.getpid() != self._pid:
            return None
        future = self.submit(self.locks.close(self.timeout))
        self._closed = True
        return future

    def end_close(self) -> None:
        self._loop.call_soon_threadsafe(self._stop)
        self._callbacks.put(None)

    def _stop(self) -> None:
        self.caller.transport.close()
        self._loop.stop()

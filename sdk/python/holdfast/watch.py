"""Events of the service as an iterator (C8)."""

import asyncio
import concurrent.futures
from typing import AsyncIterator, Iterator, Optional
from urllib.parse import quote

from .engine import Engine
from .errors import Closed, HoldfastError
from .stream import Event, Stream


def watch_path(prefix: str) -> str:
    return "/api/v1/watch" + (f"?prefix={quote(prefix, safe='')}" if prefix else "")


class _Watching:
    """What both facades share. A call that is interrupted leaves its event for the next call."""

    def __init__(self, engine: Engine, prefix: str, last_id: Optional[str]) -> None:
        self._engine = engine
        self._stream = Stream(engine.caller, watch_path(prefix), last_id)
        self._next: "Optional[concurrent.futures.Future[Event]]" = None
        self._last_id: Optional[str] = None  # of the last event that the application got
        self._closed = False

    @property
    def last_id(self) -> Optional[str]:
        """Resume here. None: it has not begun."""
        return self._last_id or self._stream.first_id

    def _begin(self) -> "Optional[concurrent.futures.Future[Event]]":
        """None: it has ended."""
        if self._next is None and not self._closed:
            try:
                self._next = self._engine.submit(self._stream.next())
            except Closed:
                return None
        return None if self._closed else self._next

    def _deliver(self, event: Event) -> Event:
        self._next = None
        self._last_id = event.id or self._last_id
        return event

    def _failed(self) -> None:
        self._next = None

    def close(self) -> None:
        """Ends the iteration. From any thread."""
        self._closed = True
        if self._next is not None:
            self._next.cancel()


class Watch(_Watching):
    """For threads: `for event in client.watch("prefix/")`. close(), and the end of the client, end the iteration."""

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        pending = self._begin()
        if pending is None:
            raise StopIteration
        try:
            return self._deliver(pending.result())
        except concurrent.futures.CancelledError:
            raise StopIteration from None
        except HoldfastError:
            self._failed()
            raise

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncWatch(_Watching):
    """For asyncio: `async for event in client.watch("prefix/")`. A task that is cancelled in it loses no event. close(), and the
    end of the client, end the iteration."""

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        pending = self._begin()
        if pending is None:
            raise StopAsyncIteration
        try:
            return self._deliver(await asyncio.shield(asyncio.wrap_future(pending)))
        except asyncio.CancelledError:
            if pending.cancelled():
                raise StopAsyncIteration from None
            raise
        except HoldfastError:
            self._failed()
            raise

    async def __aenter__(self) -> "AsyncWatch":
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

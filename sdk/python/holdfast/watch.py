"""Events of the service as an iterator (C8)."""

import concurrent.futures
from typing import Iterator, Optional
from urllib.parse import quote

from .engine import Engine
from .errors import Closed
from .stream import Event, Stream


def watch_path(prefix: str) -> str:
    return "/api/v1/watch" + (f"?prefix={quote(prefix, safe='')}" if prefix else "")


class Watch:
    """For threads: `for event in client.watch("prefix/")`. close() from any thread, and the end of the client, end the iteration."""

    def __init__(self, engine: Engine, prefix: str, last_id: Optional[str]) -> None:
        self._engine = engine
        self._stream = Stream(engine.caller, watch_path(prefix), last_id)
        self._next: "Optional[concurrent.futures.Future[Event]]" = None
        self._closed = False

    @property
    def last_id(self) -> Optional[str]:
        """Resume here."""
        return self._stream.last_id

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        if self._closed:
            raise StopIteration
        try:
            self._next = self._engine.submit(self._stream.next())
            return self._next.result()
        except (concurrent.futures.CancelledError, Closed):
            raise StopIteration from None

    def close(self) -> None:
        self._closed = True
        if self._next is not None:
            self._next.cancel()

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

"""Streams of server-sent events, resumed at any node without a gap (C8). Runs on the engine's loop."""

import asyncio
import json
import re
from typing import Any, AsyncIterator, Dict, NamedTuple, Optional

from .caller import RETRY_MAX_MS, Caller
from .endpoints import Endpoint, jitter
from .errors import Invalid, from_answer
from .http import Broken, NotSent

SILENCE_S = 30.0  # a stream without a byte for so long is opened anew


class Event(NamedTuple):
    id: str
    type: str
    data: Dict[str, Any]


async def events_once(caller: Caller, endpoint: Endpoint, path: str, last_id: Optional[str]) -> AsyncIterator[Event]:
    """Of one stream, until it breaks or ends. Raises Broken, NotSent, or the refusal of the service."""
    connection = await caller.transport.open(endpoint)
    try:
        more = f"Last-Event-ID: {last_id}\r\n" if last_id else ""
        await connection.send(caller.transport.head(endpoint, "GET", path, 0, more), b"")
        status, headers = await asyncio.wait_for(connection.head(), SILENCE_S)
        if status in (503, 504):
            raise Broken("the node cannot serve the stream now")
        if status == 401 and caller.transport.reload_token():
            raise Broken("the token has changed in its file")
        if status != 200:
            size = int(headers.get("content-length", 0))
            raise from_answer(status, json.loads(await connection.exactly(size) or b"{}"))
        chunked = headers.get("transfer-encoding", "").lower() == "chunked"
        buffer = bytearray()
        fields: Dict[str, str] = {}
        while True:
            line = await asyncio.wait_for(connection.stream_line(buffer, chunked), SILENCE_S)
            if line is None:
                return
            if line == "" and "event" in fields:
                yield Event(fields.get("id", ""), fields["event"], json.loads(fields.get("data", "{}")))
                fields = {}
            elif line and not line.startswith(":"):
                name, _, value = line.partition(":")
                fields[name] = value[1:] if value.startswith(" ") else value
    except (OSError, EOFError, ValueError, asyncio.TimeoutError) as error:
        raise Broken(str(error)) from None
    finally:
        connection.close()


class Stream:
    """All events after `last_id`, over as many streams as it takes."""

    def __init__(self, caller: Caller, path: str, last_id: Optional[str] = None, shows_ready: bool = False) -> None:
        """With `shows_ready`, the begin of each stream is an event, too."""
        if last_id is not None and not re.fullmatch(r"[0-9]+-[0-9]+", last_id):
            raise Invalid(f"last_id {last_id!r} is not the id of an event", "invalid_event_id")
        self._caller = caller
        self._path = path
        self.last_id = last_id
        self.first_id = last_id  # where it begins
        self._left_out = ("dropped",) if shows_ready else ("ready", "dropped")
        self._events: Optional[AsyncIterator[Event]] = None
        self._avoid: Optional[Endpoint] = None  # the node of the last attempt, until it sends something

    async def next(self) -> Event:
        while True:
            if self._events is None:
                endpoint = self._caller.endpoints.pick(self._caller.clock.now_ms(), self._avoid)
                if endpoint is None:
                    await asyncio.sleep(jitter(RETRY_MAX_MS) / 1000)
                    continue
                self._avoid = endpoint
                self._events = events_once(self._caller, endpoint, self._path, self.last_id)
            try:
                event = await self._events.__anext__()
            except (Broken, NotSent, StopAsyncIteration):
                self._events = None
                await asyncio.sleep(jitter(RETRY_MAX_MS) / 1000)
                continue
            except BaseException:
                self._events = None
                raise
            self._avoid = None
            self.last_id = event.id or self.last_id
            self.first_id = self.first_id or self.last_id
            if event.type not in self._left_out:
                return event

"""The events of the fake, as server-sent events with ids from which a stream resumes."""

import json
from collections import deque
from typing import Any, Callable, Deque, Dict, List, NamedTuple, Optional

MAX_EVENTS = 10_000  # that a stream can resume from


class FakeEvent(NamedTuple):
    number: int
    session_id: Optional[str]  # only for the stream of this session
    everyone: bool  # also for the streams of all sessions
    name: Optional[str]
    text: str

    def is_for(self, session_id: Optional[str], prefix: str) -> bool:
        if session_id is not None:
            return self.everyone or self.session_id == session_id
        return self.session_id is None and (self.name.startswith(prefix) if self.name is not None else prefix == "")


class FakeEvents:
    def __init__(self, wall: Callable[[int], str]) -> None:
        self._wall = wall
        self._number = 0
        self._events: Deque[FakeEvent] = deque(maxlen=MAX_EVENTS)
        self._streams: List[Callable[[FakeEvent], None]] = []

    def emit(self, kind: str, now_ms: int, about: Dict[str, Any], session_id: Optional[str], everyone: bool = False,
             **more: Any) -> None:
        self._number += 1
        data = json.dumps({"type": kind, "at": self._wall(now_ms), **about, **more})
        event = FakeEvent(self._number, session_id, everyone, about.get("name"),
                          f"id: {self._number}-0\nevent: {kind}\ndata: {data}\n\n")
        self._events.append(event)
        for stream in list(self._streams):
            stream(event)

    def subscribe(self, session_id: Optional[str], prefix: str, last_id: Optional[str],
                  deliver: Callable[[str], None]) -> Callable[[], None]:
        def stream(event: FakeEvent) -> None:
            if event.is_for(session_id, prefix):
                deliver(event.text)

        first = self._number if last_id is None else int(last_id.split("-")[0])
        deliver(f"id: {self._number if last_id is None else first}-0\nevent: ready\ndata: {{}}\n\n")
        for event in [event for event in self._events if event.number > first]:
            stream(event)
        self._streams.append(stream)

        def end() -> None:
            if stream in self._streams:
                self._streams.remove(stream)

        return end

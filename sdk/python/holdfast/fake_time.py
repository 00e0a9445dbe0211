"""The clock of the fake, and event loops whose timers it moves: time passes only when a test says so."""

import asyncio
import contextvars
import math
import selectors
import threading
from typing import Any, Callable, List, Optional, Tuple

from .errors import HoldfastError

START_MS = 1_000_000
PATIENCE_S = 30.0  # until something counts as hanging


class ManualTime:
    """A holdfast.clock.Clock. `changed` guards what follows: the time, and which loops are idle."""

    look_s = 3600.0

    def __init__(self) -> None:
        self.changed = threading.Condition(threading.RLock())
        self.loops: List["ManualLoop"] = []
        self._now_ms = START_MS

    def now_ms(self) -> int:
        return self._now_ms

    def next_ms(self) -> Optional[int]:
        """The next timer of any loop."""
        with self.changed:
            due = [loop.due_ms for loop in self.loops if loop.due_ms is not None]
            return min(due) if due else None

    def set(self, now_ms: int) -> None:
        with self.changed:
            self._now_ms = now_ms
            loops = list(self.loops)
        for loop in loops:
            loop.wake()

    def wait_for(self, condition: Callable[[], bool]) -> None:
        with self.changed:
            if not self.changed.wait_for(condition, PATIENCE_S):
                raise HoldfastError(f"the fake has not come to rest for {PATIENCE_S} s: does a callback block?", "hanging")

    def settle(self) -> None:
        """Waits until every loop has done what it can do now."""
        self.wait_for(lambda: all(loop.is_idle for loop in self.loops))


class _Selector(selectors.DefaultSelector):
    loop: "ManualLoop"

    def select(self, timeout: Optional[float] = None) -> List[Tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return super().select(0)
        self.loop.rest(timeout)
        try:
            return super().select(None)
        finally:
            self.loop.rise()


class ManualLoop(asyncio.SelectorEventLoop):
    """On a thread of its own. It is idle when it waits for a timer or another thread, and no other thread has given it work."""

    def __init__(self, clock: ManualTime) -> None:
        self._clock = clock
        self._rests = False
        self._given = 0  # by other threads, not begun
        self.due_ms: Optional[int] = None
        selector = _Selector()
        selector.loop = self
        super().__init__(selector)
        with clock.changed:
            clock.loops.append(self)

    def time(self) -> float:
        return self._clock.now_ms() / 1000

    @property
    def is_idle(self) -> bool:
        return self._rests and self._given == 0

    def rest(self, timeout: Optional[float]) -> None:
        with self._clock.changed:
            # A timer that is due in a part of a ms is due in the next one.
            late_ms = None if timeout is None else max(math.ceil(timeout * 1000 - 0.001), 1)
            self.due_ms = None if late_ms is None else self._clock.now_ms() + late_ms
            self._rests = True
            self._clock.changed.notify_all()

    def rise(self) -> None:
        with self._clock.changed:
            self._rests = False

    def call_soon_threadsafe(self, callback: Callable[..., Any], *args: Any,
                             context: Optional[contextvars.Context] = None) -> asyncio.Handle:
        def run() -> None:
            with self._clock.changed:
                self._given -= 1
            callback(*args)

        with self._clock.changed:
            self._given += 1
        return super().call_soon_threadsafe(run, context=context)

    def wake(self) -> None:
        """Its timers are looked at again."""
        self.call_soon_threadsafe(lambda: None)

    def stop(self) -> None:
        with self._clock.changed:
            if self in self._clock.loops:
                self._clock.loops.remove(self)
                self._clock.changed.notify_all()
        super().stop()

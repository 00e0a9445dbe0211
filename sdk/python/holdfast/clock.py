"""The clock of all deadlines: CLOCK_BOOTTIME, which counts suspend, or what comes nearest (C1.1)."""

import time
from typing import Protocol


class Clock(Protocol):
    look_s: float  # timers of asyncio stop in suspend, so a deadline is looked at that often

    def now_ms(self) -> int: ...


class BootClock:
    look_s = 1.0

    def now_ms(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


class ElapsedClock:
    """The larger of the elapsed monotonic and wall time: never behind a suspend."""

    look_s = 1.0

    def __init__(self) -> None:
        self._monotonic = time.monotonic()
        self._wall = time.time()

    def now_ms(self) -> int:
        return int(max(time.monotonic() - self._monotonic, time.time() - self._wall) * 1000)


def system_clock() -> Clock:
    if hasattr(time, "CLOCK_BOOTTIME"):
        return BootClock()
    return ElapsedClock()

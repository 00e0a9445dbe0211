"""What the handles of both facades share. The token is in the handle, never in the thread or task (C5.6)."""

from typing import Callable, Optional, TypeVar

from .engine import Engine
from .held import HELD, JEOPARDY, LOST, REVOKE, SAFE, Held, Revocation

H = TypeVar("H", bound="Handle")


class Handle:
    def __init__(self, engine: Engine, held: Held) -> None:
        self._engine = engine
        self._held = held

    @property
    def name(self) -> str:
        """Of a multi-lock, all names."""
        return self._held.name

    @property
    def fence_token(self) -> int:
        """Send it with every write; the resource refuses lower tokens. Readable after a loss, too."""
        self._engine.check_process()
        return self._held.token

    @property
    def slot(self) -> Optional[int]:
        """Of a semaphore: fence with (resource, slot)."""
        return self._held.slot

    @property
    def held(self) -> bool:
        """Certainly, at this moment, by the clock."""
        return self._engine.safe_for_ms(self._held) > 0

    @property
    def safe_for(self) -> float:
        """Seconds for which it is certainly held, if no keep-alive is confirmed meanwhile."""
        return self._engine.safe_for_ms(self._held) / 1000

    @property
    def in_jeopardy(self) -> bool:
        """No keep-alive was confirmed for so long that only a third of the TTL is left, or nothing."""
        self._engine.check_process()
        session = self._engine.locks.session_life(self._held)
        if self._held.state != HELD or session is None:
            return True
        return self._engine.clock.now_ms() >= self._held.life.jeopardy_at(session)

    def check(self) -> None:
        """Call it directly before a side effect. Raises LockLost or NotHeld, computed from the clock."""
        self._engine.check_process()
        self._engine.check(self._held)

    # A callback gets what has happened already, too, and each loss once (C2.7).

    def on_lost(self: H, callback: Callable[[H], None]) -> None:
        """When the lock is lost. Not after a release."""
        self._observe(LOST, lambda: callback(self))

    def on_jeopardy(self: H, callback: Callable[[H], None]) -> None:
        """When nothing was confirmed for so long that a third of the TTL is left (C2.1)."""
        self._observe(JEOPARDY, lambda: callback(self))

    def on_safe(self: H, callback: Callable[[H], None]) -> None:
        """When it is confirmed again after jeopardy."""
        self._observe(SAFE, lambda: callback(self))

    def on_revoke(self: H, callback: Callable[[H, Revocation], None]) -> None:
        """When an operator requests the lock. Release it: the service ends the hold at the deadline."""
        def report() -> None:
            assert self._held.revocation is not None
            callback(self, self._held.revocation)

        self._observe(REVOKE, report)

    def _observe(self, what: str, report: Callable[[], None]) -> None:
        dispatch = self._dispatcher()
        self._engine.observe(self._held, what, lambda: dispatch(report))

    def _dispatcher(self) -> Callable[[Callable[[], None]], None]:
        """Where callbacks of the application run: on a thread for them."""
        return self._engine.dispatch

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} {self._held.state}>"

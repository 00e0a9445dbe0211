"""What the handles of both facades share. The token is in the handle, never in the thread or task (C5.6)."""

from typing import Optional

from .engine import Engine
from .held import HELD, Held


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
        session = self._engine.locks.session_life(self._held)
        if self._held.state != HELD or session is None:
            return True
        return self._engine.clock.now_ms() >= self._held.life.jeopardy_at(session)

    def check(self) -> None:
        """Call it directly before a side effect. Raises LockLost or NotHeld, computed from the clock."""
        self._engine.check_process()
        self._engine.check(self._held)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} {self._held.state}>"

"""The state of one granted lock. The engine's thread changes it; any thread reads it."""

import asyncio
from typing import Callable, List, Optional

from .deadline import Life, LockLife
from .request import Request

HELD, LOST, RELEASED = "held", "lost", "released"


class Held:
    def __init__(self, request: Request, session_id: str, number: int, token: int, life: LockLife) -> None:
        self.request = request
        self.session_id = session_id
        self.session_number = number
        self.token = token
        self.life = life
        self.slot: Optional[int] = None
        self.epoch = 0
        self.state = HELD
        self.why = ""
        self.renewing = asyncio.Lock()
        self.on_lost: List[Callable[[], None]] = []  # each only passes the loss on

    @property
    def name(self) -> str:
        return ", ".join(self.request.names)

    def safe_until(self, session: Life) -> int:
        return self.life.safe_until(session)

    def lose(self, why: str) -> None:
        """Final (C2.4)."""
        if self.state == HELD:
            self.state, self.why = LOST, why
            for report in self.on_lost:
                report()

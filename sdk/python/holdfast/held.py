"""The state of one granted lock. The engine's thread changes it; any thread reads it."""

import asyncio
from datetime import datetime
from typing import Callable, Dict, List, NamedTuple, Optional

from .deadline import Life, LockLife
from .request import Request

HELD, LOST, RELEASED = "held", "lost", "released"
JEOPARDY, SAFE, REVOKE = "jeopardy", "safe", "revoke"  # what is observed, and LOST


class Revocation(NamedTuple):
    """The request of an operator to release a lock."""

    actor: str
    reason: str
    deadline: Optional[datetime]  # when the service ends the hold, by its wall clock; for people


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
        self.in_jeopardy = False  # as it was reported
        self.revocation: Optional[Revocation] = None
        self._observers: Dict[str, List[Callable[[], None]]] = {}  # each only passes it on

    @property
    def name(self) -> str:
        return ", ".join(self.request.names)

    def safe_until(self, session: Life) -> int:
        return self.life.safe_until(session)

    def lose(self, why: str) -> None:
        """Final (C2.4)."""
        if self.state == HELD:
            self.state, self.why = LOST, why
            self._report(LOST)

    def note_jeopardy(self, begins: bool) -> None:
        if self.state == HELD and self.in_jeopardy != begins:
            self.in_jeopardy = begins
            self._report(JEOPARDY if begins else SAFE)

    def note_revocation(self, revocation: Revocation) -> None:
        self.revocation = revocation
        self._report(REVOKE)

    def _report(self, what: str) -> None:
        for report in self._observers.get(what, ()):
            report()

    def observe(self, what: str, report: Callable[[], None]) -> None:
        """What has happened already is reported now."""
        self._observers.setdefault(what, []).append(report)
        happened = self.state == LOST if what == LOST else self.state == HELD and (
            what == JEOPARDY and self.in_jeopardy or what == REVOKE and self.revocation is not None)
        if happened:
            report()

"""How long a lock or session is certainly held: the arithmetic of S5 (docs/CLIENTS.md, C1).

Pure: times are arguments, in ms of one clock. All objects are immutable, so that any thread can compute with what it reads
in one assignment. The same rules as src/client/deadline.h."""

from typing import NamedTuple, Optional

MARGIN_MS = 5
RATE = 1000  # clocks of two machines differ by at most 1/RATE


class Life(NamedTuple):
    confirmed_ms: int  # sending of the last confirmed message
    ttl_ms: int

    def safe_until(self) -> int:
        drift_ms = (self.ttl_ms + RATE - 1) // RATE
        return self.confirmed_ms + self.ttl_ms - drift_ms - MARGIN_MS

    def jeopardy_at(self) -> int:
        return self.safe_until() - self.ttl_ms // 3

    def confirm(self, sent_ms: int) -> "Life":
        """An older confirmation changes nothing."""
        return self._replace(confirmed_ms=max(self.confirmed_ms, sent_ms))


class LockLife(NamedTuple):
    """The deadlines that a lock may have at the service while renewals that set a TTL are unanswered (C1.7)."""

    known: Life  # newest answer
    in_flight: Optional[Life] = None  # the renewal that may still be answered
    unanswered: Optional[Life] = None  # earlier ones: earliest sending, shortest TTL
    hold: Optional[Life] = None  # max_hold as the TTL; nothing confirms it

    def ttl_ms(self) -> int:
        """The shortest that the service may apply."""
        return min(life.ttl_ms for life in (self.known, self.in_flight, self.unanswered) if life)

    def safe_until(self, session: Life) -> int:
        own = min(life.confirm(session.confirmed_ms).safe_until()
                  for life in (self.known, self.in_flight, self.unanswered) if life)
        ends = min(own, session.safe_until())
        return min(ends, self.hold.safe_until()) if self.hold else ends

    def jeopardy_at(self, session: Life) -> int:
        own = min(life.confirm(session.confirmed_ms).jeopardy_at()
                  for life in (self.known, self.in_flight, self.unanswered) if life)
        begins = min(own, session.jeopardy_at())
        return min(begins, self.hold.safe_until() - self.known.ttl_ms // 2) if self.hold else begins

    def confirm(self, sent_ms: int) -> "LockLife":
        """Counts for whichever TTL the service has."""
        return self._replace(
            known=self.known.confirm(sent_ms),
            in_flight=self.in_flight and self.in_flight.confirm(sent_ms),
            unanswered=self.unanswered and self.unanswered.confirm(sent_ms),
        )

    def renewal_sent(self, ttl_ms: int, sent_ms: int) -> "LockLife":
        return self._replace(in_flight=Life(sent_ms, ttl_ms))

    def renewal_applied(self) -> "LockLife":
        assert self.in_flight is not None
        sent = self.in_flight
        return self._replace(in_flight=None, known=self.known._replace(ttl_ms=sent.ttl_ms)).confirm(sent.confirmed_ms)

    def renewal_refused(self) -> "LockLife":
        return self._replace(in_flight=None)

    def renewal_unanswered(self) -> "LockLife":
        """It may be applied at any later time."""
        assert self.in_flight is not None
        sent, earlier = self.in_flight, self.unanswered or self.in_flight
        merged = Life(min(sent.confirmed_ms, earlier.confirmed_ms), min(sent.ttl_ms, earlier.ttl_ms))
        return self._replace(in_flight=None, unanswered=merged)

"""The nodes, in rotation, with a circuit breaker for each (C6). No socket, no clock: the same rules as src/client/endpoints.h."""

import random
from typing import List, Optional, Sequence, Tuple

from .errors import Invalid

OPENS_AFTER = 3  # failures in a row
RETRY_MS = 25
OPEN_MS = 250
OPEN_MAX_MS = 2000


def jitter(base_ms: float) -> float:
    """Half of it to all of it."""
    return base_ms * random.uniform(0.5, 1.0)


def parse(text: str) -> Tuple[str, int]:
    """HOST:PORT or [IPV6]:PORT."""
    host, colon, port = text.strip().rpartition(":")
    if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise Invalid(f"the endpoint {text!r} is not HOST:PORT or [IPV6]:PORT", "invalid_endpoint")
    return host.strip("[]"), int(port)


class Endpoint:
    def __init__(self, text: str) -> None:
        self.text = text.strip()
        self.host, self.port = parse(text)
        self.failures = 0  # in a row
        self.not_before_ms = 0
        self.tried = 0  # number of its last attempt
        self.probing = False
        self.why = ""

    @property
    def open(self) -> bool:
        return self.failures >= OPENS_AFTER

    def may_try(self, now_ms: int) -> bool:
        return not self.probing and now_ms >= self.not_before_ms


class Endpoints:
    def __init__(self, addresses: Sequence[str]) -> None:
        if not addresses:
            raise Invalid("no endpoint was given", "invalid_endpoint")
        self.all: List[Endpoint] = [Endpoint(text) for text in addresses]
        self._attempts = 0

    def pick(self, now_ms: int, avoid: Optional[Endpoint] = None) -> Optional[Endpoint]:
        """The one to try now: the fewest failures in a row, then the one used last, so that its connections serve again.
        Never `avoid` unless it is the only one. None: none may be tried yet."""
        free = [e for e in self.all if e.may_try(now_ms)]
        others = [e for e in free if e is not avoid] or free
        return min(others, key=lambda e: (e.failures, -e.tried)) if others else None

    def begun(self, endpoint: Endpoint) -> None:
        self._attempts += 1
        endpoint.tried = self._attempts
        endpoint.probing = endpoint.open

    def succeeded(self, endpoint: Endpoint) -> None:
        endpoint.failures, endpoint.not_before_ms, endpoint.probing, endpoint.why = 0, 0, False, ""

    def failed(self, endpoint: Endpoint, why: str, now_ms: int) -> None:
        endpoint.failures += 1
        endpoint.why = why
        endpoint.probing = False
        rest_ms = float(RETRY_MS)
        if endpoint.open:
            rest_ms = min(OPEN_MS * 2.0 ** min(endpoint.failures - OPENS_AFTER, 8), OPEN_MAX_MS)
        endpoint.not_before_ms = now_ms + int(jitter(rest_ms))

    def all_open(self, now_ms: int) -> bool:
        """No circuit is closed and none may be probed: a call fails at once."""
        return all(e.open and not e.may_try(now_ms) for e in self.all)

    def describe(self) -> str:
        return ", ".join(f"{e.text} ({e.why})" if e.why else e.text for e in self.all)

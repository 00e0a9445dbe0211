"""What an acquire requests: names, mode, TTL, wait; and the paths and fields of its messages."""

import json
import math
from dataclasses import dataclass
from typing import Any, Dict, Optional, Tuple
from urllib.parse import quote

from .errors import Invalid

CORRECTNESS = "CORRECTNESS"
EFFICIENCY = "EFFICIENCY"


def milliseconds(seconds: float, what: str, least: int = 0) -> int:
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not math.isfinite(seconds):
        raise Invalid(f"{what} is {seconds!r}, and must be a number of seconds", f"invalid_{what}")
    value = round(seconds * 1000)
    if value < least:
        raise Invalid(f"{what} is {seconds} s, and must be at least {least / 1000} s", f"invalid_{what}")
    return value


@dataclass(frozen=True)
class Request:
    names: Tuple[str, ...]
    ttl: Optional[float] = None  # seconds; None: that of the session
    wait: Optional[float] = None  # seconds; 0: not at all; None: without limit
    mode: str = "exclusive"
    limit: int = 0  # of a semaphore
    permits: int = 1
    tier: str = CORRECTNESS
    metadata: Any = None
    max_hold: Optional[float] = None
    lock_delay: float = 0
    value: str = ""  # of an election
    multi: bool = False
    detect_deadlock: bool = False
    trace: str = ""  # a W3C traceparent

    def __post_init__(self) -> None:
        """An argument of a wrong type is refused where it is written, also by a decorator."""
        for name in self.names:
            if not isinstance(name, str):
                raise Invalid(f"the name of a lock must be a string, not {name!r}", "invalid_name")
        for seconds, what, least in ((self.ttl, "ttl", 1000), (self.wait, "wait", 0), (self.max_hold, "max_hold", 100),
                                     (self.lock_delay, "lock_delay", 0)):
            if seconds is not None:
                milliseconds(seconds, what, least)
        try:
            json.dumps(self.metadata)
        except (TypeError, ValueError) as error:
            raise Invalid(f"metadata cannot be written as JSON: {error}", "invalid_metadata") from None

    def path(self, verb: str) -> str:
        if self.multi:
            return f"/api/v1/multilock/{verb}"
        name = quote(self.names[0], safe="")
        if self.mode == "election" and verb != "renew":
            verb = {"acquire": "campaign", "release": "resign"}[verb]
            return f"/api/v1/elections/{name}/{verb}"
        return f"/api/v1/locks/{name}/{verb}"

    def acquire_body(self, session_id: str, owner: str, request_id: str) -> Dict[str, Any]:
        body: Dict[str, Any] = {"session_id": session_id, "owner": owner, "request_id": request_id}
        body["wait_timeout_ms"] = -1 if self.wait is None else milliseconds(self.wait, "wait")
        if self.multi:
            body["names"] = list(self.names)
        elif self.mode != "election":
            body["mode"] = self.mode
        if self.mode == "semaphore":
            body.update(limit=self.limit, permits=self.permits)
        if self.mode == "election":
            body["value"] = self.value
        elif self.tier != CORRECTNESS:
            body["tier"] = self.tier
        if self.ttl is not None:
            body["ttl_ms"] = milliseconds(self.ttl, "ttl", 1000)
        if self.metadata is not None:
            body["metadata"] = self.metadata
        if self.max_hold is not None:
            body["max_hold_ms"] = milliseconds(self.max_hold, "max_hold", 100)
        if self.lock_delay:
            body["lock_delay_ms"] = milliseconds(self.lock_delay, "lock_delay")
        if self.detect_deadlock:
            body["detect_deadlock"] = True
        if self.trace:
            body["trace"] = self.trace
        return body

    def token_body(self, session_id: str, token: int) -> Dict[str, Any]:
        body: Dict[str, Any] = {"session_id": session_id, "fencing_token": token}
        if self.multi:
            body["names"] = list(self.names)
        return body

"""Errors. Each class has a stable `code`; an error of the service keeps the code of the service."""

from typing import Any, Dict, Mapping, Optional


class HoldfastError(Exception):
    """Base of all errors of this package."""

    code = "error"

    def __init__(self, message: str, code: Optional[str] = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code


class NotAcquired(HoldfastError):
    """The lock was not granted. `holder` describes the present holder, if the service named it."""

    code = "held"

    def __init__(self, message: str, code: str, answer: Optional[Mapping[str, Any]] = None) -> None:
        super().__init__(message, code)
        self.holder: Optional[Dict[str, Any]] = (answer or {}).get("holder")
        self.queue_length: int = (answer or {}).get("queue_length", 0)


class WaitTimeout(NotAcquired):
    """It was not free within the time of the wait."""

    code = "timeout"


class LockLost(HoldfastError):
    """The lock is no longer held, or not certainly. Stop the work that it protects."""

    code = "lost"


class NotHeld(HoldfastError):
    """The handle was released."""

    code = "released"


class Unreachable(HoldfastError):
    """No node answered in time. Nothing was done."""

    code = "unreachable"


class OutcomeUnknown(HoldfastError):
    """No node answered in time. The request may have been done."""

    code = "outcome_unknown"


class Denied(HoldfastError):
    """The credentials are missing, wrong, or lack the right."""

    code = "denied"


class Invalid(HoldfastError, ValueError):
    """An argument is wrong."""

    code = "invalid"


class LimitReached(HoldfastError):
    """A limit or quota of the service was reached. Nothing was done."""

    code = "limit"


class Forked(HoldfastError):
    """The client or handle belongs to the parent process. Make a new client in this one."""

    code = "forked"


class Closed(HoldfastError):
    """The client was closed."""

    code = "closed"


class ServiceError(HoldfastError):
    """Any other refusal of the service. `code` is that of the service."""


SESSION_GONE = ("session_expired", "session_not_found")  # a call of a session that has ended: all its locks are lost (C2.5)
_BY_STATUS = {400: Invalid, 401: Denied, 403: Denied, 414: Invalid, 429: LimitReached}


def from_answer(status: int, answer: Mapping[str, Any]) -> HoldfastError:
    """The exception for an error answer of the service."""
    error = answer.get("error")
    if not isinstance(error, dict):
        return ServiceError(f"the endpoint answered {status} without an error of Holdfast", "protocol")
    code = str(error.get("code", "error"))
    kind = LockLost if code in SESSION_GONE else _BY_STATUS.get(status, ServiceError)
    return kind(str(error.get("message", "")), code)

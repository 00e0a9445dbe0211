"""Client of Holdfast, a distributed lock service whose grants carry fence tokens.

    with holdfast.Client("10.0.0.1:4653,10.0.0.2:4653") as client:
        with client.lock("wallet:user_123", ttl=30) as lock:
            write(..., fence=lock.fence_token)
"""

from .aio import AsyncClient, AsyncLock, AsyncLockRequest
from .client import Client, Lock, LockRequest
from .credentials import tls_context
from .errors import (Closed, Denied, Forked, HoldfastError, Invalid, LimitReached, LockLost, NotAcquired, NotHeld,
                     OutcomeUnknown, ServiceError, Unreachable, WaitTimeout)
from .held import Revocation
from .request import CORRECTNESS, EFFICIENCY
from .stream import Event
from .watch import AsyncWatch, Watch

__all__ = [
    "AsyncClient", "AsyncLock", "AsyncLockRequest", "AsyncWatch", "CORRECTNESS", "Client", "Closed", "Denied", "EFFICIENCY", "Event",
    "Forked", "HoldfastError", "Invalid", "LimitReached", "Lock", "LockLost", "LockRequest", "NotAcquired", "NotHeld",
    "OutcomeUnknown", "Revocation", "ServiceError", "Unreachable", "WaitTimeout", "Watch",
    "tls_context",
]

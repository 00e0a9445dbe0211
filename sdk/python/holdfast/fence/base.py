"""What all fences share: the errors, the rules for arguments, and the fence in memory."""

import contextlib
import threading
from typing import ContextManager, Dict, Iterator, Protocol

from ..errors import HoldfastError, Invalid, LimitReached

TOKENS = 1 << 53  # every token is smaller
RESOURCE_BYTES = 512
RESOURCES = 65536  # as hf_fence_open_memory


class StaleToken(HoldfastError):
    """A newer token was used for the resource: the lock was lost. Stop the work; nothing was written."""

    code = "stale_token"

    def __init__(self, resource: str, token: int, highest: int) -> None:
        super().__init__(f"{resource}: token {token} is stale, token {highest} was used here")
        self.resource = resource
        self.token = token
        self.highest = highest


class FenceBusy(HoldfastError):
    """Other writers of the resource did not finish in time. Nothing was written."""

    code = "fence_busy"


def check_arguments(resource: str, token: int) -> None:
    """As hf_fence_guard."""
    try:
        size = len(resource.encode())
    except UnicodeEncodeError:
        size = 0
    if not 1 <= size <= RESOURCE_BYTES or any(c < " " or "\x7f" <= c <= "\x9f" for c in resource):
        raise Invalid(f"the resource of a fence is 1 to {RESOURCE_BYTES} bytes of UTF-8 without control characters", "invalid_resource")
    if isinstance(token, bool) or not isinstance(token, int) or not 1 <= token < TOKENS:
        raise Invalid(f"{resource}: {token!r} is no fencing token", "invalid_token")


class Fence(Protocol):
    def guard(self, resource: str, token: int, wait: float = 5) -> ContextManager[None]:
        """The block of `with` is the write: no other write of the resource runs at the same time. Raises StaleToken if a newer
        token was used, and FenceBusy if other writes take longer than `wait` seconds."""


class _Mark:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.highest = 0


class MemoryFence:
    """For a resource that lives in this process only: marks are forgotten when it ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._marks: Dict[str, _Mark] = {}

    def _mark(self, resource: str) -> _Mark:
        with self._lock:
            if resource not in self._marks and len(self._marks) >= RESOURCES:
                raise LimitReached(f"{resource}: the fence has {RESOURCES} resources already", "too_many_resources")
            return self._marks.setdefault(resource, _Mark())

    @contextlib.contextmanager
    def guard(self, resource: str, token: int, wait: float = 5) -> Iterator[None]:
        check_arguments(resource, token)
        mark = self._mark(resource)
        if not mark.lock.acquire(timeout=wait):
            raise FenceBusy(f"{resource}: other writes took longer than {wait:g} s")
        try:
            if token < mark.highest:
                raise StaleToken(resource, token, mark.highest)
            mark.highest = token
            yield
        finally:
            mark.lock.release()

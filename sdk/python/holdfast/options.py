"""The arguments of a client, the same for both facades."""

import ssl
from typing import Any, Optional, Sequence, Union

from .engine import Engine
from .request import CORRECTNESS, Request


def make_engine(endpoints: Union[str, Sequence[str]], client_id: Optional[str], session_ttl: float, timeout: float,
                connect_timeout: float, token: Optional[str], tenant: Optional[str],
                tls: Union[None, bool, ssl.SSLContext]) -> Engine:
    """`tls`: True is verification with the CAs of the system. A context may have other CAs and a client certificate."""
    addresses = endpoints.split(",") if isinstance(endpoints, str) else list(endpoints)
    context = ssl.create_default_context() if tls is True else tls or None
    return Engine(addresses, client_id, session_ttl, timeout, token, tenant, context, connect_timeout)


class Requests:
    """The requests that both facades offer, as values."""

    @staticmethod
    def lock(name: str, ttl: Optional[float] = None, wait: Optional[float] = None, *, shared: bool = False,
             tier: str = CORRECTNESS, metadata: Any = None, max_hold: Optional[float] = None,
             lock_delay: float = 0) -> Request:
        return Request((name,), ttl, wait, "shared" if shared else "exclusive", tier=tier, metadata=metadata,
                       max_hold=max_hold, lock_delay=lock_delay)

    @staticmethod
    def semaphore(name: str, limit: int, permits: int = 1, ttl: Optional[float] = None, wait: Optional[float] = None, *,
                  tier: str = CORRECTNESS, metadata: Any = None) -> Request:
        return Request((name,), ttl, wait, "semaphore", limit, permits, tier, metadata)

    @staticmethod
    def multi_lock(names: Sequence[str], ttl: Optional[float] = None, wait: Optional[float] = None, *,
                   tier: str = CORRECTNESS, metadata: Any = None) -> Request:
        return Request(tuple(names), ttl, wait, tier=tier, metadata=metadata, multi=True)

    @staticmethod
    def lead(name: str, value: str = "", ttl: Optional[float] = None, wait: Optional[float] = None, *,
             metadata: Any = None) -> Request:
        return Request((name,), ttl, wait, "election", value=value, metadata=metadata)

"""What both facades share: the arguments of a client, its requests, and the callbacks of a handle."""

import os
import ssl
from dataclasses import dataclass
from typing import Any, Callable, Generic, Optional, Sequence, Type, TypeVar, Union

from .credentials import TokenSource, of_environment
from .engine import Engine
from .errors import Invalid
from .handle import Handle
from .held import Revocation
from .http import Transport
from .request import CORRECTNESS, Request

L = TypeVar("L", bound=Handle)
R = TypeVar("R")
C = TypeVar("C", bound="Facade[Any, Any]")


@dataclass(frozen=True)
class Callbacks(Generic[L]):
    """Those of one request. A handle has methods of the same names."""

    on_lost: Optional[Callable[[L], None]] = None
    on_jeopardy: Optional[Callable[[L], None]] = None
    on_safe: Optional[Callable[[L], None]] = None
    on_revoke: Optional[Callable[[L, Revocation], None]] = None

    def attach(self, lock: L) -> L:
        if self.on_lost is not None:
            lock.on_lost(self.on_lost)
        if self.on_jeopardy is not None:
            lock.on_jeopardy(self.on_jeopardy)
        if self.on_safe is not None:
            lock.on_safe(self.on_safe)
        if self.on_revoke is not None:
            lock.on_revoke(self.on_revoke)
        return lock


class Facade(Generic[L, R]):
    """L: the class of its handles; R: that of its requests.

    `endpoints`: "HOST:PORT,HOST:PORT" or a list. `session_ttl`: seconds that everything of this client outlives it;
    no lock outlives it longer, whatever its ttl. `timeout`: seconds until a call without an answer fails.
    `tls`: True is verification with the CAs of the system; a context may have other CAs and a client certificate.
    `server_name`: the name in the certificates, if it is not the host of the endpoint. `token_file`: has the token, only its
    owner may read it, and it is read again when a node refuses the token."""

    def __init__(self, endpoints: Union[str, Sequence[str]] = "127.0.0.1:4653", *, client_id: Optional[str] = None,
                 session_ttl: float = 30, timeout: float = 10, connect_timeout: float = 1, token: Optional[str] = None,
                 token_file: Optional[str] = None, tenant: Optional[str] = None,
                 tls: Union[None, bool, ssl.SSLContext] = None, server_name: Optional[str] = None) -> None:
        addresses = endpoints.split(",") if isinstance(endpoints, str) else list(endpoints)
        context = ssl.create_default_context() if tls is True else tls or None
        transport = Transport(TokenSource(token, token_file), tenant, context, server_name, connect_timeout)
        self.engine = Engine(addresses, client_id, session_ttl, timeout, transport)

    @classmethod
    def from_env(cls: Type[C], *, client_id: Optional[str] = None, session_ttl: float = 30, timeout: float = 10,
                 connect_timeout: float = 1) -> C:
        """With the settings of the environment that libholdfast and the command line use, too: HOLDFAST_ENDPOINTS, HOLDFAST_CA,
        HOLDFAST_CERT, HOLDFAST_KEY, HOLDFAST_SERVER_NAME, HOLDFAST_TOKEN_FILE and HOLDFAST_TENANT."""
        return cls(client_id=client_id, session_ttl=session_ttl, timeout=timeout, connect_timeout=connect_timeout,
                   **of_environment(os.environ))

    def _request(self, request: Request, callbacks: Callbacks[L]) -> R:
        raise NotImplementedError

    def lock(self, name: str, ttl: Optional[float] = None, wait: Optional[float] = None, *, shared: bool = False,
             tier: str = CORRECTNESS, metadata: Any = None, max_hold: Optional[float] = None, lock_delay: float = 0,
             detect_deadlock: bool = False, trace: str = "", on_lost: Optional[Callable[[L], None]] = None,
             on_jeopardy: Optional[Callable[[L], None]] = None, on_safe: Optional[Callable[[L], None]] = None,
             on_revoke: Optional[Callable[[L, Revocation], None]] = None) -> R:
        """`wait`: seconds; 0 does not wait, None waits without limit."""
        mode = "shared" if shared else "exclusive"
        return self._request(Request((name,), ttl, wait, mode, tier=tier, metadata=metadata, max_hold=max_hold,
                                     lock_delay=lock_delay, detect_deadlock=detect_deadlock, trace=trace),
                             Callbacks(on_lost, on_jeopardy, on_safe, on_revoke))

    def semaphore(self, name: str, limit: int, permits: int = 1, ttl: Optional[float] = None,
                  wait: Optional[float] = None, *, tier: str = CORRECTNESS, metadata: Any = None,
                  max_hold: Optional[float] = None, lock_delay: float = 0, detect_deadlock: bool = False,
                  trace: str = "", on_lost: Optional[Callable[[L], None]] = None,
                  on_jeopardy: Optional[Callable[[L], None]] = None, on_safe: Optional[Callable[[L], None]] = None,
                  on_revoke: Optional[Callable[[L, Revocation], None]] = None) -> R:
        """`permits` of `limit`."""
        return self._request(Request((name,), ttl, wait, "semaphore", limit, permits, tier, metadata, max_hold,
                                     lock_delay, detect_deadlock=detect_deadlock, trace=trace),
                             Callbacks(on_lost, on_jeopardy, on_safe, on_revoke))

    def multi_lock(self, names: Sequence[str], ttl: Optional[float] = None, wait: Optional[float] = None, *,
                   tier: str = CORRECTNESS, metadata: Any = None, max_hold: Optional[float] = None,
                   lock_delay: float = 0, detect_deadlock: bool = False, trace: str = "",
                   on_lost: Optional[Callable[[L], None]] = None, on_jeopardy: Optional[Callable[[L], None]] = None,
                   on_safe: Optional[Callable[[L], None]] = None,
                   on_revoke: Optional[Callable[[L, Revocation], None]] = None) -> R:
        """All names or none, under one token."""
        if isinstance(names, str):
            raise Invalid(f"the names of a multi-lock must be a list, not {names!r}", "invalid_names")
        return self._request(Request(tuple(names), ttl, wait, tier=tier, metadata=metadata, max_hold=max_hold,
                                     lock_delay=lock_delay, multi=True, detect_deadlock=detect_deadlock, trace=trace),
                             Callbacks(on_lost, on_jeopardy, on_safe, on_revoke))

    def lead(self, name: str, value: str = "", ttl: Optional[float] = None, wait: Optional[float] = None, *,
             metadata: Any = None, max_hold: Optional[float] = None, lock_delay: float = 0, trace: str = "",
             on_lost: Optional[Callable[[L], None]] = None, on_jeopardy: Optional[Callable[[L], None]] = None,
             on_safe: Optional[Callable[[L], None]] = None,
             on_revoke: Optional[Callable[[L, Revocation], None]] = None) -> R:
        """Becomes the leader of an election. The token is the epoch. `value`: what others see of the leader."""
        return self._request(Request((name,), ttl, wait, "election", metadata=metadata, max_hold=max_hold,
                                     lock_delay=lock_delay, value=value, trace=trace),
                             Callbacks(on_lost, on_jeopardy, on_safe, on_revoke))

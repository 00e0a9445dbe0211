"""The fence for services over HTTP: middleware for WSGI and ASGI. Requests that change something carry the token of their lock in the
header Holdfast-Token. The middleware runs the handler inside the guard of a fence, so a request with an older token never runs beside
or after one with a newer token.

    app = web.FenceWSGI(app, FileFence("/var/lib/app/fence"), resource=lambda environ: "wallet" + environ["PATH_INFO"])

The fence must be shared by all processes that serve the resource: FileFence on one machine, MemoryFence in one process.

The body of the request is read before, and the answer is sent after the guard: a slow client does not delay other writers."""

import asyncio
import concurrent.futures
import contextlib
import io
import json
import sys
import time
from typing import Any, Awaitable, Callable, ContextManager, Dict, FrozenSet, Iterable, List, MutableMapping, Optional, Tuple

from ..errors import HoldfastError, Invalid, LimitReached
from .base import Fence, FenceBusy, StaleToken

TOKEN_HEADER = "Holdfast-Token"
METHODS = frozenset({"POST", "PUT", "PATCH", "DELETE"})
MAX_BODY = 1 << 20
RETRY_S = 0.005
REFUSALS = (StaleToken, FenceBusy, Invalid, LimitReached)
REASONS = {400: "Bad Request", 408: "Request Timeout", 411: "Length Required", 412: "Precondition Failed", 413: "Content Too Large",
           428: "Precondition Required", 503: "Service Unavailable"}

Environ = Dict[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class _Refused(Exception):
    """The request does not reach the handler."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.body = json.dumps({"error": {"code": code, "message": message}}).encode()
        self.headers = [("Content-Type", "application/json"), ("Content-Length", str(len(self.body)))]
        if status == 503:
            self.headers.append(("Retry-After", "1"))


def _refusal_of(error: HoldfastError) -> _Refused:
    status = 412 if isinstance(error, StaleToken) else 400 if isinstance(error, Invalid) else 503
    return _Refused(status, error.code, str(error))


def _token_of(text: Optional[str]) -> int:
    if text is None:
        raise _Refused(428, "token_missing", f"the header {TOKEN_HEADER} is missing: send the fencing token of the lock")
    if not (text.isascii() and text.isdigit() and len(text) <= 16):
        raise _Refused(400, "invalid_token", f"the header {TOKEN_HEADER} is not a fencing token")
    return int(text)


def _too_large(limit: int) -> _Refused:
    return _Refused(413, "body_too_large", f"the body of a fenced request has at most {limit} bytes")


class FenceWSGI:
    """`resource` returns what the request changes, derived from its path and not from what the client says, or None: not fenced. It must
    be the name of the lock. Requests with other `methods` pass. A handler finds the token in environ["holdfast.token"].

    412 stale_token: the client lost its lock and must stop. 428: no token. 503 fence_busy: nothing was done, repeat the request."""

    def __init__(self, app: Callable[..., Iterable[bytes]], fence: Fence, resource: Callable[[Environ], Optional[str]], *,
                 wait: float = 5, max_body: int = MAX_BODY, methods: FrozenSet[str] = METHODS) -> None:
        self._app = app
        self._fence = fence
        self._resource = resource
        self._wait = wait
        self._max_body = max_body
        self._methods = methods

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        resource = self._resource(environ) if environ["REQUEST_METHOD"] in self._methods else None
        if resource is None:
            return self._app(environ, start_response)
        try:
            status, headers, chunks = self._guarded(environ, resource)
        except _Refused as refused:
            status, headers, chunks = f"{refused.status} {REASONS[refused.status]}", refused.headers, [refused.body]
        start_response(status, headers)
        return chunks

    def _read_body(self, environ: Environ) -> bytes:
        text = environ.get("CONTENT_LENGTH") or "0"
        if "HTTP_TRANSFER_ENCODING" in environ:
            if not environ.get("wsgi.input_terminated"):
                raise _Refused(411, "length_required", "send the body with Content-Length")
            length = self._max_body + 1
        elif not (text.isascii() and text.isdigit()):
            raise _Refused(400, "invalid_length", "Content-Length is not a number")
        else:
            length = int(text)
            if length > self._max_body:
                raise _too_large(self._max_body)
        body = b""
        while len(body) < length:
            piece = environ["wsgi.input"].read(length - len(body))
            if not piece:
                break
            body += piece
        if len(body) > self._max_body:
            raise _too_large(self._max_body)
        if "HTTP_TRANSFER_ENCODING" not in environ and len(body) < length:
            raise _Refused(400, "body_incomplete", "the body is shorter than Content-Length")
        return body

    def _guarded(self, environ: Environ, resource: str) -> Tuple[str, List[Tuple[str, str]], List[bytes]]:
        token = _token_of(environ.get("HTTP_" + TOKEN_HEADER.upper().replace("-", "_")))
        body = self._read_body(environ)
        inner = {**environ, "wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body)), "holdfast.token": token}
        inner.pop("HTTP_TRANSFER_ENCODING", None)
        head: List[Any] = []
        chunks: List[bytes] = []

        def start_response(status: str, headers: List[Tuple[str, str]], exc_info: Any = None) -> Callable[[bytes], None]:
            head[:] = [status, headers]
            return chunks.append

        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(self._fence.guard(resource, token, self._wait))
            except REFUSALS as error:
                raise _refusal_of(error) from None
            answer = self._app(inner, start_response)
            try:
                chunks.extend(answer)
            finally:
                if hasattr(answer, "close"):
                    answer.close()
        return head[0], head[1], chunks


class FenceASGI:
    """As FenceWSGI; `resource` gets the scope. A handler finds the token in scope["holdfast.token"]. It must not go on writing after it
    returned, for example in a background task. WebSocket connections pass."""

    def __init__(self, app: Callable[..., Awaitable[None]], fence: Fence, resource: Callable[[Message], Optional[str]], *,
                 wait: float = 5, max_body: int = MAX_BODY, methods: FrozenSet[str] = METHODS) -> None:
        self._app = app
        self._fence = fence
        self._resource = resource
        self._wait = wait
        self._max_body = max_body
        self._methods = methods
        # A fence may sync files. It gets threads of its own: those of the handlers may all be busy.
        self._threads = concurrent.futures.ThreadPoolExecutor(4, thread_name_prefix="holdfast-fence")

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        is_fenced = scope["type"] == "http" and scope["method"] in self._methods
        resource = self._resource(scope) if is_fenced else None
        if resource is None:
            return await self._app(scope, receive, send)
        answer: List[Message] = []
        try:
            await self._guarded(scope, receive, answer, resource)
        except _Refused as refused:
            headers = [(name.lower().encode(), value.encode()) for name, value in refused.headers]
            answer = [{"type": "http.response.start", "status": refused.status, "headers": headers},
                      {"type": "http.response.body", "body": refused.body}]
        for message in answer:
            await send(message)

    async def _read_body(self, receive: Receive) -> bytes:
        body = b""
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _Refused(408, "body_incomplete", "the client ended before its body")
            body += message.get("body", b"")
            if len(body) > self._max_body:
                raise _too_large(self._max_body)
            if not message.get("more_body", False):
                return body

    async def _enter(self, resource: str, token: int) -> ContextManager[None]:
        """Without a thread that waits: one attempt at a time."""
        loop = asyncio.get_running_loop()
        end = time.monotonic() + self._wait

        def attempt() -> ContextManager[None]:
            guard = self._fence.guard(resource, token, 0)
            guard.__enter__()
            return guard

        while True:
            entering = loop.run_in_executor(self._threads, attempt)
            try:
                return await asyncio.shield(entering)
            except FenceBusy:
                if time.monotonic() >= end:
                    raise FenceBusy(f"{resource}: other writes took longer than {self._wait:g} s") from None
            except asyncio.CancelledError:
                entering.add_done_callback(_leave)
                raise
            await asyncio.sleep(RETRY_S)

    async def _guarded(self, scope: Message, receive: Receive, answer: List[Message], resource: str) -> None:
        sent = [value for name, value in scope["headers"] if name.lower() == TOKEN_HEADER.lower().encode()]
        token = _token_of(sent[0].decode("latin-1") if len(sent) == 1 else "" if sent else None)
        body = await self._read_body(receive)
        parts: List[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return parts.pop() if parts else await receive()

        async def collect(message: Message) -> None:
            answer.append(message)

        try:
            guard = await self._enter(resource, token)
        except REFUSALS as error:
            raise _refusal_of(error) from None
        try:
            await self._app({**scope, "holdfast.token": token}, replay, collect)
        except BaseException:
            if not guard.__exit__(*sys.exc_info()):
                raise
        else:
            guard.__exit__(None, None, None)


def _leave(entering: "asyncio.Future[ContextManager[None]]") -> None:
    """The request was cancelled while it entered the guard."""
    if not entering.cancelled() and entering.exception() is None:
        entering.result().__exit__(None, None, None)

"""The fence for services over gRPC: a server interceptor. Calls that change something carry the token of their lock in the metadata
`holdfast-token`. The interceptor runs the handler inside the guard of a fence. Needs the package grpc (grpcio).

    server = grpc.server(executor, interceptors=[FenceInterceptor(FileFence("/var/lib/app/fence"), resource)])

    def resource(method, request):
        return f"wallet:{request.user}" if method == "/shop.Wallet/Debit" else None"""

import contextlib
from typing import Any, Callable, Iterator, Optional

import grpc

from ..errors import HoldfastError, Invalid
from .base import Fence, FenceBusy, StaleToken
from .web import REFUSALS

TOKEN_KEY = "holdfast-token"
ERROR_KEY = "holdfast-error"  # in the trailing metadata: the stable code of a refusal


def _status_of(error: HoldfastError) -> Any:
    if isinstance(error, StaleToken):
        return grpc.StatusCode.FAILED_PRECONDITION
    if isinstance(error, Invalid):
        return grpc.StatusCode.INVALID_ARGUMENT
    return grpc.StatusCode.UNAVAILABLE if isinstance(error, FenceBusy) else grpc.StatusCode.RESOURCE_EXHAUSTED


class FenceInterceptor(grpc.ServerInterceptor):  # type: ignore[misc]
    """`resource` gets the full name of the method and its request. It returns what the call changes, derived from the request, or None: not
    fenced. It must be the name of the lock. For a method with a stream of requests it gets None as the request, and must return None:
    those cannot be fenced.

    FAILED_PRECONDITION stale_token: the client lost its lock and must stop. INVALID_ARGUMENT: the token is missing or invalid.
    UNAVAILABLE fence_busy: nothing was done, repeat the call."""

    def __init__(self, fence: Fence, resource: Callable[[str, Any], Optional[str]], *, wait: float = 5) -> None:
        self._fence = fence
        self._resource = resource
        self._wait = wait

    def intercept_service(self, continuation: Callable[[Any], Any], details: Any) -> Any:
        handler = continuation(details)
        if handler is None:
            return None
        method = details.method
        if handler.request_streaming:
            return self._refuse_streams(handler) if self._resource(method, None) is not None else handler
        codecs = {"request_deserializer": handler.request_deserializer, "response_serializer": handler.response_serializer}

        def unary(request: Any, context: Any) -> Any:
            resource = self._resource(method, request)
            if resource is None:
                return handler.unary_unary(request, context)
            with self._guarded(resource, context):
                return handler.unary_unary(request, context)

        def stream(request: Any, context: Any) -> Iterator[Any]:
            resource = self._resource(method, request)
            if resource is None:
                yield from handler.unary_stream(request, context)
                return
            with self._guarded(resource, context):  # a client that reads slowly does not delay other writers
                answers = list(handler.unary_stream(request, context))
            yield from answers

        if handler.response_streaming:
            return grpc.unary_stream_rpc_method_handler(stream, **codecs)
        return grpc.unary_unary_rpc_method_handler(unary, **codecs)

    @contextlib.contextmanager
    def _guarded(self, resource: str, context: Any) -> Iterator[None]:
        token = self._token_of(context)
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(self._fence.guard(resource, token, self._wait))
            except REFUSALS as error:
                self._abort(context, _status_of(error), error.code, str(error))
            yield

    def _token_of(self, context: Any) -> int:
        sent = [value for key, value in context.invocation_metadata() if key == TOKEN_KEY]
        if len(sent) != 1 or not (sent[0].isascii() and sent[0].isdigit() and len(sent[0]) <= 16):
            self._abort(context, grpc.StatusCode.INVALID_ARGUMENT, "invalid_token" if sent else "token_missing",
                        f"the metadata {TOKEN_KEY} must be the fencing token of the lock")
        return int(sent[0])

    @staticmethod
    def _abort(context: Any, status: Any, code: str, message: str) -> None:
        context.set_trailing_metadata(((ERROR_KEY, code),))
        context.abort(status, message)  # raises

    def _refuse_streams(self, handler: Any) -> Any:
        def refuse(requests: Any, context: Any) -> Any:
            self._abort(context, grpc.StatusCode.UNIMPLEMENTED, "not_fenced", "a stream of requests cannot be fenced")

        make = grpc.stream_stream_rpc_method_handler if handler.response_streaming else grpc.stream_unary_rpc_method_handler
        return make(refuse, handler.request_deserializer, handler.response_serializer)

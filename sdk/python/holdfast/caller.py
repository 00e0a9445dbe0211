"""Requests that are repeated with the same bytes until they are answered (C4)."""

import asyncio
import json
from typing import Any, Callable, Dict, Optional

from .clock import Clock
from .endpoints import Endpoint, Endpoints, jitter
from .errors import OutcomeUnknown, Unreachable, from_answer
from .http import Broken, NotSent, Response, Transport

RETRY_MS = 20
RETRY_MAX_MS = 500
ATTEMPT_S = 2.0
WAIT_SLICE_S = 15.0  # a wait that hears nothing for so long is repeated: its node may be gone


def encode(body: Dict[str, Any]) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()


class Answer:
    def __init__(self, body: Dict[str, Any], sent_ms: int) -> None:
        self.body = body
        self.sent_ms = sent_ms  # first sending that may have been done (C1.6)


class Caller:
    def __init__(self, clock: Clock, endpoints: Endpoints, transport: Transport) -> None:
        self.clock = clock
        self.endpoints = endpoints
        self.transport = transport
        self._waits: Dict[Endpoint, "set[asyncio.Task[Response]]"] = {}

    def _failed(self, endpoint: Endpoint, why: str) -> None:
        """Its connections, and the waits on them, are not trusted any longer."""
        self.endpoints.failed(endpoint, why, self.clock.now_ms())
        self.transport.close_idle(endpoint)
        for task in self._waits.get(endpoint, set()):
            task.cancel()

    async def _wait_at(self, endpoint: Endpoint, method: str, path: str, body: bytes, timeout: float) -> Response:
        """A request that may wait at the service: it ends when its node fails for another request."""
        task = asyncio.get_running_loop().create_task(self.transport.request(endpoint, method, path, body, timeout))
        waits = self._waits.setdefault(endpoint, set())
        waits.add(task)
        try:
            await asyncio.wait([task])
        finally:
            waits.discard(task)
            if not task.done():
                task.cancel()
        if task.cancelled():
            raise Broken("its node failed")
        return task.result()

    async def attempt(self, endpoint: Endpoint, method: str, path: str, body: bytes, timeout: float,
                      waits: bool = False) -> Response:
        """One sending to one node; its circuit is noted."""
        self.endpoints.begun(endpoint)
        if waits:
            endpoint.probing = False  # a wait may be silent for long: it must not keep others from probing
        answered = False
        try:
            if waits:
                response = await self._wait_at(endpoint, method, path, body, timeout)
            else:
                response = await self.transport.request(endpoint, method, path, body, timeout)
            answered = True
            self.endpoints.succeeded(endpoint)
            return response
        except (Broken, NotSent) as error:
            if not waits or isinstance(error, NotSent):
                self._failed(endpoint, str(error))
            answered = True
            raise
        finally:
            if not answered:  # cancelled: nothing was learned
                endpoint.probing = False

    async def call(self, method: str, path: str, body: Optional[Dict[str, Any]], timeout: float,
                   wait: Optional[float] = 0, fails_fast: bool = True,
                   given_up: Optional[Callable[[], bool]] = None) -> Answer:
        """Until it is answered, `timeout` (and `wait`, None: no limit) has passed, or `given_up` says so."""
        data = b"" if body is None else encode(body)
        until_ms = None if wait is None else self.clock.now_ms() + int((timeout + wait) * 1000)
        sent_ms: Optional[int] = None
        retry_ms = float(RETRY_MS)
        avoid: Optional[Endpoint] = None
        while True:
            now_ms = self.clock.now_ms()
            if (until_ms is not None and now_ms >= until_ms) or (given_up is not None and given_up()):
                break
            if fails_fast and sent_ms is None and self.endpoints.all_open(now_ms):
                break
            endpoint = self.endpoints.pick(now_ms, avoid)
            if endpoint is not None:
                began_ms = now_ms
                left = WAIT_SLICE_S if until_ms is None else (until_ms - now_ms) / 1000
                slice_s = WAIT_SLICE_S if wait != 0 else ATTEMPT_S
                try:
                    response = await self.attempt(endpoint, method, path, data, min(left, slice_s), wait != 0)
                except NotSent:
                    avoid = endpoint
                except Broken:
                    sent_ms = began_ms if sent_ms is None else sent_ms
                    avoid = endpoint
                else:
                    if response.status == 504:
                        sent_ms = began_ms if sent_ms is None else sent_ms
                    elif response.status != 503:
                        return self._answered(response, began_ms if sent_ms is None else sent_ms)
                    avoid = endpoint
            await asyncio.sleep(jitter(retry_ms) / 1000)
            retry_ms = min(retry_ms * 2, RETRY_MAX_MS)
        if sent_ms is None:
            raise Unreachable(f"no node answered: {self.endpoints.describe()}")
        raise OutcomeUnknown(f"no node answered, and the request may have been done: {self.endpoints.describe()}")

    def _answered(self, response: Response, sent_ms: int) -> Answer:
        body = response.json()
        if response.status != 200:
            raise from_answer(response.status, body)
        return Answer(body, sent_ms)

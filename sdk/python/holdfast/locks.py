"""Acquire, renew, release, withdraw: the operations on locks (C4, C5). Runs on the engine's loop."""

import asyncio
import logging
import uuid
from typing import Any, Coroutine, Dict, Optional, Set

from .caller import RETRY_MS, Answer, Caller, encode
from .deadline import Life, LockLife
from .errors import (Closed, HoldfastError, LockLost, NotAcquired, NotHeld, OutcomeUnknown, Unreachable,
                     WaitTimeout, from_answer)
from .held import HELD, LOST, RELEASED, Held
from .http import Broken, NotSent
from .request import Request, milliseconds
from .session import Session

log = logging.getLogger("holdfast")


class Locks:
    def __init__(self, caller: Caller, client_id: str, session_ttl_ms: int, timeout: float) -> None:
        self._caller = caller
        self._clock = caller.clock
        self._client_id = client_id
        self._session_ttl_ms = session_ttl_ms
        self._timeout = timeout
        self._session: Optional[Session] = None
        self._opening: Optional["asyncio.Task[Session]"] = None
        self._sessions = 0
        self._owners = 0
        self._background: Set["asyncio.Task[Any]"] = set()
        self._closed = False

    def session_life(self, held: Held) -> Optional[Life]:
        """Of the session that it belongs to; None: that one is lost. For any thread."""
        session = self._session
        return session.life if session and session.number == held.session_number and session.is_open else None

    # --- the session ---

    async def _open_session(self) -> Session:
        self._sessions += 1
        session = Session(self._caller, self._sessions, self._give_up)
        await session.open(self._client_id, self._session_ttl_ms, self._timeout)
        self._session = session
        return session

    async def _need_session(self) -> Session:
        if self._closed:
            raise Closed("the client was closed")
        if self._session is not None:
            self._session.tick(self._clock.now_ms())
            if self._session.is_open:
                return self._session
        if self._opening is None or self._opening.done():
            self._opening = asyncio.get_running_loop().create_task(self._open_session())
        return await asyncio.shield(self._opening)

    def in_background(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    async def close(self, timeout: float) -> None:
        self._closed = True
        if self._opening is not None and not self._opening.done():
            await asyncio.wait([self._opening])
        if self._session is not None and self._session.is_open:
            await self._session.close(timeout)

    # --- acquire ---

    async def acquire(self, request: Request) -> Held:
        session = await self._need_session()
        self._owners += 1
        body = request.acquire_body(session.id, f"h{self._owners}", uuid.uuid4().hex)
        path = request.path("acquire")
        ttl_ms = session.life.ttl_ms if request.ttl is None else milliseconds(request.ttl, "ttl")
        call = asyncio.get_running_loop().create_task(
            self._caller.call("POST", path, body, self._timeout, request.wait))
        session.waiting[call] = ttl_ms
        session.hurry()
        try:
            answer = await call
        except asyncio.CancelledError:
            if not session.is_open:
                raise LockLost("the session was lost while the request waited", "session_lost") from None
            self.in_background(self._withdraw(session, path, body))
            raise
        except OutcomeUnknown:
            self.in_background(self._withdraw(session, path, body))
            raise
        except LockLost as gone:
            session.lose(gone.code)
            raise
        finally:
            session.waiting.pop(call, None)
        if not (answer.body.get("acquired") or answer.body.get("elected")):
            raise refusal(request, answer.body)
        return self._granted(session, request, answer, ttl_ms)

    def _granted(self, session: Session, request: Request, answer: Answer, ttl_ms: int) -> Held:
        hold = None
        if request.max_hold is not None:
            hold = Life(answer.sent_ms + int(answer.body.get("waited_ms", 0)), milliseconds(request.max_hold, "max_hold"))
        held = Held(request, session.id, session.number, answer.body["fencing_token"],
                    LockLife(Life(answer.sent_ms, ttl_ms), hold=hold))
        held.slot = answer.body.get("slot")
        held.epoch = answer.body.get("leader_epoch", session.epoch)
        now_ms = self._clock.now_ms()
        session.tick(now_ms)
        if not session.is_open:
            raise LockLost("the session was lost before the answer arrived", "session_lost")
        if now_ms >= held.safe_until(session.life):
            self.drop(held)
            raise LockLost("the answer arrived after the TTL", "unconfirmed")
        session.add(held)
        return held

    async def _withdraw(self, session: Session, path: str, body: Dict[str, Any]) -> None:
        """Until it is answered or the session has ended (C5.2)."""
        try:
            await self._until_answered(session, path, {**body, "cancel": True})
        except HoldfastError as failed:
            log.info("cancel: %s", failed)

    async def _until_answered(self, session: Session, path: str, body: Dict[str, Any]) -> Optional[Answer]:
        """None: the session ended first, and with it what the request was about."""
        while session.is_open:
            try:
                return await self._caller.call("POST", path, body, self._timeout, fails_fast=False,
                                               given_up=lambda: not session.is_open)
            except (OutcomeUnknown, Unreachable):
                continue
            except LockLost as gone:
                session.lose(gone.code)
                raise
        return None

    # --- release ---

    def drop(self, held: Held) -> None:
        """A grant that nobody waits for any longer (C5.3)."""
        held.state = RELEASED
        if self._session is not None:
            self._session.remove(held)
        self._give_up(held)

    def _give_up(self, held: Held) -> None:
        """The service may have it, and the session would keep it alive (C2.6)."""
        self.in_background(self._release_quietly(held))

    async def _release_quietly(self, held: Held) -> None:
        try:
            await self._release(held)
        except HoldfastError as failed:
            log.info("release: %s", failed)

    async def release(self, held: Held) -> None:
        if held.state == RELEASED:
            return
        life = self.session_life(held)
        if held.state == HELD and life is not None and self._session is not None:
            self._session.tick(self._clock.now_ms())
        if held.state == LOST:
            raise LockLost(f"{held.name} was lost: {held.why}", held.why)
        held.state = RELEASED  # from here nothing renews it (C5.5)
        if self._session is not None:
            self._session.remove(held)
        work = self.in_background(self._release(held))
        try:
            await asyncio.wait_for(asyncio.shield(work), self._timeout)
        except asyncio.TimeoutError:
            raise OutcomeUnknown(f"the release of {held.name} is not answered yet; it is repeated") from None

    async def _release(self, held: Held) -> None:
        session = self._session
        if session is None or session.number != held.session_number:
            return
        body = held.request.token_body(session.id, held.token)
        if held.request.mode != "election":
            body["request_id"] = uuid.uuid4().hex
        answer = await self._until_answered(session, held.request.path("release"), body)
        if answer is not None and answer.body.get("reason") in ("expired", "not_owner"):
            ended = str(answer.body.get("ended", answer.body["reason"]))
            raise LockLost(f"{held.name} was lost before its release: {ended}", ended)

    # --- renew ---

    async def renew(self, held: Held, ttl: float) -> None:
        """Sets the TTL. Each attempt is a new message (C1.6)."""
        ttl_ms = milliseconds(ttl, "ttl", 1000)
        until_ms = self._clock.now_ms() + int(self._timeout * 1000)
        async with held.renewing:
            while self._clock.now_ms() < until_ms:
                if await self._renew_once(held, ttl_ms):
                    return
                await asyncio.sleep(RETRY_MS / 1000)
        raise OutcomeUnknown(f"the renewal of {held.name} was not answered")

    async def _renew_once(self, held: Held, ttl_ms: int) -> bool:
        session = self._session
        if session is not None:
            session.tick(self._clock.now_ms())
        if held.state == LOST or session is None:
            raise LockLost(f"{held.name} was lost: {held.why}", held.why or None)
        if held.state == RELEASED:
            raise NotHeld(f"{held.name} was released")
        endpoint = self._caller.endpoints.pick(self._clock.now_ms())
        if endpoint is None:
            return False
        data = encode({**held.request.token_body(session.id, held.token), "ttl_ms": ttl_ms})
        held.life = held.life.renewal_sent(ttl_ms, self._clock.now_ms())
        session.hurry()
        try:
            response = await self._caller.attempt(endpoint, "POST", held.request.path("renew"), data, 2.0)
        except NotSent:
            held.life = held.life.renewal_refused()
            return False
        except (Broken, asyncio.CancelledError) as error:
            held.life = held.life.renewal_unanswered()
            if isinstance(error, Broken):
                return False
            raise
        session.tick(self._clock.now_ms())
        if response.status == 504:
            held.life = held.life.renewal_unanswered()
            return False
        if response.status != 200 or not response.json().get("renewed"):
            held.life = held.life.renewal_refused()
            if response.status == 503:
                return False
            if response.status != 200:
                refused = from_answer(response.status, response.json())
                if isinstance(refused, LockLost):
                    session.lose(refused.code)
                raise refused
            session.lose_lock(held, str(response.json().get("ended", "expired")))
            raise LockLost(f"{held.name} was lost: {held.why}", held.why)
        held.life = held.life.renewal_applied()
        session.hurry()
        if held.state == LOST:
            raise LockLost(f"{held.name} was lost: {held.why}", held.why)
        return True


def refusal(request: Request, answer: Dict[str, Any]) -> HoldfastError:
    reason = str(answer.get("reason", "held"))
    names = ", ".join(request.names)
    holder = (answer.get("holder") or {}).get("client_id")
    text = f"{names} was not acquired: {reason}" + (f"; {holder} holds it" if holder else "")
    return (WaitTimeout if reason == "timeout" else NotAcquired)(text, reason, answer)

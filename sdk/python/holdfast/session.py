"""The session of a client: opened with the first lock, kept alive, lost by the clock (C2, C3). Runs on the engine's loop."""

import asyncio
import uuid
from datetime import datetime
from functools import reduce
from operator import xor
from typing import Any, Callable, Dict, List, Optional, Set

from .caller import RETRY_MAX_MS, RETRY_MS, Caller, encode
from .deadline import Life
from .endpoints import Endpoint
from .errors import SESSION_GONE, HoldfastError
from .held import Held, Revocation
from .http import Broken, NotSent
from .request import EFFICIENCY
from .stream import Stream

NEVER_MS = 2 ** 62
EARLY = 64  # losses that are remembered for grants whose answer was not read yet
REASON_S = 0.5  # for how long renewals are sent that find reasons, and how long one may take


def revocation_of(data: Dict[str, Any]) -> Revocation:
    try:
        deadline: Optional[datetime] = datetime.fromisoformat(str(data.get("revoked_at")).replace("Z", "+00:00"))
    except ValueError:
        deadline = None
    return Revocation(str(data.get("actor_id", "")), str(data.get("text", "")), deadline)


class Session:
    """One session; after its loss it is not opened again."""

    def __init__(self, caller: Caller, number: int, give_up: Callable[[Held], None]) -> None:
        """`give_up` is called for a lock that is lost by the clock while the session lives: the service may still have it."""
        self._caller = caller
        self._give_up = give_up
        self._clock = caller.clock
        self.number = number
        self.id = ""
        self.life = Life(0, 0)
        self.is_open = False
        self.epoch = 0
        self.held: Dict[int, Held] = {}
        self.waiting: Dict["asyncio.Task[Any]", int] = {}  # acquires, with the TTL that each may get at any moment
        self._early: Dict[int, str] = {}  # losses by token
        self._every_ms = 0
        self._sent_ms = 0  # of the last keep-alive
        self._may_check = True
        self._checks_now = False  # the next keep-alive is not put off
        self._finding_reasons: "Optional[asyncio.Task[None]]" = None  # of what was not listed
        self._keep_alive_wake = asyncio.Event()
        self._deadline_wake = asyncio.Event()
        self._tasks: Set["asyncio.Task[None]"] = set()

    async def open(self, client_id: str, ttl_ms: int, timeout: float) -> None:
        body = {"client_id": client_id, "ttl_ms": ttl_ms, "request_id": uuid.uuid4().hex}
        answer = await self._caller.call("POST", "/api/v1/sessions", body, min(timeout, ttl_ms / 2000))
        self.id = answer.body["session_id"]
        self.life = Life(answer.sent_ms, answer.body.get("ttl_ms", ttl_ms))
        self.epoch = answer.body["leader_epoch"]
        self._every_ms = answer.body.get("keepalive_ms", ttl_ms // 3)
        self._sent_ms = answer.sent_ms
        self.is_open = True
        for work in (self._keep_alive(), self._watch_deadlines(), self._listen()):
            self._tasks.add(asyncio.get_running_loop().create_task(work))

    def stop(self) -> None:
        self.is_open = False
        for task in self._tasks:
            task.cancel()
        if self._finding_reasons is not None:
            self._finding_reasons.cancel()

    async def close(self, timeout: float) -> None:
        self.lose("closed")
        await self._caller.call("DELETE", f"/api/v1/sessions/{self.id}", None, timeout, fails_fast=False)

    # --- what it holds ---

    def add(self, held: Held) -> None:
        self.held[held.token] = held
        if held.token in self._early:
            self.lose_lock(held, self._early[held.token])
        self.hurry()

    def remove(self, held: Held) -> None:
        self.held.pop(held.token, None)

    def hurry(self) -> None:
        """A deadline or the shortest TTL may have changed."""
        self._keep_alive_wake.set()
        self._deadline_wake.set()

    def lose(self, why: str) -> None:
        if not self.is_open:
            return
        self.stop()
        for held in list(self.held.values()):
            held.lose(why)
        self.held.clear()
        for task in list(self.waiting):
            task.cancel()

    def lose_lock(self, held: Held, why: str) -> None:
        self.remove(held)
        held.lose(why)

    def tick(self, now_ms: int) -> int:
        """Declares lost what is overdue (C2.3). Returns the next deadline."""
        if not self.is_open:
            return NEVER_MS
        if now_ms >= self.life.safe_until():
            self.lose("unconfirmed")
            return NEVER_MS
        next_ms = self.life.safe_until()
        for held in list(self.held.values()):
            ends_ms = held.safe_until(self.life)
            if now_ms >= ends_ms:
                hold = held.life.hold
                self.lose_lock(held, "max_hold" if hold and ends_ms == hold.safe_until() else "unconfirmed")
                self._give_up(held)
            else:
                jeopardy_ms = held.life.jeopardy_at(self.life)
                held.note_jeopardy(now_ms >= jeopardy_ms)
                next_ms = min(next_ms, ends_ms if now_ms >= jeopardy_ms else jeopardy_ms)
        return next_ms

    def heard_epoch(self, epoch: int) -> None:
        """With a new leader, all locks of the tier EFFICIENCY are lost (S10.2)."""
        if epoch > self.epoch:
            self.epoch = epoch
            for held in list(self.held.values()):
                if held.request.tier == EFFICIENCY and held.epoch < epoch:
                    self.lose_lock(held, "epoch")

    # --- its tasks ---

    async def _listen(self) -> None:
        """What the service reports: losses (C2.5) and revocations."""
        stream = Stream(self._caller, f"/api/v1/sessions/{self.id}/events", shows_ready=True)
        while self.is_open:
            try:
                event = await stream.next()
            except HoldfastError:  # a node that does not know the session yet, or the session has gone
                await asyncio.sleep(RETRY_MAX_MS / 1000)
                continue
            token = event.data.get("fencing_token")
            if event.type == "ready":  # a keep-alive at once finds what no stream reported (C3.8)
                self._checks_now = True
                self._keep_alive_wake.set()
            elif event.type == "epoch":
                self.heard_epoch(event.data["leader_epoch"])
            elif event.type in ("session_closed", "session_expired"):
                self.lose(event.type)
            elif event.type == "lost" and isinstance(token, int):
                self._reported_lost(token, str(event.data.get("ended", "lost")))
            elif event.type == "revoke_requested" and token in self.held:
                self.held[token].note_revocation(revocation_of(event.data))

    def _reported_lost(self, token: int, why: str) -> None:
        held = self.held.get(token)
        if held is not None:
            self.lose_lock(held, why)
        else:
            while len(self._early) >= EARLY:
                self._early.pop(next(iter(self._early)))
            self._early[token] = why

    async def _pause(self, wake: asyncio.Event, until_ms: int) -> None:
        """Until then, or until something changed. It looks more often than that: `look_s`."""
        wake.clear()
        try:
            await asyncio.wait_for(wake.wait(), min(max((until_ms - self._clock.now_ms()) / 1000, 0.001), self._clock.look_s))
        except asyncio.TimeoutError:
            pass

    async def _watch_deadlines(self) -> None:
        while self.is_open:
            next_ms = self.tick(self._clock.now_ms())
            await self._pause(self._deadline_wake, next_ms)

    def _shortest_ttl(self) -> int:
        ttls = [held.life.ttl_ms() for held in self.held.values()]
        return min([self.life.ttl_ms, *ttls, *self.waiting.values()])

    async def _keep_alive(self) -> None:
        avoid = None
        while self.is_open:
            ttl_ms = self._shortest_ttl()
            due_ms = self._sent_ms + min(self._every_ms, ttl_ms // 3)
            if self._clock.now_ms() < due_ms and not self._checks_now:
                await self._pause(self._keep_alive_wake, due_ms)
                continue
            endpoint = self._caller.endpoints.pick(self._clock.now_ms(), avoid)
            if endpoint is not None:
                avoid = endpoint
                if await self._keep_alive_at(endpoint, min(max(ttl_ms / 6000, 0.5), 2.0)):
                    avoid = None
                    continue
            await asyncio.sleep(RETRY_MS / 1000)

    async def _keep_alive_at(self, endpoint: Endpoint, timeout: float) -> bool:
        """One keep-alive, with the tokens that are held now (C3.6); more if the list of locks has several pages."""
        believed = list(self.held.values())
        numbers = {"lock_count": len(believed), "lock_xor": reduce(xor, (held.token for held in believed), 0)}
        listed: Set[int] = set()
        cursor = ""
        is_confirmed = False
        while True:
            self._checks_now = False
            sent_ms = self._clock.now_ms()
            path = f"/api/v1/sessions/{self.id}/keepalive{cursor}"
            try:
                response = await self._caller.attempt(endpoint, "POST", path, encode(numbers) if self._may_check else b"", timeout)
                body = response.json()
            except (Broken, NotSent):
                return is_confirmed
            self.tick(self._clock.now_ms())
            if response.status != 200 or not self.is_open:
                code = body.get("error", {}).get("code", "")
                if code in SESSION_GONE:
                    self.lose("session_expired")
                self._may_check = code != "field_unknown"  # a node of an earlier version (C3.9)
                return is_confirmed
            is_confirmed = self._may_check = True
            self._sent_ms = sent_ms
            self.life = self.life.confirm(sent_ms)
            self.heard_epoch(body["leader_epoch"])
            self.tick(self._clock.now_ms())  # jeopardy may be over
            if "locks" not in body:
                return True
            listed.update(row["fencing_token"] for row in body["locks"])
            if body["next_cursor"] is None:
                self._compare(endpoint, believed, listed)
                return True
            cursor = f"?cursor={body['next_cursor']}"

    def _compare(self, endpoint: Endpoint, believed: List[Held], listed: Set[int]) -> None:
        """What was held at the sending, is not listed, and is not being released, has ended (C3.7)."""
        gone = [held for held in believed if held.token not in listed and self.held.get(held.token) is held]
        if gone and (self._finding_reasons is None or self._finding_reasons.done()):  # otherwise the next keep-alive finds it
            self._finding_reasons = asyncio.get_running_loop().create_task(self._lose_all(endpoint, gone))

    async def _lose_all(self, endpoint: Endpoint, gone: List[Held]) -> None:
        """Each with the reason that its renewal reports, or `unknown` after REASON_S."""
        until_ms = self._clock.now_ms() + int(REASON_S * 1000)
        answers = True
        for held in gone:
            why: Optional[str] = "unknown"
            if answers and self.held.get(held.token) is held and self._clock.now_ms() < until_ms:
                try:
                    why = await self._reason_of(endpoint, held)
                except (Broken, NotSent):
                    answers = False
            if why is not None and self.held.get(held.token) is held:
                self.lose_lock(held, why)

    async def _reason_of(self, endpoint: Endpoint, held: Held) -> Optional[str]:
        """None: the service has it."""
        body = encode(held.request.token_body(self.id, held.token))
        response = await self._caller.attempt(endpoint, "POST", held.request.path("renew"), body, REASON_S)
        answer = response.json()
        self.tick(self._clock.now_ms())
        if answer.get("error", {}).get("code") in SESSION_GONE:
            self.lose("session_expired")
        elif response.status == 200:
            self.heard_epoch(answer.get("leader_epoch", 0))
            if answer.get("renewed"):
                return None
        return str(answer.get("ended", "unknown"))

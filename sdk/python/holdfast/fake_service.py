"""The service of the fake: sessions, queues and grants in memory, by the paths and messages of the real one.

Pure: times are arguments, in ms. An answer, also a late one, is a call of `answer(status, body)`. The caller serialises all calls."""

import json
import uuid
from datetime import datetime, timezone
from functools import reduce
from operator import xor
from typing import Any, Callable, Dict, List, Optional, Set, Tuple
from urllib.parse import parse_qsl, unquote, urlsplit

from .fake_events import FakeEvents
from .request import CORRECTNESS, EFFICIENCY

Answer = Callable[[int, Dict[str, Any]], None]
NEVER_MS = 2 ** 62
UNCLEAN = ("expired", "session_expired", "forced", "revoked", "max_hold")  # a lock-delay follows (S6.5)
TOKENS = 1024  # between two grants (S3.1)


def wall(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class FakeSession:
    def __init__(self, client_id: str, ttl_ms: int, now_ms: int) -> None:
        self.id = uuid.uuid4().hex
        self.client_id = client_id
        self.ttl_ms = ttl_ms
        self.confirmed_ms = now_ms
        self.done: Dict[str, Dict[str, Any]] = {}  # outcome by request_id
        self.ended: Dict[int, str] = {}  # how the grant of a token ended

    def ends_ms(self) -> int:
        return self.confirmed_ms + self.ttl_ms


class FakeWaiter:
    """A request: it waits, then it holds."""

    def __init__(self, session: FakeSession, kind: str, names: Tuple[str, ...], body: Dict[str, Any], answer: Answer,
                 now_ms: int) -> None:
        self.session = session
        self.names = names
        self.answer = answer
        self.since_ms = now_ms
        self.request_id: str = body["request_id"]
        self.owner: str = body.get("owner", "")
        self.mode: str = "election" if kind == "elections" else body.get("mode", "exclusive")
        self.limit: int = body.get("limit", 0)
        self.permits: int = body.get("permits", 1)
        self.tier: str = body.get("tier", CORRECTNESS)
        self.metadata = body.get("metadata")
        self.value: str = body.get("value", "")
        self.ttl_ms: int = body.get("ttl_ms", session.ttl_ms)
        self.lock_delay_ms: int = body.get("lock_delay_ms", 0)
        self.max_hold_ms: int = body.get("max_hold_ms", 0)
        wait_ms: int = body.get("wait_timeout_ms", 0)
        self.until_ms = NEVER_MS if wait_ms < 0 else now_ms + wait_ms
        self.may_wait = wait_ms != 0

    def kind(self) -> str:
        """Exclusive and shared are one class (S6.3)."""
        return "exclusive" if self.mode == "shared" else self.mode

    def shown(self, name: str) -> Dict[str, Any]:
        part = {"part": self.names.index(name) + 1, "parts": len(self.names)} if len(self.names) > 1 else {}
        return {"name": name, "client_id": self.session.client_id, "owner": self.owner, "mode": self.mode, "tier": self.tier, **part}


class FakeGrant:
    def __init__(self, request: FakeWaiter, token: int, now_ms: int) -> None:
        self.request = request
        self.token = token
        self.since_ms = now_ms
        self.waited_ms = now_ms - request.since_ms
        self.ttl_ms = request.ttl_ms
        self.confirmed_ms = now_ms
        self.hold_until_ms = now_ms + request.max_hold_ms if request.max_hold_ms else NEVER_MS
        self.revoked_at_ms = NEVER_MS
        self.slot: Optional[int] = None

    def ends_ms(self) -> int:
        """At the service, which has no margin."""
        session = self.request.session
        own_ms = max(self.confirmed_ms, session.confirmed_ms) + self.ttl_ms
        return min(own_ms, session.ends_ms(), self.hold_until_ms, self.revoked_at_ms)

    def why(self, now_ms: int) -> str:
        for at_ms, ended in ((self.revoked_at_ms, "revoked"), (self.hold_until_ms, "max_hold"),
                             (self.request.session.ends_ms(), "session_expired")):
            if now_ms >= at_ms:
                return ended
        return "expired"

    def holder(self, now_ms: int) -> Dict[str, Any]:
        r = self.request
        return {"client_id": r.session.client_id, "owner": r.owner, "mode": r.mode, "since": wall(self.since_ms),
                "expires_at": wall(self.ends_ms()), "expires_in_ms": max(self.ends_ms() - now_ms, 0), "metadata": r.metadata}


class FakeService:
    def __init__(self) -> None:
        self.sessions: Dict[str, FakeSession] = {}
        self.grants: List[FakeGrant] = []
        self.queue: List[FakeWaiter] = []
        self.events = FakeEvents(wall)
        self.epoch = 1
        self._tokens = 0
        self._delayed: Dict[str, int] = {}  # name: until when nobody gets it

    # --- what a test does ---

    def grants_of(self, name: str) -> List[FakeGrant]:
        return [grant for grant in self.grants if name in grant.request.names]

    def waiters_of(self, name: str) -> List[FakeWaiter]:
        return [waiter for waiter in self.queue if name in waiter.names]

    def grant_of(self, token: int) -> Optional[FakeGrant]:
        return next((grant for grant in self.grants if grant.token == token), None)

    def request_revocation(self, grant: FakeGrant, at_ms: int, actor: str, reason: str, now_ms: int) -> None:
        grant.revoked_at_ms = at_ms
        for name in grant.request.names:
            self.events.emit("revoke_requested", now_ms, grant.request.shown(name), grant.request.session.id,
                             fencing_token=grant.token, actor_id=actor, text=reason, revoked_at=wall(at_ms))

    def change_leader(self, now_ms: int) -> None:
        """The locks of the tier EFFICIENCY are gone (S10.2)."""
        self.epoch += 1
        self.grants = [grant for grant in self.grants if grant.request.tier != EFFICIENCY]
        self.events.emit("epoch", now_ms, {}, None, everyone=True, leader_epoch=self.epoch)
        self._grant_next(now_ms)

    # --- time ---

    def next_ms(self) -> int:
        """The next moment at which something ends."""
        ends = [session.ends_ms() for session in self.sessions.values()] + [grant.ends_ms() for grant in self.grants]
        return min([NEVER_MS, *ends, *(waiter.until_ms for waiter in self.queue), *self._delayed.values()])

    def sweep(self, now_ms: int) -> None:
        for grant in [grant for grant in self.grants if now_ms >= grant.ends_ms()]:
            self.end(grant, grant.why(now_ms), now_ms)
        for session in [session for session in self.sessions.values() if now_ms >= session.ends_ms()]:
            self._end_session(session, "session_expired", now_ms)
        for waiter in [waiter for waiter in self.queue if now_ms >= waiter.until_ms]:
            self._leave(waiter, "timeout", now_ms)
        self._delayed = {name: until_ms for name, until_ms in self._delayed.items() if until_ms > now_ms}
        self._grant_next(now_ms)

    def end(self, grant: FakeGrant, ended: str, now_ms: int) -> None:
        if grant not in self.grants:
            return
        request = grant.request
        self.grants.remove(grant)
        request.session.ended[grant.token] = ended
        reason = "already_released" if ended == "released" else "expired"
        request.session.done[request.request_id] = {"acquired": False, "reason": reason, "ended": ended}
        kind = ended if ended in ("forced", "revoked") else "expired" if ended in UNCLEAN else "released"
        for name in request.names:
            self.events.emit(kind, now_ms, request.shown(name), None, ended=ended)
            if ended != "released":
                self.events.emit("lost", now_ms, request.shown(name), request.session.id, fencing_token=grant.token, ended=ended)
            if request.mode == "election":
                vacant = {"name": name, "mode": "election", "tier": request.tier, "value": "", "vacant": True}
                self.events.emit("leader_changed", now_ms, vacant, None)
            if ended in UNCLEAN and request.lock_delay_ms:
                self._delayed[name] = now_ms + request.lock_delay_ms
                delayed = {"name": name, "mode": request.mode, "tier": request.tier}
                self.events.emit("delayed", now_ms, delayed, None, delayed_until=wall(self._delayed[name]))
        self._grant_next(now_ms)

    def _end_session(self, session: FakeSession, why: str, now_ms: int) -> None:
        del self.sessions[session.id]
        for waiter in [waiter for waiter in self.queue if waiter.session is session]:
            self._leave(waiter, "cancelled", now_ms)
        for grant in [grant for grant in self.grants if grant.request.session is session]:
            self.end(grant, why, now_ms)
        self.events.emit(why, now_ms, {"client_id": session.client_id}, None)

    # --- requests ---

    def handle(self, method: str, path: str, data: bytes, now_ms: int, answer: Answer) -> None:
        self.sweep(now_ms)
        body = json.loads(data) if data else {}
        kind, *rest = [unquote(part) for part in path.split("/")[3:]]
        if kind == "sessions":
            self._session(method, rest, body, now_ms, answer)
            return
        session = self.sessions.get(body.get("session_id", ""))
        if session is None:
            refuse(answer, 404, "session_not_found", "there is no such session")
            return
        verb = rest[-1]
        names = tuple(body["names"]) if kind == "multilock" else (rest[0],)
        if verb in ("acquire", "campaign"):
            self._acquire(FakeWaiter(session, kind, names, body, answer, now_ms), bool(body.get("cancel")), now_ms)
            return
        grant = self.grant_of(body["fencing_token"])
        if grant is not None and (grant.request.session is not session or grant.request.names != names):
            grant = None
        ended = session.ended.get(body["fencing_token"])
        why = {"reason": "not_owner"} if ended is None else {"reason": "expired", "ended": ended}
        if verb == "renew":
            if grant is not None:
                grant.confirmed_ms, grant.ttl_ms = now_ms, body.get("ttl_ms", grant.ttl_ms)
            answer(200, {"renewed": grant is not None, "leader_epoch": self.epoch, **({"reason": "ok"} if grant else why)})
        elif verb in ("release", "resign"):
            if grant is not None:
                self.end(grant, "released", now_ms)
            elif ended == "released":
                why = {"reason": "already_released"}
            answer(200, {"resigned" if verb == "resign" else "released": grant is not None, **({"reason": "ok"} if grant else why)})
        else:
            refuse(answer, 404, "not_found", f"the fake has no {path}")

    def _session(self, method: str, rest: List[str], body: Dict[str, Any], now_ms: int, answer: Answer) -> None:
        if method == "POST" and not rest:
            session = FakeSession(body["client_id"], body["ttl_ms"], now_ms)
            self.sessions[session.id] = session
            self.events.emit("session_opened", now_ms, {"client_id": session.client_id}, None)
            answer(200, {"session_id": session.id, "ttl_ms": session.ttl_ms, "keepalive_ms": session.ttl_ms // 3,
                         "leader_epoch": self.epoch})
            return
        known = self.sessions.get(rest[0]) if rest else None
        if known is None:
            refuse(answer, 404, "session_not_found", "there is no such session")
        elif method == "DELETE":
            self._end_session(known, "session_closed", now_ms)
            answer(200, {"closed": True})
        elif rest[1:] == ["keepalive"]:
            known.confirmed_ms = now_ms
            held = [grant for grant in self.grants if grant.request.session is known]
            listing = {"locks": [{"name": name, "tier": grant.request.tier, "fencing_token": grant.token} for grant in held for name in grant.request.names],
                       "next_cursor": None}
            differs = "lock_count" in body and (body["lock_count"], body["lock_xor"]) != (
                len(held), reduce(xor, (grant.token for grant in held), 0))
            answer(200, {"alive": True, "session_id": known.id, "leader_epoch": self.epoch, **(listing if differs else {})})
        else:
            refuse(answer, 404, "not_found", "the fake has no such path")

    def subscribe(self, path: str, last_id: Optional[str], deliver: Callable[[str], None]) -> Callable[[], None]:
        """`deliver` gets the text of each event. Returns the function that ends it."""
        parts = urlsplit(path)
        query = dict(parse_qsl(parts.query))
        session_id = parts.path.split("/")[4] if parts.path.startswith("/api/v1/sessions/") else None
        return self.events.subscribe(session_id, query.get("prefix", ""), last_id, deliver)

    # --- acquire ---

    def _acquire(self, request: FakeWaiter, cancels: bool, now_ms: int) -> None:
        session, key = request.session, (request.session, request.request_id)
        waiting = next((w for w in self.queue if (w.session, w.request_id) == key), None)
        granted = next((g for g in self.grants if (g.request.session, g.request.request_id) == key), None)
        if cancels:
            if waiting is not None:
                self._leave(waiting, "cancelled", now_ms)
            if granted is not None:
                self.end(granted, "released", now_ms)
            session.done[request.request_id] = {"acquired": False, "reason": "cancelled"}
            request.answer(200, session.done[request.request_id])
        elif granted is not None:
            self._answer_grant(granted, request.answer)
        elif request.request_id in session.done:
            request.answer(200, session.done[request.request_id])
        elif waiting is not None:  # it attaches again (S7.1)
            waiting.answer(200, {"acquired": False, "reason": "superseded"})
            waiting.answer = request.answer
        else:
            self._enqueue(request, now_ms)

    def _enqueue(self, request: FakeWaiter, now_ms: int) -> None:
        for name in request.names:
            others = [grant.request for grant in self.grants_of(name)] + self.waiters_of(name)
            if any(other.tier != request.tier for other in others):
                refuse(request.answer, 409, "wrong_tier", f"{name} is in use in the other tier")
                return
            why = ("permits_exceed_limit" if request.mode == "semaphore" and request.permits > request.limit
                   else "mode_mismatch" if any(other.kind() != request.kind() for other in others)
                   else "limit_mismatch" if any(other.limit != request.limit for other in others) else None)
            if why is not None:
                self._refuse(request, why, now_ms)
                return
        self.queue.append(request)
        self._grant_next(now_ms)
        if request in self.queue and not request.may_wait:
            delayed = any(name in self._delayed for name in request.names)
            self.queue.remove(request)
            self._refuse(request, "delayed" if delayed else "held", now_ms)
        elif request in self.queue:
            for name in request.names:
                self.events.emit("queued", now_ms, request.shown(name), None)

    def _refuse(self, request: FakeWaiter, reason: str, now_ms: int) -> None:
        holder = next((grant for name in request.names for grant in self.grants_of(name)), None)
        key = "elected" if request.mode == "election" else "acquired"
        request.answer(200, {key: False, "reason": reason, "holder": holder.holder(now_ms) if holder else None,
                             "queue_length": len(self.waiters_of(request.names[0]))})

    def _leave(self, waiter: FakeWaiter, reason: str, now_ms: int) -> None:
        self.queue.remove(waiter)
        self._refuse(waiter, reason, now_ms)
        for name in waiter.names:
            self.events.emit("wait_ended", now_ms, waiter.shown(name), None, reason=reason)
        self._grant_next(now_ms)

    def _grant_next(self, now_ms: int) -> None:
        """Strict queues (S6.1): grants what is first in all of its queues and fits."""
        blocked: Set[str] = {name for name, until_ms in self._delayed.items() if until_ms > now_ms}
        for waiter in list(self.queue):
            if all(name not in blocked and self._fits(name, waiter) for name in waiter.names):
                self.queue.remove(waiter)
                self._grant(waiter, now_ms)
            else:
                blocked.update(waiter.names)

    def _fits(self, name: str, request: FakeWaiter) -> bool:
        held = [grant.request for grant in self.grants_of(name)]
        if request.mode == "shared":
            return all(other.mode == "shared" for other in held)
        if request.mode == "semaphore":
            return sum(other.permits for other in held) + request.permits <= request.limit
        return not held

    def _grant(self, request: FakeWaiter, now_ms: int) -> None:
        self._tokens += TOKENS
        grant = FakeGrant(request, self._tokens, now_ms)
        if request.mode == "semaphore":
            used = {other.slot for other in self.grants_of(request.names[0])}
            grant.slot = next(slot for slot in range(request.limit) if slot not in used)
        self.grants.append(grant)
        for name in request.names:
            self.events.emit("granted", now_ms, request.shown(name), None)
            if request.mode == "election":
                self.events.emit("leader_changed", now_ms, {**request.shown(name), "value": request.value, "vacant": False}, None)
        self._answer_grant(grant, request.answer)

    def _answer_grant(self, grant: FakeGrant, answer: Answer) -> None:
        slot = {} if grant.slot is None else {"slot": grant.slot}
        key = "elected" if grant.request.mode == "election" else "acquired"
        answer(200, {key: True, "fencing_token": grant.token, "leader_epoch": self.epoch, "tier": grant.request.tier,
                     "waited_ms": grant.waited_ms, **slot})


def refuse(answer: Answer, status: int, code: str, message: str) -> None:
    answer(status, {"error": {"code": code, "message": message}})

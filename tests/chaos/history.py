"""What clients saw, and the check of it. Pure: no process, no clock of its own.

All times are seconds on one machine's CLOCK_MONOTONIC. Nothing is assumed about what the cluster did between a
call and its answer; so whatever is reported here is wrong in every reading of the history."""

import struct
from dataclasses import dataclass, field

SAFE_RATE, SAFE_SECONDS = 0.999, 0.005  # what S5.2 takes off a TTL


@dataclass(slots=True)
class Op:
    """One call of one client, all its attempts together.

    kind: acquire, renew, release; or claim, where a client says itself until when it holds (`until`).
    outcome: ok, refused (a certain no), unknown (it may have been done), error (an answer nobody should get)."""

    client: str
    kind: str
    name: str
    invoked: float
    returned: float
    outcome: str
    token: int = 0
    ttl_ms: int = 0
    waits: bool = False
    code: str = ""
    until: float = 0.0


@dataclass(slots=True)
class Attempt:
    """One request to one node: did an answer, or the end of the connection, come in time?"""

    client: str
    machine: int
    what: str
    invoked: float
    returned: float
    bound: float
    answered: bool


@dataclass
class Hold:
    """What a client may believe about one grant: it is the only holder from `begin` to `end`."""

    grant: Op
    until: float  # by the client's own count (S5), whatever was released
    released: float = float("inf")  # when that was first requested
    renewals: list = field(default_factory=list)

    @property
    def begin(self):
        return self.grant.returned

    @property
    def end(self):
        return min(self.until, self.released)


# --- what storm.c wrote --------------------------------------------------------

RECORD = struct.Struct("<QQQQIIBBB5x")
KINDS = ("acquire", "claim", "release")
WANTED = 6  # names that all clients want, wanted-0 and so on; storm.c has the same number
# enum hf_error of include/holdfast.h: certain answers, and those that leave it open.
OK, REFUSED, UNKNOWN = 0, {1: "held", 2: "timeout", 4: "lost"}, {3: "unreachable", 13: "unknown"}


def read_storm(data):
    """The records of tests/chaos/storm.c; half of one at the end (it was killed) is left out."""
    ops = []
    for invoked, returned, token, until, thread, name, kind, error, waits in RECORD.iter_unpack(
            data[:len(data) - len(data) % RECORD.size]):
        if error == OK:
            outcome, code = "ok", ""
        elif error in REFUSED:
            outcome, code = "refused", REFUSED[error]
        else:
            outcome, code = ("unknown", UNKNOWN[error]) if error in UNKNOWN else ("error", f"hf_error {error}")
        ops.append(Op(f"storm-{thread}", KINDS[kind], f"wanted-{name}" if name < WANTED else f"storm-{thread}-{name}",
                      invoked / 1e6, returned / 1e6, outcome, token, 0, bool(waits), code, until / 1e6))
    return ops


def safe_until(sent, ttl_ms):
    return sent + ttl_ms / 1000 * SAFE_RATE - SAFE_SECONDS


def granted(ops):
    return [op for op in ops if op.kind == "acquire" and op.outcome == "ok"]


def holds_of(ops):
    """By (name, token). A grant that may have waited counts only from a renewal or a claim (S5.1)."""
    holds = {}
    for op in granted(ops):
        until = op.returned if op.waits else safe_until(op.invoked, op.ttl_ms)
        holds.setdefault((op.name, op.token), Hold(op, until))
    for op in ops:
        hold = holds.get((op.name, op.token))
        if hold is None or op.kind == "acquire":
            continue
        if op.kind == "release":
            hold.released = min(hold.released, op.invoked)
        elif op.outcome == "ok":
            until = op.until if op.kind == "claim" else safe_until(op.invoked, op.ttl_ms)
            hold.until = max(hold.until, until)
            hold.renewals.append((op.returned, until))
    return holds


def check_tokens(ops):
    """S3.1: one order for all names; none twice; never lower than one whose answer came before the call."""
    wrong = []
    seen = {}
    latest = None
    for op in sorted(granted(ops), key=lambda op: op.token):
        if op.token in seen:
            wrong.append(f"token {op.token} was granted twice: {seen[op.token]} and {op.client} on {op.name}")
        seen[op.token] = f"{op.client} on {op.name}"
        if latest is not None and op.returned < latest.invoked:
            wrong.append(f"token {op.token} of {op.name} was answered at {op.returned:.3f}, before the lower "
                         f"{latest.token} of {latest.name} was requested at {latest.invoked:.3f}")
        if latest is None or op.invoked > latest.invoked:
            latest = op
    return wrong


def check_overlaps(holds):
    """S4: never two who may both believe that they hold a name."""
    wrong = []
    by_name = {}
    for (name, _), hold in holds.items():
        if hold.begin < hold.end:
            by_name.setdefault(name, []).append(hold)
    for name, some in by_name.items():
        longest = None
        for hold in sorted(some, key=lambda hold: hold.begin):
            if longest is not None and hold.begin < longest.end:
                a, b = longest.grant, hold.grant
                wrong.append(f"{name}: {a.client} holds it by token {a.token} until {longest.end:.3f}, and "
                             f"{b.client} by token {b.token} from {hold.begin:.3f}")
            if longest is None or hold.end > longest.end:
                longest = hold
    return wrong


def check_cut_short(ops, holds):
    """A holder was answered that it is none, while by its own count it was: the grant was lost, or cut short."""
    wrong = []
    for op in ops:
        hold = holds.get((op.name, op.token))
        if hold is None or op.kind not in ("renew", "release") or op.outcome != "refused":
            continue
        known = [until for returned, until in hold.renewals if returned <= op.invoked]
        first = hold.grant.returned if hold.grant.waits else safe_until(hold.grant.invoked,
                                                                        hold.grant.ttl_ms)
        until = max([first, *known])
        if op.returned < until and hold.released >= op.invoked:
            wrong.append(f"{op.name}: the {op.kind} by {op.client} of token {op.token} was refused "
                         f"({op.code}) {until - op.returned:.3f} s before its end")
    return wrong


def check_errors(ops):
    return [f"{op.name}: the {op.kind} by {op.client} got an answer that nobody should get: {op.code}"
            for op in ops if op.outcome == "error"]


def check_kept(holds, read):
    """`read`: (machine, name, token that it shows or 0, when the request was sent, when it was answered)."""
    wrong = []
    by_name = {}
    for (name, _), hold in holds.items():
        if name not in by_name or hold.grant.token > by_name[name].grant.token:
            by_name[name] = hold
    for machine, name, token, _, answered in read:
        hold = by_name.get(name)
        if hold is not None and answered < hold.end and token != hold.grant.token:
            wrong.append(f"{name}: token {hold.grant.token} was granted to {hold.grant.client} and stands "
                         f"until {hold.end:.3f}, but machine {machine} shows {token or 'nobody'}")
    return wrong


def check_bounds(attempts, away):
    """`away`: machine -> [(begin, end)] in which its node was dead, paused or starting."""
    wrong = []
    for a in attempts:
        took = a.returned - a.invoked
        if a.answered and took <= a.bound:
            continue
        if any(a.invoked <= end and begin <= a.returned for begin, end in away.get(a.machine, ())):
            continue
        wrong.append(f"machine {a.machine}: {a.what} of {a.client} at {a.invoked:.3f} "
                     f"{'took' if a.answered else 'had no answer after'} {took:.3f} s, and had {a.bound:.3f}")
    return wrong


def check(ops, attempts=(), away=None, read=()):
    """All of it: sentences, empty where no promise broke."""
    holds = holds_of(ops)
    return [*check_tokens(ops), *check_overlaps(holds), *check_cut_short(ops, holds), *check_errors(ops),
            *check_kept(holds, read), *check_bounds(attempts, away or {})]


# --- figures -------------------------------------------------------------------


def slots(ops, begin, end, width=0.1):
    """Per slot: did the answer to a successful acquire come in it?"""
    marks = [False] * max(1, int((end - begin) / width))
    for op in granted(ops):
        number = int((op.returned - begin) // width)
        if 0 <= number < len(marks):
            marks[number] = True
    return marks


def failover(ops, at):
    """Seconds from `at` to the first grant that was requested after it; None: never."""
    after = [op.returned for op in granted(ops) if op.invoked >= at]
    return min(after) - at if after else None


def longest_gap(ops, begin, end):
    """The most seconds from `begin` to `end` in which no grant was answered."""
    marks = sorted(op.returned for op in granted(ops) if begin <= op.returned <= end)
    return max(b - a for a, b in zip([begin, *marks], [*marks, end]))

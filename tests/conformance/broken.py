#!/usr/bin/python3
"""Clients that break a rule, each by one change of the Python client, and the scenario that must fail with it:
broken.py NAME is its adapter. The suite must be able to fail."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cluster")]

from adapters import Language  # noqa: E402


class BrokenClient(Language):
    patience = 10.0  # what it does not do need not be waited for

    def __init__(self, name, scenario, says, change, facade=()):
        """`says`: a part of what the failure must say."""
        super().__init__(f"broken-{name}", name, lambda _: [sys.executable, HERE / "broken.py", name, *facade])
        self.scenario = scenario
        self.says = says
        self.change = change


def safe_for_ever(_):
    """A check that reads no clock."""
    from holdfast.engine import Engine
    Engine.safe_for_ms = lambda self, held: 29000
    Engine.check = lambda self, held: None


def reads_a_flag(_):
    """A check that reads what a timer has set, here a timer that is a second late (C2.2)."""
    from holdfast.engine import Engine
    from holdfast.session import Session
    tick, seen = Session.tick, {}

    def late(self, now_ms):
        if now_ms >= self.life.safe_until() and now_ms < seen.setdefault(self, now_ms) + 1000:
            return now_ms + 100
        return tick(self, now_ms)
    Session.tick = late
    Engine.safe_for_ms = lambda self, held: 1 if held.state == "held" else 0


def counts_from_the_answer(_):
    """A lock counts from its answer, not from its sending (C1.3)."""
    from holdfast.caller import Caller
    answered = Caller._answered
    Caller._answered = lambda self, response, sent_ms: answered(self, response, self.clock.now_ms())


def keeps_its_place(_):
    """A wait that was cancelled stays in the queue (C5.2)."""
    async def nothing(*_):
        pass
    from holdfast.locks import Locks
    Locks._withdraw = nothing


def tells_losses_twice(_):
    """The application gets a loss twice (C2.7)."""
    from holdfast.engine import Engine
    once = Engine.dispatch

    def twice(self, callback):
        once(self, callback)
        once(self, callback)
    Engine.dispatch = twice


def new_request_ids(_):
    """A wait that is repeated is a new request (C4.1)."""
    import json
    import uuid

    from holdfast.caller import Caller
    attempt = Caller.attempt

    async def renamed(self, endpoint, method, path, body, *more):
        words = json.loads(body) if body else {}
        if "request_id" in words and path.endswith("/acquire"):
            body = json.dumps({**words, "request_id": uuid.uuid4().hex}).encode()
        return await attempt(self, endpoint, method, path, body, *more)
    Caller.attempt = renamed


def logs_the_session(adapter):
    """The log has the id of the session (C7.2)."""
    from holdfast.session import Session
    add = Session.add

    def noisy(self, held):
        adapter.logging.info("granted in session %s", self.id)
        add(self, held)
    Session.add = noisy


def releases_nothing(_):
    """close() leaves the session open (C3.4)."""
    async def nothing(*_):
        pass
    from holdfast.session import Session
    Session.close = nothing


BROKEN = [
    BrokenClient("safe_for_ever", "pause_client", "(C1.4)", safe_for_ever),
    BrokenClient("reads_a_flag", "flag_is_not_read", "must be the error 'lost'", reads_a_flag),
    BrokenClient("counts_from_the_answer", "slow_answer", "must be max", counts_from_the_answer),
    BrokenClient("keeps_its_place", "cancel", "the service shows", keeps_its_place, ["asyncio"]),
    BrokenClient("tells_losses_twice", "force_unlock", "there is one", tells_losses_twice),
    BrokenClient("new_request_ids", "leader_killed_in_wait", "already_held", new_request_ids),
    BrokenClient("logs_the_session", "basic", "(C7.2)", logs_the_session),
    BrokenClient("releases_nothing", "close", "not within", releases_nothing),
]


def main():
    name = sys.argv.pop(1)
    import adapter
    next(one for one in BROKEN if one.title == name).change(adapter)
    adapter.main()


if __name__ == "__main__":
    main()

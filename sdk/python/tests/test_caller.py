"""Retries (docs/CLIENTS.md, C4), with a transport that answers from a list."""

import asyncio

import pytest

import holdfast
from holdfast.caller import Caller
from holdfast.endpoints import Endpoints
from holdfast.http import Broken, NotSent, Response


class Clock:
    """Moves with each look."""

    def __init__(self, step_ms=5):
        self.ms = 1000
        self.step_ms = step_ms

    def now_ms(self):
        self.ms += self.step_ms
        return self.ms


class Transport:
    def __init__(self, clock, *answers):
        self.clock = clock
        self.answers = list(answers)
        self.sent = []

    async def request(self, endpoint, method, path, body, timeout):
        self.sent.append((endpoint.text, body, self.clock.ms))
        answer = self.answers.pop(0) if self.answers else NotSent("refused")
        if isinstance(answer, Exception):
            raise answer
        if callable(answer):
            return await answer()
        return answer

    def close_idle(self, endpoint):
        pass


def ok():
    return Response(200, {}, b'{"acquired": true}')


def refused(status, code):
    return Response(status, {}, b'{"error": {"code": "%s", "message": "no"}}' % code.encode())


def call(*answers, step_ms=5):
    clock = Clock(step_ms)
    transport = Transport(clock, *answers)
    caller = Caller(clock, Endpoints(["a:1", "b:1"]), transport)
    return transport, asyncio.run(caller.call("POST", "/x", {"request_id": "r"}, 0.3))


def test_a_retry_goes_elsewhere_with_the_same_bytes():
    transport, answer = call(Broken("gone"), refused(503, "unavailable"), ok())
    nodes = [node for node, _, _ in transport.sent]
    assert nodes[0] != nodes[1]
    assert len({body for _, body, _ in transport.sent}) == 1
    assert answer.body["acquired"]


def test_the_first_sending_that_may_have_been_done_counts():
    transport, answer = call(NotSent("refused"), refused(503, "unavailable"), Broken("gone"), refused(504, "outcome_unknown"), ok())
    assert answer.sent_ms == transport.sent[2][2]
    transport, answer = call(NotSent("refused"), ok())
    assert answer.sent_ms == transport.sent[1][2]


def test_other_errors_are_final_and_keep_their_code():
    with pytest.raises(holdfast.Denied) as denied:
        call(refused(403, "denied"))
    assert denied.value.code == "denied"
    with pytest.raises(holdfast.ServiceError) as other:
        call(refused(409, "wrong_tier"))
    assert other.value.code == "wrong_tier"


def test_nothing_was_done_or_the_outcome_is_unknown():
    with pytest.raises(holdfast.Unreachable, match="refused"):
        call(step_ms=50)
    with pytest.raises(holdfast.OutcomeUnknown):
        call(Broken("gone"), step_ms=50)


def test_open_circuits_fail_at_once_with_the_reasons():
    clock = Clock()
    transport = Transport(clock)
    caller = Caller(clock, Endpoints(["a:1"]), transport)
    for _ in range(3):
        caller.endpoints.failed(caller.endpoints.all[0], "connection refused", clock.ms)
    with pytest.raises(holdfast.Unreachable, match="a:1 .connection refused"):
        asyncio.run(caller.call("POST", "/x", None, 60))
    assert transport.sent == []


def test_a_wait_keeps_no_probe_and_ends_when_its_node_fails():
    async def run():
        clock = Clock()
        begun = asyncio.Event()

        async def silent():
            begun.set()
            await asyncio.Event().wait()

        transport = Transport(clock, silent, Broken("gone"), ok())
        caller = Caller(clock, Endpoints(["a:1"]), transport)
        (node,) = caller.endpoints.all
        for _ in range(3):
            caller.endpoints.failed(node, "refused", -10 ** 6)
        wait = asyncio.create_task(caller.call("POST", "/wait", {}, 10, wait=None))
        await begun.wait()
        assert node.may_try(clock.ms)
        with pytest.raises(Broken):
            await caller.attempt(node, "POST", "/keepalive", b"", 1)
        while len(transport.sent) < 3:
            clock.ms += 100
            await asyncio.sleep(0.01)
        assert (await wait).body["acquired"]

    asyncio.run(run())

"""The runner finds what is wrong: in scenarios, in adapters, and across clients. No cluster is needed."""

import sys

import pytest

from adapters import Client, Failed, Language
from expected import differs, problem
from scenario_run import ScenarioRun
from scenarios import BadScenario, Scenario, check

OPEN = {"client": "a", "do": "open"}
GOOD = {"title": "t", "rules": ["C1.1"], "steps": [OPEN]}

# Grants everything to everybody, safe for a second.
GRANTS_ALL = """
import json, sys
print(json.dumps({"hello": 1, "client": "x", "clock": "boottime", "features": []}), flush=True)
for number, line in enumerate(sys.stdin, 1):
    command = json.loads(line)
    answer = {"id": command["id"], "ok": True}
    if command["do"] in ("acquire", "check"):
        answer.update(token=str(number), safe_for_ms=1000)
    print(json.dumps(answer), flush=True)
"""


class NoCluster:
    credentials = {}

    def unique(self):
        return 1

    def endpoints(self, _):
        return []


def run(folder, program, steps, **more):
    scenario = Scenario("test", {**GOOD, "steps": steps, **more})
    language = Language("x", "X", lambda _: [sys.executable, "-c", program])
    ScenarioRun(scenario, language, NoCluster(), None, folder).execute()


def acquire(client, handle, **more):
    return {"client": client, "do": "acquire", "handle": handle, "name": "n", **more}


BOTH = [OPEN, {**OPEN, "client": "b"}, acquire("a", "l"), acquire("b", "m")]


def test_two_holders_of_one_name_are_found(tmp_path):
    with pytest.raises(Failed, match="S5"):
        run(tmp_path, GRANTS_ALL, BOTH)


def test_a_name_that_is_released_or_shared_may_be_granted(tmp_path):
    run(tmp_path, GRANTS_ALL, [*BOTH[:3], {"client": "a", "do": "release", "handle": "l"}, BOTH[3]])
    shared = [acquire("a", "l", mode="shared"), acquire("b", "m", mode="shared")]
    run(tmp_path, GRANTS_ALL, [*BOTH[:2], *shared])
    with pytest.raises(Failed, match="S5"):
        run(tmp_path, GRANTS_ALL, [*BOTH[:2], shared[0], BOTH[3]])


def test_a_promise_that_the_ttl_does_not_allow_is_found(tmp_path):
    run(tmp_path, GRANTS_ALL, [OPEN, acquire("a", "l", ttl_ms=1007)])
    with pytest.raises(Failed, match="C1.4"):
        run(tmp_path, GRANTS_ALL, [OPEN, acquire("a", "l", ttl_ms=1006)])


def test_an_expected_error_that_does_not_come_is_found(tmp_path):
    with pytest.raises(Failed, match="must be the error 'held'"):
        run(tmp_path, GRANTS_ALL, [OPEN, acquire("a", "l", expect={"error": "held"})])


def hello_and(line):
    return GRANTS_ALL.split("for number")[0] + f"sys.stdin.readline()\nprint({line!r}, flush=True)\nsys.stdin.read()"


@pytest.mark.parametrize("program, says", [
    ("print('hello', flush=True)", "not of the protocol"),
    ("", "the adapter ended"),
    (hello_and("{}"), "not of the protocol"),
    (hello_and('{"id": 7, "ok": true}'), "not of the protocol"),
    (hello_and('{"id": 1, "ok": false, "error": "odd"}'), "not of the protocol"),
    (hello_and('{"id": 1, "ok": true}\n{"id": 1, "ok": true}'), "not of the protocol"),
    (hello_and('{"event": "odd", "handle": "l"}'), "not of the protocol"),
])
def test_an_adapter_that_breaks_the_protocol_is_found(tmp_path, program, says):
    with pytest.raises(Failed, match=says):
        run(tmp_path, program, [OPEN, {"event": "lost", "client": "a", "handle": "l"}])


def test_an_answer_that_is_late_is_found(tmp_path):
    client = Client("a", [sys.executable, "-c", hello_and('{"event": "safe", "handle": "l"}')], tmp_path / "stderr")
    try:
        with pytest.raises(Failed, match="not within"):
            client.answer(client.send("check", handle="l"), 0.01)
    finally:
        client.kill()


@pytest.mark.parametrize("changed", [
    {"title": ""}, {"rules": ["C99.1"]}, {"needs": ["flying"]}, {"steps": []}, {"odd": 1}, {"cluster": {"odd": 1}},
    {"steps": [{"client": "a", "do": "fly"}]}, {"steps": [{**OPEN, "odd": 1}]}, {"steps": [{"do": "open"}]},
    {"steps": [{"fault": "flood"}]}, {"steps": [{"see": {"odd": 1}, "name": "n"}]}, {"steps": [{**OPEN, "nodes": "odd"}]},
    {"steps": [{"pass_ms": 1, "fault": "kill"}]},
])
def test_a_scenario_that_is_not_of_the_format_is_refused(changed):
    check("good", GOOD, ["C1.1"])
    with pytest.raises(BadScenario):
        check("bad", {**GOOD, **changed}, ["C1.1"])


def test_expected_values():
    token_of = {"l": 7}.__getitem__
    for wanted, good, bad in [
            (3, 3, 4), (True, True, 1), ({"min": 2, "max": 3}, 3, 4), ({"min": 2}, 2, True), ({"above": "l"}, "8", "7"),
            ({"same_as": "l"}, "7", "8"), ({"one_of": ["a", "b"]}, "b", "c"), ({"within_ttl_ms": 2000}, 1993, 1994),
            ({"within_ttl_ms": 2000}, 1, 0), ({"min": 2}, 2, None)]:
        assert differs(wanted, good, token_of) is None, (wanted, good)
        assert differs(wanted, bad, token_of) is not None, (wanted, bad)
    assert problem(None, {"ok": True}, token_of) is None
    assert problem(None, {"ok": False, "error": "held"}, token_of) is not None
    assert problem({"error": "held"}, {"ok": False, "error": "lost"}, token_of) is not None

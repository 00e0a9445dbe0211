"""The comparison of test_suites.py itself."""

import pytest

import results
from suites import SUITES

REDIS = {"a": ("passed", ""), "b [1]": ("passed", ""), "b [2]": ("passed", ""), "broken": ("failed", "no server")}


@pytest.mark.parametrize("here, reasons, found", [
    ({}, {}, []),
    ({"broken": ("passed", "")}, {}, []),  # it does not count
    ({"a": ("failed", "why")}, {}, ["fails, and passes on Redis: a\n    why"]),
    ({"a": ("skipped", "why")}, {}, ["fails, and passes on Redis: a\n    skipped: why"]),
    ({"a": None}, {}, ["fails, and passes on Redis: a\n    missing: it did not run"]),
    ({"a": ("failed", "why")}, {"a": "reason"}, []),
    ({}, {"a": "reason"}, ["has a reason, and does not fail: a", "passes, and has the reason of a: a"]),
    ({}, {"unknown": "reason"}, ["has a reason, and does not fail: unknown"]),
    ({"b [1]": ("failed", ""), "b [2]": ("failed", "")}, {"b [*]": "reason"}, []),
    ({"b [1]": ("failed", "")}, {"b [*]": "reason"}, ["passes, and has the reason of b [*]: b [2]"]),
])
def test_differences(monkeypatch, here, reasons, found):
    suite = SUITES[0]
    monkeypatch.setattr(results, "REASONS", {suite.name: reasons})
    outcomes = {test: outcome for test, outcome in {**REDIS, **here}.items() if outcome is not None}
    assert results.Result(suite, REDIS, outcomes).differences() == found


def test_a_test_that_passes_in_one_of_two_runs_has_passed(monkeypatch, tmp_path):
    suite = SUITES[0]
    monkeypatch.setattr(results, "REASONS", {})
    monkeypatch.setattr(results, "check", lambda suite: None)
    runs = []

    def on(_, server, folder):
        runs.append(folder.name)
        return {**REDIS, "a": ("failed", "slow")} if folder.name == "holdfast-1" else REDIS

    monkeypatch.setattr(results, "_on", on)
    assert results.run(suite, tmp_path / "suite").differences() == []
    assert sorted(runs) == ["holdfast-1", "holdfast-2", "redis-1", "redis-2"]

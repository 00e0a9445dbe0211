"""`make sim-long`: seeds are run once, each piece is recorded, a failing seed is named and does not end the run."""

import fcntl
import json
import os
import re
import signal
import subprocess
import sys

import pytest
from conftest import ROOT, run, write

SIM = ROOT / "build/tests/sim/sim"
LONG = ROOT / "tests/sim/long.py"

# Prints what the simulator prints. Seeds that end with 13 break a promise, those with 17 an assertion; seed 666 hangs
# until a signal comes, at seed 999 there is no memory for a process.
FAKE = """#!/usr/bin/python3
import argparse, sys, time
p = argparse.ArgumentParser()
for name in ("seed", "seeds", "seconds", "jobs", "within"):
    p.add_argument("--" + name, type=int, default=0)
p.add_argument("--keep-going", action="store_true", required=True)
o = p.parse_args()
failed = 0
for seed in range(o.seed, o.seed + o.seeds):
    if seed == 666:
        print("hangs", file=open("hangs", "w"))
        time.sleep(60)
    if seed == 999:
        print("sim: fork: no memory")
        sys.exit(70)
    if seed % 100 == 13:
        print(f"VIOLATION seed {seed}, event 7, at 1.5 s: term 2 has two leaders: 1 and 2", file=sys.stderr)
        failed += 1
    if seed % 100 == 17:
        print("holdfast: core.c:1: it is full", file=sys.stderr)
        print(f"VIOLATION seed {seed}: Aborted", file=sys.stderr)
        failed += 1
n = o.seeds - failed
print(f"nodes: {n} entries, {2 * n} elections (3 of the leader)")
print(f"{75 * n} s simulated in 1.00 s of a core: 75 times real time per core")
print(f"{n} passed, {failed} failed")
sys.exit(1 if failed else 0)
"""


@pytest.fixture
def place(tmp_path):
    write(tmp_path / "sim", FAKE, executable=True)
    write(tmp_path / "evidence/simulation.md",
          "# Words\n\n<!-- written by tests/sim/long.py: begin -->\nold\n<!-- written by tests/sim/long.py: end -->\n\nmore\n")
    return tmp_path


def command(place, *words):
    return [sys.executable, LONG, "--sim", place / "sim", "--evidence", place / "evidence", "--out", place / "out", *words]


def recorded(place):
    return [json.loads(line) for line in (place / "evidence/simulation.jsonl").read_text().splitlines()]


def test_a_run_goes_on_behind_the_last(place):
    assert run(*command(place, "--seeds", 10, "--piece", 4, "--first-seed", 20)).returncode == 0
    assert run(*command(place, "--seeds", 5, "--piece", 4)).returncode == 0
    assert [(line["first"], line["seeds"]) for line in recorded(place)] == [(20, 4), (24, 4), (28, 2), (30, 4), (34, 1)]
    assert recorded(place)[0]["simulated_s"] == 300


def test_the_table_replaces_only_what_is_between_the_marks(place):
    run(*command(place, "--seeds", 10, "--piece", 4, "--first-seed", 20))
    text = (place / "evidence/simulation.md").read_text()
    assert text.startswith("# Words\n") and text.endswith("\n\nmore\n") and "old" not in text
    assert "| 20 to 29 | 10 | 0.2 |" in text and "10 worlds, 0 failed" in text
    assert "10 entries, 20 elections, 9 elections (of the leader)" in text
    before = text.count("\n")
    run(*command(place, "--seeds", 1))
    text = (place / "evidence/simulation.md").read_text()
    assert text.count("\n") == before and "| 20 to 30 | 11 |" in text


def test_a_failing_seed_is_recorded_and_does_not_end_the_run(place):
    ended = run(*command(place, "--seeds", 20, "--piece", 5, "--first-seed", 111))
    assert ended.returncode == 1
    lines = recorded(place)
    assert [line["seeds"] for line in lines] == [5, 5, 5, 5]
    assert lines[0]["violations"] == [{"seed": 113, "text": "term 2 has two leaders: 1 and 2"}]
    assert lines[1]["violations"] == [{"seed": 117, "text": "holdfast: core.c:1: it is full"}]
    text = (place / "evidence/simulation.md").read_text()
    assert "20 worlds, 2 failed" in text and re.search(r"\| 117 \| \w+(-dirty)? \| holdfast: core.c:1: it is full \|", text)
    # Later runs are checked by their own seeds.
    assert run(*command(place, "--seeds", 2)).returncode == 0


def test_a_piece_that_did_not_end_is_not_recorded(place):
    assert run(*command(place, "--seeds", 10, "--piece", 4, "--first-seed", 995)).returncode == 2
    assert [line["first"] for line in recorded(place)] == [995]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_loses_the_current_piece_only(place, number):
    process = subprocess.Popen([str(word) for word in command(place, "--hours", 1, "--piece", 4, "--first-seed", 662)],
                               start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while not (place / "out/hangs").exists():
            assert process.poll() is None
        os.killpg(process.pid, number)
        assert process.wait(timeout=30) == 130
    finally:
        process.kill()
    assert [(line["first"], line["seeds"]) for line in recorded(place)] == [(662, 4)]
    assert not list((place / "out").glob("sim-*"))


def test_two_runs_at_once_are_refused(place):
    with open(write(place / "out/lock", ""), encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ended = run(*command(place, "--seeds", 1))
    assert ended.returncode == 2 and "another run" in ended.stdout


@pytest.mark.skipif(not SIM.exists(), reason="the simulator is not built")
def test_the_simulator_goes_on_after_a_failure_where_it_should():
    # Without memory each world fails. The first one ends the run, unless it is to go on.
    short = f"ulimit -v 16000; exec {SIM} --jobs 1 --seeds 4 --seconds 1"
    ended = run("bash", "-c", short)
    assert ended.returncode == 1 and ended.stdout.endswith("0 passed, 1 failed\n")
    ended = run("bash", "-c", short + " --keep-going")
    assert ended.returncode == 1 and ended.stdout.endswith("0 passed, 4 failed\n")
    assert re.findall(r"VIOLATION seed (\d)", ended.stdout) == ["1", "2", "3", "4"]


@pytest.mark.skipif(not SIM.exists(), reason="the simulator is not built")
def test_the_report_of_the_simulator_is_understood(place):
    ended = run(*command(place, "--sim", SIM, "--seeds", 2, "--seconds", 20))
    assert ended.returncode == 0, ended.stdout
    (line,) = recorded(place)
    assert line["first"] == 2001 and line["simulated_s"] == 70 and line["core_s"] > 0
    assert line["figures"]["entries"] > 0 and "crashes (power cuts)" in line["figures"]

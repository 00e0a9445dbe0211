"""The runner of tests/scenario: wrong scenarios fail, in their line and with a readable reason."""

import os
import re

import pytest

from conftest import ROOT, run, write

FOLDER = ROOT / "tests/scenario"
WRONG = sorted((FOLDER / "wrong").glob("*.txt"))
# The builds that may be there; a developer may point to another.
BUILDS = ("build-test", "build-clang", "build")
RUNNERS = [os.environ.get("SCENARIO", "")] + [
    str(ROOT / build / "tests/scenario/scenario") for build in BUILDS
]


@pytest.fixture(scope="module")
def runner():
    found = [path for path in RUNNERS if path and os.access(path, os.X_OK)]
    assert found, "build it first: scripts/build test"
    return found[0]


def expected_line(path):
    """The number that the file's own comment names."""
    match = re.search(r"in line (\d+)", path.read_text())
    return int(match.group(1)) if match else 1


def last_line(result):
    return result.stdout.splitlines()[-1]


@pytest.mark.parametrize("path", WRONG, ids=lambda path: path.stem)
def test_wrong_scenario_fails_in_its_line(runner, path):
    result = run(runner, path)
    assert result.returncode == 1
    assert f"{path}:{expected_line(path)}: " in result.stdout
    assert last_line(result) == "0 passed, 1 failed"


def test_there_are_wrong_scenarios():
    assert len(WRONG) >= 15


def test_a_mismatch_shows_what_was_expected_and_what_came(runner):
    result = run(runner, FOLDER / "wrong/token_differs.txt")
    assert "expected: granted, token 2" in result.stdout
    assert "not so:   token 2" in result.stdout
    assert "got:      granted, token 1" in result.stdout


def test_wrong_and_right_ones_are_counted(runner):
    right, wrong = FOLDER / "tour.txt", FOLDER / "wrong/token_differs.txt"
    result = run(runner, right, wrong, right)
    assert result.returncode == 1
    assert last_line(result) == "2 passed, 1 failed"


def test_the_tour_tells_its_scenario(runner):
    result = run(runner, "--tell", FOLDER / "tour.txt")
    assert result.returncode == 0, result.stdout
    for words in ("granted, token 2", "holder alice", "queued, position 1",
                  "alice is notified that it lost", "refused stale_token", "epoch 4", "FORCE_UNLOCK"):
        assert words in result.stdout
    assert last_line(result) == "1 passed, 0 failed"


def test_a_file_that_is_not_there_fails(runner, tmp_path):
    result = run(runner, tmp_path / "none.txt")
    assert result.returncode == 1
    assert "none.txt: No such file" in result.stdout
    assert last_line(result) == "0 passed, 1 failed"


def test_no_file_at_all_is_a_wrong_call(runner):
    assert run(runner).returncode == 2


def test_a_loop_names_its_turn(runner):
    result = run(runner, FOLDER / "wrong/wrong_in_a_loop.txt")
    assert "(i is 3)" in result.stdout


@pytest.mark.parametrize("step, complaint", [
    ('alice acquires "db" ttl soon', "expected a time span here: soon"),
    ('alice acquires db', "expected the name of a lock in quotes here: db"),
    ('alice acquires "db" permits 2', 'expected the word "of" at the end'),
    ('alice acquires "db" ->', "nothing is expected behind the arrow"),
    ('alice releases "db"', "it has not requested this lock"),
    ('olga revokes "db" soon', "do not understand: soon"),
    ('show db', "expected the name of a lock in quotes here: db"),
    ('for i from 1', 'expected the word "to" at the end'),
    ('dance', "do not understand this step"),
    ('at 3s -> ok', "time gives no answer"),
])
def test_words_that_do_not_fit_are_named(runner, tmp_path, step, complaint):
    path = write(tmp_path / "x.txt", f"# Wrong.\nopen session alice ttl 10s\n{step}\n")
    result = run(runner, path)
    assert result.returncode == 1
    assert f"{path}:3: " in result.stdout
    assert complaint in result.stdout


def test_every_scenario_says_what_it_is_about():
    for path in FOLDER.glob("*.txt"):
        first = path.read_text().splitlines()[0]
        assert first.startswith("# ") and len(first) > 20, path


def test_every_promise_of_the_core_has_a_scenario():
    """Each S… that the core alone can keep is cited by some scenario."""
    cited = set()
    for path in FOLDER.glob("*.txt"):
        cited |= set(re.findall(r"S\d+(?:\.\d+)?", path.read_text()))
    core = {"S1.1", "S1.3", "S1.7", "S2.1", "S3.1", "S3.3", "S4.1", "S4.2", "S4.3", "S4.4", "S4.5",
            "S4.6", "S6.1", "S6.2", "S6.3", "S6.4", "S6.5", "S7.1", "S7.2", "S7.3", "S7.4", "S8.1",
            "S8.2", "S8.3", "S9.2", "S9.3", "S11", "S12.9"}
    assert core - cited == set()

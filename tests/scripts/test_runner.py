"""scripts/test and .ci/run: they count right, go on after a failure and never lie."""

import re
import shutil

import pytest

from conftest import ROOT, run, write

CMOCKA = """[==========] Running 3 test(s).
[  PASSED  ] 2 test(s).
[  FAILED  ] 1 test(s), listed below:
[  FAILED  ] a_test

 1 FAILED TEST(S)
"""


@pytest.fixture
def tree(tmp_path):
    """A repository with the real runner in it and nothing to run."""
    (tmp_path / "scripts").mkdir()
    for name in ("test", "common.sh"):
        shutil.copy(ROOT / "scripts" / name, tmp_path / "scripts")
    return tmp_path


def plant(tree, suite, name, script):
    """A test program of a suite, and the source file that announces it."""
    write(tree / f"tests/{suite}/{name}.c", "")
    variant = "build-clang" if suite == "model" else "build-test"
    write(tree / variant / f"tests/{suite}/{name}", f"#!/bin/bash\n{script}\n", executable=True)


def suites(tree, *names):
    return run(tree / "scripts/test", *names, cwd=tree)


def last_line(result):
    return result.stdout.splitlines()[-1]


def test_all_counts_are_added_up(tree):
    plant(tree, "unit", "test_a", "echo '[  PASSED  ] 5 test(s).' >&2")
    plant(tree, "unit", "test_b", "echo '[  PASSED  ] 7 test(s).' >&2")
    plant(tree, "scenario", "scenario", "echo '30 passed, 0 failed'")
    result = suites(tree, "unit", "scenario")
    assert result.returncode == 0, result.stdout
    assert last_line(result) == "42 passed, 0 failed"


def test_a_failure_is_shown_and_the_next_suite_still_runs(tree):
    plant(tree, "unit", "test_a", f"echo 'the reason'; cat <<'END'\n{CMOCKA}\nEND\nexit 1")
    plant(tree, "scenario", "scenario", "echo '3 passed, 0 failed'")
    result = suites(tree, "unit", "scenario")
    assert result.returncode == 1
    assert "the reason" in result.stdout
    assert last_line(result) == "5 passed, 1 failed"


@pytest.mark.parametrize("script", [
    "kill -SEGV $$",                                # it crashed
    "exit 3",                                       # it failed without a word
    "exit 0",                                       # it ran no test
    "echo '0 passed, 0 failed'",                    # it says so
])
def test_a_program_without_a_result_is_one_failed(tree, script):
    plant(tree, "model", "model", script)
    result = suites(tree, "model")
    assert result.returncode == 1
    assert last_line(result) == "0 passed, 1 failed"


def test_a_program_that_fails_after_its_tests_passed_is_one_failed(tree):
    plant(tree, "model", "model", "echo '9 passed, 0 failed'; exit 1")
    assert last_line(suites(tree, "model")) == "9 passed, 1 failed"


def test_a_suite_that_is_not_written_yet_is_no_error(tree):
    plant(tree, "scenario", "scenario", "echo '1 passed, 0 failed'")
    result = suites(tree, "scenario", "model")
    assert result.returncode == 0
    assert "not written yet" in result.stdout


def test_a_suite_with_a_folder_but_no_program_fails(tree):
    (tree / "tests/scenario").mkdir(parents=True)
    assert last_line(suites(tree, "scenario")) == "0 passed, 1 failed"


def test_running_nothing_is_a_failure(tree):
    assert suites(tree, "model").returncode == 1


def test_an_unknown_suite_is_refused(tree):
    result = suites(tree, "units")
    assert result.returncode == 1
    assert 'there is no suite "units"' in result.stdout


@pytest.mark.parametrize("line, counted", [
    ("==== 3 passed in 0.12s ====", "3 passed, 0 failed"),
    ("1 failed, 3 passed, 2 skipped in 61.02s (0:01:01)", "3 passed, 1 failed"),
    ("==== 2 passed, 1 error in 0.12s ====", "2 passed, 1 failed"),
    ("==== 2 passed, 7 skipped in 0.12s ====", "2 passed, 0 failed"),
])
def test_pytest_is_understood(tree, line, counted):
    plant(tree, "model", "model", f"echo '{line}'")
    result = suites(tree, "model")
    assert last_line(result) == counted
    skipped = re.search(r"(\d+) skipped in", line)
    assert (f"{skipped[1]} skipped; " if skipped else "\n") in result.stdout
    assert bool(skipped) == ("with CI=true they fail" in result.stdout)


# --- .ci/run ---------------------------------------------------------------


@pytest.mark.parametrize("recipe, status, line", [
    ("echo 4 passed, 0 failed", 0, "4 passed, 0 failed"),
    ("echo 4 passed, 2 failed; exit 1", 1, "4 passed, 2 failed"),
    ("echo 4 passed, 2 failed", 1, "4 passed, 2 failed"),
    ("echo 0 passed, 0 failed", 1, "0 passed, 0 failed"),
    ("echo set-up failed; exit 1", 1, "0 passed, 1 failed"),
])
def test_ci_ends_with_the_count_and_fails_when_it_should(tmp_path, recipe, status, line):
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/run", tmp_path / ".ci")
    write(tmp_path / "Makefile", f"test:\n\t@{recipe}\n")
    result = run("bash", ".ci/run", cwd=tmp_path)
    assert (result.returncode != 0) == (status != 0)
    assert last_line(result) == line


def meet(here, there):
    """A program that passes only if the other one runs at the same time."""
    return (f"touch {here}; for i in $(seq 1000); do [ -f {there} ] && break; sleep 0.02; done; "
            f"[ -f {there} ] && echo '1 passed, 0 failed'")


def test_suites_that_do_not_measure_time_run_next_to_each_other(tree, monkeypatch):
    monkeypatch.setenv("JOBS", "2")
    plant(tree, "scenario", "scenario", meet(tree / "one", tree / "two"))
    plant(tree, "model", "model", meet(tree / "two", tree / "one"))
    result = suites(tree, "scenario", "model")
    assert last_line(result) == "2 passed, 0 failed", result.stdout


def test_with_one_job_they_run_in_order(tree, monkeypatch):
    monkeypatch.setenv("JOBS", "1")
    plant(tree, "scenario", "scenario", f"sleep 0.3; touch {tree}/one; echo '1 passed, 0 failed'")
    plant(tree, "model", "model", f"[ -f {tree}/one ] && echo '1 passed, 0 failed'")
    result = suites(tree, "scenario", "model")
    assert last_line(result) == "2 passed, 0 failed", result.stdout


def test_a_suite_waits_for_the_build_that_it_needs(tree, monkeypatch):
    monkeypatch.setenv("JOBS", "2")
    write(tree / "scripts/build", f"#!/bin/bash\nsleep 0.2; touch {tree}/$1\n", executable=True)
    plant(tree, "scenario", "scenario", f"[ -f {tree}/test ] && echo '1 passed, 0 failed'")
    plant(tree, "model", "model", f"[ -f {tree}/clang ] && echo '1 passed, 0 failed'")
    result = suites(tree, "model", "scenario", "build")
    assert last_line(result) == "5 passed, 0 failed", result.stdout


def test_without_its_build_a_suite_is_one_failed_and_is_not_run(tree):
    write(tree / "scripts/build", "#!/bin/bash\n[ $1 != test ]\n", executable=True)
    plant(tree, "scenario", "scenario", f"touch {tree}/ran; echo '1 passed, 0 failed'")
    plant(tree, "model", "model", "echo '1 passed, 0 failed'")
    result = suites(tree, "build", "scenario", "model")
    assert last_line(result) == "3 passed, 2 failed", result.stdout
    assert "not run: build_test failed" in result.stdout and not (tree / "ran").exists()


def test_a_suite_that_mostly_waits_takes_no_place_of_the_others(tree, monkeypatch):
    monkeypatch.setenv("JOBS", "2")
    both = tree / "both"
    plant(tree, "scenario", "scenario", meet(tree / "one", both))
    plant(tree, "model", "model", meet(tree / "two", both))
    write(tree / "tests/cluster/test_third.py", f"""
import time
from pathlib import Path
import pytest

@pytest.mark.sanitized
def test_the_other_two_are_there():
    end = time.monotonic() + 20
    while not (Path("{tree}/one").exists() and Path("{tree}/two").exists()):
        assert time.monotonic() < end
        time.sleep(0.02)
    Path("{both}").touch()
""")
    result = suites(tree, "scenario", "model", "sanitized")
    assert last_line(result) == "3 passed, 0 failed", result.stdout


def test_each_suite_says_how_long_it_took_and_what_it_used(tree):
    plant(tree, "scenario", "scenario", "for i in $(seq 300000); do :; done; sleep 0.5; echo '1 passed, 0 failed'")
    line = next(line for line in suites(tree, "scenario").stdout.splitlines() if line.startswith("scenario"))
    took, used = re.search(r"([0-9.]+) s, +([0-9.]+) s of a core$", line).groups()
    assert 0 < float(used) and float(used) + 0.4 < float(took)

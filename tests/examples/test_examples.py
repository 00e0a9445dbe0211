"""Each program of examples/ ends with `ok`, and its own checks find what they are for: without locks, or without a fence, it fails."""

import os
import subprocess
import sys

import pytest

from conftest import ROOT
from harness import PATIENCE, skip_or_fail

EXAMPLES = ROOT / "examples"
PROGRAMS = sorted([*EXAMPLES.glob("*.sh"), *EXAMPLES.glob("*.py")])
assert len(PROGRAMS) == 6


def run(program, env, *words):
    own = [sys.executable] if program.suffix == ".py" else []
    return subprocess.run([*own, program, *words], env=env, text=True, capture_output=True, timeout=2 * PATIENCE, check=False,
                          cwd="/")


def check_ok(done):
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith("ok: "), done.stdout
    assert "Traceback" not in done.stderr, done.stderr


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.name)
def test_an_example_runs(surroundings, program):
    check_ok(run(program, surroundings))


def test_the_readme_names_each_example():
    text = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert {f"`examples/{path.name}`" for path in PROGRAMS} <= {word for word in text.replace("|", " ").split() if "examples/" in word}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.name)
def test_without_a_cluster_the_message_says_so(surroundings, program):
    done = run(program, {**surroundings, "HOLDFAST_ENDPOINTS": "127.0.0.1:1"})
    assert done.returncode != 0 and "ok:" not in done.stdout, done
    assert "no endpoint answered" in done.stderr or "no node answered" in done.stderr, done


# `holdfast` without locks: everybody gets a token at once.
LAWLESS = """#!/bin/sh
case $1 in
status) exit 0 ;;
show) echo '{"queue_length":9}'; exit 0 ;;
esac
while [ "$1" != -- ]; do shift; done
shift
HOLDFAST_TOKEN=$(date +%N | sed 's/^0*//') exec "$@"
"""


@pytest.mark.parametrize("name", ["leader_cron.sh", "migrate_once.sh", "rolling_restart.sh"])
def test_a_script_fails_without_locks(surroundings, tmp_path, name):
    (tmp_path / "holdfast").write_text(LAWLESS, encoding="utf-8")
    (tmp_path / "holdfast").chmod(0o755)
    done = run(EXAMPLES / name, {**surroundings, "PATH": f"{tmp_path}:{surroundings['PATH']}"})
    assert done.returncode != 0 and "failed: " in done.stdout and "ok:" not in done.stdout, done


# sitecustomize.py is imported by Python itself at its start.
WITHOUT_LOCKS = """
import sys
sys.path.insert(0, {sdk!r})
import holdfast.client
class Lock:
    slot, held = 0, True
    def __enter__(self): return self
    def __exit__(self, *_): pass
holdfast.client.LockRequest.__enter__ = lambda self: Lock()
holdfast.client.LockRequest.__exit__ = lambda self, *_: None
"""
WITHOUT_FENCE = """
import sys
sys.path.insert(0, {sdk!r})
from holdfast.fence import sqlite
sqlite.MARK = sqlite.MARK + " AND 0"
sqlite.RAISE = "SELECT ?, ?"
"""


@pytest.mark.parametrize("name, change", [("cache_stampede.py", WITHOUT_LOCKS), ("worker_pool.py", WITHOUT_LOCKS),
                                          ("billing_close.py", WITHOUT_FENCE)],
                         ids=["cache_stampede", "worker_pool", "billing_close"])
def test_a_program_fails_without_what_it_shows(surroundings, tmp_path, name, change):
    (tmp_path / "sitecustomize.py").write_text(change.format(sdk=str(ROOT / "sdk/python")), encoding="utf-8")
    done = run(EXAMPLES / name, {**surroundings, "PYTHONPATH": str(tmp_path)})
    assert done.returncode != 0 and "AssertionError" in done.stderr and "ok:" not in done.stdout, done


def test_the_billing_close_in_postgresql(surroundings):
    sys.path.append(str(ROOT / "tests/fences"))
    servers = pytest.importorskip("servers")
    try:
        import psycopg2  # noqa: F401
    except ImportError:
        skip_or_fail("python3-psycopg2 is not installed")
    with servers.Postgres() as server:
        for path in ("holdfast_fence.sql", "billing_close.sql"):
            server.psql(ROOT / "contrib/postgres" / path)
        check_ok(run(EXAMPLES / "billing_close.py", surroundings, "--postgres", server.dsn()))


def test_examples_are_executable_and_short():
    for path in PROGRAMS:
        assert os.access(path, os.X_OK) and len(path.read_text(encoding="utf-8").splitlines()) < 150, path

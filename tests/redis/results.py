"""What a suite finds on Redis and on Holdfast, compared with the reasons in reasons.json."""

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import sources
from harness import dies_with_us
from sources import Missing

HERE = Path(__file__).resolve().parent
REASONS = json.loads((HERE / "reasons.json").read_text(encoding="utf-8"))
NAMESPACES = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
START_SECONDS = 120


def namespaces():
    """The command that makes them. Who is not root becomes root of a namespace of users."""
    for command in (NAMESPACES, [*NAMESPACES, "--map-root-user"]):
        if subprocess.run([*command, "true"], capture_output=True, check=False, timeout=START_SECONDS).returncode == 0:
            return command
    return None


def check(suite):
    """Raises Missing if the suite cannot run here."""
    for module in suite.python:
        if importlib.util.find_spec(module) is None:
            raise Missing(f"the Python module {module} is missing. Run: scripts/setup test suites")
    for program in (*suite.programs, "redis-server"):
        if not shutil.which(program):
            raise Missing(f"{program} is missing. Run: scripts/setup test suites")
    sources.prepare(suite.source)


class Broken(Exception):
    """The suite ended without a report: some libraries end the process at a failure that nothing catches."""


def _on(suite, server, folder):
    folder.mkdir()
    command = [*namespaces(), sys.executable, HERE / "inside.py", suite.name, server, folder]
    try:
        done = subprocess.run(dies_with_us(command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=suite.seconds + START_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise AssertionError(f"{suite.name} on {server}: no result in time\n{error.stdout}") from error
    result = folder / "result.json"
    assert result.is_file(), f"{suite.name} on {server}: no result\n{done.stdout[-4000:]}"
    found = json.loads(result.read_text(encoding="utf-8"))
    if "broken" in found:
        raise Broken(f"{suite.name} on {server}: {found['broken']}")
    return found["tests"]


def _pattern(text):
    """`*` is any text; everything else is itself."""
    return re.compile(".*".join(re.escape(part) for part in text.split("*")), re.DOTALL)


@dataclass
class Result:
    suite: object
    redis: dict
    here: dict

    @property
    def control(self):
        """The tests that count: those that pass on Redis."""
        return [test for test, (outcome, _) in self.redis.items() if outcome == "passed"]

    @property
    def failing(self):
        """{test: text}. A test that does not run here, because one before it failed, fails as well."""
        found = {}
        for test in self.control:
            outcome, text = self.here.get(test, ("missing", "it did not run"))
            if outcome != "passed":
                found[test] = text if outcome == "failed" else f"{outcome}: {text}"
        return found

    @property
    def passing(self):
        return [test for test in self.control if test not in self.failing]

    def differences(self):
        """The tests that fail without a reason, and the reasons whose tests do not fail."""
        reasons = {name: _pattern(name) for name in REASONS.get(self.suite.name, {})}
        problems = []
        for test, text in self.failing.items():
            if not any(pattern.fullmatch(test) for pattern in reasons.values()):
                problems.append(f"fails, and passes on Redis: {test}\n    {text}")
        for name, pattern in reasons.items():
            if not any(pattern.fullmatch(test) for test in self.failing):
                problems.append(f"has a reason, and does not fail: {name}")
            problems += [f"passes, and has the reason of {name}: {test}" for test in self.passing if pattern.fullmatch(test)]
        return problems


ATTEMPTS = 2


def _merge(before, now):
    """A test has passed that passed in one of the runs."""
    before.update({test: outcome for test, outcome in now.items() if outcome[0] == "passed" or test not in before})


def run(suite, folder):
    """Both servers at a time: most tests wait. Tests of others with short times fail at times on a busy machine, so what
    differs is run once more."""
    check(suite)
    folder.mkdir()
    found = Result(suite, {}, {})
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with ThreadPoolExecutor(2) as pool:
                redis, here = pool.map(lambda server: _on(suite, server, folder / f"{server}-{attempt}"), ("redis", "holdfast"))
        except Broken:
            if attempt == ATTEMPTS and not found.redis:
                raise
            continue
        _merge(found.redis, redis)
        _merge(found.here, here)
        if not found.differences():
            break
    return found

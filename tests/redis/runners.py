"""Runs the tests of a suite with the program that it was written for. Each function gets the suite, the folder of
its tests and a folder for reports, and returns {test: (outcome, text)}: passed, failed or skipped."""

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as xml

from sources import PROGRAMS, node_modules
from suites import Program

TEXT = 2000  # characters kept of a failure


class Broken(Exception):
    """The suite did not run to its end."""


def _run(suite, command, tree, report, **env):
    """The report decides, not the exit status: that says only whether all tests passed."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("HOLDFAST", "PYTEST", "REDIS"))}
    log = report.with_suffix(".log")
    with open(log, "w", encoding="utf-8") as out:
        try:
            subprocess.run([str(word) for word in command], cwd=tree, env={**clean, **suite.env, **env}, stdin=subprocess.DEVNULL,
                           stdout=out, stderr=out, timeout=suite.seconds, check=False)
        except subprocess.TimeoutExpired as error:
            raise Broken(f"{suite.name} did not end within {suite.seconds} s:\n{tail(log)}") from error
    if not report.is_file():
        raise Broken(f"{suite.name} left no report:\n{tail(log)}")


def tail(log):
    return log.read_text(encoding="utf-8", errors="replace")[-TEXT:]


def _add(found, test, outcome):
    """Some suites have several tests of one name."""
    count, name = 1, test
    while name in found:
        count += 1
        name = f"{test} #{count}"
    found[name] = outcome


def _junit(report, prefix):
    """JUnit's format, of pytest and PHPUnit."""
    found = {}
    for case in xml.parse(report).iter("testcase"):
        outcome = ("passed", "")
        for child in case:
            if child.tag in ("failure", "error"):
                outcome = ("failed", (child.get("message") or child.text or "")[:TEXT])
            elif child.tag == "skipped" and outcome[0] == "passed":
                outcome = ("skipped", child.get("message") or "")
        _add(found, f"{prefix(case)}{case.get('name')}", outcome)
    return found


def pytest(suite, tree, folder):
    report = folder / "report.xml"
    tests, path = suite.tests, tree
    if isinstance(suite.source, Program):
        tests, path = [suite.source.file], folder / "library"
    _run(suite, [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "filterwarnings=default", "-o", "addopts=", "-o",
                 "junit_family=xunit1", f"--junitxml={report}", *suite.options, *tests], tree, report,
         PYTHONPATH=os.pathsep.join([str(path), str(path / "tests")]), PYTHONDONTWRITEBYTECODE="1")
    return _junit(report, lambda case: f"{case.get('classname')}::")


def mocha(suite, tree, folder):
    """--exit: tests leave connections open."""
    report = folder / "report.json"
    program = isinstance(suite.source, Program)
    env = {"LIBRARY": suite.source.library} if program else {}
    _run(suite, ["node", node_modules() / "mocha" / "bin" / "mocha.js", "--exit", "--no-config", "--no-package", "--reporter", "json",
                 "--reporter-option", f"output={report}", *suite.options, *([suite.source.file] if program else suite.tests)],
         tree, report, **env)
    found = {}
    for outcome, rows in (("passed", "passes"), ("failed", "failures"), ("skipped", "pending")):
        for test in json.loads(report.read_text(encoding="utf-8"))[rows]:
            _add(found, test["fullTitle"], (outcome, test.get("err", {}).get("message", "")[:TEXT]))
    return found


def phpunit(suite, tree, folder):
    """It takes one file or folder at a time."""
    found = {}
    for number, tests in enumerate(suite.tests):
        report = folder / f"report-{number}.xml"
        _run(suite, ["phpunit", "--no-configuration", "--bootstrap", PROGRAMS / "autoload.php", "--log-junit", report, *suite.options, tests],
             tree, report)
        found.update(_junit(report, lambda case: f"{(case.get('class') or '').rpartition(chr(92))[2]}::"))
    return found

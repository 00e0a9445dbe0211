"""The unit of contrib/systemd: how exposed it is, and that it allows what a node does."""

import re
import shutil
import subprocess

import pytest

from conftest import ROOT

UNIT = ROOT / "contrib" / "systemd" / "holdfast.service"
EXPOSURE = 1.5
SERVER = ROOT / "src" / "server"


@pytest.fixture(scope="module", name="analyze")
def systemd_analyze():
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed: apt-get install systemd")

    def run(*words):
        return subprocess.run(["systemd-analyze", "--no-pager", *map(str, words)], capture_output=True, text=True,
                              timeout=60, check=True).stdout
    return run


def test_the_unit_is_tight(analyze):
    report = analyze("security", "--offline=true", UNIT)
    level = re.search(r"Overall exposure level for holdfast\.service: ([0-9.]+)", report)
    assert level, report
    assert float(level[1]) <= EXPOSURE, report


def settings():
    """The lines of the unit, by name."""
    found = {}
    for line in UNIT.read_text(encoding="utf-8").splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found.setdefault(name, []).append(value)
    return found


def named_sets(analyze):
    sets, current = {}, None
    for line in analyze("syscall-filter").splitlines():
        if line.startswith("@"):
            current = sets[line.strip()] = set()
        elif line.startswith("    ") and current is not None and not line.strip().startswith("#"):
            current.add(line.strip())
    return sets


def expand(sets, words):
    calls = set()
    for word in words:
        calls |= expand(sets, sets[word]) if word.startswith("@") else {word}
    return calls


def test_the_unit_allows_the_system_calls_of_a_node(analyze):
    sets, allowed = named_sets(analyze), set()
    for line in settings()["SystemCallFilter"]:
        calls = expand(sets, line.removeprefix("~").split())
        allowed = allowed - calls if line.startswith("~") else allowed | calls
    allowed |= expand(sets, ["@default"])
    source = (SERVER / "sandbox.c").read_text(encoding="utf-8")
    lists = re.sub(r"/\*.*?\*/", "", source[source.index("allowed[] = {"):source.index("bool sandbox_is_built")], flags=re.S)
    fatal = lists[lists.index("fatal[] = {"):lists.index("struct restricted_call")]
    needed = set(re.findall(r'"([a-z]\w+)"', lists)) - set(re.findall(r'"(\w+)"', fatal))
    assert len(needed) > 100 and "io_submit" in needed
    known = expand(sets, ["@known"]) if "@known" in sets else set().union(*sets.values())
    assert (needed | {"seccomp", "execve"}) & known <= allowed, sorted(needed - allowed)


def test_the_unit_starts_a_node_and_no_new_cluster():
    unit = settings()
    assert unit["ExecStart"] == ["/usr/local/bin/holdfast serve --config /etc/holdfast/holdfast.ini"]
    assert unit["Environment"] == ["HOLDFAST_DATA=/var/lib/holdfast"] and unit["StateDirectory"] == ["holdfast"]
    assert "AF_UNIX" in unit["RestrictAddressFamilies"][0], "for the admin socket"


def test_the_unit_has_the_notifications_and_the_watchdog_of_the_node():
    unit = settings()
    assert unit["Type"] == ["notify"] and unit["NotifyAccess"] == ["main"]
    assert int(unit["WatchdogSec"][0]) >= 10, "loading a snapshot of the leader may block the loop for seconds"
    assert unit["Restart"] == ["on-failure"], "that includes the watchdog"

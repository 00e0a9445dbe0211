"""The table of docs/REDIS.md: each suite, how many of its tests pass on Redis and here, and why the others fail."""

import re
import subprocess

import sources
from results import REASONS

DOCUMENT = sources.ROOT / "docs" / "REDIS.md"
BEGIN = "<!-- The table is made by `make redis-suites TABLE=1`. -->"
END = "<!-- End of the table. -->"


def read():
    text = DOCUMENT.read_text(encoding="utf-8")
    return text[text.index(BEGIN) + len(BEGIN):text.index(END)]


def write(made):
    text = DOCUMENT.read_text(encoding="utf-8")
    DOCUMENT.write_text(text[:text.index(BEGIN) + len(BEGIN)] + made + text[text.index(END):], encoding="utf-8")


def version_of_redis():
    """Of the control on this machine."""
    said = subprocess.run(["redis-server", "--version"], capture_output=True, text=True, check=True, timeout=60).stdout
    return re.search(r"v=(\S+)", said)[1]


def cells(table):
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line.startswith("|")]


def differs(suite):
    """Tests of one reason stand together."""
    by_reason = {}
    for test, reason in REASONS.get(suite.name, {}).items():
        by_reason.setdefault(reason, []).append(f"`{test}`".replace("|", "\\|"))
    return "; ".join(f"{', '.join(tests)}: {reason}" for reason, tests in by_reason.items()) or "nothing"


def make(suites, results, before):
    """What was not run now keeps its numbers of the table before, if it is of the same versions."""
    old = cells(before)
    control = f"pass on Redis {version_of_redis()}" if results else old[0][2] if old else "pass on Redis"
    numbers = {tuple(row[:2]): row[2:4] for row in old} if old and old[0][2] == control else {}
    head = ["suite", "tests of", control, "of these pass here", "what differs"]
    rows = [head, ["---"] * len(head)]
    for suite in suites:
        result, source = results.get(suite.name), sources.title(suite.source)
        counts = [str(len(result.control)), str(len(result.passing))] if result else numbers.get((suite.title, source), ["not run"] * 2)
        rows.append([suite.title, source, *counts, differs(suite)])
    return "\n" + "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"

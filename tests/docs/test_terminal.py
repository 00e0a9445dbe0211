"""The recording of the README, docs/img/start.svg: the same commands print the same today."""

import html
import os
import re
import subprocess
import sys

from test_documents import PROGRAM, ROOT, Dev, Reserved, environment, free_base

TOOL = ROOT / "tools" / "docs" / "terminal_svg.py"
# What differs from run to run: numbers, and how long something has lasted.
VARIES = [(r"\b(?:for|since) \S+(?: \d\S+Z)?(?=,)", "for TIME"), (r"\d+(?:ms|s|m\d+s)\b", "TIME"), (r"\d+", "N")]


def lines_of(svg):
    """The text of each line, without what varies; a job in the background may print before or after."""
    rows = {}
    for y, text in re.findall(r'<text y="(\d+)"[^>]*>(.*?)</text>', svg):
        words = html.unescape(" ".join(re.findall(r">([^<]+)</tspan>", text)))
        rows[y] = rows.get(y, "") + " " + words
    found = []
    for text in rows.values():
        for pattern, word in VARIES:
            text = re.sub(pattern, word, text)
        found.append(" ".join(text.split()))
    return found


def test_the_recording_of_the_readme_is_current(tmp_path):
    """If this fails: start `holdfast dev`, run tools/docs/terminal_svg.py docs/img/start.term, look at it and commit it."""
    with Reserved():
        dev = Dev(tmp_path, free_base(5))
        try:
            subprocess.run([sys.executable, TOOL, ROOT / "docs" / "img" / "start.term", tmp_path / "new.svg"], check=True, timeout=120,
                           env=environment(HOLDFAST_ENDPOINTS=dev.endpoints, PATH=f"{PROGRAM.parent}:{os.environ['PATH']}"))
        finally:
            dev.close()
    new = lines_of((tmp_path / "new.svg").read_text(encoding="utf-8"))
    old = lines_of((ROOT / "docs" / "img" / "start.svg").read_text(encoding="utf-8"))
    assert len(new) > 12 and any("was not acquired (held)" in line for line in new)
    assert sorted(new) == sorted(old)

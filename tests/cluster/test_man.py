"""Man pages: each flag of the command is in its page, each page is installed, and they are sound."""

import re
import shutil
import subprocess

import pytest

from harness import ROOT, run, skip_or_fail

MAN = ROOT / "docs" / "man"
PAGES = sorted(MAN.glob("holdfast-*.1"))
assert PAGES
# Those whose --help lists one flag a line.
LISTED = [MAN / f"holdfast-{command}.1" for command in ("serve", "dev", "recover", "snapshot")]


def flags_of(command):
    done = run(command, "--help")
    assert done.returncode == 0, done.stderr
    return set(re.findall(r"^ {2,6}(?:-\w, )?(--[a-z-]+)", done.stdout, re.M))


@pytest.mark.parametrize("page", LISTED, ids=lambda p: p.name)
def test_a_page_names_every_flag_of_its_command_and_no_other(page):
    text = page.read_text(encoding="utf-8").replace("\\-", "-")
    described = set(re.findall(r"^\.BI? (--[a-z-]+)", text.split(".SH DESCRIPTION")[1], re.M))
    flags = flags_of(page.stem.removeprefix("holdfast-"))
    assert flags - described <= {"--help"}, "not in the page"
    assert described - flags <= {"--help"}, "not in --help"
    for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "EXAMPLES"):
        assert f".SH {section}\n" in text


def test_every_page_is_installed():
    listed = set(re.findall(r"'(holdfast-[a-z-]+\.1)'", (MAN / "meson.build").read_text()))
    assert listed == {page.name for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_groff_has_nothing_to_say(page):
    if shutil.which("groff") is None:
        skip_or_fail("groff is not installed. Run: scripts/setup test")
    done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z", page],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stderr == ""

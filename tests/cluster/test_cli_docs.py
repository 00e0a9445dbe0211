"""What is written about the program agrees with the program: man pages, completion."""

import re
import subprocess

import pytest

from harness import PROGRAM, ROOT, run

COMMANDS = re.findall(r"^  ([a-z-]+) {2,}\S", run("help").stdout, re.MULTILINE)


def test_what_is_generated_is_current(tmp_path):
    """If this fails: tools/cli_docs.py build/holdfast, and commit what it wrote."""
    names = subprocess.run([ROOT / "tools" / "cli_docs.py", PROGRAM, tmp_path], check=True,
                           stdout=subprocess.PIPE, text=True).stdout.split()
    assert len(names) > 10
    stale = [name for name in names
             if not (ROOT / name).exists() or (tmp_path / name).read_text() != (ROOT / name).read_text()]
    assert not stale, f"run tools/cli_docs.py build/holdfast: {stale}"


@pytest.mark.parametrize("command", COMMANDS)
def test_the_man_page_names_every_flag_of_the_help(command):
    page = (ROOT / "docs" / "man" / f"holdfast-{command}.1").read_text().replace("\\-", "-")
    help_text = run(command, "--help").stdout
    flags = set(re.findall(r"^ {2,6}(?:-\w, |    )?(--[a-z][a-z-]*)", help_text, re.MULTILINE))
    assert flags
    assert not [flag for flag in flags if not re.search(re.escape(flag) + r"(?![a-z-])", page)]
    assert f"holdfast-{command}.1" in (ROOT / "docs" / "man" / "meson.build").read_text()


def test_the_main_page_names_every_command():
    page = (ROOT / "docs" / "man" / "holdfast.1").read_text().replace("\\-", "-")
    assert not [command for command in COMMANDS if f"holdfast-{command}" not in page]


def complete(*words):
    """What bash would offer for the last word."""
    line = " ".join(f"'{word}'" for word in words)
    script = (f"source {ROOT}/contrib/completion/holdfast.bash\n"
              f"COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}\n_holdfast\n"
              'printf "%s\\n" "${COMPREPLY[@]}"\n')
    done = subprocess.run(["bash", "-c", script], check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.split()


def test_bash_completes_commands_flags_and_words():
    assert complete("holdfast", "sta") == ["status"]
    assert complete("holdfast", "lock", "--sta") == ["--status-fd"]
    assert complete("holdfast", "member", "pro") == ["promote"]
    assert complete("holdfast", "help", "aud") == ["audit"]
    assert set(complete("holdfast", "")) == {"help", *COMMANDS}

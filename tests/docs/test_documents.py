"""Runs every command of the README, of docs/guide/ and of the pages for operators and Redis clients against a cluster of
`holdfast dev`, in the order of each document, and compares what it prints with what the document says.

The blocks of FENCES.md are run by tests/fences, those of RECIPES.md by tests/examples, those of the client packages by
their own tests."""

import os
import re
import shutil
import subprocess
import sys

import pytest

from documents import OTHERS, RUN, Ports, Shell, commands, matches, read_blocks, run_block

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "cluster"))
from harness import PROGRAM, ROOT, Ports as Reserved, environment, free_base  # noqa: E402

DOCUMENTS = [ROOT / "README.md", ROOT / "docs" / "OPERATION.md", ROOT / "docs" / "REDIS.md",
             *sorted((ROOT / "docs" / "guide").glob("*.md"))]
NAMES = [str(path.relative_to(ROOT)) for path in DOCUMENTS]


class Dev:
    """`holdfast dev` with five nodes, ended with its nodes."""

    def __init__(self, folder, base):
        self.log = open(folder / "dev.log", "w+", encoding="utf-8")
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "TERM", PROGRAM, "dev", "--base-port", str(base), "--dir", folder / "nodes"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log, env=environment(), text=True)
        self.endpoints = ""
        for line in self.process.stdout:
            match = re.match(r"ready .*endpoints: (\S+)", line)
            if match:
                self.endpoints = match[1]
                break
        assert self.endpoints, f"holdfast dev did not start: {self.error()}"

    def error(self):
        self.log.seek(0)
        return self.log.read()

    def close(self):
        self.process.terminate()
        self.process.wait(60)
        self.process.stdout.close()
        self.log.close()


@pytest.fixture
def world(tmp_path):
    """A shell in a folder that looks like the repository, and a cluster."""
    folder = tmp_path / "repository"
    folder.mkdir()
    for entry in ROOT.iterdir():
        if entry.name != "build":
            (folder / entry.name).symlink_to(entry)
    (folder / "build").mkdir()
    (folder / "build" / "holdfast").symlink_to(PROGRAM)
    with Reserved():
        base = free_base(5)
        dev = Dev(tmp_path, base)
        # On a terminal redis-cli names the types of its answers.
        (folder / "bin").mkdir()
        (folder / "bin" / "redis-cli").write_text(f"#!/bin/sh\nexec {shutil.which('redis-cli')} --no-raw \"$@\"\n")
        (folder / "bin" / "redis-cli").chmod(0o755)
        shell = Shell(folder, environment(HOLDFAST_ENDPOINTS=dev.endpoints, PYTHONPATH=ROOT / "sdk" / "python",
                                          PATH=f"{folder}/bin:{folder}/build:{os.environ['PATH']}", LC_ALL="C.UTF-8"))
        yield shell, Ports(base), folder
        shell.close()
        dev.close()


@pytest.mark.parametrize("path", DOCUMENTS, ids=NAMES)
def test_the_commands_of_a_document_do_what_it_says(path, world):
    shell, ports, folder = world
    for block in read_blocks(path):
        if block.language in RUN and not block.reason:
            run_block(block, shell, ports, folder)


def test_every_block_names_its_language_and_those_that_are_not_run_have_a_reason(capsys):
    run, not_run = 0, []
    for path in DOCUMENTS:
        for block in read_blocks(path):
            assert block.language in RUN + OTHERS, f"{block.place}: the language \"{block.language}\" is not known"
            if block.language in RUN and not block.reason:
                run += len(commands(block)) if block.language == "console" else 1
            elif block.language in RUN:
                not_run.append(f"{block.place}: {block.reason}")
    with capsys.disabled():
        print(f"\n{run} commands and programs are run, {len(not_run)} blocks are not:")
        print("".join(f"  {line}\n" for line in not_run), end="")
    assert run >= 40
    assert all(len(line.split(": ", 1)[1]) > 10 for line in not_run)


# What runs the blocks of other documents, and names the document.
ELSEWHERE = {
    "docs/FENCES.md": "tests/fences/test_document.py",
    "docs/RECIPES.md": "tests/examples/test_recipes.py",
    "sdk/go/README.md": "sdk/go/readme_test.go",
    "sdk/node/README.md": "sdk/node/test/package.test.js",
    "sdk/python/README.md": "sdk/python/tests/test_package.py",
}


def test_blocks_of_all_other_documents_are_run_elsewhere():
    tracked = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    pages = tracked or [str(path.relative_to(ROOT)) for folder in ("docs", "sdk", "examples", "contrib") for path in (ROOT / folder).rglob("*.md")]
    for page in pages:
        if page in NAMES or not any(block.language in (*RUN, "js", "ts", "go") for block in read_blocks(ROOT / page)):
            continue
        assert page in ELSEWHERE, f"{page}: nothing runs its blocks; add it to DOCUMENTS, or a test and a row of ELSEWHERE"
    for page, test in ELSEWHERE.items():
        assert page.rsplit("/", 1)[-1] in (ROOT / test).read_text(encoding="utf-8"), f"{test} does not read {page}"


# --- the runner itself --------------------------------------------------------


@pytest.mark.parametrize("expected, printed, is_match", [
    ("token …\n", "token 2048\n", True),
    ("token …\n", "tokens\n", False),
    ("a\n…\nd\n", "a\nb\nc\nd\n", True),
    ("a\n…\nd\n", "a\nb\nc\n", False),
    ("a.c\n", "abc\n", False),
    ("{\"a\":…,\"b\":2}\n", "{\"a\":1,\"b\":2}\n", True),
    ("a\n", "a\nb\n", False),
])
def test_printed_text_is_compared(expected, printed, is_match):
    assert matches(expected, printed) == is_match


def test_a_command_that_fails_or_prints_something_else_fails_the_document(tmp_path):
    def outcome(text):
        path = tmp_path / "page.md"
        path.write_text(text, encoding="utf-8")
        shell = Shell(tmp_path, {"PATH": os.environ["PATH"]}, patience=1)
        try:
            for block in read_blocks(path):
                run_block(block, shell, Ports(20000), tmp_path)
        except AssertionError as error:
            return str(error)
        finally:
            shell.close()
        return ""

    assert outcome("```console\n$ echo 4653; (exit 3); echo $?\n4653\n3\n```\n") == ""
    assert "exit status 1" in outcome("```console\n$ echo 4653; false\n4653\n```\n")
    assert "the document has" in outcome("```console\n$ echo 4654\n4653\n```\n")
    assert "exit status 1" in outcome("```console\n$ false\n```\n")
    assert "exit status 3" in outcome("```python\nraise SystemExit(3)\n```\n")
    assert "exit status" in outcome("```sh\nfalse\ntrue\n```\n")


def test_programs_that_the_documents_need_are_here():
    for program in ("curl", "redis-cli"):
        assert shutil.which(program), f"{program} is missing: scripts/setup test"


# --- commands that are not in blocks -------------------------------------------

PROSE = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").glob("*.md")),
         *sorted((ROOT / "docs" / "guide").glob("*.md")), *sorted((ROOT / "sdk").glob("*/README.md"))]


def mentioned(path):
    """(command, flags) of each `holdfast COMMAND ...` in the text and in the blocks of a document."""
    text = path.read_text(encoding="utf-8")
    for code in re.findall(r"`(holdfast [^`]+)`", text) + re.findall(r"^(?:\$ )?(holdfast .+)$", text, re.MULTILINE):
        code = re.split(r" -- | \| | > |; |  #| …", code)[0]  # what follows is of another program
        words = code.split()
        if len(words) > 1 and re.fullmatch(r"[a-z-]+", words[1]) and not words[1].startswith("-"):
            yield words[1], re.findall(r"(?<![\w-])--[a-z][a-z-]*", code)


def test_commands_and_flags_in_all_documents_exist():
    helps = {}
    known = set(re.findall(r"^  ([a-z-]+) {2,}\S", subprocess.run([PROGRAM, "help"], capture_output=True, text=True, check=True, timeout=20).stdout,
                           re.MULTILINE)) | {"help"}
    wrong, count = [], 0
    for path in PROSE:
        for command, flags in mentioned(path):
            count += 1
            if command not in known:
                wrong.append(f"{path.relative_to(ROOT)}: holdfast {command}")
                continue
            if command not in helps:
                helps[command] = subprocess.run([PROGRAM, command, "--help"], capture_output=True, text=True, check=True, timeout=20).stdout
            wrong += [f"{path.relative_to(ROOT)}: holdfast {command} {flag}" for flag in flags
                      if not re.search(rf"{flag}(?![a-z-])", helps[command])]
    assert count > 100
    assert not wrong, "\n".join(wrong)

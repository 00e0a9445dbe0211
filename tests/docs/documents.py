"""Reads the fenced blocks of documents and runs them.

A block is run by its language:

    console   "$ COMMAND" lines, each followed by what it prints; a line that ends in \\ goes on in the next one
    sh        a script for bash; every command must succeed
    python    a program; must succeed

Blocks of other languages are shown only. A block that cannot run has a comment in the line above it:

    <!-- not run: REASON -->

A script that calls what only a reader has gets it from such a comment:

    <!-- with: CODE -->

In printed text "…" stands for any characters, and a line of "…" alone for any lines. A command without printed
text in the document may print anything. Every command must succeed; one that fails is written as `COMMAND; echo "exit code $?"`.

Documents use the ports of `holdfast dev`, 4653 and up. `Ports` moves them to those of the test, in both directions.
"""

import os
import re
import select
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

RUN = ("console", "sh", "python")
OTHERS = ("text", "c", "go", "hcl", "js", "ts", "java", "sql", "ini", "yaml", "json", "lua")
PATIENCE = 60.0
FENCE = re.compile(r"^(\s*)```(.*)$")
WITH = re.compile(r"<!-- with: (.+) -->\s*$")
NOT_RUN = re.compile(r"<!-- not run: (.+) -->\s*$")


@dataclass
class Block:
    path: Path
    line: int
    language: str
    text: str
    reason: str  # why it is not run; "": it is
    prelude: str  # of a script

    @property
    def place(self):
        return f"{self.path.name}:{self.line}"


def read_blocks(path):
    blocks, inside, before = [], None, ""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        match = FENCE.match(line)
        if match and inside is None:
            reason, prelude = NOT_RUN.search(before), WITH.search(before)
            inside = Block(path, number, match[2].strip(), "", reason[1] if reason else "", prelude[1] if prelude else "")
        elif match:
            blocks.append(inside)
            inside = None
        elif inside is not None:
            inside.text += line + "\n"
        if line.strip():
            before = line
    assert inside is None, f"{path}: a block has no end"
    return blocks


class Ports:
    """`holdfast dev` has the ports 4653 + 10 * node + 0, 1, 2; here they begin at `base`."""

    def __init__(self, base, nodes=5):
        self.there = {str(4653 + 10 * i + j): str(base + 10 * i + j) for i in range(nodes) for j in range(3)}
        self.back = {here: document for document, here in self.there.items()}

    @staticmethod
    def replace(text, pairs):
        return re.sub(r"(?<!\d)\d{4,5}(?!\d)", lambda m: pairs.get(m[0], m[0]), text)

    def to_test(self, text):
        return self.replace(text, self.there)

    def to_document(self, text):
        return self.replace(text, self.back)


def commands(block):
    """(command, expected text or None) of a block of the language console."""
    found = []
    goes_on = False
    for line in block.text.splitlines():
        if goes_on:
            found[-1][0] += "\n" + line
        elif line.startswith("$ "):
            found.append([line[2:], ""])
        else:
            assert found, f"{block.place}: text before the first command"
            found[-1][1] += line + "\n"
            continue
        goes_on = line.endswith("\\")
    return [(command, expected or None) for command, expected in found]


def squeeze(text):
    """Columns are as wide as their contents, so the number of spaces says nothing."""
    return re.sub(r"[ \t]+", " ", re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE))


def matches(expected, printed):
    parts = []
    for line in squeeze(expected).rstrip("\n").splitlines():
        if line.strip() == "…":
            parts.append(r"(?:[^\n]*\n)*?")
        else:
            parts.append("[^\n]*?".join(re.escape(piece) for piece in line.split("…")) + r"\n")
    return re.fullmatch("".join(parts), squeeze(printed).rstrip() + "\n") is not None


class Shell:
    """One bash for a document: variables, jobs and folders go on from block to block."""

    MARK = "@@holdfast-docs-end@@"

    def __init__(self, folder, environment, patience=10):
        self.patience = patience  # seconds that printed text may be late
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "bash", "--norc", "--noprofile"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, cwd=folder, env=environment, start_new_session=True)
        os.set_blocking(self.process.stdout.fileno(), False)
        self.pending = ""

    def read(self, seconds):
        """Adds what arrives within this time to `pending`; returns at the first piece. False: the end."""
        if select.select([self.process.stdout], [], [], seconds)[0]:
            piece = os.read(self.process.stdout.fileno(), 65536).decode(errors="replace")
            self.pending += piece
            return piece != ""
        return True

    def run(self, command):
        """The exit status; `pending` has what was printed, also by jobs in the background."""
        self.pending = ""
        # The standard input is that of bash, so a command must not read it.
        self.process.stdin.write(f"{{ {command}\n}} </dev/null\nprintf '%s%s\\n' '{self.MARK}' $?\n".encode())
        self.process.stdin.flush()
        end = time.monotonic() + PATIENCE
        while True:
            match = re.search(rf"{self.MARK}(\d+)\n", self.pending)
            if match:
                self.pending = self.pending[:match.start()] + self.pending[match.end():]
                return int(match[1])
            assert time.monotonic() < end, f"no end of {command!r}, which printed:\n{self.pending}"
            assert self.read(1), f"the shell ended in {command!r}, which printed:\n{self.pending}"

    def expect(self, expected, show):
        """Waits until what was printed is this; a job in the background may print it a little later."""
        end = time.monotonic() + self.patience
        while not matches(expected, show(self.pending)) and time.monotonic() < end:
            self.read(0.2)
        return matches(expected, show(self.pending))

    def close(self):
        self.process.stdin.close()
        try:
            os.killpg(self.process.pid, 9)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.process.stdout.close()


def run_block(block, shell, ports, folder):
    """Runs a block; raises AssertionError with the place, the command and what it printed."""
    if block.language == "console":
        for command, expected in commands(block):
            status = shell.run(ports.to_test(command))
            assert status == 0, f"{block.place}: $ {command}\nexit status {status}:\n{shell.pending}"
            if expected is not None:
                ok = shell.expect(expected, ports.to_document)
                assert ok, (f"{block.place}: $ {command}\nthe document has\n{expected}\nand the command printed"
                            f" (exit status {status})\n{ports.to_document(shell.pending)}")
        return
    name = f"block-{block.line}.{'py' if block.language == 'python' else 'sh'}"
    (folder / name).write_text(ports.to_test(f"{block.prelude}\n{block.text}"), encoding="utf-8")
    status = shell.run({"python": f"/usr/bin/python3 {name}", "sh": f"bash -e {name}"}[block.language])
    assert status == 0, f"{block.place}: exit status {status}\n{block.text}\nprinted\n{shell.pending}"

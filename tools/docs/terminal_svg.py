#!/usr/bin/python3
"""Runs commands on a terminal and draws what they print as an SVG with one animation: docs/img/NAME.term becomes NAME.svg.

    tools/docs/terminal_svg.py FILE.term [OUT.svg]      (HOLDFAST_ENDPOINTS: a cluster without locks)

A line of FILE is one of

    title TEXT       for readers that do not see
    $ COMMAND        is shown as if it were typed, and run; what it prints is shown
    wait COMMAND     is repeated without being shown until it succeeds

The commands are real: bash runs them, with a pseudo-terminal as their output, so they print in colour. The pace of
the picture is fixed. USER@HOST becomes you@here. A viewer without animation shows the end.
"""

import getpass
import os
import pty
import re
import select
import socket
import subprocess
import sys
import time
from html import escape
from pathlib import Path

COLUMNS, CHARACTER, LINE, LEFT, TOP = 140, 7.22, 18, 16, 46
TYPING, AFTER_COMMAND, PER_LINE, AFTER_OUTPUT = 0.035, 0.35, 0.06, 1.1  # seconds
PATIENCE = 60.0
COLOURS = {31: "#ff7b72", 32: "#7ee787", 33: "#e3b341", 34: "#79c0ff", 35: "#d2a8ff", 36: "#76e3ea"}
END = "@@end-of-command@@"


class Terminal:
    """bash, whose output is a pseudo-terminal."""

    def __init__(self):
        self.ours, theirs = pty.openpty()
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": str(COLUMNS)}
        environment.pop("NO_COLOR", None)
        self.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "bash", "--norc", "--noprofile"], stdin=subprocess.PIPE,
                                        stdout=theirs, stderr=theirs, env=environment, start_new_session=True)
        os.close(theirs)
        self.text = ""

    def run(self, command):
        """(exit status, what was printed since the last call)."""
        self.process.stdin.write(f"{{ {command}\n}} </dev/null\necho {END}$?\n".encode())
        self.process.stdin.flush()
        deadline = time.monotonic() + PATIENCE
        while True:
            match = re.search(rf"{END}(\d+)\r?\n", self.text)
            if match:
                printed = self.text[:match.start()]
                self.text = self.text[match.end():]
                return int(match[1]), printed
            if time.monotonic() > deadline:
                raise SystemExit(f"no end of: {command}\n{self.text}")
            if select.select([self.ours], [], [], 1)[0]:
                self.text += os.read(self.ours, 65536).decode(errors="replace")

    def close(self):
        self.process.stdin.close()
        os.killpg(self.process.pid, 9)
        self.process.wait()
        os.close(self.ours)


def spans(line):
    """(text, colour or None, is it bold) of a line with escape sequences."""
    found, colour, bold = [], None, False
    for part in re.split(r"(\x1b\[[0-9;]*[A-Za-z])", line):
        match = re.fullmatch(r"\x1b\[([0-9;]*)m", part)
        if match:
            for number in [int(n or 0) for n in match[1].split(";")]:
                colour = COLOURS.get(number, None if number == 0 else colour)
                bold = number == 1 or (bold and number != 0)
        elif part and not part.startswith("\x1b"):
            found.append((part, colour, bold))
    return found


def wrapped(parts):
    """Lines of at most COLUMNS characters, as a terminal continues a long one."""
    lines, left = [[]], COLUMNS
    for text, colour, bold in parts:
        while len(text) > left:
            lines[-1].append((text[:left], colour, bold))
            text, left = text[left:], COLUMNS
            lines.append([])
        lines[-1].append((text, colour, bold))
        left -= len(text)
    return lines


class Picture:
    def __init__(self, title):
        self.title = title
        self.rows = []  # svg of each line
        self.now = 0.6

    def text(self, parts, start):
        x, out = LEFT, []
        for text, colour, bold in parts:
            style = (f' fill="{colour}"' if colour else "") + (' font-weight="bold"' if bold else "")
            if text.strip():
                out.append(f'<tspan x="{x:.1f}"{style}>{escape(text)}</tspan>')
            x += CHARACTER * len(text)
        y = TOP + LINE * len(self.rows)
        return f'<text y="{y}" style="animation-duration:{start:.2f}s">{"".join(out)}</text>'

    def command(self, command):
        """The prompt is there, then the command is uncovered at the pace of typing."""
        start = self.now
        self.now += TYPING * len(command) + AFTER_COMMAND
        y = TOP + LINE * len(self.rows)
        self.rows.append(f'<text y="{y}" style="animation-duration:{start:.2f}s"><tspan x="{LEFT}" fill="#7ee787">$</tspan></text>')
        for number, word in enumerate(re.split(r"(?<= )", command)):
            before = len("".join(re.split(r"(?<= )", command)[:number])) + 2
            when = start + TYPING * before
            self.rows[-1] += (f'<text y="{y}" style="animation-duration:{when:.2f}s"><tspan x="{LEFT + CHARACTER * before:.1f}" '
                              f'font-weight="bold">{escape(word.rstrip())}</tspan></text>')

    def output(self, printed):
        for line in printed.replace("\r", "").rstrip("\n").split("\n"):
            for parts in wrapped(spans(line)):
                self.rows.append(self.text(parts, self.now))
                self.now += PER_LINE
        self.now += AFTER_OUTPUT

    def svg(self):
        width, height = int(LEFT * 2 + CHARACTER * COLUMNS), TOP + LINE * len(self.rows) + 2
        head = "".join(f'<circle cx="{20 + 18 * i}" cy="18" r="5.5" fill="{c}"/>' for i, c in enumerate(("#ff5f57", "#febc2e", "#28c840")))
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">\n'
                f"<title>{escape(self.title)}</title>\n"
                "<style>text { font: 12px ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace; fill: #d7dde4; white-space: pre;\n"
                "  animation-name: hidden; animation-timing-function: step-end; }\n"
                "@keyframes hidden { from, to { visibility: hidden; } }\n"
                "@media (prefers-reduced-motion: reduce) { text { animation: none; } }</style>\n"
                f'<rect width="{width}" height="{height}" rx="8" fill="#15191e"/>{head}\n' + "\n".join(self.rows) + "\n</svg>\n")


def you(text):
    return text.replace(f"{getpass.getuser()}@{socket.gethostname()}", "you@here")


def record(script):
    title = re.search(r"^title (.+)$", script, re.MULTILINE)
    picture, terminal = Picture(title[1] if title else ""), Terminal()
    try:
        for line in script.splitlines():
            if line.startswith("$ "):
                picture.command(line[2:])
                _, printed = terminal.run(line[2:])
                if printed.strip():
                    picture.output(you(printed))
            elif line.startswith("wait "):
                deadline = time.monotonic() + PATIENCE
                late = ""
                while True:
                    status, printed = terminal.run(line[5:])
                    late += printed
                    if status == 0:
                        break
                    if time.monotonic() > deadline:
                        raise SystemExit(f"never true: {line[5:]}")
                if late.strip():
                    picture.output(you(late))
    finally:
        terminal.close()
    return picture.svg()


def main():
    source = Path(sys.argv[1])
    target = Path(sys.argv[2]) if len(sys.argv) > 2 else source.with_suffix(".svg")
    target.write_text(record(source.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()

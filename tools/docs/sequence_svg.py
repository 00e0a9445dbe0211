#!/usr/bin/python3
"""Draws a sequence diagram from text: docs/img/NAME.seq becomes docs/img/NAME.svg.

    tools/docs/sequence_svg.py FILE.seq...

One statement a line:

    title TEXT                 above everything; also the text for readers that do not see
    actor ID TEXT              a column, from left to right
    ID -> ID: TEXT             a message; --> is an answer, drawn with dashes
    ID -x ID: TEXT             a message that is refused, in red
    ID: TEXT                   a note on the line of an actor
    pause ID: TEXT ... go ID   the actor is stopped between these two lines
    hold ID: TEXT ... end ID   the actor holds the lock between these two lines

The result depends on the text only, so a test compares it with the committed file.
"""

import re
import sys
from html import escape
from pathlib import Path

COLUMN, FIRST, TOP, STEP = 230, 120, 74, 34
STYLE = """<style>
text { font: 14px -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #24292f; }
.actor { font-weight: 600; } .title { font-size: 16px; font-weight: 600; } .small { font-size: 12.5px; fill: #57606a; }
.life { stroke: #afb8c1; stroke-width: 1.5; stroke-dasharray: 3 4; } .box { fill: #f6f8fa; stroke: #57606a; rx: 6; }
.message { stroke: #24292f; stroke-width: 1.5; } .answer { stroke-dasharray: 5 4; }
.refused { stroke: #cf222e; stroke-width: 2; } .refusedtext { fill: #cf222e; font-weight: 600; }
.pause { fill: #fff1e5; stroke: #bc4c00; rx: 4; } .pausetext { fill: #953800; font-size: 12.5px; }
.hold { fill: #dafbe1; stroke: #1a7f37; rx: 4; } .holdtext { fill: #116329; font-size: 12.5px; }
</style>"""


class Diagram:
    def __init__(self, text):
        self.title = ""
        self.actors = {}  # id: (x, text)
        self.row = 0
        self.bars = []  # (kind, id, first row, last row, text)
        self.open = {}
        self.items = []
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip() and not line.startswith("#") and not self.read(line.strip()):
                raise SystemExit(f"line {number}: not understood: {line}")
        if self.open:
            raise SystemExit(f"pause or hold without an end: {', '.join(who for _, who in self.open)}")

    def read(self, line):
        word, _, rest = line.partition(" ")
        match = re.fullmatch(r"(\w+) (->|-->|-x) (\w+): (.+)", line)
        if word == "title":
            self.title = rest
        elif word == "actor":
            name, _, text = rest.partition(" ")
            self.actors[name] = (FIRST + COLUMN * len(self.actors), text)
        elif match and match[1] in self.actors and match[3] in self.actors:
            self.items.append(("message", self.row, *match.groups()))
            self.row += 1
        elif word in ("pause", "hold") and rest.partition(":")[0] in self.actors:
            who, _, text = rest.partition(":")
            self.open[word, who] = (self.row, text.strip())
            self.row += word == "pause"
        elif (word, rest) in [("go", who) for kind, who in self.open if kind == "pause"] + \
                [("end", who) for kind, who in self.open if kind == "hold"]:
            kind = "pause" if word == "go" else "hold"
            first, text = self.open.pop((kind, rest))
            self.bars.append((kind, rest, first, self.row, text))
        elif re.fullmatch(r"\w+: .+", line) and line.partition(":")[0] in self.actors:
            who, _, text = line.partition(": ")
            self.items.append(("note", self.row, who, text))
            self.row += 1
        else:
            return False
        return True

    def y(self, row):
        return TOP + 36 + STEP * row + STEP // 2

    def draw_bar(self, kind, who, first, last, text):
        x, y = self.actors[who][0], self.y(first) - STEP // 2 + 6
        height = max(self.y(last) - STEP // 2 - 4 - y, 18)
        rows = f'<rect class="{kind}" x="{x - 8}" y="{y}" width="16" height="{height}" rx="4"/>'
        if text:
            left = x == FIRST
            rows += (f'<text class="{kind}text" x="{x + (-14 if left else 14)}" y="{y + 16 if kind == "hold" else y + height / 2 + 4:g}" '
                     f'text-anchor="{"end" if left else "start"}">{escape(text)}</text>')
        return rows

    def draw(self, item):
        kind, row, who, *rest = item
        x, y = self.actors[who][0], self.y(row)
        if kind == "note":
            return f'<text class="small" x="{x + 14}" y="{y + 4}">{escape(rest[0])}</text>'
        arrow, to, text = rest
        end = self.actors[to][0]
        sign = 1 if end > x else -1
        style = {"->": "message", "-->": "message answer", "-x": "refused"}[arrow]
        mark = "cross" if arrow == "-x" else "head"
        words = "refusedtext" if arrow == "-x" else ""
        return (f'<line class="{style}" x1="{x + 9 * sign}" y1="{y}" x2="{end - 11 * sign}" y2="{y}" marker-end="url(#{mark})"/>'
                f'<text class="{words}" x="{(x + end) / 2:g}" y="{y - 6}" text-anchor="middle">{escape(text)}</text>')

    def svg(self):
        width = FIRST * 2 + COLUMN * (len(self.actors) - 1) + 30
        height = self.y(self.row) + 10
        out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">',
               f"<title>{escape(self.title)}</title>", STYLE,
               '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
               '<path d="M0 0 L8 4 L0 8 z" fill="#24292f"/></marker>'
               '<marker id="cross" viewBox="0 0 10 10" refX="5" refY="5" markerWidth="9" markerHeight="9">'
               '<path d="M1 1 L9 9 M9 1 L1 9" stroke="#cf222e" stroke-width="2"/></marker></defs>',
               f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
               f'<text class="title" x="20" y="30">{escape(self.title)}</text>']
        for x, text in self.actors.values():
            out.append(f'<line class="life" x1="{x}" y1="{TOP + 14}" x2="{x}" y2="{height - 8}"/>')
            out.append(f'<rect class="box" x="{x - 70}" y="{TOP - 22}" width="140" height="36" rx="6"/>')
            out.append(f'<text class="actor" x="{x}" y="{TOP + 1}" text-anchor="middle">{escape(text)}</text>')
        out += [self.draw_bar(*bar) for bar in sorted(self.bars, key=lambda bar: bar[0] == "pause")]
        out += [self.draw(item) for item in self.items]
        return "\n".join(out) + "\n</svg>\n"


def main():
    for name in sys.argv[1:]:
        path = Path(name)
        path.with_suffix(".svg").write_text(Diagram(path.read_text(encoding="utf-8")).svg(), encoding="utf-8")


if __name__ == "__main__":
    main()

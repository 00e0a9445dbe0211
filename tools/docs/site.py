#!/usr/bin/python3
"""Makes the folder that mkdocs builds the documents from.

    tools/docs/site.py PROGRAM OUT      (`make docs`; OUT becomes build-docs/pages)

docs/ is written to be read in the repository, so its links leave docs/. Here every linked file comes along: a page
of Markdown at repo/PATH, any other file at files/PATH, and the links are changed to that. A man page becomes its page
of the reference (reference.py). A link to nothing ends the program with an error.
"""

import re
import shutil
import sys
from pathlib import Path

import reference

ROOT = Path(__file__).resolve().parent.parent.parent
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
FENCE = re.compile(r"^\s*```")
LIST_ITEM = re.compile(r"^(?:[-*]|\d+\.) ")
SHOWN_AS_THEY_ARE = {".svg", ".png", ".json", ".jsonl", ".yaml", ".yml", ".txt"}
LISTS = {"docs/decisions": "Decisions", "docs/evidence": "Evidence"}


class Site:
    def __init__(self, out):
        self.out = out
        self.pages = {}  # path in the repository: path in the site
        self.waiting = []
        self.errors = []

    def page_of(self, path):
        """Where a page of Markdown of the repository is in the site; it is written if it was not."""
        if path not in self.pages:
            self.pages[path] = path.removeprefix("docs/") if path.startswith("docs/") else f"repo/{path}"
            self.waiting.append(path)
        return self.pages[path]

    def target_of(self, path):
        """The path in the site for one in the repository; None: it does not exist."""
        there = ROOT / path
        if there.is_dir():
            if path in LISTS:
                return f"{path.removeprefix('docs/')}/index.md"
            if (there / "README.md").exists():
                return self.page_of(f"{path}/README.md".removeprefix("./"))
            return self.listing(path)
        if not there.exists():
            return None
        if path.startswith("docs/man/"):
            return reference.page_of_man(there.name)
        if path.endswith(".md"):
            return self.page_of(path)
        name = f"files/{path}" if there.suffix in SHOWN_AS_THEY_ARE else f"files/{path}.txt"
        if path.startswith("docs/img/"):
            name = path.removeprefix("docs/")
        self.copy(there, name)
        return name

    def copy(self, there, name):
        (self.out / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(there, self.out / name)

    def listing(self, path):
        """A page for a folder that has no README: its files."""
        name = f"files/{path.rstrip('/')}/index.md"
        lines = [f"# {path}", ""]
        for entry in sorted((ROOT / path).iterdir()):
            if entry.is_file():
                target = self.target_of(str(entry.relative_to(ROOT)))
                lines.append(f"- [{entry.name}]({relative(name, target)})")
        self.write(name, "\n".join(lines) + "\n")
        return name

    def write(self, name, text):
        (self.out / name).parent.mkdir(parents=True, exist_ok=True)
        (self.out / name).write_text(text, encoding="utf-8")

    def link(self, source, here, target):
        """The target of a link in the page `source`, which is at `here` in the site."""
        if re.match(r"[a-z][a-z0-9+.-]*:", target) or target.startswith("#"):
            return target
        path, _, anchor = target.partition("#")
        found = self.target_of(str((ROOT / source).parent.joinpath(path).resolve().relative_to(ROOT)))
        if found is None:
            self.errors.append(f"{source}: the link {target} leads to nothing")
            return target
        return relative(here, found) + (f"#{anchor}" if anchor else "")

    def add(self, source):
        here = self.pages[source]
        text = (ROOT / source).read_text(encoding="utf-8")
        self.write(here, self.convert(source, here, text))

    def convert(self, source, here, text):
        lines, in_fence, before = [], False, ""
        for line in text.splitlines():
            if FENCE.match(line):
                in_fence = not in_fence
            elif not in_fence:
                line = LINK.sub(lambda m: m[1] + self.link(source, here, m[2]) + m[3], line)
                if LIST_ITEM.match(line) and before.strip() and not LIST_ITEM.match(before) and not before.startswith(" "):
                    lines.append("")  # python-markdown wants a list to be a paragraph of its own
            lines.append(line)
            before = line
        return "\n".join(lines) + "\n"

    def add_lists(self):
        for folder, title in LISTS.items():
            lines = [f"# {title}", ""]
            for page in sorted((ROOT / folder).glob("*.md")):
                name = self.page_of(f"{folder}/{page.name}")
                heading = re.search(r"^# (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)[1]
                lines.append(f"- [{heading}]({Path(name).name})")
            self.write(f"{folder.removeprefix('docs/')}/index.md", "\n".join(lines) + "\n")


def relative(here, target):
    ups = len(Path(here).parent.parts)
    return "../" * ups + target


def main():
    program, out = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    shutil.rmtree(out, ignore_errors=True)
    site = Site(out)
    for page in [*sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "guide").glob("*.md"))]:
        site.page_of(str(page.relative_to(ROOT)))
    for path in ("CONTRIBUTING.md", "CHANGELOG.md", "bench/README.md", "bench/results/peers.md", *reference.SOURCES):
        site.page_of(path)
    site.add_lists()
    while site.waiting:
        site.add(site.waiting.pop())
    for name, text in reference.pages(ROOT, program):
        site.write(name, text)
    if site.errors:
        raise SystemExit("\n".join(site.errors))


if __name__ == "__main__":
    main()

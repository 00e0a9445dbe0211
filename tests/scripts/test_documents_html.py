"""`make docs`: the pages build in the strict mode of mkdocs, every link in them leads somewhere, and no page loads
anything from another host."""

import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAM = ROOT / "build" / "holdfast"
LOADED = {("img", "src"), ("script", "src"), ("link", "href"), ("source", "src"), ("iframe", "src"), ("object", "data"), ("embed", "src"),
          ("audio", "src"), ("video", "src"), ("form", "action")}


class Page(HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.path = path
        self.ids, self.links, self.loaded, self.styles = set(), [], [], ""
        self.in_style = False
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        self.in_style = tag == "style"
        for name, value in attributes:
            if name in ("id", "name") and value:
                self.ids.add(value)
            elif (tag, name) in LOADED or name == "srcset":
                self.loaded.append(value or "")
            elif tag == "a" and name == "href":
                self.links.append(value or "")
            elif name == "style":
                self.styles += value or ""

    def handle_data(self, data):
        if self.in_style:
            self.styles += data


@pytest.fixture(scope="module")
def html(tmp_path_factory):
    folder = tmp_path_factory.mktemp("documents")
    subprocess.run([sys.executable, ROOT / "tools" / "docs" / "site.py", PROGRAM, folder / "pages"], check=True, timeout=120)
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    (folder / "mkdocs.yml").write_text(settings.replace("build-docs/", "").replace("tools/docs/theme", str(ROOT / "tools" / "docs" / "theme")))
    done = subprocess.run(["mkdocs", "build", "-f", folder / "mkdocs.yml"], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0 and "WARNING" not in done.stderr, done.stderr[-3000:]
    pages = {path: Page(path) for path in sorted((folder / "html").rglob("*.html"))}
    assert len(pages) > 80
    return folder / "html", pages


def outside(target):
    return bool(urlsplit(target).netloc) or target.startswith("//")


def test_nothing_is_loaded_from_another_host(html):
    root, pages = html
    texts = {page.path: page.styles for page in pages.values()}
    texts.update({path: path.read_text(encoding="utf-8") for path in root.rglob("*.css")})
    texts.update({path: path.read_text(encoding="utf-8") for path in root.rglob("*.svg")})
    found = [f"{page.path}: {target}" for page in pages.values() for target in page.loaded if outside(target)]
    for path, text in texts.items():
        loads = re.findall(r"url\(\s*['\"]?([^)'\"]+)", text) + re.findall(r"@import\s+['\"]([^'\"]+)", text)
        loads += re.findall(r"(?:xlink:href|href|src)=\"([^\"]+)\"", text) if path.suffix == ".svg" else []
        found += [f"{path}: {target}" for target in loads if outside(target)]
    assert not found
    # Scripts are those of the theme and of the search; a request of theirs needs one of these words.
    for path in root.rglob("*.js"):
        text = path.read_text(encoding="utf-8", errors="replace")
        assert not re.search(r"(?:fetch|open|importScripts|src\s*=)\(?\s*['\"`](?:[A-Z]+['\"], *['\"])?(?:https?:)?//", text), path


def test_every_link_leads_somewhere(html):
    root, pages = html
    broken = []
    for page in pages.values():
        for target in page.links + page.loaded:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc or not target:
                continue
            there = (page.path.parent / unquote(parts.path)).resolve() if parts.path else page.path
            there = there / "index.html" if there.is_dir() else there
            if not there.exists():
                broken.append(f"{page.path.relative_to(root)}: {target}")
            elif parts.fragment and there in pages and unquote(parts.fragment) not in pages[there].ids:
                broken.append(f"{page.path.relative_to(root)}: {target}: there is no such heading")
    assert not broken, "\n".join(sorted(set(broken)))


def test_the_reference_is_whole(html):
    root, pages = html
    rest = (root / "reference" / "rest.html").read_text(encoding="utf-8")
    paths = re.findall(r"^  (/\S+):$", (ROOT / "docs" / "openapi.yaml").read_text(encoding="utf-8").partition("\ncomponents:")[0], re.MULTILINE)
    assert len(paths) > 40 and "queue_length" in rest.partition("/api/v1/locks/{name}/release")[0]
    assert not [path for path in paths if not re.search(rf">(?:GET|POST|PUT|DELETE) {re.escape(path)}<", rest)]
    grpc = (root / "reference" / "grpc.html").read_text(encoding="utf-8")
    methods = re.findall(r"^ *rpc (\w+)", "".join(p.read_text() for p in (ROOT / "proto" / "holdfast" / "v1").glob("*.proto")), re.MULTILINE)
    assert methods and not [method for method in methods if f"<code>{method}</code>" not in grpc]
    python = (root / "reference" / "python.html").read_text(encoding="utf-8")
    assert "fence_token" in python and "AsyncClient" in python
    for page in (ROOT / "docs" / "man").glob("*.[0-9]"):
        text = (root / "reference" / "man" / f"{page.name}.html").read_text(encoding="utf-8")
        assert "NAME" in text and "SYNOPSIS" in text, page
    if shutil.which("go"):
        assert "func Open(" in (root / "reference" / "go.html").read_text(encoding="utf-8")


def test_the_menu_has_each_page_of_the_guide(html):
    root, _ = html
    menu = (root / "index.html").read_text(encoding="utf-8")
    for page in (ROOT / "docs" / "guide").glob("*.md"):
        assert f'href="guide/{page.stem}.html"' in menu, f"add {page.name} to mkdocs.yml"


def test_the_diagrams_follow_from_their_text(tmp_path):
    """If this fails: tools/docs/sequence_svg.py docs/img/*.seq, and commit what it wrote."""
    sources = sorted((ROOT / "docs" / "img").glob("*.seq"))
    assert sources
    for source in sources:
        shutil.copy(source, tmp_path)
    subprocess.run([sys.executable, ROOT / "tools" / "docs" / "sequence_svg.py", *tmp_path.glob("*.seq")], check=True, timeout=60)
    for source in sources:
        assert (tmp_path / source.name).with_suffix(".svg").read_text() == source.with_suffix(".svg").read_text()


def test_a_diagram_with_an_error_names_the_line(tmp_path):
    (tmp_path / "bad.seq").write_text("actor A a\nA -> B: hello\n")
    done = subprocess.run([sys.executable, ROOT / "tools" / "docs" / "sequence_svg.py", tmp_path / "bad.seq"], capture_output=True,
                          text=True, timeout=60, check=False)
    assert done.returncode != 0 and "line 2: not understood: A -> B: hello" in done.stderr
    assert not (tmp_path / "bad.svg").exists()

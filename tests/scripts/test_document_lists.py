"""Lists in documents: docs/ARCHITECTURE.md has each source file once, CHANGELOG.md has each change once."""

import fnmatch
import re

from conftest import ROOT

ARCHITECTURE = ROOT / "docs/ARCHITECTURE.md"
CHANGES = ROOT / "CHANGELOG.md"
BEGINNING = 40  # characters; two changes that begin alike are one


def named_files(section):
    """The files of a module's table. A name without a folder is in the folder of the name before it in its cell."""
    for row in re.findall(r"^\| (`[^|]+)\|", section, re.MULTILINE):
        folder = ""
        for name in re.findall(r"`([^`]+)`", row):
            folder = name.rpartition("/")[0] + "/" if "/" in name else folder
            yield name if "/" in name else folder + name


def problems_of_modules(text, source):
    problems = []
    for section in re.split(r"^## ", text, flags=re.MULTILINE):
        module = section.split("\n", 1)[0]
        if not (source / module).is_dir() or not module:
            continue
        names = list(named_files(section))
        problems += [f"{module}: {name} stands twice" for name in sorted(set(names)) if names.count(name) > 1]
        for file in sorted((source / module).rglob("*.c")):
            path = str(file.relative_to(source / module))
            if not any(path.startswith(name) if name.endswith("/") else fnmatch.fnmatch(path, name) for name in names):
                problems.append(f"{module}: {path} is missing")
    return problems


def repeated_changes(text):
    seen, repeated = set(), []
    for line in re.findall(r"^- (.+)$", text, re.MULTILINE):
        beginning = line[:BEGINNING].lower()
        if beginning in seen:
            repeated.append(line)
        seen.add(beginning)
    return repeated


def test_the_architecture_lists_each_source_file_once():
    assert not problems_of_modules(ARCHITECTURE.read_text(encoding="utf-8"), ROOT / "src")


def test_the_change_log_has_each_change_once():
    assert not repeated_changes(CHANGES.read_text(encoding="utf-8"))


def test_a_missing_and_a_repeated_file_are_found(tmp_path):
    (tmp_path / "core" / "deep").mkdir(parents=True)
    for name in ("a.c", "b.c", "deep/c.c", "deep/d.c"):
        (tmp_path / "core" / name).touch()
    text = "## core\n\n| file | content |\n| `a.c`, `deep/c.c` | x |\n| `a.c` | y |\n"
    assert problems_of_modules(text, tmp_path) == ["core: a.c stands twice", "core: b.c is missing", "core: deep/d.c is missing"]
    assert not problems_of_modules("## core\n| `*.c` | x |\n| `deep/` | y |\n", tmp_path)


def test_a_repeated_change_is_found():
    line = "- Fences for stores of others, `docs/FENCES.md`: PostgreSQL"
    assert repeated_changes(f"{line}, Redis.\n- Another one.\n{line}.\n") == [line[2:] + "."]
    assert not repeated_changes(f"{line}.\n- Another one.\n")

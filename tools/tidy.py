#!/usr/bin/python3
"""Checks rules of the code base that no compiler knows.

    tools/tidy.py [ROOT]       (default: the repository that it lies in)

Errors: includes between the modules of src/ that point the wrong way, calls that
we do not use, impure includes and calls in src/core, a source file that does not
open with a comment, tabs, trailing spaces, notes that belong in an issue, private
words (the glossary of CONTRIBUTING.md) in the paths of PLAIN_PATHS, a struct,
enum or union whose tag another file defines too.
Advice, which fails nothing: long files and long functions.

Needs nothing but the standard library.
"""

import re
import sys
from pathlib import Path

# Which module may include which others. The table of docs/ARCHITECTURE.md.
MAY_INCLUDE = {
    "base": set(),
    "tls": {"base"},
    "core": {"base"},
    "wire": {"base"},
    "script": {"base", "wire"},
    "replica": {"base", "core"},
    "storage": {"base"},
    "events": {"base", "core", "storage"},
    "sinks": {"base", "core", "wire", "events", "tls"},
    "service": {"base", "core", "wire", "script", "replica", "events", "tls"},
    "net": {"base"},
    "redis": {"base", "core", "replica", "net"},
    "node": {"base", "core", "wire", "script", "replica", "storage", "events", "sinks", "service", "net", "redis", "tls"},
    "server": {"base", "core", "wire", "script", "replica", "storage", "events", "sinks", "service", "net", "redis", "tls", "node"},
    "transport": {"base", "tls"},
    "client": {"base", "wire", "tls", "transport"},
    "cli": {"base", "wire", "tls", "transport", "client", "server"},
    "bench": {"base", "wire", "tls", "transport", "client", "server", "cli"},
}

# Headers that only some modules may include: the engine has one owner, the event
# loop stays out of everything that the simulator runs and out of the client. A name that ends in a
# slash is a folder.
HEADER_OWNERS = {
    "raft.h": {"replica"},
    "openssl/": {"tls", "script"},
    "seccomp.h": {"server"},
    "librdkafka/": {"sinks"},
    "curl/": {"sinks"},
    "lua.h": {"script"},
    "lua-cjson.h": {"script"},
    "lauxlib.h": {"script"},
    "lualib.h": {"script"},
    "uv.h": {"net", "redis", "node", "server"},
    "holdfast.h": {"client", "cli", "bench"},
}

# The core is pure, so this is all that it gets from outside.
CORE_HEADERS = {
    "limits.h", "stdalign.h", "stdarg.h", "stdbool.h", "stddef.h", "stdint.h",
    "stdnoreturn.h", "string.h", "xxhash.h",
}

BANNED_CALLS = {
    "strcpy": "it does not know the size of its target",
    "strcat": "it does not know the size of its target",
    "stpcpy": "it does not know the size of its target",
    "strncpy": "it may leave the string without its end",
    "sprintf": "use snprintf",
    "vsprintf": "use vsnprintf",
    "gets": "it does not know the size of its target",
    "strtok": "it keeps hidden state",
    "atoi": "it does not report errors, use strtol and check",
    "atol": "it does not report errors, use strtol and check",
    "atof": "it does not report errors, use strtod and check",
    "alloca": "the stack has no limit that we could report",
    "system": "it starts a shell",
    "popen": "it starts a shell",
    "rand": "use a generator whose seed we print",
    "srand": "use a generator whose seed we print",
    "random": "use a generator whose seed we print",
    "tmpnam": "it races, use mkstemp",
    "mktemp": "it races, use mkstemp",
}
CORE_BANNED_CALLS = {
    "malloc": "take memory through base/memory.h",
    "calloc": "take memory through base/memory.h",
    "realloc": "take memory through base/memory.h",
    "free": "give memory back through base/memory.h",
    "time": "cluster time is an argument",
    "clock": "cluster time is an argument",
    "gettimeofday": "cluster time is an argument",
    "clock_gettime": "cluster time is an argument",
    "printf": "the core never prints",
    "fprintf": "the core never prints",
    "snprintf": "it follows the locale",
    "getenv": "the core knows no environment",
    "abort": "use hf_assert",
    "exit": "use hf_assert",
    "assert": "use hf_assert",
}

# Words that the glossary of CONTRIBUTING.md replaces, in names, comments, strings and documents.
PRIVATE_WORDS = {
    "door": "listener or connection", "ask": "request", "asks": "requests", "asked": "requested",
    "asking": "requesting", "asker": "requester", "errand": "cleanup", "crowd": "waiters of one node",
    "crowded": "full", "news": "notification", "wish": "call", "wishes": "calls", "told": "reported or notified",
    "guest": "client connection", "air": "in flight", "room": "module, or space", "house": "module",
    "stranger": "unknown node", "exchange": "request", "judge": "check or checker", "judged": "checked",
    "story": "scenario", "stories": "scenarios", "play": "run", "played": "run", "playing": "running", "player": "runner",
}
PRIVATE = re.compile(r"(?<![A-Za-z])(" + "|".join(f"{word}s?" for word in PRIVATE_WORDS) + r")(?![A-Za-z])", re.IGNORECASE)
# C11's functions, a field of the published protocol, an event of the log.
NOT_PRIVATE = re.compile(r"disk_has_room|(?:->|\.|News )news\b|atomic_exchange|RENAME_EXCHANGE|compare_exchange|__NEWS__|__News\b")
# Where they must not be. Others join as they are rewritten.
PLAIN_PATHS = ("src", "include", "tests", "bench", "scripts", "tools", "contrib", "sdk", ".ci", "Makefile", "README.md",
               "CONTRIBUTING.md", "docs/ARCHITECTURE.md", "docs/CLIENTS.md", "docs/CORE.md", "docs/ENGINE.md", "docs/FENCES.md", "docs/OPERATION.md",
               "docs/REDIS.md", "docs/SEMANTICS.md", "docs/TIERS.md", "docs/openapi.yaml", "docs/decisions",
               "docs/evidence", "docs/guide", "docs/index.md", "docs/man", "mkdocs.yml")
# Files that list the words, quote the output of earlier versions, or are not ours; and binary inputs.
NOT_PLAIN_PATHS = ("tools/tidy.py", "tests/scripts/test_tidy.py", "docs/evidence/simulation.md", "tests/fuzz/corpus",
                   "tests/node/package-lock.json", "tests/node/node_modules")
# The table of old words in CONTRIBUTING.md.
OLD_WORDS = ("| not | but |", "")
TEXT_SUFFIXES = {"", ".build", ".c", ".go", ".h", ".js", ".json", ".md", ".patch", ".pml", ".proto", ".py", ".sh", ".txt", ".yaml",
                 ".1", ".3", ".5", ".7"}

# Where a tag of a struct, enum or union has one definition. Other tests may reuse a name.
UNIQUE_TAG_PATHS = ("src", "include", "bench", "tests/sim", "tests/support")

MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 80

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
# A comment, a string or a character: whichever comes first.
NOT_CODE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)
# A name and an opening parenthesis, but no member of something: `x->free(` is its own function.
CALL = re.compile(r"(?<![\w.>])([A-Za-z_]\w*)\s*\(")
# A definition of a tag. A declaration (`struct x;`) and a use have no brace.
TAG = re.compile(r"\b(?:struct|enum|union)\s+([A-Za-z_]\w*)\s*\{")
NOTE = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")


class Report:
    def __init__(self):
        self.errors = []
        self.advice = []

    def error(self, path, line, text):
        self.errors.append(f"{path}:{line}: error: {text}")

    def advise(self, path, line, text):
        self.advice.append(f"{path}:{line}: advice: {text}")


def blank_out(match):
    """Comments and strings become blanks, line by line, so that numbers stay right."""
    return re.sub(r"[^\n]", " ", match.group())


def check_layout(report, path, lines):
    for number, line in enumerate(lines, 1):
        if "\t" in line:
            report.error(path, number, "a tab, use four spaces")
        if line != line.rstrip():
            report.error(path, number, "trailing spaces")
        note = NOTE.search(line)
        if note:
            report.error(path, number, f"{note.group()}: write an issue, or do it")


def check_words(report, path, lines):
    """Names are looked at part by part: `door` is found in `door_new`. A file's own name counts too."""
    in_table = False
    for number, line in enumerate([*lines, path.as_posix()], 1):
        in_table = line == OLD_WORDS[0] or (in_table and line != OLD_WORDS[1])
        found = None if in_table else PRIVATE.search(NOT_PRIVATE.sub("", line))
        if found:
            word = found.group().lower()
            plain = PRIVATE_WORDS.get(word) or PRIVATE_WORDS[word[:-1]]
            report.error(path, min(number, len(lines)), f'"{found.group()}" is not a word of the field, use: {plain}')


def plain_files(root):
    for top in PLAIN_PATHS:
        for file in [root / top] if (root / top).is_file() else sorted((root / top).rglob("*")):
            path = file.relative_to(root)
            if file.is_file() and file.suffix in TEXT_SUFFIXES and not is_under(path, NOT_PLAIN_PATHS):
                yield file, path


def is_under(path, paths):
    return any(path.is_relative_to(one) for one in paths)


def check_opening(report, path, text):
    if not text.lstrip().startswith(("/*", "//")):
        report.error(path, 1, "a file opens with a comment that says what it is for")


def check_include(report, path, number, module, form, header):
    """One #include of a file in src/MODULE."""
    owners = HEADER_OWNERS.get(header, HEADER_OWNERS.get(header.split("/")[0] + "/"))
    if owners is not None:
        if module not in owners:
            report.error(path, number, f"only {', '.join(sorted(owners))} may include {header}")
    elif form == "<":
        if module == "core" and header not in CORE_HEADERS:
            report.error(path, number, f"core is pure and may not include <{header}>")
    elif "/" not in header:
        report.error(path, number, f'name the module: "{module}/{header}"')
    else:
        target = header.split("/")[0]
        if target not in MAY_INCLUDE:
            report.error(path, number, f'"{header}" is in no module of src/')
        elif target != module and target not in MAY_INCLUDE[module]:
            allowed = ", ".join(sorted(MAY_INCLUDE[module])) or "nothing of ours"
            report.error(path, number, f"{module} may not include {target} (only {allowed})")


def check_includes(report, path, lines, module):
    if module not in MAY_INCLUDE:
        report.error(path, 1, f"src/{module} is no module that tools/tidy.py knows: add it to its table")
        return
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if match:
            check_include(report, path, number, module, *match.groups())


def check_calls(report, path, code, module):
    banned = dict(BANNED_CALLS)
    if module == "core":
        banned.update(CORE_BANNED_CALLS)
    for number, line in enumerate(code.split("\n"), 1):
        for name in CALL.findall(line):
            if name in banned:
                report.error(path, number, f"{name} is not used here: {banned[name]}")


def check_lengths(report, path, code):
    """Relies on the layout: a function's braces stand alone at the left edge."""
    lines = code.rstrip("\n").split("\n")
    if len(lines) > MAX_FILE_LINES:
        report.advise(path, 1, f"{len(lines)} lines: does it hide a second thing?")
    start = None
    for number, line in enumerate(lines, 1):
        if line.rstrip() == "{":
            start = number
        elif line.rstrip() == "}" and start is not None:
            if number - start - 1 > MAX_FUNCTION_LINES:
                report.advise(path, start, f"a function of {number - start - 1} lines")
            start = None


def check_tags(report, path, code, tags):
    """`tags`: the file that defines each tag of the files checked before."""
    for number, line in enumerate(code.split("\n"), 1):
        for tag in TAG.findall(line):
            other = tags.setdefault(tag, path)
            if other != path:
                report.error(path, number, f"{other} defines {tag} too: one name, one meaning")


def check_file(report, root, file, tags):
    path = file.relative_to(root)
    text = file.read_text(encoding="utf-8")
    lines = text.split("\n")
    code = NOT_CODE.sub(blank_out, text)
    module = path.parts[1] if path.parts[0] == "src" and len(path.parts) > 2 else None

    check_layout(report, path, lines)
    check_calls(report, path, code, module)
    check_lengths(report, path, code)
    if is_under(path, UNIQUE_TAG_PATHS):
        check_tags(report, path, code, tags)
    if path.parts[0] in ("src", "include"):
        check_opening(report, path, text)
    if module is not None:
        check_includes(report, path, lines, module)


def main(arguments):
    root = Path(arguments[0] if arguments else Path(__file__).resolve().parent.parent)
    files = sorted(
        file
        for folder in ("src", "include", "tests", "bench")
        for file in (root / folder).rglob("*.[ch]")
    )
    if not files:
        print(f"tidy: no C files under {root}", file=sys.stderr)
        return 2

    report = Report()
    tags = {}
    for file in files:
        check_file(report, root, file, tags)
    for file, path in plain_files(root):
        check_words(report, path, file.read_text(encoding="utf-8", errors="replace").split("\n"))
    for line in report.advice + report.errors:
        print(line)
    print(f"tidy: {len(files)} files, {len(report.errors)} errors, {len(report.advice)} advice")
    return 1 if report.errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The clients for Python, Go and Node.js have the same errors and the same arguments, in the words of each language."""

import ast
import re
from pathlib import Path

SDK = Path(__file__).resolve().parents[2] / "sdk"
PYTHON = SDK / "python" / "holdfast"
ERRORS = {"Closed", "Denied", "Invalid", "LimitReached", "LockLost", "NotAcquired", "NotHeld", "OutcomeUnknown", "ServiceError",
          "Unreachable", "WaitTimeout"}


def python_errors():
    tree = ast.parse((PYTHON / "errors.py").read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.ClassDef)}


def test_the_errors_have_the_same_names():
    assert python_errors() == ERRORS | {"HoldfastError", "Forked"}, "only processes of Python fork"
    types = (SDK / "node" / "index.d.ts").read_text(encoding="utf-8")
    of_node = set(re.findall(r"^export class (\w+) extends (?:HoldfastError|NotAcquired)", types, re.M))
    assert of_node == ERRORS | {"StaleToken"}
    text = "".join((SDK / "go" / name).read_text(encoding="utf-8") for name in ("errors.go", "fence.go"))
    of_go = set(re.findall(r"\bErr(\w+) += errors\.New", text))
    assert {name + "Error" if name == "Service" else name for name in of_go} == ERRORS | {"Stale"}, "ErrService, since Err is part of it"
    assert "class StaleToken" in (PYTHON / "fence" / "base.py").read_text(encoding="utf-8")


def camel(name):
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)


def python_arguments(method):
    tree = ast.parse((PYTHON / "facade.py").read_text(encoding="utf-8"))
    (facade,) = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Facade"]
    (function,) = [node for node in facade.body if isinstance(node, ast.FunctionDef) and node.name == method]
    return {argument.arg for argument in function.args.args + function.args.kwonlyargs} - {"self", "name", "names", "limit"}


def test_the_kinds_of_locks_have_the_same_arguments():
    callbacks = {"on_lost", "on_jeopardy", "on_safe", "on_revoke"}  # events of the handle in Node.js
    options = (SDK / "node" / "lib" / "request.js").read_text(encoding="utf-8")
    kinds = {"lock": "exclusive", "semaphore": "semaphore", "multi_lock": "multi", "lead": "election"}
    go = (SDK / "go" / "request.go").read_text(encoding="utf-8")
    of_go = set(re.findall(r"^func (\w+)\(.*\) LockOption", go, re.M))
    for method, kind in kinds.items():
        of_python = python_arguments(method)
        (words,) = re.findall(rf"^  {kind}: \[(.*)\],", options, re.M)
        of_node = set(re.findall(r'"(\w+)"', words)) - {"signal"}  # of cancellation
        assert of_node == {camel(name) for name in of_python - callbacks}, method
        assert callbacks <= of_python, method
        for name in of_python:
            word = {"ttl": "TTL", "tier": "InTier"}.get(name) or camel("_" + name)
            assert word in of_go, f"{method}: {name} is not {word} in Go"

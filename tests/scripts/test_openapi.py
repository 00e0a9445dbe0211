"""docs/openapi.yaml: it is whole, it names every route, and the real answers look as it says.

The answers are those that the unit tests of the service get; they write them down when
HOLDFAST_RECORD names a file.
"""

import json
import re
import sys

import pytest

from conftest import ROOT, run

pytest.importorskip("yaml", reason="needs python3-yaml")
sys.path.insert(0, str(ROOT / "tests/support"))
from openapi import KNOWN, SYNONYMS, Mismatch, OpenApi  # noqa: E402

API = OpenApi.load()
METHODS = {"get", "post", "put", "delete"}


def references(node):
    if isinstance(node, dict):
        if "$ref" in node:
            yield node["$ref"]
        for child in node.values():
            yield from references(child)
    elif isinstance(node, list):
        for child in node:
            yield from references(child)


def test_every_reference_leads_somewhere():
    for reference in references(API.document):
        assert API.resolve({"$ref": reference}) is not None, reference


def schemas(node):
    """Every schema, wherever it stands."""
    if isinstance(node, dict):
        if "schema" in node:
            yield node["schema"]
        for name in ("properties", "schemas"):
            if isinstance(node.get(name), dict):
                yield from node[name].values()
        for child in node.values():
            yield from schemas(child)
    elif isinstance(node, list):
        for child in node:
            yield from schemas(child)


def test_schemas_use_only_words_that_are_known():
    for schema in schemas(API.document):
        assert set(schema) <= KNOWN, schema


def test_operations_have_names_of_their_own():
    names = [operation["operationId"] for path in API.document["paths"].values()
             for method, operation in path.items() if method in METHODS]
    assert len(names) == len(set(names))


def routes():
    """The rows of src/service/http/router.c as (METHOD, path template)."""
    text = (ROOT / "src/service/http/router.c").read_text()
    words = dict(re.findall(r'#define (\w+) "([^"]+)"', text))
    rows = re.findall(r"\{HTTP_(\w+), ROUTE_(\w+), ([^,]+), (NULL|\"[^\"]*\"), (?:api_\w+)", text)
    for method, kind, prefix, tail in rows:
        path = "".join(words.get(word, word.strip('"')) for word in prefix.split())
        path += {"EXACT": "", "NAME": "{name}", "ID": "{id}", "MEMBER": "{member}"}[kind]
        yield method, path + ("" if tail == "NULL" else "/" + tail.strip('"'))


def test_routes_and_description_are_the_same():
    described = {(method.upper(), path.replace("{number}", "{member}")) for path, operations in API.document["paths"].items()
                 for method in operations if method in METHODS}
    for path, operations in API.document["paths"].items():
        text = operations.get("description", "")
        described |= {(method, path) for method in SYNONYMS if f"`{method}`" in text}
    assert set(routes()) == described


@pytest.mark.parametrize("program, least", [
    ("test_service_api", 15), ("test_service_api_admin", 12), ("test_service_conn", 2),
    ("test_service_outage", 2), ("test_service_terraform", 2), ("test_service_trace", 4), ("test_service_wait", 2)])
def test_real_answers_look_as_described(program, least, tmp_path):
    binary = ROOT / "build-test/tests/unit" / program
    if not binary.exists():
        pytest.skip("build-test/ is not built")
    record = tmp_path / "answers"
    result = run(binary, HOLDFAST_RECORD=record)
    assert result.returncode == 0, result.stdout
    seen = set()
    for line in record.read_text().splitlines():
        answer = json.loads(line)
        if not answer["body"].startswith("{"):
            continue
        API.check(answer["method"], answer["target"], answer["status"], json.loads(answer["body"]))
        operation = API.operation(answer["method"], answer["target"])
        seen.add(operation["operationId"] if operation else None)
    assert len(seen) > least, seen


def test_the_checker_checks():
    good = {"released": True, "reason": "ok"}
    target = "/api/v1/locks/a/b/release"
    API.check("POST", target, 200, good)
    for bad in ({"released": True}, {**good, "more": 1}, {**good, "reason": "?"},
                {**good, "released": 1}, [], None):
        with pytest.raises(Mismatch):
            API.check("POST", target, 200, bad)

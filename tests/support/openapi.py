"""docs/openapi.yaml as a checker: does an answer look as it says?

    api = OpenApi.load()
    api.check("POST", "/api/v1/locks/n/acquire", 200, {"acquired": True, ...})   # raises Mismatch

Knows the part of JSON Schema that our description uses, so that no package is needed but PyYAML.
"""

import re
from pathlib import Path

import yaml

DESCRIPTION = Path(__file__).resolve().parent.parent.parent / "docs/openapi.yaml"

TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "null": type(None),
}
KNOWN = {
    "$ref", "type", "properties", "required", "additionalProperties", "items", "enum", "const",
    "oneOf", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "pattern",
    "format", "default", "description", "deprecated",
}
DATE_TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$")


# OpenAPI has no words for these methods; where we take them, they mean the same as another one.
SYNONYMS = {"LOCK": "post", "UNLOCK": "delete"}


class Mismatch(AssertionError):
    """The answer is not as described."""


class OpenApi:
    def __init__(self, document):
        self.document = document
        # Of two that fit, the one with more words and fewer variables is meant.
        self.paths = sorted(document["paths"], key=lambda path: (path.count("{"), -len(path)))

    @classmethod
    def load(cls, path=DESCRIPTION):
        return cls(yaml.safe_load(path.read_text()))

    def resolve(self, node):
        while isinstance(node, dict) and "$ref" in node:
            found = self.document
            for word in node["$ref"].removeprefix("#/").split("/"):
                found = found[word.replace("~1", "/")]
            node = found
        return node

    def operation(self, method, target):
        """The described operation for a request, or None."""
        path = target.split("?")[0]
        method = SYNONYMS.get(method, method.lower())
        for template in self.paths:
            pattern = re.escape(template).replace(r"\{name\}", ".+").replace(r"\{id\}", "[^/]+")
            pattern = pattern.replace(r"\{member\}", "[^/]+").replace(r"\{number\}", "[^/]+")
            if re.fullmatch(pattern, path) and method in self.document["paths"][template]:
                return self.document["paths"][template][method]
        return None

    def check(self, method, target, status, body):
        """`body` is the answer's JSON, decoded."""
        operation = self.operation(method, target)
        if operation is None:
            if status not in (400, 403, 404, 405):
                raise Mismatch(f"{method} {target} is not described and answers {status}")
            response = self.document["components"]["responses"]["error"]
        else:
            responses = operation["responses"]
            response = self.resolve(responses.get(str(status), responses.get("default")))
            if response is None:
                raise Mismatch(f"{method} {target} does not describe the status {status}")
        schema = response["content"]["application/json"]["schema"]
        self.check_value(body, schema, f"{method} {target} {status}")

    def check_value(self, value, schema, where):
        schema = self.resolve(schema)
        unknown = set(schema) - KNOWN
        if unknown:
            raise Mismatch(f"{where}: the description uses {unknown}, which is not known here")
        if "const" in schema and (value != schema["const"] or
                                  isinstance(value, bool) != isinstance(schema["const"], bool)):
            raise Mismatch(f"{where}: {value!r} is not {schema['const']!r}")
        if "enum" in schema and value not in schema["enum"]:
            raise Mismatch(f"{where}: {value!r} is not one of {schema['enum']}")
        if "oneOf" in schema:
            self.check_one_of(value, schema["oneOf"], where)
        if "type" in schema:
            self.check_type(value, schema["type"], where)
        self.check_bounds(value, schema, where)
        if isinstance(value, dict) and ("properties" in schema or "additionalProperties" in schema):
            self.check_object(value, schema, where)
        if isinstance(value, list) and "items" in schema:
            for i, item in enumerate(value):
                self.check_value(item, schema["items"], f"{where}[{i}]")

    def check_one_of(self, value, choices, where):
        problems = []
        for choice in choices:
            try:
                self.check_value(value, choice, where)
            except Mismatch as problem:
                problems.append(str(problem))
        if len(problems) != len(choices) - 1:
            raise Mismatch(f"{where}: fits {len(choices) - len(problems)} of {len(choices)} forms:\n"
                           + "\n".join(problems))

    def check_type(self, value, wanted, where):
        wanted = wanted if isinstance(wanted, list) else [wanted]
        for name in wanted:
            if isinstance(value, TYPES[name]) and (name not in ("integer", "number") or not isinstance(value, bool)):
                return
        raise Mismatch(f"{where}: {value!r} is not of type {wanted}")

    def check_bounds(self, value, schema, where):
        if isinstance(value, int) and not isinstance(value, bool):
            if not schema.get("minimum", value) <= value <= schema.get("maximum", value):
                raise Mismatch(f"{where}: {value} is out of bounds")
        if isinstance(value, str):
            if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
                raise Mismatch(f"{where}: {value!r} is too short or too long")
            if "pattern" in schema and not re.search(schema["pattern"], value):
                raise Mismatch(f"{where}: {value!r} does not look like {schema['pattern']}")
            if schema.get("format") == "date-time" and not DATE_TIME.match(value):
                raise Mismatch(f"{where}: {value!r} is no time")

    def check_object(self, value, schema, where):
        properties = schema.get("properties", {})
        for name in schema.get("required", []):
            if name not in value:
                raise Mismatch(f"{where}: {name} is missing in {value}")
        for name, member in value.items():
            if name in properties:
                self.check_value(member, properties[name], f"{where} {name}")
            elif schema.get("additionalProperties") is False:
                raise Mismatch(f"{where}: {name} is not described")

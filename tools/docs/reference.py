"""The pages of the reference, from what they follow from: man pages, openapi.yaml, the protos, the C header, and the
client packages themselves."""

import inspect
import os
import re
import shutil
import subprocess
import sys

import yaml

SOURCES = ("sdk/python/README.md", "sdk/go/README.md", "sdk/node/README.md")
NO_LINK = "../repo/"


def page_of_man(name):
    """The page of the site for a file of docs/man."""
    stem, _, section = name.rpartition(".")
    return f"reference/man/{stem}.{section}.md"


def code(language, text):
    return f"```{language}\n{text.rstrip()}\n```\n"


def cell(text):
    return " ".join(str(text).split()).replace("|", "\\|").replace("<", "&lt;")


# --- man pages ------------------------------------------------------------------


def render_man(path):
    done = subprocess.run(["groff", "-man", "-Tutf8", "-P-cbou", "-rLL=100n", path], check=True, capture_output=True, text=True,
                          timeout=60)
    return re.sub(r"\n{3,}", "\n\n", done.stdout).strip("\n")


def man_pages(root):
    """(file name, title, one line) of each."""
    found = []
    for path in sorted((root / "docs" / "man").glob("*.[0-9]")):
        text = path.read_text(encoding="utf-8").replace("\\-", "-")
        line = re.search(r"^\.SH NAME\n(.+?) - (.+)$", text, re.MULTILINE)
        found.append((path, line[1], line[2]))
    return found


def commands(root):
    lines = ["# Command line", "", "The man pages. `holdfast COMMAND --help` has the same flags.", "", "| command | |", "|---|---|"]
    for path, title, summary in man_pages(root):
        name = page_of_man(path.name)
        yield name, f"# {title}\n\n" + code("text", render_man(path))
        if path.suffix != ".3":
            lines.append(f"| [{title}](man/{path.name}.md) | {cell(summary)} |")
    yield "reference/commands.md", "\n".join(lines) + "\n"


# --- REST -----------------------------------------------------------------------


class Rest:
    def __init__(self, document):
        self.document = document

    def resolve(self, node):
        while isinstance(node, dict) and "$ref" in node:
            target = self.document
            for part in node["$ref"].removeprefix("#/").split("/"):
                target = target[part]
            node = {**target, **{k: v for k, v in node.items() if k != "$ref"}}
        return node

    def type_of(self, schema):
        """"integer, 1000 to 86400000, default 30000", or a link to a schema with fields."""
        name = schema.get("$ref", "").removeprefix("#/components/schemas/")
        schema = self.resolve(schema)
        if name and schema.get("properties"):
            return f"[{name}](#schema-{name.lower()})"
        if "enum" in schema:
            text = ", ".join(f"`{value}`" for value in schema["enum"])
        elif "const" in schema:
            text = f"`{schema['const']}`".lower()
        elif any(kind in schema for kind in ("oneOf", "anyOf", "allOf")):
            parts = schema.get("oneOf") or schema.get("anyOf") or schema.get("allOf")
            text = " or ".join(self.type_of(part) for part in parts)
        else:
            kinds = schema.get("type", "any")
            text = " or ".join(kinds) if isinstance(kinds, list) else str(kinds)
        if "items" in schema:
            text += f" of {self.type_of(schema['items'])}"
        if "minimum" in schema and "maximum" in schema:
            text += f", {schema['minimum']} to {schema['maximum']}"
        elif "minimum" in schema:
            text += f", at least {schema['minimum']}"
        if "maxLength" in schema:
            text += f", at most {schema['maxLength']} characters"
        if "default" in schema:
            text += f", default `{str(schema['default']).lower() if isinstance(schema['default'], bool) else schema['default']}`"
        return text

    def fields(self, schema, lines):
        schema = self.resolve(schema)
        for part in schema.get("allOf", []):
            self.fields(part, lines)
        required = schema.get("required", [])
        for name, field in schema.get("properties", {}).items():
            about = self.resolve(field).get("description", "")
            lines.append(f"| `{name}`{' (required)' if name in required else ''} | {cell(self.type_of(field))} | {cell(about)} |")

    def table(self, schema):
        """The fields; of alternatives, a table of each that has fields."""
        parts = self.resolve(schema).get("oneOf") or self.resolve(schema).get("anyOf") or []
        tables = [table for table in map(self.table, parts) if len(table) > 1]
        if tables:
            return [line for number, table in enumerate(tables) for line in (["", "or:", *table] if number else table)]
        lines = []
        self.fields(schema, lines)
        return ["", "| field | type | |", "|---|---|---|", *lines, ""] if lines else [""]

    def operation(self, method, path, item, operation):
        lines = [f"### {method.upper()} {path}", "", operation.get("summary", ""), "", operation.get("description", "")]
        parameters = [self.resolve(p) for p in item.get("parameters", []) + operation.get("parameters", [])]
        if parameters:
            lines += ["", "| parameter | in | type | |", "|---|---|---|---|"]
            lines += [f"| `{p['name']}` | {p['in']} | {cell(self.type_of(p.get('schema', {})))} | {cell(p.get('description', ''))} |"
                      for p in parameters]
        body = self.resolve(operation.get("requestBody", {})).get("content", {}).get("application/json", {})
        if body:
            lines += ["", "Body:", *self.table(body["schema"])]
        lines += ["", "| status | |", "|---|---|"]
        tables = []
        for status, response in operation["responses"].items():
            response = self.resolve(response)
            schema = response.get("content", {}).get("application/json", {}).get("schema", {})
            link = self.type_of(schema) if schema.get("$ref") else ""
            lines.append(f"| {status} | {cell(response.get('description', ''))} {link if '(#' in link else ''} |")
            if str(status).startswith("2") and not schema.get("$ref"):
                tables += self.table(schema)
        return lines + ["", *(["Answer:", *tables] if len(tables) > 1 else []), ""]

    def page(self):
        lines = ["# REST", "", "From [openapi.yaml](../files/docs/openapi.yaml), which every node serves at `/openapi.yaml`.", "",
                 self.document["info"].get("description", ""), ""]
        by_tag = {}
        for path, item in self.document["paths"].items():
            for method in ("get", "post", "put", "patch", "delete"):
                if method in item:
                    tag = item[method].get("tags", ["other"])[0]
                    by_tag.setdefault(tag, []).append((method, path, item))
        for tag, operations in by_tag.items():
            lines += [f"## {tag}", ""]
            for method, path, item in operations:
                lines += self.operation(method, path, item, item[method])
        lines += ["## Schemas", ""]
        for name, schema in self.document["components"]["schemas"].items():
            if schema.get("properties"):
                lines += [f"### {name} {{: #schema-{name.lower()} }}", "", schema.get("description", ""), *self.table(schema)]
        return "\n".join(lines) + "\n"


# --- gRPC -----------------------------------------------------------------------


def grpc(root):
    lines = ["# gRPC", "", "Every client port speaks gRPC. Server reflection is on.", ""]
    files = sorted((root / "proto" / "holdfast" / "v1").glob("*.proto"))
    for path in files:
        text = path.read_text(encoding="utf-8")
        for service, body in re.findall(r"^service (\w+) \{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL):
            lines += [f"## {service}", "", "| method | request | answer | |", "|---|---|---|---|"]
            for comment, method, request, answer in re.findall(
                    r"((?:^ *//.*\n)*)^ *rpc (\w+)\s*\(([^)]+)\)\s*returns\s*\(([^)]+)\)", body, re.MULTILINE):
                about = " ".join(line.strip().removeprefix("//").strip() for line in comment.splitlines())
                lines.append(f"| `{method}` | `{request}` | `{answer}` | {cell(about)} |")
            lines.append("")
    lines += ["## The messages", ""]
    for path in files:
        lines += [f"### {path.relative_to(root / 'proto')}", "", code("protobuf", path.read_text(encoding="utf-8"))]
    return "\n".join(lines) + "\n"


# --- the clients ----------------------------------------------------------------


def c_page(root):
    lines = ["# C", "", "libholdfast: `#include <holdfast.h>`, `pkg-config --cflags --libs holdfast`.", ""]
    for path, title, summary in man_pages(root):
        if path.suffix == ".3":
            lines.append(f"- [{title}](man/{path.name}.md): {summary}")
    return "\n".join(lines) + "\n\n## holdfast.h\n\n" + code("c", (root / "include" / "holdfast.h").read_text(encoding="utf-8"))


def signature(thing):
    try:
        return str(inspect.signature(thing)).replace("'", "")
    except (TypeError, ValueError):
        return "(…)"


def members(kind):
    for name, member in inspect.getmembers(kind):
        if name.startswith("_") or not inspect.getdoc(member):
            continue
        if inspect.isfunction(member):
            yield f"| `{name}{cell(signature(member))}` | {cell(inspect.getdoc(member).split(chr(10) + chr(10))[0])} |"
        elif isinstance(member, property):
            yield f"| `{name}` | {cell(inspect.getdoc(member).split(chr(10) + chr(10))[0])} |"


def python_page(root):
    sys.path.insert(0, str(root / "sdk" / "python"))
    sys.dont_write_bytecode = True
    import holdfast
    lines = ["# Python", "", f"[The package and its examples]({NO_LINK}sdk/python/README.md). What it exports:", ""]
    for name in sorted(holdfast.__all__):
        thing = getattr(holdfast, name)
        if not inspect.isclass(thing):
            lines += [f"## {name}", "", f"`{thing!r}`", ""]
            continue
        lines += [f"## {name}", "", f"`{name}{signature(thing)}`" if not issubclass(thing, Exception) else "An exception.", "",
                  inspect.getdoc(thing) or "", ""]
        rows = list(members(thing))
        if rows:
            lines += ["| | |", "|---|---|", *rows, ""]
    return "\n".join(lines) + "\n"


def go_page(root):
    head = f"# Go\n\n[The module and its examples]({NO_LINK}sdk/go/README.md). `go doc -all`:\n\n"
    go = shutil.which("go")
    if go is None:
        return head + "The program go was not installed when this page was made.\n"
    done = subprocess.run([go, "doc", "-all", "."], check=True, capture_output=True, text=True, cwd=root / "sdk" / "go", timeout=120,
                          env={**os.environ, "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local"})
    return head + code("text", done.stdout)


def node_page(root):
    head = f"# Node.js\n\n[The package and its examples]({NO_LINK}sdk/node/README.md). Its types:\n\n"
    return head + code("ts", (root / "sdk" / "node" / "index.d.ts").read_text(encoding="utf-8"))


def pages(root, program):
    """(path in the site, text) of each page. `program` has the commands that the man pages must cover."""
    yield from commands(root)
    known = {title for _, title, _ in man_pages(root)}
    listed = subprocess.run([program, "help"], check=True, capture_output=True, text=True, timeout=20).stdout
    missing = [name for name in re.findall(r"^  ([a-z-]+) {2,}\S", listed, re.MULTILINE) if f"holdfast-{name}" not in known]
    if missing:
        raise SystemExit(f"commands without a man page: {', '.join(missing)}")
    yield "reference/rest.md", Rest(yaml.safe_load((root / "docs" / "openapi.yaml").read_text(encoding="utf-8"))).page()
    yield "reference/grpc.md", grpc(root)
    yield "reference/c.md", c_page(root)
    yield "reference/python.md", python_page(root)
    yield "reference/go.md", go_page(root)
    yield "reference/node.md", node_page(root)

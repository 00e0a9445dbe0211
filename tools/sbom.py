#!/usr/bin/python3
"""The software bill of materials of a build, as CycloneDX 1.5 JSON on stdout. `make sbom` writes build/holdfast.cdx.json.

    tools/sbom.py [BUILD]      (default: build)

The components are the shared libraries that the program names in its ELF file, and what is compiled into it: libraft, and the
headers of xxHash. Versions are those of pkg-config at the time of the build (`meson introspect`) and of the Debian packages.
The same program gives the same text: the time is SOURCE_DATE_EPOCH, or that of the program's file."""

import datetime
import hashlib
import json
import os
import re
import subprocess
import sys
import uuid
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# name of the library: (name in pkg-config, SPDX licence)
SHARED = {
    "libjansson": ("jansson", "MIT"),
    "libnghttp2": ("libnghttp2", "MIT"),
    "liblua5.1": ("lua5.1", "MIT"),
    "liblua5.1-cjson": ("lua5.1-cjson", "MIT"),
    "libcrypto": ("libcrypto", "Apache-2.0"),
    "libssl": ("openssl", "Apache-2.0"),
    "libprotobuf-c": ("libprotobuf-c", "BSD-2-Clause"),
    "libuv": ("libuv", "MIT"),
    "libhiredis": ("hiredis", "BSD-3-Clause"),
    "libinih": ("inih", "BSD-3-Clause"),
    "libseccomp": ("libseccomp", "LGPL-2.1-only"),
    "libc": (None, "LGPL-2.1-or-later"),
    "libm": (None, "LGPL-2.1-or-later"),
    "ld-linux-x86-64": (None, "LGPL-2.1-or-later"),
    "ld-linux-aarch64": (None, "LGPL-2.1-or-later"),
}
INCLUDED = {"raft": "LGPL-3.0-only WITH LGPL-3.0-linking-exception", "libxxhash": "BSD-2-Clause"}


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def fail(problem):
    sys.exit(f"sbom: {problem}")


def sha256(path):
    return [{"alg": "SHA-256", "content": hashlib.sha256(Path(path).read_bytes()).hexdigest()}]


def paths(program):
    """The files of the libraries that the program names, as the loader finds them."""
    found = {}
    for line in run("ldd", str(program)).splitlines():
        match = re.match(r"\s*(\S+)(?: => (\S+))? \(0x", line)
        if match and (match[2] or match[1].startswith("/")):
            path = match[2] or match[1]
            found[Path(match[1]).name] = path
    return found


def debian(path):
    """(package, version, architecture) of the Debian package that has the file, or None."""
    for candidate in (path, os.path.realpath(path), os.path.realpath(path).removeprefix("/usr")):
        done = subprocess.run(["dpkg-query", "-S", candidate], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            package = done.stdout.split(": ")[0].split(",")[0]
            return tuple(run("dpkg-query", "-W", "-f", "${binary:Package} ${Version} ${Architecture}", package).split())
    return None


def release():
    fields = dict(re.findall(r'^(\w+)="?([^"\n]*)', Path("/etc/os-release").read_text(encoding="utf-8"), re.M))
    return fields.get("ID", "debian"), fields.get("VERSION_ID", "")


def shared_component(soname, path, versions):
    stem = re.split(r"\.so\b", soname)[0]
    if stem not in SHARED:
        fail(f"the program needs {soname}, which SHARED in tools/sbom.py does not know: add its licence")
    pkg_config, licence = SHARED[stem]
    package = debian(path)
    component = {"type": "library", "bom-ref": soname, "name": stem, "version": versions.get(pkg_config, ""), "scope": "required",
                 "hashes": sha256(path), "licenses": [{"expression": licence}],
                 "properties": [{"name": "holdfast:linked", "value": "dynamically"}]}
    if package:
        name, version, architecture = package
        system, number = release()
        component["version"] = component["version"] or version
        component["purl"] = (f"pkg:deb/{system}/{name.split(':')[0]}@{version.replace('+', '%2B').replace(':', '%3A')}"
                             f"?arch={architecture}&distro={system}-{number}")
    return component


def included_component(name, versions):
    if name not in versions:
        fail(f"the build does not know {name}; build it again")
    component = {"type": "library", "bom-ref": f"included:{name}", "name": name, "version": versions[name], "scope": "required",
                 "purl": f"pkg:generic/{name}@{versions[name]}", "licenses": [{"expression": INCLUDED[name]}],
                 "properties": [{"name": "holdfast:linked", "value": "included"}]}
    if name == "raft":
        setup = "".join((ROOT / "scripts" / file).read_text(encoding="utf-8") for file in ("setup", "common.sh"))
        pinned = re.search(r"^RAFT_VERSION=(\S+)", setup, re.M), re.search(r"^RAFT_SHA256=(\w+)", setup, re.M)
        if all(pinned) and pinned[0][1] == versions[name]:
            component["externalReferences"] = [{
                "type": "source-distribution", "url": "https://tracker.debian.org/pkg/raft",
                "hashes": [{"alg": "SHA-256", "content": pinned[1][1]}]}]
    return component


def bill(build):
    program = build / "holdfast"
    if not program.exists():
        fail(f"{program} does not exist; run make first")
    project = json.loads(run("meson", "introspect", str(build), "--projectinfo"))
    versions = {d["name"]: d["version"] for d in json.loads(run("meson", "introspect", str(build), "--dependencies")) if d.get("version")}
    found = paths(program)
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", str(program)))
    missing = [name for name in needed if name not in found]
    if missing:
        fail(f"the loader does not find {', '.join(missing)}")
    components = [shared_component(name, found[name], versions) for name in sorted(needed)]
    components += [included_component(name, versions) for name in sorted(INCLUDED)]
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH", program.stat().st_mtime))
    root = {"type": "application", "bom-ref": "holdfast", "name": "holdfast", "version": project["version"],
            "hashes": sha256(program), "licenses": [{"expression": "Apache-2.0"}], "purl": f"pkg:generic/holdfast@{project['version']}"}
    text = {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
            "metadata": {"timestamp": datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                         "tools": {"components": [{"type": "application", "name": "tools/sbom.py", "version": project["version"]}]},
                         "component": root},
            "components": components,
            "dependencies": [{"ref": "holdfast", "dependsOn": [c["bom-ref"] for c in components]}] +
                            [{"ref": c["bom-ref"]} for c in components]}
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(text, sort_keys=True))
    return {"$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json", "serialNumber": f"urn:uuid:{serial}", **text}


def main():
    if len(sys.argv) > 2:
        fail("usage: tools/sbom.py [BUILD]")
    print(json.dumps(bill(Path(sys.argv[1]) if len(sys.argv) == 2 else ROOT / "build"), indent=2))


if __name__ == "__main__":
    main()

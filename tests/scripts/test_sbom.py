"""`make sbom`: CycloneDX 1.5, complete, and the same each time. And the minimum versions that the build demands."""

import json
import re
import subprocess
import uuid

import pytest

from conftest import ROOT

PROGRAM = ROOT / "build" / "holdfast"


@pytest.fixture(scope="module", name="bill")
def one_bill():
    done = subprocess.run([ROOT / "tools" / "sbom.py", ROOT / "build"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


TYPES = {"application", "framework", "library", "container", "platform", "operating-system", "device", "device-driver", "firmware",
         "file", "machine-learning-model", "data"}
BOM_FIELDS = {"$schema", "bomFormat", "specVersion", "serialNumber", "version", "metadata", "components", "dependencies"}
COMPONENT_FIELDS = {"type", "bom-ref", "name", "version", "scope", "hashes", "licenses", "purl", "properties", "externalReferences"}


def check_component(component):
    """What the schema of CycloneDX 1.5 demands of the fields that we use."""
    assert set(component) <= COMPONENT_FIELDS and component["type"] in TYPES
    assert component["name"] and component["version"]
    assert component.get("scope", "required") in ("required", "optional", "excluded")
    assert all(h["alg"] == "SHA-256" and re.fullmatch(r"[0-9a-f]{64}", h["content"]) for h in component.get("hashes", []))
    assert len(component["licenses"]) == 1 and set(component["licenses"][0]) == {"expression"}
    assert re.fullmatch(r"pkg:(deb/\w+|generic)/[\w.+-]+@[^?]+(\?[\w=&.-]+)?", component["purl"])
    assert all(set(p) == {"name", "value"} for p in component.get("properties", []))
    assert all({"type", "url"} <= set(r) for r in component.get("externalReferences", []))


def test_it_has_the_structure_of_cyclonedx_1_5(bill):
    assert set(bill) == BOM_FIELDS
    assert (bill["bomFormat"], bill["specVersion"], bill["version"]) == ("CycloneDX", "1.5", 1)
    assert bill["serialNumber"] == f"urn:uuid:{uuid.UUID(bill['serialNumber'].removeprefix('urn:uuid:'))}"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", bill["metadata"]["timestamp"])
    assert bill["metadata"]["component"]["name"] == "holdfast"
    for component in [*bill["components"], bill["metadata"]["component"]]:
        check_component(component)
    refs = [c["bom-ref"] for c in bill["components"]] + ["holdfast"]
    assert len(refs) == len(set(refs))
    assert sorted(d["ref"] for d in bill["dependencies"]) == sorted(refs)
    assert all(set(d.get("dependsOn", [])) <= set(refs) for d in bill["dependencies"])


def test_everything_in_the_program_is_named(bill):
    named = {c["bom-ref"]: c for c in bill["components"]}
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", subprocess.run(["readelf", "-d", PROGRAM], capture_output=True, text=True,
                                                                   check=True).stdout))
    assert needed and needed == {ref for ref in named if not ref.startswith("included:")}
    assert {"included:raft", "included:libxxhash"} <= set(named)
    assert all(c.get("hashes") for ref, c in named.items() if ref in needed)


def test_two_runs_say_the_same(bill):
    again = subprocess.run([ROOT / "tools" / "sbom.py", ROOT / "build"], capture_output=True, text=True, check=True)
    assert json.loads(again.stdout) == bill


def test_a_build_that_is_missing_is_an_error(tmp_path):
    done = subprocess.run([ROOT / "tools" / "sbom.py", tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "run make first" in done.stderr and not done.stdout


def test_each_library_of_the_build_has_a_minimum_version():
    found = {}
    for path in [ROOT / "meson.build", *(ROOT / "src").rglob("meson.build"), *(ROOT / "proto").rglob("meson.build")]:
        for name, rest in re.findall(r"\bdependency\(\s*'([^']+)'([^)]*)\)", path.read_text(encoding="utf-8")):
            found.setdefault(name, []).append("version:" in rest)
    raft = (ROOT / "meson.build").read_text(encoding="utf-8")
    assert "version_compare('<0.22')" in raft
    without = [name for name, checked in found.items() if not all(checked) and name not in ("raft", "threads", "dl")]
    assert found and not without, f"no minimum version: {without}"

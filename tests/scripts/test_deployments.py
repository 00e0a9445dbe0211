"""contrib/container and contrib/kubernetes, as far as that goes without an engine: they are read, what they name exists, and the program
accepts the settings that they give."""

import os
import re
import subprocess
import sys

import pytest
import yaml

from conftest import ROOT

sys.path.insert(0, str(ROOT / "tests/support"))
from dockerfile import DOCKERFILE, instructions, last_stage  # noqa: E402

COMPOSE = ROOT / "contrib/container/compose.yaml"
KUBERNETES = ROOT / "contrib/kubernetes/holdfast.yaml"
PROGRAM = ROOT / "build/holdfast"
PORTS = {"client": 4653, "peer": 4654, "resp": 4655}


def holdfast(*words, environment=None):
    return subprocess.run([PROGRAM, *words], capture_output=True, text=True, timeout=20, check=False,
                          env={"PATH": os.environ["PATH"], **(environment or {})})


@pytest.fixture(name="certificates")
def certificates_of_a_node(tmp_path):
    for words in (["init"], ["node", "--id", "1", "--host", "holdfast-0.holdfast"]):
        assert holdfast("cert", words[0], "--dir", tmp_path, *words[1:]).returncode == 0
    return {"/run/holdfast/ca.pem": tmp_path / "ca.pem", "/run/holdfast/cert.pem": tmp_path / "node-1.pem",
            "/run/holdfast/key.pem": tmp_path / "node-1-key.pem"}


# --- Docker -----------------------------------------------------------------------------


def test_the_image_is_built_in_stages_and_runs_without_privileges():
    lines = instructions()
    assert [stage for stage, name, _ in lines if name == "FROM"] == [0, 1]
    last = dict(last_stage())
    user = last["USER"]
    assert user != "root" and not user.startswith("0"), user
    assert f"--uid {user.split(':')[0]}" in DOCKERFILE.read_text(encoding="utf-8")
    assert {int(port) for port in last["EXPOSE"].split()} == set(PORTS.values())
    assert not [rest for _, rest in last_stage() if "make" in rest.split()]


def test_the_commands_of_the_image_exist():
    last = dict(last_stage())
    health = yaml.safe_load(last["HEALTHCHECK"].partition("CMD ")[2])
    entry, command = yaml.safe_load(last["ENTRYPOINT"]), yaml.safe_load(last["CMD"])
    for words in (health, entry + command):
        assert words[0] == "holdfast" and holdfast(words[1], "--help").returncode == 0, words
    assert holdfast(*health[1:], "--endpoints", "127.0.0.1:1", "--timeout", "1s").returncode == 69


def test_the_package_of_the_image_is_built():
    copied = [rest for name, rest in last_stage() if name == "COPY"]
    names = re.findall(r"^Package: (\S+)$", (ROOT / "debian/control").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(copied) == 1
    package = re.search(r"build-deb/(\S+?)_\*\.deb", copied[0])
    assert package and package[1] in names, copied


# --- Compose ----------------------------------------------------------------------------


@pytest.fixture(name="services")
def services_of_compose():
    return yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["services"]


def test_each_service_is_a_node_with_accepted_settings(services, tmp_path):
    members = {}
    for name, service in services.items():
        environment = dict(service["environment"])
        cluster = dict(row.split("=") for row in environment["HOLDFAST_CLUSTER"].split(","))
        assert cluster[environment["HOLDFAST_ID"]] == f"{name}:{PORTS['peer']}"
        members[environment["HOLDFAST_ID"]] = environment["HOLDFAST_CLUSTER"]
        # The names of services exist only among them.
        environment = {key: value.replace(name, "localhost") if key != "HOLDFAST_CLUSTER" else
                       re.sub(r"node\d", "localhost", value) for key, value in environment.items()}
        result = holdfast(*service["command"], "--check", "--data", tmp_path, environment=environment)
        assert result.returncode == 0, result.stderr
    assert len(members) == 3 and len(set(members.values())) == 1


def test_services_share_no_port_and_no_volume(services):
    ports = [port for service in services.values() for port in service["ports"]]
    volumes = [volume for service in services.values() for volume in service["volumes"]]
    assert len(set(ports)) == len(ports) and len(set(volumes)) == len(volumes) == 3
    assert all(port.startswith("127.0.0.1:") for port in ports), "there is no authentication"


# --- Kubernetes -------------------------------------------------------------------------


@pytest.fixture(name="objects")
def objects_of_the_manifest():
    return {(o["kind"], o["metadata"]["name"]): o for o in yaml.safe_load_all(KUBERNETES.read_text(encoding="utf-8"))}


@pytest.fixture(name="container")
def container_of_the_pods(objects):
    return objects["StatefulSet", "holdfast"]["spec"]["template"]["spec"]["containers"][0]


def test_selectors_and_ports_agree(objects, container):
    pods = objects["StatefulSet", "holdfast"]["spec"]
    labels = pods["template"]["metadata"]["labels"]
    assert {p["name"]: p["containerPort"] for p in container["ports"]} == PORTS
    for name in ("holdfast", "holdfast-client"):
        service = objects["Service", name]["spec"]
        assert service["selector"] == labels and all(PORTS[p["name"]] == p["port"] for p in service["ports"])
    assert objects["Service", "holdfast"]["spec"]["clusterIP"] == "None" and pods["serviceName"] == "holdfast"
    budget = objects["PodDisruptionBudget", "holdfast"]["spec"]
    assert budget["selector"]["matchLabels"] == labels == pods["selector"]["matchLabels"]
    assert budget["maxUnavailable"] <= (pods["replicas"] - 1) // 2, "a majority must stay"


def test_what_is_mounted_exists(objects):
    pod = objects["StatefulSet", "holdfast"]["spec"]["template"]["spec"]
    claims = objects["StatefulSet", "holdfast"]["spec"]["volumeClaimTemplates"]
    volumes = {v["name"] for v in pod["volumes"]} | {c["metadata"]["name"] for c in claims}
    for container in pod["containers"] + pod["initContainers"]:
        assert {m["name"] for m in container["volumeMounts"]} <= volumes


def settings(container, tmp_path, certificates):
    """The variables of pod 0, with the paths and names of this machine."""
    found = {}
    for row in container["env"]:
        value = row.get("value", "on")
        for path, real in certificates.items():
            value = value.replace(path, str(real))
        found[row["name"]] = value
    found["HOLDFAST_CLUSTER"] = re.sub(r"holdfast-\d\.holdfast", "localhost", found["HOLDFAST_CLUSTER"])
    return {**found, "HOSTNAME": "holdfast-0", "HOLDFAST_DATA": str(tmp_path)}


@pytest.mark.parametrize("bootstrap", ["on", "off"])
def test_the_program_accepts_the_settings_of_a_pod(container, tmp_path, certificates, bootstrap):
    """The shell command of the container is run; `holdfast` in it is the program with --check."""
    words = tmp_path / "bin" / "holdfast"
    words.parent.mkdir()
    words.write_text(f'#!/bin/sh\necho "$@" >{tmp_path}/words\nexec {PROGRAM} "$@" --check\n', encoding="utf-8")
    words.chmod(0o755)
    environment = {**settings(container, tmp_path, certificates), "BOOTSTRAP": bootstrap,
                   "PATH": f"{words.parent}:{os.environ['PATH']}"}
    result = subprocess.run([*container["command"], *container["args"]], env=environment, capture_output=True, text=True,
                            timeout=20, check=False)
    assert result.returncode == 0, result.stderr
    assert re.search(r"^auth *= *on", result.stdout, re.MULTILINE), result.stdout
    assert re.search(r"^id *= *1\b", result.stdout, re.MULTILINE), result.stdout
    assert ("--bootstrap" in (tmp_path / "words").read_text(encoding="utf-8")) == (bootstrap == "on")


def test_probes_name_paths_of_the_api(container):
    api = (ROOT / "docs/openapi.yaml").read_text(encoding="utf-8")
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        target = container[probe]["httpGet"]
        assert f"\n  {target['path']}:" in api and target["scheme"] == "HTTPS" and target["port"] == "client"
    assert container["livenessProbe"]["httpGet"]["path"] == "/livez", "a restart does not bring a majority back"


def test_the_flags_of_pre_stop_exist(container):
    command = container["lifecycle"]["preStop"]["exec"]["command"][-1]
    help_text = holdfast("member", "--help").stdout
    flags = re.findall(r"--[a-z-]+", command)
    assert "--from" in flags and all(flag + " " in help_text for flag in flags), flags


def test_a_pod_runs_without_privileges(objects, container):
    pod = objects["StatefulSet", "holdfast"]["spec"]["template"]["spec"]
    user = re.search(r"USER (\d+):(\d+)", DOCKERFILE.read_text(encoding="utf-8"))
    assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] == int(user[1])
    assert container["securityContext"] == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                                            "capabilities": {"drop": ["ALL"]}}

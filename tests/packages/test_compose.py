"""contrib/container/compose.yaml without a container engine: each service is the image of test_image.py in namespaces, with the command,
the environment and the name of the file. Volumes are folders with the owner of the image's; ports are not published."""

import json
import shlex
import subprocess

import pytest
import yaml

import network
from conftest import ENTER, ROOT
from dockerfile import last_stage
from harness import PATIENCE, wait_until

SERVICES = yaml.safe_load((ROOT / "contrib/container/compose.yaml").read_text(encoding="utf-8"))["services"]
IMAGE = dict(last_stage())
HEALTH = json.loads(IMAGE["HEALTHCHECK"].partition("CMD ")[2])


class Service:
    def __init__(self, root, space, name):
        self.root = root
        self.space = space
        self.log = root.folder / "srv" / f"{name}.log"
        user, group = IMAGE["USER"].split(":")
        settings = [f"{key}={value}" for key, value in SERVICES[name]["environment"].items()]
        words = ["setpriv", "--reuid", user, "--regid", group, "--clear-groups", "env", "-i", "PATH=/usr/bin:/bin", *shlex.split(IMAGE["ENV"]),
                 *settings, *json.loads(IMAGE["ENTRYPOINT"]), *SERVICES[name]["command"]]
        [(volume, target)] = [row.split(":") for row in SERVICES[name]["volumes"]]
        script = f"""
            install -d -m 0700 -o {user} -g {group} /srv/volume-{volume}
            mount --bind /srv/volume-{volume} {target}
            exec {shlex.join(words)}
        """
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(self.inside(["bash", "-ec", script]), stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def inside(self, command):
        return [*self.space.inside, *map(str, ENTER), self.root.folder, *command]

    def run(self, *command):
        return subprocess.run(self.inside(command), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE, check=False)

    def is_healthy(self):
        return self.run(*HEALTH).returncode == 0

    def wait_healthy(self):
        wait_until(self.is_healthy, lambda: f"healthy:\n{self.log.read_text(encoding='utf-8')}")

    def kill(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture(name="start")
def services_of_the_file(image):
    if network.why_not() is not None:
        pytest.fail(network.why_not())
    cables = network.Network(len(SERVICES))
    spaces = dict(zip(SERVICES, cables.spaces.values(), strict=True))
    with open(image.folder / "etc/hosts", "a", encoding="utf-8") as hosts:
        for number, name in enumerate(SERVICES, 1):
            print(f"10.77.0.{number} {name}", file=hosts)
    running = []

    def start(name):
        running.append(Service(image, spaces[name], name))
        return running[-1]

    try:
        yield start
    finally:
        for service in running:
            service.kill()
        cables.close()


def test_the_services_are_one_cluster_and_start_again(start):
    services = {name: start(name) for name in SERVICES}
    for service in services.values():
        service.wait_healthy()
    first, *others = services
    for name in services:
        held = services[first].run("holdfast", "lock", "compose", "--endpoints", f"{name}:4653", "--", "echo", "held")
        assert held.stdout == "held\n", held.stderr

    services[first].kill()
    assert services[others[0]].run("holdfast", "lock", "compose", "--", "true").returncode == 0
    services[first] = start(first)  # with --bootstrap and its volume
    services[first].wait_healthy()
    status = services[first].run("holdfast", "status", "--json")
    assert len(json.loads(status.stdout)["members"]) == len(SERVICES), status.stdout

"""Locks by packages of npm, unchanged: ioredis, and redlock in both of its versions (issue 5). The scenarios are
in tests/node/locks.js; what they need is fetched by `scripts/setup test`, as tests/node/package-lock.json says."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import check_log
from harness import PATIENCE, Cluster, Ports, dies_with_us, skip_or_fail

SOURCES = Path(__file__).resolve().parent.parent / "node"


def node_modules():
    """Where scripts/setup puts them: a folder for each state of the lock file."""
    digest = hashlib.sha256((SOURCES / "package-lock.json").read_bytes()).hexdigest()[:12]
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(cache) / "holdfast" / f"node-{digest}" / "node_modules"
    if not shutil.which("node") or not folder.is_dir():
        skip_or_fail(f"Node.js or its packages are missing ({folder}). Run: scripts/setup test")
    return folder


class Scenario:
    def __init__(self, name, nodes):
        self.process = subprocess.Popen(
            dies_with_us([shutil.which("node"), SOURCES / "locks.js", name, *[n.resp_port for n in nodes]]),
            env={**os.environ, "NODE_PATH": str(node_modules())},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def hear(self):
        return self.process.stdout.readline().strip()

    def finish(self, say=None):
        try:
            _, errors = self.process.communicate(say, timeout=2 * PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            _, errors = self.process.communicate()
            errors += "\n(it did not end)"
        assert self.process.returncode == 0, errors


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    with Ports():
        cluster = Cluster(tmp_path_factory.mktemp("node"), 3).start()
        yield cluster
        for node in cluster:
            node.close_ready()
            node.kill()
    for node in cluster:
        check_log(node)


@pytest.mark.parametrize("name", [
    "commands_of_ioredis",
    "locks_of_redlock_4",
    "locks_of_redlock_5",
    "expiry_under_use",
    "twenty_clients_of_redlock_never_meet",
])
def test_node(three, name):
    Scenario(name, [three.leader(), *three.followers()]).finish()


def test_a_lock_of_redlock_outlives_the_leader(make_cluster):
    cluster = make_cluster(3)
    scenario = Scenario("a_lock_outlives_the_leader", cluster.followers())
    assert scenario.hear() == "held", scenario.finish()
    cluster.leader().kill()
    scenario.finish("killed\n")

"""What the cluster tests are given, and how it is cleared away: processes, ports, folders. harness.py
has the nodes."""

import shutil
import tempfile
from pathlib import Path

import pytest

import harness

# What must never be in a log, whatever the test was about.
NEVER = ("assertion failed", "ERROR: AddressSanitizer", "ERROR: LeakSanitizer", "runtime error")
TAIL = 25


def pytest_configure(config):
    config.addinivalue_line("markers", "long: takes more than a few seconds; only in `make cluster`")
    config.addinivalue_line("markers", "sanitized: also run against build-test/holdfast by `make test`")


@pytest.fixture
def tmp_path():
    """Instead of pytest's own, which keeps the folders of three runs: a node's has 50 MiB."""
    folder = Path(tempfile.mkdtemp(prefix="holdfast-test-"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def keep(tmp_path):
    """keep(node) for what make_cluster did not make; also gives the ports back. Returns the node."""
    nodes = []

    def add(node):
        nodes.append(node)
        return node

    yield add
    for node in nodes:
        node.close_ready()
        if node.running:
            node.kill()
    harness.give_back_all()
    for node in nodes:
        log = node.log()
        print(f"--- node {node.id}, the end of its log\n" + "\n".join(log.splitlines()[-TAIL:]))
        for word in NEVER:
            assert word not in log, log


@pytest.fixture
def make_cluster(tmp_path, keep):
    """make_cluster(5) starts five nodes; they are gone when the test is."""
    made = []

    def make(count, *flags, start=True, name="test"):
        folder = tmp_path / f"cluster-{len(made)}"
        folder.mkdir()
        cluster = harness.Cluster(folder, count, flags, name)
        made.append(cluster)
        for node in cluster:
            keep(node)
        return cluster.start() if start else cluster

    return make

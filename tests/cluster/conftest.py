"""What the cluster tests are given, and how it is cleared away: processes, ports, folders. harness.py
has the nodes."""

import shutil
import signal
import tempfile
from pathlib import Path

import pytest

import harness
from harness import (PROGRAM, ROOT, Cluster, Node, environment, free_ports,  # noqa: F401
                     run, wait_until)

# What must never be in a log, whatever the test was about.
NEVER = ("assertion failed", "ERROR: AddressSanitizer", "ERROR: LeakSanitizer", "runtime error")
TAIL = 25


def pytest_configure(config):
    signal.signal(signal.SIGTERM, lambda *_: pytest.exit("stopped by SIGTERM"))  # and clear away
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # a run in the background of a script; a shell cannot trap it then
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line("markers", "long: takes more than a few seconds; only in `make cluster`")
    config.addinivalue_line("markers", "sanitized: also run against build-test/holdfast by `make test`")


def check_log(node):
    for word in NEVER:
        assert word not in node.log(), node.log()


@pytest.fixture
def tmp_path():
    """Instead of pytest's own, which keeps the folders of three runs: a node's has 50 MiB."""
    folder = Path(tempfile.mkdtemp(prefix="holdfast-test-"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def keep(tmp_path):
    """keep(node) for what make_cluster did not make. Returns the node."""
    nodes = []

    def add(node):
        nodes.append(node)
        return node

    with harness.Ports():
        yield add
        for node in nodes:
            node.close_ready()
            if node.running:
                node.kill()
    for node in nodes:
        print(f"--- node {node.id}, the end of its log\n" + "\n".join(node.log().splitlines()[-TAIL:]))
    for node in nodes:
        check_log(node)


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

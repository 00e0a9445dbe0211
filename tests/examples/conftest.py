"""What the tests of the examples and recipes share: one cluster, and `holdfast` in the PATH."""

import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "cluster")]

import harness  # noqa: E402


def pytest_configure(config):
    signal.signal(signal.SIGTERM, lambda *_: pytest.exit("stopped by SIGTERM"))


@pytest.fixture(scope="session")
def cluster():
    folder = Path(tempfile.mkdtemp(prefix="holdfast-examples-"))
    with harness.Ports():
        running = harness.Cluster(folder, 3, name="examples")
        try:
            yield running.start()
        finally:
            for node in running:
                node.close_ready()
                if node.running:
                    node.kill()
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def surroundings(cluster):
    """The environment of a user of the cluster."""
    return harness.environment(
        HOLDFAST_ENDPOINTS=",".join(f"127.0.0.1:{node.client_port}" for node in cluster),
        PATH=f"{harness.PROGRAM.parent}:{os.environ['PATH']}", PYTHONDONTWRITEBYTECODE="1", LC_ALL="C.UTF-8")

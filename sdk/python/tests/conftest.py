"""The package from this tree, and clusters of real nodes from tests/cluster."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "sdk" / "python"), str(ROOT / "tests" / "cluster")]

from harness import Cluster, Ports  # noqa: E402


@pytest.fixture
def make_cluster(tmp_path):
    """make_cluster() starts three nodes; they are gone when the test is."""
    made = []

    def make(count=3, start=True):
        made.append(Cluster(tmp_path / "cluster", count))
        made[-1].folder.mkdir()
        return made[-1].start() if start else made[-1]

    with Ports():
        yield make
        for cluster in made:
            for node in cluster:
                node.close_ready()
                if node.running:
                    node.kill()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """One for the tests that leave it as it was."""
    with Ports():
        running = Cluster(tmp_path_factory.mktemp("cluster"), 3, name="sdk")
        try:
            yield running.start()
        finally:
            for node in running:
                node.close_ready()
                if node.running:
                    node.kill()

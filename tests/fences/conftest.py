"""What the tests of the fences share: a cluster, a real server of PostgreSQL, Redis and so on, and the scenario of a holder
that is stopped for longer than its TTL.

Needed, all from Debian (scripts/setup test): postgresql and python3-psycopg2, redis-server and python3-redis, python3-grpcio,
nginx. Each server is started by the tests in a folder of its own, without the services of the system."""

import shutil
import signal
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "sdk" / "python"), str(ROOT / "tests" / "cluster"), str(ROOT / "tests" / "fences")]

import harness  # noqa: E402
import servers  # noqa: E402
from stale import Scenario  # noqa: E402


def pytest_configure(config):
    signal.signal(signal.SIGTERM, lambda *_: pytest.exit("stopped by SIGTERM"))


@pytest.fixture(scope="session")
def folder():
    path = Path(tempfile.mkdtemp(prefix="holdfast-fences-"))
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="session")
def cluster(folder):
    """One node: the fences concern the clients, not the cluster."""
    (folder / "cluster").mkdir()
    with harness.Ports():
        running = harness.Cluster(folder / "cluster", 1, name="fences")
        try:
            yield running.start()
        finally:
            for node in running:
                node.close_ready()
                if node.running:
                    node.kill()


@pytest.fixture
def scenario(cluster):
    with Scenario(cluster) as running:
        yield running


@pytest.fixture(scope="session")
def postgres():
    with servers.Postgres() as server:
        yield server


@pytest.fixture(scope="session")
def redis_server(folder):
    with harness.Ports(), servers.Redis(folder / "redis") as server:
        yield server

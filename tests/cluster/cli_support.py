"""What the tests of the command line share: one small cluster a file, and the program asked through it."""

import pytest

from harness import Cluster, environment, run


def endpoints(nodes):
    return ",".join(f"127.0.0.1:{node.client_port}" for node in nodes)


def ask(nodes, *arguments, timeout=30, **env):
    """Runs `holdfast ARGUMENTS` against these nodes, to its end."""
    return run(*arguments, timeout=timeout, env=environment(HOLDFAST_ENDPOINTS=endpoints(nodes), **env))


def good(nodes, *arguments, **options):
    """The same, where nothing may go wrong; gives what it printed."""
    done = ask(nodes, *arguments, **options)
    assert done.returncode == 0, done
    return done.stdout


def one_cluster(folder, count=3, *flags):
    """A cluster that is gone when the generator ends."""
    cluster = Cluster(folder, count, flags)
    try:
        yield cluster.start()
    finally:
        for node in cluster:
            if node.running:
                node.process.kill()
                node.process.wait()
    for node in cluster:
        assert "assertion failed" not in node.log(), node.log()
        assert "ERROR: AddressSanitizer" not in node.log(), node.log()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    yield from one_cluster(tmp_path_factory.mktemp("cli"))

"""What the tests of the command line share: one small cluster a file, and the program run against it."""

import json
import subprocess
import threading

import pytest

from harness import PROGRAM, Cluster, environment, run, wait_until


def endpoints(nodes):
    return ",".join(f"127.0.0.1:{node.client_port}" for node in nodes)


def run_cli(nodes, *arguments, timeout=30, **env):
    """Runs `holdfast ARGUMENTS` against these nodes, to its end."""
    return run(*arguments, timeout=timeout, env=environment(HOLDFAST_ENDPOINTS=endpoints(nodes), **env))


def good(nodes, *arguments, **options):
    """The same, where nothing may go wrong; gives what it printed."""
    done = run_cli(nodes, *arguments, **options)
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


class Watcher:
    """`holdfast watch --json` in the background, as a list of its lines."""

    def __init__(self, nodes, *arguments):
        self.process = subprocess.Popen(
            [PROGRAM, "watch", "--json", *arguments], stdout=subprocess.PIPE, text=True,
            env=environment(HOLDFAST_ENDPOINTS=endpoints(nodes)))
        self.events = []
        self.thread = threading.Thread(target=self.read)
        self.thread.start()
        wait_until(lambda: self.events, "the stream is ready")

    def read(self):
        for line in self.process.stdout:
            self.events.append(json.loads(line))

    def named(self, kind):
        """The data of all events of one kind."""
        return [e["data"] for e in self.events if e["event"] == kind]

    def granted(self):
        return [data["name"] for data in self.named("granted")]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.process.kill()
        self.process.wait()
        self.thread.join()
        self.process.stdout.close()

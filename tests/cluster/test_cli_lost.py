"""The lock is lost while the command runs: it is dead before the next holder is granted. What happens when
processes of `holdfast lock` are killed or stopped is in test_cli_guard.py."""

import json
import os
import signal
import socket
import subprocess
import threading
import time

import pytest

from cli_support import run_cli, endpoints, good
from harness import PATIENCE, PROGRAM, allowed, environment
from lost_support import GRACE, TTL, scenario  # noqa: F401  (a fixture)

class Proxy:
    """Between clients and one node; `stall` makes it a network that swallows everything."""

    def __init__(self, target):
        self.target = target
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.open = threading.Event()
        self.open.set()
        self.sockets = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
                node = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                return
            self.sockets += [client, node]
            for a, b in ((client, node), (node, client)):
                threading.Thread(target=self.pump, args=(a, b), daemon=True).start()

    def pump(self, a, b):
        try:
            while piece := a.recv(65536):
                self.open.wait()
                b.sendall(piece)
            b.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def stall(self):
        self.open.clear()

    def close(self):
        self.open.set()
        for s in [self.listener, *self.sockets]:
            s.close()


@pytest.mark.sanitized
def test_forced_out(scenario):
    s = scenario()
    good(s.cluster, "force-unlock", "prize", "--reason", "test")
    s.end(79)


def test_revoked_by_deadline(scenario):
    s = scenario()
    good(s.cluster, "revoke", "prize", "--reason", "test", "--deadline", "1s")
    s.end(79)


def test_wrapper_stopped(scenario):
    s = scenario()
    s.holder.send_signal(signal.SIGSTOP)
    s.end(None)
    s.holder.send_signal(signal.SIGCONT)
    assert s.holder.wait(timeout=PATIENCE) == 79


def test_wrapper_killed_frees_the_lock_by_its_ttl(scenario):
    s = scenario()
    began = time.monotonic()
    s.holder.kill()
    s.end(-signal.SIGKILL)
    took = time.monotonic() - began
    # The TTL counts from the last confirmation; then the lock-delay: TERM, KILL and a second.
    assert took < TTL + GRACE + 0.1 + 1 + allowed(2), took


def test_cut_off_by_nodes_that_stop(scenario):
    s = scenario()
    for node in s.cluster:
        node.process.send_signal(signal.SIGSTOP)
    try:
        said = s.holder.communicate(timeout=PATIENCE)[1]
        assert s.holder.returncode == 79 and "unconfirmed" in said
    finally:
        for node in s.cluster:
            node.process.send_signal(signal.SIGCONT)
    s.holder.stderr = open(os.devnull, encoding="ascii")
    s.end(None)


def test_cut_off_by_a_network_that_swallows_everything(scenario, make_cluster):
    cluster = make_cluster(3, start=False)
    proxies = [Proxy(node.client_port) for node in cluster]
    for node, proxy in zip(cluster, proxies):
        node.flags += ["--advertise-client", f"127.0.0.1:{proxy.port}"]
    cluster.start()
    s = scenario(cluster, reach=",".join(f"127.0.0.1:{proxy.port}" for proxy in proxies))
    try:
        for proxy in proxies:
            proxy.stall()
        s.end(79)
    finally:
        for proxy in proxies:
            proxy.close()


def test_the_status_line_says_lost(make_cluster):
    cluster = make_cluster(3)
    ours, theirs = os.pipe()
    process = subprocess.Popen(
        [PROGRAM, "lock", "--status-fd", str(theirs), "--kill-after", "0.2", "notified", "--", "sh", "-c",
         "trap 'exit 5' TERM; echo up; while :; do sleep 0.05; done"],
        env=environment(HOLDFAST_ENDPOINTS=endpoints(cluster)), pass_fds=[theirs], text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    os.close(theirs)
    assert process.stdout.readline() == "up\n"
    assert run_cli(cluster, "force-unlock", "notified", "--reason", "test").returncode == 0
    process.communicate(timeout=PATIENCE)
    with os.fdopen(ours) as status:
        line = json.loads(status.read())
    assert process.returncode == 79
    assert line["acquired"] and line["lost"] and line["child_exit"] == 5 and line["reason"] == "forced"

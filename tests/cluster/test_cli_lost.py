"""The lock is lost while the command runs: it is dead before the next holder is granted, whatever became of
the wrapper. The order is shown by the command's own last write and by the event of the next grant, both on
this machine's wall clock. The command is as bad as can be: it ignores TERM and writes all the time."""

import datetime
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from cli_support import Watcher, ask, endpoints, good
from harness import PATIENCE, PROGRAM, allowed, environment, wait_until

TTL = 2.0
GRACE = 0.4  # from TERM to KILL

WRITER = """
import signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
with open(sys.argv[1], "a", buffering=1) as out:
    while True:
        out.write(f"{time.time():.6f}\\n")
        time.sleep(0.002)
"""


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


class Story:
    """A holder with its writer, one who waits for the same name, and all events."""

    def __init__(self, cluster, tmp_path, reach=None, flags=()):
        self.cluster = cluster
        self.node = cluster.nodes[1]
        self.file = tmp_path / "writes"
        self.watcher = Watcher([self.node], "prize")
        self.holder = subprocess.Popen(
            [PROGRAM, "lock", "--ttl", str(TTL), "--kill-after", str(GRACE), *flags, "prize", "--",
             sys.executable, "-c", WRITER, self.file],
            env=environment(HOLDFAST_ENDPOINTS=reach or endpoints(cluster)),
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        wait_until(lambda: self.file.exists() and self.file.stat().st_size > 100, "the command writes")
        self.next = threading.Thread(target=self.wait)
        self.answer = None
        self.next.start()
        wait_until(lambda: self.node.show("prize").json["queue_length"] == 1, "the next one waits")

    def wait(self):
        self.answer = self.node.acquire("prize", client="next", wait_timeout_ms=120000, ttl_ms=60000)

    def guard(self):
        """The pid of the wrapper's only child."""
        children = f"/proc/{self.holder.pid}/task/{self.holder.pid}/children"
        with open(children, encoding="ascii") as file:
            return int(file.read().split()[0])

    def end(self, code):
        """The writer was dead before the next one was granted; the wrapper said so."""
        self.next.join()
        assert self.answer.json["acquired"], self.answer
        last = float(self.file.read_text().split()[-1])
        granted = wait_until(lambda: [e["at"] for e in self.watcher.named("granted")
                                      if e["client_id"] == "next"], "the event of the next grant")
        at = datetime.datetime.fromisoformat(granted[0].replace("Z", "+00:00")).timestamp()
        assert last < at, f"the command wrote {last - at:.3f} s after the next grant"
        size = self.file.stat().st_size
        if code is not None:
            said = self.holder.communicate(timeout=PATIENCE)[1]
            assert self.holder.returncode == code, said
            if code == 79:
                assert "prize was lost (" in said
        assert self.file.stat().st_size == size, "nobody writes any more"
        return at - last

    def close(self):
        if self.holder.poll() is None:
            self.holder.send_signal(signal.SIGCONT)
            self.holder.kill()
            self.holder.wait()
        self.holder.stderr.close()
        self.watcher.close()


@pytest.fixture
def story(make_cluster, tmp_path):
    stories = []

    def make(cluster=None, **options):
        stories.append(Story(cluster or make_cluster(3), tmp_path, **options))
        return stories[-1]

    yield make
    for one in stories:
        one.close()


@pytest.mark.sanitized
def test_forced_out(story):
    s = story()
    good(s.cluster, "force-unlock", "prize", "--reason", "test")
    s.end(79)


def test_revoked_by_deadline(story):
    s = story()
    good(s.cluster, "revoke", "prize", "--reason", "test", "--deadline", "1s")
    s.end(79)


def test_wrapper_stopped(story):
    s = story()
    s.holder.send_signal(signal.SIGSTOP)
    s.end(None)
    s.holder.send_signal(signal.SIGCONT)
    assert s.holder.wait(timeout=PATIENCE) == 79


def test_wrapper_killed_frees_the_lock_by_its_ttl(story):
    s = story()
    began = time.monotonic()
    s.holder.kill()
    s.end(-signal.SIGKILL)
    took = time.monotonic() - began
    # The TTL counts from the last confirmation; then the lock-delay: TERM, KILL and a second.
    assert took < TTL + GRACE + 0.1 + 1 + allowed(2), took


@pytest.mark.sanitized
def test_guard_killed(story):
    s = story()
    os.kill(s.guard(), signal.SIGKILL)
    s.end(79)


def test_cut_off_by_nodes_that_stop(story):
    s = story()
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


def test_cut_off_by_a_network_that_swallows_everything(story, make_cluster):
    cluster = make_cluster(3, start=False)
    proxies = [Proxy(node.client_port) for node in cluster]
    for node, proxy in zip(cluster, proxies):
        node.flags += ["--advertise-client", f"127.0.0.1:{proxy.port}"]
    cluster.start()
    s = story(cluster, reach=",".join(f"127.0.0.1:{proxy.port}" for proxy in proxies))
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
        [PROGRAM, "lock", "--status-fd", str(theirs), "--kill-after", "0.2", "told", "--", "sh", "-c",
         "trap 'exit 5' TERM; echo up; while :; do sleep 0.05; done"],
        env=environment(HOLDFAST_ENDPOINTS=endpoints(cluster)), pass_fds=[theirs], text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    os.close(theirs)
    assert process.stdout.readline() == "up\n"
    assert ask(cluster, "force-unlock", "told", "--reason", "test").returncode == 0
    process.communicate(timeout=PATIENCE)
    with os.fdopen(ours) as status:
        line = json.loads(status.read())
    assert process.returncode == 79
    assert line["acquired"] and line["lost"] and line["child_exit"] == 5 and line["reason"] == "forced"

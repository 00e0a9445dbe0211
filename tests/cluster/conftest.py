"""Real processes for the cluster tests: nodes on free ports in temporary folders, stopped and cleared
away at the end, and nothing but them.

HOLDFAST names the program under test (default: build/holdfast). Limits of time are for a quiet machine;
with a sanitized program (build-test/holdfast), or while others use the machine, they are wider."""

import http.client
import json
import os
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAM = Path(os.environ.get("HOLDFAST", ROOT / "build" / "holdfast")).resolve()
BUSY = min(max(os.getloadavg()[0] / os.cpu_count(), 1), 6)
SLOW = BUSY * (5 if "build-test" in str(PROGRAM) else 1)


def environment(**more):
    """Ours, without the settings that a developer may have set for a node."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("HOLDFAST")}
    return {**clean, **{k: str(v) for k, v in more.items()}}


def run(*arguments, timeout=30, env=None, **options):
    """Runs the program to its end."""
    return subprocess.run(
        [PROGRAM, *map(str, arguments)],
        env=env or environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=timeout * SLOW,
        check=False,
        **options,
    )


def free_ports(count):
    """Ports that nobody has now; they are asked for all at once so that they differ."""
    sockets = []
    for _ in range(count):
        s = socket.socket()
        s.bind(("127.0.0.1", 0))
        sockets.append(s)
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def wait_until(condition, what, seconds=10.0):
    """Polls, since what is waited for happens in other processes."""
    end = time.monotonic() + seconds * SLOW
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"not within {seconds * SLOW} s: {what}"
        time.sleep(0.01)


class Answer:
    def __init__(self, status, headers, text):
        self.status = status
        self.headers = headers
        self.text = text

    @property
    def json(self):
        return json.loads(self.text)

    def __repr__(self):
        return f"<{self.status} {self.text[:500]}>"


class Node:
    """One process of `holdfast serve`."""

    def __init__(self, ident, folder, client_port, peer_port, flags=()):
        self.id = ident
        self.folder = Path(folder)
        self.client_port = client_port
        self.peer_port = peer_port
        self.flags = [str(flag) for flag in flags]
        self.process = None
        self.ready_fd = None
        self.paused = False
        self.log_path = self.folder.with_suffix(".log")

    def start(self, *flags, env=None):
        assert self.process is None or self.process.poll() is not None
        ours, theirs = os.pipe()
        command = [PROGRAM, "serve", "--id", self.id, "--data", self.folder]
        command += ["--client", f"127.0.0.1:{self.client_port}"]
        command += ["--peer", f"127.0.0.1:{self.peer_port}", "--ready-fd", theirs]
        command += [*self.flags, *flags]
        with open(self.log_path, "a", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [str(word) for word in command],
                env=env or environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[theirs],
            )
        os.close(theirs)
        self.ready_fd = ours
        return self

    def wait_ready(self, seconds=10):
        """The node says so itself: a leader serves, and it answers. Returns the leader's id."""
        os.set_blocking(self.ready_fd, False)

        def heard():
            try:
                word = os.read(self.ready_fd, 64)
            except BlockingIOError:
                assert self.process.poll() is None, self.log()
                return None
            assert word, f"node {self.id} ended before it was ready:\n{self.log()}"
            return int(word.split()[1])

        leader = wait_until(heard, f"node {self.id} is ready\n{self.log()}", seconds)
        os.close(self.ready_fd)
        self.ready_fd = None
        return leader

    @property
    def running(self):
        return self.process is not None and self.process.poll() is None

    def kill(self):
        """As if the plug were pulled."""
        self.process.kill()
        self.process.wait()

    def stop(self, seconds=10):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds * SLOW)

    def signal(self, number):
        self.process.send_signal(number)
        if number in (signal.SIGSTOP, signal.SIGCONT):
            self.paused = number == signal.SIGSTOP

    def ask(self, method, path, body=None, timeout=10, headers=None):
        connection = http.client.HTTPConnection(
            "127.0.0.1", self.client_port, timeout=timeout * SLOW)
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, path, body=data, headers=headers or {})
            response = connection.getresponse()
            return Answer(response.status, dict(response.getheaders()), response.read().decode())
        finally:
            connection.close()

    def try_ask(self, *arguments, **options):
        """None where nobody answers."""
        try:
            return self.ask(*arguments, **options)
        except (OSError, http.client.HTTPException):
            return None

    def acquire(self, name, client="test", ttl_ms=30000, **more):
        body = {"client_id": client, "ttl_ms": ttl_ms, **more}
        return self.ask("POST", f"/api/v1/locks/{name}/acquire", body)

    def release(self, name, token, client="test"):
        return self.ask("POST", f"/api/v1/locks/{name}/release",
                        {"client_id": client, "fencing_token": token})

    def show(self, name):
        return self.ask("GET", f"/api/v1/locks/{name}")

    def cluster(self):
        answer = self.try_ask("GET", "/api/v1/cluster", timeout=2)
        return answer.json if answer is not None and answer.status == 200 else None

    def log(self):
        return self.log_path.read_text(encoding="utf-8") if self.log_path.exists() else ""

    def events(self, name):
        found = []
        for line in self.log().splitlines():
            if line.startswith("{"):
                event = json.loads(line)
                if event["event"] == name:
                    found.append(event)
        return found


class Cluster:
    def __init__(self, folder, count, flags=(), name="test"):
        ports = free_ports(2 * count)
        self.folder = Path(folder)
        self.addresses = {i: f"127.0.0.1:{ports[count + i - 1]}" for i in range(1, count + 1)}
        members = ",".join(f"{i}={address}" for i, address in self.addresses.items())
        self.flags = ["--cluster", members, "--cluster-name", name, *flags]
        self.nodes = {
            i: Node(i, self.folder / f"node-{i}", ports[i - 1], ports[count + i - 1], self.flags)
            for i in range(1, count + 1)
        }

    def start(self):
        for node in self.nodes.values():
            node.start("--bootstrap")
        for node in self.nodes.values():
            node.wait_ready()
        return self

    def __iter__(self):
        return iter(self.nodes.values())

    def running(self):
        return [node for node in self if node.running]

    def leader(self, but=None, seconds=10):
        """The node that leads, once a majority agrees and it serves."""

        def agreed():
            votes = {}
            for node in self.running():
                view = None if node.paused else node.cluster()
                if view and view["leader"] and view["serving"]:
                    votes.setdefault((view["term"], view["leader"]), []).append(node.id)
            for (_, leader), voters in votes.items():
                enough = 2 * len(voters) > len(self.nodes)
                if enough and leader != but and self.nodes[leader].running:
                    return self.nodes[leader]
            return None

        return wait_until(agreed, "there is a leader", seconds)

    def followers(self):
        leader = self.leader()
        return [node for node in self.running() if node is not leader]

    def logs(self):
        return "\n".join(f"--- node {node.id}\n{node.log()}" for node in self)


class Load:
    """Takes locks all the time, through every node in turn. Nothing may go wrong but 503 and 504 and, where
    `tolerant`, connections that break."""

    def __init__(self, nodes, tolerant=False):
        self.nodes = nodes
        self.tolerant = tolerant
        self.granted = {}
        self.wrong = []
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.work)

    def work(self):
        number = 0
        while not self.over.is_set():
            number += 1
            node = self.nodes[number % len(self.nodes)]
            answer = node.try_ask("POST", f"/api/v1/locks/load-{number}/acquire",
                                  {"client_id": "load", "ttl_ms": 600000})
            if answer is not None and answer.status == 200 and answer.json["acquired"]:
                self.granted[f"load-{number}"] = answer.json["fencing_token"]
            elif answer is None:
                if not self.tolerant:
                    self.wrong.append(f"node {node.id} does not answer")
                time.sleep(0.005)
            elif answer.status not in (503, 504):
                self.wrong.append(answer)

    @property
    def done(self):
        return len(self.granted)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
        assert not self.wrong, self.wrong[:3]
        assert self.done > 20
        tokens = list(self.granted.values())
        assert tokens == sorted(set(tokens)), "tokens rise"


@pytest.fixture
def make_cluster(tmp_path):
    """make_cluster(5) starts five nodes; they are gone when the test is."""
    clusters = []

    def make(count, *flags, start=True, name="test"):
        folder = tmp_path / f"cluster-{len(clusters)}"
        folder.mkdir()
        cluster = Cluster(folder, count, flags, name)
        clusters.append(cluster)
        return cluster.start() if start else cluster

    yield make
    for cluster in clusters:
        for node in cluster:
            if node.running:
                node.process.kill()
                node.process.wait()
    for cluster in clusters:
        for node in cluster:
            # What must never be in a log, whatever the test was about.
            assert "assertion failed" not in node.log(), node.log()
            assert "ERROR: AddressSanitizer" not in node.log(), node.log()
            assert "ERROR: LeakSanitizer" not in node.log(), node.log()
            assert "runtime error" not in node.log(), node.log()

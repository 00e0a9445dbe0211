"""Real processes for the cluster tests: nodes on ports of our own, in folders of our own, and nothing but
them. conftest.py clears away what a test leaves; a node dies with the process that started it.

HOLDFAST names the program under test (default: build/holdfast). Limits of waiting are generous: they end a
test that hangs. Limits that check a promised time go through `allowed`, which knows a busy machine."""

import http.client
import json
import os
import pty
import random
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAM = Path(os.environ.get("HOLDFAST", ROOT / "build" / "holdfast")).resolve()
SANITIZED = "build-test" in str(PROGRAM)
PATIENCE = 60.0 * (4 if SANITIZED else 1)  # seconds until a wait is given up

sys.path.insert(0, str(ROOT / "tests" / "support"))
from openapi import OpenApi  # noqa: E402

API = OpenApi.load()


def busy():
    """How many times longer things take here because of others: 1 to 8. The load average knows the last
    minute; what some work of our own waits for a processor knows this moment, and is measured by the main
    thread alone: others are many, and would wait for each other."""
    waited = 1
    if threading.current_thread() is threading.main_thread():
        began, used = time.monotonic(), time.thread_time()
        while time.thread_time() - used < 0.01:
            pass
        waited = (time.monotonic() - began) / 0.01
    return min(max(os.getloadavg()[0] / os.cpu_count(), waited, 1), 8)


def allowed(seconds):
    """A promised time, made longer by what others take of this machine now and by the sanitizers."""
    return seconds * busy() * (6 if SANITIZED else 1)


def skip_or_fail(lacking):
    """For a test of what this machine does not have. CI has everything."""
    import pytest  # what only uses the clusters does without it
    if os.environ.get("CI") == "true":
        pytest.fail(lacking)
    pytest.skip(lacking)


def need_terminal():
    try:
        pair = pty.openpty()
    except OSError as error:
        skip_or_fail(f"no pseudo-terminal can be opened here: {error}")
    for fd in pair:
        os.close(fd)


def environment(**more):
    """Ours, without the settings that a developer may have set for a node."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("HOLDFAST")}
    return {**clean, **{k: str(v) for k, v in more.items()}}


def dies_with_us(command):
    """The same command, killed by the kernel when we end, however we end."""
    return ["setpriv", "--pdeathsig", "KILL", *[str(word) for word in command]]


def run(*arguments, env=None, timeout=PATIENCE, **options):
    """Runs the program to its end."""
    return subprocess.run(
        dies_with_us([PROGRAM, *arguments]),
        env=env or environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=max(timeout, PATIENCE),
        check=False,
        **options,
    )


def wait_until(condition, what, seconds=PATIENCE):
    """Polls, since what is waited for happens in other processes. `what` may be a function."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what() if callable(what) else what}")
        select.select([], [], [], 0.01)


# --- ports ------------------------------------------------------------------

# A port is taken by binding an abstract Unix socket named after it, which every run of these tests on the
# machine does and the kernel undoes. They lie below the ports that the kernel hands out by itself, so no
# connection of anybody has one for its own end.
FIRST_PORT, LAST_PORT = 10000, 32000
_reserved = {}


def reserve(port):
    """True: it is ours until give_back, and nobody listens on it."""
    mark = socket.socket(socket.AF_UNIX)
    try:
        mark.bind(f"\0holdfast-test-port-{port}")
        for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
            with socket.socket(family) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((host, port))
    except OSError:
        mark.close()
        return False
    _reserved[port] = mark
    return True


def give_back(ports):
    for port in ports:
        _reserved.pop(port).close()


class Ports:
    """With it around, what is reserved inside is given back at the end."""

    def __enter__(self):
        self.before = set(_reserved)

    def __exit__(self, *_):
        give_back(set(_reserved) - self.before)


def free_ports(count):
    found = []
    while len(found) < count:
        port = random.randint(FIRST_PORT, LAST_PORT)
        if reserve(port):
            found.append(port)
    return found


def free_base(nodes):
    """A base port for `holdfast dev`: node i's are base + 10 (i - 1) and the next two."""
    while True:
        base = random.randint(FIRST_PORT, LAST_PORT - 10 * nodes)
        wanted = [base + 10 * i + j for i in range(nodes) for j in range(3)]
        got = []
        for port in wanted:
            if not reserve(port):
                break
            got.append(port)
        if len(got) == len(wanted):
            return base
        give_back(got)


# --- one node ----------------------------------------------------------------


class Answer:
    def __init__(self, status, headers, text):
        self.status = status
        self.headers = headers
        self.text = text

    @property
    def json(self):
        return json.loads(self.text)

    @property
    def code(self):
        """The error's stable code, None where it is no error."""
        return self.json.get("error", {}).get("code")

    def __repr__(self):
        return f"<{self.status} {self.text[:500]}>"


def read_answer(connection, method, path):
    """Every JSON answer must look as docs/openapi.yaml says."""
    response = connection.getresponse()
    answer = Answer(response.status, dict(response.getheaders()), response.read().decode())
    if answer.headers.get("Content-Type") == "application/json" and method != "HEAD":
        API.check(method, path, answer.status, answer.json)
    return answer


class Node:
    """One process of `holdfast serve`."""

    def __init__(self, ident, folder, client, peer, flags=()):
        """`client` and `peer` are ports of 127.0.0.1, or HOST:PORT. The port of the Redis protocol is any."""
        self.id = ident
        self.folder = Path(folder)
        self.client = client if isinstance(client, str) else f"127.0.0.1:{client}"
        self.peer = peer if isinstance(peer, str) else f"127.0.0.1:{peer}"
        self.resp = f"127.0.0.1:{free_ports(1)[0]}"
        self.flags = [str(flag) for flag in flags]
        self.inside = []  # a command that runs it: in a network namespace, say
        self.env = {}
        self.program = PROGRAM
        self.tls = None  # an ssl.SSLContext: it speaks TLS (secure.py)
        self.headers = {}  # of every request: Authorization, say
        self.process = None
        self.ready_fd = None
        self.paused = False
        self.log_path = self.folder.with_suffix(".log")

    @property
    def client_port(self):
        return int(self.client.rpartition(":")[2])

    @property
    def client_host(self):
        return self.client.rpartition(":")[0].strip("[]")

    @property
    def resp_port(self):
        return int(self.resp.rpartition(":")[2])

    @property
    def peer_port(self):
        return int(self.peer.rpartition(":")[2])

    def start(self, *flags):
        assert not self.running
        self.close_ready()
        ours, theirs = os.pipe()
        command = [*self.inside, self.program, "serve", "--id", self.id, "--data", self.folder,
                   "--client", self.client, "--peer", self.peer, "--resp", self.resp,
                   "--ready-fd", theirs,
                   *self.flags, *flags]
        with open(self.log_path, "a", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                dies_with_us(command),
                env=environment(**self.env),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[theirs],
            )
        os.close(theirs)
        self.ready_fd = ours
        self.paused = False
        return self

    def close_ready(self):
        if self.ready_fd is not None:
            os.close(self.ready_fd)
            self.ready_fd = None

    def wait_ready(self):
        """The node says so itself: a leader serves, and it answers. Returns the leader's id."""
        readable = select.poll()  # select() refuses descriptors above 1,023
        readable.register(self.ready_fd, select.POLLIN)
        assert readable.poll(PATIENCE * 1000), f"node {self.id} is not ready after {PATIENCE} s:\n{self.log()}"
        word = os.read(self.ready_fd, 64)
        self.close_ready()
        assert word, f"node {self.id} ended before it was ready:\n{self.log()}"
        return int(word.split()[1])

    @property
    def running(self):
        return self.process is not None and self.process.poll() is None

    def kill(self):
        """As if the plug were pulled."""
        self.process.kill()
        self.process.wait()

    def wait_end(self):
        """The exit status of a process that ends by itself."""
        return self.process.wait(PATIENCE)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.wait_end()

    def signal(self, number):
        self.process.send_signal(number)
        if number in (signal.SIGSTOP, signal.SIGCONT):
            self.paused = number == signal.SIGSTOP

    def connect(self, timeout=PATIENCE):
        if self.tls is not None:
            return http.client.HTTPSConnection(self.client_host, self.client_port, timeout=timeout, context=self.tls)
        return http.client.HTTPConnection(self.client_host, self.client_port, timeout=timeout)

    def request(self, method, path, body=None, timeout=PATIENCE, headers=None):
        connection = self.connect(timeout)
        try:
            data = None if body is None else json.dumps(body)
            sent = {**self.headers, **(headers or {})}  # None: without this one
            connection.request(method, path, body=data,
                               headers={name: value for name, value in sent.items() if value is not None})
            return read_answer(connection, method, path)
        finally:
            connection.close()

    def try_request(self, *arguments, **options):
        """None where nobody answers."""
        try:
            return self.request(*arguments, **options)
        except (OSError, http.client.HTTPException):
            return None

    def acquire(self, name, client="test", ttl_ms=30000, **more):
        body = {"client_id": client, "ttl_ms": ttl_ms, **more}
        return self.request("POST", f"/api/v1/locks/{name}/acquire", body)

    def acquire_surely(self, name, **more):
        """Repeats the request while the cluster is without a leader, as S8.4 says one may."""
        def granted():
            answer = self.acquire(name, request_id=f"surely-{name}"[:64], **more)
            if answer.status in (503, 504):
                return None
            assert answer.status == 200, answer
            return answer

        return wait_until(granted, f"an answer about {name}")

    def release(self, name, token, client="test"):
        return self.request("POST", f"/api/v1/locks/{name}/release",
                        {"client_id": client, "fencing_token": token})

    def show(self, name, stale=False):
        return self.request("GET", f"/api/v1/locks/{name}" + ("?stale=true" if stale else ""))

    def cluster(self):
        answer = self.try_request("GET", "/api/v1/cluster", timeout=2)
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

    def take_snapshot(self):
        before = len(self.events("snapshot_taken"))
        self.signal(signal.SIGUSR1)
        self.wait_event("snapshot_taken", before + 1)

    def wait_event(self, name, count=1, **fields):
        """The first `count` events of that name with these fields in the log."""
        def there():
            found = [e for e in self.events(name)
                     if all(e.get(key) == value for key, value in fields.items())]
            return found if len(found) >= count else None

        return wait_until(there, lambda: f"{name} {fields} of node {self.id}\n{self.log()[-4000:]}")


# --- several ------------------------------------------------------------------


class Cluster:
    def __init__(self, folder, count, flags=(), name="test"):
        ports = free_ports(2 * count)
        self.folder = Path(folder)
        self.addresses = {i: f"127.0.0.1:{ports[count + i - 1]}" for i in range(1, count + 1)}
        self.flags = ["--cluster", self.members(), "--cluster-name", name, *flags]
        self.nodes = {
            i: Node(i, self.folder / f"node-{i}", ports[i - 1], ports[count + i - 1], self.flags)
            for i in range(1, count + 1)
        }

    def members(self):
        return ",".join(f"{i}={address}" for i, address in self.addresses.items())

    def start(self, *flags):
        for node in self:
            node.start("--bootstrap", *flags)
        return self.wait_ready()

    def wait_ready(self):
        for node in self:
            node.wait_ready()
        return self

    def kill_all(self):
        for node in self:
            node.process.kill()
        for node in self:
            node.process.wait()

    def restart_all(self):
        for node in self:
            node.start()
        return self.wait_ready()

    def __iter__(self):
        return iter(self.nodes.values())

    def running(self):
        return [node for node in self if node.running]

    def leader(self, but=None, among=None):
        """The node that leads, once a majority agrees and it serves."""
        def agreed():
            votes = {}
            for node in among or self.running():
                view = None if node.paused else node.cluster()
                if view and view["leader"] and view["serving"]:
                    votes.setdefault((view["term"], view["leader"]), []).append(node.id)
            for (_, leader), voters in votes.items():
                enough = 2 * len(voters) > len(self.nodes)
                if enough and leader != but and self.nodes[leader].running:
                    return self.nodes[leader]
            return None

        return wait_until(agreed, "there is a leader")

    def followers(self):
        leader = self.leader()
        return [node for node in self.running() if node is not leader]

    def agree(self):
        """All nodes take a snapshot of the same entry: their bytes. Nothing may be under way."""
        def same():
            for node in self:
                node.signal(signal.SIGUSR1)
            newest = [max(node.folder.glob("snapshot-*[0-9]"), default=None) for node in self]
            if None in newest or len({path.name for path in newest}) != 1:
                return None
            return newest

        files = wait_until(same, "snapshots of the same entry")
        return [path.read_bytes() for path in files]

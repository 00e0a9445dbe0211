"""What a node tells systemd: READY, STATUS, WATCHDOG, RELOADING, STOPPING, received at a real NOTIFY_SOCKET."""

import ctypes
import os
import signal
import socket
import time

import pytest

from harness import PATIENCE, Node, allowed, free_ports, wait_until

WATCHDOG_S = 1.5


class Manager:
    """A NOTIFY_SOCKET. `messages` are the datagrams so far, each a dict."""

    def __init__(self, address):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self.address = address
        self.messages = []

    def read(self):
        while True:
            try:
                text = self.socket.recv(4096, socket.MSG_DONTWAIT).decode()
            except BlockingIOError:
                return self.messages
            assert text.endswith("\n"), text
            self.messages.append(dict(line.split("=", 1) for line in text.splitlines()))

    def forget(self):
        self.read()
        self.messages = []

    def wait(self, name, text=None):
        """The next message with that name, and with that in its value."""
        def came():
            return next((m for m in self.read() if name in m and (text is None or text in m[name])), None)

        return wait_until(came, lambda: f"{name} {text}, but {self.messages}")


@pytest.fixture
def manager(tmp_path):
    with_path = Manager(str(tmp_path / "notify"))
    yield with_path
    with_path.socket.close()


@pytest.fixture
def alone(keep, tmp_path):
    def make(manager, *flags, watchdog=None):
        client, peer = free_ports(2)
        node = keep(Node(1, tmp_path / "node-1", client, peer, flags))
        node.env = {"NOTIFY_SOCKET": manager.address}
        if watchdog is not None:
            node.env["WATCHDOG_USEC"] = int(watchdog * 1e6)
        return node

    return make


def test_a_node_says_ready_how_it_is_and_that_it_stops(alone, manager):
    node = alone(manager).start("--bootstrap")
    ready = manager.wait("READY")
    assert ready["READY"] == "1" and ready["STATUS"]
    node.wait_ready()
    manager.wait("STATUS", ", 1 of 1 voters reached")
    manager.forget()
    node.signal(signal.SIGHUP)
    reloading = manager.wait("RELOADING")
    assert reloading["RELOADING"] == "1"
    assert abs(int(reloading["MONOTONIC_USEC"]) / 1e6 - time.monotonic()) < PATIENCE
    manager.wait("READY")
    names = [name for message in manager.messages for name in message]
    assert names.index("RELOADING") < names.index("READY")
    manager.forget()
    assert node.stop() == 0
    assert manager.wait("STOPPING")["STOPPING"] == "1"
    assert not any("WATCHDOG" in m or "READY" in m for m in manager.messages)
    assert not node.events("system_call_refused") and not node.events("service_manager_unknown")


def test_the_socket_may_be_abstract(alone):
    manager = Manager(f"@holdfast-test-{os.getpid()}-{time.monotonic_ns()}")
    node = alone(manager, "--log-level", "debug").start("--bootstrap")
    manager.wait("READY")
    node.wait_ready()
    assert node.stop() == 0
    manager.socket.close()


def test_ready_does_not_wait_for_a_leader_and_the_status_says_that_there_is_none(make_cluster, tmp_path):
    """Else `systemctl start` on one machine after the other would wait for ever."""
    cluster = make_cluster(3, start=False)
    managers = {}
    for node in cluster:
        managers[node.id] = Manager(str(tmp_path / f"notify-{node.id}"))
        node.env = {"NOTIFY_SOCKET": managers[node.id].address}
    first = cluster.nodes[1].start("--bootstrap")
    managers[1].wait("READY")
    managers[1].wait("STATUS", "No leader: 1 of 3 voters reached, 2 are needed")
    ready = first.request("GET", "/readyz?verbose")
    assert ready.status == 503
    assert "[-]leader failed: no leader is known; this node reaches 1 of 3 voters, 2 are needed\n" in ready.text
    checks = first.request("GET", "/readyz?format=json")
    assert checks.status == 503 and checks.json["status"] == "failed"
    assert {c["name"]: c["ok"] for c in checks.json["checks"]} == {"leader": False, "serving": False, "draining": True}
    for node in list(cluster)[1:]:
        node.start("--bootstrap")
    cluster.wait_ready()
    leader = cluster.leader()
    managers[leader.id].wait("STATUS", "3 of 3 voters reached")
    follower = cluster.followers()[0]
    managers[follower.id].wait("STATUS", f"Follows node {leader.id}")
    assert follower.request("GET", "/readyz?verbose").text == "[+]leader ok\n[+]serving ok\n[+]draining ok\nreadyz check passed\n"
    assert follower.request("GET", "/readyz?format=json").json["status"] == "ok"
    assert follower.request("GET", "/livez?verbose").text == "[+]loop ok\nlivez check passed\n"
    assert follower.request("GET", "/livez?format=json").json == {"status": "ok", "checks": [{"name": "loop", "ok": True}]}
    assert follower.request("GET", "/readyz?format=xml").code == "field_range"
    for node in cluster:
        if node is not follower:
            node.kill()
    managers[follower.id].wait("STATUS", "No leader: 1 of 3 voters reached")
    for manager in managers.values():
        manager.socket.close()


PTRACE_ATTACH, PTRACE_DETACH, WALL = 16, 17, 0x40000000


class StoppedLoop:
    """Stops the main thread of a node, which turns its loop. All others run on."""

    def __init__(self, pid):
        self.pid = pid
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]

    def trace(self, request):
        if self.libc.ptrace(request, self.pid, None, None) != 0:
            raise OSError(ctypes.get_errno(), "ptrace")

    def __enter__(self):
        try:
            self.trace(PTRACE_ATTACH)
        except PermissionError:
            pytest.skip("this machine allows no ptrace")
        os.waitpid(self.pid, WALL)
        return self

    def __exit__(self, *_):
        self.trace(PTRACE_DETACH)


class StoppedProcess:
    def __init__(self, pid):
        self.pid = pid

    def __enter__(self):
        os.kill(self.pid, signal.SIGSTOP)

    def __exit__(self, *_):
        os.kill(self.pid, signal.SIGCONT)


@pytest.mark.parametrize("stop", [StoppedLoop, StoppedProcess])
def test_the_watchdog_is_fed_while_the_loop_turns_and_not_while_it_hangs(alone, manager, stop):
    node = alone(manager, watchdog=WATCHDOG_S).start("--bootstrap")
    node.wait_ready()
    manager.wait("WATCHDOG")
    for _ in range(3):  # in time: each third of it, and a systemd waits for the whole
        manager.forget()
        began = time.monotonic()
        manager.wait("WATCHDOG")
        assert time.monotonic() - began < allowed(WATCHDOG_S)
    with stop(node.process.pid):
        manager.forget()
        silence = time.monotonic() + 2 * WATCHDOG_S
        wait_until(lambda: time.monotonic() > silence, "the watchdog would have acted")
        assert not manager.read()
    manager.wait("WATCHDOG")  # it turns again
    assert node.stop() == 0


def test_the_watchdog_of_another_process_is_left_alone(alone, manager):
    node = alone(manager, watchdog=0.1)
    node.env["WATCHDOG_PID"] = os.getpid()
    node.start("--bootstrap")
    node.wait_ready()
    manager.wait("STATUS", "Leader")  # by the same timer
    assert not any("WATCHDOG" in m for m in manager.messages)


def test_a_wrong_address_is_logged_and_the_node_starts(alone, manager):
    node = alone(manager)
    node.env["NOTIFY_SOCKET"] = "not/absolute"
    node.start("--bootstrap")
    node.wait_ready()
    assert "NOTIFY_SOCKET" in node.wait_event("service_manager_unknown")[0]["reason"]

"""A network of our own for five nodes: a namespace each, on two switches with one cable between them.

The namespaces have no names: they are those of sleeping processes and end with them, and those with us."""

import ctypes
import http.client
import os
import socket
import subprocess

from harness import PATIENCE, dies_with_us, wait_until

CLONE_NEWNET = 0x40000000
libc = ctypes.CDLL(None, use_errno=True)


def why_not():
    """None where this machine lets us, else the reason to skip."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    tried = subprocess.run(
        ["unshare", "--net", "sh", "-c",
         "ip link add name br0 type bridge && ip link add name v0 type veth peer name v1 && "
         "ip link set v0 master br0"],
        check=False, capture_output=True, text=True)
    return None if tried.returncode == 0 else f"no network of our own: {tried.stderr.strip()}"


class Space:
    """One network namespace, for as long as its sleeper lives."""

    def __init__(self):
        ours = os.readlink("/proc/self/ns/net")
        self.sleeper = subprocess.Popen(dies_with_us(["unshare", "--net", "sleep", "infinity"]))
        wait_until(lambda: os.readlink(f"/proc/{self.sleeper.pid}/ns/net") != ours, "a namespace")

    @property
    def pid(self):
        return self.sleeper.pid

    @property
    def inside(self):
        return ["nsenter", "--target", str(self.pid), "--net"]

    def ip(self, words):
        subprocess.run([*self.inside, "ip", *words.split()], check=True)

    def socket(self, host, port, timeout):
        """A connection made in there. A socket stays in the namespace that it was made in."""
        back = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        there = os.open(f"/proc/{self.pid}/ns/net", os.O_RDONLY)
        try:
            assert libc.setns(there, CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
            try:
                return socket.create_connection((host, port), timeout)
            finally:
                assert libc.setns(back, CLONE_NEWNET) == 0
        finally:
            os.close(back)
            os.close(there)

    def close(self):
        self.sleeper.kill()
        self.sleeper.wait()


class Connection(http.client.HTTPConnection):
    def __init__(self, space, *arguments, **options):
        super().__init__(*arguments, **options)
        self.space = space

    def connect(self):
        self.sock = self.space.socket(self.host, self.port, self.timeout)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as http.client does


class Network:
    """Nodes 1 to `count` at 10.77.0.ID. All begin on the left switch."""

    def __init__(self, count):
        self.switches = Space()
        for side in ("left", "right"):
            self.switches.ip(f"link add name {side} type bridge")
            self.switches.ip(f"link set {side} up")
        self.switches.ip("link add name cable0 type veth peer name cable1")
        self.switches.ip("link set cable0 master left up")
        self.switches.ip("link set cable1 master right up")
        self.spaces = {}
        for i in range(1, count + 1):
            space = self.spaces[i] = Space()
            self.switches.ip(f"link add name port{i} type veth peer name eth0 netns {space.pid}")
            self.switches.ip(f"link set port{i} master left up")
            space.ip("link set lo up")
            space.ip(f"addr add 10.77.0.{i}/24 dev eth0")
            space.ip("link set eth0 up")

    def cut(self, nodes):
        """These are on the other side of a cable that is pulled out."""
        for node in nodes:
            self.switches.ip(f"link set port{node.id} master right")
        self.switches.ip("link set cable0 down")

    def heal(self):
        self.switches.ip("link set cable0 up")

    def unplug(self, node):
        self.switches.ip(f"link set port{node.id} down")

    def plug(self, node):
        self.switches.ip(f"link set port{node.id} up")

    def move_in(self, cluster):
        """The nodes of a cluster that was not started yet."""
        cluster.addresses = {i: f"10.77.0.{i}:4654" for i in cluster.nodes}
        cluster.flags[1] = cluster.members()
        for node in cluster:
            space = self.spaces[node.id]
            node.flags = [*cluster.flags, "--insecure"]
            node.client, node.peer = "127.0.0.1:4653", cluster.addresses[node.id]
            node.inside = space.inside
            node.connect = lambda timeout=PATIENCE, n=node, s=space: Connection(
                s, n.client_host, n.client_port, timeout=timeout)

    def close(self):
        for space in [self.switches, *self.spaces.values()]:
            space.close()




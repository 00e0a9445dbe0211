"""Five machines for chaos: a namespace each where root, plain ports of 127.0.0.1 elsewhere.

A machine has two networks: one to its peers, which is cut, and one to the clients, which never is. So clients
go on talking to a node that its peers have lost, which is what a lock service must survive. A machine keeps its
addresses when the node on it is replaced by another."""

import ctypes
import os

from harness import PROGRAM, SANITIZED, Node
from network import CLONE_NEWNET, Network, Space, libc, why_not

COUNT = 5
SHIM = PROGRAM.parent / "tests" / "support" / "bad_disk.so"


class Cables(Network):
    """The switches of tests/cluster, and one more for the clients."""

    def __init__(self):
        super().__init__(COUNT)
        self.clients = Space()
        self.silent = None
        self.switches.ip("link add name serve type bridge")
        self.switches.ip("link set serve up")
        for i, space in [*self.spaces.items(), (100, self.clients)]:
            self.switches.ip(f"link add name serve{i} type veth peer name eth1 netns {space.pid}")
            self.switches.ip(f"link set serve{i} master serve up")
            space.ip("link set lo up")
            space.ip(f"addr add 10.78.0.{i}/24 dev eth1")
            space.ip("link set eth1 up")

    def enter(self):
        """From here on this process and all that it starts are on the clients' network."""
        there = os.open(f"/proc/{self.clients.pid}/ns/net", os.O_RDONLY)
        try:
            assert libc.setns(there, CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
        finally:
            os.close(there)

    def part(self, minority):
        for i in self.spaces:
            self.switches.ip(f"link set port{i} master {'right' if i in minority else 'left'}")
        self.switches.ip("link set cable0 down")

    def silence(self, number):
        """One way only: its packets go nowhere, those of others reach it."""
        self.silent = number
        for i in self.spaces:
            if i != number:
                self.spaces[number].ip(f"route add blackhole 10.77.0.{i}/32")

    def heal(self):
        super().heal()
        if self.silent is not None:
            for i in self.spaces:
                if i != self.silent:
                    self.spaces[self.silent].ip(f"route del blackhole 10.77.0.{i}/32")
            self.silent = None

    def close(self):
        super().close()
        self.clients.close()


class Machines:
    """Machine number -> the node that runs on it now. `cluster` was not started yet."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.without_cables = why_not()
        self.cables = None
        self.next_id = COUNT + 1
        self.nodes = dict(cluster.nodes)
        self.removed = []
        self.without_shim = ("the sanitizers want to be loaded first" if SANITIZED else
                             None if SHIM.exists() else f"{SHIM} is not built")
        for node in cluster:
            self.give_disk(node)
        if self.without_cables is None:
            self.cables = Cables()
            self.move_in()
            self.cables.enter()
        self.clients = {number: (node.client_host, node.client_port) for number, node in self.nodes.items()}

    def move_in(self):
        cluster = self.cluster
        cluster.addresses = {i: f"10.77.0.{i}:4654" for i in cluster.nodes}
        cluster.flags[1] = cluster.members()
        for number, node in cluster.nodes.items():
            node.flags = [*cluster.flags, "--insecure"]
            node.client, node.peer = f"10.78.0.{number}:4653", cluster.addresses[number]
            node.inside = self.cables.spaces[number].inside

    def give_disk(self, node):
        """One that faults can fill and slow down."""
        if self.without_shim is None:
            node.env = {"LD_PRELOAD": SHIM, "BAD_DISK": node.folder}

    @property
    def have(self):
        """What kinds of faults there can be, see faults.KINDS."""
        return [word for word, reason in (("cables", self.without_cables), ("shim", self.without_shim))
                if reason is None]

    def replace(self, number):
        """A new node, not started, with an id and a folder of its own, on the machine of a dead one."""
        old = self.nodes[number]
        ident, self.next_id = self.next_id, self.next_id + 1
        others = [n for i, n in self.nodes.items() if i != number]
        members = ",".join(f"{n.id}={n.peer}" for n in others) + f",{ident}={old.peer}"
        flags = ["--cluster", members, *self.cluster.flags[2:], "--join"]
        node = Node(ident, self.cluster.folder / f"node-{ident}", old.client, old.peer,
                    [*flags, "--insecure"] if self.cables else flags)
        node.inside = old.inside
        self.give_disk(node)
        self.removed.append(old)
        self.nodes[number] = node
        return node

    def close(self):
        for node in [*self.nodes.values(), *self.removed]:
            node.close_ready()
            if node.running:
                node.kill()
        if self.cables is not None:
            self.cables.close()

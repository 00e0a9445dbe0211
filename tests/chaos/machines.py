"""Machines for chaos: a namespace each where root, ports of 127.0.0.1 behind a proxy elsewhere.

A machine has two networks: one to its peers, which is cut, and one to the clients, which never is. So clients
go on talking to a node that its peers have lost, which is what a lock service must survive. A machine keeps its
addresses when the node on it is replaced by another. In a cluster that grows some have no node."""

import concurrent.futures
import ctypes
import os
import subprocess
import sys
from pathlib import Path

import power
from harness import PROGRAM, SANITIZED, Node, dies_with_us, free_ports
from network import CLONE_NEWNET, Network, Space, libc, why_not

POWER_SHARE = 0.7  # of the nodes lose what they did not sync when they are killed
SYNC_MS = (0, 20, 120)  # how long a sync of such a node takes at most
SHIM = PROGRAM.parent / "tests" / "support" / "bad_disk.so"
PROXY = Path(__file__).resolve().parent / "proxy.py"
CLOCK = SHIM.with_name("bad_clock.so")


class Cables(Network):
    """The switches of tests/cluster, and one more for the clients."""

    def __init__(self, count):
        super().__init__(count)
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


class Proxies:
    """The same by a process that all bytes between nodes go through; it can be slow, too."""

    def __init__(self, targets):
        """`targets`: machine -> the port on which its node listens."""
        self.ports = dict(zip(targets, free_ports(len(targets))))
        words = [f"{i}:{self.ports[i]}:{target}" for i, target in targets.items()]
        self.process = subprocess.Popen(dies_with_us([sys.executable, PROXY, *words]), stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.heard()
        for i in targets:
            self.order(f"node {i} {i}")

    def heard(self):
        answer = self.process.stdout.readline()
        assert answer == "done\n", f"the proxy says {answer!r}"

    def order(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()
        self.heard()

    def part(self, minority):
        for i in self.ports:
            for j in self.ports:
                if (i in minority) != (j in minority):
                    self.order(f"block {i} {j}")

    def silence(self, number):
        for i in self.ports:
            if i != number:
                self.order(f"block {number} {i}")

    def slow(self, number, seconds):
        """All that this machine says and hears comes so much later."""
        for i in self.ports:
            if i != number:
                self.order(f"delay {i} {number} {seconds}")
                self.order(f"delay {number} {i} {seconds}")

    def heal(self):
        self.order("heal")

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Machines:
    """Machine number -> the node that runs on it now. `cluster` was not started yet, and has a node for each machine.
    `network`: "spaces" or "proxy"; None: spaces where they can be had. `other`: another version of the program, to be
    rolled to. `first`: so many begin the cluster, the other machines are empty. `dice`: power cuts, by these; None:
    none. `secure`: makes the credentials, given the hosts of the nodes."""

    def __init__(self, cluster, network=None, other=None, first=None, dice=None, secure=None):
        self.cluster = cluster
        self.other = other
        self.dice = dice
        refused = why_not()
        assert network != "spaces" or refused is None, refused
        self.network = network or ("spaces" if refused is None else "proxy")
        self.cables = None
        self.removed = []
        self.cuts = 0
        # Processes die with the thread that started them, so it lives as long as we do.
        self.starter = concurrent.futures.ThreadPoolExecutor(1)
        self.without_shim = ("the sanitizers want to be loaded first" if SANITIZED else
                             None if SHIM.exists() and CLOCK.exists() else f"{SHIM} and {CLOCK} are not built")
        assert dice is None or power.why_not() is None, power.why_not()
        first = first or len(cluster.nodes)
        self.next_id = first + 1
        if self.network == "spaces":
            self.cables = Cables(len(cluster.nodes))
            cluster.addresses = {i: f"10.77.0.{i}:4654" for i in cluster.nodes}
            for number, node in cluster.nodes.items():
                node.client, node.peer = f"10.78.0.{number}:4653", cluster.addresses[number]
                node.inside = self.cables.spaces[number].inside
            self.cables.enter()
        else:
            self.cables = Proxies({i: node.peer_port for i, node in cluster.nodes.items()})
            cluster.addresses = {i: f"127.0.0.1:{port}" for i, port in self.cables.ports.items()}
        self.places = {number: (node.client, node.peer, node.inside) for number, node in cluster.nodes.items()}
        self.clients = {number: (node.client_host, node.client_port) for number, node in cluster.nodes.items()}
        cluster.nodes = {number: node for number, node in cluster.nodes.items() if number <= first}
        self.nodes = dict(cluster.nodes)
        self.credentials = secure(self.hosts())
        cluster.flags[1] = self.list_of(self.nodes)
        for node in cluster:
            node.flags = self.flags_with(cluster.flags[1])
            self.equip(node)

    def hosts(self):
        """The names of all nodes that clients and other nodes use."""
        places = [address for client, peer, _ in self.places.values() for address in (client, peer)]
        return sorted({address.rpartition(":")[0] for address in [*places, *self.cluster.addresses.values()]})

    def list_of(self, nodes):
        return ",".join(f"{node.id}={self.address(number)}" for number, node in nodes.items())

    def flags_with(self, members):
        flags = ["--cluster", members, *self.cluster.flags[2:]]
        return flags if self.network == "proxy" or self.credentials.context is not None else [*flags, "--insecure"]

    def equip(self, node):
        """A wall clock that faults can put forward or back, and a disk that they can fill and slow down, or one that
        forgets what was not synced. Every third node has a thread that writes its log, so that both ways are there in
        every run."""
        self.credentials.equip(node)
        if node.id % 3 == 0:
            node.env |= {"HOLDFAST_DISK_IO": "thread"}
        if self.without_shim is not None:
            return
        self.set_clock(node, 0)
        node.env |= {"LD_PRELOAD": f"{SHIM}:{CLOCK}", "BAD_DISK": node.folder,
                     "BAD_CLOCK": node.folder.with_suffix(".clock")}
        if self.dice is not None and self.dice.random() < POWER_SHARE:
            node.env |= {"LD_PRELOAD": f"{power.SHIM}:{CLOCK}", "POWER_CUT_SYNC_MS": self.dice.choice(SYNC_MS)}
            power.plug_in(node, self.dice)

    def start(self, node):
        """For threads that end before the node does."""
        self.starter.submit(node.start).result()

    def kill(self, nodes):
        """kill -9 of all of them at once; a power cut for those that have a plug."""
        for node in nodes:
            node.process.kill()
        for node in nodes:
            node.process.wait()
            if power.has_plug(node):
                self.cuts += 1
                power.cut(node, self.dice)

    @staticmethod
    def set_clock(node, seconds):
        """Its wall clock is wrong by so much from now on."""
        path = node.folder.with_suffix(".clock")
        with open(path, "r+b" if path.exists() else "w+b") as clock:
            clock.write(seconds.to_bytes(8, sys.byteorder, signed=True))

    @property
    def have(self):
        """What kinds of faults there can be, see faults.KINDS."""
        return [word for word, there in (
            ("shim", self.without_shim is None), ("disk", self.without_shim is None and self.dice is None),
            ("proxy", self.network == "proxy"), ("other", self.other is not None)) if there]

    def address(self, number):
        """Where others find the node of that machine."""
        return self.cluster.addresses[number]

    def add(self, number):
        """A new node, not started, with an id and a folder of its own, on an empty machine."""
        client, peer, inside = self.places[number]
        ident, self.next_id = self.next_id, self.next_id + 1
        node = Node(ident, self.cluster.folder / f"node-{ident}", client, peer)
        node.flags = [*self.flags_with(self.list_of({**self.nodes, number: node})), "--join"]
        node.inside = inside
        if self.network == "proxy":
            self.cables.order(f"node {ident} {number}")
        self.equip(node)
        self.nodes = {**self.nodes, number: node}
        return node

    def take_away(self, number):
        """The node of that machine is one of the past."""
        node = self.nodes[number]
        self.removed.append(node)
        self.nodes = {i: n for i, n in self.nodes.items() if i != number}
        return node

    def close(self):
        for node in [*self.nodes.values(), *self.removed]:
            node.close_ready()
            if node.running:
                node.kill()
        self.starter.shutdown()
        if self.cables is not None:
            self.cables.close()

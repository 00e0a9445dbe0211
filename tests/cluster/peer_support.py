"""The protocol between nodes (src/node/peers/peer_protocol.h, src/replica/message.c), spoken by a test: as an unknown node, or
in place of a member that was stopped."""

import itertools
import os
import socket
import struct

from harness import PATIENCE

HELLO, WELCOME, BEGIN, REFUSE, MESSAGE, PING, REQUEST, ANSWER, FETCH, PIECE, END, PROOF = range(1, 13)
FOR_MESSAGES, FOR_SNAPSHOT = 1, 2
APPEND, APPEND_RESULT, VOTE, VOTE_RESULT, INSTALL, TIMEOUT_NOW = range(1, 7)
COMMAND, BARRIER, CHANGE = 1, 2, 3
VOTER, STANDBY = 1, 0
NO_CLUSTER = b""
MOST = 2**64 - 1


# --- bytes -------------------------------------------------------------------


def number(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def text(value):
    data = value.encode() if isinstance(value, str) else value
    return number(len(data)) + data


def ident(value):
    """16 bytes, or none."""
    return b"\x01" + value if value else b"\x00"


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        assert self.at + count <= len(self.data), "it ends too early"
        self.at += count
        return self.data[self.at - count:self.at]

    def number(self):
        value = 0
        for shift in itertools.count(0, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value

    def text(self):
        return self.take(self.number())

    def ident(self):
        return self.take(16) if self.take(1) == b"\x01" else NO_CLUSTER


class Introduction:
    """HELLO and WELCOME."""

    def __init__(self, node, to=0, cluster=NO_CLUSTER, store=None, life=1, stores=(), purpose=FOR_MESSAGES):
        self.node, self.to, self.cluster, self.life, self.purpose = node, to, cluster, life, purpose
        self.store = store or os.urandom(16)
        self.stores = dict(stores)
        self.number = 0
        self.name = b"test"

    def encode(self):
        stores = b"".join(struct.pack("<Q", node) + store for node, store in self.stores.items())
        return (b"HOLDPEER" + number(1) + number(1) + number(self.purpose) + ident(self.cluster) + text(self.name)
                + number(self.node) + number(self.to) + ident(self.store) + number(self.life)
                + number(self.number) + text("127.0.0.1:1") + text(stores) + number(1000))

    @staticmethod
    def decode(data):
        r = Reader(data)
        assert r.take(8) == b"HOLDPEER"
        r.number(), r.number()
        purpose, cluster, name = r.number(), r.ident(), r.text()
        node, to, store, life, drawn = r.number(), r.number(), r.ident(), r.number(), r.number()
        r.text()
        stores, known = r.text(), {}
        for at in range(0, len(stores), 24):
            known[struct.unpack_from("<Q", stores, at)[0]] = stores[at + 8:at + 24]
        found = Introduction(node, to, cluster, store, life, known, purpose)
        found.number, found.name = drawn, name
        return found


# --- messages ----------------------------------------------------------------


def append(term, prev=(0, 0), commit=0, entries=(), cluster_ms=0):
    """`prev` is (index, term), an entry (term, type, bytes)."""
    head = [cluster_ms, APPEND, 0, term, *prev, commit, len(entries)]
    return b"".join(map(number, head)) + b"".join(
        number(t) + number(kind) + text(data) for t, kind, data in entries)


def vote(term, candidate, last=(0, 0), disrupt=False, pre_vote=False, cluster_ms=0):
    return b"".join(map(number, [cluster_ms, VOTE, 2, term, candidate, *last, int(disrupt), int(pre_vote)]))


def append_result(term, last, rejected=0, cluster_ms=0):
    return b"".join(map(number, [cluster_ms, APPEND_RESULT, 1, term, rejected, last, 1, 65535]))


def install(term, last, members, members_index=1, cluster_ms=0):
    return b"".join(map(number, [cluster_ms, INSTALL, 0, term, *last, members_index])) + text(members)


def members(servers, count=None):
    """A configuration as libraft writes it; `count` says what it claims to hold."""
    data = b"\x01" + struct.pack("<Q", len(servers) if count is None else count)
    for node, address, role in servers:
        data += struct.pack("<Q", node) + address.encode() + b"\0" + bytes([role])
    return data + bytes(-len(data) % 8)


def batch(time_ms, commands=b"", count=0):
    """A log entry with this stamp."""
    data = struct.pack("<QQQQ", 1, time_ms, 1, count) + commands
    return data + bytes(-len(data) % 8)


class Heard:
    """The beginning of an AppendEntries."""

    def __init__(self, data):
        r = Reader(data)
        self.cluster_ms, self.type = r.number(), r.number()
        self.entries = 0
        if self.type in (APPEND, TIMEOUT_NOW + 1):
            r.number()
            self.term = r.number()
            self.prev = (r.number(), r.number())
            self.commit, self.entries = r.number(), r.number()


# --- connections -------------------------------------------------------------


class Closed(Exception):
    """The other end closed the connection; `reason` is what it said, if anything."""

    def __init__(self, reason=""):
        super().__init__(reason)
        self.reason = reason


class Link:
    def __init__(self, sock):
        self.socket = sock
        self.socket.settimeout(PATIENCE)
        self.bytes = b""

    def send(self, kind, payload=b""):
        try:
            self.socket.sendall(struct.pack("<IB", len(payload) + 1, kind) + payload)
        except OSError as error:
            raise Closed() from error

    def read(self, count):
        while len(self.bytes) < count:
            try:
                more = self.socket.recv(65536)
            except ConnectionError:
                more = b""
            if not more:
                raise Closed()
            self.bytes += more
        data, self.bytes = self.bytes[:count], self.bytes[count:]
        return data

    def receive(self):
        """The next frame. A refusal is raised."""
        length, kind = struct.unpack("<IB", self.read(5))
        payload = self.read(length - 1)
        if kind == REFUSE:
            raise Closed(payload.decode())
        return kind, payload

    def wait_closed(self):
        """Reads until the other end closes; what it said."""
        try:
            while True:
                self.receive()
        except Closed as closed:
            return closed.reason

    def close(self):
        self.socket.close()


def audited_refusals(node):
    """The records of the audit trail about refused nodes."""
    found, cursor = [], ""
    while cursor is not None:
        page = node.request("GET", "/api/v1/audit" + (f"?cursor={cursor}" if cursor else "")).json
        found, cursor = found + page["records"], page["next_cursor"]
    return [record for record in found if record["action"] == "PEER_REFUSED"]


def dial(node, who, begin=True, tls=None):
    """A connection to `node` that introduces itself as `who`; raises Closed where that is refused. `tls`: an
    ssl.SSLContext."""
    host, _, port = node.peer.rpartition(":")
    there = socket.create_connection((host, int(port)), timeout=PATIENCE)
    link = Link(there if tls is None else tls.wrap_socket(there, server_hostname=host))
    who.to = node.id
    link.send(HELLO, who.encode())
    if begin:
        kind, payload = link.receive()
        assert kind == WELCOME, kind
        link.welcome = Introduction.decode(payload)
        link.send(BEGIN, struct.pack("<Q", link.welcome.number))
    return link


class Impostor:
    """Speaks in place of a member that was stopped: at its address, with its cluster, its store and its last life.
    The other nodes say what those are when they dial that address."""

    def __init__(self, node):
        assert not node.running
        self.node = node
        host, _, port = node.peer.rpartition(":")
        self.listener = socket.create_server((host, int(port)), reuse_port=False)
        self.listener.settimeout(PATIENCE)
        self.life = node.events("loaded")[-1]["life"]
        self.incoming = {}
        self.cluster, self.store, self.heard = NO_CLUSTER, None, None

    def accept(self):
        """Greets whoever dials next, and keeps the link by its node."""
        link = Link(self.listener.accept()[0])
        kind, payload = link.receive()
        assert kind == HELLO
        theirs = Introduction.decode(payload)
        self.cluster = theirs.cluster
        self.store = theirs.stores[self.node.id]
        who = self.who(theirs.node)
        who.number = 1234
        link.send(WELCOME, who.encode())
        kind, payload = link.receive()
        assert (kind, payload) == (BEGIN, struct.pack("<Q", 1234))
        self.incoming[theirs.node] = link
        return theirs.node

    def who(self, to):
        return Introduction(self.node.id, to, self.cluster, self.store, self.life)

    def learn(self, leader, for_ms=0):
        """Hears the leader's next heartbeat, or the first one after so long: its term, cluster time, and where its log
        ends."""
        while leader.id not in self.incoming:
            self.accept()
        first = None
        while True:
            kind, payload = self.incoming[leader.id].receive()
            if kind == MESSAGE:
                heard = Heard(payload)
                if heard.type == APPEND:
                    first = first or heard
                    if heard.cluster_ms >= first.cluster_ms + for_ms:
                        self.heard = heard
                        return heard

    def dial(self, node):
        return dial(node, self.who(node.id))

    def say(self, node, *messages):
        """A new connection, and these messages on it."""
        link = self.dial(node)
        for message in messages:
            link.send(MESSAGE, message)
        return link

    def close(self):
        self.listener.close()
        for link in self.incoming.values():
            link.close()

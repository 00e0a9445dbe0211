"""How many clients a node takes, by file descriptors and by settings: which connections it closes and which
it refuses when there are too many, and that its log and its snapshots go on whatever clients do."""

import json
import re
import resource
import socket
import time

import pytest

import network
from harness import PATIENCE, Node, free_ports, run, wait_until

HTTP_REFUSAL = re.compile(rb"HTTP/1\.1 503 .*\r\n\r\n(\{.*\})$", re.S)
RESP_REFUSAL = b"-ERR max number of clients reached\r\n"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])


@pytest.fixture
def start(keep, tmp_path):
    """start(*flags, files=N): one node that is a cluster, which may open N files."""
    def starter(*flags, files=None):
        client, peer = free_ports(2)
        node = keep(Node(1, tmp_path / "node-1", client, peer, flags))
        if files is not None:
            node.inside = ["prlimit", f"--nofile={files}:{files}"]
        node.start("--bootstrap", "--cluster", f"1={node.peer}")
        node.wait_ready()
        return node

    return starter


class Wire:
    """A plain socket to a node, closed with the test's list."""

    def __init__(self, port, sockets, source="127.0.0.1"):
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE, (source, 0))
        sockets.append(self)

    def send(self, data):
        self.socket.sendall(data)
        return self

    def until(self, mark):
        """Everything up to and with `mark`."""
        got = b""
        while mark not in got:
            data = self.socket.recv(65536)
            assert data, f"closed after {got!r}"
            got += data
        return got

    def rest(self):
        """Everything until the node closes it. A reset counts as the end."""
        got = b""
        try:
            while data := self.socket.recv(65536):
                got += data
        except ConnectionResetError:
            pass
        return got

    @property
    def is_closed(self):
        """Whether the node has closed it: looks, without waiting."""
        self.socket.setblocking(False)
        try:
            return self.socket.recv(1, socket.MSG_PEEK) == b""
        except BlockingIOError:
            return False
        except ConnectionResetError:
            return True
        finally:
            self.socket.settimeout(PATIENCE)


@pytest.fixture
def wires():
    made = []
    yield made
    for wire in made:
        wire.socket.close()


def get(wire, path="/livez"):
    wire.send(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    head = wire.until(b"\r\n\r\n")
    head, _, body = head.partition(b"\r\n\r\n")
    length = int(re.search(rb"Content-Length: (\d+)", head)[1])
    while len(body) < length:
        body += wire.socket.recv(65536)
    return body.decode()


def status(node, wires):
    """Of the answer to a request on a connection of its own, which is closed again."""
    wire = Wire(node.client_port, wires)
    answer = wire.send(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").rest()
    wire.socket.close()
    return int(answer.split()[1])


def ping(wire):
    wire.send(b"PING\r\n")
    assert wire.until(b"\r\n") == b"+PONG\r\n"
    return wire


def watch(node, wires):
    """A connection with a stream on it, which is never idle."""
    wire = Wire(node.client_port, wires)
    wire.send(b"GET /api/v1/watch HTTP/1.1\r\nHost: localhost\r\n\r\n").until(b"text/event-stream")
    return wire


def subscribe(node, wires):
    wire = Wire(node.resp_port, wires)
    wire.send(b"SUBSCRIBE c\r\n").until(b":1\r\n")
    return wire


def metric(page, name):
    return int(re.search(rf"^holdfast_{name} (\d+)$", page, re.M)[1])


def segments(node):
    return {path.name for path in node.folder.glob("log-*")}


def fill_segment(writer):
    """More log than a segment of 9 MiB holds."""
    value = b"v" * 4096
    for first in range(0, 2600, 100):
        writer.send(b"".join(
            b"*6\r\n$3\r\nSET\r\n$6\r\nk%05d\r\n$4096\r\n%s\r\n$2\r\nNX\r\n$2\r\nPX\r\n$6\r\n600000\r\n"
            % (i, value) for i in range(first, first + 100)))
        got = b""
        while got.count(b"\r\n") < 100:
            data = writer.socket.recv(65536)
            assert data, "the node closed the writer's connection"
            got += data
        assert got == b"+OK\r\n" * 100


@pytest.mark.sanitized
def test_a_node_full_of_connections_goes_on_writing_its_log(start, wires):
    """The log needs descriptors for new segments and snapshots; clients must not take them."""
    node = start("--segment-size", "9MiB", files=256)
    lowered = node.wait_event("max_clients_lowered")[0]
    assert lowered["max_clients"] == 10000 and lowered["open_files_limit"] == 256
    assert "LimitNOFILE" in lowered["next"] and "max-clients" in lowered["next"]
    most = lowered["in_force"]
    assert 64 <= most < 200
    # Nothing of this is ever idle: all have a stream or a subscription, the writer (RESP3) too.
    writer = Wire(node.resp_port, wires)
    writer.send(b"HELLO 3\r\nSUBSCRIBE c\r\n").until(b":1\r\n")
    for i in range(most - 1):
        (watch if i % 2 else subscribe)(node, wires)
    for _ in range(150):  # together with those above more than there are descriptors
        Wire(node.client_port, wires)
        Wire(node.resp_port, wires)
    before = segments(node)
    fill_segment(writer)
    wait_until(lambda: segments(node) - before, "a new segment, made ahead by another thread")
    node.take_snapshot()
    assert node.running and not node.events("failed")
    for wire in wires[1:]:
        wire.socket.close()
    page = wait_until(lambda: (a := node.try_request("GET", "/metrics")) and a.status == 200 and a.text,
                      "a client is served again")
    assert metric(page, "clients_max") == most
    assert metric(page, "clients_refused_total") >= 300
    over = node.wait_event("clients_over_limit")[0]
    assert over["max"] == most and "max-clients" in over["next"]


def test_a_node_that_may_open_too_few_files_does_not_start(tmp_path):
    client, peer = free_ports(2)
    node = Node(1, tmp_path / "node-1", client, peer)
    node.inside = ["prlimit", "--nofile=64:64"]
    node.start("--bootstrap")
    assert node.wait_end() != 0
    node.close_ready()
    needed = re.search(r"may open 64 files, and a node needs (\d+): raise the hard limit .*LimitNOFILE", node.log())
    assert needed, node.log()
    node.inside = ["prlimit", f"--nofile={needed[1]}:{needed[1]}"]
    node.start("--bootstrap")
    node.wait_ready()
    assert node.acquire("n").status == 200
    assert node.stop() == 0


@pytest.mark.sanitized
def test_one_limit_holds_for_all_ports_and_each_protocol_has_its_refusal(start, wires):
    node = start("--max-clients", 8)
    for _ in range(4):
        watch(node, wires)
        subscribe(node, wires)
    assert Wire(node.resp_port, wires).rest() == RESP_REFUSAL
    answer = HTTP_REFUSAL.match(Wire(node.client_port, wires).send(b"GET /livez HTTP/1.1\r\n").rest())
    assert answer, "no refusal of HTTP/1.1"
    assert json.loads(answer[1])["error"]["code"] == "limit_clients"
    refused = node.request("GET", "/api/v1/cluster")
    assert refused.status == 503 and refused.code == "limit_clients" and refused.headers["Retry-After"] == "1"
    frames = Wire(node.client_port, wires).send(PREFACE).rest()
    assert frames[:9] == bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])  # SETTINGS
    assert frames[12] == 7 and frames.endswith(b"limit_clients")  # GOAWAY
    # A client that says nothing is not waited for.
    assert Wire(node.client_port, wires).rest() == b""
    said = run("show", "n", "--endpoints", node.client)
    assert said.returncode == 69 and "as many client connections as it may have" in said.stderr, said
    wires[0].socket.close()
    wait_until(lambda: status(node, wires) == 200, "the place of the one that left")
    assert node.running


@pytest.mark.sanitized
def test_the_connection_that_was_idle_for_longest_makes_way(start, wires):
    node = start("--max-clients", 8)
    busy = [watch(node, wires), subscribe(node, wires)]
    first, second = Wire(node.client_port, wires), Wire(node.resp_port, wires)
    silent = [Wire(node.client_port, wires), Wire(node.resp_port, wires)]  # never say anything
    third, fourth = Wire(node.client_port, wires), Wire(node.resp_port, wires)
    get(third), ping(fourth)  # so those that were opened before them are accepted, too
    ping(second), ping(fourth), get(first), get(third)
    # Eight are there. Those that were silent from the start are the oldest idle ones, then the others in turn.
    for oldest in (silent, [second], [fourth], [first]):
        assert not any(wire.is_closed for wire in oldest)
        for _ in oldest:
            get(Wire(node.client_port, wires))
        wait_until(lambda wires=oldest: all(wire.is_closed for wire in wires), "the oldest idle ones are closed")
    assert not third.is_closed and not any(wire.is_closed for wire in busy)
    page = get(third, "/metrics")
    assert metric(page, "clients") == 8 and metric(page, "clients_evicted_total") == 5
    assert metric(page, "clients_refused_total") == 0
    assert node.wait_event("clients_over_limit")[0]["idle_closed"] >= 1


def test_thousands_of_idle_connections_keep_nobody_out(start, wires):
    node = start("--max-clients", 300)
    for _ in range(600):
        Wire(node.client_port, wires)
        Wire(node.resp_port, wires)
    began = time.monotonic()
    assert node.acquire("n").status == 200
    assert ping(Wire(node.resp_port, wires))
    assert time.monotonic() - began < PATIENCE / 2


def test_an_address_may_have_a_limit_of_its_own(start, wires):
    node = start("--max-clients-per-address", 3)
    for _ in range(3):
        subscribe(node, wires)
    assert Wire(node.resp_port, wires).rest() == RESP_REFUSAL
    assert status(node, wires) == 503
    other = Wire(node.client_port, wires, source="127.0.0.2")
    assert metric(get(other, "/metrics"), "clients_refused_total") == 2
    wires[0].socket.close()
    wait_until(lambda: status(node, wires) == 200, "the place of the one that left")

    def idle_one():
        """The connection before it may not be gone yet."""
        wire = Wire(node.resp_port, wires).send(b"PING\r\n")
        return wire if wire.until(b"\r\n") == b"+PONG\r\n" else None

    idle = wait_until(idle_one, "a connection that is idle")
    assert status(node, wires) == 200  # the idle one of the same address made way ...
    wait_until(lambda: idle.is_closed, "it is closed")
    assert not other.is_closed  # ... and not the one that was idle for longer


def test_some_connections_are_kept_for_clients_on_the_same_machine(keep, tmp_path):
    reason = network.why_not()
    if reason:
        pytest.skip(reason)
    space = network.Space()
    made = []
    try:
        space.ip("link set lo up")
        space.ip("addr add 10.77.0.1/32 dev lo")
        client, peer = free_ports(2)
        node = keep(Node(1, tmp_path / "node-1", f"0.0.0.0:{client}", peer,
                         ["--insecure", "--max-clients", 40, "--resp", "off"]))
        node.inside = space.inside
        node.start("--bootstrap", "--cluster", f"1={node.peer}")
        node.wait_ready()

        def answer(host):
            made.append(space.socket(host, client, PATIENCE))
            made[-1].sendall(b"GET /api/v1/watch HTTP/1.1\r\nHost: localhost\r\n\r\n")
            return int(made[-1].recv(4096).split()[1])

        assert [answer("10.77.0.1") for _ in range(40)] == [200] * 35 + [503] * 5
        assert [answer("127.0.0.1") for _ in range(7)] == [200] * 5 + [503] * 2
    finally:
        for each in made:
            each.close()
        space.close()


@pytest.mark.sanitized
def test_without_descriptors_accepting_pauses_and_goes_on(start, wires):
    """As it is when the whole machine runs out of files, or somebody lowers the limit."""
    node = start()
    looker = Wire(node.client_port, wires)
    assert metric(get(looker, "/metrics"), "accept_pauses_total") == 0
    # The log makes its second segment soon after the start. A node that cannot do that ends, and this is not about that.
    wait_until(lambda: len(segments(node)) == 2, "the log has its next segment")
    _, hard = resource.prlimit(node.process.pid, resource.RLIMIT_NOFILE)
    began = time.monotonic()
    resource.prlimit(node.process.pid, resource.RLIMIT_NOFILE, (4, hard))
    waiting = [Wire(node.client_port, wires).send(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"),
               Wire(node.resp_port, wires).send(b"PING\r\n")]
    wait_until(lambda: metric(get(looker, "/metrics"), "accept_pauses_total") >= 6, "it has paused for a while")
    pauses = metric(get(looker, "/metrics"), "accept_pauses_total")
    assert pauses <= 2 * (time.monotonic() - began) / 0.2 + 2  # two ports, each five times a second
    assert not any(wire.is_closed for wire in waiting)
    resource.prlimit(node.process.pid, resource.RLIMIT_NOFILE, (hard, hard))
    waiting[0].until(b"200 OK")
    waiting[1].until(b"+PONG")
    said = node.events("accept_paused")
    assert len(said) == 1 and "LimitNOFILE" in said[0]["next"], said
    assert node.acquire("n").status == 200

"""Clients that want to exhaust a node: slow ones, floods, frames and lengths that cost the server more than the client. Each
test states how much memory the node may take for it, measures that, and shows that another client is served meanwhile.

Beside them: test_http.py (smuggling, slow-loris in HTTP/1.1), test_http_memory.py (answers that are not read), test_resp.py
(malformed requests), test_tls.py (handshakes that do not end), test_peer_port.py. `make hostile-long` runs the counts that
do not fit here: HOSTILE_IDLE connections."""

import http.client
import os
import re
import resource
import select
import socket
import ssl
import subprocess
import sys
import threading
import time

import pytest

from harness import PATIENCE, Node, allowed, free_ports, wait_until
from http2_frames import (CONTINUATION, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, GOAWAY, HEADERS, PING, PREFACE, PRIORITY,
                          RST_STREAM, SETTINGS, WINDOW_UPDATE, frame, get, goaway_code, head, settings, split)
from secure import Authority
from test_http import FRAMING, post

REQUEST_S = 10  # request_ms of src/service/service.c
CLOSED = (BrokenPipeError, ConnectionResetError, ssl.SSLError, ssl.SSLEOFError)
IDLE = int(os.environ.get("HOSTILE_IDLE", "2000"))
IDLE_CLEAR_KIB, IDLE_TLS_KIB = 8, 40  # of the node's memory for one idle connection
WAYS = ["clear", "tls"]
# connections-max-bytes. The allocator, the copies of the network layer and TLS may take twice as much again.
LIMIT_MIB = 32


@pytest.fixture(scope="module", name="ca")
def one_authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture
def make_node(keep, tmp_path, ca):
    """make_node("tls", *flags): one node that serves."""
    def make(way, *flags):
        client, peer = free_ports(2)
        node = keep(Node(1, tmp_path / "node", client, peer, ["--bootstrap", *flags]))
        if way == "tls":
            node.flags += ca.flags(ca.node(1))
            node.tls = ca.context()
        node.start().wait_ready()
        node.acquire_surely("warm")
        return node

    return make


def memory_kib(node, field="VmHWM"):
    with open(f"/proc/{node.process.pid}/status", encoding="ascii") as file:
        return int(re.search(rf"{field}:\s+(\d+) kB", file.read()).group(1))


def metric(node, name):
    text = node.request("GET", "/metrics").text
    return float(re.search(rf"^holdfast_{name} (\S+)$", text, re.M).group(1))


class Other:
    """Another client: acquires and releases all the time, and knows its slowest request. With it around, the peak of the
    node's memory may rise by `mib`."""

    def __init__(self, node, mib, seconds=2.0, retries=False):
        """`retries`: it may be refused with 503 or 504, or its connection closed for a newer one; it tries again then, as
        clients do."""
        self.node, self.mib, self.seconds, self.retries = node, mib, seconds, retries
        self.count = self.slowest = self.repeated = 0
        self.failed = None
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def acquire_and_release(self):
        try:
            name = f"other-{self.count}-{self.repeated}"
            answer = self.node.acquire(name, client="other")
            if answer.status != 200 and self.retries:
                return False
            assert answer.status == 200, answer
            return self.node.release(name, answer.json["fencing_token"], client="other").status == 200
        except (OSError, http.client.HTTPException):
            if not self.retries:
                raise
            return False

    def run(self):
        try:
            while not self.stop.is_set():
                begin = time.monotonic()
                while not self.acquire_and_release():
                    self.repeated += 1
                self.slowest = max(self.slowest, time.monotonic() - begin)
                self.count += 1
        except Exception as error:  # pylint: disable=broad-except
            self.failed = error

    def __enter__(self):
        self.before = memory_kib(self.node)
        self.thread.start()
        return self

    def __exit__(self, kind, *_):
        seen = self.count
        if kind is None:  # at least one request began after the attack, or during all of it
            wait_until(lambda: self.count > seen or self.failed, "another client is served")
        self.stop.set()
        self.thread.join()
        self.grown = (memory_kib(self.node) - self.before) / 1024
        print(f"{self.count} requests of another client ({self.repeated} repeated), slowest {self.slowest * 1000:.0f} ms, {self.grown:.1f} MiB more")
        if kind is None:
            assert self.failed is None, self.failed
            assert self.slowest < allowed(self.seconds)
            assert self.grown < self.mib


def connect(node, port=None, alpn=None):
    """A connection to the HTTP port or another one, with TLS if the node speaks it."""
    plain = socket.create_connection(("127.0.0.1", port or node.client_port), PATIENCE)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if node.tls is None:
        return plain
    context = node.tls
    if alpn:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols([alpn])
    return context.wrap_socket(plain, server_hostname="127.0.0.1")


def pour(connection, data):
    """Sends it and reads nothing. False: the other end has closed, or takes no more for a second."""
    connection.settimeout(1)
    try:
        connection.sendall(data)
        return True
    except (TimeoutError, *CLOSED):
        return False


def received(connection, seconds=PATIENCE):
    """All that comes until the other end closes."""
    connection.settimeout(seconds)
    data = b""
    try:
        while piece := connection.recv(1 << 16):
            data += piece
    except CLOSED:
        pass
    return data


def is_closed(connection):
    """Without waiting; what was received is dropped."""
    connection.setblocking(False)
    try:
        while connection.recv(1 << 16):
            pass
        return True
    except (BlockingIOError, ssl.SSLWantReadError):
        return False
    except CLOSED:
        return True


# --- slow clients ----------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_requests_that_arrive_byte_by_byte_are_given_up(make_node, way):
    """The time of a request begins with its first byte; more bytes do not extend it."""
    node = make_node(way)
    begun = time.monotonic()
    slow = {
        "HTTP head": [(connect(node), b"GET /livez HTTP/1.1\r\nX: ", b"x") for _ in range(50)],
        "HTTP/2 preface": [(connect(node), PREFACE[:10], b"") for _ in range(50)],
        "RESP array": [(connect(node, node.resp_port), b"*2\r\n$4\r\nECHO\r\n$60000\r\n", b"x") for _ in range(50)],
        "RESP line": [(connect(node, node.resp_port), b"SET a", b"x") for _ in range(50)],
    }
    left = [(name, connection, more) for name, several in slow.items() for connection, first, more in several
            if connection.sendall(first) is None]
    with Other(node, mib=24):  # 8 of them are the buffer of the event log, which the other client fills once
        while left:
            select.select([], [], [], 0.5)
            for name, connection, more in list(left):
                try:
                    connection.setblocking(True)
                    connection.sendall(more)
                except CLOSED:
                    pass
                if is_closed(connection):
                    left.remove((name, connection, more))
                    connection.close()
                    assert time.monotonic() - begun > REQUEST_S - 1, name
            assert time.monotonic() - begun < REQUEST_S + allowed(5), sorted({name for name, *_ in left})


HANDSHAKE_S = 5  # OPENING_MS of src/net/connection.h


def raise_files(count):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < count:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))
        except (ValueError, OSError):
            return False
    elif soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
    return True


def client_hello():
    """The first message of a real client."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    out = ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), out).do_handshake()
    return out.read()


def test_handshakes_that_do_not_end_are_given_up(make_node):
    """Slow-loris in TLS, on all ports: nothing, half a ClientHello, one that goes on byte by byte, one whose answer is not read,
    and records of a handshake that is never complete. More bytes do not extend the time."""
    node = make_node("tls")
    hello = client_hello()
    endless = b"\x16\x03\x01\x40\x00\x01\x00\xff\xff" + b"x" * 16380
    slow = [(b"", b""), (hello[:-1], b""), (hello[:5], None), (hello, b""), (endless * 3, b"\x16")]
    ports = [node.client_port, node.resp_port, node.peer_port]
    begun = time.monotonic()
    left = []
    with Other(node, mib=64):  # of 600 handshakes, each with 50 KiB of OpenSSL's, or more while a message is incomplete
        for i in range(600):
            first, more = slow[i % len(slow)]
            plain = socket.create_connection(("127.0.0.1", ports[i % 3]), PATIENCE)
            left.append((plain, more, i))
            try:
                plain.sendall(first)
            except CLOSED:
                pass
        while left:
            select.select([], [], [], 0.2)
            for connection, more, i in list(left):
                try:
                    connection.setblocking(True)
                    connection.sendall(hello[5 + i % 100:][:1] if more is None else more)
                except CLOSED:
                    pass
                if is_closed(connection):
                    left.remove((connection, more, i))
                    connection.close()
            assert time.monotonic() - begun < HANDSHAKE_S + allowed(5), len(left)
    assert metric(node, "clients") <= 2


# --- floods of connections ----------------------------------------------------------


HANDSHAKES = 1024  # NET_OPENINGS of src/net/net.h


def test_the_memory_of_handshakes_is_bounded(make_node):
    """3,000 clients begin a handshake and stop. A client that comes later is served: the oldest handshakes make space."""
    if not raise_files(5000):
        pytest.skip("the limit of open files is below 5000")
    node = make_node("tls", "--max-clients", "5000")
    hello = client_hello()
    kept = []
    try:
        # Its own handshake may be the oldest one, if more than 1,024 others begin before it ends.
        with Other(node, mib=HANDSHAKES * 64 / 1024, seconds=4.0, retries=True):
            for _ in range(3000):
                kept.append(socket.create_connection(("127.0.0.1", node.client_port), PATIENCE))
                kept[-1].sendall(hello)
            assert node.request("GET", "/livez").status == 200
            assert metric(node, "clients") <= HANDSHAKES + 10
    finally:
        for connection in kept:
            connection.close()


HANDSHAKER = """
import socket, ssl, sys
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
print("begins", flush=True)
for i in range(int(sys.argv[1])):
    port = int(sys.argv[2 + i % (len(sys.argv) - 2)])
    try:
        with socket.create_connection(("127.0.0.1", port), 60) as plain, context.wrap_socket(plain) as link:
            pass
    except (ssl.SSLError, OSError):
        pass  # the port of peers refuses it
print("done", flush=True)
"""


def test_a_flood_of_handshakes_disturbs_neither_clients_nor_peers(make_cluster, ca):
    """Complete handshakes, one after the other, of four clients on every port of every node. Nodes keep their leader, a client
    that is connected and one that connects anew for each request are served."""
    cluster = make_cluster(3, "--election-timeout", "1500ms", name="test", start=False)
    for node in cluster:
        node.flags += ca.flags(ca.node(node.id))
        node.tls = ca.context()
    cluster.start()
    leader = cluster.leader()
    term = leader.cluster()["term"]
    leader.acquire_surely("warm")
    ports = [str(port) for node in cluster for port in (node.client_port, node.resp_port, node.peer_port)]
    flood = [subprocess.Popen([sys.executable, "-c", HANDSHAKER, "300", *ports], stdout=subprocess.PIPE) for _ in range(4)]
    try:
        for client in flood:
            assert client.stdout.readline() == b"begins\n"
        new = 0
        with Other(leader, mib=48, seconds=4.0) as other:
            for client in flood:
                while not select.select([client.stdout], [], [], 0)[0]:
                    assert leader.request("GET", "/livez").status == 200
                    new += 1
                assert client.stdout.readline() == b"done\n"
        print(f"{new} new connections of another client were served")
        assert new > 0 and other.count > 0
    finally:
        for client in flood:
            client.kill()
            client.wait()
    assert cluster.leader().cluster()["term"] == term
    assert all(not node.events("peer_disconnected") for node in cluster)


@pytest.mark.parametrize("way", WAYS)
def test_a_flood_of_connections_leaves_others_served(make_node, way):
    """Connections that send nothing, garbage or half a handshake, as fast as they can be made, far above max-clients."""
    node = make_node(way, "--max-clients", "300")
    first = [b"", b"\x16\x03\x01\x02\x00\x01", b"\0" * 100, b"GET / HTTP/1.1\r\n", PREFACE, b"*1\r\n"]
    kept = []
    with Other(node, mib=48, seconds=4.0, retries=True):
        for i in range(3000):
            port = (node.client_port, node.resp_port, node.peer_port)[i % 3]
            connection = socket.create_connection(("127.0.0.1", port), PATIENCE)
            connection.setblocking(False)
            try:
                connection.send(first[i % len(first)])
            except (BlockingIOError, *CLOSED):
                pass
            kept.append(connection)
            if len(kept) > 600:
                kept.pop(0).close()
    for connection in kept:
        connection.close()


HOLDER = """
import socket, ssl, sys
way, port, count, source = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
kept = []
for i in range(count):
    connection = socket.create_connection(("127.0.0.1", port), 60, source_address=(source, 0))
    if way == "tls":
        connection = context.wrap_socket(connection)
    connection.sendall(b"GET /livez HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n")
    assert b" 200 " in connection.recv(4096)
    kept.append(connection)
print("open", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("way", WAYS)
def test_idle_connections_cost_little(make_node, way):
    """Each has made one request and stays. They are held by processes of at most 2,000, from several addresses."""
    if not raise_files(IDLE + 500):
        pytest.skip(f"the limit of open files is below {IDLE + 500}")
    node = make_node(way, "--max-clients", str(IDLE + 200))
    before = memory_kib(node, "VmRSS")
    holders = []
    each = 2000
    kib = IDLE_TLS_KIB if way == "tls" else IDLE_CLEAR_KIB
    try:
        with Other(node, mib=16 + IDLE * kib / 1024):
            for i in range(0, IDLE, each):
                holder = subprocess.Popen([sys.executable, "-c", HOLDER, way, str(node.client_port), str(min(each, IDLE - i)),
                                           f"127.0.1.{i // each + 1}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
                holders.append(holder)
                assert holder.stdout.readline() == b"open\n"
        assert metric(node, "clients") >= IDLE
        used = (memory_kib(node, "VmRSS") - before) / IDLE
        print(f"{way}: {IDLE} idle connections, {used:.1f} KiB each")
        assert used < kib
        assert metric(node, "clients_evicted_total") == 0
    finally:
        for holder in holders:
            holder.kill()
            holder.wait()


# --- frames of HTTP/2 ----------------------------------------------------------------


def streams(make, count=20000):
    return b"".join(make(2 * i + 1) for i in range(count))


ENTRY = b"\x40\x01x\x7f\xd1\x02" + b"v" * (127 + 0x151)  # a header of 465 bytes, which goes to the table of HPACK
LOCKS = head("/api/v1/locks")
OVERFLOW = b"\x7f\xff\xff\xff"

RESETS = {
    "RST_STREAM": lambda i: get(i, "/api/v1/locks") + frame(RST_STREAM, 0, i, b"\0\0\0\x08"),
    "a window that overflows": lambda i: frame(HEADERS, END_HEADERS, i, LOCKS) + frame(WINDOW_UPDATE, 0, i, OVERFLOW),
    "more data than announced":
        lambda i: frame(HEADERS, END_HEADERS, i, LOCKS + b"\x0f\x0d\x011") + frame(DATA, END_STREAM, i, b"12"),
    "headers that are none": lambda i: frame(HEADERS, END_HEADERS | END_STREAM, i, LOCKS + b"\x00\x01A\x01b"),
}
# Whether it ends the connection, and the frames.
FLOODS = {
    "CONTINUATION": (True, lambda: frame(HEADERS, END_STREAM, 1, LOCKS) + frame(CONTINUATION, 0, 1, b"\0\1a\1b" * 500) * 2000),
    "empty CONTINUATION": (True, lambda: frame(HEADERS, END_STREAM, 1, LOCKS) + frame(CONTINUATION, 0, 1) * 200000),
    "SETTINGS": (True, lambda: settings() * 200000),
    "SETTINGS of many entries": (True, lambda: frame(SETTINGS, 0, 0, b"\0\x03\0\0\0\1" * 2000) * 200),
    "PING": (True, lambda: frame(PING, 0, 0, b"12345678") * 200000),
    "requests without end": (False, lambda: streams(lambda i: frame(HEADERS, END_HEADERS, i, LOCKS), 50000)),
    "PRIORITY": (False, lambda: frame(PRIORITY, 0, 1, b"\0\0\0\0\x10") * 200000),
    "empty DATA": (False, lambda: frame(HEADERS, END_HEADERS, 1, LOCKS) + frame(DATA, 0, 1) * 200000),
    "unknown frames": (False, lambda: frame(0x77, 0, 1, b"x" * 100) * 50000),
}


def h2(node):
    connection = connect(node, alpn="h2")
    connection.sendall(PREFACE + settings())
    return connection


def all_at_once(function, several):
    """The results of function(each), in threads."""
    results = []
    threads = [threading.Thread(target=lambda one=one: results.append(function(one))) for one in several]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == len(several)
    return results


@pytest.mark.parametrize("kind", RESETS)
def test_streams_that_are_reset_in_a_row_end_the_connection(make_node, kind):
    """By the client (rapid reset), or by the node because the client breaks the protocol (made-you-reset): both begin work that
    nobody wants. Some clients read, others do not."""
    node = make_node("clear", "--connections-max-bytes", f"{LIMIT_MIB}MiB")
    data = streams(RESETS[kind])

    def attack(reads):
        connection = h2(node)
        reader = threading.Thread(target=lambda: got.append(received(connection)))
        got = []
        if reads:
            reader.start()
            pour(connection, data)
            reader.join()
        else:
            pour(connection, data)
            got.append(received(connection))
        connection.close()
        return goaway_code(split(got[0]))

    with Other(node, mib=4 * LIMIT_MIB, seconds=4.0, retries=True):
        for _ in range(6):
            codes = all_at_once(attack, [True, False] * 4)
            # The end of a connection that was not read may be a reset, which drops the GOAWAY.
            assert set(codes) <= {None, ENHANCE_YOUR_CALM} and ENHANCE_YOUR_CALM in codes, codes


@pytest.mark.parametrize("kind", FLOODS)
def test_floods_of_frames_take_no_memory(make_node, kind):
    """The client reads nothing while it sends."""
    node = make_node("clear", "--connections-max-bytes", f"{LIMIT_MIB}MiB")
    ends, data = FLOODS[kind][0], FLOODS[kind][1]()

    def attack(_):
        connection = h2(node)
        pour(connection, data)
        if ends:
            received(connection)
        connection.close()

    with Other(node, mib=3 * LIMIT_MIB, seconds=4.0):
        for _ in range(6):
            all_at_once(attack, range(8))


def test_small_header_blocks_that_decode_to_large_ones_cost_little(make_node):
    """HPACK bombs: a header of 465 bytes goes to the table and is named 8,000 times, 3.7 MB from 8.5 KB."""
    node = make_node("clear")
    bombs = streams(lambda i: frame(HEADERS, END_STREAM | END_HEADERS, i, head("/livez") + ENTRY + b"\xbe" * 8000), 3000)

    def attack(_):
        connection = h2(node)
        pour(connection, bombs)
        connection.close()

    with Other(node, mib=32, seconds=4.0):
        all_at_once(attack, range(4))


def test_windows_of_zero_over_tls(make_node):
    """As in test_http_memory.py, where the records of TLS are one more copy of what is not read."""
    limit = 32
    node = make_node("tls", "--connections-max-bytes", f"{limit}MiB")
    with Other(node, mib=3 * limit, seconds=4.0):
        several = []
        for _ in range(20):
            connection = connect(node, alpn="h2")
            several.append(connection)
            for window in (0, 1 << 20):  # the second fills the socket
                try:
                    connection.sendall(PREFACE * (window == 0) + settings(window=window) +
                                       b"".join(get(2 * i + 1 + window, "/metrics") for i in range(500)))
                except CLOSED:
                    break
        wait_until(lambda: metric(node, "client_connections_closed_total") > 0, "the limit closes some")
        assert metric(node, "client_connections_bytes") <= limit << 20
        for connection in several:
            connection.close()


# --- RESP ----------------------------------------------------------------------------


LENGTHS = {
    "nested arrays": (b"*1\r\n" * 100000, b"expected '$'"),
    "empty arrays": (b"*-1\r\n" * 300000 + b"*1025\r\n", b"invalid multibulk length"),
    "a long array": (b"*99999999999\r\n", b"invalid multibulk length"),
    "an array of 2^32 + 1": (b"*4294967297\r\n", b"invalid multibulk length"),
    "many large strings": (b"*1024\r\n" + (b"$65000\r\n" + b"x" * 65000 + b"\r\n") * 20, b"invalid bulk length"),
    "a long string": (b"*1\r\n$65537\r\n", b"invalid bulk length"),
    "a string of 2^32 + 2": (b"*1\r\n$4294967298\r\n", b"invalid bulk length"),
    "a long length": (b"*1\r\n$" + b"0" * 1000000, b"too big bulk count string"),
    "a long count": (b"*" + b"1" * 1000000, b"too big mbulk count string"),
    "a long line": (b"x" * 1000000, b"too big inline request"),
    "quotes": (b'"' * 7999 + b"\r\n", b"unbalanced quotes"),
}


@pytest.mark.parametrize("kind", LENGTHS)
def test_lengths_and_nesting_of_resp_are_refused_before_memory_is_taken(make_node, kind):
    data, reason = LENGTHS[kind]
    node = make_node("clear")
    with Other(node, mib=64):
        several = [connect(node, node.resp_port) for _ in range(30)]
        for connection in several:
            try:
                connection.sendall(data)
            except CLOSED:
                pass
        for connection in several:
            answer = received(connection)
            # What was sent behind the mistake may reset the connection before the answer is read.
            assert answer == b"" or reason in answer
            connection.close()


@pytest.mark.parametrize("way", WAYS)
def test_resp_requests_that_do_not_end_and_replies_that_are_not_read_share_the_limit(make_node, way):
    """300 connections with almost 1 MiB of a request each, then 100 with 60 KB replies that nobody reads."""
    limit = 64
    node = make_node(way, "--connections-max-bytes", f"{limit}MiB")
    part = b"*16\r\n" + (b"$65000\r\n" + b"x" * 65000 + b"\r\n") * 15
    echo = b"*2\r\n$4\r\nECHO\r\n$60000\r\n" + b"x" * 60000 + b"\r\n"
    with Other(node, mib=3 * limit, seconds=4.0):
        several = []
        for data in [part] * 300 + [echo * 40] * 100:
            connection = connect(node, node.resp_port)
            several.append(connection)
            connection.settimeout(0.2)
            try:
                connection.sendall(data)
            except (TimeoutError, *CLOSED):
                pass
        wait_until(lambda: metric(node, "client_connections_closed_total") > 100, "the limit closes most of them")
        assert metric(node, "client_connections_bytes") <= limit << 20
        for connection in several:
            connection.close()
    wait_until(lambda: metric(node, "client_connections_bytes") < 1 << 20, "the memory was given back")


# --- HTTP/1.1 behind TLS ---------------------------------------------------------------


def test_smuggling_is_refused_behind_tls(make_node):
    node = make_node("tls")
    with Other(node, mib=32):
        for mistake, (data, status, code) in FRAMING.items():
            connection = connect(node)
            try:
                connection.sendall(data + post("smuggled"))
            except CLOSED:
                pass
            answer = received(connection)
            connection.close()
            if status is not None and answer:
                assert answer.startswith(f"HTTP/1.1 {status} ".encode()) and code.encode() in answer, mistake
            assert len(re.findall(rb"^HTTP/1.1 \d+ ", answer, re.M)) <= 1, mistake
    assert not node.show("smuggled").json["held"]


def literal(name, value):
    """A header of HTTP/2 that does not go to the table."""
    return b"\0" + bytes((len(name),)) + name + bytes((len(value),)) + value


POST = b"\x83\x86" + literal(b":path", b"/api/v1/locks/smuggled/acquire") + literal(b":authority", b"localhost")
BODY = b'{"client_id":"x"}'
# What a proxy that translates to HTTP/1.1 may read as two requests. The status of the answer, None: the stream is reset.
TRANSLATED = {
    "transfer-encoding": (POST + literal(b"transfer-encoding", b"chunked"), None),
    "connection": (POST + literal(b"connection", b"close"), None),
    "a length that is too small": (POST + literal(b"content-length", b"4"), None),
    "a length that is too large": (POST + literal(b"content-length", b"400"), None),
    "two lengths": (POST + literal(b"content-length", b"17") + literal(b"content-length", b"18"), None),
    "a line break in a value": (POST + literal(b"x", b"a\r\nhost: b"), None),
    "a line break in a name": (POST + literal(b"x\r\ny", b"a"), None),
    "a colon in a name": (POST + literal(b"x: y", b"a"), None),
    "capitals": (POST + literal(b"Host", b"localhost"), None),
    "a pseudo-header at the end": (POST + literal(b"x", b"y") + literal(b":path", b"/livez"), None),
    "two paths": (POST + literal(b":path", b"/livez"), None),
    "a path with a space": (b"\x83\x86" + literal(b":path", b"/livez HTTP/1.1") + literal(b":authority", b"localhost"), None),
    "another host": (POST + literal(b"host", b"127.0.0.1"), 400),
    "an authority that is not served": (b"\x83\x86" + literal(b":path", b"/api/v1/locks/smuggled/acquire") +
                                        literal(b":authority", b"evil.example"), 421),
}
SIZE_UPDATE = re.compile(rb"(?:[\x20-\x3e]|\x3f[\x80-\xff]*[\x00-\x7f])*")  # of the table of HPACK
STATUS = {b"\x88": 200, b"\x8c": 400, b"\x48\x82\x68\x41": 421}  # entries of the static table; a literal in Huffman code


def status_of(payload):
    """:status, the first header of an answer."""
    first = payload[SIZE_UPDATE.match(payload).end():]
    return next((status for code, status in STATUS.items() if first.startswith(code)), first[:16])


def test_requests_of_http_2_that_have_two_meanings_are_refused(make_node):
    node = make_node("clear")
    with Other(node, mib=16):
        for mistake, (headers, status) in TRANSLATED.items():
            with h2(node) as connection:
                connection.sendall(frame(HEADERS, END_HEADERS, 1, headers) + frame(DATA, END_STREAM, 1, BODY) +
                                   frame(PING, 0, 0, b"the last"))
                data = b""
                while not any(kind == PING and payload == b"the last" for kind, payload in split(data)):
                    piece = connection.recv(1 << 16)
                    if not piece:
                        break
                    data += piece
                frames = split(data)
            got = [status_of(payload) for kind, payload in frames if kind == HEADERS]
            ends = any(kind in (RST_STREAM, GOAWAY) for kind, _ in frames)
            assert got == ([] if status is None else [status]) and (status is not None or ends), (mistake, frames)
    assert not node.show("smuggled").json["held"]


# --- peers -------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_the_peer_port_gives_nothing_to_those_who_do_not_greet(make_node, way):
    """Silent ones, half frames, and frames whose length is huge. All are closed; a greeting has 2 s, a handshake 5 s."""
    node = make_node(way)
    first = [b"", b"\0\0", b"\xff" * 64, b"\x00\x00\x00\x04\x01", b"\x16\x03\x01\x02\x00\x01\x00\x01", b"GET / HTTP/1.1\r\n\r\n"]
    with Other(node, mib=32):
        for _ in range(3):
            several = [socket.create_connection(("127.0.0.1", node.peer_port), PATIENCE) for _ in range(150)]
            for i, connection in enumerate(several):
                try:
                    connection.sendall(first[i % len(first)])
                except CLOSED:
                    pass
            for connection in several:
                received(connection)
                connection.close()

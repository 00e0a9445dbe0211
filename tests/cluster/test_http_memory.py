"""Clients of HTTP/2 that request much and take nothing: all connections share one limit of memory
(connections-max-bytes), and the leader goes on leading."""

import re
import socket
import time

import pytest

from harness import PATIENCE, allowed, wait_until
from http2_frames import ENHANCE_YOUR_CALM, HEADERS, PREFACE, get, goaway_code, settings, split

CONNECTIONS = 40
STREAMS = 1000
LIMIT_MIB = 64
MIB = 1 << 20
STATUS_200 = 0x88  # of the static table; only a new size of the dynamic table (3 bytes) may precede it


class Taker:
    """Requests `path` on all streams, with a window of 0: no byte of a body can be sent to it."""

    def __init__(self, node, path):
        self.socket = socket.create_connection((node.client_host, node.client_port), PATIENCE)
        requests = b"".join(get(2 * i + 1, path) for i in range(STREAMS))
        try:
            self.socket.sendall(PREFACE + settings(window=0) + requests)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it was closed meanwhile

    def frames(self):
        """Kind and payload of the frames that were received, without waiting for more."""
        data = b""
        self.socket.setblocking(False)
        try:
            while piece := self.socket.recv(1 << 16):
                data += piece
        except (BlockingIOError, ConnectionResetError):
            pass
        return split(data)


def metric(node, name):
    text = node.request("GET", "/metrics").text
    return float(re.search(rf"^holdfast_{name} (\S+)$", text, re.M).group(1))


def peak_mib(node):
    with open(f"/proc/{node.process.pid}/status", encoding="ascii") as file:
        return int(re.search(r"VmHWM:\s+(\d+) kB", file.read()).group(1)) / 1024


@pytest.mark.parametrize("path", ["/openapi.yaml", "/metrics"])
def test_clients_that_take_nothing_neither_fill_the_memory_nor_change_the_leader(make_cluster, path):
    cluster = make_cluster(3, "--connections-max-bytes", f"{LIMIT_MIB}MiB")
    leader = cluster.leader()
    leader.acquire_surely("before")
    term, before = metric(leader, "term"), peak_mib(leader)
    slowest = 0
    takers = []
    for i in range(CONNECTIONS):
        takers.append(Taker(leader, path))
        begin = time.monotonic()
        leader.acquire_surely(f"during-{i}")
        slowest = max(slowest, time.monotonic() - begin)
    assert metric(leader, "client_connections_bytes") <= LIMIT_MIB * MIB
    grown = peak_mib(leader) - before
    closed = metric(leader, "client_connections_closed_total")
    print(f"{path}: {grown:.0f} MiB more at most, {closed:.0f} closed, slowest acquire {slowest * 1000:.0f} ms")
    # The limit, and as much again for what the allocator and the kernel's copies take.
    assert grown < 2 * LIMIT_MIB
    assert slowest < allowed(2)
    assert metric(leader, "term") == term and cluster.leader() is leader
    received = [taker.frames() for taker in takers]
    # The document itself is what waits for the window, not a short error. A connection that exceeds the limit
    # also answers some requests with 503 before it is closed: the larger the page the more, 11 % were seen.
    answers = [payload for frames in received for kind, payload in frames if kind == HEADERS]
    assert sum(STATUS_200 in payload[:4] for payload in answers) > 0.8 * len(answers) > 0
    if path == "/metrics":  # made anew for each request, so that 40 connections need far more
        assert closed > CONNECTIONS / 2
        assert any(goaway_code(frames) == ENHANCE_YOUR_CALM for frames in received)
        leader.wait_event("connections_over_memory")
    for taker in takers:
        taker.socket.close()
    wait_until(lambda: metric(leader, "client_connections_bytes") < MIB, "the memory was given back")

#!/usr/bin/python3
"""What idle sessions cost: opens N Session streams of gRPC, each on a connection of its own, keeps them
alive for a while, and prints one JSON object.

    bench/idle_sessions.py [--sessions 10000] [--seconds 30] [--nodes 5] [--ttl 30]

It starts a local cluster of its own (build/holdfast dev) and ends it. Memory is the resident set of all
nodes, before and after; CPU is what they used while the sessions did nothing but live. The client speaks
HTTP/2 by hand, so that ten thousand of it fit into one process."""

import argparse
import json
import os
import resource
import selectors
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "build" / "holdfast"


def frame(kind, flags, stream, payload):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def literal(name, value):
    """A header that is not indexed, without Huffman."""
    def text(word):
        assert len(word) < 127
        return bytes([len(word)]) + word.encode()
    return b"\0" + text(name) + text(value)


def message(payload):
    return frame(0, 0, 1, b"\0" + struct.pack(">I", len(payload)) + payload)


def field(number, payload):
    assert len(payload) < 128
    return bytes([number << 3 | 2, len(payload)]) + payload


# It begins with the new size of the table that the server requested.
HEAD = b"\x20" + b"".join(literal(*pair) for pair in [
    (":method", "POST"), (":scheme", "http"), (":path", "/holdfast.v1.LockService/Session"),
    (":authority", "bench"), ("content-type", "application/grpc"), ("te", "trailers")])


def opening(number, ttl):
    open_ = field(1, f"idle-{number}".encode()) + field(2, b"\x08" + bytes([ttl]))
    return (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"") + frame(4, 1, 0, b"")
            + frame(1, 4, 1, HEAD) + message(field(1, open_)))


KEEP_ALIVE = message(field(3, b"\x08\x01"))


class Session:
    def __init__(self, number, address, ttl):
        self.socket = socket.create_connection(address)
        self.socket.setblocking(False)
        self.heard = b""
        self.answers = 0
        self.socket.sendall(opening(number, ttl))

    def read(self):
        """Counts the messages that came."""
        data = self.socket.recv(4096)
        if not data:
            raise SystemExit("a connection was closed by the server")
        self.heard += data
        while len(self.heard) >= 9:
            size = int.from_bytes(self.heard[:3], "big")
            if len(self.heard) < 9 + size:
                return
            kind, flags = self.heard[3], self.heard[4]
            if kind in (3, 7) or (kind == 1 and flags & 1):
                raise SystemExit(f"a stream ended: {self.heard[:9 + size]}")
            self.answers += kind == 0
            self.heard = self.heard[9 + size:]


def resident_kib(pids):
    total = 0
    for pid in pids:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                total += int(line.split()[1])
    return total


def cpu_seconds(pids):
    """In user mode, and in the kernel."""
    user = system = 0
    for pid in pids:
        words = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        user, system = user + int(words[11]), system + int(words[12])
    tick = os.sysconf("SC_CLK_TCK")
    return user / tick, system / tick


def log_index(port):
    """How many entries the log has, by the newest event's number."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        for line in answer.read().decode().splitlines():
            if line.startswith("holdfast_log_applied_index"):
                return int(float(line.split()[-1]))
    return None


def listen(selector, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for key, _ in selector.select(max(0, min(0.05, end - time.monotonic()))):
            key.data.read()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sessions", type=int, default=10000)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--nodes", type=int, default=5)
    parser.add_argument("--ttl", type=int, default=30)
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (options.sessions + 1000,) * 2)
    with tempfile.TemporaryDirectory() as folder:
        base = 12000 + os.getpid() % 8000  # below the ports that the clients get
        dev = subprocess.Popen(
            [PROGRAM, "dev", "--nodes", str(options.nodes), "--dir", folder, "--base-port", str(base)],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            pids = []
            for line in dev.stdout:
                words = line.split()
                if "pid" in words:
                    pids.append(int(words[words.index("pid") + 1]))
                if line.startswith("ready"):
                    break
            assert len(pids) == options.nodes, "the cluster did not start"
            run(options, base, pids)
        finally:
            dev.send_signal(signal.SIGTERM)
            dev.wait()


def run(options, base, pids):
    time.sleep(2)
    before = resident_kib(pids)
    selector = selectors.DefaultSelector()
    sessions = []
    for number in range(options.sessions):
        port = base + 10 * (number % options.nodes)
        session = Session(number, ("127.0.0.1", port), options.ttl)
        selector.register(session.socket, selectors.EVENT_READ, session)
        sessions.append(session)
        if number % 200 == 0:
            listen(selector, 0.05)
    end = time.monotonic() + 60
    while any(session.answers == 0 for session in sessions) and time.monotonic() < end:
        listen(selector, 0.2)
    opened = sum(session.answers > 0 for session in sessions)
    every = options.ttl / 3
    pause = every / len(sessions)
    listen(selector, 2)
    after = resident_kib(pids)
    cpu, start, index = cpu_seconds(pids), time.monotonic(), log_index(base)
    count = sum(session.answers for session in sessions)
    turn = 0
    while time.monotonic() < start + options.seconds:
        due = int((time.monotonic() - start) / pause)
        while turn < due:
            sessions[turn % len(sessions)].socket.sendall(KEEP_ALIVE)
            turn += 1
        listen(selector, 0.01)
    seconds = time.monotonic() - start
    user, system = (now - then for now, then in zip(cpu_seconds(pids), cpu))
    last = log_index(base)
    listen(selector, 1)
    print(json.dumps({
        "sessions": options.sessions, "opened": opened, "nodes": options.nodes,
        "kib_per_session": round((after - before) / options.sessions, 2),
        "resident_before_kib": before, "resident_after_kib": after,
        "cpu_percent_of_a_core": round(100 * (user + system) / seconds, 2),
        "of_that_in_the_kernel": round(100 * system / seconds, 2),
        "entries_per_second": None if index is None else round((last - index) / seconds, 1),
        "keep_alives": turn, "answered": sum(session.answers for session in sessions) - count,
        "kib_at_the_end": resident_kib(pids)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())

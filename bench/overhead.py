#!/usr/bin/python3
"""What it costs to watch a cluster, in one interleaved run: `make bench-overhead`.

    bench/overhead.py [--rounds 7] [--seconds 5] [--nodes 5] [--clients 64] [--api grpc,http,resp] [--parts all|scrape,events,sink,dashboard]

Two clusters run at the same time, and `holdfast bench` measures them in turn, in the other direction in every second round:

  off   events-max-bytes = 0, no sink; nothing is read from it
  on    the event log and a file sink on every node, /metrics of each node scraped each second, and a dashboard: one event
        stream of all names and the leader's figures each second

Each ratio is the median of the ratios of the rounds (bench/tls.py has the details). The readers take part of the machine,
as they do in operation; the ratio of the CPU leaves theirs out. The aim is a loss of at most 3 % of the throughput."""

import argparse
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path

from harness import PROGRAM, check_aim, save
from tls import Nodes, compare

AIM = 0.97
SCRAPE_S = 1.0
MAX_RATE = 200  # events a second, as src/server/dashboard/events.js
PARTS = ("scrape", "events", "sink", "dashboard")


def settings():
    """The flags of this program."""
    return subprocess.run([PROGRAM, "serve", "--help"], capture_output=True, text=True, check=True).stdout


class Reader(threading.Thread):
    """Reads in the background until it is stopped, and counts the bytes."""

    def __init__(self):
        super().__init__(daemon=True)
        self.stopping = threading.Event()
        self.bytes = self.requests = 0

    def stop(self):
        self.stopping.set()
        self.join(10)


class Poller(Reader):
    """GET of one path of one node each second, over one connection."""

    def __init__(self, nodes, ident, path):
        super().__init__()
        self.socket = nodes.connect(ident)
        self.request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()

    def run(self):
        while not self.stopping.wait(SCRAPE_S):
            self.socket.sendall(self.request)
            head, _, body = self.receive().partition(b"\r\n\r\n")
            length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
            while len(body) < length:
                body += self.socket.recv(1 << 16)
            if b" 200 " not in head[:20]:
                raise SystemExit(f"bench: {self.request[:60]!r}: {head[:200]!r}")
            self.bytes += len(body)
            self.requests += 1
        self.socket.close()

    def receive(self):
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += self.socket.recv(1 << 16)
        return answer


class Stream(Reader):
    """The event stream of all names, as the page of events reads it."""

    def __init__(self, nodes, ident):
        super().__init__()
        self.socket = nodes.connect(ident)
        self.socket.sendall(b"GET /api/v1/watch?max_rate=%d HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n" % MAX_RATE)
        self.socket.settimeout(0.5)

    def run(self):
        while not self.stopping.is_set():
            try:
                piece = self.socket.recv(1 << 20)
            except TimeoutError:
                continue
            if not piece:
                raise SystemExit("bench: the event stream has ended; its reader is too slow")
            self.bytes += len(piece)
        self.socket.close()


class Watched:
    """Nodes that are read from while they are measured."""

    def __init__(self, nodes, parts):
        self.nodes, self.parts = nodes, parts
        self.bytes = {"scraped": 0, "streamed": 0}

    def __getattr__(self, name):
        return getattr(self.nodes, name)

    def bench(self, *flags):
        scrapers, pollers, streams = [], [], []
        if "scrape" in self.parts:
            scrapers = [Poller(self.nodes, i, "/metrics") for i in self.nodes.ports]
        if "dashboard" in self.parts:
            pollers = [Poller(self.nodes, 1, path) for path in ("/api/v1/stats", "/api/v1/cluster")]
            streams = [Stream(self.nodes, 1)]
        readers = scrapers + pollers + streams
        for reader in readers:
            reader.start()
        try:
            return self.nodes.bench(*flags)
        finally:
            for reader in readers:
                reader.stop()
            self.bytes["scraped"] += sum(reader.bytes for reader in scrapers)
            self.bytes["streamed"] += sum(reader.bytes for reader in streams)


def sink_file(folder, ident):
    """Each node has its own: two nodes must not write one file."""
    return folder / f"events-{ident}.jsonl"


def flags_of(parts, folder, known):
    """Of the nodes that are not watched, and of those that are; without what this program cannot do yet, which is said."""
    off, on = [], lambda ident: []
    if "events" in parts and "--events-max-bytes" in known:
        off += ["--events-max-bytes", "0"]
    if "sink" in parts and "--sink-file" in known:
        on = lambda ident: ["--sink-file", sink_file(folder, ident)]
    missing = [name for name, flag in (("events", "--events-max-bytes"), ("sink", "--sink-file")) if name in parts and flag not in known]
    if missing:
        print(f"bench: this program has no {' and no '.join(missing)}: not measured")
    return off, on, missing


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--nodes", type=int, default=5)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--api", type=lambda text: text.split(","), default=["grpc"])
    parser.add_argument("--parts", type=lambda text: PARTS if text == "all" else tuple(text.split(",")), default=PARTS)
    options = parser.parse_args()
    if set(options.parts) - set(PARTS):
        parser.error(f"the parts are {', '.join(PARTS)}")
    folder = Path(tempfile.mkdtemp(prefix="holdfast-bench-"))
    off_flags, on_flags, missing = flags_of(options.parts, folder, settings())
    has_sink = "sink" in options.parts and "sink" not in missing
    off = Nodes(folder / "off", options.nodes, flags=off_flags)
    on = Nodes(folder / "on", options.nodes, flags=on_flags)
    try:
        watched = Watched(on, options.parts)
        off.wait_ready()
        on.wait_ready()
        rows = [compare("watched", [off, watched], options, api) for api in options.api]
        delivered = sum(sink_file(folder, i).stat().st_size for i in on.ports) if has_sink else 0
    finally:
        off.stop()
        on.stop()
        shutil.rmtree(folder, ignore_errors=True)
    print(f"read: {watched.bytes['scraped']:,} bytes of metrics, {watched.bytes['streamed']:,} of the event stream; the sink has {delivered:,} bytes")
    if has_sink and delivered == 0:
        raise SystemExit("bench: the sink delivered nothing, so this is no measurement of it")
    aims = [check_aim(f"watched, {row['api']}: of not watched", row["ratio"], AIM) for row in rows]
    print(f"results: {save('overhead', {'rows': rows, 'parts': options.parts, 'missing': missing, 'read': watched.bytes, 'sink_bytes': delivered, 'aims': aims})}")


if __name__ == "__main__":
    main()

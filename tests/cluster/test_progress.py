"""The line about work that takes longer than two seconds: on a terminal, and nowhere else."""

import http.server
import os
import pty
import re
import select
import subprocess
import threading
import time

import pytest

from cli_support import endpoints
from harness import PATIENCE, PROGRAM, SANITIZED, environment, free_base, free_ports, need_terminal, run
from slow_disk import SHIM, SlowDisk

LINE = "\r\x1b[K"


class OnTerminal:
    """A run of the program whose stderr is a terminal. `seen` is what it printed there."""

    def __init__(self, *arguments, env=None):
        need_terminal()
        self.fd, theirs = pty.openpty()
        self.seen = ""
        self.process = subprocess.Popen([str(word) for word in (PROGRAM, *arguments)], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=theirs, env=env or environment(), text=True)
        os.close(theirs)

    def read_until(self, pattern):
        end = time.monotonic() + PATIENCE
        while not re.search(pattern, self.seen):
            left = end - time.monotonic()
            assert left > 0 and select.select([self.fd], [], [], left)[0], f"{pattern!r} did not come: {self.seen!r}"
            try:
                self.seen += os.read(self.fd, 4096).decode(errors="replace")
            except OSError:
                raise AssertionError(f"the end came before {pattern!r}: {self.seen!r}") from None

    def finish(self):
        """The exit code and stdout; the rest of stderr is in `seen`."""
        reader = threading.Thread(target=self.read_rest)
        reader.start()
        output = self.process.communicate(timeout=PATIENCE)[0]
        reader.join()
        os.close(self.fd)
        return self.process.returncode, output

    def read_rest(self):
        try:
            while piece := os.read(self.fd, 4096):
                self.seen += piece.decode(errors="replace")
        except OSError:  # its other end is closed
            pass

    @property
    def lines(self):
        """What stood on the rewritten line, one after the other."""
        return [text for text in self.seen.split(LINE) if text]

    def check_removed(self, rest=""):
        """Nothing of the line is left; `rest` follows it."""
        assert self.seen.endswith(LINE + rest), self.seen[-300:]


def test_bench_shows_phase_percent_and_rate(make_cluster):
    cluster = make_cluster(1)
    command = ("bench", "--clients", 4, "--seconds", 4, "--warmup", 1, "--endpoints", endpoints(cluster))
    t = OnTerminal(*command)
    t.read_until(r"measuring:  \d\d %  \d of 4 s  \d+ cycles/s, acquire p50")
    code, output = t.finish()
    assert code == 0 and "\x1b" not in output
    t.check_removed()
    quiet = OnTerminal(*command, "--json")
    assert quiet.finish()[0] == 0 and quiet.seen == ""
    assert run(*command, timeout=60).stderr == ""


def test_short_work_shows_nothing(make_cluster, tmp_path):
    t = OnTerminal("snapshot", "save", tmp_path / "backup", "--endpoints", endpoints(make_cluster(1)))
    code, output = t.finish()
    assert code == 0 and output.startswith(f"saved {tmp_path}/backup: index ")
    assert t.seen == "" or "waiting for the snapshot" in t.seen  # a machine this busy


class SlowServer:
    """Sends a file as /api/v1/snapshot: nothing for a while, then slowly."""

    def __init__(self, data, wait, pieces):
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                outer.gate.wait(wait)
                self.send_response(200)
                self.send_header("Content-Type", "application/octet-stream")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                step = -(-len(data) // pieces)
                for at in range(0, len(data), step):
                    self.wfile.write(data[at:at + step])
                    self.wfile.flush()
                    outer.gate.wait(0.5)

            def log_message(self, *_):
                pass

        self.gate = threading.Event()
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def __enter__(self):
        return f"127.0.0.1:{self.server.server_port}"

    def __exit__(self, *_):
        self.gate.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def test_a_snapshot_shows_that_it_waits_and_then_percent_rate_and_time_left(make_cluster, tmp_path):
    node = make_cluster(1).nodes[1]
    for i in range(20):
        node.acquire(f"n/{i}", metadata={"x": "y" * 3000})
    assert run("snapshot", "save", tmp_path / "backup", "--endpoints", endpoints([node])).returncode == 0
    with SlowServer((tmp_path / "backup").read_bytes(), 2.6, 8) as address:
        t = OnTerminal("snapshot", "save", tmp_path / "again", "--endpoints", address)
        t.read_until(r"waiting for the snapshot: 2s")
        t.read_until(r"saving the snapshot:  \d\d %  [\d.]+ of [\d.]+ KiB  [\d.]+ KiB/s  \ds left")
        code, _ = t.finish()
    assert code == 0 and (tmp_path / "again").read_bytes() == (tmp_path / "backup").read_bytes()
    t.check_removed()
    percents = [int(p) for p in re.findall(r" (\d+) %", t.seen)]
    assert percents == sorted(percents) and percents[-1] <= 100


def test_a_new_member_that_does_not_answer_is_waited_for(make_cluster):
    cluster = make_cluster(1)
    peer = free_ports(1)[0]
    t = OnTerminal("member", "add", 4, f"127.0.0.1:{peer}", "--wait", "3s", "--endpoints", endpoints(cluster))
    t.read_until("node 4 (not reachable yet|being added): 2s")
    code, _ = t.finish()
    assert code == 1
    assert re.search(re.escape(LINE) + r"holdfast: the change has started and is not in effect", t.seen), t.seen
    done = run("member", "remove", 4, "--endpoints", endpoints(cluster))
    assert done.returncode == 0 and done.stderr == ""


@pytest.fixture
def slow_reads(make_cluster):
    """A stopped node whose disk reads slowly while `slow.read` exists."""
    cluster = make_cluster(1, start=False)
    disk = SlowDisk(cluster)
    cluster.start()
    node = cluster.nodes[1]
    for i in range(50):
        node.acquire(f"n/{i}", ttl_ms=600000, metadata={"x": "y" * 3000})
    node.take_snapshot()
    for i in range(50):
        node.acquire(f"m/{i}", ttl_ms=600000, metadata={"x": "y" * 3000})
    assert node.stop() == 0
    mark = node.folder.with_suffix(".read")
    mark.touch()
    yield node
    mark.unlink()
    disk.end()


@pytest.mark.long
def test_recover_restore_and_a_start_show_what_they_read(slow_reads, tmp_path):
    node = slow_reads
    env = environment(**node.env)
    reading = r"reading the (snapshot|log):"
    t = OnTerminal("recover", "--data", node.folder, "--id", 1, env=env)
    t.read_until(reading)
    code, output = t.finish()
    assert code == 0 and "held by test" in output and LINE in t.seen
    file = max(node.folder.glob("snapshot-*[0-9]"))
    t = OnTerminal("snapshot", "inspect", file, env=env)
    t.read_until("reading the snapshot:")
    assert t.finish()[0] == 0
    t.check_removed()
    t = OnTerminal("snapshot", "inspect", "--json", file, env=env)
    assert t.finish()[0] == 0 and t.seen == ""
    t = OnTerminal("serve", "--id", 1, "--data", node.folder, "--client", node.client, "--peer", node.peer, "--resp", "off",
                   env=env)
    try:
        t.read_until(reading)
        t.read_until('"event":"loaded"')
    finally:
        t.process.terminate()
        t.finish()
    assert re.search(re.escape(LINE) + r'\{[^\r\n]*"event":"loaded"', t.seen), t.seen


@pytest.mark.long
def test_dev_shows_how_many_nodes_are_ready(tmp_path):
    if SANITIZED or not SHIM.exists():
        pytest.skip("needs a slow disk")
    command = ("dev", "--nodes", 3, "--base-port", free_base(3), "--dir", tmp_path / "dev")
    env = environment(LD_PRELOAD=SHIM, BAD_DISK=tmp_path / "disk")
    for is_slow in (False, True):  # a first start reads nothing
        if is_slow:
            (tmp_path / "disk.read").touch()
        t = OnTerminal(*command, env=env)
        try:
            if is_slow:
                t.read_until(r"starting: +\d+ %  \d of 3 nodes are ready")
                (tmp_path / "disk.read").unlink()
            while "ready" not in (line := t.process.stdout.readline()):
                assert line, t.seen
        finally:
            t.process.terminate()
            t.finish()
    t.check_removed()

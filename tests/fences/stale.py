"""The scenario that a fence exists for, with real processes:

  1. A client acquires a lock, checks that it holds it, and is stopped (SIGSTOP) directly before its write.
  2. Its TTL passes. Another client acquires the lock and writes.
  3. The first client continues and writes with its old token: twice, to a place without a fence and to one with it.

The write without a fence must succeed: this shows that the writer was stale and did write. The one with a fence must be refused."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path

import harness

WRITER = Path(__file__).with_name("writer.py")
TTL_S = 1.2


class Writer:
    """One process of writer.py, or of another program with the same arguments and lines."""

    def __init__(self, cluster, lock, value, command):
        endpoints = ",".join(node.client for node in cluster)
        self.process = subprocess.Popen(harness.dies_with_us([*command, endpoints, lock, TTL_S, value]), env=harness.environment(),
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.lines = queue.Queue()
        threading.Thread(target=self.listen, daemon=True).start()
        self.token = None

    def listen(self):
        for line in self.process.stdout:
            self.lines.put(line.strip())
        self.lines.put("ended")

    def line(self):
        return self.lines.get(timeout=harness.PATIENCE)

    def wait_held(self):
        word, token = self.line().split()
        assert word == "held"
        self.token = int(token)
        return self

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)
        harness.wait_until(self.is_stopped, "the process is stopped")

    def is_stopped(self):
        return Path(f"/proc/{self.process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "T"

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def order_write(self):
        self.process.stdin.write("write\n")
        self.process.stdin.flush()

    def write(self):
        self.order_write()
        return self.line()

    def end(self):
        """It closes its session, so that the next test need not wait for its TTL."""
        self.resume()
        self.process.stdin.close()
        try:
            self.process.wait(harness.PATIENCE)
        finally:
            self.process.kill()


class Scenario:
    def __init__(self, cluster):
        self.cluster = cluster
        self.writers = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for writer in self.writers:
            writer.end()

    def writer(self, lock, value, command):
        self.writers.append(Writer(self.cluster, lock, value, command))
        return self.writers[-1]

    def run(self, lock, store, config, read_bare, read, **more):
        """`store` is the name of a class of stores.py, `config` its argument; the functions read the two places. Returns the refusal."""
        return self.run_programs(lock, [sys.executable, str(WRITER), store, json.dumps(config)], read_bare, read, **more)

    def run_programs(self, lock, command, read_bare, read, names_tokens=True):
        first = self.writer(lock, "first", command).wait_held()
        first.stop()
        second = self.writer(lock, "second", command).wait_held()
        assert second.token > first.token
        assert second.write() == "written"
        assert (read_bare(), read()) == ("second", "second")
        first.order_write()
        first.resume()
        refusal = first.line()
        assert read_bare() == "first", "the writer was not stale, or did not write: the test shows nothing"
        assert refusal.startswith("refused "), refusal
        assert not names_tokens or str(first.token) in refusal and str(second.token) in refusal, refusal
        assert read() == "second"
        assert second.write() == "written", "the holder of the newest token is not refused"
        assert os.waitpid(first.process.pid, os.WNOHANG) == (0, 0), "the refused writer lives on"
        return refusal

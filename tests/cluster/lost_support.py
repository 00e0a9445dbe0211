"""A command whose lock is lost, and the next holder. The order is shown by the command's own last write and by
the event of the next grant, both on this machine's wall clock. The command is as bad as can be: it ignores
TERM and writes all the time."""

import datetime
import signal
import subprocess
import sys
import threading

import pytest

from cli_support import Watcher, endpoints
from harness import PATIENCE, PROGRAM, environment, wait_until

TTL = 2.0
GRACE = 0.4  # from TERM to KILL

WRITER = """
import signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
with open(sys.argv[1], "a", buffering=1) as out:
    while True:
        out.write(f"{time.time():.6f}\\n")
        time.sleep(0.002)
"""


def first_child(pid):
    """The oldest; a guard may have orphans of its command as well."""
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return int(file.read().split()[0])


class LostScenario:
    """A holder with its writer, one who waits for the same name, and all events."""

    def __init__(self, cluster, folder, reach=None, flags=(), command=None, user=()):
        self.cluster = cluster
        self.node = cluster.nodes[1]
        self.file = folder / "writes"
        self.watcher = Watcher([self.node], "prize")
        self.holder = subprocess.Popen(
            [*user, PROGRAM, "lock", "--ttl", str(TTL), "--kill-after", str(GRACE), *flags, "prize", "--",
             *(command or [sys.executable, "-c", WRITER]), self.file],
            env=environment(HOLDFAST_ENDPOINTS=reach or endpoints(cluster)),
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        wait_until(lambda: self.file.exists() and self.file.stat().st_size > 100, "the command writes")
        self.next = threading.Thread(target=self.wait)
        self.answer = None
        self.next.start()
        wait_until(lambda: self.node.show("prize").json["queue_length"] == 1, "the next one waits")

    def wait(self):
        self.answer = self.node.acquire("prize", client="next", wait_timeout_ms=120000, ttl_ms=60000)

    def standby(self):
        """The pid of the wrapper's only child."""
        return first_child(self.holder.pid)

    def guard(self):
        """The pid of the standby's only child, which is the command's parent."""
        return first_child(self.standby())

    def end(self, code):
        """The writer was dead before the next one was granted; the wrapper said so. Returns the seconds between
        its last write and that grant, at most: the event's time is two sums of whole milliseconds, cut off."""
        self.next.join()
        assert self.answer.json["acquired"], self.answer
        last = float(self.file.read_text().split()[-1])
        granted = wait_until(lambda: [e["at"] for e in self.watcher.named("granted")
                                      if e["client_id"] == "next"], "the event of the next grant")
        at = datetime.datetime.fromisoformat(granted[0].replace("Z", "+00:00")).timestamp()
        assert last < at, f"the command wrote {last - at:.3f} s after the next grant"
        size = self.file.stat().st_size
        if code is not None:
            said = self.holder.communicate(timeout=PATIENCE)[1]
            assert self.holder.returncode == code, said
            if code == 79:
                assert "prize was lost (" in said
        assert self.file.stat().st_size == size, "nobody writes any more"
        return at + 0.002 - last

    def close(self):
        if self.holder.poll() is None:
            self.holder.send_signal(signal.SIGCONT)
            self.holder.kill()
            self.holder.wait()
        self.holder.stderr.close()
        self.watcher.close()


@pytest.fixture
def scenario(make_cluster, tmp_path):
    scenarios = []

    def make(cluster=None, **options):
        scenarios.append(LostScenario(cluster or make_cluster(3), **{"folder": tmp_path, **options}))
        return scenarios[-1]

    yield make
    for one in scenarios:
        one.close()

"""`holdfast dev --chaos`: real nodes are killed and stopped, and locks outlive it."""

import os
import re
import signal
import subprocess
import threading

import pytest

from harness import PATIENCE, PROGRAM, environment, free_base, run, wait_until
from test_dev import dev, is_alive, pids, read_until_ready  # noqa: F401  (a fixture)

FAULT = re.compile(r"node (\d) (was killed|is stopped|is ready again|continues)")
QUICK = ("--chaos", "--chaos-interval", "1s", "--restart-after", "100ms")


class States:
    """Collects the states of the present processes; a stop may be shorter than the time until its line is read."""

    def __init__(self, process_ids):
        self.process_ids = process_ids
        self.seen = set()
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.collect)

    def collect(self):
        while not self.over.wait(0.02):
            for pid in list(self.process_ids.values()):
                try:
                    with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
                        self.seen.add(stat.read().split(") ")[1][0])
                except OSError:
                    pass  # it was killed

    def __enter__(self):
        self.thread.start()
        return self.seen

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


def follow(process):
    """(node, what) of each line about a fault or a recovery."""
    for line in process.stdout:
        found = FAULT.match(line)
        if found:
            yield int(found[1]), found[2], line
    raise AssertionError(process.stderr.read())


def test_locks_outlive_the_faults_and_a_majority_serves(dev):  # noqa: F811
    base = free_base(3)
    process = dev(3, base, *QUICK, "--chaos-seed", "5")
    process_ids = dict(enumerate(pids(read_until_ready(process)), 1))
    reach = ",".join(f"127.0.0.1:{base + 10 * i}" for i in range(3))
    holder = subprocess.Popen([PROGRAM, "lock", "--ttl", "30s", "job", "--", "cat"], stdin=subprocess.PIPE,
                              env=environment(HOLDFAST_ENDPOINTS=reach))
    away, seen = {}, {"was killed": 0, "is stopped": 0}
    with States(process_ids) as states:
        for node, what, line in follow(process):
            if what in seen:
                assert not away, f"{line} while {away}"
                away[node] = what
                seen[what] += 1
            else:
                assert away.pop(node) == {"is ready again": "was killed", "continues": "is stopped"}[what], line
            if what == "is ready again":
                new = int(line.split(" pid ")[1])
                assert new != process_ids[node] and is_alive(new) and not is_alive(process_ids[node])
                process_ids[node] = new
            if min(seen.values()) >= 2 and not away:
                break
    assert "T" in states
    assert holder.poll() is None
    holder.stdin.close()
    assert holder.wait(PATIENCE) == 0, "the lock was never lost"
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 0


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 0), (signal.SIGKILL, -9)])
def test_a_stopped_node_ends_with_the_others(dev, number, code):  # noqa: F811
    """dies_with_us of the fixture is setpriv, which becomes `holdfast dev`."""
    process = dev(3, free_base(3), *QUICK, "--chaos-seed", "1")
    nodes = pids(read_until_ready(process))
    next(node for node, what, _ in follow(process) if what == "is stopped")
    process.send_signal(number)
    assert process.wait(PATIENCE) == code
    wait_until(lambda: not any(is_alive(pid) for pid in nodes), "all nodes have ended")


def test_the_seed_is_printed_and_gives_the_same_faults(dev):  # noqa: F811
    def faults(process, count):
        found = []
        for node, what, line in follow(process):
            if what in ("was killed", "is stopped"):
                found.append((node, what, line.split(" for ")[-1] if what == "is stopped" else None))
            if len(found) == count:
                process.send_signal(signal.SIGINT)
                assert process.wait(PATIENCE) == 0
                return found
        raise AssertionError

    first = dev(3, free_base(3), *QUICK, folder="one")
    read_until_ready(first)
    said = next(line for line in first.stdout if line.startswith("chaos"))
    seed = re.fullmatch(r"chaos  seed (\d+): a node is killed or stopped every 1\.0 s on average, at most 1 of 3 at once\n",
                        said)[1]
    second = dev(3, free_base(3), *QUICK, "--chaos-seed", seed, folder="two")
    assert faults(first, 3) == faults(second, 3)


@pytest.mark.parametrize("flags, problem", [
    (["--chaos", "--nodes", "2"], "at least 3 nodes"), (["--chaos", "--no-restart"], "exclude each other"),
    (["--chaos-seed", "3"], "need --chaos"), (["--chaos-interval", "5s"], "need --chaos"),
    (["--chaos", "--chaos-interval", "10ms"], "--chaos-interval"), (["--chaos", "--chaos-seed", "-1"], "--chaos-seed")])
def test_flags_that_do_not_fit(tmp_path, flags, problem):
    done = run("dev", "--dir", tmp_path / "none", *flags)
    assert done.returncode == 64 and problem in done.stderr, done
    assert not os.path.exists(tmp_path / "none")

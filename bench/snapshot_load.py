#!/usr/bin/python3
"""What a snapshot does to requests: many locks are held, cycles run at half of what the cluster can do, and
each acquire is put beside the times in which a node took a snapshot.

    bench/snapshot_load.py [--held 500000] [--nodes 5] [--seconds 60] [--rate R]

The rate is that of the cycles that are begun, and latency counts from when one was due: a stall is seen by
all who would have sent a request meanwhile. Snapshots come when the log has grown enough, as always; the run goes on
until the leader has taken one, at most ten times --seconds."""

import argparse
import csv
import datetime
import subprocess
import threading
import time

from harness import PROGRAM, Cluster, save

AIM_STALL_MS = 20
AIM_P99_RATIO = 2
CLIENTS = 64
MARGIN_US = 5000  # around a snapshot: its fork is before the line that tells of it


def wall_us(event):
    stamp = datetime.datetime.fromisoformat(event["time"].replace("Z", "+00:00"))
    return int(stamp.timestamp() * 1e6)


def snapshots_of(cluster, node):
    """(from, to, fork_us, bytes) of each snapshot that was taken."""
    found = []
    started = None
    for event in cluster.events(node, "snapshot_started", "snapshot_taken", "snapshot_failed"):
        if event["event"] == "snapshot_started":
            started = event
        elif event["event"] == "snapshot_taken" and started is not None:
            found.append((wall_us(started) - started["fork_us"] - MARGIN_US,
                          wall_us(event) + MARGIN_US, started["fork_us"], event["bytes"]))
    return found


def summary(values):
    values = sorted(values)
    if not values:
        return None
    at = lambda share: values[min(len(values) - 1, int(len(values) * share))] / 1000
    return {"acquires": len(values), "p50_ms": at(0.5), "p99_ms": at(0.99), "p999_ms": at(0.999),
            "max_ms": values[-1] / 1000}


def read_samples(path):
    with open(path, newline="", encoding="ascii") as file:
        rows = csv.reader(file)
        next(rows)
        return [(int(began), float(took)) for began, took in rows]


def split(samples, windows):
    """Those that were under way while one of the windows was open, and the others."""
    windows = sorted(windows)
    inside, outside = [], []
    for began, took in samples:
        hit = any(start <= began + took and began <= end for start, end, *_ in windows)
        (inside if hit else outside).append(took)
    return inside, outside


def longest_elsewhere(samples, windows, excluded):
    """The longest acquire of each time as long as those windows in which no node took a snapshot: what the
    machine does by itself. Sorted."""
    length = max(end - start for start, end, *_ in windows)
    longest = {}
    for began, took in samples:
        slot = began // length
        longest[slot] = max(longest.get(slot, 0), took)
    return sorted(took for slot, took in longest.items()
                  if not any(start <= (slot + 1) * length and slot * length <= end
                             for start, end, *_ in excluded))


class Memory(threading.Thread):
    """The leader's resident memory, twice a second."""

    def __init__(self, cluster):
        super().__init__(daemon=True)
        self.cluster, self.over, self.mib = cluster, threading.Event(), []

    def run(self):
        while not self.over.wait(0.5):
            self.mib.append(self.cluster.memory_mib(self.cluster.leader)[0])


def load(cluster, options, rate, samples):
    """Runs the load until the leader has taken a snapshot while cycles ran."""
    command = [PROGRAM, "bench", "--endpoints", cluster.endpoints, "--clients", str(CLIENTS), "--api", "http",
               "--rate", str(rate), "--held", str(options.held), "--warmup", "2",
               "--seconds", str(options.seconds * 10), "--samples", str(samples), "--json"]
    began = time.time()
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True)
    memory = Memory(cluster)
    memory.start()
    try:
        filled = None
        while process.poll() is None:
            time.sleep(0.5)
            if filled is None and cluster.locks() >= options.held:
                filled = time.time() + 2
                print(f"{options.held} locks are held after {filled - 2 - began:.0f} s", flush=True)
            if filled is not None and time.time() - filled >= options.seconds:
                taken = [s for s in snapshots_of(cluster, cluster.leader) if s[0] > filled * 1e6]
                # A little longer, so that there is an after.
                if taken and time.time() * 1e6 - taken[0][1] > 3e6:
                    process.send_signal(2)
                    break
        memory.over.set()
        output, _ = process.communicate(timeout=120)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    if process.returncode != 0:
        raise SystemExit("bench: holdfast bench failed")
    return output, memory.mib


def report(name, figures):
    if figures is None:
        print(f"  {name:<34} none")
    else:
        print(f"  {name:<34} {figures['acquires']:>8} {figures['p50_ms']:>8.2f} {figures['p99_ms']:>8.2f} "
              f"{figures['p999_ms']:>8.2f} {figures['max_ms']:>8.2f}")


def main():
    parser = argparse.ArgumentParser(description="what a snapshot does to requests")
    parser.add_argument("--held", type=int, default=500000)
    parser.add_argument("--nodes", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rate", type=int, help="cycles a second (default: half of the peak)")
    options = parser.parse_args()

    with Cluster(options.nodes) as cluster:
        rate = options.rate
        if rate is None:
            peak = cluster.bench("--clients", CLIENTS, "--api", "http", "--seconds", 5)["cycles_per_second"]
            rate = int(peak / 2)
            print(f"peak {peak:.0f} cycles/s, so {rate} are begun each second", flush=True)
        samples = cluster.folder / "samples.csv"
        _, memory = load(cluster, options, rate, samples)
        acquires = read_samples(samples)
        taken = {node: snapshots_of(cluster, node) for node in cluster.pids}

    first, last = acquires[0][0], acquires[-1][0]
    taken = {node: [s for s in all if s[1] > first and s[0] < last] for node, all in taken.items()}
    everywhere = [window for all in taken.values() for window in all]
    by_leader, _ = split(acquires, taken[cluster.leader])
    by_any, without = split(acquires, everywhere)
    figures = {"rate": rate, "held": options.held, "leader_rss_mib": max(memory, default=0),
               "leader_snapshots": [{"fork_us": s[2], "bytes": s[3], "ms": (s[1] - s[0]) / 1000}
                                    for s in taken[cluster.leader]],
               "without": summary(without), "leader_takes_one": summary(by_leader),
               "any_takes_one": summary(by_any)}
    print(f"leader: {figures['leader_rss_mib']:.0f} MiB resident with {options.held} locks")
    for s in figures["leader_snapshots"]:
        print(f"leader's snapshot: {s['bytes'] / 1e6:.0f} MB in {s['ms']:.0f} ms, fork {s['fork_us'] / 1000:.1f} ms")
    print(f"  {'ms':<34} {'acquires':>8} {'p50':>8} {'p99':>8} {'p99.9':>8} {'max':>8}")
    report("no snapshot", figures["without"])
    report("while the leader takes one", figures["leader_takes_one"])
    report("while any node takes one", figures["any_takes_one"])
    if figures["without"] and figures["leader_takes_one"]:
        ratio = figures["leader_takes_one"]["p99_ms"] / figures["without"]["p99_ms"]
        stall = figures["leader_takes_one"]["max_ms"]
        print(f"p99 {ratio:.2f} times (aim {AIM_P99_RATIO}), longest {stall:.1f} ms (aim {AIM_STALL_MS})")
        others = longest_elsewhere(acquires, taken[cluster.leader], everywhere)
        if others:
            figures["longest_elsewhere_ms"] = {"median": others[len(others) // 2] / 1000,
                                               "worst": others[-1] / 1000, "times": len(others)}
            print(f"longest in equally long times without one: median {others[len(others) // 2] / 1000:.1f} ms, "
                  f"worst {others[-1] / 1000:.1f} ms, of {len(others)}")
    print(f"results: {save('snapshot_load', figures)}")


if __name__ == "__main__":
    main()

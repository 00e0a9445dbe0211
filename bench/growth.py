#!/usr/bin/python3
"""Whether size makes it slower: many locks, many waiters, many connections, and the memory that they take.

    bench/growth.py [--only locks,waiters,connections,memory] [--rounds 3] [--seconds 5] [--nodes 5] [--settle 10]
                 [--locks 1000000] [--waiters 100000] [--connections 10000] [--held 500000]

  locks        cycles/s beside so many live locks, against 1,000; a cluster of its own for each, in turns
  waiters      how fast one lock is handed over while so many wait for it, against 64
  connections  so many clients, each on a connection of its own
  memory       the leader's resident memory with so many locks in sessions of 500

Some minutes; smaller figures make it short."""

import argparse
import subprocess
import time
from statistics import median

from harness import PROGRAM, Cluster, check_aim, save

AIM_GROWTH = 0.9
AIM_MEMORY_MB = 186
FEW_LOCKS, FEW_WAITERS = 1000, 64
PER_CONNECTION = 400  # a waiting client takes two streams, of 1,024


def report_errors(run):
    if run["errors"]:
        print(f"  {run['errors']} errors: {run['errors_by_code']}", flush=True)
    return run


def locks(options):
    found = {FEW_LOCKS: [], options.locks: []}
    for number in range(options.rounds):
        order = (FEW_LOCKS, options.locks) if number % 2 == 0 else (options.locks, FEW_LOCKS)
        for held in order:
            with Cluster(options.nodes) as cluster:
                run = report_errors(cluster.bench("--clients", 64, "--held", held, "--seconds", options.seconds, "--warmup", options.settle))
            found[held].append(run["cycles_per_second"])
            print(f"  {held} locks: {run['cycles_per_second']:.0f} cycles/s, acquire p50 {run['acquire_us']['p50'] / 1e3:.2f} ms, "
                  f"p99 {run['acquire_us']['p99'] / 1e3:.2f} ms", flush=True)
    share = median(found[options.locks]) / median(found[FEW_LOCKS])
    return {"cycles_per_second": found}, [check_aim(f"cycles/s beside {options.locks:,} locks / beside {FEW_LOCKS:,}", share, AIM_GROWTH)]


def waiters(options):
    found = {FEW_WAITERS: [], options.waiters: []}
    for number in range(options.rounds):
        order = (FEW_WAITERS, options.waiters) if number % 2 == 0 else (options.waiters, FEW_WAITERS)
        for clients in order:
            connections = max(1, -(-clients // PER_CONNECTION)) if clients > FEW_WAITERS else clients
            # All of them have to be in the queue before it counts.
            warmup = 1 + clients / 4000
            with Cluster(options.nodes) as cluster:
                run = report_errors(cluster.bench("--contended", "--clients", clients, "--connections", connections,
                                                  "--seconds", options.seconds, "--warmup", warmup))
            found[clients].append({"per_second": run["cycles_per_second"], "p50_ms": run["handover_us"]["p50"] / 1e3,
                                   "p99_ms": run["handover_us"]["p99"] / 1e3})
            print(f"  {clients} want one lock: {run['cycles_per_second']:.0f} hand-overs/s, p50 {run['handover_us']['p50'] / 1e3:.2f} ms, "
                  f"p99 {run['handover_us']['p99'] / 1e3:.2f} ms", flush=True)
    few, many = (median(r["p50_ms"] for r in found[c]) for c in (FEW_WAITERS, options.waiters))
    return {"handovers": found}, [check_aim(f"hand-over p50 with {FEW_WAITERS} wanting it / with {options.waiters:,}", few / many, AIM_GROWTH)]


def connections(options):
    with Cluster(options.nodes) as cluster:
        run = report_errors(cluster.bench("--clients", options.connections, "--seconds", options.seconds, "--warmup", 3))
    print(f"  {options.connections} connections: {run['cycles_per_second']:.0f} cycles/s, acquire p50 {run['acquire_us']['p50'] / 1e3:.1f} ms, "
          f"p99 {run['acquire_us']['p99'] / 1e3:.1f} ms", flush=True)
    figures = {"cycles_per_second": run["cycles_per_second"], "acquire_us": run["acquire_us"], "reconnects": run["reconnects"]}
    return figures, [check_aim(f"{options.connections:,} connections: errors and lost connections", run["errors"] + run["reconnects"], 0, at_most=True)]


def memory(options):
    """A client beside them goes on cycling, so the leader works; its memory is read while they are held."""
    seconds = max(1.0, options.seconds)
    with Cluster(options.nodes) as cluster:
        before = cluster.memory_mib(cluster.leader)[0]
        load = subprocess.Popen([PROGRAM, "bench", "--endpoints", cluster.endpoints, "--clients", "64", "--held", str(options.held),
                                 "--rate", "100", "--seconds", str(seconds), "--warmup", "1", "--json"], stdout=subprocess.PIPE, text=True)
        now = 0.0
        try:
            while load.poll() is None:
                if cluster.locks() >= options.held:
                    now = max(now, cluster.memory_mib(cluster.leader)[0])
                time.sleep(0.2)
        finally:
            if load.poll() is None:
                load.kill()
            load.communicate()
        most = cluster.memory_mib(cluster.leader)[1]
    if load.returncode != 0 or now == 0:
        raise SystemExit("bench: the locks could not be held")
    sessions = -(-options.held // 500)
    mb = now * 1.048576
    print(f"  leader: {before * 1.048576:.0f} MB empty; the most so far, filling included, {most * 1.048576:.0f} MB", flush=True)
    return ({"empty_mb": before * 1.048576, "held_mb": mb, "most_mb": most * 1.048576},
            [check_aim(f"leader's resident memory with {options.held:,} locks in {sessions:,} sessions", mb, AIM_MEMORY_MB, " MB", at_most=True)])


PARTS = {"locks": locks, "waiters": waiters, "connections": connections, "memory": memory}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--nodes", type=int, default=5)
    parser.add_argument("--settle", type=float, default=10, help="seconds after the locks are taken, for snapshots and the disk")
    parser.add_argument("--locks", type=int, default=1000000)
    parser.add_argument("--waiters", type=int, default=100000)
    parser.add_argument("--connections", type=int, default=10000)
    parser.add_argument("--held", type=int, default=500000)
    options = parser.parse_args()
    figures, aims = {}, []
    for name in options.only.split(","):
        if name not in PARTS:
            parser.error(f"there is no {name}; there are {', '.join(PARTS)}")
        print(name, flush=True)
        figures[name], checked = PARTS[name](options)
        aims += checked
    print(f"results: {save('growth', {'figures': figures, 'aims': aims})}")


if __name__ == "__main__":
    main()

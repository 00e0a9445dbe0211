#!/usr/bin/python3
"""How far a lone acquire is from what it cannot do without: one commit of the bare engine and one round trip.

    bench/raft_floor.py [--rounds 5] [--seconds 2] [--nodes 5]

Each round runs build/bench/raft_floor (libraft, sockets and disks between as many processes, nothing else), again with a
thread for the disk as a node has one, and one client of `holdfast bench` against a cluster. Medians; the ratio is taken
within each round, since the disk is not equally fast all the time."""

import argparse
import json
import subprocess
import tempfile
from statistics import median

from harness import ROOT, Cluster, save

FLOOR = ROOT / "build" / "bench" / "raft_floor"
AIM_RATIO = 1.4
AIM_LONE_MS = 0.6


def floor(options, *flags):
    with tempfile.TemporaryDirectory(prefix="holdfast-floor-") as folder:
        done = subprocess.run([FLOOR, "--nodes", str(options.nodes), "--seconds", str(options.seconds), "--folder", folder,
                               *flags], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit("bench: raft_floor failed")
    return json.loads(done.stdout)


def one_round(options):
    bare, threaded = floor(options), floor(options, "--thread")
    with Cluster(options.nodes) as cluster:
        lone = cluster.bench("--clients", 1, "--seconds", options.seconds, "--warmup", 1)["acquire_us"]
    commit, trip = bare["commits"][0]["p50_us"], bare["round_trip_us"]
    return {"bare": bare, "threaded": threaded, "lone_us": lone,
            "ratio": lone["p50"] / (commit + trip), "ratio_threaded": lone["p50"] / (threaded["commits"][0]["p50_us"] + trip)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--nodes", type=int, default=5)
    options = parser.parse_args()
    rounds = []
    print(f"{'round':>5} {'commit':>9} {'threaded':>9} {'round trip':>10} {'lone acquire':>12} {'ratio':>6}   p50 in us")
    for number in range(options.rounds):
        found = one_round(options)
        rounds.append(found)
        print(f"{number + 1:>5} {found['bare']['commits'][0]['p50_us']:>9.0f} {found['threaded']['commits'][0]['p50_us']:>9.0f} "
              f"{found['bare']['round_trip_us']:>10.0f} {found['lone_us']['p50']:>12.0f} {found['ratio']:>6.2f}", flush=True)
    print(f"\n{options.nodes} nodes, medians of {len(rounds)} rounds:")
    for i, row in enumerate(rounds[0]["bare"]["commits"]):
        for kind in ("bare", "threaded"):
            print(f"  {kind:<8} engine, {row['outstanding']:>3} outstanding: commit p50 "
                  f"{median(r[kind]['commits'][i]['p50_us'] for r in rounds) / 1000:.3f} ms, "
                  f"{median(r[kind]['commits'][i]['commands_per_second'] for r in rounds):,.0f} commands/s "
                  f"(a sync of the leader's disk {median(r[kind]['commits'][i]['sync_p50_us'] for r in rounds) / 1000:.3f} ms)")
    lone = median(r["lone_us"]["p50"] for r in rounds) / 1000
    ratio = median(r["ratio"] for r in rounds)
    threaded = median(r["ratio_threaded"] for r in rounds)
    print(f"lone acquire p50 {lone:.3f} ms, aim <= {AIM_LONE_MS}: {'met' if lone <= AIM_LONE_MS else 'missed'}")
    print(f"lone acquire / (bare commit + round trip) = {ratio:.2f}, aim <= {AIM_RATIO}: "
          f"{'met' if ratio <= AIM_RATIO else 'missed'}")
    print(f"lone acquire / (commit with a thread for the disk + round trip) = {threaded:.2f}")
    print(f"results: {save('raft_floor', {'rounds': rounds, 'lone_ms': lone, 'ratio': ratio, 'ratio_threaded': threaded})}")


if __name__ == "__main__":
    main()

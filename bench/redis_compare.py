#!/usr/bin/python3
"""Holdfast beside Redis by Redis's own tool: redis-benchmark, SET lock:__rand_int__ t NX PX 30000.

    bench/redis_compare.py [--rounds 5] [--seconds 4] [--connections 64] [--nodes 5] [--only memory,synced]

  memory   the efficiency tier of a cluster against one Redis that keeps nothing
  synced   the consensus tier of a cluster against one Redis with appendfsync always

In each round both are started anew, measured one after the other, every second time in the other order; the ratio is taken
within the round. Names are random among 10^12, so nearly every SET takes a fresh lock; refusals are answers too."""

import argparse
import csv
import re
import socket
import subprocess
import tempfile
from pathlib import Path
from statistics import median

from harness import check_aim, save
from services import DIES_WITH_US, HoldfastEfficiencyResp, HoldfastResp, Redis, RedisSynced, program

AIM = 1.0
PAIRS = {"memory": (HoldfastEfficiencyResp, Redis), "synced": (HoldfastResp, RedisSynced)}
TRIAL = 5000  # requests, from which follows how many fill the time
KEYS = 2_000_000_000  # the tool takes no more than an int; of a larger number it makes one key for all, silently


def address(service):
    """Where it speaks the Redis protocol; a cluster at its leader."""
    if hasattr(service, "cluster"):
        return service.cluster.base + 10 * (service.cluster.leader - 1) + 2
    return int(service.endpoints.split(":")[1])


def redis_benchmark(port, connections, requests):
    done = subprocess.run(
        [*DIES_WITH_US, program("redis-benchmark"), "-h", "127.0.0.1", "-p", str(port), "-c", str(connections), "-n", str(requests),
         "-r", str(KEYS), "-e", "--csv", "SET", "lock:__rand_int__", "t", "NX", "PX", "30000"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    rows = list(csv.DictReader(line for line in done.stdout.splitlines() if line.startswith('"')))
    if done.returncode != 0 or not rows or "rror" in done.stdout:
        raise SystemExit(f"bench: redis-benchmark failed: {(done.stderr or done.stdout).strip()[:300]}")
    return {"per_second": float(rows[0]["rps"]), "p50_ms": float(rows[0]["p50_latency_ms"]), "p99_ms": float(rows[0]["p99_latency_ms"])}


def keys(port):
    with socket.create_connection(("127.0.0.1", port), 10) as line:
        line.sendall(b"DBSIZE\r\n")
        return int(line.recv(100)[1:].split()[0])


def measure(kind, nodes, folder, options):
    with kind(nodes, folder) as service:
        port = address(service)
        trial = redis_benchmark(port, options.connections, TRIAL)
        requests = max(TRIAL, int(trial["per_second"] * options.seconds))
        found = redis_benchmark(port, options.connections, requests)
        # A refusal is cheap, and writes nothing: all must be grants, and with a TTL of 30 s they still stand.
        if keys(port) < 0.99 * requests:
            raise SystemExit(f"bench: {requests} requests made only {keys(port)} keys on {service.label}")
        return found


def one_pair(name, folder, options):
    ours, theirs = PAIRS[name]
    rounds = []
    for number in range(options.rounds):
        order = [(ours, options.nodes), (theirs, 1)]
        found = {kind: measure(kind, nodes, folder, options) for kind, nodes in (order if number % 2 == 0 else reversed(order))}
        ratio = found[ours]["per_second"] / found[theirs]["per_second"]
        rounds.append({"holdfast": found[ours], "redis": found[theirs], "ratio": ratio})
        print(f"  round {number + 1}: {ours.label} {found[ours]['per_second']:,.0f}/s p50 {found[ours]['p50_ms']:.2f} ms, "
              f"{theirs.label} {found[theirs]['per_second']:,.0f}/s p50 {found[theirs]['p50_ms']:.2f} ms, ratio {ratio:.2f}", flush=True)
    aim = check_aim(f"{ours.label}, {options.nodes} nodes / {theirs.label}", median(r["ratio"] for r in rounds), AIM)
    return {"rounds": rounds, "aim": aim, "version": theirs.version()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--nodes", type=int, default=5)
    parser.add_argument("--only", default=",".join(PAIRS))
    options = parser.parse_args()
    wanted = options.only.split(",")
    for name in wanted:
        if not re.fullmatch("|".join(PAIRS), name):
            parser.error(f"there is no {name}; there are {', '.join(PAIRS)}")
    figures = {}
    with tempfile.TemporaryDirectory(prefix="holdfast-redis-") as folder:
        for name in wanted:
            print(f"{name}: {PAIRS[name][0].label} and {PAIRS[name][1].label}, {options.connections} connections", flush=True)
            figures[name] = one_pair(name, Path(folder), options)
    print(f"results: {save('redis_compare', figures)}")


if __name__ == "__main__":
    main()

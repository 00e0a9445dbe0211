#!/usr/bin/python3
"""Lock+unlock cycles on five nodes of this machine, by `holdfast bench`.

    bench/cluster.py [--seconds S] [--nodes N]      (5 s for each row, 5 nodes)
"""

import argparse

from harness import Cluster, save

ROWS = [(1, "http", "leader"), (64, "http", "leader"), (64, "http", "any"), (256, "http", "leader"),
        (1, "grpc", "leader"), (64, "grpc", "leader"), (256, "grpc", "leader")]


def main():
    parser = argparse.ArgumentParser(description="cycles per second of a local cluster")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--nodes", type=int, default=5)
    options = parser.parse_args()
    rows = []
    print(f"{'clients':>8} {'api':>5} {'via':>7} {'cycles/s':>9} {'acquire p50':>12} {'p99':>8} {'max':>8} ms")
    with Cluster(options.nodes) as cluster:
        for clients, api, via in ROWS:
            row = cluster.bench("--clients", clients, "--api", api, "--via", via, "--seconds", options.seconds,
                                "--warmup", 1)
            us = row["acquire_us"]
            print(f"{clients:>8} {api:>5} {via:>7} {row['cycles_per_second']:>9.0f} {us['p50'] / 1000:>12.2f} "
                  f"{us['p99'] / 1000:>8.2f} {us['max'] / 1000:>8.2f}", flush=True)
            rows.append(row)
    print(f"results: {save('cluster', rows)}")


if __name__ == "__main__":
    main()

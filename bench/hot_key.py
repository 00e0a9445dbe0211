#!/usr/bin/python3
"""One key that many clients change, beside fresh keys, on one cluster, by redis-benchmark.

    bench/hot_key.py [--rounds 5] [--requests 20000] [--connections 50] [--nodes 5]

  fresh     SET k:RANDOM v NX PX 30000 at the leader: what the cluster does when no two clients meet
  leader    INCR of one key at the leader
  follower  INCR of one key through another node
  window    a script at the leader: INCR, and PEXPIRE by the first in the window, as rate limiters do

Every round measures all of them. At the end of each, the number of the counter must be the number of requests: no change is
lost, and none is made twice."""

import argparse
import socket
import subprocess
import tempfile
from pathlib import Path
from statistics import median

from harness import check_aim, save
from redis_compare import address
from services import DIES_WITH_US, HoldfastResp, program

AIM = 0.5
WINDOW = "local n = redis.call('INCR', KEYS[1]); if n == 1 then redis.call('PEXPIRE', KEYS[1], 600000) end; return n"


def run(port, options, *words):
    done = subprocess.run(
        [*DIES_WITH_US, program("redis-benchmark"), "-h", "127.0.0.1", "-p", str(port), "-c", str(options.connections), "-n",
         str(options.requests), "-r", "2000000000", "-e", "--csv", *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    rows = [line for line in done.stdout.splitlines() if line.startswith('"') and not line.startswith('"test"')]
    if done.returncode != 0 or not rows or "rror" in done.stdout:
        raise SystemExit(f"bench: redis-benchmark failed: {(done.stderr or done.stdout).strip()[:300]}")
    return float(rows[0].rsplit('","', 7)[1])


def count(port, key):
    with socket.create_connection(("127.0.0.1", port), 10) as line:
        line.sendall(f"GET {key}\r\n".encode())
        return int(line.recv(100).split()[1])


def counted(port, options, key, *words):
    rate = run(port, options, *words)
    if count(port, key) != options.requests:
        raise SystemExit(f"bench: {options.requests} requests made {key} {count(port, key)}")
    return rate


def one_round(service, number, options):
    leader = address(service)
    base = service.cluster.base + 2
    follower = next(port for port in (base, base + 10) if port != leader)
    found = {
        "fresh": run(leader, options, "SET", f"k{number}:__rand_int__", "v", "NX", "PX", "30000"),
        "leader": counted(leader, options, f"leader{number}", "INCR", f"leader{number}"),
        "follower": counted(follower, options, f"follower{number}", "INCR", f"follower{number}"),
        "window": counted(leader, options, f"window{number}", "EVAL", WINDOW, "1", f"window{number}"),
    }
    print("  round {}: {}".format(number + 1, ", ".join(f"{name} {rate:,.0f}/s" for name, rate in found.items())), flush=True)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=20000)
    parser.add_argument("--connections", type=int, default=50)
    parser.add_argument("--nodes", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="holdfast-hot-") as folder, HoldfastResp(options.nodes, Path(folder)) as service:
        rounds = [one_round(service, number, options) for number in range(options.rounds)]
    aims = [check_aim(f"INCR of one key, {name} / fresh keys", median(r[name] / r["fresh"] for r in rounds), AIM)
            for name in ("leader", "follower", "window")]
    print(f"results: {save('hot_key', {'rounds': rounds, 'aims': aims})}")


if __name__ == "__main__":
    main()

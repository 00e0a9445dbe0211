#!/usr/bin/python3
"""One key that many clients change, beside fresh keys, on one cluster, by redis-benchmark; and one lock that many clients want.

    bench/hot_key.py [--rounds 5] [--requests 20000] [--connections 50] [--clients 20] [--seconds 4] [--nodes 5]

  fresh     SET k:RANDOM v NX PX 30000 at the leader: what the cluster does when no two clients meet
  leader    INCR of one key at the leader
  follower  INCR of one key through another node
  window    a script at the leader: INCR, and PEXPIRE by the first in the window, as rate limiters do
  lock      cycles of one lock at the leader: each of the clients repeats SET NX PX until it has it, then releases it by the
            script that compares the value, and begins again
  lone      the same with one client

Every round measures all of them. At the end of each, the number of the counter must be the number of requests: no change is
lost, and none is made twice. Each release must find the value of its client: nobody else got the lock meanwhile."""

import argparse
import selectors
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from statistics import median

from harness import check_aim, save
from redis_compare import address
from services import DIES_WITH_US, HoldfastResp, program

AIM = 0.5
LOCK_AIM = 0.5
WINDOW = "local n = redis.call('INCR', KEYS[1]); if n == 1 then redis.call('PEXPIRE', KEYS[1], 600000) end; return n"


RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"


def words_of(*words):
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in (w.encode() for w in words))


class Contender:
    """A client of one lock."""

    def __init__(self, port, key, number, sha):
        self.socket = socket.create_connection(("127.0.0.1", port), 10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.take = words_of("SET", key, f"client-{number}", "NX", "PX", "30000")
        self.release = words_of("EVALSHA", sha, "1", key, f"client-{number}")
        self.data = b""
        self.waits = []
        self.cycles = 0
        self.begin()

    def begin(self):
        self.began = time.perf_counter()
        self.socket.sendall(self.take)

    def on_bytes(self):
        self.data += self.socket.recv(100)
        if not self.data.endswith(b"\r\n"):
            return
        answer, self.data = self.data, b""
        if answer == b"$-1\r\n":
            self.socket.sendall(self.take)
        elif answer == b"+OK\r\n":
            self.waits.append(time.perf_counter() - self.began)
            self.socket.sendall(self.release)
        elif answer == b":1\r\n":
            self.cycles += 1
            self.begin()
        else:  # also of a release that found another value
            raise SystemExit(f"bench: unexpected answer {answer[:100]}")


def contend(port, key, clients, seconds):
    """Cycles a second, and the median of the times from a client's first SET to its grant."""
    with socket.create_connection(("127.0.0.1", port), 10) as line:
        line.sendall(words_of("SCRIPT", "LOAD", RELEASE))
        sha = line.recv(100).split()[1].decode()
    everybody = [Contender(port, key, number, sha) for number in range(clients)]
    with selectors.DefaultSelector() as selector:
        for client in everybody:
            selector.register(client.socket, selectors.EVENT_READ, client)
        began = time.perf_counter()
        while (now := time.perf_counter()) < began + seconds:
            for event, _ in selector.select(began + seconds - now):
                event.data.on_bytes()
    cycles = sum(client.cycles for client in everybody)
    for client in everybody:
        client.socket.close()
    return cycles / seconds, 1000 * median(wait for client in everybody for wait in client.waits)


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
    found["lone"], found["lone_p50_ms"] = contend(leader, f"lone{number}", 1, options.seconds)
    found["lock"], found["lock_p50_ms"] = contend(leader, f"lock{number}", options.clients, options.seconds)
    shown = [f"{name} {value:,.2f} ms" if name.endswith("ms") else f"{name} {value:,.0f}/s" for name, value in found.items()]
    print(f"  round {number + 1}: {', '.join(shown)}", flush=True)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=20000)
    parser.add_argument("--connections", type=int, default=50)
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--nodes", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="holdfast-hot-") as folder, HoldfastResp(options.nodes, Path(folder)) as service:
        rounds = [one_round(service, number, options) for number in range(options.rounds)]
    aims = [check_aim(f"INCR of one key, {name} / fresh keys", median(r[name] / r["fresh"] for r in rounds), AIM)
            for name in ("leader", "follower", "window")]
    aims.append(check_aim("cycles of one lock, many clients / one", median(r["lock"] / r["lone"] for r in rounds), LOCK_AIM))
    print(f"results: {save('hot_key', {'rounds': rounds, 'aims': aims})}")


if __name__ == "__main__":
    main()

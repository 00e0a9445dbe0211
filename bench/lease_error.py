#!/usr/bin/python3
"""How exactly a lease ends, as two clients see it: `bench/lease_error.py [--rounds 5] [--locks 64] [--ttl 2] [--nodes 5] [--json]`.

One client acquires a lock and never renews it; another one waits for it at another node. On one clock, the second gets it
  early: before the TTL has passed since the first sent its request. This must never happen (S5).
  late:  how long after the TTL had passed since the first got its answer.
Then the same with the leader killed in the middle of the TTL: the time without a leader is added to all leases. Both contain the
time of two requests and the scheduling of this program's threads."""

import argparse
import http.client
import json
import os
import signal
import threading
import time

import harness

WAIT_S = 60
RETRY_S = 0.05


class Failed(Exception):
    pass


def acquire(ports, name, client, **more):
    """Time of the first sending, time of the grant. Repeats the request at the next node until it is answered."""
    body = json.dumps({"client_id": client, "request_id": f"{client}-{name}", **more})
    path = f"/api/v1/locks/{name}/acquire"
    sent, end, turn = time.monotonic(), time.monotonic() + WAIT_S, 0
    while time.monotonic() < end:
        connection = http.client.HTTPConnection("127.0.0.1", ports[turn % len(ports)], timeout=WAIT_S)
        try:
            connection.request("POST", path, body)
            answer = connection.getresponse()
            text = answer.read()
            if answer.status == 200 and json.loads(text)["acquired"]:
                return sent, time.monotonic()
        except (OSError, http.client.HTTPException):
            pass
        finally:
            connection.close()
        turn += 1
        time.sleep(RETRY_S)
    raise Failed(f"{name} was not acquired in {WAIT_S} s")


def one_round(cluster, number, locks, ttl_s, kill):
    """[(early, late)] in seconds."""
    ports = [cluster.base + 10 * i for i in range(len(cluster.pids))]
    found, problems, begun = [], [], threading.Barrier(locks + 1)

    def lease(i):
        turned = ports[i % len(ports):] + ports[:i % len(ports)]
        name = f"lease-{number}-{i}"
        try:
            sent, got = acquire(turned, name, "first", ttl_ms=int(ttl_s * 1000))
            begun.wait(WAIT_S)
            _, granted = acquire(turned[1:] + turned[:1], name, "second", ttl_ms=int(ttl_s * 1000), wait_timeout_ms=WAIT_S * 1000)
            found.append((sent + ttl_s - granted, granted - got - ttl_s))
        except (Failed, threading.BrokenBarrierError) as problem:
            problems.append(problem)
            begun.abort()

    threads = [threading.Thread(target=lease, args=(i,)) for i in range(locks)]
    for thread in threads:
        thread.start()
    try:
        begun.wait(WAIT_S)
        if kill:
            time.sleep(ttl_s / 2)
            os.kill(cluster.pids[cluster.leader], signal.SIGKILL)
    except threading.BrokenBarrierError:
        pass  # `problems` has the reason
    for thread in threads:
        thread.join()
    if problems:
        raise SystemExit(f"bench: {problems[0]}")
    return found


def summary(found):
    late = sorted(each[1] * 1000 for each in found)
    return {"leases": len(found), "early": sum(each[0] > 0 for each in found), "late_p50_ms": round(late[len(late) // 2], 1),
            "late_p99_ms": round(late[int(0.99 * (len(late) - 1))], 1), "late_max_ms": round(late[-1], 1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--locks", type=int, default=64)
    parser.add_argument("--ttl", type=float, default=2)
    parser.add_argument("--nodes", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    quiet, killed = [], []
    for number in range(options.rounds):
        # A cluster for each round: the node that is killed is its first leader.
        with harness.Cluster(options.nodes) as cluster:
            quiet += one_round(cluster, 2 * number, options.locks, options.ttl, kill=False)
            killed += one_round(cluster, 2 * number + 1, options.locks, options.ttl, kill=True)
    report = {"ttl_s": options.ttl, "quiet": summary(quiet), "leader_killed": summary(killed)}
    if options.json:
        print(json.dumps(report))
    else:
        for what in ("quiet", "leader_killed"):
            print(f"{what:14}", "  ".join(f"{key} {value}" for key, value in report[what].items()))
    return 1 if report["quiet"]["early"] + report["leader_killed"]["early"] else 0


if __name__ == "__main__":
    raise SystemExit(main())

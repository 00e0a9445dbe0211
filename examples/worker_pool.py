#!/usr/bin/env python3
"""Eight workers share a resource that bears three at a time. A semaphore lets three in, each with a slot of its own: the number of a
connection, a port, a GPU."""

import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "sdk" / "python"))
import holdfast  # noqa: E402

ENDPOINTS = os.environ.get("HOLDFAST_ENDPOINTS", "127.0.0.1:4653")
NAME = f"examples/pool-{os.getpid()}"
WORKERS, LIMIT, JOBS = 8, 3, 24

jobs = list(range(JOBS))
guard = threading.Lock()
busy = {}  # slot: worker
most, done, problems = 0, [], []


def work(worker, job, lock):
    global most
    with guard:
        if lock.slot in busy:
            problems.append(f"slot {lock.slot} of {worker} is that of {busy[lock.slot]}")
        busy[lock.slot] = worker
        most = max(most, len(busy))
    time.sleep(0.05)  # the job; with a fence, its resource is (NAME, lock.slot)
    with guard:
        busy.pop(lock.slot, None)
        done.append(job)


def run(worker):
    with holdfast.Client(ENDPOINTS, client_id=f"{worker}-{os.getpid()}") as client:
        while True:
            with client.semaphore(NAME, LIMIT, wait=60) as lock:
                with guard:
                    job = jobs.pop() if jobs else None
                if job is None:
                    return
                work(worker, job, lock)


def main():
    with ThreadPoolExecutor(WORKERS) as workers:
        list(workers.map(run, [f"worker-{i}" for i in range(WORKERS)]))  # raises what a worker raised
    assert not problems, problems
    assert sorted(done) == list(range(JOBS)), done
    assert most <= LIMIT, f"{most} worked at once"
    print(f"ok: {JOBS} jobs by {WORKERS} workers, at most {most} at once")


if __name__ == "__main__":
    main()

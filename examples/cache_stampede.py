#!/usr/bin/env python3
"""Twenty requests miss the cache at the same moment. One of them computes the value; the others wait and read it.

The lock is of the tier EFFICIENCY: it is not replicated, so it is faster, and it is lost if the leader of the cluster changes. Then
the value is computed twice, which costs time and breaks nothing. Use CORRECTNESS where a second run would do harm."""

import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "sdk" / "python"))
import holdfast  # noqa: E402

ENDPOINTS = os.environ.get("HOLDFAST_ENDPOINTS", "127.0.0.1:4653")
KEY = f"report-{os.getpid()}"
REQUESTS = 20

cache = {}
computed = []


def compute(key):
    """Something expensive."""
    computed.append(threading.current_thread().name)
    time.sleep(0.5)
    return f"value of {key}"


def get(client, key):
    while key not in cache:
        try:
            with client.lock(f"examples/cache/{key}", wait=60, tier=holdfast.EFFICIENCY):
                if key not in cache:  # look again: somebody may have filled it
                    cache[key] = compute(key)
        except holdfast.LockLost:
            pass  # then somebody else may compute it, too
    return cache[key]


def main():
    together = threading.Barrier(REQUESTS)
    with holdfast.Client(ENDPOINTS) as client:
        def request(number):
            together.wait()
            return get(client, KEY)

        with ThreadPoolExecutor(REQUESTS, "request") as requests:
            found = list(requests.map(request, range(REQUESTS)))
    assert found == [f"value of {KEY}"] * REQUESTS, found
    assert len(computed) <= 2, f"{len(computed)} computed it"  # 2: the leader of the cluster changed meanwhile
    print(f"{' and '.join(computed)} computed the value")
    print(f"ok: {REQUESTS} requests got it")


if __name__ == "__main__":
    main()

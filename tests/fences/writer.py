"""A client that writes under a lock:  writer.py STORE CONFIG ENDPOINTS LOCK TTL VALUE

Prints `held TOKEN`, then for each line that it reads `written` or `refused REASON`. stale.py stops it before its write."""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "sdk" / "python"), str(ROOT / "tests" / "fences")]

import holdfast  # noqa: E402
import stores  # noqa: E402


def main(kind, config, endpoints, name, ttl, value):
    store = getattr(stores, kind)(json.loads(config))
    with holdfast.Client(endpoints, session_ttl=float(ttl)) as client:
        lock = client.lock(name, wait=60).acquire()
        lock.check()
        print("held", lock.fence_token, flush=True)
        for _ in sys.stdin:  # it is stopped here: after the check, before the write
            store.write_bare(value)
            try:
                store.write(name, lock.fence_token, value)
                print("written", flush=True)
            except store.refusals as refusal:
                print("refused", " ".join(str(refusal).split()), flush=True)


main(*sys.argv[1:])

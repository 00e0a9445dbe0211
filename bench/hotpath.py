#!/usr/bin/python3
"""How many instructions an acquire and a release take in a lone node, and whether they became more.

    bench/hotpath.py                     counts gRPC, HTTP/1.1 and the Redis protocol and compares with bench/hotpath.json;
                                            exit status 1 if one of them grew by more than a tenth
    bench/hotpath.py --auth              counts with auth = on and a token, and compares with auth = off: exit status 1 if it takes
                                            more than a fifth more. These are the instructions of the node alone, without
                                            the kernel, followers and clients, so the share of the throughput is less
    bench/hotpath.py --accept            writes the counts into bench/hotpath.json
    bench/hotpath.py --profile=PROTOCOL  prints the functions with the most instructions

Instructions are counted by callgrind, so that the figure is the same on a busy machine. It depends on the compiler: each has
its own rows, and one without a row is only shown."""

import json
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "build" / "bench" / "hotpath"
KNOWN = ROOT / "bench" / "hotpath.json"
PROTOCOLS = ("grpc", "http", "resp")
TOLERANCE = 1.10
AUTH_TOLERANCE = 1.20


def compiler():
    """The one that built the program, from the program itself."""
    comment = subprocess.run(["readelf", "-p", ".comment", PROGRAM], capture_output=True, text=True, check=True).stdout
    return re.search(r"(GCC|clang version)[^\n]*?(\d+\.\d+\.\d+)", comment).expand(r"\1 \2")


def count(protocol, *flags, profile=False):
    """Instructions of one pair; with `profile`, also prints where they are."""
    with tempfile.TemporaryDirectory() as folder:
        result = subprocess.run(
            ["valgrind", "--tool=callgrind", "--toggle-collect=measured", f"--callgrind-out-file={folder}/out", PROGRAM, protocol, *flags],
            capture_output=True, text=True, check=True)
        if profile:
            subprocess.run(["callgrind_annotate", f"{folder}/out"], check=True)
    pairs = int(re.search(r"(\d+) pairs", result.stdout).group(1))
    return round(int(re.search(r"Collected : (\d+)", result.stderr).group(1)) / pairs)


def report(name, protocol, instructions, before):
    """Prints one line; returns whether the count is acceptable."""
    if before is None:
        print(f"{protocol}: {instructions} instructions a pair by {name}; no known count to compare with (--accept keeps it)")
        return True
    print(f"{protocol}: {instructions} instructions a pair by {name}; known: {before}, {instructions / before:.2f} times that")
    return instructions <= before * TOLERANCE


def compare_auth():
    with ThreadPoolExecutor(2) as pool:
        off, on = pool.map(lambda flags: {p: count(p, *flags) for p in PROTOCOLS}, ((), ("auth",)))
    for protocol in PROTOCOLS:
        print(f"{protocol}: {off[protocol]} instructions a pair with auth = off, {on[protocol]} with auth = on and a token, "
              f"{on[protocol] / off[protocol]:.3f} times that")
    return 0 if all(on[p] <= off[p] * AUTH_TOLERANCE for p in PROTOCOLS) else 1


def main():
    if "--auth" in sys.argv[1:]:
        return compare_auth()
    for argument in sys.argv[1:]:
        if argument.startswith("--profile="):
            count(argument.removeprefix("--profile="), profile=True)
            return 0
    known = json.loads(KNOWN.read_text()) if KNOWN.exists() else {}
    name = compiler()
    with ThreadPoolExecutor(2) as pool:
        counts = dict(zip(PROTOCOLS, pool.map(count, PROTOCOLS)))
    before = known.get(name, {})
    good = all([report(name, protocol, counts[protocol], before.get(protocol)) for protocol in PROTOCOLS])
    if "--accept" in sys.argv[1:]:
        KNOWN.write_text(json.dumps({**known, name: counts}, indent=4, sort_keys=True) + "\n")
        return 0
    if not good:
        print("The hot path grew by more than a tenth. If that is worth it, give the reason in the commit: bench/hotpath.py --accept")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

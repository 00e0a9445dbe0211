#!/usr/bin/python3
"""How many instructions an acquire and a release take in a node, and whether they became more.

    bench/hotpath.py             compares with bench/hotpath.json; exit status 1 when it grew by more than a tenth
    bench/hotpath.py --accept    writes what was counted into bench/hotpath.json

Instructions are counted by callgrind, so that the figure is the same on a busy machine. It depends on the compiler: each has
its own row, and one without a row is only shown."""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "build" / "bench" / "hotpath"
KNOWN = ROOT / "bench" / "hotpath.json"
TOLERANCE = 1.10


def compiler():
    """The one that built it, from the program itself."""
    comment = subprocess.run(["readelf", "-p", ".comment", PROGRAM], capture_output=True, text=True, check=True).stdout
    return re.search(r"(GCC|clang version)[^\n]*?(\d+\.\d+\.\d+)", comment).expand(r"\1 \2")


def count():
    """Instructions of one pair."""
    with tempfile.TemporaryDirectory() as folder:
        result = subprocess.run(
            ["valgrind", "--tool=callgrind", "--toggle-collect=measured", f"--callgrind-out-file={folder}/out", PROGRAM],
            capture_output=True, text=True, check=True)
    pairs = int(re.search(r"(\d+) pairs", result.stdout).group(1))
    return int(re.search(r"Collected : (\d+)", result.stderr).group(1)) / pairs


def main():
    known = json.loads(KNOWN.read_text()) if KNOWN.exists() else {}
    name, instructions = compiler(), round(count())
    before = known.get(name)
    if "--accept" in sys.argv[1:]:
        KNOWN.write_text(json.dumps({**known, name: instructions}, indent=4, sort_keys=True) + "\n")
    if before is None:
        print(f"{instructions} instructions a pair by {name}; nothing is known to compare it with (--accept keeps it)")
        return 0
    print(f"{instructions} instructions a pair by {name}; known: {before}, {instructions / before:.2f} times that")
    if instructions > before * TOLERANCE and "--accept" not in sys.argv[1:]:
        print("The hot path grew by more than a tenth. If that is worth it, say why in the commit: bench/hotpath.py --accept")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

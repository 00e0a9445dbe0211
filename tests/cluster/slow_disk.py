"""Disks on which a sync takes 0.1 s longer while a test wants it, by tests/support/bad_disk.c."""

import pytest

from harness import PROGRAM, SANITIZED

SHIM = PROGRAM.parent / "tests" / "support" / "bad_disk.so"


class SlowDisk:
    """For all nodes of a cluster that was not started yet; where they cannot be had, the test is skipped."""

    def __init__(self, cluster):
        if SANITIZED or not SHIM.exists():
            pytest.skip("the sanitizers want to be loaded first" if SANITIZED else f"{SHIM} is not built")
        self.marks = [node.folder.with_suffix(".slow") for node in cluster]
        for node in cluster:
            node.env |= {"LD_PRELOAD": SHIM, "BAD_DISK": node.folder}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def begin(self):
        for mark in self.marks:
            mark.touch()

    def end(self):
        for mark in self.marks:
            mark.unlink(missing_ok=True)

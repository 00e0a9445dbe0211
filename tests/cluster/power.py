"""Power cuts: only what was synced survives. tests/support/power_cut.c keeps the rest from the disk; this
module cuts the power, and undoes what happened to names since the folder was synced."""

import os
import random
import shutil

from harness import PROGRAM, SANITIZED

SHIM = PROGRAM.parent / "tests" / "support" / "power_cut.so"


def why_not():
    if SANITIZED:
        return "the sanitizers want to be loaded first"
    return None if SHIM.exists() else f"{SHIM} is not built"


class Power:
    """The plugs of all nodes of a cluster that was not started yet."""

    def __init__(self, cluster, seed):
        self.cluster = cluster
        self.random = random.Random(seed)
        self.undone = 0
        for node in cluster:
            node.env = {"LD_PRELOAD": SHIM, "POWER_CUT_FOLDER": node.folder,
                        "POWER_CUT_SEED": self.random.randrange(1 << 30)}

    def cut(self):
        """All at once."""
        self.cluster.kill_all()
        for node in self.cluster:
            node.env["POWER_CUT_SEED"] = self.random.randrange(1 << 30)
            self.undo(node.folder)

    def undo(self, folder):
        """File systems with a journal keep the order of what happens to names: some of the last are lost."""
        kept = folder.with_name(folder.name + ".undo")
        lines = (kept / "journal").read_text(encoding="utf-8").splitlines()
        lost = self.random.randint(0, len(lines))
        for line in lines[len(lines) - lost:][::-1]:
            self.undone += 1
            what, name, *rest = line.split()
            if what == "create":
                (folder / name).unlink(missing_ok=True)
            elif what == "remove":
                if not (folder / name).exists():
                    os.link(kept / rest[0], folder / name)
            elif what == "rename":
                new, backup = folder / rest[0], rest[1]
                if not (folder / name).exists() and new.exists():
                    os.rename(new, folder / name)
                    if backup != "0":
                        os.link(kept / backup, new)
        shutil.rmtree(kept)

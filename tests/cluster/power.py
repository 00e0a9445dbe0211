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


def plug_in(node, dice):
    """A node that is not running. What it is preloaded with, if anything, is the caller's to join."""
    node.env = {"LD_PRELOAD": SHIM, **node.env, "POWER_CUT_FOLDER": node.folder,
                "POWER_CUT_SEED": dice.randrange(1 << 30)}


def has_plug(node):
    return "POWER_CUT_FOLDER" in node.env


def cut(node, dice):
    """What is left of a node that was killed, after a power cut. How many changes of names were undone."""
    node.env["POWER_CUT_SEED"] = dice.randrange(1 << 30)
    return undo(node.folder, dice)


def undo(folder, dice):
    """File systems with a journal keep the order of what happens to names: some of the last are lost."""
    kept = folder.with_name(folder.name + ".undo")
    if not (kept / "journal").exists():
        return 0  # it was killed before it had a folder
    lines = (kept / "journal").read_text(encoding="utf-8").splitlines()
    lost = dice.randint(0, len(lines))
    for line in lines[len(lines) - lost:][::-1]:
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
    return lost


class Power:
    """The plugs of all nodes of a cluster that was not started yet."""

    def __init__(self, cluster, seed):
        self.cluster = cluster
        self.random = random.Random(seed)
        self.undone = 0
        for node in cluster:
            plug_in(node, self.random)

    def cut(self):
        """All at once."""
        self.cluster.kill_all()
        for node in self.cluster:
            self.undone += cut(node, self.random)

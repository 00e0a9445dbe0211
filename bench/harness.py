"""A cluster to measure: `holdfast dev` on free ports in a temporary folder, gone at the end."""

import contextlib
import json
import os
import random
import re
import shutil
import socket
import subprocess
import tempfile
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = Path(os.environ.get("HOLDFAST", ROOT / "build" / "holdfast"))
RESULTS = ROOT / "build" / "bench" / "results"
STARTS = 3


def free_base(nodes):
    """A base port such that every port that `holdfast dev` takes is free."""
    # Below those that clients get, and those of tests/cluster, which are bound some time after they were chosen.
    for base in random.sample(range(5000, 10000 - 10 * nodes), 2000):
        with contextlib.ExitStack() as stack:
            try:
                for port in (base + 10 * i + j for i in range(nodes) for j in range(3)):
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
                return base
            except OSError:
                continue
    raise SystemExit("bench: no free ports")


class Cluster:
    def __init__(self, nodes=5, folder=None, **settings):
        """Settings are those of `holdfast serve`, by their variables: HOLDFAST_LOG_LEVEL=..."""
        self.folder = Path(tempfile.mkdtemp(prefix="holdfast-bench-", dir=folder))
        self.leader = None
        for _ in range(STARTS):  # somebody else may take a port between our look and its use
            self.start(nodes, settings)
            if self.leader is not None:
                break
            self.stop()
        else:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise SystemExit("bench: the cluster did not start")
        self.endpoints = ",".join(f"127.0.0.1:{self.base + 10 * i}" for i in range(nodes))

    def start(self, nodes, settings):
        self.base = free_base(nodes)
        shutil.rmtree(self.folder / "nodes", ignore_errors=True)
        environment = {k: v for k, v in os.environ.items() if not k.startswith("HOLDFAST")}
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", PROGRAM, "dev", "--nodes", str(nodes), "--dir", str(self.folder / "nodes"),
             "--base-port", str(self.base)],
            env={**environment, **settings}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            text=True, start_new_session=True)  # Ctrl-C is for us, who stop it
        self.pids = {}
        try:
            self.read_start()
        except BaseException:
            self.__exit__()
            raise

    def read_start(self):
        for line in self.process.stdout:
            node = re.match(r"node (\d+) .* pid (\d+) ", line)
            if node:
                self.pids[int(node[1])] = int(node[2])
            elif line.startswith("ready"):
                self.leader = int(re.search(r"leader: node (\d+)", line)[1])
                break

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()  # its nodes end with it
            self.process.wait()

    def bench(self, *flags):
        """Runs `holdfast bench` and returns its object."""
        done = subprocess.run([PROGRAM, "bench", "--endpoints", self.endpoints, "--json",
                               *map(str, flags)], stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit("bench: holdfast bench failed")
        return json.loads(done.stdout)

    def locks(self):
        """How many names are held, as the leader counts them."""
        url = f"http://127.0.0.1:{self.base + 10 * (self.leader - 1)}/metrics"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return int(re.search(r"^holdfast_locks (\d+)", answer.read().decode(), re.M)[1])

    def memory_mib(self, node):
        """Resident memory: (now, the most so far)."""
        status = Path(f"/proc/{self.pids[node]}/status").read_text(encoding="ascii")
        return tuple(int(re.search(rf"{key}:\s+(\d+)", status)[1]) / 1024
                     for key in ("VmRSS", "VmHWM"))

    def events(self, node, *names):
        """What a node said, of those kinds, in order."""
        log = self.folder / "nodes" / f"node-{node}.log"
        lines = map(json.loads, log.read_text(encoding="utf-8").splitlines())
        return [line for line in lines if line["event"] in names]


def check_aim(what, found, aim, unit="", at_most=False):
    """Prints a figure beside its aim, and returns both."""
    met = found <= aim if at_most else found >= aim
    digits = 0 if max(found, aim) >= 100 else 2
    print(f"{what}: {found:,.{digits}f}{unit}, aim {'<=' if at_most else '>='} {aim:,.{digits}f}{unit}: "
          f"{'met' if met else 'MISSED'}", flush=True)
    return {"what": what, "found": found, "aim": aim, "unit": unit.strip(), "at_most": at_most, "met": met}


def save(name, figures):
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return path

"""Runs one suite on one server, alone in a network: `inside.py SUITE redis|holdfast FOLDER`.

Many suites connect to 127.0.0.1:6379, whatever one sets. So each run has a network namespace with nothing but its
loopback interface, where that port is free, and a process namespace, so that all ends with this program."""

import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cluster")]

import runners  # noqa: E402
import sources  # noqa: E402
from harness import Cluster, run, wait_until  # noqa: E402
from suites import SUITES  # noqa: E402

NODES = 3


def start_redis(suite, folder):
    data = folder / "redis"
    data.mkdir()
    process = subprocess.Popen(["redis-server", "--port", str(suite.port), "--dir", str(data), "--save", "",
                                "--enable-debug-command", "yes"],
                               stdout=(folder / "redis.log").open("w"), stderr=subprocess.STDOUT)

    def answers():
        assert process.poll() is None, f"redis-server ended:\n{(folder / 'redis.log').read_text()}"
        ping = subprocess.run(["redis-cli", "-p", str(suite.port), "ping"], capture_output=True, text=True, check=False)
        return ping.stdout.strip() == "PONG"

    wait_until(answers, "redis-server does not answer")


def start_holdfast(suite, folder):
    """The suite gets the first node; the leader may be another one."""
    cluster = Cluster(folder / "cluster", NODES)
    cluster.folder.mkdir()
    for node in cluster:
        node.resp = f"127.0.0.1:{suite.port + node.id - 1}"
    cluster.start()


def main(name, server, folder):
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    folder = Path(folder)
    suite = next(suite for suite in SUITES if suite.name == name)
    tree = sources.place(suite.source, folder)
    {"redis": start_redis, "holdfast": start_holdfast}[server](suite, folder)
    try:
        found = {"tests": getattr(runners, suite.runner)(suite, tree, folder)}
    except runners.Broken as problem:
        found = {"broken": str(problem)}
    (folder / "result.json").write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])

#!/usr/bin/python3
"""Holdfast beside etcd, ZooKeeper, Redis and PostgreSQL, each by its own lock recipe. `make bench-peers`.

    bench/compare.py [--rounds 3] [--seconds 3] [--only NAME,...] [--clients 1,64,256] [--nodes 1,3,5] [--results DIR]

A round starts each system anew, one after the other, warms it up, and runs cycles with each number of clients; every
second round goes the other way, so that no system always follows the same one. Writes peers.md, peers.json and
peers.svg (default: bench/results/). Everything it starts listens on free ports of this machine, has its data in one
temporary folder (TMPDIR decides on which disk), and is ended with it, also by Ctrl-C."""

import argparse
import datetime
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import report
from harness import PROGRAM, ROOT
from services import LOAD, NODES, SERVICES, Missing


def numbers(text):
    return [int(word) for word in text.split(",")]


def arguments():
    names = [service.name for service in SERVICES]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--only", default=",".join(names), help=f"of {', '.join(names)}")
    parser.add_argument("--clients", type=numbers, default=[1, 64, 256])
    parser.add_argument("--nodes", type=numbers, default=[1, 3, 5])
    parser.add_argument("--results", type=Path, default=ROOT / "bench" / "results")
    options = parser.parse_args()
    options.only = options.only.split(",")
    unknown = [name for name in options.only if name not in names]
    if unknown:
        parser.error(f"there is no {unknown[0]}; there are {', '.join(names)}")
    return options


def machine(folder):
    """What the figures depend on, in a line."""
    model = next((line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
                  if line.startswith("model name")), platform.machine())
    disk = subprocess.run(["findmnt", "-n", "-o", "FSTYPE", "-T", folder], capture_output=True, text=True, check=False)
    kind = disk.stdout.strip() or "unknown"
    return f"{os.cpu_count()} cores ({model}), Linux {'.'.join(platform.release().split('.')[:2])}, data on {kind}"


def selected(options):
    """(service, nodes) in the order of a round, and what had to be left out."""
    rows, left_out = [], []
    for service in SERVICES:
        if service.name not in options.only:
            continue
        try:
            version = service.version()
        except (Missing, subprocess.CalledProcessError) as problem:
            left_out.append(f"{service.label}: {problem}")
            continue
        rows += [(service, nodes, version) for nodes in NODES.get(service.name, options.nodes)]
    return rows, left_out


def figures(run):
    return {"cycles_per_second": run["cycles_per_second"], "acquire_p50_ms": run["acquire_us"]["p50"] / 1000,
            "acquire_p99_ms": run["acquire_us"]["p99"] / 1000, "acquire_max_ms": run["acquire_us"]["max"] / 1000,
            "release_p50_ms": run["release_us"]["p50"] / 1000, "load_cpu_percent": run["bench_cpu_percent"],
            "errors": run["errors"], "errors_by_code": run["errors_by_code"]}


def measure(service, nodes, folder, options, runs):
    with service(nodes, folder) as running:
        running.load(min(64, max(options.clients)), running.warm_s, 0)
        for clients in options.clients:
            found = figures(running.load(clients, options.seconds, 0.5))
            runs.setdefault(str(clients), []).append(found)
            print(f"  {service.label}, {nodes}: {clients} clients, {found['cycles_per_second']:.0f} cycles/s, p50 "
                  f"{found['acquire_p50_ms']:.2f} ms, p99 {found['acquire_p99_ms']:.2f} ms, {found['errors']} errors", flush=True)


def rounds(rows, systems, left_out, folder, options):
    for number in range(options.rounds):
        print(f"round {number + 1} of {options.rounds}", flush=True)
        for service, nodes, _ in rows if number % 2 == 0 else list(reversed(rows)):
            system = report.find(systems, service.name, nodes)
            if system is None:
                continue
            try:
                measure(service, nodes, folder, options, system["runs"])
            except SystemExit as problem:
                # One that does not work is reported, and does not keep the others from being compared.
                print(f"  {service.label}, {nodes}: {problem}", flush=True)
                left_out.append(f"{report.title(system)}: {problem}")
                systems.remove(system)


def write(result, results):
    results.mkdir(parents=True, exist_ok=True)
    (results / "peers.json").write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (results / "peers.md").write_text(report.markdown(result), encoding="utf-8")
    (results / "peers.svg").write_text(report.svg(result), encoding="utf-8")
    print(report.markdown(result))
    print(f"results: {results}/peers.md, peers.json, peers.svg")


def interrupted(*_):
    raise KeyboardInterrupt


def main():
    options = arguments()
    for needed in (PROGRAM, LOAD):
        if not os.access(needed, os.X_OK):
            raise SystemExit(f"bench: {needed} is not there; build it with make")
    signal.signal(signal.SIGTERM, interrupted)
    folder = Path(tempfile.mkdtemp(prefix="holdfast-compare-"))
    folder.chmod(0o755)  # PostgreSQL has a user of its own
    rows, left_out = selected(options)
    systems = [{"name": s.name, "label": s.label, "version": version, "nodes": nodes, "memory": s.is_memory,
                "recipe": s.recipe, "settings": s.settings, "runs": {}} for s, nodes, version in rows]
    result = {"when": datetime.datetime.now().strftime("%Y-%m-%d %H:%M"), "machine": machine(folder),
              "seconds": options.seconds, "rounds": options.rounds, "clients": options.clients,
              "interrupted": False, "systems": systems, "left_out": left_out}
    try:
        rounds(rows, systems, left_out, folder, options)
    except KeyboardInterrupt:
        result["interrupted"] = True
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if not any(system["runs"] for system in systems):
        raise SystemExit("bench: nothing was measured")
    write(result, options.results)
    return 130 if result["interrupted"] else 0


if __name__ == "__main__":
    sys.exit(main())

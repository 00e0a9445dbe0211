#!/usr/bin/python3
"""Hours of chaos, in pieces that can be made on different days: `make chaos-long`.

    tests/chaos/long.py [--hours 2] [--piece 300] [--first-seed 1000] [--storm 900] [--nodes 5 | --grow] [--power]
                        [--other PROGRAM] [--out DIR]

Each piece is a run of chaos.py with a seed of its own and a fresh cluster, by turns with network namespaces and
with the proxy. What a piece found is one line of DIR/chaos-long.jsonl, so a run that is broken off loses only its
last piece, and the next goes on behind it; the report is made of all lines. Other kinds of clusters have files of
their own, named as their pieces are: DIR/chaos-grow-power-long.jsonl. Exit status 1: a promise broke."""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cluster"))
from harness import ROOT  # noqa: E402
from network import why_not  # noqa: E402
import chaos  # noqa: E402
import report  # noqa: E402

AIMS = {"hours": 2, "operations": 10_000_000, "faults": 1000}


def piece_line(result, network):
    """What is kept of a piece."""
    kinds = {}
    for fault in result["faults"]:
        row = kinds.setdefault(fault["kind"], {"times": 0, "failover_ms": [], "gap_ms": 0})
        row["times"] += 1
        row["gap_ms"] = max(row["gap_ms"], round(fault["gap_ms"]))
        if fault["failover_ms"] is not None:
            row["failover_ms"].append(round(fault["failover_ms"]))
    keys = ("seed", "seconds", "cores", "load", "operations", "grants", "slots", "slots_served", "violations")
    return {**{key: result[key] for key in keys}, "network": network, "kinds": kinds, "probe": result["probe"],
            "outcomes": result["outcomes"], "version": version(), "made": time.strftime("%Y-%m-%d %H:%M")}


def version():
    """The commit; "unknown" without a repository or git."""
    if shutil.which("git") is None:
        return "unknown"
    shown = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], check=False,
                           capture_output=True, text=True)
    return shown.stdout.strip() or "unknown"


def markdown(lines, kind=""):
    total = {key: sum(line[key] for line in lines) for key in ("seconds", "operations", "grants", "slots", "slots_served")}
    faults = sum(row["times"] for line in lines for row in line["kinds"].values())
    broken = [f"seed {line['seed']}: {text}" for line in lines for text in line["violations"]]
    got = {"hours": total["seconds"] / 3600, "operations": total["operations"], "faults": faults}
    text = ["# A long run of chaos, in pieces", "",
            f"`make chaos-long{kind}`: {len(lines)} pieces, each with a seed and a fresh cluster on "
            f"{lines[0]['cores']} cores; by turns on network namespaces and behind a proxy. What is injected, recorded "
            "and checked is what [chaos.md](chaos.md) says.", "",
            f"**{len(broken)} violations.**", "", "| | seen | aim |", "|---|---|---|"]
    text += [f"| {key} | {got[key]:,.2f} | {aim:,} |" if key == "hours" else f"| {key} | {got[key]:,} | {aim:,} |"
             for key, aim in AIMS.items()]
    text += ["", f"{total['grants']:,} grants. {report.percent(total['slots_served'], total['slots'])} of all slots of "
             "100 ms had a successful acquire, with a fault every few seconds.", "",
             "| fault | times | failover, median ms | slowest ms | longest gap ms |", "|---|---|---|---|---|"]
    for kind in dict.fromkeys(kind for line in lines for kind in line["kinds"]):
        rows = [line["kinds"][kind] for line in lines if kind in line["kinds"]]
        took = [ms for row in rows for ms in row["failover_ms"]]
        middle, most = (f"{statistics.median(took):.0f}", f"{max(took)}") if took else ("-", "-")
        text.append(f"| {kind} | {sum(row['times'] for row in rows)} | {middle} | {most} | "
                    f"{max(row['gap_ms'] for row in rows)} |")
    text += ["", "| piece | made | version | network | seconds | operations | faults | load before | violations |",
             "|---|---|---|---|---|---|---|---|---|"]
    text += [f"| {line['seed']} | {line['made']} | {line['version']} | {line['network']} | {line['seconds']:.0f} | "
             f"{line['operations']:,} | {sum(row['times'] for row in line['kinds'].values())} | {line['load']} | "
             f"{len(line['violations'])} |" for line in lines]
    text += ["", "## Violations", "", *([f"- {one}" for one in broken] or ["None."])]
    return "\n".join(text) + "\n"


def run_piece(options, seed, network):
    command = [sys.executable, HERE / "chaos.py", "--seconds", str(options.piece), "--seed", str(seed),
               "--storm", str(options.storm), "--network", network, "--nodes", options.nodes, "--out", options.out]
    command += [f"--{flag}" for flag in ("grow", "power", "secure") if getattr(options, flag)]
    if options.other:
        command += ["--other", options.other]
    status = subprocess.run([str(word) for word in command], check=False).returncode
    path = options.out / f"{chaos.stem(options, seed)}.json"
    if status not in (0, 1) or not path.exists():
        raise SystemExit(f"piece {seed} ended with {status}, without a report")
    return piece_line(json.loads(path.read_text(encoding="utf-8")), network)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hours", type=float, default=AIMS["hours"])
    parser.add_argument("--piece", type=int, default=300, help="seconds")
    parser.add_argument("--first-seed", type=int, default=1000)
    parser.add_argument("--storm", type=int, default=900, help="cycles a second of the C clients")
    chaos.add_kind(parser)
    parser.add_argument("--other", type=Path, help="another version of the program, to be rolled to and back")
    parser.add_argument("--out", type=Path, default=ROOT / "build-logs")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    name = chaos.stem(options, "long")
    kept = options.out / f"{name}.jsonl"
    lines = [json.loads(line) for line in kept.read_text(encoding="utf-8").splitlines()] if kept.exists() else []
    networks = ["proxy"] if why_not() else ["spaces", "proxy"]
    end = time.monotonic() + options.hours * 3600
    while time.monotonic() + options.piece <= end:
        seed = max([line["seed"] + 1 for line in lines], default=options.first_seed)
        lines.append(run_piece(options, seed, networks[seed % len(networks)]))
        with open(kept, "a", encoding="utf-8") as out:
            out.write(json.dumps(lines[-1]) + "\n")
        (options.out / f"{name}.md").write_text(markdown(lines, chaos.words(options)), encoding="utf-8")
    if not lines:
        raise SystemExit("no piece fits: --hours is shorter than --piece")
    print(f"{options.out / name}.md has the report")
    return 1 if any(line["violations"] for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())

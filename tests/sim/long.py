#!/usr/bin/python3
"""Many simulated worlds, in pieces that can run on different days: `make sim-long`.

    tests/sim/long.py [--seeds N] [--hours H] [--jobs N] [--piece 500] [--seconds 60] [--first-seed N]
                      [--sim PROGRAM] [--evidence DIR] [--out DIR]

Runs the simulator at low priority, a piece of 500 seeds at a time. Each piece appends one line to
EVIDENCE/simulation.jsonl, so an interrupted run loses at most its last piece. The next run starts behind the highest
seed in that file. The table in EVIDENCE/simulation.md is made from all lines. A failing seed is recorded and does not
end the run. Exit status: 0 all seeds passed, 1 a seed failed, 2 the simulator did not work, 130 interrupted."""

import argparse
import fcntl
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FIRST_SEED = 2001  # `make sim` and `make test` run those below
BEGIN, END = "<!-- written by tests/sim/long.py: begin -->", "<!-- written by tests/sim/long.py: end -->"


class NotRun(Exception):
    """The simulator ended in a way that says nothing about the seeds."""


def version():
    """The commit, marked when something other than documents differs from it; "unknown" without a repository or git."""
    if shutil.which("git") is None:
        return "unknown"

    def git(*words):
        return subprocess.run(["git", "-C", ROOT, *words], check=False, capture_output=True, text=True)

    commit = git("rev-parse", "--short", "HEAD").stdout.strip()
    if not commit:
        return "unknown"
    same = git("diff", "--quiet", "HEAD", "--", ".", ":!docs").returncode == 0
    return commit if same else commit + "-dirty"


def violations(text):
    """The seeds that failed, and why. A failed assertion prints its own line before the line with the seed."""
    found, panic = [], ""
    for line in text.splitlines():
        match = re.match(r"VIOLATION seed (\d+)[^:]*: (.*)", line)
        if match:
            is_signal = line.startswith(f"VIOLATION seed {match[1]}:")
            found.append({"seed": int(match[1]), "text": panic if is_signal and panic else match[2]})
            panic = "" if is_signal else panic
        elif line.startswith("holdfast:"):
            panic = line
    return sorted(found, key=lambda one: one["seed"])


def figures(text):
    """The counts of the report's lines `nodes: ...` and `faults: ...`, by their names; `3 a (2 b)` gives a and a (b)."""
    found, outer = {}, ""
    for line in re.findall(r"^(?:nodes|faults): (.*)$", text, re.MULTILINE):
        for inside, count, name in re.findall(r"(\()?(\d+) ([a-z][a-z ]*[a-z])", line):
            outer = outer if inside else name
            found[f"{outer} ({name})" if inside else name] = int(count)
    return found


def piece_line(first, seconds, text):
    """What is kept of a piece that printed this text."""
    ended = re.search(r"^(\d+) passed, (\d+) failed$", text, re.MULTILINE)
    found = violations(text)
    if not ended or int(ended[2]) != len(found):
        raise NotRun("the simulator ended without its report")
    simulated = re.search(r"^(\d+) s simulated", text, re.MULTILINE)
    return {"first": first, "seeds": int(ended[1]) + int(ended[2]), "seconds": seconds,
            "simulated_s": int(simulated[1]) if simulated else 0, "violations": found, "figures": figures(text)}


def run_piece(program, options, first, count, within):
    """Runs the seeds from `first`; at most `count`, and begins none after `within` seconds of real time."""
    command = [program, "--seed", first, "--seeds", count, "--seconds", options.seconds, "--keep-going"]
    command += ["--jobs", options.jobs] if options.jobs else []
    command += ["--within", within] if within else []
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    # The pictures of failing worlds are written to the working directory.
    ended = subprocess.run([str(word) for word in command], check=False, cwd=options.out, stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if ended.returncode not in (0, 1):
        raise NotRun(f"the simulator ended with status {ended.returncode}:\n{ended.stdout[-2000:]}")
    line = piece_line(first, options.seconds, ended.stdout)
    if line["seeds"] < count and not within:
        raise KeyboardInterrupt  # it stopped at a signal
    core = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {**line, "core_s": round(core, 1)}


def ranges(lines):
    """The seeds of these lines in as few words as possible."""
    spans = []
    for first, end in sorted((line["first"], line["first"] + line["seeds"]) for line in lines):
        if spans and first <= spans[-1][1]:
            spans[-1][1] = max(end, spans[-1][1])
        else:
            spans.append([first, end])
    return ", ".join(f"{first} to {end - 1}" for first, end in spans)


def table(lines):
    """The section of simulation.md, as a list of lines."""
    failed = [(one, line["version"]) for line in lines for one in line["violations"]]
    text = [f"`make sim-long`: {sum(line['seeds'] for line in lines):,} worlds, {len(failed)} failed.", "",
            "| commit | last run | seeds | worlds | simulated hours | core hours | times real time | failed |",
            "|---|---|---|---|---|---|---|---|"]
    for commit in dict.fromkeys(line["version"] for line in lines):
        rows = [line for line in lines if line["version"] == commit]
        simulated, core = sum(row["simulated_s"] for row in rows), sum(row["core_s"] for row in rows)
        text.append(f"| {commit} | {rows[-1]['made']} | {ranges(rows)} | {sum(row['seeds'] for row in rows):,} | "
                    f"{simulated / 3600:,.1f} | {core / 3600:.2f} | {simulated / max(core, 0.1):.0f} | "
                    f"{sum(len(row['violations']) for row in rows)} |")
    last = [line for line in lines if line["version"] == lines[-1]["version"]]
    sums = {name: sum(line["figures"].get(name, 0) for line in last) for name in last[-1]["figures"]}
    if sums:
        text += ["", f"In the worlds of {last[-1]['version']}: " +
                 ", ".join(f"{count:,} {name}" for name, count in sums.items()) + "."]
    if failed:
        text += ["", "| failed seed | commit | violation |", "|---|---|---|"]
        text += [f"| {one['seed']} | {commit} | {one['text'].replace('|', '/')} |" for one, commit in failed]
    return text


def write_table(path, lines):
    """Replaces what stands between the two marks; text around them is kept."""
    text = path.read_text(encoding="utf-8") if path.exists() else f"# The simulation\n\n{BEGIN}\n{END}\n"
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise SystemExit(f"{path}: the lines \"{BEGIN}\" and \"{END}\" are missing; put them where the table belongs")
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    path.write_text("\n".join([before + BEGIN, "", *table(lines), "", END + after]), encoding="utf-8")


def read(path):
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def work(options, program, kept):
    """Runs piece after piece until the seeds or the hours are used up. Returns the lines of this run."""
    made = []
    commit = version()
    left = options.seeds
    end = time.monotonic() + options.hours * 3600 if options.hours else None
    first = options.first_seed or max([line["first"] + line["seeds"] for line in read(kept)], default=FIRST_SEED)
    while left is None or left > 0:
        within = None if end is None else round(end - time.monotonic())
        if within is not None and within <= 0:
            break
        count = options.piece if left is None else min(options.piece, left)
        line = run_piece(program, options, first, count, within)
        line.update(version=commit, made=time.strftime("%Y-%m-%d"))
        made.append(line)
        with open(kept, "a", encoding="utf-8") as out:
            out.write(json.dumps(line) + "\n")
        write_table(options.evidence / "simulation.md", read(kept))
        first += line["seeds"]
        left = None if left is None else left - line["seeds"]
        print(f"seeds {ranges([line])}: {len(line['violations'])} failed, "
              f"{line['simulated_s'] / max(line['core_s'], 0.1):.0f} times real time per core", flush=True)
        for one in line["violations"]:
            print(f"  seed {one['seed']}: {one['text']}", flush=True)
    return made


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, help="end after so many")
    parser.add_argument("--hours", type=float, help="end after so long; default 1 without --seeds")
    parser.add_argument("--jobs", type=int, help="worlds at a time; default: one for each core")
    parser.add_argument("--piece", type=int, default=500, help="seeds a piece")
    parser.add_argument("--seconds", type=int, default=60, help="simulated, with faults, of each world")
    parser.add_argument("--first-seed", type=int, help="default: behind the highest seed that was run")
    parser.add_argument("--sim", type=Path, default=ROOT / "build-sim/tests/sim/sim")
    parser.add_argument("--evidence", type=Path, default=ROOT / "docs/evidence")
    parser.add_argument("--out", type=Path, default=ROOT / "build-logs/sim-long")
    options = parser.parse_args(arguments)
    if options.seeds is None and options.hours is None:
        options.hours = 1
    return options


def main():
    options = parse(sys.argv[1:])
    options.out.mkdir(parents=True, exist_ok=True)
    options.out = options.out.resolve()
    lock = open(options.out / "lock", "w", encoding="utf-8")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print(f"sim-long: another run writes to {options.out}; two would run the same seeds", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends like Ctrl-C
    # A copy, so that a build that runs meanwhile does not change the program behind the recorded commit.
    program = Path(shutil.copy2(options.sim, options.out / f"sim-{os.getpid()}"))
    os.nice(19)
    status = 0
    try:
        made = work(options, program, options.evidence / "simulation.jsonl")
        status = 1 if any(line["violations"] for line in made) else 0
    except NotRun as error:
        print(f"sim-long: {error}", file=sys.stderr)
        status = 2
    except KeyboardInterrupt:
        print("sim-long: interrupted; the current piece is not recorded", file=sys.stderr)
        status = 130
    finally:
        program.unlink(missing_ok=True)
    print(f"{options.evidence / 'simulation.md'} has the table")
    return status


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/python3
"""Clients against real nodes while these are killed, paused, cut off and replaced: `make chaos`.

    tests/chaos/chaos.py [--seconds 90] [--seed 1] [--nodes 5 | --grow] [--power] [--secure] [--out build-logs]

--grow: the cluster begins with one node and grows to 3 and 5, shrinks to 2 and 1, and so on (growth.py), while faults
strike. --power: most nodes lose what they did not sync when they are killed. The history of what the clients saw is checked by history.py. Exit status 1: a promise broke; the report says which,
and the nodes' logs are kept."""

import argparse
import collections
import http.client
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cluster"))
import agreement  # noqa: E402
import credentials  # noqa: E402
import history  # noqa: E402
import report  # noqa: E402
from clients import NAMES, PROBE, STORM, Contender, Holder, Prober  # noqa: E402
from faults import AT_THE_LEADER, CHANGE_SECONDS, READY_SECONDS, Faults, schedule  # noqa: E402
from growth import TARGETS, Operator  # noqa: E402
from harness import ROOT, Cluster, Ports, allowed, dies_with_us, wait_until  # noqa: E402
from machines import Machines  # noqa: E402

PROBERS, CONTENDERS, HOLDERS, PROBE_THREADS, STORM_THREADS = 4, 6, 2, 4, 16
QUIET_SECONDS = 3.0  # of clients without faults, before and after
ROUND_SECONDS = (4.0, 20.0)  # of faults, in a cluster that grows: at least, and even if its size is not reached
STRIKE_SECONDS = 0.05  # at most between a request of the operator and the fault that is meant for it
AGREE_SECONDS = 20.0  # in which all nodes have one list of members, and a snapshot of one entry
FREE_SECONDS = 10.0  # and no name is held by somebody who is gone: the longest TTL here is 2.5 s
NEVER = ("assertion failed", "ERROR: AddressSanitizer", "runtime error")
CHECKED = (
    "Tokens: none twice, over all names one order that agrees with the order of calls and answers (S3.1).",
    "Holds: no two windows of one name overlap; a window lasts from the answer to the first sending of its release, "
    "or to the client's own deadline (S5).",
    "No holder is refused a renewal or a release before that deadline.",
    "Every grant that was kept to the end stands on every node.",
    "Every request to a node that was neither dead, paused nor starting was answered within its bound.",
    "No answer is an error other than 503 and 504.",
    "After the last fault every node serves again, every client goes on, and every wanted name can be had.",
    "Two entries with one index and one term are equal in the logs of all nodes, committed or not.",
    "At the end all nodes have one list of members, and states that are equal byte by byte.",
    "No node ended by itself, and no log has a failed assertion.",
)
now = time.monotonic


class World:
    def __init__(self, seed, machines):
        self.seed = seed
        self.machines = machines
        self.credentials = machines.credentials
        self.over = threading.Event()
        self.stormed = []
        self.entries = agreement.Entries()
        self.rounds = []  # the operators of a cluster that grows
        self.endpoints = ",".join(f"{host}:{port}" for host, port in machines.clients.values())
        self.clients = [kind(self, f"{kind.__name__.lower()}-{i}")
                        for kind, count in ((Prober, PROBERS), (Contender, CONTENDERS), (Holder, HOLDERS))
                        for i in range(count)]

    def ops(self):
        return [op for client in self.clients for op in list(client.ops)] + self.stormed


def start_probe(world, seconds):
    """libholdfast under load, with checks of its own; `seconds` cover the whole run."""
    return subprocess.Popen(dies_with_us([PROBE, "load", world.endpoints, int(seconds), PROBE_THREADS]),
                            env=world.credentials.environment("worker"), stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def start_storm(world, seconds, rate, seed, path):
    return subprocess.Popen(
        dies_with_us([STORM, world.endpoints, int(seconds), STORM_THREADS, rate, seed, path]),
        env=world.credentials.environment("worker"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def end_storm(world, storm, path, violations):
    try:
        _, err = storm.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        storm.kill()
        _, err = storm.communicate()
        violations.append("storm does not end")
    if storm.returncode != 0:
        violations.append(f"storm ended with {storm.returncode}: {err[-500:]}")
    world.stormed = history.read_storm(path.read_bytes())


def inject(faults, seed, seconds, over, violations):
    """The schedule, for so long. A fault that does not end as it should ends the run."""
    end = now() + seconds
    for kind, lasts, gap, pick in schedule(seed, faults.machines.have, len(faults.machines.clients)):
        if now() >= end or over.wait(gap):
            return
        try:
            faults.run(kind, lasts, pick, over)
        except AssertionError as problem:
            violations.append(f"{kind}: {problem}")
            return


def strike(world, faults, plan, operator, dice, violations):
    """Faults while the operator is at work, most of them at the moment of a change."""
    begin = now()
    while operator.is_alive() and now() < begin + ROUND_SECONDS[1] or now() < begin + ROUND_SECONDS[0]:
        kind, lasts, gap, pick = next(plan)
        operator.sent.clear()
        if dice.random() < 0.7:
            operator.sent.wait(2 * gap)
            time.sleep(dice.uniform(0, STRIKE_SECONDS))
        else:
            time.sleep(gap)
        try:
            faults.run(kind, lasts, pick, world.over)
        except AssertionError as problem:
            violations.append(f"{kind}: {problem}")
            return


def grow(world, faults, options, violations):
    """Round after round: the cluster gets another size under faults; then all is well within a bound, or it ends."""
    end = now() + options.seconds
    plan = schedule(options.seed, faults.machines.have, len(faults.machines.clients), grows=True)
    dice = random.Random(f"{options.seed} strike")
    for number, target in enumerate(itertools.cycle(TARGETS)):
        if now() >= end or violations:
            return
        operator = Operator(world, faults, target, f"{options.seed} {number}")
        operator.start()
        strike(world, faults, plan, operator, dice, violations)
        if not violations:
            operator.join(allowed(CHANGE_SECONDS))
        operator.gives_up.set()
        operator.join()
        violations.extend(operator.wrong)
        world.rounds.append(operator)
        if not violations:
            check_round(world, faults, violations)
        faults.say(f"round {number + 1}: {target} voters, {sum(operator.steps.values())} steps, "
                   f"{len(violations)} violations")


def check_round(world, faults, violations):
    try:
        faults.all_ready(allowed(READY_SECONDS))
    except AssertionError as problem:
        violations.append(f"after the faults of a round: {problem}")
        return
    nodes = list(faults.nodes.values())
    violations.extend(agreement.check_members(nodes, AGREE_SECONDS))
    violations.extend(agreement.check_logs(world.entries, nodes))
    attempts = [a for client in world.clients for a in list(client.attempts)]
    violations.extend(history.check(world.ops(), attempts, faults.away))


def check_agreement(world, faults, is_stuck, violations):
    """Nobody requests anything any more."""
    nodes = list(faults.nodes.values())
    violations.extend(agreement.check_logs(world.entries, nodes))
    if not is_stuck and all(node.running for node in nodes):
        violations.extend(agreement.check_members(nodes, AGREE_SECONDS))
        violations.extend(agreement.check_states(nodes, AGREE_SECONDS))


def goes_on(world, faults, violations):
    """Liveness, once the faults stop."""
    try:
        faults.all_ready(allowed(READY_SECONDS))
    except AssertionError as problem:
        violations.append(f"after the faults: {problem}")
        return
    before = {client: len(client.ops) for client in world.clients}
    try:
        wait_until(lambda: all(any(op.outcome == "ok" for op in client.ops[before[client]:])
                               for client in world.clients), "every client goes on",
                   allowed(FREE_SECONDS))
    except AssertionError as problem:
        idle = [c.who for c in world.clients if not any(o.outcome == "ok" for o in c.ops[before[c]:])]
        violations.append(f"after the faults: {problem}: {idle}")
    world.over.wait(QUIET_SECONDS)


def names_are_free(faults, violations):
    try:
        node = faults.nodes[faults.leader()]
    except AssertionError as problem:
        violations.append(f"after the faults: {problem}")
        return
    for i in range(NAMES):
        name, end, answer = f"wanted-{i}", now() + allowed(FREE_SECONDS), None
        while now() < end:
            body = {"client_id": "last", "ttl_ms": 1000, "wait_timeout_ms": 2000}
            answer = node.try_request("POST", f"/api/v1/locks/{name}/acquire", body)
            if answer is not None and answer.status == 200 and answer.json["acquired"]:
                break
        else:
            violations.append(f"after the faults: {name} is not to be had: {answer}")


def read_kept(faults, ops, violations):
    """What every node shows of the grants that nobody gave back."""
    kept = [hold for hold in history.holds_of(ops).values()
            if hold.grant.name.startswith("prober") and hold.released == float("inf")]
    if not kept:
        return [], 0
    newest = max(kept, key=lambda hold: hold.grant.token)
    read = []
    for number, node in faults.nodes.items():
        try:
            # It has all of the log once it has the last one.
            wait_until(lambda n=node: n.show(newest.grant.name, stale=True).json["held"],
                       f"{newest.grant.name} is held", allowed(FREE_SECONDS))
            read += read_node(number, node, kept)
        except (AssertionError, OSError, http.client.HTTPException) as problem:
            violations.append(f"machine {number}: what it knows at the end cannot be read: {problem}")
    return read, len(kept)


def read_node(number, node, kept):
    read = []
    connection = node.connect()
    for hold in kept:
        requested = now()
        connection.request("GET", f"/api/v1/locks/{hold.grant.name}?stale=true", headers=node.headers)
        holders = json.loads(connection.getresponse().read()).get("holders") or [{"fencing_token": 0}]
        read.append((number, hold.grant.name, holders[0]["fencing_token"], requested, now()))
    connection.close()
    return read


def check_nodes(machines, violations):
    for number, node in machines.nodes.items():
        if not node.running:
            violations.append(f"machine {number}: node {node.id} ended by itself with {node.process.returncode}")
    for node in [*machines.nodes.values(), *machines.removed]:
        violations.extend(f"node {node.id}: its log says: {word}" for word in NEVER if word in node.log())


def probe_result(probe, violations):
    try:
        out, err = probe.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        probe.kill()
        out, err = probe.communicate()
        violations.append("client_probe load does not end")
    violations.extend(f"client_probe load: {line}" for line in err.splitlines()[:20])
    if probe.returncode != 0 and not err:
        violations.append(f"client_probe load ended with {probe.returncode}")
    return json.loads(out) if out.strip() else {}


def drive(world, faults, options, violations):
    """All that happens, in order. Returns when faults began and ended, what was read, the probe's result."""
    # It goes on until after the faults: what is left of the last one may take a while.
    probe = start_probe(world, options.seconds + 2 * QUIET_SECONDS)
    written = faults.machines.cluster.folder / "storm"
    storm = start_storm(world, options.seconds + 2 * QUIET_SECONDS, options.storm, options.seed, written)
    try:
        for client in world.clients:
            client.start()
        world.over.wait(QUIET_SECONDS)
        begin = now()
        if options.grow:
            grow(world, faults, options, violations)
        else:
            inject(faults, options.seed, options.seconds, world.over, violations)
        end = now()
        is_stuck = bool(violations)  # then what follows would only wait for what does not come
        if not is_stuck:
            goes_on(world, faults, violations)
        world.over.set()
        for client in world.clients:
            client.join(60)
            if client.is_alive() or client.failed:
                violations.append(f"{client.who} did not end well: {client.failed}")
        said = probe_result(probe, violations)
        end_storm(world, storm, written, violations)
        if not is_stuck:
            names_are_free(faults, violations)
        check_nodes(faults.machines, violations)
        check_agreement(world, faults, is_stuck, violations)
        read, kept = ([], 0) if is_stuck else read_kept(faults, world.ops(), violations)
        return begin, end, read, kept, said
    finally:
        world.over.set()
        for process in (probe, storm):
            if process.poll() is None:
                process.kill()
                process.wait()


def describe_fault(ops, fault, begin, end):
    """A fault as the report tells it: times from the first one on, and how long nobody was served."""
    last = fault.get("end", end)
    took = history.failover(ops, fault["struck"]) if fault["kind"] in AT_THE_LEADER and "struck" in fault else None
    return {**fault, "begin": fault["begin"] - begin, "end": last - begin,
            "struck": fault.get("struck", last) - begin,
            "failover_ms": None if took is None else took * 1000,
            "gap_ms": history.longest_gap(ops, fault["begin"], last + 1) * 1000}


def summary(world, faults, options, violations, times, load):
    begin, end, read, kept, said = times
    ops = world.ops()
    attempts = [a for client in world.clients for a in client.attempts]
    violations = list(dict.fromkeys(violations + history.check(ops, attempts, faults.away, read)))
    marks = history.slots(ops, begin, end)
    outcomes = collections.defaultdict(collections.Counter)
    for op in ops:
        outcomes[op.kind][op.outcome] += 1
    described = [describe_fault(ops, fault, begin, end) for fault in faults.done]
    notes = [f"{kept} grants were kept to the end and looked for on each of {len(faults.nodes)} nodes.",
             f"{len(world.entries.seen)} log entries were compared."]
    if options.grow:
        notes += growth_notes(world.rounds)
    if options.power:
        notes.append(f"{faults.machines.cuts} of the killed nodes lost what they had not synced.")
    notes.append({"spaces": "Links were cut between network namespaces.",
                  "proxy": "Links were cut and slowed by a proxy in user space."}[faults.machines.network])
    if options.power:
        notes.append("No full or slow disks.")
    if faults.machines.without_shim is not None:
        notes.append(f"No full or slow disks, no wrong clocks: {faults.machines.without_shim}.")
    if faults.machines.other is not None:
        notes.append(f"Rolled between {ROOT.name}'s own program and {options.other}.")
    return {
        "command": f"make chaos SECONDS={options.seconds} SEED={options.seed} STORM={options.storm}{words(options)}",
        "seed": options.seed, "seconds": end - begin, "machines": len(faults.machines.clients), "cores": os.cpu_count(),
        "load": load, "load_after": round(os.getloadavg()[0], 1),
        "operations": sum(op.kind != "claim" for op in ops), "grants": len(history.granted(ops)), "attempts": len(attempts),
        "outcomes": outcomes, "slots": len(marks), "slots_served": sum(marks),
        "faults": described, "probe": said, "notes": notes, "checked": CHECKED, "svg": f"{stem(options, options.seed)}.svg",
        "violations": violations,
    }, marks


def growth_notes(rounds):
    steps = sum((operator.steps for operator in rounds), collections.Counter())
    refusals = sum((operator.refusals for operator in rounds), collections.Counter())
    sizes = ", ".join(["1", *[str(operator.target) for operator in rounds]])
    return [f"{len(rounds)} rounds, voters: {sizes}.",
            "Steps: " + ", ".join(f"{word} {count}" for word, count in sorted(steps.items())) + ".",
            *[f"Refused {count} times: {why}" for why, count in refusals.most_common()]]


def words(options):
    """How a run of this kind is requested, beside seed and seconds."""
    return ((" GROW=1" if options.grow else "" if options.nodes == 5 else f" NODES={options.nodes}")
            + (" POWER=1" if options.power else "") + (" SECURE=1" if options.secure else ""))


def stem(options, last):
    kind = "-grow" if options.grow else "" if options.nodes == 5 else f"-of-{options.nodes}"
    return f"chaos{kind}{'-power' if options.power else ''}{'-secure' if options.secure else ''}-{last}"


def run(options, folder):
    load = round(os.getloadavg()[0], 1)
    violations = []
    flags = ["--request-timeout", "1s", "--segment-size", "9M"]
    if options.grow:
        flags += ["--snapshot-log-size", "256K"]  # new members get snapshots
    cluster = Cluster(folder, options.nodes, flags, name="chaos")
    machines = Machines(cluster, options.network, options.other, 1 if options.grow else None,
                        random.Random(f"{options.seed} power") if options.power else None,
                        lambda hosts: credentials.make(options, folder, hosts))
    begun = now()
    try:
        cluster.start()
        machines.credentials.set_up(next(iter(cluster)))
        faults = Faults(machines, lambda text: print(f"{now() - begun:7.1f} s  {text}", flush=True), options.grow)
        world = World(options.seed, machines)
        times = drive(world, faults, options, violations)
        result, marks = summary(world, faults, options, violations, times, load)
    finally:
        machines.close()
    picture = report.svg(marks, result["faults"], 0, result["seconds"])
    return result, report.write(Path(options.out), stem(options, options.seed), result, picture)


def add_kind(parser):
    """What kind of cluster it is; for long.py, too."""
    parser.add_argument("--nodes", type=int, choices=[1, 2, 3, 5], default=5)
    parser.add_argument("--grow", action="store_true", help="from one node to five and back, under faults")
    parser.add_argument("--power", action="store_true", help="killed nodes lose what they did not sync")
    parser.add_argument("--secure", action="store_true", help="TLS between all, and auth = on")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=90)
    parser.add_argument("--seed", type=int, default=1)
    add_kind(parser)
    parser.add_argument("--storm", type=int, default=150, metavar="N", help="cycles a second of the C clients")
    parser.add_argument("--network", choices=["spaces", "proxy"], help="default: spaces where root")
    parser.add_argument("--other", type=Path, help="another version of the program, to be rolled to and back")
    parser.add_argument("--out", default=ROOT / "build-logs")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))  # and clear away
    print(f"seed {options.seed}, {options.seconds} s of faults", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="holdfast-chaos-"))
    kept = False
    try:
        with Ports():
            result, path = run(options, folder)
        if result["violations"]:
            kept = Path(options.out) / f"{stem(options, options.seed)}-logs"
            kept.mkdir(exist_ok=True)
            for log in folder.glob("*.log"):
                shutil.copy(log, kept)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for text in result["violations"][:20]:
        print("violation:", text)
    if kept:
        print(f"The nodes' logs are in {kept}")
    print(f"seed {options.seed}: {result['operations']} operations, {len(result['faults'])} faults, "
          f"{len(result['violations'])} violations. Report: {path}")
    return 1 if result["violations"] else 0


if __name__ == "__main__":
    sys.exit(main())

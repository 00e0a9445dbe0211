"""What goes wrong, and when. The seed decides kinds, times and sides; "the leader" is whoever leads then, so two
runs of a seed meet the same faults and not the same history."""

import http.client
import random
import shutil
import signal
import time

from harness import PATIENCE, PROGRAM, wait_until

# kind -> (weight, seconds that it lasts: least and most, what it needs)
KINDS = {
    "kill the leader": (4, 0.5, 2.0, ""),
    "kill a follower": (2, 0.5, 2.0, ""),
    "kill the leader and a follower": (1, 0.5, 2.0, ""),
    "kill all five": (1, 0.0, 0.5, ""),
    "pause the leader": (3, 0.5, 4.0, ""),
    "pause a follower": (1, 0.5, 4.0, ""),
    "restart a node": (2, 0.0, 0.0, ""),
    "part the leader with one other": (3, 1.0, 4.0, ""),
    "part two followers": (1, 1.0, 4.0, ""),
    "the leader is not heard": (2, 1.0, 4.0, ""),
    "slow the leader's links": (2, 1.0, 4.0, "proxy"),
    "slow a follower's links": (1, 1.0, 4.0, "proxy"),
    "fill the leader's disk": (1, 0.5, 2.0, "shim"),
    "fill a follower's disk": (1, 0.5, 2.0, "shim"),
    "slow the leader's disk": (1, 1.0, 3.0, "shim"),
    "put the leader's clock forward": (1, 1.5, 3.0, "shim"),
    "put the leader's clock back": (1, 1.5, 3.0, "shim"),
    "roll a node to the other version": (2, 0.0, 0.0, "other"),
    "transfer leadership": (2, 0.0, 0.0, ""),
    "replace a member": (2, 0.0, 0.0, ""),
}
# After these there is no leader that can serve, until there is another.
AT_THE_LEADER = ("kill the leader", "kill the leader and a follower", "kill all five", "pause the leader",
                 "part the leader with one other", "the leader is not heard")
SLOW_LINKS = (0.005, 0.05, 0.2)  # seconds, one way; the election timeout is 0.3
CLOCK_JUMP = 3600  # seconds
GAP = (0.3, 1.5)
CHANGE_SECONDS = 30.0
now = time.monotonic


def schedule(seed, have):
    """Endless: (kind, seconds that it lasts, seconds until the next, a number that picks among nodes). `have`:
    what there is of "shim", "proxy" and "other"."""
    dice = random.Random(f"{seed} faults")
    kinds = [kind for kind, row in KINDS.items() if row[3] in ("", *have)]
    while True:
        # Each kind once, then the rest of what their weights say: a short run meets them all.
        once, more = list(kinds), [kind for kind in kinds for _ in range(KINDS[kind][0] - 1)]
        dice.shuffle(once)
        dice.shuffle(more)
        for kind in once + more:
            _, least, most, _ = KINDS[kind]
            yield kind, dice.uniform(least, most), dice.uniform(*GAP), dice.randrange(1 << 30)


class Faults:
    def __init__(self, machines, say):
        self.machines = machines
        self.say = say
        self.done = []  # {kind, begin, struck (it has happened), end, machines, leader}
        self.away = {number: [] for number in machines.nodes}

    # --- who is who ---

    @property
    def nodes(self):
        return self.machines.nodes

    def leader(self):
        """The machine whose node most others follow."""
        def agreed():
            votes = {}
            for node in self.nodes.values():
                view = node.cluster() if node.running and not node.paused else None
                if view and view["leader"] and view["serving"]:
                    votes.setdefault((view["term"], view["leader"]), []).append(node)
            for (_, ident), voters in votes.items():
                if len(voters) > len(self.nodes) // 2:
                    return next((i for i, node in self.nodes.items() if node.id == ident), None)
            return None

        return wait_until(agreed, "there is a leader")

    def followers(self, leader, pick):
        others = [number for number in sorted(self.nodes) if number != leader]
        random.Random(pick).shuffle(others)
        return others

    # --- one fault ---

    def run(self, kind, seconds, pick, over):
        """From the moment it happens until all is as before. A fault that does not end well is a finding."""
        leader = self.leader()
        others = self.followers(leader, pick)
        victims = {"kill the leader": [leader], "kill a follower": others[:1],
                   "kill the leader and a follower": [leader, others[0]], "kill all five": [*self.nodes],
                   "pause the leader": [leader], "pause a follower": others[:1],
                   "restart a node": [random.Random(pick).choice([leader, *others])],
                   "part the leader with one other": [leader, others[0]],
                   "part two followers": others[:2], "the leader is not heard": [leader],
                   "fill the leader's disk": [leader], "fill a follower's disk": others[:1],
                   "slow the leader's disk": [leader], "transfer leadership": others[:1],
                   "slow the leader's links": [leader], "slow a follower's links": others[:1],
                   "put the leader's clock forward": [leader], "put the leader's clock back": [leader],
                   "roll a node to the other version": [random.Random(pick).choice([leader, *others])],
                   "replace a member": [random.Random(pick).choice([leader, *others])]}[kind]
        begin = now()
        fault = {"kind": kind, "begin": begin, "machines": victims, "leader": leader}
        self.done.append(fault)
        self.say(f"{kind}: {victims}")
        if kind.startswith("kill"):
            self.kill(victims, seconds, over)
        elif kind.startswith("pause"):
            self.pause(victims, seconds, over)
        elif kind == "restart a node":
            self.restart(victims[0])
        elif kind.startswith("roll"):
            self.restart(victims[0], roll=True)
        elif kind.endswith("links"):
            self.slow_links(victims[0], random.Random(pick).choice(SLOW_LINKS), seconds, over)
        elif "clock" in kind:
            self.jump(victims[0], CLOCK_JUMP if kind.endswith("forward") else -CLOCK_JUMP, seconds, over)
        elif kind.startswith("part") or kind == "the leader is not heard":
            self.cut(kind, victims, seconds, over)
        elif "disk" in kind:
            self.spoil(victims[0], ".full" if kind.startswith("fill") else ".slow", seconds, over)
        elif kind == "transfer leadership":
            self.change(leader, "POST", "/transfer", {"to": self.nodes[victims[0]].id})
        else:
            self.replace(victims[0], others[0] if victims[0] != others[0] else leader)
        fault["end"] = now()
        fault.setdefault("struck", begin)

    def struck(self):
        self.done[-1]["struck"] = now()

    def kill(self, victims, seconds, over):
        begin = now()
        for number in victims:
            self.nodes[number].process.kill()
        for number in victims:
            self.nodes[number].process.wait()
        self.struck()
        over.wait(seconds)
        for number in victims:
            self.nodes[number].start()
        for number in victims:
            self.nodes[number].wait_ready()
            self.away[number].append((begin, now()))

    def pause(self, victims, seconds, over):
        begin = now()
        for number in victims:
            self.nodes[number].signal(signal.SIGSTOP)
        self.struck()
        over.wait(seconds)
        for number in victims:
            self.nodes[number].signal(signal.SIGCONT)
            self.away[number].append((begin, now()))

    def restart(self, number, roll=False):
        begin = now()
        node = self.nodes[number]
        status = node.stop()
        assert status == 0, f"machine {number} ended with {status} when it was told to stop"
        if roll:
            node.program = PROGRAM if node.program != PROGRAM else self.machines.other
        node.start().wait_ready()
        self.away[number].append((begin, now()))

    def cut(self, kind, victims, seconds, over):
        cables = self.machines.cables
        if kind == "the leader is not heard":
            cables.silence(victims[0])
        else:
            cables.part(victims)
        self.struck()
        over.wait(seconds)
        cables.heal()

    def slow_links(self, number, delay, seconds, over):
        self.machines.cables.slow(number, delay)
        self.struck()
        over.wait(seconds)
        self.machines.cables.heal()

    def jump(self, number, by, seconds, over):
        """The wall clock: what people read, and nothing that decides (S1.1)."""
        self.machines.set_clock(self.nodes[number], by)
        self.struck()
        over.wait(seconds)
        self.machines.set_clock(self.nodes[number], 0)

    def spoil(self, number, how, seconds, over):
        """tests/support/bad_disk.c looks for this file."""
        node = self.nodes[number]
        mark = node.folder.with_suffix(how)
        before = len(node.events("disk_full"))
        mark.touch()
        self.struck()
        over.wait(seconds)
        if how == ".full":  # clients go on, so it must have noticed
            node.wait_event("disk_full", before + 1)
        mark.unlink()
        if how == ".full":
            node.wait_event("disk_has_room", before + 1)

    def change(self, asked, method, path, body=None):
        """A change of members, asked for again while it is refused for the moment."""
        answers = []

        def done():
            try:
                answers.append(self.nodes[asked].ask(method, "/api/v1/members" + path, body, timeout=5))
            except (OSError, http.client.HTTPException) as problem:
                answers.append(problem)
                return False
            text = answers[-1].text
            # An earlier attempt, whose answer was lost, may have done it.
            return answers[-1].status == 200 or (len(answers) > 1 and (
                "member already" in text or "voter already" in text or "no member has" in text
                or "leads already" in text))

        wait_until(done, lambda: f"{method} {path}: {answers[-1]}", CHANGE_SECONDS)

    def replace(self, number, asked):
        """Out with a node, and another comes in its place under a new id (S12.1)."""
        begin = now()
        old = self.nodes[number]
        self.change(asked, "DELETE", f"/{old.id}")
        old.kill()
        shutil.rmtree(old.folder)
        new = self.machines.replace(number).start()
        self.change(asked, "POST", "", {"id": new.id, "address": self.machines.address(number)})
        self.change(asked, "POST", f"/{new.id}/promote")
        new.wait_ready()
        self.away[number].append((begin, now()))

    def all_ready(self, seconds=PATIENCE):
        """Seconds until every node says that it serves."""
        begin = now()
        for node in self.nodes.values():
            wait_until(lambda n=node: (lambda a: a is not None and a.status == 200)(
                n.try_ask("GET", "/readyz", timeout=2)), f"node {node.id} serves", seconds)
        return now() - begin

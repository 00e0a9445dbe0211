"""What goes wrong, and when. The seed decides kinds, times and sides; "the leader" is whoever leads then, so two
runs of a seed meet the same faults and not the same history."""

import contextlib
import http.client
import random
import shutil
import signal
import threading
import time

from harness import PATIENCE, PROGRAM, allowed, wait_until

# kind -> (weight, seconds that it lasts: least and most, what it needs, nodes that it needs)
KINDS = {
    "kill the leader": (4, 0.5, 2.0, "", 1),
    "kill a follower": (2, 0.5, 2.0, "", 2),
    "kill the leader and a follower": (1, 0.5, 2.0, "", 3),
    "kill all five": (1, 0.0, 0.5, "five", 5),
    "kill all nodes": (1, 0.0, 0.5, "others", 2),
    "pause the leader": (3, 0.5, 4.0, "", 1),
    "pause a follower": (1, 0.5, 4.0, "", 2),
    "restart a node": (2, 0.0, 0.0, "", 1),
    "part the leader with one other": (3, 1.0, 4.0, "", 3),
    "part the leader alone": (3, 1.0, 4.0, "others", 2),
    "part two followers": (1, 1.0, 4.0, "", 3),
    "the leader is not heard": (2, 1.0, 4.0, "", 2),
    "slow the leader's links": (2, 1.0, 4.0, "proxy", 2),
    "slow a follower's links": (1, 1.0, 4.0, "proxy", 2),
    "fill the leader's disk": (1, 0.5, 2.0, "disk", 1),
    "fill a follower's disk": (1, 0.5, 2.0, "disk", 2),
    "slow the leader's disk": (1, 1.0, 3.0, "disk", 1),
    "put the leader's clock forward": (1, 1.5, 3.0, "shim", 1),
    "put the leader's clock back": (1, 1.5, 3.0, "shim", 1),
    "roll a node to the other version": (2, 0.0, 0.0, "other", 1),
    "transfer leadership": (2, 0.0, 0.0, "", 2),
    "replace a member": (2, 0.0, 0.0, "", 2),
}
# In a cluster whose members change all the time: what strikes at once and is short.
GROWING = {"kill the leader": 6, "kill a follower": 4, "kill the leader and a follower": 2, "kill all nodes": 2,
           "pause the leader": 2, "pause a follower": 1, "part the leader alone": 3, "part the leader with one other": 2,
           "the leader is not heard": 2, "slow the leader's links": 1, "transfer leadership": 2}
# After these there is no leader that can serve, until there is another.
AT_THE_LEADER = ("kill the leader", "kill the leader and a follower", "kill all five", "kill all nodes",
                 "pause the leader", "part the leader with one other", "part the leader alone", "the leader is not heard")
SLOW_LINKS = (0.005, 0.05, 0.2)  # seconds, one way; the election timeout is 0.3
CLOCK_JUMP = 3600  # seconds
GAP = (0.3, 1.5)
SHORT = 0.4  # of the time that a fault lasts elsewhere, in a cluster that grows
CHANGE_SECONDS = 30.0
LEADER_SECONDS = 15.0  # in which there is a leader again, whatever happened before
READY_SECONDS = 15.0  # in which a node serves that was started again
now = time.monotonic


def kinds_of(have, count, grows):
    """kind -> weight. `have`: what there is of "shim", "disk", "proxy" and "other"; `count` machines."""
    have = ["", *have, "five" if count == 5 and not grows else "others"]
    return {kind: GROWING[kind] if grows else row[0] for kind, row in KINDS.items()
            if row[3] in have and row[4] <= count and (not grows or kind in GROWING)}


def schedule(seed, have, count=5, grows=False):
    """Endless: (kind, seconds that it lasts, seconds until the next, a number that picks among nodes)."""
    dice = random.Random(f"{seed} faults")
    kinds = kinds_of(have, count, grows)
    while True:
        # Each kind once, then the rest of what their weights say: a short run meets them all.
        once, more = list(kinds), [kind for kind, weight in kinds.items() for _ in range(weight - 1)]
        dice.shuffle(once)
        dice.shuffle(more)
        for kind in once + more:
            _, least, most, _, _ = KINDS[kind]
            lasts = dice.uniform(least, most) * (SHORT if grows else 1)
            yield kind, lasts, dice.uniform(*GAP), dice.randrange(1 << 30)


def victims_of(kind, leader, others, dice):
    """The machines that it strikes. There may be fewer nodes than it wants."""
    if kind.startswith("kill all"):
        return [leader, *others]
    if kind.startswith(("restart", "roll", "replace")):
        return [dice.choice([leader, *others])]
    if kind in ("kill the leader and a follower", "part the leader with one other"):
        return [leader, *others[:1]] if len(others) > 1 else [leader]
    if kind == "part two followers":
        return others[:2]
    return others[:1] if "follower" in kind or kind == "transfer leadership" else [leader]


def is_ready(node):
    answer = node.try_request("GET", "/readyz", timeout=2)
    return answer is not None and answer.status == 200


class Faults:
    def __init__(self, machines, say, grows=False):
        self.machines = machines
        self.say = say
        self.grows = grows
        self.done = []  # {kind, begin, struck (it has happened), end, machines, leader}
        self.away = {number: [] for number in machines.clients}
        # Who strikes the node of a machine, or replaces it, has its lock.
        self.locks = {number: threading.Lock() for number in machines.clients}

    # --- who is who ---

    @property
    def nodes(self):
        return self.machines.nodes

    def leader(self, seconds=PATIENCE):
        """The machine whose node most others follow. Among members that change: the newest that says so itself."""
        def agreed():
            votes = {}
            leading = {}
            nodes = self.nodes
            for number, node in nodes.items():
                view = node.cluster() if node.running and not node.paused else None
                if view and view["leader"] and view["serving"]:
                    votes.setdefault((view["term"], view["leader"]), []).append(node)
                    if view["leader"] == node.id:
                        leading[view["term"]] = number
            if self.grows:
                return leading[max(leading)] if leading else None
            for (_, ident), voters in votes.items():
                if len(voters) > len(nodes) // 2:
                    return next((i for i, node in nodes.items() if node.id == ident), None)
            return None

        return wait_until(agreed, "there is a leader", seconds)

    def followers(self, leader, pick):
        others = [number for number in sorted(self.nodes) if number != leader]
        random.Random(pick).shuffle(others)
        return others

    # --- one fault ---

    def run(self, kind, seconds, pick, over):
        """From the moment it happens until all is as before. A fault that does not end well is a finding."""
        leader = self.leader(allowed(LEADER_SECONDS) if self.grows else PATIENCE)
        others = self.followers(leader, pick)
        victims = victims_of(kind, leader, others, random.Random(pick)) or [leader]
        if len(victims) > len(others) and kind.startswith("part"):
            return  # there is nobody to part them from
        begin = now()
        with contextlib.ExitStack() as held:
            for number in sorted(victims):
                held.enter_context(self.locks[number])
            victims = [number for number in victims if number in self.nodes]  # taken away meanwhile
            if not victims:
                return
            fault = {"kind": kind, "begin": begin, "machines": victims, "leader": leader}
            self.done.append(fault)
            self.say(f"{kind}: {victims}")
            self.strike(kind, victims, leader, others, seconds, pick, over)
            fault["end"] = now()
            fault.setdefault("struck", begin)

    def strike(self, kind, victims, leader, others, seconds, pick, over):
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
        elif kind == "transfer leadership" and self.grows:
            self.nodes[leader].try_request("POST", "/api/v1/members/transfer", timeout=5)  # it may be refused
        elif kind == "transfer leadership":
            self.change(leader, "POST", "/transfer", {"to": self.nodes[victims[0]].id})
        else:
            self.replace(victims[0], others[0] if victims[0] != others[0] else leader)

    def struck(self):
        self.done[-1]["struck"] = now()

    def kill(self, victims, seconds, over):
        begin = now()
        self.machines.kill([self.nodes[number] for number in victims])
        self.struck()
        over.wait(seconds)
        for number in victims:
            self.nodes[number].start()
        for number in victims:
            if self.grows:
                self.wait_served(self.nodes[number])
            else:
                self.nodes[number].wait_ready()
            self.away[number].append((begin, now()))

    def wait_served(self, node):
        """A node that was started again serves, unless it is no member: not yet, or no more."""
        begin, bound = now(), allowed(READY_SECONDS)
        while not is_ready(node):
            assert node.running, f"node {node.id} ended with {node.process.returncode} when it was started again"
            if now() > begin + bound / 10 and not self.is_member(node):
                return
            assert now() < begin + bound, f"node {node.id} does not serve {bound:.0f} s after it was started again"
            time.sleep(0.02)

    def is_member(self, node):
        """As the newest leader sees it. Without one, it may be."""
        try:
            leader = self.nodes[self.leader(2)]
        except AssertionError:
            return True
        view = leader.cluster()
        return view is None or node.id in [member["id"] for member in view["members"]]

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
        assert status == 0, f"machine {number} ended with {status} after SIGTERM"
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

    def change(self, through, method, path, body=None):
        """A change of members, requested again while it is refused for the moment."""
        answers = []

        def done():
            try:
                answers.append(self.nodes[through].request(method, "/api/v1/members" + path, body, timeout=5))
            except (OSError, http.client.HTTPException) as problem:
                answers.append(problem)
                return False
            text = answers[-1].text
            # An earlier attempt, whose answer was lost, may have done it.
            return answers[-1].status == 200 or (len(answers) > 1 and (
                "member already" in text or "voter already" in text or "no member has" in text
                or "leads already" in text))

        wait_until(done, lambda: f"{method} {path}: {answers[-1]}", CHANGE_SECONDS)

    def replace(self, number, through):
        """Out with a node, and another comes in its place under a new id (S12.1)."""
        begin = now()
        old = self.nodes[number]
        self.change(through, "DELETE", f"/{old.id}")
        self.discard(number)
        new = self.machines.add(number).start()
        self.change(through, "POST", "", {"id": new.id, "address": self.machines.address(number)})
        self.change(through, "POST", f"/{new.id}/promote")
        new.wait_ready()
        self.away[number].append((begin, now()))

    def discard(self, number):
        """A node that is a member no more."""
        old = self.machines.take_away(number)
        old.kill()
        shutil.rmtree(old.folder)

    def all_ready(self, seconds=PATIENCE):
        """Seconds until every node says that it serves."""
        begin = now()
        for node in self.nodes.values():
            wait_until(lambda n=node: is_ready(n), f"node {node.id} serves", seconds)
        return now() - begin

"""A cluster that grows from one node and shrinks again: an operator who adds, promotes, demotes and removes members,
the leader too, while faults strike. Every request may be lost or refused for the moment, so a step is requested until
the leader's list of members shows it."""

import collections
import random
import subprocess
import threading
import time

import agreement
from harness import PROGRAM, dies_with_us

TARGETS = (3, 5, 2, 1)  # voters at the end of a round, over and over
COMMAND_SHARE = 0.4  # of the steps by `holdfast member`, the others over HTTP
LEADER_SHARE = 0.5  # of those who go are the leader
LEARNERS_STAY = 0.6  # how often a cluster that has its size keeps its learners
PAUSE = (0.0, 0.4)  # between two steps
ALONE = (0.5, 2.0)  # with one voter and learners: what the voter did not sync must not come back differently
COMMAND_CODES = (0, 1, 69)  # done, refused, no answer
now = time.monotonic


class Stopped(Exception):
    pass


class Operator(threading.Thread):
    """One round: steps until the cluster has `target` voters. `over`: no more steps after the present one."""

    def __init__(self, world, faults, target, seed):
        super().__init__(name=f"operator-{target}", daemon=True)
        self.world = world
        self.faults = faults
        self.machines = faults.machines
        self.target = target
        self.random = random.Random(f"{seed} operator")
        self.sent = threading.Event()  # a request is about to be sent: a good moment for a fault
        self.gives_up = threading.Event()
        self.steps = collections.Counter()
        self.refusals = collections.Counter()
        self.wrong = []
        self.doing = "nothing yet"
        self.pause = PAUSE
        self.keeps = None  # the learners, once the cluster has its size

    def run(self):
        try:
            while self.step():
                self.gives_up.wait(self.random.uniform(*self.pause))
        except Stopped:
            self.wrong.append(f"the operator could not finish: {self.doing}")
        except Exception as problem:  # of ours: the run must not pass without it
            self.wrong.append(f"the operator failed in {self.doing}: {problem!r}")

    # --- what there is ---

    def view(self):
        """The members by the newest leader's list: {id: whether it votes}, once it is committed; and who leads."""
        while not self.gives_up.is_set():
            found = []
            for node in self.machines.nodes.values():
                view = node.cluster() if node.running and not node.paused else None
                if view and view["serving"] and view["leader"] == node.id and not view["members_changing"]:
                    found.append((view["term"], view))
            if found:
                newest = max(found, key=lambda pair: pair[0])[1]
                return {m["id"]: m["voter"] for m in newest["members"]}, newest["leader"]
            time.sleep(0.02)
        raise Stopped

    def machine_of(self, ident):
        return next((i for i, node in self.machines.nodes.items() if node.id == ident), None)

    # --- what to do next ---

    def step(self):
        """False: the cluster has the size that it should have."""
        members, leader = self.view()
        voters = [i for i, votes in members.items() if votes]
        learners = [i for i, votes in members.items() if not votes]
        unknown = [i for i in members if self.machine_of(i) is None]
        here = [i for i in learners if i not in unknown]
        free = [number for number in self.machines.clients if number not in self.machines.nodes]
        self.pause = ALONE if len(voters) == 1 and learners else PAUSE
        if unknown:  # added twice, by a request that was late
            self.remove(unknown[0])
        elif len(voters) < self.target and here and (not free or self.random.random() < 0.6):
            self.promote(self.random.choice(here))
        elif len(voters) < self.target and free:
            self.add(self.random.choice(free))
        elif len(voters) > self.target:
            self.shrink(voters, leader, free)
        elif here and self.removes_learners():
            self.remove(self.random.choice(here))
        else:
            return False
        return True

    def removes_learners(self):
        if self.keeps is None:
            self.keeps = self.random.random() < LEARNERS_STAY
        return not self.keeps

    def shrink(self, voters, leader, free):
        gone = leader if self.random.random() < LEADER_SHARE else self.random.choice(voters)
        if self.random.random() < 0.4:
            self.demote(gone)
        else:
            self.remove(gone)

    # --- how it is done ---

    def request(self, word, ident, body=None):
        """One attempt, through any node, the one that goes too."""
        nodes = [node for node in self.machines.nodes.values() if node.running and not node.paused]
        if not nodes:
            time.sleep(0.02)
            return
        self.sent.set()
        if self.random.random() < COMMAND_SHARE and word != "add":
            self.command(word, ident)
            return
        method, path = ("DELETE", f"/{ident}") if word == "remove" else ("POST", "" if word == "add" else f"/{ident}/{word}")
        answer = self.random.choice(nodes).try_request(method, "/api/v1/members" + path, body, timeout=4)
        if answer is None or answer.status in (200, 503, 504):
            return
        if answer.status != 409:
            self.wrong.append(f"{word} {ident}: {answer}")
        self.refusals[answer.json["error"]["message"]] += 1

    def command(self, word, ident):
        done = subprocess.run(
            dies_with_us([PROGRAM, "member", word, ident, "--wait", "2s", "--timeout", "2s"]),
            env=self.world.credentials.environment("admin", HOLDFAST_ENDPOINTS=self.world.endpoints),
            stdin=subprocess.DEVNULL, capture_output=True,
            text=True, check=False, timeout=60)
        if done.returncode not in COMMAND_CODES:
            self.wrong.append(f"holdfast member {word} {ident} ended with {done.returncode}: {done.stderr}")
        if done.returncode == 0:
            members, _ = self.view()  # it said that the change is in force
            if not self.is_done(word, ident, members):
                self.wrong.append(f"holdfast member {word} {ident} ended with 0, and then the members are {members}")

    @staticmethod
    def is_done(word, ident, members):
        return {"add": ident in members, "remove": ident not in members, "promote": members.get(ident) is True,
                "demote": members.get(ident) is not True}[word]

    def until_done(self, word, ident, body=None):
        self.doing = f"{word} {ident}"
        self.steps[word] += 1
        while True:
            members, leader = self.view()
            if self.is_done(word, ident, members):
                return
            if leader == ident and word in ("remove", "demote"):
                self.steps[f"{word} the leader"] += 1
            self.request(word, ident, body)

    def add(self, number):
        with self.faults.locks[number]:
            node = self.machines.add(number)
            self.faults.say(f"operator: machine {number} has node {node.id} now")
            begin = now()
            self.machines.start(node)
        self.until_done("add", node.id, {"id": node.id, "address": self.machines.address(number)})
        self.faults.away[number].append((begin, now()))

    def promote(self, ident):
        self.until_done("promote", ident)
        self.faults.say(f"operator: node {ident} votes")

    def demote(self, ident):
        self.until_done("demote", ident)
        self.faults.say(f"operator: node {ident} votes no more")

    def remove(self, ident):
        """A node is stopped once it is certainly no member: not before."""
        self.until_done("remove", ident)
        number = self.machine_of(ident)
        if number is None:
            return
        with self.faults.locks[number]:
            begin = now()
            node = self.machines.nodes[number]
            if not node.running:
                self.wrong.append(f"node {ident} ended by itself with {node.process.returncode}")
            self.wrong.extend(agreement.check_logs(self.world.entries, [node]))
            self.faults.discard(number)
            self.faults.away[number].append((begin - 1, now()))
        self.faults.say(f"operator: node {ident} is gone from machine {number}")

"""Clients for chaos: they take, keep, renew, lose and give back locks, and write down what they saw.

Probers take names that nobody else wants: they show whether the service is there. Contenders and the C client
want the same few names: they show whether it is right. Each is seeded, and goes on until `over` is set."""

import http.client
import json
import queue
import random
import socket
import subprocess
import threading
import time

from harness import PROGRAM, allowed, dies_with_us
from history import WANTED as NAMES
from history import Attempt, Op

PROBE = PROGRAM.parent / "tests" / "cluster" / "client_probe"
STORM = PROGRAM.parent / "tests" / "chaos" / "storm"
REQUEST_SECONDS = 1.0  # --request-timeout of the nodes
WAIT_GRACE_SECONDS = 5.0  # SERVICE_WAIT_GRACE_MS: a node that lost its leader gives a waiter up so long after its wait
SLACK_SECONDS = 1.5  # a machine that is busy may be late by so much, and more by its load
KEPT_TTL_MS = 3600000
WAIT_MS = 500
CALL_SECONDS = 8.0  # a client repeats a request for so long
PAUSE = 0.01
now = time.monotonic


class Client(threading.Thread):
    def __init__(self, world, who):
        super().__init__(name=who, daemon=True)
        self.world = world
        self.who = who
        self.random = random.Random(f"{world.seed} {who}")
        self.over = world.over
        self.ops, self.attempts = [], []
        self.failed = None

    def run(self):
        try:
            while not self.over.is_set():
                self.round()
        except Exception as problem:  # of ours: the run must not pass without this client
            self.failed = repr(problem)
            raise
        finally:
            self.close()

    def round(self):
        raise NotImplementedError

    def close(self):
        pass

    def note(self, op):
        self.ops.append(op)
        return op


class HttpClient(Client):
    patience = None  # seconds until it tries another node; None: it waits for as long as the node may take

    def __init__(self, world, who):
        super().__init__(world, who)
        self.connections = {}
        self.machine = self.random.choice(list(world.machines.clients))
        self.requests = 0

    def close(self):
        for connection in self.connections.values():
            connection.close()

    def open(self, machine, timeout):
        place, context = self.world.machines.clients[machine], self.world.credentials.context
        if context is None:
            return http.client.HTTPConnection(*place, timeout=timeout)
        return http.client.HTTPSConnection(*place, timeout=timeout, context=context)

    def attempt(self, path, body, wait):
        """(status, answer) of one request to the present machine; None: no answer, or nobody there."""
        machine, begun = self.machine, now()
        bound = REQUEST_SECONDS + allowed(SLACK_SECONDS) + (wait + WAIT_GRACE_SECONDS if wait else 0)
        timeout = self.patience or bound + 1
        connection = self.connections.pop(machine, None)
        result, answered = None, True
        try:
            if connection is None:
                connection = self.open(machine, timeout)
                connection.connect()
                connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.sock.settimeout(timeout)  # of this request, not of the one that connected
            connection.request("POST", path, body=json.dumps(body), headers=self.world.credentials.of_client())
            response = connection.getresponse()
            result = (response.status, json.loads(response.read()))
            if response.will_close:
                connection.close()
            else:
                self.connections[machine] = connection
        except TimeoutError:
            connection.close()
            if self.patience is not None:
                return None  # that says nothing about the node
            answered = False
        except (OSError, http.client.HTTPException):
            connection.close()
        self.attempts.append(Attempt(self.who, machine, path, begun, now(), bound, answered))
        return result

    def call(self, kind, name, body, wait=0.0, fresh=False):
        """Sends the request to one machine after the other until there is a certain answer, or the time is over. `fresh`: never
        again under the same time of sending (a renewal, S5.1): one attempt."""
        begun = now()
        while True:
            got = self.attempt(f"/api/v1/locks/{name}/{kind}", body, wait)
            if got is not None and got[0] not in (503, 504):
                return begun, got
            self.machine = self.random.choice(list(self.world.machines.clients))
            if fresh or now() - begun > CALL_SECONDS or self.over.wait(PAUSE):
                return begun, None

    def acquire(self, name, ttl_ms, waits=False):
        self.requests += 1
        body = {"client_id": self.who, "ttl_ms": ttl_ms, "request_id": f"{self.who}-{self.requests}"}
        if waits:
            body["wait_timeout_ms"] = WAIT_MS
        begun, got = self.call("acquire", name, body, WAIT_MS / 1000 if waits else 0)
        outcome, code, token = self.read(got, "acquired")
        if outcome == "ok":
            token = got[1]["fencing_token"]
        return self.note(Op(self.who, "acquire", name, begun, now(), outcome, token, ttl_ms, waits, code))

    def renew(self, grant):
        body = {"client_id": self.who, "fencing_token": grant.token, "ttl_ms": grant.ttl_ms}
        begun, got = self.call("renew", grant.name, body, fresh=True)
        outcome, code, _ = self.read(got, "renewed")
        return self.note(Op(self.who, "renew", grant.name, begun, now(), outcome, grant.token,
                            grant.ttl_ms, code=code))

    def release(self, grant):
        body = {"client_id": self.who, "fencing_token": grant.token}
        begun, got = self.call("release", grant.name, body)
        outcome, code, _ = self.read(got, "released")
        if code == "already_released":
            outcome = "ok"  # by an attempt of this very call: nobody else has the token
        return self.note(Op(self.who, "release", grant.name, begun, now(), outcome, grant.token, code=code))

    @staticmethod
    def read(got, word):
        if got is None:
            return "unknown", "", 0
        status, answer = got
        if status != 200:
            return "error", f"{status} {answer.get('error', {}).get('code')}", 0
        return ("ok", "", 0) if answer[word] else ("refused", str(answer.get("reason")), 0)


class Prober(HttpClient):
    """Takes names of its own. Some stay held to the end: none of these may be lost. It does not wait long for
    a node that may be paused, so that a slot without a grant tells of the service and not of the client."""

    patience = 0.25

    def round(self):
        self.machine = self.random.choice(list(self.world.machines.clients))
        grant = self.acquire(f"{self.who}-{self.requests}", KEPT_TTL_MS)
        if grant.outcome == "ok" and self.random.random() < 0.9:
            self.release(grant)
        self.over.wait(PAUSE)


class Contender(HttpClient):
    """Wants what others want, and behaves in all the ways that people do."""

    def round(self):
        ttl_ms = self.random.choice([1000, 1500, 2500])
        grant = self.acquire(f"wanted-{self.random.randrange(NAMES)}", ttl_ms, self.random.random() < 0.5)
        if grant.outcome == "ok":
            self.hold(grant)
        self.over.wait(PAUSE)

    def hold(self, grant):
        way = self.random.random()
        ttl = grant.ttl_ms / 1000
        if grant.waits and self.renew(grant).outcome == "refused":
            return
        if way < 0.75:  # short work
            self.over.wait(self.random.random() * 0.03)
        elif way < 0.88:  # long work, with signs of life
            end = now() + self.random.uniform(1, 2) * ttl
            while now() < end and not self.over.wait(ttl / 4):
                if self.renew(grant).outcome == "refused":
                    return
        elif way < 0.94:  # it comes back late
            self.over.wait(1.3 * ttl)
        else:  # it never comes back
            return
        self.release(grant)


class Holder(Client):
    """libholdfast, by `client_probe hold`: a process a hold. It reports again and again until when the lock is safe."""

    def close(self):
        if getattr(self, "process", None) is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def listen(self, process, lines):
        for line in process.stdout:
            lines.put((now(), line.split()))

    def hear(self, word, seconds):
        """The next line of that word; None: it does not come, or another end."""
        end = now() + seconds
        while now() < end and not self.over.is_set():
            try:
                at, words = self.lines.get(timeout=0.1)
            except queue.Empty:
                if self.process.poll() is not None and self.lines.empty():
                    return None
                continue
            if words and words[0] == word:
                return at, words
        return None

    def order(self, word):
        sent = now()
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()
        return sent

    def round(self):
        name = f"wanted-{self.random.randrange(NAMES)}"
        begun = now()
        self.lines = queue.Queue()
        self.process = subprocess.Popen(
            dies_with_us([PROBE, "hold", self.world.endpoints, name, 2000]),
            env=self.world.credentials.environment("worker"),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        listener = threading.Thread(target=self.listen, args=(self.process, self.lines), daemon=True)
        listener.start()
        try:
            heard = self.hear("acquired", 20)
            if heard is not None:
                self.hold(name, begun, heard)
        except BrokenPipeError:
            pass  # it ended by itself
        finally:
            self.close()
            listener.join()
            self.process.stdin.close()
            self.process.stdout.close()

    def hold(self, name, begun, heard):
        token = int(heard[1][1])
        self.note(Op(self.who, "acquire", name, begun, heard[0], "ok", token, 2000, waits=True))
        end = now() + self.random.choice([0.05, 0.5, 3.0])
        while now() < end and not self.over.wait(0.05):
            requested = self.order("check")
            heard = self.hear("check", CALL_SECONDS)
            if heard is None or heard[1][1] != "ok":
                return
            self.note(Op(self.who, "claim", name, requested, heard[0], "ok", token,
                         until=requested + (int(heard[1][2]) - 1) / 1000))  # it counts whole ones
        requested = self.order("release")
        heard = self.hear("release", CALL_SECONDS)
        ended = heard is not None and heard[1][1] == "ok"
        self.note(Op(self.who, "release", name, requested, now(), "ok" if ended else "unknown", token))

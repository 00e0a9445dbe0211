"""Runs one scenario with one client, and checks what must hold in every scenario:

- a safe time is never more than C1.4 allows for the TTL;
- when a name is granted, nobody else promises that it is certainly held (S5);
- no credential and no id of a session is in a log or in an error (C7.2)."""

import threading
import time
from urllib.parse import quote

from adapters import Client, Failed
from expected import longest_ms, problem
from harness import PATIENCE, allowed
from proxy import Proxy
from scenarios import CLUSTER_FAULTS, PROXIES

PROBE = "probe-"
SESSION_TTL_MS = 30000  # of all clients, if `open` does not say another


class Grant:
    def __init__(self, client, names, is_exclusive, ttl_ms, session_ttl_ms):
        self.client = client
        self.names = names
        self.is_exclusive = is_exclusive
        self.ttl_ms = min(ttl_ms, session_ttl_ms)
        self.session_ttl_ms = session_ttl_ms
        self.token = 0
        self.promised_until = 0.0  # certainly held until then, as it said
        self.is_over = False  # released, by the scenario

    def conflicts(self, other):
        return bool(self.names & other.names) and (self.is_exclusive or other.is_exclusive)


class ScenarioRun:
    def __init__(self, scenario, language, cluster, meet, folder):
        """`meet(step)` waits until all clients are here and then changes the cluster, once for all."""
        self.scenario = scenario
        self.command = language.command(folder)
        self.patience = language.patience
        self.cluster = cluster
        self.meet = meet
        self.folder = folder
        self.prefix = f"app/{language.name}-{cluster.unique()}/"
        self.clients = {}
        self.proxies = []
        self.session_ttl_ms = {}
        self.commands = {}  # by the name of `later`
        self.saved = {}
        self.grants = {}  # by handle
        self.secrets = set(getattr(cluster, "secrets", ()))
        self.began = time.monotonic()

    # --- the whole ---

    def execute(self):
        """Raises Failed."""
        try:
            for name in sorted({step["client"] for step in self.scenario.steps if "client" in step}):
                self.clients[name] = Client(name, self.command, self.folder / f"{self.prefix[4:-1]}-{name}.stderr")
            if self.scenario.disturbs:
                self.meet({"fault": "none"})  # the same time for all: what a fault finds must not depend on who was slow to start
            for number, step in enumerate(self.scenario.steps, 1):
                try:
                    self._step(step)
                except AssertionError as error:
                    raise Failed(f"step {number}, {step}: {error}") from error
            self._look_for_secrets()
        except Failed as failed:
            raise Failed(f"{failed}\n{self._transcript()}") from None
        finally:
            for client in self.clients.values():
                client.kill()
            for proxy in self.proxies:
                proxy.end()

    def _transcript(self):
        lines = sorted((row for client in self.clients.values() for row in list(client.transcript)), key=lambda row: row[0])
        text = [f"  {1000 * (at - self.began):8.0f} ms {name} {arrow} {words}" for at, name, arrow, words in lines[-60:]]
        for name, client in self.clients.items():
            log = client.stderr().strip().splitlines()[-25:]
            text += [f"  stderr of {name}:", *(f"    {line}" for line in log)] if log else []
        return "\n".join(text)

    def _step(self, step):
        if "do" in step:
            self._do(step)
        elif "answer" in step:
            self._answer(step)
        elif "event" in step:
            self._event(step)
        elif "events" in step:
            self._events(step)
        elif "fault" in step:
            self._fault(step)
        elif "see" in step:
            self._see(step)
        elif "fence" in step:
            self._fence(step)
        else:
            threading.Event().wait(step["pass_ms"] / 1000)

    def _seconds(self, step):
        """How long its condition may take to come true."""
        return allowed(step["within_ms"] / 1000) if "within_ms" in step else self.patience

    # --- commands ---

    def _arguments(self, step):
        """As the adapter gets them."""
        words = {key: value for key, value in step.items()
                 if key not in ("client", "do", "expect", "within_ms", "not_before_ms", "save", "later", "until_ms", "nodes", "as", "token_of")}
        for key in ("name", "prefix", "resource"):
            if key in words:
                words[key] = self.prefix + words[key]
        if "names" in words:
            words["names"] = [self.prefix + name for name in words["names"]]
        if step["do"] == "open":
            words["endpoints"] = self._endpoints(step.get("nodes", "all"))
            words.update(self.cluster.credentials.get(step.get("as", "certificate"), {}))
            self.session_ttl_ms[step["client"]] = step.get("session_ttl_ms", SESSION_TTL_MS)
        elif step["do"] == "cancel":
            words["command"] = self.commands[step["command"]][1].id
        elif step["do"] == "fence_check":
            words["token"] = str(self.grants[step["token_of"]].token)
        return words

    def _endpoints(self, which):
        if which not in PROXIES:
            return self.cluster.endpoints(which)
        made = [Proxy(node, is_earlier=which == "earlier_version") for node in self.cluster.nodes]
        self.proxies += made
        return [proxy.address for proxy in made]

    def _do(self, step):
        client = self.clients[step["client"]]
        if step["do"] == "release":
            self._over(lambda handle, grant: handle == step["handle"])
        elif step["do"] == "close":
            self._over(lambda handle, grant: grant.client is client)
        elif step["do"] == "renew":
            grant = self.grants[step["handle"]]
            grant.ttl_ms = min(max(grant.ttl_ms, step["ttl_ms"]), grant.session_ttl_ms)
        command = client.send(step["do"], **self._arguments(step))
        if "until_ms" in step:
            command = self._repeat(client, command, step)
        if "later" in step:
            self.commands[step["later"]] = (client, command, step)
        else:
            self._check_answer(client, command, step, step)
        if step["do"] == "watch" and "last_id" not in step:
            self._until_connected(client, step)

    def _repeat(self, client, command, step):
        """Until the answer is as expected, or the time is over. The last one counts."""
        end = time.monotonic() + allowed(step["until_ms"] / 1000)
        while problem(step.get("expect"), client.answer(command), None) is not None and time.monotonic() < end:
            threading.Event().wait(0.03)
            command = client.send(step["do"], **self._arguments(step))
        return command

    def _until_connected(self, client, step):
        """A watch begins when it is connected, which its client does not tell: probes are acquired until it shows one."""
        end = time.monotonic() + PATIENCE
        while not any(PROBE in event.words.get("name", "") for event in client.events):
            assert time.monotonic() < end, "the watch shows no event"
            name = quote(f"{self.prefix}{step['prefix']}{PROBE}{self.cluster.unique()}", safe="")
            body = {"client_id": "probe", "ttl_ms": 600000}
            self.cluster.request("POST", f"/api/v1/locks/{name}/acquire", body)
            threading.Event().wait(0.05)

    def _over(self, which):
        for handle, grant in self.grants.items():
            if which(handle, grant):
                grant.is_over = True

    def _answer(self, step):
        client, command, began = self.commands[step["answer"]]
        if step.get("pending"):
            assert command.answer is None, f"it is answered already: {command.answer}"
        else:
            self._check_answer(client, command, began, step)

    def _check_answer(self, client, command, began, step):
        """`began` has the command, `step` what is expected of its answer."""
        answer = client.answer(command, self._seconds(step))
        took_ms = 1000 * (command.answered - command.sent)
        assert took_ms >= step.get("not_before_ms", 0), f"it was answered after {took_ms:.0f} ms"
        if answer["ok"] and began["do"] in ("acquire", "try_acquire", "lead") and answer.get("acquired", True):
            self._granted(client, command, began)
        if answer["ok"] and "safe_for_ms" in answer:
            assert began.get("handle") in self.grants, "a safe time without a grant"
            self._promised(command, self.grants[began["handle"]])
        wrong = problem(step.get("expect"), answer, lambda handle: self.grants[handle].token)
        assert wrong is None, f"the answer {wrong}"
        if "save" in step:
            self.saved[step["save"]] = command

    def _granted(self, client, command, step):
        name_of = (lambda name: f"election of {name}") if step["do"] == "lead" else str
        names = {name_of(name) for name in step.get("names") or [step["name"]]}
        session_ttl_ms = self.session_ttl_ms[step["client"]]
        grant = Grant(client, names, step.get("mode", "exclusive") == "exclusive", step.get("ttl_ms", session_ttl_ms), session_ttl_ms)
        grant.token = int(command.answer["token"])
        earlier = [(handle, other) for handle, other in self.grants.items() if other.conflicts(grant) and not other.is_over]
        self.grants[step["handle"]] = grant
        if self.scenario.overlap is None:
            for handle, other in earlier:
                self._must_be_lost(handle, other, command)

    def _must_be_lost(self, handle, other, command):
        early_ms = 1000 * (other.promised_until - command.answered)
        assert early_ms <= 0, f"granted {early_ms:.0f} ms before the end of what {handle} of {other.client.name} promised (S5)"
        if not other.client.paused:
            answer = other.client.answer(other.client.send("check", handle=handle))
            assert not answer["ok"], f"granted while {handle} of {other.client.name} is certainly held, as it says (S5)"

    def _promised(self, command, grant):
        safe_ms = command.answer["safe_for_ms"]
        assert isinstance(safe_ms, int) and safe_ms >= 0, "no safe time"
        limit_ms = longest_ms(grant.ttl_ms)
        assert safe_ms <= limit_ms, f"safe for {safe_ms} ms, and a TTL of {grant.ttl_ms} ms allows {limit_ms} ms (C1.4)"
        grant.promised_until = max(grant.promised_until, command.sent + safe_ms / 1000)

    # --- events ---

    def _event(self, step):
        client, kind, handle = self.clients[step["client"]], step["event"], step["handle"]
        if step.get("count") == 0:
            late = client.next_event(kind, handle)
            assert late is None, f"there is one: {late.words}"
            return
        seconds = self.patience if "deadline_of" in step else self._seconds(step)
        event = client.wait(lambda: client.next_event(kind, handle), f"the event {kind} of {handle}", seconds)
        event.taken = True
        wrong = problem(step.get("expect"), {**event.words, "ok": True}, lambda name: self.grants[name].token)
        assert wrong is None, f"the event {wrong}"
        if "deadline_of" in step:
            promise = self.saved[step["deadline_of"]]
            safe = promise.answer["safe_for_ms"] / 1000
            early = promise.sent + safe - event.at
            assert early <= 0.001, f"it came {1000 * early:.0f} ms before the promised end"
            late = event.at - promise.answered - safe
            assert late <= allowed(step["within_ms"] / 1000), f"it came {1000 * late:.0f} ms after the promised end"

    def _events(self, step):
        """Exactly these, in order; `TYPE NAME`, or `TYPE` of an event without a name."""
        client, handle = self.clients[step["client"]], step["events"]

        def text(event):
            name = event.words.get("name", "")
            return f"{event.words['type']} {name.removeprefix(self.prefix)}".strip()

        def found():
            return [event for event in client.events if event.words["event"] == "watch" and event.words["handle"] == handle
                    and not event.taken and PROBE not in event.words.get("name", "")]

        wanted = step["expect"]
        seconds = self._seconds(step)
        try:
            client.wait(lambda: len(found()) >= len(wanted), f"{len(wanted)} events", seconds)
        finally:
            got = [text(event) for event in found()]
            assert got == wanted, f"the events are {got}, and must be {wanted}"
        for event in found():
            event.taken = True

    # --- faults, and what the service shows ---

    def _fault(self, step):
        kind = step["fault"]
        if kind in CLUSTER_FAULTS:
            self.meet(step)
        elif kind == "pause_client":
            self.clients[step["client"]].pause()
        elif kind == "continue_client":
            self.clients[step["client"]].resume()
        elif kind == "allow_streams":
            for proxy in self.proxies:
                proxy.streams.set()
        elif kind == "kill_client":
            client = self.clients.pop(step["client"])
            self._over(lambda handle, grant: grant.client is client)
            client.kill()
        else:
            self.cluster.operate(step, quote(self.prefix + step["name"], safe=""), self._session_of)

    def _shown(self, quoted):
        answer = self.cluster.request("GET", f"/api/v1/locks/{quoted}")
        assert answer.status == 200, answer
        for row in answer.json["holders"]:
            self.secrets.update(row[field] for field in ("session_id", "lease_id") if row.get(field))
        return answer.json

    def _session_of(self, quoted):
        return self._shown(quoted)["holders"][0]["session_id"]

    def _see(self, step):
        quoted = quote(self.prefix + step["name"], safe="")
        end = time.monotonic() + self._seconds(step)
        while True:
            shown = self._shown(quoted)
            seen = {"held": shown["held"], "queue_length": shown["queue_length"], "holders": shown["holder_count"],
                    "sessions": len({row["session_id"] for row in shown["holders"]})}
            if all(seen[field] == value for field, value in step["see"].items()):
                return
            assert time.monotonic() < end, f"the service shows {seen}"
            threading.Event().wait(0.03)

    def _fence(self, step):
        body = {"resource": self.prefix + step["fence"], "fencing_token": self.grants[step["token_of"]].token}
        answer = self.cluster.request("POST", "/api/v1/fence/check", body)
        assert answer.status == 200 and answer.json["accepted"] is step["expect"], answer

    def _look_for_secrets(self):
        for name, client in self.clients.items():
            texts = [("its stderr", client.stderr())]
            texts += [("an error", str(words.get("message"))) for _, _, arrow, words in client.transcript
                      if arrow == "<-" and words.get("ok") is False]
            for secret in self.secrets:
                for where, text in texts:
                    if secret in text:
                        raise Failed(f"{where} of client {name} has a credential or the id of a session: {secret[:6]}... (C7.2)")

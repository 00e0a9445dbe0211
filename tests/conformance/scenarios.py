"""Reads scenarios. README.md has the format; what is not of the format is an error that names the file and the step."""

import json
import re
from pathlib import Path

HERE = Path(__file__).resolve().parent
RULES = HERE.parents[1] / "docs" / "CLIENTS.md"

FEATURES = ("shared", "semaphore", "multi", "lead", "efficiency", "max_hold", "lock_delay", "try_acquire", "renew", "cancel", "jeopardy",
            "safe", "revoke", "slow_callback", "threads", "watch", "fence", "fork", "tls", "client_certificate", "token", "circuit", "http")

TOP = {"title", "rules", "needs", "cluster", "long", "overlap", "steps"}
CLUSTER = {"nodes", "secure"}
COMMANDS = {  # the arguments of each; `do` and the fields of ANSWER are of all
    "open": {"session_ttl_ms", "timeout_ms", "client_id", "server_name", "nodes", "as"},
    "acquire": {"handle", "name", "names", "ttl_ms", "wait_ms", "mode", "limit", "permits", "tier", "max_hold_ms", "lock_delay_ms",
                "slow_callback_ms"},
    "try_acquire": {"handle", "name", "names", "ttl_ms", "mode", "limit", "permits", "tier"},
    "lead": {"handle", "name", "value", "ttl_ms", "wait_ms"},
    "cancel": {"command"},
    "check": {"handle", "thread"},
    "token": {"handle"},
    "renew": {"handle", "ttl_ms"},
    "release": {"handle"},
    "watch": {"handle", "prefix", "last_id"},
    "unwatch": {"handle"},
    "fence_check": {"resource", "token_of"},
    "fork_check": {"handle"},
    "close": set(),
}
ANSWER = {"expect", "within_ms", "not_before_ms", "save"}
FAULTS = {"kill": {"node"}, "pause": {"node"}, "restart": set(), "continue": set(), "pause_client": {"client"},
          "continue_client": {"client"}, "kill_client": {"client"}, "force_unlock": {"name"}, "revoke": {"name", "deadline_ms"},
          "expire_session": {"name"}, "allow_streams": set()}
CLUSTER_FAULTS = {"kill", "pause", "restart", "continue"}
PROXIES = ("without_streams", "earlier_version")  # endpoints that are proxies (proxy.py)
NODES = ("leader", "follower", "all")
OPEN_NODES = ("all", "leader", "leader_first", "followers", "dead", "one_dead", "by_name", *PROXIES)
CREDENTIALS = ("certificate", "token", "nobody", "wrong_token", "other_authority")
STEPS = {  # by the field that names the kind
    "do": {"client", "do", "later", "until_ms"} | ANSWER,
    "answer": {"answer", "client", "pending"} | ANSWER,
    "event": {"event", "client", "handle", "expect", "within_ms", "deadline_of", "count"},
    "events": {"events", "client", "expect", "within_ms"},
    "fault": {"fault"},
    "see": {"see", "name", "within_ms"},
    "fence": {"fence", "token_of", "expect"},
    "pass_ms": {"pass_ms"},
}
SEEN = {"held", "queue_length", "holders", "sessions"}


class BadScenario(Exception):
    pass


def known_rules():
    """C1.1 and so on, from docs/CLIENTS.md."""
    found, section = [], ""
    for line in RULES.read_text(encoding="utf-8").splitlines():
        if heading := re.match(r"## (C\d+) ", line):
            section = heading[1]
        elif line.startswith("## "):
            section = ""
        elif section and (rule := re.match(r"(\d+)\. ", line)):
            found.append(f"{section}.{rule[1]}")
    return found


class Scenario:
    def __init__(self, name, words):
        self.name = name
        self.title = words["title"]
        self.rules = words["rules"]
        self.needs = words.get("needs", [])
        self.nodes = words.get("cluster", {}).get("nodes", 3)
        self.secure = words.get("cluster", {}).get("secure", False)
        self.long = words.get("long", False)
        self.overlap = words.get("overlap")
        self.steps = words["steps"]

    @property
    def disturbs(self):
        """It needs the cluster for itself."""
        return any(step.get("fault") in CLUSTER_FAULTS for step in self.steps)

    def lacking(self, features):
        """The needed features that a client does not have."""
        return [feature for feature in self.needs if feature not in features]


def _only(fields, allowed, where):
    unknown = set(fields) - allowed
    if unknown:
        raise BadScenario(f"{where}: unknown: {', '.join(sorted(unknown))}")


def _one_of(value, known, where):
    if value not in known:
        raise BadScenario(f"{where}: {value!r} is none of: {', '.join(map(str, known))}")


def _check_step(step, where):
    kinds = [kind for kind in STEPS if kind in step]
    if len(kinds) != 1:
        raise BadScenario(f"{where}: must have one of: {', '.join(STEPS)}")
    kind, more = kinds[0], set()
    if kind == "do":
        _one_of(step["do"], COMMANDS, where)
        more = COMMANDS[step["do"]]
        if step["do"] == "open":
            if not isinstance(step.get("nodes"), list):
                _one_of(step.get("nodes", "all"), OPEN_NODES, where)
            _one_of(step.get("as", "certificate"), CREDENTIALS, where)
    elif kind == "fault":
        _one_of(step["fault"], FAULTS, where)
        more = FAULTS[step["fault"]]
        if "node" in step and not isinstance(step["node"], int):
            _one_of(step["node"], NODES, where)
    elif kind == "see":
        _only(step["see"], SEEN, where)
    _only(step, STEPS[kind] | more, where)
    if kind in ("do", "event", "events") and "client" not in step:
        raise BadScenario(f"{where}: client is missing")


def check(name, words, rules):
    _only(words, TOP, name)
    for field in ("title", "rules", "steps"):
        if not words.get(field):
            raise BadScenario(f"{name}: {field} is missing")
    _only(words.get("cluster", {}), CLUSTER, name)
    for rule in words["rules"]:
        _one_of(rule, rules, f"{name}: rules")
    for feature in words.get("needs", []):
        _one_of(feature, FEATURES, f"{name}: needs")
    for number, step in enumerate(words["steps"], 1):
        _check_step(step, f"{name}: step {number}")


def load(folder=HERE):
    """All scenarios, in the order of their names."""
    rules, found = known_rules(), []
    for path in sorted(folder.glob("*.json")):
        try:
            words = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise BadScenario(f"{path.name}: {error}") from None
        check(path.stem, words, rules)
        found.append(Scenario(path.stem, words))
    return found

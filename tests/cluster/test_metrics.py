"""What is counted: the totals of all nodes against a known workload, also across a killed leader; the page that
describes the metrics; what promtool says about their format."""

import itertools
import re
import shutil
import signal
import subprocess
import threading
import time

import pytest

from auth_support import policy, secure_cluster
from harness import PATIENCE, ROOT, run, skip_or_fail, wait_until
from metrics_support import scrape, total
from secure import Authority
from test_redis_backend import redis  # noqa: F401, pylint: disable=unused-import

PAGE = ROOT / "docs" / "METRICS.md"
ROW = re.compile(r"^\| `(holdfast_[a-z0-9_]+)` \| (gauge|counter|histogram) \| ([^|]*) \| (leader|state|node) \|", re.M)


@pytest.fixture
def complete(make_cluster, tmp_path, redis):  # noqa: F811
    """A node with all that has metrics of its own: TLS, auth, quotas, a Redis backend, an event sink."""
    ca = Authority(tmp_path / "ca")

    def make(count, *flags):
        cluster = make_cluster(count, *flags, start=False)
        for node in cluster:
            node.tls = ca.context()
        return cluster.start()

    cluster = secure_cluster(make, 1, *ca.flags(ca.node(1)), "--efficiency-backend", "redis",
                             "--redis", redis.path, "--efficiency-fallback", "embedded", "--sink-file", tmp_path / "events.jsonl")
    wait_until(lambda: scrape(cluster.nodes[1]).names() >= {"holdfast_sink_lag_entries"}, "the sink runs")
    document = policy()
    next(row for row in document["tenants"] if row["name"] == "red")["quotas"] = {"locks": 7, "requests_per_second": 100}
    answer = cluster.nodes[1].request("PUT", "/api/v1/auth/policy", document)
    assert answer.status == 200, answer
    return scrape(cluster.nodes[1])


def test_the_page_has_each_metric_with_its_type_and_labels(complete):
    rows = {name: (kind, set(re.findall(r"`([a-z]+)`", labels))) for name, kind, labels, _ in ROW.findall(PAGE.read_text(encoding="utf-8"))}
    shown = {name: (kind, set()) for name, kind in complete.kinds.items()}
    for name, labels in complete.values:
        shown[complete.family(name)][1].update(label for label, _ in labels if label != "le")
    for name in [name for name in rows if name.startswith("holdfast_sink_")]:
        shown.setdefault(name, rows[name])  # only with a sink: test_sinks.py
    assert rows == shown


def test_labels_have_few_values_and_no_names(complete):
    values = {}
    for _, labels in complete.values:
        for label, value in labels:
            values.setdefault(label, set()).add(value)
    assert values.pop("tier") == {"CORRECTNESS", "EFFICIENCY"}
    assert values.pop("protocol") == {"http", "http1", "http2", "grpc", "resp"}
    assert values.pop("outcome") == {"granted", "queued", "refused", "error", "unanswered", "accepted", "rejected"}
    assert values.pop("tenant") == {"red"} and values.pop("member") == {"1"} and values.pop("sink") == {"file"}
    assert [f"holdfast {version}" for version in values.pop("version")] == [run("--version").stdout.strip()]
    assert set(values) == {"le", "quota", "reason"}
    assert len(complete.text) < 64 << 10


def test_promtool_finds_nothing_to_improve(complete):
    if shutil.which("promtool") is None:
        skip_or_fail("promtool is not installed: scripts/setup test")
    done = subprocess.run(["promtool", "check", "metrics"], input=complete.text, capture_output=True, text=True,
                          timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


class Workload:
    """Sends requests through all nodes in turn, and counts what it was answered."""

    def __init__(self, cluster):
        self.nodes = itertools.cycle(list(cluster))
        self.counts = {}

    def add(self, what, number=1):
        self.counts[what] = self.counts.get(what, 0) + number

    def acquire(self, name, client, tier, **more):
        answer = next(self.nodes).acquire(name, client=client, tier=tier, ttl_ms=600000, **more).json
        self.add(("acquires", tier, "granted" if answer["acquired"] else "refused"))
        if not answer["acquired"]:
            assert answer["reason"] == "held"
        return answer

    def end(self, verb, name, token, client, tier):
        answer = next(self.nodes).request("POST", f"/api/v1/locks/{name}/{verb}", {"client_id": client, "fencing_token": token})
        assert answer.status == 200, answer
        self.add((verb, tier, answer.json["reason"]))


def test_totals_are_what_the_clients_did(make_cluster):
    cluster = make_cluster(3)
    work = Workload(cluster)
    for i in range(12):
        for tier in ("CORRECTNESS", "EFFICIENCY"):
            name = f"{tier}-{i}"
            token = work.acquire(name, "ann", tier)["fencing_token"]
            work.acquire(name, "bob", tier)
            work.end("renew", name, token, "ann", tier)
            work.end("renew", name, token, "bob", tier)
            if i % 3:
                work.end("release", name, token, "ann", tier)
                work.end("release", name, token, "ann", tier)
    for tier in ("CORRECTNESS", "EFFICIENCY"):
        did = {key[:1] + key[2:]: count for key, count in work.counts.items() if key[1] == tier}
        assert did == {("acquires", "granted"): 12, ("acquires", "refused"): 12, ("renew", "ok"): 12, ("renew", "not_owner"): 12,
                       ("release", "ok"): 8, ("release", "already_released"): 8}
        for name, labels, expected in (
                ("acquires_total", {"outcome": "granted"}, 12), ("acquires_total", {}, 24),
                ("acquires_refused_total", {"reason": "held"}, 12), ("acquires_contended_total", {}, 12),
                ("grants_total", {}, 12), ("renewals_total", {}, 12), ("renewal_failures_total", {"reason": "not_owner"}, 12),
                ("renewal_failures_total", {}, 12), ("releases_total", {}, 8), ("release_failures_total", {"reason": "already_released"}, 8),
                ("lock_hold_seconds_count", {}, 8), ("locks_expired_total", {}, 0), ("waits_ended_total", {}, 0),
                ("acquire_seconds_count", {"outcome": "granted"}, 12), ("acquire_seconds_count", {"outcome": "refused"}, 12)):
            assert total(cluster, name, tier=tier, **labels) == expected, (name, labels)
    for node in cluster.followers():  # they count nothing of it
        assert scrape(node).sum("acquires_total") == scrape(node).sum("grants_total") == 0
        assert scrape(node).sum("commit_seconds_count") == 0 < scrape(node).sum("apply_seconds_count")
    assert total(cluster, "protocol_requests_total", protocol="http") >= 152


def test_waits_force_unlocks_sessions_and_the_oldest_hold(make_cluster):
    cluster = make_cluster(3)
    leader, follower = cluster.leader(), cluster.followers()[0]
    token = follower.acquire("w", ttl_ms=600000).json["fencing_token"]
    held_since = time.monotonic()
    found = []
    waiter = threading.Thread(target=lambda: found.append(follower.acquire("w", client="b", ttl_ms=600000, wait_timeout_ms=60000)))
    waiter.start()
    wait_until(lambda: scrape(leader).get("waiters") == 1, "it waits")
    assert follower.acquire("w", client="c", wait_timeout_ms=50).json["reason"] == "timeout"
    assert scrape(follower).get("oldest_hold_seconds") == 0
    wait_until(lambda: 0 < scrape(leader).get("oldest_hold_seconds") <= time.monotonic() - held_since, "the age of the hold")
    assert follower.release("w", token).json["released"]
    waiter.join(PATIENCE)
    assert found[0].json["acquired"]
    assert total(cluster, "waits_ended_total", reason="ok") == 1 and total(cluster, "waits_ended_total", reason="timeout") == 1
    assert total(cluster, "lock_wait_seconds_count") == 2 and total(cluster, "lock_wait_seconds_sum") >= 0.05
    assert total(cluster, "acquires_total", outcome="queued") == 2 == total(cluster, "acquires_contended_total")
    operator = {"actor_id": "me", "reason": "test"}
    assert follower.request("POST", "/api/v1/locks/w/force-unlock", operator).status == 200
    assert total(cluster, "force_unlocks_total") == 1
    wait_until(lambda: scrape(leader).get("oldest_hold_seconds") == 0, "nothing is held")
    session = follower.request("POST", "/api/v1/sessions", {"client_id": "s", "ttl_ms": 1000}).json["session_id"]
    assert follower.request("POST", f"/api/v1/sessions/{session}/keepalive", {}).status == 200
    wait_until(lambda: total(cluster, "sessions_expired_total") == 1, "the session expires")
    assert total(cluster, "sessions_opened_total") == 1 == total(cluster, "keepalives_total")
    assert follower.request("POST", f"/api/v1/sessions/{session}/keepalive", {}).status != 200
    assert total(cluster, "keepalive_failures_total") == 1
    for number, accepted in ((token, True), (token - 1, False)):
        check = follower.request("POST", "/api/v1/fence/check", {"resource": "w", "fencing_token": number})
        assert check.json["accepted"] is accepted, check
    assert total(cluster, "fence_checks_total", outcome="rejected") == 1 == total(cluster, "fence_rejections_total")
    assert total(cluster, "fence_checks_total", outcome="accepted") == 1


@pytest.mark.long
def test_totals_of_all_nodes_are_right_across_a_killed_leader(make_cluster):
    """Nothing counts twice, no counter falls, and what was answered by a leader that lives on counts."""
    cluster = make_cluster(3)
    first = cluster.leader()
    for i in range(10):
        assert first.acquire(f"first-{i}", ttl_ms=600000).json["acquired"]
    before = {node.id: scrape(node) for node in cluster}
    assert sum(m.sum("grants_total") for m in before.values()) == 10 == before[first.id].sum("grants_total")
    first.signal(signal.SIGSTOP)  # deposed, not gone: its counts stay
    others = [node for node in cluster if node is not first]
    second = cluster.leader(but=first.id, among=others)
    for i in range(7):
        assert second.acquire_surely(f"second-{i}", ttl_ms=600000).json["acquired"]
    first.signal(signal.SIGCONT)
    wait_until(lambda: scrape(first).get("log_applied_index") >= scrape(second).get("log_commit_index"), "it has caught up")
    after = {node.id: scrape(node) for node in cluster}
    for ident, metrics in after.items():
        for (name, labels), value in metrics.values.items():
            if metrics.kinds.get(name) == "counter":
                assert value >= before[ident].values.get((name, labels), 0), name
    assert after[first.id].sum("grants_total") == 10 and after[second.id].sum("grants_total") == 7
    assert sum(m.sum("leaderships_total") for m in after.values()) == 2
    assert all(m.get("leader_changes_total") >= 1 for m in after.values())

    second.kill()  # its counts end; a restarted node begins again with 0 and counts nothing again
    others = [node for node in cluster if node is not second]
    third = cluster.leader(but=second.id, among=others)
    for i in range(5):
        assert third.acquire_surely(f"third-{i}", ttl_ms=600000).json["acquired"]
    second.start()
    second.wait_ready()
    wait_until(lambda: scrape(second).get("log_applied_index") >= scrape(third).get("log_commit_index"), "it has caught up")
    assert scrape(second).sum("grants_total") == 0
    assert total(cluster, "grants_total") == 15
    assert all(scrape(node).get("grants") == 22 for node in cluster)


@pytest.mark.long
def test_a_lease_that_outlives_its_leader_shows_how_much_longer_it_lasted(make_cluster):
    cluster = make_cluster(3)
    first = cluster.leader()
    assert first.acquire("idle", ttl_ms=1500).json["acquired"]
    wait_until(lambda: total(cluster, "locks_expired_total") == 1, "it expires")
    assert 0 <= scrape(first).get("lease_overrun_worst_seconds", tier="CORRECTNESS") < PATIENCE
    others = [node for node in cluster if node is not first]
    assert first.acquire("long", ttl_ms=3000).json["acquired"]
    first.signal(signal.SIGSTOP)
    stopped = time.monotonic()
    second = cluster.leader(but=first.id, among=others)
    gap = time.monotonic() - stopped
    wait_until(lambda: scrape(second).sum("locks_expired_total") == 1, "it expires at the next leader")
    metrics = scrape(second)
    first.signal(signal.SIGCONT)
    lost = metrics.get("cluster_time_behind_seconds")
    worst = metrics.get("lease_overrun_worst_seconds", tier="CORRECTNESS")
    assert 0.1 <= lost <= gap + 0.2, (lost, gap)  # at least most of an election timeout
    assert lost - 0.05 <= worst == metrics.get("lease_overrun_seconds_sum", tier="CORRECTNESS"), (lost, worst)

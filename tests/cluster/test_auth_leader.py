"""Principals between the nodes of a cluster with auth = on: the leader decides, whichever node a request comes through, in
both tiers; what a change of the policy does to requests that wait."""

import re
import shutil
import threading

import pytest

from auth_support import bearer, grant, secure_cluster
from harness import PATIENCE, allowed, wait_until
from secure import admin_request, new_secret
from test_redis_backend import PREFIX, Redis

BODY = {"client_id": "c", "ttl_ms": 30000}
TIERS = ["CORRECTNESS", "EFFICIENCY"]
ATTEMPTS = 5


@pytest.fixture
def cluster(make_cluster):
    made = secure_cluster(make_cluster, 3)
    for node in made:
        node.tokens = made.tokens
    return made


def call(node, who, method, path, body=None):
    """As auth_support.call, for several threads."""
    return node.request(method, path, body, headers=bearer(node.tokens[who]))


def acquire(node, who, name, tier="CORRECTNESS", **more):
    return call(node, who, "POST", f"/api/v1/locks/{name}/acquire", {**BODY, "tier": tier, **more})


def metric(node, name):
    text = node.request("GET", "/metrics").text
    return int(re.search(rf"^holdfast_{re.escape(name)} (\d+)$", text, re.M)[1])


def change_policy(node, change):
    """`change` gets the document."""
    document = node.request("GET", "/api/v1/auth/policy").json
    change(document)
    answer = node.request("PUT", "/api/v1/auth/policy", document)
    assert answer.status == 200, answer
    return answer.json["version"]


def principal_in(document, tenant, name):
    return next(row for row in document["principals"] if (row["tenant"], row["name"]) == (tenant, name))


@pytest.mark.parametrize("tier", TIERS)
def test_the_leader_decides_for_each_node(cluster, tier):
    leader = cluster.leader()
    before = metric(leader, 'denied_commands_total{reason="lock"}')
    for node in cluster:
        name = f"app/{node.id}"
        assert acquire(node, "red/lock", name, tier).json["acquired"]
        assert acquire(node, "blue/lock", name, tier).json["acquired"]  # of its own tenant
        denied = acquire(node, "red/lock", f"other-{node.id}", tier)
        assert (denied.status, denied.code) == (403, "denied"), denied
        assert "red/lock" in denied.json["error"]["message"] and f"other-{node.id}" in denied.json["error"]["message"]
        assert acquire(node, "red/read", name, tier).status == 403
    assert metric(leader, 'denied_commands_total{reason="lock"}') == before + 6
    for node in cluster:
        rows = call(node, "red/admin", "GET", "/api/v1/locks").json["locks"]
        assert sorted(row["name"] for row in rows) == [f"app/{n.id}" for n in cluster]


@pytest.mark.parametrize("tier", TIERS)
def test_a_lock_of_another_principal_is_not_renewed_or_released(cluster, tier):
    follower = cluster.followers()[0]
    token = acquire(follower, "red/admin", "app/a", tier).json["fencing_token"]
    body = {"client_id": "c", "fencing_token": token}
    for node in cluster:
        for word in ("renew", "release"):
            answer = call(node, "red/lock", "POST", f"/api/v1/locks/app/a/{word}", body)
            assert answer.status != 200 or not answer.json.get("released", answer.json.get("renewed")), answer
    assert call(follower, "red/admin", "GET", "/api/v1/locks/app/a").json["held"]
    assert call(follower, "red/admin", "POST", "/api/v1/locks/app/a/release", body).status == 200


class Waiting(threading.Thread):
    """An acquire that waits."""

    def __init__(self, node, who, name, tier):
        super().__init__(daemon=True)
        self.request = node, who, name, tier
        self.answer = None
        self.start()

    def run(self):
        node, who, name, tier = self.request
        self.answer = acquire(node, who, name, tier, client_id="waiter", wait_timeout_ms=int(PATIENCE * 1000))

    def end(self):
        self.join(PATIENCE)
        assert self.answer is not None, "no answer"
        return self.answer


def queue_length(node, name):
    return call(node, "red/admin", "GET", f"/api/v1/locks/{name}").json.get("queue_length")


def queue_up(cluster, tier, waiters):
    """A name that red/admin holds and the waiters, pairs of node and principal, wait for in their order; the leader, the name, the token and the
    requests. A lock of the tier EFFICIENCY ends with its leader (S10.1), and then the first in the queue gets it. So after an election, which a
    busy machine may have at any time, this begins again with the next name."""
    for attempt in range(ATTEMPTS):
        leader = cluster.leader()
        name, term = f"app/queue-{attempt}", leader.cluster()["term"]
        token = acquire(leader, "red/admin", name, tier).json["fencing_token"]
        waiting = []
        for node, who in waiters:
            waiting.append(Waiting(node, who, name, tier))
            wait_until(lambda: queue_length(leader, name) == len(waiting) or leader.cluster()["term"] != term,
                       lambda: f"{len(waiting)} requests wait for {name}; answered: {[one.answer for one in waiting]}")
        if cluster.leader() is leader and leader.cluster()["term"] == term:
            return leader, name, token, waiting
    raise AssertionError(f"{ATTEMPTS} elections in a row")


@pytest.mark.parametrize("tier", TIERS)
def test_a_request_that_waits_loses_its_right(cluster, tier):
    """The connection stays: the principal exists. The next in the queue gets the lock."""
    follower = cluster.followers()[0]
    leader, name, held, (narrowed, follows) = queue_up(cluster, tier, [(follower, "red/lock"), (follower, "red/admin")])

    def narrow(document):
        principal_in(document, "red", "lock")["grants"] = [grant("red", "elsewhere/", "lock")]

    change_policy(leader, narrow)
    released = call(leader, "red/admin", "POST", f"/api/v1/locks/{name}/release", {"client_id": "c", "fencing_token": held})
    assert released.status == 200, released
    assert narrowed.end().json.get("reason") == "denied", narrowed.answer
    assert follows.end().json["acquired"]


@pytest.mark.parametrize("tier", TIERS)
def test_a_removed_principal_ends_at_every_node(cluster, tier):
    leader, name, _, waiting = queue_up(cluster, tier, [(node, "red/lock") for node in cluster])
    change_policy(leader,
                  lambda document: document["principals"].remove(principal_in(document, "red", "lock")))
    for one in waiting:
        assert one.end().status in (401, 403), one.answer
    wait_until(lambda: queue_length(cluster.leader(), name) == 0, f"nothing waits for {name}")
    for node in cluster:
        assert acquire(node, "red/lock", "app/b", tier).status == 401


def test_metrics_show_policy_and_failures(cluster):
    node = cluster.followers()[0]
    version = node.request("GET", "/api/v1/auth/policy").json["version"]
    assert metric(node, "policy_version") == version
    before = metric(node, "authentication_failures_total")
    assert node.request("GET", "/api/v1/locks", headers={"Authorization": "Bearer hf_nobody"}).status == 401
    assert metric(node, "authentication_failures_total") == before + 1
    text = node.request("GET", "/metrics").text
    assert text.count("# TYPE holdfast_denied_commands_total counter\n") == 1
    reasons = re.findall(r'^holdfast_denied_commands_total\{reason="(\w+)"\} \d+$', text, re.M)
    assert reasons == ["no_principal", "lock", "read", "operate", "admin"]


def test_a_member_without_auth_lets_nobody_in(cluster):
    """It is configured otherwise, by mistake. The leader refuses what comes through it."""
    node = cluster.followers()[0]
    assert node.stop() == 0
    node.flags[node.flags.index("--auth") + 1] = "off"
    node.start().wait_ready()
    node.headers = {}
    for tier in TIERS:
        refused = node.acquire("app/a", tier=tier)
        assert (refused.status, refused.code) == (401, "unauthenticated"), refused
    assert not (node.folder / "admin.sock").exists()
    leader = next(one for one in cluster if one is not node and metric(one, "leader"))
    assert metric(leader, 'denied_commands_total{reason="no_principal"}') >= 2


def test_leadership_moves_and_the_policy_with_it(cluster):
    """Also the administrator's own change is not lost, and the tier without a log has the policy at once."""
    old = cluster.leader()
    version = change_policy(old, lambda document: document["tenants"].append({"name": "green"}))
    old.kill()
    rest = [node for node in cluster if node is not old]
    new = cluster.leader(among=rest)
    assert new.request("GET", "/api/v1/auth/policy").json["version"] == version
    for tier in TIERS:
        assert wait_until(lambda tier=tier: (lambda a: a if a.status != 503 else None)(
            acquire(rest[0], "red/lock", f"app/{tier}", tier)), "an answer").json["acquired"]
        assert acquire(rest[1], "red/lock", f"other/{tier}", tier).status == 403
    secret, digest = new_secret()
    answer = admin_request(rest[1].folder, op="rescue", principal="default/saviour", sha256=digest, description="x")
    assert answer["version"] == version + 1
    assert rest[0].request("GET", "/api/v1/auth/policy").status in (401, 403)
    assert wait_until(lambda: rest[0].request("GET", "/api/v1/auth/policy", headers={"Authorization": f"Bearer {secret}"})
                      .status == 200, "the new administrator is known", allowed(10))


@pytest.mark.skipif(shutil.which("redis-server") is None, reason="redis-server is not installed: scripts/setup test")
def test_keys_in_redis_name_the_tenant(make_cluster):
    server = Redis().start()
    try:
        cluster = secure_cluster(make_cluster, 1, "--efficiency-backend", "redis", "--redis", server.path,
                                 "--redis-prefix", PREFIX, "--efficiency-fallback", "fail")
        node = cluster.nodes[1]
        node.tokens = cluster.tokens
        wait_until(lambda: acquire(node, "default/root", "app/a", "EFFICIENCY").status == 200, "Redis is usable")
        tokens = {who: acquire(node, who, "app/a", "EFFICIENCY").json["fencing_token"] for who in ("red/lock", "blue/lock")}
        keys = sorted(key for key in server.client().keys(f"{PREFIX}*") if "trial" not in key)
        numbers = [re.fullmatch(rf"{PREFIX}(?:/(\d+)/)?app/a", key)[1] for key in keys]
        assert len(keys) == 3 and numbers.count(None) == 1 and len(set(numbers)) == 3, keys
        for who, token in tokens.items():
            assert call(node, who, "POST", "/api/v1/locks/app/a/release",
                        {"client_id": "c", "fencing_token": token}).json["released"]
        wait_until(lambda: server.client().exists(*keys) == 1, "the keys of both tenants are given back")
        assert server.client().exists(f"{PREFIX}app/a") == 1
    finally:
        server.close()


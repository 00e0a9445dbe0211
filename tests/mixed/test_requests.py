"""A cluster of three nodes of the old program and two of the new one serves every request through every node, and a
request that the old program does not support is refused."""

import pytest
import redis

import resp_support
from mixed_support import HINTS, Wait, hint_for, lead, new_nodes, old_nodes, post, wait_queued
from harness import wait_until

TIERS = ["CORRECTNESS", "EFFICIENCY"]


@pytest.fixture(params=["old", "new"])
def cluster(request, make_mixed):
    """With a leader of this program."""
    cluster = make_mixed(5, 2)
    lead(cluster, (old_nodes if request.param == "old" else new_nodes)(cluster)[0])
    return cluster


def names(node, prefix):
    """The rows of a list, without the times that differ from one answer to the next."""
    rows = node.request("GET", f"/api/v1/locks?prefix={prefix}&limit=1000").json["locks"]
    return sorted((row["name"], row["tier"], row["mode"], row["holder_count"], row["queue_length"],
                   row["holder"]["client_id"], str(row["holder"]["metadata"])) for row in rows)


def details(node, name):
    """A name with its holders and waiters, without times."""
    shown = node.show(name).json
    return ([(h["client_id"], h["fencing_token"], str(h["metadata"])) for h in shown["holders"]],
            [w["client_id"] for w in shown["waiters"]])


def take_wait_renew_release(cluster, node, other, tier, hint):
    """One holder through `node`, and one after it through `other`."""
    name = f"{tier}/{node.id}"
    held = node.acquire(name, tier=tier, metadata={"through": node.id}, **hint_for(node, hint)).json
    assert held["acquired"] and held["tier"] == tier, held
    wait = Wait(other, name, tier=tier, metadata={"through": other.id}, **hint_for(other, hint))
    wait_queued(other, name)
    views = [details(each, name) for each in cluster]
    assert views == [views[0]] * 5 and views[0][1] == ["waiter"], views
    renewed = post(node, f"locks/{name}/renew",
                   {"client_id": "test", "fencing_token": held["fencing_token"], "ttl_ms": 60000})
    assert renewed.status == 200 and renewed.json["renewed"], renewed
    assert node.release(name, held["fencing_token"]).json["released"]
    granted = wait.end().json
    assert granted["acquired"] and granted["fencing_token"] > held["fencing_token"], granted
    views = [details(each, name) for each in cluster]
    assert views == [views[0]] * 5 and views[0][0][0][:2] == ("waiter", granted["fencing_token"]), views


@pytest.mark.parametrize("hint", HINTS)
def test_locks_of_both_tiers_through_every_node(cluster, hint):
    nodes = list(cluster)
    for tier in TIERS:
        for i, node in enumerate(nodes):
            take_wait_renew_release(cluster, node, nodes[(i + 2) % 5], tier, hint)
        lists = [names(node, f"{tier}/") for node in nodes]
        assert lists == [lists[0]] * 5 and len(lists[0]) == 5, lists


def test_keys_and_counters_through_every_node(cluster):
    nodes = list(cluster)
    clients = [resp_support.connect(node) for node in nodes]
    for i, client in enumerate(clients):
        other = clients[(i + 3) % 5]
        assert client.set(f"key/{i}", f"value-{i}", nx=True, px=60000)
        assert not other.set(f"key/{i}", "late", nx=True, px=60000)
        assert [each.get(f"key/{i}") for each in clients] == [f"value-{i}"] * 5
        assert other.incr("count") == i + 1
        lock = other.lock(f"lock/{i}", timeout=60)
        assert lock.acquire(blocking=False) and not client.lock(f"lock/{i}", timeout=60).acquire(blocking=False)
        lock.extend(30)
        lock.release()  # by its script
        assert client.delete(f"key/{i}") == 1 and other.get(f"key/{i}") is None


def test_sessions_elections_semaphores_and_operators(cluster):
    nodes = list(cluster)
    for i, node in enumerate(nodes):
        other = nodes[(i + 2) % 5]
        session = post(node, "sessions", {"client_id": f"s-{i}", "ttl_ms": 60000, "metadata": {"n": i}}).json["session_id"]
        assert post(other, f"sessions/{session}/keepalive", {}).status == 200
        multi = post(other, "multilock/acquire", {"session_id": session, "names": [f"m/{i}/b", f"m/{i}/a"]}).json
        assert multi["acquired"], multi
        elected = post(node, f"elections/e-{i}/campaign", {"session_id": session, "value": "10.0.0.1:80"}).json
        assert elected["elected"], elected
        assert other.request("GET", f"/api/v1/elections/e-{i}").json["leader"]["value"] == "10.0.0.1:80"
        for permits in (1, 2):
            pooled = other.acquire(f"pool/{i}", session_id=session, mode="semaphore", limit=3, permits=permits,
                                   owner=f"o-{permits}").json
            assert pooled["acquired"], pooled
        forced = post(other, f"locks/m/{i}/a/force-unlock", {"actor_id": "ann", "reason": "stuck"})
        assert forced.status == 200, forced
        assert post(node, "fence/check", {"resource": f"f/{i}", "fencing_token": multi["fencing_token"]}).json["accepted"]
        assert node.request("DELETE", f"/api/v1/sessions/{session}").status == 200
    trails = [[(r["number"], r["action"], r["resource"]) for r in node.request("GET", "/api/v1/audit").json["records"]]
              for node in nodes]
    forced = [action for _, action, _ in trails[0] if action == "FORCE_UNLOCK"]
    assert trails == [trails[0]] * 5 and len(forced) == 5, trails  # since version 7, transfers are there, too


def test_what_the_old_program_does_not_support_is_refused(cluster):
    if cluster.version >= 4:
        pytest.skip("the old program supports the reset of a fence and counters with a TTL")
    token = cluster.nodes[1].acquire("fenced").json["fencing_token"]
    for node in new_nodes(cluster):
        assert post(node, "fence/check", {"resource": "fenced", "fencing_token": token}).json["accepted"]
        refused = post(node, "fence/reset", {"resource": "fenced", "actor_id": "ann", "reason": "drill"})
        assert refused.code == "not_upgraded", refused
        client = resp_support.connect(node)
        client.incr("window")
        with pytest.raises(redis.ResponseError, match="not_upgraded"):
            client.expire("window", 60)
        assert client.ttl("window") == -1
        wait_until(lambda n=node: n.request("GET", "/readyz").status == 200, "it still serves")

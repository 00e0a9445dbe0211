"""The audit trail by name, prefix, actor, action and time: over HTTP and with the command line."""

import json
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import pytest

from auth_support import call, secure_cluster
from cli_support import run_cli, cluster, endpoints, good  # noqa: F401  (a fixture)
from harness import wait_until


def forced(cluster, name, actor, client="ann", **more):
    node = cluster.nodes[1]
    assert node.acquire(name, client=client).json["acquired"]
    body = {"actor_id": actor, "reason": "test", "now": True, **more}
    assert node.request("POST", f"/api/v1/locks/{quote(name, safe='')}/force-unlock", body).status == 200


def found(node, **filters):
    query = "&".join(f"{key}={quote(str(value), safe='')}" for key, value in filters.items())
    answer = node.request("GET", f"/api/v1/audit?{query}")
    assert answer.status == 200, answer
    return answer.json


def names(page):
    return [record["resource"] for record in page["records"]]


@pytest.mark.sanitized
def test_records_are_found_by_each_filter_through_each_node(cluster):  # noqa: F811
    for name, actor in (("f/1", "olga"), ("f/2", "omar"), ("g/1", "olga"), ("f/1", "omar")):
        forced(cluster, name, actor)
    for node in cluster.nodes.values():
        assert names(found(node, name="f/1")) == ["f/1", "f/1"]
        assert names(found(node, prefix="f/")) == ["f/1", "f/2", "f/1"]
        assert names(found(node, actor="olga")) == ["f/1", "g/1"]
        assert names(found(node, actor="olga", action="force_unlock_now", prefix="g/")) == ["g/1"]
        assert names(found(node, action="REVOKE", prefix="f/")) == []
        newest = found(node, actor="omar", order="newest", limit=1)
        assert names(newest) == ["f/1"] and newest["next_cursor"]
        rest = found(node, actor="omar", order="newest", limit=1, cursor=newest["next_cursor"])
        assert names(rest) == ["f/2"]


def test_records_are_found_by_time(cluster):  # noqa: F811
    node = cluster.nodes[1]
    forced(cluster, "t/1", "olga")
    first = found(node, name="t/1")["records"][0]["createdAt"]
    forced(cluster, "t/1", "olga")
    wait_until(lambda: len(found(node, name="t/1")["records"]) == 2, "the second record")
    last = found(node, name="t/1")["records"][1]["createdAt"]
    assert len(found(node, name="t/1", since=first)["records"]) == 2
    assert found(node, name="t/1", until=first)["records"] == []
    if last > first:
        assert [r["createdAt"] for r in found(node, name="t/1", since=first, until=last)["records"]] == [first]
    assert len(found(node, name="t/1", since="1h")["records"]) == 2
    assert found(node, name="t/1", since="0s")["records"] == []


@pytest.mark.parametrize("query, code", [
    ("since=yesterday", "field_type"), ("since=1h&until=2h", "field_range"), ("order=up", "field_range"),
    ("name=a&prefix=a", "field_range"), ("action=unlock", "field_range"), ("cursor=1-2", "field_range"),
    ("limit=0&actor=a", "field_range"), ("who=a", "field_unknown")])
def test_wrong_filters_have_stable_codes(cluster, query, code):  # noqa: F811
    answer = cluster.nodes[1].request("GET", f"/api/v1/audit?{query}")
    assert answer.status == 400 and answer.json["error"]["code"] == code, answer


def test_the_command_line_has_the_filters(cluster):  # noqa: F811
    for number in range(3):
        forced(cluster, f"c/{number}", "carl")
    rows = json.loads(good(cluster, "audit", "--actor", "carl", "--json"))
    assert names(rows) == ["c/0", "c/1", "c/2"] and rows["complete_since"] is None
    assert names(json.loads(good(cluster, "audit", "--name", "c/1", "--since", "2h", "--json"))) == ["c/1"]
    assert names(json.loads(good(cluster, "audit", "--prefix", "c/", "--limit", "2", "--json"))) == ["c/1", "c/2"]
    table = good(cluster, "audit", "--prefix", "c/", "--action", "force_unlock_now", "--limit", "1").splitlines()
    assert len(table) == 2 and "c/2" in table[1] and "carl" in table[1]
    assert json.loads(good(cluster, "audit", "--prefix", "c/", "--until", "2h", "--json"))["records"] == []
    wrong = run_cli(cluster, "audit", "--since", "noon")
    assert wrong.returncode == 64 and "14:03" in wrong.stderr


def audited(node, action, count=1):
    """The records of the action, when there are so many."""
    def there():
        records = found(node, action=action, order="newest")["records"]
        return records if len(records) >= count else None
    return wait_until(there, f"{count} records of {action}")


def changed(node, method, path, body=None):
    """A change of the members, repeated until the leader takes it, and in force."""
    def done():
        answer = node.request(method, f"/api/v1/members{path}", body)
        return answer if answer.status == 200 else None
    wait_until(done, f"{method} {path}")
    wait_until(lambda: not any(other.cluster()["members_changing"] for other in node.group), "it is in force")


def test_each_change_of_the_members_is_audited(make_cluster):
    cluster = make_cluster(3)
    follower = cluster.followers()[0]
    other = next(node for node in cluster if node not in (follower, cluster.leader()))
    follower.group = (follower, cluster.leader())
    actor = {"actor_id": "olga"}
    changed(follower, "POST", "", {"id": 9, "address": "127.0.0.1:1", **actor})
    changed(follower, "DELETE", "/9", actor)
    changed(follower, "POST", f"/{other.id}/demote", actor)
    changed(follower, "POST", f"/{other.id}/promote")
    changed(follower, "POST", "/transfer", {"to": follower.id, **actor})
    for action, resource, who in (
            ("MEMBER_ADD", "node-9", "olga"), ("MEMBER_REMOVE", "node-9", "olga"),
            ("MEMBER_DEMOTE", f"node-{other.id}", "olga"), ("MEMBER_PROMOTE", f"node-{other.id}", "unknown"),
            ("TRANSFER", f"node-{follower.id}", "olga")):
        record = audited(follower, action)[0]
        assert (record["resource"], record["actorId"]) == (resource, who), record
        assert f"through node {follower.id}" in record["reason"]
    assert "127.0.0.1:1" in audited(follower, "MEMBER_ADD")[0]["reason"]
    refused = follower.request("POST", "/api/v1/members/77/promote", actor)
    assert refused.status == 409
    assert len(audited(follower, "MEMBER_PROMOTE")) == 1  # what was not done is no record
    assert follower.request("DELETE", f"/api/v1/members/{other.id}", actor).status == 200
    assert audited(follower, "MEMBER_REMOVE", 2)[0]["resource"] == f"node-{other.id}"


def test_each_action_on_locks_and_settings_is_audited(make_cluster):
    cluster = make_cluster(3)
    node, leader = cluster.followers()[0], cluster.leader()
    who = {"actor_id": "olga", "reason": "it hangs"}
    for name in ("k/1", "k/2", "k/3"):
        leader.acquire_surely(name)
    assert node.request("POST", "/api/v1/locks/k/1/force-unlock", who).status == 200
    assert node.request("POST", "/api/v1/locks/k/2/force-unlock", {**who, "now": True}).status == 200
    assert node.request("POST", "/api/v1/locks/k/3/revoke", {**who, "deadline_ms": 0}).status == 200
    assert node.request("POST", "/api/v1/fence/check", {"resource": "d", "fencing_token": 1}).status == 200
    assert node.request("POST", "/api/v1/fence/reset", {**who, "resource": "d"}).status == 200
    assert node.request("PUT", "/api/v1/log-level", {"log_level": "raft=debug", "actor_id": "olga"}).status == 200
    for action in ("FORCE_UNLOCK", "FORCE_UNLOCK_NOW", "REVOKE", "REVOKE_TAKEN", "FENCE_RESET", "SETTING"):
        assert audited(node, action)[0]["actorId"] == "olga", action


def test_changes_of_the_policy_and_denied_operator_calls_are_audited(make_cluster):
    cluster = secure_cluster(make_cluster, 1)
    node = cluster.nodes[1]
    node.tokens = cluster.tokens
    root = call(node, "default/root", "GET", "/api/v1/audit?action=policy").json["records"]
    assert len(root) >= 1 + len(cluster.tokens)  # the policy, and each token
    made = call(node, "default/root", "POST", "/api/v1/auth/tokens", {"principal": "red/read"})
    assert made.status == 200
    newest = call(node, "default/root", "GET", "/api/v1/audit?action=policy&order=newest&limit=1").json["records"][0]
    assert newest["actorId"] == "default/root"
    body = {"actor_id": "x", "reason": "y"}
    for method, path, sent in (
            ("POST", "/api/v1/locks/app/z/force-unlock", body), ("POST", "/api/v1/locks/app/z/revoke", body),
            ("POST", "/api/v1/fence/reset", {**body, "resource": "app/z"}), ("GET", "/api/v1/audit?actor=x", None),
            ("DELETE", "/api/v1/members/1", None), ("PUT", "/api/v1/log-level", {"log_level": "info"})):
        assert call(node, "red/lock", method, path, sent).status == 403

    def denied():
        records = call(node, "red/admin", "GET", "/api/v1/audit?action=denied&actor=red/lock").json["records"]
        return records and records[0]["holders"] >= 1
    wait_until(denied, "the denied calls are noted")
    assert call(node, "blue/admin", "GET", "/api/v1/audit?actor=red/lock").json["records"] == []
    assert call(node, "red/read", "GET", "/api/v1/audit?actor=red/lock").status == 403


def test_records_that_left_the_state_are_found_in_the_event_log(make_cluster):
    """The state keeps 10,000 of a tenant; also after a restart."""
    node = make_cluster(1).nodes[1]
    assert node.request("POST", "/api/v1/fence/check", {"resource": "d", "fencing_token": 1}).status == 200

    def reset(number):
        body = {"actor_id": f"actor-{number % 100}", "reason": str(number), "resource": "d"}
        assert node.request("POST", "/api/v1/fence/reset", body).status == 200

    reset(0)
    first = found(node, name="d")["records"][0]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(reset, range(1, 10201)))
    assert found(node, limit=1)["records"][0]["number"] > first["number"]  # without a filter: as before
    for _ in range(2):
        oldest = found(node, name="d", limit=1)
        assert oldest["records"] == [first] and oldest["complete_since"] is None
        by_actor, cursor = [], None
        while cursor is not None or not by_actor:
            page = found(node, actor="actor-7", limit=50, order="newest", **({"cursor": cursor} if cursor else {}))
            by_actor += [record["number"] for record in page["records"]]
            cursor = page["next_cursor"]
        assert len(by_actor) == 102 and by_actor == sorted(by_actor, reverse=True)
        upwards, cursor = [], None
        while cursor is not None or not upwards:
            page = found(node, actor="actor-7", limit=50, **({"cursor": cursor} if cursor else {}))
            upwards += [record["number"] for record in page["records"]]
            cursor = page["next_cursor"]
        assert upwards == by_actor[::-1]
        node.kill()
        node.start()
        node.wait_ready()

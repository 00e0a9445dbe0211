"""The audit trail by name, prefix, actor, action and time: over HTTP and with the command line."""

import json
from urllib.parse import quote

import pytest

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

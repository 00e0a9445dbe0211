"""Version 7 of the state: true times, long-held rules, max_hold and if_token. Refused while a member runs an earlier program;
a time that was shown after the upgrade stays."""

import pytest

from harness import PROGRAM
from mixed_support import (NEW_VERSION, assert_same_state, lead, make_mixed, new_nodes, old_nodes, post, roll,  # noqa: F401
                           wait_upgraded)

RULE = {"prefix": "jobs/", "after_ms": 60000, "actor_id": "ann"}
OPERATOR = {"actor_id": "ann", "reason": "drill"}


def calls(node, token):
    """What version 7 has: name, answer."""
    yield "max_hold", post(node, "locks/limited/acquire", {"client_id": "c", "max_hold_ms": 600000})
    yield "if_token", post(node, "locks/plain/revoke", {**OPERATOR, "if_token": token, "deadline_ms": 600000})
    yield "set", node.request("PUT", "/api/v1/alerts", RULE)
    yield "remove", node.request("DELETE", "/api/v1/alerts", {"prefix": "jobs/", "actor_id": "ann"})


@pytest.mark.parametrize("leader", ["old", "new"])
def test_times_and_rules_begin_when_all_members_support_them(make_mixed, leader):  # noqa: F811
    cluster = make_mixed(3, 1)
    if cluster.version >= 7:
        pytest.skip("the earlier program has all of it")
    lead(cluster, (old_nodes if leader == "old" else new_nodes)(cluster)[0])
    new = new_nodes(cluster)[0]
    token = new.acquire("plain", ttl_ms=3600000).json["fencing_token"]
    for name, answer in calls(new, token):
        assert answer.code == "not_upgraded", (name, answer)
    assert new.request("GET", "/api/v1/alerts").code == "not_upgraded"
    assert new.show("limited").json["held"] is False
    for node in old_nodes(cluster):
        roll(node, PROGRAM)
    wait_upgraded(cluster)
    since = {name: cluster.nodes[1].show(name).json["holders"][0]["since"] for name in ("plain", "before-all")}
    for name, answer in calls(cluster.nodes[2], token):
        assert answer.status == 200, (name, answer)
    for node in cluster:
        roll(node, PROGRAM)
    for node in cluster:
        shown = {name: node.show(name).json["holders"][0]["since"] for name in since}
        assert shown == since, (node.id, shown, since)
        assert node.show("limited").json["holders"][0]["hold_until"]
    assert_same_state(cluster, NEW_VERSION)

"""Authentication needs the state version that has principals. Before it nobody is let in and nothing is changed; after
the last old member was replaced the first administrator can be made."""

import pytest

from harness import PROGRAM, wait_until
from mixed_support import NEW_VERSION, assert_same_state, lead, make_mixed, old_nodes, roll, wait_upgraded  # noqa: F401
from secure import admin_request, new_secret


def bootstrap(node, digest):
    return admin_request(node.folder, op="bootstrap", principal="default/admin", sha256=digest, description="test")


def test_auth_begins_when_all_members_support_it(make_mixed):  # noqa: F811
    cluster = make_mixed(3, 1)
    if cluster.version >= 6:
        pytest.skip("the old program supports principals")
    secret, digest = new_secret()
    new = cluster.nodes[3]
    new.flags += ["--auth", "on"]
    roll(new, PROGRAM)
    assert bootstrap(new, digest)["error"] == "not_upgraded"
    wait_until(lambda: new.acquire("early").code == "not_upgraded", "the node is sure of the version")
    assert new.acquire("early").status == 503
    assert new.request("GET", "/livez").status == 200
    old = old_nodes(cluster)
    assert old[0].acquire("through-the-old-program").json["acquired"]
    for node in old:
        roll(node, PROGRAM)
    wait_upgraded(cluster)
    assert "version" in bootstrap(new, digest)
    assert bootstrap(new, digest)["error"] == "policy_exists"
    assert new.acquire("late").status == 401
    new.headers = {"Authorization": f"Bearer {secret}"}
    answer = wait_until(lambda: (lambda a: a if a.status == 200 else None)(new.acquire("late")), "an answer")
    assert answer.json["acquired"]
    assert new.show("before-all").json["held"]
    restart_with_auth(cluster, new, old)


def restart_with_auth(cluster, new, others):
    """The setting differs between the members for a while. A leader with auth = on takes no anonymous command, whichever
    node it comes through; a node's own commands pass, so a member without auth can be restarted."""
    lead(cluster, new)
    refused = others[0].acquire("anonymous")
    assert (refused.status, refused.code) == (401, "unauthenticated"), refused
    for node in others:
        node.flags += ["--auth", "on"]
        roll(node, PROGRAM)
        node.headers = new.headers
        assert wait_until(lambda node=node: node.acquire(f"through-{node.id}").status == 200, f"node {node.id} serves")
    assert_same_state(cluster, NEW_VERSION)

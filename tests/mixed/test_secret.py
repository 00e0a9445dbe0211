"""The peer secret beside nodes of a version that does not know it: accepted while it is optional, refused afterwards."""

from harness import PROGRAM, wait_until
from mixed_support import new_nodes, old_nodes, roll


def serves(cluster):
    return all(node.acquire_surely(f"by-{node.id}").json["acquired"] for node in cluster)


def test_a_secret_is_introduced_during_an_upgrade(make_mixed, tmp_path):
    path = tmp_path / "secret"
    path.write_text("the secret of all nodes\n", encoding="utf-8")
    path.chmod(0o600)
    cluster = make_mixed(3, 1)
    third = cluster.nodes[3]
    third.flags += ["--peer-secret-file", str(path), "--peer-secret-required", "off"]
    roll(third, PROGRAM)
    assert third.events("peer_secret_optional") and serves(cluster)
    # Too early: the others do not know it.
    optional = third.flags
    third.flags = optional[:-2]
    assert third.stop() == 0
    third.start()
    reason = third.wait_event("peer_refused")[0]["reason"]
    assert "has no peer secret, and node 3 requires one" in reason, reason
    for node in old_nodes(cluster):
        assert "has no peer secret" in node.wait_event("refused_by_peer")[0]["reason"]
    assert third.request("GET", "/readyz").status == 503
    assert serves([node for node in cluster if node is not third])
    third.kill()
    third.flags = optional
    third.start().wait_ready()
    for node in old_nodes(cluster):
        node.flags += optional[-4:]
        roll(node, PROGRAM)
    assert len(new_nodes(cluster)) == 3 and serves(cluster)
    for node in cluster:
        node.flags = node.flags[:-2]
        roll(node, PROGRAM)
    wait_until(lambda: serves(cluster), "all serve")
    assert not any(node.events("peer_refused") for node in cluster if node is not third)

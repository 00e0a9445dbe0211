"""`holdfast member`: a node joins, catches up, votes, leads and leaves."""

import json

from cli_support import ask, good
from harness import Node, free_ports


def test_a_node_is_added_catches_up_votes_leads_and_leaves(make_cluster, tmp_path):
    cluster = make_cluster(3)
    for number in range(50):
        cluster.nodes[1].acquire(f"load-{number}")
    ports = free_ports(2)
    fourth = Node(4, tmp_path / "node-4", ports[0], ports[1], ["--cluster-name", "test"])
    peers = ",".join(f"{i}={a}" for i, a in cluster.addresses.items())
    fourth.flags += ["--cluster", f"{peers},4=127.0.0.1:{ports[1]}"]
    fourth.start("--join")
    try:
        done = ask(cluster, "member", "add", "4", f"127.0.0.1:{ports[1]}", timeout=90)
        assert done.returncode == 0, done
        assert "node 4 has caught up" in done.stdout and "node 4:" in done.stderr
        assert good(cluster, "member", "promote", "4") == "node 4 votes\n"
        rows = {m["id"]: m for m in json.loads(good(cluster, "member", "list", "--json"))["members"]}
        assert rows[4]["voter"] and rows[4]["role"] == "follower"
        assert good(cluster, "member", "transfer", "4") == "node 4 leads\n"
        assert good(cluster, "member", "transfer") in {f"node {i} leads\n" for i in (1, 2, 3)}
        assert good(cluster, "member", "demote", "4") == "node 4 votes no more\n"
        assert "node 4 is removed" in good(cluster, "member", "remove", "4")
        assert "learner" not in good(cluster, "member", "list")
    finally:
        fourth.process.kill()
        fourth.process.wait()


def test_what_the_leader_refuses_ends_with_1_and_its_reason(make_cluster):
    cluster = make_cluster(3)
    done = ask(cluster, "member", "promote", "9")
    assert done.returncode == 1 and "membership_refused" in done.stderr

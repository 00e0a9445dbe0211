"""`holdfast member`: a node joins, catches up, votes, leads and leaves."""

import json
import subprocess

import pytest

from cli_support import run_cli, endpoints, good
from harness import PROGRAM, Node, environment, free_ports, wait_until
from slow_disk import SlowDisk


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
        done = run_cli(cluster, "member", "add", "4", f"127.0.0.1:{ports[1]}", timeout=90)
        assert done.returncode == 0, done
        assert "node 4 has caught up" in done.stdout and "node 4:" in done.stderr
        assert good(cluster, "member", "promote", "4") == "node 4 is a voter\n"
        rows = {m["id"]: m for m in json.loads(good(cluster, "member", "list", "--json"))["members"]}
        assert rows[4]["voter"] and rows[4]["role"] == "follower"
        assert good(cluster, "member", "transfer", "4") == "node 4 is the leader\n"
        unchanged = run_cli(cluster, "member", "transfer", "--from", "1")
        assert (unchanged.returncode, unchanged.stdout) == (0, "") and "node 1 is not the leader" in unchanged.stderr
        assert good(cluster, "member", "transfer", "--from", "4") in {f"node {i} is the leader\n" for i in (1, 2, 3)}
        assert good(cluster, "member", "demote", "4") == "node 4 is a learner\n"
        assert "node 4 is removed" in good(cluster, "member", "remove", "4")
        assert "learner" not in good(cluster, "member", "list")
    finally:
        fourth.process.kill()
        fourth.process.wait()


def test_what_the_leader_refuses_ends_with_1_and_its_reason(make_cluster):
    cluster = make_cluster(3)
    done = run_cli(cluster, "member", "promote", "9")
    assert done.returncode == 1 and "membership_refused" in done.stderr


@pytest.mark.parametrize("count", [5, 3, 2])
def test_the_leader_is_removed_and_demoted_by_one_command(make_cluster, count):
    cluster = make_cluster(count)
    leader = cluster.leader()
    others = [n for n in cluster if n is not leader]
    done = run_cli([leader], "member", "remove", str(leader.id))
    assert done.returncode == 0, done
    assert done.stdout == f"node {leader.id} is removed; its id is never used again\n", done
    rows = json.loads(good(others, "member", "list", "--json"))["members"]
    assert {row["id"] for row in rows} == {n.id for n in others}
    if count > 2:
        second = others[0].cluster()["leader"]
        assert good(others, "member", "demote", str(second)) == f"node {second} is a learner\n"

        def caught_up():
            rows = json.loads(good(others, "member", "list", "--json"))["members"]
            return next(row for row in rows if row["id"] == second)["lag"] == 0

        wait_until(caught_up, "the demoted node has the change that demotes it")
        assert good(others, "member", "promote", str(second)) == f"node {second} is a voter\n"
    else:
        done = run_cli(others, "member", "remove", str(others[0].id))
        assert done.returncode == 1 and "only voter" in done.stderr, done


def test_the_command_does_not_wait_for_the_word_of_the_node_that_it_removes(make_cluster):
    """Its only endpoint is that node, which ends while the change is not in force yet."""
    cluster = make_cluster(3, start=False)
    with SlowDisk(cluster) as slow:
        cluster.start()
        victim = cluster.followers()[0]
        slow.begin()
        command = subprocess.Popen(
            [PROGRAM, "member", "remove", str(victim.id), "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, env=environment(HOLDFAST_ENDPOINTS=endpoints([victim])))
        assert json.loads(command.stdout.readline())["started"]
        victim.kill()
        slow.end()
        _, problem = command.communicate(timeout=60)
        assert command.returncode == 0, problem
    others = [n for n in cluster if n is not victim]
    wait_until(lambda: all(len(n.cluster()["members"]) == 2 for n in others), "it is gone")

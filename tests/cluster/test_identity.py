"""S12.1: who may talk to whom. A folder that was lost is noticed, a foreign cluster is reported by name."""

import shutil

import pytest

from harness import Node, wait_until
from load import Load

LOST = "node 3 lost its disk: remove it and add it under a new id"


@pytest.mark.sanitized
def test_a_node_of_another_cluster_is_refused_by_name_on_both_sides(make_cluster, keep, tmp_path):
    cluster = make_cluster(3, name="production")
    replaced = cluster.nodes[2]
    replaced.kill()
    foreign = keep(Node(2, tmp_path / "foreign", replaced.client, replaced.peer,
                         [*cluster.flags, "--cluster-name", "staging"]))
    foreign.start("--bootstrap")
    for side in (foreign, cluster.nodes[1]):
        wait_until(lambda s=side: s.events("peer_refused") or s.events("refused_by_peer"),
                   f"node {side.id} says so")
    reasons = [e["reason"] for e in foreign.events("refused_by_peer")
               + foreign.events("peer_refused")]
    assert all("staging" in r and "production" in r for r in reasons), reasons
    assert cluster.nodes[1].acquire_surely("still-works").json["acquired"]
    assert foreign.request("GET", "/readyz").status == 503
    assert foreign.acquire("never").status == 503


def test_a_voter_that_lost_its_disk_must_not_vote(make_cluster):
    cluster = make_cluster(5, "--request-timeout", "1s")
    victim = cluster.nodes[3]
    others = [node for node in cluster if node is not victim]
    with Load(others) as load:
        load.wait_more(20)
        victim.kill()
        served = len(victim.events("serving"))  # it may have led in its first life
        shutil.rmtree(victim.folder)
        victim.start("--bootstrap")
        wait_until(lambda: any(LOST in e["reason"] for e in victim.events("refused_by_peer")),
                   "it gets the reason")
        wait_until(lambda: any(LOST in e["reason"] for node in others
                               for e in node.events("peer_refused")), "the others say it too")
        load.wait_more(20)
    load.check(cluster.leader())
    # Two more are gone: three of five are up, but only two of them count.
    leader = cluster.leader()
    leader.kill()
    next(node for node in others if node is not leader).kill()
    survivors = [node for node in others if node.running]
    assert len(survivors) == 2
    wait_until(lambda: survivors[0].acquire("no").status == 503, "no majority without the lost one")
    assert victim.request("GET", "/readyz").status == 503
    # As long as no other voter comes back, nobody leads, however long they canvass.
    terms = [node.cluster()["term"] for node in survivors]
    back = next(node for node in others if not node.running and node is not leader)
    back.start().wait_ready()
    assert len(victim.events("serving")) == served
    assert all(node.cluster()["term"] >= term for node, term in zip(survivors, terms))
    load.check(cluster.leader())


def test_a_node_whose_folder_is_empty_does_not_begin_by_itself(make_cluster):
    cluster = make_cluster(3)
    victim = cluster.nodes[3]
    victim.kill()
    shutil.rmtree(victim.folder)
    victim.start()
    assert victim.wait_end() == 1
    assert "--bootstrap" in victim.log() and "lost its disk" in victim.log()


def test_a_folder_of_another_node_is_refused(make_cluster):
    cluster = make_cluster(3)
    cluster.nodes[2].kill()
    shutil.rmtree(cluster.nodes[2].folder)
    cluster.nodes[3].kill()
    shutil.copytree(cluster.nodes[3].folder, cluster.nodes[2].folder)
    cluster.nodes[2].start()
    assert cluster.nodes[2].wait_end() == 1
    assert "belongs to node 3" in cluster.nodes[2].log()

"""S12.1: who may talk to whom. A folder that was lost is noticed, a foreign cluster is told by name."""

import shutil

from conftest import Cluster, wait_until

LOST = "node 3 lost its disk: remove it and add it under a new id"


def test_a_node_of_another_cluster_is_refused_by_name_on_both_sides(make_cluster, tmp_path):
    cluster = make_cluster(3, name="production")
    guest = cluster.nodes[2]
    guest.kill()
    stranger = Cluster(tmp_path / "x", 1)
    stranger = cluster.nodes[2].__class__(
        2, tmp_path / "stranger", guest.client_port, guest.peer_port,
        [*cluster.flags, "--cluster-name", "staging"])
    stranger.start("--bootstrap")
    try:
        for side, event in ((stranger, "peer_refused"), (cluster.nodes[1], "peer_refused")):
            wait_until(lambda s=side, e=event: s.events(e) or s.events("refused_by_peer"),
                       f"node {side.id} says so")
        reasons = [e["reason"] for e in stranger.events("refused_by_peer")
                   + stranger.events("peer_refused")]
        assert all("staging" in r and "production" in r for r in reasons), reasons
        assert cluster.nodes[1].acquire("still-works").json["acquired"]
        assert stranger.ask("GET", "/readyz").status == 503
        assert stranger.acquire("never").status == 503
    finally:
        stranger.kill()


def test_a_voter_that_lost_its_disk_must_not_vote(make_cluster):
    cluster = make_cluster(5)
    wait_until(lambda: cluster.leader(), "a leader")
    victim = cluster.nodes[3]
    victim.kill()
    shutil.rmtree(victim.folder)
    victim.start("--bootstrap")
    wait_until(lambda: any(LOST in e["reason"] for e in victim.events("refused_by_peer")),
               "it is told why")
    wait_until(lambda: any(LOST in e["reason"] for node in cluster if node is not victim
                           for e in node.events("peer_refused")), "the others say it too")
    assert cluster.nodes[1].acquire("goes-on").json["acquired"]
    # Two more are gone: three of five are up, but only two of them count.
    leader = cluster.leader()
    others = [n for n in cluster.running() if n not in (victim, leader)]
    leader.kill()
    others[0].kill()
    survivors = [n for n in cluster.running() if n is not victim]
    assert len(survivors) == 2
    wait_until(lambda: survivors[0].acquire("no").status == 503, "no majority without the lost one")
    assert victim.ask("GET", "/readyz").status == 503


def test_a_node_whose_folder_is_empty_does_not_begin_by_itself(make_cluster):
    cluster = make_cluster(3)
    victim = cluster.nodes[3]
    victim.kill()
    shutil.rmtree(victim.folder)
    victim.start()
    assert victim.process.wait(10) == 1
    assert "--bootstrap" in victim.log() and "lost its disk" in victim.log()


def test_a_folder_of_another_node_is_refused(make_cluster):
    cluster = make_cluster(3)
    cluster.nodes[2].kill()
    shutil.rmtree(cluster.nodes[2].folder)
    cluster.nodes[3].kill()
    shutil.copytree(cluster.nodes[3].folder, cluster.nodes[2].folder)
    cluster.nodes[2].start()
    assert cluster.nodes[2].process.wait(10) == 1
    assert "belongs to node 3" in cluster.nodes[2].log()

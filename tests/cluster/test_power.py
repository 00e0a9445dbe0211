"""Power cuts (S12.2 to S12.4): what was acknowledged was synced first, by a majority."""

import os
import sys
import time

import pytest

import power
from harness import ROOT, Node, free_ports, wait_until
from load import Load

sys.path.insert(0, str(ROOT / "tests" / "chaos"))
import agreement  # noqa: E402

ROUNDS = 4


@pytest.fixture
def powered(make_cluster):
    """powered(5, flags) starts nodes with plugs: the cluster and its power."""
    reason = power.why_not()
    if reason is not None:
        pytest.skip(reason)

    def make(count, *flags, seed=None):
        seed = seed or time.time_ns()
        print(f"power cuts by seed {seed}")
        cluster = make_cluster(count, *flags, start=False)
        plugs = power.Power(cluster, seed)
        return cluster.start(), plugs

    return make


def test_a_power_cut_of_all_five_loses_no_acknowledged_grant_and_tokens_go_on(powered):
    cluster, plugs = powered(5, "--snapshot-log-size", "64K")
    with Load(list(cluster), clients=6, plugs_are_pulled=True) as load:
        for _ in range(ROUNDS):
            load.wait_more(60)
            plugs.cut()
            cluster.restart_all()
    for node in cluster:
        load.check(node)
    first, *others = cluster.agree()
    assert all(other == first for other in others)


def test_a_power_cut_of_one_node_is_survived_again_and_again(powered):
    cluster, plugs = powered(1, "--snapshot-log-size", "64K", "--segment-size", "9M")
    node = cluster.nodes[1]
    note = {"metadata": {"note": "x" * 2000}}
    tokens = []
    for i in range(10):
        for j in range(40):
            tokens.append(node.acquire(f"n-{i}-{j}", ttl_ms=3600000, **note).json["fencing_token"])
        plugs.cut()
        cluster.restart_all()
        for j, token in enumerate(tokens[-40:]):
            assert node.show(f"n-{i}-{j}").json["holders"][0]["fencing_token"] == token
    assert tokens == sorted(set(tokens)), "tokens rise over power cuts"
    assert node.show("n-0-0").json["held"]


def test_a_sole_voter_writes_no_other_entry_of_a_term_after_a_power_cut(powered, keep):
    """E13: its learner has entries that it lost itself. It leads by a higher term then, so that they are replaced."""
    cluster, plugs = powered(1)
    voter = cluster.nodes[1]
    voter.kill()
    voter.env["POWER_CUT_SYNC_MS"] = 150  # until then an entry is on the learner's disk only
    voter.start().wait_ready()
    ports = free_ports(2)
    learner = keep(Node(2, cluster.folder / "node-2", *ports,
                        ["--cluster", f"{cluster.members()},2=127.0.0.1:{ports[1]}", "--cluster-name", "test", "--join"]))
    learner.start()
    wait_until(lambda: voter.request("POST", "/api/v1/members", {"id": 2, "address": learner.peer}).status == 200, "it is added")
    entries = agreement.Entries()
    terms = []
    with Load([voter], clients=6, plugs_are_pulled=True) as load:
        for _ in range(8):
            load.wait_more(12)
            terms.append(voter.cluster()["term"])
            plugs.cut()
            assert agreement.check_logs(entries, [learner, voter]) == []
            voter.start().wait_ready()
    assert terms == sorted(set(terms)), "each life leads a term of its own"
    assert agreement.check_logs(entries, [learner, voter]) == []
    load.check(learner)
    cluster.nodes[2] = learner
    first, second = cluster.agree()
    assert first == second


def test_a_disk_that_lies_about_syncing_is_noticed_or_loses_grants(powered):
    """The proof of the proof: the same power cuts hurt a node whose syncs do nothing."""
    cluster, plugs = powered(1)
    node = cluster.nodes[1]
    node.kill()
    node.env["POWER_CUT_NO_SYNC"] = "1"
    node.start().wait_ready()
    token = node.acquire("lost", ttl_ms=3600000).json["fencing_token"]
    plugs.cut()
    del node.env["POWER_CUT_NO_SYNC"]
    node.start()
    if not os.read(node.ready_fd, 64):
        assert node.wait_end() == 1 and "Nothing was changed" in node.log()
    else:
        shown = node.show("lost").json
        assert not shown["held"] or shown["holders"][0]["fencing_token"] != token

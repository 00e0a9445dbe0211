"""S12.10 to S12.12: what the port for other nodes takes, and from whom. Unknown nodes, and members that lie."""

import contextlib

import pytest

from harness import wait_until
from peer_support import (CHANGE, COMMAND, MESSAGE, MOST, NO_CLUSTER, VOTER, Closed, Impostor, Introduction, append,
                          batch, dial, install, members, vote)

HOURS = 3600 * 1000
SETTLE_MS = 2000  # src/replica/plausible.c: no time is refused so soon after a start
GARBAGE = b"\x07" * 40


def view(cluster):
    """Who leads in which term; all that run agree."""
    def agreed():
        seen = {(v["term"], v["leader"]) for v in (n.cluster() for n in cluster.running()) if v}
        return seen.pop() if len(seen) == 1 else None

    return wait_until(agreed, "the nodes agree about the leader")


def check_serves(cluster):
    assert all(node.running for node in cluster), [n.log()[-500:] for n in cluster if not n.running]
    for node in cluster:
        assert node.acquire_surely(f"after-{node.id}").json["acquired"]


def known_stores(node):
    """The stores that it knows, from its file; all of them once the nodes have met."""
    def read():
        lines = (node.folder / "known-stores").read_text().splitlines()[1:-1]
        known = {int(n): bytes.fromhex(s)[7::-1] + bytes.fromhex(s)[:7:-1] for n, s in map(str.split, lines)}
        return known if len(known) >= 2 else None

    return wait_until(read, f"node {node.id} knows the others")


def commit_index(node):
    lines = node.request("GET", "/metrics").text.splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("holdfast_log_commit_index"))


def refusals(cluster):
    return [e for node in cluster for e in node.events("peer_refused")]


@pytest.fixture
def liar(make_cluster):
    """A cluster of three, one of which is stopped, and an impostor in its place that knows its leader."""
    made = []

    def make():
        cluster = make_cluster(3)
        victim = cluster.followers()[0]
        victim.stop()
        leader = cluster.leader()
        impostor = Impostor(victim)
        made.append(impostor)
        impostor.learn(leader, for_ms=SETTLE_MS + 500)
        return cluster, leader, impostor

    yield make
    for impostor in made:
        impostor.close()


# --- unknown nodes ---------------------------------------------------------------


@pytest.mark.sanitized
@pytest.mark.parametrize("message", ["append", "vote", "heartbeat"])
def test_nothing_that_an_unknown_node_says_is_acted_on(make_cluster, message):
    cluster = make_cluster(3)
    before = view(cluster)
    term = before[0] + 1
    words = {
        "append": append(term, (0, 0), 1, [(term, COMMAND, GARBAGE)]),
        "vote": vote(term, 777, (10**6, term), disrupt=True),
        "heartbeat": append(term),
    }
    for node in cluster:
        with pytest.raises(Closed, match="777 is not a member"):
            link = dial(node, Introduction(777))
            for _ in range(3):
                link.send(MESSAGE, words[message])
            raise Closed(link.wait_closed())
    check_serves(cluster)
    assert view(cluster) == before
    assert {e["peer"] for e in refusals(cluster)} == {777}


def test_a_life_that_was_not_proven_is_not_kept(make_cluster):
    cluster = make_cluster(3)
    before = view(cluster)
    for node in cluster:
        for other, store in known_stores(node).items():
            link = dial(node, Introduction(other, store=store, life=MOST), begin=False)
            with contextlib.suppress(Closed):
                link.receive()
            link.close()
    check_serves(cluster)
    assert view(cluster) == before
    assert not [e for n in cluster for e in n.events("peer_refused") if "earlier life" in e["reason"]]
    # The links that the nodes had are still there, and new ones are let in.
    follower = cluster.followers()[0]
    follower.kill()
    follower.start().wait_ready()
    check_serves(cluster)


def test_stores_that_an_unknown_node_names_are_not_kept(make_cluster):
    cluster = make_cluster(3)
    named = {50: b"5" * 16, 51: b"6" * 16}
    for node in cluster:
        for who in (Introduction(52, stores=named), Introduction(cluster.followers()[0].id, stores=named)):
            with contextlib.suppress(Closed):
                dial(node, who).close()
    known = [(n.folder / "known-stores").read_text() for n in cluster if (n.folder / "known-stores").exists()]
    assert known and not [k for k in known if "\n50 " in k or "\n52 " in k], known
    added = cluster.nodes[1].request("POST", "/api/v1/members", {"id": 50, "address": "127.0.0.1:1"})
    assert added.status == 200, added


# --- members that lie --------------------------------------------------------


def lies(leader, impostor):
    """What cannot be true, by what it is about: a message, and words of the refusal."""
    h = impostor.heard
    term, prev = h.term + 1, (commit_index(leader), h.term)
    me = impostor.node.id
    return {
        "the highest term, in a vote": (vote(MOST, me, (prev[0], prev[1]), disrupt=True), "term"),
        "the highest term, in a heartbeat": (append(MOST, prev, h.commit, (), h.cluster_ms), "term"),
        "time is two hours ahead": (append(term, prev, h.commit, (), h.cluster_ms + 2 * HOURS), "cluster time"),
        "the end of time": (append(term, prev, h.commit, (), 2**53 - 1), "cluster time"),
        "an entry of two hours ahead": (
            append(term, prev, h.commit, [(term, COMMAND, batch(h.cluster_ms + 2 * HOURS))], h.cluster_ms),
            "cluster time"),
        "garbage that is committed": (
            append(term, prev, prev[0] + 1, [(term, COMMAND, GARBAGE)], h.cluster_ms), "decoded"),
        "members that are none": (
            append(term, prev, prev[0] + 1, [(term, CHANGE, GARBAGE)], h.cluster_ms), "decoded"),
        "an entry that contradicts a committed one": (
            append(term, (0, 0), prev[0], [(term, CHANGE, members([(me, "x:1", VOTER)]))], h.cluster_ms),
            "contradict"),
    }


@pytest.mark.parametrize("lie", [
    "the highest term, in a vote", "the highest term, in a heartbeat", "time is two hours ahead",
    "the end of time", "an entry of two hours ahead", "garbage that is committed", "members that are none",
    "an entry that contradicts a committed one"])
def test_a_member_that_says_what_cannot_be_true_is_refused_and_named(liar, lie):
    cluster, leader, impostor = liar()
    held = leader.acquire("held", client="holder", ttl_ms=600000).json
    assert held["acquired"]
    before = view(cluster)
    message, word = lies(leader, impostor)[lie]
    for node in cluster.running():
        link = impostor.say(node, message)
        reason = link.wait_closed()
        assert word in reason, reason
        refused = node.wait_event("peer_refused", peer=impostor.node.id)
        assert word in refused[-1]["reason"]
    assert view(cluster) == before, "somebody acted on it"
    taken = leader.acquire("held", client="another", ttl_ms=1000)
    assert not taken.json["acquired"], "a lock that is held was granted"
    # The member itself comes back, and everybody can be restarted.
    impostor.close()
    for node in cluster.running():
        node.kill()
    cluster.restart_all()
    check_serves(cluster)
    assert not leader.acquire("held", client="another", ttl_ms=1000).json["acquired"]


@pytest.mark.sanitized
def test_members_that_end_too_early_are_refused(liar):
    cluster, leader, impostor = liar()
    h = impostor.heard
    short = members([(impostor.node.id, "127.0.0.1:1", VOTER)], count=2)
    whole = members([(i, f"127.0.0.1:{i}", VOTER) for i in (1, 2, 3)])
    for data in (short, whole[:-8], whole[:9], b"\x01", members([], 2**61)):
        message = install(h.term + 1, (h.prev[0] + 1000, h.term), data, cluster_ms=h.cluster_ms)
        for node in cluster.running():
            impostor.say(node, message).wait_closed()
    impostor.close()
    impostor.node.start().wait_ready()
    check_serves(cluster)


def test_a_member_of_no_cluster_is_not_heard(liar):
    """A greeting without the cluster's id, as somebody would make it who knows only the addresses."""
    cluster, leader, impostor = liar()
    impostor.cluster, impostor.store = NO_CLUSTER, None
    h = impostor.heard
    before = view(cluster)
    for node in cluster.running():
        with pytest.raises(Closed) as refused:
            impostor.say(node, append(h.term + 1, h.prev, h.commit, (), h.cluster_ms)).wait_closed()
            raise Closed("nothing was said")
        assert "lost its disk" in refused.value.reason
    assert view(cluster) == before

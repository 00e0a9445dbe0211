"""Members come and go on a running cluster, under load; a wrong step is refused with its reason."""

import contextlib
import shutil
import subprocess

import pytest

from harness import PROGRAM, Node, environment, free_ports, wait_until
from load import Load
from slow_disk import SlowDisk


def change(node, method, path, body=None):
    return node.request(method, "/api/v1/members" + path, body)


def change_until_done(node, method, path, body=None):
    """Some refusals are over in a moment: another change under way, a node that is catching up."""
    return wait_until(lambda: (lambda a: a if a.status == 200 else None)(
        change(node, method, path, body)), f"{method} {path}")


def standing(node, ident):
    for member in node.cluster()["members"]:
        if member["id"] == ident:
            return "voter" if member["voter"] else "learner"
    return None


@pytest.fixture
def joiner(make_cluster, keep):
    """joiner(cluster, 4) starts a node that the cluster does not know yet. It knows all of the cluster, or `knows`, and
    `more`: ids and addresses of others."""
    def start(cluster, ident, knows=None, more=(), ports=None):
        ports = ports or free_ports(2)
        others = "".join(f",{other}={address}" for other, address in more)
        members = f"{knows or cluster.members()}{others},{ident}=127.0.0.1:{ports[1]}"
        node = keep(Node(ident, cluster.folder / f"node-{ident}", *ports,
                         ["--cluster", members, "--cluster-name", "test", "--join"]))
        return node.start()

    return start


@pytest.mark.sanitized
def test_a_node_joins_under_load_catches_up_is_promoted_and_can_lead(make_cluster, joiner):
    cluster = make_cluster(3)
    for i in range(100):
        assert cluster.nodes[1].acquire(f"before-{i}", ttl_ms=600000).json["acquired"]
    with Load(list(cluster)) as load:
        new = joiner(cluster, 4)
        through = cluster.followers()[0]
        added = change_until_done(through, "POST", "", {"id": 4, "address": new.peer})
        assert added.json["started"] and added.json["change"] == "add", added
        change_until_done(through, "POST", "/4/promote")
        new.wait_ready()
        wait_until(lambda: standing(new, 4) == "voter", "it is a voter")
        assert new.show("before-99").json["held"]
        change_until_done(through, "POST", "/transfer", {"to": 4})
        wait_until(lambda: through.cluster()["leader"] == 4, "it leads")
        assert new.acquire_surely("through-the-new-one").json["acquired"]
    load.check(new)


def test_a_dead_node_is_replaced_under_a_new_id(make_cluster, joiner):
    cluster = make_cluster(3)
    victim = cluster.followers()[0]
    survivors = [n for n in cluster if n is not victim]
    victim.kill()
    with Load(survivors) as load:
        change_until_done(survivors[0], "DELETE", f"/{victim.id}")
        wait_until(lambda: standing(survivors[1], victim.id) is None, "it is gone")
        new = joiner(cluster, 9)
        change_until_done(survivors[1], "POST", "", {"id": 9, "address": new.peer})
        change_until_done(survivors[1], "POST", "/9/promote")
        new.wait_ready()
    load.check(new)
    # With the new one there is a majority without the other survivor.
    leader = survivors[0].cluster()["leader"]
    other = next(n for n in survivors if n.id != leader) if leader != 9 else survivors[0]
    other.kill()
    rest = next(n for n in survivors if n is not other)
    wait_until(lambda: rest.acquire("after").status == 200, "two of three go on")
    # The dead one comes back and is not let in again under its old id.
    back = change(rest, "POST", "", {"id": victim.id, "address": cluster.addresses[victim.id]})
    assert back.status == 409 and "never used again" in back.json["error"]["message"], back


def test_a_node_is_refused_until_it_is_added_and_then_let_in_at_once(make_cluster, joiner):
    cluster = make_cluster(3)
    new = joiner(cluster, 4)
    refused = new.wait_event("refused_by_peer", 3)
    assert all("holdfast member add 4" in e["reason"] for e in refused), refused
    assert not any("4 " in line for line in (cluster.nodes[1].folder / "known-stores").read_text().splitlines()[1:-1])
    change_until_done(cluster.nodes[1], "POST", "", {"id": 4, "address": new.peer})
    new.wait_ready()


def test_a_node_joins_that_knows_only_one_of_the_members(make_cluster, joiner):
    cluster = make_cluster(3)
    leader = cluster.leader()
    other = cluster.followers()[0]
    new = joiner(cluster, 4, knows=f"{other.id}={other.peer}")
    change_until_done(leader, "POST", "", {"id": 4, "address": new.peer})
    new.wait_ready()
    assert new.acquire_surely("through-the-new-one").json["acquired"]


def test_a_learner_that_was_away_hears_a_leader_that_came_meanwhile(make_cluster, joiner):
    """It can know of it only from the others, and where to answer only from itself."""
    cluster = make_cluster(3)
    learner = joiner(cluster, 4)
    change_until_done(cluster.nodes[1], "POST", "", {"id": 4, "address": learner.peer})
    learner.wait_ready()
    learner.stop()
    new = joiner(cluster, 5)
    change_until_done(cluster.nodes[1], "POST", "", {"id": 5, "address": new.peer})
    change_until_done(cluster.nodes[1], "POST", "/5/promote")
    change_until_done(cluster.nodes[1], "POST", "/transfer", {"to": 5})
    wait_until(lambda: cluster.nodes[1].cluster()["leader"] == 5, "the new one leads")
    for node in (*cluster, new):
        node.take_snapshot()  # so that it cannot be given the entries one by one, if these are gone
    assert new.acquire_surely("meanwhile").json["acquired"]
    learner.start().wait_ready()
    wait_until(lambda: standing(learner, 5) == "voter", "it has caught up")
    wait_until(lambda: learner.show("meanwhile", stale=True).json["held"], "it has what happened meanwhile")
    assert cluster.nodes[1].cluster()["leader"] == 5, "nobody else had to lead for it"


def test_a_removed_node_is_notified_and_changes_nothing(make_cluster):
    cluster = make_cluster(3)
    removed = cluster.followers()[0]
    others = [n for n in cluster if n is not removed]
    change_until_done(others[0], "DELETE", f"/{removed.id}")
    wait_until(lambda: all(standing(n, removed.id) is None for n in others), "it is gone")
    before = others[0].cluster()["term"]
    refused = removed.wait_event("refused_by_peer", 2)
    assert all(f"node {removed.id} is no member of this cluster any more" in e["reason"] for e in refused), refused
    removed.kill()
    removed.start()
    removed.wait_event("refused_by_peer", 4)
    assert others[0].acquire_surely("still").json["acquired"]
    assert others[0].cluster()["term"] == before
    answer = change(others[0], "POST", "", {"id": removed.id, "address": removed.peer})
    assert answer.status == 409 and "choose one above" in answer.json["error"]["message"], answer


def test_two_nodes_that_wait_to_be_added_may_meet_before(make_cluster, joiner):
    """Each notes the other's store, in memory only: none of their ids is used by that."""
    def met(node, other):
        return lambda: other.id in {e["peer"] for e in node.events("peer_connected")}

    cluster = make_cluster(3)
    members = list(cluster)
    ports = {4: free_ports(2), 5: free_ports(2)}
    first = joiner(cluster, 4, more=[(5, f"127.0.0.1:{ports[5][1]}")], ports=ports[4])
    second = joiner(cluster, 5, more=[(4, first.peer)], ports=ports[5])
    wait_until(met(first, second), "the first one has met the second")
    wait_until(met(second, first), "the second one has met the first")
    for node in (second, first):
        answer = change_until_done(members[0], "POST", "", {"id": node.id, "address": node.peer})
        assert answer.json["started"]
        change_until_done(members[0], "POST", f"/{node.id}/promote")
        # Also one of those that met it would add it.
        if node is second:
            change_until_done(members[0], "POST", "/transfer", {"to": second.id})
            wait_until(lambda: members[0].cluster()["leader"] == second.id, "the second one leads")
    expected = {i: True for i in range(1, 6)}
    wait_until(lambda: all(members_of(n) == expected for n in [*members, first, second]), "all five vote")
    # They know each other's stores now: one that lost its disk is not let in.
    second.kill()
    shutil.rmtree(second.folder)
    second.folder.mkdir()
    second.start()
    first.wait_event("peer_refused", peer=second.id)
    assert "lost its disk" in first.events("peer_refused")[-1]["reason"]


def test_a_node_that_does_not_know_the_leader_as_a_member_catches_up(make_cluster, joiner):
    """Its list and the beginning of the log have node 1 only, and node 2 leads. It answers node 2 where that one says
    that it can be reached."""
    cluster = make_cluster(1)
    first = cluster.nodes[1]
    second = joiner(cluster, 2)
    change_until_done(first, "POST", "", {"id": 2, "address": second.peer})
    change_until_done(first, "POST", "/2/promote")
    change_until_done(first, "POST", "/transfer", {"to": 2})
    wait_until(lambda: first.cluster()["leader"] == 2 and first.cluster()["serving"], "node 2 leads")
    third = joiner(cluster, 3)
    assert "2=" not in " ".join(third.flags)
    change_until_done(first, "POST", "", {"id": 3, "address": third.peer})
    change_until_done(first, "POST", "/3/promote")
    third.wait_ready()
    expected = {1: True, 2: True, 3: True}
    wait_until(lambda: all(members_of(n) == expected for n in (first, second, third)), "all three vote")
    assert first.cluster()["leader"] == 2


@contextlib.contextmanager
def constant_load(node):
    """Clients without a pause between their requests, through this node."""
    bench = subprocess.Popen(
        [PROGRAM, "bench", "--endpoints", f"127.0.0.1:{node.client_port}", "--clients", "32", "--warmup", "0.1",
         "--seconds", "600"], env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: node.request("GET", "/api/v1/locks?prefix=bench/").json["locks"], "the load has begun")
        yield
        assert bench.poll() is None, "the load has ended"
    finally:
        bench.kill()
        bench.wait()


def is_nearly_current(node, ident):
    member = next(m for m in node.cluster()["members"] if m["id"] == ident)
    return member["healthy"] and member["lag"] is not None and member["lag"] <= 64


def test_one_node_under_constant_load_grows_to_three_voters(make_cluster, joiner):
    """An only voter commits before a learner has the entries, so under load the learner is always behind. The first
    learner is promoted through the leader, the second one through a follower."""
    cluster = make_cluster(1)
    first = cluster.nodes[1]
    nodes = {1: first}
    with constant_load(first):
        for ident in (2, 3):
            nodes[ident] = joiner(cluster, ident)
            change_until_done(first, "POST", "", {"id": ident, "address": nodes[ident].peer})
            nodes[ident].wait_ready()
            wait_until(lambda: members_of(first) and is_nearly_current(first, ident), "it is nearly current")
            for turn in range(10):
                change_until_done(nodes[ident - 1], "POST", f"/{ident}/promote")
                wait_until(lambda: members_of(first) and members_of(first)[ident], "it is a voter")
                if turn < 9:
                    change_until_done(first, "POST", f"/{ident}/demote")
                    wait_until(lambda: members_of(first) and not members_of(first)[ident], "it is a learner")
    # A machine that stands still for a moment may make a pause too short.
    late = [e for e in first.events("member_change") if "caught up" in e["refused"]]
    assert len(late) <= 2, late


def members_of(node):
    """id -> voter, once nothing is under way; None before."""
    view = node.cluster()
    if view is None or view["members_changing"] or not view["serving"]:
        return None
    return {member["id"]: member["voter"] for member in view["members"]}


@pytest.mark.sanitized
@pytest.mark.parametrize("through", ["the leader", "a follower"])
@pytest.mark.parametrize("count", [5, 3, 2])
def test_a_leader_that_is_removed_transfers_the_leadership_first(make_cluster, count, through):
    """One request does both steps, whichever node has it, and no other request fails."""
    cluster = make_cluster(count)
    leader = cluster.leader()
    others = [n for n in cluster if n is not leader]
    with Load(others) as load:
        load.wait_more(5)
        node = leader if through == "the leader" else others[0]
        answer = change(node, "DELETE", f"/{leader.id}")
        assert answer.status == 200 and answer.json["change"] == "remove", answer
        expected = {n.id: True for n in others}
        wait_until(lambda: all(members_of(n) == expected for n in others), "the others are all members")
        assert others[0].cluster()["leader"] != leader.id
    load.check(others[0])
    # It led until another did: it did not make the change itself.
    assert leader.events("transferred")
    assert not [e for e in leader.events("member_change") if e["id"] == leader.id]


@pytest.mark.parametrize("count", [5, 3, 2])
def test_a_leader_that_is_demoted_transfers_the_leadership_first(make_cluster, count):
    cluster = make_cluster(count)
    leader = cluster.leader()
    others = [n for n in cluster if n is not leader]
    answer = change(leader, "POST", f"/{leader.id}/demote")
    assert answer.status == 200 and answer.json["change"] == "demote", answer
    expected = {n.id: n is not leader for n in cluster}
    wait_until(lambda: all(members_of(n) == expected for n in cluster), "it is a learner on all nodes")
    assert leader.events("transferred")
    # It receives everything, and may vote again.
    assert others[0].acquire_surely("after", ttl_ms=600000).json["acquired"]
    wait_until(lambda: leader.show("after", stale=True).json["held"], "the learner has it")
    change_until_done(others[0], "POST", f"/{leader.id}/promote")
    wait_until(lambda: all(members_of(n) == {n.id: True for n in cluster} for n in cluster), "it votes again")


def test_the_leader_of_two_cannot_be_removed_while_the_other_is_away(make_cluster):
    cluster = make_cluster(2)
    leader = cluster.leader()
    other = next(n for n in cluster if n is not leader)
    other.kill()
    # Until it notices that it has no majority it refuses; then there is no leader to answer.
    answer = change(leader, "DELETE", f"/{leader.id}")
    assert (answer.status, answer.code) in ((409, "membership_refused"), (503, "unavailable")), answer
    assert answer.status == 503 or "this node leads" in answer.json["error"]["message"], answer
    other.start().wait_ready()
    wait_until(lambda: all(members_of(n) == {1: True, 2: True} for n in cluster), "nothing has changed")
    change_until_done(other, "DELETE", f"/{leader.id}")
    wait_until(lambda: members_of(other) == {other.id: True}, "it is gone")


def test_the_leadership_is_not_transferred_while_a_change_is_uncommitted(make_cluster):
    """Only some voters may have the change (E13). Slow disks keep it uncommitted for 0.1 s."""
    cluster = make_cluster(3, start=False)
    with SlowDisk(cluster) as slow:
        cluster.start()
        leader = cluster.leader()
        slow.begin()
        assert change_until_done(leader, "POST", "", {"id": 7, "address": "127.0.0.1:1"}).json["started"]
        refused = change(leader, "POST", "/transfer")
    assert refused.status == 409 and refused.code == "membership_refused", refused
    assert "a membership change is under way" in refused.json["error"]["message"], refused
    wait_until(lambda: members_of(leader) == {1: True, 2: True, 3: True, 7: False}, "it is in force")
    assert leader.cluster()["leader"] == leader.id and not leader.events("transferred")
    change_until_done(leader, "POST", "/transfer")
    wait_until(lambda: leader.events("transferred"), "now it may")


@pytest.mark.sanitized
def test_wrong_steps_are_refused_with_the_reason(make_cluster):
    cluster = make_cluster(3)
    for node in cluster:
        for method, path, body, why in (
                ("POST", "", {"id": 7, "address": "nonsense"}, "HOST:PORT"),
                ("POST", "", {"id": 2, "address": "127.0.0.1:1"}, "this id is a member already"),
                ("DELETE", "/77", None, "no member has this id"),
                ("POST", "/2/promote", None, "voter already"),
                ("POST", "/transfer", {"to": 77}, "no voter has this id")):
            answer = change(node, method, path, body)
            assert answer.status == 409, answer
            assert answer.json["error"]["code"] == "membership_refused"
            assert why in answer.json["error"]["message"], answer
    only = make_cluster(1)
    answer = change(only.nodes[1], "DELETE", "/1")
    assert answer.status == 409 and "only voter" in answer.json["error"]["message"], answer
    answer = change(only.nodes[1], "POST", "/transfer")
    assert answer.status == 409 and "no other voter" in answer.json["error"]["message"], answer


def test_leadership_goes_round_under_load_and_no_request_fails(make_cluster):
    cluster = make_cluster(3)
    with Load(list(cluster)) as load:
        for _ in range(9):
            leader = cluster.leader()
            to = leader.id % 3 + 1
            change_until_done(cluster.nodes[to], "POST", "/transfer", {"to": to})
            wait_until(lambda t=to: cluster.leader().id == t, f"node {to} leads")
        load.wait_more(10)
    load.check(cluster.leader())


def test_a_node_joins_when_none_of_the_first_members_is_left(make_cluster, joiner):
    """The beginning of the log has members that are gone, and the leader is not among them. The new node knows the leader by its
    settings until its own log has itself as a member."""
    cluster = make_cluster(2)
    for i in range(800):  # more than one message of log
        assert cluster.nodes[1].acquire(f"before-{i}", ttl_ms=600000, metadata={"text": "x" * 4000}).json["acquired"]
    third = joiner(cluster, 3)
    change_until_done(cluster.nodes[1], "POST", "", {"id": 3, "address": third.peer})
    change_until_done(cluster.nodes[1], "POST", "/3/promote")
    third.wait_ready()
    for ident in (1, 2):
        change_until_done(third, "DELETE", f"/{ident}")
        wait_until(lambda: standing(third, ident) is None, "it is gone")  # noqa: B023
        cluster.nodes[ident].kill()
    wait_until(lambda: third.cluster()["leader"] == 3, "it leads alone")
    fourth = joiner(cluster, 4, knows=f"3={third.peer}")
    change_until_done(third, "POST", "", {"id": 4, "address": fourth.peer})
    change_until_done(third, "POST", "/4/promote")
    fourth.wait_ready()
    assert fourth.show("before-799").json["held"]

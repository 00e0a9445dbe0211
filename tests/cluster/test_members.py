"""Members come and go on a running cluster, under load; a wrong step is refused with its reason."""

import pytest

from harness import Node, free_ports, wait_until
from load import Load


def change(node, method, path, body=None):
    return node.ask(method, "/api/v1/members" + path, body)


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
    """joiner(cluster, 4) starts a node that the cluster does not know yet."""
    def start(cluster, ident):
        ports = free_ports(2)
        members = f"{cluster.members()},{ident}=127.0.0.1:{ports[1]}"
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
        asked = cluster.followers()[0]
        added = change_until_done(asked, "POST", "", {"id": 4, "address": new.peer})
        assert added.json["started"] and added.json["change"] == "add", added
        change_until_done(asked, "POST", "/4/promote")
        new.wait_ready()
        wait_until(lambda: standing(new, 4) == "voter", "it is a voter")
        assert new.show("before-99").json["held"]
        change_until_done(asked, "POST", "/transfer", {"to": 4})
        wait_until(lambda: asked.cluster()["leader"] == 4, "it leads")
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


def test_the_leader_itself_can_be_removed(make_cluster):
    cluster = make_cluster(3)
    leader = cluster.leader()
    others = [n for n in cluster if n is not leader]
    change_until_done(others[0], "DELETE", f"/{leader.id}")
    wait_until(lambda: others[0].cluster()["leader"] in [n.id for n in others], "another leads")
    wait_until(lambda: others[1].acquire("after").status == 200, "they go on")


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

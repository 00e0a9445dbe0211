"""The state gets the new version when the last node of the old program is replaced. Requests of before are not done
twice; nodes join before and after; the old program then refuses the data."""

import pytest

import resp_support
from harness import PROGRAM, wait_until
from mixed_support import (HINTS, NEW_VERSION, OLD, TRAILING, Wait, assert_same_state, done, entries, hint_for,
                           lead, new_nodes, old_nodes, post, roll, state_version, wait_queued, wait_upgraded)


class Requests:
    """Requests with an id, their answers, and the same requests once more."""

    def __init__(self, cluster, hint):
        self.nodes = list(cluster)
        self.hint = hint  # of each acquire of one name
        self.sent = []  # path, body, answer
        session = self.send("sessions", {"client_id": "s", "ttl_ms": 3600000, "metadata": {"a": 1}})["session_id"]
        token = self.send("locks/plain/acquire", {"client_id": "c", "ttl_ms": 3600000})["fencing_token"]
        self.send("locks/rich/acquire", {"session_id": session, "mode": "semaphore", "limit": 5, "permits": 2, "owner": "o",
                                         "wait_timeout_ms": 1000, "metadata": {"b": [1, 2]}, "lock_delay_ms": 5})
        self.send("multilock/acquire", {"session_id": session, "names": ["m/b", "m/a"]})
        self.send("elections/e/campaign", {"session_id": session, "value": "v"})
        self.send("locks/plain/renew", {"client_id": "c", "fencing_token": token, "ttl_ms": 3000000})
        self.send("fence/check", {"resource": "disk", "fencing_token": token})
        released = self.send("locks/other/acquire", {"client_id": "c"})["fencing_token"]
        self.send("locks/other/release", {"client_id": "c", "fencing_token": released})
        self.send("locks/forced/acquire", {"client_id": "c"})
        self.send("locks/forced/force-unlock", {"actor_id": "ann", "reason": "stuck"})
        self.send("locks/plain/revoke", {"actor_id": "ann", "reason": "drill", "deadline_ms": 3000000})

    def post(self, node, path, body):
        is_acquire = path.startswith("locks/") and path.endswith("/acquire")
        return post(node, path, {**body, **(hint_for(node, self.hint) if is_acquire else {})})

    def send(self, path, body):
        """Through one node after the other."""
        number = len(self.sent)
        body = {**body, "request_id": f"request-{number}"}
        answer = self.post(self.nodes[number % len(self.nodes)], path, body)
        assert answer.status == 200, (path, answer)
        self.sent.append((path, body, answer.json))
        return answer.json

    def check(self, shift):
        """The same through other nodes: nothing is done again, and the tokens are the same."""
        for number, (path, body, first) in enumerate(self.sent):
            node = self.nodes[(number + shift) % len(self.nodes)]
            again = self.post(node, path, body)
            assert again.status == 200, (path, node.id, again)
            for key in ("fencing_token", "session_id", "released", "renewed", "accepted", "count"):
                assert again.json.get(key) == first.get(key), (path, key, first, again)
            if again.json.get("acquired"):  # and not released since
                assert again.json["replayed"] and again.json["lease_id"] == first["lease_id"], (path, first, again)
        reused = post(self.nodes[0], "locks/plain/acquire", {**self.sent[1][1], "metadata": "other"})
        assert reused.code == "request_id_reused", reused


@pytest.mark.parametrize("hint", HINTS)
@pytest.mark.parametrize("last_leader", ["old", "new"])
def test_a_retry_gets_the_first_answer_across_the_upgrade(make_mixed, last_leader, hint):
    cluster = make_mixed(3, 1)
    lead(cluster, (old_nodes if last_leader == "old" else new_nodes)(cluster)[0])
    requests = Requests(cluster, hint)
    key = resp_support.connect(cluster.nodes[1])
    assert key.set("key", "mine", nx=True, px=3600000)
    requests.check(1)
    first_wait = {"request_id": "wait", "wait_timeout_ms": 600000, "client": "waiter"}
    Wait(cluster.nodes[1], "plain", **first_wait, **hint_for(cluster.nodes[1], hint))  # through a node that is replaced
    wait_queued(cluster.nodes[3], "plain")
    for node in old_nodes(cluster):
        assert state_version(node) == cluster.version
        roll(node, PROGRAM)
        requests.check(2)
    wait_upgraded(cluster)
    requests.check(0)
    requests.check(2)
    assert resp_support.connect(cluster.nodes[2]).get("key") == "mine"
    again = Wait(cluster.nodes[2], "plain", **first_wait, **hint_for(cluster.nodes[2], hint))
    held = requests.sent[1][2]["fencing_token"]
    wait_until(lambda: [w["node"] for w in cluster.nodes[3].show("plain").json["waiters"]] == [2], "the waiter is attached")
    assert cluster.nodes[3].release("plain", held, "c").json["released"]
    assert again.end().json["fencing_token"] > held
    token = cluster.nodes[1].acquire("fenced").json["fencing_token"]
    assert post(cluster.nodes[1], "fence/check", {"resource": "fenced", "fencing_token": token}).json["accepted"]
    reset = post(cluster.nodes[2], "fence/reset", {"resource": "fenced", "actor_id": "ann", "reason": "drill"})
    assert reset.status == 200, reset


def join(cluster, joiner, ident, way):
    """Adds a new node and promotes it. Returns it when it has caught up, by its log or by a snapshot."""
    node = joiner(cluster, ident)
    leader = cluster.leader()
    done(leader, "POST", "/api/v1/members", {"id": ident, "address": node.peer})
    done(leader, "POST", f"/api/v1/members/{ident}/promote")
    node.wait_ready()
    wait_until(lambda: any(m["id"] == ident and m["voter"] for m in node.cluster()["members"]), "it is a voter")
    assert bool(node.events("snapshot_installed")) == (way == "snapshot"), node.log()[-4000:]
    assert node.show("filled/last").json["held"]
    return node


def fill(node, count):
    connection = node.connect()
    for i in range(count):
        connection.request("POST", f"/api/v1/locks/filled/{i}/acquire", '{"client_id": "c", "ttl_ms": 3600000}')
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        answer.read()
    connection.close()
    assert node.acquire("filled/last", ttl_ms=3600000).json["acquired"]


@pytest.mark.parametrize("way", ["log", "snapshot"])
def test_nodes_join_before_and_after_the_upgrade(make_mixed, joiner, way):
    cluster = make_mixed(3, 1)
    lead(cluster, old_nodes(cluster)[0])
    fill(cluster.leader(), 10 if way == "log" else TRAILING + 300)
    if way == "snapshot":
        cluster.leader().take_snapshot()
    fourth = join(cluster, joiner, 4, way)
    assert state_version(fourth) <= cluster.version
    assert_same_state([*cluster, fourth], cluster.version)
    for node in old_nodes(cluster):
        roll(node, PROGRAM)
    wait_upgraded(cluster)
    if way == "snapshot":
        cluster.leader().take_snapshot()
    fifth = join(cluster, joiner, 5, way)
    assert_same_state([*cluster, fourth, fifth], NEW_VERSION)


def snapshots(folder):
    return {path.name: path.read_bytes() for path in folder.glob("snapshot-*[0-9]")}


@pytest.fixture
def upgraded(make_mixed):
    """Three nodes whose state has the new version."""
    cluster = make_mixed(3, 1)
    for node in old_nodes(cluster):
        roll(node, PROGRAM)
    wait_upgraded(cluster)
    assert cluster.nodes[1].acquire("after", ttl_ms=3600000).json["acquired"]
    return cluster


def test_the_old_program_refuses_a_snapshot_of_the_new_version(upgraded):
    node = upgraded.followers()[0]
    node.take_snapshot()
    assert node.stop() == 0
    log, files = entries(node.folder), snapshots(node.folder)
    assert log and files
    node.program = OLD
    node.start()
    status = node.wait_end()
    last = node.log().splitlines()[-1]
    assert status == 1 and "is newer than this program" in last, (status, last)
    assert entries(node.folder) == log and snapshots(node.folder) == files
    node.program = PROGRAM
    node.start().wait_ready()
    assert node.show("after").json["held"]
    assert_same_state(list(upgraded), NEW_VERSION)


def test_the_old_program_is_refused_by_nodes_of_the_new_version(upgraded):
    node = upgraded.followers()[0]
    assert node.stop() == 0
    log = entries(node.folder)
    node.program = OLD
    node.start()
    refused = node.wait_event("refused_by_peer")
    assert "version" in refused[0]["reason"], refused
    assert node.running
    assert node.stop() == 0
    assert entries(node.folder) == log
    node.program = PROGRAM
    node.start().wait_ready()
    assert_same_state(list(upgraded), NEW_VERSION)

"""Both programs write the same bytes for the same state, and each reads the data of the other while the state has the
version of the old program."""

from mixed_support import (NEW_VERSION, OLD, Wait, assert_same_state, lead, new_nodes, ok, old_nodes, roll,
                           wait_queued, wait_upgraded)
from harness import PROGRAM
import resp_support


def fill(cluster):
    """Objects of every kind, through all nodes; the last requests wait until the nodes end."""
    nodes = list(cluster)
    for i, node in enumerate(nodes):
        session = ok(node, "sessions", {"client_id": f"s-{i}", "ttl_ms": 3600000, "linger_ms": 1000})["session_id"]
        for mode, more in (("exclusive", {"lock_delay_ms": 3000}), ("shared", {"metadata": {"n": i}}),
                           ("semaphore", {"limit": 20, "permits": 2})):
            name = f"{mode}/{i if mode == 'exclusive' else 0}"
            assert node.acquire(name, session_id=session, mode=mode, **more).json["acquired"]
        ok(node, "multilock/acquire", {"session_id": session, "names": [f"m/{i}/b", f"m/{i}/a"], "request_id": f"m-{i}"})
        ok(node, f"elections/e-{i}/campaign", {"session_id": session, "value": f"v-{i}"})
        token = node.acquire(f"held/{i}", ttl_ms=3600000, request_id=f"held-{i}").json["fencing_token"]
        ok(node, "fence/check", {"resource": f"disk/{i}", "fencing_token": token})
        assert node.acquire(f"gone/{i}", lock_delay_ms=3600000).json["acquired"]
        ok(node, f"locks/gone/{i}/force-unlock", {"actor_id": "ann", "reason": "stuck"})
        ok(node, f"locks/held/{i}/revoke", {"actor_id": "bob", "reason": "drill", "deadline_ms": 3000000})
        client = resp_support.connect(node)
        client.set(f"key/{i}", b"\x00\xff", nx=True, px=3600000)
        client.hset(f"hash/{i}", "field", "1")
        client.incr("count")
    for node in nodes:
        Wait(node, "held/0", request_id=f"wait-{node.id}", wait_timeout_ms=3600000)
    wait_queued(nodes[0], "held/0", 5)


def test_snapshots_of_both_programs_are_equal(make_mixed):
    cluster = make_mixed(5, 2)
    lead(cluster, old_nodes(cluster)[0])
    fill(cluster)
    assert_same_state(list(cluster), cluster.version)
    lead(cluster, new_nodes(cluster)[0])
    for i, node in enumerate(cluster):
        assert node.acquire(f"later/{i}", ttl_ms=3600000, metadata={"later": i}).json["acquired"]
    assert_same_state(list(cluster), cluster.version)
    for node in old_nodes(cluster):
        roll(node, PROGRAM)
    wait_upgraded(cluster)
    assert_same_state(list(cluster), NEW_VERSION)


def test_the_old_program_opens_what_the_new_one_wrote_before_the_upgrade(make_mixed):
    cluster = make_mixed(5, 2)
    leader = lead(cluster, new_nodes(cluster)[0])
    fill(cluster)
    leader.take_snapshot()
    for i in range(20):
        assert leader.acquire(f"after-the-snapshot/{i}", ttl_ms=3600000).json["acquired"]
    for node in new_nodes(cluster):
        roll(node, OLD)
        assert node.show("after-the-snapshot/19").json["held"]
    lead(cluster, leader)
    again = leader.acquire("held/1", ttl_ms=3600000, request_id="held-1")
    assert again.json["replayed"], again
    assert_same_state(list(cluster), cluster.version)

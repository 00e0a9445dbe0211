"""The checker of `make chaos`: it says nothing about good histories, and names what is wrong in bad ones. And the
proxy that its nodes talk through where they have no network of their own."""

import random
import select
import socket
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from conftest import ROOT

sys.path[:0] = [str(ROOT / "tests" / "chaos"), str(ROOT / "tests" / "cluster")]
import agreement  # noqa: E402
import faults  # noqa: E402
import growth  # noqa: E402
import history  # noqa: E402
import report  # noqa: E402
from history import Attempt, Op  # noqa: E402


def acquire(client, token, invoked, returned, name="n", ttl_ms=1000, waits=False, outcome="ok"):
    return Op(client, "acquire", name, invoked, returned, outcome, token, ttl_ms, waits)


def renew(client, token, invoked, returned, name="n", ttl_ms=1000, outcome="ok", code=""):
    return Op(client, "renew", name, invoked, returned, outcome, token, ttl_ms, code=code)


def release(client, token, invoked, returned, name="n", outcome="ok", code=""):
    return Op(client, "release", name, invoked, returned, outcome, token, code=code)


def claim(client, token, invoked, returned, until, name="n"):
    return Op(client, "claim", name, invoked, returned, "ok", token, until=until)


GOOD = {
    "one after the other": [
        acquire("a", 1024, 0.0, 0.1), release("a", 1024, 0.2, 0.3), acquire("b", 2048, 0.25, 0.4)],
    "granted to the next while the answer to the release is on its way": [
        acquire("a", 1024, 0.0, 0.1), release("a", 1024, 0.2, 0.9), acquire("b", 2048, 0.15, 0.3)],
    "the first one is gone, and its time is over": [
        acquire("a", 1024, 0.0, 0.1), acquire("b", 2048, 0.5, 1.0, waits=True)],
    "an answer so late that its lease is over": [
        acquire("a", 1024, 0.0, 1.5), acquire("b", 2048, 1.1, 1.2)],
    "tokens in another order than the answers, where calls overlap": [
        acquire("a", 2048, 0.0, 0.2, name="x"), acquire("b", 1024, 0.1, 0.3, name="y")],
    "a grant after a wait counts from its renewal": [
        acquire("a", 1024, 0.0, 3.0, waits=True), acquire("b", 2048, 3.05, 3.1)],
    "refused after its end": [
        acquire("a", 1024, 0.0, 0.1), release("a", 1024, 1.3, 1.4, outcome="refused", code="expired")],
    "requested before its end, refused after it": [
        acquire("a", 1024, 0.0, 0.1), renew("a", 1024, 0.9, 1.1, outcome="refused", code="expired")],
    "a renewal of unknown outcome promises nothing": [
        acquire("a", 1024, 0.0, 0.1), renew("a", 1024, 0.5, 0.9, outcome="unknown"), acquire("b", 2048, 1.0, 1.1)],
    "a refusal and an unknown grant nothing": [
        acquire("a", 1024, 0.0, 0.1), acquire("b", 0, 0.1, 0.2, outcome="refused"),
        acquire("c", 0, 0.1, 0.2, outcome="unknown")],
}

BAD = {
    "a token comes twice": (
        "twice", [acquire("a", 1024, 0.0, 0.1, name="x"), acquire("b", 1024, 0.0, 0.1, name="y")]),
    "a token goes back on one name": (
        "before the lower", [acquire("a", 2048, 0.0, 0.1), release("a", 2048, 0.2, 0.3), acquire("b", 1024, 0.4, 0.5)]),
    "a token goes back over two names, with others between": (
        "before the lower", [acquire("a", 3072, 0.0, 0.1, name="x"), acquire("c", 1024, 0.0, 0.9, name="z"),
                             acquire("b", 2048, 0.4, 0.5, name="y")]),
    "two hold it": (
        "holds it by token 1024", [acquire("a", 1024, 0.0, 0.1), acquire("b", 2048, 0.2, 0.3)]),
    "a lease ends a moment early": (
        "holds it by token 1024", [acquire("a", 1024, 0.0, 0.1), acquire("b", 2048, 0.5, 0.99)]),
    "a renewal is forgotten": (
        "holds it by token 1024", [acquire("a", 1024, 0.0, 0.1), renew("a", 1024, 0.5, 0.6),
                                   acquire("b", 2048, 1.0, 1.2)]),
    "a third one overlaps the first, which lasts past the second": (
        "c by token 3072", [acquire("a", 1024, 0.0, 0.1, ttl_ms=9000), acquire("b", 2048, 0.2, 0.3),
                            release("b", 2048, 0.4, 0.5), acquire("c", 3072, 2.0, 2.1)]),
    "a renewal after a wait counts": (
        "holds it by token 1024", [acquire("a", 1024, 0.0, 3.0, waits=True), renew("a", 1024, 3.0, 3.1),
                                   acquire("b", 2048, 3.1, 3.5)]),
    "a client that says itself until when": (
        "holds it by token 1024", [acquire("a", 1024, 0.0, 0.1, waits=True), claim("a", 1024, 0.2, 0.3, until=1.5),
                                   acquire("b", 2048, 1.0, 1.4)]),
    "a release by its holder is refused": (
        "was refused (not_owner)", [acquire("a", 1024, 0.0, 0.1),
                                    release("a", 1024, 0.3, 0.4, outcome="refused", code="not_owner")]),
    "a renewal in time is refused, after one that was not": (
        "was refused (expired)", [acquire("a", 1024, 0.0, 0.1), renew("a", 1024, 0.5, 0.6),
                                  renew("a", 1024, 1.2, 1.3, outcome="refused", code="expired")]),
    "an answer that nobody should get": (
        "500 internal", [Op("a", "acquire", "n", 0.0, 0.1, "error", code="500 internal")]),
}


@pytest.mark.parametrize("which", GOOD)
def test_a_good_history_has_no_violation(which):
    assert history.check(GOOD[which]) == []


@pytest.mark.parametrize("which", BAD)
def test_what_is_wrong_in_a_bad_history_is_named(which):
    words, ops = BAD[which]
    found = history.check(ops)
    assert found and words in found[-1], found


def test_a_kept_grant_must_stand_on_every_node_until_its_end():
    ops = [acquire("a", 1024, 0.0, 0.1, ttl_ms=60000), acquire("b", 2048, 0.2, 0.3, name="given back"),
           release("b", 2048, 0.4, 0.5, name="given back")]
    good = [(1, "n", 1024, 5.0, 5.1), (2, "n", 0, 59.9, 60.1), (1, "given back", 0, 5.0, 5.1)]
    assert history.check(ops, read=good) == []
    found = history.check(ops, read=[*good, (3, "n", 0, 5.0, 5.1), (4, "n", 9216, 5.0, 5.1)])
    assert len(found) == 2, found
    assert "machine 3 shows nobody" in found[0] and "machine 4 shows 9216" in found[1]


def test_a_late_answer_is_excused_only_by_a_node_that_was_away_meanwhile():
    late = Attempt("a", 1, "acquire", 10.0, 13.0, 2.0, answered=True)
    silent = Attempt("a", 2, "acquire", 10.0, 13.0, 2.0, answered=False)
    in_time = Attempt("a", 3, "acquire", 10.0, 11.0, 2.0, answered=True)
    assert history.check([], [late, silent, in_time], {1: [(9.0, 10.5)], 2: [(12.0, 20.0)]}) == []
    found = history.check([], [late, silent, in_time], {1: [(1.0, 9.9)], 3: [(0.0, 99.0)]})
    assert len(found) == 2, found
    assert "took 3.000 s" in found[0] and "had no answer" in found[1]


def test_slots_and_failovers_are_counted_from_grants_alone():
    ops = [acquire("a", 1024, 0.0, 0.05), acquire("b", 0, 0.1, 0.15, outcome="refused"),
           acquire("c", 2048, 0.12, 0.31), acquire("d", 3072, 0.2, 0.45)]
    assert history.slots(ops, 0.0, 0.5) == [True, False, False, True, True]
    assert history.failover(ops, 0.11) == pytest.approx(0.2)
    assert history.failover(ops, 0.3) is None
    assert history.longest_gap(ops, 0.05, 0.5) == pytest.approx(0.26)
    assert history.longest_gap(ops, 0.5, 2.0) == pytest.approx(1.5)


def test_the_report_says_how_many_violations_there_are_and_shows_them(tmp_path):
    result = {"command": "make chaos", "seed": 7, "seconds": 2.0, "machines": 5, "cores": 2, "load": 1, "load_after": 1,
              "operations": 3, "grants": 2, "attempts": 4, "outcomes": {"acquire": {"ok": 2, "unknown": 1}},
              "slots": 20, "slots_served": 15, "probe": {},
              "faults": [{"kind": "kill the leader", "begin": 0.5, "end": 1.0, "failover_ms": 360.0, "gap_ms": 300.0},
                         {"kind": "kill a follower", "begin": 1.1, "end": 1.2, "failover_ms": None, "gap_ms": 20.0}],
              "notes": [], "checked": [],
              "svg": "x.svg", "violations": ["n: two hold it"] * 60}
    path = report.write(tmp_path, "x", result, report.svg([True] * 15 + [False] * 5, result["faults"], 0, 2.0))
    text = path.read_text()
    assert "**60 violations.**" in text and "- n: two hold it" in text and "and 10 more" in text
    assert "75.00 %" in text and "| kill the leader | 1 | 360 | 360 | 300 |" in text and "| kill a follower | 1 | - | - | 20 |" in text
    assert "99.9900 %" in text
    assert "</svg>" in (tmp_path / "x.svg").read_text() and (tmp_path / "x.json").exists()


# --- logs ---


def test_two_entries_of_one_index_and_term_that_differ_are_named():
    entries = agreement.Entries()
    assert entries.check(1, [(1, 1, 0xa), (2, 1, 0xb), (3, 1, 0xc)]) == []
    assert entries.check(2, [(1, 1, 0xa), (2, 1, 0xb), (3, 2, 0xd)]) == []  # replaced by those of the next leader
    found = entries.check(3, [(1, 1, 0xa), (2, 1, 0xe)])
    assert found == ["entry 2 of term 1 is not the same in the logs of node 1 and node 3"]
    assert len(entries.seen) == 4
    many = entries.check(4, [(2, 1, 0xf)] * 9)
    assert len(many) == agreement.SHOWN + 1 and many[-1] == "and 4 more entries of node 4"


# --- faults and operators ---


def test_every_fault_finds_nodes_to_strike_in_a_cluster_of_any_size():
    for count in range(1, 6):
        leader, others = 1, list(range(2, count + 1))
        for kind in faults.KINDS:
            victims = faults.victims_of(kind, leader, others, random.Random(1))
            assert set(victims) <= {leader, *others} and len(set(victims)) == len(victims)
            if faults.KINDS[kind][4] <= count:
                assert victims, kind
                assert not kind.startswith("part") or len(victims) < count, kind


def test_small_clusters_have_the_faults_that_they_can_have():
    assert "kill all five" in faults.kinds_of([], 5, False) and "kill all nodes" not in faults.kinds_of([], 5, False)
    alone = faults.kinds_of(["shim", "disk"], 1, False)
    assert "kill the leader" in alone and not [kind for kind in alone if "follower" in kind or kind.startswith("part")]
    assert set(faults.kinds_of(["shim"], 5, True)) <= set(faults.GROWING)
    kinds = [next(plan)[0] for plan in [faults.schedule(1, [], 2)] for _ in range(100)]
    assert set(kinds) == set(faults.kinds_of([], 2, False))


class Planner(growth.Operator):
    """An operator whose requests are done at once, on members that are only numbers."""

    def __init__(self, members, target, seed):
        nodes = {i: SimpleNamespace(id=i) for i in members if i < 100}
        machines = SimpleNamespace(nodes=nodes, clients=range(1, 6))
        super().__init__(None, SimpleNamespace(machines=machines), target, seed)
        self.members = dict(members)

    def view(self):
        voters = [i for i, votes in self.members.items() if votes]
        return dict(self.members), self.random.choice(voters)

    def add(self, number):
        ident = max(self.members) + 1
        self.machines.nodes[number] = SimpleNamespace(id=ident)
        self.members[ident] = False

    def promote(self, ident):
        assert self.members[ident] is False
        self.members[ident] = True

    def demote(self, ident):
        assert self.members[ident] and sum(self.members.values()) > 1, "the only voter stays"
        self.members[ident] = False

    def remove(self, ident):
        assert not self.members[ident] or sum(self.members.values()) > 1, "the only voter stays"
        del self.members[ident]
        self.machines.nodes = {i: n for i, n in self.machines.nodes.items() if n.id != ident}


@pytest.mark.parametrize("target", [1, 2, 3, 5])
@pytest.mark.parametrize("members", [{1: True}, {1: True, 2: False, 3: False}, {i: True for i in range(1, 6)},
                                     {1: True, 2: True, 300: False}])
def test_an_operator_reaches_its_number_of_voters(members, target):
    for seed in range(30):
        planner = Planner(members, target, seed)
        steps = 0
        while planner.step():
            steps += 1
            assert steps < 50, planner.members
        assert sum(planner.members.values()) == target and 300 not in planner.members
        assert {node.id for node in planner.machines.nodes.values()} == set(planner.members)


# --- what storm.c writes ---


def record(kind, error, token=0, name=0, until_us=0):
    return history.RECORD.pack(1_000_000, 1_500_000, token, until_us, 3, name, kind, error, 1)


def test_a_storm_is_read_as_it_was_written():
    data = record(0, 0, 1024) + record(1, 0, 1024, until_us=2_000_000) + record(2, 4, 1024) + record(0, 13, name=9)
    ops = history.read_storm(data + b"half a record")
    assert [(op.kind, op.outcome, op.code, op.name) for op in ops] == [
        ("acquire", "ok", "", "wanted-0"), ("claim", "ok", "", "wanted-0"),
        ("release", "refused", "lost", "wanted-0"), ("acquire", "unknown", "unknown", "storm-3-9")]
    assert (ops[0].invoked, ops[0].returned, ops[0].token, ops[1].until) == (1.0, 1.5, 1024, 2.0)


def test_a_release_that_is_lost_before_the_client_said_so_is_named():
    ops = history.read_storm(record(0, 0, 1024) + record(1, 0, 1024, until_us=9_000_000))
    ops.append(Op("storm-3", "release", "wanted-0", 2.0, 2.5, "refused", 1024, code="lost"))
    assert len(history.check(ops)) == 1


# --- the proxy ---


def hello(node):
    """As src/node/peers/peer_protocol.c writes it, as far as the proxy reads."""
    payload = b"HOLDPEER" + bytes([1, 1, 1]) + bytes([0]) + bytes([4]) + b"test" + bytes([node, 2]) + bytes(20)
    return (len(payload) + 1).to_bytes(4, "little") + b"\x01" + payload


@pytest.fixture
def proxy():
    """Machine 2 behind a proxy: a connection to it by node 7, which is on machine 1, and its other end."""
    target = socket.create_server(("127.0.0.1", 0))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, ROOT / "tests" / "chaos" / "proxy.py", f"2:{port}:{target.getsockname()[1]}"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "done\n"

    def order(text):
        process.stdin.write(text + "\n")
        process.stdin.flush()
        assert process.stdout.readline() == "done\n"

    order("node 7 1")
    near = socket.create_connection(("127.0.0.1", port), 10)
    far, _ = target.accept()
    near.sendall(hello(7))
    assert far.recv(1000) == hello(7)
    yield order, near, far
    for end in (near, far, target):
        end.close()
    process.stdin.close()
    assert process.wait(10) == 0
    process.stdout.close()


def test_the_proxy_passes_bytes_on_both_ways(proxy):
    _, near, far = proxy
    near.sendall(b"there")
    assert far.recv(100) == b"there"
    far.sendall(b"and back")
    assert near.recv(100) == b"and back"


def test_the_proxy_blocks_one_way_and_lets_go_in_order(proxy):
    order, near, far = proxy
    order("block 1 2")
    near.sendall(b"first ")
    far.sendall(b"heard")
    assert near.recv(100) == b"heard"
    near.sendall(b"second")
    assert select.select([far], [], [], 0.2)[0] == []
    order("heal")
    got = b""
    while len(got) < len(b"first second"):
        got += far.recv(100)
    assert got == b"first second"


def test_the_proxy_is_late_by_as_much_as_configured(proxy):
    order, near, far = proxy
    order("delay 1 2 0.3")
    begun = time.monotonic()
    near.sendall(b"late")
    assert far.recv(100) == b"late"
    assert time.monotonic() - begun >= 0.3


def test_the_proxy_tells_one_end_that_the_other_is_gone(proxy):
    _, near, far = proxy
    far.close()
    assert near.recv(100) == b""

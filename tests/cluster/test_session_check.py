"""Keep-alives that compare the tokens of the client with those of its session, on real clusters: both tiers, failover, pages, rights (S4.8)."""

from functools import reduce
from operator import xor

import pytest

from auth_support import call, secure_cluster
from grpc_support import channel_to, stubs  # noqa: F401
from grpc_support import open_session as open_grpc
from test_session_locks import open_session, take, waiting

ALIVE = "/api/v1/sessions/{}/keepalive"
NOTHING = {"lock_count": 0, "lock_xor": 0}


def believed(*tokens):
    return {"lock_count": len(tokens), "lock_xor": reduce(xor, tokens, 0)}


def keep_alive(node, session, body, query=""):
    answer = node.request("POST", ALIVE.format(session) + query, body)
    assert answer.status == 200 and answer.json["alive"], answer
    return answer.json


def listed(answer):
    assert answer["next_cursor"] is None
    return [(row["name"], row["tier"], row["fencing_token"]) for row in answer["locks"]]


def same(node, session, *tokens):
    answer = keep_alive(node, session, believed(*tokens))
    return "locks" not in answer and "next_cursor" not in answer


@pytest.mark.sanitized
def test_tokens_of_both_tiers_are_compared_at_every_node(make_cluster):
    cluster = make_cluster(3)
    node = cluster.followers()[0]
    session = open_session(node)
    assert same(node, session)
    a = take(node, session, "a")["fencing_token"]
    fast = take(node, session, "fast", tier="EFFICIENCY")["fencing_token"]
    many = node.request("POST", "/api/v1/multilock/acquire", {"session_id": session, "names": ["m/1", "m/2", "m/3"]}).json["fencing_token"]
    everything = [("a", "CORRECTNESS", a), ("m/1", "CORRECTNESS", many), ("m/2", "CORRECTNESS", many), ("m/3", "CORRECTNESS", many),
                  ("fast", "EFFICIENCY", fast)]
    for each in cluster:
        assert same(each, session, a, fast, many), f"node {each.id}"
        assert listed(keep_alive(each, session, believed(a, many))) == everything, f"node {each.id}: one of EFFICIENCY less"
        assert listed(keep_alive(each, session, believed(fast, many))) == everything, f"node {each.id}: one of CORRECTNESS less"
        assert listed(keep_alive(each, session, {"lock_count": 2, "lock_xor": believed(a, fast, many)["lock_xor"]})) == everything
        assert listed(keep_alive(each, session, NOTHING)) == everything
    plain = keep_alive(node, session, {})
    assert "locks" not in plain, "without the fields nothing is compared"
    cluster.leader().request("POST", "/api/v1/locks/a/force-unlock", {"actor_id": "op", "reason": "stuck"})
    assert listed(keep_alive(node, session, believed(a, fast, many))) == everything[1:]
    assert node.request("POST", "/api/v1/locks/fast/release", {"session_id": session, "fencing_token": fast}).json["released"]
    assert node.request("POST", "/api/v1/multilock/release", {"session_id": session, "fencing_token": many}).json["released"]
    for each in cluster:
        assert same(each, session), f"node {each.id}"


def test_after_a_failover_only_the_tier_efficiency_is_missing(make_cluster):
    cluster = make_cluster(3)
    node = cluster.followers()[0]
    session = open_session(node)
    kept = take(node, session, "kept")["fencing_token"]
    fast = take(node, session, "fast", tier="EFFICIENCY")["fencing_token"]
    assert same(node, session, kept, fast)
    cluster.leader().kill()
    cluster.leader(among=cluster.running())
    for each in cluster.running():
        assert listed(keep_alive(each, session, believed(kept, fast))) == [("kept", "CORRECTNESS", kept)], f"node {each.id}"
        assert same(each, session, kept), f"node {each.id}"


def test_a_restart_of_all_nodes_keeps_what_is_compared(make_cluster):
    cluster = make_cluster(3)
    node = cluster.nodes[1]
    session = open_session(node)
    tokens = [take(node, session, f"n/{i}")["fencing_token"] for i in range(5)]
    node.request("POST", "/api/v1/locks/n/0/release", {"session_id": session, "fencing_token": tokens[0]})
    cluster.leader().take_snapshot()
    cluster.kill_all()
    cluster.restart_all()
    for each in cluster:
        assert same(each, session, *tokens[1:]), f"node {each.id}"


def test_a_list_longer_than_a_page_continues_with_its_cursor(make_cluster):
    node = make_cluster(1).nodes[1]
    session = open_session(node)
    tokens = {}
    for first in range(0, 1100, 50):
        names = [f"n/{first + i:04}" for i in range(50)]
        answer = node.request("POST", "/api/v1/multilock/acquire", {"session_id": session, "names": names})
        tokens.update(dict.fromkeys(names, answer.json["fencing_token"]))
    fast = take(node, session, "fast", tier="EFFICIENCY")["fencing_token"]
    other = open_session(node, "other")
    take(node, other, "taken")
    with waiting(node, session, "taken"):
        page, rows = keep_alive(node, session, NOTHING), []
        assert len(page["locks"]) >= 1000 and page["next_cursor"] is not None
        rows += page["locks"]
        while page["next_cursor"] is not None:
            page = keep_alive(node, session, NOTHING, f"?cursor={page['next_cursor']}")
            rows += page["locks"]
    assert {row["name"]: row["fencing_token"] for row in rows} == {**tokens, "fast": fast} and len(rows) == 1101, "no name twice, no wait"


def test_bad_fields_are_refused_and_keep_nothing_alive(make_cluster):
    node = make_cluster(1).nodes[1]
    session = open_session(node)
    for body, code in (({"lock_count": 1}, "field_missing"), ({"lock_xor": 1}, "field_missing"), ({"lock_count": -1, "lock_xor": 0}, "field_range"),
                       ({"lock_count": 1 << 32, "lock_xor": 0}, "field_range"), ({"lock_count": "1", "lock_xor": 0}, "field_type"),
                       ({**NOTHING, "locks": []}, "field_unknown")):
        answer = node.request("POST", ALIVE.format(session), body)
        assert answer.status == 400 and answer.code == code, (body, answer)
    assert node.request("POST", ALIVE.format(session) + "?cursor=2", {}).code == "field_missing"
    assert node.request("POST", ALIVE.format("0" * 31 + "1"), NOTHING).code == "session_not_found"


def test_only_the_owner_of_a_session_compares_its_tokens(make_cluster):
    cluster = secure_cluster(make_cluster, 1)
    node = cluster.nodes[1]
    node.tokens = cluster.tokens
    mine = call(node, "red/lock", "POST", "/api/v1/sessions", {"client_id": "c", "ttl_ms": 600000}).json["session_id"]
    token = call(node, "red/lock", "POST", "/api/v1/locks/app/a/acquire", {"session_id": mine}).json["fencing_token"]
    assert listed(call(node, "red/lock", "POST", ALIVE.format(mine), NOTHING).json) == [("app/a", "CORRECTNESS", token)], "its own token"
    for who in ("red/admin", "red/operate", "blue/lock", ("default/root", "red")):
        foreign = call(node, who, "POST", ALIVE.format(mine), NOTHING)
        assert (foreign.status, foreign.code) == (404, "session_not_found"), who
    assert call(node, "red/lock", "POST", ALIVE.format(mine), believed(token)).json.keys().isdisjoint({"locks", "next_cursor"})


def test_keep_alives_over_grpc_compare_tokens(make_cluster, stubs):  # noqa: F811
    cluster = make_cluster(3)
    node = cluster.followers()[0]
    stream, opened = open_grpc(node, stubs)
    with channel_to(node) as channel:
        service = stubs.lock_grpc.LockServiceStub(channel)
        kept = service.Lock(stubs.lock.LockRequest(resource_id="kept", session_id=opened.session_id)).lock_handle.fence_token
        fast = service.Lock(stubs.lock.LockRequest(resource_id="fast", session_id=opened.session_id, tier=stubs.lock.EFFICIENCY)).lock_handle.fence_token

        def alive(number, held):
            stream.send(keep_alive=stubs.lock.SessionRequest.KeepAlive(number=number, held=held))
            return stream.wait("alive", lambda alive: alive.number == number)

        assert not alive(1, None).differs
        assert not alive(2, stubs.lock.HeldTokens(count=2, xor_of_all=kept ^ fast)).differs
        answer = alive(3, stubs.lock.HeldTokens(count=1, xor_of_all=kept))
        assert answer.differs and answer.next_cursor == ""
        assert [(row.resource_id, row.fence_token, row.tier) for row in answer.locks] == [
            ("kept", kept, stubs.lock.CORRECTNESS), ("fast", fast, stubs.lock.EFFICIENCY)]
        assert alive(4, stubs.lock.HeldTokens()).differs, "a client that believes to hold nothing"
    stream.break_off()

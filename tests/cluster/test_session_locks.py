"""The names that one session holds and waits for: HTTP, gRPC, command line, both tiers, pages, rights."""

import contextlib
import json
import threading

import pytest

from auth_support import call, secure_cluster
from cli_support import good, run_cli
from grpc_support import channel_to, code_of, grpc, stubs  # noqa: F401
from harness import wait_until

LOCKS = "/api/v1/sessions/{}/locks"
NO_ID = "0" * 31 + "1"


def open_session(node, client="s", **options):
    answer = node.request("POST", "/api/v1/sessions", {"client_id": client, "ttl_ms": 600000}, **options)
    assert answer.status == 200, answer
    return answer.json["session_id"]


def take(node, session, name, **more):
    answer = node.request("POST", f"/api/v1/locks/{name}/acquire", {"session_id": session, "ttl_ms": 600000, **more})
    assert answer.status == 200 and answer.json["acquired"], answer
    return answer.json


def pages(node, session, limit=1000, query="", between=lambda: None):
    """The rows of all pages, in their order."""
    rows, cursor = [], None
    while True:
        page = node.request("GET", LOCKS.format(session) + f"?limit={limit}{query}" + (f"&cursor={cursor}" if cursor else ""))
        assert page.status == 200, page
        rows += page.json["locks"]
        cursor = page.json["next_cursor"]
        if cursor is None:
            return rows
        between()


def brief(rows):
    return sorted((row["name"], row["tier"], "holds" if row["held"] else "waits") for row in rows)


@contextlib.contextmanager
def waiting(node, session, name, tier="CORRECTNESS"):
    """The session waits for the name until the end of the block."""
    body = {"session_id": session, "wait_timeout_ms": 600000, "tier": tier}
    thread = threading.Thread(target=node.request, args=("POST", f"/api/v1/locks/{name}/acquire", body), kwargs={"timeout": 600})
    thread.start()
    try:
        wait_until(lambda: node.show(name).json["queue_length"] == 1, "it waits")
        yield
    finally:
        node.request("DELETE", f"/api/v1/sessions/{session}")
        thread.join()


def test_every_node_shows_what_a_session_has_in_both_tiers(make_cluster):
    cluster = make_cluster(3)
    node = cluster.followers()[0]
    session, other = open_session(node), open_session(node, "other")
    held = take(node, session, "a", owner="thread-1", metadata={"job": 7})
    multi = node.request("POST", "/api/v1/multilock/acquire", {"session_id": session, "names": ["m/1", "m/2"]}).json
    take(node, session, "fast", tier="EFFICIENCY")
    take(node, other, "taken")
    expected = [("a", "CORRECTNESS", "holds"), ("fast", "EFFICIENCY", "holds"), ("m/1", "CORRECTNESS", "holds"),
                ("m/2", "CORRECTNESS", "holds"), ("taken", "CORRECTNESS", "waits")]
    with waiting(node, session, "taken"):
        for each in cluster:
            assert brief(pages(each, session)) == expected, f"node {each.id}"
            assert brief(pages(each, session, limit=1)) == expected, f"pages of one at node {each.id}"
            assert brief(pages(each, other)) == [("taken", "CORRECTNESS", "holds")]
        rows = {row["name"]: row for row in pages(node, session)}
        first = rows["a"]["holder"]
        assert first["owner"] == "thread-1" and first["metadata"] == {"job": 7} and first["client_id"] == "s"
        assert first["fencing_token"] == held["fencing_token"] and first["lease_id"] == held["lease_id"]
        assert first["session_id"] == session and first["expires_in_ms"] > 0
        assert rows["m/1"]["holder"]["multilock_names"] == 2
        assert rows["m/1"]["holder"]["fencing_token"] == multi["fencing_token"]
        assert rows["taken"]["waiter"]["gives_up_at"] > rows["taken"]["waiter"]["since"]
        assert pages(node, other)[0]["queue_length"] == 1, "one waits for it"
        stale = node.request("GET", LOCKS.format(session) + "?stale=true").json
        assert stale["stale"] and stale["omitted_tier"] == "EFFICIENCY"
        assert ("fast", "EFFICIENCY", "holds") not in brief(stale["locks"])
        leader = cluster.leader().request("GET", LOCKS.format(session) + "?stale=true").json
        assert brief(leader["locks"]) == expected and "omitted_tier" not in leader
    assert node.request("GET", LOCKS.format(session)).code == "session_not_found"


def test_pages_keep_what_is_held_while_earlier_names_are_released(make_cluster):
    node = make_cluster(1).nodes[1]
    session = open_session(node)
    tokens = {}
    for tier in ("CORRECTNESS", "EFFICIENCY"):
        for number in range(60):
            name = f"{tier}/{number:02}"
            tokens[name] = take(node, session, name, tier=tier)["fencing_token"]
    many = [f"multi/{number:02}" for number in range(64)]
    assert node.request("POST", "/api/v1/multilock/acquire", {"session_id": session, "names": many}).json["acquired"]
    released = [f"CORRECTNESS/{number:02}" for number in range(20)]

    def release_some():
        for name in [released.pop(0) for _ in released[:5]]:
            body = {"session_id": session, "fencing_token": tokens[name]}
            assert node.request("POST", f"/api/v1/locks/{name}/release", body).json["released"]

    rows = pages(node, session, limit=7, between=release_some)
    assert not released, "it was released between pages"
    names = [row["name"] for row in rows]
    assert len(names) == len(set(names)), "no name twice"
    kept = many + [f"CORRECTNESS/{number:02}" for number in range(20, 60)] + [f"EFFICIENCY/{number:02}" for number in range(60)]
    assert set(kept) <= set(names)
    assert len(node.request("GET", LOCKS.format(session) + "?limit=3").json["locks"]) == 3


@pytest.mark.parametrize("tier", ["CORRECTNESS", "EFFICIENCY"])
def test_a_private_session_shows_its_lock(make_cluster, tier):
    cluster = make_cluster(3)
    node = cluster.followers()[0]
    assert node.acquire("alone", client="loner", tier=tier).json["acquired"]
    private = [row for row in node.request("GET", "/api/v1/sessions?private=true").json["sessions"] if row["private"]]
    assert [row["tier"] for row in private] == [tier]
    for each in cluster:
        assert brief(pages(each, private[0]["session_id"])) == [("alone", tier, "holds")]


def test_grpc_answers_the_same(make_cluster, stubs):  # noqa: F811
    cluster = make_cluster(3)
    node = cluster.followers()[0]
    session, other = open_session(node), open_session(node, "other")
    token = take(node, session, "a")["fencing_token"]
    take(node, session, "fast", tier="EFFICIENCY")
    take(node, other, "taken")
    with waiting(node, session, "taken"), channel_to(node) as channel:
        admin = stubs.admin_grpc.AdminServiceStub(channel)
        rows, cursor = [], ""
        while True:
            page = admin.SessionLocks(stubs.admin.SessionLocksRequest(session_id=session, limit=1, cursor=cursor))
            rows += page.locks
            cursor = page.next_cursor
            if not cursor:
                break
        assert sorted((row.resource_id, row.tier, row.HasField("held"), row.HasField("waiting")) for row in rows) == [
            ("a", stubs.lock.CORRECTNESS, True, False), ("fast", stubs.lock.EFFICIENCY, True, False),
            ("taken", stubs.lock.CORRECTNESS, False, True)]
        assert [row.held.fence_token for row in rows if row.resource_id == "a"] == [token]
        assert [row.waiting.client_id for row in rows if row.HasField("waiting")] == ["s"]
        stale = admin.SessionLocks(stubs.admin.SessionLocksRequest(session_id=session, stale=True))
        assert stale.omitted_tier == stubs.lock.EFFICIENCY and len(stale.locks) == 2
        for bad, code in (("x", "invalid_id"), (NO_ID, "session_not_found")):
            with pytest.raises(grpc.RpcError) as refused:
                admin.SessionLocks(stubs.admin.SessionLocksRequest(session_id=bad))
            assert code_of(refused.value)[1] == code


def test_the_command_line_lists_them(make_cluster):
    cluster = make_cluster(1)
    node = cluster.nodes[1]
    session, other = open_session(node), open_session(node, "other")
    for number in range(1001):  # more than a page
        take(node, session, f"n/{number:04}")
    take(node, other, "taken")
    with waiting(node, session, "taken"):
        lines = good([node], "sessions", session).splitlines()
        assert lines[0].split()[:7] == ["NAME", "STATE", "MODE", "SINCE", "ENDS", "WAITERS", "TIER"]
        assert [line.split()[:2] for line in lines[1:]] == [[f"n/{number:04}", "holds"] for number in range(1001)] + [["taken", "waits"]]
        assert brief(json.loads(good([node], "sessions", session, "--json"))["locks"]) == brief(pages(node, session))
    gone = run_cli([node], "sessions", session)
    assert gone.returncode != 0 and "no such session" in gone.stderr
    wrong = run_cli([node], "sessions", "worker-1")
    assert wrong.returncode == 64 and '"worker-1" is not the id of a session' in wrong.stderr


def test_bad_requests_are_named(make_cluster):
    node = make_cluster(1).nodes[1]
    session = open_session(node)
    for path, status, code in ((LOCKS.format(NO_ID), 404, "session_not_found"), (LOCKS.format("x"), 400, "invalid_id"),
                               (LOCKS.format(session) + "?cursor=x", 400, "field_type"),
                               (LOCKS.format(session) + "?cursor=99999999999999999", 400, "field_range"),
                               (LOCKS.format(session) + "?limit=1001", 400, "field_range"),
                               (LOCKS.format(session) + "?prefix=a", 400, "field_unknown")):
        answer = node.request("GET", path)
        assert (answer.status, answer.code) == (status, code), (path, answer)
    assert pages(node, session) == []


def test_rights_decide_who_sees_them(make_cluster):
    cluster = secure_cluster(make_cluster, 1)
    node = cluster.nodes[1]
    node.tokens = cluster.tokens
    opened = call(node, "red/lock", "POST", "/api/v1/sessions", {"client_id": "s", "ttl_ms": 600000}).json["session_id"]
    for name, tier in (("app/a", "CORRECTNESS"), ("app/fast", "EFFICIENCY")):
        assert call(node, "red/lock", "POST", f"/api/v1/locks/{name}/acquire", {"session_id": opened, "tier": tier}).json["acquired"]

    def seen(who, session=opened):
        answer = call(node, who, "GET", LOCKS.format(session))
        return brief(answer.json["locks"]) if answer.status == 200 else answer.code

    everything = [("app/a", "CORRECTNESS", "holds"), ("app/fast", "EFFICIENCY", "holds")]
    assert seen("red/lock") == everything, "its own"
    assert seen("red/admin") == everything, "who may read all names of the tenant"
    assert seen(("default/root", "red")) == everything
    # Who may read some names only sees its own sessions, as in the list of sessions.
    for who in ("red/read", "red/operate", "blue/admin", "blue/lock", "default/root"):
        assert seen(who) == "session_not_found", who
    assert seen("red/none") == "denied" and seen(None) == "unauthenticated"
    own = call(node, "red/lock", "GET", LOCKS.format(opened)).json["locks"][0]["holder"]
    operators = call(node, "red/admin", "GET", LOCKS.format(opened)).json["locks"][0]["holder"]
    assert "fencing_token" not in own and "lease_id" not in own and operators["fencing_token"] > 0
    private = call(node, "red/lock", "POST", "/api/v1/locks/app/alone/acquire", {"client_id": "c", "tier": "EFFICIENCY"}).json["lease_id"]
    assert seen("red/admin", private) == [("app/alone", "EFFICIENCY", "holds")] == seen("red/lock", private)
    assert seen("blue/admin", private) == seen("red/read", private) == "session_not_found"

"""The stream of what the client of a session must act on, from real nodes: losses, revocations, leaders, the end; resumed anywhere (C2.5)."""

import pytest

from auth_support import call, secure_cluster
from harness import wait_until
from test_session_locks import open_session, take
from test_watch import Stream

EVENTS = "/api/v1/sessions/{}/events"
OPERATOR = {"actor_id": "op", "reason": "stuck"}


def stream_of(node, session, last=None):
    stream = Stream(node, EVENTS.format(session), last)
    first = stream.next()
    assert first[1] == "ready" and first[0], first
    return stream, first[0]


def force(node, name):
    answer = node.request("POST", f"/api/v1/locks/{name}/force-unlock", OPERATOR)
    assert answer.status == 200, answer


def refusal(node, session, query="", **options):
    answer = node.request("GET", EVENTS.format(session) + query, **options)
    return answer.status, answer.code


@pytest.mark.sanitized
def test_a_session_sees_what_it_must_act_on_and_nothing_else(make_cluster):
    cluster = make_cluster(3)
    node = cluster.followers()[0]
    session, other = open_session(node), open_session(node, "other")
    stream, _ = stream_of(node, session)
    a = take(node, session, "a")
    fast = take(node, session, "fast", tier="EFFICIENCY")["fencing_token"]
    take(node, other, "of-another")
    quiet = take(node, session, "quiet")["fencing_token"]
    assert node.request("POST", "/api/v1/locks/quiet/release", {"session_id": session, "fencing_token": quiet}).json["released"]
    force(node, "of-another")
    force(node, "fast")
    revoked = node.request("POST", "/api/v1/locks/a/revoke", {**OPERATOR, "deadline_ms": 60000})
    assert revoked.status == 200, revoked
    ident, kind, data = stream.next()
    assert (ident, kind, data["name"], data["tier"], data["fencing_token"], data["ended"]) == (
        None, "lost", "fast", "EFFICIENCY", fast, "forced"), "an event of EFFICIENCY has no id"
    ident, kind, data = stream.next()
    assert ident and kind == "revoke_requested" and data["fencing_token"] == a["fencing_token"] and data["lease_id"] == a["lease_id"]
    assert data["actor_id"] == "op" and data["text"] == "stuck" and data["revoked_at"] > data["at"]
    force(node, "a")
    ident, kind, data = stream.next()
    assert ident and kind == "lost" and data["fencing_token"] == a["fencing_token"] and data["ended"] == "forced"
    assert node.request("DELETE", f"/api/v1/sessions/{session}").status == 200
    ident, kind, data = stream.next()
    assert ident and (kind, data["ended"]) == ("session_closed", "session_closed")
    assert stream.next() is None, "the stream ends with its session"


def test_an_expired_session_reports_its_locks_and_its_end(make_cluster):
    cluster = make_cluster(3)
    node = cluster.followers()[0]
    session = node.request("POST", "/api/v1/sessions", {"client_id": "s", "ttl_ms": 2000}).json["session_id"]
    stream, _ = stream_of(node, session)
    held = take(node, session, "a", ttl_ms=None)["fencing_token"]
    events = stream.until(lambda event: event[1] == "session_expired")
    assert [(event[1], event[2].get("fencing_token")) for event in events] == [("lost", held), ("session_expired", None)]
    assert {event[2]["ended"] for event in events} == {"session_expired"}, "an open stream is no keep-alive"
    assert stream.next() is None
    for each in cluster:
        assert refusal(each, session) == (410, "session_expired"), f"node {each.id}"


def test_it_is_resumed_at_another_node_after_the_leader_was_killed(make_cluster):
    cluster = make_cluster(3)
    leader = cluster.leader()
    session = open_session(leader)
    stream, last = stream_of(leader, session)
    kept, gone = take(leader, session, "kept")["fencing_token"], take(leader, session, "gone")["fencing_token"]
    epoch = leader.request("POST", f"/api/v1/sessions/{session}/keepalive").json["leader_epoch"]
    leader.kill()
    new = cluster.leader(among=cluster.running())
    force(new, "gone")
    for node in cluster.running():
        again, _ = stream_of(node, session, last)
        events = again.until(lambda event: event[1] == "lost")
        assert [event[1] for event in events] == ["epoch", "lost"], f"node {node.id}"
        assert events[0][2]["leader_epoch"] > epoch and events[1][2]["fencing_token"] == gone
        after, _ = stream_of(node, session, events[0][0])
        assert after.next() == events[1], "the same event with the same id, after the one that was seen"
    leader.start()
    leader.wait_ready()
    force(leader, "kept")
    back, _ = stream_of(leader, session, events[1][0])
    assert back.next()[2]["fencing_token"] == kept, "the restarted node has what happened meanwhile"


def test_an_id_that_no_node_has_is_a_reset(make_cluster):
    node = make_cluster(1).nodes[1]
    session = open_session(node)
    unknown = "999999999-0"
    assert refusal(node, session, "?reset=false", headers={"Last-Event-ID": unknown}) == (410, "events_trimmed")
    stream = Stream(node, EVENTS.format(session), unknown)
    assert [stream.next()[1], stream.next()[1]] == ["reset", "ready"]
    take(node, session, "a")
    force(node, "a")
    assert stream.next()[1] == "lost"


def test_a_node_that_stops_ends_the_stream_so_that_it_is_resumed(make_cluster):
    cluster = make_cluster(3)
    node, other = cluster.followers()
    session = open_session(node)
    stream, _ = stream_of(node, session)
    assert node.stop() == 0
    ident, kind, _ = stream.next()
    assert kind == "dropped" and stream.next() is None
    again, _ = stream_of(other, session, ident)
    take(other, session, "a")
    force(other, "a")
    assert again.next()[1] == "lost"


def test_bad_requests_are_named(make_cluster):
    node = make_cluster(1).nodes[1]
    session = open_session(node)
    assert refusal(node, "0" * 31 + "1") == (404, "session_not_found")
    assert refusal(node, "x") == (400, "invalid_id")
    assert refusal(node, session, "?last_event_id=x") == (400, "field_type")
    assert refusal(node, session, "?reset=maybe") == (400, "field_range")
    assert refusal(node, session, "?prefix=a") == (400, "field_unknown")
    private = node.acquire("alone").json["lease_id"]
    assert refusal(node, private) == (404, "session_not_found"), "the private session of a lock has no stream"


def test_only_the_owner_of_a_session_sees_its_events(make_cluster):
    cluster = secure_cluster(make_cluster, 1)
    node = cluster.nodes[1]
    node.tokens = cluster.tokens
    mine = call(node, "red/lock", "POST", "/api/v1/sessions", {"client_id": "c", "ttl_ms": 600000}).json["session_id"]
    for who in ("red/admin", "red/operate", "blue/lock", ("default/root", "red")):
        foreign = call(node, who, "GET", EVENTS.format(mine))
        assert (foreign.status, foreign.code) == (404, "session_not_found"), who
    assert call(node, None, "GET", EVENTS.format(mine)).code == "unauthenticated"
    stream = Stream(node, EVENTS.format(mine), headers={"Authorization": f"Bearer {cluster.tokens['red/lock']}"})
    assert stream.next()[1] == "ready"
    assert call(node, "red/lock", "POST", "/api/v1/locks/app/a/acquire", {"session_id": mine}).json["acquired"]
    assert call(node, "red/admin", "POST", "/api/v1/locks/app/a/force-unlock", OPERATOR).status == 200
    assert stream.next()[1] == "lost"
    answer = node.request("GET", "/api/v1/auth/policy")
    without = {**answer.json, "principals": [row for row in answer.json["principals"] if (row["tenant"], row["name"]) != ("red", "lock")]}
    without.pop("version", None)
    removed = node.request("PUT", "/api/v1/auth/policy", without)
    assert removed.status == 200, removed
    wait_until(lambda: stream.next() is None, "the stream of a removed principal ends")

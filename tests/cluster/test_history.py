"""The history of a lock, from the event logs of real nodes: each end, each moment, after restarts and failovers, and for whom."""

import json
import time
from datetime import datetime, timedelta, timezone
from urllib.parse import quote

import pytest

from auth_support import call, secure_cluster
from cli_support import run_cli, good
from harness import allowed, wait_until

OPERATOR = {"actor_id": "olga", "reason": "it hangs"}
MS = timedelta(milliseconds=1)


def path(name):
    return f"/api/v1/locks/{quote(name, safe='')}"


def history(node, name, headers=None, **query):
    text = "&".join(f"{key}={quote(str(value), safe='')}" for key, value in query.items())
    answer = node.request("GET", f"{path(name)}/history?{text}", headers=headers)
    assert answer.status == 200, answer
    return answer.json


def moment(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def rfc3339(when):
    return when.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.") + f"{when.microsecond // 1000:03}Z"


def take(node, name, client, **more):
    answer = node.request("POST", f"{path(name)}/acquire", {"client_id": client, "ttl_ms": 60000, **more})
    assert answer.json.get("acquired"), answer
    return answer.json


def is_free(node, name):
    return not node.show(name).json["held"]


def released(node, name, **more):
    held = take(node, name, "released", **more)
    assert node.request("POST", f"{path(name)}/release",
                        {"client_id": "released", "fencing_token": held["fencing_token"]}).json["released"]


def expired(node, name, **more):
    take(node, name, "expired", **{**more, "ttl_ms": 1000})
    wait_until(lambda: is_free(node, name), "it expires")


def forced(node, name, **more):
    take(node, name, "forced", **more)
    assert node.request("POST", f"{path(name)}/force-unlock", {**OPERATOR, "now": True}).status == 200


def revoked(node, name, **more):
    take(node, name, "revoked", **more)
    assert node.request("POST", f"{path(name)}/revoke", {**OPERATOR, "deadline_ms": 100}).status == 200
    wait_until(lambda: is_free(node, name), "it is revoked")


def max_hold(node, name, **more):
    take(node, name, "max_hold", max_hold_ms=200, **more)
    wait_until(lambda: is_free(node, name), "its time is over")


def session(node, client, **more):
    return node.request("POST", "/api/v1/sessions", {"client_id": client, **more}).json["session_id"]


def session_closed(node, name, **more):
    ident = session(node, "session_closed")
    node.request("POST", f"{path(name)}/acquire", {"session_id": ident, **more})
    assert node.request("DELETE", f"/api/v1/sessions/{ident}").status == 200


def session_expired(node, name, **more):
    ident = session(node, "session_expired", ttl_ms=1000)
    node.request("POST", f"{path(name)}/acquire", {"session_id": ident, **more})
    wait_until(lambda: is_free(node, name), "its session expires")


ENDS = (released, expired, forced, revoked, max_hold, session_closed, session_expired)


def each_end(node, name, **more):
    for end in ENDS:
        end(node, name, **more)
    return take(node, name, "holder", owner="main", **more)


def is_each_end(page):
    """The newest first; a client has the name of its end."""
    holds = page["holds"]
    assert [hold["client_id"] for hold in holds] == ["holder"] + [end.__name__ for end in reversed(ENDS)]
    assert holds[0]["held"] and holds[0]["ended"] is None and holds[0]["owner"] == "main"
    for hold in holds[1:]:
        assert hold["ended"] == hold["client_id"] and not hold["held"], hold
        by = hold["ended"] in ("forced", "revoked")
        assert (hold.get("actor_id"), hold.get("reason")) == (("olga", "it hangs") if by else (None, None))
        length = moment(hold["ended_at"]) - moment(hold["acquired_at"])
        assert abs(length / MS - hold["held_ms"]) <= 250 and hold["waited_ms"] == 0
    tokens = [hold["fencing_token"] for hold in holds]
    assert tokens == sorted(tokens, reverse=True) and len(set(tokens)) == len(tokens)


def without_present(page):
    """What does not change with time and node."""
    return [{key: value for key, value in hold.items() if key != "held_ms" or not hold["held"]} for hold in page["holds"]]


def everywhere(cluster, name, expected, nodes=None):
    """Each node has the same history, when it has applied it."""
    for node in nodes or cluster.running():
        wait_until(lambda: without_present(history(node, name)) == expected, f"node {node.id} has the history")
        assert history(node, name)["node"] == node.id


def test_each_end_is_shown_by_each_node_also_after_a_restart_and_a_failover(make_cluster):
    cluster = make_cluster(3)
    leader = cluster.leader()
    each_end(leader, "a/b")
    page = history(leader, "a/b")
    is_each_end(page)
    assert page["complete_since"] is None and page["gaps"] == [] and page["next_cursor"] is None
    everywhere(cluster, "a/b", without_present(page))
    cluster.kill_all()
    cluster.restart_all()
    everywhere(cluster, "a/b", without_present(page))
    old = cluster.leader()
    old.kill()
    new = cluster.leader(but=old)
    is_each_end(history(new, "a/b"))
    released(new, "a/b2")
    everywhere(cluster, "a/b", without_present(page))
    old.start()
    old.wait_ready()
    everywhere(cluster, "a/b", without_present(page))
    everywhere(cluster, "a/b2", without_present(history(new, "a/b2")))


def test_a_moment_belongs_to_the_holder_from_its_first_to_its_last_millisecond(make_cluster):
    cluster = make_cluster(3)
    node = cluster.followers()[0]
    for client in ("first", "second"):
        held = take(node, "m", client)
        time.sleep(0.02)
        assert node.request("POST", f"{path('m')}/release",
                            {"client_id": client, "fencing_token": held["fencing_token"]}).json["released"]
        time.sleep(0.02)
    second, first = history(node, "m")["holds"]
    for other in cluster:
        for hold, before in ((first, None), (second, "first")):
            start, end = moment(hold["acquired_at"]), moment(hold["ended_at"])
            assert end > start
            for when in (start, end - MS):
                answer = history(other, "m", at=rfc3339(when))
                assert answer["answer"] == "held" and answer["certain"] and answer["previous"] is None
                assert answer["holds"] == [hold]
            answer = history(other, "m", at=rfc3339(start - MS))
            assert answer["answer"] == "free" and answer["holds"] == [] and answer["certain"]
            assert (answer["previous"] and answer["previous"]["client_id"]) == before
            answer = history(other, "m", at=rfc3339(end))
            assert answer["answer"] == "free" and answer["previous"] == hold
        assert history(other, "m", at="0s")["previous"] == second


@pytest.mark.sanitized
def test_a_shared_lock_has_several_holders_at_a_moment(make_cluster):
    node = make_cluster(1).nodes[1]
    takes = [take(node, "s", f"c{number}", mode="shared") for number in range(3)]
    time.sleep(0.05)
    when = rfc3339(datetime.now(timezone.utc))
    time.sleep(0.05)
    for number in (1, 0):
        node.request("POST", f"{path('s')}/release",
                     {"client_id": f"c{number}", "fencing_token": takes[number]["fencing_token"]})
    answer = history(node, "s", at=when)
    assert answer["answer"] == "held" and answer["certain"]
    assert {hold["client_id"]: hold["ended"] for hold in answer["holds"]} == {"c0": "released", "c1": "released", "c2": None}
    page = history(node, "s", limit=1)
    assert [hold["client_id"] for hold in page["holds"]] == ["c2", "c0"]
    page = history(node, "s", limit=1, cursor=page["next_cursor"])
    assert [hold["client_id"] for hold in page["holds"]] == ["c1"]


def test_the_wait_of_a_holder_is_in_its_history(make_cluster):
    cluster = make_cluster(3)
    node = cluster.leader()
    take(node, "w", "a", max_hold_ms=500)
    take(node, "w", "b", wait_timeout_ms=20000)
    hold = history(node, "w")["holds"][0]
    assert hold["client_id"] == "b" and 300 <= hold["waited_ms"] <= allowed(10) * 1000
    assert history(node, "w", at="0s")["holds"][0]["waited_ms"] == hold["waited_ms"]


def test_the_end_of_a_lock_in_memory_is_unknown_after_its_leader_is_lost(make_cluster):
    cluster = make_cluster(3)
    leader = cluster.leader()
    take(leader, "e", "memory", tier="EFFICIENCY")
    hold = history(leader, "e")["holds"][0]
    assert hold["tier"] == "EFFICIENCY" and hold["held"]
    assert history(cluster.followers()[0], "e")["holds"][0]["held"]
    time.sleep(0.05)
    leader.stop()
    new = cluster.leader(but=leader)
    assert history(new, "e")["holds"] == []  # only the leader had its events
    leader.start()
    leader.wait_ready()
    ended = wait_until(lambda: history(leader, "e")["holds"], "the old leader has its own log")
    assert ended[0]["ended"] == "unknown" and ended[0]["held_ms"] is None and not ended[0]["held"]
    assert history(leader, "e", at=hold["acquired_at"])["answer"] == "unknown"


def test_tenants_and_rights_are_those_of_reading_a_lock(make_cluster):
    cluster = secure_cluster(make_cluster, 1)
    node = cluster.nodes[1]
    node.tokens = cluster.tokens
    for tenant in ("red", "blue"):
        body = {"client_id": f"{tenant}-client", "ttl_ms": 60000}
        assert call(node, f"{tenant}/lock", "POST", "/api/v1/locks/app/x/acquire", body).json["acquired"]
    url = "/api/v1/locks/app/x/history"
    for tenant in ("red", "blue"):
        for at in ("", "?at=0s"):
            answer = call(node, f"{tenant}/read", "GET", url + at)
            assert [hold["client_id"] for hold in answer.json["holds"]] == [f"{tenant}-client"]
            assert "fencing_token" not in answer.text and "lease_id" not in answer.text
        seen = call(node, f"{tenant}/operate", "GET", url).json["holds"][0]
        assert seen["fencing_token"] and seen["lease_id"]
        assert call(node, f"{tenant}/none", "GET", url).status == 403
        assert call(node, f"{tenant}/read", "GET", "/api/v1/locks/other/history").status == 403
    assert call(node, ("red/read", "blue"), "GET", url).status == 403
    assert call(node, None, "GET", url).status == 401


@pytest.mark.parametrize("query, code", [
    ("at=noon", "field_type"), ("at=2999-01-01T00:00:00Z", "field_range"), ("at=1h&since=1h", "field_range"),
    ("since=1h&until=2h", "field_range"), ("cursor=7", "field_range"), ("limit=0", "field_range"),
    ("limit=1001", "field_range"), ("when=1h", "field_unknown")])
def test_wrong_queries_have_stable_codes(make_cluster, query, code):
    answer = make_cluster(1).nodes[1].request("GET", f"/api/v1/locks/x/history?{query}")
    assert answer.status == 400 and answer.code == code, answer


def test_a_lock_may_be_called_history(make_cluster):
    node = make_cluster(1).nodes[1]
    take(node, "x/history", "c")
    assert node.request("GET", "/api/v1/locks/x%2Fhistory").json["held"]
    assert history(node, "x/history")["holds"][0]["client_id"] == "c"
    assert "c" in good([node], "show", "x/history")


def test_pages_are_complete(make_cluster):
    node = make_cluster(1).nodes[1]
    for number in range(25):
        held = take(node, "p", f"c{number}")
        node.request("POST", f"{path('p')}/release", {"client_id": f"c{number}", "fencing_token": held["fencing_token"]})
    seen, cursor = [], None
    while cursor is not None or not seen:
        page = history(node, "p", limit=4, **({"cursor": cursor} if cursor else {}))
        assert len(page["holds"]) <= 4
        seen += [hold["client_id"] for hold in page["holds"]]
        cursor = page["next_cursor"]
    assert seen == [f"c{number}" for number in reversed(range(25))]


def test_the_command_line_answers_in_plain_words(make_cluster):
    cluster = make_cluster(1)
    node = cluster.nodes[1]
    assert good([node], "history", "nothing").strip() == "nothing: nobody has held it"
    each_end(node, "h/x")
    table = good([node], "history", "h/x").splitlines()
    assert table[0].split() == ["FROM", "UNTIL", "HELD", "WAITED", "CLIENT", "OWNER", "TOKEN", "END"]
    assert "still held" in table[1] and "holder" in table[1] and "now" in table[1]
    assert any("forced by olga: it hangs" in line for line in table)
    assert len(good([node], "history", "h/x", "--limit", "2").splitlines()) == 3
    rows = json.loads(good([node], "history", "h/x", "--since", "2h", "--json"))
    assert len(rows["holds"]) == 8 and rows["complete_since"] is None
    text = good([node], "history", "h/x", "--at", "0s")
    assert "held by holder (owner main), token" in text and "still holds it" in text
    forced_hold = next(hold for hold in rows["holds"] if hold["ended"] == "forced")
    text = good([node], "history", "h/x", "--at", forced_hold["acquired_at"])
    assert "held by forced, token" in text and "forced by olga: it hangs" in text
    first = moment(rows["holds"][-1]["acquired_at"])
    text = good([node], "history", "h/x", "--at", rfc3339(first - MS))
    assert text.splitlines()[0].endswith("nobody held it")
    answer = json.loads(good([node], "history", "h/x", "--at", "0s", "--json"))
    assert answer["answer"] == "held" and answer["node"] == 1
    wrong = run_cli([node], "history", "h/x", "--at", "1h", "--since", "2h")
    assert wrong.returncode == 64 and "excludes" in wrong.stderr
    assert run_cli([node], "history").returncode == 64

"""GET /api/v1/stats: the leader's figures through any node, and what is counted where."""

import time

from harness import PATIENCE, wait_until

TOTALS = {"acquire_attempts", "grants", "refused", "contended", "waits_ended", "releases", "release_failures", "renewals",
          "renewal_failures", "expired", "forced", "revoked", "sessions_opened", "sessions_expired", "requests"}


def stats(node):
    answer = node.request("GET", "/api/v1/stats")
    assert answer.status == 200, answer
    return answer.json


def rise(before, after):
    """The totals that rose, without the requests, which this test's own reads raise, too."""
    return {name: after["totals"][name] - before["totals"][name] for name in TOTALS - {"requests"}
            if after["totals"][name] != before["totals"][name]}


def test_every_node_answers_with_the_figures_of_the_leader(make_cluster):
    cluster = make_cluster(3)
    leader, followers = cluster.leader(), cluster.followers()
    for i in range(4):
        assert followers[0].acquire(f"s-{i}", ttl_ms=600000).json["acquired"]
    assert leader.acquire("e-0", ttl_ms=600000, tier="EFFICIENCY").json["acquired"]
    for node in cluster:
        seen = stats(node)
        assert set(seen["totals"]) == TOTALS
        assert seen["node"] == node.id and seen["leader"] == leader.id and seen["serving"]
        assert seen["locks"] == seen["holders"] == 5 and seen["waiters"] == 0 and seen["sessions"] == 5
        assert seen["totals"]["grants"] == 5 and seen["totals"]["acquire_attempts"] == 5
        assert 0 < seen["latency_ms"]["acquire"]["p50"] <= seen["latency_ms"]["acquire"]["p99"] < PATIENCE * 1000
        assert seen["latency_ms"]["wait"] == {"p50": None, "p99": None}


def test_each_total_rises_by_what_happened(make_cluster):
    cluster = make_cluster(3)
    node = cluster.followers()[0]
    before = stats(node)
    token = node.acquire("a", ttl_ms=600000).json["fencing_token"]
    assert not node.acquire("a", client="other").json["acquired"]
    assert rise(before, stats(node)) == {"acquire_attempts": 2, "grants": 1, "refused": 1, "contended": 1}

    before = stats(node)
    body = {"client_id": "test", "fencing_token": token}
    assert node.request("POST", "/api/v1/locks/a/renew", body).status == 200
    assert node.request("POST", "/api/v1/locks/b/renew", body).json["renewed"] is False
    assert node.request("POST", "/api/v1/locks/b/release", body).json["released"] is False
    assert node.release("a", token).json["released"]
    assert rise(before, stats(node)) == {"renewals": 1, "renewal_failures": 1, "release_failures": 1, "releases": 1}

    before = stats(node)
    assert node.acquire("c", ttl_ms=1000).json["acquired"]
    assert node.acquire("c", client="other", ttl_ms=600000, wait_timeout_ms=20000).json["acquired"]  # after it expired
    assert rise(before, stats(node)) == {"acquire_attempts": 2, "grants": 2, "contended": 1, "waits_ended": 1, "expired": 1}
    wait = stats(node)["latency_ms"]["wait"]
    assert wait["p50"] is not None and wait["p50"] <= PATIENCE * 1000

    before = stats(node)
    operator = {"actor_id": "me", "reason": "test"}
    assert node.request("POST", "/api/v1/locks/c/force-unlock", operator).status == 200
    session = node.request("POST", "/api/v1/sessions", {"client_id": "s", "ttl_ms": 1000}).json["session_id"]
    assert node.request("POST", f"/api/v1/sessions/{session}/keepalive", {}).status == 200
    wait_until(lambda: stats(node)["totals"]["sessions_expired"] == 1, "the session expired")
    assert rise(before, stats(node)) == {"forced": 1, "sessions_opened": 1, "sessions_expired": 1, "renewals": 1}


def test_a_repeated_request_counts_once(make_cluster):
    cluster = make_cluster(1)
    node = cluster.leader()
    before = stats(node)
    for _ in range(3):
        assert node.acquire("once", request_id="r-1", ttl_ms=600000).json["acquired"]
    assert rise(before, stats(node)) == {"acquire_attempts": 1, "grants": 1}


def test_without_a_leader_there_are_no_figures(make_cluster):
    cluster = make_cluster(3)
    lone = cluster.followers()[0]
    for node in cluster:
        if node is not lone:
            node.kill()
    deadline = time.monotonic() + PATIENCE
    answer = lone.request("GET", "/api/v1/stats", timeout=PATIENCE)
    assert answer.status == 503 and answer.code == "unavailable", answer
    assert time.monotonic() < deadline

"""The tier EFFICIENCY on real nodes (S3.1, S10): the leader's memory through every node, and what is left of
it when the leader dies."""

import concurrent.futures
import json
import os
import re
import signal
import subprocess
import time

import pytest

from cli_support import run_cli, endpoints, good
from harness import PATIENCE, PROGRAM, allowed, busy, environment, read_answer, wait_until
from test_watch import Stream

FAST = {"tier": "EFFICIENCY"}


def metric(node, name):
    return float(re.search(rf"^holdfast_{name} (\S+)$", node.request("GET", "/metrics").text, re.M)[1])


def take(node, name, **more):
    """A grant of the tier EFFICIENCY; its answer."""
    answer = node.acquire(name, **FAST, **more)
    assert answer.status == 200 and answer.json["acquired"], answer
    assert answer.json["tier"] == "EFFICIENCY" and answer.json["fencing_token"] % 1024 != 0
    assert answer.json["epoch"] > 0
    assert answer.json["expires_in_ms"] <= more.get("ttl_ms", 30000)  # by the leader's clock
    return answer.json


@pytest.mark.sanitized
def test_grants_leave_no_trace_in_the_log(make_cluster):
    cluster = make_cluster(3)
    leader = cluster.leader()
    connection = leader.connect()
    before = metric(leader, "log_commit_index")
    tokens = []
    for i in range(100):
        path = f"/api/v1/locks/quick-{i}/acquire"
        connection.request("POST", path, body=json.dumps({"client_id": "c", **FAST}))
        answer = read_answer(connection, "POST", path)
        tokens.append(answer.json["fencing_token"])
    connection.close()
    assert tokens == sorted(set(tokens))
    assert metric(leader, "log_commit_index") - before < 20  # ticks, and nothing for each of the hundred
    assert metric(leader, "memory_grants") == 100


def test_tokens_rise_through_both_tiers_and_failovers(make_cluster):
    cluster = make_cluster(3)
    last = 0
    for life in range(2):
        leader = cluster.leader()
        for i in range(12):
            node = list(cluster.running())[i % len(cluster.running())]
            name = f"rise-{life}-{i}"
            answer = take(node, name) if i % 3 else node.acquire(name).json
            assert answer["fencing_token"] > last
            last = answer["fencing_token"]
        if life == 0:
            leader.kill()
            wait_until(lambda: cluster.leader(but=leader.id), "another leader")
            leader.start().wait_ready()


@pytest.mark.sanitized
def test_a_name_in_one_tier_is_refused_in_the_other_through_any_node(make_cluster):
    cluster = make_cluster(3)
    nodes = list(cluster)
    fast = take(nodes[0], "fast")
    safe = nodes[1].acquire("safe").json
    for node in nodes:
        answer = node.acquire("fast")
        assert answer.status == 409 and answer.code == "wrong_tier", answer
        assert "EFFICIENCY" in answer.json["error"]["message"]
        answer = node.acquire("safe", **FAST)
        assert answer.status == 409 and answer.code == "wrong_tier", answer
        assert "CORRECTNESS" in answer.json["error"]["message"]
    assert nodes[2].release("fast", fast["fencing_token"]).json["released"]
    assert nodes[2].acquire("fast").json["tier"] == "CORRECTNESS"
    assert nodes[0].release("safe", safe["fencing_token"]).json["released"]
    take(nodes[1], "safe")


@pytest.mark.sanitized
def test_who_waits_through_a_follower_hears_of_the_grant(make_cluster):
    cluster = make_cluster(3)
    held = take(cluster.leader(), "queue")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        waits = []
        for node in cluster:
            waits.append(pool.submit(node.acquire, "queue", client=f"via-{node.id}", wait_timeout_ms=60000, **FAST))
            wait_until(lambda n=len(waits): cluster.leader().show("queue").json["queue_length"] == n, "it waits")
        shown = cluster.followers()[0].show("queue").json
        assert [w["client_id"] for w in shown["waiters"]] == ["via-1", "via-2", "via-3"]
        assert shown["tier"] == "EFFICIENCY"
        last, name = held, "test"
        for number, wait in enumerate(waits, 1):
            node = cluster.nodes[number % 3 + 1]
            assert node.release("queue", last["fencing_token"], client=name).json["released"]
            last, name = wait.result(PATIENCE).json, f"via-{number}"
            assert last["acquired"] and last["tier"] == "EFFICIENCY", last
        renewed = node.request("POST", "/api/v1/locks/queue/renew",
                           {"client_id": name, "fencing_token": last["fencing_token"], "ttl_ms": 60000}).json
        assert renewed["renewed"] and renewed["epoch"] == last["epoch"], renewed
        assert renewed["expires_in_ms"] <= 60000  # by the leader's clock, through any node
        # Without an end: a wait that is over is answered, through a follower as well.
        late = cluster.followers()[0].acquire("queue", wait_timeout_ms=50, **FAST).json
        assert not late["acquired"] and late["reason"] == "timeout", late


@pytest.mark.sanitized
def test_lists_watches_and_operators_see_both_tiers_through_any_node(make_cluster):
    cluster = make_cluster(3)
    leader, follower = cluster.leader(), cluster.followers()[0]
    with Stream(follower, "/api/v1/watch?prefix=see") as stream:
        assert stream.next()[1] == "ready"
        wait_until(lambda: take(leader, f"see-{time.monotonic()}", ttl_ms=1000) and stream.next()[1] == "granted",
                   "the leader knows that it is listened to")
        leader.acquire("see-safe")
        take(follower, "see-fast", client="fast")
        tiers = {}  # in no order: they come by different ways
        while not {"see-fast", "see-safe"} <= set(tiers):
            number, kind, data = stream.next()
            if kind == "granted":
                tiers[data["name"]] = (number is not None, data["tier"])
        assert tiers["see-safe"] == (True, "CORRECTNESS")
        assert tiers["see-fast"] == (False, "EFFICIENCY")  # nothing to resume from
    for node in cluster:
        rows = node.request("GET", "/api/v1/locks?prefix=see-").json["locks"]
        found = {row["name"]: row["tier"] for row in rows}
        assert found["see-safe"] == "CORRECTNESS" and found["see-fast"] == "EFFICIENCY"
        assert node.show("see-fast").json["holders"][0]["client_id"] == "fast"
        private = node.request("GET", "/api/v1/sessions?private=true").json["sessions"]
        assert {"CORRECTNESS", "EFFICIENCY"} == {row["tier"] for row in private}
        with Stream(node, "/api/v1/watch?prefix=see-&list=true") as stream:
            rows = stream.until(lambda event: event[1] == "listed")
            found = {data["name"]: data["tier"] for _, kind, data in rows if kind == "lock"}
            assert found["see-safe"] == "CORRECTNESS" and found["see-fast"] == "EFFICIENCY", rows
    stale = follower.request("GET", "/api/v1/locks?prefix=see-&stale=true").json
    assert stale["omitted_tier"] == "EFFICIENCY"
    assert {row["tier"] for row in stale["locks"]} == {"CORRECTNESS"}
    assert "omitted_tier" not in leader.request("GET", "/api/v1/locks?stale=true").json
    table = good(list(cluster), "ls", "see-")
    assert re.search(r"see-safe.*CORRECTNESS", table), table
    forced = follower.request("POST", "/api/v1/locks/see-fast/force-unlock", {"actor_id": "op", "reason": "stuck"})
    assert forced.status == 200 and forced.json["holders"] == 1, forced
    wait_until(lambda: any(r["resource"] == "see-fast" and r["actorId"] == "op" and r["action"] == "FORCE_UNLOCK"
                           and r["tier"] == "EFFICIENCY" for r in follower.request("GET", "/api/v1/audit").json["records"]),
               "the record is replicated")
    follower.request("POST", "/api/v1/locks/see-safe/force-unlock", {"actor_id": "op", "reason": "stuck"})
    assert follower.request("GET", "/api/v1/audit").json["records"][-1]["tier"] == "CORRECTNESS"
    assert re.search(r"FORCE_UNLOCK +see-fast +EFFICIENCY +op", good(list(cluster), "audit"))
    assert "EFFICIENCY" in good(list(cluster), "show", take(leader, "see-shown") and "see-shown")


@pytest.mark.sanitized
def test_a_watch_that_lists_on_a_follower_misses_nothing_of_the_tier(make_cluster):
    """S9.3, S10: what is there comes with the listing, which the leader gives, and what happens then follows."""
    cluster = make_cluster(3)
    leader, follower = cluster.leader(), cluster.followers()[0]
    tokens = {f"many-{i}": take(leader, f"many-{i}")["fencing_token"] for i in range(250)}  # three pages
    with Stream(follower, "/api/v1/watch?prefix=many-&list=true") as stream:
        assert stream.next()[1] == "reset"
        assert leader.release("many-7", tokens["many-7"], "test").json["released"]  # while it is being listed, or after
        seen = set()
        for _, kind, data in stream.until(lambda event: event[1] == "released"):
            if kind == "lock" and data["held"]:
                seen.add(data["name"])
            elif kind == "released":
                seen.discard(data["name"])
        assert seen == set(tokens) - {"many-7"}


def test_pages_go_on_from_one_tier_to_the_other(make_cluster):
    cluster = make_cluster(1)
    node = cluster.nodes[1]
    for i in range(60):
        assert node.acquire(f"page-safe-{i}").json["acquired"]
        take(node, f"page-fast-{i}")
    seen, cursor = set(), "0"
    while cursor is not None:
        page = node.request("GET", f"/api/v1/locks?limit=10&cursor={cursor}").json
        seen |= {row["name"] for row in page["locks"]}
        cursor = page["next_cursor"]
    assert seen == {f"page-{kind}-{i}" for kind in ("safe", "fast") for i in range(60)}


@pytest.mark.sanitized
def test_a_session_holds_in_both_tiers_and_its_end_ends_both(make_cluster):
    cluster = make_cluster(3)
    nodes = list(cluster)
    ttl_ms = int(2000 * busy())
    session = nodes[0].request("POST", "/api/v1/sessions", {"client_id": "s", "ttl_ms": ttl_ms}).json["session_id"]
    body = {"session_id": session, "client_id": "s", "owner": "o"}
    for node, name, tier in ((nodes[1], "s-fast", "EFFICIENCY"), (nodes[2], "s-safe", "CORRECTNESS")):
        path = f"/api/v1/locks/{name}/acquire"
        answer = wait_until(lambda n=node, p=path, t=tier: (a := n.request("POST", p, {**body, "tier": t})).status == 200
                            and a, "it is granted").json
        assert answer["acquired"] and answer["tier"] == tier, answer
    end = time.monotonic() + ttl_ms / 1000 + 1
    while time.monotonic() < end:  # beyond the TTL: the keep-alives count for both
        assert nodes[2].request("POST", f"/api/v1/sessions/{session}/keepalive").json["alive"]
        assert nodes[0].show("s-fast").json["held"] and nodes[0].show("s-safe").json["held"]
        time.sleep(0.3)
    assert nodes[1].request("DELETE", f"/api/v1/sessions/{session}").status == 200
    wait_until(lambda: not nodes[0].show("s-fast").json["held"], "the fast one is free")
    assert not nodes[0].show("s-safe").json["held"]
    gone = nodes[0].request("POST", "/api/v1/locks/s-fast/acquire", {**body, **FAST})
    assert gone.status == 410 and gone.code == "session_expired", gone


def test_a_dead_leader_takes_the_tier_with_it_and_holders_know(make_cluster):
    cluster = make_cluster(3)
    leader = cluster.leader()
    follower = cluster.followers()[0]
    safe = leader.acquire("kept", ttl_ms=600000).json
    fast = take(leader, "gone", ttl_ms=600000)
    ours, theirs = os.pipe()
    held = subprocess.Popen(
        [PROGRAM, "lock", "wrapped", "--tier", "efficiency", "--ttl", "6", "--status-fd", str(theirs), "--", "sleep",
         "600"], pass_fds=[theirs], env=environment(HOLDFAST_ENDPOINTS=endpoints(cluster)), stderr=subprocess.PIPE)
    os.close(theirs)
    wait_until(lambda: follower.show("wrapped").json["held"], "the command runs")
    assert follower.show("wrapped").json["tier"] == "EFFICIENCY"
    with concurrent.futures.ThreadPoolExecutor() as pool:
        wait = pool.submit(follower.acquire, "gone", client="next", wait_timeout_ms=60000, **FAST)
        wait_until(lambda: leader.show("gone").json["queue_length"] == 1, "it waits")
        leader.kill()
        new = cluster.leader(but=leader.id)
        # The wait is repeated and finds the lock free.
        answer = wait.result(PATIENCE).json
        assert answer["acquired"] and answer["fencing_token"] > fast["fencing_token"], answer
        assert answer["epoch"] > fast["epoch"]
    assert held.wait(allowed(20)) == 79, held.stderr.read()
    status = json.loads(os.read(ours, 4096))
    os.close(ours)
    held.stderr.close()
    assert status["lost"] and status["reason"] == "epoch", status
    assert not new.release("gone", fast["fencing_token"]).json["released"]
    assert new.show("kept").json["held"] and new.show("kept").json["tier"] == "CORRECTNESS"
    assert new.release("kept", safe["fencing_token"]).json["released"]


def test_a_wait_that_outlived_the_leader_is_still_the_same_request(make_cluster):
    """Its node submitted it again with the rest of the wait. The client, whose answer was lost, repeats the whole."""
    cluster = make_cluster(3)
    leader = cluster.leader()
    first, second = [node for node in cluster if node is not leader]
    take(leader, "once")
    request = {"client": "next", "wait_timeout_ms": 60000, "request_id": "once-1", **FAST}
    with concurrent.futures.ThreadPoolExecutor() as pool:
        wait = pool.submit(first.acquire, "once", **request)
        wait_until(lambda: leader.show("once").json["queue_length"] == 1, "it waits")
        assert leader.request("POST", "/api/v1/members/transfer", {}).status == 200
        granted = wait.result(PATIENCE).json
    assert granted["acquired"], granted
    again = second.acquire("once", **request)
    assert again.status == 200 and again.json["fencing_token"] == granted["fencing_token"], again


def test_without_a_majority_nothing_is_served(make_cluster):
    cluster = make_cluster(3)
    leader = cluster.leader()
    take(leader, "before", ttl_ms=600000)
    others = [node for node in cluster if node is not leader]
    for node in others:
        node.signal(signal.SIGSTOP)
    answer = wait_until(lambda: (a := leader.acquire(f"cut-{time.monotonic()}", **FAST)).status == 503 and a,
                        "it is refused")
    assert answer.code == "unavailable"
    for node in others:
        node.signal(signal.SIGCONT)
    wait_until(lambda: leader.acquire("after", request_id="after", **FAST).status == 200, "it is served again")


def test_the_flag_of_the_command_line_is_checked(make_cluster):
    cluster = make_cluster(1)
    wrong = run_cli(list(cluster), "lock", "x", "--tier", "quick", "--", "true")
    assert wrong.returncode == 64 and "correctness or efficiency" in wrong.stderr, wrong
    assert good(list(cluster), "lock", "x", "--tier", "EFFICIENCY", "--", "echo", "ran") == "ran\n"

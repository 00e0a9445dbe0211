"""The lines of the log about locks have fields that are true; what operators do is a warning, once."""

import json

import pytest

from cli_support import cluster, good, run_cli  # noqa: F401  (a fixture)
from harness import wait_until

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def lines_of(cluster, event, resource=None):  # noqa: F811
    """From every node."""
    return [(node.id, line) for node in cluster for line in node.events(event)
            if resource is None or line.get("resource") == resource]


@pytest.fixture
def talkative(cluster):  # noqa: F811
    """Every node logs grants and releases during the test."""
    for node in cluster:
        assert node.request("PUT", "/api/v1/log-level", {"log_level": "lock=info"}).status == 200
    yield cluster
    for node in cluster:
        assert node.request("PUT", "/api/v1/log-level", {"log_level": "lock=warn"}).status == 200


@pytest.mark.parametrize("tier", ["CORRECTNESS", "EFFICIENCY"])
@pytest.mark.parametrize("ttl_ms, seconds", [(60000, 60), (1500, 1.5)])
def test_a_grant_has_the_requested_ttl(talkative, tier, ttl_ms, seconds):
    name = f"ttl-{tier}-{ttl_ms}"
    answer = talkative.followers()[0].acquire(name, "ann", ttl_ms, tier=tier, trace=TRACE).json
    line = talkative.leader().wait_event("lock_acquired", resource=name)[0]
    assert line["ttlSeconds"] == seconds and line["tier"] == tier and line["trace"] == TRACE, line
    assert line["fencingToken"] == answer["fencing_token"] and line["ownerId"] == line["clientId"] == "ann", line
    assert len(lines_of(talkative, "lock_acquired", name)) == 1


def assert_failed_renewal(leader, name, token, tier):
    expired = leader.wait_event("lock_expired", resource=name)[0]
    assert expired["ended"] == "expired" and 1 <= expired["heldSeconds"] < 30, expired
    yield expired
    line = leader.wait_event("renewal_failed", resource=name)[0]
    assert line["ownerId"] == "job-3" and line["leaseId"] == expired["leaseId"], line
    assert line["fencingToken"] == token and line["tier"] == tier and line["reason"] == "expired", line
    assert "ttlSeconds" not in line


@pytest.mark.parametrize("tier", ["CORRECTNESS", "EFFICIENCY"])
def test_a_renewal_after_the_end_names_resource_owner_and_lease(talkative, tier):
    name, leader = f"late-{tier}", talkative.leader()
    token = leader.acquire(name, "job-3", 1000, tier=tier).json["fencing_token"]
    for _ in assert_failed_renewal(leader, name, token, tier):
        answer = leader.request("POST", f"/api/v1/locks/{name}/renew", {"client_id": "job-3", "fencing_token": token})
        assert answer.json["renewed"] is False, answer


def test_a_renewal_by_a_lease_id_alone_does_too(talkative):
    leader = talkative.leader()
    body = {"resource": "late-lease", "ownerId": "job-3", "ttlSeconds": 1}
    granted = leader.request("POST", "/v1/locks/acquire", body).json
    for expired in assert_failed_renewal(leader, "late-lease", granted["fencingToken"], "CORRECTNESS"):
        assert expired["leaseId"] == granted["leaseId"]
        answer = leader.request("POST", f"/v1/locks/{granted['leaseId']}/renew", {"ttlSeconds": 5})
        assert answer.json["renewed"] is False, answer


def test_a_renewal_after_the_release_does_too(talkative):
    leader = talkative.leader()
    granted = leader.acquire("gone", "ann").json
    assert leader.release("gone", granted["fencing_token"], "ann").json["released"]
    answer = leader.request("POST", "/api/v1/locks/gone/renew",
                            {"client_id": "ann", "fencing_token": granted["fencing_token"]})
    assert answer.json["reason"] == "already_released", answer
    line = leader.wait_event("renewal_failed", resource="gone")[0]
    assert line["ownerId"] == "ann" and line["leaseId"] and line["tier"] == "CORRECTNESS", line


def test_an_unknown_token_has_no_tier(talkative):
    leader = talkative.leader()
    answer = leader.request("POST", "/api/v1/locks/never/renew", {"client_id": "ann", "fencing_token": 987654321})
    assert answer.json["reason"] == "not_owner", answer
    line = leader.wait_event("renewal_failed", resource="never")[0]
    assert line["clientId"] == "ann" and line["fencingToken"] == 987654321 and line["reason"] == "not_owner", line
    assert not {"tier", "ownerId", "leaseId", "ttlSeconds"} & set(line), line


@pytest.mark.sanitized
def test_what_an_operator_does_is_a_warning_of_the_leader(cluster):  # noqa: F811
    """At the default levels, through a follower, for both tiers."""
    for tier in ("CORRECTNESS", "EFFICIENCY"):
        name = f"forced-{tier}"
        granted = cluster.followers()[0].acquire(name, "ann", tier=tier, trace=TRACE).json
        good(cluster, "force-unlock", name, "--reason", "its machine burns", "--actor", "eve")
        leader = cluster.leader()
        line = leader.wait_event("lock_forced", resource=name)[0]
        assert line["level"] == "warn" and line["actorId"] == "eve" and line["reason"] == "its machine burns", line
        assert line["fencingToken"] == granted["fencing_token"] and line["clientId"] == "ann", line
        assert line["tier"] == tier and line["trace"] == TRACE, line
        assert [node for node, _ in lines_of(cluster, "lock_forced", name)] == [leader.id]


def test_a_revocation_is_two_warnings(cluster):  # noqa: F811
    granted = cluster.followers()[0].acquire("revoked", "ann").json
    good(cluster, "revoke", "revoked", "--reason", "maintenance", "--actor", "eve", "--deadline", "0.2")
    leader = cluster.leader()
    for event in ("revoke_requested", "lock_revoked"):
        line = leader.wait_event(event, resource="revoked")[0]
        assert line["level"] == "warn" and line["actorId"] == "eve" and line["reason"] == "maintenance", line
        assert line["fencingToken"] == granted["fencing_token"], line
        assert [node for node, _ in lines_of(cluster, event, "revoked")] == [leader.id]
    assert leader.events("revoke_requested")[-1]["graceSeconds"] == 0.2


def test_a_force_unlock_of_many_holders_is_few_lines(cluster):  # noqa: F811
    leader = cluster.leader()
    for i in range(40):
        assert leader.acquire("many-readers", f"reader-{i}", mode="shared").json["acquired"]
    good(cluster, "force-unlock", "many-readers", "--reason", "drill")
    more = leader.wait_event("more_holders_forced", resource="many-readers")[0]
    assert more["logged"] == 16 and "holdfast audit" in more["next"]
    assert len(lines_of(cluster, "lock_forced", "many-readers")) == 16
    wait_until(lambda: "holder" not in leader.show("many-readers").json, "all are gone")
    record = json.loads(good(cluster, "audit", "--json"))["records"][-1]
    assert record["resource"] == "many-readers" and record["holders"] == 40, record

"""Quotas of tenants (S15): what is refused, with which error, what passes, and that other tenants do not notice."""

import json
import subprocess
import threading
import time

import pytest
import redis

from auth_support import bearer, policy, secure_cluster
from grpc_support import channel_to, grpc, stubs  # noqa: F401, pylint: disable=unused-import
from harness import run, wait_until
from resp_support import connect, error_word

POLICY = "/api/v1/auth/policy"


def call(node, who, method, path, body=None):
    """As that of auth_support, for several threads."""
    return node.request(method, path, body, headers=bearer(node.tokens[who]))


def set_quotas(node, tenant="red", **quotas):
    """The whole policy again, with other quotas."""
    document = policy()
    for row in document["tenants"]:
        if row["name"] == tenant:
            row["quotas"] = quotas
    answer = node.request("PUT", POLICY, document)
    assert answer.status == 200, answer


def acquire(node, name, who="red/lock", **more):
    body = {"client_id": more.pop("client_id", "c"), "ttl_ms": 60000, **more}
    return call(node, who, "POST", f"/api/v1/locks/app/{name}/acquire", body)


def release(node, name, token, who="red/lock", client="c"):
    return call(node, who, "POST", f"/api/v1/locks/app/{name}/release", {"client_id": client, "fencing_token": token})


def tenant(node, name="red", who=None):
    answer = node.request("GET", "/api/v1/auth/tenants") if who is None else call(node, who, "GET", "/api/v1/auth/tenants")
    assert answer.status == 200, answer
    return next(row for row in answer.json["tenants"] if row["name"] == name)


def assert_over(answer, quota, limit):
    assert answer.status == 429 and answer.code == "quota_exceeded", answer
    error = answer.json["error"]
    assert error["quota"] == quota and error["limit"] == limit
    assert f"quota {quota} of tenant red is reached ({limit})" in error["message"]
    assert int(answer.headers["Retry-After"]) >= 1


@pytest.fixture
def cluster(make_cluster):
    return secure_cluster(make_cluster, 3)


def on_both(cluster):
    """The leader, and a node that forwards to it, as `call` needs them."""
    leader = cluster.leader()
    follower = next(node for node in cluster if node is not leader)
    for node in cluster:
        node.tokens = cluster.tokens
    return leader, follower


@pytest.fixture
def node(make_cluster):
    cluster = secure_cluster(make_cluster, 1)
    only = cluster.nodes[1]
    only.tokens = cluster.tokens
    return only


def test_quota_of_locks_holds_in_the_cluster(cluster):
    leader, follower = on_both(cluster)
    set_quotas(leader, locks=4)
    tokens = {}
    for number in range(4):
        through = follower if number % 2 else leader
        answer = acquire(through, f"a{number}")
        assert answer.json["acquired"], answer
        tokens[f"a{number}"] = answer.json["fencing_token"]
    for through in (leader, follower):
        assert_over(acquire(through, "more"), "locks", 4)
        assert acquire(through, "a1", client_id="other").json["acquired"] is False  # a name that is there
        assert acquire(through, "more", who="blue/lock").status == 200
    row = tenant(leader)
    assert row["quotas"]["locks"] == 4 and row["usage"]["locks"] == 4
    assert release(follower, "a0", tokens["a0"]).status == 200
    assert acquire(follower, "more").json["acquired"]


def test_both_tiers_count(node):
    set_quotas(node, locks=2)
    answer = acquire(node, "quick", tier="EFFICIENCY")
    assert answer.status == 200 and answer.json["acquired"], answer
    assert acquire(node, "durable").json["acquired"]
    assert_over(acquire(node, "more"), "locks", 2)
    assert_over(acquire(node, "more", tier="EFFICIENCY"), "locks", 2)
    assert tenant(node)["usage"]["locks"] == 2


def test_many_clients_at_once_do_not_exceed_a_quota(cluster):
    leader, follower = on_both(cluster)
    set_quotas(leader, locks=10)
    outcomes = []

    def take(through, first):
        for number in range(first, first + 20):
            outcomes.append(acquire(through, f"n{number}", client_id=f"c{number}").status)

    threads = [threading.Thread(target=take, args=(through, 100 * i)) for i, through in enumerate([leader, follower] * 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(set(outcomes)) == [200, 429]
    assert outcomes.count(200) == 10
    assert tenant(leader)["usage"]["locks"] == 10


def test_sessions_waiters_and_bytes(node):
    set_quotas(node, sessions=2)
    for _ in range(2):
        assert call(node, "red/lock", "POST", "/api/v1/sessions", {"client_id": "c", "ttl_ms": 60000}).status == 200
    refused = call(node, "red/lock", "POST", "/api/v1/sessions", {"client_id": "c", "ttl_ms": 60000})
    assert_over(refused, "sessions", 2)
    assert_over(acquire(node, "alone"), "sessions", 2)  # a lock without a session has a private one
    set_quotas(node, waiters=1)
    held = acquire(node, "held").json["fencing_token"]
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(acquire(node, "held", client_id="w", wait_timeout_ms=60000)))
    waiting.start()
    wait_until(lambda: tenant(node)["usage"]["waiters"] == 1, "the request waits")
    assert_over(acquire(node, "held", client_id="x", wait_timeout_ms=60000), "waiters", 1)
    assert acquire(node, "free", wait_timeout_ms=60000).json["acquired"]  # it does not wait
    assert release(node, "held", held).status == 200
    waiting.join()
    assert answers[0].json["acquired"]
    set_quotas(node, state_bytes=tenant(node)["usage"]["state_bytes"] + 20000)
    large = json.dumps("m" * 4000)
    refused = next(answer for answer in (acquire(node, f"b{i}", metadata=json.loads(large)) for i in range(100))
                   if answer.status != 200)
    assert refused.json["error"]["quota"] == "state_bytes"
    row = tenant(node)
    assert row["usage"]["state_bytes"] <= row["quotas"]["state_bytes"]


def test_what_ends_something_passes_at_a_quota(node):
    opened = call(node, "red/lock", "POST", "/api/v1/sessions", {"client_id": "c", "ttl_ms": 60000}).json["session_id"]
    token = acquire(node, "a").json["fencing_token"]
    acquire(node, "b")
    retried = acquire(node, "r", request_id="same").json["fencing_token"]
    set_quotas(node, locks=1, sessions=1, waiters=1, state_bytes=1)
    assert acquire(node, "more").status == 429
    assert call(node, "red/lock", "POST", f"/api/v1/sessions/{opened}/keepalive").status == 200
    renewed = call(node, "red/lock", "POST", "/api/v1/locks/app/a/renew", {"client_id": "c", "fencing_token": token})
    assert renewed.status == 200
    again = acquire(node, "r", request_id="same")
    assert again.status == 200 and again.json["fencing_token"] == retried
    forced = call(node, "red/admin", "POST", "/api/v1/locks/app/b/force-unlock", {"actor_id": "olga", "reason": "test"})
    assert forced.status == 200
    assert release(node, "a", token).status == 200
    assert call(node, "red/lock", "DELETE", f"/api/v1/sessions/{opened}").status == 200


def test_requests_a_second(cluster):
    leader, follower = on_both(cluster)
    set_quotas(leader, requests_per_second=20)
    time.sleep(1.1)  # the bucket is full
    began = time.monotonic()
    answers = [acquire(leader if i % 2 else follower, f"n{i}") for i in range(60)]
    took = time.monotonic() - began
    admitted = sum(answer.status == 200 for answer in answers)
    assert 20 <= admitted <= 20 + 20 * took + 1
    refused = next(answer for answer in answers if answer.status == 429)
    assert_over(refused, "requests_per_second", 20)
    error = refused.json["error"]
    assert 1 <= error["retry_after_ms"] <= 100 and "request_id" in error["message"]
    token = next(answer for answer in answers if answer.status == 200).json["fencing_token"]
    name = f"n{next(i for i, answer in enumerate(answers) if answer.status == 200)}"
    assert release(leader, name, token).status == 200  # it passes
    assert acquire(leader, "n", who="blue/lock").status == 200
    time.sleep(error["retry_after_ms"] / 1000 + 0.2)
    assert acquire(leader, "later").status == 200


def test_reads_of_a_node_have_their_own_rate(node):
    set_quotas(node, requests_per_second=10)
    statuses = [call(node, "red/read", "GET", "/api/v1/locks/app/a?stale=true").status for _ in range(40)]
    assert statuses[:10] == [200] * 10 and 429 in statuses
    assert acquire(node, "a").status == 200  # commands are counted by the leader
    assert call(node, "blue/read", "GET", "/api/v1/locks/app/a").status == 200
    assert node.request("GET", "/readyz").status == 200


def test_watchers_of_a_node(node):
    set_quotas(node, watchers=1)
    first = subprocess.Popen(["curl", "-s", "-N", "-H", f"Authorization: Bearer {node.tokens['red/read']}",
                              f"http://127.0.0.1:{node.client_port}/api/v1/watch"], stdout=subprocess.PIPE, text=True)
    try:
        assert first.stdout.readline()
        assert_over(call(node, "red/read", "GET", "/api/v1/watch"), "watchers", 1)
        assert tenant(node)["usage"]["watchers"] == 1
    finally:
        first.kill()
        first.wait()
    wait_until(lambda: tenant(node)["usage"]["watchers"] == 0, "the watch has ended")


def test_redis_clients_get_oom(node):
    client = connect(node, username="red/lock", password=node.tokens["red/lock"])
    set_quotas(node, locks=1)
    assert client.set("app/a", "v")
    with pytest.raises(redis.exceptions.RedisError) as refused:
        client.set("app/b", "v")
    assert "quota locks of tenant red is reached (1)" in str(refused.value)
    with pytest.raises(redis.exceptions.RedisError):
        client.set("app/b", "v", nx=True, px=60000)
    assert client.set("app/a", "w") and client.get("app/a") == "w"
    assert client.delete("app/a") == 1
    assert client.set("app/b", "v", nx=True, px=60000)
    set_quotas(node, watchers=1)
    reader = connect(node, username="red/read", password=node.tokens["red/read"])
    first, second = reader.pubsub(), reader.pubsub()
    first.subscribe("app/x")
    assert first.get_message(timeout=5)["type"] == "subscribe"
    second.subscribe("app/y")
    with pytest.raises(redis.exceptions.RedisError) as refused:
        second.get_message(timeout=5)
    assert error_word(refused.value) in ("OOM", "quota")


def test_grpc_clients_get_resource_exhausted(node, stubs):  # noqa: F811
    set_quotas(node, locks=1)
    with channel_to(node) as channel:
        lock = stubs.lock_grpc.LockServiceStub(channel)
        metadata = (("authorization", f"Bearer {node.tokens['red/lock']}"),)

        assert lock.Lock(stubs.lock.LockRequest(resource_id="app/a", client_id="c"), metadata=metadata).acquired
        with pytest.raises(grpc.RpcError) as refused:
            lock.Lock(stubs.lock.LockRequest(resource_id="app/b", client_id="c"), metadata=metadata)
    assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    trailers = dict(refused.value.trailing_metadata())
    assert trailers["holdfast-error-code"] == "quota_exceeded" and trailers["holdfast-quota"] == "locks"
    assert trailers["grpc-retry-pushback-ms"] == "1000"
    assert "quota locks of tenant red" in refused.value.details()


def test_quotas_and_their_use_are_shown(node):
    set_quotas(node, locks=3, requests_per_second=50)
    for name in ("a", "b", "c", "d"):
        acquire(node, name)
    assert [row["name"] for row in call(node, "red/lock", "GET", "/api/v1/auth/tenants").json["tenants"]] == ["red"]
    assert len(node.request("GET", "/api/v1/auth/tenants").json["tenants"]) == 3
    shown = run("auth", "tenants", "--endpoints", f"127.0.0.1:{node.client_port}", "--token-file",
                token_file(node, "default/root"))
    line = next(line for line in shown.stdout.splitlines() if line.startswith("red"))
    assert "3 of 3" in line and line.rstrip().endswith("50")
    page = node.request("GET", "/metrics").text
    assert 'holdfast_tenant_used{tenant="red",quota="locks"} 3' in page
    assert 'holdfast_tenant_quota{tenant="red",quota="locks"} 3' in page
    assert 'holdfast_tenant_refused_total{tenant="red",quota="locks"} 1' in page
    assert "blue" not in page


def token_file(node, principal):
    path = node.folder.parent / f"{principal.replace('/', '-')}.token"
    path.write_text(node.tokens[principal] + "\n")
    path.chmod(0o600)
    return str(path)


def test_a_new_leader_keeps_the_quotas(cluster):
    leader, follower = on_both(cluster)
    set_quotas(leader, locks=2)
    assert acquire(leader, "a").json["acquired"] and acquire(leader, "b").json["acquired"]
    leader.kill()
    wait_until(lambda: acquire(follower, "c").status == 429, "the new leader refuses")
    assert_over(acquire(follower, "c"), "locks", 2)


def test_without_auth_there_are_no_quotas(make_cluster):
    node = make_cluster(1).nodes[1]
    document = {"tenants": [{"name": "default", "quotas": {"locks": 1, "requests_per_second": 1}}], "principals": []}
    wait_until(lambda: node.request("PUT", POLICY, document).status == 200, "the policy is applied")
    for number in range(20):
        assert node.acquire(f"n{number}").json["acquired"]

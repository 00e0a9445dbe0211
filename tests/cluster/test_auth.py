"""Tokens, tenants and rights over HTTP, gRPC and the Redis protocol, with auth = on."""

import json
import subprocess
import threading
import time

import grpc
import pytest
import redis

from auth_support import bearer, call, secure_cluster
from grpc_support import channel_to, stubs  # noqa: F401
from harness import PATIENCE, allowed, wait_until
from resp_support import connect, error_word

ACQUIRE = "/api/v1/locks/{}/acquire"
BODY = {"client_id": "c", "ttl_ms": 30000}


@pytest.fixture
def cluster(make_cluster):
    made = secure_cluster(make_cluster, 1)
    for node in made:
        node.tokens = made.tokens
    return made


@pytest.fixture
def node(cluster):
    return cluster.nodes[1]


def curl(node, path, *words):
    """Status, headers and body, by the real curl."""
    done = subprocess.run(["curl", "-s", "-i", "--max-time", str(int(PATIENCE)), *words,
                           f"http://127.0.0.1:{node.client_port}{path}"], capture_output=True, text=True, check=True)
    head, _, body = done.stdout.partition("\n\n")
    return int(head.split()[1]), head.lower(), body


def test_request_without_credentials_is_refused(node):
    status, head, body = curl(node, "/api/v1/locks")
    assert status == 401
    assert 'www-authenticate: bearer realm="holdfast"' in head
    assert json.loads(body)["error"]["code"] == "unauthenticated"
    assert curl(node, "/livez")[0] == 200
    assert curl(node, "/readyz")[0] == 200
    assert curl(node, "/metrics")[0] == 401


def test_token_names_its_principal(node):
    status, _, body = curl(node, "/api/v1/auth/whoami", "-H", f"Authorization: Bearer {node.tokens['red/lock']}")
    assert status == 200
    assert json.loads(body) == {"principal": "red/lock", "tenant": "red", "by": "token", "expires_at": None}


def test_wrong_token_is_refused_after_a_barrier_and_learns_nothing(node):
    for words in (["-H", "Authorization: Bearer hf_wrong"], ["-H", "Authorization: Basic abcd"],
                  ["-H", "Authorization: Bearer " + "x" * 300]):
        status, _, body = curl(node, "/api/v1/auth/whoami", *words)
        assert status == 401
        assert "wrong" not in body and "abcd" not in body
    assert "hf_wrong" not in node.log()


def test_further_failures_of_an_address_are_delayed_and_others_are_served(node):
    began = time.monotonic()
    for _ in range(6):
        assert call_raw(node, "hf_nobody").status == 401
    assert time.monotonic() - began > 0.3  # 100, 200 ms after the third failure
    began = time.monotonic()
    assert call(node, "red/lock", "GET", "/api/v1/auth/whoami").status == 200
    assert time.monotonic() - began < allowed(1)


def call_raw(node, token, method="GET", path="/api/v1/auth/whoami", body=None):
    return node.request(method, path, body, headers=bearer(token))


def test_rights_decide_and_a_denial_names_them(node):
    assert call(node, "red/lock", "POST", ACQUIRE.format("app/a"), BODY).json["acquired"]
    denied = call(node, "red/lock", "POST", ACQUIRE.format("other"), BODY)
    assert (denied.status, denied.code) == (403, "denied")
    message = denied.json["error"]["message"]
    assert "red/lock" in message and "lock" in message and "other" in message
    assert call(node, "red/read", "POST", ACQUIRE.format("app/b"), BODY).status == 403
    assert call(node, "red/read", "GET", "/api/v1/locks/app/a").json["held"]
    assert call(node, "red/none", "GET", "/api/v1/locks/app/a").status == 403
    operate = {"actor_id": "me", "reason": "test"}
    assert call(node, "red/lock", "POST", "/api/v1/locks/app/a/force-unlock", operate).status == 403
    assert call(node, "red/operate", "POST", "/api/v1/locks/app/a/force-unlock", operate).status == 200


def test_multi_lock_needs_all_names(node):
    body = {**BODY, "names": ["app/a", "b"]}
    denied = call(node, "red/lock", "POST", "/api/v1/multilock/acquire", body)
    assert denied.status == 403 and " b " in denied.json["error"]["message"]
    assert call(node, "red/lock", "POST", "/api/v1/multilock/acquire", {**BODY, "names": ["app/a", "app/b"]}).status == 200


def test_tenants_do_not_see_each_other(node):
    assert call(node, "red/lock", "POST", ACQUIRE.format("app/a"), BODY).json["acquired"]
    assert call(node, "blue/lock", "POST", ACQUIRE.format("app/a"), BODY).json["acquired"]
    assert call(node, "blue/lock", "POST", ACQUIRE.format("app/secret"), BODY).json["acquired"]
    rows = call(node, "red/admin", "GET", "/api/v1/locks").json["locks"]
    assert [row["name"] for row in rows] == ["app/a"]
    denied = call(node, ("red/admin", "blue"), "GET", "/api/v1/locks")
    unknown = call(node, ("red/admin", "green"), "GET", "/api/v1/locks")
    assert denied.status == unknown.status == 403
    assert denied.json["error"]["message"].replace("blue", "green") == unknown.json["error"]["message"]
    assert len(call(node, ("default/root", "blue"), "GET", "/api/v1/locks").json["locks"]) == 2


def test_list_has_only_what_the_caller_may_read(node):
    assert call(node, "red/admin", "POST", ACQUIRE.format("hidden"), BODY).json["acquired"]
    assert call(node, "red/admin", "POST", ACQUIRE.format("app/a"), BODY).json["acquired"]
    rows = call(node, "red/read", "GET", "/api/v1/locks").json["locks"]
    assert [row["name"] for row in rows] == ["app/a"]
    assert call(node, "red/none", "GET", "/api/v1/locks").status == 403


def revoke(node, principal):
    rows = node.request("GET", f"/api/v1/auth/tokens?principal={principal}").json["tokens"]
    assert len(rows) == 1
    assert node.request("DELETE", f"/api/v1/auth/tokens/{rows[0]['number']}").status == 200


def test_revoked_token_ends_its_watch_and_its_wait(node):
    assert call(node, "red/admin", "POST", ACQUIRE.format("app/a"), BODY).json["acquired"]
    answers = []

    def wait():
        answers.append(call_raw(node, node.tokens["red/lock"], "POST", ACQUIRE.format("app/a"),
                                {**BODY, "client_id": "w", "wait_timeout_ms": 60000}))

    waiting = threading.Thread(target=wait)
    waiting.start()
    wait_until(lambda: node.request("GET", "/api/v1/locks/app/a", headers={"Holdfast-Tenant": "red"}).json["queue_length"] == 1,
               "the request waits")
    watch = subprocess.Popen(["curl", "-s", "-N", "-H", f"Authorization: Bearer {node.tokens['red/lock']}",
                              f"http://127.0.0.1:{node.client_port}/api/v1/watch"], stdout=subprocess.PIPE, text=True)
    assert "ready" in watch.stdout.readline() + watch.stdout.readline()
    began = time.monotonic()
    revoke(node, "red/lock")
    waiting.join(PATIENCE)
    assert answers[0].status == 403 and answers[0].code == "denied"
    rest, _ = watch.communicate(timeout=PATIENCE)
    assert "revoked" in rest
    assert time.monotonic() - began < allowed(2)
    assert call_raw(node, node.tokens["red/lock"]).status == 401
    assert call(node, "red/read", "GET", "/api/v1/auth/whoami").status == 200


def test_token_expires_by_the_clock(node):
    made = node.request("POST", "/api/v1/auth/tokens", {"principal": "red/lock", "ttl_seconds": 2})
    token = made.json["token"]
    watch = subprocess.Popen(["curl", "-s", "-N", "-H", f"Authorization: Bearer {token}",
                              f"http://127.0.0.1:{node.client_port}/api/v1/watch"], stdout=subprocess.PIPE, text=True)
    assert "ready" in watch.stdout.readline() + watch.stdout.readline()
    rest, _ = watch.communicate(timeout=PATIENCE)
    assert "expired" in rest
    answer = call_raw(node, token)
    assert answer.status == 401 and "expired" in answer.json["error"]["message"]


def test_tenant_administrator_makes_tokens_of_its_tenant_only(node):
    assert call(node, "red/admin", "POST", "/api/v1/auth/tokens", {"principal": "red/lock"}).status == 200
    assert call(node, "red/admin", "POST", "/api/v1/auth/tokens", {"principal": "blue/lock"}).status == 403
    assert call(node, "red/lock", "POST", "/api/v1/auth/tokens", {"principal": "red/lock"}).status == 403
    rows = call(node, "red/admin", "GET", "/api/v1/auth/tokens").json["tokens"]
    assert rows and all(row["principal"].startswith("red/") for row in rows)
    assert call(node, "red/admin", "GET", "/api/v1/auth/policy").status == 403


def test_policy_is_replaced_by_its_difference(node):
    document = node.request("GET", "/api/v1/auth/policy").json
    same = node.request("PUT", "/api/v1/auth/policy?dry_run=true", document)
    assert same.json["changes"] == [], same
    document["tenants"].append({"name": "green"})
    document["principals"] = [row for row in document["principals"] if row["name"] != "none"]
    dry = node.request("PUT", "/api/v1/auth/policy?dry_run=true", document).json
    assert dry["changes"] == ["add tenant green", "remove principal blue/none", "remove principal red/none"]
    done = node.request("PUT", "/api/v1/auth/policy", document).json
    assert done["changes"] == dry["changes"] and done["version"] == dry["version"] + 1
    assert node.request("PUT", "/api/v1/auth/policy", document).code == "policy_conflict"
    for wrong in ({"tenant": []}, {"principals": [{"tenant": "red", "name": "x", "grant": []}]},
                  {"principals": [{"tenant": "red", "name": "x"}] * 2}, []):
        assert node.request("PUT", "/api/v1/auth/policy", wrong).code == "invalid_policy"


def test_explain_says_why(node):
    path = "/api/v1/auth/explain?principal=red/lock&right=lock&name="
    assert node.request("GET", path + "app/a").json["allowed"]
    answer = node.request("GET", path + "b").json
    assert not answer["allowed"] and "red/lock" in answer["because"]
    assert call(node, "red/lock", "GET", path + "app/a").status == 200
    assert call(node, "blue/lock", "GET", path + "app/a").code == "policy_not_found"


def test_grpc_takes_the_token_from_its_metadata(node, stubs):  # noqa: F811
    with channel_to(node) as channel:
        lock = stubs.lock_grpc.LockServiceStub(channel)
        request = stubs.lock.LockRequest(resource_id="app/g", client_id="c")
        for metadata, code in (((), "UNAUTHENTICATED"), ((("authorization", "Bearer hf_no"),), "UNAUTHENTICATED"),
                               ((("authorization", f"Bearer {node.tokens['red/read']}"),), "PERMISSION_DENIED")):
            with pytest.raises(grpc.RpcError) as error:
                lock.Lock(request, metadata=metadata)
            assert error.value.code().name == code
        metadata = (("authorization", f"Bearer {node.tokens['red/lock']}"),)
        assert lock.Lock(request, metadata=metadata).acquired


def test_redis_client_authenticates_with_its_token(node):
    with pytest.raises(redis.exceptions.AuthenticationError):
        connect(node).ping()
    with pytest.raises(redis.exceptions.RedisError):
        connect(node, username="red/lock", password="hf_wrong").ping()
    with pytest.raises(redis.exceptions.RedisError):
        connect(node, username="blue/lock", password=node.tokens["red/lock"]).ping()
    client = connect(node, username="red/lock", password=node.tokens["red/lock"])
    assert client.set("app/r", "1", nx=True, ex=30)
    assert connect(node, password=node.tokens["red/lock"]).get("app/r") == "1"
    with pytest.raises(redis.exceptions.NoPermissionError):
        client.set("other", "1", nx=True, ex=30)
    with pytest.raises(redis.exceptions.NoPermissionError):
        client.get("other")
    other = connect(node, username="blue/lock", password=node.tokens["blue/lock"])
    assert other.get("app/r") is None
    assert list(other.scan_iter()) == [] and list(client.scan_iter()) == ["app/r"]
    root = connect(node, username="red:default/root", password=node.tokens["default/root"])
    assert root.get("app/r") == "1"
    reader = connect(node, username="red/read", password=node.tokens["red/read"])
    assert reader.get("app/r") == "1"
    with pytest.raises(redis.exceptions.RedisError) as error:
        reader.delete("app/r")
    assert error_word(error.value) == "NOPERM" or "lock" in str(error.value) or "operate" in str(error.value)


def test_redis_cli_hello_with_auth(node):
    words = ["redis-cli", "-3", "-p", str(node.resp_port), "--user", "red/lock", "--pass", node.tokens["red/lock"],
             "--no-auth-warning", "SET", "app/cli", "v", "NX", "EX", "30"]
    assert subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=True).stdout.strip() == "OK"


def test_revoked_redis_connection_is_closed(node):
    client = connect(node, username="red/lock", password=node.tokens["red/lock"])
    assert client.ping()
    pubsub = client.pubsub()
    pubsub.subscribe("app/channel")
    assert pubsub.get_message(timeout=PATIENCE)["type"] == "subscribe"
    revoke(node, "red/lock")
    with pytest.raises(redis.exceptions.RedisError):
        wait_until(lambda: not client.ping(), "the connection is refused")


def test_state_of_an_older_version_is_named(make_cluster):
    """Until the state has version 6, requests are refused and health is served."""
    node = make_cluster(1, "--auth", "on").nodes[1]
    assert node.request("GET", "/livez").status == 200
    wait_until(lambda: node.request("GET", "/api/v1/locks").status == 401, "the state is upgraded")


def test_node_without_a_leader_answers_policy_stale(make_cluster):
    made = secure_cluster(make_cluster, 3)
    for node in made:
        node.tokens = made.tokens
    alone = made.followers()[0]
    for node in made:
        if node is not alone:
            node.kill()
    wait_until(lambda: call(alone, "red/lock", "GET", "/api/v1/locks?stale=true").code == "policy_stale",
               "the policy counts as stale")
    assert call(alone, None, "GET", "/livez").status == 200
    client = connect(alone)
    with pytest.raises(redis.exceptions.RedisError) as error:
        client.execute_command("PING")
    assert "leader" in str(error.value)

"""What ends when a principal loses its token, its rights or itself; who owns a session or a lock. With auth = on."""

import http.client
import json
import queue
import socket
import threading
import time

import grpc
import pytest
import redis

from auth_support import bearer, call, grant, secure_cluster
from grpc_support import channel_to, stubs  # noqa: F401
from harness import PATIENCE, allowed, run, wait_until
from resp_support import connect

ACQUIRE = "/api/v1/locks/{}/acquire"
LOCK = "/api/v1/locks/{}"
BODY = {"client_id": "c", "ttl_ms": 60000}
KNOWN_S = 1  # from the moment when a node knows to the end of what it has open


@pytest.fixture
def cluster(make_cluster):
    made = secure_cluster(make_cluster, 3)
    for node in made:
        node.tokens = made.tokens
    return made


@pytest.fixture
def node(make_cluster):
    made = secure_cluster(make_cluster, 1)
    made.nodes[1].tokens = made.tokens
    return made.nodes[1]


def revoke(node, principal):
    for row in node.request("GET", f"/api/v1/auth/tokens?principal={principal}").json["tokens"]:
        assert node.request("DELETE", f"/api/v1/auth/tokens/{row['number']}").status == 200


def change_policy(node, change, query=""):
    document = node.request("GET", "/api/v1/auth/policy").json
    change(document)
    answer = node.request("PUT", f"/api/v1/auth/policy{query}", document)
    assert answer.status == 200, answer
    return answer.json


def narrow(document, tenant, name, *grants):
    for row in document["principals"]:
        if (row["tenant"], row["name"]) == (tenant, name):
            row["grants"] = list(grants)


def remove(document, tenant, name):
    document["principals"] = [row for row in document["principals"] if (row["tenant"], row["name"]) != (tenant, name)]


def kept_connection(node, principal):
    """A connection of HTTP/1.1 that has made a request."""
    connection = http.client.HTTPConnection("127.0.0.1", node.client_port, timeout=PATIENCE)
    connection.request("GET", "/api/v1/auth/whoami", headers=bearer(node.tokens[principal]))
    assert connection.getresponse().read()
    return connection


def open_session(node, stubs, principal):  # noqa: F811
    """Its calls, its answers, and the code with which it ends; all in queues."""
    requests, answers = queue.Queue(), queue.Queue()
    channel = channel_to(node)
    stub = stubs.lock_grpc.LockServiceStub(channel)
    stream = stub.Session(iter(requests.get, None), metadata=(("authorization", f"Bearer {node.tokens[principal]}"),))
    requests.put(stubs.lock.SessionRequest(open={"client_id": "s"}))

    def listen():
        try:
            for answer in stream:
                answers.put(answer)
            answers.put(None)
        except grpc.RpcError as error:
            answers.put(error.code().name)

    threading.Thread(target=listen, daemon=True).start()
    return requests, answers, answers.get(timeout=PATIENCE).opened.session_id


@pytest.mark.sanitized
def test_everything_of_a_revoked_token_ends_on_every_node(cluster, stubs):  # noqa: F811
    """Through another node than the one that has the connections."""
    follower, other = cluster.followers()[0], cluster.leader()
    assert call(other, "red/admin", "POST", ACQUIRE.format("app/a"), BODY).json["acquired"]
    kept = kept_connection(follower, "red/lock")
    unaffected = kept_connection(follower, "red/read")
    _, answers, _ = open_session(follower, stubs, "red/lock")
    client = connect(follower, username="red/lock", password=follower.tokens["red/lock"])
    assert client.ping()
    ended = queue.Queue()

    def wait_http():
        answer = call(follower, "red/lock", "POST", ACQUIRE.format("app/a"), {**BODY, "wait_timeout_ms": 60000})
        ended.put(("http", answer.code))

    def wait_grpc():
        with channel_to(follower) as channel:
            request = stubs.lock.LockRequest(resource_id="app/a", client_id="g", wait_timeout={"seconds": 60})
            try:
                stubs.lock_grpc.LockServiceStub(channel).Lock(
                    request, metadata=(("authorization", f"Bearer {follower.tokens['red/lock']}"),))
            except grpc.RpcError as error:
                ended.put(("grpc", error.code().name))

    def wait_resp():
        try:
            connect(follower, username="red/lock", password=follower.tokens["red/lock"]).execute_command(
                "HF.ACQUIRE", "app/a", "v", "PX", "60000", "WAIT", "60000")
        except redis.exceptions.RedisError as error:
            ended.put(("resp", type(error).__name__))

    for wait in (wait_http, wait_grpc, wait_resp):
        threading.Thread(target=wait, daemon=True).start()
    wait_until(lambda: call(other, "red/read", "GET", LOCK.format("app/a")).json["queue_length"] == 3, "three wait")
    began = time.monotonic()
    revoke(other, "red/lock")
    assert kept.sock.recv(1) == b""  # closed
    assert answers.get(timeout=PATIENCE) == "PERMISSION_DENIED"
    results = dict(ended.get(timeout=PATIENCE) for _ in range(3))
    assert results == {"http": "denied", "grpc": "PERMISSION_DENIED", "resp": "NoPermissionError"}
    with pytest.raises(redis.exceptions.RedisError):
        client.ping()
    assert time.monotonic() - began < allowed(KNOWN_S + 1)
    wait_until(lambda: call(other, "red/read", "GET", LOCK.format("app/a")).json["queue_length"] == 0, "the waiters left")
    unaffected.request("GET", "/api/v1/auth/whoami", headers=bearer(follower.tokens["red/read"]))
    assert unaffected.getresponse().status == 200


def test_waiter_of_a_removed_principal_is_denied_before_its_turn(cluster):
    """Also when its node cannot be reached: the state machine decides."""
    follower, leader = cluster.followers()[0], cluster.leader()
    assert call(leader, "red/admin", "POST", ACQUIRE.format("app/a"), BODY).json["acquired"]
    token = call(leader, "red/admin", "GET", LOCK.format("app/a")).json["holders"][0]["fencing_token"]
    body = {**BODY, "client_id": "w", "wait_timeout_ms": 60000, "request_id": "r"}
    waiting = threading.Thread(target=lambda: follower.try_request(
        "POST", ACQUIRE.format("app/a"), body, headers=bearer(follower.tokens["red/lock"])), daemon=True)
    waiting.start()
    wait_until(lambda: call(leader, "red/read", "GET", LOCK.format("app/a")).json["queue_length"] == 1, "it waits")
    follower.kill()
    change_policy(leader, lambda document: remove(document, "red", "lock"))
    release = {"client_id": "c", "fencing_token": token}
    assert call(leader, "red/admin", "POST", f"{LOCK.format('app/a')}/release", release).json["released"]
    shown = call(leader, "red/read", "GET", LOCK.format("app/a")).json
    assert not shown["held"] and shown["queue_length"] == 0


def test_narrowed_rights_release_but_do_not_renew(node):
    held = call(node, "red/lock", "POST", ACQUIRE.format("app/a"), BODY).json
    kept = kept_connection(node, "red/lock")
    change_policy(node, lambda document: narrow(document, "red", "lock", grant("red", "other/", "lock")))
    mine = {"client_id": "c", "fencing_token": held["fencing_token"]}
    renewed = call(node, "red/lock", "POST", f"{LOCK.format('app/a')}/renew", mine)
    assert (renewed.status, renewed.code) == (403, "denied")
    assert call(node, "red/lock", "POST", ACQUIRE.format("app/b"), BODY).status == 403
    assert call(node, "red/lock", "POST", ACQUIRE.format("other/b"), BODY).json["acquired"]
    released = call(node, "red/lock", "POST", f"{LOCK.format('app/a')}/release", mine)
    assert released.json["released"]
    kept.request("GET", "/api/v1/auth/whoami", headers=bearer(node.tokens["red/lock"]))
    assert kept.getresponse().status == 200  # the token is still valid


def test_waiter_with_narrowed_rights_is_denied(node):
    held = call(node, "red/admin", "POST", ACQUIRE.format("app/a"), BODY).json
    answers = queue.Queue()
    threading.Thread(target=lambda: answers.put(call(
        node, "red/lock", "POST", ACQUIRE.format("app/a"), {**BODY, "client_id": "w", "wait_timeout_ms": 60000})),
        daemon=True).start()
    wait_until(lambda: call(node, "red/read", "GET", LOCK.format("app/a")).json["queue_length"] == 1, "it waits")
    change_policy(node, lambda document: narrow(document, "red", "lock"))
    release = {"client_id": "c", "fencing_token": held["fencing_token"]}
    assert call(node, "red/admin", "POST", f"{LOCK.format('app/a')}/release", release).json["released"]
    answer = answers.get(timeout=PATIENCE)
    assert answer.code == "denied" or answer.json.get("reason") == "denied", answer
    assert answer.json.get("holder") is None, "it may not read the name any more"
    assert not call(node, "red/read", "GET", LOCK.format("app/a")).json["held"]


@pytest.mark.parametrize("at_once", [False, True])
def test_sessions_of_a_removed_principal_are_not_kept_alive(node, at_once):
    opened = call(node, "red/lock", "POST", "/api/v1/sessions", {"client_id": "s", "ttl_ms": 3000}).json["session_id"]
    held = call(node, "red/lock", "POST", ACQUIRE.format("app/a"), {"client_id": "s", "session_id": opened})
    assert held.json["acquired"]
    long = call(node, "red/lock", "POST", ACQUIRE.format("app/long"), {"client_id": "s", "ttl_ms": 60000})
    assert long.json["acquired"]
    change_policy(node, lambda document: remove(document, "red", "lock"), "?end_sessions=true" if at_once else "")
    assert call(node, "red/lock", "POST", f"/api/v1/sessions/{opened}/keepalive").status == 401
    assert node.request("POST", f"/api/v1/sessions/{opened}/keepalive", headers={"Holdfast-Tenant": "red"}).status != 200
    began = time.monotonic()
    wait_until(lambda: not call(node, "red/read", "GET", LOCK.format("app/a")).json["held"], "the session has ended")
    if at_once:
        assert time.monotonic() - began < allowed(1.5)
    wait_until(lambda: not at_once or not call(node, "red/read", "GET", LOCK.format("app/long")).json["held"],
               "the lock has ended")


def test_expired_token_closes_its_redis_connection(node):
    made = node.request("POST", "/api/v1/auth/tokens", {"principal": "red/lock", "ttl_seconds": 2}).json
    client = connect(node, username="red/lock", password=made["token"], single_connection_client=True)
    assert client.ping()
    plain = client.connection._sock  # pylint: disable=protected-access
    plain.settimeout(PATIENCE)
    assert b"expired" in plain.recv(4096)
    assert plain.recv(1) == b""
    with pytest.raises(redis.exceptions.RedisError) as error:
        connect(node, username="red/lock", password=made["token"]).ping()
    assert "expired" in str(error.value)


def test_only_its_principal_uses_a_session_or_a_lock(node):
    opened = call(node, "red/lock", "POST", "/api/v1/sessions", {"client_id": "s"}).json["session_id"]
    held = call(node, "red/lock", "POST", ACQUIRE.format("app/a"), {"client_id": "s", "session_id": opened}).json
    alone = call(node, "red/lock", "POST", ACQUIRE.format("app/b"), BODY).json
    for other in ("red/admin", "red/read", ("default/root", "red")):
        assert call(node, other, "POST", f"/api/v1/sessions/{opened}/keepalive").status in (403, 404)
        assert call(node, other, "DELETE", f"/api/v1/sessions/{opened}").status in (403, 404)
        taken = call(node, other, "POST", ACQUIRE.format("app/c"), {"client_id": "s", "session_id": opened})
        assert taken.status in (403, 404) or not taken.json["acquired"]
        for lock, body in (("app/a", {"client_id": "s", "session_id": opened, "fencing_token": held["fencing_token"]}),
                           ("app/b", {"client_id": "c", "fencing_token": alone["fencing_token"]})):
            released = call(node, other, "POST", f"{LOCK.format(lock)}/release", body)
            assert released.status in (403, 404) or not released.json["released"], released
            renewed = call(node, other, "POST", f"{LOCK.format(lock)}/renew", body)
            assert renewed.status in (403, 404) or not renewed.json["renewed"], renewed
    assert call(node, "red/lock", "POST", f"/api/v1/sessions/{opened}/keepalive").status == 200
    for lock in ("app/a", "app/b"):
        assert call(node, "red/read", "GET", LOCK.format(lock)).json["held"]


def test_request_id_belongs_to_its_principal(node):
    body = {**BODY, "request_id": "same"}
    first = call(node, "red/lock", "POST", ACQUIRE.format("app/a"), body).json
    again = call(node, "red/lock", "POST", ACQUIRE.format("app/a"), body).json
    other = call(node, "red/admin", "POST", ACQUIRE.format("app/a"), body).json
    assert again["replayed"] and again["fencing_token"] == first["fencing_token"]
    assert not other["acquired"] and "fencing_token" not in other


def test_audit_names_the_principal_and_counts_denied_calls(cluster):
    follower, leader = cluster.followers()[0], cluster.leader()
    assert call(leader, "red/lock", "POST", ACQUIRE.format("app/a"), BODY).json["acquired"]
    forced = {"actor_id": "somebody else", "reason": "test"}
    for node in (follower, leader):
        for _ in range(3):
            assert call(node, "red/lock", "POST", f"{LOCK.format('app/a')}/force-unlock", forced).status == 403
    assert call(follower, "red/operate", "POST", f"{LOCK.format('app/a')}/force-unlock", forced).status == 200

    def records(action):
        rows = call(leader, "red/admin", "GET", "/api/v1/audit").json["records"]
        return [row for row in rows if row["action"] == action]

    assert [row["actorId"] for row in records("FORCE_UNLOCK")] == ["red/operate"]
    wait_until(lambda: records("DENIED"), "the denied calls are noted")
    wait_until(lambda: records("DENIED")[0]["holders"] >= 2, "both nodes have noted")
    denied = records("DENIED")
    assert len(denied) == 1 and denied[0]["actorId"] == "red/lock"
    assert denied[0]["reason"] == "principal red/lock has no right operate on app/a in tenant red"
    # The record of app/a is visible with operate on app/; that of all denied calls is not.
    rows = call(leader, "red/operate", "GET", "/api/v1/audit").json["records"]
    assert {row["action"] for row in rows} == {"FORCE_UNLOCK"}


def test_leader_authorises_what_a_follower_forwards(cluster):
    """Rights that were just given or taken count through every node."""
    follower, leader = cluster.followers()[0], cluster.leader()
    assert call(follower, "red/lock", "POST", ACQUIRE.format("new/a"), BODY).status == 403
    change_policy(leader, lambda document: narrow(document, "red", "lock", grant("red", "new/", "lock")))
    assert call(follower, "red/lock", "POST", ACQUIRE.format("new/a"), BODY).json["acquired"]
    assert call(follower, "red/lock", "POST", ACQUIRE.format("app/a"), BODY).status == 403


def test_new_token_is_known_by_every_node_at_once(cluster):
    """A follower that has not applied it reads the policy first."""
    follower, leader = cluster.followers()[0], cluster.leader()
    for _ in range(10):
        made = leader.request("POST", "/api/v1/auth/tokens", {"principal": "red/read"}).json
        answer = follower.request("GET", "/api/v1/auth/whoami", headers=bearer(made["token"]))
        assert answer.status == 200, answer
        assert leader.request("DELETE", f"/api/v1/auth/tokens/{made['number']}").status == 200


def test_command_line_uses_token_and_tenant(node, tmp_path):
    file = tmp_path / "token"
    file.write_text(node.tokens["default/root"])
    file.chmod(0o600)
    call(node, "blue/lock", "POST", ACQUIRE.format("app/b"), BODY)
    words = ("--endpoints", node.client, "--token-file", str(file))
    assert "blue" in run("auth", "whoami", "--tenant", "blue", *words).stdout
    assert "app/b" in run("ls", "--tenant", "blue", *words).stdout
    assert "app/b" not in run("ls", *words).stdout
    refused = run("ls", "--tenant", "nowhere", *words)
    assert refused.returncode != 0 and "has no right in tenant nowhere" in refused.stderr
    file.write_text("hf_wrong")
    refused = run("ls", *words)
    assert refused.returncode != 0 and "hf_wrong" not in refused.stderr
    policy = tmp_path / "policy.json"
    file.write_text(node.tokens["default/root"])
    document = json.loads(run("auth", "show", "--json", *words).stdout)
    document["tenants"].append({"name": "green"})
    policy.write_text(json.dumps(document))
    assert "add tenant green" in run("auth", "apply", str(policy), "--dry-run", *words).stdout
    assert run("auth", "apply", str(policy), *words).returncode == 0
    assert run("auth", "apply", str(policy), *words).returncode != 0  # it was made for an earlier version
    assert "no" in run("auth", "explain", "red/lock", "lock", "other", *words).stdout.lower()


def test_no_secret_in_logs_or_answers(node):
    secret = node.tokens["red/lock"]
    assert call(node, "red/lock", "POST", ACQUIRE.format("other"), BODY).status == 403
    for path in ("/api/v1/auth/tokens", "/api/v1/auth/policy", "/api/v1/audit", "/metrics"):
        with socket.create_connection(("127.0.0.1", node.client_port), timeout=PATIENCE) as plain:
            plain.sendall(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n"
                          f"Authorization: Bearer {node.tokens['default/root']}\r\n\r\n".encode())
            text = b"".join(iter(lambda: plain.recv(65536), b""))
            assert b" 200 " in text[:40] and secret.encode() not in text
    assert secret not in node.log() and node.tokens["default/root"] not in node.log()

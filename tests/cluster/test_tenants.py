"""Two tenants with equal names do not learn about each other: each way to list, to watch, to fail or to count. With
auth = on; `red/admin` and `blue/admin` have every right in their own tenant and none in the other."""

import json
import re
import subprocess
import threading

import pytest
import redis

from auth_support import bearer, call, secure_cluster
from grpc_support import channel_to, grpc, stubs  # noqa: F401
from harness import PATIENCE, wait_until
from resp_support import connect

ACQUIRE = "/api/v1/locks/{}/acquire"
LOCK = "/api/v1/locks/{}"
SECRET = "app/secret"  # names of this kind exist in blue only
BLUE = re.compile(r"secret|blue|carol", re.I)
OPERATOR = {"actor_id": "me", "reason": "test"}


@pytest.fixture(params=["CORRECTNESS", "EFFICIENCY"])
def tier(request):
    return request.param


@pytest.fixture
def node(make_cluster):
    made = secure_cluster(make_cluster, 1)
    made.nodes[1].tokens = made.tokens
    return made.nodes[1]


def acquire(node, who, name, client="c", **more):
    return call(node, who, "POST", ACQUIRE.format(name), {"client_id": client, "ttl_ms": 60000, **more}).json


def tells_nothing(text):
    text = text if isinstance(text, str) else json.dumps(text)
    assert not BLUE.search(text), text


def redis_of(node, tenant, **more):
    return connect(node, username=f"{tenant}/admin", password=node.tokens[f"{tenant}/admin"], **more)


def test_equal_names_are_different_locks(node, tier):
    red = acquire(node, "red/admin", "app/a", tier=tier)
    blue = acquire(node, "blue/admin", "app/a", "carol", tier=tier, metadata={"secret": 1})
    assert red["acquired"] and blue["acquired"]
    for token in (blue["fencing_token"], red["fencing_token"] + 1_000_000):  # of blue, and of nobody
        body = {"client_id": "carol", "fencing_token": token}
        for verb, word in (("release", "released"), ("renew", "renewed")):
            answer = call(node, "red/admin", "POST", f"{LOCK.format('app/a')}/{verb}", body)
            assert not answer.json[word] and answer.json["reason"] == "not_owner"
            tells_nothing({key: value for key, value in answer.json.items() if key != "holder"})
    refused = acquire(node, "red/lock", "app/a", "d", tier=tier)
    assert not refused["acquired"] and refused["holder"]["client_id"] == "c"
    shown = call(node, "red/admin", "GET", LOCK.format("app/a")).json
    assert len(shown["holders"]) == 1
    tells_nothing(shown)
    assert call(node, "red/admin", "POST", f"{LOCK.format('app/a')}/force-unlock", OPERATOR).status == 200
    assert call(node, "blue/admin", "GET", LOCK.format("app/a")).json["held"]


def test_lists_and_their_cursors(node, tier):
    for i in range(40):
        acquire(node, "blue/admin", f"{SECRET}/{i}", "carol", tier=tier)
    for i in range(7):
        acquire(node, "red/admin", f"app/{i}", tier=tier)
    found, cursor = [], None
    while True:
        page = call(node, "red/admin", "GET", "/api/v1/locks?limit=2" + (f"&cursor={cursor}" if cursor else "")).json
        tells_nothing(page)
        found += [row["name"] for row in page["locks"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
        assert cursor.isdigit()
        tells_nothing(call(node, ("default/root", "red"), "GET", f"/api/v1/locks?cursor={cursor}").json)
    assert sorted(found) == [f"app/{i}" for i in range(7)]
    # A cursor of blue shows red nothing of blue.
    cursor = call(node, "blue/admin", "GET", "/api/v1/locks?limit=2").json["next_cursor"]
    tells_nothing(call(node, "red/admin", "GET", f"/api/v1/locks?cursor={cursor}").json)


def test_sessions(node):
    theirs = call(node, "blue/admin", "POST", "/api/v1/sessions", {"client_id": "carol"}).json["session_id"]
    mine = call(node, "red/admin", "POST", "/api/v1/sessions", {"client_id": "c"}).json["session_id"]
    rows = call(node, "red/admin", "GET", "/api/v1/sessions").json["sessions"]
    assert [row["session_id"] for row in rows] == [mine]
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/keepalive")):
        known = call(node, "red/admin", method, f"/api/v1/sessions/{theirs}{path}")
        unknown = call(node, "red/admin", method, f"/api/v1/sessions/{'0' * 31}1{path}")
        assert (known.status, known.json) == (unknown.status, unknown.json)
    body = {"client_id": "c", "session_id": theirs}
    known = call(node, "red/admin", "POST", ACQUIRE.format("app/a"), body)
    unknown = call(node, "red/admin", "POST", ACQUIRE.format("app/a"), {**body, "session_id": "0" * 31 + "1"})
    assert (known.status, known.json) == (unknown.status, unknown.json)
    assert call(node, "blue/admin", "POST", f"/api/v1/sessions/{theirs}/keepalive").status == 200


def test_leases_of_the_small_api(node):
    lease = call(node, "blue/admin", "POST", "/v1/locks/acquire", {"resource": SECRET, "ownerId": "carol"}).json["leaseId"]
    for method, path in (("POST", "/renew"), ("DELETE", "")):
        known = call(node, "red/admin", method, f"/v1/locks/{lease}{path}", {} if path else None)
        unknown = call(node, "red/admin", method, f"/v1/locks/{'0' * 31}1{path}", {} if path else None)
        assert (known.status, known.json) == (unknown.status, unknown.json)
    assert call(node, "blue/admin", "GET", LOCK.format(SECRET)).json["held"]


def test_errors_about_names_of_others(node):
    acquire(node, "blue/admin", SECRET, "carol")
    nothing = "app/nothing"
    for verb in ("force-unlock", "revoke"):
        theirs = call(node, "red/admin", "POST", f"{LOCK.format(SECRET)}/{verb}", OPERATOR)
        absent = call(node, "red/admin", "POST", f"{LOCK.format(nothing)}/{verb}", OPERATOR)
        assert theirs.status == absent.status == 404 and theirs.json == absent.json
    theirs, absent = (call(node, "red/admin", "GET", LOCK.format(name)) for name in (SECRET, nothing))
    assert theirs.status == absent.status
    assert json.dumps(theirs.json).replace(SECRET, nothing) == json.dumps(absent.json)
    assert call(node, "blue/admin", "POST", "/api/v1/fence/check", {"resource": "app/f", "fencing_token": 1024}).status == 200
    held = acquire(node, "blue/admin", "app/g", "carol")
    check = {"resource": "app/g", "fencing_token": held["fencing_token"], "lock": "app/g"}
    assert call(node, "blue/admin", "POST", "/api/v1/fence/check", check).json["accepted"]
    assert call(node, "red/lock", "POST", "/api/v1/fence/check", check).json["reason"] == "not_owner"
    denied = call(node, "red/lock", "POST", "/api/v1/fence/check", {**check, "lock": "db/g"})
    assert denied.status == 403 and "no right read on db/g" in denied.text
    reset = {**OPERATOR, "resource": "app/f"}
    assert call(node, "red/admin", "POST", "/api/v1/fence/reset", reset).code == "fence_not_found"


def watching(node, who, path):
    """The lines of an event stream after its beginning, in a list that grows."""
    lines = []
    process = subprocess.Popen(["curl", "-sN", "-H", f"Authorization: Bearer {node.tokens[who]}",
                                f"http://127.0.0.1:{node.client_port}{path}"], stdout=subprocess.PIPE, text=True)
    begun = threading.Event()

    def read():
        for line in process.stdout:
            lines.append(line)
            begun.set()

    threading.Thread(target=read, daemon=True).start()
    assert begun.wait(PATIENCE)
    return process, lines


def test_watches(node, tier, stubs):  # noqa: F811
    process, lines = watching(node, "red/admin", "/api/v1/watch?list=true")
    observer, elected = watching(node, "red/admin", "/api/v1/elections/app%2Fe/observe")
    events = []
    with channel_to(node) as channel:
        stream = stubs.lock_grpc.LockServiceStub(channel).Watch(
            stubs.lock.WatchRequest(), metadata=(("authorization", f"Bearer {node.tokens['red/admin']}"),))
        threading.Thread(target=lambda: [events.append(event) for event in quiet(stream)], daemon=True).start()
        acquire(node, "blue/admin", SECRET, "carol", tier=tier)
        acquire(node, "blue/admin", "app/a", "carol", tier=tier)
        campaign = {"client_id": "carol", "value": "secret"}
        assert call(node, "blue/admin", "POST", "/api/v1/elections/app%2Fe/campaign", campaign).json["elected"]
        opened = call(node, "blue/admin", "POST", "/api/v1/sessions", {"client_id": "carol"}).json["session_id"]
        call(node, "blue/admin", "DELETE", f"/api/v1/sessions/{opened}")
        call(node, "blue/admin", "POST", f"{LOCK.format('app/a')}/force-unlock", OPERATOR)
        acquire(node, "red/admin", "app/last", tier=tier)
        wait_until(lambda: any("app/last" in line for line in lines), "the own event")
        wait_until(lambda: any(event.resource_id == "app/last" for event in events), "the own event by gRPC")
    tells_nothing("".join(lines + elected) + str(events))
    for one in (process, observer):
        one.terminate()
        one.wait(PATIENCE)


def quiet(stream):
    try:
        yield from stream
    except grpc.RpcError:
        pass


def test_audit(node):
    acquire(node, "blue/admin", SECRET, "carol")
    call(node, "blue/admin", "POST", f"{LOCK.format(SECRET)}/force-unlock", {"actor_id": "carol", "reason": "secret"})
    call(node, "blue/lock", "POST", ACQUIRE.format("other"), {"client_id": "c"})  # denied
    call(node, "blue/admin", "POST", "/api/v1/auth/tokens", {"principal": "blue/read", "description": "secret"})
    acquire(node, "red/admin", "app/a")
    call(node, "red/admin", "POST", f"{LOCK.format('app/a')}/force-unlock", OPERATOR)
    trail = call(node, "red/admin", "GET", "/api/v1/audit").json
    tells_nothing(trail)
    assert [(row["number"], row["action"], row["actorId"]) for row in trail["records"]] == [(1, "FORCE_UNLOCK", "red/admin")]
    # The records of the policy name principals of all tenants: they are the cluster's administrators'.
    own = call(node, "default/root", "GET", "/api/v1/audit").json["records"]
    assert any(row["actorId"] == "blue/admin" for row in own)


def test_tokens_and_policy(node):
    rows = call(node, "red/admin", "GET", "/api/v1/auth/tokens").json
    tells_nothing(rows)
    missing = call(node, "red/admin", "GET", "/api/v1/auth/tokens?principal=blue/admin").json
    assert missing == {"tokens": []}
    for principal in ("blue/admin", "blue/nobody", "nowhere/nobody"):
        made = call(node, "red/admin", "POST", "/api/v1/auth/tokens", {"principal": principal})
        assert (made.status, made.code) == (403, "denied")
        path = f"/api/v1/auth/explain?principal={principal}&right=read&name=a"
        assert call(node, "red/admin", "GET", path).code == "policy_not_found"
    for tenant in ("blue", "nowhere"):
        path = f"/api/v1/auth/explain?principal=red/admin&right=read&name=a&tenant={tenant}"
        assert call(node, "red/admin", "GET", path).code == "policy_not_found"
        chosen = call(node, ("red/admin", tenant), "GET", "/api/v1/locks")
        assert chosen.code == "denied" and chosen.json["error"]["message"].endswith(f"has no right in tenant {tenant}")


def test_deadlock_cycles(node):
    """A cycle is searched among the waiters of one tenant."""
    sessions = {}
    for tenant, first, second in (("blue", "carol-1", "carol-2"), ("red", "c", "d")):
        for client in (first, second):
            opened = call(node, f"{tenant}/admin", "POST", "/api/v1/sessions", {"client_id": client}).json["session_id"]
            sessions[client] = opened
        for client, name in ((first, "app/1"), (second, "app/2")):
            assert acquire(node, f"{tenant}/admin", name, client, session_id=sessions[client])["acquired"]

    def wait(tenant, client, name):
        return acquire(node, f"{tenant}/admin", name, client, session_id=sessions[client], wait_timeout_ms=30000,
                       detect_deadlock=True)

    waiting = [threading.Thread(target=wait, args=("blue", "carol-1", "app/2")),
               threading.Thread(target=wait, args=("red", "c", "app/2"))]
    waiting[0].start()
    wait_until(lambda: call(node, "blue/admin", "GET", LOCK.format("app/2")).json["queue_length"] == 1, "blue waits")
    waiting[1].start()
    wait_until(lambda: call(node, "red/admin", "GET", LOCK.format("app/2")).json["queue_length"] == 1, "red waits")
    closed = wait("red", "d", "app/1")
    assert not closed["acquired"] and closed["reason"] == "deadlock"
    assert {step["client_id"] for step in closed["cycle"]} == {"c", "d"}
    tells_nothing(closed)
    for client in ("c", "carol-1"):
        tenant = "red" if client == "c" else "blue"
        call(node, f"{tenant}/admin", "DELETE", f"/api/v1/sessions/{sessions[client]}")
    for thread in waiting:
        thread.join(PATIENCE)


def test_redis_keys_and_scan(node):
    red, blue = redis_of(node, "red"), redis_of(node, "blue")
    for i in range(30):
        assert blue.set(f"{SECRET}/{i}", "carol", nx=True, ex=60)
        blue.incr(f"{SECRET}/n{i}")
    assert blue.set("app/a", "carol", nx=True, ex=60) and red.set("app/a", "mine", nx=True, ex=60)
    red.incr("app/n")
    assert red.get("app/a") == "mine" and red.get(f"{SECRET}/1") is None
    assert red.exists(f"{SECRET}/1", f"{SECRET}/n1") == 0 and red.ttl(f"{SECRET}/1") == -2
    assert red.type(f"{SECRET}/1") == "none" and red.delete(f"{SECRET}/1") == 0
    assert red.execute_command("HF.TOKEN", f"{SECRET}/1", "carol") is None
    assert sorted(red.scan_iter(count=5)) == ["app/a", "app/n"]
    assert red.dbsize() == 1  # names; a counter is none
    script = "return redis.call('get', KEYS[1])"
    assert red.eval(script, 1, f"{SECRET}/1") is None
    assert red.incr(f"{SECRET}/n1") == 1 and blue.get(f"{SECRET}/n1") == "1"


def test_redis_channels(node):
    red, blue = redis_of(node, "red"), redis_of(node, "blue")
    channel, pattern = red.pubsub(), red.pubsub()
    channel.subscribe("app/c")
    pattern.psubscribe("*")
    for subscription in (channel, pattern):
        assert subscription.get_message(timeout=PATIENCE)["type"].endswith("subscribe")
    assert blue.publish("app/c", "secret") == 0
    assert blue.pubsub_numsub("app/c") == [("app/c", 0)] and blue.pubsub_numpat() == 0
    assert red.publish("app/c", "mine") == 2
    for subscription in (channel, pattern):
        assert subscription.get_message(timeout=PATIENCE)["data"] == "mine"
    for subscription in (channel, pattern):
        subscription.close()


def test_redis_info_and_clients(node):
    blue = redis_of(node, "blue", single_connection_client=True)
    blue.client_setname("carol")
    red = redis_of(node, "red", single_connection_client=True)
    red.client_setname("mine")
    assert [row["name"] for row in red.client_list()] == ["mine"]
    tells_nothing(str(red.client_list()))
    for i in range(5):
        blue.set(f"{SECRET}/{i}", "v", nx=True, ex=60)
    info = red.info("everything")
    assert "connected_clients" not in info and "used_memory" not in info and "db0" not in info
    tells_nothing(str(info))
    root = connect(node, username="default/root", password=node.tokens["default/root"])
    assert "connected_clients" in root.info() and {"carol", "mine"} <= {row["name"] for row in root.client_list()}


def test_redis_lock_of_another_principal(node):
    """Own means the same principal: its other connections, and nobody else."""
    first, second = redis_of(node, "red"), redis_of(node, "red")
    assert first.set("app/a", "v", nx=True, ex=60)
    other = connect(node, username="red/lock", password=node.tokens["red/lock"])
    script = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"
    with pytest.raises(redis.exceptions.RedisError):
        other.delete("app/a")
    with pytest.raises(redis.exceptions.RedisError):
        other.eval(script, 1, "app/a", "v")
    assert second.pexpire("app/a", 50000) and second.eval(script, 1, "app/a", "v") == 1
    assert [row["action"] for row in call(node, "red/admin", "GET", "/api/v1/audit").json["records"]
            if row["action"] != "DENIED"] == []


def test_metrics_and_status(node):
    acquire(node, "blue/admin", SECRET, "carol")
    assert call(node, "red/admin", "GET", "/api/v1/cluster").status == 200
    tells_nothing(call(node, "red/admin", "GET", "/api/v1/cluster").json)
    for who in ("red/admin", "red/none"):
        rows = call(node, who, "GET", "/api/v1/auth/tenants").json["tenants"]
        assert [row["name"] for row in rows] == ["red"]
    assert "state" not in call(node, "red/admin", "GET", "/api/v1/cluster").json
    for path in ("/metrics", "/plain"):
        answer = subprocess.run(["curl", "-s", "-H", f"Authorization: Bearer {node.tokens['red/admin']}",
                                 f"http://127.0.0.1:{node.client_port}{path}"], capture_output=True, text=True, check=True)
        assert json.loads(answer.stdout)["error"]["code"] == "denied"
    whole = subprocess.run(["curl", "-s", "-H", f"Authorization: Bearer {node.tokens['default/root']}",
                            f"http://127.0.0.1:{node.client_port}/metrics"], capture_output=True, text=True, check=True)
    assert "holdfast_" in whole.stdout and SECRET not in whole.stdout


def test_request_ids(node):
    first = acquire(node, "blue/admin", "app/a", "carol", request_id="same")
    second = acquire(node, "red/admin", "app/a", request_id="same")
    assert first["acquired"] and second["acquired"] and "replayed" not in second
    assert first["fencing_token"] != second["fencing_token"]


def test_headers_of_a_tenant(node):
    """With the header, metadata and AUTH of a principal with several tenants."""
    acquire(node, "blue/admin", SECRET, "carol")
    headers = bearer(node.tokens["default/root"], "blue")
    assert node.request("GET", "/api/v1/locks", headers=headers).json["locks"][0]["name"] == SECRET
    assert node.request("GET", "/api/v1/locks").json["locks"] == []
    root = connect(node, username="blue:default/root", password=node.tokens["default/root"])
    assert list(root.scan_iter()) == [SECRET]
    assert node.request("GET", "/api/v1/locks", headers=bearer(node.tokens["default/root"], "bad name")).status == 403

"""Every HTTP route, gRPC method and Redis command x every role, with auth = on. The rows are the product's own
tables, printed by tests/cluster/need_table.c: a row without an expectation here fails, and so does an expectation
without a row.

An expectation has the word of the column `need`, who passes, and a request that is valid for everybody, so that
only the caller's rights decide. Who owns a session or a lock is the subject of test_auth_more.py."""

import concurrent.futures
import http.client
import json
import subprocess
import time

import pytest
import redis

from auth_support import bearer, secure_cluster
from grpc_support import channel_to, grpc, stubs  # noqa: F401
from harness import PATIENCE, PROGRAM
from resp_support import connect

TABLE = PROGRAM.parent / "tests/cluster/need_table"

# Of tenant red, on names that begin with app/; `other` is the administrator of tenant blue and chooses tenant red.
ROLES = {"nobody": None, "none": "red/none", "read": "red/read", "lock": "red/lock", "operate": "red/operate",
         "admin": "red/admin", "root": "default/root", "other": "blue/admin"}
CALLERS = {"none", "read", "lock", "operate", "admin", "root"}
PASSES = {
    "all": set(ROLES),
    "caller": CALLERS,
    "read": CALLERS - {"none"},
    "lock": {"lock", "admin", "root"},
    "operate": {"operate", "admin", "root"},
    "admin": {"admin", "root"},
    "cluster": {"root"},
}

CLIENT = {"client_id": "c"}
TOKEN = {"client_id": "c", "fencing_token": 1}
NO_LEASE = {"client_id": "c", "lease_id": "0" * 31 + "1"}
LOCK_INFO, NO_LOCK_INFO = {"ID": "matrix"}, {"ID": "no such run"}
OPERATOR = {"actor_id": "me", "reason": "test"}
NO_ID = "0" * 31 + "1"
LOCKS, SESSIONS, ELECTIONS = "/api/v1/locks", "/api/v1/sessions", "/api/v1/elections/{name}"
MEMBERS, AUTH = "/api/v1/members", "/api/v1/auth"

# Need, who passes, and the request: body and query. {name} is app/m, {id} is no id of a session or lease, {member} is
# 9, which is no member and no token.
HTTP = {
    f"POST {LOCKS}/{{name}}/acquire": ("lock", "lock", CLIENT),
    f"POST {LOCKS}/{{name}}/release": ("owner", "caller", TOKEN),
    f"POST {LOCKS}/{{name}}/renew": ("lock", "lock", TOKEN),
    f"POST {LOCKS}/{{name}}/force-unlock": ("operate", "operate", OPERATOR),
    f"POST {LOCKS}/{{name}}/revoke": ("operate", "operate", OPERATOR),
    f"GET {LOCKS}": ("rows", "read", None),
    f"GET {LOCKS}/{{name}}/history": ("read", "read", None),
    f"GET {LOCKS}/{{name}}": ("read", "read", None),
    f"POST {SESSIONS}/{{id}}/keepalive": ("owner", "caller", {}),
    f"GET {SESSIONS}/{{id}}/events": ("owner", "caller", None),
    f"POST {SESSIONS}": ("session", "lock", CLIENT),
    f"GET {SESSIONS}": ("rows", "read", None),
    f"DELETE {SESSIONS}/{{id}}": ("owner", "caller", None),
    f"GET {SESSIONS}/{{id}}": ("owner", "caller", None),
    f"GET {SESSIONS}/{{id}}/locks": ("rows", "read", None),
    "POST /api/v1/multilock/acquire": ("lock", "lock", {**CLIENT, "names": ["app/m", "app/n"]}),
    "POST /api/v1/multilock/release": ("owner", "caller", NO_LEASE),
    "POST /api/v1/multilock/renew": ("lock", "caller", NO_LEASE),  # by the lease: its owner decides
    "POST /api/v1/fence/check": ("lock", "lock", {"resource": "app/f", "fencing_token": 1}),
    "POST /api/v1/fence/reset": ("operate", "operate", {**OPERATOR, "resource": "app/f"}),
    f"POST {ELECTIONS}/campaign": ("lock", "lock", {**CLIENT, "value": "v"}),
    f"POST {ELECTIONS}/proclaim": ("lock", "lock", {**TOKEN, "value": "v"}),
    f"POST {ELECTIONS}/resign": ("owner", "caller", TOKEN),
    f"GET {ELECTIONS}/observe": ("read", "read", None),
    f"GET {ELECTIONS}": ("read", "read", None),
    "GET /api/v1/watch": ("rows", "read", None),
    "GET /api/v1/audit": ("audit", "operate", None),
    "GET /api/v1/alerts": ("rows", "read", None),
    "PUT /api/v1/alerts": ("operate", "admin", {**OPERATOR, "prefix": "app/", "after_ms": 60000}),  # on all names
    "DELETE /api/v1/alerts": ("operate", "admin", {**OPERATOR, "prefix": "app/none"}),
    "LOCK /integrations/terraform/{name}": ("lock", "lock", LOCK_INFO),
    "POST /integrations/terraform/{name}": ("lock", "lock", LOCK_INFO),
    "PUT /integrations/terraform/{name}": ("lock", "lock", LOCK_INFO),
    "UNLOCK /integrations/terraform/{name}": ("owner", "caller", NO_LOCK_INFO),
    "DELETE /integrations/terraform/{name}": ("owner", "caller", NO_LOCK_INFO),
    "GET /api/v1/cluster": ("caller", "caller", None),
    "GET /api/v1/stats": ("cluster_read", "cluster", None),
    "GET /api/v1/hot": ("cluster_read", "cluster", None),
    "GET /api/v1/sinks": ("cluster_read", "cluster", None),
    f"GET {MEMBERS}": ("caller", "caller", None),
    f"POST {MEMBERS}": ("cluster_admin", "cluster", {"id": 1, "address": "127.0.0.1:1"}),
    f"POST {MEMBERS}/transfer": ("cluster_admin", "cluster", {"to": 9}),
    f"POST {MEMBERS}/{{member}}/promote": ("cluster_admin", "cluster", None),
    f"POST {MEMBERS}/{{member}}/demote": ("cluster_admin", "cluster", None),
    f"DELETE {MEMBERS}/{{member}}": ("cluster_admin", "cluster", None),
    "GET /api/v1/snapshot": ("cluster_admin", "cluster", None),
    "GET /api/v1/log-level": ("cluster_admin", "cluster", None),
    "PUT /api/v1/log-level": ("cluster_admin", "cluster", {"log_level": "info"}),
    f"GET {AUTH}/policy": ("cluster_admin", "cluster", None),
    f"PUT {AUTH}/policy": ("cluster_admin", "cluster", {"version": 0}),
    f"GET {AUTH}/explain": ("tenant_admin", "caller", "?principal=red/none&right=lock&name=a"),
    f"GET {AUTH}/whoami": ("caller", "caller", None),
    f"GET {AUTH}/tenants": ("caller", "caller", None),  # its own
    f"GET {AUTH}/tokens": ("tenant_admin", "caller", None),  # everybody sees its own
    f"POST {AUTH}/tokens": ("tenant_admin", "admin", {"principal": "red/none"}),
    f"DELETE {AUTH}/tokens/{{member}}": ("tenant_admin", "cluster", None),  # of nobody
    "POST /v1/locks/acquire": ("lock", "lock", {"resource": "app/s", "ownerId": "c"}),
    "POST /v1/locks/{id}/renew": ("lock", "caller", {}),  # by the lease: its owner decides
    "DELETE /v1/locks/{id}": ("owner", "caller", None),
    "GET /livez": ("nothing", "all", None),
    "GET /readyz": ("nothing", "all", None),
    "GET /openapi.yaml": ("caller", "caller", None),
}

# Principals and sessions that the caller may not know look as if they did not exist.
HIDDEN = {f"GET {AUTH}/explain": {"read", "lock", "operate"}}

LOCK, ELECTION, ADMIN = (f"/holdfast.v1.{name}Service/" for name in ("Lock", "Election", "Admin"))
REFLECTION = "ServerReflection/ServerReflectionInfo"


def grpc_rows(s):
    """Need, who passes, message, and whether the client ("c"), the node ("n") or both stream."""
    operator = {"actor_id": "me", "reason": "test"}
    member = s.admin.MemberRequest(id=9)
    reflect = s.reflection.ServerReflectionRequest(list_services="")
    return {
        LOCK + "Lock": ("lock", "lock", s.lock.LockRequest(resource_id="app/g", client_id="c"), ""),
        LOCK + "Unlock": ("owner", "caller", s.lock.UnlockRequest(resource_id="app/g", fence_token=1, client_id="c"), ""),
        LOCK + "Renew": ("lock", "lock", s.lock.RenewRequest(resource_id="app/g", fence_token=1, client_id="c"), ""),
        LOCK + "Session": ("session", "lock", s.lock.SessionRequest(open={"client_id": "c"}), "cn"),
        LOCK + "MultiLock": ("lock", "lock", s.lock.MultiLockRequest(resource_ids=["app/g", "app/h"], client_id="c"), ""),
        LOCK + "Watch": ("rows", "read", s.lock.WatchRequest(), "n"),
        LOCK + "CheckFence": ("lock", "lock", s.lock.CheckFenceRequest(resource_id="app/f", fence_token=1), ""),
        ELECTION + "Campaign": ("lock", "lock", s.election.CampaignRequest(name="app/e", client_id="c"), ""),
        ELECTION + "Proclaim": ("lock", "lock", s.election.ProclaimRequest(name="app/e", epoch=1, client_id="c"), ""),
        ELECTION + "Resign": ("owner", "caller", s.election.ResignRequest(name="app/e", epoch=1, client_id="c"), ""),
        ELECTION + "Leader": ("read", "read", s.election.LeaderRequest(name="app/e"), ""),
        ELECTION + "Observe": ("read", "read", s.election.LeaderRequest(name="app/e"), "n"),
        ADMIN + "List": ("rows", "read", s.admin.ListRequest(), ""),
        ADMIN + "Show": ("read", "read", s.admin.ShowRequest(resource_id="app/g"), ""),
        ADMIN + "History": ("read", "read", s.admin.HistoryRequest(resource_id="app/g"), ""),
        ADMIN + "Sessions": ("rows", "read", s.admin.SessionsRequest(), ""),
        ADMIN + "SessionLocks": ("rows", "read", s.admin.SessionLocksRequest(session_id=NO_ID), ""),
        ADMIN + "ForceUnlock": ("operate", "operate", s.admin.ForceUnlockRequest(resource_id="app/x", **operator), ""),
        ADMIN + "Revoke": ("operate", "operate", s.admin.RevokeRequest(resource_id="app/x", **operator), ""),
        ADMIN + "ResetFence": ("operate", "operate", s.admin.ResetFenceRequest(resource_id="app/f", **operator), ""),
        ADMIN + "Audit": ("audit", "operate", s.admin.AuditRequest(), ""),
        ADMIN + "Alerts": ("rows", "read", s.admin.AlertsRequest(), ""),
        ADMIN + "SetAlert": ("operate", "admin", s.admin.SetAlertRequest(prefix="app/", after={"seconds": 60}, **operator), ""),
        ADMIN + "RemoveAlert": ("operate", "admin", s.admin.RemoveAlertRequest(prefix="app/none", **operator), ""),
        ADMIN + "Hot": ("cluster_read", "cluster", s.admin.HotRequest(), ""),
        ADMIN + "Cluster": ("caller", "caller", s.admin.ClusterRequest(), ""),
        ADMIN + "AddMember": ("cluster_admin", "cluster", s.admin.AddMemberRequest(id=1, peer_address="127.0.0.1:1"), ""),
        ADMIN + "PromoteMember": ("cluster_admin", "cluster", member, ""),
        ADMIN + "DemoteMember": ("cluster_admin", "cluster", member, ""),
        ADMIN + "RemoveMember": ("cluster_admin", "cluster", member, ""),
        ADMIN + "TransferLeadership": ("cluster_admin", "cluster", member, ""),
        "/grpc.health.v1.Health/Check": ("nothing", "all", s.health.HealthCheckRequest(), ""),
        "/grpc.health.v1.Health/Watch": ("nothing", "all", s.health.HealthCheckRequest(), "n"),
        "/grpc.reflection.v1alpha." + REFLECTION: ("caller", "caller", reflect, "cn"),
        "/grpc.reflection.v1." + REFLECTION: ("caller", "caller", reflect, "cn"),
    }


# Need, who passes, words. {role} is the role, so that each has keys of its own. Before its turn the administrator
# makes the counters app/n-{role} and app/t-{role}; {soon} is a time.
COUNTER, TIMED, STRING, HASH, NEW = "app/n-{role}", "app/t-{role}", "app/s-{role}", "app/h-{role}", "app/new-{role}"
LIST, SORTED, MEMBERS = "app/l-{role}", "app/z-{role}", "app/m-{role}"
# A lock of another principal: not denied, but the same.
NOT_OWN = "the lock is held by another connection"
RESP = {
    "auth": ("nothing", "all", None),
    "blmove": ("lock", "lock", f"{LIST} {LIST} LEFT LEFT 0.01"),
    "blpop": ("lock", "lock", "app/none-{role} 0.01"),
    "brpop": ("lock", "lock", f"{LIST} 0.01"),
    "brpoplpush": ("lock", "lock", f"app/none-{{role}} {LIST} 0.01"),
    "client": ("caller", "caller", "ID"),
    "command": ("caller", "caller", "COUNT"),
    "config": ("caller", "caller", "GET maxmemory"),
    "dbsize": ("rows", "read", ""),
    "decr": ("lock", "lock", COUNTER),
    "decrby": ("lock", "lock", f"{COUNTER} 2"),
    "del": ("lock", "lock", COUNTER),
    "discard": ("caller", "caller", ""),
    "echo": ("caller", "caller", "x"),
    "eval": ("caller", "read", f"return(redis.call('get',KEYS[1])) 1 {STRING}"),
    "eval_ro": ("caller", "read", f"return(redis.call('get',KEYS[1])) 1 {STRING}"),
    "evalsha": ("caller", "caller", "{sha} 0"),
    "evalsha_ro": ("caller", "caller", "{sha} 0"),
    "exec": ("caller", "caller", ""),
    "exists": ("read", "read", STRING),
    "expire": ("lock", "lock", f"{COUNTER} 100"),
    "expireat": ("lock", "lock", f"{COUNTER} {{soon}}"),
    "expiretime": ("read", "read", STRING),
    "flushall": ("operate", "admin", ""),  # every name
    "flushdb": ("operate", "admin", ""),
    "get": ("read", "read", STRING),
    "getdel": ("lock", "lock", COUNTER),
    "getex": ("lock", "lock", f"{COUNTER} EX 100"),
    "getrange": ("read", "read", f"{STRING} 0 1"),
    "getset": ("lock", "lock", f"{NEW}-g v"),
    "hdel": ("lock", "lock", f"{HASH} f"),
    "hello": ("nothing", "all", None),
    "hexists": ("read", "read", f"{HASH} f"),
    "hf.acquire": ("lock", "lock", f"{NEW}-a v PX 20000"),
    "hf.token": ("read", "read", f"{STRING} v"),
    "hget": ("read", "read", f"{HASH} f"),
    "hgetall": ("read", "read", HASH),
    "hincrby": ("lock", "lock", f"{NEW}-i f 1"),
    "hkeys": ("read", "read", HASH),
    "hlen": ("read", "read", HASH),
    "hmget": ("read", "read", f"{HASH} f"),
    "hmset": ("lock", "lock", f"{NEW}-m f v"),
    "hset": ("lock", "lock", f"{NEW}-h f v"),
    "hsetnx": ("lock", "lock", f"{NEW}-hn f v"),
    "hvals": ("read", "read", HASH),
    "incr": ("lock", "lock", COUNTER),
    "incrby": ("lock", "lock", f"{COUNTER} 2"),
    "info": ("caller", "caller", ""),
    "keys": ("rows", "read", "app/*"),
    "lindex": ("read", "read", f"{LIST} 0"),
    "linsert": ("lock", "lock", f"{LIST} BEFORE a x"),
    "llen": ("read", "read", LIST),
    "lmove": ("lock", "lock", f"{LIST} {LIST} LEFT RIGHT"),
    "lpop": ("lock", "lock", LIST),
    "lpush": ("lock", "lock", f"{LIST} a"),
    "lpushx": ("lock", "lock", f"{LIST} a"),
    "lrange": ("read", "read", f"{LIST} 0 -1"),
    "lrem": ("lock", "lock", f"{LIST} 1 a"),
    "lset": ("lock", "lock", f"{LIST} 0 a"),
    "ltrim": ("lock", "lock", f"{LIST} 0 0"),
    "mget": ("read", "read", STRING),
    "monitor": ("caller", "caller", ""),
    "mset": ("lock", "lock", f"{NEW}-1 v {NEW}-2 v"),
    "msetnx": ("lock", "lock", f"{NEW}-3 v {NEW}-4 v"),
    "multi": ("caller", "caller", ""),
    "persist": ("lock", "lock", TIMED),
    "pexpire": ("lock", "lock", f"{COUNTER} 100000"),
    "pexpireat": ("lock", "lock", f"{COUNTER} {{soon}}000"),
    "pexpiretime": ("read", "read", STRING),
    "ping": ("caller", "caller", ""),
    "psetex": ("lock", "lock", f"{NEW}-p 20000 v"),
    "psubscribe": ("rows", "read", "app/*"),
    "pttl": ("read", "read", STRING),
    "publish": ("lock", "lock", "app/c x"),
    "pubsub": ("caller", "caller", "NUMPAT"),
    "punsubscribe": ("caller", "caller", ""),
    "quit": ("nothing", "all", ""),
    "reset": ("nothing", "all", ""),
    "role": ("caller", "caller", ""),
    "rpop": ("lock", "lock", LIST),
    "rpoplpush": ("lock", "lock", f"{LIST} {LIST}"),
    "rpush": ("lock", "lock", f"{LIST} a"),
    "rpushx": ("lock", "lock", f"{LIST} a"),
    "sadd": ("lock", "lock", f"{MEMBERS} c"),
    "scan": ("rows", "read", "0"),
    "scard": ("read", "read", MEMBERS),
    "script": ("caller", "caller", "EXISTS {sha}"),
    "select": ("caller", "caller", "0"),
    "set": ("lock", "lock", f"{NEW}-s v NX EX 20"),
    "setex": ("lock", "lock", f"{NEW}-e 20 v"),
    "setnx": ("lock", "lock", f"{NEW}-x v"),
    "sismember": ("read", "read", f"{MEMBERS} a"),
    "smembers": ("read", "read", MEMBERS),
    "smismember": ("read", "read", f"{MEMBERS} a b"),
    "spublish": ("lock", "admin", "app/c x"),  # its name does not begin with app/
    "srem": ("lock", "lock", f"{MEMBERS} b"),
    "sscan": ("read", "read", f"{MEMBERS} 0"),
    "ssubscribe": ("read", "admin", "app/c"),
    "strlen": ("read", "read", STRING),
    "subscribe": ("read", "read", "app/c"),
    "sunsubscribe": ("caller", "caller", ""),
    "time": ("caller", "caller", ""),
    "ttl": ("read", "read", STRING),
    "type": ("read", "read", STRING),
    "unlink": ("lock", "lock", COUNTER),
    "unsubscribe": ("caller", "caller", ""),
    "unwatch": ("caller", "caller", ""),
    "wait": ("caller", "caller", "0 0"),
    "watch": ("read", "read", STRING),
    "zadd": ("lock", "lock", f"{SORTED} 1 m"),
    "zcard": ("read", "read", SORTED),
    "zcount": ("read", "read", f"{SORTED} 0 9"),
    "zincrby": ("lock", "lock", f"{SORTED} 1 a"),
    "zmscore": ("read", "read", f"{SORTED} a b"),
    "zpopmax": ("lock", "lock", SORTED),
    "zpopmin": ("lock", "lock", SORTED),
    "zrange": ("read", "read", f"{SORTED} 0 -1"),
    "zrangebyscore": ("read", "read", f"{SORTED} 0 9"),
    "zrank": ("read", "read", f"{SORTED} a"),
    "zrem": ("lock", "lock", f"{SORTED} b"),
    "zremrangebyrank": ("lock", "lock", f"{SORTED} 0 0"),
    "zremrangebyscore": ("lock", "lock", f"{SORTED} 0 99"),
    "zrevrange": ("read", "read", f"{SORTED} 0 -1"),
    "zrevrangebyscore": ("read", "read", f"{SORTED} 9 0"),
    "zrevrank": ("read", "read", f"{SORTED} a"),
    "zscore": ("read", "read", f"{SORTED} a"),
}


def rows_of(protocol):
    printed = subprocess.run([TABLE], capture_output=True, text=True, check=True).stdout
    rows = [line.split("\t") for line in printed.splitlines()]
    return {request: need for kind, request, need in rows if kind == protocol}


def check_rows(protocol, expectations):
    """The table and the expectations have the same rows, with the same needs."""
    rows = rows_of(protocol)
    assert rows == {request: row[0] for request, row in expectations.items()}


@pytest.fixture
def node(make_cluster):
    made = secure_cluster(make_cluster, 1)
    made.nodes[1].tokens = made.tokens
    return made.nodes[1]


def expected(row, role):
    if role in PASSES[row[1]]:
        return "passed"
    # AUTH refuses `other` the tenant, so its Redis connection has no caller.
    return "unauthenticated" if role == "nobody" or (role == "other" and row in RESP.values()) else "denied"


def compare(results, expectations):
    wrong = [f"{request} as {role}: {got}, not {expected(expectations[request], role)}"
             for (request, role), got in sorted(results.items()) if got != expected(expectations[request], role)]
    assert not wrong, "\n".join(wrong)
    assert set(results) == {(request, role) for request in expectations for role in ROLES}


def in_parallel(send):
    """One thread a role: refusals wait for shared barriers."""
    with concurrent.futures.ThreadPoolExecutor(len(ROLES)) as pool:
        parts = pool.map(send, ROLES)
    return {key: value for part in parts for key, value in part.items()}


# --- HTTP


def headers_of(node, role):
    principal = ROLES[role]
    return bearer(node.tokens[principal], "red") if principal else {}


def http_verdict(request, role, status, code):
    if status in (401, 403):
        return {401: "unauthenticated", 403: "denied"}[status]
    if status == 404 and role in HIDDEN.get(request, ()):
        return "passed"  # but finds nothing
    # The request was valid and reached its handler.
    assert status in (200, 404, 409, 423) and code not in ("no_route", "json_malformed"), (request, role, status, code)
    return "passed"


def request_http(node, role):
    """All routes over one connection; a stream ends its connection."""
    results = {}
    connection = None
    for request, (_, _, given) in HTTP.items():
        method, path = request.split()
        path = path.replace("{name}", "app/m").replace("{id}", NO_ID).replace("{member}", "9")
        path += given if isinstance(given, str) else ""
        body = json.dumps(given) if isinstance(given, dict) else None
        if connection is None:
            connection = http.client.HTTPConnection("127.0.0.1", node.client_port, timeout=PATIENCE)
        connection.request(method, path, body=body, headers=headers_of(node, role))
        answer = connection.getresponse()
        is_stream = answer.headers.get_content_type() == "text/event-stream"
        text = b"" if is_stream else answer.read()
        is_json = answer.headers.get_content_type() == "application/json"
        code = json.loads(text).get("error", {}).get("code") if is_json and answer.status != 200 else None
        results[request, role] = http_verdict(request, role, answer.status, code)
        if is_stream or answer.headers.get("Connection") == "close":
            connection.close()
            connection = None
    return results


@pytest.mark.sanitized
def test_every_route_and_role(node):
    check_rows("http", HTTP)
    compare(in_parallel(lambda role: request_http(node, role)), HTTP)


# --- gRPC


def call_grpc(channel, path, message, streams, metadata):
    """The code; a stream is cancelled after its first message."""
    same = dict(request_serializer=lambda data: data, response_deserializer=lambda data: data)
    data = message.SerializeToString()
    options = dict(metadata=metadata, timeout=PATIENCE)
    try:
        if streams == "":
            channel.unary_unary(path, **same)(data, **options)
            return "OK"
        if streams == "n":
            call = channel.unary_stream(path, **same)(data, **options)
        else:
            call = channel.stream_stream(path, **same)(iter([data]), **options)
        next(call, None)
        call.cancel()
        return "OK"
    except grpc.RpcError as error:
        return error.code().name


def request_grpc(node, role, rows):
    metadata = tuple((key.lower(), value) for key, value in headers_of(node, role).items())
    results = {}
    with channel_to(node) as channel:
        for path, (_, _, message, streams) in rows.items():
            code = call_grpc(channel, path, message, streams, metadata)
            assert code not in ("INVALID_ARGUMENT", "UNIMPLEMENTED", "DEADLINE_EXCEEDED"), (path, role, code)
            results[path, role] = {"UNAUTHENTICATED": "unauthenticated",
                                   "PERMISSION_DENIED": "denied"}.get(code, "passed")
    return results


@pytest.mark.sanitized
def test_every_method_and_role(node, stubs):  # noqa: F811
    rows = grpc_rows(stubs)
    check_rows("grpc", rows)
    compare(in_parallel(lambda role: request_grpc(node, role, rows)), rows)


# --- the Redis protocol


def resp_client(node, role):
    """Authenticated as the role, as far as it can be; the second value says so."""
    client = connect(node, single_connection_client=True)
    principal = ROLES[role]
    if principal is None:
        return client, False
    try:
        client.execute_command("AUTH", f"red:{principal}", node.tokens[principal])
    except redis.exceptions.RedisError as error:
        assert role == "other" and isinstance(error, redis.exceptions.NoPermissionError), error
        return client, False
    return client, True


def resp_verdict(command, role, error):
    if error is None:
        return "passed"
    if isinstance(error, redis.exceptions.NoPermissionError) or NOT_OWN in str(error):
        return "denied"
    if isinstance(error, redis.exceptions.AuthenticationError):
        return "unauthenticated"
    assert "wrong number" not in str(error) and "syntax" not in str(error), (command, role, error)
    return "passed"


FLUSHES = ("flushall", "flushdb")  # last: they remove the keys of the other roles


def request_resp(node, role, sha, commands):
    results = {}
    client, known = resp_client(node, role)
    for command in commands:
        words = RESP[command][2]
        if command in ("auth", "hello"):
            results[command, role] = "passed"  # by resp_client, and below
            continue
        words = [word.format(role=role, sha=sha, soon=int(time.time()) + 1000) for word in words.split(" ") if word]
        words = [word.replace("return(", "return (") for word in words]
        try:
            client.connection.send_command(command, *words)
            client.connection.read_response()
            error = None
        except redis.exceptions.RedisError as problem:
            error = problem
        results[command, role] = resp_verdict(command, role, error)
        if command in ("quit", "reset", "multi") or command.endswith("subscribe"):
            client.close()
            client, known = resp_client(node, role)
    client.close()
    return results


@pytest.mark.sanitized
def test_every_command_and_role(node):
    check_rows("resp", RESP)
    root, known = resp_client(node, "root")
    assert known
    sha = root.script_load("return 1")
    for role in ROLES:
        root.incr(COUNTER.format(role=role))
        root.incr(TIMED.format(role=role))
        root.expire(TIMED.format(role=role), 1000)
        owner, known = resp_client(node, role if role in PASSES["lock"] else "lock")
        assert known
        owner.set(STRING.format(role=role), "v", nx=True, ex=100)
        owner.hset(HASH.format(role=role), "f", "v")
        owner.rpush(LIST.format(role=role), "a", "b")
        owner.zadd(SORTED.format(role=role), {"a": 1, "b": 2})
        owner.sadd(MEMBERS.format(role=role), "a", "b")
    results = in_parallel(lambda role: request_resp(node, role, sha, [c for c in RESP if c not in FLUSHES]))
    results |= in_parallel(lambda role: request_resp(node, role, sha, FLUSHES))
    compare(results, RESP)

"""The API by table: every described operation, requested through a follower as through the leader. The harness
checks each answer against docs/openapi.yaml; here is what it must say."""

import pytest

from harness import API, wait_until

NAMES = ("leader", "follower")


class Script:
    """Sends requests to one node, and notes their operations."""

    def __init__(self, node, prefix):
        self.node = node
        self.prefix = prefix
        self.operations = set()

    def request(self, method, path, body=None, status=200, **expected):
        path = path.replace("NAME", self.prefix)
        operation = API.operation(method, path)
        assert operation is not None, f"{method} {path} is not described"
        self.operations.add(operation["operationId"])
        answer = self.node.request(method, path, body)
        assert answer.status == status, (method, path, answer)
        if expected:
            said = answer.json.get("error", answer.json)
            assert {key: said[key] for key in expected} == expected, (method, path, answer)
        return answer.json if answer.text.startswith("{") else answer.text


def locks(s):
    ann = {"client_id": "ann"}
    got = s.request("POST", "/api/v1/locks/NAME/a/acquire",
                {**ann, "ttl_ms": 60000, "metadata": {"pid": 7}}, acquired=True, tier="CORRECTNESS")
    token = {**ann, "fencing_token": got["fencing_token"]}
    held = s.request("POST", "/api/v1/locks/NAME/a/acquire", {"client_id": "bob"}, acquired=False,
                 reason="held", queue_length=0)
    assert held["holder"]["client_id"] == "ann" and held["holder"]["metadata"] == {"pid": 7}
    s.request("POST", "/api/v1/locks/NAME/a/acquire", {"client_id": "bob", "wait_timeout_ms": 50},
          acquired=False, reason="timeout")
    s.request("POST", "/api/v1/locks/NAME/a/acquire", {"client_id": "bob", "mode": "semaphore", "limit": 2},
          acquired=False, reason="mode_mismatch")
    s.request("POST", "/api/v1/locks/NAME/a/renew", {**token, "ttl_ms": 90000}, renewed=True, reason="ok")
    s.request("POST", "/api/v1/locks/NAME/a/renew", {**token, "client_id": "bob"}, renewed=False,
          reason="not_owner")
    s.request("GET", "/api/v1/locks/NAME/a", held=True, queue_length=0)
    assert [row["name"] for row in s.request("GET", f"/api/v1/locks?prefix={s.prefix}/")["locks"]] == [
        f"{s.prefix}/a"]
    s.request("POST", "/api/v1/locks/NAME/a/release", {**token, "client_id": "bob"}, released=False,
          reason="not_owner")
    s.request("POST", "/api/v1/locks/NAME/a/release", token, released=True, reason="ok")
    s.request("POST", "/api/v1/locks/NAME/a/release", token, released=False, reason="already_released")
    s.request("GET", "/api/v1/locks/NAME/a", held=False)


def exactly_once(s):
    body = {"client_id": "ann", "ttl_ms": 60000, "request_id": s.prefix}
    first = s.request("POST", "/api/v1/locks/NAME/once/acquire", body, acquired=True)
    again = s.request("POST", "/api/v1/locks/NAME/once/acquire", body, acquired=True)
    assert again["fencing_token"] == first["fencing_token"]
    s.request("POST", "/api/v1/locks/NAME/once/acquire", {**body, "ttl_ms": 70000}, 409,
          code="request_id_reused")


def semaphores(s):
    body = {"mode": "semaphore", "limit": 2, "permits": 1}
    for client in ("ann", "bob"):
        s.request("POST", "/api/v1/locks/NAME/s/acquire", {**body, "client_id": client}, acquired=True)
    s.request("POST", "/api/v1/locks/NAME/s/acquire", {**body, "client_id": "eve"}, reason="held")
    s.request("POST", "/api/v1/locks/NAME/s/acquire", {**body, "client_id": "eve", "limit": 3},
          reason="limit_mismatch")
    s.request("POST", "/api/v1/locks/NAME/s/acquire", {**body, "client_id": "eve", "permits": 3},
          reason="permits_exceed_limit")


def multilocks(s):
    names = [f"{s.prefix}/m/{i}" for i in range(3)]
    got = s.request("POST", "/api/v1/multilock/acquire", {"client_id": "ann", "names": names}, acquired=True)
    token = {"client_id": "ann", "fencing_token": got["fencing_token"]}
    s.request("POST", "/api/v1/multilock/acquire", {"client_id": "bob", "names": names[2:]}, acquired=False)
    s.request("POST", "/api/v1/multilock/acquire", {"client_id": "x", "names": [names[0]] * 2}, 400,
          code="duplicate_name")
    s.request("POST", "/api/v1/multilock/renew", token, renewed=True)
    s.request("POST", "/api/v1/multilock/release", token, released=True)


def sessions(s):
    opened = s.request("POST", "/api/v1/sessions", {"client_id": s.prefix, "ttl_ms": 60000})
    path = f"/api/v1/sessions/{opened['session_id']}"
    s.request("POST", "/api/v1/locks/NAME/of-session/acquire", {"session_id": opened["session_id"]},
          acquired=True)
    s.request("POST", path + "/keepalive")
    assert [(row["held"], row["queue_length"]) for row in s.request("GET", path + "/locks")["locks"]] == [(True, 0)]
    s.request("GET", path, client_id=s.prefix)
    assert s.prefix in [row["client_id"] for row in s.request("GET", "/api/v1/sessions")["sessions"]]
    s.request("DELETE", path, closed=True)
    s.request("GET", "/api/v1/locks/NAME/of-session", held=False)
    s.request("POST", path + "/keepalive", status=410, code="session_expired")
    s.request("POST", "/api/v1/sessions/" + "0" * 31 + "1/keepalive", status=404, code="session_not_found")


def elections(s):
    got = s.request("POST", "/api/v1/elections/NAME/campaign", {"client_id": "ann", "value": "a"},
                elected=True)
    token = {"client_id": "ann", "fencing_token": got["epoch"]}
    s.request("POST", "/api/v1/elections/NAME/campaign", {"client_id": "bob", "value": "b"}, elected=False)
    s.request("POST", "/api/v1/elections/NAME/proclaim", {**token, "value": "c"}, proclaimed=True)
    assert s.request("GET", "/api/v1/elections/NAME")["leader"]["value"] == "c"
    s.request("POST", "/api/v1/elections/NAME/resign", token, resigned=True)
    s.request("GET", "/api/v1/elections/NAME", leader=None)


def fences(s):
    for token, accepted in ((5, True), (5, True), (9, True), (7, False)):
        s.request("POST", "/api/v1/fence/check", {"resource": s.prefix, "fencing_token": token},
              accepted=accepted, advisory=True, highest=max(token, 9) if token != 5 else 5)
    s.request("POST", "/api/v1/fence/check", {"resource": s.prefix, "fencing_token": 2**53 - 1},
          accepted=False, reason="not_issued", highest=9)
    held = s.request("POST", "/api/v1/locks/NAME/fenced/acquire", {"client_id": "ann"}, acquired=True)
    s.request("POST", "/api/v1/fence/check", {"resource": s.prefix, "fencing_token": held["fencing_token"]},
          accepted=True, reason="ok")


def fences_for_proxies(s):
    """A proxy sees only the status."""
    held = s.request("POST", "/api/v1/locks/NAME/proxied/acquire", {"client_id": "ann"}, acquired=True)["fencing_token"]
    resource = f"{s.prefix}/proxied"
    for query, token, status, expected in (
            ("?refuse_with=403", held, 200, {"accepted": True, "reason": "ok"}),
            ("?refuse_with=403", held - 1, 403, {"accepted": False, "reason": "stale_token"}),
            ("?refuse_with=403", 2**53 - 1, 403, {"accepted": False, "reason": "not_issued"}),
            ("", held - 1, 200, {"accepted": False, "reason": "stale_token"}),
            ("?refuse_with=500", held, 400, {}), ("?refuse_with=", held, 400, {}), ("?refuse=403", held, 400, {})):
        s.request("POST", "/api/v1/fence/check" + query, {"resource": resource, "fencing_token": token}, status=status, **expected)
    s.request("POST", "/api/v1/fence/check?refuse_with=403", {"resource": resource, "fencing_token": held, "lock": f"{s.prefix}/other"},
              status=403, accepted=False, reason="not_owner")


def fences_of_a_lock(s):
    """The resource NAME is protected by a lock of another name: only its present holder passes."""
    resource = f"{s.prefix}/of-lock"
    for tier in ("CORRECTNESS", "EFFICIENCY"):
        lock = f"{s.prefix}/{tier}"
        check = lambda token, **expected: s.request(  # noqa: E731
            "POST", "/api/v1/fence/check", {"resource": resource, "fencing_token": token, "lock": lock}, **expected)
        held = s.request("POST", f"/api/v1/locks/NAME/{tier}/acquire", {"client_id": "ann", "tier": tier}, acquired=True)
        token = held["fencing_token"]
        other = s.request("POST", f"/api/v1/locks/NAME/x{tier}/acquire", {"client_id": "ann", "tier": tier}, acquired=True)
        before = check(other["fencing_token"], accepted=False, reason="not_owner", advisory=True)["highest"]
        assert before < token  # it left no mark
        check(token, accepted=True, reason="ok", highest=token)
        s.request("POST", f"/api/v1/locks/NAME/{tier}/release", {"client_id": "ann", "fencing_token": token}, released=True)
        check(token, accepted=False, reason="not_owner", highest=token)
        s.request("POST", "/api/v1/fence/check", {"resource": resource, "fencing_token": token}, accepted=True)
    s.request("POST", "/api/v1/fence/check", {"resource": resource, "fencing_token": 1, "lock": "a\n"}, 400)


def fence_resets(s):
    body = {"resource": s.prefix, "actor_id": "op", "reason": "it was wrong"}
    s.request("POST", "/api/v1/fence/reset", {**body, "slot": 1}, 404)
    s.request("POST", "/api/v1/fence/reset", {**body, "fencing_token": 2**53 - 1}, 400)
    reset = s.request("POST", "/api/v1/fence/reset", body)
    s.request("POST", "/api/v1/fence/check", {"resource": s.prefix, "fencing_token": reset["previous"]},
          accepted=False, reason="stale_token", highest=reset["highest"])
    held = s.request("POST", "/api/v1/locks/NAME/reset/acquire", {"client_id": "ann"}, acquired=True)
    s.request("POST", "/api/v1/fence/check", {"resource": s.prefix, "fencing_token": held["fencing_token"]},
          accepted=True, reason="ok")
    s.request("POST", "/api/v1/fence/reset", {**body, "fencing_token": reset["previous"]}, highest=reset["previous"])
    trail = s.request("GET", "/api/v1/audit")["records"]
    marks = [(r["previous"], r["highest"]) for r in trail if r["resource"] == s.prefix]
    assert marks == [(reset["previous"], reset["highest"]), (held["fencing_token"], reset["previous"])]


def operators(s):
    who = {"actor_id": "op", "reason": "it hangs"}
    s.request("POST", "/api/v1/locks/NAME/f/acquire", {"client_id": "ann"}, acquired=True)
    s.request("POST", "/api/v1/locks/NAME/f/force-unlock", {"actor_id": "op"}, 400)
    s.request("POST", "/api/v1/locks/NAME/f/force-unlock", {**who, "now": True})
    s.request("POST", "/api/v1/locks/NAME/f/acquire", {"client_id": "ann"}, acquired=True)
    s.request("POST", "/api/v1/locks/NAME/f/revoke", {**who, "deadline_ms": 60000})
    trail = s.request("GET", "/api/v1/audit")["records"]
    assert [r["action"] for r in trail if r["resource"] == f"{s.prefix}/f"] == [
        "FORCE_UNLOCK_NOW", "REVOKE"]


def alerts(s):
    rule = {"prefix": f"{s.prefix}/slow/", "actor_id": "op"}
    s.request("DELETE", "/api/v1/alerts", rule, 404, code="alert_not_found")
    s.request("PUT", "/api/v1/alerts", {**rule, "after_ms": 999}, 400, code="invalid_alert")
    s.request("PUT", "/api/v1/alerts", {**rule, "after_ms": 60000}, action="ALERT_SET", after_ms=60000)
    listed = s.request("GET", "/api/v1/alerts", holds=[], next_cursor=None)
    assert {"prefix": rule["prefix"], "after_ms": 60000} in listed["rules"]
    s.request("DELETE", "/api/v1/alerts", rule, action="ALERT_REMOVE", prefix=rule["prefix"])


def seed(s):
    body = {"resource": f"{s.prefix}/seed", "ownerId": "ann", "ttlSeconds": 60}
    got = s.request("POST", "/v1/locks/acquire", body, acquired=True)
    s.request("POST", "/v1/locks/acquire", {**body, "ownerId": "bob"}, acquired=False, reason="held")
    s.request("POST", f"/v1/locks/{got['leaseId']}/renew", renewed=True)
    s.request("DELETE", f"/v1/locks/{got['leaseId']}", released=True, reason="ok")
    s.request("DELETE", f"/v1/locks/{got['leaseId']}", released=False, reason="already_released")


def cluster_itself(s):
    view = s.request("GET", "/api/v1/cluster", serving=True)
    assert len(view["members"]) == 3 and len(s.request("GET", "/api/v1/members")["members"]) == 3
    assert s.request("GET", "/api/v1/stats", serving=True)["leader"] == view["leader"]
    assert s.request("GET", "/api/v1/hot?by=rate", by="rate")["leader"] == view["leader"]
    assert s.request("GET", "/api/v1/sinks", sinks=[])["leader"] == view["leader"]
    for method, path, body in (("POST", "", {"id": 1, "address": "127.0.0.1:1"}),
                               ("POST", "/77/promote", None), ("POST", "/77/demote", None),
                               ("DELETE", "/77", None), ("POST", "/transfer", {"to": 77})):
        s.request(method, "/api/v1/members" + path, body, 409, code="membership_refused")
    assert s.request("GET", "/livez").startswith("ok") and s.request("GET", "/readyz").startswith("ok")
    assert s.request("GET", "/openapi.yaml").startswith("openapi: 3.1")


def credentials(s):
    """With auth = off; test_auth.py has the rest."""
    auth = "/api/v1/auth"
    s.request("GET", f"{auth}/whoami", principal=None, tenant="default", by="none")
    document = s.request("GET", f"{auth}/policy")
    document["tenants"].append({"name": s.prefix})
    document["principals"].append({"tenant": s.prefix, "name": "ci", "description": "builds", "grants": [
        {"tenant": s.prefix, "prefix": "app/", "rights": ["lock"]}]})
    changes = [f"add tenant {s.prefix}", f"add principal {s.prefix}/ci"]
    s.request("PUT", f"{auth}/policy?dry_run=true", document, version=document["version"], dry_run=True, changes=changes)
    s.request("PUT", f"{auth}/policy", document, version=document["version"] + 1, changes=changes)
    s.request("PUT", f"{auth}/policy", document, 409, code="policy_conflict")
    assert s.prefix in [row["name"] for row in s.request("GET", f"{auth}/tenants")["tenants"]]
    s.request("GET", f"{auth}/explain?principal=NAME/ci&right=lock&name=app/a", allowed=True)
    s.request("GET", f"{auth}/explain?principal=NAME/ci&right=lock&name=a", allowed=False)
    made = s.request("POST", f"{auth}/tokens", {"principal": f"{s.prefix}/ci", "ttl_seconds": 60})
    rows = s.request("GET", f"{auth}/tokens?principal=NAME/ci")["tokens"]
    assert [row["number"] for row in rows] == [made["number"]] and made["token"].startswith("hf_")
    s.request("DELETE", f"{auth}/tokens/{made['number']}", number=made["number"])
    s.request("DELETE", f"{auth}/tokens/{made['number']}", status=404, code="policy_not_found")


CHAPTERS = (locks, exactly_once, semaphores, multilocks, sessions, elections, fences, fences_for_proxies, fences_of_a_lock, fence_resets, operators,
            alerts, seed, cluster_itself, credentials)
# Streams are in test_watch.py and test_session_events.py, history in test_history.py, log levels in test_config.py, the snapshot in
# test_snapshot_save.py, states of Terraform in test_terraform.py.
ELSEWHERE = {"lockHistory", "watch", "observe", "sessionEvents", "showLogLevel", "setLogLevel", "saveSnapshot", "terraformLock", "terraformLockByPut",
             "terraformUnlock"}


@pytest.mark.sanitized
def test_every_operation_answers_as_described_through_any_node(make_cluster):
    cluster = make_cluster(3)
    leader = cluster.leader()
    requested = set()
    for node in (leader, cluster.followers()[0]):
        script = Script(node, f"api-{node.id}")
        for chapter in CHAPTERS:
            chapter(script)
        requested |= script.operations
    described = {operation["operationId"] for path in API.document["paths"].values()
                 for method, operation in path.items() if method in ("get", "post", "put", "delete")}
    assert described - requested == ELSEWHERE
    wait_until(lambda: cluster.leader() is leader, "nothing was disturbed")

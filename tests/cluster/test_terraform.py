"""The locks of Terraform's HTTP backend. Terraform is not in Debian, so the requests here are those that its backend
makes (internal/backend/remote-state/http/client.go, the same in OpenTofu), with the bytes that Go's net/http writes."""

import base64
import hashlib
import json
import socket
import subprocess
import uuid

import pytest

from auth_support import secure_cluster
from cli_support import cluster, run_cli  # noqa: F401  (a fixture)
from harness import PATIENCE

DAY_MS = 24 * 3600 * 1000


def lock_info(**more):
    """As LockInfo.Marshal writes it: no spaces, Go's names and order of fields."""
    return {"ID": str(uuid.uuid4()), "Operation": "OperationTypeApply", "Info": "", "Who": "deploy@ci-7",
            "Version": "1.9.8", "Created": "2026-03-02T09:15:04.123456789Z", "Path": "", **more}


def only_id(ident):
    """Of `force-unlock ID` in a new process: the other fields have Go's zero values."""
    return lock_info(ID=ident, Operation="", Who="", Version="", Created="0001-01-01T00:00:00Z")


def marshal(info):
    return json.dumps(info, separators=(",", ":")).encode()


class Backend:
    """httpClient of Terraform: lock_address and unlock_address are the same."""

    def __init__(self, node, name, lock="LOCK", unlock="UNLOCK", user=None, token=None):
        self.port = node.client_port
        self.path = f"/integrations/terraform/{name}"
        self.methods = lock, unlock
        self.basic = None if user is None else base64.b64encode(f"{user}:{token}".encode()).decode()

    def head(self, method, fields):
        """Host and User-Agent, the length, the headers of the request in their order, Accept-Encoding."""
        lines = [f"{method} {self.path} HTTP/1.1", f"Host: 127.0.0.1:{self.port}", "User-Agent: Go-http-client/1.1",
                 *fields[:1]]
        if self.basic is not None:
            lines.append(f"Authorization: Basic {self.basic}")
        return "\r\n".join([*lines, *fields[1:], "Accept-Encoding: gzip", "", ""]).encode()

    def send(self, data):
        with socket.create_connection(("127.0.0.1", self.port), PATIENCE) as connection:
            connection.sendall(data)
            answer = b""
            while b"\r\n\r\n" not in answer:
                answer += connection.recv(65536) or pytest.fail(f"the connection ended: {answer!r}")
            head, body = answer.split(b"\r\n\r\n", 1)
            lines = head.decode().split("\r\n")
            fields = dict(line.lower().split(": ", 1) for line in lines[1:])
            while len(body) < int(fields["content-length"]):
                body += connection.recv(65536) or pytest.fail(f"the connection ended: {answer!r}")
        return int(lines[0].split()[1]), body

    def request(self, method, body):
        digest = base64.b64encode(hashlib.md5(body).digest()).decode()
        return self.send(self.head(method, [f"Content-Length: {len(body)}", f"Content-Md5: {digest}",
                                            "Content-Type: application/json"]) + body)

    def lock(self, info):
        return self.request(self.methods[0], marshal(info))

    def unlock(self, info):
        return self.request(self.methods[1], marshal(info))

    def unlock_without_body(self, chunked):
        """`force-unlock` of OpenTofu and of Terraform to 1.8: an empty body, of a length that net/http knows or not."""
        digest = base64.b64encode(hashlib.md5(b"").digest()).decode()
        fields = ["Transfer-Encoding: chunked" if chunked else "Content-Length: 0", f"Content-Md5: {digest}",
                  "Content-Type: application/json"]
        return self.send(self.head(self.methods[1], fields) + (b"0\r\n\r\n" if chunked else b""))


def code(answer):
    return answer[0], json.loads(answer[1])["error"]["code"]


@pytest.mark.sanitized
def test_lock_unlock_and_the_holder_s_own_bytes(cluster):
    first, other = cluster.nodes[1], cluster.nodes[2]
    mine, theirs = lock_info(Info="<net> \u00e9 \"q\" \\"), lock_info(Who="ana@laptop")
    assert Backend(first, "prod/network").lock(mine)[0] == 200
    assert Backend(other, "prod/network").lock(theirs) == (423, marshal(mine))
    shown = first.show("prod/network").json
    holder = shown["holders"][0]
    assert holder["client_id"] == "deploy@ci-7" and holder["owner"] == mine["ID"] and holder["metadata"] == mine
    assert DAY_MS - 3600_000 < holder["expires_in_ms"] <= DAY_MS
    assert Backend(other, "prod/network").unlock(mine) == (200, b'{"released":true}')
    assert not first.show("prod/network").json["held"]


def test_requests_are_repeated_after_lost_answers(cluster):
    """go-retryablehttp repeats the same bytes, perhaps to another node."""
    info = lock_info()
    tokens = {json.loads(Backend(node, "lost").lock(info)[1])["fencing_token"] for node in cluster}
    assert len(tokens) == 1
    assert {Backend(node, "lost").unlock(info)[0] for node in cluster} == {200}
    # The lock of that ID is over, so a LOCK that arrives late gets none.
    assert code(Backend(cluster.nodes[1], "lost").lock(info)) == (409, "lock_id_mismatch")
    assert not cluster.nodes[1].show("lost").json["held"]


def test_lock_timeout_repeats_the_id_until_it_is_free(cluster):
    backend = Backend(cluster.nodes[1], "polled")
    mine, theirs = lock_info(), lock_info()
    assert backend.lock(mine)[0] == 200
    for _ in range(3):
        assert backend.lock(theirs)[0] == 423
    assert backend.unlock(mine)[0] == 200
    assert backend.lock(theirs)[0] == 200
    assert backend.unlock(theirs)[0] == 200


def test_another_id_unlocks_nothing(cluster):
    backend = Backend(cluster.nodes[1], "stale")
    old, new = lock_info(), lock_info()
    assert backend.lock(old)[0] == 200
    assert code(backend.unlock(new)) == (409, "lock_id_mismatch")
    done = run_cli(cluster, "force-unlock", "stale", "--reason", "the runner is gone")
    assert done.returncode == 0, done
    assert backend.lock(new)[0] == 200
    # The earlier run ends late.
    assert code(backend.unlock(old)) == (409, "lock_id_mismatch")
    assert Backend(cluster.nodes[1], "stale/too").unlock(new)[0] == 409, "the ID is that of one name"
    assert backend.lock(old)[0] == 409
    assert cluster.nodes[2].show("stale").json["holders"][0]["owner"] == new["ID"]
    assert backend.unlock(new)[0] == 200


@pytest.mark.parametrize("lock, unlock", [("POST", "DELETE"), ("PUT", "DELETE")])
def test_the_methods_of_other_backends(cluster, lock, unlock):
    backend = Backend(cluster.nodes[1], f"methods/{lock}", lock, unlock)
    mine, theirs = lock_info(), lock_info()
    assert backend.lock(mine)[0] == 200 and backend.lock(theirs) == (423, marshal(mine))
    assert backend.unlock(theirs)[0] == 409 and backend.unlock(mine)[0] == 200
    assert backend.lock(theirs)[0] == 200 and backend.unlock_without_body(False)[0] == 200


def test_http2(cluster):
    node = cluster.nodes[1]

    def curl(method, info):
        done = subprocess.run(["curl", "-s", "--http2-prior-knowledge", "-X", method, "--data-binary", marshal(info),
                               "-w", "\n%{http_version} %{http_code}",
                               f"http://{node.client}/integrations/terraform/h2"],
                              capture_output=True, text=True, check=True, timeout=PATIENCE)
        body, status = done.stdout.rsplit("\n", 1)
        return status, body.encode()

    mine = lock_info()
    assert curl("LOCK", mine)[0] == "2 200"
    assert curl("LOCK", lock_info()) == ("2 423", marshal(mine))
    assert curl("UNLOCK", mine) == ("2 200", b'{"released":true}')


@pytest.mark.parametrize("way", ["id", "empty", "chunked"])
def test_force_unlock_of_terraform(cluster, way):
    backend = Backend(cluster.nodes[1], f"forced/{way}")
    mine = lock_info()
    assert backend.lock(mine)[0] == 200
    if way == "id":
        assert backend.unlock(only_id(str(uuid.uuid4())))[0] == 409
        assert backend.unlock(only_id(mine["ID"]))[0] == 200
    else:
        assert backend.unlock_without_body(way == "chunked")[0] == 200
        record = cluster.nodes[1].request("GET", f"/api/v1/audit?name=forced/{way}").json["records"][-1]
        assert record["action"] == "FORCE_UNLOCK" and record["actorId"] == "terraform", record
        assert code(backend.unlock_without_body(False)) == (404, "not_held")
    assert not cluster.nodes[1].show(f"forced/{way}").json["held"]


def test_a_holder_that_is_not_terraform(cluster):
    node = cluster.nodes[1]
    token = node.acquire("by/hand", client="ana@laptop/12", metadata={"ID": "x"}).json["fencing_token"]
    status, body = Backend(node, "by/hand").lock(lock_info())
    info = json.loads(body)
    assert status == 423 and info["ID"] == info["Who"] == "ana@laptop/12" and "not locked by" in info["Info"], info
    assert info["Created"].endswith("Z") and str(token) not in body.decode()
    assert Backend(node, "by/hand").unlock(only_id("ana@laptop/12"))[0] == 409
    assert node.show("by/hand").json["held"]


def test_requests_about_a_state_are_refused_and_change_nothing(cluster):
    node = cluster.nodes[1]
    state = {"version": 4, "terraform_version": "1.9.8", "serial": 3, "lineage": "x", "outputs": {}, "resources": []}
    answer = node.request("GET", "/integrations/terraform/state")
    assert answer.status == 405 and answer.headers["Allow"] == "POST, PUT, DELETE, LOCK, UNLOCK, OPTIONS", answer
    answer = node.request("POST", "/integrations/terraform/state", state)
    assert answer.code == "field_missing" and "stores no state" in answer.text, answer
    assert node.request("POST", "/integrations/terraform/state?ID=1", state).code == "field_unknown"
    assert not node.show("state").json["held"]


@pytest.mark.parametrize("body, expected", [
    (b"", "json_malformed"), (b"[]", "json_not_object"), (b"{}", "field_missing"), (b'{"ID":5}', "field_missing"),
    (b'{"ID":""}', "field_range"), (marshal({"ID": "x" * 65}), "field_range"), (b'{"ID":"a\\nb"}', "field_range"),
    (b'{"ID":"a","ID":"b"}', "field_repeated"), (marshal(lock_info(Info="x" * 4096)), "invalid_metadata")])
def test_bad_lock_infos(cluster, body, expected):
    assert code(Backend(cluster.nodes[1], "bad").request("LOCK", body)) == (400, expected)
    assert not cluster.nodes[1].show("bad").json["held"]


def test_the_largest_lock_info_and_one_without_who(cluster):
    backend = Backend(cluster.nodes[1], "large")
    info = {"ID": "x" * 64, "Who": "w" * 256, "Later": [1, {"a": None}]}
    info["Info"] = "i" * (4096 - len(marshal({**info, "Info": ""})))
    assert len(marshal(info)) == 4096
    assert backend.request("LOCK", json.dumps(info, indent=2).encode())[0] == 200
    assert backend.lock(lock_info()) == (423, marshal(info))
    assert cluster.nodes[1].show("large").json["holders"][0]["client_id"] == "terraform"
    assert backend.unlock(info)[0] == 200


def test_a_tier_of_an_earlier_request_on_the_connection(cluster):
    node = cluster.nodes[1]
    connection = node.connect()
    fast = json.dumps({"client_id": "c", "tier": "EFFICIENCY"})
    for path, body in (("/api/v1/locks/quick/acquire", fast), ("/integrations/terraform/slow", marshal(lock_info())),
                       ("/v1/locks/acquire", json.dumps({"resource": "seed", "ownerId": "c"}))):
        connection.request("POST", path, body=body)
        assert connection.getresponse().read()
    connection.close()
    tiers = {name: node.show(name).json["tier"] for name in ("quick", "slow", "seed")}
    assert tiers == {"quick": "EFFICIENCY", "slow": "CORRECTNESS", "seed": "CORRECTNESS"}


@pytest.mark.sanitized
def test_the_password_is_the_token(make_cluster):
    made = secure_cluster(make_cluster, 1)
    node = made.nodes[1]

    def backend(principal, user="terraform", token=None):
        return Backend(node, "app/state", user=user, token=token or made.tokens[principal])

    mine = lock_info()
    assert backend(None, token="wrong").lock(mine)[0] == 401
    for credentials in ("Basic", "Basic !!!!", "Basic dXNlcg==", "Basic dXNlcjo=", "Digest YTpi"):
        answer = node.request("GET", "/api/v1/cluster", headers={"Authorization": credentials})
        assert answer.status == 401 and answer.code == "unauthenticated", (credentials, answer)
    assert Backend(node, "app/state").lock(mine)[0] == 401
    assert backend("red/read").lock(mine)[0] == 403
    assert backend("red/lock").lock(mine)[0] == 200
    assert backend("red/admin", user="red/admin").lock(lock_info()) == (423, marshal(mine))
    # Another principal needs the right `operate`, and another tenant sees nothing.
    assert code(backend("red/read").unlock(only_id(mine["ID"]))) == (403, "denied")
    assert code(backend("red/lock").unlock_without_body(False)) == (403, "denied")
    assert backend("blue/admin").unlock(only_id(mine["ID"]))[0] == 409
    assert backend("red/admin").unlock(only_id(str(uuid.uuid4())))[0] == 409
    assert backend("red/operate").unlock(only_id(mine["ID"]))[0] == 200
    record = node.request("GET", "/api/v1/audit?name=app/state",
                          headers={"Authorization": f"Bearer {made.tokens['red/admin']}"}).json["records"][-1]
    assert (record["action"], record["actorId"]) == ("FORCE_UNLOCK", "red/operate"), record
    # Its own lock needs none.
    again = lock_info()
    assert backend("red/lock").lock(again)[0] == 200
    assert backend("red/lock").unlock(only_id(again["ID"]))[0] == 200

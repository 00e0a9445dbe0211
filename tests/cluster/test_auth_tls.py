"""Client certificates as identity, with auth = on: each rule and its wrong side, with programs that are not ours. That
TLS itself refuses expired and foreign certificates is in test_tls.py."""

import json
import subprocess
import time

import grpc
import pytest
import redis

from auth_support import bearer, policy
from grpc_support import stubs  # noqa: F401
from harness import PATIENCE, Node, allowed, free_ports, run, wait_until
from secure import Authority, admin_request, new_secret, openssl

WHOAMI = "/api/v1/auth/whoami"


@pytest.fixture(scope="module", name="ca")
def one_authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module", name="node")
def one_node(ca, tmp_path_factory):
    """The first administrator comes from the socket, the policy from the command line."""
    folder = tmp_path_factory.mktemp("auth-tls")
    client, peer = free_ports(2)
    certificate = ca.issue("server", ["holdfast-node:test/1"], ["127.0.0.1", "localhost"])
    node = Node(1, folder / "node", client, peer, ["--bootstrap", "--auth", "on", *ca.flags(certificate)])
    node.tls = ca.context()
    node.start().wait_ready()
    secret, sha256 = new_secret()
    wait_until(lambda: "error" not in admin_request(node.folder, op="bootstrap", principal="default/root", sha256=sha256),
               "the administrator is made")
    node.token_file = folder / "root"
    node.token_file.write_text(secret)
    node.token_file.chmod(0o600)
    node.headers = bearer(secret)
    document = folder / "policy.json"
    document.write_text(json.dumps(policy()))
    done = run("auth", "apply", str(document), "--endpoints", node.client, "--token-file", str(node.token_file),
               "--ca", str(ca.ca))
    assert done.returncode == 0, done.stderr
    yield node
    node.stop()


@pytest.fixture(scope="module", name="certificate")
def one_certificate(ca):
    return ca.client("red/lock")


def curl(ca, node, path, certificate, *flags):
    """Status and JSON."""
    identity = ["--cert", str(certificate.cert), "--key", str(certificate.key)] if certificate else []
    done = subprocess.run(["curl", "-sS", "--cacert", str(ca.ca), *identity, "-w", "\n%{http_code}", *flags,
                           f"https://127.0.0.1:{node.client_port}{path}"], capture_output=True, text=True,
                          timeout=PATIENCE, check=True)
    body, _, status = done.stdout.rpartition("\n")
    return int(status), json.loads(body)


def test_certificate_names_its_principal(ca, node, certificate):
    for flag in ("--http1.1", "--http2"):
        status, who = curl(ca, node, WHOAMI, certificate, flag)
        assert status == 200 and (who["principal"], who["by"]) == ("red/lock", "certificate") and who["expires_at"]


def test_token_counts_before_the_certificate(ca, node, certificate):
    _, who = curl(ca, node, WHOAMI, certificate, "-H", f"Authorization: {node.headers['Authorization']}")
    assert (who["principal"], who["by"]) == ("default/root", "token")
    status, _ = curl(ca, node, WHOAMI, certificate, "-H", "Authorization: Bearer hf_wrong")
    assert status == 401


def test_common_name_is_never_a_principal(ca, node):
    for name, uris in (("red/lock", []), ("holdfast:red/lock", []), ("none", ["https://red/lock"])):
        made = ca.issue(name.replace("/", "-").replace(":", "-"), uris)
        assert f"CN = {name.replace('/', '-').replace(':', '-')}" in openssl("x509", "-in", made.cert, "-noout", "-subject")
        status, answer = curl(ca, node, WHOAMI, made)
        assert (status, answer["error"]["code"]) == (401, "unauthenticated")


def test_certificate_of_two_principals_names_none(ca, node):
    made = ca.issue("two", ["holdfast:red/lock", "holdfast:default/root"])
    status, answer = curl(ca, node, WHOAMI, made)
    assert status == 401 and "one SAN URI" in answer["error"]["message"]


def test_certificate_of_a_node_or_of_nobody_is_no_caller(ca, node):
    for made in (ca.node(7), ca.client("red/nobody"), ca.client("nowhere/lock"), ca.issue("odd", ["holdfast:red"])):
        status, answer = curl(ca, node, WHOAMI, made)
        assert (status, answer["error"]["code"]) == (401, "unauthenticated")


def test_grpc_with_a_certificate(ca, node, certificate, stubs):  # noqa: F811
    def channel(made):
        credentials = grpc.ssl_channel_credentials(ca.ca.read_bytes(), made.key.read_bytes(), made.cert.read_bytes())
        return grpc.secure_channel(f"localhost:{node.client_port}", credentials)

    with channel(certificate) as secured:
        request = stubs.lock.LockRequest(resource_id="app/g", client_id="c")
        assert stubs.lock_grpc.LockServiceStub(secured).Lock(request, timeout=PATIENCE).acquired
        with pytest.raises(grpc.RpcError) as error:
            request.resource_id = "other"
            stubs.lock_grpc.LockServiceStub(secured).Lock(request, timeout=PATIENCE)
        assert error.value.code() == grpc.StatusCode.PERMISSION_DENIED
    with channel(ca.client("red/ghost")) as secured:
        with pytest.raises(grpc.RpcError) as error:
            stubs.lock_grpc.LockServiceStub(secured).Lock(request, timeout=PATIENCE)
        assert error.value.code() == grpc.StatusCode.UNAUTHENTICATED


def redis_with(ca, node, made, **more):
    return redis.Redis(port=node.resp_port, ssl=True, ssl_ca_certs=str(ca.ca), ssl_certfile=str(made.cert),
                       ssl_keyfile=str(made.key), decode_responses=True, **more)


def test_redis_with_a_certificate(ca, node, certificate):
    words = ["redis-cli", "--tls", "--cacert", ca.ca, "--cert", certificate.cert, "--key", certificate.key,
             "-p", node.resp_port, "SET", "app/r", "v", "NX", "PX", "20000"]
    assert subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=PATIENCE, check=True).stdout == "OK\n"
    with redis_with(ca, node, certificate) as client:
        assert client.get("app/r") == "v"
        with pytest.raises(redis.exceptions.NoPermissionError):
            client.get("other")
    with redis_with(ca, node, ca.client("red/ghost")) as client, pytest.raises(redis.exceptions.RedisError) as error:
        client.ping()
    assert "names no principal" in str(error.value)


def test_barred_certificate_is_refused_and_its_connections_end(ca, node, tmp_path):
    made, same = ca.client("red/read"), ca.issue("again", ["holdfast:red/read"])
    serial = openssl("x509", "-in", made.cert, "-noout", "-serial").strip().removeprefix("serial=").lower().lstrip("0")
    client = redis_with(ca, node, made, single_connection_client=True)
    assert client.ping()
    watch = subprocess.Popen(["curl", "-sN", "--cacert", ca.ca, "--cert", made.cert, "--key", made.key,
                              f"https://127.0.0.1:{node.client_port}/api/v1/watch"], stdout=subprocess.PIPE, text=True)
    assert "ready" in watch.stdout.readline() + watch.stdout.readline()
    words = ("--endpoints", node.client, "--token-file", str(node.token_file), "--ca", str(ca.ca))
    document = json.loads(run("auth", "show", "--json", *words).stdout)
    document["barred_serials"] = [serial]
    (tmp_path / "policy.json").write_text(json.dumps(document))
    done = run("auth", "apply", str(tmp_path / "policy.json"), *words)
    assert f"bar serial {serial}" in done.stdout, done.stderr
    began = time.monotonic()
    rest, _ = watch.communicate(timeout=PATIENCE)
    assert "barred" in rest
    with pytest.raises(redis.exceptions.RedisError):
        wait_until(lambda: not client.ping(), "the connection is closed")
    assert time.monotonic() - began < allowed(2)
    status, answer = curl(ca, node, WHOAMI, made)
    assert status == 401 and "barred" in answer["error"]["message"]
    assert curl(ca, node, WHOAMI, same)[0] == 200  # of the same principal


def test_certificate_that_expires_while_connected(ca, node):
    soon = time.strftime("%Y%m%d%H%M%SZ", time.gmtime(time.time() + 4))
    made = ca.client("blue/read", not_after=soon)
    client = redis_with(ca, node, made, single_connection_client=True)
    assert client.ping()
    plain = client.connection._sock  # pylint: disable=protected-access
    plain.settimeout(PATIENCE)
    assert b"expired" in plain.recv(4096)
    with pytest.raises((redis.exceptions.RedisError, OSError)):
        redis_with(ca, node, made).ping()

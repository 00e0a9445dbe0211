"""TLS on the client ports, with programs that are not ours: openssl, curl, grpcio, redis-cli, redis-py. Each rule and its
wrong side."""

import socket
import ssl
import subprocess
import time

import grpc
import pytest
import redis

from harness import PATIENCE, Node, allowed, free_ports, run, wait_until
from secure import Authority

HANDSHAKE_S = 5  # OPENING_MS of src/net/connection.h


@pytest.fixture(scope="module", name="ca")
def one_authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("ca"))


def start(ca, folder, *flags, certificate=None):
    client, peer = free_ports(2)
    certificate = certificate or ca.issue(f"server-{client}", ["holdfast-node:test/1"], ["127.0.0.1", "localhost"])
    node = Node(1, folder, client, peer, ["--bootstrap", "--log-level", "client=debug", *ca.flags(certificate), *flags])
    node.tls = ca.context()
    node.start().wait_ready()
    return node


@pytest.fixture(scope="module", name="node")
def one_node(ca, tmp_path_factory):
    node = start(ca, tmp_path_factory.mktemp("tls") / "node")
    yield node
    node.stop()


def program(*command, text=""):
    return subprocess.run(list(map(str, command)), input=text, capture_output=True, text=True, timeout=PATIENCE, check=False)


def curl(ca, url, *flags):
    return program("curl", "-sS", "--cacert", ca.ca, *flags, url)


def s_client(ca, address, *flags):
    return program("openssl", "s_client", "-connect", address, "-CAfile", ca.ca, "-verify_return_error", *flags)


def request_with(ca, node, certificate):
    """A request of HTTP/1.1 with a client certificate, over TLS 1.3: the refusal arrives after the client's handshake."""
    with socket.create_connection(("127.0.0.1", node.client_port), timeout=PATIENCE) as plain:
        with ca.context(certificate).wrap_socket(plain, server_hostname="127.0.0.1") as secured:
            secured.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
            return secured.recv(4096)


def test_curl_speaks_http_1_and_2(ca, node):
    for flag, version in (("--http1.1", "1.1"), ("--http2", "2")):
        done = curl(ca, f"https://127.0.0.1:{node.client_port}/livez", flag, "-o", "/dev/null", "-w", "%{http_version} %{http_code}")
        assert (done.returncode, done.stdout) == (0, f"{version} 200"), done.stderr


def test_a_large_request_and_many_answers_pass(node):
    for i in range(50):
        answer = node.request("GET", f"/api/v1/locks?prefix={'x' * 500}{i}")
        assert answer.status == 200


def test_grpc_speaks_h2(ca, node):
    credentials = grpc.ssl_channel_credentials(ca.ca.read_bytes())
    with grpc.secure_channel(f"localhost:{node.client_port}", credentials) as channel:
        check = channel.unary_unary("/grpc.health.v1.Health/Check")
        assert check(b"", timeout=PATIENCE) == b"\x08\x01"  # SERVING


def test_redis_programs_connect(ca, node):
    done = program("redis-cli", "--tls", "--cacert", ca.ca, "-p", node.resp_port, "SET", "tls/a", "x", "NX", "PX", "10000")
    assert done.stdout.strip() == "OK", done.stderr
    with redis.Redis(port=node.resp_port, ssl=True, ssl_ca_certs=str(ca.ca), ssl_cert_reqs="required") as client:
        assert client.get("tls/a") is not None


def test_tls_1_2_only_by_choice(ca, node, tmp_path):
    assert s_client(ca, node.client, "-tls1_3").returncode == 0
    assert s_client(ca, node.client, "-tls1_2").returncode != 0
    other = start(ca, tmp_path / "node", "--tls-min", "1.2")
    try:
        assert "TLSv1.2" in s_client(ca, other.client, "-tls1_2").stdout
        assert s_client(ca, other.client, "-tls1_2", "-cipher", "AES128-SHA").returncode != 0  # no forward secrecy
        assert "TLSv1.3" in s_client(ca, other.client).stdout
    finally:
        other.stop()


def test_a_session_is_resumed(ca, node, tmp_path):
    ticket = tmp_path / "ticket"
    request = "GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    first = program("openssl", "s_client", "-connect", node.client, "-CAfile", ca.ca, "-sess_out", ticket, "-ign_eof", text=request)
    assert "New, TLSv1.3" in first.stdout and ticket.exists()
    again = program("openssl", "s_client", "-connect", node.client, "-CAfile", ca.ca, "-sess_in", ticket, "-ign_eof", text=request)
    assert "Reused, TLSv1.3" in again.stdout and "200 OK" in again.stdout


def test_alpn_of_another_protocol_is_refused(ca, node):
    assert s_client(ca, node.client, "-alpn", "imap").returncode != 0


def test_clear_text_on_the_tls_port_is_explained(node):
    done = program("curl", "-sS", "-i", f"http://127.0.0.1:{node.client_port}/livez")
    assert " 400 " in done.stdout and "needs TLS" in done.stdout and "ok" not in done.stdout.splitlines()
    assert "needs TLS" in program("redis-cli", "-p", node.resp_port, "PING").stdout


def test_tls_on_a_clear_text_port_fails(ca, tmp_path):
    client, peer = free_ports(2)
    node = Node(1, tmp_path / "node", client, peer, ["--bootstrap"])
    node.start().wait_ready()
    try:
        assert curl(ca, f"https://127.0.0.1:{client}/livez").returncode != 0
        assert s_client(ca, node.resp).returncode != 0
        assert node.request("GET", "/livez").status == 200
    finally:
        node.stop()


def test_a_client_refuses_a_wrong_name_and_a_wrong_ca(ca, node, tmp_path):
    assert curl(ca, f"https://other.example:{node.client_port}/livez", "--resolve",
                f"other.example:{node.client_port}:127.0.0.1").returncode == 60
    foreign = Authority(tmp_path / "ca")
    assert curl(foreign, f"https://127.0.0.1:{node.client_port}/livez").returncode == 60


def test_client_certificates_are_verified(ca, node, tmp_path):
    good = ca.client("default/app")
    assert b"200 OK" in request_with(ca, node, good)
    foreign = Authority(tmp_path / "ca", "foreign")
    for bad in (ca.client("default/old", not_after="20210101000000Z"),
                ca.client("default/new", not_before="20380101000000Z"),
                foreign.client("default/app")):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            assert request_with(ca, node, bad) != b"", "closed without an alert"
    for reason in ("expired", "not yet valid", "issuer"):
        wait_until(lambda reason=reason: any(
            "the certificate of the other end is refused" in event["reason"] and reason in event["reason"]
            for event in node.events("client_disconnected")), lambda: f"a refusal for {reason}\n{node.log()[-4000:]}")


def test_a_server_certificate_that_is_not_valid_is_refused_by_clients(ca, tmp_path):
    for name, dates in (("old", {"not_after": "20210101000000Z"}), ("new", {"not_before": "20380101000000Z"})):
        certificate = ca.issue(name, ["holdfast-node:test/1"], ["127.0.0.1"], **dates)
        node = start(ca, tmp_path / name, certificate=certificate)
        try:
            assert curl(ca, f"https://127.0.0.1:{node.client_port}/livez").returncode == 60
        finally:
            node.stop()


def test_a_handshake_has_a_deadline_and_disturbs_nobody(node):
    """Slow-loris: connections that begin a handshake, or send nothing, are closed after 5 s."""
    begin = time.monotonic()
    slow = [socket.create_connection(("127.0.0.1", node.client_port), timeout=PATIENCE) for _ in range(50)]
    for i, connection in enumerate(slow):
        if i % 2 == 0:
            connection.sendall(b"\x16\x03\x01\x02\x00\x01")
    assert node.request("GET", "/livez").status == 200
    for connection in slow:
        assert connection.recv(1) == b""
        connection.close()
    took = time.monotonic() - begin
    assert HANDSHAKE_S - 0.5 < took < allowed(HANDSHAKE_S + 3)


def test_garbage_after_the_first_byte_of_tls_ends_the_connection(node):
    for bytes_ in (b"\x16\xff\xff\xff\xff" * 100, b"\x15\x03\x03\x00\x02\x02\x28", b"\x16\x03\x01\x40\x01" + b"x" * 20000):
        with socket.create_connection(("127.0.0.1", node.client_port), timeout=PATIENCE) as connection:
            try:
                connection.sendall(bytes_)
                while connection.recv(4096):
                    pass
            except ConnectionError:
                pass
    assert node.request("GET", "/livez").status == 200


@pytest.mark.parametrize("flags, words", [
    (["--tls-cert", "CERT"], "tls-cert and tls-key must be set together"),
    (["--tls-cert", "CERT", "--tls-key", "KEY"], "needs tls-ca"),
    (["--tls-ca", "CA"], "needs tls-cert and tls-key"),
    (["--tls-min", "1.1"], "is not 1.3 or 1.2"),
])
def test_settings_that_do_not_fit_are_refused(ca, flags, words, tmp_path):
    files = {"CERT": str(ca.node(7).cert), "KEY": str(ca.node(7).key), "CA": str(ca.ca)}
    done = run("serve", "--data", tmp_path / "data", *[files.get(flag, flag) for flag in flags])
    assert done.returncode == 64 and words in done.stderr


def test_a_key_that_does_not_fit_is_refused(ca, tmp_path):
    one, two = ca.node(8), ca.node(9)
    base = ["serve", "--data", tmp_path / "data", "--bootstrap", "--client", "127.0.0.1:0", "--peer", "127.0.0.1:0", "--resp", "off",
            "--tls-ca", ca.ca]
    done = run(*base, "--tls-cert", one.cert, "--tls-key", two.key)
    assert done.returncode != 0 and "does not belong to the certificate" in done.stderr
    one.key.chmod(0o644)
    done = run(*base, "--tls-cert", one.cert, "--tls-key", one.key)
    assert done.returncode != 0 and "other users may read" in done.stderr

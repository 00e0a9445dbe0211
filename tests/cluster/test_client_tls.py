"""The client side of TLS and tokens: the command line and libholdfast through a TLS server of Python in front of a real
node, and against a gRPC server of grpcio."""

import json
import shutil
import socket
import ssl
import subprocess
import threading
from concurrent import futures

import grpc
import pytest

from cli_support import cluster  # noqa: F401  (a fixture)
from harness import PATIENCE, environment, free_ports, run, wait_until
from secure import Authority, new_secret


class TlsFront:
    """Ends TLS and passes the plain bytes on to a node; keeps what clients sent, and their certificates."""

    def __init__(self, context, port):
        self.context, self.port = context, port
        self.received = b""
        self.certificates = []
        self.protocols = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                raw, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(raw,), daemon=True).start()

    def serve(self, raw):
        try:
            client = self.context.wrap_socket(raw, server_side=True)
        except (ssl.SSLError, OSError):
            raw.close()
            return
        self.certificates.append(client.getpeercert())
        self.protocols.append(client.selected_alpn_protocol())
        node = socket.create_connection(("127.0.0.1", self.port))
        threading.Thread(target=self.answer, args=(node, client), daemon=True).start()
        try:
            while piece := client.recv(65536):
                self.received += piece
                node.sendall(piece)
            node.shutdown(socket.SHUT_WR)
        except (ssl.SSLError, OSError):
            node.close()

    @staticmethod
    def answer(node, client):
        try:
            while piece := node.recv(65536):
                client.sendall(piece)
            client.unwrap()
        except (ssl.SSLError, OSError):
            pass
        client.close()

    def close(self):
        self.listener.close()


def server_context(authority, certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.cert, certificate.key)
    context.load_verify_locations(authority.ca)
    context.verify_mode = ssl.CERT_OPTIONAL
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context


@pytest.fixture(name="authority", scope="module")
def make_authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(name="make_front")
def make_front_of(cluster, authority):
    fronts = []

    def make(certificate=None, minimum=None, maximum=None):
        context = server_context(authority, certificate or authority.node(1))
        context.minimum_version = minimum or context.minimum_version
        context.maximum_version = maximum or context.maximum_version
        fronts.append(TlsFront(context, cluster.nodes[1].client_port))
        return fronts[-1]

    yield make
    for front in fronts:
        front.close()


def token_file(tmp_path):
    secret, _ = new_secret()
    path = tmp_path / "token"
    path.write_text(secret + "\n", encoding="utf-8")
    path.chmod(0o600)
    return secret, path


def test_requests_pass_with_token_tenant_and_certificate(make_front, authority, tmp_path):
    front = make_front()
    client = authority.client("acme/ci")
    secret, path = token_file(tmp_path)
    result = run("status", "--json", "--endpoints", front.endpoint, "--ca", str(authority.ca), "--cert", str(client.cert),
                 "--key", str(client.key), "--token-file", str(path), "--tenant", "acme")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["members"]
    assert f"\r\nAuthorization: Bearer {secret}\r\n".encode() in front.received
    assert b"\r\nHoldfast-Tenant: acme\r\n" in front.received
    assert ("URI", "holdfast:acme/ci") in front.certificates[0]["subjectAltName"]
    assert set(front.protocols) == {"http/1.1"}


def test_the_environment_says_the_same_as_the_flags(make_front, authority, tmp_path):
    front = make_front()
    secret, path = token_file(tmp_path)
    result = run("ls", env=environment(HOLDFAST_ENDPOINTS=front.endpoint, HOLDFAST_CA=str(authority.ca),
                                       HOLDFAST_TOKEN_FILE=str(path), HOLDFAST_TENANT="acme"))
    assert result.returncode == 0, result.stderr
    assert secret.encode() in front.received and b"Holdfast-Tenant: acme" in front.received
    assert front.certificates == [None] or front.certificates == [{}]


def test_a_lock_is_held_through_tls_by_the_library(make_front, authority):
    front = make_front()
    result = run("lock", "--endpoints", front.endpoint, "--ca", str(authority.ca), "tls/a", "-c", "echo $HOLDFAST_TOKEN")
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) > 0
    assert "h2" in front.protocols


def test_many_bytes_pass_in_both_directions(make_front, authority, cluster):
    for number in range(60):
        cluster.nodes[1].acquire(f"many/{number:03}", metadata={"text": "x" * 4000})
    result = run("ls", "many/", "--json", "--endpoints", make_front().endpoint, "--ca", str(authority.ca))
    assert result.returncode == 0, result.stderr
    assert len(json.loads(result.stdout)["locks"]) == 60


def refused(front, *arguments, **options):
    """The error of `ls`; no request may have reached the server."""
    result = run("ls", "--timeout", "2s", "--endpoints", front.endpoint, *map(str, arguments), **options)
    assert result.returncode == 69, (result.stdout, result.stderr)
    assert front.received == b""
    return result.stderr


def test_a_node_of_another_ca_gets_no_request(make_front, authority, tmp_path):
    _, path = token_file(tmp_path)
    other = Authority(tmp_path / "other")
    text = refused(make_front(), "--ca", other.ca, "--token-file", path)
    assert "certificate" in text
    text = refused(make_front(), "--ca", "system", "--token-file", path)
    assert "certificate" in text


def test_a_node_with_another_name_gets_no_request_unless_it_is_named(make_front, authority):
    certificate = authority.issue("far", ["holdfast-node:test/1"], ["far.example"])
    front = make_front(certificate)
    assert "mismatch" in refused(front, "--ca", authority.ca)
    assert "mismatch" in refused(front, "--ca", authority.ca, "--server-name", "near.example")
    result = run("ls", "--endpoints", front.endpoint, "--ca", str(authority.ca), "--server-name", "far.example")
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("dates", [{"not_after": "20210101000000Z"}, {"not_before": "20390101000000Z"}])
def test_a_certificate_outside_its_dates_is_refused(make_front, authority, dates):
    assert "certificate" in refused(make_front(authority.node(7, **dates)), "--ca", authority.ca)


def test_tls_1_2_is_refused(make_front, authority):
    refused(make_front(maximum=ssl.TLSVersion.TLSv1_2), "--ca", authority.ca)


def test_clear_text_where_tls_is_expected_is_said_in_words(cluster, authority, tmp_path):
    secret, path = token_file(tmp_path)
    result = run("ls", "--timeout", "2s", "--endpoints", f"127.0.0.1:{cluster.nodes[1].client_port}", "--ca",
                 str(authority.ca), "--token-file", str(path))
    assert result.returncode == 69 and "does not speak TLS" in result.stderr
    assert secret not in result.stderr


def test_the_library_reports_why_it_does_not_trust_the_node(make_front, authority, tmp_path):
    other = Authority(tmp_path / "other")
    front = make_front()
    result = run("lock", "--timeout", "1s", "--endpoints", front.endpoint, "--ca", str(other.ca), "tls/b", "-c", "true")
    assert result.returncode == 69 and "certificate" in result.stderr
    assert front.received == b""


@pytest.mark.parametrize("arguments, words", [
    (["--ca", "/nowhere/ca.pem"], "/nowhere/ca.pem"),
    (["--cert", "{client.cert}"], "together"),
    (["--key", "{client.key}"], "together"),
    (["--ca", "{client.key}"], "no certificate"),
    (["--cert", "{client.cert}", "--key", "{other.key}"], "does not belong"),
    (["--token-file", "/nowhere/token"], "/nowhere/token"),
    (["--token-file", "{open}"], "0600"),
    (["--token-file", "{empty}"], "one token"),
    (["--token-file", "{lines}"], "one token"),
    (["--tenant", "a b"], "tenant"),
])
@pytest.mark.parametrize("command", [["ls"], ["lock", "a", "-c", "true"]], ids=["ls", "lock"])
def test_files_that_cannot_be_used_are_wrong_usage(command, arguments, words, authority, tmp_path):
    secret, path = token_file(tmp_path)
    values = {"client": authority.client("acme/ci"), "other": authority.client("acme/other")}
    for name, text, mode in (("open", secret, 0o644), ("empty", "", 0o600), ("lines", f"{secret}\n{secret}\n", 0o600)):
        values[name] = tmp_path / name
        values[name].write_text(text, encoding="utf-8")
        values[name].chmod(mode)
    flags = [argument.format(**values) for argument in arguments]
    result = run(command[0], *flags, *command[1:])
    assert result.returncode == 64, result.stderr
    assert words in result.stderr and secret not in result.stderr
    assert path.exists()


def test_grpc_metadata_has_token_and_tenant(authority, tmp_path):
    seen = []

    class Handler(grpc.GenericRpcHandler):
        def service(self, details):
            seen.append(dict(details.invocation_metadata))
            return grpc.unary_unary_rpc_method_handler(
                lambda _, context: context.abort(grpc.StatusCode.PERMISSION_DENIED, "not you"))

    server = grpc.server(futures.ThreadPoolExecutor(4), handlers=[Handler()])
    certificate = authority.node(2)
    credentials = grpc.ssl_server_credentials([(certificate.key.read_bytes(), certificate.cert.read_bytes())])
    port = server.add_secure_port("127.0.0.1:0", credentials)
    server.start()
    secret, path = token_file(tmp_path)
    try:
        result = run("lock", "--timeout", "2s", "--endpoints", f"127.0.0.1:{port}", "--ca", str(authority.ca),
                     "--token-file", str(path), "--tenant", "acme", "a", "-c", "true", timeout=PATIENCE)
    finally:
        server.stop(None)
    assert result.returncode != 0 and secret not in result.stderr
    assert seen and seen[0]["authorization"] == f"Bearer {secret}" and seen[0]["holdfast-tenant"] == "acme"


@pytest.fixture(name="advertised")
def make_advertised(make_cluster, authority):
    """A TLS server whose address the node behind it reports as its own."""
    front = TlsFront(server_context(authority, authority.node(1)), 0)
    node = make_cluster(1, "--advertise-client", front.endpoint).nodes[1]
    front.port = node.client_port
    wait_until(lambda: node.try_request("GET", "/api/v1/cluster") is not None, "the node answers")
    yield front
    front.close()


def bench(front, authority, path, *more):
    return run("bench", "--clients", "4", "--seconds", "0.3", "--warmup", "0.1", "--json", "--endpoints", front.endpoint, "--ca",
               str(authority.ca), "--token-file", str(path), *more)


@pytest.mark.parametrize("api, protocol", [("http", "http/1.1"), ("grpc", "h2")])
def test_the_bench_measures_through_tls(advertised, authority, tmp_path, api, protocol):
    secret, path = token_file(tmp_path)
    result = bench(advertised, authority, path, "--api", api)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["cycles"] > 0
    assert advertised.protocols.count(protocol) >= 4
    assert secret not in result.stdout + result.stderr


@pytest.mark.skipif(shutil.which("redis-server") is None, reason="redis-server is not installed: scripts/setup test")
@pytest.mark.parametrize("is_known", [True, False])
def test_the_bench_sends_auth_to_redis(advertised, authority, tmp_path, is_known):
    secret, path = token_file(tmp_path)
    port, = free_ports(1)
    certificate = authority.node(3)
    server = subprocess.Popen(
        ["redis-server", "--port", "0", "--tls-port", str(port), "--bind", "127.0.0.1", "--tls-cert-file", certificate.cert,
         "--tls-key-file", certificate.key, "--tls-ca-cert-file", authority.ca, "--tls-auth-clients", "no", "--save", "",
         "--dir", tmp_path, "--requirepass", secret if is_known else "another"], stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0, "redis-server listens")
        result = bench(advertised, authority, path, "--api", "resp", "--resp", f"127.0.0.1:{port}")
    finally:
        server.kill()
        server.wait()
    if is_known:
        assert result.returncode == 0, result.stderr
        assert json.loads(result.stdout)["cycles"] > 0
    else:
        assert result.returncode != 0 and "refuses the token" in result.stderr
    assert secret not in result.stdout + result.stderr


def test_a_real_node_is_used_with_tls_by_command_line_library_and_bench(make_cluster, authority):
    cluster = make_cluster(1, *authority.flags(authority.node(1)), start=False)
    node = cluster.nodes[1]
    node.tls = authority.context()
    cluster.start()
    flags = ["--endpoints", f"127.0.0.1:{node.client_port}", "--ca", str(authority.ca)]
    assert run("status", *flags).returncode == 0
    result = run("lock", *flags, "tls/real", "-c", "echo $HOLDFAST_TOKEN")
    assert result.returncode == 0 and int(result.stdout) > 0, result.stderr
    for api in ("grpc", "http", "resp"):
        more = ["--resp", f"127.0.0.1:{node.resp_port}"] if api == "resp" else []
        result = run("bench", "--api", api, "--clients", "4", "--seconds", "0.3", "--warmup", "0.1", "--json", *flags, *more)
        assert result.returncode == 0, result.stderr
        assert json.loads(result.stdout)["cycles"] > 0
    result = run("ls", "--timeout", "1s", "--endpoints", f"127.0.0.1:{node.client_port}")
    assert result.returncode == 69

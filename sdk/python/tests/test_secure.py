"""TLS, tokens and tenants against real nodes (docs/CLIENTS.md, C7)."""

import ssl

import pytest

import holdfast
from auth_support import secure_cluster
from secure import Authority


def test_tls_verifies_the_node(make_cluster, tmp_path):
    authority = Authority(tmp_path / "ca")
    cluster = make_cluster(1, start=False)
    node = cluster.nodes[1]
    node.flags += authority.flags(authority.node(1))
    node.tls = authority.context()
    cluster.start()
    with holdfast.Client(node.client, tls=authority.context()) as client:
        with client.lock("over-tls", wait=0) as lock:
            lock.check()
    with holdfast.Client(node.client, tls=ssl.create_default_context(), timeout=1) as client:
        with pytest.raises(holdfast.Unreachable, match="(?i)certificate"):
            client.lock("over-tls", wait=0).acquire()


def test_a_token_and_a_tenant_decide_what_is_allowed(make_cluster):
    cluster = secure_cluster(make_cluster, 1)
    node = cluster.nodes[1]
    with holdfast.Client(node.client, token=cluster.tokens["red/lock"]) as red, \
            holdfast.Client(node.client, token=cluster.tokens["default/root"], tenant="blue") as blue:
        with red.lock("app/one", wait=0), blue.lock("app/one", wait=0):
            with pytest.raises(holdfast.Denied) as denied:
                red.lock("other", wait=0).acquire()
        assert denied.value.code == "denied"
    with holdfast.Client(node.client) as nobody:
        with pytest.raises(holdfast.Denied) as denied:
            nobody.lock("app/one", wait=0).acquire()
        assert denied.value.code == "unauthenticated"


def test_a_token_that_would_split_a_header_is_refused():
    for wrong in ({"token": "a\r\nX: b"}, {"tenant": "a\r\nX: b"}, {"token": "a", "token_file": "b"}, {"token_file": "/nonexistent"}):
        with pytest.raises(holdfast.Invalid) as refused:
            holdfast.Client("127.0.0.1:1", **wrong)
        assert refused.value.code.startswith("invalid_t")


def test_a_token_file_is_for_its_owner_and_is_read_again(make_cluster, tmp_path):
    cluster = secure_cluster(make_cluster, 1)
    file = tmp_path / "token"
    file.write_text("not-a-token\n", encoding="ascii")
    with pytest.raises(holdfast.Invalid, match="chmod 600"):
        holdfast.Client(cluster.nodes[1].client, token_file=str(file))
    file.chmod(0o600)
    with holdfast.Client(cluster.nodes[1].client, token_file=str(file)) as client:
        with pytest.raises(holdfast.Denied):
            client.lock("app/one", wait=0).acquire()
        file.write_text(cluster.tokens["red/lock"] + "\n", encoding="ascii")
        with client.lock("app/one", wait=0) as lock:
            lock.check()


def test_the_environment_has_the_settings(make_cluster, tmp_path, monkeypatch):
    authority = Authority(tmp_path / "ca")
    cluster = make_cluster(1, start=False)
    node = cluster.nodes[1]
    node.flags += authority.flags(authority.node(1))
    node.tls = authority.context()
    cluster.start()
    for name in ("CERT", "KEY", "SERVER_NAME", "TOKEN_FILE", "TENANT"):
        monkeypatch.delenv(f"HOLDFAST_{name}", raising=False)
    monkeypatch.setenv("HOLDFAST_ENDPOINTS", node.client)
    monkeypatch.setenv("HOLDFAST_CA", str(authority.ca))
    with holdfast.Client.from_env(client_id="here") as client, client.lock("by-environment", wait=0) as lock:
        lock.check()
    monkeypatch.setenv("HOLDFAST_SERVER_NAME", "other.example")
    with holdfast.Client.from_env(timeout=1) as client, pytest.raises(holdfast.Unreachable, match="other.example"):
        client.lock("by-environment", wait=0).acquire()
    monkeypatch.setenv("HOLDFAST_CA", "/nonexistent")
    with pytest.raises(holdfast.Invalid):
        holdfast.Client.from_env()

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
    with pytest.raises(ValueError):
        holdfast.Client("127.0.0.1:1", token="a\r\nX: b")

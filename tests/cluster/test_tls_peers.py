"""Mutual TLS between nodes: only the certificate of the node itself admits it."""

import socket
import ssl
from contextlib import contextmanager

import pytest

from harness import PATIENCE, Cluster, wait_until
from peer_support import Closed, Introduction, audited_refusals, dial
from secure import Authority

CLUSTER = "test"


@pytest.fixture(scope="module", name="ca")
def one_authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("ca"))


@contextmanager
def secured(ca, folder, certificates):
    cluster = Cluster(folder, len(certificates), name=CLUSTER)
    for node, certificate in zip(cluster, certificates):
        node.flags += ca.flags(certificate)
        node.tls = ca.context()
    try:
        yield cluster
    finally:
        for node in cluster:
            if node.running:
                node.process.kill()
                node.process.wait()
            node.close_ready()


def test_nodes_with_their_certificates_form_a_cluster(ca, tmp_path):
    with secured(ca, tmp_path, [ca.node(i) for i in (1, 2, 3)]) as cluster:
        cluster.start()
        assert all(node.request("GET", "/readyz").status == 200 for node in cluster)
        clear_text_and_foreign_certificates_reach_nothing(ca, cluster.nodes[1], Authority(tmp_path / "other", "other"))


def clear_text_and_foreign_certificates_reach_nothing(ca, node, other):
    with socket.create_connection(("127.0.0.1", node.peer_port), timeout=PATIENCE) as plain:
        plain.sendall(b"x" * 100)
        assert plain.recv(100) == b""
    for context in (ca.context(), ca.context(other.node(2))):  # none, and one of another CA
        with socket.create_connection(("127.0.0.1", node.peer_port), timeout=PATIENCE) as plain:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                with context.wrap_socket(plain, server_hostname="127.0.0.1") as link:
                    assert link.recv(1) != b"", "closed without an alert"
    wait_until(lambda: "peer_refused" in node.log(), "the refusal in the log")
    assert node.events("peer_refused")[0]["level"] == "warn"
    wait_until(lambda: audited_refusals(node), "the audit record")
    a_certificate_of_another_id_is_refused(ca, node)


def a_certificate_of_another_id_is_refused(ca, node):
    """Both are members; the caller has the key of node 3 only. The address has been reported already: it is counted."""
    with pytest.raises(Closed, match="the certificate of node 1 does not name holdfast-node:test/1"):
        dial(node, Introduction(1), tls=ca.context(ca.node(3)))
    assert len(node.events("peer_refused")) == 1 and len(audited_refusals(node)) == 1


def test_a_certificate_of_another_node_is_refused(ca, tmp_path):
    """Node 3 has a valid certificate, of node 3 of another cluster."""
    certificates = [ca.node(1), ca.node(2), ca.issue("wrong", ["holdfast-node:other/3"], ["127.0.0.1"])]
    with secured(ca, tmp_path, certificates) as cluster:
        cluster.nodes[3].flags += ["--cluster-name", "other"]
        for node in cluster:
            node.start("--bootstrap")
        for node in (cluster.nodes[1], cluster.nodes[2]):
            node.wait_ready()
        for node in (cluster.nodes[1], cluster.nodes[2]):
            said = node.wait_event("peer_refused", peer=3)[0]
            assert said["level"] == "warn" and "does not name holdfast-node:test/3" in said["reason"]
        recorded = wait_until(lambda: audited_refusals(cluster.nodes[1]), "the audit record")[0]
        assert recorded["resource"] == "127.0.0.1" and "does not name holdfast-node:test/3" in recorded["reason"]


def test_a_node_without_its_name_does_not_start(ca, tmp_path):
    with secured(ca, tmp_path, [ca.node(1), ca.node(2), ca.node(2)]) as cluster:
        third = cluster.nodes[3]
        third.start("--bootstrap")
        assert third.process.wait(PATIENCE) != 0
        assert "holdfast-node:test/3" in third.log()

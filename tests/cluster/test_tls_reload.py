"""Certificates of running nodes: replaced without a stop, refused if they do not match, and their end."""

import re
import shutil
import signal
import socket
import ssl
import time
from contextlib import contextmanager

import pytest

from harness import PATIENCE, Cluster, Node, free_ports, run, wait_until
from secure import Authority, Certificate

DAY_S = 86400


class Files:
    """The three files of one node, which a test replaces as an operator does: by a rename."""

    def __init__(self, folder, ca, certificate):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.own = Certificate(folder, "own")
        self.ca = folder / "ca.pem"
        self.put(ca=ca, cert=certificate.cert, key=certificate.key)

    def put(self, ca=None, cert=None, key=None):
        for source, to in ((ca, self.ca), (cert, self.own.cert), (key, self.own.key)):
            if source is not None:
                new = to.with_suffix(".new")
                shutil.copy(source, new)
                new.chmod(0o600)
                new.rename(to)

    def flags(self):
        return ["--tls-cert", str(self.own.cert), "--tls-key", str(self.own.key), "--tls-ca", str(self.ca)]


def served(node):
    """The certificate that a new connection sees."""
    with socket.create_connection((node.client_host, node.client_port), timeout=PATIENCE) as plain:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        with context.wrap_socket(plain) as secured:
            return ssl.DER_cert_to_PEM_cert(secured.getpeercert(binary_form=True))


def text_of(certificate):
    text = certificate.cert.read_text(encoding="utf-8")
    return text[text.index("-----BEGIN"):]


def same(pem, certificate):
    return "".join(pem.split()) == "".join(text_of(certificate).split())


@contextmanager
def one_node(folder, ca, certificate):
    client, peer = free_ports(2)
    files = Files(folder / "files", ca.ca, certificate)
    node = Node(1, folder / "node", client, peer, ["--bootstrap", "--cluster-name", "test", *files.flags()])
    node.tls = ca.context()
    node.start().wait_ready()
    try:
        yield node, files
    finally:
        node.kill()


def open_connection(node):
    connection = node.connect()
    connection.connect()
    return connection


def answers(connection):
    connection.request("GET", "/livez")
    response = connection.getresponse()
    response.read()
    return response.status == 200


@pytest.mark.parametrize("how", ["signal", "watch"])
def test_a_new_certificate_is_served_and_connections_stay(how, tmp_path):
    ca = Authority(tmp_path / "ca")
    old, new = ca.issue("old", ["holdfast-node:test/1"], ["127.0.0.1"]), ca.issue("new", ["holdfast-node:test/1"], ["127.0.0.1"])
    with one_node(tmp_path, ca, old) as (node, files):
        kept = open_connection(node)
        assert answers(kept) and same(served(node), old)
        files.put(cert=new.cert, key=new.key)
        if how == "signal":
            node.signal(signal.SIGHUP)
        node.wait_event("certificate_reloaded")
        assert same(served(node), new)
        assert answers(kept)
        assert node.request("GET", "/readyz").status == 200
        assert not node.events("system_call_refused")


def test_files_that_do_not_match_are_refused_and_the_old_stay(tmp_path):
    ca, foreign = Authority(tmp_path / "ca"), Authority(tmp_path / "foreign", "foreign")
    names = (["holdfast-node:test/1"], ["127.0.0.1"])
    old, new, other = ca.issue("old", *names), ca.issue("new", *names), foreign.issue("other", *names)
    bad = tmp_path / "bad.pem"
    bad.write_text("not a certificate\n", encoding="utf-8")
    with one_node(tmp_path, ca, old) as (node, files):
        kept = open_connection(node)
        for i, (put, reason) in enumerate((({"cert": new.cert}, "does not belong to the certificate"),
                                           ({"cert": other.cert, "key": other.key}, "does not verify this certificate"),
                                           ({"cert": old.cert, "key": old.key, "ca": bad}, "no certificate in PEM form"))):
            files.put(**put)
            refused = node.wait_event("certificate_not_reloaded", i + 1)[i]
            assert reason in refused["reason"] and "tls-cert" in refused["next"] and refused["level"] == "error"
            assert same(served(node), old)
            assert answers(kept)
            assert metric(node, "certificate_refused") == 1
        files.own.key.unlink()
        node.signal(signal.SIGHUP)
        assert "No such file" in node.wait_event("certificate_not_reloaded", 4)[3]["reason"]
        assert not node.events("certificate_reloaded")
        files.put(ca=ca.ca, cert=new.cert, key=new.key)
        node.wait_event("certificate_reloaded")
        assert same(served(node), new) and answers(kept)
        assert metric(node, "certificate_refused") == 0


def test_a_ca_is_replaced_on_live_nodes(tmp_path):
    """Old and new CA, then new certificates, then the new CA alone. A node that starts afterwards is admitted."""
    old, new = Authority(tmp_path / "old"), Authority(tmp_path / "new", "new")
    both = tmp_path / "both.pem"
    both.write_text(old.ca.read_text(encoding="utf-8") + new.ca.read_text(encoding="utf-8"), encoding="utf-8")
    cluster = Cluster(tmp_path, 3, name="test")
    files = {}
    for node in cluster:
        files[node.id] = Files(tmp_path / f"files-{node.id}", old.ca, old.node(node.id))
        node.flags += files[node.id].flags()
        node.tls = old.context()
    try:
        cluster.start()
        kept = [open_connection(node) for node in cluster]
        certificates = {node.id: new.node(node.id) for node in cluster}
        for step, put in enumerate((lambda _: {"ca": both},
                                    lambda i: {"cert": certificates[i].cert, "key": certificates[i].key},
                                    lambda _: {"ca": new.ca})):
            for node in cluster:
                files[node.id].put(**put(node.id))
                node.signal(signal.SIGHUP)
                node.wait_event("certificate_reloaded", step + 1)
        assert all(answers(connection) for connection in kept)
        assert all(len(node.events("peer_disconnected")) == 0 for node in cluster)
        for node in cluster:
            node.tls = new.context()
        second = cluster.nodes[2]
        second.kill()
        second.start().wait_ready()
        assert all(node.request("GET", "/readyz").status == 200 for node in cluster)
    finally:
        cluster.kill_all()


def test_a_removed_ca_admits_no_node(tmp_path):
    """Nodes 1 and 2 drop the old CA without a signal. Node 3 still has a certificate of it, and comes back."""
    old, new = Authority(tmp_path / "old"), Authority(tmp_path / "new", "new")
    both = tmp_path / "both.pem"
    both.write_text(old.ca.read_text(encoding="utf-8") + new.ca.read_text(encoding="utf-8"), encoding="utf-8")
    cluster = Cluster(tmp_path, 3, name="test")
    files = {}
    for node in cluster:
        files[node.id] = Files(tmp_path / f"files-{node.id}", both, (old if node.id == 3 else new).node(node.id))
        node.flags += files[node.id].flags()
        node.tls = (old if node.id == 3 else new).context()
    first, second, third = cluster
    try:
        cluster.start()
        for node in (first, second):
            files[node.id].put(ca=new.ca)
            node.wait_event("certificate_reloaded")
        assert not third.events("peer_disconnected"), "a connection ended by the reload"
        third.kill()
        third.start()
        for node in (first, second):
            assert "certificate" in node.wait_event("peer_refused")[0]["reason"]
        assert third.request("GET", "/readyz").status == 503
        mine = new.node(3)
        files[3].put(cert=mine.cert, key=mine.key)
        third.wait_event("certificate_reloaded")
        third.wait_ready()
    finally:
        cluster.kill_all()


def metric(node, name):
    for line in node.request("GET", "/metrics").text.splitlines():
        if line.startswith(f"holdfast_{name} "):
            return float(line.split()[1])
    return None


def test_the_end_of_a_certificate_is_reported(tmp_path):
    ca = Authority(tmp_path / "ca")
    near, far = (ca.issue(name, ["holdfast-node:test/1"], ["127.0.0.1"], days=days) for name, days in (("near", 10), ("far", 30)))
    with one_node(tmp_path, ca, near) as (node, files):
        warning = node.wait_event("certificate_expires")[0]
        assert warning["level"] == "warn" and warning["days_left"] in (9, 10)
        end = metric(node, "certificate_expiry_timestamp_seconds")
        assert abs(end - (time.time() + 10 * DAY_S)) < 600
        assert metric(node, "ca_expiry_timestamp_seconds") > end
        shown = node.request("GET", "/api/v1/cluster").json["certificate"]
        assert 9 * DAY_S < shown["expires_in_seconds"] <= 10 * DAY_S
        done = run("status", "--endpoints", node.client, "--ca", ca.ca)
        assert done.returncode == 0 and re.search(r"certificate expires in (9d23h|10d00h), at 20", done.stdout), done
        files.put(cert=far.cert, key=far.key)
        node.wait_event("certificate_reloaded")
        assert metric(node, "certificate_expiry_timestamp_seconds") > end + 19 * DAY_S
        assert len(node.events("certificate_expires")) == 1


def test_an_expired_certificate_is_an_error_in_the_log(tmp_path):
    ca = Authority(tmp_path / "ca")
    old = ca.issue("old", ["holdfast-node:test/1"], ["127.0.0.1"], not_after="20210101000000Z")
    with one_node(tmp_path, ca, old) as (node, _):
        assert node.wait_event("certificate_expired")[0]["level"] == "error"


def test_without_tls_there_is_no_certificate(tmp_path):
    client, peer = free_ports(2)
    node = Node(1, tmp_path / "node", client, peer, ["--bootstrap"])
    node.start().wait_ready()
    try:
        assert "certificate" not in node.request("GET", "/api/v1/cluster").json
        assert metric(node, "certificate_expiry_timestamp_seconds") is None
        node.signal(signal.SIGHUP)
        node.wait_event("settings_read_again")
        wait_until(lambda: node.request("GET", "/livez").status == 200, "an answer after SIGHUP")
        assert not node.events("certificate_not_reloaded")
    finally:
        node.kill()

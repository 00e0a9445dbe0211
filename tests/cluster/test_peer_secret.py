"""The secret that nodes share: who is admitted with it, what is audited, and how it is introduced and replaced."""

import secrets
import signal
import struct

import pytest

from auth_support import secure_cluster
from harness import run, wait_until
from peer_support import BEGIN, MESSAGE, NO_CLUSTER, WELCOME, Closed, Introduction, append, audited_refusals, dial

ANOTHER = "has another peer secret than node"
NONE = "has no peer secret, and node"


def write_secrets(path, *lines):
    new = path.with_suffix(".new")
    new.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    new.chmod(0o600)
    new.rename(path)
    return path


@pytest.fixture(name="secret_files")
def folder_of_secrets(tmp_path):
    """secret_files(node, lines...) writes the file of a node; flags(node) name it."""
    class Files:
        @staticmethod
        def path(node):
            return tmp_path / f"secret-{node.id}"

        def put(self, node, *lines):
            write_secrets(self.path(node), *lines)

        def flags(self, node):
            return ["--peer-secret-file", str(self.path(node))]

    return Files()


def serves(cluster):
    return all(node.acquire_surely(f"by-{node.id}-{secrets.token_hex(4)}").json["acquired"] for node in cluster)


@pytest.mark.sanitized
def test_nodes_with_one_secret_form_a_cluster_and_others_are_refused(make_cluster, secret_files):
    cluster = make_cluster(3, start=False)
    for node in cluster:
        secret_files.put(node, "0123456789abcdef")
        node.flags += secret_files.flags(node)
    cluster.start()
    assert serves(cluster)
    follower = cluster.followers()[0]
    nobody_without_the_secret_is_admitted(cluster, follower)
    assert not any(node.events("system_call_refused") for node in cluster)


def nobody_without_the_secret_is_admitted(cluster, node):
    before = cluster.leader().cluster()["term"]
    other = next(n.id for n in cluster if n is not node)
    with pytest.raises(Closed, match=NONE):
        link = dial(node, Introduction(other), begin=False)
        link.send(MESSAGE, append(before + 1))
        raise Closed(link.wait_closed())
    refused = node.wait_event("peer_refused", peer=other)[0]
    assert refused["level"] == "warn" and refused["address"] == "127.0.0.1" and refused["refusals"] == 1
    record = wait_until(lambda: audited_refusals(node), "the audit record")[0]
    assert record["resource"] == "127.0.0.1" and record["actorId"] == f"node-{node.id}", record
    assert NONE in record["reason"] and record["holders"] == 1 and record["tier"] == "CORRECTNESS"
    # More of the same from this address is counted, not written.
    for _ in range(20):
        with pytest.raises(Closed):
            dial(node, Introduction(other))
    assert len(node.events("peer_refused")) == 1 and len(audited_refusals(node)) == 1
    assert cluster.leader().cluster()["term"] == before


def test_a_node_with_another_secret_is_refused_and_audited(make_cluster, secret_files):
    cluster = make_cluster(3, start=False)
    for node in cluster:
        secret_files.put(node, "the secret of node 3" if node.id == 3 else "the secret of both")
        node.flags += secret_files.flags(node)
        node.start("--bootstrap")
    first, second, third = cluster
    first.wait_ready(), second.wait_ready()
    for node in (first, second):
        assert ANOTHER in node.wait_event("peer_refused", peer=3)[0]["reason"]
    wait_until(lambda: {record["actorId"] for record in audited_refusals(first)} >= {"node-1", "node-2"}, "both nodes' records")
    assert ANOTHER in third.wait_event("peer_refused")[0]["reason"]
    assert third.request("GET", "/readyz").status == 503
    # With the right file it is admitted, without a restart.
    secret_files.put(third, "the secret of both")
    third.signal(signal.SIGHUP)
    third.wait_event("peer_secret_reloaded")
    third.wait_ready()
    assert serves(cluster)


def test_a_secret_is_introduced_and_replaced_without_an_outage(make_cluster, secret_files):
    cluster = make_cluster(3)
    optional = [*secret_files.flags(cluster.nodes[1])[:1], None, "--peer-secret-required", "off"]

    def restart(node, *flags):
        assert node.stop() == 0
        node.start(*flags).wait_ready()
        wait_until(lambda: serves(cluster), "all answer")

    # One node after the other gets it, then requires it.
    for node in cluster:
        secret_files.put(node, "the first secret")
        restart(node, *secret_files.flags(node), *optional[2:])
        assert node.wait_event("peer_secret_optional")
    for node in cluster:
        restart(node, *secret_files.flags(node))
    # Then it is replaced: the new one is added everywhere, used everywhere, and the old one removed.
    for step, lines in enumerate((("the first secret", "the second secret"), ("the second secret", "the first secret"),
                                  ("the second secret",))):
        for node in cluster:
            secret_files.put(node, *lines)
            node.signal(signal.SIGHUP)
            assert node.wait_event("peer_secret_reloaded", step + 1)[step]["secrets"] == len(lines)
    for node in cluster:
        restart(node, *secret_files.flags(node))
    assert not any(node.events("peer_refused") for node in cluster)
    node = cluster.followers()[0]
    with pytest.raises(Closed, match=NONE):
        dial(node, Introduction(1 if node.id != 1 else 2, cluster=NO_CLUSTER))


def test_a_follower_is_audited_with_authentication(make_cluster, tmp_path):
    """The record has no principal: it is the node's own."""
    path = write_secrets(tmp_path / "secret", "0123456789abcdef")
    cluster = secure_cluster(make_cluster, 3, "--peer-secret-file", path)
    node = cluster.followers()[0]
    with pytest.raises(Closed, match=NONE):
        dial(node, Introduction(77))
    record = wait_until(lambda: audited_refusals(node), "the audit record")[0]
    assert record["actorId"] == f"node-{node.id}", record


def test_greeting_without_a_secret_is_unchanged(make_cluster):
    """A node of an earlier version: HELLO without a nonce."""
    cluster = make_cluster(3)
    node = cluster.followers()[0]
    link = dial(node, Introduction(cluster.leader().id), begin=False)
    with pytest.raises(Closed, match="lost its disk"):
        kind, payload = link.receive()
        assert kind == WELCOME
        link.send(BEGIN, struct.pack("<Q", Introduction.decode(payload).number))
        raise Closed(link.wait_closed())
    assert not node.events("peer_secret_optional") and serves(cluster)


@pytest.mark.parametrize("text, mode, said", [
    ("0123456789abcdef\n", 0o640, "other users may read or change this secret; run: chmod 600 on it"),
    ("too short\n", 0o600, "a secret must have 16 to 256 bytes; make one with: openssl rand -hex 32"),
    ("", 0o600, "the file has no secret"),
])
def test_a_wrong_file_ends_the_start(tmp_path, text, mode, said):
    path = tmp_path / "secret"
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    done = run("serve", "--data", tmp_path / "data", "--client", "127.0.0.1:0", "--peer", "127.0.0.1:0", "--resp", "off",
               "--peer-secret-file", path)
    assert done.returncode == 1 and f"holdfast: peer-secret-file: {path}: {said}" in done.stderr, done.stderr
    if text:
        assert text.strip() not in done.stderr


def test_a_wrong_file_on_sighup_changes_nothing(make_cluster, secret_files):
    cluster = make_cluster(1, start=False)
    node = cluster.nodes[1]
    secret_files.put(node, "0123456789abcdef")
    node.flags += secret_files.flags(node)
    cluster.start()
    secret_files.path(node).chmod(0o644)
    node.signal(signal.SIGHUP)
    failed = node.wait_event("peer_secret_not_reloaded")[0]
    assert failed["level"] == "error" and "chmod 600" in failed["reason"] and "SIGHUP" in failed["next"]
    with pytest.raises(Closed, match=NONE):
        dial(node, Introduction(2))

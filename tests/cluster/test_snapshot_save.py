"""`holdfast snapshot save`: a backup of a running cluster holds what was acknowledged before (S9.1), costs the
node nothing when its reader goes, and becomes a new cluster (S3.3)."""

import fcntl
import json
import os
import socket
import subprocess
import threading

import pytest

from cli_support import endpoints
from harness import PROGRAM, Node, free_ports, read_answer, run, wait_until
from load import Load

RISE = 1 << 42
BIG = {"text": "x" * 4000}


def save(path, *nodes, more=(), **options):
    return run("snapshot", "save", path, "--json", "--endpoints", endpoints(nodes), *more, **options)


def saved(path, *nodes, more=()):
    done = save(path, *nodes, more=more)
    assert done.returncode == 0, done
    return json.loads(done.stdout)


def inspect(path):
    done = run("snapshot", "inspect", path, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def fill(node, count):
    """A state of count * 4 kB."""
    connection = node.connect()
    body = json.dumps({"client_id": "fill", "ttl_ms": 3600000, "metadata": BIG})
    for i in range(count):
        path = f"/api/v1/locks/fill-{i}/acquire"
        connection.request("POST", path, body=body)
        assert read_answer(connection, "POST", path).json["acquired"]
    connection.close()


class Reader:
    """Requests a snapshot, reads the head and a few bytes, and no more."""

    def __init__(self, node):
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16384)
        self.socket.settimeout(30)
        self.socket.connect((node.client_host, node.client_port))
        self.socket.sendall(b"GET /api/v1/snapshot HTTP/1.1\r\nHost: localhost\r\n\r\n")
        head = b""
        while b"\r\n\r\n" not in head:
            head += self.socket.recv(4096)
        assert head.startswith(b"HTTP/1.1 200"), head
        words = dict(line.split(": ", 1) for line in head.split(b"\r\n\r\n")[0].decode().split("\r\n")[1:])
        self.index = int(words["holdfast-snapshot-index"])
        self.term = int(words["holdfast-snapshot-term"])
        self.bytes = int(words["Content-Length"])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def file(self, node):
        return node.folder / f"snapshot-{self.index:012d}-{self.term:06d}"


def test_what_was_acknowledged_before_is_in_it_and_begins_a_new_cluster(make_cluster, keep, tmp_path):
    cluster = make_cluster(3)
    follower = cluster.followers()[0]
    path = tmp_path / "backup"
    old = saved(tmp_path / "old", follower)  # which would do, if a newer one were not requested
    with Load(list(cluster)) as load:
        load.wait_more(50)
        before = list(load.grants)
        report = saved(path, follower)
        load.wait_more(20)
    assert not load.wrong, load.wrong[:3]
    assert report["index"] > old["index"]
    seen = inspect(path)
    assert (report["index"], report["term"], report["cluster_id"]) == (
        seen["index"], seen["term"], seen["cluster_id"])
    assert report["bytes"] == path.stat().st_size and report["endpoint"] == endpoints([follower])
    assert report["path"] == str(path) and path.stat().st_mode & 0o777 == 0o600
    assert not path.with_name("backup.part").exists()

    for node in cluster:
        node.kill()
    client, peer = free_ports(2)
    folder = tmp_path / "restored"
    done = run("snapshot", "restore", path, "--data", folder, "--id", 7, "--cluster",
               f"7=127.0.0.1:{peer}", "--reason", "the building burnt", "--actor", "ann")
    assert done.returncode == 0, done.stderr
    node = keep(Node(7, folder, client, peer, ["--cluster", f"7=127.0.0.1:{peer}"]))
    node.start().wait_ready()
    assert len(before) >= 50
    for name, _, _, _ in before:  # S3.3: held then, so closed now
        assert node.acquire(name).json["reason"] == "delayed", name
    fresh = node.acquire("never-held").json
    assert fresh["fencing_token"] > max(token for _, token, _, _ in load.grants) + RISE - (1 << 30)


def test_two_nodes_write_the_same_bytes_for_the_same_index(make_cluster, tmp_path):
    cluster = make_cluster(3)
    nodes = list(cluster)
    for i in range(20):
        assert nodes[i % 3].acquire(f"name-{i}", metadata=BIG).json["acquired"]

    def same():
        """Requested together, they share a barrier, or what follows it: often, not always."""
        report = {}

        def one(node):
            report[node.id] = saved(tmp_path / f"of-{node.id}", node, more=["--force"])

        threads = [threading.Thread(target=one, args=(node,)) for node in nodes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        by_index = {}
        for ident, answer in report.items():
            by_index.setdefault(answer["index"], []).append(ident)
        return next((found for found in by_index.values() if len(found) > 1), None)

    found = wait_until(same, "two snapshots of one index")
    files = [(tmp_path / f"of-{ident}").read_bytes() for ident in found]
    assert len(files[0]) > 20 * 4000 and all(content == files[0] for content in files)


@pytest.mark.sanitized
def test_a_reader_that_vanishes_leaves_nothing_pinned(make_cluster, tmp_path):
    cluster = make_cluster(1)
    node = cluster.nodes[1]
    fill(node, 1500)
    with Reader(node) as reader, Reader(node) as other:
        assert reader.bytes > 5_000_000 and other.index > reader.index
        third = save(tmp_path / "third", node)
        assert third.returncode == 1 and "limit_snapshots" in third.stderr
        assert not list(tmp_path.glob("third*"))
        for i in range(3):  # newer ones come, and would take its place
            assert node.acquire(f"more-{i}").json["acquired"]
            node.take_snapshot()
        assert reader.file(node).exists() and other.file(node).exists()
    node.wait_event("snapshot_cut", 2)
    wait_until(lambda: not reader.file(node).exists() and not other.file(node).exists(), "both are removed")
    assert len(list(node.folder.glob("snapshot-*[0-9]"))) == 2  # the newest and the one before
    report = saved(tmp_path / "third", node)  # and there is space again
    assert inspect(tmp_path / "third")["index"] == report["index"] > other.index


def test_a_file_is_there_when_it_is_whole_or_not_at_all(make_cluster, tmp_path):
    cluster = make_cluster(1)
    node = cluster.nodes[1]
    path = tmp_path / "backup"
    first = saved(path, node)
    refused = save(path, node)
    assert refused.returncode == 1 and "exists already; choose another name, or replace it with --force" in refused.stderr
    assert inspect(path)["index"] == first["index"]
    assert saved(path, node, more=["--force"])["index"] > first["index"]

    command = [PROGRAM, "snapshot", "save", "-", "--endpoints", endpoints([node])]
    piped = subprocess.run([str(word) for word in command], capture_output=True, check=True, timeout=60)
    (tmp_path / "piped").write_bytes(piped.stdout)
    assert inspect(tmp_path / "piped")["index"] > first["index"] and b"saved -: index" in piped.stderr

    # One that was killed leaves its part, which the next one takes over.
    part = tmp_path / "again.part"
    part.write_bytes(b"half")
    saved(tmp_path / "again", node)
    assert not part.exists() and inspect(tmp_path / "again")

    # One that is being written is left alone.
    with open(tmp_path / "busy.part", "wb") as busy:
        fcntl.flock(busy, fcntl.LOCK_EX)
        done = save(tmp_path / "busy", node)
    assert done.returncode == 1 and "another command is writing this file" in done.stderr
    assert (tmp_path / "busy.part").exists() and not (tmp_path / "busy").exists()


def answering(*pieces):
    """A server that says this to the first request, and closes."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve():
        connection, _ = listening.accept()
        with connection:
            connection.recv(4096)
            for piece in pieces:
                connection.sendall(piece)
        listening.close()

    thread = threading.Thread(target=serve)
    thread.start()
    return thread, f"127.0.0.1:{listening.getsockname()[1]}"


@pytest.mark.parametrize("harm, code, said", [
    (lambda good: good[:-1], 69, "ended after"),
    (lambda good: good[:200] + bytes([good[200] ^ 1]) + good[201:], 70, "damaged"),
    (lambda good: b"", 69, "ended after 0 of"),
])
def test_what_comes_damaged_or_half_is_not_kept(make_cluster, tmp_path, harm, code, said):
    node = make_cluster(1).nodes[1]
    assert node.acquire("kept").json["acquired"]
    saved(tmp_path / "good", node)
    good = (tmp_path / "good").read_bytes()
    thread, address = answering(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(good), harm(good))
    done = run("snapshot", "save", tmp_path / "bad", "--endpoints", address)
    thread.join()
    assert done.returncode == code and said in done.stderr, done
    assert not list(tmp_path.glob("bad*")) and done.stdout == ""


def test_without_a_majority_there_is_none(make_cluster, tmp_path):
    cluster = make_cluster(3)
    left, *others = cluster
    for node in others:
        node.kill()
    done = save(tmp_path / "backup", left, more=["--timeout", "2s"])
    assert done.returncode == 69 and "no endpoint answered" in done.stderr
    assert not list(tmp_path.glob("backup*"))


def test_a_node_that_cannot_write_one_says_so(make_cluster, tmp_path):
    node = make_cluster(1).nodes[1]
    in_the_way = node.folder / "snapshot.tmp"
    (in_the_way / "x").mkdir(parents=True)
    done = save(tmp_path / "backup", node, more=["--timeout", "1s"])
    assert done.returncode == 69 and "this node cannot write a snapshot now" in done.stderr, done
    assert node.acquire("goes-on").json["acquired"] and not list(tmp_path.glob("backup*"))
    (in_the_way / "x").rmdir()
    in_the_way.rmdir()
    assert saved(tmp_path / "backup", node)["index"] == inspect(tmp_path / "backup")["index"]

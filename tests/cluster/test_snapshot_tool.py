"""A backup is a copy of a snapshot file: it is looked into, checked, and made into a new cluster (S3.3)."""

import json
import shutil

import pytest

from harness import Node, free_ports, run, wait_until

RISE = 1 << 42


@pytest.fixture
def backup(make_cluster, tmp_path):
    """The newest snapshot of a running node that took one; with what was granted before it."""
    cluster = make_cluster(1, "--snapshot-log-size", "64K")
    node = cluster.nodes[1]
    kept = node.acquire("kept", client="worker-7", ttl_ms=600000).json
    big = {"text": "x" * 4000}
    for i in range(40):
        token = node.acquire(f"fill-{i}", metadata=big).json["fencing_token"]
        assert node.release(f"fill-{i}", token).json["released"]
    wait_until(lambda: node.events("snapshot_taken"), "a snapshot")
    newest = sorted(node.folder.glob("snapshot-*-*"))[-1]
    path = tmp_path / "backup"
    shutil.copy(newest, path)
    return cluster, path, kept


def inspect(path):
    done = run("snapshot", "inspect", path, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def restore(path, folder, node=7, port=1, *more):
    return run("snapshot", "restore", path, "--data", folder, "--id", node, "--cluster",
               f"{node}=127.0.0.1:{port}", *more)


def test_a_backup_is_shown(backup):
    _, path, kept = backup
    seen = inspect(path)
    assert seen["path"] == str(path) and len(seen["cluster_id"]) == 32
    assert seen["index"] == seen["snapshot_index"] and seen["index"] > 10 and seen["term"] >= 1
    assert seen["snapshot_bytes"] == path.stat().st_size
    assert [m["id"] for m in seen["members"]] == [1]
    assert {"name": "kept", "client_id": "worker-7", "fencing_token": kept["fencing_token"],
            "holders": 1, "queue_length": 0} in seen["first_locks"]
    done = run("snapshot", "inspect", path)
    assert done.returncode == 0 and "kept  held by worker-7" in done.stdout
    assert seen["cluster_id"] in done.stdout


def test_a_damaged_or_cut_backup_is_refused_and_named(backup, tmp_path):
    _, path, _ = backup
    whole = path.read_bytes()
    for wrong in (whole[:-1], whole[:100], b"", whole + b"x",
                  whole[:200] + bytes([whole[200] ^ 1]) + whole[201:]):
        path.write_bytes(wrong)
        for done in (run("snapshot", "inspect", path),
                     restore(path, tmp_path / "never", 7, 1, "--reason", "x")):
            assert done.returncode == 1 and str(path) in done.stderr, done
            assert not done.stdout and len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "never").exists()


def test_a_new_cluster_begins_with_a_backup(backup, tmp_path):
    cluster, path, kept = backup
    for node in cluster:
        node.kill()
    client, peer = free_ports(2)
    folder = tmp_path / "restored"
    done = restore(path, folder, 7, peer, "--reason", "the building burnt", "--actor", "ann")
    assert done.returncode == 0, done.stderr
    node = Node(7, folder, client, peer, ["--cluster", f"7=127.0.0.1:{peer}"])
    try:
        node.start().wait_ready()
        assert [m["id"] for m in node.cluster()["members"]] == [7]
        assert node.acquire("kept").json["reason"] == "delayed"
        fresh = node.acquire("other").json
        assert fresh["fencing_token"] > kept["fencing_token"] + RISE
        trail = node.request("GET", "/api/v1/audit").json["records"]
        assert [(t["action"], t["actorId"], t["reason"]) for t in trail] == [
            ("RECOVER", "ann", "the building burnt")]
    finally:
        node.kill()
    # A folder that is in use is never written over.
    done = restore(path, folder, 7, peer, "--reason", "again")
    assert done.returncode == 1 and "is not empty" in done.stderr


def test_beside_a_running_cluster_only_by_force(backup, tmp_path):
    cluster, path, _ = backup
    folder = tmp_path / "restored"
    done = restore(path, folder, 7, 1, "--reason", "a copy to look at")
    assert done.returncode == 1 and "node 1 still answers at" in done.stderr and not folder.exists()
    done = restore(path, folder, 7, 1, "--reason", "a copy to look at", "--force")
    assert done.returncode == 0 and folder.exists()
    assert cluster.nodes[1].acquire("goes-on").json["acquired"]


@pytest.mark.parametrize("words, code, said", [
    ([], 64, "snapshot inspect FILE"),
    (["save"], 64, "snapshot save FILE"),
    (["inspect"], 64, "snapshot inspect FILE"),
    (["destroy", "x"], 64, "snapshot inspect FILE"),
    (["save", "x", "--timeout", "soon"], 64, "is not a duration"),
    (["save", "x", "--endpoints", ","], 64, "the list is empty"),
    (["save", "/no/such/folder/x"], 1, "/no/such/folder/x.part: cannot create it"),
    (["inspect", "x", "y"], 64, "unexpected argument"),
    (["inspect", "/no/such/file"], 1, "there is no such file"),
    (["inspect", "/tmp"], 1, "there is no such file"),
])
def test_nonsense_is_refused(words, code, said):
    done = run("snapshot", *words)
    assert done.returncode == code and said in done.stderr


def test_a_restore_needs_to_know_who_and_why(backup, tmp_path):
    _, path, _ = backup
    done = run("snapshot", "restore", path)
    assert done.returncode == 64 and "restore needs --data" in done.stderr
    done = restore(path, tmp_path / "x")
    assert done.returncode == 64 and "--reason TEXT is missing" in done.stderr
    done = restore(path, tmp_path / "x", "seven")
    assert done.returncode == 64 and "--id must be the id" in done.stderr
    assert not (tmp_path / "x").exists()

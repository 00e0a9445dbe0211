"""Snapshots, catching up, full disks."""

import itertools
import json
import os
import subprocess
import time

import pytest

from harness import read_answer, wait_until
from power import SHIM, why_not

SMALL = ["--snapshot-log-size", "64K"]


def fill(node, count, prefix, ttl_ms=600000):
    """Grants with enough metadata that the log grows quickly."""
    connection = node.connect()
    body = json.dumps({"client_id": "test", "ttl_ms": ttl_ms, "metadata": {"note": "x" * 1000}})
    for i in range(count):
        path = f"/api/v1/locks/{prefix}-{i}/acquire"
        connection.request("POST", path, body=body)
        answer = read_answer(connection, "POST", path)
        assert answer.status == 200 and answer.json["acquired"], answer
    connection.close()


@pytest.mark.sanitized
def test_a_follower_that_is_far_behind_gets_a_snapshot(make_cluster):
    cluster = make_cluster(3, *SMALL)
    victim = cluster.followers()[0]
    fill(cluster.leader(), 20, "before")
    victim.kill()
    fill(cluster.leader(), 1200, "after")  # more than what is kept of the log behind a snapshot
    cluster.leader().take_snapshot()
    victim.start().wait_ready()
    victim.wait_event("snapshot_installed")
    assert victim.show("before-19").json["held"]
    assert victim.show("after-1199").json["held"]
    # And it still knows after a restart.
    victim.kill()
    victim.start().wait_ready()
    assert victim.show("after-500").json["held"]


def test_snapshots_bound_the_log(make_cluster):
    node = make_cluster(1, *SMALL, "--segment-size", "9M").nodes[1]
    fill(node, 1500, "a")
    node.wait_event("snapshot_taken")
    fill(node, 500, "b")
    node.kill()
    node.start().wait_ready()
    loaded = node.events("loaded")[-1]
    assert loaded["snapshot"] > 0
    assert node.show("a-0").json["held"] and node.show("b-499").json["held"]


def test_a_full_disk_stops_writes_and_space_brings_them_back(make_cluster, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    mount = tmp_path / "small"
    mount.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m", "none", mount],
                      check=False, capture_output=True).returncode != 0:
        pytest.skip("this machine mounts no tmpfs here")
    try:
        cluster = make_cluster(1, "--segment-size", "9M", start=False)
        node = cluster.nodes[1]
        node.folder = mount / "node-1"
        node.log_path = tmp_path / "node-1.log"
        node.start("--bootstrap").wait_ready()
        token = node.acquire("held", ttl_ms=600000).json["fencing_token"]
        ballast = mount / "ballast"
        with open(ballast, "wb") as file:
            try:
                while True:
                    file.write(b"\0" * 65536)
                    file.flush()
            except OSError:
                pass
        connection = node.connect()
        body = json.dumps({"client_id": "test", "ttl_ms": 600000, "metadata": {"note": "x" * 4000}})
        status = 200
        for i in itertools.takewhile(lambda _: status == 200, range(20000)):
            path = f"/api/v1/locks/more-{i}/acquire"
            connection.request("POST", path, body=body)
            status = read_answer(connection, "POST", path).status
        connection.close()
        assert status in (503, 504), status
        node.wait_event("disk_full")
        refused = node.acquire("refused")
        assert refused.status == 503 and refused.json["error"]["code"] == "disk_full", refused
        assert "Retry-After" in refused.headers
        assert node.request("GET", "/api/v1/locks/held?stale=true").json["held"], "reads go on"
        ballast.unlink()
        node.wait_event("disk_has_room")
        wait_until(lambda: node.acquire("again").status == 200, "writes are back")
        assert node.release("held", token).json["released"]
        assert node.stop() == 0
        node.start().wait_ready()
        assert node.acquire("again", client="other").json["reason"] == "held"
        assert node.stop() == 0
    finally:
        for node in cluster:
            if node.running:
                node.kill()
        subprocess.run(["umount", mount], check=True)


def direct_appends(node):
    """Of all appends."""
    lines = dict(line.rsplit(" ", 1) for line in node.request("GET", "/metrics").text.splitlines() if line[:1] != "#")
    return float(lines["holdfast_log_direct_appends_total"]), float(lines["holdfast_log_appends_total"])


def test_a_folder_is_written_by_the_kernel_and_by_a_thread_in_turn(make_cluster):
    node = make_cluster(1, start=False).nodes[1]
    node.start("--bootstrap").wait_ready()
    for life, way in enumerate(["auto", "thread", "auto", "thread"]):
        if life > 0:
            node.kill()
            node.env = {"HOLDFAST_DISK_IO": way}
            node.start().wait_ready()
        fill(node, 30, f"life-{life}")
        direct, appends = direct_appends(node)
        # What this file system can do is said at the start.
        way_taken = node.events("loaded")[-1]["log_written"]
        assert way_taken in ("directly", "by a thread") if way == "auto" else way_taken == "by a thread"
        assert direct > 0 if way_taken == "directly" else direct == 0
        assert appends >= 30
        for earlier in range(life + 1):
            assert node.show(f"life-{earlier}-29").json["held"]


@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_the_disk_of_chaos_is_full_and_slow_for_direct_writes_too(make_cluster):
    node = make_cluster(1, "--request-timeout", "1s", start=False).nodes[1]
    node.env = {"LD_PRELOAD": SHIM.with_name("bad_disk.so"), "BAD_DISK": node.folder}
    node.start("--bootstrap").wait_ready()
    slow, full = node.folder.with_suffix(".slow"), node.folder.with_suffix(".full")
    fill(node, 3, "before")
    slow.touch()
    begin = time.monotonic()
    fill(node, 3, "slow")
    assert time.monotonic() - begin >= 3 * 0.1, "each waits for a sync of 100 ms"
    slow.unlink()
    full.touch()
    assert node.acquire("refused").status in (503, 504)
    node.wait_event("disk_full")
    full.unlink()
    node.wait_event("disk_has_room")
    fill(node, 3, "after")
    node.kill()
    node.start().wait_ready()
    assert node.show("slow-2").json["held"] and node.show("after-2").json["held"]

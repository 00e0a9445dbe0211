"""The event log of real nodes (S18): what was applied is on the disk of each node, once, also after kills and
restarts; what is missing is declared; its size is bounded; a node serves without it."""

import json
import re
import shutil

import pytest

from harness import read_answer, wait_until
from test_watch import Stream, granted


def metric(node, name):
    found = re.search(rf"^holdfast_{name} (\S+)$", node.request("GET", "/metrics").text, re.M)
    return None if found is None else float(found[1])


def use(node, count, prefix, metadata=""):
    """Acquires and releases: two events each, at least."""
    connection = node.connect()
    for i in range(count):
        body = {"client_id": "test", "ttl_ms": 600000, "metadata": {"note": metadata}}
        path = f"/api/v1/locks/{prefix}-{i}/acquire"
        connection.request("POST", path, body=json.dumps(body))
        answer = read_answer(connection, "POST", path)
        assert answer.status == 200 and answer.json["acquired"], answer
        path = f"/api/v1/locks/{prefix}-{i}/release"
        body = {"client_id": "test", "fencing_token": answer.json["fencing_token"]}
        connection.request("POST", path, body=json.dumps(body))
        assert read_answer(connection, "POST", path).status == 200
    connection.close()


def written(node):
    """All that the node has applied is in its event log."""
    def same():
        return metric(node, "event_log_index") == metric(node, "log_applied_index") or None
    wait_until(same, lambda: f"node {node.id} writes its events: {status(node)}")
    return metric(node, "event_log_records_total")


def status(node):
    return node.cluster()["event_log"]


def files(node):
    return sorted((node.folder / "events").glob("*.events"))


@pytest.mark.sanitized
def test_events_are_on_the_disk_once_whatever_ends(make_cluster):
    cluster = make_cluster(3)
    leader = cluster.leader()
    use(leader, 60, "a")
    for node in cluster:
        assert written(node) >= 120, status(node)
        assert status(node)["complete_since"] is None and status(node)["gaps"] == 0

    # A restart of one node: its log is applied again, its events are not written again.
    victim = cluster.followers()[0]
    before = status(victim)["bytes"]
    assert victim.stop() == 0
    victim.start().wait_ready()
    assert victim.events("loaded")[-1]["entries"] >= 20
    assert written(victim) < 60, status(victim)
    assert status(victim)["bytes"] < before + 8192

    # A kill of all of them.
    before = {node.id: status(node)["bytes"] for node in cluster}
    cluster.kill_all()
    cluster.restart_all()
    use(cluster.leader(), 5, "b")
    for node in cluster:
        assert 10 <= written(node) < 60, status(node)
        assert status(node)["gaps"] == 0 and status(node)["complete_since"] is None
        assert status(node)["bytes"] < before[node.id] + 16384


def test_a_lost_end_is_written_again_from_the_log_or_declared(make_cluster):
    node = make_cluster(1).nodes[1]
    use(node, 100, "a")
    written(node)
    assert node.stop() == 0
    newest = files(node)[-1]
    size = newest.stat().st_size
    with open(newest, "r+b") as file:  # as after a power cut
        file.truncate(size * 3 // 4)
    node.start().wait_ready()
    assert written(node) >= 40
    assert status(node)["gaps"] == 0 and status(node)["complete_since"] is None

    # A snapshot replaces the entries whose events are lost.
    use(node, 100, "b", "x" * 900)
    written(node)
    node.take_snapshot()
    assert node.stop() == 0
    newest = files(node)[-1]
    with open(newest, "r+b") as file:
        file.truncate(newest.stat().st_size // 2)
    node.start().wait_ready()
    use(node, 1, "c")
    written(node)
    assert status(node)["gaps"] == 1, status(node)
    assert status(node)["complete_since"] is not None
    assert metric(node, "event_log_gaps") == 1
    assert metric(node, "event_log_complete_since_timestamp_seconds") > 1e9


def test_a_folder_of_an_earlier_version_gets_an_event_log(make_cluster):
    node = make_cluster(1).nodes[1]
    use(node, 20, "a")
    node.stop()
    shutil.rmtree(node.folder / "events")
    node.start().wait_ready()
    assert written(node) >= 40  # from the log
    assert status(node)["complete_since"] is None
    node.take_snapshot()
    use(node, 5, "b")
    node.stop()
    shutil.rmtree(node.folder / "events")
    node.start().wait_ready()
    assert written(node) >= 10
    assert status(node)["complete_since"] is not None  # the snapshot has no events


def test_the_size_of_the_event_log_is_bounded(make_cluster):
    limit = 1 << 20
    cluster = make_cluster(1, "--events-max-bytes", "1M")
    node = cluster.nodes[1]
    for part in range(8):
        use(node, 400, f"part-{part}-{'n' * 200}")
        written(node)
        assert sum(path.stat().st_size for path in files(node)) <= limit
        if status(node)["complete_since"] is not None:
            break
    assert status(node)["complete_since"] is not None and status(node)["gaps"] == 0
    assert status(node)["max_bytes"] == limit
    assert 0 < metric(node, "event_log_oldest_timestamp_seconds")
    assert metric(node, "event_log_dropped_total") == 0


def test_a_node_serves_without_an_event_log(make_cluster):
    cluster = make_cluster(1, "--events-max-bytes", "0")
    node = cluster.nodes[1]
    assert "event_log" not in node.cluster() and metric(node, "event_log_bytes") is None
    assert not (node.folder / "events").exists()
    node.stop()
    (node.folder / "events").write_text("in the way")
    node.start("--events-max-bytes", "8M").wait_ready()
    assert str(node.folder / "events") in node.events("event_log_not_open")[0]["folder"]
    assert node.acquire("a").json["acquired"]
    assert "event_log" not in node.cluster()
    node.stop()
    (node.folder / "events").unlink()
    node.start("--events-max-bytes", "8M").wait_ready()
    node.acquire("b")
    assert written(node) >= 2


def watched(node):
    marker = f"marker-{node.id}-{metric(node, 'log_applied_index')}"
    node.acquire_surely(marker)
    with Stream(node, last="1-0") as stream:
        assert stream.next()[1] == "ready"
        return stream.until(granted(marker))[:-1]


@pytest.mark.sanitized
def test_a_node_that_gets_a_snapshot_fills_its_history_from_another(make_cluster):
    cluster = make_cluster(3, "--snapshot-log-size", "64K")
    leader, victim = cluster.leader(), cluster.followers()[0]
    use(leader, 20, "before")
    written(victim)
    victim.kill()
    use(leader, 700, "during", "x" * 1000)  # more than what is kept of the log behind a snapshot
    leader.take_snapshot()
    victim.start().wait_ready()
    victim.wait_event("snapshot_installed")
    filled = victim.wait_event("event_gap_filled")[0]
    assert filled["to"] - filled["from"] > 1000
    written(victim)
    assert status(victim)["gaps"] == 0 and status(victim)["complete_since"] is None and not status(victim)["gaps_stay"]
    use(leader, 5, "after")
    for node in cluster:
        written(node)
    mine, whole = watched(victim), watched(cluster.leader())
    assert len(whole) > 1450 and mine == whole[:len(mine)]
    assert not any(event[1] == "reset" for event in mine)
    # And still after a restart.
    assert victim.stop() == 0
    victim.start().wait_ready()
    written(victim)
    assert status(victim)["gaps"] == 0
    again = watched(victim)
    assert again[:len(mine)] == mine


def test_a_gap_that_no_node_can_fill_stays_declared(make_cluster):
    cluster = make_cluster(3)
    leader = cluster.leader()
    use(leader, 220, "lost")
    for node in cluster:
        written(node)
        node.take_snapshot()
        assert node.stop() == 0
    for node in cluster:  # as after a power cut of all machines
        newest = files(node)[-1]
        with open(newest, "r+b") as file:
            file.truncate(newest.stat().st_size // 4)
    cluster.restart_all()
    use(cluster.leader(), 1, "after")
    for node in cluster:
        written(node)
        node.wait_event("event_gap_remains")
        assert status(node)["gaps"] == 1 and status(node)["complete_since"] is not None
        assert status(node)["gaps_stay"]

"""`holdfast log-level`: one command for the levels of all nodes."""

import json
import signal

import pytest

from cli_support import cluster, good, run_cli  # noqa: F401  (a fixture)
from harness import wait_until

DEFAULT = {"node": "info", "raft": "info", "peer": "info", "disk": "info", "snapshot": "info", "client": "info",
           "lock": "warn"}


@pytest.fixture(autouse=True)
def levels(cluster):  # noqa: F811
    yield
    good(cluster, "log-level", "info,lock=warn")


def shown(cluster, *words):  # noqa: F811
    return {row["node"]: row.get("levels") for row in json.loads(good(cluster, "log-level", "--json", *words))["nodes"]}


@pytest.mark.sanitized
def test_all_nodes_are_set_and_shown(cluster):  # noqa: F811
    assert shown(cluster) == {i: DEFAULT for i in (1, 2, 3)}
    changed = {**DEFAULT, "raft": "debug", "lock": "info"}
    assert shown(cluster, "raft=debug,lock=info") == {i: changed for i in (1, 2, 3)}
    for node in cluster:
        assert node.request("GET", "/api/v1/log-level").json["levels"] == changed
        assert node.events("log_level_changed")[-1]["log_level"] == "raft=debug,lock=info"
    table = good(cluster, "log-level").splitlines()
    assert table[0].split() == ["ID", "ADDRESS", "NODE", "RAFT", "PEER", "DISK", "SNAPSHOT", "CLIENT", "LOCK"], table
    assert [row.split()[2:] for row in table[1:]] == [["info", "debug", "info", "info", "info", "info", "info"]] * 3


def test_one_node_may_be_selected(cluster):  # noqa: F811
    assert shown(cluster, "--node", "2", "debug") == {2: {word: "debug" for word in DEFAULT}}
    assert shown(cluster)[1] == shown(cluster)[3] == DEFAULT
    unknown = run_cli(cluster, "log-level", "--node", "9")
    assert unknown.returncode == 1 and "node 9 is no member" in unknown.stderr, unknown


def test_wrong_words_send_nothing(cluster):  # noqa: F811
    for word, problem in (("loud", "a level must be one of"), ("kitchen=info", "a subsystem must be one of")):
        done = run_cli(cluster, "log-level", word)
        assert done.returncode == 64 and problem in done.stderr, done
    assert run_cli(cluster, "log-level", "info", "debug").returncode == 64


def test_each_change_is_in_the_audit_trail(cluster):  # noqa: F811
    good(cluster, "log-level", "disk=debug", "--actor", "eve")

    def records():
        all_of_them = json.loads(good(cluster, "audit", "--json"))["records"]
        return [r for r in all_of_them if r["action"] == "SETTING" and r["actorId"] == "eve"]

    wait_until(lambda: len(records()) == 3, "a record of each node")
    assert {r["reason"] for r in records()} == {f"node {i}: disk=debug" for i in (1, 2, 3)}
    assert all(r["resource"] == "log-level" for r in records()), records()


def test_a_change_of_the_file_is_in_the_audit_trail_too(make_cluster, tmp_path):
    file = tmp_path / "holdfast.ini"
    file.write_text("log-level = info\n")
    node = make_cluster(1, "--config", file).nodes[1]
    file.write_text("log-level = info,disk=debug\n")
    for _ in range(2):  # the second changes nothing
        node.signal(signal.SIGHUP)

    def records():
        return [r for r in node.request("GET", "/api/v1/audit").json["records"] if r["action"] == "SETTING"]

    wait_until(records, "a record")
    assert node.acquire("later").json["acquired"]
    assert [(r["actorId"], r["reason"]) for r in records()] == [
        ("node-1", "node 1: info,disk=debug (read again after SIGHUP)")]


def test_a_node_that_is_down_is_an_error_but_the_others_are_set(cluster):  # noqa: F811
    victim = cluster.followers()[0]
    victim.signal(signal.SIGSTOP)
    try:
        done = run_cli(cluster, "log-level", "peer=debug", "--timeout", "3s", "--json")
        assert done.returncode == 69, done
        assert f"log-level: node {victim.id} ({victim.client}): " in done.stderr, done
        assert "1 of 3 nodes did not answer" in done.stderr and "Repeat the command" in done.stderr, done
        rows = {row["node"]: row for row in json.loads(done.stdout)["nodes"]}
        assert rows[victim.id]["error"] and "levels" not in rows[victim.id], rows
        assert [rows[i]["levels"]["peer"] for i in rows if i != victim.id] == ["debug", "debug"], rows
    finally:
        victim.signal(signal.SIGCONT)
    table = good(cluster, "log-level", "--timeout", "20s")
    assert table.count("\n") == 4

"""Beginning and ending: one node, five nodes, restarts, SIGTERM."""

import fcntl
import select
import signal
import socket
import subprocess
import time

import pytest

from harness import (PATIENCE, PROGRAM, Ports, allowed, dies_with_us, environment, free_ports, reserve,
                     run, wait_until)


def test_one_node_answers_within_a_second_of_its_start_on_an_empty_folder(make_cluster):
    node = make_cluster(1, start=False).nodes[1]
    node.flags = []
    start = time.monotonic()
    node.start()
    answer = wait_until(lambda: node.try_request("POST", "/api/v1/locks/a/acquire",
                                             {"client_id": "x", "ttl_ms": 5000}), "an answer")
    took = time.monotonic() - start
    assert answer.status == 200 and answer.json["acquired"], answer
    assert took < allowed(1.0), f"{took:.3f} s"


@pytest.fixture
def default_ports():
    with Ports():
        for port in (4653, 4654, 4655):
            if not reserve(port):
                pytest.skip(f"port {port} is in use on this machine")
        yield


def test_with_no_flag_at_all_it_is_one_node_on_the_default_ports(default_ports, tmp_path):
    # The default folder of root is the machine's own: that one we leave alone.
    env = environment(HOME=tmp_path, XDG_STATE_HOME=tmp_path / "state",
                      HOLDFAST_DATA=tmp_path / "state" / "holdfast")
    # Somebody has the port of the Redis protocol, which nobody requested: it goes on without.
    with socket.create_server(("127.0.0.1", 4655)):
        process = subprocess.Popen(dies_with_us([PROGRAM, "serve"]), env=env, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        said = ""
        try:
            for line in process.stderr:
                said += line
                if '"ready"' in line:
                    break
            else:
                raise AssertionError("it ended")
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=PATIENCE)
    assert '"resp_not_served"' in said
    assert process.returncode == 0


@pytest.mark.sanitized
def test_five_nodes_elect_one_leader_and_any_of_them_answers(make_cluster):
    cluster = make_cluster(5)
    leader = cluster.leader()
    tokens = []
    for node in cluster:
        answer = node.acquire(f"lock-{node.id}")
        assert answer.status == 200 and answer.json["acquired"], answer
        tokens.append(answer.json["fencing_token"])
        assert answer.headers["Holdfast-Leader"] == f"127.0.0.1:{leader.client_port}"
    assert tokens == sorted(set(tokens)), "tokens rise with every grant"
    for node in cluster:  # each sees what was done through every other
        for other in cluster:
            shown = node.show(f"lock-{other.id}")
            assert shown.status == 200 and shown.json["held"], shown


@pytest.mark.sanitized
def test_what_was_granted_is_there_after_a_restart_of_all_nodes(make_cluster):
    cluster = make_cluster(3)
    token = cluster.nodes[1].acquire("kept", ttl_ms=600000).json["fencing_token"]
    for node in cluster:
        node.kill()
    for node in cluster:
        node.start()  # without --bootstrap: there is nothing to begin any more
    for node in cluster:
        node.wait_ready()
    again = cluster.nodes[2].acquire("kept", client="other")
    assert again.json["acquired"] is False and again.json["reason"] == "held", again
    assert cluster.nodes[3].release("kept", token).json == {"released": True, "reason": "ok"}
    assert cluster.nodes[1].acquire("kept").json["fencing_token"] > token


def test_bootstrap_on_a_folder_that_is_in_use_changes_nothing(make_cluster):
    cluster = make_cluster(3)
    token = cluster.nodes[1].acquire("kept", ttl_ms=600000).json["fencing_token"]
    for node in cluster:
        assert node.stop() == 0
    cluster.start()
    assert cluster.nodes[1].release("kept", token).json["released"]


@pytest.mark.sanitized
def test_sigterm_hands_leadership_over_and_exits_0(make_cluster):
    cluster = make_cluster(3)
    leader = cluster.leader()
    start = time.monotonic()
    assert leader.stop() == 0
    assert time.monotonic() - start < allowed(3)
    rest = cluster.running()
    answer = rest[0].acquire("after")
    assert answer.status == 200 and answer.json["acquired"], answer
    assert time.monotonic() - start < allowed(3)
    # It was handed over, not found missing: nobody waited for an election timeout.
    assert leader.events("stopping") and leader.events("stopped")


def test_all_nodes_of_a_cluster_stop_when_signalled_together(make_cluster):
    cluster = make_cluster(5)
    start = time.monotonic()
    for node in cluster:
        node.signal(signal.SIGTERM)
    assert [node.wait_end() for node in cluster] == [0] * 5
    assert time.monotonic() - start < allowed(6)


def test_a_second_process_on_the_same_folder_is_refused(make_cluster):
    cluster = make_cluster(1)
    ports = free_ports(2)
    second = run("serve", "--data", cluster.nodes[1].folder, "--client", f"127.0.0.1:{ports[0]}",
                 "--peer", f"127.0.0.1:{ports[1]}")
    assert second.returncode == 1
    assert "holdfast: " in second.stderr and str(cluster.nodes[1].folder) in second.stderr


def test_a_taken_port_is_named(make_cluster, tmp_path):
    cluster = make_cluster(1)
    ports = free_ports(3)
    for flag, taken in (("--client", cluster.nodes[1].client_port),
                        ("--peer", cluster.nodes[1].peer_port),
                        ("--resp", cluster.nodes[1].resp_port)):
        free = {"--client": ports[0], "--peer": ports[1], "--resp": ports[2]}
        words = [word for each, port in {**free, flag: taken}.items() for word in (each, f"127.0.0.1:{port}")]
        second = run("serve", "--data", tmp_path / "second", *words)
        assert second.returncode == 1
        assert f"cannot listen on 127.0.0.1:{taken}: the port is taken" in second.stderr


def test_a_restart_waits_for_what_is_left_of_the_process_before(make_cluster):
    cluster = make_cluster(1)
    node = cluster.nodes[1]
    node.kill()
    # As a snapshot child does that has not yet noticed that its parent is gone.
    with open(node.folder / "lock", encoding="utf-8") as left:
        fcntl.flock(left, fcntl.LOCK_EX)
        node.start()
        assert select.select([node.ready_fd], [], [], 0.3)[0] == [], "it waits"
        fcntl.flock(left, fcntl.LOCK_UN)
        node.wait_ready()

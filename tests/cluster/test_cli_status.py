"""`holdfast status` says what is wrong and what to do. The rules themselves: tests/unit/test_status_problems.c."""

import json
import os
import re

from cli_support import good, run_cli
from harness import run, wait_until
from secure import Authority

# What this machine may be like while it runs tests.
OF_THE_MACHINE = {"disk_slow", "disk_nearly_full", "member_lagging"}


def problems_of(nodes):
    done = run_cli(nodes, "status", "--json")
    view = json.loads(done.stdout)
    assert done.returncode == (0 if view["serving"] else 69), done
    assert {"leader", "members", "serving", "problems"} <= set(view)
    for problem in view["problems"]:
        assert set(problem) == {"code", "severity", "text", "action"} and all(problem.values()), problem
        assert problem["severity"] in ("critical", "warning", "info")
    return {p["code"]: p for p in view["problems"] if p["code"] not in OF_THE_MACHINE}


def test_from_a_good_cluster_to_one_without_a_leader(make_cluster):
    cluster = make_cluster(3)
    first, second, third = cluster
    wait_until(lambda: not problems_of(cluster), lambda: f"no problem: {problems_of(cluster)}")
    view = first.cluster()
    assert view["state_version"] >= 7 and abs(view["wall_ms"] / 1000 - os.stat(first.folder).st_mtime) < 3600
    assert {m["state_version"] for m in view["members"]} == {view["state_version"]}
    disk = wait_until(lambda: first.cluster()["disk"] if "free_bytes" in first.cluster()["disk"] else None, "it looked at its disk")
    assert not disk["full"] and 0 < disk["free_bytes"] <= disk["total_bytes"]
    there = os.statvfs(first.folder)
    assert disk["total_bytes"] == there.f_blocks * there.f_frsize

    if cluster.leader() is third:
        good(cluster, "member", "transfer", "1")
    third.kill()
    lost = wait_until(lambda: problems_of([first, second]).get("member_unreachable"), "the dead member is missed")
    assert lost["severity"] == "warning"
    assert f"no answer from 3 ({third.peer}); if one more voter fails, the cluster stops" in lost["text"]
    text = good([first, second], "status")
    assert f"\nwarning: {lost['text']}\n  next: {lost['action']}\n" in text

    second.kill()
    wait_until(lambda: not first.cluster()["serving"], "it notices")
    lost = wait_until(lambda: problems_of([first]).get("no_leader"), "both dead members are missed")
    assert lost["severity"] == "critical" and second.peer in lost["text"] and third.peer in lost["text"]
    assert "1 of 3 voters answer and 2 are needed" in lost["text"] and "start the nodes" in lost["action"]
    done = run_cli([first], "status")
    assert done.returncode == 69 and f"critical: {lost['text']}" in done.stdout


def test_a_certificate_that_ends_soon_and_a_state_that_is_nearly_full(make_cluster, tmp_path):
    authority = Authority(tmp_path / "tls")
    node = make_cluster(1, start=False).nodes[1]
    node.flags += [*authority.flags(authority.node(1, days=3)), "--state-max", "1MiB"]
    node.tls = authority.context()
    node.start("--bootstrap")
    node.wait_ready()

    def problems():
        done = run("status", "--json", "--endpoints", node.client, "--ca", str(authority.ca))
        assert done.returncode == 0, done
        return {p["code"]: p for p in json.loads(done.stdout)["problems"]}

    found = problems()
    assert re.search(r"^the certificate of node 1 expires in (3d00h|2d23h)$", found["certificate_expiring"]["text"])
    assert "state_nearly_full" not in found
    metadata = {"x": "y" * 4000}
    for i in range(2000):
        if not node.acquire(f"fill/{i}", ttl_ms=600000, metadata=metadata).json.get("acquired"):
            break
    assert problems()["state_nearly_full"]["severity"] in ("warning", "critical")


def test_a_node_that_its_peers_reach_and_this_command_does_not(make_cluster):
    cluster = make_cluster(3, start=False)
    third = cluster.nodes[3]
    third.flags += ["--advertise-client", "127.0.0.1:1"]
    cluster.start()
    problem = wait_until(lambda: problems_of([cluster.nodes[1]]).get("client_address_unreachable"), "it is found")
    assert "node 3 answers the other nodes, but not this command at 127.0.0.1:1" in problem["text"]

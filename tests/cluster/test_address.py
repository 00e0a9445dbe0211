"""Nodes find each other by host name and over IPv6."""

import socket

import pytest

from harness import free_ports

HOSTS = {"a host name": "localhost", "IPv6": "[::1]"}


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
        return True
    except OSError:
        return False


@pytest.mark.parametrize("kind", HOSTS)
def test_peers_and_clients_by(make_cluster, kind):
    if kind == "IPv6" and not has_ipv6():
        pytest.skip("this machine has no IPv6")
    host = HOSTS[kind]
    cluster = make_cluster(3, start=False)
    ports = free_ports(6)
    cluster.addresses = {i: f"{host}:{ports[i - 1]}" for i in cluster.nodes}
    cluster.flags[1] = cluster.members()
    for node in cluster:
        node.client, node.peer = f"{host}:{ports[node.id + 2]}", cluster.addresses[node.id]
        node.flags = cluster.flags
    cluster.start()
    leader = cluster.leader()
    for node in cluster:
        answer = node.acquire(f"through-{node.id}")
        assert answer.json["acquired"] and answer.headers["Holdfast-Leader"] == leader.client, answer
        members = {m["id"]: m for m in node.cluster()["members"]}
        assert [members[i]["peer_address"] for i in cluster.nodes] == list(cluster.addresses.values())
    leader.kill()
    survivor = cluster.running()[0]
    assert survivor.acquire_surely("after").json["acquired"]
    leader.start().wait_ready()

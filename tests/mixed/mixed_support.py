"""Clusters of two versions of the program: HOLDFAST_OLD and the program of this tree. See scripts/mixed."""

import http.client
import json
import os
import re
import signal
import struct
import subprocess
import threading
from pathlib import Path

import pytest

import harness
from harness import PROGRAM, Node, free_ports, run, wait_until

OLD = Path(os.environ.get("HOLDFAST_OLD", "")).resolve()
LOGDUMP = PROGRAM.parent / "tests" / "chaos" / "logdump"
NEW_VERSION = 9  # of the state
TRAILING = 1024  # entries that a node keeps after a snapshot

# Optional fields of an acquire that an earlier state does not have and that are then left out (role HINT in
# src/core/command.h): a dict for each test of an acquire. The old program does not accept them, see hint_for.
HINTS = [{}, {"trace": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}]


class AnyAnswer:
    """In place of the check against docs/openapi.yaml: the old program follows an earlier one."""

    def check(self, *_):
        pass


harness.API = AnyAnswer()


def is_old(node):
    return node.program == OLD


def hint_for(node, hint):
    """The optional fields that a request through this node may have."""
    return {} if is_old(node) else hint


def old_nodes(cluster):
    return [node for node in cluster if is_old(node)]


def new_nodes(cluster):
    return [node for node in cluster if not is_old(node)]


def roll(node, program):
    """Stops the node and starts another program on its folder."""
    assert node.stop() == 0, node.log()[-2000:]
    node.program = program
    node.start().wait_ready()
    return node


def post(node, path, body):
    return node.request("POST", f"/api/v1/{path}", body)


def ok(node, path, body):
    """The JSON of an answer that must be 200."""
    answer = post(node, path, body)
    assert answer.status == 200, (path, node.id, answer)
    return answer.json


def done(node, method, path, body=None):
    """Repeats a request of an operator until it succeeds: another change may be in progress."""
    last = []

    def succeeded():
        last[:] = [node.request(method, path, body)]
        return last[0].status == 200

    wait_until(succeeded, lambda: f"{method} {path}: {last}")
    return last[0]


def lead(cluster, node):
    """Makes this node the leader."""
    def leads():
        if cluster.leader() is node:
            return True
        node.request("POST", "/api/v1/members/transfer", {"to": node.id})
        return False

    wait_until(leads, f"node {node.id} leads")
    return node


def state_version(node):
    """The version of the node's state, as its log reports it."""
    return max((event["version"] for event in node.events("state_upgraded")), default=1)


def wait_upgraded(nodes):
    for node in nodes:
        wait_until(lambda n=node: state_version(n) == NEW_VERSION, f"the state of node {node.id} has version {NEW_VERSION}")


def inspect(path):
    done_ = run("snapshot", "inspect", path, "--json")
    assert done_.returncode == 0, done_.stderr
    return json.loads(done_.stdout)


def commit_index(node):
    return int(re.search(r"^holdfast_log_commit_index (\d+)", node.request("GET", "/metrics").text, re.M)[1])


def assert_same_state(nodes, version):
    """The snapshots of one entry are the same bytes on all nodes, with a state of this version. Nothing may be in
    progress."""
    first = max(commit_index(node) for node in nodes)

    def newest():
        for node in nodes:
            node.signal(signal.SIGUSR1)
        files = [max(node.folder.glob("snapshot-*[0-9]"), default=None) for node in nodes]
        names = {path and path.name for path in files}
        return files if len(names) == 1 and None not in names and int(files[0].name.split("-")[1]) >= first else None

    files = wait_until(newest, f"snapshots of one entry from {first} on")
    assert inspect(files[0])["version"] == version
    assert len({path.read_bytes() for path in files}) == 1, files


def entries(folder):
    """The entries of the log in a node's folder: index, term and a digest of each."""
    listed = subprocess.run([LOGDUMP, folder], check=True, capture_output=True).stdout
    return set(struct.iter_unpack("<QQQ", listed))


@pytest.fixture
def make_mixed(make_cluster):
    """make_mixed(5, new=2): five nodes of the old program that have served a request; then the last two run the new
    program. `version` of the cluster is that of the state, which the old program determines."""
    def make(count, new, *flags):
        assert OLD.is_file(), "HOLDFAST_OLD names no program: run scripts/mixed"
        cluster = make_cluster(count, *flags, start=False)
        for node in cluster:
            node.program = OLD
        cluster.start()
        cluster.nodes[1].acquire_surely("before-all", ttl_ms=3600000)
        cluster.version = state_version(cluster.nodes[1])
        assert 1 < cluster.version < NEW_VERSION, "HOLDFAST_OLD is not an earlier program"
        for ident in range(count - new + 1, count + 1):
            roll(cluster.nodes[ident], PROGRAM)
        cluster.leader()
        for node in cluster:
            assert state_version(node) == cluster.version, node.log()[-2000:]
        return cluster

    return make


@pytest.fixture
def joiner(keep):
    """joiner(cluster, 6) starts a node of the new program that is not a member yet."""
    def start(cluster, ident):
        client, peer = free_ports(2)
        members = f"{cluster.members()},{ident}=127.0.0.1:{peer}"
        node = keep(Node(ident, cluster.folder / f"node-{ident}", client, peer,
                         ["--cluster", members, "--cluster-name", "test", "--join"]))
        return node.start()

    return start


class Wait:
    """A request that waits in a queue, in a thread."""

    def __init__(self, node, name, **more):
        self.answer = None
        self.node, self.name, self.more = node, name, {"client": "waiter", "wait_timeout_ms": 60000, **more}
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        try:
            self.answer = self.node.acquire(self.name, **self.more)
        except (OSError, http.client.HTTPException):
            pass  # the node ended

    def end(self):
        self.thread.join(120)
        assert self.answer is not None, f"no answer about {self.name} through node {self.node.id}"
        return self.answer


def queue_length(node, name):
    return node.show(name).json.get("queue_length", 0)


def wait_queued(node, name, count=1):
    wait_until(lambda: queue_length(node, name) == count, f"{count} waiters for {name}")

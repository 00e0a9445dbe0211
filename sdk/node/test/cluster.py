#!/usr/bin/python3
"""Clusters of real nodes for tests in another language: tests/cluster/harness.py, controlled by lines of JSON on stdin.

    cluster.py FOLDER

Each line is {"do": COMMAND, ...}, and each gets one line: {"ok": ANSWER} or {"failed": TEXT}. At the end of stdin all nodes are
killed."""

import json
import signal
import sys
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests" / "cluster")]

from auth_support import secure_cluster  # noqa: E402
from harness import Cluster, Ports, wait_until  # noqa: E402
from secure import Authority  # noqa: E402


class Control:
    def __init__(self, folder):
        self.folder = Path(folder)
        self.cluster = None
        self.extra = {}

    def start(self, nodes=3, tls=False, auth=False):
        """With `auth`: tokens by TENANT/NAME. With `tls`: the file of the authority, and a client's certificate and key."""
        def make(count):
            cluster = Cluster(self.folder, count)
            if tls:
                authority = Authority(self.folder / "ca")
                client = authority.client("red/lock")
                self.extra.update(ca=str(authority.ca), cert=str(client.cert), key=str(client.key))
                for node in cluster:
                    node.flags += authority.flags(authority.node(node.id))
                    node.tls = authority.context()
            self.cluster = cluster
            return cluster.start()

        cluster = secure_cluster(make, nodes) if auth else make(nodes)
        if auth:
            self.extra["tokens"] = cluster.tokens
        return {"endpoints": {node.id: node.client for node in cluster}, **self.extra}

    def leader(self, but=None):
        return self.cluster.leader(but=but).id

    def kill(self, node):
        self.cluster.nodes[node].kill()

    def restart(self, node):
        self.cluster.nodes[node].start().wait_ready()

    def pause(self, nodes):
        for node in nodes:
            self.cluster.nodes[node].signal(signal.SIGSTOP)

    def resume(self, nodes):
        for node in nodes:
            self.cluster.nodes[node].signal(signal.SIGCONT)

    def request(self, method, path, body=None, node=None):
        chosen = self.cluster.nodes[node] if node else self.cluster.leader()
        answer = chosen.request(method, path, body)
        return {"status": answer.status, "body": answer.json}

    def wait_queue(self, name, length):
        """Until so many wait."""
        def is_so():
            for node in self.cluster.running():
                answer = None if node.paused else node.try_request("GET", f"/api/v1/locks/{name}")
                if answer is not None:
                    queued = answer.json["queue_length"] if answer.status == 200 else 0 if answer.status == 404 else -1
                    return queued == length
            return False

        wait_until(is_so, f"{length} wait for {name}")

    def end(self):
        for node in self.cluster or []:
            node.close_ready()
            if node.running:
                node.kill()


def main():
    control = Control(sys.argv[1])
    with Ports():
        try:
            for line in sys.stdin:
                words = json.loads(line)
                try:
                    answer = {"ok": getattr(control, words.pop("do"))(**words)}
                except Exception:  # reported to the test
                    answer = {"failed": traceback.format_exc()}
                print(json.dumps(answer), flush=True)
        finally:
            control.end()


main()

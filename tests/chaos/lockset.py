#!/usr/bin/python3
"""Jepsen's lock-set recipe on Holdfast and on etcd: `make lockset`.

    tests/chaos/lockset.py [--seconds 60] [--out build-logs]

Some processes add numbers to a shared set: take the lock, read the whole set, add one, write it back, release.
The lock's TTL is short, and processes are stopped (SIGSTOP) for longer than it, at any moment: as a machine that
swaps, or a garbage collector, would do it. An addition that was confirmed and is missing at the end is a lost
update. With a fence each write gives the resource the token, and the resource refuses one that is older than the newest
it has seen; nothing else differs. Each service runs on three nodes of this machine, with its own defaults."""

import argparse
import base64
import contextlib
import http.client
import json
import random
import shutil
import signal
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cluster"))
from harness import ROOT, Cluster, Ports, dies_with_us, environment, free_ports, wait_until  # noqa: E402

NODES, WORKERS, TTL = 3, 5, 2  # etcd takes no shorter TTL than 2 s with its default election timeout
WORK_SECONDS = 0.05  # between reading and writing
PAUSE_SECONDS = (2.5, 5.0)  # longer than the TTL
now = time.monotonic


# --- the resource: one set, in this process ---


class Resource:
    def __init__(self, fenced):
        self.fenced = fenced
        self.mutex = threading.Lock()
        self.members = []
        self.highest = 0
        self.writes = self.refused = 0
        self.confirmed = set()

    def request(self, words):
        with self.mutex:
            if words["do"] == "read":
                return {"members": self.members}
            if self.fenced and words["token"] < self.highest:
                self.refused += 1
                return {"written": False}
            self.highest = max(self.highest, words["token"])
            self.members = words["members"]
            self.confirmed.add(words["added"])
            self.writes += 1
            return {"written": True}

    def serve(self):
        resource = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self):
                for line in self.rfile:
                    self.wfile.write(json.dumps(resource.request(json.loads(line))).encode() + b"\n")

        server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server


# --- the two services, as a worker uses them: take() -> token, give_back() ---


class Web:
    """HTTP to one node after the other; an answer, or None."""

    def __init__(self, ports, timeout):
        self.ports, self.timeout = ports, timeout
        self.connection = None

    def post(self, path, body):
        try:
            if self.connection is None:
                self.connection = http.client.HTTPConnection("127.0.0.1", self.ports[0], timeout=self.timeout)
            self.connection.request("POST", path, body=json.dumps(body))
            response = self.connection.getresponse()
            text = response.read()
            return json.loads(text) if response.status == 200 else None
        except (OSError, http.client.HTTPException):
            self.connection.close()
            self.connection = None
            self.ports = [*self.ports[1:], self.ports[0]]
            return None


class Holdfast:
    def __init__(self, ports, who):
        self.web, self.who, self.token = Web(ports, 10), who, 0

    def take(self):
        body = {"client_id": self.who, "ttl_ms": TTL * 1000, "wait_timeout_ms": 2000}
        answer = self.web.post("/api/v1/locks/set/acquire", body)
        self.token = answer["fencing_token"] if answer and answer["acquired"] else 0
        return self.token

    def give_back(self):
        self.web.post("/api/v1/locks/set/release", {"client_id": self.who, "fencing_token": self.token})


class Etcd:
    """Its lock service (v3lock) with a lease of its own for each hold, by the JSON gateway."""

    def __init__(self, ports, who):
        self.web, self.key, self.lease = Web(ports, 10), None, None

    def take(self):
        lease = self.web.post("/v3/lease/grant", {"TTL": TTL})
        if lease is None:
            return 0
        self.lease = lease["ID"]
        name = base64.b64encode(b"set").decode()
        got = self.web.post("/v3/lock/lock", {"name": name, "lease": self.lease})
        self.key = got and got.get("key")
        return self.revision() if self.key else 0

    def revision(self):
        """Rises with each grant, as a token must; 0: the key has gone with its lease. (The revision in the answer's
        header will not do: a waiter whose lease ended meanwhile gets a newer one than the holder's.)"""
        read = self.web.post("/v3/kv/range", {"key": self.key})
        return int(read["kvs"][0]["create_revision"]) if read and read.get("kvs") else 0

    def give_back(self):
        self.web.post("/v3/lock/unlock", {"key": self.key})
        self.web.post("/v3/lease/revoke", {"ID": self.lease})


SERVICES = {"holdfast": Holdfast, "etcd": Etcd}


def worker(kind, ports, resource, number):
    """Prints a line per addition. It has no idea that it is stopped now and then."""
    service = SERVICES[kind]([int(port) for port in ports.split(",")], f"worker-{number}")
    line = socket.create_connection(("127.0.0.1", int(resource))).makefile("rw")

    def request(**words):
        line.write(json.dumps(words) + "\n")
        line.flush()
        return json.loads(line.readline())

    added = int(number)
    while True:
        token = service.take()
        if token == 0:
            continue
        members = request(do="read")["members"]
        time.sleep(WORK_SECONDS)  # the work that the lock is for
        request(do="write", members=[*members, added], added=added, token=token)
        added += WORKERS
        service.give_back()


# --- nodes ---


@contextlib.contextmanager
def holdfast_nodes(folder):
    cluster = Cluster(folder, NODES, name="lockset")
    try:
        cluster.start()
        yield [node.client_port for node in cluster]
    finally:
        for node in cluster:
            node.close_ready()
            if node.running:
                node.kill()


@contextlib.contextmanager
def etcd_nodes(folder):
    ports = free_ports(2 * NODES)
    clients, peers = ports[:NODES], ports[NODES:]
    members = ",".join(f"n{i}=http://127.0.0.1:{port}" for i, port in enumerate(peers))
    started = []
    try:
        for i in range(NODES):
            log = open(folder / f"etcd-{i}.log", "w", encoding="utf-8")
            started.append(subprocess.Popen(dies_with_us([
                "etcd", "--name", f"n{i}", "--data-dir", folder / f"etcd-{i}", "--log-level", "error",
                "--listen-client-urls", f"http://127.0.0.1:{clients[i]}",
                "--advertise-client-urls", f"http://127.0.0.1:{clients[i]}",
                "--listen-peer-urls", f"http://127.0.0.1:{peers[i]}",
                "--initial-advertise-peer-urls", f"http://127.0.0.1:{peers[i]}",
                "--initial-cluster", members, "--initial-cluster-token", folder.name]),
                env=environment(), stdout=log, stderr=log))
            log.close()
        web = Web(clients, 2)
        wait_until(lambda: web.post("/v3/lease/grant", {"TTL": TTL}), "etcd serves")
        yield clients
    finally:
        for process in started:
            process.kill()
            process.wait()


# --- one run ---


def run(kind, fenced, seconds, seed, folder):
    resource = Resource(fenced)
    server = resource.serve()
    dice = random.Random(seed)
    pauses = 0
    with (holdfast_nodes if kind == "holdfast" else etcd_nodes)(folder) as ports:
        workers = [subprocess.Popen(dies_with_us(
            [sys.executable, __file__, "worker", kind, ",".join(map(str, ports)), server.server_address[1], i]))
            for i in range(WORKERS)]
        try:
            end = now() + seconds
            stopped = {}  # worker -> when it goes on
            while now() < end:
                time.sleep(dice.uniform(0.05, 0.25))
                if len(stopped) < WORKERS - 2:
                    chosen = dice.choice([w for w in workers if w not in stopped])
                    chosen.send_signal(signal.SIGSTOP)
                    stopped[chosen] = now() + dice.uniform(*PAUSE_SECONDS)
                    pauses += 1
                for one in [w for w, until in stopped.items() if until <= now()]:
                    one.send_signal(signal.SIGCONT)
                    del stopped[one]
        finally:
            for one in workers:
                one.kill()
                one.wait()
    server.shutdown()
    server.server_close()
    lost = resource.confirmed - set(resource.members)
    return {"service": kind, "fenced": fenced, "seconds": seconds, "pauses": pauses, "confirmed": len(resource.confirmed),
            "lost": len(lost), "refused": resource.refused}


def markdown(rows, versions, command):
    text = ["# Jepsen's lock-set: lost updates side by side", "",
            f"`{command}`. {WORKERS} processes add numbers to a shared set under a lock with a TTL of {TTL} s, {NODES} nodes of "
            f"each service on one machine; each process is stopped now and then for {PAUSE_SECONDS[0]} to {PAUSE_SECONDS[1]} s. "
            f"{versions}.", "",
            "| service | the resource checks tokens | additions confirmed | lost | stale writes refused | processes stopped |",
            "|---|---|---|---|---|---|"]
    text += [f"| {row['service']} | {'yes' if row['fenced'] else 'no'} | {row['confirmed']} | **{row['lost']}** | "
             f"{row['refused']} | {row['pauses']} times |" for row in rows]
    text += ["", "Without a fence any lock service may lose updates, ours too: a process that is stopped while it holds the lock "
             "writes when it goes on, whatever the service has answered others meanwhile; how often it happens is chance. A lock "
             "alone does not give mutual exclusion; a token that the resource checks does. etcd gives no token with its "
             "lock; the revision that created the lock's key, read after the grant, served as one."]
    return "\n".join(text) + "\n"


def main():
    if sys.argv[1:2] == ["worker"]:
        return worker(*sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=60, help="of each of the four runs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=sorted(SERVICES))
    parser.add_argument("--out", type=Path, default=ROOT / "build-logs")
    options = parser.parse_args()
    kinds = [options.only] if options.only else ["holdfast", "etcd"]
    if "etcd" in kinds and shutil.which("etcd") is None:
        raise SystemExit("etcd is not installed: scripts/setup peers")
    rows = []
    for kind in kinds:
        for fenced in (False, True):
            folder = Path(tempfile.mkdtemp(prefix="holdfast-lockset-"))
            try:
                with Ports():
                    rows.append(run(kind, fenced, options.seconds, options.seed, folder))
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            print(json.dumps(rows[-1]), flush=True)
    versions = "Holdfast as built here"
    if "etcd" in kinds:
        shown = subprocess.run(["etcd", "--version"], check=True, capture_output=True, text=True)
        versions += ", " + shown.stdout.splitlines()[0].replace("etcd Version:", "etcd")
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "lockset.md").write_text(markdown(rows, versions, f"make lockset SECONDS={options.seconds}"), encoding="utf-8")
    print(f"Report: {options.out / 'lockset.md'}")
    # What we promise: with a fence nothing is lost.
    return 1 if any(row["lost"] for row in rows if row["fenced"] and row["service"] == "holdfast") else 0


if __name__ == "__main__":
    sys.exit(main())

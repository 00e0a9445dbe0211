"""Lock services of others to measure: each is started on free ports with its data in a folder of its own, and gone
at the end. Settings are those of Debian's packages except what `settings` names; all of them sync their data
to the disk before they answer, unless their label says otherwise."""

import contextlib
import glob
import json
import os
import pwd
import random
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.request

from harness import Cluster, ROOT

LOAD = ROOT / "build" / "bench" / "peer_load"
START_S = 60
DIES_WITH_US = ["setpriv", "--pdeathsig", "KILL"]
JAVA = ["-Xms256m", "-Xmx512m"]  # five of them beside everything else


class Missing(Exception):
    """A program that is not installed."""


def program(name):
    place = shutil.which(name)
    if place:
        return place
    raise Missing(f"{name} is not installed; run: scripts/setup peers")


def free_ports(count):
    """Below those that the system gives to clients, so that none is taken before its server has it."""
    found = []
    with contextlib.ExitStack() as stack:
        for port in random.sample(range(20000, 32000), 4000):
            with contextlib.suppress(OSError):
                stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
                found.append(port)
            if len(found) == count:
                return found
    raise SystemExit("bench: no free ports")


def request(url, body=None):
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data), timeout=5) as answer:
        return json.loads(answer.read())


def wait_for(condition, what, processes):
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        dead = [p for p in processes if p.poll() is not None]
        if dead:
            raise SystemExit(f"bench: {what} ended by itself with {dead[0].returncode}")
        with contextlib.suppress(OSError, ValueError, KeyError):
            found = condition()
            if found:
                return found
        time.sleep(0.05)
    raise SystemExit(f"bench: {what} was not ready within {START_S} s")


class Service:
    """One system with so many nodes. As a context it runs, and `endpoints` are its addresses, the leader's first."""

    name = label = protocol = ""
    warm_s = 1
    is_memory = False  # nothing is synced

    def __init__(self, nodes, folder):
        self.nodes = nodes
        self.folder = folder / f"{self.name}-{nodes}"
        self.processes = []
        self.endpoints = ""

    def spawn(self, command, name, user=None, **environment):
        """Ends with us, also when we are killed."""
        guard = list(DIES_WITH_US)
        if user:
            guard += [f"--reuid={user}", f"--regid={user}", "--clear-groups"]
        with open(self.folder / f"{name}.log", "w", encoding="utf-8") as log:
            self.processes.append(subprocess.Popen(
                [*guard, *map(str, command)], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                cwd=self.folder, env={**os.environ, **environment}, start_new_session=True))

    def __enter__(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.send_signal(self.stop_signal)
        for process in self.processes:
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    stop_signal = signal.SIGTERM

    def load(self, clients, seconds, warmup):
        """Cycles for so long; the object that `holdfast bench --json` prints."""
        done = subprocess.run(
            [*DIES_WITH_US, LOAD, self.protocol, "--endpoints", self.endpoints, "--clients", str(clients), "--seconds", str(seconds),
             "--warmup", str(warmup)], stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"bench: the load of {self.label} failed")
        return json.loads(done.stdout)


class Etcd(Service):
    name, label, protocol = "etcd", "etcd", "etcd"
    recipe = "concurrency.Mutex: one lease a client; a transaction that puts NAME/LEASE if absent and reads the first; delete"
    settings = "defaults"

    @staticmethod
    def version():
        words = subprocess.run([program("etcd"), "--version"], capture_output=True, text=True, check=True).stdout
        return re.search(r"etcd Version: (\S+)", words)[1]

    def start(self):
        ports = free_ports(2 * self.nodes)
        pairs = list(zip(ports[::2], ports[1::2]))
        cluster = ",".join(f"n{i}=http://127.0.0.1:{peer}" for i, (_, peer) in enumerate(pairs))
        for i, (client, peer) in enumerate(pairs):
            self.spawn([program("etcd"), "--name", f"n{i}", "--data-dir", self.folder / f"n{i}",
                        "--listen-client-urls", f"http://127.0.0.1:{client}",
                        "--advertise-client-urls", f"http://127.0.0.1:{client}",
                        "--listen-peer-urls", f"http://127.0.0.1:{peer}",
                        "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}", "--initial-cluster", cluster,
                        "--initial-cluster-state", "new", "--log-level", "error"], f"n{i}")

        def leader_first():
            leads = {}
            for client, _ in pairs:
                status = request(f"http://127.0.0.1:{client}/v3/maintenance/status", {})
                leads[client] = status["leader"] == status["header"]["member_id"]
            if sum(leads.values()) == 1:
                return ",".join(f"127.0.0.1:{c}" for c in sorted(leads, key=leads.get, reverse=True))
            return None

        self.endpoints = wait_for(leader_first, "etcd", self.processes)


class ZooKeeper(Service):
    name, label, protocol = "zookeeper", "ZooKeeper", "zookeeper"
    recipe = "an ephemeral sequential node under the lock's node, which is there already; list the children; delete"
    settings = f"java {' '.join(JAVA)}; forceSync (default); no admin server"
    warm_s = 6  # its virtual machine compiles while it runs

    @staticmethod
    def version():
        words = subprocess.run(["dpkg-query", "-W", "-f=${Version}", "zookeeper"], capture_output=True, text=True,
                               check=True).stdout
        return words.split("-")[0]

    def start(self):
        jar = "/usr/share/java/zookeeper.jar"
        if not os.path.exists(jar):
            raise Missing("zookeeper is not installed; run: scripts/setup peers")
        ports = free_ports(3 * self.nodes)
        triples = list(zip(ports[::3], ports[1::3], ports[2::3]))
        servers = "".join(f"server.{i + 1}=127.0.0.1:{quorum}:{election}\n"
                          for i, (_, quorum, election) in enumerate(triples)) if self.nodes > 1 else ""
        for i, (client, _, _) in enumerate(triples):
            home = self.folder / f"n{i}"
            home.mkdir()
            (home / "myid").write_text(f"{i + 1}\n", encoding="ascii")
            (home / "zoo.cfg").write_text(
                f"tickTime=2000\ninitLimit=10\nsyncLimit=5\ndataDir={home}\nclientPort={client}\n"
                f"clientPortAddress=127.0.0.1\nmaxClientCnxns=0\nadmin.enableServer=false\n{servers}", encoding="ascii")
            self.spawn([program("java"), *JAVA, "-cp", jar, "org.apache.zookeeper.server.quorum.QuorumPeerMain",
                        home / "zoo.cfg"], f"n{i}")

        def mode(port):
            with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
                connection.sendall(b"srvr")
                words = b""
                while piece := connection.recv(4096):
                    words += piece
            return re.search(rb"Mode: (\w+)", words)[1].decode() if b"Mode: " in words else None

        def leader_first():
            modes = {client: mode(client) for client, _, _ in triples}
            if None in modes.values() or not {"leader", "standalone"} & set(modes.values()):
                return None
            return ",".join(f"127.0.0.1:{c}" for c in sorted(modes, key=lambda c: modes[c] == "follower"))

        self.endpoints = wait_for(leader_first, "ZooKeeper", self.processes)


class Redis(Service):
    name, label, protocol = "redis", "Redis, memory only", "resp"
    recipe = "SET name value NX PX 30000; a script that deletes it if the value is ours, by EVALSHA"
    settings = "save \"\"; appendonly no"
    flags = ["--appendonly", "no"]
    is_memory = True

    @staticmethod
    def version():
        words = subprocess.run([program("redis-server"), "--version"], capture_output=True, text=True, check=True).stdout
        return re.search(r"v=(\S+)", words)[1]

    def start(self):
        ports = free_ports(self.nodes)
        for i, port in enumerate(ports):
            home = self.folder / f"n{i}"
            home.mkdir()
            self.spawn([program("redis-server"), "--port", port, "--bind", "127.0.0.1", "--dir", home, "--save", "",
                        *self.flags], f"n{i}")

        def answers():
            for port in ports:
                with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
                    connection.sendall(b"PING\r\n")
                    if connection.recv(16) != b"+PONG\r\n":
                        return False
            return True

        wait_for(answers, "Redis", self.processes)
        self.endpoints = ",".join(f"127.0.0.1:{port}" for port in ports)


class RedisSynced(Redis):
    name, label = "redis-aof", "Redis, appendfsync always"
    settings = "save \"\"; appendonly yes; appendfsync always"
    flags = ["--appendonly", "yes", "--appendfsync", "always"]
    is_memory = False


class Redlock(RedisSynced):
    name, label, protocol = "redlock", "Redlock on Redis, appendfsync always", "redlock"
    recipe = "SET name value NX PX 30000 on all servers at once, held with a majority; the deleting script on all, of which a majority"


TABLE = """CREATE TABLE distributed_locks (resource TEXT PRIMARY KEY, owner_id TEXT NOT NULL, lease_id UUID NOT NULL,
fencing_token BIGSERIAL NOT NULL, expires_at TIMESTAMPTZ NOT NULL, created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
updated_at TIMESTAMPTZ NOT NULL DEFAULT now())"""


class Postgres(Service):
    name, label, protocol = "postgres", "PostgreSQL, a row", "postgres"
    recipe = "INSERT ... ON CONFLICT DO UPDATE WHERE expired ... RETURNING; DELETE; prepared"
    settings = "max_connections 400; fsync and synchronous_commit on (defaults)"
    stop_signal = signal.SIGINT  # does not wait for its clients

    @staticmethod
    def tool(name):
        debian = sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"))
        return debian[-1] if debian else program(name)

    @classmethod
    def version(cls):
        words = subprocess.run([cls.tool("postgres"), "--version"], capture_output=True, text=True, check=True).stdout
        return re.search(r"(\d+\.\d+)", words)[1]

    def start(self):
        (port,) = free_ports(1)
        user = "postgres" if os.geteuid() == 0 else None  # it refuses to run as root
        if user:
            os.chown(self.folder, pwd.getpwnam(user).pw_uid, pwd.getpwnam(user).pw_gid)
        data = self.folder / "data"
        self.spawn([self.tool("initdb"), "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8"], "initdb", user)
        initdb = self.processes.pop()
        if initdb.wait(START_S) != 0:
            raise SystemExit(f"bench: initdb failed:\n{(self.folder / 'initdb.log').read_text(encoding='utf-8')}")
        self.spawn([self.tool("postgres"), "-D", data, "-p", port, "-k", self.folder, "-c", "listen_addresses=127.0.0.1",
                    "-c", "max_connections=400"], "n0", user)

        def table():
            return subprocess.run([self.tool("psql"), "-q", "-h", "127.0.0.1", "-p", str(port), "-U", "postgres", "-c", TABLE],
                                  stderr=subprocess.DEVNULL, check=False).returncode == 0

        wait_for(table, "PostgreSQL", self.processes)
        self.endpoints = f"127.0.0.1:{port}"


class PostgresAdvisory(Postgres):
    name, label, protocol = "advisory", "PostgreSQL, advisory lock", "advisory"
    recipe = "pg_try_advisory_lock, pg_advisory_unlock; prepared"
    is_memory = True


class Holdfast(Service):
    name, label = "holdfast", "Holdfast"
    recipe = "a session a client; Lock, Unlock over gRPC"
    settings = "defaults"
    flags = []
    environment = {}

    @staticmethod
    def version():
        return subprocess.run([ROOT / "build" / "holdfast", "--version"], capture_output=True, text=True,
                              check=True).stdout.split()[-1]

    def start(self):
        self.cluster = Cluster(self.nodes, folder=self.folder, **self.environment)

    def __exit__(self, *_):
        if hasattr(self, "cluster"):
            self.cluster.__exit__()
        shutil.rmtree(self.folder, ignore_errors=True)

    def load(self, clients, seconds, warmup):
        return self.cluster.bench("--clients", clients, "--seconds", seconds, "--warmup", warmup, *self.flags)


class HoldfastResp(Holdfast):
    name, label = "holdfast-resp", "Holdfast, by the Redis protocol"
    recipe = Redis.recipe
    flags = ["--api", "resp"]


class HoldfastEfficiency(Holdfast):
    name, label = "holdfast-efficiency", "Holdfast, efficiency tier"
    flags = ["--tier", "efficiency"]
    is_memory = True


class HoldfastEfficiencyResp(Holdfast):
    name, label = "holdfast-efficiency-resp", "Holdfast, efficiency tier by the Redis protocol"
    recipe = Redis.recipe
    flags = ["--api", "resp"]
    settings = "resp_tier efficiency"
    environment = {"HOLDFAST_RESP_TIER": "efficiency"}
    is_memory = True


SERVICES = [Holdfast, Etcd, ZooKeeper, RedisSynced, Redlock, Postgres, HoldfastResp, HoldfastEfficiency, HoldfastEfficiencyResp,
            Redis, PostgresAdvisory]
# Those without replication have one node; Holdfast's further ways are measured where it usually runs.
NODES = {"redis": [1], "redis-aof": [1], "redlock": [5], "postgres": [1], "advisory": [1], "holdfast-resp": [5],
         "holdfast-efficiency": [5], "holdfast-efficiency-resp": [5]}

#!/usr/bin/python3
"""What TLS and authorisation cost, in one interleaved run.

    bench/tls.py [--rounds 5] [--seconds 3] [--nodes 5] [--clients 64] [--api grpc,http,resp] [--only throughput,handshakes,idle,auth]

All clusters of a comparison run at the same time, and `holdfast bench` measures them in turn, in the other direction in every
second round. A ratio is the median of the ratios of the rounds. The other ratio is that of the CPU for a cycle, of all nodes and
the load: that of the cycles/s where the CPU is the limit. It takes the least of all rounds, because other programs on the machine
only ever add to it.

  throughput   clear text against TLS: N nodes (clients and peers use TLS), and one node (only clients do); the CPU of the
               followers, which speak to peers only, is the cost of TLS between nodes
  handshakes   full and resumed, as many as the clients of this program can begin, and the CPU of the node for one
  idle         resident memory of the node for a connection that has made one request
  auth         auth = off without tokens against auth = on with a token, in clear text"""

import argparse
import json
import multiprocessing
import os
import re
import resource
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
from pathlib import Path
from statistics import median

from harness import PROGRAM, check_aim, free_base, save

AIM_TLS = 0.75
AIM_AUTH = 0.95
TICK = os.sysconf("SC_CLK_TCK")
IDLE = 2000
READY_S = 30
REQUEST = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"


def run(*arguments, **more):
    done = subprocess.run(list(map(str, arguments)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False, **more)
    if done.returncode != 0:
        raise SystemExit(f"bench: {' '.join(map(str, arguments[:4]))} failed: {done.stderr.strip()}")
    return done.stdout


class Certificates:
    """A private CA and a certificate for each node, by `holdfast cert`."""

    def __init__(self, folder, nodes):
        self.folder = folder
        run(PROGRAM, "cert", "init", "--dir", folder)
        for i in range(1, nodes + 1):
            run(PROGRAM, "cert", "node", "--dir", folder, "--id", i, "--host", "127.0.0.1", "--host", "localhost")
        self.ca = folder / "ca.pem"

    def flags(self, ident):
        return ["--tls-cert", self.folder / f"node-{ident}.pem", "--tls-key", self.folder / f"node-{ident}-key.pem", "--tls-ca", self.ca]


class Nodes:
    """`holdfast serve`, several times, on this machine. `flags`: of each node, or a function of its id."""

    def __init__(self, folder, count, certificates=None, flags=()):
        self.folder, self.count, self.certificates = folder, count, certificates
        self.security, self.headers = [], ""
        self.processes = {}
        base = free_base(count)
        self.ports = {i: base + 10 * (i - 1) for i in range(1, count + 1)}
        members = ",".join(f"{i}=127.0.0.1:{port + 1}" for i, port in self.ports.items())
        environment = {k: v for k, v in os.environ.items() if not k.startswith("HOLDFAST")}
        folder.mkdir()
        for i, port in self.ports.items():
            command = [PROGRAM, "serve", "--id", i, "--data", self.data(i), "--client", f"127.0.0.1:{port}", "--cluster", members,
                       "--resp", f"127.0.0.1:{port + 2}", "--bootstrap", "--log-file", folder / f"{i}.log", "--log-level", "warn",
                       *(flags(i) if callable(flags) else flags)]
            if certificates:
                command += certificates.flags(i)
            self.processes[i] = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *map(str, command)], env=environment,
                                                 start_new_session=True)
        if certificates:
            self.security = ["--ca", certificates.ca]
        self.endpoints = ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    def data(self, ident):
        return self.folder / f"node-{ident}"

    def connect(self, ident=1, session=None, context=None):
        plain = socket.create_connection(("127.0.0.1", self.ports[ident]), 30)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if not self.certificates:
            return plain
        context = context or self.context()
        return context.wrap_socket(plain, server_hostname="localhost", session=session)

    def context(self):
        return ssl.create_default_context(cafile=str(self.certificates.ca))

    def get(self, path, ident=1):
        with self.connect(ident) as there:
            there.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{self.headers}\r\n".encode())
            answer = b""
            while piece := there.recv(1 << 16):
                answer += piece
        return answer

    def wait_ready(self):
        end = time.monotonic() + READY_S
        for i, process in self.processes.items():
            while True:
                try:
                    if b" 200 " in self.get("/readyz", i)[:20]:
                        break
                except OSError:
                    pass
                if time.monotonic() > end or process.poll() is not None:
                    raise SystemExit(f"bench: node {i} is not ready: {(self.folder / f'{i}.log').read_text()[-1000:]}")
                time.sleep(0.05)
        return self

    def leader(self):
        """By the metrics of all nodes. A busy machine may make a leader lose its term for a moment."""
        end = time.monotonic() + READY_S
        while True:
            for i in self.ports:
                answer = self.get("/metrics", i)
                if re.search(rb"^holdfast_leader 1", answer, re.M):
                    return i
            if time.monotonic() > end:
                raise SystemExit(f"bench: no node leads; the last answer: {answer[:300]}")
            time.sleep(0.05)

    def cpu_s(self, ident):
        fields = Path(f"/proc/{self.processes[ident].pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def resident_kib(self, ident=1):
        status = Path(f"/proc/{self.processes[ident].pid}/status").read_text(encoding="ascii")
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1])

    def bench(self, *flags):
        return json.loads(run(PROGRAM, "bench", "--endpoints", self.endpoints, "--json", *self.security, *flags))

    def stop(self):
        for process in self.processes.values():
            process.send_signal(signal.SIGKILL)
        for process in self.processes.values():
            process.wait()


# ---- throughput --------------------------------------------------------------------


def children_s():
    """The CPU time of all programs that were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(nodes, options, api):
    """One run of the load: cycles/s, and the CPU of the leader, of a follower and of the load for a cycle, in µs."""
    leader = nodes.leader()
    load = children_s()
    before = {i: nodes.cpu_s(i) for i in nodes.ports}
    found = nodes.bench("--clients", options.clients, "--seconds", options.seconds, "--warmup", 0.5, "--api", api)
    used = {i: nodes.cpu_s(i) - before[i] for i in nodes.ports}
    cycles = found["cycles_per_second"] * (options.seconds + 0.5)
    followers = [cpu for i, cpu in used.items() if i != leader]
    if found["errors"]:
        print(f"  {found['errors']} errors: {found['errors_by_code']}")
    return {"cycles_per_second": found["cycles_per_second"], "p50_ms": found["acquire_us"]["p50"] / 1e3,
            "p99_ms": found["acquire_us"]["p99"] / 1e3, "leader_us": used[leader] / cycles * 1e6,
            "follower_us": sum(followers) / len(followers) / cycles * 1e6 if followers else 0,
            "all_us": (sum(used.values()) + children_s() - load) / cycles * 1e6}


def compare(name, pair, options, api):
    """`pair`: the clusters without and with what is measured."""
    rounds = []
    for number in range(options.rounds):
        order = list(enumerate(pair))
        row = [None, None]
        for i, nodes in order if number % 2 == 0 else reversed(order):
            row[i] = measure(nodes, options, api)
        rounds.append(row)
    result = {"name": name, "api": api, "rounds": rounds,
              "ratio": median(b["cycles_per_second"] / a["cycles_per_second"] for a, b in rounds),
              "ratio_of_cpu": min(a["all_us"] for a, _ in rounds) / min(b["all_us"] for _, b in rounds)}
    a, b = ({key: median(row[i][key] for row in rounds) for key in rounds[0][0]} for i in (0, 1))
    result["without"], result["with"] = a, b
    print(f"{name}, {api}: {a['cycles_per_second']:,.0f} and {b['cycles_per_second']:,.0f} cycles/s, ratios "
          f"{', '.join('%.2f' % (y['cycles_per_second'] / x['cycles_per_second']) for x, y in rounds)}; acquire p50 {a['p50_ms']:.2f} and "
          f"{b['p50_ms']:.2f} ms, p99 {a['p99_ms']:.1f} and {b['p99_ms']:.1f} ms; CPU a cycle: leader {a['leader_us']:.1f} and "
          f"{b['leader_us']:.1f} µs, follower {a['follower_us']:.1f} and {b['follower_us']:.1f} µs, all with the load {a['all_us']:.1f} and {b['all_us']:.1f} µs, "
          f"ratio of the least {result['ratio_of_cpu']:.2f}", flush=True)
    return result


def throughput(folder, certificates, options):
    found = []
    rows = {options.nodes: f"{options.nodes} nodes, clients and peers", 1: "1 node, clients only"}
    for count, name in rows.items():
        pair = [Nodes(folder / f"clear-{count}", count), Nodes(folder / f"tls-{count}", count, certificates)]
        try:
            for nodes in pair:
                nodes.wait_ready()
            found += [compare(f"TLS, {name}", pair, options, api) for api in options.api]
            if count > 1:
                pair_of_tier = [Tier(nodes) for nodes in pair]
                found.append(compare(f"TLS, {count} nodes, efficiency tier (peers are not waited for)", pair_of_tier, options, options.api[0]))
        finally:
            for nodes in pair:
                nodes.stop()
    aims = [check_aim(f"{row['name']}, {row['api']}: of clear text", row["ratio"], AIM_TLS) for row in found]
    return {"rows": found, "aims": aims}


class Tier:
    """The same nodes, measured in the efficiency tier."""

    def __init__(self, nodes):
        self.nodes = nodes

    def __getattr__(self, name):
        return getattr(self.nodes, name)

    def bench(self, *flags):
        return self.nodes.bench("--tier", "efficiency", *flags)


# ---- handshakes ------------------------------------------------------------------------


def shake_hands(nodes, seconds, resumes, results):
    context = nodes.context()
    session, count, resumed = None, 0, 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with nodes.connect(session=session, context=context) as there:
            resumed += there.session_reused
            there.sendall(REQUEST)
            there.recv(4096)  # with it, the ticket arrives
            session = there.session if resumes else None
            count += 1
    results.put((count, resumed))


def handshakes(folder, certificates, options):
    nodes = Nodes(folder / "handshakes", 1, certificates).wait_ready()
    found = {}
    try:
        for kind in ("full", "resumed") * options.rounds:
            results = multiprocessing.Queue()
            clients = [multiprocessing.Process(target=shake_hands, args=(nodes, options.seconds, kind == "resumed", results)) for _ in range(4)]
            cpu = nodes.cpu_s(1)
            for client in clients:
                client.start()
            counts = [results.get() for _ in clients]
            for client in clients:
                client.join()
            count = sum(c for c, _ in counts)
            row = {"per_second": count / options.seconds, "node_us": (nodes.cpu_s(1) - cpu) / count * 1e6,
                   "resumed": sum(r for _, r in counts) / count}
            if (kind == "resumed") != (row["resumed"] > 0.9):
                raise SystemExit(f"bench: {row['resumed']:.0%} of the handshakes were resumed, in the run of {kind} ones")
            found.setdefault(kind, []).append(row)
    finally:
        nodes.stop()
    summary = {kind: {key: median(row[key] for row in rows) for key in rows[0]} for kind, rows in found.items()}
    for kind, row in summary.items():
        print(f"handshakes, {kind}: {row['per_second']:,.0f} a second with 4 clients of Python beside the node, which used "
              f"{row['node_us']:.0f} µs of CPU for one with a request: {1e6 / row['node_us']:,.0f} a second of a core", flush=True)
    return {"rounds": found, "median": summary}


# ---- idle connections ----------------------------------------------------------------------


def idle(folder, certificates, _):
    found = {}
    for kind, authority in (("clear", None), ("tls", certificates)):
        nodes = Nodes(folder / f"idle-{kind}", 1, authority, ["--max-clients", IDLE + 100]).wait_ready()
        kept = []
        try:
            context = nodes.context() if authority else None
            before = nodes.resident_kib()
            for _ in range(IDLE):
                there = nodes.connect(context=context)
                there.sendall(REQUEST)
                there.recv(4096)
                kept.append(there)
            found[kind] = (nodes.resident_kib() - before) * 1024 / IDLE
        finally:
            for there in kept:
                there.close()
            nodes.stop()
    print(f"idle connections: {found['clear']:,.0f} bytes of the node each in clear text, {found['tls']:,.0f} with TLS", flush=True)
    return found


# ---- authorisation --------------------------------------------------------------------------


class WithToken:
    """Nodes whose requests carry a token."""

    def __init__(self, nodes, token):
        self.nodes, self.token = nodes, token

    def __getattr__(self, name):
        return getattr(self.nodes, name)

    def bench(self, *flags):
        return self.nodes.bench("--token-file", self.token, *flags)


def token_of_a_client(nodes, folder):
    """The file of a token of default/bench, which may take locks under bench/."""
    admin, client, policy = folder / "admin.token", folder / "bench.token", folder / "policy.json"
    whole = {"tenant": "*", "prefix": "*", "rights": ["lock", "read", "operate", "admin"]}
    policy.write_text(json.dumps({"tenants": [{"name": "default"}], "principals": [
        {"tenant": "default", "name": "admin", "grants": [whole]},
        {"tenant": "default", "name": "bench", "grants": [{"tenant": "default", "prefix": "bench/", "rights": ["lock", "read"]}]},
    ]}), encoding="utf-8")
    run(PROGRAM, "auth", "bootstrap", "--data", nodes.data(1), "--out", admin)
    security = ["--endpoints", nodes.endpoints, "--token-file", admin]
    run(PROGRAM, "auth", "apply", policy, *security)
    run(PROGRAM, "token", "create", "default/bench", "--out", client, *security)
    nodes.headers = f"Authorization: Bearer {admin.read_text(encoding='ascii').strip()}\r\n"
    return client


def auth(folder, _, options):
    off = Nodes(folder / "auth-off", options.nodes)
    on = Nodes(folder / "auth-on", options.nodes, flags=["--auth", "on"])
    try:
        off.wait_ready()
        on.wait_ready()
        pair = [off, WithToken(on, token_of_a_client(on, folder))]
        rows = [compare("auth = on", pair, options, api) for api in options.api]
    finally:
        off.stop()
        on.stop()
    aims = [check_aim(f"auth = on, {row['api']}: of auth = off", row["ratio"], AIM_AUTH) for row in rows]
    return {"rows": rows, "aims": aims}


PARTS = {"throughput": throughput, "handshakes": handshakes, "idle": idle, "auth": auth}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--nodes", type=int, default=5)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--api", type=lambda text: text.split(","), default=["grpc", "http", "resp"])
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(PARTS))
    options = parser.parse_args()
    for name in options.only:
        if name not in PARTS:
            parser.error(f"there is no {name}; there are {', '.join(PARTS)}")
    folder = Path(tempfile.mkdtemp(prefix="holdfast-bench-"))
    try:
        certificates = Certificates(folder / "tls", options.nodes)
        found = {name: PARTS[name](folder, certificates, options) for name in options.only}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"results: {save('tls', found)}")


if __name__ == "__main__":
    main()

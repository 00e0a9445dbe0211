#!/usr/bin/python3
"""How much a tenant at its limit delays another one: p99 of an acquire, in one interleaved run.

    bench/tenants.py [--rounds 5] [--seconds 4] [--nodes 3] [--clients 8] [--rate 400] [--quota 2000] [--api grpc] [--via leader]

The tenant `blue` begins `rate` cycles a second with `clients` clients; its latency counts from when a cycle was due. Each round
measures it

  alone     while nothing else runs
  limit     beside the tenant `red`, which sends as many requests a second as its quota allows, with 64 clients
  flood     beside `red`, which sends as fast as 64 clients of `holdfast bench` can; what is above its quota is refused
  full      beside `red` without a quota, as fast as 64 clients can: turns alone protect `blue`

in an order that is reversed in every second round. `limit elsewhere`, `flood elsewhere` and `full elsewhere` send the same load to a second
cluster of this machine: what sharing the CPU costs. The ratio of a phase is the median of the ratios to `alone`, and to `elsewhere`, of the
same round. The clients run on the machine of the nodes and use its CPU; `red` has a lower priority (nice 10)."""

import argparse
import contextlib
import json
import subprocess
import time
import urllib.request
from statistics import median

from harness import PROGRAM, Cluster, check_aim, save

AIM = 1.2
FLOODING = 64
DEBT_S = 2.2
LOADS = ("limit", "flood", "full")
ELSEWHERE = " elsewhere"


def quotas(requests):
    return {"requests_per_second": requests, "locks": 0, "sessions": 0, "waiters": 0, "watchers": 0, "state_bytes": 0}


class Tenants(Cluster):
    """A cluster with auth = on and two tenants, red and blue, each with a principal and its token."""

    def __init__(self, nodes):
        super().__init__(nodes, HOLDFAST_AUTH="on", HOLDFAST_LOG_LEVEL="warn")
        self.admin = self.folder / "admin.token"
        end = time.monotonic() + 30
        while True:  # a new cluster has its state version after a moment
            done = subprocess.run([PROGRAM, "auth", "bootstrap", "--data", self.folder / "nodes" / "node-1", "--out", self.admin],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
            if done.returncode == 0:
                break
            if time.monotonic() > end:
                raise SystemExit(f"bench: auth bootstrap failed: {done.stderr}")
            time.sleep(0.1)
        self.limit(0)
        self.tokens = {}
        for tenant in ("red", "blue"):
            token = self.request("POST", "/api/v1/auth/tokens", {"principal": f"{tenant}/bench", "description": "bench"})["token"]
            self.tokens[tenant] = self.folder / f"{tenant}.token"
            self.tokens[tenant].write_text(token + "\n", encoding="ascii")
            self.tokens[tenant].chmod(0o600)

    def request(self, method, path, body=None):
        token = self.admin.read_text(encoding="ascii").strip()
        request = urllib.request.Request(f"http://127.0.0.1:{self.base + 10 * (self.leader - 1)}{path}", method=method,
                                         data=None if body is None else json.dumps(body).encode(),
                                         headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.loads(answer.read())

    def limit(self, requests):
        """Sets the quota of red; 0: none."""
        document = self.request("GET", "/api/v1/auth/policy")
        document.pop("version")
        rows = [row for row in document["principals"] if row["name"] != "bench"]
        for tenant in ("red", "blue"):
            rows.append({"tenant": tenant, "name": "bench", "description": "",
                         "grants": [{"tenant": tenant, "prefix": "*", "rights": ["lock", "read"]}]})
        tenants = [{"name": "default"}, {"name": "red", "quotas": quotas(requests)}, {"name": "blue"}]
        self.request("PUT", "/api/v1/auth/policy",
                     {"tenants": tenants, "principals": [{k: v for k, v in row.items() if k != "number"} for row in rows],
                      "barred_serials": document["barred_serials"]})

    def command(self, tenant, *flags):
        return [PROGRAM, "bench", "--endpoints", self.endpoints, "--json", "--token-file", self.tokens[tenant], *map(str, flags)]

    @contextlib.contextmanager
    def flooded(self, seconds, *flags):
        """Beside it red sends. Yields a list that has its figures afterwards."""
        figures = []
        process = subprocess.Popen(["nice", "-n", "10", *self.command("red", "--clients", FLOODING, "--seconds", seconds, "--warmup", 0, *flags)],
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            time.sleep(1)
            yield figures
            text, _ = process.communicate(timeout=60)
            if process.returncode != 0:
                raise SystemExit("bench: red did not run")
            figures.append(json.loads(text))
        finally:
            process.kill()
            process.wait()


def measure(cluster, options):
    text = subprocess.run(cluster.command("blue", "--clients", options.clients, "--rate", options.rate, "--seconds", options.seconds,
                                          "--warmup", 0.5, "--api", options.api, "--via", options.via),
                          stdout=subprocess.PIPE, text=True, check=True).stdout
    found = json.loads(text)
    if found["errors"]:
        print(f"  {found['errors']} errors of blue: {found['errors_by_code']}")
    return {"p50_ms": found["acquire_us"]["p50"] / 1e3, "p99_ms": found["acquire_us"]["p99"] / 1e3}


def one_phase(phase, cluster, other, options):
    """Of blue, with the cycles and refusals a second of red."""
    load = phase.removesuffix(ELSEWHERE)
    target = cluster if phase == load else other
    flags = ["--api", options.api, "--via", options.via]
    if load == "limit":
        flags += ["--rate", options.quota // 2]  # a cycle is two requests
    if phase == "alone":
        return measure(cluster, options)
    target.limit(0 if load == "full" else options.quota)
    time.sleep(DEBT_S)  # of an earlier phase: red could not open its sessions
    with target.flooded(options.seconds + 3, *flags) as red:
        found = measure(cluster, options)
    found["red_cycles"] = red[0]["cycles_per_second"]
    found["red_refused"] = red[0]["errors"] / (options.seconds + 3)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--rate", type=int, default=400)
    parser.add_argument("--quota", type=int, default=2000)
    parser.add_argument("--api", default="grpc", choices=("grpc", "http"))
    parser.add_argument("--via", default="leader", choices=("leader", "any"))
    parser.add_argument("--loads", default=",".join(LOADS), help="with commas")
    options = parser.parse_args()
    loads = options.loads.split(",")
    phases = ["alone", *(phase for load in loads for phase in (load, load + ELSEWHERE))]
    rounds = []
    with Tenants(options.nodes) as cluster, Tenants(options.nodes) as other:
        for number in range(options.rounds):
            order = phases if number % 2 == 0 else phases[::-1]
            found = {phase: one_phase(phase, cluster, other, options) for phase in order}
            rounds.append(found)
            for phase in phases:
                row = found[phase]
                red = f"; red {row['red_cycles']:.0f} cycles/s, {row['red_refused']:.0f} refused/s" if "red_cycles" in row else ""
                print(f"round {number + 1}: blue {phase}: acquire p50 {row['p50_ms']:.2f} p99 {row['p99_ms']:.2f} ms{red}", flush=True)
    aims = []
    ratios = {}
    for load in loads:
        ratios[load] = {other: median(r[load]["p99_ms"] / r[other]["p99_ms"] for r in rounds) for other in ("alone", load + ELSEWHERE)}
        if load != "full":
            aims.append(check_aim(f"p99 beside a tenant, {load}, to p99 alone", ratios[load]["alone"], AIM, at_most=True))
        print(f"p99 beside a tenant, {load}: {ratios[load]['alone']:.2f} times alone, "
              f"{ratios[load][load + ELSEWHERE]:.2f} times beside the same load of another cluster")
    print(f"results: {save('tenants', {'rounds': rounds, 'ratios': ratios, 'aims': aims})}")


if __name__ == "__main__":
    main()

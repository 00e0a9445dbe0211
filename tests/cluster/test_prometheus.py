"""contrib/prometheus and contrib/grafana: a real Prometheus scrapes a cluster, adds up its nodes, and evaluates
the alerts and the queries of the dashboard."""

import json
import re
import shutil
import subprocess
import urllib.parse
import urllib.request

import pytest

from harness import PATIENCE, ROOT, dies_with_us, free_ports, skip_or_fail, wait_until
from test_metrics import PAGE, ROW

CONTRIB = ROOT / "contrib"
ALERTS = CONTRIB / "prometheus" / "alerts.yml"
DASHBOARD = CONTRIB / "grafana" / "holdfast.json"
JOB = "holdfast"


def need(program):
    if shutil.which(program) is None:
        skip_or_fail(f"{program} is not installed: scripts/setup test")


def expressions():
    """All queries of the dashboard, for one job and interval."""
    found = []

    def visit(node):
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            if key == "expr":
                found.append(value.replace("$job", JOB).replace("$__rate_interval", "1m"))
            elif isinstance(value, (dict, list)):
                visit(value)

    visit(json.loads(DASHBOARD.read_text(encoding="utf-8")))
    return found


def described():
    """The names of docs/METRICS.md, which test_metrics.py compares with the output; a histogram has three."""
    names = set()
    for name, kind, _, _ in ROW.findall(PAGE.read_text(encoding="utf-8")):
        names |= {f"{name}_bucket", f"{name}_sum", f"{name}_count"} if kind == "histogram" else {name}
    return names


@pytest.mark.parametrize("text", [ALERTS.read_text(encoding="utf-8"), "\n".join(expressions())], ids=["alerts", "dashboard"])
def test_only_metrics_that_exist_are_used(text):
    text = re.sub(r"^\s*(summary|action|#).*$", "", text, flags=re.M)
    used = set(re.findall(r"\bholdfast_[a-z0-9_]+", text))
    assert len(used) > 15 and used <= described(), used - described()


def test_each_panel_has_a_title_a_unit_and_a_place_of_its_own():
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    cells = set()
    for panel in panels:
        at = panel["gridPos"]
        mine = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert panel["title"] and at["x"] + at["w"] <= 24 and not mine & cells, panel
        cells |= mine
        assert panel["type"] == "row" or panel["fieldConfig"]["defaults"]["unit"], panel
    assert len({panel["id"] for panel in panels}) == len(panels)


def promtool(*arguments):
    need("promtool")
    return subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True, timeout=PATIENCE, check=False)


def test_each_alert_fires_when_it_must_and_only_then():
    assert promtool("check", "rules", ALERTS).returncode == 0
    done = promtool("test", "rules", CONTRIB / "prometheus" / "alerts_test.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    tests = (CONTRIB / "prometheus" / "alerts_test.yml").read_text(encoding="utf-8")
    for name in re.findall(r"- alert: (\w+)", ALERTS.read_text(encoding="utf-8")):
        assert len(re.findall(rf"alertname: {name}$", tests, re.M)) == 2, name


class Prometheus:
    """Scrapes the nodes each second and evaluates the alerts."""

    def __init__(self, folder, nodes):
        need("prometheus")
        self.address = f"127.0.0.1:{free_ports(1)[0]}"
        config = folder / "prometheus.yml"
        config.write_text(json.dumps({  # JSON is YAML
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"}, "rule_files": [str(ALERTS)],
            "scrape_configs": [{"job_name": JOB, "static_configs": [{"targets": [node.client for node in nodes]}]}]}),
            encoding="utf-8")
        self.log = (folder / "prometheus.log").open("wb")
        self.process = subprocess.Popen(
            dies_with_us(["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}",
                          f"--web.listen-address={self.address}"]), stdout=self.log, stderr=subprocess.STDOUT)

    def get(self, path, **query):
        """None while it does not answer."""
        url = f"http://{self.address}{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
                found = json.load(answer)
        except urllib.error.HTTPError as error:
            assert error.code == 503, (path, query, error.read())
            return None
        except OSError:
            return None
        assert found["status"] == "success", found
        return found["data"]

    def value(self, query):
        """Of a query with one result; None without one."""
        data = self.get("/api/v1/query", query=query)
        return float(data["result"][0]["value"][1]) if data and len(data["result"]) == 1 else None

    def close(self):
        self.process.kill()
        self.process.wait()
        self.log.close()


@pytest.mark.long
def test_a_prometheus_adds_up_what_all_nodes_counted(make_cluster, tmp_path):
    cluster = make_cluster(3)
    nodes = list(cluster)
    prometheus = Prometheus(tmp_path, nodes)
    try:
        wait_until(lambda: prometheus.value(f'sum(up{{job="{JOB}"}})') == 3, "it scrapes three nodes")
        for i in range(30):
            assert nodes[i % 3].acquire(f"p-{i}", ttl_ms=600000).json["acquired"]
            assert not nodes[(i + 1) % 3].acquire(f"p-{i}", client="other").json["acquired"]
        wait_until(lambda: prometheus.value("sum(holdfast_grants_total)") == 30, "the sum of grants")
        wait_until(lambda: prometheus.value("sum(holdfast_leader)") == 1, "one leader")
        assert prometheus.value("count(holdfast_leader)") == 3
        wait_until(lambda: prometheus.value('sum(holdfast_acquires_total{outcome="refused"})') == 30, "the sum of refusals")
        wait_until(lambda: prometheus.value("max(holdfast_grants)") == 30, "the number of holders")
        wait_until(lambda: prometheus.value("sum(holdfast_acquire_seconds_count)") == 60, "the sum of latencies")
        old = cluster.leader()
        old.kill()
        second = cluster.leader()
        for i in range(5):
            assert second.acquire_surely(f"q-{i}", ttl_ms=600000).json["acquired"]
        wait_until(lambda: prometheus.value(f"holdfast_grants_total{{instance=\"{second.client}\",tier=\"CORRECTNESS\"}}") == 5,
                   "the grants of the second leader")
        # The killed node is gone from sums of the present; rates over the time of both count each once.
        wait_until(lambda: prometheus.value("sum(holdfast_grants_total)") == 5, "the old leader is stale")
        both = "sum(max_over_time(holdfast_grants_total[5m]))"
        wait_until(lambda: prometheus.value(both) == 35, "all grants")
        body = {"actor_id": "me", "reason": "test"}
        assert second.request("POST", "/api/v1/locks/p-1/force-unlock", body).status == 200

        def firing():
            alerts = prometheus.get("/api/v1/alerts")
            return {alert["labels"]["alertname"] for alert in alerts["alerts"] if alert["state"] == "firing"}

        wait_until(lambda: "HoldfastForceUnlock" in firing(), "the alert about the force-unlock")
        for group in prometheus.get("/api/v1/rules")["groups"]:
            for rule in group["rules"]:
                assert rule["health"] == "ok", rule
        for query in expressions():
            assert prometheus.get("/api/v1/query", query=query) is not None, query
        wait_until(lambda: prometheus.value(f'sum(rate(holdfast_acquires_total{{job="{JOB}"}}[1m]))') > 0, "rates")
    finally:
        prometheus.close()

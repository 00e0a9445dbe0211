"""Long-held rules: set, listed and removed over HTTP, gRPC and the command line; and how a hold that is past its rule
is reported: list, event, log, metric, lists of locks."""

import json
import re
import threading
import urllib.request

import pytest

from auth_support import bearer, secure_cluster
from cli_support import Watcher, cluster, good, run_cli  # noqa: F401  (a fixture)
from grpc_support import channel_to, code_of, grpc, stubs  # noqa: F401
from harness import wait_until

PATH = "/api/v1/alerts"
OPERATOR = {"actor_id": "olga"}


def set_rule(node, prefix, after_ms, **more):
    return node.request("PUT", PATH, {"prefix": prefix, "after_ms": after_ms, **OPERATOR, **more})


def remove_rule(node, prefix):
    return node.request("DELETE", PATH, {"prefix": prefix, **OPERATOR})


def listed(node, query=""):
    answer = node.request("GET", PATH + query)
    assert answer.status == 200, answer
    return answer.json


def holds(node, prefix=""):
    """All pages."""
    rows, cursor = {}, ""
    while cursor is not None:
        page = listed(node, f"?limit=1000&cursor={cursor}" if cursor else "?limit=1000")
        rows.update({row["name"]: row for row in page["holds"] if row["name"].startswith(prefix)})
        cursor = page["next_cursor"]
    return rows


def long_held_metric(node):
    with urllib.request.urlopen(f"http://{node.client}/metrics", timeout=20) as answer:
        return int(re.search(r"^holdfast_long_held_locks (\d+)$", answer.read().decode(), re.MULTILINE).group(1))


@pytest.fixture
def rules(cluster):  # noqa: F811
    """Rules that a test sets through this are gone after it."""
    made = set()

    def make(prefix, after_ms, **more):
        made.add(prefix)
        answer = set_rule(cluster.nodes[1], prefix, after_ms, **more)
        assert answer.status == 200, answer
        return answer.json
    yield make
    for prefix in made:
        remove_rule(cluster.nodes[1], prefix)


@pytest.mark.parametrize("tier", ["CORRECTNESS", "EFFICIENCY"])
def test_a_long_hold_is_reported_once_everywhere(cluster, rules, tier):  # noqa: F811
    prefix = f"long-{tier}/"
    node, leader = cluster.followers()[0], cluster.leader()
    rules(prefix, 1000)
    before = long_held_metric(leader)
    with Watcher(cluster, prefix) as watcher:
        granted = node.acquire(prefix + "a", "ann", 600000, tier=tier).json
        node.acquire("other-" + prefix, "ann", 600000, tier=tier)
        line = leader.wait_event("lock_long_held", resource=prefix + "a")[0]
        assert line["level"] == "warn" and line["rule"] == prefix and line["tier"] == tier, line
        assert line["fencingToken"] == granted["fencing_token"] and 1 <= line["heldSeconds"] < 60, line
        event = wait_until(lambda: watcher.named("long_held"), "the event of the watch")[0]
        assert event["name"] == prefix + "a" and event["rule"] == prefix and event["held_ms"] >= 1000, event
        assert event["since"] == node.show(prefix + "a").json["holders"][0]["since"], event
        if tier == "CORRECTNESS":
            line = good(cluster, "watch", "--since", watcher.events[0]["id"], "-n", "2", prefix).splitlines()[1]
            assert " long_held " in line and f"longer than the rule of {prefix}" in line, line
    assert node.show(prefix + "a").json["holders"][0]["long_held"]
    for each in cluster:
        row = holds(each, prefix)[prefix + "a"]
        assert row["holder"]["fencing_token"] == granted["fencing_token"] and row["holder"]["client_id"] == "ann"
        assert row["rule"] == prefix and row["after_ms"] == 1000 and row["tier"] == tier, row
        assert row["over_ms"] == row["held_ms"] - 1000 >= 0 and row["long_held"] and row["holder"]["since"], row
    assert long_held_metric(leader) == before + 1 and long_held_metric(node) == 0
    token = {"client_id": "ann", "fencing_token": granted["fencing_token"]}
    for _ in range(2):  # a renewal is not reported again
        assert node.request("POST", f"/api/v1/locks/{prefix}a/renew", token).json["renewed"]
    assert "other-" + prefix not in holds(node)
    assert node.release(prefix + "a", granted["fencing_token"], "ann").json["released"]
    wait_until(lambda: not holds(node, prefix), "it is past its rule no more")
    assert long_held_metric(leader) == before
    assert [line["resource"] for each in cluster for line in each.events("lock_long_held")
            if line["resource"].startswith(prefix)] == [prefix + "a"]


def test_the_rule_with_the_longest_prefix_counts(cluster, rules):  # noqa: F811
    node = cluster.nodes[1]
    rules("deep/", 1000)
    rules("deep/er/", 600000)
    for name in ("deep/a", "deep/er/a"):
        assert node.acquire(name, ttl_ms=600000).json["acquired"]
    wait_until(lambda: "deep/a" in holds(node), "the short rule")
    assert "deep/er/a" not in holds(node)
    assert node.show("deep/er/a").json["long_held_after_ms"] == 600000
    rules("deep/er/", 1000)  # replaces it
    wait_until(lambda: holds(node, "deep/er/"), "the shorter rule counts now")
    assert [row for row in listed(node)["rules"] if row["prefix"].startswith("deep")] == [
        {"prefix": "deep/", "after_ms": 1000}, {"prefix": "deep/er/", "after_ms": 1000}]
    rules("deep/er/", 600000)
    assert not holds(node, "deep/er/"), "the list follows the rules of now"


def test_a_rule_of_every_name(cluster, rules):  # noqa: F811
    node = cluster.nodes[1]
    rules("*", 1000)
    assert node.acquire("anything", ttl_ms=600000).json["acquired"]
    row = wait_until(lambda: holds(node).get("anything"), "the rule of every name")
    assert row["rule"] == "*" and {"prefix": "*", "after_ms": 1000} in listed(node)["rules"]
    assert remove_rule(node, "*").json == {"action": "ALERT_REMOVE", "prefix": "*"}
    assert "anything" not in holds(node)
    assert remove_rule(node, "*").code == "alert_not_found"


def test_pages_have_every_hold(cluster, rules):  # noqa: F811
    node = cluster.nodes[1]
    rules("many/", 1000)
    names = {f"many/{tier}-{i}" for tier in ("CORRECTNESS", "EFFICIENCY") for i in range(40)}
    for name in names:
        assert node.acquire(name, ttl_ms=600000, tier=name[5:].split("-")[0]).json["acquired"]
    wait_until(lambda: set(holds(node, "many/")) == names, "all of them")
    pages, cursor, seen = 0, "", set()
    while cursor is not None:
        page = listed(node, f"?limit=10{'&cursor=' + cursor if cursor else ''}")
        seen |= {row["name"] for row in page["holds"]}
        cursor, pages = page["next_cursor"], pages + 1
    assert names <= seen and pages > 4
    assert node.request("GET", PATH + "?cursor=99999999999999").status == 400


@pytest.mark.parametrize("body,status,code", [
    ({"prefix": "x/"}, 400, "field_missing"), ({"after_ms": 5000}, 400, "field_missing"),
    ({"prefix": "x/", "after_ms": 999}, 400, "invalid_alert"), ({"prefix": "x/", "after_ms": 2678400001}, 400, "invalid_alert"),
    ({"prefix": "//", "after_ms": 5000}, 400, "invalid_alert"), ({"prefix": "", "after_ms": 5000}, 400, "field_range"),
    ({"prefix": "x/", "after_ms": "5s"}, 400, "field_type")])
def test_a_wrong_rule_is_refused(cluster, body, status, code):  # noqa: F811
    before = listed(cluster.nodes[1])["rules"]
    answer = cluster.nodes[1].request("PUT", PATH, {**OPERATOR, **body})
    assert (answer.status, answer.code) == (status, code), answer
    assert listed(cluster.nodes[1])["rules"] == before


def test_changes_are_audited_and_done_once(cluster, rules):  # noqa: F811
    node = cluster.nodes[1]
    first = rules("audit/", 60000, request_id="rule-1", reason="jobs are short")
    assert "replayed" not in first and rules("audit/", 60000, request_id="rule-1", reason="jobs are short")["replayed"]
    rules("audit/", 90000)
    assert remove_rule(node, "audit/").status == 200
    records = [r for r in json.loads(good(cluster, "audit", "--json"))["records"] if r["resource"] == "audit/"]
    assert [(r["action"], r["actorId"], r["reason"]) for r in records] == [
        ("ALERT_SET", "olga", "jobs are short"), ("ALERT_SET", "olga", "report holds of more than 90000 ms"),
        ("ALERT_REMOVE", "olga", "rule removed")]


def test_rules_survive_a_failover(make_cluster):
    cluster = make_cluster(3)
    assert set_rule(cluster.followers()[0], "kept/", 1000).status == 200
    assert cluster.followers()[0].acquire("kept/a", ttl_ms=600000).json["acquired"]
    first = cluster.leader()
    first.wait_event("lock_long_held", resource="kept/a")
    first.kill()
    new = cluster.leader()
    assert listed(new)["rules"] == [{"prefix": "kept/", "after_ms": 1000}]
    assert new.acquire("kept/b", ttl_ms=600000).json["acquired"]
    new.wait_event("lock_long_held", resource="kept/b")
    assert not [line for line in new.events("lock_long_held") if line["resource"] == "kept/a"], "reported once"
    assert set(holds(new)) == {"kept/a", "kept/b"} and long_held_metric(new) == 2


def test_the_command_line_sets_lists_and_removes(cluster):  # noqa: F811
    assert good(cluster, "alert", "set", "cli/", "1500ms", "--reason", "test", "--actor", "eve").startswith("cli/: a hold ")
    node = cluster.nodes[1]
    token = node.acquire("cli/a", "ann", 600000).json["fencing_token"]
    waiter = threading.Thread(target=lambda: node.acquire("cli/a", "bob", wait_timeout_ms=60000))
    waiter.start()
    row = wait_until(lambda: [line for line in good(cluster, "alert", "list").splitlines() if line.startswith("cli/a ")],
                     "the table has it")[0].split()
    assert row[1:3] == ["ann", str(token)] and row[-2:] == ["cli/", "1"], row
    shown = json.loads(good(cluster, "alert", "list", "--json"))
    assert {"prefix": "cli/", "after_ms": 1500} in shown["rules"] and "cli/a" in [r["name"] for r in shown["holds"]]
    wait_until(lambda: "long-held" in good(cluster, "ls", "cli/"), "ls marks it, too")
    assert json.loads(good(cluster, "alert", "set", "cli/", "2h", "--json"))["after_ms"] == 7200000
    assert "No lock is held longer" in good(cluster, "alert", "list")
    assert "removed" in good(cluster, "alert", "remove", "cli/")
    assert "There are no rules" in good(cluster, "alert")
    done = run_cli(cluster, "alert", "remove", "cli/")
    assert done.returncode != 0 and "alert_not_found" in done.stderr, done
    node.release("cli/a", token, "ann")
    waiter.join()


@pytest.mark.parametrize("words", [("set",), ("set", "x/"), ("set", "x/", "soon"), ("set", "x/", "0s"), ("remove",), ("drop", "x/"),
                                   ("list", "x/")])
def test_wrong_usage_of_the_command(cluster, words):  # noqa: F811
    done = run_cli(cluster, "alert", *words)
    assert done.returncode == 64 and "alert" in done.stderr, done


def test_grpc_sets_lists_and_removes(cluster, stubs):  # noqa: F811
    admin = stubs.admin
    with channel_to(cluster.followers()[0]) as channel:
        service = stubs.admin_grpc.AdminServiceStub(channel)
        made = service.SetAlert(admin.SetAlertRequest(prefix="rpc/", after={"seconds": 1}, **OPERATOR))
        assert made.rule.prefix == "rpc/" and made.rule.after.seconds == 1 and not made.replayed
        token = cluster.nodes[1].acquire("rpc/a", ttl_ms=600000).json["fencing_token"]
        rows = wait_until(lambda: service.Alerts(admin.AlertsRequest()).holds, "it is past its rule")
        assert [row.lock.resource_id for row in rows] == ["rpc/a"] and rows[0].fence_token == token
        assert rows[0].rule == made.rule and rows[0].lock.holder.client_id == "test"
        assert rows[0].held.ToMilliseconds() == rows[0].over.ToMilliseconds() + 1000
        assert made.rule in service.Alerts(admin.AlertsRequest()).rules
        service.RemoveAlert(admin.RemoveAlertRequest(prefix="rpc/", **OPERATOR))
        assert not service.Alerts(admin.AlertsRequest()).holds
        with pytest.raises(grpc.RpcError) as error:
            service.RemoveAlert(admin.RemoveAlertRequest(prefix="rpc/", **OPERATOR))
        assert code_of(error.value) == (grpc.StatusCode.NOT_FOUND, "alert_not_found")
        with pytest.raises(grpc.RpcError) as error:
            service.SetAlert(admin.SetAlertRequest(prefix="rpc/", **OPERATOR))
        assert code_of(error.value) == (grpc.StatusCode.INVALID_ARGUMENT, "invalid_alert")
        with pytest.raises(grpc.RpcError) as error:
            service.SetAlert(admin.SetAlertRequest(after={"seconds": 1}, **OPERATOR))
        assert code_of(error.value)[0] == grpc.StatusCode.INVALID_ARGUMENT


def test_a_reader_sees_no_token_and_no_rule_of_other_names(make_cluster):
    """Needs of the routes: test_auth_matrix.py."""
    made = secure_cluster(make_cluster, 1)
    node = made.nodes[1]
    headers = {role: bearer(made.tokens[role], "red") for role in ("red/read", "default/root")}
    for prefix in ("app/", "secret/"):
        answer = node.request("PUT", PATH, {"prefix": prefix, "after_ms": 1000, **OPERATOR}, headers=headers["default/root"])
        assert answer.status == 200, answer
    for name in ("app%2Fa", "secret%2Fa"):
        assert node.request("POST", f"/api/v1/locks/{name}/acquire", {"client_id": "c", "ttl_ms": 600000},
                            headers=headers["default/root"]).json["acquired"]
    seen = wait_until(lambda: (lambda page: page if page["holds"] else None)(
        node.request("GET", PATH, headers=headers["red/read"]).json), "the reader sees a hold")
    assert [row["prefix"] for row in seen["rules"]] == ["app/"] and [row["name"] for row in seen["holds"]] == ["app/a"]
    assert "fencing_token" not in seen["holds"][0]["holder"], seen
    everything = node.request("GET", PATH, headers=headers["default/root"]).json
    assert {row["name"] for row in everything["holds"]} == {"app/a", "secret/a"}
    assert all("fencing_token" in row["holder"] for row in everything["holds"])

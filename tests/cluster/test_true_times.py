"""`since` and `createdAt` are the time of the acquisition: in every answer, on every node, and after restarts, failovers and
times without a leader, in which cluster time stands still."""

import datetime
import json
import threading

import pytest

from cli_support import good
from grpc_support import channel_to, stubs  # noqa: F401
from harness import allowed, wait_until

GAP_S = 1.5  # without any node; cluster time stands still


def now():
    return datetime.datetime.now(datetime.timezone.utc)


def parsed(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


def shown(node, stubs):  # noqa: F811
    """Every place that shows when the locks were acquired."""
    holder = node.show("job").json["holders"][0]["since"]
    refused = node.acquire("job", "late").json["holder"]["since"]
    row, = (row for row in node.request("GET", "/api/v1/locks?limit=1000").json["locks"] if row["name"] == "job")
    seed = node.request("POST", "/v1/locks/acquire", {"resource": "job", "ownerId": "late"}).json["holder"]["createdAt"]
    leader = node.request("GET", "/api/v1/elections/boss").json["leader"]["since"]
    campaign = node.request("POST", "/api/v1/elections/boss/campaign", {"client_id": "late", "value": "v"}).json["holder"]["since"]
    with channel_to(node) as channel:
        admin = stubs.admin_grpc.AdminServiceStub(channel)
        rpc = admin.Show(stubs.admin.ShowRequest(resource_id="job")).holders[0].holder.since.ToMilliseconds()
    assert abs(parsed(holder).timestamp() * 1000 - rpc) < 1, (holder, rpc)
    assert holder == refused == row["holder"]["since"] == seed and leader == campaign, (holder, refused, row, seed, leader, campaign)
    return holder, leader


def audit(node):
    return [(r["action"], r["createdAt"]) for r in node.request("GET", "/api/v1/audit?limit=1000").json["records"]]


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_times_do_not_move_with_restarts_and_failovers(make_cluster, stubs, end):  # noqa: F811
    cluster = make_cluster(3)
    before = now()
    node = cluster.followers()[0]
    assert node.acquire("job", "ann", 3600000).json["acquired"]
    assert node.request("POST", "/api/v1/elections/boss/campaign", {"client_id": "ann", "value": "v", "ttl_ms": 3600000}).status == 200
    assert node.acquire("forced", "ann").json["acquired"]
    good(cluster, "force-unlock", "forced", "--reason", "drill")
    after = now()
    first = shown(node, stubs)
    records = audit(node)
    for since in first:
        assert before - datetime.timedelta(milliseconds=200) <= parsed(since) <= after + datetime.timedelta(milliseconds=200)
    for _ in range(2):
        for each in cluster:
            each.stop() if end == "stop" else each.kill()
        threading.Event().wait(GAP_S)  # what is measured: nobody leads
        for each in cluster:
            each.start()
        for each in cluster:
            each.wait_ready()
            wait_until(lambda each=each: each.show("job").json["held"], "it has the lock")
            assert shown(each, stubs) == first and audit(each) == records, each.id
    leader = cluster.leader()
    leader.kill()
    survivor = cluster.leader()
    assert shown(survivor, stubs) == first and audit(survivor) == records
    late = now()
    assert survivor.acquire("job-2", "ann").json["acquired"]
    since = parsed(survivor.show("job-2").json["holders"][0]["since"])
    assert late - datetime.timedelta(milliseconds=200) <= since <= late + datetime.timedelta(seconds=allowed(1)), (late, since)


def test_a_snapshot_keeps_the_times(make_cluster, stubs, tmp_path):  # noqa: F811
    cluster = make_cluster(3)
    node = cluster.nodes[1]
    node.acquire("job", "ann", 3600000)
    node.request("POST", "/api/v1/elections/boss/campaign", {"client_id": "ann", "value": "v", "ttl_ms": 3600000})
    first = shown(node, stubs)
    for each in cluster:
        each.take_snapshot()
        each.kill()
    threading.Event().wait(GAP_S)
    for each in cluster:
        each.start()
    for each in cluster:
        each.wait_ready()
        wait_until(lambda each=each: each.show("job").json["held"], "it has the lock")
        assert shown(each, stubs) == first
    table = good(cluster, "show", "job", "--json")
    assert json.loads(table)["holders"][0]["since"] == first[0]

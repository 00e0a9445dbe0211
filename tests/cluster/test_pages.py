"""What a browser and a Prometheus get from a node."""

import re

from harness import wait_until

LINE = re.compile(r'^(holdfast_[a-z0-9_]+)(\{member="\d+"\})? (\d+(\.\d+)?)$')


def read(text):
    """The values by name; each must have been announced before, with its kind."""
    kinds, values = {}, {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            name, kind = line.split()[2:]
            assert name not in kinds and kind in ("gauge", "counter"), line
            assert kind == "counter" or not name.endswith("_total"), line
            kinds[name] = kind
        elif line.startswith("# HELP "):
            assert len(line.split()) > 3, line
        else:
            match = LINE.match(line)
            assert match and match[1] in kinds, line
            values[match[1] + (match[2] or "")] = float(match[3])
    return values


def test_metrics_are_in_the_format_of_prometheus_and_true(make_cluster):
    cluster = make_cluster(3)
    leader = cluster.leader()
    follower = cluster.followers()[0]
    answer = leader.request("GET", "/metrics")
    assert answer.status == 200
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    before = read(answer.text)
    assert before["holdfast_leader"] == 1 and before["holdfast_serving"] == 1
    assert read(follower.request("GET", "/metrics").text)["holdfast_leader"] == 0
    for i in range(5):
        assert leader.acquire(f"m-{i}", ttl_ms=600000).json["acquired"]
    after = read(leader.request("GET", "/metrics").text)
    assert after["holdfast_grants"] == before["holdfast_grants"] + 5
    assert after["holdfast_sessions"] == before["holdfast_sessions"] + 5
    assert after["holdfast_requests_total"] >= before["holdfast_requests_total"] + 5
    assert after["holdfast_log_commit_index"] >= before["holdfast_log_commit_index"] + 5
    assert after["holdfast_log_appends_total"] > before["holdfast_log_appends_total"]
    assert after["holdfast_token_counter"] == before["holdfast_token_counter"] + 5
    assert after["holdfast_uptime_seconds"] > 0
    assert {name for name in after if "member_healthy" in name} == {
        f'holdfast_member_healthy{{member="{i}"}}' for i in (1, 2, 3)}
    follower.kill()
    wait_until(lambda: read(leader.request("GET", "/metrics").text)[
        f'holdfast_member_healthy{{member="{follower.id}"}}'] == 0, "the dead one is silent")


def test_the_plain_page_says_how_it_is(make_cluster):
    cluster = make_cluster(3, name="a<b>&c")
    node = cluster.followers()[0]
    page = node.request("GET", "/plain")
    assert page.status == 200 and page.headers["Content-Type"].startswith("text/html")
    assert f"node {cluster.leader().id} is the leader" in page.text
    assert "a&lt;b>&amp;c" in page.text and "a<b>" not in page.text
    for link in re.findall(r'href="([^"]+)"', page.text):
        assert node.request("GET", link).status == 200, link
    for other in cluster:
        if other is not node:
            other.kill()
    wait_until(lambda: "no leader with a majority" in node.request("GET", "/plain").text, "it says so")

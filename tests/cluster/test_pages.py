"""What a browser and a Prometheus get from a node."""

import re

from harness import wait_until
from metrics_support import scrape

def test_metrics_are_in_the_format_of_prometheus_and_true(make_cluster):
    cluster = make_cluster(3)
    leader = cluster.leader()
    follower = cluster.followers()[0]
    before = scrape(leader)
    assert before.get("leader") == 1 and before.get("serving") == 1
    assert scrape(follower).get("leader") == 0
    for i in range(5):
        assert leader.acquire(f"m-{i}", ttl_ms=600000).json["acquired"]
    after = scrape(leader)
    for name, rise in (("grants", 5), ("sessions", 5), ("token_number", 5)):
        assert after.get(name) == before.get(name) + rise
    for name, rise in (("requests_total", 5), ("log_commit_index", 5), ("log_appends_total", 1)):
        assert after.get(name) >= before.get(name) + rise
    assert after.get("uptime_seconds") > 0
    assert {labels for name, labels in after.values if name == "holdfast_member_healthy"} == {
        (("member", str(i)),) for i in (1, 2, 3)}
    follower.kill()
    wait_until(lambda: scrape(leader).get("member_healthy", member=str(follower.id)) == 0, "the dead one is silent")


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

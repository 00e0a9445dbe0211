"""contrib/nginx/holdfast_fence.conf: Debian's nginx in front of a service without a fence. It is advisory: the last test shows what it
does not prevent."""

import threading

import pytest

import harness
from servers import Nginx, Web


@pytest.fixture(scope="module")
def service(folder):
    with harness.Ports(), Web(folder / "behind-nginx", "plain_wsgi") as running:
        yield running


@pytest.fixture(scope="module")
def nginx(folder, cluster, service):
    with harness.Ports(), Nginx(folder / "nginx", cluster, service) as running:
        yield running


@pytest.fixture
def tokens(cluster):
    """Two tokens of the lock stale/nginx, the older one stale."""
    found = []
    for _ in range(2):
        node = next(iter(cluster))
        token = node.acquire("stale/nginx", wait_timeout_ms=60000).json["fencing_token"]
        node.request("POST", "/api/v1/locks/stale/nginx/release", {"client_id": "test", "fencing_token": token})
        found.append(token)
    return found


def put(nginx, token, value):
    return nginx.request("POST", "/fenced", value, {} if token is None else {"Holdfast-Token": str(token)})[0]


def test_a_writer_that_was_stopped_past_its_ttl_is_refused(scenario, nginx, service):
    scenario.run("stale/nginx", "Web", {"address": nginx.address, "statuses": [403]},
                 lambda: service.read("bare"), lambda: service.read("fenced"), names_tokens=False)


def test_only_valid_tokens_are_forwarded_and_reads_pass(nginx, service, tokens):
    assert put(nginx, tokens[1], b"new") == 200
    for token in (tokens[0], None, 0, "x", f'{tokens[1]},"slot":7', 2 ** 53 - 1, "1" * 17):
        assert put(nginx, token, b"never") == 403, token
    assert service.read("fenced") == "new"
    assert nginx.request("GET", "/fenced")[:2] == (200, "new")


def test_nothing_is_forwarded_while_holdfast_does_not_answer(folder, service):
    class Nobody:
        client = f"127.0.0.1:{harness.free_ports(1)[0]}"

    before = service.read("fenced")
    with Nginx(folder / "nginx-alone", [Nobody], service) as alone:
        assert put(alone, 5, b"never") == 500
        assert alone.request("GET", "/fenced")[0] == 200
    assert service.read("fenced") == before


def test_a_follower_answers_the_check_and_a_node_that_is_down_is_passed_over(folder, service):
    place = folder / "three"
    place.mkdir()
    with harness.Ports():
        nodes = harness.Cluster(place, 3, name="fences")
        try:
            nodes.start()
            leader = nodes.leader()
            down, follower = [node for node in nodes if node is not leader]
            old, new = [leader.acquire(f"stale/{name}").json["fencing_token"] for name in ("other", "nginx")]
            down.kill()
            with Nginx(folder / "nginx-three", [down, follower], service) as three:
                assert [put(three, new, b"three") for _ in range(3)] == [200] * 3
                assert put(three, old, b"never") == 403
            assert service.read("fenced") == "three"
        finally:
            for node in nodes:
                node.close_ready()
                if node.running:
                    node.kill()


def test_a_request_that_passed_the_check_can_write_after_a_newer_one(nginx, service, tokens):
    """Why it is advisory: check and write are two steps."""
    older, newer = tokens
    hold = service.folder / "hold"
    hold.write_text("late", encoding="ascii")
    late = []
    slow = threading.Thread(target=lambda: late.append(put(nginx, older, b"late")))
    slow.start()
    harness.wait_until((service.folder / "waiting").exists, "the older request passed the check")
    assert put(nginx, newer, b"new") == 200 and service.read("fenced") == "new"
    hold.unlink()
    slow.join()
    assert late == [200] and service.read("fenced") == "late"

"""`holdfast ttl-advice`: renewals whose times the test decides, and what the command measures of them."""

import json
import threading
import time

import pytest

from auth_support import call, secure_cluster
from cli_support import endpoints, good, one_cluster, run_cli
from harness import PATIENCE


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    yield from one_cluster(tmp_path_factory.mktemp("advice"))


class Renewer:
    """Holds a lock and renews it after each of the pauses, again and again. `gaps` are those that the renewals had."""

    def __init__(self, node, name, ttl_ms, pauses):
        self.node, self.name, self.ttl_ms, self.pauses = node, name, ttl_ms, pauses
        self.stopping = threading.Event()
        self.gaps = []
        self.token = node.acquire(name, ttl_ms=ttl_ms).json["fencing_token"]
        self.thread = threading.Thread(target=self.renew)
        self.thread.start()

    def renew(self):
        last = time.monotonic()
        while True:
            for pause in self.pauses:
                if self.stopping.wait(pause):
                    return
                answer = self.node.request("POST", f"/api/v1/locks/{self.name}/renew", {"client_id": "test", "fencing_token": self.token})
                assert answer.json["renewed"], answer
                now = time.monotonic()
                self.gaps.append(now - last)
                last = now

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self.thread.join(PATIENCE)
        self.node.release(self.name, self.token)


def advice(nodes, *arguments):
    return json.loads(good(nodes, "ttl-advice", "--json", *arguments))


def test_a_late_renewal_is_measured_and_the_ttl_allows_for_twice_of_it(cluster):
    node = cluster.leader()
    with Renewer(node, "jobs/late", 10000, [0.3, 0.3, 0.3, 0.3, 1.5]) as late, Renewer(node, "jobs/even", 10000, [0.5]):
        found = advice(cluster, "--prefix", "jobs/", "--for", "6s", "--outage", "0s")
        gaps = sorted(late.gaps)
    assert found["basis"] == "renewals" and found["prefix"] == "jobs/"
    assert found["leases"] == {"seen": 2, "renewed": 2, "not_renewed": 0, "complete": True,
                               "ttl_seen_min_ms": found["leases"]["ttl_seen_min_ms"],
                               "ttl_seen_max_ms": found["leases"]["ttl_seen_max_ms"]}
    assert 8000 < found["leases"]["ttl_seen_min_ms"] <= 10000
    # The pause of 1.5 s is 1.2 s more than the median; a busy machine adds to both.
    longest = found["renewal_late_ms"]["max"]
    assert 900 <= longest <= (gaps[-1] - gaps[0]) * 1000 + 400, (found, gaps)
    assert found["late_allowed_ms"] == 2 * longest
    assert found["ttl_ms"] >= 1.5 * 2 * longest
    assert found["round_trip_us"]["count"] >= 3 and found["round_trip_us"]["p50"] > 0
    assert 6000 <= found["measured_ms"]


def test_a_given_pause_counts_if_it_is_longer(cluster):
    with Renewer(cluster.leader(), "pause", 10000, [0.3]):
        found = advice(cluster, "pause", "--for", "3s", "--outage", "2s", "--pause", "40s")
    assert found["name"] == "pause" and found["late_allowed_ms"] == 40000
    assert found["ttl_ms"] == 120000  # 1.5 * (40 + 2 + 0.5 s and the round trip), rounded up


def test_leases_that_are_not_renewed_need_a_ttl_above_their_holds(cluster):
    node = cluster.leader()
    token = node.acquire("script").json["fencing_token"]
    began = time.monotonic()
    time.sleep(1.2)  # the length of the hold is what is measured
    node.release("script", token)
    held_ms = (time.monotonic() - began) * 1000
    node.acquire("script", ttl_ms=3000)
    found = advice(cluster, "script", "--for", "2s", "--outage", "0s", "--pause", "1ms")
    assert found["basis"] == "holds", found
    assert found["leases"]["not_renewed"] == 1 and found["leases"]["renewed"] == 0
    assert 1200 <= found["hold_ms"]["max"] <= held_ms + 100
    assert found["ttl_ms"] == found["ttl_without_renewal_ms"] >= 2 * found["hold_ms"]["max"]
    text = good(cluster, "ttl-advice", "script", "--for", "1s")
    assert "ended because nobody renewed them" in text


def test_without_a_lease_the_figure_is_called_a_starting_value(cluster):
    text = good(cluster, "ttl-advice", "--prefix", "nothing/", "--for", "1s")
    assert text.startswith("recommended TTL: 10s (a starting value: no pauses of clients were measured)\n"), text
    assert "0 seen, 0 renewed" in text and "keep-alives of this command" in text
    assert "it is assumed" in text and "when a holder dies, others wait up to 10s" in text


def test_nothing_of_the_measurement_remains(cluster):
    good(cluster, "ttl-advice", "free", "--for", "1s")
    sessions = json.loads(good(cluster, "sessions", "--json"))["sessions"]
    assert not [s for s in sessions if s["client_id"] == "ttl-advice"]


def test_a_principal_that_may_only_read_measures_renewals_but_no_round_trip(make_cluster, tmp_path):
    secure = secure_cluster(make_cluster, 1)
    node = secure.nodes[1]
    node.tokens = secure.tokens
    held = call(node, "red/lock", "POST", "/api/v1/locks/app/x/acquire", {"client_id": "a", "ttl_ms": 30000}).json
    assert held["acquired"]
    token = tmp_path / "token"
    token.touch(0o600)
    token.write_text(secure.tokens["red/read"])
    text = good([node], "ttl-advice", "app/x", "--for", "1s", "--token-file", str(token))
    assert "1 seen, 0 renewed" in text and "round trip   not measured: " in text, text
    assert "red/read" in text  # the reason names the principal


@pytest.mark.parametrize("line, said", [
    ("", "give either the NAME of a lock or --prefix PREFIX"),
    ("a --prefix b", "give either the NAME of a lock or --prefix PREFIX"),
    ("a --for 10ms", "--for"),
    ("a b", 'unexpected argument "b"'),
])
def test_wrong_usage(line, said):
    done = run_cli([], "ttl-advice", *line.split())
    assert done.returncode == 64 and said in done.stderr, done


def test_no_node(cluster):
    done = run_cli([], "ttl-advice", "a", "--endpoints", "127.0.0.1:1", "--for", "1s", "--timeout", "1s")
    assert done.returncode == 69 and "no endpoint answered" in done.stderr, done
    assert endpoints(cluster) not in done.stderr

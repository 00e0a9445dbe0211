"""Event sinks (S20, decision 33): Kafka, a file and a webhook, with brokers, receivers and leaders that go away. Each test compares
what arrived with what the clients were answered."""

import hashlib
import hmac
import http.server
import itertools
import json
import re
import ssl
import subprocess
import threading
import time

import pytest

from auth_support import call, secure_cluster
from harness import PATIENCE, PROGRAM, ROOT, dies_with_us, run, skip_or_fail, wait_until
from secure import Authority

BROKER = PROGRAM.parent / "tests/cluster/kafka_broker"
SCHEMA = json.loads((ROOT / "docs/events.schema.json").read_text(encoding="utf-8"))
TOPIC = "locks"
ENDS = {"released", "expired", "forced", "revoked"}


# --- receivers ----------------------------------------------------------------


class Kafka:
    """librdkafka's mock cluster in a process of its own, read by kcat."""

    def __init__(self, brokers=3):
        self.process = subprocess.Popen(dies_with_us([BROKER, brokers]), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.brokers = self.process.stdout.readline().strip()
        assert self.brokers

    def command(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "ok\n", text

    def records(self):
        """All of the topic: dicts with partition, offset, key and payload; in order within a partition."""
        done = subprocess.run(
            dies_with_us(["kcat", "-q", "-C", "-J", "-e", "-o", "beginning", "-b", self.brokers, "-t", TOPIC]),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, timeout=PATIENCE, check=True)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def events(self):
        return [json.loads(record["payload"]) for record in self.records()]

    def end(self):
        self.process.stdin.close()
        self.process.wait(PATIENCE)


@pytest.fixture
def kafka():
    if not BROKER.exists():
        skip_or_fail("the program was built without librdkafka. Run: scripts/setup test")
    made = Kafka()
    yield made
    made.end()


class Hook(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status = self.server.receive(self.path, dict(self.headers), body)
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class Webhook(http.server.ThreadingHTTPServer):
    """HTTPS. `status` is the answer to all requests; the bodies of those with 2xx are in `events`."""

    daemon_threads = True

    def __init__(self, folder):
        super().__init__(("127.0.0.1", 0), Hook)
        authority = Authority(folder / "hook-ca")
        made = authority.issue("hook", hosts=["127.0.0.1"])
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(made.cert, made.key)
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.ca = authority.ca
        self.secret = "s" * 40
        self.secret_file = folder / "hook-secret"
        self.secret_file.write_text(self.secret + "\n", encoding="utf-8")
        self.secret_file.chmod(0o600)
        self.url = f"https://127.0.0.1:{self.server_port}/hook"
        self.status = 204
        self.lock = threading.Lock()
        self.events, self.attempts, self.wrong = [], [], []
        self.thread = threading.Thread(target=self.serve_forever)
        self.thread.start()

    def flags(self):
        return ["--sink-webhook-url", self.url, "--sink-webhook-secret-file", self.secret_file, "--sink-webhook-ca", self.ca]

    def receive(self, path, headers, body):
        with self.lock:
            fields = dict(part.split("=", 1) for part in headers["Holdfast-Signature"].split(","))
            mac = hmac.new(self.secret.encode(), fields["t"].encode() + b"." + body, hashlib.sha256).hexdigest()
            if path != "/hook" or mac != fields["v1"] or abs(int(fields["t"]) - time.time()) > 60:
                self.wrong.append((path, headers))
            self.attempts.append((time.monotonic(), self.status))
            if self.status < 300:
                self.events += json.loads(body)
            return self.status

    def handle_error(self, request, client_address):
        pass  # a node that was killed

    def taken(self):
        with self.lock:
            return list(self.events)

    def end(self):
        self.shutdown()
        self.thread.join()
        self.server_close()


@pytest.fixture
def hook(tmp_path):
    made = Webhook(tmp_path)
    yield made
    made.end()
    assert not made.wrong


# --- what happens, and what must arrive -----------------------------------------


class Work(threading.Thread):
    """Acquires and releases names through any node, and keeps each token that it was given. `made` rises."""

    def __init__(self, cluster, names=10):
        super().__init__(daemon=True)
        self.cluster = cluster
        self.names = names
        self.made = []  # (name, token), released
        self.enough = threading.Event()
        self.problem = None
        self.start()

    def surely(self, path, body):
        end = time.monotonic() + PATIENCE
        for node in itertools.cycle(list(self.cluster)):
            answer = node.try_request("POST", path, body, timeout=5)
            if answer is not None and answer.status == 200:
                return answer.json
            assert time.monotonic() < end, f"{path}: {answer}"
            time.sleep(0.02)

    def run(self):
        try:
            for i in itertools.count():
                if self.enough.is_set():
                    return
                name = f"w-{i % self.names}"
                body = {"client_id": "worker", "ttl_ms": 600000, "request_id": f"work-{i}"}
                token = self.surely(f"/api/v1/locks/{name}/acquire", body)["fencing_token"]
                self.surely(f"/api/v1/locks/{name}/release", {"client_id": "worker", "fencing_token": token})
                self.made.append((name, token))
        except AssertionError as error:
            self.problem = error

    def more(self, count):
        before = len(self.made)
        wait_until(lambda: len(self.made) >= before + count or self.problem, "work goes on")
        assert self.problem is None, self.problem

    def end(self):
        self.enough.set()
        self.join(PATIENCE)
        assert not self.is_alive() and self.problem is None, self.problem
        return self.made


def place(event):
    """(index, ordinal) of a replicated event, else None."""
    parts = event["id"].split("-")
    return tuple(map(int, parts)) if len(parts) == 2 and parts[0].isdigit() else None


def lacking(events, made):
    """Of each grant and each release that a client was answered: those that did not arrive."""
    seen = {(event["type"], event.get("name"), event.get("token")) for event in events}
    return [(kind, *each) for each in made for kind in ("granted", "released") if (kind, *each) not in seen]


def check(events):
    """Events in the order of their arrival: valid, first occurrences in order for each lock, the others only repeats."""
    import jsonschema
    validator = jsonschema.Draft202012Validator(SCHEMA)
    seen, last = {}, {}
    for event in events:
        wrong = list(validator.iter_errors(event))
        assert not wrong, (event, wrong)
        if event["id"] in seen:
            assert event == seen[event["id"]] or event["type"] == "gap", "a repeat differs"
            continue
        seen[event["id"]] = event
        if place(event) is not None and "name" in event:
            assert place(event) > last.get(event["name"], (0, 0)), f"out of order: {event}"
            last[event["name"]] = place(event)
    return list(seen.values())


def sinks(node):
    answer = node.request("GET", "/api/v1/sinks")
    assert answer.status == 200, answer
    return answer.json


def sink_of(cluster, name="file"):
    """As the leader has it; None without a leader."""
    for node in cluster.running():
        answer = None if node.paused else node.try_request("GET", "/api/v1/sinks", timeout=5)
        if answer is not None and answer.status == 200:
            return next(sink for sink in answer.json["sinks"] if sink["name"] == name)
    return None


def wait_state(cluster, name, *states):
    def there():
        found = sink_of(cluster, name)
        return found if found is not None and found["state"] in states else None

    return wait_until(there, lambda: f"{name} is {states}, but: {sink_of(cluster, name)}")


def arrive(events, made):
    """`events` is called until all arrived; returns the last."""
    found = []

    def there():
        found[:] = [events()]
        return not lacking(found[0], made)

    wait_until(there, lambda: f"missing: {lacking(found[0], made)[:5]} of {2 * len(made)}")
    return found[0]


def start_each(make_cluster, count, flags_of):
    """A cluster whose nodes have flags of their own."""
    cluster = make_cluster(count, start=False)
    for node in cluster:
        node.flags += [str(flag) for flag in flags_of(node)]
    return cluster.start()


# --- Kafka ------------------------------------------------------------------------


def kafka_flags(kafka):
    return ["--sink-kafka-brokers", kafka.brokers, "--sink-kafka-topic", TOPIC]


def test_every_event_reaches_kafka_with_brokers_and_leaders_away(make_cluster, kafka):
    cluster = make_cluster(3, *kafka_flags(kafka))
    work = Work(cluster)
    work.more(50)
    arrive(kafka.events, work.made[:50])

    kafka.command("down")
    work.more(50)
    wait_state(cluster, "kafka", "failing")
    kafka.command("up")
    wait_state(cluster, "kafka", "delivering", "idle")
    work.more(50)

    leader = cluster.leader()
    leader.kill()
    work.more(50)
    second = cluster.leader(but=leader.id)
    kafka.command("down")  # and now both: the next leader finds no broker
    work.more(20)
    leader.start().wait_ready()
    second.kill()
    work.more(20)
    kafka.command("up")
    second.start().wait_ready()
    work.more(20)

    events = arrive(kafka.events, work.end())
    distinct = check(events)
    assert not [event for event in distinct if event["type"] == "gap"]
    assert len(distinct) >= 2 * len(work.made)
    assert not [node.id for node in cluster if node.events("system_call_refused")]


def test_records_have_the_name_as_key_and_the_id_as_header(make_cluster, kafka):
    cluster = make_cluster(1, *kafka_flags(kafka))
    node = cluster.leader()
    tokens = [(name, node.acquire(name).json["fencing_token"]) for name in ("a", "b/c", "d é")[:2]]
    for name, token in tokens:
        assert node.release(name, token).json["released"]
    arrive(kafka.events, tokens)
    partitions = {}
    for record in kafka.records():
        event = json.loads(record["payload"])
        headers = dict(zip(record["headers"][::2], record["headers"][1::2]))
        assert headers == {"id": event["id"], "schema": "1"}
        assert event["cluster"] == "test" and event["schema"] == 1
        if "name" in event:
            assert record["key"] == event["name"] and event["tenant"] == "default"
            partitions.setdefault(event["name"], set()).add(record["partition"])
    assert all(len(used) == 1 for used in partitions.values()), partitions


def test_events_of_the_tier_efficiency_are_lossy(make_cluster, kafka):
    cluster = make_cluster(1, *kafka_flags(kafka))
    node = cluster.leader()
    token = node.acquire("e", tier="EFFICIENCY").json["fencing_token"]
    assert node.release("e", token).json["released"]
    assert node.acquire("c").json["acquired"]
    wait_until(lambda: {"c", "e"} <= {event.get("name") for event in kafka.events()}, "both tiers arrive")
    events = check(kafka.events())
    for event in events:
        if "name" in event:
            assert event["lossy"] == (event["name"] == "e"), event
            assert event["tier"] == ("EFFICIENCY" if event["name"] == "e" else "CORRECTNESS")


# --- the file ------------------------------------------------------------------------


def path_of(node):
    return node.folder.with_name(f"events-{node.id}.jsonl")


def file_flags(node):
    return ["--sink-file", path_of(node), "--sink-file-max-bytes", "64KiB", "--sink-file-keep", "200"]


def written(node):
    """The events in the files of a node, oldest file first. Only whole lines count."""
    own = path_of(node)
    files = sorted((path for path in own.parent.glob(own.name + ".*")), key=lambda path: -int(path.suffix[1:]))
    text = "".join(path.read_text(encoding="utf-8") for path in [*files, *([own] if own.exists() else [])])
    return [json.loads(line) for line in text.split("\n")[:-1]]


def all_written(cluster):
    return [event for node in cluster for event in written(node)]


def test_a_file_gets_every_event_and_is_rotated(make_cluster):
    cluster = start_each(make_cluster, 1, file_flags)
    node = cluster.leader()
    work = Work(cluster)
    wait_until(lambda: path_of(node).with_name(path_of(node).name + ".2").exists() or work.problem, "two rotations")
    made = work.end()
    events = arrive(lambda: written(node), made)
    assert check(events) == events, "without a failure nothing is sent twice"
    for path in path_of(node).parent.glob(path_of(node).name + "*"):
        assert path.stat().st_size <= (64 << 10) + (1 << 20), "more than a batch above the limit"
    assert (path_of(node).stat().st_mode & 0o007) == 0


def test_only_the_leader_writes_and_the_next_goes_on_after_it(make_cluster):
    cluster = start_each(make_cluster, 3, file_flags)
    leader = cluster.leader()
    work = Work(cluster)
    work.more(30)
    arrive(lambda: written(leader), work.made[:30])
    assert all(written(node) == [] for node in cluster if node is not leader)
    follower = cluster.followers()[0]
    delivered = place(written(leader)[-1])[0]
    wait_until(lambda: metric(follower.request("GET", "/metrics").text, 'sink_position{sink="file"}') >= delivered,
               "the position is replicated")

    leader.kill()
    work.more(30)
    second = cluster.leader(but=leader.id)
    leader.start().wait_ready()
    answer = second.request("POST", "/api/v1/members/transfer", {})
    assert answer.status in (200, 503), answer
    work.more(30)
    made = work.end()
    arrive(lambda: all_written(cluster), made)
    for node in cluster:
        check(written(node))  # each file by itself is in order
    assert not [event for event in all_written(cluster) if event["type"] == "gap"]
    # The second did not begin again.
    assert not [event for event in written(second) if place(event) and place(event)[0] < delivered]


def test_a_restart_repeats_little_and_positions_end(make_cluster):
    """The position is replicated at most once a second and makes no event: an idle cluster is idle."""
    cluster = start_each(make_cluster, 1, file_flags)
    node = cluster.leader()
    work = Work(cluster)
    work.more(50)
    made = work.end()
    arrive(lambda: written(node), made)

    def index():
        text = node.request("GET", "/metrics").text
        return {name: metric(text, name) for name in ("log_last_index", 'sink_position{sink="file"}')}

    def settled():
        before = index()
        time.sleep(1.5)  # longer than the second between two positions
        return before == index()

    wait_until(settled, "no more entries")
    count = len(written(node))
    node.kill()
    node.start().wait_ready()
    wait_state(cluster, "file", "idle")
    assert node.acquire("after").json["acquired"]
    wait_until(lambda: any(event.get("name") == "after" for event in written(node)), "the next event")
    events = written(node)
    assert len(check(events)) > count - 5
    assert len(events) - count < 20, "what was delivered before is not sent again"


def test_the_file_is_begun_again_after_sighup(make_cluster):
    cluster = start_each(make_cluster, 1, file_flags)
    node = cluster.leader()
    assert node.acquire("a").json["acquired"]
    wait_until(lambda: any(event.get("name") == "a" for event in written(node)), "the first")
    path_of(node).rename(path_of(node).with_name("moved"))
    node.signal(1)
    node.wait_event("settings_read_again")
    wait_until(path_of(node).exists, "a new file")
    assert node.acquire("b").json["acquired"]
    wait_until(lambda: any(event.get("name") == "b" for event in written(node)), "the second in the new file")


# --- the webhook ------------------------------------------------------------------------


def test_a_webhook_that_fails_is_tried_again_with_back_off_and_in_order(make_cluster, hook):
    cluster = make_cluster(3, *hook.flags())
    work = Work(cluster)
    work.more(20)
    arrive(hook.taken, work.made[:20])
    with hook.lock:
        hook.status = 500
    begun = len(hook.attempts)
    work.more(20)
    failing = wait_state(cluster, "webhook", "failing")
    assert "500" in failing["last_error"]["message"] and failing["failures"] > 0
    wait_until(lambda: len(hook.attempts) >= begun + 5, "attempts")
    with hook.lock:
        times = [at for at, status in hook.attempts[begun:] if status == 500]
        hook.status = 204
    pauses = [b - a for a, b in zip(times, times[1:])]
    assert pauses[3] > 0.5 and pauses[0] >= 0.08, pauses  # 0.2 s doubled each time, half of it by chance
    cluster.leader().kill()
    work.more(20)
    events = arrive(hook.taken, work.end())
    check(events)
    recovered = wait_state(cluster, "webhook", "idle", "delivering")
    assert recovered["gaps"] == 0
    assert not [node.id for node in cluster if node.events("system_call_refused")]


def test_a_certificate_that_is_not_trusted_is_refused(make_cluster, hook, tmp_path):
    other = Authority(tmp_path / "other-ca")
    cluster = make_cluster(1, *hook.flags()[:4], "--sink-webhook-ca", other.ca)
    assert cluster.leader().acquire("a").json["acquired"]
    failing = wait_state(cluster, "webhook", "failing")
    assert "certificate" in failing["last_error"]["message"]
    assert hook.taken() == []


# --- gaps -----------------------------------------------------------------------------------


def test_a_sink_that_was_away_for_too_long_gets_a_gap(make_cluster, hook):
    cluster = make_cluster(1, *hook.flags(), "--events-max-bytes", "1MiB")
    node = cluster.leader()
    assert node.acquire("first").json["acquired"]
    wait_until(lambda: any(event.get("name") == "first" for event in hook.taken()), "the first")
    before = max(place(event) for event in hook.taken() if place(event))
    with hook.lock:
        hook.status = 503

    def all_before_are_removed(moment):
        for i in range(50):
            name = f"{i}-" + "x" * 400
            token = node.acquire(name).json["fencing_token"]
            node.release(name, token)
        return metric(node.request("GET", "/metrics").text, "event_log_oldest_timestamp_seconds") > moment

    # The sink has a batch in memory, and reads the file that it has open to its end, also after its removal.
    for what in ("the file that the sink reads", "the files after it"):
        moment = time.time() + 1
        wait_until(lambda: all_before_are_removed(moment), f"{what}: removed")
    with hook.lock:
        hook.status = 204
    wait_until(lambda: any(event["type"] == "gap" for event in hook.taken()), lambda: f"a gap: {sink_of(cluster, 'webhook')}")
    gap = next(event for event in hook.taken() if event["type"] == "gap")
    assert gap["id"] == f"gap-{gap['from']}-{gap['to']}" and gap["from"] < gap["to"] and gap["lossy"]
    last = node.acquire("last").json["fencing_token"]
    wait_until(lambda: any(event.get("token") == last for event in hook.taken()), "what follows")
    events = check(hook.taken())
    later = [place(event) for event in events if place(event) and place(event) > before]
    # Of the entry after `from`, other records may be missing than the one that arrived.
    assert not [at for at in later if gap["from"] + 1 < at[0] <= gap["to"]], "the gap covers nothing that arrived"
    seen = sink_of(cluster, "webhook")
    assert seen["gaps"] >= 1 and seen["last_gap"]["to"] >= gap["to"]
    assert node.wait_event("sink_gap")[0]["from"] == gap["from"]


# --- tenants ---------------------------------------------------------------------------


def test_events_name_their_tenant_and_the_prefix_selects_names(make_cluster, hook):
    cluster = secure_cluster(make_cluster, 1, *hook.flags(), "--sink-prefix", "app/")
    node = cluster.nodes[1]
    node.tokens = cluster.tokens
    for tenant in ("red", "blue"):
        for name in ("app/a", "other"):
            body = {"client_id": "c", "ttl_ms": 60000}
            answer = call(node, f"{tenant}/admin", "POST", f"/api/v1/locks/{name}/acquire", body)
            assert answer.json["acquired"], answer
    wait_until(lambda: len([event for event in hook.taken() if event["type"] == "granted"]) >= 2, "the grants")
    granted = [event for event in check(hook.taken()) if event["type"] == "granted"]
    assert [(event["tenant"], event["name"]) for event in granted] == [("red", "app/a"), ("blue", "app/a")]
    assert all(event.get("name", "").startswith("app/") or event["type"] == "gap" for event in hook.taken())
    assert call(node, "red/admin", "GET", "/api/v1/sinks").status == 403


# --- what operators see ---------------------------------------------------------------------


def metric(text, name):
    for line in text.splitlines():
        if line.startswith(f"holdfast_{name} "):
            return float(line.split()[-1])
    raise AssertionError(f"no metric {name}")


def test_metrics_status_and_sinks_show_a_sink_that_fails(make_cluster, hook):
    hook.status = 500
    cluster = make_cluster(3, *hook.flags())
    leader = cluster.leader()
    assert leader.acquire("a").json["acquired"]
    wait_state(cluster, "webhook", "failing")
    for node in cluster:
        text = node.request("GET", "/metrics").text
        failing = metric(text, 'sink_failing{sink="webhook"}')
        assert failing == (node is leader)
        assert metric(text, 'sink_delivered_total{sink="webhook"}') == 0
        assert (metric(text, 'sink_failed_total{sink="webhook"}') > 0) == (node is leader)
        assert ('holdfast_sink_lag_seconds{sink="webhook"}' in text) == (node is leader)
        assert sinks(node)["leader"] == leader.id
    wait_until(lambda: metric(leader.request("GET", "/metrics").text, 'sink_lag_seconds{sink="webhook"}') > 0.5, "lag")
    page = (ROOT / "docs/METRICS.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^\| `(holdfast_sink_[a-z_]+)` \|", page, re.MULTILINE))
    assert named == set(re.findall(r"^(holdfast_sink_[a-z_]+)\{", leader.request("GET", "/metrics").text, re.MULTILINE))
    leader.wait_event("sink_failing")
    follower = cluster.followers()[0]
    shown = run("sinks", "--endpoints", follower.client)
    assert shown.returncode == 0 and "failing" in shown.stdout and "500" in shown.stdout, shown
    assert json.loads(run("sinks", "--json", "--endpoints", follower.client).stdout)["sinks"][0]["name"] == "webhook"
    status = run("status", "--endpoints", follower.client)
    assert status.returncode == 0 and "the event sink webhook delivers nothing" in status.stdout
    with hook.lock:
        hook.status = 200
    wait_state(cluster, "webhook", "idle")
    leader.wait_event("sink_recovered")
    assert "event sink" not in run("status", "--endpoints", follower.client).stdout
    text = leader.request("GET", "/metrics").text
    assert metric(text, 'sink_delivered_total{sink="webhook"}') > 0
    assert metric(text, 'sink_lag_seconds{sink="webhook"}') == 0


def test_without_sinks_the_list_is_empty(make_cluster):
    cluster = make_cluster(1)
    assert sinks(cluster.leader())["sinks"] == []
    assert "has no event sinks" in run("sinks", "--endpoints", cluster.leader().client).stdout
    assert "holdfast_sink" not in cluster.leader().request("GET", "/metrics").text


@pytest.mark.parametrize("flags, problem", [
    (["--sink-file", "/nonexistent/events.jsonl"], "sink-file: cannot open /nonexistent/events.jsonl: No such file or directory"),
    (["--sink-file", "/dev/null"], "not a regular file"),
    (["--sink-webhook-url", "https://example.org/", "--sink-webhook-secret-file", "/nonexistent"], "sink-webhook-secret-file"),
])
def test_a_sink_that_cannot_work_is_reported_at_the_start(tmp_path, flags, problem):
    done = run("serve", "--data", tmp_path / "node", "--client", "127.0.0.1:0", "--peer", "127.0.0.1:0", "--resp", "off",
               "--bootstrap", *flags)
    assert done.returncode != 0 and problem in done.stderr, done.stderr

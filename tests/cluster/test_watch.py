"""Server-sent events from real nodes (S9.3): the same numbers everywhere, resumable without a gap, and a
reader that is too slow is notified and can go on."""

import http.client
import itertools
import json
import re
import shutil
import socket

import pytest

from harness import PATIENCE
from load import Load


class Stream:
    """Reads events one by one."""

    def __init__(self, node, path="/api/v1/watch", last=None, receive_buffer=None, headers=None):
        self.connection = http.client.HTTPConnection(node.client_host, node.client_port, timeout=PATIENCE)
        if receive_buffer is not None:
            self.connection.sock = socket.socket()
            self.connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
            self.connection.sock.settimeout(PATIENCE)
            self.connection.sock.connect((node.client_host, node.client_port))
        self.connection.request("GET", path, headers={**(headers or {}), **({} if last is None else {"Last-Event-ID": last})})
        self.response = self.connection.getresponse()
        assert self.response.status == 200, self.response.read()
        assert self.response.getheader("Content-Type") == "text/event-stream"

    def next(self):
        """(id, type, data), or None at the end."""
        event = {}
        for line in iter(self.response.readline, b""):
            line = line.decode().rstrip("\n")
            if line.startswith(":"):
                continue
            if line == "" and event:
                return event.get("id"), event["event"], json.loads(event["data"])
            if line:
                key, _, value = line.partition(": ")
                event[key] = value
        return None

    def until(self, stop):
        """All events up to the one for which `stop` is true, that one included."""
        found = []
        while not found or not stop(found[-1]):
            event = self.next()
            assert event is not None, found[-3:]
            found.append(event)
        return found

    def close(self):
        self.connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def granted(name):
    return lambda event: event[1] == "granted" and event[2]["name"] == name


@pytest.mark.sanitized
def test_events_are_the_same_on_every_node_and_show_no_secrets(make_cluster):
    cluster = make_cluster(3)
    streams = [Stream(node) for node in cluster]
    for stream in streams:
        assert stream.next()[1] == "ready"
    token = cluster.nodes[1].acquire("seen").json["fencing_token"]
    cluster.nodes[2].release("seen", token)
    cluster.nodes[3].acquire("last")
    seen = [stream.until(granted("last")) for stream in streams]
    assert seen[0] == seen[1] == seen[2]
    assert [event[1] for event in seen[0]] == ["granted", "released", "granted"]
    assert str(token) not in json.dumps([event[2] for event in seen[0]])
    for stream in streams:
        stream.close()


def test_a_watch_goes_on_at_another_node_without_a_gap(make_cluster):
    cluster = make_cluster(3)
    nodes = list(cluster)
    with Stream(nodes[0], "/api/v1/watch?prefix=load-") as whole:
        ids = [whole.next()[0]]
        with Load(nodes, plugs_are_pulled=True) as load:
            got = []
            for turn in range(9):
                with Stream(nodes[turn % 3], "/api/v1/watch?prefix=load-", last=ids[-1]) as stream:
                    assert stream.next()[1] == "ready"
                    for _ in range(8):
                        event = stream.next()
                        got.append(event)
                        ids.append(event[0])
            load.wait_more(10)
        expected = [whole.next() for _ in got]
    assert got == expected, "each event once, in order"
    assert len(set(ids)) == len(ids)


def test_a_watch_goes_on_after_the_leader_died(make_cluster):
    cluster = make_cluster(3)
    leader = cluster.leader()
    follower = cluster.followers()[0]
    with Stream(leader) as stream:
        place = stream.next()[0]
        leader.acquire("before")
        place = stream.until(granted("before"))[-1][0]
    leader.kill()
    cluster.leader(but=leader.id)
    follower.acquire_surely("after")
    with Stream(follower, last=place) as stream:
        events = stream.until(granted("after"))
    assert not any(event[1] == "reset" for event in events)
    assert not any(granted("before")(event) for event in events)


def test_a_watch_from_before_the_kept_events_is_reset_with_a_full_listing(make_cluster):
    cluster = make_cluster(1)
    node = cluster.nodes[1]
    for i in range(5):
        node.acquire(f"name-{i}", ttl_ms=600000)
    node.take_snapshot()
    node.kill()
    shutil.rmtree(node.folder / "events")  # the snapshot has no events
    node.start().wait_ready()
    with Stream(node, last="1-0") as stream:
        events = stream.until(lambda event: event[1] == "listed")
        assert events[0][1] == "reset"
        assert events[0][2]["missing_from"] == 1 and events[0][2]["missing_to"] >= 5
        assert {e[2]["name"] for e in events if e[1] == "lock"} == {f"name-{i}" for i in range(5)}
        node.acquire("later")
        stream.until(granted("later"))
    answer = node.request("GET", "/api/v1/watch?reset=false&last_event_id=1-0")
    assert answer.status == 410 and answer.code == "events_trimmed", answer
    assert "events of the log entries 1 to " in answer.json["error"]["message"], answer


def test_a_watch_resumes_after_a_restart_of_all_nodes(make_cluster):
    cluster = make_cluster(3)
    with Stream(cluster.leader()) as stream:
        first = stream.next()[0]
        token = cluster.leader().acquire("a").json["fencing_token"]
        cluster.leader().release("a", token)
        cluster.leader().acquire("b")
        seen = stream.until(granted("b"))
    cluster.kill_all()
    cluster.restart_all()
    cluster.leader().acquire_surely("after")
    whole = []
    for node in cluster:
        with Stream(node, last=first) as stream:
            assert stream.next()[1] == "ready"
            whole.append(stream.until(granted("after")))
    assert whole[0] == whole[1] == whole[2]
    assert whole[0][:len(seen)] == seen
    assert not any(event[1] == "reset" for event in whole[0])
    # The numbers go on, each once.
    ids = [tuple(map(int, event[0].split("-"))) for event in whole[0]]
    assert ids == sorted(set(ids))
    with Stream(cluster.leader(), last=seen[0][0]) as stream:
        assert stream.next()[1] == "ready"
        assert stream.until(granted("after")) == whole[0][1:]
    with Stream(cluster.leader(), "/api/v1/watch?prefix=b", last=first) as stream:
        assert [stream.next()[1], stream.next()[2]["name"]] == ["ready", "b"]


@pytest.mark.sanitized
def test_watches_resume_while_nodes_restart_under_load(make_cluster):
    cluster = make_cluster(3)
    nodes = list(cluster)
    with Stream(nodes[0], "/api/v1/watch?prefix=load-") as stream:
        last = stream.next()[0]
    got = []
    with Load(nodes, plugs_are_pulled=True) as load:
        for turn in range(3):
            load.wait_more(20)
            node = nodes[turn]
            node.kill()
            node.start().wait_ready()
            with Stream(node, "/api/v1/watch?prefix=load-", last=last) as stream:
                assert stream.next()[1] == "ready"
                for _ in range(10):
                    event = stream.next()
                    assert event[1] != "reset", event
                    got.append(event)
                    last = event[0]
        load.wait_more(10)
    others = []
    for node in nodes:
        with Stream(node, "/api/v1/watch?prefix=load-", last="1-0") as stream:
            assert stream.next()[1] == "ready"
            others.append([stream.next() for _ in range(len(got))])
    assert others[0] == others[1] == others[2]
    assert got == others[0], "each event once, in order"


def test_a_limited_stream_counts_each_event_that_it_did_not_send(make_cluster):
    """Sent and skipped events together are all events, in order, on a follower too; a resume continues after the skipped ones."""
    cluster = make_cluster(3)
    node = cluster.followers()[0]
    names = [f"limited/{i}" for i in range(60)]
    with Stream(node, "/api/v1/watch?prefix=limited/") as whole, Stream(node, "/api/v1/watch?prefix=limited/&max_rate=7") as limited:
        assert limited.next()[1] == "ready"
        for name in names:
            cluster.leader().acquire(name)
        everything = whole.until(granted(names[-1]))[1:]
        got = []
        while len(got) + sum(event[2]["events"] for event in got if event[1] == "skipped") - sum(event[1] == "skipped" for event in got) < len(names):
            got.append(limited.next())
        sent = [event for event in got if event[1] == "granted"]
        assert sent == [event for event in everything if event in sent], "the same events, in order"
        assert 7 <= len(sent) < len(names) and sent[:7] == everything[:7]
        assert got[-1][1] == "skipped" and got[-1][0] == everything[-1][0], "with the id of the last event that it skipped"
    cluster.leader().acquire("limited/after")
    with Stream(node, "/api/v1/watch?prefix=limited/&max_rate=7", last=got[-1][0]) as again:
        assert again.next()[1] == "ready"
        assert granted("limited/after")(again.next())


def dropped_streams(node):
    lines = node.request("GET", "/metrics").text.splitlines()
    return next(float(line.split()[-1]) for line in lines if re.match(r"holdfast\w*dropped\w* ", line))


def test_a_slow_reader_is_dropped_with_a_word_and_resumes_without_a_gap(make_cluster):
    node = make_cluster(1).nodes[1]
    body = json.dumps({"client_id": "c" * 255, "ttl_ms": 600000, "value": "v" * 4000}).encode()
    names = (f"{'n' * 400}-{i}" for i in itertools.count())
    campaigned = []
    connection = node.connect()

    def campaign():
        campaigned.append(next(names))
        connection.request("POST", f"/api/v1/elections/{campaigned[-1]}/campaign", body=body)
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        answer.read()

    with Stream(node, receive_buffer=65536) as slow:
        assert slow.next()[1] == "ready"
        # It reads no more, until the sockets and half of what a node keeps of events are full.
        while dropped_streams(node) == 0:
            for _ in range(100):
                campaign()
            assert len(campaigned) < 10000
        seen = slow.until(lambda event: event[1] == "dropped")
        assert "too slow; resume" in seen[-1][2]["reason"]
        assert slow.next() is None, "the end of the stream"
    campaign()
    def is_last(event):
        return event[1] == "leader_changed" and event[2]["name"] == campaigned[-1]

    # One that comes back so far behind may be dropped again on its way; each time it gets further.
    while not is_last(seen[-1]):
        with Stream(node, last=seen[-1][0]) as again:
            seen += again.until(lambda event: event[1] == "dropped" or is_last(event))
    connection.close()
    assert not any(event[1] == "reset" for event in seen)
    changed = [event[2]["name"] for event in seen if event[1] == "leader_changed"]
    assert changed == campaigned, "each event once, in order"


def test_an_election_is_observed_through_a_change_of_the_clusters_leader(make_cluster):
    cluster = make_cluster(3)
    leader = cluster.leader()
    watcher = cluster.followers()[0]
    with Stream(watcher, "/api/v1/elections/chief/observe") as stream:
        assert stream.next()[2]["leader"] is None
        won = watcher.request("POST", "/api/v1/elections/chief/campaign",
                          {"client_id": "ann", "ttl_ms": 60000, "value": "10.0.0.1"}).json
        assert stream.next()[2]["value"] == "10.0.0.1"
        leader.kill()
        cluster.leader(but=leader.id)
        said = watcher.request("POST", "/api/v1/elections/chief/proclaim",
                           {"client_id": "ann", "fencing_token": won["fencing_token"], "value": "b"})
        assert said.json["proclaimed"], said
        assert stream.until(lambda event: event[1] == "proclaimed")[-1][2]["value"] == "b"

"""Commands that lock libraries use beside SET and scripts: each sequence of requests gets the same answers, byte by byte, as
from a real redis-server, at the leader and at a follower. docs/REDIS.md describes the commands."""

import subprocess
import threading
import time

import pytest
import redis

from conftest import check_log
from harness import Cluster, Ports, dies_with_us, free_ports, wait_until
from resp_support import connect

pytestmark = pytest.mark.sanitized

NAME = "K"  # of the key in a sequence; each run has a name of its own
SOON = int(time.time()) + 1000


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    with Ports():
        cluster = Cluster(tmp_path_factory.mktemp("commands"), 3).start()
        yield cluster
        for node in cluster:
            node.close_ready()
            node.kill()
    for node in cluster:
        check_log(node)


class RealRedis:
    def __init__(self, port):
        self.resp_port = port


@pytest.fixture(scope="module")
def control(tmp_path_factory):
    port = free_ports(1)[0]
    server = subprocess.Popen(dies_with_us(["redis-server", "--port", port, "--save", "", "--appendonly", "no"]),
                              stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL, cwd=tmp_path_factory.mktemp("redis"))
    try:
        real = RealRedis(port)

        def answers():
            try:
                with connect(real) as client:
                    return client.ping()
            except redis.ConnectionError:
                return False

        wait_until(answers, "redis-server answers")
        yield real
    finally:
        server.kill()
        server.wait()


@pytest.fixture(params=["leader", "follower"])
def node(three, request):
    return three.leader() if request.param == "leader" else three.followers()[0]


def answers_of(node, requests, name):
    """Connection "a" sends all lines but those that begin with "b:"."""
    with connect(node, single_connection_client=True) as a, connect(node, single_connection_client=True) as b:
        found = []
        for line in requests.strip().splitlines():
            client, line = (b, line.strip()[2:]) if line.strip().startswith("b:") else (a, line)
            command, *rest = line.split()
            words = [command, *(SOON if word == "SOON" else word.replace(NAME, name) for word in rest)]
            try:
                answer = client.execute_command(*words)
            except redis.ResponseError as error:
                answer = f"error {error}"
            found.append((line.strip(), sorted(answer) if words[0] == "KEYS" else answer))
        return found


SEQUENCES = {
    "a field that exists is kept": """
        HSETNX K f 1
        HSETNX K f 2
        HSETNX K g 3
        HGETALL K
        SET K:s v PX 60000
        HSETNX K:s f 1
    """,
    "a number that was set is counted": """
        SET K 41 PX 60000
        INCR K
        INCRBY K 8
        DECRBY K 100
        GET K
        TYPE K
        SET K text PX 60000
        INCR K
        SET K 9223372036854775807 PX 60000
        INCR K
        GET K
    """,
    "a value is read and changed in one command": """
        GETSET K a
        GETSET K b
        GET K
        SET K c PX 60000
        GETSET K d
        TTL K
        GETDEL K
        GETDEL K
        EXISTS K
        HSET K:h f 1
        GETSET K:h a
        GETDEL K:h
        EXISTS K:h
        INCR K:n
        GETDEL K:n
    """,
    "a value is read and gets another TTL": """
        SET K a PX 60000
        GETEX K
        GETEX K PERSIST
        TTL K
        GETEX K EX 100
        TTL K
        GETEX K PX 200000
        TTL K
        GETEX K EXAT SOON
        EXPIRETIME K
        GETEX K PXAT 1000
        EXISTS K
        GETEX K EX 100
        SET K a
        GETEX K EX
        GETEX K EX 0
        GETEX K EX x
        GETEX K KEEPTTL
        GETEX K EX 1 PX 1
        TTL K
    """,
    "keys are listed by a pattern": """
        SET K/a 1 PX 60000
        HSET K/b f 1
        INCR K/c
        KEYS K/*
        KEYS K/[ab]
        KEYS K/nothing*
        KEYS
    """,
    "a watched key that has changed": """
        SET K 1 PX 60000
        WATCH K K:absent
        b:SET K:absent 1 PX 60000
        MULTI
        INCR K:n
        EXEC
        EXISTS K:n
    """,
    "a watched key that has not changed": """
        INCR K
        WATCH K K K:absent
        GET K
        MULTI
        INCR K
        EXEC
        b:INCR K
        MULTI
        INCR K
        EXEC
    """,
    "a watched key that is forgotten": """
        WATCH K
        b:INCR K
        UNWATCH
        MULTI
        INCR K
        EXEC
        WATCH K
        b:INCR K
        MULTI
        DISCARD
        MULTI
        INCR K
        EXEC
    """,
    "WATCH within MULTI": """
        MULTI
        WATCH K
        INCR K
        EXEC
        WATCH
    """,
    "what a server says of itself": """
        ROLE
        UNWATCH
        WAIT x 10
        WAIT 0 -1
    """,
}


@pytest.mark.parametrize("requests", SEQUENCES.values(), ids=SEQUENCES.keys())
def test_the_answers_are_those_of_redis(node, control, requests, request):
    name = "commands/" + request.node.callspec.id.replace(" ", "_")
    assert answers_of(node, requests, name) == answers_of(control, requests, name)


def test_the_time_of_a_script_is_that_of_the_node(node):
    with connect(node) as client:
        seconds, micros = client.eval("return redis.call('TIME')", 0)
        now = client.time()
        assert int(seconds) <= now[0] <= int(seconds) + 60
        assert 0 <= int(micros) < 1_000_000


def test_clients_that_watch_lose_no_change(node):
    def add_one(pipe):
        number = int(pipe.get("commands/watched") or 0)
        pipe.multi()
        pipe.incrby("commands/watched", 1)
        pipe.set(f"commands/watched/{number}", "1", nx=True, px=60000)

    def work():
        with connect(node) as client:
            for _ in range(10):
                client.transaction(add_one, "commands/watched")

    with connect(node) as client:
        before = int(client.get("commands/watched") or 0)
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert int(client.get("commands/watched")) == before + 40
        # Each saw a number of its own.
        assert all(client.exists(f"commands/watched/{number}") for number in range(before, before + 40))


def test_channels_with_a_subscriber_are_listed_once(node):
    with connect(node) as client:
        assert client.pubsub_channels("commands/*") == []
        with client.pubsub() as first, client.pubsub() as second:
            first.subscribe("commands/a", "commands/b")
            second.subscribe("commands/a")
            second.psubscribe("commands/*")
            for subscriber, count in ((first, 2), (second, 2)):
                for _ in range(count):
                    assert subscriber.get_message(timeout=10)
            assert sorted(client.pubsub_channels("commands/*")) == ["commands/a", "commands/b"]
            assert client.pubsub_channels("commands/b") == ["commands/b"]
        wait_until(lambda: client.pubsub_channels("commands/*") == [], "the channels have no subscribers")


def test_wait_answers_what_a_majority_means(node):
    with connect(node) as client:
        assert client.execute_command("WAIT", 5, 1000) == 1  # of three nodes, besides the leader


def test_monitor_names_what_shows_changes(node):
    with connect(node) as client, pytest.raises(redis.ResponseError, match="holdfast watch"):
        client.execute_command("MONITOR")


def test_one_counter_of_many_clients_is_exact(node):
    def work():
        with connect(node) as client:
            for _ in range(50):
                client.incr("commands/hot")

    with connect(node) as client:
        before = int(client.get("commands/hot") or 0)
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert int(client.get("commands/hot")) == before + 400

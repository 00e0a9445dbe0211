"""FLUSHDB and FLUSHALL, CLIENT, INFO and sharded channels: compared with a real redis-server where answers can be the same.
docs/REDIS.md describes the commands."""

import re
import socket
import threading
import time

import pytest
import redis

from auth_support import secure_cluster
from harness import PATIENCE, wait_until
from resp_support import connect
from test_resp_commands import answers_of, control, node, three  # noqa: F401  (fixtures)

pytestmark = pytest.mark.sanitized

SEQUENCES = {
    "a database is emptied": """
        SELECT 7
        SET K a PX 60000
        SET K:v b
        HSET K:h f 1
        INCR K:n
        SELECT 8
        SET K a PX 60000
        SELECT 7
        FLUSHDB
        EXISTS K K:v K:h K:n
        KEYS *
        DBSIZE
        FLUSHDB
        SELECT 8
        GET K
        FLUSHDB SYNC
        GET K
    """,
    "all databases are emptied": """
        SET K a PX 60000
        INCR K:n
        SELECT 9
        SET K a PX 60000
        FLUSHALL ASYNC
        EXISTS K
        SELECT 0
        EXISTS K K:n
        KEYS *
    """,
    "a flush that is no flush": """
        FLUSHDB x
        FLUSHDB ASYNC SYNC
        FLUSHALL NOW
    """,
    "a client with errors": """
        CLIENT NOTHING
        CLIENT KILL
        CLIENT KILL 127.0.0.1:1
        CLIENT KILL ID 0
        CLIENT KILL ID x
        CLIENT KILL ID 123456789
        CLIENT KILL TYPE nothing
        CLIENT KILL TYPE master
        CLIENT KILL USER nobody
        CLIENT KILL SKIPME maybe
        CLIENT KILL ADDR 127.0.0.1:1 LADDR
        CLIENT KILL ADDR 127.0.0.1:1 LADDR 127.0.0.1:2 SKIPME no
        CLIENT LIST TYPE
        CLIENT LIST TYPE nothing
        CLIENT LIST TYPE replica
        CLIENT LIST ID x
        CLIENT LIST ID 123456789
        CLIENT LIST ID
        CLIENT LIST NOTHING
        CLIENT NO-EVICT on
        CLIENT NO-EVICT maybe
        CLIENT NO-EVICT
        CLIENT UNBLOCK x
        CLIENT UNBLOCK 123456789
        CLIENT UNBLOCK 123456789 ERROR
        CLIENT UNBLOCK 123456789 nothing
        CLIENT REPLY maybe
        CLIENT GETREDIR
        CLIENT ID x
        CLIENT SETNAME
        CLIENT GETNAME
        CLIENT SETNAME K
        CLIENT GETNAME
    """,
    "channels with errors": """
        PUBSUB NOTHING
        PUBSUB NUMPAT x
        PUBSUB CHANNELS a b
        PUBSUB SHARDCHANNELS a b
        PUBSUB SHARDNUMSUB
        PUBSUB SHARDNUMSUB K K:2
        PUBSUB SHARDCHANNELS
        SPUBLISH K
        SPUBLISH K x
        SSUBSCRIBE
        MULTI
        SPUBLISH K x
        EXEC
    """,
}


def version(server):
    with connect(server) as client:
        return tuple(int(part) for part in client.info("server")["redis_version"].split(".")[:2])


@pytest.mark.parametrize("requests", SEQUENCES.values(), ids=SEQUENCES.keys())
def test_the_answers_are_those_of_redis(node, control, requests, request):  # noqa: F811
    if "CLIENT" in requests and version(control) > (7, 0):
        pytest.skip("a newer Redis has other options of CLIENT")
    name = "server/" + request.node.callspec.id.replace(" ", "_")
    assert answers_of(node, requests, name) == answers_of(control, requests, name)


# --- FLUSHDB and FLUSHALL -------------------------------------------------------------------


def records_of_flushes(node):
    """Names of audit records, with their actors."""
    page = node.request("GET", "/api/v1/audit?limit=1000").json["records"]
    return [(record["resource"], record["actorId"]) for record in page if "FLUSHDB" in record["reason"]]


def test_a_flush_ends_all_keys_of_its_database_and_nothing_else(three, node):  # noqa: F811
    three.leader().acquire("flush/of-http")
    with connect(node, db=5, client_name="flusher") as client, connect(node) as other, connect(node, db=5) as owner:
        for i in range(150):
            assert owner.set(f"flush/lock/{i}", "v", nx=True, px=600000)
            assert owner.set(f"flush/value/{i}", "v")
            assert owner.incr(f"flush/counter/{i}") == 1
        owner.hset("flush/hash", "f", "v")
        owner.set(b"\xff\x00", "v", nx=True)
        other.set("flush/in-database-0", "v", nx=True, px=600000)
        before = len(records_of_flushes(three.leader()))
        assert client.flushdb() is True
        assert client.keys("*") == [] and client.dbsize() == 0
        assert other.get("flush/in-database-0") == "v"
        assert other.get("flush/of-http") == "holdfast:test"
        records = records_of_flushes(three.leader())[before:]
        # Locks, values, the hash and the key of two bytes; a counter has no holder and no record.
        assert len(records) == 302 and all(actor.startswith("resp:flusher@") for _, actor in records)
        assert ("redis:5/flush/lock/7", records[0][1]) in records and ("redis:5/%FF%00", records[0][1]) in records
        assert other.delete("flush/in-database-0") == 1
    three.leader().request("POST", "/api/v1/locks/flush/of-http/force-unlock", {"actor_id": "t", "reason": "t"})


def test_a_flush_ends_while_other_clients_change_the_keys(node):  # noqa: F811
    stop = threading.Event()

    def change(i):
        with connect(node, db=6) as client:
            while not stop.is_set():
                client.set(f"busy/{i}", "v")
                client.incr(f"busy/n{i}")

    threads = [threading.Thread(target=change, args=[i]) for i in range(4)]
    with connect(node, db=6) as client:
        for i in range(200):
            client.set(f"still/{i}", "v")
        for thread in threads:
            thread.start()
        try:
            for _ in range(5):
                assert client.flushdb() is True
            assert client.keys("still/*") == []
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        assert client.flushdb() is True and client.keys("*") == []


def test_who_waits_for_a_flushed_lock_gets_it(node):  # noqa: F811
    with connect(node, db=4) as holder, connect(node, db=4) as waiter, connect(node, db=4) as flusher:
        assert holder.set("flush/awaited", "v", nx=True, px=600000)
        got = []
        thread = threading.Thread(target=lambda: got.append(
            waiter.execute_command("HF.ACQUIRE", "flush/awaited", "w", "PX", 30000, "WAIT", 30000)))
        thread.start()
        wait_until(lambda: "flags=b" in str(flusher.execute_command("CLIENT", "LIST")), "the client waits")
        assert flusher.flushdb() is True
        thread.join()
        assert isinstance(got[0], int) and flusher.get("flush/awaited") == "w"
        assert waiter.delete("flush/awaited") == 1


def test_a_flush_is_not_possible_in_scripts_and_transactions(node):  # noqa: F811
    with connect(node) as client:
        with pytest.raises(redis.ResponseError, match="not allowed from script"):
            client.eval("return redis.call('FLUSHDB')", 0)
        with pytest.raises(redis.ResponseError, match="not possible inside a transaction"):
            client.pipeline().flushdb().execute()


def test_keys_in_the_memory_of_the_leader_are_flushed(make_cluster):
    leader = make_cluster(3, "--resp-tier", "efficiency").leader()
    with connect(leader) as client, connect(leader) as owner:
        for i in range(100):
            assert owner.set(f"memory/{i}", "v", nx=True, px=600000)
            owner.incr(f"memory/n{i}")
        assert leader.acquire("other", tier="EFFICIENCY").json["acquired"]
        assert client.flushdb() is True
        assert client.keys("memory/*") == [] and client.exists("other") == 1
        assert len(records_of_flushes(leader)) > 0


def test_a_flush_is_refused_where_deletion_is(make_cluster):
    alone = make_cluster(1, "--resp-del", "refuse").leader()
    with connect(alone) as client:
        client.set("a", "v")
        for command in (client.flushdb, client.flushall):
            with pytest.raises(redis.exceptions.NoPermissionError, match="resp-del"):
                command()
        assert client.get("a") == "v"


@pytest.fixture
def client_of(make_cluster):
    made = secure_cluster(make_cluster, 1)

    def connected(principal):
        client = connect(made.nodes[1], single_connection_client=True)
        client.execute_command("AUTH", f"red:{principal}", made.tokens[principal])
        return client

    return connected


def test_a_flush_needs_operate_on_the_whole_database(client_of):
    user, admin, operator = client_of("red/lock"), client_of("red/admin"), client_of("red/operate")
    assert user.set("app/a", "v", nx=True, px=600000)
    for client in (user, operator):  # the operator has `operate` on app/ only
        for command in ("FLUSHDB", "FLUSHALL"):
            with pytest.raises(redis.exceptions.NoPermissionError, match="operate"):
                client.execute_command(command)
    assert user.get("app/a") == "v"
    assert admin.execute_command("FLUSHDB") in (True, "OK", b"OK") and user.get("app/a") is None


# --- CLIENT ---------------------------------------------------------------------------------


def fields_of(line):
    return dict(field.split("=", 1) for field in line.split())


def test_clients_are_listed_with_the_fields_of_redis(node, control):  # noqa: F811
    found = {}
    for server in (node, control):
        with connect(server, client_name="lister", single_connection_client=True) as client:
            own = client.client_id()
            lines = client.execute_command("CLIENT", "LIST", "ID", own)
            line = lines if isinstance(lines, str) else " ".join(f"{k}={v}" for k, v in lines[0].items())
            found[server] = fields_of(line)
            assert client.client_list()[0].keys() >= {"addr", "laddr", "db"}
    ours, real = found[node], found[control]
    if version(control) == (7, 0):
        assert [field for field in ours if not field.startswith("lib-")] == list(real)
    assert set(ours) <= set(real) | {"lib-name", "lib-ver"}
    same = ("name", "flags", "db", "sub", "psub", "ssub", "multi", "user", "redir", "resp", "events")
    assert {field: ours[field] for field in same} == {field: real[field] for field in same}
    assert ours["laddr"] == f"127.0.0.1:{node.resp_port}" and int(ours["fd"]) > 2 and int(ours["tot-mem"]) > 500


def test_a_list_shows_what_a_connection_does(node):  # noqa: F811
    with connect(node, client_name="worker") as client, connect(node, single_connection_client=True) as lister:
        def row():
            return [c for c in lister.client_list() if c["name"] == "worker"][0]

        with client.pubsub() as pubsub:
            pubsub.subscribe("a", "b")
            pubsub.psubscribe("c*")
            for _ in range(3):
                assert pubsub.get_message(timeout=PATIENCE)
            assert (row()["flags"], row()["sub"], row()["psub"], row()["ssub"]) == ("P", "2", "1", "0")
            assert len(lister.execute_command("CLIENT", "LIST", "TYPE", "pubsub")) >= 1
        wait_until(lambda: not any(c["name"] == "worker" for c in lister.client_list()), "the subscriber is gone")
    with connect(node, client_name="worker", single_connection_client=True) as client:
        client.execute_command("SELECT", 3)
        client.execute_command("MULTI")
        client.execute_command("SET", "a", "b")
        with connect(node) as lister:
            row = [c for c in lister.client_list() if c["name"] == "worker"][0]
            assert (row["flags"], row["db"], row["multi"], row["cmd"]) == ("x", "3", "1", "set")


@pytest.mark.parametrize("how", ["id", "address", "old form", "type", "user"])
def test_connections_are_ended(node, how):  # noqa: F811
    with connect(node, client_name="victim", single_connection_client=True) as victim, connect(node) as killer:
        victim.set("server/victim", "v", nx=True, px=600000)
        row = [c for c in killer.client_list() if c["name"] == "victim"][0]
        kill = {"id": ["ID", row["id"]], "address": ["ADDR", row["addr"]], "old form": [row["addr"]],
                "type": ["TYPE", "normal", "ADDR", row["addr"]],
                "user": ["USER", "default", "LADDR", row["laddr"], "ID", row["id"]]}[how]
        assert killer.execute_command("CLIENT", "KILL", *kill) in (1, True, "OK", b"OK")
        with pytest.raises(redis.ConnectionError):
            victim.ping()
        assert not any(c["name"] == "victim" for c in killer.client_list())
        assert killer.get("server/victim") == "v"  # a lock outlives its connection
        assert killer.delete("server/victim") == 1


def test_a_connection_ends_itself_after_the_answer(node, control):  # noqa: F811
    for server in (node, control):
        with socket.create_connection(("127.0.0.1", server.resp_port), timeout=PATIENCE) as wire:
            wire.sendall(b"CLIENT ID\r\n")
            own = wire.recv(100).decode().strip(":\r\n")
            wire.sendall(f"CLIENT KILL ID {own}\r\nCLIENT KILL ID {own} SKIPME no\r\nPING\r\n".encode())
            data = b""
            while piece := wire.recv(100):
                data += piece
            assert data == b":0\r\n:1\r\n"


def test_a_client_that_waits_is_ended_and_unblocked(node):  # noqa: F811
    def waits():
        return [c for c in other.client_list() if c["flags"] == "b"]

    def wait_for_it(client):
        try:
            answers.append(client.execute_command("HF.ACQUIRE", "server/awaited", "w", "PX", 30000, "WAIT", 60000))
        except redis.RedisError as error:
            answers.append(error)

    with connect(node) as other:
        assert other.set("server/awaited", "v", nx=True, px=600000)
        for command, expected in ((["KILL", "ID"], "ConnectionError"), (["UNBLOCK"], "None"), (["UNBLOCK", "ERROR"], "UNBLOCKED")):
            answers = []
            with connect(node, single_connection_client=True) as waiter:
                thread = threading.Thread(target=wait_for_it, args=[waiter])
                thread.start()
                wait_until(waits, "the client waits")
                words = [command[0], *command[1:2], waits()[0]["id"]] if command[0] == "KILL" else ["UNBLOCK", waits()[0]["id"], *command[1:]]
                assert other.execute_command("CLIENT", *words) == 1
                thread.join()
                assert expected in f"{type(answers[0]).__name__} {answers[0]}"
                if command[0] == "UNBLOCK":
                    assert waiter.ping()
            wait_until(lambda: not waits(), "nobody waits")
            wait_until(lambda: node.show("server/awaited").json["queue_length"] == 0, "its place in the queue is gone")
        assert other.delete("server/awaited") == 1


def test_who_lists_and_ends_the_connections_of_others(client_of):
    user, twin, admin, root = (client_of(who) for who in ("red/lock", "red/lock", "red/admin", "default/root"))

    def listed(client):
        return sorted(int(row["id"]) for row in client.client_list())

    ids = {client: client.client_id() for client in (user, twin, admin, root)}
    assert listed(user) == sorted((ids[user], ids[twin])) and listed(admin) == [ids[admin]]
    assert listed(root) == sorted(ids.values())
    assert [row["user"] for row in user.client_list()] == ["red/lock"] * 2
    for words in (["ID", ids[user]], ["USER", "red/lock"], ["TYPE", "normal"]):
        assert admin.execute_command("CLIENT", "KILL", *words) == 0  # of other principals: as if they did not exist
    assert user.ping() and twin.ping()
    assert user.execute_command("CLIENT", "KILL", "USER", "red/lock") == 1  # and not the caller
    assert root.execute_command("CLIENT", "KILL", "ID", ids[user]) == 1
    for client in (user, twin):
        with pytest.raises(redis.ConnectionError):
            client.ping()
    assert admin.ping()


def test_rights_on_sharded_channels_are_rights_on_their_names(client_of):
    user, admin = client_of("red/lock"), client_of("red/admin")
    for words in (["SPUBLISH", "app/c", "x"], ["SSUBSCRIBE", "app/c"]):
        with pytest.raises(redis.exceptions.NoPermissionError, match="redis:0/%shard/app/c"):
            user.execute_command(*words)
    assert admin.execute_command("SPUBLISH", "app/c", "x") == 0
    assert admin.execute_command("PUBSUB", "SHARDNUMSUB", "app/c") in (["app/c", 0], [("app/c", 0)])


# Each line is sent by itself, then `PING n`, so that an answer that is missing is seen.
REPLIES = ["SET K v", "CLIENT REPLY OFF", "SET K w", "GET K", "NOTHING", "EVAL 'return 1' 0", "CLIENT REPLY SKIP", "CLIENT REPLY ON",
           "GET K", "CLIENT REPLY SKIP", "INCR K:n", "INCR K:n", "CLIENT REPLY SKIP", "GET K", "CLIENT REPLY SKIP", "SET K:a 1 NX PX 60000",
           "EXISTS K:a"]


def test_replies_are_left_out(node, control):  # noqa: F811
    found = []
    for server in (node, control):
        with socket.create_connection(("127.0.0.1", server.resp_port), timeout=PATIENCE) as wire:
            wire.sendall("".join(f"{line}\r\n" for line in REPLIES).replace("K", "server/replies").encode() + b"ECHO the-end\r\n")
            data = b""
            while b"the-end\r\n" not in data:
                piece = wire.recv(1000)
                assert piece, data
                data += piece
            found.append(data)
        with connect(server) as client:
            client.delete("server/replies", "server/replies:n", "server/replies:a")
    assert found[0] == found[1]


# --- INFO -----------------------------------------------------------------------------------


def test_info_has_the_fields_that_clients_read(node):  # noqa: F811
    with connect(node) as client:
        client.script_flush()
        client.eval("return 1", 0)
        info = client.info()
        assert info["redis_version"].startswith("7.0") and info["arch_bits"] == 64 and info["tcp_port"] == node.resp_port
        assert info["number_of_cached_scripts"] == 1 and info["role"] == "master" and info["connected_clients"] >= 1
        assert re.fullmatch("[0-9a-f]{40}", info["run_id"]) and info["run_id"] == client.info("server")["run_id"]
        assert info["uptime_in_seconds"] >= 0 and info["loading"] == 0 and info["blocked_clients"] == 0
        assert abs(info["server_time_usec"] / 1e6 - time.time()) < 60
        assert client.set("server/info", "v")
        wait_until(lambda: client.info("keyspace").get("db0", {}).get("keys", 0) >= 1, "this node has the key")
        assert set(client.info("clients")) == {"connected_clients", "blocked_clients", "tracking_clients", "pubsub_clients"}
        both = client.execute_command("INFO", "server", "replication")
        assert "run_id" in both and "role" in both and "loading" not in both
        assert client.execute_command("INFO", "nothing") in ("", {})
        assert client.delete("server/info") == 1


# --- sharded channels -----------------------------------------------------------------------


class Wire:
    """A connection whose answers are compared as bytes."""

    def __init__(self, server, protocol):
        self.socket = socket.create_connection(("127.0.0.1", server.resp_port), timeout=PATIENCE)
        self.marks = 0
        if protocol == 3:
            self.request("HELLO 3")

    def read_until(self, end):
        data = b""
        while not data.endswith(end):
            piece = self.socket.recv(1)
            assert piece, data
            data += piece
        return data

    def request(self, line):
        self.marks += 1
        mark = f"mark{self.marks}"
        self.socket.sendall(f"{line}\r\nPING {mark}\r\n".encode())
        return self.read_until(mark.encode() + b"\r\n")


SHARDED = ["SSUBSCRIBE s:a s:b s:a", "SUBSCRIBE s:a", "b:SPUBLISH s:a one", "b:PUBLISH s:a two", "PSUBSCRIBE s:*", "b:SPUBLISH s:b three",
           "b:PUBLISH s:b four", "b:PUBSUB SHARDCHANNELS *b", "b:PUBSUB CHANNELS", "b:PUBSUB SHARDNUMSUB s:a s:c", "b:PUBSUB NUMSUB s:a s:b",
           "b:PUBSUB NUMPAT", "SUNSUBSCRIBE s:a s:c", "UNSUBSCRIBE", "b:SPUBLISH s:a five", "b:SPUBLISH s:b six", "SUNSUBSCRIBE", "SUNSUBSCRIBE",
           "PUNSUBSCRIBE", "b:SPUBLISH s:b seven", "GET s:nothing"]


@pytest.mark.parametrize("protocol", [2, 3])
def test_sharded_channels_are_channels_of_their_own(three, control, protocol):  # noqa: F811
    found = []
    for server in (three.leader(), control):  # at another node a message may follow the answer of SPUBLISH
        a, b = Wire(server, protocol), Wire(server, protocol)
        lines = []
        for line in SHARDED:
            lines.append((line, b.request(line[2:]) if line.startswith("b:") else a.request(line)))
            if "PUBLISH" in line:  # the message is there before or with the next answer
                lines.append((line, a.request("SUNSUBSCRIBE none")))
        found.append(lines)
        a.socket.close()
        b.socket.close()
    assert found[0] == found[1]


def test_sharded_messages_reach_all_nodes_in_one_order(three):  # noqa: F811
    names = ["server/shard", b"\xff\x01 not text", "redis:0/%shard/x"]
    clients = [connect(each, single_connection_client=True, decode_responses=False) for each in three]
    for client in clients:
        client.connection.send_command("SSUBSCRIBE", *names)
        for _ in names:
            assert client.connection.read_response()[0] == b"ssubscribe"
    for each in three:
        with connect(each) as sender:
            for i, name in enumerate(names):
                sender.execute_command("SPUBLISH", name, f"{i} by {each.id}")
                sender.publish(name, "to the ordinary channel")
    heard = [[client.connection.read_response() for _ in range(9)] for client in clients]
    assert heard[0] == heard[1] == heard[2]
    assert [(m[0], m[1]) for m in heard[0]] == [(b"smessage", n if isinstance(n, bytes) else n.encode()) for n in names] * 3
    for client in clients:
        client.close()

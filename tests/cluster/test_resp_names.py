"""Keys and channels of any bytes, and databases, over the Redis protocol (decision 37)."""

import json

import pytest
import redis

import resp_support
from cli_support import run_cli

BYTES = b"jobs/\xff\x00 %41//"


def connect(node, **options):
    return resp_support.connect(node, decode_responses=False, **options)


@pytest.fixture
def leader(make_cluster):
    return make_cluster(1).leader()


def rows(node, *arguments):
    done = run_cli([node], "ls", "--json", *arguments)
    assert done.returncode == 0, done.stderr
    return {row["name"] for row in json.loads(done.stdout)["locks"]}


def test_other_apis_show_keys_percent_encoded_and_take_them_so(leader):
    with connect(leader) as r:
        assert r.set(BYTES, b"v", nx=True, px=60000) and r.get(BYTES) == b"v"
        assert r.set("jobs/%41", "text", nx=True, px=60000)
        name = "redis:0/jobs/%FF%00 %2541/%2F"
        assert rows(leader) == {name, "jobs/%41"}
        assert set(r.scan_iter(match="jobs/*")) == {BYTES, b"jobs/%41"}
        shown = run_cli([leader], "show", name)
        assert shown.returncode == 0 and name in shown.stdout, shown.stderr
        done = run_cli([leader], "force-unlock", name, "--reason", "test")
        assert done.returncode == 0, done.stderr
        assert r.get(BYTES) is None and r.get("jobs/%41") == b"text"


def test_databases_are_separate_key_spaces(leader):
    with connect(leader) as zero, connect(leader, db=1) as one, connect(leader, db=15) as last:
        for n, r in enumerate((zero, one, last)):
            assert r.set("k", str(n), nx=True, px=60000)
        assert [r.get("k") for r in (zero, one, last)] == [b"0", b"1", b"2"]
        assert rows(leader) == {"k", "redis:1/k", "redis:15/k"}
        assert rows(leader, "redis:1/") == {"redis:1/k"}
        assert one.dbsize() == 1 and list(one.scan_iter()) == [b"k"]
        assert one.delete("k") == 1 and zero.exists("k") == 1
        release = one.register_script("if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end")
        assert one.set("k", "mine", nx=True) and release(keys=["k"], args=["mine"]) == 1
        assert one.client_list()[0]["db"] in "0115"
        with one.pipeline() as pipe:  # WATCH is about the database in which it was sent
            pipe.watch("w")
            zero.set("w", "0")
            pipe.multi()
            pipe.set("w", "1")
            assert pipe.execute() == [True] and zero.get("w") == b"0"
            pipe.watch("w")
            last.set("w", "2")
            one.set("w", "3")
            pipe.multi()
            pipe.set("w", "4")
            with pytest.raises(redis.WatchError):
                pipe.execute()
        assert sorted(one.keys("*")) == [b"w"] and sorted(zero.keys("*")) == [b"k", b"w"]
        with pytest.raises(redis.ResponseError, match="DB index is out of range"):
            one.execute_command("SELECT", 16)


def test_channels_are_any_bytes(leader):
    with connect(leader) as r, r.pubsub() as channels:
        channels.subscribe(b"\xff\x00/")
        channels.psubscribe(b"\xff*")
        assert [channels.get_message(timeout=10)["type"] for _ in range(2)] == ["subscribe", "psubscribe"]
        assert r.publish(b"\xff\x00/", b"m") == 2
        got = [channels.get_message(timeout=10) for _ in range(2)]
        assert {message["type"] for message in got} == {"message", "pmessage"}
        assert all(message["channel"] == b"\xff\x00/" and message["data"] == b"m" for message in got)

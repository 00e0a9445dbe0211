"""The fence for Redis, contrib/redis/fenced.lua, on Debian's server."""

import subprocess
import threading

import pytest
import redis

from conftest import ROOT
from servers import program

SCRIPT = ROOT / "contrib/redis/fenced.lua"


@pytest.fixture
def client(redis_server):
    with redis.Redis(port=redis_server.port, decode_responses=True) as made:
        made.flushall()
        yield made


@pytest.fixture
def fenced(client):
    def call(token, *commands, mark="mark"):
        words = [word for command in commands for word in (len(command.split()), *command.split())]
        return client.eval(SCRIPT.read_text(encoding="ascii"), 1, mark, token, *words)
    return call


def test_a_writer_that_was_stopped_past_its_ttl_is_refused(client, scenario, redis_server):
    config = {"port": redis_server.port, "script": SCRIPT.read_text(encoding="ascii")}
    refusal = scenario.run("stale/redis", "Redis", config, lambda: client.get("bare"), lambda: client.get("value"))
    assert refusal.startswith("refused STALE ")
    assert len(client.lrange("log", 0, -1)) == 2, "no command of the refused call was run"


def test_the_line_of_the_document_works(redis_server, client):
    done = subprocess.run([program("redis-cli"), "-p", str(redis_server.port), "--eval", SCRIPT, "fence:{wallet:7}", "{wallet:7}", ",", "1842", "3", "SET",
                           "{wallet:7}", "100"], capture_output=True, text=True, check=True)
    assert done.stdout == "OK\n"
    assert (client.get("{wallet:7}"), client.get("fence:{wallet:7}")) == ("100", "1842")


def test_equal_and_higher_tokens_are_accepted_and_the_replies_are_returned(fenced, client):
    assert fenced(5, "SET a 1", "GET a", "GET nothing", "INCR a") == ["OK", "1", None, 2]
    assert fenced(5, "INCR a") == [3]
    assert fenced(6) == []
    with pytest.raises(redis.ResponseError, match="STALE mark: token 5 is stale, token 6 was used here"):
        fenced(5, "INCR a")
    assert client.get("a") == "3"


def test_the_largest_tokens_are_compared_exactly(fenced):
    fenced(2 ** 53 - 1)
    with pytest.raises(redis.ResponseError, match="STALE"):
        fenced(2 ** 53 - 2)
    fenced(2 ** 53 - 1)


@pytest.mark.parametrize("token", [0, -1, "", "x", "1e3", "5.0", " 5", 2 ** 53, "10000000000000000000"])
def test_what_is_no_token_is_refused_and_leaves_no_mark(fenced, client, token):
    with pytest.raises(redis.ResponseError, match="BADTOKEN"):
        fenced(token, "SET a 1")
    assert client.keys() == []


@pytest.mark.parametrize("words", [["x", "SET"], [0], [4, "SET", "a", "1"], [3, "SET", "a", "1", 2], ["1.5", "GET", "a"], [-1, "a"]])
def test_malformed_commands_are_refused_before_anything_is_written(client, words):
    with pytest.raises(redis.ResponseError, match="BADCALL"):
        client.eval(SCRIPT.read_text(encoding="ascii"), 1, "mark", 5, *words)
    assert client.keys() == []


def test_a_command_that_fails_is_reported_and_its_mark_stays(fenced, client):
    client.set("text", "x")
    with pytest.raises(redis.ResponseError, match="not an integer"):
        fenced(5, "SET a 1", "INCR text", "SET b 1")
    assert client.get("mark") == "5" and client.get("a") == "1" and client.get("b") is None


def test_a_mark_with_another_value_is_refused(fenced, client):
    client.set("mark", "x")
    with pytest.raises(redis.ResponseError, match="BADTOKEN"):
        fenced(5, "SET a 1")
    client.delete("mark")
    client.rpush("mark", "x")
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        fenced(5, "SET a 1")
    assert client.get("a") is None


def test_many_writers_write_in_the_order_of_tokens(redis_server, client):
    def work(number):
        with redis.Redis(port=redis_server.port) as own:
            script = own.register_script(SCRIPT.read_text(encoding="ascii"))
            for step in range(50):
                try:
                    token = step * 4 + number + 1
                    script(keys=["mark", "log"], args=[token, 3, "RPUSH", "log", token])
                except redis.ResponseError as error:
                    assert "STALE" in str(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tokens = [int(token) for token in client.lrange("log", 0, -1)]
    assert tokens and tokens == sorted(tokens)

"""EVAL, EVALSHA and SCRIPT on real nodes: the same scripts get the same answers, byte by byte, as from a real
redis-server; what one changes is one change; and scripts that mean harm harm nobody. docs/REDIS.md has the rules."""

import re
import socket
import threading
import time
from random import Random

import pytest
import redis

from conftest import check_log
from harness import SANITIZED, Cluster, Ports, allowed
from resp_support import RawClient, connect, error_word, real_redis

pytestmark = pytest.mark.sanitized  # it is C that reads what any client wrote

RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    with Ports():
        cluster = Cluster(tmp_path_factory.mktemp("scripts"), 3).start()
        yield cluster
        for node in cluster:
            node.close_ready()
            node.kill()
    for node in cluster:
        check_log(node)


@pytest.fixture(params=["leader", "follower"])
def r(three, request):
    node = three.leader() if request.param == "leader" else three.followers()[0]
    with connect(node) as client:
        yield client


@pytest.fixture
def name(request):
    return "scripts/" + request.node.name.replace("[", "/").rstrip("]")


# --- as Redis does it -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def both(three, tmp_path_factory):
    """A connection to us, and one to a real Redis."""
    with real_redis(tmp_path_factory.mktemp("redis")) as path:
        connections = [RawClient(socket.AF_INET, ("127.0.0.1", three.leader().resp_port)), RawClient(socket.AF_UNIX, path)]
        yield connections
        for connection in connections:
            connection.close()


VALUES = """
return 1
return -1.9
return 2^53
return 1e300
return 'text'
return ''
return true
return false
return nil
return
return {}
return {1, 2.9, 'a', true, false, nil, 3}
return {{1, {2}}, {ok='fine'}, {err='BAD luck'}}
return {ok='A', err='B'}
return {err='noword'}
return {ok=1}
return {double=1.5}
return {map={a=1}}
return {set={a=true}}
return {big_number='123'}
return {verbatim_string={format='txt', string='x'}}
return function() end
return redis.error_reply('noword')
return redis.error_reply('MY own')
return redis.error_reply('-MY own')
return redis.error_reply(1)
return redis.status_reply('FINE')
redis.setresp(3) return {true, false, nil}
return #KEYS .. ' ' .. #ARGV .. KEYS[1] .. ARGV[2]
KEYS[1] = 'other' return KEYS[1]
return redis.sha1hex('abc')
return {pcall(error, 'x')}
return {pcall(error, {err='X Y'})}
return {pcall(redis.call, 'nope')}
return redis.pcall('nope')
return redis.pcall('get')
return {redis.pcall('nope'), 2}
return redis.pcall({}).err
return tostring(redis.call('get', 'absent'))
redis.setresp(3) return tostring(redis.call('get', 'absent'))
return redis.call('nope')
return redis.call('get')
return redis.call()
return redis.call('subscribe', 'x')
return redis.call('eval', 'return 1', 0)
return x
x = 1
string.x = 1
rawset(_G, 'x', 1)
return print
return os
error('boo')
error({err='MY boo'})
error('x', 0)
local t = {} return t.x.y
return 'a' .. nil
syntax error(
return (
return tostring(1e15) .. ' ' .. tostring(0.1) .. ' ' .. 3 .. ' ' .. 2^53
return string.format('%5.1f|%d|%s|%q|%x', 3.14159, 42, 'x', 'a"b', 255)
return {('hello world'):find('o')}
return {('a.b'):find('.', 1, true)}
local t = {5, 2, 8, 1} table.sort(t, function(a, b) return a > b end) return t
local t = {1, 2, 3} table.insert(t, 2, 9) return {table.remove(t), table.concat(t, '-')}
return {unpack({1, 2, 3}, 2)}
return {tonumber('0x10'), tonumber('z', 36), tonumber('x')}
return {math.floor(2.7), math.max(3, 9), math.fmod(7, 3)}
return {xpcall(function() error('x') end, function(e) return 'h:' .. e end)}
return {select('#', 1, nil, 3), type(next), _VERSION}
#!lua flags=no-writes\nreturn redis.call('set', KEYS[1], 1)
#!lua flags=zzz\nreturn 1
#!js\nreturn 1
#!lua\nreturn x
#!lua
""".strip().split("\n")

JSON = r"""
return cjson.encode({1,2,3})
return cjson.encode({})
return cjson.encode({a=1})
return cjson.encode({1,nil,3})
return cjson.encode({[1]=1,[5]=2})
return cjson.encode({[1]=1,[50]=2})
return cjson.encode({[0]=1})
return cjson.encode({[1.5]=1})
return cjson.encode({[-1]='x'})
return cjson.encode('a"b\\c/\1\127\n\t\r\b\f')
return cjson.encode('\255\254')
return cjson.encode(1)
return cjson.encode(1.5)
return cjson.encode(0.1)
return cjson.encode(1/3)
return cjson.encode(1e15)
return cjson.encode(2^53)
return cjson.encode(12345678901234567890)
return cjson.encode(1e300)
return cjson.encode(-0)
return cjson.encode(0/0)
return cjson.encode(1/0)
return cjson.encode(true)
return cjson.encode(nil)
return cjson.encode(cjson.null)
return cjson.encode({cjson.null})
return cjson.encode(function() end)
return cjson.encode({f=print})
return cjson.encode({[{}]=1})
return cjson.encode({[true]=1})
return cjson.encode()
return cjson.encode(1,2)
local t = {} t.t = t return cjson.encode(t)
local t = {} for i=1,999 do t={t} end return #cjson.encode(t)
local t = {} for i=1,1000 do t={t} end return #cjson.encode(t)
return cjson.decode('[1,2,{"a":[true,false,null]}]')
return cjson.decode('{"a":1,"b":"x"}').b
return cjson.decode('1')
return cjson.decode('"x"')
return cjson.decode('')
return cjson.decode(' ')
return cjson.decode('[')
return cjson.decode('[1,]')
return cjson.decode('{"a"}')
return cjson.decode('{a:1}')
return cjson.decode('nul')
return cjson.decode('[1] x')
return cjson.decode("'x'")
return cjson.decode('"\\u00fc\\ud83d\\ude00\\n"')
return cjson.decode('"\\ud83d"')
return cjson.decode('"\\q"')
return cjson.decode('"a\nb"')
return cjson.decode('"a\0b"')
return cjson.decode('\0[1]')
return cjson.decode(1)
return cjson.decode(nil)
return cjson.decode({})
return cjson.decode()
return cjson.decode('1','2')
return tostring(cjson.decode('1e400'))
return tostring(cjson.decode('[NaN]')[1])
return tostring(cjson.decode('[-Infinity]')[1])
return tostring(cjson.decode('0x10'))
return tostring(cjson.decode('0.1'))
return tostring(cjson.decode('12345678901234567890'))
return tostring(cjson.decode('null'))
return cjson.decode('null') == cjson.null
return tostring(cjson.null)
return type(cjson.null)
return cjson.null
return {1, cjson.null, 2}
return {pcall(cjson.encode, function() end)}
return {pcall(cjson.decode, '{')}
cjson.encode = 1 return 1
return type(cjson)
return cjson.encode(cjson.decode('{"args":[1,"two",{"three":3.5}],"jid":"abc","at":1700000000.123456,"retry":true,"queue":null}').args)
return cjson.encode(redis.call('MGET','nokey1','nokey2'))
return cjson.decode(string.rep('[',1000)..string.rep(']',1000))[1] ~= nil
return cjson.decode(string.rep('[',1001)..string.rep(']',1001))
return cjson.encode(KEYS)
return cjson.encode({['a/b']='c/d'})
local ok, e = pcall(cjson.decode, '{') return e
local ok, e = pcall(cjson.encode, {1, function() end}) return e
return cjson.encode(cjson.encode({a='"'}))
return cjson.decode('{"1":"a","2":"b"}')[1]
return cjson.decode('{"1":"a"}')["1"]
return cjson.decode('[[],{}]')
return cjson.encode({{},{x={}}})
return cjson.encode(-1e-7)
return cjson.encode(100000000000000)
return cjson.encode(1234567890123)
return cjson.encode(99999999999999999)
""".strip().split("\n")

PATTERNS = r"""
local _, _, a, b, c = string.find('7.0.15', '(%d+)%.(%d+)%.(%d+)') return {a, b, c}
return {string.find('hello world', 'o')}
return {string.find('hello world', 'o w')}
return {string.find('hello', 'l+', 4)}
return {string.find('hello', 'l+', -2)}
return {string.find('a.b', '.', 2, true)}
return {string.find('', '')}
return {string.find('abc', '', 10)}
return {string.find('abc', '^b')}
return {string.find('abc', 'b$')}
return {('key:123:x'):match('^(%w+):(%d+)')}
return {('x = 1'):match('^%s*(%S+)%s*=%s*(.-)%s*$')}
return {('hello'):match('()ll()')}
return {('f(a(b)c)d'):match('%b()')}
return {('THE (quick) fox'):find('%((%a+)%)')}
return {('abcabc'):match('(a.)c%1')}
return {('abc'):match('z')}
local t = {} for k, v in ('a=1, b=2'):gmatch('(%w+)=(%w+)') do t[#t + 1] = k .. v end return t
local t = {} for w in ('one two'):gmatch('%a+') do t[#t + 1] = w end return t
return {('hello world'):gsub('o', '0')}
return {('hello world'):gsub('(%w+)', '<%1>', 1)}
return {('hello'):gsub('', '-')}
return {('$name is $age'):gsub('%$(%w+)', {name = 'x', age = 3})}
return {('abc'):gsub('%w', function(c) if c == 'b' then return 'B' end end)}
return {('abc'):gsub('%w', '%%%0')}
return {('a,b;c'):gsub('[,;]', ' ')}
return {('THE END'):gsub('%f[%w]%w+', 'x')}
return string.match('abc', '[')
return string.match('abc', '%')
return string.match('abc', '(')
return string.gsub('abc', '(', '')
return string.gsub('abc', 'b', '%2')
return string.gsub('abc', 'b', true)
return string.match('abc')
return string.match({}, 'x')
return ('abc'):gmatch()
return ('2024-01-02'):match('^(%d%d%d%d)-(%d%d)-(%d%d)$')
return {tostring(string.gmatch), type(string.gmatch('a', 'b'))} == nil
""".strip().split("\n")

CHANGES = """
return redis.call('set', KEYS[1], ARGV[1])
return redis.call('get', KEYS[1])
return redis.call('set', KEYS[1], 'v', 'NX')
return redis.call('set', KEYS[1], 'v', 'XX', 'PX', 30000)
return redis.call('SET', KEYS[1], 1.5, 'GET')
return redis.call('exists', KEYS[1], KEYS[2])
return {redis.call('getrange', KEYS[1], 0, 0), redis.call('getrange', KEYS[1], -2, 9), redis.call('getrange', KEYS[2], 0, 1)}
return redis.call('getrange', KEYS[1], 'x', 1)
return redis.call('hget', KEYS[1], 'f')
return redis.pcall('hget', KEYS[1], 'f').err
return redis.call('set', KEYS[1], 'a', 'b')
return redis.call('type', KEYS[1])
return redis.call('type', KEYS[1]).ok
return redis.call('pexpire', KEYS[1], 40000)
return redis.call('pexpire', KEYS[2], 40000)
return redis.call('pttl', KEYS[1]) > 30000
return redis.call('ttl', KEYS[2])
if redis.call('get', KEYS[1]) == ARGV[1] then return 'same' else return 'other' end
redis.call('set', KEYS[1], 10000000000) return redis.call('get', KEYS[1])
return {redis.call('del', KEYS[1]), redis.call('del', KEYS[1])}
return redis.call('hset', KEYS[2], 'a', 1, 'b', 2)
return redis.call('hincrby', KEYS[2], 'a', 5)
return redis.call('hincrby', KEYS[2], 'b', 'x')
return redis.call('hgetall', KEYS[2])
redis.setresp(3) return redis.call('hgetall', KEYS[2]).map.a
return {redis.call('hexists', KEYS[2], 'a'), redis.call('hexists', KEYS[2], 'z'), redis.call('hlen', KEYS[2])}
return redis.call('hmget', KEYS[2], 'a', 'z')
return redis.call('get', KEYS[2])
return {redis.call('hdel', KEYS[2], 'a', 'z'), redis.call('hdel', KEYS[2], 'b'), redis.call('exists', KEYS[2])}
return redis.call('publish', 'nobody', 'x')
return {redis.call('incr', KEYS[3]), redis.call('incrby', KEYS[3], 4), redis.call('get', KEYS[3])}
return redis.call('getrange', KEYS[3], 0, 5)
return {redis.call('ttl', KEYS[3]), redis.call('persist', KEYS[3]), redis.call('expire', KEYS[3], 100), redis.call('ttl', KEYS[3])}
return {redis.call('incr', KEYS[3]), redis.call('pttl', KEYS[3]) > 90000, redis.call('expire', KEYS[3], 200, 'NX'), redis.call('expire', KEYS[3], 50, 'GT')}
return {redis.call('persist', KEYS[3]), redis.call('ttl', KEYS[3]), redis.call('expire', KEYS[3], 50, 'GT'), redis.call('expire', KEYS[3], 60, 'XX')}
return {redis.call('pexpire', KEYS[3], 70000, 'LT'), redis.call('ttl', KEYS[3]), redis.call('expire', KEYS[3], 100, 'XX', 'GT')}
return {redis.call('expire', KEYS[3], -1), redis.call('exists', KEYS[3]), redis.call('persist', KEYS[3]), redis.call('incr', KEYS[3]), redis.call('ttl', KEYS[3])}
return redis.call('del', KEYS[3])
return {redis.call('msetnx', KEYS[1], 1, KEYS[2], 2), redis.call('msetnx', KEYS[2], 3, KEYS[3], 4), redis.call('exists', KEYS[3])}
return {redis.call('mset', KEYS[1], 5, KEYS[3], 6), redis.call('mget', KEYS[1], KEYS[2], KEYS[3])}
return redis.call('mset', KEYS[1], 5, KEYS[3])
return redis.call('del', KEYS[1], KEYS[2], KEYS[3])
""".strip().split("\n")


# Where a newer Redis answers otherwise, and since which version. We are as 7.0 is, and INFO says so.
CHANGED = {
    "return os": (7, 4),  # a table with the function clock
}


def version(connection):
    text = re.search(rb"redis_version:(\d+)\.(\d+)", connection.request("INFO", "server"))
    return int(text[1]), int(text[2])


def normal(answer):
    """The version of a script's error is in its SHA-1 and line; Redis 7.0 and ours agree on all of it."""
    return re.sub(rb" +\r\n", b"\r\n", answer)


@pytest.mark.parametrize("protocol", [2, 3])
def test_the_same_scripts_get_the_same_answers_from_redis(both, protocol):
    for connection in both:
        connection.request("HELLO", protocol)
    newest = version(both[1])
    for source in VALUES:
        if newest >= CHANGED.get(source, (99, 0)):
            continue
        source = source.replace("\\n", "\n")
        ours, theirs = [c.request("EVAL", source, 1, "the-key", "one", "two") for c in both]
        assert normal(ours) == normal(theirs), source
    for source in JSON + PATTERNS:
        if newest >= CHANGED.get(source, (99, 0)):
            continue
        ours, theirs = [c.request("EVAL", source, 1, "the-key") for c in both]
        assert normal(ours) == normal(theirs), source
    for source in CHANGES:
        ours, theirs = [c.request("EVAL", source, 3, "same/a", "same/b", "same/c", "arg") for c in both]
        assert normal(ours) == normal(theirs), source


def random_json(random, depth=0):
    kind = random.randrange(9 if depth < 4 else 6)
    if kind == 0:
        return repr(random.choice([0, 1, -5, 3.25, 1e20, 1e-9, 123456789012345, 0.1, 2**53, 1e15, -1e14]))
    if kind == 1:
        return random.choice(["true", "false", "null"])
    if kind < 6:
        parts = ["a", "\\n", "\\u00e9", "\\\\", "/", "\u00fc", '\\"', " ", "1"]
        return '"' + "".join(random.choices(parts, k=random.randrange(8))) + '"'
    if kind < 8:
        return "[" + ",".join(random_json(random, depth + 1) for _ in range(random.randrange(5))) + "]"
    return "{" + ",".join(f'"k":{random_json(random, depth + 1)}' for _ in range(random.randrange(2))) + "}"


def test_json_is_that_of_redis(both):
    random = Random(1)
    source = "return {pcall(function() return cjson.encode(cjson.decode(ARGV[1])) end)}"
    for _ in range(500):
        text = random_json(random)
        if random.random() < 0.3:  # with a fault
            at = random.randrange(len(text))
            text = text[:at] + random.choice(["", ",", '"', "}", "[", "x", "\\"]) + text[at + 1:]
        ours, theirs = [c.request("EVAL", source, 0, text) for c in both]
        assert normal(ours) == normal(theirs), text


@pytest.mark.parametrize("words", [
    ["EVAL"], ["EVAL", "return 1"], ["EVAL", "return 1", "x"], ["EVAL", "return 1", "-1"], ["EVAL", "return 1", 1],
    ["EVALSHA", "abc", 0], ["EVALSHA", "0" * 40, 0], ["EVALSHA", "0" * 40, "x"],
    ["SCRIPT"], ["SCRIPT", "LOAD", "return 'loaded'"], ["SCRIPT", "LOAD", "return ("], ["SCRIPT", "LOAD", "a", "b"],
    ["EVALSHA", "E7C2A6DB3A2EAB9CD71B9F0A1F0D5F4F9A4A4A4A", 0],
    ["SCRIPT", "EXISTS"], ["SCRIPT", "EXISTS", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "x"],
    ["SCRIPT", "FLUSH", "now"], ["SCRIPT", "FLUSH", "ASYNC"], ["SCRIPT", "FLUSH"], ["SCRIPT", "KILL"], ["SCRIPT", "no"],
    ["EVAL_RO", "return redis.call('set', KEYS[1], 1)", 1, "same/ro"],
    ["EVAL_RO", "return redis.pcall('publish', 'x', 1)", 0], ["EVAL_RO", "return redis.call('get', KEYS[1])", 1, "same/ro"],
])
def test_commands_about_scripts_answer_as_redis_does(both, words):
    ours, theirs = [c.request(*words) for c in both]
    assert normal(ours) == normal(theirs)


# --- one change ---------------------------------------------------------------------------


def test_what_a_script_does_is_done_as_a_whole(r, name):
    keys = [f"{name}/{i}" for i in range(3)]
    # It breaks off in the middle: nothing stands.
    for end in ("error('no')", "redis.call('nope')", "while true do end"):
        with pytest.raises(redis.ResponseError):
            r.eval(f"redis.call('set', KEYS[1], 1) redis.call('set', KEYS[2], 1) {end}", 3, *keys)
        assert r.exists(*keys) == 0
    # An error that it returns is an answer.
    with pytest.raises(redis.ResponseError, match="MY own"):
        r.eval("redis.call('set', KEYS[1], 1) return redis.error_reply('MY own')", 3, *keys)
    assert r.exists(*keys) == 1
    # It sees its own changes, and others see the last of them.
    assert r.eval("redis.call('del', KEYS[1]) redis.call('set', KEYS[1], 'a') redis.call('set', KEYS[1], 'b') "
                  "redis.call('set', KEYS[2], 'c') redis.call('del', KEYS[2]) "
                  "return {redis.call('get', KEYS[1]), redis.call('exists', KEYS[2])}", 3, *keys) == ["b", 0]
    assert r.mget(keys) == ["b", None, None]
    # Too many keys for one change.
    with pytest.raises(redis.ResponseError, match="at most 64 keys"):
        r.eval("for i = 1, 100 do redis.call('exists', KEYS[1] .. i) end", 1, name)


def test_a_script_is_known_to_the_node_that_received_it(three):
    first, second = three.leader(), three.followers()[0]
    with connect(first) as a, connect(second) as b:
        digest = a.script_load("return 'only here'")
        assert a.script_exists(digest) == [True] and b.script_exists(digest) == [False]
        assert a.evalsha(digest, 0) == "only here"
        with pytest.raises(redis.exceptions.NoScriptError):
            b.evalsha(digest, 0)
        assert b.register_script("return 'only here'")() == "only here"  # sends it when it must
        assert b.script_exists(digest) == [True]
        b.script_flush()
        assert b.script_exists(digest) == [False] and a.script_exists(digest) == [True]


def test_scripts_lose_no_update(three, name):
    """Compare and change by many at once, on all nodes: each of 240 rounds is one of 240."""
    source = """
    local n = tonumber(redis.call('hget', KEYS[1], 'n') or 0)
    redis.call('hset', KEYS[1], 'n', n + 1)
    redis.call('pexpire', KEYS[1], 60000)
    return n + 1
    """
    seen = []

    def count(node):
        with connect(node) as client:
            script = client.register_script(source)
            mine = []
            while len(mine) < 20:
                try:
                    mine.append(script(keys=[name]))
                except redis.ResponseError as error:
                    assert error_word(error) == "TRYAGAIN"  # 8 conflicts; nothing was done
            seen.extend(mine)

    threads = [threading.Thread(target=count, args=(node,)) for node in three for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == list(range(1, 241))


# --- scripts that mean harm -----------------------------------------------------------------


@pytest.mark.parametrize("source", [
    "while true do end",
    "return pcall(function() while true do end end)",
    "local s = 'x' while true do s = s .. s end",
    "return string.rep('x', 2^31)",
    "local s = string.rep('a', 250000) while true do string.find(s, 'ab') end",
    "local t = {} for i = 1, 1e9 do t[i] = {} end",
    "repeat redis.call('exists', 'x') until false",
])
def test_a_script_without_an_end_is_stopped_and_others_are_served(three, source):
    node = three.leader()
    with connect(node) as hostile, connect(node) as other:
        stopped = metric(node, "holdfast_resp_scripts_stopped_total")
        begun = time.monotonic()
        with pytest.raises(redis.ResponseError, match="LIMIT the script was stopped: .*nothing was changed"):
            hostile.eval(source, 0)
        assert time.monotonic() - begun < allowed(1)
        assert other.ping() and hostile.eval("return 'alive'", 0) == "alive"
        assert metric(node, "holdfast_resp_scripts_stopped_total") == stopped + 1


def test_scripts_without_an_end_are_all_stopped_and_others_are_served(three):
    """That one turn of the loop runs one of them, and answers others, is counted in
    tests/unit/test_service_script.c."""
    leader = three.leader()
    stopped = metric(leader, "holdfast_resp_scripts_stopped_total")
    request = b"*3\r\n$4\r\nEVAL\r\n$17\r\nwhile true do end\r\n$1\r\n0\r\n"
    many = [RawClient(socket.AF_INET, ("127.0.0.1", leader.resp_port)) for _ in range(100)]
    for raw in many:
        raw.socket.sendall(request * 3)
    with connect(leader) as other:
        assert other.ping()
    for raw in many:
        for _ in range(3):
            assert raw.value().startswith(b"-LIMIT ")
        raw.close()
    assert metric(leader, "holdfast_resp_scripts_stopped_total") - stopped == 300


def metric(node, name):
    lines = node.request("GET", "/metrics").text.splitlines()
    return int([line for line in lines if line.startswith(name + " ")][0].split()[1])


def test_many_scripts_do_not_fill_the_node(three):
    leader = three.leader()

    def resident():
        with open(f"/proc/{leader.process.pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * 4096

    with connect(leader) as client:
        filler = "-- " + "x" * 10000
        pipe = client.pipeline(transaction=False)
        first = client.script_load("return 'first'")
        before = resident()
        for i in range(3000):
            pipe.script_load(f"return {i} {filler}")
            if i % 100 == 99:
                pipe.execute()
        assert client.script_exists(first) == [False]
        assert resident() - before < (192 if SANITIZED else 48) << 20
        assert client.eval(RELEASE, 1, "nobody", "x") == 0

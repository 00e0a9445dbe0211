"""Hostile and clumsy clients at the real port: each mistake has its own answer, nothing is smuggled in
behind it, and the node goes on."""

import http.client
import io
import json
import socket
import tempfile
import time

import pytest

from conftest import check_log
from harness import API, PATIENCE, Cluster, Ports, allowed, wait_until

ACQUIRE = "/api/v1/locks/{}/acquire"
BODY = json.dumps({"client_id": "x", "ttl_ms": 60000}).encode()


class Shared(io.BufferedReader):
    """What is read of one socket, for several answers: what was read ahead belongs to the next."""

    def close(self):
        pass

    def makefile(self, _):
        return self


class Raw:
    """A connection on which bytes are sent as they are."""

    def __init__(self, node):
        self.socket = socket.create_connection((node.client_host, node.client_port), PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.input = Shared(socket.SocketIO(self.socket, "r"))

    def send(self, data):
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it was refused before its end: the answer is there to be read
        return self

    def read(self, method="POST"):
        response = http.client.HTTPResponse(self.input, method=method)
        response.begin()
        text = response.read()
        return response, json.loads(text) if text.startswith(b"{") else text

    def is_closed(self):
        try:
            return self.input.read(1) == b""
        except ConnectionResetError:
            return True

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()


def post(name, body=BODY, head=b""):
    return (f"POST {ACQUIRE.format(name)} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
            .encode() + head + b"\r\n" + body)


@pytest.fixture(scope="module")
def node():
    """One for all: whatever was sent to it, it must still be well at the end."""
    with Ports(), tempfile.TemporaryDirectory(prefix="holdfast-test-") as folder:
        node = Cluster(folder, 1).start().nodes[1]
        yield node
        assert node.acquire("well").json["acquired"]
        assert node.stop() == 0, node.log()
        check_log(node)


LINE = f"POST {ACQUIRE.format('a')} HTTP/1.1\r\n".encode()
HOST = b"Host: localhost\r\n"
FRAMING = {
    "length and chunked": (LINE + HOST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
                           b"0\r\n\r\n", 400, "http_length_and_chunked"),
    "two lengths": (LINE + HOST + b"Content-Length: 4\r\nContent-Length: 5\r\n\r\n",
                    400, "http_content_length_repeated"),
    "a length twice the same": (LINE + HOST + b"Content-Length: 4\r\nContent-Length: 4\r\n\r\n",
                                400, "http_content_length_repeated"),
    "a length with a sign": (LINE + HOST + b"Content-Length: +4\r\n\r\n", 400, "http_content_length"),
    "a list of lengths": (LINE + HOST + b"Content-Length: 4, 4\r\n\r\n", 400, "http_content_length"),
    "a negative length": (LINE + HOST + b"Content-Length: -1\r\n\r\n", 400, "http_content_length"),
    "chunked twice": (LINE + HOST + b"Transfer-Encoding: chunked, chunked\r\n\r\n",
                      501, "http_transfer_encoding"),
    "gzip": (LINE + HOST + b"Transfer-Encoding: gzip, chunked\r\n\r\n", 501, "http_transfer_encoding"),
    "almost chunked": (LINE + HOST + b"Transfer-Encoding: xchunked\r\n\r\n",
                       501, "http_transfer_encoding"),
    "a space before the colon": (LINE + HOST + b"Content-Length : 4\r\n\r\n",
                                 400, "http_space_before_colon"),
    "a folded header": (LINE + HOST + b"X: a\r\n b\r\n\r\n", 400, "http_folded_header"),
    "a bare LF": (LINE + HOST + b"X: a\nContent-Length: 4\r\n\r\n", 400, "http_bare_lf"),
    "a bare CR": (LINE + HOST + b"X: a\rContent-Length: 4\r\n\r\n", 400, "http_control_character"),
    "a bare CR at the end of a line": (LINE + HOST + b"X: a\r\r\n\r\n", 400, "http_control_character"),
    "a folded length": (LINE + HOST + b"Content-Length:\r\n 4\r\n\r\n", 400, "http_content_length"),
    "a folded first header": (LINE + b" " + HOST + b"\r\n", 400, "http_folded_header"),
    "chunked with an empty word": (LINE + HOST + b"Transfer-Encoding: ,chunked\r\n\r\n", 501, "http_transfer_encoding"),
    "chunked with a vertical tab": (LINE + HOST + b"Transfer-Encoding: \x0bchunked\r\n\r\n", None, None),
    "encodings in two lines": (LINE + HOST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n",
                               501, "http_transfer_encoding"),
    "length in hexadecimal": (LINE + HOST + b"Content-Length: 0x4\r\n\r\n", 400, "http_content_length"),
    "no length": (LINE + HOST + b"Content-Length: \r\n\r\n", 400, "http_content_length"),
    "a length above 2^64": (LINE + HOST + b"Content-Length: 18446744073709551618\r\n\r\n", 413, "limit_body"),
    "a chunk with a sign": (LINE + HOST + b"Transfer-Encoding: chunked\r\n\r\n+2\r\n{}\r\n0\r\n\r\n", 400, "http_chunk"),
    "a chunk that ends with LF": (LINE + HOST + b"Transfer-Encoding: chunked\r\n\r\n2\n{}\r\n0\r\n\r\n", 400, "http_bare_lf"),
    "a target with a user": (LINE.replace(b"POST /", b"POST http://localhost@evil.example/") + HOST + b"\r\n", 400, "http_target"),
    "a target of another scheme": (LINE.replace(b"POST /", b"POST file://localhost/") + HOST + b"\r\n", 400, "http_target"),
    "a host with a path": (LINE + b"Host: localhost/x\r\n\r\n", 400, "http_host"),
    "a list of hosts": (LINE + b"Host: localhost, evil.example\r\n\r\n", 400, "http_host"),
    "a NUL": (LINE + HOST + b"X: a\0b\r\n\r\n", 400, "http_nul"),
    "a header without a colon": (LINE + HOST + b"nonsense\r\n\r\n", 400, "http_header"),
    "no host": (LINE + b"\r\n", 400, "http_host"),
    "two hosts": (LINE + HOST + HOST + b"\r\n", 400, "http_host"),
    "a chunk that is no number": (LINE + HOST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
                                  400, "http_chunk"),
    "a chunk that does not end": (LINE + HOST + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}xx\r\n",
                                  400, "http_chunk"),
    "a huge chunk": (LINE + HOST + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff1\r\n",
                     None, None),
    "chunked in HTTP/1.0": (LINE.replace(b"1.1", b"1.0") + HOST +
                            b"Transfer-Encoding: chunked\r\n\r\n", 400, "http_chunked_in_http10"),
    "an unknown version": (LINE.replace(b"1.1", b"2.7") + HOST + b"\r\n", 505, "http_version"),
    "an unknown method": (b"BREW / HTTP/1.1\r\n" + HOST + b"\r\n", 501, "http_method"),
    "no request at all": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", None, None),
    "an expectation": (LINE + HOST + b"Expect: wonders\r\nContent-Length: 2\r\n\r\n{}",
                       417, "http_expect"),
    "a long line": (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n" + HOST + b"\r\n",
                    414, "limit_request_line"),
    "a flood of headers": (LINE + HOST + b"X: y\r\n" * 65 + b"\r\n", 431, "limit_headers"),
    "a flood in one header": (LINE + HOST + b"X: " + b"y" * 20000 + b"\r\n\r\n",
                              431, "limit_header_bytes"),
    "a flood without end": (LINE + HOST + b"X: " + b"y" * 3000000, 431, "limit_header_bytes"),
    "a large body": (LINE + HOST + b"Content-Length: 1048577\r\n\r\n", 413, "limit_body"),
    "a large body in chunks": (LINE + HOST + b"Transfer-Encoding: chunked\r\n\r\n" +
                               b"40000\r\n" + b" " * 0x40000 + b"\r\n" +
                               (b"40000\r\n" + b" " * 0x40000 + b"\r\n") * 4, 413, "limit_body"),
}


@pytest.mark.sanitized
@pytest.mark.parametrize("mistake", FRAMING)
def test_a_request_that_could_be_read_in_two_ways_ends_the_connection(node, mistake):
    data, status, code = FRAMING[mistake]
    with Raw(node) as raw:
        raw.send(data + post("smuggled"))
        response, said = raw.read()
        if status is None:
            assert 400 <= response.status <= 505, said
        else:
            assert (response.status, said["error"]["code"]) == (status, code), said
        assert response.getheader("Connection") == "close"
        assert raw.is_closed(), "nothing behind it is read"
    assert not node.show("smuggled").json["held"]


@pytest.mark.parametrize("line, host, status", [
    (b"GET /livez", b"127.0.0.1", 200),
    (b"GET /livez", b"[::1]:4653", 200),
    (b"GET /livez", b"LOCALHOST:1", 200),
    (b"GET /livez", b"evil.example", 421),
    (b"GET /livez", b"localhost.evil.example", 421),
    (b"GET http://evil.example/livez", b"localhost", 421),  # RFC 9112: the target decides
    (b"GET http://localhost/livez", b"evil.example", 200),
])
def test_a_host_that_is_not_ours_is_misdirected(node, line, host, status):
    """DNS rebinding: a page of evil.example whose name resolves to this node sends its own name."""
    with Raw(node) as raw:
        for _ in range(2):
            response, said = raw.send(line + b" HTTP/1.1\r\nHost: " + host + b"\r\n\r\n").read()
            assert response.status == status, said
            assert status == 200 or said["error"]["code"] == "misdirected"


BODIES = {
    "no JSON": (b"client_id=x", "json_malformed"),
    "half of it": (b'{"client_id": "x"', "json_malformed"),
    "more than one": (b'{"client_id": "x"} {}', "json_malformed"),
    "a comma too many": (b'{"client_id": "x",}', "json_malformed"),
    "a list": (b"[]", "json_not_object"),
    "nothing": (b"", None),
    "no UTF-8": (b'{"client_id": "\xff"}', "json_not_utf8"),
    "UTF-8 that is too long": (b'{"client_id": "\xc0\xaf"}', "json_not_utf8"),
    "half a surrogate pair": (b'{"client_id": "\\ud800"}', None),
    "a NUL": (b'{"client_id": "a\\u0000"}', "json_nul"),
    "too deep": (b'{"metadata": ' + b"[" * 40 + b"]" * 40 + b"}", "limit_json_depth"),
    "an unknown field": (b'{"client_id": "x", "tll_ms": 1}', "field_unknown"),
    "a field twice": (b'{"client_id": "x", "client_id": "y"}', "field_repeated"),
    "a field that is missing": (b'{"ttl_ms": 60000}', None),
    "a number as text": (b'{"client_id": "x", "ttl_ms": "60000"}', "field_type"),
    "text as a number": (b'{"client_id": 7}', "field_type"),
    "a fraction": (b'{"client_id": "x", "ttl_ms": 60000.5}', "field_type"),
    "a negative time": (b'{"client_id": "x", "ttl_ms": -1}', None),
    "a huge number": (b'{"client_id": "x", "ttl_ms": 1' + b"0" * 400 + b"}", None),
    "an unknown mode": (b'{"client_id": "x", "mode": "sideways"}', None),
    "a name that is too long": (b'{"client_id": "' + b"x" * 256 + b'"}', None),
    "a control character": (b'{"client_id": "a\\nb"}', "invalid_client_id"),
}


@pytest.mark.sanitized
@pytest.mark.parametrize("mistake", BODIES)
def test_a_body_that_is_wrong_is_refused_and_the_connection_goes_on(node, mistake):
    body, code = BODIES[mistake]
    with Raw(node) as raw:
        for _ in range(2):
            response, said = raw.send(post("wrong", body)).read()
            assert response.status == 400, said
            API.check("POST", ACQUIRE.format("wrong"), 400, said)
            assert code is None or said["error"]["code"] == code, said
            assert said["error"]["message"]
        # Pipelined behind a wrong one, a right one is what it is; and each gets its own answer.
        name = "right-" + mistake.replace(" ", "-")
        raw.send(post("wrong", body) + post(name) + post(name))
        assert raw.read()[0].status == 400
        assert raw.read()[1]["acquired"] is True
        assert raw.read()[1]["acquired"] is False
    assert not node.show("wrong").json["held"]


@pytest.mark.parametrize("path, code", [
    ("/api/v1/locks/a%2/acquire", "uri_escape"),
    ("/api/v1/locks/a%ff/acquire", "invalid_name"),
    ("/api/v1/locks/a%00/acquire", None),
    ("/api/v1/locks/a//b/acquire", "invalid_name"),
    ("/api/v1/locks/../acquire", "invalid_name"),
    ("/api/v1/locks/a%0ab/acquire", "invalid_name"),
    ("/api/v1/locks/" + "n" * 513 + "/acquire", "invalid_name"),
])
def test_names_that_are_none_are_refused(node, path, code):
    answer = node.request("POST", path, {"client_id": "x"})
    assert answer.status == 400 and code in (None, answer.code), answer


def test_what_is_not_there_and_methods_that_do_not_fit(node):
    assert node.request("GET", "/nonsense").code == "not_found"
    answer = node.request("DELETE", "/api/v1/locks/a/acquire")
    assert answer.status == 405 and "POST" in answer.headers["Allow"], answer
    assert node.request("GET", "/api/v1/locks?limit=0").status == 400
    assert node.request("GET", "/api/v1/locks?nonsense=1").code == "field_unknown"
    assert node.request("GET", "/api/v1/locks?" + "&".join(f"a{i}=1" for i in range(20))).status == 400


def test_expect_continue_and_chunks_and_one_byte_at_a_time_are_understood(node):
    with Raw(node) as raw:
        raw.send(LINE.replace(b"/a/", b"/patient/") + HOST + b"Expect: 100-continue\r\n" +
                 f"Content-Length: {len(BODY)}\r\n\r\n".encode())
        assert raw.socket.recv(100).startswith(b"HTTP/1.1 100 ")
        assert raw.send(BODY).read()[1]["acquired"]
        chunks = b"".join(b"%x\r\n%c\r\n" % (1, byte) for byte in BODY) + b"0\r\n\r\n"
        raw.send(LINE.replace(b"/a/", b"/chunks/") + HOST + b"Transfer-Encoding: chunked\r\n\r\n" +
                 chunks)
        assert raw.read()[1]["acquired"]
        for byte in post("bytes"):
            raw.send(bytes([byte]))
        assert raw.read()[1]["acquired"]


def test_many_clients_in_pieces_at_once_keep_nobody_waiting(node):
    raws = [Raw(node) for _ in range(200)]
    for i, raw in enumerate(raws):
        raw.send(post(f"piece-{i}")[:50])
    start = time.monotonic()
    assert node.acquire("meanwhile").json["acquired"]
    assert time.monotonic() - start < allowed(1)
    for i, raw in enumerate(raws):
        raw.send(post(f"piece-{i}")[50:])
    for raw in raws:
        assert raw.read()[1]["acquired"]
        raw.socket.close()


@pytest.mark.long
def test_slow_loris_gets_an_error_and_is_cut_off_and_others_are_served(node):
    begun = time.monotonic()
    lines = [Raw(node).send(LINE + HOST) for _ in range(50)]
    bodies = [Raw(node).send(post("slow")[:-5]) for _ in range(50)]
    silent = [Raw(node) for _ in range(50)]
    while time.monotonic() - begun < 8:  # a byte now and then does not buy time
        for raw in lines:
            raw.send(b"X")
        for raw in bodies[:3]:
            raw.send(b" ")
        assert node.acquire(f"while-{time.monotonic()}").json["acquired"]
        lines[0].socket.settimeout(0.5)
        try:
            assert lines[0].socket.recv(1, socket.MSG_PEEK) == b"", "not before its time"
        except TimeoutError:
            pass
        lines[0].socket.settimeout(PATIENCE)
    for raw in [*lines, *bodies[3:]]:
        response, said = raw.read()
        assert (response.status, said["error"]["code"]) == (408, "request_timeout")
        assert raw.is_closed()
    assert time.monotonic() - begun < 10 + allowed(3)
    for raw in silent:  # nothing was begun: these may stay
        assert raw.send(post(f"silent-{id(raw)}")).read()[1]["acquired"]
        raw.socket.close()
    for raw in bodies[:3]:
        raw.socket.close()
    assert not node.show("slow").json["held"]


def test_a_client_that_goes_while_it_waits_leaves_the_queue(node):
    token = node.acquire("queue").json["fencing_token"]
    body = json.dumps({"client_id": "gone", "wait_timeout_ms": 60000}).encode()
    with Raw(node) as raw:
        raw.send(post("queue", body))
        wait_until(lambda: node.show("queue").json["queue_length"] == 1, "it waits")
    wait_until(lambda: node.show("queue").json["queue_length"] == 0, "it left (S7.2)")
    assert node.release("queue", token).json["released"]
    assert not node.show("queue").json["held"]

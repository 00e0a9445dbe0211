"""The fence for services over HTTP, holdfast.fence.web: WSGI in gunicorn and ASGI in uvicorn, each with two processes."""

import asyncio
import io
import json
import threading

import pytest

import harness
from holdfast.fence import FenceBusy, MemoryFence, web
from servers import Web


@pytest.fixture(scope="module", params=["wsgi", "asgi"])
def service(request, folder):
    with harness.Ports(), Web(folder / request.param, request.param) as running:
        yield running


def code_of(answer):
    status, text, _ = answer
    return status, json.loads(text)["error"]["code"]


def test_a_writer_that_was_stopped_past_its_ttl_is_refused(scenario, service):
    refusal = scenario.run("stale/web", "Web", {"address": service.address, "statuses": [412]},
                           lambda: service.read("bare"), lambda: service.read("fenced"))
    assert "412" in refusal and "stale_token" in refusal


def test_the_processes_of_a_server_share_the_fence(service):
    """More requests than processes, each on a connection of its own."""
    assert service.request("POST", "/fenced", b"new", {"Holdfast-Token": "9007199254740000"})[0] == 200
    for _ in range(12):
        assert code_of(service.request("POST", "/fenced", b"old", {"Holdfast-Token": "9007199254739999"})) == (412, "stale_token")
    assert service.read("fenced") == "new"


@pytest.mark.parametrize("headers, expected", [
    ({}, (428, "token_missing")), ({"Holdfast-Token": "x"}, (400, "invalid_token")), ({"Holdfast-Token": "0"}, (400, "invalid_token")),
    ({"Holdfast-Token": "-5"}, (400, "invalid_token")), ({"Holdfast-Token": "9007199254740992"}, (400, "invalid_token")),
    ({"Holdfast-Token": "1" * 17}, (400, "invalid_token")),
])
def test_a_request_without_a_valid_token_changes_nothing(service, headers, expected):
    before = service.read("fenced")
    assert code_of(service.request("POST", "/fenced", b"never", headers)) == expected
    assert service.read("fenced") == before


def test_reads_and_other_paths_pass(service):
    assert service.request("GET", "/fenced")[0] == 200
    assert service.request("POST", "/bare", b"free")[:2] == (200, "written\n")
    assert service.read("bare") == "free"


# --- without a server: what a network does not show -----------------------------------------


def call_wsgi(app, token, body=b"", **more):
    head = []
    environ = {"REQUEST_METHOD": "POST", "PATH_INFO": "/x", "CONTENT_LENGTH": str(len(body)), "wsgi.input": io.BytesIO(body),
               "HTTP_HOLDFAST_TOKEN": token, **more}
    answer = b"".join(app(environ, lambda status, headers: head.append((status, dict(headers)))))
    return head[0][0], head[0][1], answer


def test_wsgi_holds_the_guard_until_the_last_piece_and_close():
    seen = []
    fence = MemoryFence()

    class Answer:
        def __iter__(self):
            for piece in (b"a", b"b"):
                with pytest.raises(FenceBusy):
                    with fence.guard("r", 9, 0):
                        pass
                yield piece

        def close(self):
            seen.append("closed")

    def app(environ, start_response):
        assert environ["holdfast.token"] == 5 and environ["wsgi.input"].read() == b"body"
        start_response("201 Created", [("X", "y")])(b"written ")
        return Answer()

    status, headers, answer = call_wsgi(web.FenceWSGI(app, fence, lambda environ: "r"), "5", b"body")
    assert (status, headers, answer, seen) == ("201 Created", {"X": "y"}, b"written ab", ["closed"])
    with fence.guard("r", 9, 0):
        pass


def test_wsgi_refuses_a_body_that_is_shorter_than_it_says_and_one_without_a_length():
    app = web.FenceWSGI(lambda *_: 1 / 0, MemoryFence(), lambda environ: "r")
    assert call_wsgi(app, "5", b"abc", CONTENT_LENGTH="4")[0].startswith("400")
    assert call_wsgi(app, "5", b"abc", CONTENT_LENGTH="x")[0].startswith("400")
    assert call_wsgi(app, "5", b"abc", HTTP_TRANSFER_ENCODING="chunked")[0].startswith("411")


def test_a_large_body_is_refused_and_does_not_reach_the_handler():
    app = web.FenceWSGI(lambda *_: 1 / 0, MemoryFence(), lambda environ: "r", max_body=3)
    assert call_wsgi(app, "5", b"1234")[0].startswith("413")
    assert call_wsgi(app, "5", b"1234", HTTP_TRANSFER_ENCODING="chunked", **{"wsgi.input_terminated": True})[0].startswith("413")

    async def run(scope, message):
        assert message["body"] == b"123"

    app = web.FenceASGI(answering(run), MemoryFence(), lambda scope: "r", max_body=3)
    assert call_asgi(app, b"5", (b"12", b"34"))[0] == 413
    assert call_asgi(app, b"5", (b"12", b"3"))[0] == 200


def test_wsgi_reports_other_writers_that_take_too_long():
    fence = MemoryFence()
    with fence.guard("r", 5):
        status, headers, body = call_wsgi(web.FenceWSGI(lambda *_: 1 / 0, fence, lambda environ: "r", wait=0.02), "5")
    assert status.startswith("503") and headers["Retry-After"] == "1" and json.loads(body)["error"]["code"] == "fence_busy"


def call_asgi(app, token, parts=(b"body",)):
    return asyncio.run(asgi(app, token, parts))


async def asgi(app, token, parts=(b"body",)):
    sent = []
    messages = [{"type": "http.request", "body": part, "more_body": i + 1 < len(parts)} for i, part in enumerate(parts)]

    async def receive():
        return messages.pop(0) if messages else {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    await app({"type": "http", "method": "POST", "path": "/x", "headers": [(b"holdfast-token", token)]}, receive, send)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])


def answering(run):
    async def app(scope, receive, send):
        await run(scope, await receive())
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"done"})

    return app


def test_asgi_collects_the_body_and_gives_the_token():
    async def run(scope, message):
        assert (scope["holdfast.token"], message) == (5, {"type": "http.request", "body": b"ab", "more_body": False})

    app = web.FenceASGI(answering(run), MemoryFence(), lambda scope: "r")
    assert call_asgi(app, b"5", (b"a", b"b")) == (200, b"done")


def test_asgi_runs_one_request_of_a_resource_at_a_time_in_the_order_of_tokens():
    inside, order = [], []

    async def run(scope, message):
        inside.append(1)
        assert len(inside) == 1
        await asyncio.sleep(0.002)
        order.append(scope["holdfast.token"])
        inside.pop()

    app = web.FenceASGI(answering(run), MemoryFence(), lambda scope: "r", wait=harness.PATIENCE)

    async def many():
        return [status for status, _ in await asyncio.gather(*[asgi(app, str(i % 7 + 1).encode()) for i in range(40)])]

    statuses = asyncio.run(many())
    assert set(statuses) <= {200, 412} and statuses.count(200) == len(order)
    assert order == sorted(order) and order[-1] == 7


def test_asgi_leaves_the_guard_when_a_handler_fails_or_a_request_is_cancelled():
    fence = MemoryFence()
    reached = threading.Event()

    async def fail(scope, message):
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError):
        call_asgi(web.FenceASGI(answering(fail), fence, lambda scope: "r"), b"5")

    async def hang(scope, message):
        reached.set()
        await asyncio.sleep(harness.PATIENCE)

    async def cancel():
        task = asyncio.ensure_future(asgi(web.FenceASGI(answering(hang), fence, lambda scope: "r"), b"5"))
        while not reached.is_set():
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    with fence.guard("r", 5, 0):
        pass


def test_asgi_reports_other_writers_that_take_too_long_and_a_client_that_leaves():
    fence = MemoryFence()

    async def run(scope, message):
        raise AssertionError("reached")

    app = web.FenceASGI(answering(run), fence, lambda scope: "r", wait=0.02)
    with fence.guard("r", 5):
        status, body = call_asgi(app, b"5")
    assert status == 503 and b"fence_busy" in body
    assert call_asgi(app, b"5", ())[0] == 408

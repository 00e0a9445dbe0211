"""Denied is 77. No node denies anything yet, for want of credentials; so these are answered by stand-ins
that do, with the words of the API."""

import json
import socket
import threading
from concurrent import futures

import grpc
import pytest

from harness import run


@pytest.fixture
def denying_http():
    """Answers every request with 403."""
    body = json.dumps({"error": {"code": "denied", "message": "this needs the rights of an operator"}})
    answer = (f"HTTP/1.1 403 Forbidden\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
              f"\r\n\r\n{body}").encode()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                with client:
                    client.recv(65536)
                    client.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
    thread.join()


class Denying(grpc.GenericRpcHandler):
    """Every call, of whatever kind, is refused."""

    def service(self, handler_call_details):
        def refuse(_, context):
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "this client may not do that")

        return grpc.stream_stream_rpc_method_handler(refuse)


@pytest.fixture
def denying_grpc():
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=4))
    server.add_generic_rpc_handlers([Denying()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None).wait()


@pytest.mark.parametrize("line", ["ls", "audit", "force-unlock x --reason r", "revoke x --reason r",
                                  "sessions", "show x", "watch", "top --once", "elect x --listen"])
def test_a_command_over_http_ends_with_77(denying_http, line):
    done = run(*line.split(), "--endpoints", denying_http)
    assert done.returncode == 77, done
    assert done.stderr == "holdfast: this needs the rights of an operator (denied)\n"
    assert done.stdout == ""


@pytest.mark.parametrize("line", ["acquire x", "acquire -n x", "renew hf1.1024.aa", "release hf1.1024.aa",
                                  "session open", "session renew aa", "session close aa"])
def test_a_lock_of_a_script_ends_with_77(denying_http, line):
    done = run(*line.split(), "--endpoints", denying_http)
    assert done.returncode == 77, done
    assert "this needs the rights of an operator (denied)\n" in done.stderr
    assert done.stdout in ("", "(exit 77)\n")


@pytest.mark.parametrize("line", ["lock x -- echo never", "elect x -- echo never"])
def test_what_holds_a_lock_ends_with_77(denying_grpc, line):
    command, name, *rest = line.split()
    done = run(command, name, "--endpoints", denying_grpc, *rest)
    assert done.returncode == 77, done
    assert done.stderr.startswith("holdfast: x: ") and "this client may not do that" in done.stderr
    assert done.stdout == ""

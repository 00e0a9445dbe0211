"""The fence for services over gRPC, holdfast.fence.grpc: a server and clients of grpcio."""

import subprocess
import sys

import grpc
import pytest

import harness
from conftest import ROOT
from holdfast.fence import FenceBusy, FileFence

NEWEST = 2 ** 53 - 1


class Service:
    def __init__(self, folder):
        folder.mkdir()
        self.folder = folder
        self.process = subprocess.Popen(harness.dies_with_us([sys.executable, ROOT / "tests/fences/grpc_service.py", folder]),
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.address = f"127.0.0.1:{int(self.process.stdout.readline())}"
        self.channel = grpc.insecure_channel(self.address)

    def read(self, name):
        return (self.folder / name).read_text(encoding="ascii")

    def call(self, kind, method, request, *tokens):
        metadata = tuple(("holdfast-token", token) for token in tokens)
        return getattr(self.channel, kind)(f"/test.Values/{method}")(request, timeout=harness.PATIENCE, metadata=metadata)

    def end(self):
        self.channel.close()
        self.process.stdin.close()
        self.process.wait(harness.PATIENCE)


@pytest.fixture
def service(tmp_path):
    running = Service(tmp_path / "service")
    yield running
    running.end()


def refusal_of(call):
    with pytest.raises(grpc.RpcError) as error:
        call()
    return error.value.code(), dict(error.value.trailing_metadata()).get("holdfast-error")


def test_a_writer_that_was_stopped_past_its_ttl_is_refused(scenario, service):
    scenario.run("stale/grpc", "Grpc", service.address, lambda: service.read("bare"), lambda: service.read("fenced"))


@pytest.mark.parametrize("tokens, code", [((), "token_missing"), (("x",), "invalid_token"), (("0",), "invalid_token"),
                                          ((str(NEWEST + 1),), "invalid_token"), (("5", "6"), "invalid_token")])
def test_a_call_without_a_valid_token_changes_nothing(service, tokens, code):
    assert refusal_of(lambda: service.call("unary_unary", "Set", b"never", *tokens)) == (grpc.StatusCode.INVALID_ARGUMENT, code)
    assert not (service.folder / "fenced").exists()


def test_answers_in_a_stream_are_fenced_too(service):
    assert list(service.call("unary_stream", "SetAndList", b"ab", "7")) == [b"a", b"b"]
    assert refusal_of(lambda: list(service.call("unary_stream", "SetAndList", b"cd", "6"))) == (grpc.StatusCode.FAILED_PRECONDITION, "stale_token")
    assert service.read("fenced") == "ab"


def test_a_stream_of_requests_cannot_be_fenced_and_is_refused(service):
    assert refusal_of(lambda: service.call("stream_unary", "SetMany", iter([b"x"]), "7")) == (grpc.StatusCode.UNIMPLEMENTED, "not_fenced")
    assert not (service.folder / "fenced").exists()


def test_calls_without_a_resource_pass(service):
    assert service.call("unary_unary", "SetBare", b"free") == b"ok"
    assert list(service.call("unary_stream", "ListBare", b"")) == [b"free"]
    assert refusal_of(lambda: service.call("unary_unary", "Unknown", b""))[0] == grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize("kind, method", [("unary_unary", "Set"), ("unary_stream", "SetAndList")])
def test_the_handler_runs_inside_the_guard(service, kind, method):
    (service.folder / "hold").touch()
    older = getattr(service.channel, kind)(f"/test.Values/{method}")
    call = (older.future if kind == "unary_unary" else older)(b"older", timeout=harness.PATIENCE, metadata=(("holdfast-token", "5"),))
    harness.wait_until((service.folder / "waiting").exists, "the handler runs")
    with pytest.raises(FenceBusy):
        with FileFence(service.folder / "marks").guard("stale/grpc", 6, 0.05):
            pass
    (service.folder / "hold").unlink()
    assert (call.result() if kind == "unary_unary" else b"".join(call)) in (b"ok", b"older")
    with FileFence(service.folder / "marks").guard("stale/grpc", 6):
        assert service.read("fenced") == "older"


def test_other_writers_that_take_too_long_are_reported(service):
    with FileFence(service.folder / "marks").guard("stale/grpc", 5):
        assert refusal_of(lambda: service.call("unary_unary", "Set", b"x", "5")) == (grpc.StatusCode.UNAVAILABLE, "fence_busy")
    assert service.call("unary_unary", "Set", b"x", "5") == b"ok"

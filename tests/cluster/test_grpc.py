"""gRPC and HTTP/2 on the client port, asked by clients that we did not write: grpcio with stubs made by
protoc, curl, nghttp and h2load."""

import importlib
import json
import re
import shutil
import subprocess
import sys
import threading
import time

import pytest

from harness import PATIENCE, ROOT, wait_until

grpc = pytest.importorskip("grpc")


@pytest.fixture(scope="session")
def stubs(tmp_path_factory):
    """The modules that protoc makes of proto/, in a folder that is gone afterwards."""
    folder = tmp_path_factory.mktemp("stubs")
    plugin = shutil.which("grpc_python_plugin")
    assert plugin, "grpc_python_plugin is missing: scripts/setup test"
    names = [f"holdfast/v1/{name}.proto" for name in ("lock", "election", "admin")]
    names += ["grpc/health/v1/health.proto", "grpc/reflection/v1alpha/reflection.proto"]
    subprocess.run(
        ["protoc", f"--plugin=protoc-gen-grpc_python={plugin}", f"--python_out={folder}",
         f"--grpc_python_out={folder}", "-I", ROOT / "proto", "-I", "/usr/include", *names],
        check=True)
    # The folder grpc/ would stand in the way of the package grpc, so its modules get other names.
    for old in (folder / "grpc").rglob("*.py"):
        new = folder / f"standard_{old.name}"
        text = old.read_text()
        new.write_text(re.sub(r"^from grpc\.\S+ import (\w+_pb2)", r"import standard_\1", text, flags=re.M))
    shutil.rmtree(folder / "grpc")
    sys.path.insert(0, str(folder))

    class Stubs:
        lock = importlib.import_module("holdfast.v1.lock_pb2")
        lock_grpc = importlib.import_module("holdfast.v1.lock_pb2_grpc")
        election = importlib.import_module("holdfast.v1.election_pb2")
        election_grpc = importlib.import_module("holdfast.v1.election_pb2_grpc")
        admin = importlib.import_module("holdfast.v1.admin_pb2")
        admin_grpc = importlib.import_module("holdfast.v1.admin_pb2_grpc")
        health = importlib.import_module("standard_health_pb2")
        health_grpc = importlib.import_module("standard_health_pb2_grpc")
        reflection = importlib.import_module("standard_reflection_pb2")
        reflection_grpc = importlib.import_module("standard_reflection_pb2_grpc")

    yield Stubs
    sys.path.remove(str(folder))


def channel_to(node, **options):
    return grpc.insecure_channel(
        f"127.0.0.1:{node.client_port}",
        options=[("grpc.use_local_subchannel_pool", 1), *options.items()])


def seconds(duration):
    return duration.seconds + duration.nanos / 1e9


def code_of(error):
    """The status, and the stable code of ours."""
    trailers = dict(error.trailing_metadata() or ())
    return error.code(), trailers.get("holdfast-error-code")


@pytest.fixture
def node(make_cluster):
    return make_cluster(1).nodes[1]


def test_lock_and_unlock(node, stubs):
    with channel_to(node) as channel:
        service = stubs.lock_grpc.LockServiceStub(channel)
        request = stubs.lock.LockRequest(resource_id="a/b", client_id="me", owner="o")
        request.ttl.seconds = 20
        answer, call = service.Lock.with_call(request, timeout=PATIENCE)
        assert answer.acquired and answer.lock_handle.fence_token > 0
        assert answer.lock_handle.resource_id == "a/b" and len(answer.lock_handle.lease_id) == 32
        assert 19 < seconds(answer.lock_handle.expires_in) <= 20
        assert dict(call.initial_metadata())["holdfast-leader"] == f"127.0.0.1:{node.client_port}"
        refused = service.Lock(stubs.lock.LockRequest(resource_id="a/b", client_id="you"))
        assert not refused.acquired and refused.reason == stubs.lock.HELD
        assert refused.holder.client_id == "me" and refused.holder.owner == "o"
        token = answer.lock_handle.fence_token
        wrong = service.Unlock(stubs.lock.UnlockRequest(resource_id="a/b", fence_token=token + 1, client_id="me"))
        assert not wrong.released and wrong.reason == stubs.lock.NOT_OWNER
        right = service.Unlock(stubs.lock.UnlockRequest(resource_id="a/b", fence_token=token, client_id="me"))
        assert right.released and right.reason == stubs.lock.OK

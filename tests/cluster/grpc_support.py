"""What the tests of gRPC share: the stubs that protoc makes, channels, a node, and the stream of a session."""

import importlib
import re
import shutil
import subprocess
import sys
import threading

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


class Stream:
    """A Session stream: requests as they come, answers in a list of their own."""

    def __init__(self, node, stubs, first):
        self.stubs = stubs
        self.channel = channel_to(node)
        self.requests = []
        self.changed = threading.Condition()
        self.answers = []
        self.error = None
        self.over = False
        self.call = stubs.lock_grpc.LockServiceStub(self.channel).Session(self.words())
        self.send(**first)
        self.thread = threading.Thread(target=self.listen, daemon=True)
        self.thread.start()

    def words(self):
        at = 0
        while True:
            with self.changed:
                while at == len(self.requests):
                    self.changed.wait()
                word = self.requests[at]
            at += 1
            if word is None:
                return
            yield word

    def listen(self):
        try:
            for answer in self.call:
                with self.changed:
                    self.answers.append(answer)
        except grpc.RpcError as error:
            self.error = error
        self.over = True

    def send(self, **what):
        with self.changed:
            self.requests.append(self.stubs.lock.SessionRequest(**what) if what else None)
            self.changed.notify_all()

    def wait(self, kind, which=lambda answer: True, seconds=PATIENCE):
        """The first answer of this kind, which is taken out."""

        def found():
            with self.changed:
                for i, answer in enumerate(self.answers):
                    if answer.WhichOneof("response") == kind and which(getattr(answer, kind)):
                        del self.answers[i]
                        return getattr(answer, kind)
            assert not self.over, f"the stream is over: {self.error}"
            return None

        return wait_until(found, f"an answer of kind {kind}", seconds)

    def break_off(self):
        self.call.cancel()
        self.channel.close()
        self.send()


def open_session(node, stubs, ttl=30, **more):
    opening = stubs.lock.SessionRequest.Open(client_id="me", **more)
    opening.ttl.FromNanoseconds(int(ttl * 1e9))
    stream = Stream(node, stubs, {"open": opening})
    return stream, stream.wait("opened")

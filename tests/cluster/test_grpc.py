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

    def wait(self, kind, which=lambda answer: True, seconds=10):
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


def test_a_session_keeps_its_locks_and_its_close_gives_them_back(node, stubs):
    stream, opened = open_session(node, stubs, ttl=1.5)
    assert seconds(opened.ttl) == 1.5 and seconds(opened.keep_alive_every) == 0.5
    assert not opened.resumed and opened.epoch > 0
    with channel_to(node) as channel:
        service = stubs.lock_grpc.LockServiceStub(channel)
        held = service.Lock(stubs.lock.LockRequest(resource_id="n", session_id=opened.session_id))
        assert held.acquired
        for number in range(1, 7):  # longer than its TTL
            stream.send(keep_alive=stubs.lock.SessionRequest.KeepAlive(number=number))
            alive = stream.wait("alive")
            assert alive.number == number and seconds(alive.expires_in) == 1.5
            time.sleep(0.4)
        assert node.show("n").json["held"]
        stream.send(close=stubs.lock.SessionRequest.Close())
        assert stream.wait("closed").how == "session_closed"
        assert not node.show("n").json["held"]
        wait_until(lambda: stream.over, "the stream is over")
        assert stream.error is None
    with pytest.raises(grpc.RpcError) as refused, channel_to(node) as channel:
        service = stubs.lock_grpc.LockServiceStub(channel)
        service.Lock(stubs.lock.LockRequest(resource_id="n", session_id=opened.session_id))
    assert code_of(refused.value) == (grpc.StatusCode.FAILED_PRECONDITION, "session_expired")
    stream.channel.close()


def test_a_session_is_resumed_through_another_node(make_cluster, stubs):
    cluster = make_cluster(3)
    first, second = list(cluster)[:2]
    stream, opened = open_session(first, stubs, ttl=20)
    stream.break_off()
    again = Stream(second, stubs, {"resume": stubs.lock.SessionRequest.Resume(session_id=opened.session_id)})
    resumed = again.wait("opened")
    assert resumed.resumed and resumed.session_id == opened.session_id and seconds(resumed.ttl) == 20
    again.send(keep_alive=stubs.lock.SessionRequest.KeepAlive(number=7))
    assert again.wait("alive").number == 7
    again.break_off()


def test_a_session_that_lingers_ends_soon_after_its_stream_broke(node, stubs):
    for linger, ends in ((0, False), (0.3, True)):
        more = {}
        if linger:
            more["linger"] = {"nanos": int(linger * 1e9)}
        stream, opened = open_session(node, stubs, ttl=30, **more)
        with channel_to(node) as channel:
            service = stubs.lock_grpc.LockServiceStub(channel)
            name = f"linger-{linger}"
            assert service.Lock(stubs.lock.LockRequest(resource_id=name, session_id=opened.session_id)).acquired
        stream.break_off()
        if ends:
            wait_until(lambda: not node.show(name).json["held"], "the session ended", 5)
        else:
            time.sleep(1)
            assert node.show(name).json["held"]


def test_the_holder_hears_of_revocation_and_loss(node, stubs):
    stream, opened = open_session(node, stubs)
    with channel_to(node) as channel:
        service = stubs.lock_grpc.LockServiceStub(channel)
        admin = stubs.admin_grpc.AdminServiceStub(channel)
        held = service.Lock(stubs.lock.LockRequest(resource_id="n", session_id=opened.session_id))
        revoke = stubs.admin.RevokeRequest(resource_id="n", actor_id="op", reason="repairs")
        revoke.deadline.FromMilliseconds(700)
        answer = admin.Revoke(revoke)
        assert answer.action == "REVOKE" and answer.holders == 1 and 0 < seconds(answer.revoked_in) <= 0.7
        asked = stream.wait("notice")
        assert asked.news == stubs.lock.SessionResponse.REVOKE_REQUESTED
        assert asked.resource_id == "n" and asked.reason == "repairs" and 0 < seconds(asked.deadline_in) <= 0.7
        lost = stream.wait("notice")
        assert lost.news == stubs.lock.SessionResponse.LOST and lost.how == "revoked"
        assert lost.fence_token == held.lock_handle.fence_token and lost.lease_id == held.lock_handle.lease_id
        held = service.Lock(stubs.lock.LockRequest(resource_id="m", session_id=opened.session_id))
        forced = admin.ForceUnlock(stubs.admin.ForceUnlockRequest(resource_id="m", actor_id="op", reason="why"))
        assert forced.holders == 1 and forced.actor_id == "op"
        lost = stream.wait("notice")
        assert lost.news == stubs.lock.SessionResponse.LOST and lost.how == "forced" and lost.reason == "why"
        trail = admin.Audit(stubs.admin.AuditRequest())
        assert [record.action for record in trail.records] == ["REVOKE", "FORCE_UNLOCK"] or len(trail.records) >= 2
    stream.break_off()


def test_a_session_that_is_not_kept_alive_is_told_that_it_is_over(node, stubs):
    stream, _ = open_session(node, stubs, ttl=1)
    assert stream.wait("closed").how == "session_expired"
    stream.break_off()


def test_jeopardy_without_a_leader_and_safe_with_one(make_cluster, stubs):
    cluster = make_cluster(3)
    leader = cluster.leader()
    others = [node for node in cluster if node is not leader]
    stream, _ = open_session(others[0], stubs, ttl=60)
    leader.kill()
    others[1].kill()
    news = stubs.lock.SessionResponse
    stream.wait("notice", lambda notice: notice.news == news.JEOPARDY)
    others[1].start()
    stream.wait("notice", lambda notice: notice.news == news.SAFE)
    stream.break_off()

"""Sessions over gRPC: the stream that keeps one alive, what it tells, and what ends with it (S4)."""

import math
import time

import pytest

from grpc_support import Stream, channel_to, code_of, grpc, node, open_session, seconds, stubs  # noqa: F401
from harness import busy, wait_until


def test_a_session_keeps_its_locks_and_its_close_gives_them_back(node, stubs):
    ttl = 1.5 * math.ceil(busy())
    stream, opened = open_session(node, stubs, ttl=ttl)
    assert seconds(opened.ttl) == ttl and seconds(opened.keep_alive_every) == ttl / 3
    assert not opened.resumed and opened.epoch > 0
    with channel_to(node) as channel:
        service = stubs.lock_grpc.LockServiceStub(channel)
        held = service.Lock(stubs.lock.LockRequest(resource_id="n", session_id=opened.session_id))
        assert held.acquired
        for number in range(1, 7):  # longer than its TTL
            stream.send(keep_alive=stubs.lock.SessionRequest.KeepAlive(number=number))
            alive = stream.wait("alive")
            assert alive.number == number and seconds(alive.expires_in) == ttl
            time.sleep(ttl / 4)
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
            wait_until(lambda: not node.show(name).json["held"], "the session ended")
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
        assert [record.action for record in trail.records] == ["REVOKE", "REVOKE_TAKEN", "FORCE_UNLOCK"]
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

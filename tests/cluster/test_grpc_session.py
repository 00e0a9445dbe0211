"""Sessions over gRPC: the stream that keeps one alive, what it tells, and what ends with it (S4)."""

import math
import signal
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
        notice = stream.wait("notice")
        assert notice.news == stubs.lock.SessionResponse.REVOKE_REQUESTED
        assert notice.resource_id == "n" and notice.reason == "repairs" and 0 < seconds(notice.deadline_in) <= 0.7
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


def test_a_session_that_is_not_kept_alive_is_notified_that_it_is_over(node, stubs):
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
    kinds = stubs.lock.SessionResponse
    stream.wait("notice", lambda notice: notice.news == kinds.JEOPARDY)
    others[1].start()
    stream.wait("notice", lambda notice: notice.news == kinds.SAFE)
    stream.break_off()


LONG = 60  # seconds of a linger that does not end within a test


def lingering_session(node, stubs, name, linger, ttl=600):
    stream, opened = open_session(node, stubs, ttl=ttl, linger={"seconds": linger})
    with channel_to(node) as channel:
        service = stubs.lock_grpc.LockServiceStub(channel)
        assert service.Lock(stubs.lock.LockRequest(resource_id=name, session_id=opened.session_id)).acquired
    return stream, opened.session_id


def from_any(cluster, path):
    """The answer of the first running node that has one; None: none has."""
    for other in cluster.running():
        answer = None if other.paused else other.try_request("GET", path)
        if answer is not None and answer.status == 200:
            return answer.json
    return None


def lingers(cluster, session):
    """Whether the session ends before its TTL, because its stream broke; None while no node answers."""
    answer = from_any(cluster, f"/api/v1/sessions/{session}")
    return None if answer is None else answer["expires_in_ms"] <= LONG * 1000


def is_held(cluster, name):
    answer = from_any(cluster, f"/api/v1/locks/{name}")
    return None if answer is None else answer["held"]


@pytest.mark.parametrize("role", ["follower", "leader"])
def test_linger_starts_when_the_node_of_the_stream_is_killed(make_cluster, stubs, role):
    cluster = make_cluster(3)
    leader = cluster.leader()
    carrier = leader if role == "leader" else cluster.followers()[0]
    other = next(n for n in cluster if n is not carrier)
    ends, _ = lingering_session(carrier, stubs, "ends", 1)
    resumed, ident = lingering_session(carrier, stubs, "resumed", LONG)
    stays, other_ident = lingering_session(other, stubs, "stays", LONG)
    carrier.kill()
    wait_until(lambda: lingers(cluster, ident), "its linger has begun")
    wait_until(lambda: is_held(cluster, "ends") is False, "the session ended, long before its TTL")
    again = Stream(other, stubs, {"resume": stubs.lock.SessionRequest.Resume(session_id=ident)})
    assert again.wait("opened").resumed
    wait_until(lambda: lingers(cluster, ident) is False, "the resumption ended its linger")
    wait_until(lambda: lingers(cluster, other_ident) is False, "the linger of a stream through another node did not begin")
    assert is_held(cluster, "resumed") and is_held(cluster, "stays")
    for stream in (ends, resumed, stays, again):
        stream.break_off()


def test_linger_starts_when_the_node_of_the_stream_starts_again(make_cluster, stubs):
    cluster = make_cluster(1)
    node = cluster.nodes[1]
    stream, _ = lingering_session(node, stubs, "n", 1)
    node.kill()
    node.start()
    node.wait_ready()
    wait_until(lambda: is_held(cluster, "n") is False, "the session ended, long before its TTL")
    stream.break_off()


def test_a_node_that_was_only_slow_keeps_its_streams(make_cluster, stubs):
    cluster = make_cluster(3)
    carrier = cluster.followers()[0]
    stream, ident = lingering_session(carrier, stubs, "n", LONG)
    carrier.signal(signal.SIGSTOP)
    wait_until(lambda: lingers(cluster, ident), "its linger has begun")
    carrier.signal(signal.SIGCONT)
    wait_until(lambda: lingers(cluster, ident) is False, "the node has registered its stream again, which ended the linger")
    assert is_held(cluster, "n")
    stream.break_off()
    wait_until(lambda: lingers(cluster, ident), "its linger has begun")

"""gRPC and HTTP/2 on the client port, used by clients that we did not write: grpcio with stubs made by
protoc, curl, nghttp and h2load. Sessions are in test_grpc_session.py."""

import json
import re
import subprocess

import pytest

from grpc_support import Stream, channel_to, code_of, grpc, node, open_session, seconds, stubs  # noqa: F401
from harness import PATIENCE, wait_until


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


# --- waiting, deadlines, cancellation


def test_a_wait_through_a_follower_is_answered_and_a_cancelled_one_leaves(make_cluster, stubs):
    cluster = make_cluster(3)
    follower = cluster.followers()[0]
    with channel_to(follower) as channel, channel_to(cluster.leader()) as straight:
        service = stubs.lock_grpc.LockServiceStub(channel)
        other = stubs.lock_grpc.LockServiceStub(straight)
        held = other.Lock(stubs.lock.LockRequest(resource_id="n", client_id="a"))
        waiting = stubs.lock.LockRequest(resource_id="n", client_id="b", wait_timeout={"seconds": -1})
        first = service.Lock.future(waiting)
        wait_until(lambda: len(follower.show("n").json["waiters"]) == 1, "one waits")
        second = service.Lock.future(waiting)
        wait_until(lambda: len(follower.show("n").json["waiters"]) == 2, "two wait")
        first.cancel()
        wait_until(lambda: len(follower.show("n").json["waiters"]) == 1, "the cancelled one has left")
        other.Unlock(stubs.lock.UnlockRequest(resource_id="n", client_id="a",
                                              fence_token=held.lock_handle.fence_token))
        granted = second.result(timeout=PATIENCE)
        assert granted.acquired and granted.lock_handle.fence_token > held.lock_handle.fence_token


def test_a_wait_of_a_session_is_withdrawn_through_another_node(make_cluster, stubs):
    """Also when its connection is gone: the id names it (S7.5)."""
    cluster = make_cluster(3)
    follower = cluster.followers()[0]
    session = cluster.leader().request("POST", "/api/v1/sessions", {"client_id": "b"}).json["session_id"]
    with channel_to(follower) as channel, channel_to(cluster.leader()) as straight:
        service = stubs.lock_grpc.LockServiceStub(channel)
        other = stubs.lock_grpc.LockServiceStub(straight)
        held = other.Lock(stubs.lock.LockRequest(resource_id="n", client_id="a"))
        waiting = stubs.lock.LockRequest(resource_id="n", session_id=session, request_id="r1",
                                         wait_timeout={"seconds": -1})
        first = service.Lock.future(waiting)
        wait_until(lambda: len(follower.show("n").json["waiters"]) == 1, "one waits")
        first.cancel()
        waiting.cancel = True
        for _ in range(2):
            answer = other.Lock(waiting, timeout=PATIENCE)
            assert not answer.acquired and answer.reason == stubs.lock.CANCELLED
        assert len(cluster.leader().show("n").json["waiters"]) == 0
        other.Unlock(stubs.lock.UnlockRequest(resource_id="n", client_id="a",
                                              fence_token=held.lock_handle.fence_token))
        assert not cluster.leader().show("n").json["held"]


def test_the_deadline_of_a_call_ends_its_wait(node, stubs):
    with channel_to(node) as channel:
        service = stubs.lock_grpc.LockServiceStub(channel)
        assert service.Lock(stubs.lock.LockRequest(resource_id="n", client_id="a")).acquired
        with pytest.raises(grpc.RpcError) as late:
            service.Lock(stubs.lock.LockRequest(resource_id="n", client_id="b", wait_timeout={"seconds": 60}),
                         timeout=0.5)
        assert late.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        wait_until(lambda: not node.show("n").json["waiters"], "the waiter is gone")


def test_many_requests_wait_on_one_connection_and_are_served_in_order(node, stubs):
    with channel_to(node) as channel:
        service = stubs.lock_grpc.LockServiceStub(channel)
        held = service.Lock(stubs.lock.LockRequest(resource_id="n", client_id="first"))
        calls = []
        for number in range(200):
            request = stubs.lock.LockRequest(resource_id="n", client_id=f"w{number}", wait_timeout={"seconds": -1})
            calls.append(service.Lock.future(request))
            if number % 50 == 0:
                wait_until(lambda: node.show("n").json["queue_length"] == len(calls), "all are queued")
        wait_until(lambda: node.show("n").json["queue_length"] == 200, "all are queued")
        order = [waiter["client_id"] for waiter in node.request("GET", "/api/v1/locks/n?limit=1000").json["waiters"]]
        by_client = {f"w{number}": call for number, call in enumerate(calls)}
        token, last, owner = held.lock_handle.fence_token, 0, "first"
        for client in order:
            service.Unlock(stubs.lock.UnlockRequest(resource_id="n", client_id=owner, fence_token=token))
            answer = by_client[client].result(timeout=PATIENCE)
            assert answer.acquired and answer.lock_handle.fence_token > last
            token = last = answer.lock_handle.fence_token
            owner = client


def test_a_stopping_node_says_goaway_and_another_one_takes_over(make_cluster, stubs):
    cluster = make_cluster(3)
    node = cluster.followers()[0]
    stream, opened = open_session(node, stubs)
    with channel_to(node) as channel:
        service = stubs.lock_grpc.LockServiceStub(channel)
        assert service.Lock(stubs.lock.LockRequest(resource_id="n", session_id=opened.session_id)).acquired
        wait = service.Lock.future(stubs.lock.LockRequest(
            resource_id="n", client_id="b", wait_timeout={"seconds": -1}))
        wait_until(lambda: node.show("n").json["queue_length"] == 1, "one waits")
        assert node.stop() == 0
        with pytest.raises(grpc.RpcError) as stopped:
            wait.result(timeout=PATIENCE)
        assert stopped.value.code() == grpc.StatusCode.UNAVAILABLE
    assert stream.wait("closed").how == "draining"
    other = cluster.leader()
    again = Stream(other, stubs, {"resume": stubs.lock.SessionRequest.Resume(session_id=opened.session_id)})
    assert again.wait("opened").resumed
    assert other.show("n").json["held"]
    again.break_off()
    stream.break_off()


# --- the other calls


def test_locks_of_several_names_fence_checks_and_renewal(node, stubs):
    with channel_to(node) as channel:
        service = stubs.lock_grpc.LockServiceStub(channel)
        both = service.MultiLock(stubs.lock.MultiLockRequest(resource_ids=["b", "a"], client_id="me"))
        assert both.acquired and list(both.lock_handle.resource_ids) == ["b", "a"]
        token = both.lock_handle.fence_token
        renewed = service.Renew(stubs.lock.RenewRequest(fence_token=token, client_id="me", ttl={"seconds": 50}))
        assert renewed.renewed and 49 < seconds(renewed.expires_in) <= 50
        refused = service.MultiLock(stubs.lock.MultiLockRequest(resource_ids=["a", "c"], client_id="you"))
        assert not refused.acquired and refused.reason == stubs.lock.HELD and refused.name == "a"
        assert service.CheckFence(stubs.lock.CheckFenceRequest(resource_id="db", fence_token=token)).accepted
        old = service.CheckFence(stubs.lock.CheckFenceRequest(resource_id="db", fence_token=token - 1))
        assert not old.accepted and old.highest == token and old.reason == stubs.lock.STALE_TOKEN
        of_lock = stubs.lock.CheckFenceRequest(resource_id="db", fence_token=token, lock_id="b")
        assert service.CheckFence(of_lock).accepted
        of_lock.lock_id = "nobody-holds-it"
        foreign = service.CheckFence(of_lock)
        assert not foreign.accepted and foreign.highest == token and foreign.reason == stubs.lock.NOT_OWNER
        never = service.CheckFence(stubs.lock.CheckFenceRequest(resource_id="db", fence_token=2**53 - 1))
        assert not never.accepted and never.highest == token and never.reason == stubs.lock.NOT_ISSUED
        admin = stubs.admin_grpc.AdminServiceStub(channel)
        reset = admin.ResetFence(stubs.admin.ResetFenceRequest(resource_id="db", actor_id="op", reason="drill"))
        assert reset.previous == token and reset.highest > token
        record = admin.Audit(stubs.admin.AuditRequest(resource="db")).records[-1]
        assert record.action == "FENCE_RESET" and record.reason == "drill" and record.highest == reset.highest
        stale = service.CheckFence(stubs.lock.CheckFenceRequest(resource_id="db", fence_token=token))
        assert not stale.accepted and stale.reason == stubs.lock.STALE_TOKEN
        with pytest.raises(grpc.RpcError) as unknown:
            admin.ResetFence(stubs.admin.ResetFenceRequest(resource_id="no", actor_id="op", reason="drill"))
        assert unknown.value.code() == grpc.StatusCode.NOT_FOUND
        by_lease = service.Unlock(stubs.lock.UnlockRequest(lease_id=both.lock_handle.lease_id, client_id="me"))
        assert by_lease.released
        gone = service.Renew(stubs.lock.RenewRequest(fence_token=token, client_id="me"))
        assert not gone.renewed and gone.reason == stubs.lock.ALREADY_RELEASED and gone.ended == "released"


def test_an_election_and_its_observers(node, stubs):
    with channel_to(node) as channel:
        service = stubs.election_grpc.ElectionServiceStub(channel)
        request = stubs.election.LeaderRequest(name="e")
        assert service.Leader(request).vacant
        observed = service.Observe(request)
        assert next(observed).vacant
        won = service.Campaign(stubs.election.CampaignRequest(name="e", client_id="a", value="one"))
        assert won.elected and won.epoch == won.lock_handle.fence_token
        seen = next(observed)
        assert not seen.vacant and seen.value == "one" and seen.leader.client_id == "a" and seen.event_id
        lost = service.Campaign(stubs.election.CampaignRequest(name="e", client_id="b"))
        assert not lost.elected and lost.leader.client_id == "a" and lost.reason == stubs.lock.HELD
        said = service.Proclaim(stubs.election.ProclaimRequest(name="e", client_id="a", epoch=won.epoch, value="two"))
        assert said.proclaimed and next(observed).value == "two"
        assert service.Leader(request).value == "two"
        waiting = service.Campaign.future(stubs.election.CampaignRequest(
            name="e", client_id="b", value="three", wait_timeout={"seconds": -1}))
        wait_until(lambda: service.Leader(request).candidates == 1, "one waits")
        assert service.Resign(stubs.election.ResignRequest(name="e", client_id="a", epoch=won.epoch)).resigned
        assert waiting.result(timeout=PATIENCE).elected
        values = [next(observed) for _ in range(2)]
        assert values[0].vacant and values[1].value == "three"
        observed.cancel()


def test_watching_from_the_beginning_and_from_an_event(node, stubs):
    with channel_to(node) as channel:
        service = stubs.lock_grpc.LockServiceStub(channel)
        watch = service.Watch(stubs.lock.WatchRequest(prefix="w/"))
        assert next(watch).type == "ready"
        held = service.Lock(stubs.lock.LockRequest(resource_id="w/a", client_id="me"))
        service.Lock(stubs.lock.LockRequest(resource_id="x", client_id="me"))
        service.Unlock(stubs.lock.UnlockRequest(
            resource_id="w/a", client_id="me", fence_token=held.lock_handle.fence_token))
        events = [next(watch), next(watch)]
        assert [event.type for event in events] == ["granted", "released"]
        assert all(event.resource_id == "w/a" and event.client_id == "me" for event in events)
        watch.cancel()
        again = service.Watch(stubs.lock.WatchRequest(prefix="w/", after_id=events[0].id))
        types = [next(again).type for _ in range(2)]
        assert types == ["ready", "released"]
        again.cancel()
        with pytest.raises(grpc.RpcError) as bad:
            next(service.Watch(stubs.lock.WatchRequest(after_id="nonsense")))
        assert code_of(bad.value) == (grpc.StatusCode.INVALID_ARGUMENT, "field_type")


def test_a_reader_that_does_not_read_is_dropped_with_a_word(make_cluster, stubs):
    node = make_cluster(1).nodes[1]
    options = {"grpc.http2.bdp_probe": 0, "grpc.http2.lookahead_bytes": 65536}
    with channel_to(node, **options) as slow, channel_to(node) as channel:
        watch = stubs.lock_grpc.LockServiceStub(slow).Watch(stubs.lock.WatchRequest())
        assert next(watch).type == "ready"  # and reads no more
        service = stubs.lock_grpc.LockServiceStub(channel)
        name = "n" * 500

        def is_dropped():
            for _ in range(300):
                held = service.Lock(stubs.lock.LockRequest(
                    resource_id=name, client_id="c" * 250, metadata=json.dumps("m" * 4000)))
                service.Unlock(stubs.lock.UnlockRequest(
                    resource_id=name, client_id="c" * 250, fence_token=held.lock_handle.fence_token))
            metrics = node.request("GET", "/metrics").text
            return re.search(r"^holdfast\w*dropped\w* [1-9]", metrics, flags=re.M)

        wait_until(is_dropped, "the slow reader is dropped", 300)  # each look takes 600 calls
        with pytest.raises(grpc.RpcError) as dropped:
            last = None
            for event in watch:
                last = event
        assert dropped.value.code() == grpc.StatusCode.UNAVAILABLE
        assert last.type == "dropped" and "slow" in last.text


def test_listings_and_the_cluster(make_cluster, stubs):
    cluster = make_cluster(3)
    node = cluster.followers()[0]
    stream, opened = open_session(node, stubs)
    with channel_to(node) as channel:
        service = stubs.lock_grpc.LockServiceStub(channel)
        admin = stubs.admin_grpc.AdminServiceStub(channel)
        for number in range(30):
            assert service.Lock(stubs.lock.LockRequest(
                resource_id=f"p/{number}", session_id=opened.session_id, metadata='{"a": 1}')).acquired
        names, cursor = set(), ""
        while True:
            page = admin.List(stubs.admin.ListRequest(prefix="p/", limit=10, cursor=cursor))
            names |= {row.resource_id for row in page.locks}
            assert all(row.held and row.holder.client_id == "me" for row in page.locks)
            cursor = page.next_cursor
            if not cursor:
                break
        assert names == {f"p/{number}" for number in range(30)}
        shown = admin.Show(stubs.admin.ShowRequest(resource_id="p/3"))
        assert shown.lock.held and shown.holders[0].fence_token > 0
        assert shown.holders[0].session_id == opened.session_id and shown.holders[0].holder.metadata == '{"a":1}'
        sessions = admin.Sessions(stubs.admin.SessionsRequest())
        assert [(row.session_id, row.entries) for row in sessions.sessions] == [(opened.session_id, 30)]
        for answer in [page, shown, sessions]:
            assert answer.omitted_tier == stubs.lock.TIER_UNSPECIFIED
        for answer in [admin.List(stubs.admin.ListRequest(stale=True)),
                       admin.Show(stubs.admin.ShowRequest(resource_id="p/3", stale=True)),
                       admin.Sessions(stubs.admin.SessionsRequest(stale=True))]:
            assert answer.omitted_tier == stubs.lock.EFFICIENCY, "this node does not lead, and was instructed to query no other"
        view = admin.Cluster(stubs.admin.ClusterRequest())
        assert view.node == node.id and view.leader == cluster.leader().id and len(view.members) == 3
        assert {member.role for member in view.members} == {"leader", "voter"}
        target = [other for other in cluster.followers() if other is not node][0]
        assert admin.TransferLeadership(stubs.admin.MemberRequest(id=target.id)).accepted
        wait_until(lambda: admin.Cluster(stubs.admin.ClusterRequest()).leader == target.id, "the lead has moved")
        with pytest.raises(grpc.RpcError) as refused:
            admin.PromoteMember(stubs.admin.MemberRequest(id=77))
        assert code_of(refused.value) == (grpc.StatusCode.FAILED_PRECONDITION, "membership_refused")
        with pytest.raises(grpc.RpcError) as wrong:
            admin.List(stubs.admin.ListRequest(limit=5000))
        assert code_of(wrong.value) == (grpc.StatusCode.INVALID_ARGUMENT, "field_range")
    stream.break_off()


def test_health_and_reflection(make_cluster, stubs):
    cluster = make_cluster(3)
    leader = cluster.leader()
    node, other = (each for each in cluster if each is not leader)
    with channel_to(node) as channel:
        health = stubs.health_grpc.HealthStub(channel)
        query = stubs.health.HealthCheckRequest
        good, bad = stubs.health.HealthCheckResponse.SERVING, stubs.health.HealthCheckResponse.NOT_SERVING
        assert health.Check(query()).status == good
        assert health.Check(query(service="holdfast.v1.LockService")).status == good
        with pytest.raises(grpc.RpcError) as unknown:
            health.Check(query(service="nothing"))
        assert unknown.value.code() == grpc.StatusCode.NOT_FOUND
        watch = health.Watch(query())
        assert next(watch).status == good
        leader.kill()
        other.kill()
        assert next(watch).status == bad
        other.start()
        assert next(watch).status == good
        watch.cancel()

        request = stubs.reflection.ServerReflectionRequest
        reflection = stubs.reflection_grpc.ServerReflectionStub(channel)
        questions = [request(list_services=""), request(file_containing_symbol="holdfast.v1.LockService.Lock"),
                     request(file_containing_symbol="holdfast.v1.SessionRequest.Open"),
                     request(file_by_filename="google/protobuf/duration.proto"),
                     request(file_containing_symbol="holdfast.v1.Nothing")]
        answers = list(reflection.ServerReflectionInfo(iter(questions)))
        names = [row.name for row in answers[0].list_services_response.service]
        assert names == ["holdfast.v1.LockService", "holdfast.v1.ElectionService", "holdfast.v1.AdminService",
                         "grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection"]
        from google.protobuf import descriptor_pb2
        files = [descriptor_pb2.FileDescriptorProto.FromString(
            answer.file_descriptor_response.file_descriptor_proto[0]) for answer in answers[1:4]]
        assert [file.name for file in files] == [
            "holdfast/v1/lock.proto", "holdfast/v1/lock.proto", "google/protobuf/duration.proto"]
        assert answers[4].error_response.error_code == 5


def test_what_is_refused(node, stubs):
    with channel_to(node) as channel:
        def call(path, data=b"", **options):
            method = channel.unary_unary(path, lambda raw: raw, lambda raw: raw)
            with pytest.raises(grpc.RpcError) as error:
                method(data, **options)
            return code_of(error.value)

        lock = "/holdfast.v1.LockService/Lock"
        assert call("/holdfast.v1.LockService/Nothing") == (grpc.StatusCode.UNIMPLEMENTED, "grpc_method")
        assert call(lock, b"\xff") == (grpc.StatusCode.INVALID_ARGUMENT, "proto_malformed")
        assert call(lock, bytes(300000)) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "limit_message")
        compressed = call(lock, b"\x12\x01a", compression=grpc.Compression.Gzip)
        assert compressed == (grpc.StatusCode.UNIMPLEMENTED, "grpc_encoding")


# --- other tools


def test_the_http_api_over_http2_by_curl_and_nghttp(node):
    base = f"http://127.0.0.1:{node.client_port}"

    def curl(*arguments):
        done = subprocess.run(
            ["curl", "--silent", "--max-time", "20", "--http2-prior-knowledge", "--include", *arguments],
            stdout=subprocess.PIPE, check=True)
        head, _, body = done.stdout.decode().partition("\r\n\r\n")
        return head, body

    head, body = curl("-d", '{"client_id":"me"}', f"{base}/api/v1/locks/n/acquire")
    assert head.startswith("HTTP/2 200") and "content-type: application/json" in head
    assert json.loads(body)["acquired"]
    head, body = curl("-X", "DELETE", f"{base}/api/v1/locks/n")
    assert head.startswith("HTTP/2 405") and "allow: GET, HEAD, OPTIONS" in head
    head, _ = curl("--head", f"{base}/livez")
    assert head.startswith("HTTP/2 200") and "content-length: 3" in head
    head, body = curl("--data-binary", "@/dev/null", "-H", f"x: {'y' * 17000}", f"{base}/api/v1/locks/n/acquire")
    assert head.startswith("HTTP/2 431") and json.loads(body)["error"]["code"] == "limit_header_bytes"
    done = subprocess.run(["nghttp", "--timeout=20", f"{base}/api/v1/cluster", f"{base}/livez"],
                          stdout=subprocess.PIPE, check=True)
    assert b'"leader":1' in done.stdout and b"ok\n" in done.stdout


def test_h2load_gets_an_answer_to_every_request(node):
    done = subprocess.run(
        ["h2load", "-n", "2000", "-c", "10", "-m", "20", f"http://127.0.0.1:{node.client_port}/api/v1/locks/n"],
        stdout=subprocess.PIPE, text=True, check=True)
    assert "2000 succeeded, 0 failed, 0 errored, 0 timeout" in done.stdout


def test_bodies_and_answers_that_fill_windows(node, stubs, tmp_path):
    base = f"http://127.0.0.1:{node.client_port}"
    for size, status in ((1 << 20, 400), ((1 << 20) + 1, 413)):
        body = tmp_path / f"body-{size}"
        body.write_bytes(b" " * size)
        done = subprocess.run(
            ["curl", "--silent", "--max-time", "20", "--http2-prior-knowledge", "--output", "/dev/null",
             "--write-out", "%{http_code} %{http_version}", "--data-binary", f"@{body}",
             f"{base}/api/v1/locks/n/acquire"], stdout=subprocess.PIPE, check=True)
        assert done.stdout.decode() == f"{status} 2"
    with channel_to(node, **{"grpc.max_receive_message_length": 32 << 20}) as channel:
        service = stubs.lock_grpc.LockServiceStub(channel)
        metadata = json.dumps("m" * 4000)
        calls = [service.Lock.future(stubs.lock.LockRequest(
            resource_id=f"large/{number}", client_id="me", ttl={"seconds": 600}, metadata=metadata))
            for number in range(1000)]
        assert all(call.result(timeout=PATIENCE).acquired for call in calls)
        admin = stubs.admin_grpc.AdminServiceStub(channel)
        page = admin.List(stubs.admin.ListRequest(limit=1000))
        assert len(page.locks) >= 1000 and all(row.holder.metadata == metadata for row in page.locks)
        done = subprocess.run(
            ["curl", "--silent", "--max-time", "20", "--http2-prior-knowledge", "--limit-rate", "4M",
             f"{base}/api/v1/locks?limit=1000"], stdout=subprocess.PIPE, check=True)
        assert len(json.loads(done.stdout)["locks"]) >= 1000
        refused = service.Lock.future(stubs.lock.LockRequest(
            resource_id="n", client_id="me", metadata=json.dumps("m" * 5000)))
        assert code_of(refused.exception(timeout=PATIENCE)) == (
            grpc.StatusCode.INVALID_ARGUMENT, "invalid_metadata")

"""slow-request: a command that takes long is a line of the log, with the time in each part."""

import signal
import threading

import pytest

from harness import wait_until

PATIENT = ("--election-timeout", "3s", "--slow-request", "400ms")
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
LONG = 0.4  # the setting


def acquire_in_background(node, name, **more):
    answers = []
    thread = threading.Thread(target=lambda: answers.append(node.acquire(name, "ann", **more)))
    thread.start()
    return thread, answers


def late(line, field):
    """True where the time of the line is in this part."""
    return line[field] >= LONG * 0.9 and line["seconds"] >= line[field] - 0.01


@pytest.fixture
def cluster(make_cluster):
    return make_cluster(3, *PATIENT)


def pause(nodes):
    for node in nodes:
        node.signal(signal.SIGSTOP)


def resume(nodes):
    for node in nodes:
        node.signal(signal.SIGCONT)


def test_followers_that_answer_late_make_the_commit_slow(cluster):
    leader, followers = cluster.leader(), cluster.followers()
    pause(followers)
    try:
        thread, answers = acquire_in_background(leader, "commit", trace=TRACE)
        threading.Event().wait(2 * LONG)  # what is measured
    finally:
        resume(followers)
    thread.join()
    line = leader.wait_event("slow_request", resource="commit")[0]
    assert late(line, "commitSeconds") and line["queuedSeconds"] < LONG and line["applySeconds"] < LONG, line
    assert line["level"] == "warn" and line["command"] == "acquire" and line["clientId"] == "ann", line
    assert line["trace"] == TRACE and len(line["leaseId"]) == 32 and "error" not in line, line
    assert answers[0].json["acquired"], answers


def test_a_leader_that_answers_late_is_named_by_the_follower(cluster):
    leader, follower = cluster.leader(), cluster.followers()[0]
    pause([leader])
    try:
        thread, answers = acquire_in_background(follower, "leader")
        threading.Event().wait(2 * LONG)
    finally:
        resume([leader])
    thread.join()
    line = follower.wait_event("slow_request", resource="leader")[0]
    assert late(line, "leaderSeconds") and line["leader"] == leader.id and line["queuedSeconds"] < LONG, line
    assert answers[0].json["acquired"], answers


def test_the_leader_has_a_line_about_a_forwarded_command(make_cluster):
    """One follower sends it, and the other three acknowledge late."""
    cluster = make_cluster(5, *PATIENT)
    leader, followers = cluster.leader(), cluster.followers()
    pause(followers[1:])
    try:
        thread, answers = acquire_in_background(followers[0], "forwarded")
        threading.Event().wait(2 * LONG)
    finally:
        resume(followers[1:])
    thread.join()
    line = leader.wait_event("slow_request", resource="forwarded")[0]
    assert late(line, "commitSeconds") and line["from"] == followers[0].id, line
    line = followers[0].wait_event("slow_request", resource="forwarded")[0]
    assert late(line, "leaderSeconds") and line["leader"] == leader.id, line
    assert answers[0].json["acquired"], answers


def test_a_wait_for_a_lock_is_not_slow(cluster):
    leader = cluster.leader()
    token = leader.acquire("held", "ann").json["fencing_token"]
    thread, answers = acquire_in_background(leader, "held", wait_timeout_ms=20000)
    wait_until(lambda: leader.show("held").json["queue_length"] == 1, "it waits")
    threading.Event().wait(2 * LONG)
    assert leader.release("held", token, "ann").json["released"]
    thread.join()
    assert answers[0].json["acquired"] and answers[0].json["waited_ms"] >= LONG * 1000
    assert not [line for node in cluster for line in node.events("slow_request") if line.get("resource") == "held"
                and line["command"] == "acquire" and line["commitSeconds"] < LONG and line["queuedSeconds"] < LONG]


def test_zero_writes_no_line(make_cluster):
    cluster = make_cluster(3, "--election-timeout", "3s", "--slow-request", "0")
    leader, followers = cluster.leader(), cluster.followers()
    pause(followers)
    try:
        thread, answers = acquire_in_background(leader, "quiet")
        threading.Event().wait(3 * LONG)
    finally:
        resume(followers)
    thread.join()
    assert answers[0].json["acquired"]
    assert not [line for node in cluster for line in node.events("slow_request")]

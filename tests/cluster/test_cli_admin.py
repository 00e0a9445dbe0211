"""The commands that read the cluster and those of operators, for people and with --json."""

import json
import os
import pty
import signal
import subprocess
import threading

import pytest

from cli_support import Watcher, run_cli, cluster, endpoints, good  # noqa: F401  (a fixture)
from harness import PATIENCE, PROGRAM, environment, need_terminal, wait_until


def node(cluster):
    return cluster.nodes[1]


def wait_for(cluster, name, client, **more):
    """Somebody who waits for `name`, in a thread; gives the thread."""
    body = {"client_id": client, "ttl_ms": 30000, "wait_timeout_ms": 20000, **more}
    thread = threading.Thread(
        target=lambda: node(cluster).request("POST", f"/api/v1/locks/{name}/acquire", body, timeout=30))
    thread.start()
    wait_until(lambda: client in [w["client_id"] for w in node(cluster).show(name).json["waiters"]],
               f"{client} waits")
    return thread


@pytest.mark.sanitized
def test_ls_is_sorted_and_takes_a_prefix_and_follows_cursors(cluster):
    for number in range(30):
        node(cluster).acquire(f"ls/{29 - number:02}", client=f"c{number}")
    table = good(cluster, "ls", "ls/").splitlines()
    assert table[0].split() == ["NAME", "MODE", "HOLDER", "SINCE", "EXPIRES", "WAITERS", "TIER"]
    assert [row.split()[0] for row in table[1:]] == [f"ls/{n:02}" for n in range(30)]
    rows = json.loads(good(cluster, "ls", "ls/1", "--json"))["locks"]
    assert [row["name"] for row in rows] == [f"ls/1{n}" for n in range(10)]
    assert good(cluster, "ls", "nothing/").count("\n") == 1


def test_a_name_that_would_move_the_cursor_does_not(cluster):
    node(cluster).acquire("safe%2Fx", client="bold")
    assert "\x1b" not in good(cluster, "ls")


def test_show_tells_who_holds_who_waits_and_what_comes_next(cluster):
    token = node(cluster).acquire("show/a", client="first", metadata={"host": "h1"}).json["fencing_token"]
    waits = wait_for(cluster, "show/a", "second")
    text = good(cluster, "show", "show/a")
    assert "first" in text and str(token) in text and '{"host":"h1"}' in text
    assert "second gets it when first releases it" in text
    assert json.loads(good(cluster, "show", "show/a", "--json"))["waiters"][0]["client_id"] == "second"
    node(cluster).release("show/a", token, client="first")
    waits.join()
    assert "the next client that requests it gets it" in good(cluster, "show", "show/free")


@pytest.mark.sanitized
def test_show_finds_a_circle_of_waiters(cluster):
    sessions = [node(cluster).request("POST", "/api/v1/sessions", {"client_id": f"s{i}"}).json["session_id"]
                for i in (1, 2)]
    for name, session in zip("xy", sessions):
        node(cluster).request("POST", f"/api/v1/locks/circle/{name}/acquire", {"session_id": session})
    waiting = [wait_for(cluster, f"circle/{name}", f"s{i}", client_id=None, session_id=session)
               for name, i, session in zip("yx", (1, 2), sessions)]
    text = good(cluster, "show", "circle/x")
    assert "s1 waits for circle/y, held by s2" in text
    assert "s2 waits for circle/x, held by s1   <- a cycle: this is a deadlock" in text
    assert "Waiting clients" not in good(cluster, "show", "circle/x", "--no-graph")
    for session in sessions:
        node(cluster).request("DELETE", f"/api/v1/sessions/{session}")
    for thread in waiting:
        thread.join()


def test_sessions_lists_them_and_with_private_all(cluster):
    node(cluster).request("POST", "/api/v1/sessions", {"client_id": "someone", "metadata": {"pid": 7}})
    node(cluster).acquire("sessions/private", client="loner")
    text = good(cluster, "sessions")
    assert "someone" in text and '{"pid":7}' in text and "loner" not in text
    assert "loner" in good(cluster, "sessions", "--private")
    assert any(s["client_id"] == "someone"
               for s in json.loads(good(cluster, "sessions", "--json"))["sessions"])


def test_status_shows_leader_and_members(cluster):
    leader = cluster.leader().id
    text = good(cluster, "status")
    assert text.startswith(f"serving  leader: node {leader}")
    assert text.count("healthy") == 3
    view = json.loads(good(cluster, "status", "--json"))
    assert view["leader"] == leader and len(view["members"]) == 3


def test_force_unlock_needs_a_reason_and_is_audited_with_who_did_it(cluster):
    node(cluster).acquire("force/a", client="stuck")
    assert good(cluster, "force-unlock", "force/a", "--reason", "it hangs") == \
        "force/a: 1 holder removed\n"
    assert not node(cluster).show("force/a").json["held"]
    record = json.loads(good(cluster, "audit", "--json"))["records"][-1]
    assert record["action"] == "FORCE_UNLOCK" and record["resource"] == "force/a"
    assert record["reason"] == "it hangs" and "@" in record["actorId"]
    assert "it hangs" in good(cluster, "audit")
    again = run_cli(cluster, "force-unlock", "force/a", "--reason", "again")
    assert again.returncode == 1 and "(not_held)" in again.stderr


def test_reset_fence_needs_a_reason_and_is_audited_with_both_marks(cluster):
    token = node(cluster).acquire("fence/a", client="me").json["fencing_token"]
    check = {"resource": "fence/a", "fencing_token": token}
    assert node(cluster).request("POST", "/api/v1/fence/check", check).json["accepted"]
    assert run_cli(cluster, "reset-fence", "fence/a").returncode == 64
    said = good(cluster, "reset-fence", "fence/a", "--reason", "drill")
    assert f"(before: {token}); holders must acquire again" in said
    assert node(cluster).request("POST", "/api/v1/fence/check", check).json["reason"] == "stale_token"
    good(cluster, "reset-fence", "fence/a", "--reason", "the holder is right", "--token", str(token))
    assert node(cluster).request("POST", "/api/v1/fence/check", check).json["accepted"]
    records = json.loads(good(cluster, "audit", "--json"))["records"][-2:]
    assert [r["action"] for r in records] == ["FENCE_RESET", "FENCE_RESET"]
    assert records[0]["previous"] == records[1]["highest"] == token and "@" in records[0]["actorId"]
    unknown = run_cli(cluster, "reset-fence", "fence/b", "--reason", "again")
    assert unknown.returncode == 1 and "(fence_not_found)" in unknown.stderr


def test_force_unlock_now_skips_the_delay(cluster):
    for flags, delayed in ((), True), (["--now"], False):
        node(cluster).acquire("force/b", client="stuck", lock_delay_ms=60000)
        good(cluster, "force-unlock", "force/b", "--reason", "r", *flags)
        assert (node(cluster).show("force/b").json["delayed_until"] is not None) == delayed
        if delayed:
            run_cli(cluster, "force-unlock", "force/b", "--reason", "lift it", "--now")


def test_revoke_takes_the_lock_at_the_deadline(cluster):
    node(cluster).acquire("revoke/a", client="slow")
    answer = json.loads(good(cluster, "revoke", "revoke/a", "--reason", "upgrade", "--deadline", "0.3",
                             "--json"))
    assert answer["action"] == "REVOKE" and answer["revoked_in_ms"] <= 300
    wait_until(lambda: not node(cluster).show("revoke/a").json["held"], "the lock is taken away")


@pytest.mark.sanitized
def test_watch_prints_events_and_ends_after_some(cluster):
    with Watcher(cluster, "watch/", "--events", "2") as watcher:
        node(cluster).acquire("elsewhere", client="other")
        token = node(cluster).acquire("watch/a", client="me").json["fencing_token"]
        node(cluster).release("watch/a", token, client="me")
        assert watcher.process.wait(timeout=PATIENCE) == 0
    assert [e["event"] for e in watcher.events] == ["ready", "granted", "released"]
    since = watcher.events[0]["id"]
    text = good(cluster, "watch", "watch/", "--since", since, "--events", "2")
    assert "granted" in text and "released" in text and "watch/a" in text


def test_top_once_counts_what_happened(cluster):
    process = subprocess.Popen([PROGRAM, "top", "--once", "--interval", "2s", "--json"],
                               stdout=subprocess.PIPE, text=True,
                               env=environment(HOLDFAST_ENDPOINTS=endpoints(cluster)))
    while process.poll() is None:
        answer = node(cluster).acquire("top/hot", client="busy").json
        node(cluster).release("top/hot", answer["fencing_token"], client="busy")
    text = process.communicate()[0]
    assert process.returncode == 0
    hottest = json.loads(text)["names"][0]
    assert hottest["name"] == "top/hot" and hottest["granted"] > 1 and hottest["last_client"] == "busy"


def on_terminal(cluster, *arguments, **env):
    """What the program prints when its output is a terminal."""
    need_terminal()
    ours, theirs = pty.openpty()
    settings = environment(HOLDFAST_ENDPOINTS=endpoints(cluster), TERM="xterm", **env)
    process = subprocess.Popen([PROGRAM, *arguments], stdin=theirs, stdout=theirs, stderr=theirs,
                               env=settings)
    os.close(theirs)
    text = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:
            break
        text += piece
    os.close(ours)
    assert process.wait() == 0
    return text.decode()


def test_colour_is_for_terminals_without_no_color(cluster):
    assert "\x1b[32mhealthy\x1b[0m" in on_terminal(cluster, "status")
    assert "\x1b" not in on_terminal(cluster, "status", NO_COLOR="1")
    assert "\x1b" not in good(cluster, "status")


def test_watch_goes_on_through_another_node_without_a_gap(make_cluster):
    cluster = make_cluster(3)
    first = cluster.nodes[1]
    others = [cluster.nodes[2], cluster.nodes[3]]
    with Watcher([first, *others], "gap/") as watcher:
        others[0].acquire("gap/before", client="me")
        wait_until(lambda: watcher.granted() == ["gap/before"], "the first event")
        first.process.send_signal(signal.SIGKILL)
        first.process.wait()
        cluster.leader(but=first.id)
        others[0].acquire("gap/after", client="me")
        wait_until(lambda: "gap/after" in watcher.granted(), "the event after the break")
    assert watcher.granted().count("gap/before") == 1


def test_a_node_that_hangs_is_passed_over(make_cluster):
    cluster = make_cluster(3)
    follower = cluster.followers()[0]
    rest = [n for n in cluster if n is not follower]
    follower.process.send_signal(signal.SIGSTOP)
    try:
        assert good([follower, *rest], "ls").startswith("NAME")
    finally:
        follower.process.send_signal(signal.SIGCONT)


def test_without_a_majority_status_says_so_and_ends_with_69(make_cluster):
    cluster = make_cluster(3)
    keep = cluster.nodes[1]
    for other in (cluster.nodes[2], cluster.nodes[3]):
        other.process.kill()
        other.process.wait()
    wait_until(lambda: not keep.cluster()["serving"], "it notices")
    done = run_cli([keep], "status")
    assert done.returncode == 69 and "not serving" in done.stdout and "majority" in done.stderr
    listed = run_cli([keep], "ls", "--timeout", "4s")  # a node gives up after 3
    assert listed.returncode == 69 and "it sees no leader" in listed.stderr
    assert "`holdfast status`" in listed.stderr and "holdfast dev" not in listed.stderr

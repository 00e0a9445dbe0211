"""A node restricts itself: system calls, new privileges, core files; and its data folder, which nobody else may read."""

import os
import re
import signal
import stat
import subprocess
from pathlib import Path

import pytest

from harness import PROGRAM, Node, free_ports, run

IS_SANITIZED = b"__asan_init" in Path(PROGRAM).read_bytes()
without_sanitizers = pytest.mark.skipif(IS_SANITIZED, reason="sanitizers need ptrace, so that build has no list of system calls")


def state_of(pid, name):
    """A line of /proc/PID/status."""
    return int(re.search(rf"^{name}:\s+(\d+)", Path(f"/proc/{pid}/status").read_text(), re.M)[1])


def threads_of(pid):
    return [int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()]


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


@pytest.fixture
def alone(keep, tmp_path):
    """alone(*flags): one node, which is not started yet."""
    def make(*flags):
        client, peer = free_ports(2)
        return keep(Node(1, tmp_path / "node-1", client, peer, flags))

    return make


# --- system calls ------------------------------------------------------------


@without_sanitizers
def test_all_threads_of_a_node_have_the_list_and_get_no_new_privileges(alone):
    node = alone().start("--bootstrap")
    node.wait_ready()
    threads = threads_of(node.process.pid)
    assert len(threads) >= 2  # the event loop and the log
    for thread in threads:
        assert state_of(thread, "Seccomp") == 2
        assert state_of(thread, "NoNewPrivs") == 1
    assert not node.events("sandbox_off")


@without_sanitizers
@pytest.mark.parametrize("disk_io", ["auto", "thread"])
def test_all_the_work_of_a_node_needs_no_call_outside_of_the_list(make_cluster, tmp_path, disk_io):
    """Names of hosts are resolved in other threads, and a snapshot is written by a forked child."""
    cluster = make_cluster(3, "--disk-io", disk_io, "--log-file", "", start=False)
    for node in cluster:
        node.flags = [flag.replace("127.0.0.1", "localhost") for flag in node.flags]
        at = node.flags.index("--log-file")
        node.flags[at + 1] = str(tmp_path / f"log-{node.id}")
        node.start("--bootstrap")
    cluster.wait_ready()
    leader = cluster.leader()
    token = leader.acquire_surely("a").json["fencing_token"]
    for node in cluster:
        node.signal(signal.SIGHUP)  # opens the log file and reads the settings again
        assert node.request("GET", "/metrics").status == 200
        assert run("show", "a", "--endpoints", node.client).returncode == 0
    files = cluster.agree()  # each forks a child that writes a snapshot
    assert len(set(files)) == 1
    follower = cluster.followers()[0]
    assert follower.stop() == 0
    follower.start()
    follower.wait_ready()
    assert leader.release("a", token).status == 200
    assert cluster.leader().stop() == 0  # transfers its leadership
    assert all(node.stop() == 0 for node in cluster.running())
    ways = set()
    for node in cluster:
        log = (tmp_path / f"log-{node.id}").read_text()
        assert '"settings_read_again"' in log and '"system_call_refused"' not in log
        ways.add(re.search(r'"log_written":"([^"]+)"', log)[1])
    if disk_io == "auto" and ways != {"directly"}:
        pytest.skip("the log is not written by io_submit on this file system")
    assert ways == {"directly" if disk_io == "auto" else "by a thread"}


@without_sanitizers
def test_it_can_be_switched_off_and_the_log_says_so(alone):
    node = alone("--sandbox", "off").start("--bootstrap")
    node.wait_ready()
    assert state_of(node.process.pid, "Seccomp") == state_of("self", "Seccomp")
    assert state_of(node.process.pid, "NoNewPrivs") == 1
    assert node.wait_event("sandbox_off")


def test_commands_that_run_programs_are_not_restricted(alone):
    node = alone().start("--bootstrap")
    node.wait_ready()
    got = run("lock", "n", "--endpoints", node.client, "--", "grep", "-E", "^(Seccomp|NoNewPrivs):", "/proc/self/status")
    assert got.returncode == 0, got
    own = run_grep()
    assert got.stdout.split() == own.split()


def run_grep():
    """The same in a process of this test, which may itself run in a sandbox."""
    return subprocess.run(["grep", "-E", "^(Seccomp|NoNewPrivs):", "/proc/self/status"],
                          capture_output=True, text=True, check=True).stdout


@without_sanitizers
@pytest.mark.parametrize("limit, dumpable", [("0:", False), ("unlimited:", True)])
def test_a_core_file_is_only_possible_where_its_limit_allows_one(alone, limit, dumpable):
    """A process without core files belongs to root in /proc, whoever runs it."""
    node = alone()
    node.inside = ["prlimit", f"--core={limit}"]
    node.start("--bootstrap")
    node.wait_ready()
    if os.geteuid() == 0:
        pytest.skip("root owns all of its processes in /proc anyway")
    assert (os.stat(f"/proc/{node.process.pid}").st_uid == os.geteuid()) == dumpable


# --- the data folder -----------------------------------------------------------


def test_a_new_data_folder_is_for_its_user_only(alone):
    node = alone().start("--bootstrap")
    node.wait_ready()
    node.acquire("n")
    node.take_snapshot()
    assert mode(node.folder) == 0o700
    assert {mode(path) & 0o077 for path in node.folder.iterdir()} == {0}
    assert not node.events("data_folder_restricted")


def test_a_folder_of_an_earlier_version_is_restricted_and_the_log_says_so(alone):
    node = alone().start("--bootstrap")
    node.wait_ready()
    token = node.acquire("n").json["fencing_token"]
    assert node.stop() == 0
    node.folder.chmod(0o775)
    files = [path for path in node.folder.iterdir() if path.is_file()]
    for path in files:
        path.chmod(0o664)
    node.start()
    node.wait_ready()
    assert mode(node.folder) == 0o700
    assert {mode(path) for path in node.folder.iterdir() if path.is_file()} == {0o600}
    line = node.wait_event("data_folder_restricted")[0]
    assert line["mode_before"] == "0775" and line["files"] == len(files) and line["level"] == "warn"
    assert node.release("n", token).status == 200
    node.stop()
    node.start()
    node.wait_ready()
    assert len(node.events("data_folder_restricted")) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("what", ["folder", "file"])
def test_a_folder_of_somebody_else_is_refused_with_a_remedy(alone, what):
    node = alone().start("--bootstrap")
    node.wait_ready()
    assert node.stop() == 0
    theirs = node.folder if what == "folder" else sorted(node.folder.iterdir())[0]
    os.chown(theirs, 65534, 65534)
    before = mode(theirs)
    node.start()
    assert node.wait_end() != 0
    node.close_ready()
    assert f"data: {theirs} belongs to user 65534, and this node runs as user 0: " in node.log()
    assert "chown" in node.log()
    assert mode(theirs) == before
    os.chown(theirs, 0, 0)
    node.start()
    node.wait_ready()

"""Processes of `holdfast lock` are killed or stopped: the command and all that it started are dead before the
next holder is granted. The command makes a daemon of itself again and again; it is held by a cgroup where one
can be made, and without one each generation is hunted down."""

import contextlib
import os
import pathlib
import signal
import subprocess
import tempfile

import pytest

from cli_support import cluster, endpoints, good  # noqa: F401  (a fixture)
from harness import PATIENCE, PROGRAM, environment, wait_until
from lost_support import TTL, first_child, scenario  # noqa: F401  (a fixture)

REDAEMONIZE = PROGRAM.parent / "tests/cluster/redaemonize"
NOBODY = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
MARGIN = TTL / 10


def own_cgroup():
    """The folder of this process's cgroup of version 2, if one can be made there."""
    for mount in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"):
        if os.path.exists(f"{mount}/cgroup.procs"):
            with open("/proc/self/cgroup", encoding="utf-8") as file:
                path = [line.strip()[3:] for line in file if line.startswith("0::")]
            folder = pathlib.Path(mount + path[0].rstrip("/"))
            return folder if os.access(folder, os.W_OK) else None
    return None


def cgroups():
    return [f.name for f in own_cgroup().glob("holdfast-lock-*")]


needs_cgroup = pytest.mark.skipif(own_cgroup() is None, reason="no cgroup can be made here")


@pytest.fixture(params=[pytest.param("cgroup", marks=needs_cgroup), "no cgroup"])
def bad(request, scenario):  # noqa: F811
    """A holder whose command is the worst, with a cgroup and, as another user, without one."""
    def make(**options):
        if request.param == "no cgroup":
            # Not below a folder that only we may enter, as TMPDIR may be.
            folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/tmp")))
            folder.chmod(0o777)
            if os.geteuid() == 0 and subprocess.run([*NOBODY, "test", "-x", REDAEMONIZE], check=False).returncode != 0:
                pytest.skip(f"another user may not run {REDAEMONIZE}")
            options |= {"folder": folder, "user": NOBODY if os.geteuid() == 0 else ()}
            if os.geteuid() != 0 and own_cgroup() is not None:
                pytest.skip("every cgroup of this user can be divided")
        s = scenario(command=[REDAEMONIZE], **options)
        assert (request.param == "cgroup") == is_in_cgroup(first_child(s.guard())), "the command's cgroup"
        return s

    with contextlib.ExitStack() as stack:
        yield make


def is_in_cgroup(pid):
    with open(f"/proc/{pid}/cgroup", encoding="utf-8") as file:
        return any("/holdfast-lock-" in line for line in file if line.startswith("0::"))


def kill(*pids, how=signal.SIGKILL):
    """To all of them as if at once: each is stopped before the first gets its signal, so that none reacts to
    the end of another and is gone before its own turn."""
    if len(pids) > 1:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
    for pid in pids:
        os.kill(pid, how)


@pytest.mark.sanitized
def test_guard_killed(bad):
    s = bad()
    kill(s.guard())
    assert s.end(79) >= MARGIN, "a fixed part of the TTL lies between the last write and the next grant"


def test_standby_killed(bad):
    s = bad()
    kill(s.standby())
    assert s.end(79) >= MARGIN


def test_guard_and_standby_killed(bad):
    s = bad()
    kill(s.guard(), s.standby())
    assert s.end(79) >= MARGIN


def test_wrapper_and_guard_killed(bad):
    s = bad()
    kill(s.holder.pid, s.guard())
    assert s.end(-signal.SIGKILL) >= MARGIN


def test_wrapper_and_standby_killed(bad):
    s = bad()
    kill(s.holder.pid, s.standby())
    assert s.end(-signal.SIGKILL) >= MARGIN


def test_wrapper_and_guard_stopped(bad):
    s = bad()
    kill(s.holder.pid, s.guard(), how=signal.SIGSTOP)
    s.end(None)
    s.holder.send_signal(signal.SIGCONT)
    assert s.holder.wait(timeout=PATIENCE) == 79


def test_forced_out_while_the_guard_is_stopped(bad):
    s = bad()
    kill(s.guard(), how=signal.SIGSTOP)
    good(s.cluster, "force-unlock", "prize", "--reason", "test")
    s.end(79)


def test_a_stopped_standby_holds_nothing_up(cluster):  # noqa: F811
    process = subprocess.Popen([PROGRAM, "lock", "still", "--", "cat"], stdin=subprocess.PIPE,
                               env=environment(HOLDFAST_ENDPOINTS=endpoints(cluster)))
    wait_until(lambda: cluster.nodes[1].show("still").json["holders"], "it is held")
    kill(first_child(process.pid), how=signal.SIGSTOP)
    process.stdin.close()
    assert process.wait(timeout=PATIENCE) == 0


@needs_cgroup
def test_what_the_command_leaves_goes_on_and_its_cgroup_is_removed(cluster, tmp_path):  # noqa: F811
    before = cgroups()
    subprocess.run([PROGRAM, "lock", "left", "--", "sh", "-c", f"sleep 60 & echo $! >{tmp_path}/pid"],
                   env=environment(HOLDFAST_ENDPOINTS=endpoints(cluster)), check=True, timeout=PATIENCE)
    left = int((tmp_path / "pid").read_text())
    with open(f"/proc/{left}/cgroup", encoding="utf-8") as file, open("/proc/self/cgroup", encoding="utf-8") as own:
        assert file.read() == own.read(), "it is where the wrapper was"
    assert cgroups() == before
    os.kill(left, signal.SIGKILL)


@needs_cgroup
def test_the_cgroup_of_a_process_that_is_dead_is_removed_by_the_next(cluster):  # noqa: F811
    gone = subprocess.Popen(["true"])
    gone.wait()
    stale = own_cgroup() / f"holdfast-lock-{gone.pid}-0"
    live = own_cgroup() / f"holdfast-lock-{os.getpid()}-7"
    stale.mkdir()
    live.mkdir()
    try:
        subprocess.run([PROGRAM, "lock", "sweeps", "--", "true"], check=True, timeout=PATIENCE,
                       env=environment(HOLDFAST_ENDPOINTS=endpoints(cluster)))
        assert not stale.exists() and live.exists()
    finally:
        live.rmdir()

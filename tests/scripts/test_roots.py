"""scripts/test-roots: what a root has inside, that nothing of it stays outside, and what is said when it cannot be made."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from conftest import ROOT, run, write

TEST_ROOTS = ROOT / "scripts/test-roots"
PROGRAMS = ["bash", "cat", "env", "ls", "sleep", "tty"]


def why_not():
    tried = subprocess.run(["unshare", "--mount", "--pid", "--fork", "true"], check=False, capture_output=True, text=True)
    return None if tried.returncode == 0 else f"no namespaces here: {tried.stderr.strip()}"


needs_namespaces = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


@pytest.fixture
def root(tmp_path):
    """A few programs with their libraries, as small as a root can be."""
    folder = tmp_path / "root"
    for name in ("proc", "sys", "run", "dev", "tmp", "srv/holdfast", "usr/bin"):
        (folder / name).mkdir(parents=True)
    for name in PROGRAMS:
        program = shutil.which(name)
        shutil.copy(program, folder / "usr/bin" / name)
        for word in subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout.split():
            if word.startswith("/"):
                (folder / word[1:]).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(word, folder / word[1:])
    return folder


def enter(root, *command):
    return ["unshare", "--mount", "--pid", "--fork", "--kill-child", TEST_ROOTS, "--enter", root, *command]


@needs_namespaces
def test_a_root_has_devices_terminals_and_its_own_processes(root):
    script = """
        pwd
        echo "$HOME $CI ${SECRET-unset}"
        [[ -c /dev/null && -c /dev/urandom && -c /dev/ptmx && -d /dev/shm && -d /sys/kernel ]] && echo devices
        [[ $(cat <(echo through /dev/fd)) == through* ]] && echo pipes
        set -- /proc/[0-9]*; (($# < 10)) && echo alone
    """
    result = run(*enter(root, "bash", "-c", script), CI="true", SECRET="x")
    assert result.stdout.splitlines() == ["/srv/holdfast", "/root true unset", "devices", "pipes", "alone"]
    assert result.returncode == 0


@needs_namespaces
def test_mounts_and_processes_of_a_root_end_with_it(root):
    process = subprocess.Popen(enter(root, "bash", "-c", "echo started; sleep 987654"), stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "started\n"
    assert str(root) not in Path("/proc/self/mounts").read_text(encoding="utf-8")
    process.kill()
    assert process.stdout.read() == ""  # all that had it open are gone
    process.wait()
    assert not list((root / "dev").iterdir()) and not list((root / "proc").iterdir())


# --- making one -----------------------------------------------------------------------


@pytest.fixture
def making(tmp_path):
    """making(SCRIPT): the environment in which debootstrap is SCRIPT."""
    if os.geteuid() != 0:
        pytest.skip("roots are made by root")
    uri = "'http://mirror.invalid/debian/dists/stable/InRelease' x 0"

    def make(script):
        write(tmp_path / "bin/apt-get", f'#!/bin/sh\necho "{uri}"\n', executable=True)
        write(tmp_path / "bin/debootstrap", f"#!/bin/bash\n{script}\n", executable=True)
        return {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "XDG_CACHE_HOME": str(tmp_path / "cache"),
                "ROOTS": "nosuch"}

    yield make
    shutil.rmtree(ROOT / "build-logs/roots/nosuch", ignore_errors=True)


@needs_namespaces
def test_a_root_that_cannot_be_made_is_reported(tmp_path, making):
    result = run(TEST_ROOTS, **making("echo E: the mirror is on fire; exit 1"))
    assert result.returncode == 1
    assert "E: the mirror is on fire" in result.stdout
    assert "debootstrap could not make a root of nosuch" in result.stdout
    assert not (tmp_path / "cache/holdfast/roots/nosuch").exists()


@needs_namespaces
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_interrupted_it_leaves_no_process_and_no_mount(tmp_path, making, number):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    environment = making(f"exec 3>{pipe}; mkdir -p {tmp_path}/cache/m; mount -t tmpfs none {tmp_path}/cache/m\n"
                         "echo started >&3; sleep 987654")
    process = subprocess.Popen([TEST_ROOTS], env={**os.environ, **environment}, stdout=subprocess.DEVNULL)
    with open(pipe, encoding="ascii") as started:
        assert started.readline() == "started\n"
        process.send_signal(number)
        assert started.read() == ""  # debootstrap and what it started are gone
    process.wait()
    assert str(tmp_path) not in Path("/proc/self/mounts").read_text(encoding="utf-8")

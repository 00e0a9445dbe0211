"""Bare roots of Debian in which packages are installed. `make test-packages`, as root."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tests/support"), str(ROOT / "tests/cluster")]

from dockerfile import last_stage  # noqa: E402

ENTER = ["unshare", "--mount", "--pid", "--fork", "--kill-child", ROOT / "scripts/test-roots", "--enter"]
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "holdfast/roots"


class Root:
    """A folder that a shell sees as the whole machine."""

    def __init__(self, folder):
        self.folder = folder

    def run(self, script, timeout=600):
        """The output of `script`, which bash runs in /srv/holdfast with -e; processes that it leaves are ended."""
        result = subprocess.run([*map(str, ENTER), self.folder, "bash", "-ec", script], stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, timeout=timeout, check=False)
        assert result.returncode == 0, result.stdout
        return result.stdout

    def copy(self, *files):
        for file in files:
            shutil.copy(file, self.folder / "srv/holdfast")


def bare_root():
    """What debootstrap makes, once for all runs."""
    folder = CACHE / "bare-bookworm"
    if not folder.exists():
        if shutil.which("debootstrap") is None:
            pytest.fail("debootstrap is not installed; run: scripts/setup roots")
        CACHE.mkdir(parents=True, exist_ok=True)
        new = folder.with_suffix(".new")
        shutil.rmtree(new, ignore_errors=True)
        mirror = subprocess.run(["bash", "-c", ". scripts/common.sh; . /etc/os-release; debian_mirror"], cwd=ROOT, check=True,
                                stdout=subprocess.PIPE, text=True).stdout.strip()
        subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "debootstrap", "--variant=minbase", "bookworm",
                        new, mirror], check=True, stdout=subprocess.DEVNULL)
        proxy = subprocess.run("apt-config dump | grep -iE '^Acquire::(http|https)::Proxy'", shell=True, check=False,
                               stdout=subprocess.PIPE, text=True).stdout
        (new / "etc/apt/apt.conf.d/90proxy").write_text(proxy, encoding="utf-8")
        (new / "etc/hosts").write_text("127.0.0.1 localhost\n::1 localhost\n", encoding="utf-8")
        new.rename(folder)
    return folder


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    if os.geteuid() != 0:
        pytest.fail("roots of Debian can be made and entered by root only; run: sudo make test-packages")
    folder = tmp_path_factory.mktemp("root") / "debian"
    subprocess.run(["cp", "--archive", "--reflink=auto", bare_root(), folder], check=True)
    (folder / "srv/holdfast").mkdir(parents=True)
    if Path("/etc/resolv.conf").exists():
        shutil.copy("/etc/resolv.conf", folder / "etc/resolv.conf")
    yield Root(folder)
    shutil.rmtree(folder)


@pytest.fixture(scope="module", name="image")
def image_in_a_root(root):
    """The last stage of contrib/container/Dockerfile: its commands in a bare root, with the packages of build-deb/."""
    for name, rest in last_stage():
        if name == "COPY":
            pattern, target = re.fullmatch(r"--from=build /src/(\S+) /(\S+/)", rest).groups()
            files = list(ROOT.glob(pattern))
            assert files, f"{pattern} is missing; run: make deb"
            for file in files:
                shutil.copy(file, root.folder / target)
        elif name == "RUN":
            root.run(f"sh -c {shlex.quote(rest)}", timeout=900)
    return root

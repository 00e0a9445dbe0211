"""Fetches the archives of the suites, and unpacks them for a run. Nothing is changed in them."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import tarfile
from contextlib import contextmanager
from fcntl import LOCK_EX, flock
from pathlib import Path

from suites import Debian, Npm, Program

ROOT = Path(__file__).resolve().parent.parent.parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "holdfast"
ARCHIVES = CACHE / "redis-suites"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
PROGRAMS = Path(__file__).resolve().parent / "programs"
NODE = ROOT / "tests" / "node"
SECONDS = 300


class Missing(Exception):
    """What a suite needs is not on this machine. The text has what to do."""


@contextmanager
def alone(path):
    """Two runs on one machine do not fetch into one folder at a time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        flock(file, LOCK_EX)
        yield


# --- npm -----------------------------------------------------------------------


def node_modules():
    """Where scripts/setup puts them: a folder for each state of the lock file."""
    digest = hashlib.sha256((NODE / "package-lock.json").read_bytes()).hexdigest()[:12]
    folder = CACHE / f"node-{digest}" / "node_modules"
    if not shutil.which("node") or not folder.is_dir():
        raise Missing(f"Node.js or its packages are missing ({folder}). Run: scripts/setup test")
    return folder


def link_packages(folder, uses):
    """A node_modules of the same packages, except for the names of `uses`: a package finds what it requires
    above its own real folder, so each suite has the version of a client that it was written for."""
    modules = node_modules()
    folder.mkdir()
    for package in modules.iterdir():
        if package.name.startswith("@"):
            (folder / package.name).mkdir()
            for scoped in package.iterdir():
                (folder / package.name / scoped.name).symlink_to(scoped)
        elif not package.name.startswith(".") and package.name not in uses:
            (folder / package.name).symlink_to(package)
    for name, package in uses.items():
        (folder / name).symlink_to(modules / package)


# --- Debian --------------------------------------------------------------------


def mirror():
    """The Debian mirror of this machine, as scripts/common.sh finds it."""
    found = subprocess.run(
        ["bash", "-c", f'source /etc/os-release; source "{ROOT}/scripts/common.sh"; debian_mirror'],
        stdout=subprocess.PIPE, text=True, timeout=SECONDS, check=False).stdout.strip()
    if not found:
        raise Missing("the apt sources of this machine name no Debian mirror")
    return found


class Apt:
    """An apt with sources and state in a folder of its own, for one release."""

    def __init__(self, release):
        self.folder = ARCHIVES / f"apt-{release}"
        self.release = release

    def run(self, *arguments, cwd=None):
        command = ["apt-get", "-qq", "-o", f"Dir::Etc::SourceList={self.folder}/sources.list", "-o", "Dir::Etc::SourceParts=-",
                   "-o", f"Dir::State={self.folder}/state", "-o", f"Dir::Cache={self.folder}/cache", "-o", "APT::Sandbox::User=",
                   "-o", "Acquire::Retries=3", "-o", "Acquire::Languages=none", *arguments]
        return subprocess.run(command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=SECONDS, check=False)

    def update(self):
        for part in ("state/lists/partial", "cache/archives/partial"):
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        (self.folder / "sources.list").write_text(f"deb-src [signed-by={KEYRING}] {mirror()} {self.release} main\n", encoding="utf-8")
        return self.run("--error-on=any", "update")

    def versions(self, package):
        """The versions of its source package, the newest first."""
        listing = subprocess.run(
            ["apt-cache", "-o", f"Dir::Etc::SourceList={self.folder}/sources.list", "-o", "Dir::Etc::SourceParts=-", "-o",
             f"Dir::State={self.folder}/state", "-o", f"Dir::Cache={self.folder}/cache", "showsrc", "--only-source", package],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=SECONDS, check=False).stdout
        return re.findall(r"^Version: (?:\d+:)?(\S+)$", listing, re.MULTILINE)


def archive(source):
    """The upstream archive of the source package, verified by apt with the keys of Debian."""
    folder = ARCHIVES / f"{source.package}_{source.version}"
    found = list(folder.glob("*.orig.tar.*"))
    if found:
        return found[0]
    with alone(ARCHIVES / "lock"):
        found = list(folder.glob("*.orig.tar.*"))
        return found[0] if found else fetch(source, folder)


def fetch(source, folder):
    problems = []
    for release in source.releases:
        apt = Apt(release)
        updated = apt.update()
        if updated.returncode != 0:
            problems.append(f"{release}: {updated.stdout.strip()[-500:]}")
            continue
        versions = [version for version in apt.versions(source.package) if version.rpartition("-")[0] == source.version]
        if not versions:
            problems.append(f"{release} has no {source.package} {source.version}: change the version in tests/redis/suites.py")
            continue
        part = ARCHIVES / "part"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        got = apt.run("--download-only", "--tar-only", "source", source.package if len(versions) == 1 else f"{source.package}={versions[0]}",
                      cwd=part)
        files = list(part.glob("*.orig.tar.*"))
        if got.returncode == 0 and files:
            part.rename(folder)
            return folder / files[0].name
        problems.append(f"{release}: {got.stdout.strip()[-500:]}")
    raise Missing(f"cannot fetch {source.title}: " + "; ".join(problems))


def unpack(source, folder):
    """The archive without its first folder."""
    inside = f"{source.folder}/" if source.folder else ""
    with tarfile.open(archive(source)) as tar:
        members = []
        for member in tar:
            member.name = member.name.partition("/")[2]
            if not member.name.startswith(inside) or not member.name or member.islnk():
                continue
            members.append(member)
        tar.extractall(folder, members)


# --- both ----------------------------------------------------------------------


def place(source, folder):
    """Puts the tests into `folder`, and returns where they are run."""
    if isinstance(source, Debian):
        tree = folder / "tree"
        unpack(source, tree)
        return tree
    if isinstance(source, Npm):
        tree = folder / "package"
        shutil.copytree(node_modules() / source.package, tree)
        link_packages(folder / "node_modules", source.uses)
        return tree
    assert isinstance(source, Program)
    tree = folder / "program"
    shutil.copytree(PROGRAMS, tree)
    if isinstance(source.source, Npm):
        link_packages(folder / "node_modules", source.source.uses)
    else:
        unpack(source.source, folder / "library")
    return tree


def prepare(source):
    """Fetches what is not here yet, before anything runs."""
    if isinstance(source, Debian):
        archive(source)
    elif isinstance(source, Npm):
        if not (node_modules() / source.package).is_dir():
            raise Missing(f"{source.package} is not in node_modules. Run: scripts/setup test")
    else:
        prepare(source.source)


def title(source):
    """For the table: whose tests they are, and of which version."""
    if isinstance(source, Debian):
        return f"Debian {source.package} {source.version}"
    if isinstance(source, Npm):
        packages = json.loads((NODE / "package-lock.json").read_text(encoding="utf-8"))["packages"]
        package = packages[f"node_modules/{source.package}"]
        return f"npm {package.get('name', source.package)} {package['version']}"
    return f"a program of ours with {title(source.source)}"

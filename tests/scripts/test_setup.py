"""scripts/setup: what it does without a network, and what it says when it cannot."""

import os

import pytest

from conftest import ROOT, run, write

SETUP = ROOT / "scripts/setup"


def fake_apt(tmp_path, script):
    """Puts an apt-get of ours first in the path, and says with which PATH to run."""
    write(tmp_path / "bin/apt-get", f"#!/bin/sh\n{script}\n", executable=True)
    write(tmp_path / "bin/sudo", '#!/bin/sh\nexec "$@"\n', executable=True)
    return f"{tmp_path / 'bin'}:/usr/sbin:/usr/bin:/sbin:/bin"


def used():
    """Seconds of a processor, of all that we ran to its end."""
    times = os.times()
    return times.children_user + times.children_system


def test_with_nothing_to_do_it_is_quick_and_leaves_apt_alone(tmp_path):
    path = fake_apt(tmp_path, "echo apt-get was called; exit 1")
    start = used()
    result = run(SETUP, "build", "test", PATH=path)
    assert result.returncode == 0, result.stdout
    assert "apt-get was called" not in result.stdout
    assert used() - start < 3


def test_an_unknown_part_is_refused():
    result = run(SETUP, "bulid")
    assert result.returncode == 1
    assert 'there is no part "bulid"' in result.stdout
    assert "build, test, suites, docs, peers, roots" in result.stdout


def test_a_package_that_cannot_be_installed_is_named(tmp_path):
    path = fake_apt(tmp_path, "echo E: the mirror is on fire; exit 100")
    write(tmp_path / "bin/dpkg-query", "#!/bin/sh\nexit 1\n", executable=True)
    result = run(SETUP, "build", PATH=path)
    assert result.returncode == 1
    assert "E: the mirror is on fire" in result.stdout
    assert "apt-get could not install: gcc libc6-dev" in result.stdout


@pytest.mark.parametrize("ci", ["true", ""])
def test_packages_of_npm_that_cannot_be_fetched_are_said(tmp_path, ci):
    path = fake_apt(tmp_path, "echo apt-get was called; exit 1")
    write(tmp_path / "bin/npm", "#!/bin/sh\necho npm ERR! the registry is on fire; exit 1\n", executable=True)
    result = run(SETUP, "test", PATH=path, XDG_CACHE_HOME=tmp_path / "cache", CI=ci)
    assert result.returncode == (1 if ci == "true" else 0)
    assert "the registry is on fire" in result.stdout
    assert "tests/node/package-lock.json" in result.stdout
    assert ("are skipped" in result.stdout) == (ci != "true")
    assert not list((tmp_path / "cache").rglob("package.json")), "scratch files are left over"


def test_the_lock_file_of_npm_names_no_host():
    text = (ROOT / "tests/node/package-lock.json").read_text(encoding="utf-8")
    assert '"resolved"' not in text and '"integrity"' in text


def test_a_corrupted_tarball_is_refused_and_nothing_is_built(tmp_path):
    tarball = write(tmp_path / "raft.tar.gz", "not what Debian signed")
    result = run(SETUP, RAFT_TARBALL=tarball, XDG_CACHE_HOME=tmp_path / "cache")
    assert result.returncode == 1
    assert "is not the libraft source that we trust" in result.stdout
    assert not (tmp_path / "cache").exists()


def test_a_missing_tarball_is_said(tmp_path):
    result = run(SETUP, RAFT_TARBALL=tmp_path / "none.tar.gz")
    assert result.returncode == 1
    assert "cannot read" in result.stdout


def test_without_a_network_it_says_what_to_do(tmp_path, os_release):
    if os_release["VERSION_ID"] != "12":
        pytest.skip("libraft is built from source on Debian 12 only")
    uri = f"'http://mirror.invalid/debian/dists/{os_release['VERSION_CODENAME']}/InRelease' x 0"
    path = fake_apt(tmp_path, f'case "$*" in *--print-uris*) echo "{uri}" ;; *) exit 100 ;; esac')
    result = run(SETUP, PATH=path, XDG_CACHE_HOME=tmp_path / "cache")
    assert result.returncode == 1
    assert "cannot read Debian 13's list of sources on your mirror" in result.stdout
    assert "RAFT_TARBALL=FILE scripts/setup" in result.stdout
    assert not list((tmp_path / "cache").rglob("sources.list")), "scratch files are left over"


@pytest.mark.parametrize("file, text", [
    ("sources.list", "deb [arch=amd64] http://mirror.invalid/debian bookworm main contrib\n"),
    ("sources.list", "deb http://mirror.invalid/debian oldstable main\n"),
    ("parts/debian.sources",
     "Types: deb\n# a comment\nURIs: http://mirror.invalid/debian\n"
     "Suites: bookworm bookworm-updates\nComponents: main\n"),
])
def test_the_mirror_is_read_from_either_kind_of_list(tmp_path, file, text):
    (tmp_path / "parts").mkdir()
    write(tmp_path / "sources.list", "")
    write(tmp_path / "parts/other.list",
          "deb http://elsewhere.invalid/debian-security bookworm-security main\n")
    write(tmp_path / file, text)
    config = write(tmp_path / "apt.conf",
                   f'Dir::Etc::SourceList "{tmp_path}/sources.list";\n'
                   f'Dir::Etc::SourceParts "{tmp_path}/parts";\n')
    function = "source <(sed -n '/^debian_mirror()/,/^}/p' scripts/common.sh)"
    result = run("bash", "-c", f"{function}; VERSION_CODENAME=bookworm; debian_mirror",
                 APT_CONFIG=config)
    assert result.stdout == "http://mirror.invalid/debian\n"

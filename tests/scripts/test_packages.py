"""The parts of debian/ that can be checked without building the packages. `make test-packages` installs them in a bare root."""

import os
import re
import shutil
import subprocess

import pytest

from conftest import ROOT, run

DEBIAN = ROOT / "debian"
PROGRAM = ROOT / "build/holdfast"


def text_of(name):
    return (ROOT / name).read_text(encoding="utf-8")


def setup_list(name):
    words = re.search(rf"^{name}=\((.*?)\)$", text_of("scripts/setup"), re.MULTILINE | re.DOTALL)[1]
    return set(re.sub(r"#.*", "", words).split())


def test_changelog_and_program_have_one_version():
    version = re.search(r"^  version: '(.*)',$", text_of("meson.build"), re.MULTILINE)[1]
    assert re.match(r"holdfast \((.*?)\)", text_of("debian/changelog"))[1] == version


def test_the_build_needs_what_setup_installs():
    field = re.search(r"^Build-Depends:\n((?: .*\n)+)", text_of("debian/control"), re.MULTILINE)[1]
    needed = {name.strip() for name in re.sub(r"\(.*?\)", "", field).split(",")} - {"debhelper-compat", "python3", ""}
    build, package = setup_list("BUILD_PACKAGES"), setup_list("PACKAGE_PACKAGES")
    needed.add("build-essential")  # dpkg-buildpackage requires it of itself
    assert needed <= build | package, needed - build - package
    libraries = {name for name in build if name.startswith("lib") and name != "libc6-dev"}
    assert libraries <= needed, libraries - needed


def holdfast(*words, **environment):
    return subprocess.run([PROGRAM, *words], capture_output=True, text=True, timeout=20, check=False,
                          env={"PATH": os.environ["PATH"], **environment})


def test_the_settings_of_the_package_are_those_of_a_node_for_trials(tmp_path):
    result = holdfast("serve", "--check", "--config", DEBIAN / "holdfast.ini", HOLDFAST_DATA=str(tmp_path))
    assert result.returncode == 0, result.stderr


def test_the_commented_settings_are_those_of_a_node_with_tls(tmp_path):
    assert holdfast("cert", "init", "--dir", tmp_path).returncode == 0
    assert holdfast("cert", "node", "--dir", tmp_path, "--id", "1", "--host", "10.0.0.1").returncode == 0
    settings = re.sub(r"^#([a-z-]+ = )", r"\1", text_of("debian/holdfast.ini"), flags=re.MULTILINE)
    for there, here in (("node.crt", "node-1.pem"), ("node.key", "node-1-key.pem"), ("ca.crt", "ca.pem")):
        assert f"/etc/holdfast/{there}" in settings
        settings = settings.replace(f"/etc/holdfast/{there}", str(tmp_path / here))
    (tmp_path / "holdfast.ini").write_text(settings, encoding="utf-8")
    result = holdfast("serve", "--check", "--config", tmp_path / "holdfast.ini", "--data", tmp_path / "data")
    assert result.returncode == 0, result.stderr
    assert re.search(r"^auth *= *on", result.stdout, re.MULTILINE) and re.search(r"^resp *= *10.0.0.1:4655", result.stdout, re.MULTILINE)


def test_the_flags_of_the_readme_exist():
    commands = re.findall(r"holdfast (doctor|serve|member|status)([^`\n]*)", text_of("debian/holdfast.README.Debian"))
    assert {name for name, _ in commands} == {"doctor", "serve", "member", "status"}
    for name, rest in commands:
        help_text = holdfast(name, "--help").stdout
        for flag in re.findall(r"--[a-z-]+", rest):
            assert re.search(rf"(?<!\S){flag}\b", help_text), f"{name} {flag}"


# --- the units ----------------------------------------------------------------------------


@pytest.fixture(name="units")
def units_of_the_package(tmp_path):
    """They name a program that exists: systemd-analyze looks for it."""
    shutil.copy(PROGRAM, tmp_path / "holdfast")
    result = run(ROOT / "tools/systemd_units", tmp_path, tmp_path)
    assert result.returncode == 0, result.stdout
    return tmp_path


def test_the_units_are_accepted_by_systemd(units):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed: apt-get install systemd")
    (units / "holdfast@one.service").symlink_to("holdfast@.service")
    result = run("systemd-analyze", "verify", "--man=no", units / "holdfast.service", units / "holdfast@one.service")
    assert not [line for line in result.stdout.splitlines() if "holdfast" in line], result.stdout


def test_instances_of_the_template_share_no_settings_and_no_data(units):
    alone, template = ((units / name).read_text(encoding="utf-8") for name in ("holdfast.service", "holdfast@.service"))
    for unit, name, data in ((alone, "holdfast", "holdfast"), (template, "%i", "holdfast/%i")):
        assert f"\nExecStart={units}/holdfast serve --config /etc/holdfast/{name}.ini\n" in unit
        assert f"\nEnvironment=HOLDFAST_DATA=/var/lib/{data}\n" in unit and f"\nStateDirectory={data}\n" in unit
        assert "/usr/local" not in unit and "useradd" not in unit
    # All else is one unit.
    differ = [(a, b) for a, b in zip(alone.splitlines(), template.splitlines(), strict=True) if a != b]
    assert [b.partition("=")[0] for _, b in differ[1:]] == ["Description", "Environment", "ExecStart", "StateDirectory"], differ


# --- scripts/package ------------------------------------------------------------------------


def test_an_unknown_kind_of_package_is_refused_with_the_usage():
    result = run(ROOT / "scripts/package", "rpm")
    assert result.returncode == 2 and "scripts/package deb" in result.stdout

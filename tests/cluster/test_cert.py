"""`holdfast cert`: what it issues is checked by the openssl command."""

import json
import os
import re
import stat
import subprocess

import pytest

from harness import run


def openssl(*arguments):
    return subprocess.run(["openssl", *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False, timeout=60)


def cert(*arguments):
    result = run("cert", *map(str, arguments))
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture(name="folder")
def make_folder(tmp_path):
    folder = tmp_path / "tls"
    cert("init", "--dir", folder)
    return folder


def is_accepted(folder, name, purpose, *more):
    return openssl("verify", "-x509_strict", "-CAfile", folder / "ca.pem", "-purpose", purpose, *more,
                   folder / name).returncode == 0


def extensions(path):
    return openssl("x509", "-in", path, "-noout", "-text").stdout


def test_a_node_is_server_and_client_with_its_hosts_and_its_uri(folder):
    cert("node", "--dir", folder, "--id", 3, "--cluster", "prod", "--host", "n3.example", "--host", "::1", "10.0.0.3")
    assert is_accepted(folder, "node-3.pem", "sslserver")
    assert is_accepted(folder, "node-3.pem", "sslclient")
    assert is_accepted(folder, "node-3.pem", "sslserver", "-verify_hostname", "n3.example")
    assert is_accepted(folder, "node-3.pem", "sslserver", "-verify_ip", "10.0.0.3")
    assert is_accepted(folder, "node-3.pem", "sslserver", "-verify_ip", "::1")
    assert not is_accepted(folder, "node-3.pem", "sslserver", "-verify_hostname", "n4.example")
    assert not is_accepted(folder, "node-3.pem", "sslserver", "-verify_ip", "10.0.0.4")
    text = extensions(folder / "node-3.pem")
    assert "URI:holdfast-node:prod/3" in text
    assert "NIST CURVE: P-256" in text


def test_a_client_is_no_server_and_has_its_uri_only(folder):
    cert("client", "--dir", folder, "--name", "acme/ci")
    assert is_accepted(folder, "client-acme-ci.pem", "sslclient")
    assert not is_accepted(folder, "client-acme-ci.pem", "sslserver")
    names = re.search(r"Subject Alternative Name: *\n *(.*)", extensions(folder / "client-acme-ci.pem")).group(1)
    assert names.strip() == "URI:holdfast:acme/ci"


def test_another_ca_does_not_vouch_for_it(folder, tmp_path):
    cert("init", "--dir", tmp_path / "other")
    cert("client", "--dir", folder, "--name", "acme/ci")
    assert openssl("verify", "-CAfile", tmp_path / "other" / "ca.pem", folder / "client-acme-ci.pem").returncode != 0


def test_an_issued_certificate_cannot_issue_others(folder):
    cert("node", "--dir", folder, "--id", 1, "--host", "localhost")
    assert "CA:FALSE" in extensions(folder / "node-1.pem")
    authority = extensions(folder / "ca.pem")
    assert "CA:TRUE, pathlen:0" in authority and "Certificate Sign" in authority


def test_keys_are_for_their_owner_only_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        cert("init", "--dir", tmp_path / "tls")
        cert("client", "--dir", tmp_path / "tls", "--name", "acme/ci")
    finally:
        os.umask(before)
    for path in (tmp_path / "tls").glob("*-key.pem"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "tls").stat().st_mode) == 0o700


@pytest.mark.parametrize("lost", ["ca.pem", "ca-key.pem"])
def test_no_file_is_overwritten_and_none_remains_alone(folder, lost):
    kept = "ca.pem" if lost == "ca-key.pem" else "ca-key.pem"
    before = (folder / kept).read_bytes()
    (folder / lost).unlink()
    result = run("cert", "init", "--dir", folder)
    assert result.returncode == 1 and "is not overwritten" in result.stderr
    assert (folder / kept).read_bytes() == before
    assert not (folder / lost).exists()


def test_a_certificate_ends_with_its_ca_at_the_latest(tmp_path):
    cert("init", "--dir", tmp_path, "--days", 10)
    cert("client", "--dir", tmp_path, "--name", "acme/ci", "--days", 20)
    ends = [json.loads(cert("show", "--json", tmp_path / name))["not_after"] for name in ("ca.pem", "client-acme-ci.pem")]
    assert ends[0] == ends[1]


def test_show_agrees_with_openssl(folder):
    files = json.loads(cert("node", "--dir", folder, "--id", 1, "--host", "localhost", "--json"))
    shown = json.loads(cert("show", files["certificate"], "--json"))
    assert shown["names"] == ["DNS:localhost", "URI:holdfast-node:holdfast/1"]
    assert shown["valid"] and shown["server"] and not shown["ca"]
    serial = openssl("x509", "-in", files["certificate"], "-noout", "-serial").stdout
    assert serial.strip().lower() == "serial=" + shown["serial"]
    digest = openssl("x509", "-in", files["certificate"], "-noout", "-fingerprint", "-sha256").stdout
    assert digest.partition("=")[2].strip().replace(":", "").lower() == shown["sha256"]
    assert "PRIVATE" not in cert("show", files["certificate"])


@pytest.mark.parametrize("arguments", [
    ["client", "--name", "acme"],
    ["client", "--name", "acme/ci/x"],
    ["client", "--name", "../ci"],
    ["client", "--name", "acme/ci,DNS:evil"],
    ["node", "--id", "1"],
    ["node", "--host", "a"],
    ["node", "--id", "1", "--host", "a", "--cluster", "a/b"],
    ["nothing"],
])
def test_wrong_usage_issues_nothing(folder, arguments):
    before = sorted(folder.iterdir())
    assert run("cert", *arguments, "--dir", str(folder)).returncode == 64
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize("host", ["a b", "a,URI:holdfast:x/y", "10.0.0.1:4653", "-*.a", "a..b", ""])
def test_a_host_is_a_name_or_an_address(folder, host):
    before = sorted(folder.iterdir())
    assert run("cert", "node", "--dir", str(folder), "--id", "1", f"--host={host}").returncode in (1, 64)
    assert sorted(folder.iterdir()) == before


def test_a_key_that_is_not_the_ca_s_is_refused(folder, tmp_path):
    cert("init", "--dir", tmp_path / "other")
    (folder / "ca-key.pem").write_bytes((tmp_path / "other" / "ca-key.pem").read_bytes())
    result = run("cert", "client", "--dir", str(folder), "--name", "acme/ci")
    assert result.returncode == 1 and "ca-key.pem is not its key" in result.stderr

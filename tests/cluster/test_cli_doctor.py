"""`holdfast doctor` on machines and settings with made faults."""

import http.server
import json
import os
import re
import socket
import threading
import time

import pytest

from harness import environment, free_ports, run
from secure import Authority

# What this machine may be like while it runs tests.
OF_THE_MACHINE = {"disk-speed", "disk-space", "file-system", "clock-source", "clock-sync", "memory", "open-files", "locked-memory",
                  "peer"}


class Settings:
    """A settings file in a folder, and what doctor says about it."""

    def __init__(self, folder):
        self.folder = folder
        self.ports = free_ports(2)
        self.data = folder / "data"
        self.values = {"data": self.data, "client": f"127.0.0.1:{self.ports[0]}", "peer": f"127.0.0.1:{self.ports[1]}"}

    def doctor(self, *flags, code=0, inside=None, **values):
        path = self.folder / "holdfast.ini"
        lines = {**self.values, **{key.replace("_", "-"): value for key, value in values.items()}}
        path.write_text("".join(f"{key} = {value}\n" for key, value in lines.items()))
        done = run("doctor", "--config", path, "--timeout", "2s", "--json", *flags, env=environment())
        assert done.returncode == code, done
        report = json.loads(done.stdout)
        assert sum(report[level] for level in ("ok", "warn", "fail")) == len(report["checks"])
        for line in report["checks"]:
            assert set(line) == {"check", "level", "text", "action"} and line["text"]
            assert bool(line["action"]) == (line["level"] != "ok"), line
        assert (report["fail"] > 0) == (code == 1)
        return report["checks"]


@pytest.fixture
def settings(tmp_path):
    return Settings(tmp_path)


def only(lines, check):
    found = [line for line in lines if line["check"] == check]
    assert len(found) == 1, found
    return found[0]


def bad(lines):
    """What is wrong, apart from this machine."""
    return {line["check"]: line for line in lines if line["level"] != "ok" and line["check"] not in OF_THE_MACHINE}


def test_a_machine_before_its_first_start(settings):
    settings.data.mkdir(mode=0o700)
    lines = settings.doctor()
    assert not bad(lines)
    names = {line["check"] for line in lines}
    assert names >= {"settings", "data", "file-system", "disk-space", "disk-speed", "open-files", "memory", "clock-source",
                     "clock-sync", "certificate", "port", "peer", "member"}
    assert "ms, the slowest" in only(lines, "disk-speed")["text"]
    assert list(settings.data.iterdir()) == []  # the test of the disk leaves nothing behind


def test_a_running_node_is_recognised_and_compared(make_cluster, tmp_path):
    cluster = make_cluster(3)
    node = cluster.nodes[2]
    path = tmp_path / "holdfast.ini"
    path.write_text(f"id = 2\ndata = {node.folder}\nclient = {node.client}\npeer = {node.peer}\ncluster = {cluster.members()}\n")
    done = run("doctor", "--config", path, "--json", env=environment())
    assert done.returncode == 0, done
    lines = json.loads(done.stdout)["checks"]
    texts = [line["text"] for line in lines]
    assert not bad(lines)
    assert sum("in use by this node, which runs" in text for text in texts) == 2
    assert sum(line["check"] == "peer" and "accepts a connection" in line["text"] for line in lines) == 3
    assert sum(line["check"] == "member" and "answers in" in line["text"] for line in lines) == 3
    assert sum(line["check"] == "member-clock" for line in lines) == 3
    assert only(lines, "cluster")["text"].startswith("3 nodes of the cluster ")
    assert "support state version" in only(lines, "version")["text"]
    own = run("--version", env=environment()).stdout.strip()
    assert only(lines, "program")["text"] == f"3 nodes run {own}"
    text = run("doctor", "--config", path, env=environment())
    assert text.returncode == 0 and text.stdout.startswith("ok    settings      ") and " failed\n" in text.stdout

    cluster.nodes[3].kill()
    done = run("doctor", "--config", path, "--json", env=environment())
    assert done.returncode == 0
    lines = json.loads(done.stdout)["checks"]
    gone = [line for line in lines if line["level"] == "warn" and line["check"] in ("peer", "member")]
    assert [line["check"] for line in gone] == ["peer", "member"] or [line["check"] for line in gone] == ["member", "peer"]
    assert all("node 3 at" in line["text"] and "does not answer" in line["text"] for line in gone)


class OtherNode(http.server.ThreadingHTTPServer):
    """Answers /api/v1/cluster of a cluster of three as a node with a program of this version; None: a program that does not name it."""

    def __init__(self, ident, version, cluster_id="c" * 32):
        self.others = [self]

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                members = [{"id": node.ident, "client_address": node.address, "peer_address": node.address, "role": "follower",
                            "state_version": 8} for node in self.server.others]
                body = {"node": ident, "leader": 1, "members": members, "cluster_id": cluster_id, "wall_ms": int(time.time() * 1000)}
                if version is not None:
                    body["program_version"] = version
                text = json.dumps(body).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *words):
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        self.ident = ident
        self.address = f"127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()


@pytest.mark.parametrize("versions, level, text", [
    (("1.2.0", "1.2.0", None), "ok", "2 nodes run holdfast 1.2.0"),
    (("1.2.0", None, "1.3.0"), "warn", "node 1 runs holdfast 1.2.0, node 3 1.3.0"),
    ((None, None, None), None, None)])
def test_programs_of_nodes_are_compared(settings, versions, level, text):
    settings.data.mkdir(mode=0o700)
    nodes = [OtherNode(number, version) for number, version in enumerate(versions, 1)]
    for node in nodes:
        node.others = nodes
    try:
        lines = settings.doctor("--endpoints", nodes[0].address)
    finally:
        for node in nodes:
            node.shutdown()
            node.server_close()
    assert [(line["level"], line["text"]) for line in lines if line["check"] == "program"] == ([(level, text)] if level else [])
    assert only(lines, "cluster")["level"] == "ok"


def test_settings_that_are_wrong_end_the_checks(settings):
    lines = settings.doctor(code=1, heartbeat="never", unknown_word="1")
    assert {line["check"] for line in lines} == {"settings"}
    assert any("holdfast.ini:4: heartbeat" in line["text"] for line in lines)
    missing = run("doctor", "--config", settings.folder / "absent.ini", env=environment())
    assert missing.returncode == 1 and "fail  settings" in missing.stdout


def test_the_data_folder(settings):
    settings.data.mkdir(mode=0o755)
    assert bad(settings.doctor())["data"]["level"] == "warn"
    settings.data.rmdir()
    settings.data.write_text("a file")
    assert "is not a folder" in only(settings.doctor(code=1), "data")["text"]
    settings.data.unlink()
    assert "does not exist yet" in only(settings.doctor(), "data")["text"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_data_folder_of_somebody_else(settings):
    settings.data.mkdir(mode=0o700)
    os.chown(settings.data, 65534, 65534)
    line = only(settings.doctor(code=1), "data")
    assert "belongs to user 65534" in line["text"] and "chown" in line["action"]


def test_certificates(settings, tmp_path):
    authority = Authority(tmp_path / "tls")
    good = authority.node(1)

    def check(certificate, code, key=None):
        return settings.doctor(code=code, tls_cert=certificate.cert, tls_key=key or certificate.key, tls_ca=authority.ca)

    line = only(check(good, 0), "certificate")
    assert line["level"] == "ok" and "is valid for" in line["text"]
    old = authority.issue("old", ["holdfast-node:holdfast/1"], ["127.0.0.1"], not_after="20240101000000Z")
    line = only(check(old, 1), "certificate")
    assert line["level"] == "fail" and "has expired" in line["text"]
    soon = authority.issue("soon", ["holdfast-node:holdfast/1"], ["127.0.0.1"], days=5)
    line = only(check(soon, 0), "certificate")
    assert line["level"] == "warn" and re.search("expires in [45] days", line["text"])
    assert only(check(good, 1, key=soon.key), "certificate")["level"] == "fail"
    good.key.chmod(0o644)
    line = only(check(good, 1), "certificate")
    assert line["level"] == "fail" and str(good.key) in line["text"]


def test_a_peer_secret_that_others_may_read(settings, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("0123456789abcdef0123456789abcdef\n")
    secret.chmod(0o644)
    assert "can be read by other users" in only(settings.doctor(code=1, peer_secret_file=secret), "peer-secret")["text"]
    secret.chmod(0o600)
    assert only(settings.doctor(peer_secret_file=secret), "peer-secret")["level"] == "ok"


def test_a_port_that_another_process_has(settings):
    with socket.create_server(("127.0.0.1", settings.ports[1])):
        lines = settings.doctor(code=1)
    port = bad(lines)["port"]
    assert "is in use, and not by a node" in port["text"] and str(settings.ports[1]) in port["text"]


def test_an_address_of_another_machine(settings):
    port = bad(settings.doctor(code=1, peer="192.0.2.1:4654", insecure="true"))["port"]
    assert "may not listen on peer 192.0.2.1:4654" in port["text"]


def test_members_that_do_not_answer(settings):
    silent = free_ports(1)[0]
    lines = settings.doctor(cluster=f"1=127.0.0.1:{settings.ports[1]},2=127.0.0.1:{silent}")
    peers = {line["level"]: line for line in lines if line["check"] == "peer"}
    assert "is this node, which does not run" in peers["ok"]["text"]
    assert f"node 2 at 127.0.0.1:{silent} does not answer" in peers["warn"]["text"] and peers["warn"]["action"]


def test_few_open_files(settings):
    path = settings.folder / "holdfast.ini"
    path.write_text("".join(f"{key} = {value}\n" for key, value in settings.values.items()))
    script = 'ulimit -n 512 && exec "$0" "$@"'
    from harness import PROGRAM
    import subprocess
    done = subprocess.run(["sh", "-c", script, str(PROGRAM), "doctor", "--config", str(path), "--json"], env=environment(),
                          capture_output=True, text=True, timeout=60, check=True)
    line = only(json.loads(done.stdout)["checks"], "open-files")
    assert line["level"] == "warn" and "allows 512 open files" in line["text"]


def test_memory_as_a_disk_is_named(settings, tmp_path):
    if not os.path.ismount("/dev/shm"):
        pytest.skip("/dev/shm is no tmpfs here")
    line = only(settings.doctor(data=f"/dev/shm/holdfast-doctor-{os.getpid()}"), "file-system")
    assert line["level"] == "warn" and "tmpfs" in line["text"]

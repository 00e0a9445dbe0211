"""The Unix socket in the data folder, which makes an administrator without credentials: `auth bootstrap`, `auth rescue`."""

import json
import os
import socket
import stat
import subprocess

import pytest

import harness
from auth_support import bearer
from harness import PATIENCE, wait_until
from secure import admin_request, new_secret

WHOAMI = "/api/v1/auth/whoami"


@pytest.fixture
def node(make_cluster):
    return make_cluster(1, "--auth", "on").nodes[1]


def make_admin(node, operation="bootstrap", principal="default/admin"):
    """The answer, and the secret."""
    secret, digest = new_secret()
    answers = []

    def answered():
        """A new cluster has its state version after a moment."""
        answers.append(admin_request(node.folder, op=operation, principal=principal, sha256=digest, description="test"))
        return answers[-1].get("error") != "not_upgraded"

    wait_until(answered, "the state is upgraded")
    return answers[-1], secret


def who(node, secret):
    return node.request("GET", WHOAMI, headers=bearer(secret))


def raw(node, text, ends=False):
    """Everything that the node answers to these bytes."""
    with socket.socket(socket.AF_UNIX) as there:
        there.settimeout(PATIENCE)
        there.connect(str(node.folder / "admin.sock"))
        there.sendall(text)
        if ends:
            there.shutdown(socket.SHUT_WR)
        answer = b""
        while piece := there.recv(65536):
            answer += piece
        return answer


def test_bootstrap_makes_the_first_administrator_once(node):
    assert stat.S_IMODE(os.stat(node.folder / "admin.sock").st_mode) == 0o600
    answer, secret = make_admin(node)
    assert answer == {"principal": "default/admin", "version": 1}
    assert who(node, secret).json["principal"] == "default/admin"
    policy = node.request("GET", "/api/v1/auth/policy", headers=bearer(secret)).json
    assert [row["grants"] for row in policy["principals"]] == [
        [{"tenant": "*", "prefix": "*", "rights": ["lock", "read", "operate", "admin"]}]]
    again, other = make_admin(node)
    assert again["error"] == "policy_exists" and "rescue" in again["message"]
    assert who(node, other).status == 401
    assert who(node, secret).status == 200
    assert secret not in node.log() and other not in node.log()


def test_bootstrap_creates_the_tenant(node):
    answer, secret = make_admin(node, principal="ops/root")
    assert answer["principal"] == "ops/root"
    assert who(node, secret).json["tenant"] == "ops"


def test_rescue_replaces_the_administrators_in_one_change(node):
    _, first = make_admin(node)
    made = node.request("POST", "/api/v1/auth/tokens", {"principal": "default/admin"}, headers=bearer(first)).json["token"]
    answer, second = make_admin(node, "rescue", "default/saviour")
    assert answer == {"principal": "default/saviour", "version": 3}
    assert who(node, first).status == who(node, made).status == 401
    assert who(node, second).json["principal"] == "default/saviour"
    rows = node.request("GET", "/api/v1/audit", headers=bearer(second)).json["records"]
    assert [row["action"] for row in rows] == ["BOOTSTRAP", "POLICY", "RESCUE"], rows
    assert rows[2]["actorId"] == f"user {os.geteuid()} of the node's machine"


def test_each_node_takes_the_request_also_a_follower(make_cluster):
    cluster = make_cluster(3, "--auth", "on")
    secrets = {}
    for node in cluster:
        answer, secrets[node.id] = make_admin(node, "rescue", f"default/admin-{node.id}")
        assert answer["principal"] == f"default/admin-{node.id}"
    for node in cluster:
        wait_until(lambda node=node: who(node, secrets[3]).status == 200, "each node knows the token")
        assert who(node, secrets[1]).status == who(node, secrets[2]).status == 401


@pytest.mark.parametrize("line, error", [
    (b"no json\n", "json_malformed"),
    (b"[]\n", "invalid_policy"),
    (b'{"op":"other","principal":"a/b","sha256":"' + b"0" * 64 + b'"}\n', "invalid_policy"),
    (b'{"op":"bootstrap","principal":"ab","sha256":"' + b"0" * 64 + b'"}\n', "invalid_policy"),
    (b'{"op":"bootstrap","principal":"a/b/c","sha256":"' + b"0" * 64 + b'"}\n', "invalid_policy"),
    (b'{"op":"bootstrap","principal":"a/b","sha256":"' + b"g" * 64 + b'"}\n', "invalid_policy"),
    (b'{"op":"bootstrap","principal":"a/b","sha256":"' + b"0" * 62 + b'"}\n', "invalid_policy"),
    (b'{"op":"bootstrap","principal":"a/b","sha256":"' + b"0" * 64 + b'","more":1}\n', "invalid_policy"),
    (b'{"op":"bootstrap","principal":"a/b","sha256":"' + b"0" * 64 + b'","description":"' + b"x" * 257 + b'"}\n', "invalid_policy"),
    (b"x" * 8192, "json_malformed"),
])
def test_a_wrong_line_is_refused_and_changes_nothing(node, line, error):
    answer = json.loads(raw(node, line))
    assert answer["error"] == error and answer["message"]
    assert make_admin(node)[0]["version"] == 1


def test_a_client_that_ends_or_is_silent_holds_nobody_up(node):
    assert raw(node, b'{"op":', ends=True) == b""
    silent = [socket.socket(socket.AF_UNIX) for _ in range(6)]
    for one in silent:
        one.settimeout(PATIENCE)
        one.connect(str(node.folder / "admin.sock"))
    assert b"10 s" in silent[0].recv(4096)
    assert make_admin(node)[0]["version"] == 1
    for one in silent:
        one.close()


def test_the_socket_of_a_node_that_was_killed_is_replaced(node):
    node.kill()
    assert (node.folder / "admin.sock").is_socket()
    node.start().wait_ready()
    assert make_admin(node)[0]["version"] == 1
    assert node.stop() == 0
    assert not (node.folder / "admin.sock").exists()


def test_without_auth_there_is_no_socket(make_cluster):
    node = make_cluster(1).nodes[1]
    assert not (node.folder / "admin.sock").exists()


def test_a_long_path_of_the_data_folder_is_served(tmp_path, make_cluster):
    cluster = make_cluster(1, "--auth", "on", start=False)
    node = cluster.nodes[1]
    node.folder = tmp_path / ("x" * 100) / "data"
    cluster.start()
    assert make_admin_from(node.folder)["principal"] == "default/long"


def make_admin_from(folder):
    """By the command line, in the folder: the path is too long for a client, too."""
    answers = []

    def answered():
        done = subprocess.run([harness.PROGRAM, "auth", "rescue", "--data", ".", "--json", "--name", "default/long"],
                              cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == 0 or "not_upgraded" in done.stderr, done
        answers.append(done.stdout.splitlines()[0] if done.stdout else "")
        return answers[-1]

    wait_until(answered, "the administrator is made")
    return json.loads(answers[-1])


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user")
def test_another_user_is_refused(node):
    """The folder keeps it out; if it was opened, the kernel still names the user."""
    for part in (node.folder, *node.folder.parents):
        if part.stat().st_uid == 0 and str(part).startswith("/tmp/"):
            part.chmod(0o755)
    (node.folder / "admin.sock").chmod(0o666)
    program = ("import socket,sys; s=socket.socket(socket.AF_UNIX); s.settimeout(30); s.connect(sys.argv[1]); "
               "print(s.recv(4096).decode())")
    done = subprocess.run(["/usr/bin/python3", "-c", program, str(node.folder / "admin.sock")], user=65534, group=65534,
                          extra_groups=[], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert '"denied"' in done.stdout, done

"""`holdfast token` and `holdfast auth`: what they send, and how they handle files and refusals. The server is a stub here:
these tests are about the command line only."""

import hashlib
import http.server
import json
import re
import socket
import stat
import threading

import pytest

from harness import run

POLICY = {
    "version": 7, "tenants": [{"name": "default", "number": 0}, {"name": "acme", "number": 1}],
    "principals": [{"tenant": "acme", "name": "ci", "number": 1, "description": "builds",
                    "grants": [{"tenant": "acme", "prefix": "ci/", "rights": ["lock", "read"]}]}],
    "barred_serials": [],
}
TOKENS = {"tokens": [{"number": 4, "principal": "acme/ci", "description": "laptop", "created_at": "2026-01-02T03:04:05.000Z",
                      "expires_at": None}]}


class Stub(http.server.ThreadingHTTPServer):
    """Answers by path; keeps the requests."""

    def __init__(self):
        self.requests = []
        self.answers = {}
        super().__init__(("127.0.0.1", 0), Handler)
        self.endpoint = f"127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.requests.append((self.command, self.path, json.loads(body) if body else None))
        status, value = self.server.answers[self.command, self.path.partition("?")[0]]
        text = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_PUT = do_DELETE = answer

    def log_message(self, *_):
        pass


@pytest.fixture(name="stub")
def make_stub():
    stub = Stub()
    yield stub
    stub.shutdown()
    stub.server_close()


def good(stub, *arguments):
    result = run(*arguments, "--endpoints", stub.endpoint)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_a_token_is_made_here_and_only_its_digest_is_sent(stub):
    stub.answers["POST", "/api/v1/auth/tokens"] = 200, {"number": 9, "expires_at": None}
    token = good(stub, "token", "create", "acme/ci", "--ttl", "2m", "--description", "laptop").strip()
    assert re.fullmatch(r"hf_[A-Za-z0-9_-]{43}", token)
    assert stub.requests == [("POST", "/api/v1/auth/tokens", {
        "principal": "acme/ci", "description": "laptop", "ttl_seconds": 120,
        "sha256": hashlib.sha256(token.encode()).hexdigest()})]
    made = json.loads(good(stub, "token", "create", "acme/ci", "--json"))
    assert made["number"] == 9 and made["token"] != token


def test_a_token_is_stored_for_its_owner_only(stub, tmp_path):
    path = tmp_path / "token"
    stub.answers["POST", "/api/v1/auth/tokens"] = 200, {"number": 9, "expires_at": None}
    assert good(stub, "token", "create", "acme/ci", "--out", str(path)) == ""
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    text = path.read_text().strip()
    assert hashlib.sha256(text.encode()).hexdigest() == stub.requests[0][2]["sha256"]
    assert "token" not in json.loads(good(stub, "token", "create", "acme/ci", "--json", "--out", str(tmp_path / "other")))
    again = run("token", "create", "acme/ci", "--out", str(path), "--endpoints", stub.endpoint)
    assert again.returncode == 1 and "not overwritten" in again.stderr
    assert path.read_text().strip() == text and len(stub.requests) == 2


def test_a_refused_token_leaves_no_file_and_the_reason_is_printed(stub, tmp_path):
    stub.answers["POST", "/api/v1/auth/tokens"] = 403, {"error": {"code": "denied", "message": "acme/ci has no right admin"}}
    result = run("token", "create", "acme/ci", "--out", str(tmp_path / "t"), "--endpoints", stub.endpoint)
    assert result.returncode == 77 and "acme/ci has no right admin (denied)" in result.stderr
    assert not (tmp_path / "t").exists() and result.stdout == ""


def test_tokens_are_listed_and_revoked(stub):
    stub.answers["GET", "/api/v1/auth/tokens"] = 200, TOKENS
    stub.answers["DELETE", "/api/v1/auth/tokens/4"] = 200, {}
    rows = good(stub, "token", "list", "acme/ci").splitlines()
    assert rows[0].split() == ["NUMBER", "PRINCIPAL", "CREATED", "EXPIRES", "DESCRIPTION"]
    assert rows[1].split()[:2] == ["4", "acme/ci"] and "never" in rows[1]
    assert json.loads(good(stub, "token", "list", "--json")) == TOKENS
    assert "token 4 is revoked" in good(stub, "token", "revoke", "4")
    assert [request[1] for request in stub.requests] == [
        "/api/v1/auth/tokens?principal=acme/ci", "/api/v1/auth/tokens", "/api/v1/auth/tokens/4"]


def test_the_policy_is_shown_and_applied(stub, tmp_path):
    stub.answers["GET", "/api/v1/auth/policy"] = 200, POLICY
    stub.answers["PUT", "/api/v1/auth/policy"] = 200, {"version": 8, "changes": ["add tenant x"]}
    shown = good(stub, "auth", "show")
    assert "version 7" in shown and re.search(r"^acme/ci +acme +ci/ +lock,read +builds$", shown, re.M)
    path = tmp_path / "policy.json"
    path.write_text(good(stub, "auth", "show", "--json"), encoding="utf-8")
    assert "add tenant x" in good(stub, "auth", "apply", str(path), "--dry-run")
    good(stub, "auth", "apply", str(path), "--end-sessions")
    assert [request for request in stub.requests if request[0] == "PUT"] == [
        ("PUT", "/api/v1/auth/policy?dry_run=true&end_sessions=false", POLICY),
        ("PUT", "/api/v1/auth/policy?dry_run=false&end_sessions=true", POLICY)]


def test_explain_and_whoami(stub):
    stub.answers["GET", "/api/v1/auth/explain"] = 200, {"allowed": False, "because": "no grant covers b&c"}
    stub.answers["GET", "/api/v1/auth/whoami"] = 200, {"principal": "acme/ci", "tenant": "acme", "by": "token"}
    result = run("auth", "explain", "acme/ci", "lock", "b&c", "--endpoints", stub.endpoint)
    assert result.returncode == 77 and result.stdout == "denied: no grant covers b&c\n"
    assert stub.requests[0][1] == "/api/v1/auth/explain?principal=acme/ci&right=lock&name=b%26c"
    assert good(stub, "auth", "whoami") == "acme/ci in tenant acme, by token\n"


@pytest.mark.parametrize("arguments", [
    ["token"], ["token", "create"], ["token", "create", "ci"], ["token", "revoke", "x"], ["token", "list", "a/b", "c/d"],
    ["auth"], ["auth", "bootstrap"], ["auth", "rescue", "--data", "d", "more"], ["auth", "apply"], ["auth", "explain", "a/b"],
    ["auth", "bootstrap", "--data", "d", "--secret-file", "a", "--out", "b"], ["auth", "show", "more"],
])
def test_wrong_usage_sends_nothing(stub, arguments):
    assert run(*arguments, "--endpoints", stub.endpoint).returncode == 64
    assert stub.requests == []


def test_a_policy_that_is_not_json_is_not_sent(stub, tmp_path):
    (tmp_path / "p").write_text("{", encoding="utf-8")
    result = run("auth", "apply", str(tmp_path / "p"), "--endpoints", stub.endpoint)
    assert result.returncode == 64 and str(tmp_path / "p") in result.stderr
    assert stub.requests == []


class AdminStub:
    """DATA/admin.sock: one line in, `answer` out; b"" closes without an answer."""

    def __init__(self, folder, answer):
        self.lines = []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(folder / "admin.sock"))
        self.listener.listen()
        self.answer = answer
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        there, _ = self.listener.accept()
        with there, there.makefile("rb") as lines:
            self.lines.append(json.loads(lines.readline()))
            there.sendall(self.answer)


def test_bootstrap_sends_the_digest_to_the_socket_in_the_folder(tmp_path):
    stub = AdminStub(tmp_path, b'{"version":1,"principal":"default/admin"}\n')
    result = run("auth", "bootstrap", "--data", str(tmp_path))
    assert result.returncode == 0, result.stderr
    token = result.stdout.strip()
    assert re.fullmatch(r"hf_[A-Za-z0-9_-]{43}", token)
    assert stub.lines[0]["op"] == "bootstrap" and stub.lines[0]["principal"] == "default/admin"
    assert stub.lines[0]["sha256"] == hashlib.sha256(token.encode()).hexdigest()


def test_rescue_takes_a_prepared_secret_and_does_not_print_it(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("hf_" + "a" * 43 + "\n", encoding="utf-8")
    secret.chmod(0o600)
    stub = AdminStub(tmp_path, b'{"version":2,"principal":"default/root"}\n')
    result = run("auth", "rescue", "--data", str(tmp_path), "--secret-file", str(secret), "--name", "default/root")
    assert result.returncode == 0 and "aaaa" not in result.stdout + result.stderr
    assert stub.lines[0]["op"] == "rescue"
    assert stub.lines[0]["sha256"] == hashlib.sha256(("hf_" + "a" * 43).encode()).hexdigest()


@pytest.mark.parametrize("answer, code, is_kept", [
    (b'{"error":"policy_exists","message":"there is an administrator already"}\n', 1, False),
    (b"", 69, True),  # the token may be valid
])
def test_a_failed_bootstrap_keeps_the_secret_only_if_it_may_be_valid(tmp_path, answer, code, is_kept):
    AdminStub(tmp_path, answer)
    result = run("auth", "bootstrap", "--data", str(tmp_path), "--out", str(tmp_path / "token"))
    assert result.returncode == code, result.stderr
    assert (tmp_path / "token").exists() == is_kept


def test_without_a_node_bootstrap_says_what_it_needs(tmp_path):
    result = run("auth", "bootstrap", "--data", str(tmp_path), "--out", str(tmp_path / "token"))
    assert result.returncode == 69 and "the node must be running" in result.stderr
    assert not (tmp_path / "token").exists()

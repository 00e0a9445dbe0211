"""The examples of docs/FENCES.md: each is run with a token, and refused with an older one. And the SQL of docs/guide/migrate.md."""

import io
import re
import sqlite3
import subprocess
from types import SimpleNamespace

import grpc
import psycopg2
import pytest

import harness
from conftest import ROOT
from holdfast.fence import StaleToken, files, objects, sqlite
from object_store import ObjectStore

TEXT = (ROOT / "docs/FENCES.md").read_text(encoding="utf-8")
BLOCKS = [(kind, code) for kind, code in re.findall(r"^```(\w*)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)]


def block(kind, *words):
    """The example of this language that contains all words."""
    [found] = [code for language, code in BLOCKS if language == kind and all(word in code for word in words)]
    return found


def test_each_example_has_a_test():
    assert sorted(kind for kind, _ in BLOCKS) == ["", "c", "python", "python", "python", "python", "python", "sql", "sql"]
    assert "redis-cli" in dict(BLOCKS)[""]  # test_redis.py runs it


def run_twice(code, **names):
    exec(code, {**names, "lock": SimpleNamespace(fence_token=6)})
    with pytest.raises(StaleToken):
        exec(code, {**names, "lock": SimpleNamespace(fence_token=5)})


def test_sqlite(tmp_path):
    connection = sqlite3.connect(tmp_path / "app.db")
    connection.executescript((ROOT / "contrib/sqlite/holdfast_fence.sql").read_text(encoding="ascii"))
    connection.execute("CREATE TABLE invoices (status text)")
    run_twice(block("python", "sqlite.transaction"), sqlite=sqlite, connection=connection)


def test_files(tmp_path):
    code = block("python", "files.write_file").replace("/srv/", f"{tmp_path}/")
    run_twice(code, files=files, data=b"x")
    assert (tmp_path / "report.json").read_bytes() == b"x"


def test_files_in_c(tmp_path):
    program = tmp_path / "p.c"
    program.write_text("#include <holdfast.h>\nvoid stop_the_work(void);\n"
                       "void run(hf_lock *lock, const char *data, size_t size);\n"
                       "void run(hf_lock *lock, const char *data, size_t size)\n{\n" + block("c", "hf_fence_write_file") + "}\n", encoding="ascii")
    subprocess.run(["cc", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{ROOT}/include", program], check=True)


def test_objects():
    with ObjectStore() as server:
        run_twice(block("python", "objects.put"), objects=objects, store=objects.HttpStore(server.url), data=b"x")


def test_services_over_http(tmp_path):
    names = {}
    exec(block("python", "FenceWSGI").replace("/tmp/", f"{tmp_path}/"), names)

    def call(method, path, **headers):
        head = []
        environ = {"REQUEST_METHOD": method, "PATH_INFO": path, "wsgi.input": io.BytesIO(), **headers}
        return b"".join(names["application"](environ, lambda status, _: head.append(status))), head[0][:3]

    assert call("POST", "/wallet/7", HTTP_HOLDFAST_TOKEN="6") == (b"written with token 6", "200")
    assert call("POST", "/wallet/7", HTTP_HOLDFAST_TOKEN="5")[1] == "412"
    assert call("POST", "/wallet/7")[1] == "428"
    assert call("GET", "/wallet/7")[1] == call("POST", "/other")[1] == "200"


def test_services_over_grpc(tmp_path):
    names = {}
    exec(block("python", "FenceInterceptor").replace("/tmp/", f"{tmp_path}/"), names)
    debit = grpc.unary_unary_rpc_method_handler(lambda request, context: b"done", lambda data: SimpleNamespace(user=data.decode()))
    server = names["server"]
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("shop.Wallet", {"Debit": debit}),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            def call(user, token):
                return channel.unary_unary("/shop.Wallet/Debit")(user, timeout=harness.PATIENCE, metadata=(("holdfast-token", token),))
            assert call(b"ann", "6") == call(b"bob", "5") == b"done"
            with pytest.raises(grpc.RpcError) as refused:
                call(b"ann", "5")
            assert refused.value.code() == grpc.StatusCode.FAILED_PRECONDITION
    finally:
        server.stop(None)


def test_postgresql(postgres):
    guard, write = block("sql", "holdfast.guard"), block("sql", "fence_begin")
    postgres.psql(ROOT / "contrib/postgres/holdfast_fence.sql")
    connection = psycopg2.connect(postgres.dsn())
    connection.autocommit = True
    try:
        with connection.cursor() as cursor:
            cursor.execute("DROP TABLE IF EXISTS invoices; CREATE TABLE invoices (tenant_id text, period text)")
            cursor.execute(guard)
            assert write.count("INSERT INTO invoices ...;") == 1
            write = write.replace("...", "VALUES ('123', '2026-04')")
            cursor.execute(write)
            with pytest.raises(psycopg2.Error) as stale:
                cursor.execute(write.replace("1842", "1841"))
            assert stale.value.pgcode == "HF001"
            cursor.execute("ROLLBACK; SELECT count(*) FROM invoices")
            assert cursor.fetchall() == [(1,)]
            cursor.execute("DROP TABLE invoices")
    finally:
        connection.close()


def test_from_advisory_locks(postgres):
    """The SQL of docs/guide/migrate.md, before and after the move."""
    page = (ROOT / "docs/guide/migrate.md").read_text(encoding="utf-8")
    before, after = re.findall(r"^```sql\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    postgres.psql(ROOT / "contrib/postgres/holdfast_fence.sql")
    connection = psycopg2.connect(postgres.dsn())
    connection.autocommit = True
    try:
        with connection.cursor() as cursor:
            cursor.execute("CREATE TABLE invoices (tenant_id text, status text); INSERT INTO invoices VALUES ('tenant_123', 'OPEN')")
            cursor.execute(before)
            cursor.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")
            assert cursor.fetchall() == [(0,)]
            cursor.execute("SELECT holdfast.guard('invoices', 'billing:%s', '{tenant_id}')")
            cursor.execute(after)
            with pytest.raises(psycopg2.Error) as stale:
                cursor.execute(after.replace("1842", "1841"))
            assert stale.value.pgcode == "HF001"
            cursor.execute("ROLLBACK; SELECT status FROM invoices")
            assert cursor.fetchall() == [("CLOSED",)]
            cursor.execute("DROP TABLE invoices")
    finally:
        connection.close()

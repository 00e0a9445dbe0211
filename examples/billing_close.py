#!/usr/bin/env python3
"""Two workers close the books of one tenant and month. The first pauses for longer than its TTL, loses the lock without knowing,
and writes late. The database refuses its token.

Without arguments the database is SQLite. With --postgres DSN it is PostgreSQL, after
psql -f contrib/postgres/holdfast_fence.sql -f contrib/postgres/billing_close.sql"""

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "sdk" / "python"))
import holdfast  # noqa: E402
from holdfast.fence import StaleToken, sqlite  # noqa: E402

ENDPOINTS = os.environ.get("HOLDFAST_ENDPOINTS", "127.0.0.1:4653")
LOCK = "tenant_123:billing-close:2026-04"


class Sqlite:
    def __init__(self, path):
        self.connection = sqlite3.connect(path, isolation_level=None, timeout=10)

    def create(self):
        sqlite.install(self.connection)
        self.connection.executescript("CREATE TABLE usage (cents); CREATE TABLE invoices (cents, issued_by);"
                                      "INSERT INTO usage VALUES (700), (300);")

    def close_books(self, token, who):
        with sqlite.transaction(self.connection, LOCK, token) as transaction:
            transaction.execute("DELETE FROM invoices")
            transaction.execute("INSERT INTO invoices SELECT sum(cents), ? FROM usage", (who,))

    def invoices(self):
        return self.connection.execute("SELECT cents, issued_by FROM invoices").fetchall()


class Postgres:
    def __init__(self, dsn):
        import psycopg2
        self.stale = psycopg2.Error
        self.connection = psycopg2.connect(dsn)

    def create(self):
        with self.connection, self.connection.cursor() as cursor:
            cursor.execute("INSERT INTO usage VALUES ('123', '2026-04', 700), ('123', '2026-04', 300)")

    def close_books(self, token, who):
        try:
            with self.connection, self.connection.cursor() as cursor:
                cursor.execute("SELECT holdfast.fence_begin(%s, %s)", (LOCK, token))
                cursor.execute("INSERT INTO invoices SELECT '123', '2026-04', sum(cents), %s FROM usage "
                               "ON CONFLICT (tenant_id, period) DO UPDATE SET issued_by = excluded.issued_by", (who,))
        except self.stale as refused:
            if refused.pgcode != "HF001":
                raise
            raise StaleToken(LOCK, token, token + 1) from refused

    def invoices(self):
        with self.connection, self.connection.cursor() as cursor:
            cursor.execute("SELECT cents, issued_by FROM invoices")
            return cursor.fetchall()


def open_store(kind, where):
    return Postgres(where) if kind == "postgres" else Sqlite(where)


def worker(store):
    """The first worker, a process of its own."""
    client = holdfast.Client(ENDPOINTS, session_ttl=2)
    lock = client.lock(LOCK).acquire()
    lock.check()  # it is held now, and not any more after the pause
    print(lock.fence_token, flush=True)
    sys.stdin.readline()
    try:
        store.close_books(lock.fence_token, "first")
    except StaleToken as refused:
        print(f"refused: {refused}", flush=True)


def main(kind, where):
    store = open_store(kind, where)
    store.create()
    first = subprocess.Popen([sys.executable, __file__, "--worker", kind, where], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True)
    token = int(first.stdout.readline() or sys.exit("the first worker got no lock"))
    print(f"the first worker has the lock, token {token}; it is paused now, directly before its write")
    first.send_signal(signal.SIGSTOP)
    with holdfast.Client(ENDPOINTS) as client, client.lock(LOCK, wait=60) as lock:
        print(f"its lock has expired; the second worker has token {lock.fence_token} and closes the books")
        assert lock.fence_token > token
        store.close_books(lock.fence_token, "second")
    first.send_signal(signal.SIGCONT)
    said, _ = first.communicate("go\n", timeout=60)
    print(f"the first worker continues: {said.strip() or 'nothing'}")
    assert said.startswith("refused"), "the stale write was accepted"
    assert store.invoices() == [(1000, "second")], store.invoices()
    print("ok: one invoice, by the second worker")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        worker(open_store(*sys.argv[2:4]))
    elif sys.argv[1:2] == ["--postgres"]:
        main("postgres", sys.argv[2])
    else:
        with tempfile.TemporaryDirectory() as folder:
            main("sqlite", f"{folder}/billing.db")

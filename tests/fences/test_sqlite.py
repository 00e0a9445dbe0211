"""The fence for SQLite: contrib/sqlite/ and holdfast.fence.sqlite."""

import sqlite3
import threading

import pytest

import holdfast
from conftest import ROOT
from harness import wait_until
from holdfast.fence import StaleToken, sqlite

SCHEMA = ROOT / "contrib/sqlite/holdfast_fence.sql"


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "app.db"
    connection = sqlite3.connect(file)
    connection.executescript(SCHEMA.read_text(encoding="ascii"))
    connection.executescript("CREATE TABLE bare (value); INSERT INTO bare VALUES (''); CREATE TABLE fenced (value); INSERT INTO fenced VALUES ('')")
    connection.close()
    return file


@pytest.fixture
def connect(path):
    made = []

    def make(**options):
        made.append(sqlite3.connect(path, check_same_thread=False, **options))
        return made[-1]

    yield make
    for connection in made:
        connection.close()


def test_a_writer_that_was_stopped_past_its_ttl_is_refused(scenario, path, connect):
    reader = connect(isolation_level=None)
    scenario.run("stale/sqlite", "SQLite", str(path), lambda: reader.execute("SELECT value FROM bare").fetchone()[0],
                 lambda: reader.execute("SELECT value FROM fenced").fetchone()[0])


def test_the_package_and_contrib_have_the_same_schema(connect):
    text = SCHEMA.read_text(encoding="ascii")
    assert text.endswith(sqlite.SCHEMA) and "\n--" not in text[-len(sqlite.SCHEMA):]
    connection = connect()
    sqlite.install(connection)  # again


def test_the_statement_of_the_document_refuses_a_stale_token_without_the_package(connect):
    statement = "\n".join(line[2:] for line in SCHEMA.read_text(encoding="ascii").splitlines() if line.startswith("--     "))
    insert = statement[statement.index("INSERT"):statement.index("UPDATE invoices")]
    connection = connect(isolation_level=None)
    connection.execute(insert)
    with pytest.raises(sqlite3.IntegrityError, match="stale_token"):
        connection.execute(insert.replace("1842", "1841"))
    connection.execute(insert)
    with pytest.raises(sqlite3.IntegrityError, match="stale_token"):
        connection.execute("UPDATE holdfast_fence SET token = 1")
    for wrong in ("0", "-1", "9007199254740992", "1.5", "'x'", "NULL"):
        with pytest.raises(sqlite3.IntegrityError):
            connection.execute(insert.replace("1842", wrong))
    assert connection.execute("SELECT * FROM holdfast_fence").fetchall() == [("billing/close", 1842)]


@pytest.mark.parametrize("options", [{}, {"isolation_level": None}, {"isolation_level": "EXCLUSIVE"}])
def test_a_transaction_commits_or_leaves_nothing(connect, options):
    connection = connect(**options)
    with sqlite.transaction(connection, "r", 5):
        connection.execute("UPDATE fenced SET value = 'x'")
    with pytest.raises(RuntimeError):
        with sqlite.transaction(connection, "r", 7):
            connection.execute("UPDATE fenced SET value = 'y'")
            raise RuntimeError
    with pytest.raises(StaleToken) as stale:
        with sqlite.transaction(connection, "r", 4):
            connection.execute("UPDATE fenced SET value = 'z'")
    assert (stale.value.token, stale.value.highest, stale.value.code) == (4, 5, "stale_token")
    assert not connection.in_transaction
    assert connection.execute("SELECT value FROM fenced").fetchone() == ("x",)
    with sqlite.transaction(connection, "r", 6):
        pass


def test_a_newer_token_waits_for_the_transaction_with_the_older_one(connect):
    older, newer = connect(isolation_level=None), connect(isolation_level=None, timeout=60)
    order, began = [], []
    newer.set_trace_callback(began.append)

    def write():
        with sqlite.transaction(newer, "r", 6):
            order.append("newer")

    with sqlite.transaction(older, "r", 5):
        thread = threading.Thread(target=write)
        thread.start()
        wait_until(lambda: began, "the newer one has begun")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            connect(isolation_level=None, timeout=0).execute("BEGIN IMMEDIATE")
        order.append("older")
    thread.join()
    assert order == ["older", "newer"]
    with pytest.raises(StaleToken):
        with sqlite.transaction(older, "r", 5):
            pass


def test_wrong_uses_are_refused(connect):
    connection = connect()
    connection.execute("UPDATE fenced SET value = 'x'")
    with pytest.raises(holdfast.Invalid) as open_already:
        with sqlite.transaction(connection, "r", 5):
            pass
    assert open_already.value.code == "in_transaction"
    connection.rollback()
    for resource, token in (("", 1), ("r" * 513, 1), ("a\nb", 1), ("\udc80", 1), ("r", 0), ("r", True), ("r", "5"), ("r", 2 ** 53)):
        with pytest.raises(holdfast.Invalid):
            with sqlite.transaction(connection, resource, token):
                pass

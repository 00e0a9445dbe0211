"""The fence for PostgreSQL, contrib/postgres/: on Debian's server, with writers that are stopped, and in every isolation level."""

import random
import threading

import psycopg2
import psycopg2.errors
import psycopg2.extensions as levels
import pytest

from conftest import ROOT
from harness import wait_until

FENCE = ROOT / "contrib/postgres/holdfast_fence.sql"
BILLING = ROOT / "contrib/postgres/billing_close.sql"
ISOLATION = {"read committed": levels.ISOLATION_LEVEL_READ_COMMITTED, "repeatable read": levels.ISOLATION_LEVEL_REPEATABLE_READ,
             "serializable": levels.ISOLATION_LEVEL_SERIALIZABLE}
STALE, NO_TOKEN, OTHER_RESOURCE = "HF001", "HF002", "HF003"


class Database:
    def __init__(self, server):
        self.server = server
        self.dsn = server.dsn()
        self.open = []

    def connect(self, isolation="read committed", user="postgres"):
        self.open.append(psycopg2.connect(self.server.dsn(user)))
        self.open[-1].set_isolation_level(ISOLATION[isolation])
        return self.open[-1]

    def run(self, *statements, user="postgres"):
        """In one transaction. Returns the rows of the last."""
        connection = self.connect(user=user)
        with connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def value(self, query):
        return self.run(query)[0][0]

    def is_waiting(self, connection):
        """For a lock of the database."""
        return self.value(f"SELECT coalesce(wait_event_type, '') = 'Lock' FROM pg_stat_activity WHERE pid = {connection.info.backend_pid}")

    def close(self):
        for connection in self.open:
            connection.close()


@pytest.fixture
def database(postgres):
    """The fence, and two tables with one row; `fenced` has no guard yet."""
    made = Database(postgres)
    made.run("DROP SCHEMA IF EXISTS holdfast CASCADE; DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    postgres.psql(FENCE)
    made.run("CREATE TABLE bare (value text); INSERT INTO bare VALUES ('')",
             "CREATE TABLE fenced (tenant text, value text, fence_token bigint); INSERT INTO fenced VALUES ('7', '')")
    yield made
    made.close()


def code_of(run):
    with pytest.raises(psycopg2.Error) as error:
        run()
    return error.value.pgcode


def begin(token, resource="r"):
    return f"SELECT holdfast.fence_begin('{resource}', {token})"


@pytest.mark.parametrize("store, guard", [
    ("Postgres", "holdfast.guard('fenced')"),
    ("Postgres", "holdfast.guard('fenced', 'stale/%s', '{tenant}')"),
    ("PostgresSettings", "holdfast.guard('fenced', 'stale/7')"),
    ("PostgresColumn", "holdfast.guard('fenced', 'stale/7', token_column => 'fence_token')"),
])
def test_a_writer_that_was_stopped_past_its_ttl_is_refused(database, scenario, store, guard):
    database.run(f"SELECT {guard}")
    scenario.run("stale/7", store, database.dsn, lambda: database.value("SELECT value FROM bare"),
                 lambda: database.value("SELECT value FROM fenced"))


@pytest.mark.parametrize("isolation", ISOLATION)
def test_a_newer_token_waits_for_the_transaction_with_the_older_one(database, isolation):
    database.run("SELECT holdfast.guard('fenced')")
    older, newer = database.connect(isolation), database.connect(isolation)
    older.cursor().execute(begin(5) + "; UPDATE fenced SET value = 'older'")
    done = []

    def write():
        try:
            newer.cursor().execute(begin(6) + "; UPDATE fenced SET value = 'newer'")
            newer.commit()
            done.append("committed")
        except psycopg2.errors.SerializationFailure:
            done.append("repeat")

    thread = threading.Thread(target=write)
    thread.start()
    wait_until(lambda: database.is_waiting(newer), "the newer one waits")
    assert not done
    older.commit()
    thread.join()
    assert done == (["committed"] if isolation == "read committed" else ["repeat"])
    if done == ["repeat"]:
        newer.rollback()
        newer.cursor().execute(begin(6) + "; UPDATE fenced SET value = 'newer'")
        newer.commit()
    assert database.value("SELECT value FROM fenced") == "newer"


@pytest.mark.parametrize("isolation", ISOLATION)
def test_a_stale_token_waits_and_is_refused_whatever_its_snapshot(database, isolation):
    database.run("SELECT holdfast.guard('fenced')", begin(5))
    older, newer = database.connect(isolation), database.connect()
    older.cursor().execute("SELECT value FROM fenced")  # its snapshot
    newer.cursor().execute(begin(6) + "; UPDATE fenced SET value = 'newer'")
    codes = []
    thread = threading.Thread(target=lambda: codes.append(code_of(lambda: older.cursor().execute(begin(5)))))
    thread.start()
    wait_until(lambda: database.is_waiting(older), "the stale one waits")
    newer.commit()
    thread.join()
    assert codes == [STALE if isolation == "read committed" else "40001"]
    older.rollback()
    assert code_of(lambda: older.cursor().execute(begin(5))) == STALE


def test_random_writers_in_all_isolation_levels_write_in_the_order_of_tokens(database):
    """`seen` gets a row in each write, while its transaction has the fence: their order is that of the writes."""
    database.run("CREATE TABLE seen (n bigserial, token bigint)", "SELECT holdfast.guard('seen', 'r')")
    seed = random.randrange(1 << 30)
    print("seed", seed)
    counts = {"written": 0, STALE: 0, "40001": 0}

    def work(number):
        dice = random.Random(seed + number)
        connection = database.connect(list(ISOLATION)[number % 3])
        for step in range(40):
            token = max(1, step + dice.randint(-3, 3))
            try:
                with connection, connection.cursor() as cursor:
                    if dice.random() < 0.5:
                        cursor.execute("SELECT count(*) FROM seen")  # its snapshot
                    cursor.execute(begin(token))
                    cursor.execute("INSERT INTO seen (token) VALUES (%s)", (token,))
                counts["written"] += 1
            except psycopg2.Error as error:
                counts[error.pgcode] += 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tokens = [token for (token,) in database.run("SELECT token FROM seen ORDER BY n")]
    assert tokens == sorted(tokens)
    assert len(tokens) == counts["written"] > 0 < counts[STALE], counts


@pytest.mark.parametrize("guard", ["guard('fenced')", "guard('fenced', 'r')", "guard('fenced', '%s', '{tenant}')",
                                   "guard('fenced', 'r', token_column => 'fence_token')"])
def test_a_write_without_a_token_is_refused(database, guard):
    database.run(f"SELECT holdfast.{guard}")
    for statement in ("INSERT INTO fenced VALUES ('7', 'x')", "UPDATE fenced SET value = 'x'", "DELETE FROM fenced", "TRUNCATE fenced",
                      "INSERT INTO fenced SELECT * FROM fenced", "SET LOCAL holdfast.resource = 'r'; DELETE FROM fenced",
                      "SET LOCAL holdfast.token = 'x'; SET LOCAL holdfast.resource = '7'; DELETE FROM fenced"):
        assert code_of(lambda: database.run(statement)) == NO_TOKEN, statement
    assert database.run("SELECT * FROM fenced") == [("7", "", None)]
    assert database.run("SELECT * FROM holdfast.fence") == []
    database.run("SELECT holdfast.unguard('fenced')", "UPDATE fenced SET value = 'x'")


def test_a_token_ends_with_its_transaction(database):
    database.run("SELECT holdfast.guard('fenced')")
    connection = database.connect()
    for end in (connection.commit, connection.rollback):
        connection.cursor().execute(begin(5) + "; UPDATE fenced SET value = 'x'")
        end()
        assert code_of(lambda: connection.cursor().execute("UPDATE fenced SET value = 'y'")) == NO_TOKEN
        connection.rollback()


def test_a_savepoint_that_is_rolled_back_takes_its_check_along(database):
    database.run("SELECT holdfast.guard('fenced', 'r')")
    first, second = database.connect(), database.connect()
    first.cursor().execute(f"SAVEPOINT s; {begin(5)}; ROLLBACK TO s")
    second.cursor().execute(begin(6))  # the mark of the first was rolled back and is no lock any longer
    second.commit()
    assert code_of(lambda: first.cursor().execute(begin(5))) == STALE


def test_the_token_of_another_lock_is_refused(database):
    database.run("INSERT INTO fenced VALUES ('8', '')", "SELECT holdfast.guard('fenced', 'close/%s', '{tenant}')")
    database.run(begin(5, "close/7"), "UPDATE fenced SET value = 'x' WHERE tenant = '7'")
    for statement in ("UPDATE fenced SET value = 'y'", "UPDATE fenced SET tenant = '8' WHERE tenant = '7'",
                      "UPDATE fenced SET tenant = '7' WHERE tenant = '8'", "DELETE FROM fenced WHERE tenant = '8'",
                      "INSERT INTO fenced VALUES ('8', '')"):
        assert code_of(lambda: database.run(begin(5, "close/7"), statement)) == OTHER_RESOURCE, statement
    assert code_of(lambda: database.run(begin(5, "close/7"), "INSERT INTO fenced VALUES (NULL, '')")) == NO_TOKEN
    assert sorted(database.run("SELECT * FROM fenced")) == [("7", "x", None), ("8", "", None)]
    database.run(begin(5, "close/7"), "UPDATE fenced SET value = 'z' WHERE tenant = '7'",
                 begin(9, "close/8"), "UPDATE fenced SET value = 'z' WHERE tenant = '8'")
    assert database.value("SELECT count(*) FROM fenced WHERE value = 'z'") == 2


def test_a_column_carries_the_token_of_one_write_only(database):
    database.run("SELECT holdfast.guard('fenced', 'r', token_column => 'fence_token')")
    database.run("UPDATE fenced SET value = 'x', fence_token = 5")
    assert database.run("SELECT * FROM fenced") == [("7", "x", None)]
    assert code_of(lambda: database.run("UPDATE fenced SET value = 'y'")) == NO_TOKEN
    assert code_of(lambda: database.run("UPDATE fenced SET value = 'y', fence_token = 4")) == STALE
    assert code_of(lambda: database.run("INSERT INTO fenced VALUES ('7', 'y', 4)")) == STALE
    database.run("INSERT INTO fenced VALUES ('7', 'y', 6)")
    assert code_of(lambda: database.run("DELETE FROM fenced")) == NO_TOKEN
    database.run(begin(6), "DELETE FROM fenced")


def test_the_rows_of_partitions_are_guarded_and_a_guard_that_misses_them_is_refused(database):
    database.run("CREATE TABLE parts (tenant text, value text) PARTITION BY LIST (tenant); CREATE TABLE part7 PARTITION OF parts FOR VALUES IN ('7')")
    assert code_of(lambda: database.run("SELECT holdfast.guard('parts', 'r')")) == NO_TOKEN
    database.run("SELECT holdfast.guard('parts', '%s', '{tenant}')", begin(5, "7"), "INSERT INTO part7 VALUES ('7', '')")
    for statement in ("UPDATE part7 SET value = 'x'", "UPDATE parts SET value = 'x'"):
        assert code_of(lambda: database.run(begin(4, "7"), statement)) == STALE
        assert code_of(lambda: database.run(statement)) == NO_TOKEN


@pytest.mark.parametrize("wrong", ["guard('fenced', 'r', '{tenant}')", "guard('fenced', NULL, '{tenant}')", "guard('fenced', '%s', '{nothing}')",
                                   "guard('fenced', token_column => 'nothing')", "fence_check('', 1)", "fence_check(NULL, 1)",
                                   "fence_check(repeat('r', 513), 1)", "fence_check('r', 0)", "fence_check('r', NULL)",
                                   "fence_check('r', 9007199254740992)"])
def test_wrong_arguments_are_refused(database, wrong):
    assert code_of(lambda: database.run(f"SELECT holdfast.{wrong}")) == NO_TOKEN


def test_a_writer_needs_no_right_on_the_marks(database):
    database.run("CREATE ROLE app LOGIN; GRANT SELECT, UPDATE ON fenced TO app; GRANT USAGE ON SCHEMA holdfast, public TO app",
                 "GRANT EXECUTE ON FUNCTION holdfast.fence_begin, holdfast.fence_check TO app", "SELECT holdfast.guard('fenced', 'r')")
    try:
        database.run(begin(5), "UPDATE fenced SET value = 'x'", user="app")
        assert code_of(lambda: database.run(begin(4), user="app")) == STALE
        assert code_of(lambda: database.run("UPDATE holdfast.fence SET token = 1", user="app")) == "42501"
        assert code_of(lambda: database.run("SELECT holdfast.unguard('fenced')", user="app")) == "42501"
    finally:
        database.close()
        database.run("DROP OWNED BY app; DROP ROLE app")


def test_installing_it_again_keeps_marks_and_guards(database):
    database.run("SELECT holdfast.guard('fenced', 'r')", begin(5))
    database.server.psql(FENCE)
    assert code_of(lambda: database.run(begin(4))) == STALE
    assert code_of(lambda: database.run("DELETE FROM fenced")) == NO_TOKEN


def test_a_statement_on_many_rows_checks_the_resource_once(database):
    database.run("SELECT holdfast.guard('fenced', 'r/%s', '{tenant}')", begin(5, "r/7"),
                 "INSERT INTO fenced SELECT '7', n FROM generate_series(1, 5000) AS n")
    changes = database.run("SAVEPOINT s", begin(5, "r/7"), "UPDATE fenced SET value = 'x'",
                           "SELECT pg_stat_get_xact_tuples_updated('holdfast.fence'::regclass)")
    assert changes == [(1,)]


def test_the_billing_close_of_seed_1(database, scenario):
    """Two workers close the same month; the first is stopped before it writes the invoice."""
    database.server.psql(BILLING)
    database.run("INSERT INTO usage VALUES ('123', '2026-04', 700), ('123', '2026-04', 300)")
    scenario.run("tenant_123:billing-close:2026-04", "BillingClose", database.dsn,
                 lambda: database.value("SELECT value FROM bare"),
                 lambda: database.value("SELECT issued_by FROM invoices WHERE tenant_id = '123' AND cents = 1000"))
    assert database.run("SELECT status, closed_by FROM tenant_billing_close") == [("CLOSED", "second")]
    assert code_of(lambda: database.run(begin(5, "tenant_9:billing-close:2026-04"), "DELETE FROM invoices")) == OTHER_RESOURCE

"""The fence for SQLite: contrib/sqlite/holdfast_fence.sql, and a transaction that begins with its check."""

import contextlib
import sqlite3
from typing import Iterator

from ..errors import Invalid
from .base import StaleToken, check_arguments

SCHEMA = """\
CREATE TABLE IF NOT EXISTS holdfast_fence (
    resource TEXT PRIMARY KEY NOT NULL CHECK (length(CAST(resource AS BLOB)) BETWEEN 1 AND 512),
    token INTEGER NOT NULL CHECK (typeof(token) = 'integer' AND token BETWEEN 1 AND 9007199254740991)
) WITHOUT ROWID;

CREATE TRIGGER IF NOT EXISTS holdfast_fence_rises BEFORE UPDATE ON holdfast_fence WHEN NEW.token < OLD.token
BEGIN
    SELECT RAISE(ABORT, 'stale_token: a newer token was used for this resource');
END;
"""
MARK = "SELECT token FROM holdfast_fence WHERE resource = ?"
RAISE = ("INSERT INTO holdfast_fence (resource, token) VALUES (?, ?) "
         "ON CONFLICT (resource) DO UPDATE SET token = excluded.token")


def install(connection: sqlite3.Connection) -> None:
    """Idempotent. Commits a transaction that is open."""
    connection.executescript(SCHEMA)


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection, resource: str, token: int) -> Iterator[sqlite3.Connection]:
    """The block of `with` is one transaction, the only one of the database that writes. Raises StaleToken if a newer token was used
    for the resource. The `timeout` of the connection limits the wait for other transactions."""
    check_arguments(resource, token)
    if connection.in_transaction:
        raise Invalid("the connection has an open transaction: end it first, the check must come before all writes", "in_transaction")
    connection.execute("BEGIN IMMEDIATE")
    try:
        row = connection.execute(MARK, (resource,)).fetchone()
        if row is not None and token < row[0]:
            raise StaleToken(resource, token, row[0])
        connection.execute(RAISE, (resource, token))
        yield connection
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise

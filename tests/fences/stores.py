"""The stores of writer.py. Each writes a value to a place without a fence, and to one with it. `refusals` are the exceptions of
a refused write. Modules of others are imported by their store only."""


class Postgres:
    def __init__(self, dsn):
        import psycopg2.errors
        self.refusals = psycopg2.DatabaseError
        self.connection = psycopg2.connect(dsn)

    def write_bare(self, value):
        with self.connection, self.connection.cursor() as cursor:
            cursor.execute("UPDATE bare SET value = %s", (value,))

    def write(self, name, token, value):
        with self.connection, self.connection.cursor() as cursor:
            cursor.execute("SELECT holdfast.fence_begin(%s, %s)", (name, token))
            cursor.execute("UPDATE fenced SET value = %s", (value,))


class PostgresSettings(Postgres):
    """The token as settings of the transaction: only the trigger checks it."""

    def write(self, name, token, value):
        with self.connection, self.connection.cursor() as cursor:
            cursor.execute("SET LOCAL holdfast.resource = %s; SET LOCAL holdfast.token = %s", (name, str(token)))
            cursor.execute("UPDATE fenced SET value = %s", (value,))


class PostgresColumn(Postgres):
    """The token as a column of the write."""

    def write(self, name, token, value):
        with self.connection, self.connection.cursor() as cursor:
            cursor.execute("UPDATE fenced SET value = %s, fence_token = %s", (value, token))


class BillingClose(Postgres):
    """contrib/postgres/billing_close.sql: seed 001's close of tenant 123."""

    def write(self, name, token, value):
        with self.connection, self.connection.cursor() as cursor:
            cursor.execute("SELECT holdfast.fence_begin(%s, %s)", (name, token))
            cursor.execute("INSERT INTO invoices SELECT tenant_id, period, sum(cents), %s FROM usage WHERE tenant_id = '123' AND "
                           "period = '2026-04' GROUP BY 1, 2 ON CONFLICT (tenant_id, period) DO UPDATE SET cents = EXCLUDED.cents, "
                           "issued_by = EXCLUDED.issued_by", (value,))
            cursor.execute("INSERT INTO tenant_billing_close VALUES ('123', '2026-04', 'CLOSED', %s) ON CONFLICT (tenant_id, period) "
                           "DO UPDATE SET status = 'CLOSED', closed_by = EXCLUDED.closed_by", (value,))

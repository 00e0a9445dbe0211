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


class Redis:
    """contrib/redis/fenced.lua, with the Redis client of others."""

    def __init__(self, config):
        import redis
        self.refusals = redis.exceptions.ResponseError
        self.client = redis.Redis(port=config["port"])
        self.script = config["script"]

    def write_bare(self, value):
        self.client.set("bare", value)

    def write(self, name, token, value):
        mark = f"fence:{name}"
        self.client.eval(self.script, 3, mark, "value", "log", token, 3, "SET", "value", value, 3, "RPUSH", "log", token)


class SQLite:
    """The helper of the Python package."""

    def __init__(self, path):
        import sqlite3
        from holdfast.fence import StaleToken
        self.refusals = StaleToken
        self.connection = sqlite3.connect(path, timeout=60)

    def write_bare(self, value):
        with self.connection:
            self.connection.execute("UPDATE bare SET value = ?", (value,))

    def write(self, name, token, value):
        from holdfast.fence import sqlite
        with sqlite.transaction(self.connection, name, token):
            self.connection.execute("UPDATE fenced SET value = ?", (value,))


class File:
    def __init__(self, folder):
        from holdfast.fence import StaleToken
        self.refusals = StaleToken
        self.folder = folder

    def write_bare(self, value):
        with open(f"{self.folder}/bare", "w", encoding="ascii") as file:
            file.write(value)

    def write(self, name, token, value):
        from holdfast.fence import files
        files.write_file(f"{self.folder}/fenced", value.encode(), token, wait=60)


class Objects:
    def __init__(self, url):
        from holdfast.fence import StaleToken, objects
        self.refusals = StaleToken
        self.store = objects.HttpStore(url)

    def write_bare(self, value):
        found = self.store.read("bare")
        assert self.store.write("bare", value.encode(), found and found[1])

    def write(self, name, token, value):
        from holdfast.fence import objects
        objects.put(self.store, "close/fenced", value.encode(), token)


class Web:
    """A service over HTTP that checks the token in the header Holdfast-Token."""

    class Refused(Exception):
        pass

    refusals = Refused

    def __init__(self, config):
        self.address, self.statuses = config["address"], config["statuses"]

    def post(self, path, value, headers):
        import http.client
        connection = http.client.HTTPConnection(self.address, timeout=60)
        try:
            connection.request("POST", path, value, headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        if answer.status in self.statuses:
            raise Web.Refused(f"{answer.status} {text}")
        assert answer.status == 200, (answer.status, text)

    def write_bare(self, value):
        self.post("/bare", value, {})

    def write(self, name, token, value):
        self.post("/fenced", value, {"Holdfast-Token": str(token)})


class Grpc:
    """A service over gRPC that checks the token in its metadata."""

    def __init__(self, address):
        import grpc
        self.refusals = grpc.RpcError
        self.channel = grpc.insecure_channel(address)

    def write_bare(self, value):
        self.channel.unary_unary("/test.Values/SetBare")(value.encode(), timeout=60)

    def write(self, name, token, value):
        import grpc
        try:
            self.channel.unary_unary("/test.Values/Set")(value.encode(), timeout=60, metadata=(("holdfast-token", str(token)),))
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.FAILED_PRECONDITION, error
            raise

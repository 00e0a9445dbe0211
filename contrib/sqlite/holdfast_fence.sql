-- A fence for SQLite 3.24 or newer: a transaction with a stale fencing token fails.
--
--     sqlite3 app.db < holdfast_fence.sql          installs it
--
--     BEGIN IMMEDIATE;                             each writer
--     INSERT INTO holdfast_fence (resource, token) VALUES ('billing/close', 1842)
--         ON CONFLICT (resource) DO UPDATE SET token = excluded.token;
--     UPDATE invoices SET status = 'CLOSED';
--     COMMIT;
--
-- The resource is the name of the lock. The INSERT fails with stale_token if a newer token was used: roll back and stop the work.
-- BEGIN IMMEDIATE makes this transaction the only one that writes, so the check holds until COMMIT.
CREATE TABLE IF NOT EXISTS holdfast_fence (
    resource TEXT PRIMARY KEY NOT NULL CHECK (length(CAST(resource AS BLOB)) BETWEEN 1 AND 512),
    token INTEGER NOT NULL CHECK (typeof(token) = 'integer' AND token BETWEEN 1 AND 9007199254740991)
) WITHOUT ROWID;

CREATE TRIGGER IF NOT EXISTS holdfast_fence_rises BEFORE UPDATE ON holdfast_fence WHEN NEW.token < OLD.token
BEGIN
    SELECT RAISE(ABORT, 'stale_token: a newer token was used for this resource');
END;

-- A fence for tables of PostgreSQL 13 or newer: a write with a stale fencing token fails.
--
--     psql -v ON_ERROR_STOP=1 -f holdfast_fence.sql        installs it, or a newer version of it
--
--     SELECT holdfast.guard('public.invoices', 'billing-close/%s', '{tenant_id}');      the owner of the table, once
--
--     BEGIN;                                                                            each writer
--     SELECT holdfast.fence_begin('billing-close/7', 1842);    -- the name of the lock, and its token
--     UPDATE invoices SET status = 'CLOSED' WHERE tenant_id = 7;
--     COMMIT;
--
-- holdfast.fence has one row for each resource: the highest token that wrote it. A check locks this row until the end of the
-- transaction. So a write with a newer token waits until the transaction with the older token has ended, and a check is never
-- overtaken by the write that it permits. This holds in every isolation level. In REPEATABLE READ and SERIALIZABLE a check fails
-- with 40001 if another transaction used the resource after the snapshot; repeat the transaction, as always in these levels.
--
-- SQLSTATE HF001: the token is stale; stop the work. HF002: token or resource are missing or invalid. HF003: the token belongs to
-- another resource. docs/FENCES.md describes the limits.
BEGIN;
SET LOCAL client_min_messages = warning;

CREATE SCHEMA IF NOT EXISTS holdfast;

CREATE TABLE IF NOT EXISTS holdfast.fence (
    resource text COLLATE "C" CONSTRAINT fence_pkey PRIMARY KEY CHECK (octet_length(resource) BETWEEN 1 AND 512),
    token bigint NOT NULL CHECK (token BETWEEN 1 AND 9007199254740991),
    written_at timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50);
COMMENT ON TABLE holdfast.fence IS 'The highest fencing token that wrote each resource';

-- Raises HF001 if a higher token was used for the resource. Otherwise the token is recorded, and the resource is locked until the
-- end of the transaction. Every check writes the row, also with an equal token: so a snapshot that is older than the last
-- transaction on the resource is noticed (40001). The setting holdfast.checked spares the further rows of a transaction the
-- check; it is reset with the transaction, or with the savepoint, together with the lock.
CREATE OR REPLACE FUNCTION holdfast.fence_check(resource text, token bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    checked CONSTANT text := token || ' ' || resource;
    highest bigint;
BEGIN
    IF resource IS NULL OR octet_length(resource) NOT BETWEEN 1 AND 512 THEN
        RAISE EXCEPTION USING ERRCODE = 'HF002', MESSAGE = 'the resource of a fence is 1 to 512 bytes',
            HINT = 'Pass the name of the lock.';
    END IF;
    IF token IS NULL OR token NOT BETWEEN 1 AND 9007199254740991 THEN
        RAISE EXCEPTION USING ERRCODE = 'HF002', MESSAGE = format('%s: %s is no fencing token', resource, coalesce(token::text, 'NULL')),
            HINT = 'Pass the token that came with the lock.';
    END IF;
    IF current_setting('holdfast.checked', true) = checked THEN
        RETURN;
    END IF;
    INSERT INTO holdfast.fence AS f (resource, token) VALUES (fence_check.resource, fence_check.token)
        ON CONFLICT ON CONSTRAINT fence_pkey DO UPDATE SET token = EXCLUDED.token, written_at = EXCLUDED.written_at
        WHERE f.token <= EXCLUDED.token;
    IF NOT FOUND THEN
        SELECT f.token INTO highest FROM holdfast.fence AS f WHERE f.resource = fence_check.resource;
        RAISE EXCEPTION USING ERRCODE = 'HF001',
            MESSAGE = format('%s: token %s is stale, token %s was used here', resource, token, highest),
            HINT = 'The lock was lost and another client holds it, or held it. Stop this work.';
    END IF;
    PERFORM set_config('holdfast.checked', checked, true);
END $$;

-- The first statement of a transaction: checks the token, and keeps resource and token for the guarded tables. The statements
-- that follow see what the previous holders wrote, since the check waits for their transactions.
CREATE OR REPLACE FUNCTION holdfast.fence_begin(resource text, token bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM holdfast.fence_check(resource, token);
    PERFORM set_config('holdfast.resource', resource, true), set_config('holdfast.token', token::text, true);
END $$;

-- Checks one write to a guarded table. `token` NULL: that of the transaction.
CREATE OR REPLACE FUNCTION holdfast.check_write(target text, resource text, token text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    named CONSTANT text := nullif(current_setting('holdfast.resource', true), '');
    own CONSTANT text := nullif(current_setting('holdfast.token', true), '');
BEGIN
    IF coalesce(token, own) IS NULL OR coalesce(resource, named) IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'HF002',
            MESSAGE = format('%s: the write has no %s', target, CASE WHEN coalesce(token, own) IS NULL THEN 'token' ELSE 'resource' END),
            HINT = 'Begin the transaction with: SELECT holdfast.fence_begin(RESOURCE, TOKEN)';
    END IF;
    IF coalesce(token, own) !~ '^[0-9]{1,16}$' THEN
        RAISE EXCEPTION USING ERRCODE = 'HF002', MESSAGE = format('%s: "%s" is no fencing token', target, coalesce(token, own)),
            HINT = 'Pass the token that came with the lock.';
    END IF;
    IF token IS NULL AND named <> resource THEN
        RAISE EXCEPTION USING ERRCODE = 'HF003',
            MESSAGE = format('%s: the token is for %s, and the write concerns %s', target, named, resource),
            HINT = 'Write only what the lock protects. For each further lock call holdfast.fence_begin before its writes.';
    END IF;
    PERFORM holdfast.fence_check(coalesce(resource, named), coalesce(token, own)::bigint);
END $$;

-- TG_ARGV[0]: the resource, '' for that of the transaction.
CREATE OR REPLACE FUNCTION holdfast.guard_statement() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM holdfast.check_write(TG_RELID::regclass::text, nullif(TG_ARGV[0], ''), NULL);
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION holdfast.resource_of(target text, fields jsonb, resource text, columns text[]) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    parts text[] := '{}';
    name text;
BEGIN
    FOREACH name IN ARRAY columns LOOP
        IF fields ->> name IS NULL THEN
            RAISE EXCEPTION USING ERRCODE = 'HF002',
                MESSAGE = format('%s: the row belongs to no resource, since its %s is NULL', target, name);
        END IF;
        parts := parts || (fields ->> name);
    END LOOP;
    RETURN CASE WHEN columns = '{}' THEN nullif(resource, '') ELSE format(resource, VARIADIC parts) END;
END $$;

-- TG_ARGV: the resource, the column of the token or '', the columns that the resource names. A row that moves from one resource to
-- another is checked for both. The column of the token is stored as NULL: otherwise an UPDATE that does not mention it would
-- repeat the token that the row has already.
CREATE OR REPLACE FUNCTION holdfast.guard_row() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    target CONSTANT text := TG_RELID::regclass::text;
    columns CONSTANT text[] := TG_ARGV[2:];
    fields jsonb;
    token text;
    after text;
    before text;
BEGIN
    IF TG_OP <> 'DELETE' THEN
        fields := to_jsonb(NEW);
        token := fields ->> TG_ARGV[1];
        after := holdfast.resource_of(target, fields, TG_ARGV[0], columns);
        PERFORM holdfast.check_write(target, after, token);
    END IF;
    IF TG_OP <> 'INSERT' THEN
        before := holdfast.resource_of(target, to_jsonb(OLD), TG_ARGV[0], columns);
        IF TG_OP = 'DELETE' OR before IS DISTINCT FROM after THEN
            PERFORM holdfast.check_write(target, before, token);
        END IF;
    END IF;
    IF TG_OP = 'DELETE' THEN
        RETURN OLD;
    END IF;
    IF token IS NOT NULL THEN
        NEW := jsonb_populate_record(NEW, jsonb_build_object(TG_ARGV[1], NULL));
    END IF;
    RETURN NEW;
END $$;

CREATE OR REPLACE FUNCTION holdfast.guard_truncate() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'HF002', MESSAGE = format('%s: TRUNCATE concerns all resources of the table', TG_RELID::regclass),
        HINT = 'Use DELETE.';
END $$;

CREATE OR REPLACE FUNCTION holdfast.unguard(target regclass) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET client_min_messages = warning AS $$
BEGIN
    EXECUTE format('DROP TRIGGER IF EXISTS zz_holdfast_fence ON %s', target);
    EXECUTE format('DROP TRIGGER IF EXISTS zz_holdfast_truncate ON %s', target);
END $$;

-- Guards a table against writes without a token, or with a stale one.
--
--   guard(T)                                   the resource is what fence_begin named, or SET LOCAL holdfast.resource
--   guard(T, 'config/main')                    the whole table is one resource
--   guard(T, 'close/%s/%s', '{tenant,period}') each row belongs to the resource that its columns name, see format()
--   token_column => 'fence_token'              the token may be a column of the write; it is read and stored as NULL
--
-- The first two check each statement, the others each row. Name the resource whenever it is possible: then a client cannot
-- write with the token of another lock. The triggers run after the other BEFORE triggers of the table, which are in the order of
-- their names, and so check the values that are stored.
CREATE OR REPLACE FUNCTION holdfast.guard(target regclass, resource text DEFAULT NULL, columns text[] DEFAULT '{}',
                                          token_column text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    name text;
    arguments text;
BEGIN
    FOREACH name IN ARRAY columns || token_column LOOP
        IF name IS NOT NULL AND NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = target AND attname = name AND attnum > 0
                                            AND NOT attisdropped) THEN
            RAISE EXCEPTION USING ERRCODE = 'HF002', MESSAGE = format('%s has no column %s', target, name);
        END IF;
    END LOOP;
    IF columns <> '{}' AND (resource IS NULL OR format(resource, VARIADIC columns) = resource) THEN
        RAISE EXCEPTION USING ERRCODE = 'HF002', MESSAGE = format('%s: the resource does not contain the columns', target),
            HINT = 'Write %s in the resource for each column.';
    END IF;
    PERFORM holdfast.unguard(target);
    IF columns = '{}' AND token_column IS NULL THEN
        -- Triggers of statements do not fire for a partition that is written directly.
        IF EXISTS (SELECT FROM pg_inherits WHERE inhparent = target)
           OR EXISTS (SELECT FROM pg_class WHERE oid = target AND relkind = 'p') THEN
            RAISE EXCEPTION USING ERRCODE = 'HF002', MESSAGE = format('%s has partitions or children', target),
                HINT = 'Guard its rows: name columns, or a token_column.';
        END IF;
        EXECUTE format('CREATE TRIGGER zz_holdfast_fence BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON %s '
                       'FOR EACH STATEMENT EXECUTE FUNCTION holdfast.guard_statement(%L)', target, coalesce(resource, ''));
        RETURN;
    END IF;
    SELECT string_agg(format('%L', a), ', ' ORDER BY n) INTO arguments
        FROM unnest(ARRAY[coalesce(resource, ''), coalesce(token_column, '')] || columns) WITH ORDINALITY AS u (a, n);
    EXECUTE format('CREATE TRIGGER zz_holdfast_fence BEFORE INSERT OR UPDATE OR DELETE ON %s '
                   'FOR EACH ROW EXECUTE FUNCTION holdfast.guard_row(%s)', target, arguments);
    EXECUTE format('CREATE TRIGGER zz_holdfast_truncate BEFORE TRUNCATE ON %s '
                   'FOR EACH STATEMENT EXECUTE FUNCTION holdfast.guard_truncate()', target);
END $$;

-- The writers' roles need: GRANT USAGE ON SCHEMA holdfast TO r; GRANT EXECUTE ON FUNCTION holdfast.fence_begin, holdfast.fence_check TO r;
-- They need no right on the table of marks.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA holdfast FROM PUBLIC;
COMMIT;

/* WATCH and UNWATCH: EXEC does nothing, and replies nil, if a watched key has changed since.
 *
 * WATCH keeps the version of each key, read after a barrier. EXEC compares them with what its run
 * reads, and the state machine compares once more, as for every key that a run reads. */
#include "service/resp/conn.h"

#include "core/effect.h"

void resp_watch_end(struct resp_conn *conn)
{
    conn->watch_count = 0;
    buffer_truncate(&conn->watched, 0);
    buffer_release(&conn->watched);
}

/* Once for each name: the version of the first WATCH counts. */
static bool is_watched(const struct resp_conn *conn, struct slice name)
{
    struct reader r = reader_make(buffer_bytes(&conn->watched));
    struct key_check check;
    while (unpack_check(&r, &check)) {
        if (slice_equal(check.name, name)) {
            return true;
        }
    }
    return false;
}

void key_watch(struct keyspace *k, const struct slice *args, uint32_t count,
               const struct key_sink *to)
{
    struct resp_conn *conn = k->conn;
    for (uint32_t i = 1; i < count; i++) {
        uint8_t bytes[LIMIT_NAME + 64];
        struct packer packer = packer_make(bytes, sizeof(bytes));
        const struct key *key = keyspace_key(k, args[i], to);
        if (key == NULL) {
            return;
        }
        if (is_watched(conn, key->name)) {
            continue;
        }
        struct key_check check = {key->name, key->seen.version};
        bool fits = pack_check(&packer, &check);
        hf_assert(fits);
        if (conn->watch_count == LIMIT_CHECKS) {
            to->error(to->ctx, "ERR", "limit_transaction: a connection watches at most 64 keys");
            return;
        }
        buffer_append_slice(&conn->watched, packer_list(&packer).bytes);
        conn->watch_count++;
    }
    to->status(to->ctx, "OK");
}

bool resp_watched_changed(struct keyspace *k, const struct key_sink *to, bool *failed)
{
    struct reader r = reader_make(buffer_bytes(&k->conn->watched));
    struct key_check check;
    bool changed = false;
    while (unpack_check(&r, &check)) {
        const struct key *key = keyspace_named(k, check.name, to);
        if (key == NULL) {
            *failed = true;
            return true;
        }
        changed = changed || !key_version_equal(key->seen.version, check.version);
    }
    return changed;
}

void resp_unwatch(struct resp_conn *conn, const struct slice *args, uint32_t count)
{
    (void)args;
    (void)count;
    struct resp_writer w = resp_conn_writer(conn);
    resp_watch_end(conn);
    resp_simple(&w, "OK");
}

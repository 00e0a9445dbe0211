/* MULTI and EXEC. Queued commands are one run over the keys and become one `transact`. Commands
 * about connections are refused. */
#include "service/resp/conn.h"

void resp_multi(struct resp_conn *conn, const struct slice *args, uint32_t count)
{
    (void)args;
    (void)count;
    struct resp_writer w = resp_conn_writer(conn);
    if (conn->is_multi) {
        resp_conn_error(conn, "ERR", "MULTI calls can not be nested");
        return;
    }
    conn->is_multi = true;
    resp_simple(&w, "OK");
}

void resp_multi_end(struct resp_conn *conn)
{
    conn->is_multi = false;
    conn->multi_failed = false;
    conn->multi_count = 0;
    buffer_truncate(&conn->multi, 0);
    buffer_release(&conn->multi);
    resp_watch_end(conn);
}

void resp_discard(struct resp_conn *conn, const struct slice *args, uint32_t count)
{
    (void)args;
    (void)count;
    struct resp_writer w = resp_conn_writer(conn);
    if (!conn->is_multi) {
        resp_conn_error(conn, "ERR", "DISCARD without MULTI");
        return;
    }
    resp_multi_end(conn);
    resp_simple(&w, "OK");
}

static bool ends_it(const struct resp_command *command)
{
    return command->run == key_exec || command->local == resp_discard ||
           command->local == resp_multi || command->local == resp_quit ||
           command->local == resp_reset;
}

bool resp_multi_takes(struct resp_conn *conn, const struct slice *args, uint32_t count)
{
    struct resp_writer kept = {&conn->multi, 2};
    struct resp_writer w = resp_conn_writer(conn);
    if (!conn->is_multi || ends_it(conn->command)) {
        return false;
    }
    if (conn->command->run == key_watch) {
        resp_conn_error(conn, "ERR", "WATCH inside MULTI is not allowed");
        return true;
    }
    if (conn->command->run == NULL || conn->command->run == key_acquire ||
        conn->command->run == key_flush) {
        conn->multi_failed = true;
        resp_conn_error(conn, "ERR", "'%s' is not possible inside a transaction",
                        conn->command->name);
        return true;
    }
    resp_array(&kept, count);
    for (uint32_t i = 0; i < count; i++) {
        resp_bulk(&kept, args[i]);
    }
    if (conn->multi.overflowed) {
        conn->multi_failed = true;
        resp_conn_error(conn, "ERR", "the commands of a transaction have at most %d bytes",
                        RESP_MULTI_MAX);
        return true;
    }
    conn->multi_count++;
    resp_simple(&w, "QUEUED");
    return true;
}

/* In order. An error is the reply of its command only; the others are executed, as in Redis. */
static void run_all(struct keyspace *k, struct resp_conn *conn, const struct key_sink *to)
{
    struct resp_shared *shared = resp_shared(conn);
    size_t left = buffer_len(&conn->multi);
    uint8_t *at = left == 0 ? NULL : conn->multi.data + conn->multi.start;
    to->array(to->ctx, conn->multi_count);
    while (left > 0) {
        resp_parser_init(&shared->parser);
        struct resp_result r = resp_feed(&shared->parser, at, left);
        hf_assert(r.status == RESP_REQUEST); /* queued by us, so it is valid */
        uint32_t count = resp_count(&shared->parser);
        for (uint32_t i = 0; i < count; i++) {
            shared->args[i] = resp_argument(&shared->parser, at, i);
        }
        resp_command_find(shared->args[0])->run(k, shared->args, count, to);
        k->is_script = false;
        at += r.consumed;
        left -= r.consumed;
    }
}

void key_exec(struct keyspace *k, const struct slice *args, uint32_t count,
              const struct key_sink *to)
{
    (void)args;
    (void)count;
    struct resp_conn *conn = k->conn;
    if (!conn->is_multi) {
        to->error(to->ctx, "ERR", "EXEC without MULTI");
    } else if (conn->multi_failed) {
        to->error(to->ctx, "EXECABORT", "Transaction discarded because of previous errors.");
    } else {
        bool failed = false;
        if (!resp_watched_changed(k, to, &failed)) {
            run_all(k, conn, to);
        } else if (!failed) {
            resp_null_array(resp_sink_writer(to));
        }
    }
}

/* All Redis-protocol connections of a node: opening and closing, deadlines, one run, the largest one
 * for the memory limit. conn.c has one connection. */
#include "service/resp/conn.h"

#include <inttypes.h>
#include <stdio.h>

/* 40 digits, of which 8 are repeated. */
static void name_run(struct service *s, char *out, size_t size)
{
    struct id id = service_random_id(s);
    snprintf(out, size, "%016" PRIx64 "%016" PRIx64 "%08" PRIx64, id.high, id.low,
             id.low & UINT32_MAX);
}

void resp_open_all(struct service *s)
{
    struct resp_shared *shared = memory_alloc(s->memory, sizeof(*shared));
    memset(shared, 0, sizeof(*shared));
    list_init(&shared->conns);
    list_init(&shared->ready);
    list_init(&shared->transfers);
    list_init(&shared->idle);
    list_init(&shared->pending);
    pool_init(&shared->pool, s->memory);
    shared->born_ms = service_boot_ms(s);
    name_run(s, shared->run_id, sizeof(shared->run_id));
    keyspace_open(&shared->keyspace, s);
    s->resp = shared;
    resp_pubsub_open(s);
    resp_waits_open(s);
}

void resp_close_all(struct service *s)
{
    struct resp_shared *shared = s->resp;
    hf_assert(list_is_empty(&shared->conns));
    resp_script_close(s);
    resp_pubsub_close(s);
    resp_waits_close(s);
    keyspace_close(&shared->keyspace);
    pool_close(&shared->pool);
    memory_free(s->memory, shared, sizeof(*shared));
}

bool resp_break_off_largest(struct service *s, size_t above)
{
    struct resp_conn *found = NULL;
    for (struct list *link = s->resp->conns.next; link != &s->resp->conns; link = link->next) {
        struct resp_conn *conn = LIST_OBJECT(link, struct resp_conn, link);
        if (!conn->is_broken_off && conn->account.used > above) {
            found = conn;
            above = conn->account.used;
        }
    }
    if (found != NULL) {
        resp_conn_break_off(found);
    }
    return found != NULL;
}

static void run_deadlines(struct service *s)
{
    struct resp_shared *shared = s->resp;
    uint64_t now_ms = service_boot_ms(s);
    while (!list_is_empty(&shared->transfers)) {
        struct resp_conn *conn = LIST_OBJECT(shared->transfers.next, struct resp_conn, deadline);
        if (conn->since_ms + s->options.request_ms > now_ms) {
            break;
        }
        list_remove(&conn->deadline);
        if (conn->is_closing) { /* the client does not read the last reply */
            buffer_truncate(&conn->out, 0);
        } else {
            conn->clock = RESP_CLOCK_NONE;
            resp_conn_error(conn, "ERR", "Protocol error: the request did not arrive in time");
            resp_conn_shut(conn);
        }
        resp_conn_mark_ready(conn);
    }
    while (!list_is_empty(&shared->idle)) {
        struct resp_conn *conn = LIST_OBJECT(shared->idle.next, struct resp_conn, deadline);
        if (conn->since_ms + RESP_IDLE_MS > now_ms) {
            break;
        }
        resp_conn_shut(conn);
    }
    resp_waits_run_deadlines(s, now_ms);
}

void resp_run_all(struct service *s)
{
    struct resp_shared *shared = s->resp;
    run_deadlines(s);
    struct list ready;
    list_init(&ready);
    list_move_all(&ready, &shared->ready);
    for (struct list *link = list_take(&ready); link != NULL; link = list_take(&ready)) {
        struct resp_conn *conn = LIST_OBJECT(link, struct resp_conn, ready);
        if (buffer_len(&conn->in) > 0 || conn->is_ended) {
            resp_conn_advance(conn);
        }
        resp_conn_update_clock(conn);
        list_remove(&conn->ready);                /* the call below reports all changes so far */
        conn->options.ready(conn->options.owner); /* may free the connection */
    }
}

uint64_t resp_next_ms(const struct service *s)
{
    const struct resp_shared *shared = s->resp;
    if (!list_is_empty(&shared->ready) || shared->is_behind) {
        return 0;
    }
    uint64_t next_ms = UINT64_MAX;
    if (!list_is_empty(&shared->transfers)) {
        const struct resp_conn *conn =
            LIST_OBJECT(shared->transfers.next, struct resp_conn, deadline);
        next_ms = conn->since_ms + s->options.request_ms;
    }
    if (!list_is_empty(&shared->idle)) {
        const struct resp_conn *conn = LIST_OBJECT(shared->idle.next, struct resp_conn, deadline);
        uint64_t idle_ms = conn->since_ms + RESP_IDLE_MS;
        next_ms = idle_ms < next_ms ? idle_ms : next_ms;
    }
    if (!list_is_empty(&shared->pending)) { /* ordered by give_up_ms */
        const struct resp_conn *conn = LIST_OBJECT(shared->pending.next, struct resp_conn, pending);
        next_ms = conn->give_up_ms < next_ms ? conn->give_up_ms : next_ms;
    }
    uint64_t wait_ms = resp_waits_next_ms(s);
    return wait_ms < next_ms ? wait_ms : next_ms;
}

void resp_drain_all(struct service *s)
{
    struct resp_shared *shared = s->resp;
    resp_waits_drain(s);
    for (struct list *link = shared->conns.next; link != &shared->conns; link = link->next) {
        struct resp_conn *conn = LIST_OBJECT(link, struct resp_conn, link);
        conn->is_ended = true; /* answer the requests received; no more input */
        resp_conn_mark_ready(conn);
    }
}

void resp_on_event(struct service *s, const struct event *event)
{
    if (event->type == EVENT_PUBLISHED) {
        resp_pubsub_deliver(s, event->tenant, event->name, event->text);
    } else if (event->type == EVENT_GRANTED && event->tier == s->options.resp_tier) {
        resp_waits_on_key(s, event->tenant, event->name);
    }
}

uint64_t service_subscribers(const struct service *s)
{
    const struct resp_shared *shared = s->resp;
    uint64_t count = 0;
    for (const struct list *link = shared->conns.next; link != &shared->conns; link = link->next) {
        count += resp_is_subscribed(LIST_OBJECT(link, struct resp_conn, link));
    }
    return count;
}

void resp_stats(const struct service *s, struct service_stats *out)
{
    const struct resp_shared *shared = s->resp;
    out->resp_connections = shared->conn_count;
    out->resp_accepted = shared->connections;
    out->resp_commands = shared->commands;
    out->resp_errors = shared->errors;
    out->resp_conflicts = shared->conflicts;
    out->resp_dropped = shared->dropped;
    resp_script_stats(s, out);
}

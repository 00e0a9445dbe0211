/* SET with NX and HF.ACQUIRE, submitted as an acquire with a value. A grant whose reply was never
 * sent is released (S7.2). */
#include "service/resp/conn.h"

struct resp_acquire {
    struct list link; /* in conn.acquires */
    struct resp_conn *conn;
    struct pending_request *awaited; /* NULL: CLIENT UNBLOCK */
    ref self;
    bool is_answered;
    bool is_granted;
    bool gives_token;
    bool is_silent;    /* CLIENT REPLY */
    bool is_unblocked; /* CLIENT UNBLOCK with ERROR */
    uint64_t token;
    char *denial; /* AUTH_TEXT bytes, see resp_keep_denial; NULL: none */
    enum hf_error error;
    struct quota_refusal refusal; /* of HF_QUOTA */
};

/* False where this node cannot read the keys: a client could acquire but not release. */
bool resp_is_acquire(const struct resp_conn *conn, const struct slice *args, uint32_t count,
                     struct resp_set *out)
{
    const struct service *s = conn->service;
    if (service_tier_core(s, s->options.resp_tier) == NULL) {
        return false;
    }
    bool is_acquire =
        conn->command->run == key_set
            ? resp_set_is_acquire(s, args, count, out)
            : conn->command->run == key_acquire && resp_token_is_acquire(s, args, count, out);
    return is_acquire &&
           resp_name_in(s, conn->database, args[1], resp_shared(conn)->name_bytes, &out->name);
}

static void free_acquire(struct resp_acquire *a)
{
    list_remove(&a->link);
    a->conn->acquire_count--;
    if (a->denial != NULL) {
        memory_free(a->conn->service->memory, a->denial, AUTH_TEXT);
    }
    pool_free(&resp_shared(a->conn)->pool, a->self, sizeof(*a));
}

static void write_reply(struct resp_acquire *a)
{
    struct resp_conn *conn = a->conn;
    struct resp_writer w = resp_conn_writer(conn);
    if (a->is_unblocked) {
        resp_conn_error(conn, "UNBLOCKED", "client unblocked via CLIENT UNBLOCK");
    } else if (a->error == HF_QUOTA) {
        resp_conn_fail_quota(conn, &a->refusal);
    } else if (a->error == HF_DENIED && a->denial != NULL) {
        resp_conn_error(conn, "NOPERM", "%s", a->denial);
    } else if (a->error != HF_OK) {
        resp_conn_fail(conn, a->error);
    } else if (a->is_granted && a->gives_token) {
        resp_integer(&w, (int64_t)a->token);
    } else if (a->is_granted) {
        buffer_append(&conn->out, "+OK\r\n", 5);
    } else {
        resp_null(&w);
    }
}

static void write_answer(struct resp_acquire *a)
{
    struct resp_conn *conn = a->conn;
    if (a->error == HF_DENIED) {
        auth_denied(conn->service, conn->caller.id, a->denial);
    }
    if (!a->is_silent) {
        write_reply(a);
    }
    if (a->awaited == NULL || pending_settle(a->awaited)) {
        return;
    }
    if (a->is_silent) {
        pending_written(a->awaited); /* nothing is to be written */
    } else {
        a->awaited->mark = conn->written + buffer_len(&conn->out);
        list_append(&conn->unwritten, &a->awaited->link);
    }
}

/* Up to the first missing reply. */
static void write_answers(struct resp_conn *conn)
{
    while (!list_is_empty(&conn->acquires)) {
        struct resp_acquire *a = LIST_OBJECT(conn->acquires.next, struct resp_acquire, link);
        if (!a->is_answered) {
            break;
        }
        write_answer(a);
        free_acquire(a);
    }
    if (list_is_empty(&conn->acquires)) {
        conn->mode = RESP_MODE_IDLE;
    }
    resp_conn_mark_ready(conn);
}

static void on_answer(void *owner, enum hf_error error, const struct result *result)
{
    struct resp_acquire *a = owner;
    a->is_answered = true;
    a->error = error != HF_OK ? error : result->error;
    if (a->error == HF_QUOTA) {
        a->refusal = auth_refusal_of(result);
    }
    a->is_granted =
        a->error == HF_OK && result->outcome == OUTCOME_GRANTED && result->ended == ENDED_NOT;
    a->token = a->is_granted ? result->token : 0;
    write_answers(a->conn);
}

void resp_acquire_begin(struct resp_conn *conn, const struct resp_set *set)
{
    struct service *s = conn->service;
    struct command command;
    command_init(&command, COMMAND_ACQUIRE);
    caller_sign(&command, conn->caller.id);
    command.acquire.lease = service_random_id(s);
    command.acquire.node = s->node;
    command.acquire.client = slice_make(conn->client, conn->client_len);
    command.acquire.names.count = 1;
    command.acquire.names.at[0] = set->name;
    command.acquire.ttl_ms = set->ttl_ms;
    command.acquire.wait_ms = set->wait_ms;
    command.acquire.max_hold_ms = set->max_hold_ms;
    command.acquire.flags = ACQUIRE_KEY;
    command.acquire.value = set->value;
    ref self = 0;
    struct resp_acquire *a = pool_alloc(&resp_shared(conn)->pool, sizeof(*a), &self);
    a->self = self;
    a->conn = conn;
    a->gives_token = set->gives_token;
    a->is_silent = resp_is_silent(conn);
    if (s->auth != NULL) {
        resp_keep_denial(conn, &command);
        a->denial = conn->denial;
        conn->denial = NULL;
    }
    list_init(&a->link);
    list_append(&conn->acquires, &a->link);
    conn->acquire_count++;
    conn->mode = RESP_MODE_ACQUIRING;
    a->awaited = pending_submit_tier(s, &command, s->options.resp_tier, false, on_answer, a);
}

void resp_acquire_abandon_all(struct resp_conn *conn)
{
    while (!list_is_empty(&conn->acquires)) {
        struct resp_acquire *a = LIST_OBJECT(conn->acquires.next, struct resp_acquire, link);
        if (a->awaited != NULL) {
            pending_abandon(a->awaited);
        }
        free_acquire(a);
    }
}

/* The first one that waits; NULL: none. */
static struct resp_acquire *waiting(const struct resp_conn *conn)
{
    for (struct list *link = conn->acquires.next; link != &conn->acquires; link = link->next) {
        struct resp_acquire *a = LIST_OBJECT(link, struct resp_acquire, link);
        if (!a->is_answered && a->awaited->may_wait) {
            return a;
        }
    }
    return NULL;
}

bool resp_acquire_waits(const struct resp_conn *conn)
{
    return waiting(conn) != NULL;
}

bool resp_acquire_unblock(struct resp_conn *conn, bool is_error)
{
    struct resp_acquire *a = waiting(conn);
    if (a == NULL) {
        return false;
    }
    pending_abandon(a->awaited);
    a->awaited = NULL;
    a->is_answered = true;
    a->is_unblocked = is_error;
    write_answers(conn);
    return true;
}

void resp_acquire_end(struct resp_conn *conn)
{
    if (resp_acquire_waits(conn)) {
        resp_acquire_abandon_all(conn);
        conn->mode = RESP_MODE_IDLE;
        resp_conn_shut(conn);
    }
}

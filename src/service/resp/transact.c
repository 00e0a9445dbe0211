/* Commands and scripts that change keys (keyspace.h). The leader starts runs when its last batch is
 * applied and the next is not sealed, and earlier if they read only what the runs before them will
 * leave (uncommitted.h) and keys that are held; other nodes at once. A conflict repeats the run, on
 * a follower after a barrier: its state may be too old. */
#include <inttypes.h>

#include "service/resp/conn.h"

static void put_status(void *ctx, const char *text)
{
    resp_simple(ctx, text);
}

static void put_error(void *ctx, const char *code, const char *text)
{
    resp_error(ctx, code, "%s", text);
}

static void put_integer(void *ctx, int64_t value)
{
    resp_integer(ctx, value);
}

static void put_bulk(void *ctx, struct slice bytes)
{
    resp_bulk(ctx, bytes);
}

static void put_null(void *ctx)
{
    resp_null(ctx);
}

static void put_array(void *ctx, uint32_t count)
{
    resp_array(ctx, count);
}

static void put_map(void *ctx, uint32_t pairs)
{
    resp_map(ctx, pairs);
}

struct key_sink resp_sink(struct resp_writer *w)
{
    return (struct key_sink){w,        put_status, put_error, put_integer,
                             put_bulk, put_null,   put_array, put_map};
}

struct resp_writer *resp_sink_writer(const struct key_sink *sink)
{
    hf_assert(sink->status == put_status);
    return sink->ctx;
}

/* Only the leader has the state of the EFFICIENCY tier. */
static void put_not_here(struct resp_writer *w, const struct service *s)
{
    struct gateway_status status;
    s->gateway.status(s->gateway.ctx, &status);
    if (status.leader == status.node || status.leader == 0) {
        resp_put_error(w, HF_UNAVAILABLE);
    } else {
        resp_error(
            w, "READONLY",
            "the keys are in the memory of the leader (resp-tier = efficiency), which is node "
            "%" PRIu64 "; connect to that node",
            status.leader);
    }
}

static struct slice client_of(const struct resp_conn *conn)
{
    return slice_make(conn->client, conn->client_len);
}

void resp_read(struct resp_conn *conn, const struct slice *args, uint32_t count)
{
    struct keyspace *k = &resp_shared(conn)->keyspace;
    struct resp_writer w = resp_conn_writer(conn);
    struct key_sink sink = resp_sink(&w);
    if (!keyspace_begin(k, conn->caller.id, client_of(conn), true)) {
        put_not_here(&w, conn->service);
        resp_shared(conn)->errors++;
        return;
    }
    k->conn = conn;
    k->database = conn->database;
    size_t before = buffer_len(&conn->out);
    conn->command->run(k, args, count, &sink);
    if (conn->out.overflowed) {
        buffer_truncate(&conn->out, before);
        resp_conn_fail(conn, HF_ANSWER_TOO_LARGE);
    }
    if (k->is_denied) {
        auth_denied(conn->service, conn->caller.id, k->denial);
    }
}

static bool is_replicated(const struct service *s)
{
    return s->options.resp_tier == TIER_CORRECTNESS;
}

void resp_transact_begin(struct resp_conn *conn)
{
    conn->mode = RESP_MODE_TRANSACTING;
    /* A flush walks over the names, and compares no versions: this node must have all of them. */
    conn->needs_barrier = conn->command->run == key_flush && is_replicated(conn->service);
    conn->has_policy = false;
    conn->flush.cursor = 0;
    conn->flush.is_more = false;
    resp_transact_begin_again(conn);
}

void resp_transact_begin_again(struct resp_conn *conn)
{
    hf_assert(conn->mode == RESP_MODE_TRANSACTING && conn->awaited == NULL);
    conn->attempts = 0;
    conn->busy_index = 0;
    conn->give_up_ms = service_boot_ms(conn->service) + RESP_PENDING_MS;
    list_append(&resp_shared(conn)->pending, &conn->pending);
}

/* The next transaction of a command that has several. */
static void go_on(struct resp_conn *conn)
{
    conn->flush.cursor = conn->flush.next;
    resp_transact_begin_again(conn);
}

static void answer(struct resp_conn *conn)
{
    struct slice reply = buffer_bytes(&conn->reply);
    if (reply.len > 0 && reply.data[0] == '-') {
        resp_shared(conn)->errors++;
    }
    if (!resp_is_silent(conn)) {
        buffer_append_slice(&conn->out, reply);
    }
    if (conn->command->run == key_exec) {
        resp_multi_end(conn);
    }
    buffer_truncate(&conn->reply, 0);
    buffer_release(&conn->reply);
    resp_conn_done(conn);
}

static void answer_error(struct resp_conn *conn, enum hf_error error)
{
    struct resp_writer w = {&conn->reply, conn->protocol};
    buffer_truncate(&conn->reply, 0);
    if (error == HF_DENIED) {
        auth_denied(conn->service, conn->caller.id, conn->denial);
    }
    if (error == HF_DENIED && conn->denial != NULL) {
        resp_error(&w, "NOPERM", "%s", conn->denial);
    } else {
        resp_put_error(&w, error);
    }
    answer(conn);
}

void resp_transact_refuse(struct resp_conn *conn, enum hf_error error)
{
    hf_assert(conn->mode == RESP_MODE_TRANSACTING && conn->awaited == NULL);
    list_remove(&conn->pending);
    answer_error(conn, error);
}

static void answer_quota(struct resp_conn *conn, const struct quota_refusal *refusal)
{
    struct resp_writer w = {&conn->reply, conn->protocol};
    buffer_truncate(&conn->reply, 0);
    resp_put_quota(&w, conn, refusal);
    answer(conn);
}

static void answer_try_again(struct resp_conn *conn)
{
    struct resp_writer w = {&conn->reply, conn->protocol};
    buffer_truncate(&conn->reply, 0);
    resp_error(&w, "TRYAGAIN",
               "other clients changed the keys in each attempt; nothing was done, try again");
    answer(conn);
}

static bool leads(const struct service *s)
{
    struct gateway_status status;
    s->gateway.status(s->gateway.ctx, &status);
    return status.leader == status.node;
}

/* A refused command changes no key and may leave the core's index where it is. */
static void forget_submitted(struct resp_conn *conn)
{
    struct resp_shared *shared = resp_shared(conn);
    uncommitted_end(&shared->keyspace.uncommitted, conn->submitted);
    uncommitted_forget(&shared->keyspace.uncommitted);
    for (struct list *link = shared->pending.next; link != &shared->pending; link = link->next) {
        LIST_OBJECT(link, struct resp_conn, pending)->busy_index = 0;
    }
    resp_waits_on_settled(shared);
}

void resp_transact_abandon(struct resp_conn *conn)
{
    if (conn->awaited == NULL) {
        return;
    }
    pending_abandon(conn->awaited);
    conn->awaited = NULL;
    if (conn->mode == RESP_MODE_TRANSACTING) {
        forget_submitted(conn);
    }
}

/* The state of a follower may be too old; and the last answer of a wait must be of now. */
static bool needs_barrier_again(const struct resp_conn *conn)
{
    return is_replicated(conn->service) && (!leads(conn->service) || resp_wait_is_over(conn));
}

/* After a conflict. */
static void repeat(struct resp_conn *conn)
{
    if (++conn->attempts == RESP_ATTEMPTS) {
        forget_submitted(conn);
        answer_try_again(conn);
        return;
    }
    resp_shared(conn)->conflicts++;
    conn->needs_barrier = needs_barrier_again(conn);
    list_append(&resp_shared(conn)->pending, &conn->pending); /* before those that waited for it */
    forget_submitted(conn);
}

static void on_done(void *owner, enum hf_error error, const struct result *result)
{
    struct resp_conn *conn = owner;
    bool is_settled = pending_settle(conn->awaited);
    hf_assert(is_settled);
    conn->awaited = NULL;
    if (error == HF_OK && result->error == HF_QUOTA) {
        struct quota_refusal refusal = auth_refusal_of(result);
        forget_submitted(conn);
        answer_quota(conn, &refusal);
    } else if (error != HF_OK || result->error != HF_OK) {
        forget_submitted(conn);
        answer_error(conn, error != HF_OK ? error : result->error);
    } else if (result->outcome == OUTCOME_DONE) {
        uncommitted_end(&resp_shared(conn)->keyspace.uncommitted, conn->submitted);
        resp_waits_on_settled(resp_shared(conn));
        if (conn->flush.is_more) {
            go_on(conn);
        } else {
            answer(conn);
        }
    } else {
        repeat(conn);
    }
}

static void on_barrier(void *owner, enum hf_error error, const struct result *result)
{
    struct resp_conn *conn = owner;
    (void)result;
    bool is_settled = pending_settle(conn->awaited);
    hf_assert(is_settled);
    conn->awaited = NULL;
    if (error != HF_OK) {
        answer_error(conn, error);
        return;
    }
    conn->needs_barrier = false;
    conn->has_policy = true;
    list_append(&resp_shared(conn)->pending, &conn->pending);
}

/* A blocking command found nothing. */
static void park(struct resp_conn *conn, struct keyspace *k)
{
    struct quota_refusal refusal;
    buffer_release(&conn->reply);
    if (!resp_wait_park(conn, k, &refusal)) {
        answer_quota(conn, &refusal);
    }
}

static void run(struct resp_conn *conn, bool is_early)
{
    struct service *s = conn->service;
    struct keyspace *k = &resp_shared(conn)->keyspace;
    struct resp_writer w = {&conn->reply, conn->protocol};
    struct key_sink sink = resp_sink(&w);
    struct command command;
    uint32_t count;
    const struct slice *args = resp_conn_args(conn, &count);
    buffer_truncate(&conn->reply, 0);
    if (!keyspace_begin(k, conn->caller.id, client_of(conn), false)) {
        put_not_here(&w, s);
        answer(conn);
        return;
    }
    k->conn = conn;
    k->database = conn->database;
    k->is_early = is_early;
    k->is_hopeful = conn->attempts == 0; /* clients of other nodes may change the key, too */
    k->is_settled = resp_wait_is_over(conn);
    conn->command->run(k, args, count, &sink);
    if (k->is_denied && !conn->has_policy && !leads(s)) {
        buffer_truncate(&conn->reply, 0);
        conn->awaited = pending_barrier(s, on_barrier, conn); /* the policy here may be old */
        return;
    }
    if (k->is_denied) {
        auth_denied(s, conn->caller.id, k->denial);
    }
    if (conn->reply.overflowed) {
        answer_error(conn, HF_ANSWER_TOO_LARGE);
        return;
    }
    if (k->waits && !keyspace_is_busy(k)) {
        park(conn, k);
        return;
    }
    if (!k->waits && !k->is_script && buffer_bytes(&conn->reply).data[0] == '-') {
        keyspace_cancel(k); /* all or nothing; a script handles this itself */
    }
    if (keyspace_is_busy(k)) {
        conn->busy_index = core_index(k->core) + 1; /* no retry before the core's index moves */
        conn->busy_early = is_early;
        conn->busy_ended = k->uncommitted.ended;
        conn->needs_barrier = needs_barrier_again(conn); /* answers come before the state here */
        list_append(&resp_shared(conn)->pending, &conn->pending);
        return;
    }
    if (keyspace_is_idle(k) && conn->flush.is_more) {
        resp_shared(conn)->is_behind = true; /* it goes on in the next turn of the loop */
        go_on(conn);
        return;
    }
    if (keyspace_is_idle(k)) {
        struct quota_refusal refusal;
        if (auth_takes_read(s, conn->caller.id.tenant, &refusal)) {
            answer(conn);
        } else {
            answer_quota(conn, &refusal);
        }
        return;
    }
    enum hf_error error = keyspace_build(k, &command);
    if (error != HF_OK) {
        answer_error(conn, error);
        return;
    }
    if (s->auth != NULL) {
        resp_keep_denial(conn, &command);
    }
    conn->submitted = keyspace_submitted(k);
    conn->awaited = pending_submit_tier(s, &command, s->options.resp_tier, false, on_done, conn);
}

bool service_has_transactions(const struct service *s)
{
    return !list_is_empty(&s->resp->pending);
}

void resp_begin_turn(struct service *s)
{
    s->resp->is_behind = false;
}

void service_transact(struct service *s)
{
    struct resp_shared *shared = s->resp;
    if (list_is_empty(&shared->pending) || shared->is_behind) {
        return;
    }
    bool may_run =
        s->gateway.is_settled == NULL || !is_replicated(s) || s->gateway.is_settled(s->gateway.ctx);
    uint64_t now_ms = service_boot_ms(s);
    const struct core *core = service_tier_core(s, s->options.resp_tier);
    uint64_t index = core == NULL ? 0 : core_index(core);
    const struct uncommitted *uncommitted = &shared->keyspace.uncommitted;
    struct list pending;
    list_init(&pending);
    list_move_all(&pending, &shared->pending);
    struct resp_script_work before = resp_script_work(s);
    for (struct list *link = list_take(&pending); link != NULL; link = list_take(&pending)) {
        struct resp_conn *conn = LIST_OBJECT(link, struct resp_conn, pending);
        if (conn->give_up_ms <= now_ms && !may_run) {
            answer_error(conn, HF_UNAVAILABLE); /* the batch in flight has no majority */
        } else if (conn->give_up_ms <= now_ms) {
            answer_try_again(conn);
        } else if ((!may_run && conn->attempts > 0 && uncommitted_is_empty(uncommitted)) ||
                   (conn->busy_index == index + 1 && conn->busy_ended == uncommitted->ended &&
                    !(may_run && conn->busy_early))) {
            list_append(&shared->pending, &conn->pending);
        } else if (conn->needs_barrier) {
            s->source = conn->source;
            conn->awaited = pending_barrier(s, on_barrier, conn);
        } else if (resp_script_turn_is_over(s, before)) {
            shared->is_behind = true; /* the loop needs time for messages to other nodes */
            list_append(&shared->pending, &conn->pending);
        } else if (!resp_wait_yields(conn)) {
            s->source = conn->source;
            run(conn, !may_run);
        }
    }
    s->source = 0;
}

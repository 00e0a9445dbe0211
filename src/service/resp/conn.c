/* One Redis-protocol connection; see api.h and conn.h. */
#include "service/resp/conn.h"

#include <stdio.h>

void resp_conn_mark_ready(struct resp_conn *conn)
{
    if (list_is_empty(&conn->ready)) {
        list_append(&resp_shared(conn)->ready, &conn->ready);
    }
}

/* One timeout per list, so each list is in the order of deadlines. A subscriber may be silent
 * without limit; TCP detects when it is gone. */
void resp_conn_update_clock(struct resp_conn *conn)
{
    struct resp_shared *shared = resp_shared(conn);
    bool is_worked_on = conn->mode != RESP_MODE_IDLE || conn->kept != NULL;
    enum resp_clock clock = conn->is_closing                             ? RESP_CLOCK_TRANSFER
                            : is_worked_on || buffer_len(&conn->out) > 0 ? RESP_CLOCK_NONE
                            : buffer_len(&conn->in) > 0                  ? RESP_CLOCK_TRANSFER
                            : resp_is_subscribed(conn)                   ? RESP_CLOCK_NONE
                                                                         : RESP_CLOCK_IDLE;
    if (clock == conn->clock) {
        if (clock == RESP_CLOCK_IDLE && conn->since_ms != conn->received_ms) {
            conn->since_ms = conn->received_ms;
            list_append(&shared->idle, &conn->deadline);
        }
        return;
    }
    conn->clock = clock;
    if (clock == RESP_CLOCK_NONE) {
        list_remove(&conn->deadline);
        return;
    }
    conn->since_ms = service_boot_ms(conn->service);
    list_append(clock == RESP_CLOCK_IDLE ? &shared->idle : &shared->transfers, &conn->deadline);
}

void resp_conn_shut(struct resp_conn *conn)
{
    conn->is_closing = true;
    resp_conn_update_clock(conn);
    resp_conn_mark_ready(conn);
}

void resp_conn_name(struct resp_conn *conn)
{
    int len = snprintf(conn->client, sizeof(conn->client), "resp:%s%s%s", conn->name,
                       conn->name[0] != '\0' ? "@" : "", conn->address);
    hf_assert(len > 0 && (size_t)len < sizeof(conn->client));
    conn->client_len = (size_t)len;
}

struct resp_conn *resp_conn_new(struct service *s, const struct resp_conn_options *options)
{
    struct resp_shared *shared = s->resp;
    struct resp_conn *conn = memory_alloc(s->memory, sizeof(*conn));
    memset(conn, 0, sizeof(*conn));
    conn->service = s;
    conn->options = *options;
    conn->source = ++s->sources;
    conn->options.address = NULL;
    conn->options.local = NULL;
    snprintf(conn->address, sizeof(conn->address), "%s", options->address);
    snprintf(conn->local, sizeof(conn->local), "%s", options->local);
    conn->protocol = 2;
    conn->id = ++shared->ids;
    conn->born_ms = conn->received_ms = service_boot_ms(s);
    conn->is_authenticated = !resp_needs_auth(s);
    auth_conn_open(s, &conn->auth, options->address);
    auth_wait_open(&conn->wait);
    conn_account_open(&conn->account, &s->budget, s->memory);
    const struct memory *memory = &conn->account.memory;
    buffer_init(&conn->in, memory, RESP_INPUT_MAX);
    buffer_init(&conn->out, memory, RESP_OUTPUT_MAX);
    buffer_init(&conn->reply, memory, RESP_REPLY_MAX);
    buffer_init(&conn->multi, memory, RESP_MULTI_MAX);
    buffer_init(&conn->watched, memory, RESP_WATCHED_MAX);
    list_init(&conn->acquires);
    list_init(&conn->pending);
    list_init(&conn->unwritten);
    for (int i = 0; i < SUBSCRIBED_COUNT; i++) {
        list_init(&conn->subscriptions[i]);
    }
    list_init(&conn->link);
    list_init(&conn->ready);
    list_init(&conn->deadline);
    resp_conn_name(conn);
    list_append(&shared->conns, &conn->link);
    shared->conn_count++;
    shared->connections++;
    resp_conn_update_clock(conn);
    return conn;
}

static void forget_kept(struct resp_conn *conn)
{
    if (conn->kept != NULL) {
        memory_free(&conn->account.memory, conn->kept,
                    sizeof(*conn->kept) + conn->kept->count * sizeof(conn->kept->words[0]));
        conn->kept = NULL;
    }
}

void resp_conn_set_peer(struct resp_conn *conn, const struct peer_identity *peer)
{
    auth_conn_set_peer(conn->service, &conn->auth, peer);
}

static void forget_parser(struct resp_conn *conn)
{
    if (conn->parser != NULL) {
        memory_free(&conn->account.memory, conn->parser, sizeof(*conn->parser));
        conn->parser = NULL;
    }
}

/* For the core this is a client that has gone (S7). */
static void drop_work(struct resp_conn *conn)
{
    resp_acquire_abandon_all(conn);
    resp_pubsub_leave(conn);
    resp_transact_abandon(conn);
    for (struct list *link = list_take(&conn->unwritten); link != NULL;
         link = list_take(&conn->unwritten)) {
        pending_abandon(LIST_OBJECT(link, struct pending_request, link));
    }
    forget_kept(conn);
    forget_parser(conn);
    list_remove(&conn->pending);
    resp_wait_end(conn);
    buffer_close(&conn->in);
    buffer_close(&conn->out);
    buffer_close(&conn->reply);
    buffer_close(&conn->multi);
    buffer_close(&conn->watched);
}

void resp_conn_close(struct resp_conn *conn)
{
    struct service *s = conn->service;
    drop_work(conn);
    list_remove(&conn->link);
    list_remove(&conn->ready);
    list_remove(&conn->deadline);
    s->resp->conn_count--;
    resp_keep_denial(conn, NULL);
    auth_wait_stop(s, &conn->wait);
    auth_conn_close(s, &conn->auth);
    conn_account_close(&conn->account);
    memory_free(s->memory, conn, sizeof(*conn));
}

void resp_conn_break_off(struct resp_conn *conn)
{
    drop_work(conn);
    conn->mode = RESP_MODE_IDLE;
    conn->is_broken_off = true;
    resp_conn_shut(conn);
}

static bool may_begin(const struct resp_conn *conn)
{
    return !conn->is_closing && conn->broken == NULL && buffer_len(&conn->out) < RESP_OUTPUT_SOFT;
}

/* Most requests arrive complete: connections share one parser. A partial request gets its own. */
static bool parse(struct resp_conn *conn)
{
    struct resp_shared *shared = resp_shared(conn);
    struct resp_parser *parser = conn->parser;
    size_t len = buffer_len(&conn->in);
    if (len == 0) {
        return false;
    }
    if (parser == NULL) {
        parser = &shared->parser;
        resp_parser_init(parser);
    }
    uint8_t *bytes = conn->in.data + conn->in.start;
    struct resp_result r = resp_feed(parser, bytes, len);
    if (r.status == RESP_ERROR) {
        conn->broken = r.error;
        return false;
    }
    if (r.status == RESP_INCOMPLETE) {
        if (conn->parser == NULL) {
            conn->parser = memory_alloc(&conn->account.memory, sizeof(*conn->parser));
            *conn->parser = *parser;
        }
        return false;
    }
    conn->taken = r.consumed;
    uint32_t count = resp_count(parser);
    for (uint32_t i = 0; i < count; i++) {
        shared->args[i] = resp_argument(parser, bytes, i);
    }
    shared->arg_count = count;
    forget_parser(conn);
    return true;
}

static void consume(struct resp_conn *conn)
{
    if (conn->command != NULL || conn->kept != NULL || resp_shared(conn)->arg_count > 0) {
        resp_shared(conn)->commands++;
    }
    conn->fresh -= conn->fresh < conn->taken ? conn->fresh : conn->taken;
    buffer_consume(&conn->in, conn->taken);
    conn->taken = 0;
    conn->wait.is_sure = false; /* the next unknown credentials wait again */
    conn->replies = conn->replies == RESP_REPLIES_SKIP        ? RESP_REPLIES_ON
                    : conn->replies == RESP_REPLIES_SKIP_NEXT ? RESP_REPLIES_SKIP
                                                              : conn->replies;
    forget_kept(conn);
}

/* Takes back what the request has written after `before` bytes if the client wants no reply.
 * Subscriptions are confirmed all the same, as in Redis. */
static void hush(struct resp_conn *conn, size_t before)
{
    bool is_push = conn->command != NULL && (conn->command->flags & RESP_PUBSUB) != 0 &&
                   (conn->command->flags & RESP_WHEN_SUBSCRIBED) != 0;
    if (resp_is_silent(conn) && !is_push) {
        buffer_truncate(&conn->out, before);
    }
}

/* The request stays in the input; `kept` has the positions of its words. */
static void keep(struct resp_conn *conn)
{
    struct resp_shared *shared = resp_shared(conn);
    uint32_t count = shared->arg_count;
    struct resp_kept *kept =
        memory_alloc(&conn->account.memory, sizeof(*kept) + count * sizeof(kept->words[0]));
    const uint8_t *bytes = conn->in.data + conn->in.start;
    kept->count = count;
    for (uint32_t i = 0; i < count; i++) {
        kept->words[i].offset = (uint32_t)(shared->args[i].data - bytes);
        kept->words[i].size = (uint32_t)shared->args[i].len;
    }
    conn->kept = kept;
}

const struct slice *resp_conn_args(struct resp_conn *conn, uint32_t *count)
{
    struct resp_shared *shared = resp_shared(conn);
    const struct resp_kept *kept = conn->kept;
    const uint8_t *bytes = conn->in.data + conn->in.start;
    for (uint32_t i = 0; i < kept->count; i++) {
        shared->args[i] = slice_make(bytes + kept->words[i].offset, kept->words[i].size);
    }
    shared->arg_count = kept->count;
    *count = kept->count;
    return shared->args;
}

/* An error message must fit in one line. */
static int shown(struct slice text)
{
    return text.len < 128 ? (int)text.len : 128;
}

static void answer_unknown(struct resp_conn *conn, const struct slice *args, uint32_t count)
{
    char words[160] = "";
    size_t len = 0;
    for (uint32_t i = 1; i < count && len < sizeof(words) - 40; i++) {
        len +=
            (size_t)snprintf(words + len, sizeof(words) - len, "'%.*s' ",
                             args[i].len < 32 ? (int)args[i].len : 32, (const char *)args[i].data);
    }
    resp_conn_error(conn, "ERR", "unknown command '%.*s', with args beginning with: %s",
                    shown(args[0]), (const char *)args[0].data, words);
}

/* True: the error was sent. */
static bool is_refused(struct resp_conn *conn, const struct slice *args, uint32_t count)
{
    const struct resp_command *command = conn->command;
    bool is_known = command != NULL;
    bool is_open = is_known && (command->flags & RESP_NO_AUTH);
    if (conn->service->auth != NULL && !is_open && resp_auth_refuses(conn)) {
        return true;
    }
    if (!conn->is_authenticated && !is_open) {
        resp_conn_error(conn, "NOAUTH", "Authentication required.");
    } else if (!is_known) {
        answer_unknown(conn, args, count);
    } else if (!resp_command_takes(command, count)) {
        resp_conn_error(conn, "ERR", "wrong number of arguments for '%s' command", command->name);
    } else if (conn->protocol == 2 && resp_is_subscribed(conn) &&
               !(command->flags & RESP_WHEN_SUBSCRIBED)) {
        resp_conn_error(conn, "ERR",
                        "Can't execute '%s': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT "
                        "/ RESET are allowed in this context",
                        command->name);
    } else {
        return false;
    }
    return true;
}

static void on_barrier(void *owner, enum hf_error error, const struct result *result)
{
    struct resp_conn *conn = owner;
    (void)result;
    bool is_settled = pending_settle(conn->awaited);
    hf_assert(is_settled);
    conn->awaited = NULL;
    conn->mode = RESP_MODE_IDLE;
    if (error != HF_OK) {
        size_t before = buffer_len(&conn->out);
        resp_conn_fail(conn, error);
        hush(conn, before);
        resp_conn_done(conn);
        return;
    }
    conn->fresh = conn->covered;
    resp_conn_mark_ready(conn);
}

/* All reads received so far share one barrier (S9.1). */
static void begin_reading(struct resp_conn *conn)
{
    conn->mode = RESP_MODE_READING;
    conn->covered = buffer_len(&conn->in);
    conn->awaited = pending_barrier(conn->service, on_barrier, conn);
}

static void read_now(struct resp_conn *conn, const struct slice *args, uint32_t count)
{
    struct quota_refusal refusal;
    if (auth_takes_read(conn->service, conn->caller.id.tenant, &refusal)) {
        resp_read(conn, args, count);
    } else {
        resp_conn_fail_quota(conn, &refusal);
    }
}

/* Begins the request in shared.args. True: answered or submitted; its bytes are no longer
 * needed. */
static bool begin(struct resp_conn *conn)
{
    const struct slice *args = resp_shared(conn)->args;
    uint32_t count = resp_shared(conn)->arg_count;
    struct resp_set set;
    bool may_join = conn->mode == RESP_MODE_ACQUIRING && conn->acquire_count < RESP_ACQUIRES &&
                    conn->command != NULL && resp_is_acquire(conn, args, count, &set);
    if (conn->mode != RESP_MODE_IDLE && !may_join) {
        return false;
    }
    conn->last = conn->command;
    if (may_join) {
        resp_acquire_begin(conn, &set);
        return true;
    }
    if (conn->service->auth != NULL && resp_auth_waits(conn, args, count)) {
        return false;
    }
    if (is_refused(conn, args, count)) {
        conn->multi_failed = conn->is_multi;
        return true;
    }
    if (resp_multi_takes(conn, args, count)) {
        return true;
    }
    switch (conn->command->kind) {
    case RESP_LOCAL:
        conn->command->local(conn, args, count);
        return true;
    case RESP_READ:
        /* The leader's memory always has the newest state. */
        if (conn->taken <= conn->fresh || conn->service->options.resp_tier == TIER_EFFICIENCY) {
            read_now(conn, args, count);
            return true;
        }
        begin_reading(conn);
        break;
    case RESP_CHANGE:
        conn->fresh = 0;
        if (resp_is_acquire(conn, args, count, &set)) {
            resp_acquire_begin(conn, &set);
            return true;
        }
        resp_transact_begin(conn);
        break;
    }
    return false;
}

void resp_conn_advance(struct resp_conn *conn)
{
    struct resp_shared *shared = resp_shared(conn);
    conn->service->source = conn->source;
    while (may_begin(conn)) {
        uint32_t count;
        if (conn->kept != NULL) {
            if (conn->mode != RESP_MODE_IDLE) {
                break;
            }
            (void)resp_conn_args(conn, &count);
        } else if (!parse(conn)) {
            break;
        } else {
            conn->command =
                shared->arg_count > 0 ? resp_command_again(conn->last, shared->args[0]) : NULL;
        }
        size_t before = buffer_len(&conn->out);
        if (shared->arg_count == 0 || begin(conn)) {
            hush(conn, before);
            consume(conn);
        } else {
            if (conn->kept == NULL) {
                keep(conn);
            }
            break;
        }
    }
    conn->service->source = 0;
    if (conn->broken != NULL && conn->mode == RESP_MODE_IDLE && !conn->is_closing) {
        resp_conn_error(conn, "ERR", "Protocol error: %s", conn->broken);
        resp_conn_shut(conn);
    }
    if (conn->out.overflowed) {
        resp_conn_shut(conn);
    }
    if (conn->is_closing) {
        forget_parser(conn);
    } else if (conn->is_ended && conn->mode == RESP_MODE_IDLE && conn->kept == NULL &&
               may_begin(conn)) {
        resp_conn_shut(conn); /* the rest is a partial request or empty */
    }
    buffer_release_above(&conn->in, RESP_BUFFER_KEPT);
    resp_conn_update_clock(conn);
    if (buffer_len(&conn->out) > 0) {
        resp_conn_mark_ready(conn);
    }
}

void resp_conn_done(struct resp_conn *conn)
{
    hf_assert(conn->awaited == NULL && conn->kept != NULL);
    conn->mode = RESP_MODE_IDLE;
    resp_wait_end(conn);
    consume(conn);
    resp_conn_mark_ready(conn);
}

void resp_conn_receive(struct resp_conn *conn, struct slice bytes)
{
    hf_assert(bytes.len <= RESP_CONN_READ);
    if (conn->is_closing || conn->is_ended) {
        return;
    }
    bool is_taken = buffer_append_slice(&conn->in, bytes);
    hf_assert(is_taken); /* see resp_conn_wants_input */
    conn->received_ms = service_boot_ms(conn->service);
    resp_conn_advance(conn);
}

bool resp_conn_wants_input(struct resp_conn *conn)
{
    bool is_held = conn->kept != NULL || conn->mode != RESP_MODE_IDLE || !may_begin(conn);
    if (conn->is_ended || conn->is_closing ||
        (is_held && buffer_len(&conn->in) >= RESP_INPUT_SOFT)) {
        return false;
    }
    if (conn_budget_is_over(conn->account.budget)) {
        resp_conn_mark_ready(conn); /* after conn_budget_enforce */
        return false;
    }
    return true;
}

void resp_conn_end(struct resp_conn *conn)
{
    conn->is_ended = true;
    resp_acquire_end(conn);
    resp_wait_input_ended(conn);
    resp_conn_advance(conn);
    resp_conn_mark_ready(conn);
}

struct slice resp_conn_output(const struct resp_conn *conn)
{
    return buffer_bytes(&conn->out);
}

void resp_conn_written(struct resp_conn *conn, size_t len)
{
    buffer_consume(&conn->out, len);
    buffer_release_above(&conn->out, RESP_BUFFER_KEPT);
    conn->written += len;
    while (!list_is_empty(&conn->unwritten)) {
        struct pending_request *awaited =
            LIST_OBJECT(conn->unwritten.next, struct pending_request, link);
        if (awaited->mark > conn->written) {
            break;
        }
        pending_written(awaited);
    }
    if (buffer_len(&conn->out) == 0) {
        resp_conn_update_clock(conn);
    }
    if (buffer_len(&conn->in) > 0 && may_begin(conn) && conn->mode == RESP_MODE_IDLE) {
        resp_conn_mark_ready(conn);
    }
}

bool resp_conn_is_finished(const struct resp_conn *conn)
{
    return conn->is_closing && buffer_len(&conn->out) == 0 && conn->mode == RESP_MODE_IDLE;
}

bool resp_conn_is_idle(const struct resp_conn *conn)
{
    return conn->clock == RESP_CLOCK_IDLE && !conn->is_multi && conn->watch_count == 0 &&
           !conn->is_ended && list_is_empty(&conn->unwritten);
}

void resp_conn_retire(struct resp_conn *conn)
{
    hf_assert(resp_conn_is_idle(conn));
    conn->is_closing = true;
}

void resp_conn_error(struct resp_conn *conn, const char *code, const char *format, ...)
{
    char text[LIMIT_RESP_ERROR];
    struct resp_writer w = resp_conn_writer(conn);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    resp_error(&w, code, "%s", text);
    resp_shared(conn)->errors++;
}

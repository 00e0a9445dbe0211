/* HTTP/2 connections and timeouts, see http2_conn.h. */
#include "service/http/http2_conn.h"

#include "service/request/session.h"

enum {
    PIECE = 2 << 10,   /* bytes of input between two checks of the turn's budget */
    LEAVE_FACTOR = 3,  /* times request_ms without output sent: the stream is reset */
    QUIET_MS = 60000,  /* without input: a ping is sent */
    ANSWER_MS = 20000, /* limit for the answer to the ping */
};

static struct stream *stream_from(struct http2_stream *http2)
{
    return (struct stream *)(void *)((char *)http2 - offsetof(struct stream, http2));
}

enum {
    RECENT = sizeof(((struct recent_grants *)0)->at) / sizeof(((struct recent_grants *)0)->at[0])
};

void http2_remember_grant(struct http_conn *conn, int32_t stream,
                          const struct pending_request *pending)
{
    const struct memory *memory = conn->x.service->memory;
    if (conn->recent == NULL) {
        conn->recent = memory_alloc(memory, sizeof(*conn->recent));
        memset(conn->recent, 0, sizeof(*conn->recent));
    }
    size_t i = conn->recent->next++ % RECENT;
    conn->recent->at[i].stream = stream;
    conn->recent->at[i].who = pending->who;
    conn->recent->at[i].lease = pending->lease;
    conn->recent->at[i].tier = pending->tier;
}

static void give_back(struct http_conn *conn, struct caller_id who, struct id lease, enum tier tier)
{
    for (struct list *link = conn->unwritten.next; link != &conn->unwritten; link = link->next) {
        struct pending_request *pending = LIST_OBJECT(link, struct pending_request, link);
        if (id_equal(pending->lease, lease)) {
            pending_abandon(pending); /* leaves `unwritten`: released once */
            return;
        }
    }
    pending_give_back(conn->x.service, who, lease, tier);
}

static struct http2_stream *on_request(void *owner, int32_t id, const struct http2_request *request)
{
    struct http_conn *conn = owner;
    if (conn->x.service->draining || http2_backlog(conn->http2) > LIMIT_HTTP2_BACKLOG) {
        return NULL;
    }
    bool is_call = rpc_is_call(request);
    struct stream *stream = stream_new(conn, id, is_call ? &rpc_transport : &http2_transport);
    if (is_call) {
        rpc_begin(stream, request);
    } else {
        http2_request_begin(stream, request);
    }
    return &stream->http2;
}

static void on_data(void *owner, struct http2_stream *http2, struct slice bytes, bool is_last)
{
    struct stream *stream = stream_from(http2);
    struct http_conn *conn = owner;
    http2_consume(conn->http2, http2, bytes.len);
    if (stream->state == STREAM_SENDING || stream->is_complete) {
        return; /* answered early, or data after the complete message */
    }
    if (auth_is_waiting(&stream->x.wait)) {
        (void)stream_keep_body(stream, bytes, LIMIT_HTTP_BODY);
    } else if (stream->x.transport == &rpc_transport) {
        rpc_data(stream, bytes, is_last);
    } else {
        http2_request_data(stream, bytes);
    }
}

static void on_end(void *owner, struct http2_stream *http2)
{
    struct stream *stream = stream_from(http2);
    if (stream->state == STREAM_SENDING || stream->is_complete) {
        return;
    }
    stream->is_complete = true;
    if (auth_is_waiting(&stream->x.wait)) {
        return; /* resumed as a complete request */
    }
    if (stream->x.transport == &rpc_transport) {
        rpc_end(stream);
    } else {
        http2_request_end(stream);
    }
}

static void on_close(void *owner, struct http2_stream *http2, bool is_clean)
{
    stream_over(stream_from(http2), is_clean);
}

static void on_late_cancel(void *owner, int32_t id)
{
    struct http_conn *conn = owner;
    for (size_t i = 0; conn->recent != NULL && i < RECENT; i++) {
        if (conn->recent->at[i].stream == id) {
            conn->recent->at[i].stream = 0;
            give_back(conn, conn->recent->at[i].who, conn->recent->at[i].lease,
                      conn->recent->at[i].tier);
        }
    }
}

static void on_moved(void *owner, struct http2_stream *http2)
{
    stream_moved(stream_from(http2));
}

static const struct http2_handlers handlers = {on_request, on_data,        on_end,
                                               on_close,   on_late_cancel, on_moved};

void http2_conn_begin(struct http_conn *conn)
{
    struct service *s = conn->x.service;
    if (s->http2 == NULL) {
        s->http2 = http2_shared_new(s->memory);
    }
    conn->resets = LIMIT_HTTP2_RESETS;
    conn->resets_ms = service_boot_ms(s);
    conn->http2 = http2_new(s->http2, &handlers, conn, &conn->out, OUTPUT_SOFT);
    s->http2_conn_count++;
    s->http2_accepted++;
}

static void drop_streams(struct http_conn *conn)
{
    struct list *link;
    while ((link = list_take(&conn->streams)) != NULL) {
        struct stream *stream = LIST_OBJECT(link, struct stream, link);
        http2_stream_close(&stream->http2);
        stream_over(stream, false);
    }
}

/* Closes if HTTP/2 has nothing to send or receive. */
static void check_over(struct http_conn *conn)
{
    if (conn->state == CONN_HTTP2 && http2_is_over(conn->http2)) {
        drop_streams(conn);
        conn_set_state(conn, CONN_CLOSING);
    }
    conn_update_clock(conn);
}

/* Limits the rate of stream resets: they cost the server, not the client. The burst allows many
 * waiting calls to be cancelled together. */
static bool may_reset(struct http_conn *conn, uint32_t resets)
{
    uint64_t now_ms = service_boot_ms(conn->x.service);
    uint64_t gained = (now_ms - conn->resets_ms) * LIMIT_HTTP2_RESETS_PER_S / 1000;
    if (gained > 0) {
        uint64_t left = conn->resets + gained;
        conn->resets = left < LIMIT_HTTP2_RESETS ? (uint32_t)left : LIMIT_HTTP2_RESETS;
        conn->resets_ms = now_ms;
    }
    bool is_enough = resets <= conn->resets;
    conn->resets -= is_enough ? resets : 0;
    return is_enough;
}

/* Returns the bytes processed: all, unless this turn's budget is used up. */
static size_t read_pieces(struct http_conn *conn, struct slice bytes)
{
    size_t used = 0;
    conn->x.service->source = conn->source;
    while (used < bytes.len && conn_budget_takes_input(conn)) {
        size_t len = bytes.len - used < PIECE ? bytes.len - used : PIECE;
        if (!http2_receive(conn->http2, slice_make(bytes.data + used, len))) {
            used = bytes.len;
            break;
        }
        used += len;
    }
    conn->x.service->source = 0;
    return used;
}

void http2_conn_receive(struct http_conn *conn, struct slice bytes)
{
    if (buffer_len(&conn->in) > 0) { /* earlier input first */
        size_t used = read_pieces(conn, buffer_bytes(&conn->in));
        buffer_consume(&conn->in, used);
        buffer_release(&conn->in);
    }
    if (bytes.len > 0) {
        size_t used = buffer_len(&conn->in) > 0 ? 0 : read_pieces(conn, bytes);
        bool is_kept =
            used == bytes.len || buffer_append(&conn->in, bytes.data + used, bytes.len - used);
        hf_assert(is_kept); /* see http_conn_wants_input */
    }
    if (conn->clock == CLOCK_QUIET) {
        conn->is_pinged = false;
        conn->since_ms = service_boot_ms(conn->x.service);
        list_append(&conn->x.service->quiet, &conn->deadline);
    }
    uint32_t resets = http2_take_resets(conn->http2);
    if (resets > 0 && !may_reset(conn, resets)) {
        http2_turn_away(conn->http2);
    }
    if (buffer_len(&conn->out) > 0) {
        conn_mark_ready(conn);
    }
    check_over(conn);
}

/* An HTTP/2 client does not half-close: it is gone. */
void http2_conn_end(struct http_conn *conn)
{
    drop_streams(conn);
    conn_set_state(conn, CONN_CLOSING);
    conn_mark_ready(conn);
}

void http2_conn_flush(struct http_conn *conn)
{
    http2_flush(conn->http2);
    check_over(conn);
}

void http2_conn_written(struct http_conn *conn)
{
    http2_conn_flush(conn);
    if (buffer_len(&conn->out) > 0) {
        conn_mark_ready(conn);
    }
    conn->x.service->pump |= conn->x.service->stream_count > 0;
}

void http2_conn_drain(struct http_conn *conn)
{
    struct list streams; /* an answer may end other streams and remove them */
    list_init(&streams);
    list_move_all(&streams, &conn->streams);
    for (struct list *link = list_take(&streams); link != NULL; link = list_take(&streams)) {
        struct stream *stream = LIST_OBJECT(link, struct stream, link);
        list_append(&conn->streams, link);
        rpc_drain(stream);
        api_request_drain(&stream->x);
    }
    http2_goaway(conn->http2);
    conn_mark_ready(conn);
}

void http2_conn_review(struct http_conn *conn, bool is_over)
{
    struct list streams; /* as in http2_conn_drain */
    list_init(&streams);
    list_move_all(&streams, &conn->streams);
    for (struct list *link = list_take(&streams); link != NULL; link = list_take(&streams)) {
        struct stream *stream = LIST_OBJECT(link, struct stream, link);
        list_append(&conn->streams, link);
        /* A gRPC call has its caller before its message. */
        bool is_open = stream->state != STREAM_SENDING && stream->state != STREAM_CLOSED;
        const char *why =
            is_open ? auth_review_caller(stream->service, &conn->auth, &stream->x.caller) : NULL;
        if (why != NULL) {
            api_request_deny(&stream->x, why);
        }
    }
    if (is_over) {
        http2_goaway(conn->http2);
        conn_mark_ready(conn);
    }
}

void http2_conn_break_off(struct http_conn *conn, bool says_why)
{
    drop_streams(conn);
    http2_break_off(conn->http2, says_why);
}

void http2_conn_close(struct http_conn *conn)
{
    if (conn->http2 == NULL) {
        return;
    }
    drop_streams(conn);
    http2_free(conn->http2);
    conn->http2 = NULL;
    conn->x.service->http2_conn_count--;
}

static bool deadline_before(const void *ctx, ref a, ref b)
{
    return a < b;
}

static void deadline_moved(void *ctx, ref who, uint32_t position)
{
    struct service *s = ctx;
    ((struct stream *)pool_at(&s->pool, who))->deadline = position;
}

static const struct heap_ops deadline_ops = {deadline_before, deadline_moved};

void http2_open_all(struct service *s)
{
    list_init(&s->quiet);
    list_init(&s->http2_requests);
    list_init(&s->http2_answers);
    list_init(&s->http2_gone);
    heap_init(&s->http2_deadlines, s->memory, &deadline_ops, s);
    list_init(&s->health_watches);
    session_calls_open(s);
    bump_init(&s->arena, s->memory, SERVICE_ARENA_MAX);
}

static void free_gone(struct service *s)
{
    for (struct list *link = list_take(&s->http2_gone); link != NULL;
         link = list_take(&s->http2_gone)) {
        stream_free(LIST_OBJECT(link, struct stream, link));
    }
}

void http2_close_all(struct service *s)
{
    free_gone(s);
    http2_shared_free(s->http2);
    session_calls_close(s);
    heap_close(&s->http2_deadlines);
    bump_close(&s->arena);
}

static void run_late_calls(struct service *s, uint64_t now_ms)
{
    while (heap_min_at(&s->http2_deadlines) <= now_ms) {
        struct stream *stream = pool_at(&s->pool, heap_min(&s->http2_deadlines));
        stream_set_deadline(stream, UINT64_MAX);
        rpc_late(stream);
    }
}

static struct stream *first_older(struct list *list, uint64_t before_ms)
{
    if (list_is_empty(list)) {
        return NULL;
    }
    struct stream *first = LIST_OBJECT(list->next, struct stream, clock);
    return first->since_ms <= before_ms ? first : NULL;
}

static uint64_t quiet_until_ms(const struct http_conn *conn)
{
    return conn->since_ms + (conn->is_pinged ? ANSWER_MS : QUIET_MS);
}

/* Detects clients that vanished without closing: they must not keep their place in queues. The list
 * mixes connections with and without a ping, so one may be handled a little late. */
static void run_quiet(struct service *s)
{
    uint64_t now_ms = list_is_empty(&s->quiet) ? 0 : service_boot_ms(s);
    while (!list_is_empty(&s->quiet)) {
        struct http_conn *conn = LIST_OBJECT(s->quiet.next, struct http_conn, deadline);
        if (quiet_until_ms(conn) > now_ms) {
            return;
        }
        if (conn->is_pinged) {
            buffer_truncate(&conn->out, 0);
            http2_conn_end(conn);
        } else {
            conn->is_pinged = true;
            conn->since_ms = now_ms;
            list_append(&s->quiet, &conn->deadline);
            http2_ping(conn->http2);
            conn_mark_ready(conn);
        }
    }
}

void http2_run_all(struct service *s)
{
    run_quiet(s);
    session_run(s);
    rpc_health_run(s);
    free_gone(s);
    if (list_is_empty(&s->http2_requests) && list_is_empty(&s->http2_answers) &&
        heap_count(&s->http2_deadlines) == 0) {
        return;
    }
    uint64_t now_ms = service_boot_ms(s);
    uint64_t request_ms = s->options.request_ms;
    uint64_t leave_ms = request_ms * LEAVE_FACTOR;
    struct stream *stream;
    run_late_calls(s, now_ms);
    while (now_ms >= request_ms &&
           (stream = first_older(&s->http2_requests, now_ms - request_ms)) != NULL) {
        list_remove(&stream->clock);
        api_request_fail(&stream->x, HF_REQUEST_TIMEOUT, NULL);
    }
    while (now_ms >= leave_ms &&
           (stream = first_older(&s->http2_answers, now_ms - leave_ms)) != NULL) {
        list_remove(&stream->clock);
        s->budget.reset++;
        http2_reset(stream->conn->http2, &stream->http2, true);
        conn_mark_ready(stream->conn);
    }
    free_gone(s);
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t http2_next_ms(const struct service *s)
{
    uint64_t next_ms = heap_min_at(&s->http2_deadlines);
    if (!list_is_empty(&s->quiet)) {
        next_ms = earlier(next_ms,
                          quiet_until_ms(LIST_OBJECT(s->quiet.next, struct http_conn, deadline)));
    }
    if (!list_is_empty(&s->http2_requests)) {
        const struct stream *first = LIST_OBJECT(s->http2_requests.next, struct stream, clock);
        next_ms = earlier(next_ms, first->since_ms + s->options.request_ms);
    }
    if (!list_is_empty(&s->http2_answers)) {
        const struct stream *first = LIST_OBJECT(s->http2_answers.next, struct stream, clock);
        next_ms = earlier(next_ms, first->since_ms + LEAVE_FACTOR * s->options.request_ms);
    }
    return next_ms;
}

/* One connection, see http_api.h. After the preface http2_conn.c handles it.
 *
 * S7.2: `unwritten` keeps a grant that the client cannot request again until its answer is written.
 * If the connection closes before, the grant is released. */
#include "service/http/http_conn.h"

#include "service/http/cors.h"
#include "service/http/http2_conn.h"

static struct http_conn *conn_of(struct api_request *x)
{
    return (struct http_conn *)(void *)((char *)x - offsetof(struct http_conn, x));
}

static bool is_between_requests(const struct http_conn *conn)
{
    if (conn->state == CONN_HTTP2) {
        return list_is_empty(&conn->streams) && buffer_len(&conn->in) == 0;
    }
    return conn->state == CONN_IDLE && buffer_len(&conn->in) == 0 && http1_is_idle(&conn->parser);
}

/* One timeout per list, so each list is in the order of the deadlines. */
void conn_update_clock(struct http_conn *conn)
{
    struct service *s = conn->x.service;
    bool is_busy = conn->state == CONN_BUSY || conn->state == CONN_STREAM;
    enum conn_clock clock = is_between_requests(conn)   ? CLOCK_IDLE
                            : is_busy                   ? CLOCK_NONE
                            : conn->state == CONN_HTTP2 ? CLOCK_QUIET
                                                        : CLOCK_TRANSFER;
    if (clock == conn->clock) {
        return;
    }
    conn->clock = clock;
    if (clock == CLOCK_NONE) {
        list_remove(&conn->deadline);
        return;
    }
    conn->since_ms = service_boot_ms(s);
    list_append(clock == CLOCK_IDLE    ? &s->idle
                : clock == CLOCK_QUIET ? &s->quiet
                                       : &s->transfers,
                &conn->deadline);
}

void conn_set_state(struct http_conn *conn, enum conn_state state)
{
    conn->state = state;
    if (state != CONN_IDLE && state != CONN_BODY) {
        conn_update_clock(conn); /* conn_advance updates the clock for the other states */
    }
}

void conn_mark_ready(struct http_conn *conn)
{
    if (list_is_empty(&conn->ready)) {
        list_append(&conn->x.service->ready, &conn->ready);
    }
}

static const struct api_transport http1_transport;

struct http_conn *http_conn_new(struct service *s, const struct http_conn_options *options)
{
    struct http_conn *conn = memory_alloc(s->memory, sizeof(*conn));
    memset(conn, 0, sizeof(*conn));
    conn->options = *options;
    conn->source = ++s->sources;
    api_request_init(&conn->x, s, &http1_transport);
    conn->x.is_operator = options->is_operator;
    auth_conn_open(s, &conn->auth, options->address);
    conn->x.auth = &conn->auth;
    conn->options.address = NULL;
    http1_init(&conn->parser);
    conn_account_open(&conn->account, &s->budget, s->memory);
    const struct memory *memory = &conn->account.memory;
    buffer_init(&conn->in, memory, INPUT_MAX);
    buffer_init(&conn->out, memory, OUTPUT_MAX);
    buffer_init(&conn->head, memory, LIMIT_HTTP_LINE + LIMIT_HTTP_HEADER_BYTES);
    buffer_init(&conn->body, memory, LIMIT_HTTP_BODY);
    list_init(&conn->unwritten);
    list_init(&conn->streams);
    list_init(&conn->link);
    list_init(&conn->ready);
    list_init(&conn->held_back);
    list_init(&conn->deadline);
    list_append(&s->conns, &conn->link);
    s->conn_count++;
    s->conns_accepted++;
    conn_update_clock(conn);
    return conn;
}

void http_conn_set_peer(struct http_conn *conn, const struct peer_identity *peer)
{
    auth_conn_set_peer(conn->x.service, &conn->auth, peer);
}

void http_conn_close(struct http_conn *conn)
{
    struct service *s = conn->x.service;
    http2_conn_close(conn);
    api_request_abandon(&conn->x);
    api_request_close(&conn->x);
    for (struct list *link = list_take(&conn->unwritten); link != NULL;
         link = list_take(&conn->unwritten)) {
        pending_abandon(LIST_OBJECT(link, struct pending_request, link));
    }
    list_remove(&conn->link);
    list_remove(&conn->ready);
    list_remove(&conn->held_back);
    list_remove(&conn->deadline);
    s->conn_count--;
    if (conn->recent != NULL) {
        memory_free(s->memory, conn->recent, sizeof(*conn->recent));
    }
    auth_conn_close(s, &conn->auth);
    buffer_close(&conn->in);
    buffer_close(&conn->out);
    buffer_close(&conn->head);
    buffer_close(&conn->body);
    conn_account_close(&conn->account);
    memory_free(s->memory, conn, sizeof(*conn));
}

bool conn_may_go_on(const struct http_conn *conn)
{
    return (conn->state == CONN_IDLE || conn->state == CONN_BODY) &&
           buffer_len(&conn->out) < OUTPUT_SOFT;
}

struct slice conn_date(struct service *s)
{
    uint64_t wall_s = s->gateway.wall_ms(s->gateway.ctx) / 1000;
    if (wall_s != s->date_s || s->date[0] == '\0') {
        s->date_s = wall_s;
        http1_date(wall_s, s->date);
    }
    return slice_make(s->date, HTTP1_DATE_LEN);
}

struct slice conn_leader(const struct service *s)
{
    struct gateway_status gateway;
    s->gateway.status(s->gateway.ctx, &gateway);
    const char *leader = gateway.leader_client_address;
    return leader == NULL ? slice_make(NULL, 0) : slice_of(leader);
}

static void furnish(struct http_conn *conn, int status, const char *content_type)
{
    struct service *s = conn->x.service;
    conn->response.status = status;
    conn->response.content_type = content_type;
    conn->response.date = conn_date(s);
    conn->response.leader = conn_leader(s);
    conn->response.close = conn->response.close || s->draining;
}

static void request_over(struct http_conn *conn)
{
    struct service *s = conn->x.service;
    api_request_close(&conn->x);
    api_request_init(&conn->x, s, &http1_transport);
    conn->is_kept = false;
    buffer_truncate(&conn->head, 0);
    buffer_truncate(&conn->body, 0);
    buffer_release(&conn->head);
    buffer_release(&conn->body);
    conn->piece = slice_make(NULL, 0);
    bool is_last = conn->response.close || (conn->is_ended && buffer_len(&conn->in) == 0);
    conn_set_state(conn, is_last ? CONN_CLOSING : CONN_IDLE);
    conn_update_clock(conn);
    conn_mark_ready(conn);
}

static void transport_answer(struct api_request *x, const struct answer *answer)
{
    struct http_conn *conn = conn_of(x);
    hf_assert(conn->state == CONN_BUSY);
    struct http1_extra extra[2 + CORS_HEADERS + CORS_PAGE_HEADERS];
    size_t extra_count = cors_headers(x, answer->allow, extra);
    for (size_t i = 0; i < answer->extra_count; i++) {
        extra[extra_count++] = answer->extra[i];
    }
    if (answer->status == 401) {
        extra[extra_count++] = (struct http1_extra){"WWW-Authenticate", slice_of(CONN_CHALLENGE)};
    }
    if (answer->allow != NULL) {
        extra[extra_count++] = (struct http1_extra){"Allow", slice_of(answer->allow)};
    }
    furnish(conn, answer->status, answer->content_type);
    conn->response.retry_after_s = answer->retry_after_s;
    x->service->budget.turn_bytes += answer->body.len;
    conn->response.extra = extra;
    conn->response.extra_count = extra_count;
    bool is_written = http1_response_write(&conn->out, &conn->response, answer->body);
    hf_assert(
        is_written); /* OUTPUT_SOFT and the largest answer together are less than OUTPUT_MAX */
    conn->response.extra = NULL;
    conn->response.extra_count = 0;
    if (answer->pending != NULL && !pending_settle(answer->pending)) {
        answer->pending->mark = conn->written + buffer_len(&conn->out);
        list_append(&conn->unwritten, &answer->pending->link);
    }
    request_over(conn);
}

static void transport_stream(struct api_request *x)
{
    struct http_conn *conn = conn_of(x);
    hf_assert(conn->state == CONN_BUSY);
    struct http1_extra extra[CORS_HEADERS];
    furnish(conn, 200, "text/event-stream");
    conn->response.close = conn->response.close || conn->response.http10;
    conn->response.extra_count = cors_headers(x, NULL, extra);
    conn->response.extra = extra;
    bool is_written = http1_response_stream(&conn->out, &conn->response);
    hf_assert(is_written);
    conn->response.extra = NULL;
    conn->response.extra_count = 0;
    conn_set_state(conn, CONN_STREAM);
    conn_mark_ready(conn);
}

static void transport_long_answer(struct api_request *x, const struct long_answer *answer)
{
    struct http_conn *conn = conn_of(x);
    hf_assert(conn->state == CONN_BUSY);
    furnish(conn, 200, answer->content_type);
    conn->response.extra = answer->extra;
    conn->response.extra_count = answer->extra_count;
    bool is_written = http1_response_head(&conn->out, &conn->response, answer->bytes);
    hf_assert(is_written);
    conn->response.extra = NULL;
    conn->response.extra_count = 0;
    conn->is_long = true;
    conn->owed = conn->response.head_only ? 0 : answer->bytes;
    conn_set_state(conn, CONN_STREAM);
    conn_mark_ready(conn);
}

static void transport_piece(struct api_request *x, struct slice piece)
{
    struct http_conn *conn = conn_of(x);
    hf_assert(conn->state == CONN_STREAM);
    bool is_written;
    if (conn->is_long) {
        hf_assert(piece.len <= conn->owed);
        conn->owed -= piece.len;
        is_written = buffer_append_slice(&conn->out, piece);
    } else {
        is_written = http1_response_piece(&conn->out, &conn->response, piece);
    }
    hf_assert(is_written);
    conn_mark_ready(conn);
}

static void transport_end(struct api_request *x, enum hf_error error, const char *why)
{
    struct http_conn *conn = conn_of(x);
    hf_assert(conn->state == CONN_STREAM);
    if (conn->is_long) {
        conn->is_long = false;
        /* Incomplete: the client detects it by the end of the connection. */
        conn->response.close = conn->response.close || conn->owed > 0 || x->service->draining;
        request_over(conn);
        return;
    }
    bool is_written = http1_response_end(&conn->out, &conn->response);
    hf_assert(is_written);
    conn->response.close = true; /* a new stream needs a new connection */
    request_over(conn);
}

static size_t transport_backlog(const struct api_request *x)
{
    return buffer_len(&conn_of((struct api_request *)(uintptr_t)x)->out);
}

static void transport_resume(struct api_request *x)
{
    x->service->source = conn_of(x)->source;
    api_request_begin(x);
    x->service->source = 0;
}

static const struct api_transport http1_transport = {
    true,          transport_answer,  transport_stream, transport_piece,
    transport_end, transport_backlog, transport_resume, transport_long_answer,
};

void http_conn_review(struct http_conn *conn)
{
    struct service *s = conn->x.service;
    bool is_busy = conn->state == CONN_BUSY || conn->state == CONN_STREAM;
    bool is_over =
        conn->auth.version != 0 && auth_review_caller(s, &conn->auth, &conn->auth.caller) != NULL;
    if (is_over) {
        conn->auth.version = 0;
    }
    if (conn->state == CONN_HTTP2) {
        http2_conn_review(conn, is_over);
        return;
    }
    const char *why = !is_busy || auth_is_waiting(&conn->x.wait)
                          ? NULL
                          : auth_review_caller(s, &conn->auth, &conn->x.caller);
    if (why != NULL) {
        conn->response.close = true;
        api_request_deny(&conn->x, why);
    } else if (is_over && conn->state == CONN_IDLE) {
        conn_set_state(conn, CONN_CLOSING);
        conn_mark_ready(conn);
    } else if (is_over) {
        conn->response.close = true; /* the request that is received or waits is the last */
    }
}

void http_conn_receive(struct http_conn *conn, struct slice bytes)
{
    hf_assert(bytes.len <= HTTP_CONN_READ);
    if (conn->state == CONN_CLOSING || conn->is_ended) {
        return;
    }
    if (conn->state == CONN_HTTP2) {
        http2_conn_receive(conn, bytes);
        return;
    }
    bool is_taken = buffer_append_slice(&conn->in, bytes);
    hf_assert(is_taken); /* see http_conn_wants_input */
    conn_advance(conn);
}

bool http_conn_wants_input(struct http_conn *conn)
{
    bool has_space = conn->state != CONN_HTTP2 || buffer_len(&conn->out) < OUTPUT_SOFT;
    return has_space && buffer_len(&conn->in) < INPUT_SOFT && !conn->is_ended &&
           conn->state != CONN_CLOSING && conn_budget_takes_input(conn);
}

void http_conn_end(struct http_conn *conn)
{
    conn->is_ended = true;
    if (conn->state == CONN_HTTP2) {
        http2_conn_end(conn);
        return;
    }
    bool is_waiting = conn->x.pending != NULL && conn->x.pending->may_wait;
    if (conn->state == CONN_STREAM || is_waiting) {
        api_request_abandon(&conn->x);
        conn_set_state(conn, CONN_CLOSING);
    }
    conn_advance(conn);
    conn_mark_ready(conn);
}

struct slice http_conn_output(const struct http_conn *conn)
{
    return buffer_bytes(&conn->out);
}

void http_conn_written(struct http_conn *conn, size_t len)
{
    buffer_consume(&conn->out, len);
    buffer_release_above(&conn->out, OUTPUT_KEPT);
    conn->written += len;
    while (!list_is_empty(&conn->unwritten)) {
        struct pending_request *pending =
            LIST_OBJECT(conn->unwritten.next, struct pending_request, link);
        if (pending->mark > conn->written) {
            break;
        }
        pending_written(pending);
    }
    if (conn->state == CONN_HTTP2) {
        http2_conn_written(conn);
    } else if (conn->state == CONN_STREAM) {
        conn->x.service->pump = true;
    } else if (buffer_len(&conn->in) > 0 && conn_may_go_on(conn)) {
        conn_mark_ready(conn);
    }
}

bool http_conn_is_finished(const struct http_conn *conn)
{
    return conn->state == CONN_CLOSING && buffer_len(&conn->out) == 0;
}

bool http_conn_is_idle(const struct http_conn *conn)
{
    return is_between_requests(conn) && !conn->is_ended && buffer_len(&conn->out) == 0 &&
           list_is_empty(&conn->unwritten);
}

void http_conn_retire(struct http_conn *conn)
{
    hf_assert(http_conn_is_idle(conn));
    if (conn->state == CONN_HTTP2) {
        http2_conn_drain(conn);
        http2_conn_flush(conn);
    }
    conn_set_state(conn, CONN_CLOSING);
}

static void run_deadlines(struct service *s)
{
    uint64_t now_ms = service_boot_ms(s);
    while (!list_is_empty(&s->transfers)) {
        struct http_conn *conn = LIST_OBJECT(s->transfers.next, struct http_conn, deadline);
        if (conn->since_ms + s->options.request_ms > now_ms) {
            break;
        }
        if (conn->state == CONN_CLOSING) { /* the client does not read the last answer */
            list_remove(&conn->deadline);
            buffer_truncate(&conn->out, 0);
            conn_mark_ready(conn);
        } else {
            list_remove(&conn->deadline);
            conn->clock = CLOCK_NONE;
            conn_refuse(conn, HF_REQUEST_TIMEOUT);
        }
    }
    while (!list_is_empty(&s->idle)) {
        struct http_conn *conn = LIST_OBJECT(s->idle.next, struct http_conn, deadline);
        if (conn->since_ms + s->options.idle_ms > now_ms) {
            break;
        }
        if (conn->state == CONN_HTTP2) {
            http2_conn_drain(conn);
            http2_conn_flush(conn);
        }
        conn_set_state(conn, CONN_CLOSING);
        conn_mark_ready(conn);
    }
}

void http_conn_run_all(struct service *s)
{
    run_deadlines(s);
    http2_run_all(s);
    conn_budget_begin_turn(s);
    conn_budget_enforce(s);
    struct list ready;
    list_init(&ready);
    list_move_all(&ready, &s->ready);
    for (struct list *link = list_take(&ready); link != NULL; link = list_take(&ready)) {
        struct http_conn *conn = LIST_OBJECT(link, struct http_conn, ready);
        if (buffer_len(&conn->in) > 0) {
            conn_advance(conn);
        }
        if (conn->state == CONN_HTTP2) {
            http2_conn_flush(conn);
        }
        list_remove(&conn->ready);                /* this call reports all changes so far */
        conn->options.ready(conn->options.owner); /* may free the connection */
    }
}

uint64_t http_conn_next_ms(const struct service *s)
{
    if (!list_is_empty(&s->ready) || !list_is_empty(&s->budget.held_back) || s->budget.is_due) {
        return 0;
    }
    uint64_t next_ms = UINT64_MAX;
    if (!list_is_empty(&s->transfers)) {
        const struct http_conn *conn = LIST_OBJECT(s->transfers.next, struct http_conn, deadline);
        next_ms = conn->since_ms + s->options.request_ms;
    }
    if (!list_is_empty(&s->idle)) {
        const struct http_conn *conn = LIST_OBJECT(s->idle.next, struct http_conn, deadline);
        uint64_t idle_ms = conn->since_ms + s->options.idle_ms;
        next_ms = idle_ms < next_ms ? idle_ms : next_ms;
    }
    uint64_t http2_ms = http2_next_ms(s);
    return http2_ms < next_ms ? http2_ms : next_ms;
}

void http_conn_drain_all(struct service *s)
{
    for (struct list *link = s->conns.next; link != &s->conns; link = link->next) {
        struct http_conn *conn = LIST_OBJECT(link, struct http_conn, link);
        if (conn->state == CONN_HTTP2) {
            http2_conn_drain(conn);
        } else if (is_between_requests(conn)) {
            conn_set_state(conn, CONN_CLOSING);
            conn_mark_ready(conn);
        } else {
            api_request_drain(&conn->x);
        }
    }
}

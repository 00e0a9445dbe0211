/* One HTTP/2 stream, and the transport of HTTP API answers. */
#include "service/http/cors.h"
#include "service/http/http2_conn.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    STREAM_OUT_MAX = SERVICE_ANSWER_MAX + (1 << 20),
    NGHTTP2_STREAM_BYTES = 1 << 10, /* nghttp2's memory for a stream, about */
    STREAM_BYTES = sizeof(struct stream) + NGHTTP2_STREAM_BYTES,
};

struct stream *stream_new(struct http_conn *conn, int32_t id, const struct api_transport *transport)
{
    struct service *s = conn->x.service;
    ref self = 0;
    struct stream *stream = pool_alloc(&s->pool, sizeof(*stream), &self);
    stream->self = self;
    stream->conn = conn;
    stream->service = s;
    const struct memory *memory = &conn->account.memory;
    conn_account_add(&conn->account, STREAM_BYTES);
    http2_stream_init(&stream->http2, id, memory, STREAM_OUT_MAX);
    api_request_init(&stream->x, s, transport);
    stream->x.auth = &conn->auth;
    stream->x.is_operator = conn->options.is_operator;
    buffer_init(&stream->head, memory, LIMIT_HTTP_HEADER_BYTES);
    buffer_init(&stream->body, memory, LIMIT_HTTP_BODY);
    grpc_reader_init(&stream->reader, memory, LIMIT_GRPC_MESSAGE);
    list_init(&stream->link);
    list_init(&stream->clock);
    list_init(&stream->health);
    list_append(&conn->streams, &stream->link);
    stream_set_state(stream, STREAM_RECEIVING);
    return stream;
}

void stream_set_state(struct stream *stream, enum stream_state state)
{
    struct service *s = stream->service;
    stream->state = state;
    if (state == STREAM_RECEIVING || state == STREAM_SENDING) {
        stream->since_ms = service_boot_ms(s);
        list_append(state == STREAM_RECEIVING ? &s->http2_requests : &s->http2_answers,
                    &stream->clock);
    } else {
        list_remove(&stream->clock);
    }
}

/* In http2_answers while it has unsent output. */
void stream_wrote(struct stream *stream)
{
    struct service *s = stream->service;
    if (stream->state == STREAM_OPEN && list_is_empty(&stream->clock) &&
        http2_stream_backlog(&stream->http2) > 0) {
        stream->since_ms = service_boot_ms(s);
        list_append(&s->http2_answers, &stream->clock);
    }
}

void stream_moved(struct stream *stream)
{
    struct service *s = stream->service;
    if (list_is_empty(&stream->clock) || stream->state == STREAM_RECEIVING) {
        return;
    }
    if (stream->state == STREAM_OPEN && http2_stream_backlog(&stream->http2) == 0) {
        list_remove(&stream->clock);
        return;
    }
    stream->since_ms = service_boot_ms(s);
    list_append(&s->http2_answers, &stream->clock);
}

void stream_set_deadline(struct stream *stream, uint64_t at_ms)
{
    struct heap *deadlines = &stream->service->http2_deadlines;
    if (stream->deadline != 0) {
        heap_remove(deadlines, stream->deadline);
    }
    if (at_ms != UINT64_MAX) {
        heap_insert(deadlines, at_ms, stream->self);
    }
}

void stream_drop_body(struct stream *stream)
{
    if (stream->conn != NULL) {
        stream->conn->body_bytes -= buffer_len(&stream->body);
    }
    buffer_truncate(&stream->body, 0);
    buffer_release(&stream->body);
}

bool stream_keep_body(struct stream *stream, struct slice bytes, size_t max)
{
    struct http_conn *conn = stream->conn;
    if (bytes.len > max - buffer_len(&stream->body)) {
        api_request_fail(&stream->x, HF_BODY_TOO_LARGE, NULL);
        return false;
    }
    if (bytes.len > LIMIT_HTTP2_BODIES - conn->body_bytes) {
        api_request_fail(&stream->x, HF_BODIES_TOO_LARGE, NULL);
        return false;
    }
    bool is_kept = buffer_append_slice(&stream->body, bytes);
    hf_assert(is_kept); /* checked above */
    conn->body_bytes += bytes.len;
    return true;
}

void stream_over(struct stream *stream, bool is_clean)
{
    struct http_conn *conn = stream->conn;
    hf_assert(stream->state != STREAM_CLOSED);
    stream_drop_body(stream);
    rpc_over(stream);
    api_request_abandon(&stream->x);
    if (stream->pending != NULL && is_clean) {
        stream->pending->mark = conn->written + buffer_len(&conn->out);
        list_append(&conn->unwritten, &stream->pending->link);
        http2_remember_grant(conn, stream->http2.id, stream->pending);
    } else if (stream->pending != NULL) {
        pending_abandon(stream->pending);
    }
    stream->pending = NULL;
    stream_set_deadline(stream, UINT64_MAX);
    stream_set_state(stream, STREAM_CLOSED);
    api_request_close(&stream->x);
    grpc_reader_close(&stream->reader);
    buffer_close(&stream->head);
    buffer_close(&stream->body);
    conn_account_subtract(&conn->account, STREAM_BYTES);
    stream->conn = NULL;
    list_append(&stream->service->http2_gone, &stream->link);
    conn_update_clock(conn);
}

void stream_free(struct stream *stream)
{
    struct service *s = stream->service;
    list_remove(&stream->link);
    pool_free(&s->pool, stream->self, sizeof(*stream));
}

void stream_answered(struct stream *stream, struct pending_request *pending)
{
    stream_set_deadline(stream, UINT64_MAX);
    stream_set_state(stream, STREAM_SENDING);
    if (pending != NULL && !pending_settle(pending)) {
        stream->pending = pending;
    }
    conn_mark_ready(stream->conn);
}

struct http2_response_headers {
    struct http2_header at[10 + CORS_HEADERS + CORS_PAGE_HEADERS];
    size_t count;
    char status[4];
    char length[24];
    char retry[12];
};

static void add(struct http2_response_headers *heads, const char *name, struct slice value)
{
    if (value.len > 0) {
        heads->at[heads->count++] = (struct http2_header){slice_of(name), value, false};
    }
}

static void furnish(struct http2_response_headers *heads, struct service *s, int status,
                    const char *content_type)
{
    heads->count = 0;
    (void)snprintf(heads->status, sizeof(heads->status), "%03u", (unsigned)status % 1000);
    add(heads, ":status", slice_of(heads->status));
    if (content_type != NULL) {
        add(heads, "content-type", slice_of(content_type));
    }
    add(heads, "date", conn_date(s));
    add(heads, "holdfast-leader", conn_leader(s));
}

static void add_all(struct http2_response_headers *heads, const struct http1_extra *extra,
                    size_t count)
{
    for (size_t i = 0; i < count; i++) {
        add(heads, extra[i].name, extra[i].value);
    }
}

static void transport_answer(struct api_request *x, const struct answer *answer)
{
    struct stream *stream = stream_of(x);
    struct http2_response_headers heads;
    furnish(&heads, x->service, answer->status, answer->content_type);
    if (answer->retry_after_s > 0) {
        (void)snprintf(heads.retry, sizeof(heads.retry), "%" PRIu32, answer->retry_after_s);
        add(&heads, "retry-after", slice_of(heads.retry));
    }
    if (answer->status == 401) {
        add(&heads, "www-authenticate", slice_of(CONN_CHALLENGE));
    }
    if (answer->allow != NULL) {
        add(&heads, "allow", slice_of(answer->allow));
    }
    struct http1_extra cors[CORS_HEADERS];
    add_all(&heads, cors, cors_headers(x, answer->allow, cors));
    add_all(&heads, answer->extra, answer->extra_count);
    if (answer->status != 204) {
        (void)snprintf(heads.length, sizeof(heads.length), "%zu", answer->body.len);
        add(&heads, "content-length", slice_of(heads.length));
    }
    stream_answered(stream, answer->pending);
    struct http2 *http2 = stream->conn->http2;
    if (x->method == HTTP_HEAD || answer->body.len == 0) {
        http2_respond(http2, &stream->http2, heads.at, heads.count, true);
    } else if (answer->is_constant) {
        http2_answer_constant(http2, &stream->http2, heads.at, heads.count, answer->body);
    } else {
        x->service->budget.turn_bytes += answer->body.len;
        http2_answer(http2, &stream->http2, heads.at, heads.count, answer->body, NULL, 0);
    }
}

static void transport_stream(struct api_request *x)
{
    struct stream *stream = stream_of(x);
    struct http2_response_headers heads;
    furnish(&heads, x->service, 200, "text/event-stream");
    add(&heads, "cache-control", slice_of("no-store"));
    struct http1_extra extra[CORS_HEADERS];
    add_all(&heads, extra, cors_headers(x, NULL, extra));
    stream_set_state(stream, STREAM_OPEN);
    conn_mark_ready(stream->conn);
    http2_respond(stream->conn->http2, &stream->http2, heads.at, heads.count, false);
}

static void transport_long_answer(struct api_request *x, const struct long_answer *answer)
{
    struct stream *stream = stream_of(x);
    struct http2_response_headers heads;
    furnish(&heads, x->service, 200, answer->content_type);
    (void)snprintf(heads.length, sizeof(heads.length), "%" PRIu64, answer->bytes);
    add(&heads, "content-length", slice_of(heads.length));
    add_all(&heads, answer->extra, answer->extra_count);
    stream->owed = x->method == HTTP_HEAD ? 0 : answer->bytes;
    stream_set_state(stream, STREAM_OPEN);
    conn_mark_ready(stream->conn);
    http2_respond(stream->conn->http2, &stream->http2, heads.at, heads.count,
                  x->method == HTTP_HEAD);
}

static void transport_piece(struct api_request *x, struct slice piece)
{
    struct stream *stream = stream_of(x);
    stream->owed -= stream->owed < piece.len ? stream->owed : piece.len;
    conn_mark_ready(stream->conn);
    http2_write(stream->conn->http2, &stream->http2, piece);
    stream_wrote(stream);
}

static void transport_end(struct api_request *x, enum hf_error error, const char *why)
{
    struct stream *stream = stream_of(x);
    stream_answered(stream, NULL);
    if (stream->owed > 0) { /* incomplete: the reset reports it */
        http2_reset(stream->conn->http2, &stream->http2, true);
    } else if (x->method != HTTP_HEAD) { /* the answer to HEAD ended with its headers */
        http2_finish(stream->conn->http2, &stream->http2, NULL, 0, true);
    }
}

static size_t transport_backlog(const struct api_request *x)
{
    const struct stream *stream = stream_of(x);
    return http2_stream_backlog(&stream->http2) + buffer_len(&stream->conn->out);
}

static void transport_resume(struct api_request *x)
{
    struct stream *stream = stream_of(x);
    x->service->source = stream->conn->source;
    http2_request_end(stream);
    x->service->source = 0;
}

const struct api_transport http2_transport = {
    true,          transport_answer,  transport_stream, transport_piece,
    transport_end, transport_backlog, transport_resume, transport_long_answer,
};

/* From bytes to requests. Strings of a request point into the input. They are copied only if the
 * body continues in a later call: the input buffer may move. */
#include "service/http/http2_conn.h"
#include "service/http/http_conn.h"

static struct slice header(const struct http1 *parser, const char *name)
{
    struct slice value = slice_make(NULL, 0);
    (void)http1_header(parser, name, &value);
    return value;
}

static void begin_request(struct http_conn *conn)
{
    const struct http1_request *request = http1_request(&conn->parser);
    struct api_request *x = &conn->x;
    x->method = request->method;
    x->path = request->path;
    x->query = request->query;
    x->host = request->host;
    x->origin = header(&conn->parser, "origin");
    x->idempotency_key = header(&conn->parser, "idempotency-key");
    x->last_event_id = header(&conn->parser, "last-event-id");
    x->traceparent = header(&conn->parser, "traceparent");
    if (x->service->auth != NULL) {
        x->authorization = header(&conn->parser, "authorization");
        x->tenant_name = header(&conn->parser, "holdfast-tenant");
    }
    conn->response = http1_response_to(200, request);
    conn_set_state(conn, CONN_BODY);
    if (request->expect_continue) {
        if (api_request_is_known(x)) {
            (void)http1_response_continue(&conn->out);
            conn_mark_ready(conn);
        } else {
            conn->response.close = true; /* the body will not be read */
            conn_set_state(conn, CONN_BUSY);
            api_request_begin(x);
        }
    }
}

static void keep_slice(struct http_conn *conn, struct slice *text, size_t *at)
{
    struct slice all = buffer_bytes(&conn->head);
    text->data = all.data == NULL ? NULL : all.data + *at;
    *at += text->len;
}

/* It continues in a later call, and `in` may move. */
static void keep_request(struct http_conn *conn)
{
    struct api_request *x = &conn->x;
    struct slice *texts[] = {&x->path,          &x->query,           &x->host,
                             &x->origin,        &x->idempotency_key, &x->last_event_id,
                             &x->authorization, &x->tenant_name,     &x->traceparent};
    if (!conn->is_kept) {
        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
            bool is_kept = buffer_append_slice(&conn->head, *texts[i]);
            hf_assert(is_kept); /* the capacity is the limit of a head */
        }
        size_t at = 0;
        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
            keep_slice(conn, texts[i], &at);
        }
        conn->is_kept = true;
    }
    if (conn->piece.len > 0) {
        bool is_kept = buffer_append_slice(&conn->body, conn->piece);
        hf_assert(is_kept); /* the parser enforces the limit */
        conn->piece = slice_make(NULL, 0);
    }
}

static void add_piece(struct http_conn *conn, struct slice piece)
{
    if (conn->piece.len > 0) { /* a second piece: `body` collects them */
        bool is_kept = buffer_append_slice(&conn->body, conn->piece);
        hf_assert(is_kept);
    }
    conn->piece = piece;
}

static void finish_request(struct http_conn *conn)
{
    struct api_request *x = &conn->x;
    if (buffer_len(&conn->body) > 0 && conn->piece.len > 0) {
        bool is_kept = buffer_append_slice(&conn->body, conn->piece);
        hf_assert(is_kept);
        conn->piece = slice_make(NULL, 0);
    }
    x->body = buffer_len(&conn->body) > 0 ? buffer_bytes(&conn->body) : conn->piece;
    conn_set_state(conn, CONN_BUSY);
    api_request_begin(x);
}

void conn_refuse(struct http_conn *conn, enum hf_error error)
{
    conn->response = http1_response_to(200, NULL);
    conn_set_state(conn, CONN_BUSY);
    api_request_fail(&conn->x, error, NULL);
}

void conn_advance(struct http_conn *conn)
{
    struct slice all = buffer_bytes(&conn->in);
    if (all.data == NULL) {
        all = slice_make("", 0);
    }
    size_t used = 0;
    bool is_more = true;
    conn->x.service->source = conn->source;
    while (is_more && conn_may_go_on(conn) && (used == all.len || conn_budget_takes_input(conn))) {
        struct http1_result r =
            http1_feed(&conn->parser, slice_make(all.data + used, all.len - used));
        used += r.consumed;
        switch (r.event) {
        case HTTP1_HEAD:
            begin_request(conn);
            break;
        case HTTP1_BODY:
            add_piece(conn, r.body);
            break;
        case HTTP1_DONE:
            finish_request(conn);
            break;
        case HTTP1_ERROR:
            conn_refuse(conn, r.error);
            break;
        case HTTP1_PREFACE:
            conn_set_state(conn, CONN_HTTP2);
            http2_conn_begin(conn);
            break;
        case HTTP1_MORE:
        case HTTP1_CLOSED:
            is_more = false;
            break;
        }
    }
    conn->x.service->source = 0;
    if (conn->state == CONN_BODY) {
        keep_request(conn);
    } else if (conn->state == CONN_BUSY && auth_is_waiting(&conn->x.wait)) {
        keep_request(conn);
        conn->x.body = buffer_bytes(&conn->body);
    }
    if (conn->is_ended && !is_more && conn_may_go_on(conn)) {
        conn_set_state(conn, CONN_CLOSING); /* an incomplete request, or none */
    }
    if (conn->state == CONN_CLOSING) {
        used = all.len;
    }
    buffer_consume(&conn->in, used);
    buffer_release(&conn->in);
    conn_update_clock(conn);
    if (conn->state == CONN_HTTP2) {
        http2_conn_receive(conn, slice_make(NULL, 0));
    }
}

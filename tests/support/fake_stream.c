/* See fake_stream.h. */
#include "fake_stream.h"

#include <stdio.h>
#include <stdlib.h>

#include "client/proto.h"

enum { MOST = 1 << 20 };

static nghttp2_nv pair(const char *name, const char *value)
{
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name),
                        strlen(value), NGHTTP2_NV_FLAG_NONE};
}

/* ---- sending ---- */

static void submit_trailers(struct fake_stream *s)
{
    char status[8];
    nghttp2_nv trailers[3];
    size_t count = 0;
    snprintf(status, sizeof(status), "%d", s->status);
    trailers[count++] = pair("grpc-status", status);
    if (s->code[0] != '\0') {
        trailers[count++] = pair("holdfast-error-code", s->code);
    }
    if (s->message[0] != '\0') {
        trailers[count++] = pair("grpc-message", s->message);
    }
    hf_assert(nghttp2_submit_trailer(s->conn->session, s->id, trailers, count) == 0);
}

static ssize_t read_out(nghttp2_session *session, int32_t id, uint8_t *out, size_t size,
                        uint32_t *flags, nghttp2_data_source *source, void *user)
{
    struct fake_stream *s = source->ptr;
    struct slice rest = buffer_bytes(&s->out);
    size_t len = rest.len < size ? rest.len : size;
    if (len == 0 && !s->is_ended) {
        s->is_deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    if (len > 0) {
        memcpy(out, rest.data, len);
        buffer_consume(&s->out, len);
    }
    if (buffer_len(&s->out) == 0 && s->is_ended) {
        *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
        submit_trailers(s);
    }
    return (ssize_t)len;
}

static void go_on(struct fake_stream *s)
{
    if (!s->is_begun) {
        const char *leader = s->conn->fake->leader;
        nghttp2_nv headers[3] = {pair(":status", "200"), pair("content-type", "application/grpc"),
                                 pair("holdfast-leader", leader == NULL ? "" : leader)};
        nghttp2_data_provider provider = {.source.ptr = s, .read_callback = read_out};
        s->is_begun = true;
        hf_assert(nghttp2_submit_response(s->conn->session, s->id, headers, leader == NULL ? 2 : 3,
                                          &provider) == 0);
    } else if (s->is_deferred) {
        s->is_deferred = false;
        (void)nghttp2_session_resume_data(s->conn->session, s->id);
    }
}

void fake_stream_send(struct fake_stream *s, struct slice message)
{
    uint8_t prefix[GRPC_PREFIX];
    grpc_write_prefix(prefix, (uint32_t)message.len);
    hf_assert(buffer_append(&s->out, prefix, sizeof(prefix)));
    hf_assert(buffer_append_slice(&s->out, message));
    go_on(s);
}

void fake_stream_end(struct fake_stream *s, enum grpc_status status, const char *code,
                     const char *message)
{
    s->is_ended = true;
    s->status = (int)status;
    snprintf(s->code, sizeof(s->code), "%s", code == NULL ? "" : code);
    snprintf(s->message, sizeof(s->message), "%s", message == NULL ? "" : message);
    go_on(s);
}

/* ---- what nghttp2 tells ---- */

static int on_begin(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct fake_conn *c = user;
    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST) {
        return 0;
    }
    struct fake_stream *s = client_alloc(sizeof(*s));
    s->conn = c;
    s->id = frame->hd.stream_id;
    grpc_reader_init(&s->reader, memory_system(), MOST);
    buffer_init(&s->out, memory_system(), MOST);
    list_init(&s->link);
    list_append(&c->streams, &s->link);
    nghttp2_session_set_stream_user_data(session, s->id, s);
    return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *user)
{
    struct fake_stream *s = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    if (s != NULL && slice_equal(slice_make(name, name_len), slice_of(":path"))) {
        snprintf(s->path, sizeof(s->path), "%.*s", (int)value_len, (const char *)value);
    }
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data,
                   size_t len, void *user)
{
    struct fake_stream *s = nghttp2_session_get_stream_user_data(session, id);
    struct slice rest = slice_make(data, len);
    while (s != NULL && rest.len > 0) {
        struct grpc_result r = grpc_reader_feed(&s->reader, rest);
        hf_assert(r.event != GRPC_ERROR);
        rest = slice_make(rest.data + r.consumed, rest.len - r.consumed);
        if (r.event == GRPC_MESSAGE && !s->is_ended) {
            fake_on_message(s, r.message);
        }
    }
    return 0;
}

static void stream_free(struct fake_stream *s)
{
    list_remove(&s->link);
    grpc_reader_close(&s->reader);
    buffer_close(&s->out);
    free(s);
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t error, void *user)
{
    struct fake_stream *s = nghttp2_session_get_stream_user_data(session, id);
    if (s != NULL) {
        stream_free(s);
    }
    return 0;
}

/* ---- connections ---- */

struct fake_conn *fake_conn_new(struct fake *f)
{
    struct fake_conn *c = client_alloc(sizeof(*c));
    nghttp2_session_callbacks *callbacks;
    c->fake = f;
    list_init(&c->streams);
    list_init(&c->link);
    list_append(&f->conns, &c->link);
    hf_assert(nghttp2_session_callbacks_new(&callbacks) == 0);
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    hf_assert(nghttp2_session_server_new(&c->session, callbacks, c) == 0);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_settings_entry settings = {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS,
                                       f->max_streams == 0 ? 100 : f->max_streams};
    hf_assert(nghttp2_submit_settings(c->session, NGHTTP2_FLAG_NONE, &settings, 1) == 0);
    return c;
}

void fake_conn_free(struct fake_conn *c)
{
    while (!list_is_empty(&c->streams)) {
        stream_free(LIST_OBJECT(c->streams.next, struct fake_stream, link));
    }
    nghttp2_session_del(c->session);
    list_remove(&c->link);
    free(c);
}

void fake_close(struct fake *f)
{
    free(f->late);
    f->late = NULL;
    while (!list_is_empty(&f->conns)) {
        fake_conn_free(LIST_OBJECT(f->conns.next, struct fake_conn, link));
    }
}

bool fake_conn_input(struct fake_conn *c, struct slice bytes)
{
    if (c->fake->is_stopped) {
        return true;
    }
    return nghttp2_session_mem_recv(c->session, bytes.data, bytes.len) == (ssize_t)bytes.len &&
           !c->is_broken;
}

void fake_conn_output(struct fake_conn *c, struct buffer *out)
{
    const uint8_t *data;
    while (!c->fake->is_stopped && !c->is_broken) {
        ssize_t len = nghttp2_session_mem_send(c->session, &data);
        if (len <= 0) {
            return;
        }
        hf_assert(buffer_append(out, data, (size_t)len));
    }
}

bool fake_conn_is_broken(const struct fake_conn *c)
{
    return c->is_broken;
}

void fake_goaway(struct fake *f)
{
    for (struct list *at = f->conns.next; at != &f->conns; at = at->next) {
        struct fake_conn *c = LIST_OBJECT(at, struct fake_conn, link);
        int32_t last = nghttp2_session_get_last_proc_stream_id(c->session);
        (void)nghttp2_submit_goaway(c->session, NGHTTP2_FLAG_NONE, last, NGHTTP2_NO_ERROR, NULL, 0);
    }
}

struct fake_stream *fake_next_stream(struct fake *f, struct fake_stream *after)
{
    struct fake_conn *c = after != NULL ? after->conn : NULL;
    struct list *next = after != NULL ? after->link.next : NULL;
    while (c == NULL || next == &c->streams) {
        struct list *conn = c == NULL ? f->conns.next : c->link.next;
        if (conn == &f->conns) {
            return NULL;
        }
        c = LIST_OBJECT(conn, struct fake_conn, link);
        next = c->streams.next;
    }
    return LIST_OBJECT(next, struct fake_stream, link);
}

struct fake_stream *fake_first_waiter(struct fake *f, const char *name)
{
    for (struct fake_stream *s = fake_next_stream(f, NULL); s != NULL; s = fake_next_stream(f, s)) {
        if (s->is_waiting && strcmp(s->name, name) == 0) {
            return s;
        }
    }
    return NULL;
}

/* nghttp2 implements the protocol; this file manages streams and their bodies. */
#include "wire/http2_client.h"

#include <nghttp2/nghttp2.h>

#include "base/list.h"

enum {
    MAX_EXTRA = 8,
    FIXED_HEADERS = 7,
    MAX_BODY = 4 << 20, /* unsent bytes of one stream */
};

struct http2_client {
    nghttp2_session *session;
    const struct memory *memory;
    const struct http2_client_handler *handler;
    char *authority;
    size_t authority_len;
    const char *user_agent;
    struct list streams;
    uint32_t stream_count;
    uint64_t pongs;
    bool is_ready;
    bool is_going;
};

struct http2_client_stream {
    struct list link;
    struct http2_client *client;
    struct buffer body; /* not sent yet */
    int32_t id;
    bool has_left;    /* its headers were sent */
    bool is_ended;    /* nothing follows `body` */
    bool is_deferred; /* nghttp2 waits for more */
    void *call;       /* NULL: cancelled */
};

static void stream_free(struct http2_client_stream *s)
{
    struct http2_client *c = s->client;
    list_remove(&s->link);
    c->stream_count--;
    buffer_close(&s->body);
    memory_free(c->memory, s, sizeof(*s));
}

/* ---- callbacks of nghttp2 ---- */

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *user)
{
    struct http2_client *c = user;
    struct http2_client_stream *s =
        nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    if (s != NULL && s->call != NULL) {
        c->handler->on_header(s->call, slice_make(name, name_len), slice_make(value, value_len));
    }
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data,
                   size_t len, void *user)
{
    struct http2_client *c = user;
    struct http2_client_stream *s = nghttp2_session_get_stream_user_data(session, id);
    if (s != NULL && s->call != NULL) {
        c->handler->on_data(s->call, slice_make(data, len));
    }
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct http2_client *c = user;
    if (frame->hd.type == NGHTTP2_SETTINGS && (frame->hd.flags & NGHTTP2_FLAG_ACK) == 0) {
        c->is_ready = true;
    } else if (frame->hd.type == NGHTTP2_PING && (frame->hd.flags & NGHTTP2_FLAG_ACK) != 0) {
        c->pongs++;
    } else if (frame->hd.type == NGHTTP2_GOAWAY) {
        c->is_going = true;
    } else if (frame->hd.type == NGHTTP2_HEADERS && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)) {
        /* The response arrived before the whole request was sent. */
        struct http2_client_stream *s =
            nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
        if (s != NULL && !s->is_ended) {
            http2_client_send(s, slice_make(NULL, 0), true);
        }
    }
    return 0;
}

static int on_sent(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    if (frame->hd.type == NGHTTP2_HEADERS) {
        struct http2_client_stream *s =
            nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
        if (s != NULL) {
            s->has_left = true;
        }
    }
    return 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t error, void *user)
{
    struct http2_client *c = user;
    struct http2_client_stream *s = nghttp2_session_get_stream_user_data(session, id);
    if (s == NULL) {
        return 0;
    }
    nghttp2_session_set_stream_user_data(session, id, NULL);
    if (s->call != NULL) {
        c->handler->on_end(s->call, error, !s->has_left || error == NGHTTP2_REFUSED_STREAM);
    }
    stream_free(s);
    return 0;
}

static ssize_t read_body(nghttp2_session *session, int32_t id, uint8_t *out, size_t size,
                         uint32_t *flags, nghttp2_data_source *source, void *user)
{
    struct http2_client_stream *s = source->ptr;
    struct slice rest = buffer_bytes(&s->body);
    size_t len = rest.len < size ? rest.len : size;
    if (len == 0 && !s->is_ended) {
        s->is_deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    if (len > 0) {
        memcpy(out, rest.data, len);
        buffer_consume(&s->body, len);
    }
    if (buffer_len(&s->body) == 0) {
        buffer_release(&s->body);
        if (s->is_ended) {
            *flags |= NGHTTP2_DATA_FLAG_EOF;
        }
    }
    return (ssize_t)len;
}

/* ---- lifetime ---- */

struct http2_client *http2_client_new(const struct memory *memory,
                                      const struct http2_client_handler *handler,
                                      const char *authority, const char *user_agent)
{
    struct http2_client *c = memory_alloc(memory, sizeof(*c));
    memset(c, 0, sizeof(*c));
    c->memory = memory;
    c->handler = handler;
    c->authority_len = strlen(authority) + 1;
    c->authority = memory_alloc(memory, c->authority_len);
    memcpy(c->authority, authority, c->authority_len);
    c->user_agent = user_agent;
    list_init(&c->streams);

    nghttp2_session_callbacks *callbacks;
    hf_assert(nghttp2_session_callbacks_new(&callbacks) == 0);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_sent);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    hf_assert(nghttp2_session_client_new(&c->session, callbacks, c) == 0);
    nghttp2_session_callbacks_del(callbacks);
    const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_ENABLE_PUSH, 0}};
    hf_assert(nghttp2_submit_settings(c->session, NGHTTP2_FLAG_NONE, settings, 1) == 0);
    return c;
}

void http2_client_free(struct http2_client *c)
{
    if (c == NULL) {
        return;
    }
    /* nghttp2 frees its streams without a callback. */
    for (struct list *link = c->streams.next; link != &c->streams; link = c->streams.next) {
        struct http2_client_stream *s = LIST_OBJECT(link, struct http2_client_stream, link);
        if (s->call != NULL) {
            c->handler->on_end(s->call, NGHTTP2_CANCEL, !s->has_left);
        }
        stream_free(s);
    }
    nghttp2_session_del(c->session);
    memory_free(c->memory, c->authority, c->authority_len);
    memory_free(c->memory, c, sizeof(*c));
}

bool http2_client_input(struct http2_client *c, struct slice bytes)
{
    return nghttp2_session_mem_recv(c->session, bytes.data, bytes.len) == (ssize_t)bytes.len;
}

void http2_client_output(struct http2_client *c, struct buffer *out, size_t enough)
{
    while (buffer_len(out) < enough) {
        const uint8_t *data;
        ssize_t len = nghttp2_session_mem_send(c->session, &data);
        if (len <= 0) {
            return;
        }
        hf_assert(buffer_append(out, data, (size_t)len));
    }
}

/* ---- requests ---- */

static nghttp2_nv pair(const char *name, struct slice value, uint8_t flags)
{
    /* nghttp2 copies it without NO_COPY flags, and never changes it. */
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value.data, strlen(name),
                        value.len, flags};
}

/* Both outlive the connection. */
static nghttp2_nv lasting(const char *name, struct slice value)
{
    return pair(name, value, NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE);
}

struct http2_client_stream *http2_client_request(struct http2_client *c, const char *path,
                                                 const struct http2_client_header *extra,
                                                 size_t extra_count, struct slice body,
                                                 bool keep_open, void *call)
{
    hf_assert(call != NULL && extra_count <= MAX_EXTRA);
    if (c->is_going || !nghttp2_session_check_request_allowed(c->session)) {
        return NULL;
    }
    nghttp2_nv headers[FIXED_HEADERS + MAX_EXTRA] = {
        lasting(":method", slice_of("POST")),
        lasting(":scheme", slice_of("http")),
        pair(":path", slice_of(path), NGHTTP2_NV_FLAG_NO_COPY_NAME),
        lasting(":authority", slice_make(c->authority, c->authority_len - 1)),
        lasting("te", slice_of("trailers")),
        lasting("content-type", slice_of("application/grpc")),
        pair("user-agent", slice_of(c->user_agent), NGHTTP2_NV_FLAG_NO_COPY_NAME),
    };
    for (size_t i = 0; i < extra_count; i++) {
        headers[FIXED_HEADERS + i] = pair(extra[i].name, extra[i].value, NGHTTP2_NV_FLAG_NONE);
    }
    struct http2_client_stream *s = memory_alloc(c->memory, sizeof(*s));
    memset(s, 0, sizeof(*s));
    s->client = c;
    s->call = call;
    s->is_ended = !keep_open;
    buffer_init(&s->body, c->memory, MAX_BODY);
    hf_assert(buffer_append_slice(&s->body, body));
    const nghttp2_data_provider provider = {.source.ptr = s, .read_callback = read_body};
    s->id = nghttp2_submit_request(c->session, NULL, headers, FIXED_HEADERS + extra_count,
                                   &provider, s);
    if (s->id < 0) {
        buffer_close(&s->body);
        memory_free(c->memory, s, sizeof(*s));
        return NULL;
    }
    list_init(&s->link);
    list_append(&c->streams, &s->link);
    c->stream_count++;
    return s;
}

void http2_client_send(struct http2_client_stream *s, struct slice bytes, bool end)
{
    if (s->is_ended) {
        return;
    }
    hf_assert(buffer_append_slice(&s->body, bytes));
    s->is_ended = end;
    if (s->is_deferred) {
        s->is_deferred = false;
        (void)nghttp2_session_resume_data(s->client->session, s->id);
    }
}

void http2_client_cancel(struct http2_client_stream *s)
{
    s->call = NULL;
    /* If the request was not sent yet, nghttp2 closes the stream without sending it. */
    (void)nghttp2_submit_rst_stream(s->client->session, NGHTTP2_FLAG_NONE, s->id, NGHTTP2_CANCEL);
}

void http2_client_ping(struct http2_client *c)
{
    (void)nghttp2_submit_ping(c->session, NGHTTP2_FLAG_NONE, NULL);
}

uint64_t http2_client_pongs(const struct http2_client *c)
{
    return c->pongs;
}

bool http2_client_is_ready(const struct http2_client *c)
{
    return c->is_ready;
}

bool http2_client_is_over(const struct http2_client *c)
{
    return !nghttp2_session_want_read(c->session) && !nghttp2_session_want_write(c->session);
}

bool http2_client_is_going(const struct http2_client *c)
{
    return c->is_going;
}

uint32_t http2_client_max_streams(const struct http2_client *c)
{
    return nghttp2_session_get_remote_settings(c->session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
}

uint32_t http2_client_streams(const struct http2_client *c)
{
    return c->stream_count;
}

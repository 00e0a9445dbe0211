/* HTTP/2 for the server. http2_head.c collects the headers of a request, http2_memory.c allocates
 * for the sessions. */
#include "wire/http2.h"

#include <nghttp2/nghttp2.h>

#include "base/limits.h"
#include "wire/http2_head.h"
#include "wire/http2_memory.h"

enum {
    CONNECTION_WINDOW = 1 << 20,
    ACKS_MAX = 100, /* queued answers to pings and settings */
    HEADERS_MAX = 12,
    HPACK_TABLE = 512, /* bytes, in either direction: enough for the headers of one client's
                          calls */
    TAIL_MAX = 4096,
};

struct http2_shared {
    struct http2_memory memory;
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *option;
};

struct http2 {
    const struct memory *memory;
    const struct http2_handlers *handlers;
    void *owner;
    nghttp2_session *session;
    struct buffer *out;
    size_t out_soft;
    struct http2_head head;       /* of the request that is being received */
    struct http2_stream *current; /* of the last callback, NULL: none, or it is closed */
    uint32_t streams;
    uint32_t resets;             /* caused by the client, since the last http2_take_resets */
    int32_t reset_id;            /* stream of the last RST_STREAM received */
    size_t backlog;              /* bytes in the `out` of all streams */
    struct http2_stream *lender; /* the stream that has `lent` bytes now */
    bool is_inside;              /* in a call of nghttp2 */
    bool is_broken;
};

/* Most callbacks follow one of the same stream. */
static struct http2_stream *stream_at(struct http2 *h, int32_t id)
{
    if (h->current == NULL || h->current->id != id) {
        h->current = nghttp2_session_get_stream_user_data(h->session, id);
    }
    return h->current;
}

/* ---- callbacks of nghttp2 ---- */

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct http2 *h = user;
    if (frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
        http2_head_begin(&h->head);
    }
    return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *user)
{
    struct http2 *h = user;
    if (frame->headers.cat != NGHTTP2_HCAT_REQUEST) { /* trailers are not used */
        return 0;
    }
    http2_head_add(&h->head, slice_make(name, name_len), slice_make(value, value_len));
    /* The stream is reset, and nghttp2 does not check the rest of the header block. */
    return http2_head_is_bomb(&h->head) ? NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE : 0;
}

static int begin_request(struct http2 *h, int32_t id)
{
    struct http2_request request;
    http2_head_read(&h->head, &request);
    struct http2_stream *stream = h->handlers->on_request(h->owner, id, &request);
    http2_head_end(&h->head);
    if (stream == NULL) {
        return nghttp2_submit_rst_stream(h->session, NGHTTP2_FLAG_NONE, id, NGHTTP2_REFUSED_STREAM);
    }
    h->streams++;
    h->current = stream;
    return nghttp2_session_set_stream_user_data(h->session, id, stream);
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct http2 *h = user;
    int32_t id = frame->hd.stream_id;
    bool is_request =
        frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST;
    if (is_request && begin_request(h, id) != 0) {
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    }
    if (frame->hd.type == NGHTTP2_RST_STREAM) {
        h->resets++;
        h->reset_id = id;
        if (frame->rst_stream.error_code == NGHTTP2_CANCEL && stream_at(h, id) == NULL) {
            h->handlers->on_late_cancel(h->owner, id);
        }
    }
    bool may_end = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
    if (may_end && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) {
        struct http2_stream *stream = stream_at(h, id);
        if (stream != NULL && !stream->is_reset) {
            h->handlers->on_end(h->owner, stream);
        }
    }
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data,
                   size_t len, void *user)
{
    struct http2 *h = user;
    struct http2_stream *stream = stream_at(h, id);
    /* The connection's window does not limit: one slow stream must not block the others. */
    int error = nghttp2_session_consume_connection(session, len);
    if (error != 0) {
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    }
    if (stream != NULL && !stream->is_reset) {
        h->handlers->on_data(h->owner, stream, slice_make(data, len),
                             (flags & NGHTTP2_FLAG_END_STREAM) != 0);
    }
    return 0;
}

/* The response is complete: the rest of the request is not needed. */
static int on_sent(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    bool may_end = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
    if (may_end && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0 &&
        nghttp2_session_get_stream_remote_close(session, frame->hd.stream_id) == 0) {
        (void)nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id,
                                        NGHTTP2_NO_ERROR);
    }
    return 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t code, void *user)
{
    struct http2 *h = user;
    struct http2_stream *stream = stream_at(h, id);
    /* A client can also make nghttp2 reset its streams, by frames that break the protocol. */
    bool is_ours = stream != NULL ? stream->is_reset : code == NGHTTP2_REFUSED_STREAM;
    h->resets += code != NGHTTP2_NO_ERROR && !is_ours && id != h->reset_id ? 1 : 0;
    if (stream == NULL) {
        return 0;
    }
    bool is_clean = code == NGHTTP2_NO_ERROR && stream->is_finished && !stream->is_reset &&
                    http2_stream_backlog(stream) == 0;
    (void)nghttp2_session_set_stream_user_data(session, id, NULL);
    h->current = NULL;
    h->streams--;
    h->backlog -= buffer_len(&stream->out);
    if (h->lender == stream) {
        h->lender = NULL;
    }
    http2_stream_close(stream);
    h->handlers->on_close(h->owner, stream, is_clean);
    return 0;
}

/* ---- the body of a response ---- */

static nghttp2_nv to_nv(const struct http2_header *header)
{
    bool copies_value = !header->is_constant;
    return (nghttp2_nv){
        .name = (uint8_t *)(uintptr_t)header->name.data,
        .value = (uint8_t *)(uintptr_t)header->value.data,
        .namelen = header->name.len,
        .valuelen = header->value.len,
        .flags = (uint8_t)(NGHTTP2_NV_FLAG_NO_COPY_NAME |
                           (copies_value ? 0 : NGHTTP2_NV_FLAG_NO_COPY_VALUE)),
    };
}

static int submit_trailers(struct http2 *h, struct http2_stream *stream)
{
    nghttp2_nv nv[HEADERS_MAX];
    hf_assert(stream->trailer_count <= HEADERS_MAX);
    for (size_t i = 0; i < stream->trailer_count; i++) {
        nv[i] = to_nv(&stream->trailers[i]);
    }
    return nghttp2_submit_trailer(h->session, stream->id, nv, stream->trailer_count);
}

static size_t take(struct http2 *h, struct http2_stream *stream, uint8_t *out, size_t max)
{
    struct slice kept = buffer_bytes(&stream->out);
    if (kept.len > 0) { /* it precedes the lent bytes */
        size_t len = kept.len < max ? kept.len : max;
        memcpy(out, kept.data, len);
        buffer_consume(&stream->out, len);
        buffer_release(&stream->out);
        h->backlog -= len;
        return len;
    }
    size_t len = stream->lent.len < max ? stream->lent.len : max;
    if (len > 0) {
        memcpy(out, stream->lent.data, len);
        stream->lent = slice_make(stream->lent.data + len, stream->lent.len - len);
    }
    return len;
}

static ssize_t on_pull(nghttp2_session *session, int32_t id, uint8_t *buf, size_t length,
                       uint32_t *flags, nghttp2_data_source *source, void *user)
{
    struct http2 *h = user;
    struct http2_stream *stream = source->ptr;
    size_t len = take(h, stream, buf, length);
    bool is_end = stream->is_finished && http2_stream_backlog(stream) == 0;
    if (len == 0 && !is_end) {
        stream->is_stalled = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    if (is_end) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        if (stream->trailer_count > 0) {
            *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
            if (submit_trailers(h, stream) != 0) {
                return NGHTTP2_ERR_CALLBACK_FAILURE;
            }
        }
    } else {
        h->handlers->on_moved(h->owner, stream);
    }
    return (ssize_t)len;
}

size_t http2_stream_backlog(const struct http2_stream *stream)
{
    return buffer_len(&stream->out) + stream->lent.len;
}

/* ---- lifetime ---- */

struct http2_shared *http2_shared_new(const struct memory *memory)
{
    struct http2_shared *shared = memory_alloc(memory, sizeof(*shared));
    http2_memory_open(&shared->memory, memory);
    int error = nghttp2_session_callbacks_new(&shared->callbacks);
    hf_assert(error == 0); /* else out of memory */
    error = nghttp2_option_new(&shared->option);
    hf_assert(error == 0);
    nghttp2_session_callbacks *c = shared->callbacks;
    nghttp2_session_callbacks_set_on_begin_headers_callback(c, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(c, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(c, on_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(c, on_data);
    nghttp2_session_callbacks_set_on_frame_send_callback(c, on_sent);
    nghttp2_session_callbacks_set_on_stream_close_callback(c, on_close);
    nghttp2_option *o = shared->option;
    nghttp2_option_set_no_auto_window_update(o, 1);
    nghttp2_option_set_no_closed_streams(o, 1);
    nghttp2_option_set_max_deflate_dynamic_table_size(o, HPACK_TABLE);
    nghttp2_option_set_max_outbound_ack(o, ACKS_MAX);
    /* It uses its own clock, which a test cannot control. The owner counts resets instead. */
    nghttp2_option_set_stream_reset_rate_limit(o, UINT32_MAX, UINT32_MAX);
    return shared;
}

void http2_shared_free(struct http2_shared *shared)
{
    if (shared == NULL) {
        return;
    }
    nghttp2_session_callbacks_del(shared->callbacks);
    nghttp2_option_del(shared->option);
    const struct memory *memory = shared->memory.memory;
    http2_memory_close(&shared->memory);
    memory_free(memory, shared, sizeof(*shared));
}

struct http2 *http2_new(struct http2_shared *shared, const struct http2_handlers *handlers,
                        void *owner, struct buffer *out, size_t out_soft)
{
    static const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, HPACK_TABLE},
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, LIMIT_HTTP2_STREAMS},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, LIMIT_HTTP_HEADER_BYTES},
        {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
    };
    const struct memory *memory = shared->memory.memory;
    struct http2 *h = memory_alloc(memory, sizeof(*h));
    *h = (struct http2){
        .memory = memory, .handlers = handlers, .owner = owner, .out = out, .out_soft = out_soft};
    http2_head_init(&h->head, memory);
    shared->memory.is_making = true;
    int error = nghttp2_session_server_new3(&h->session, shared->callbacks, h, shared->option,
                                            &shared->memory.allocator);
    shared->memory.is_making = false;
    hf_assert(error == 0); /* else out of memory */
    error = nghttp2_submit_settings(h->session, NGHTTP2_FLAG_NONE, settings,
                                    sizeof(settings) / sizeof(settings[0]));
    hf_assert(error == 0);
    error =
        nghttp2_session_set_local_window_size(h->session, NGHTTP2_FLAG_NONE, 0, CONNECTION_WINDOW);
    hf_assert(error == 0);
    return h;
}

void http2_free(struct http2 *h)
{
    nghttp2_session_del(h->session);
    http2_head_close(&h->head);
    memory_free(h->memory, h, sizeof(*h));
}

void http2_stream_init(struct http2_stream *stream, int32_t id, const struct memory *memory,
                       size_t out_max)
{
    *stream = (struct http2_stream){.id = id};
    buffer_init(&stream->out, memory, out_max);
    buffer_init(&stream->tail, memory, TAIL_MAX);
}

void http2_stream_close(struct http2_stream *stream)
{
    buffer_close(&stream->out);
    buffer_close(&stream->tail);
}

/* ---- bytes ---- */

bool http2_receive(struct http2 *h, struct slice bytes)
{
    hf_assert(!h->is_inside);
    if (h->is_broken) {
        return false;
    }
    h->is_inside = true;
    ssize_t used = nghttp2_session_mem_recv(h->session, bytes.data, bytes.len);
    h->is_inside = false;
    h->is_broken = used < 0; /* an error of the client alone produces a GOAWAY instead */
    http2_flush(h);
    return !h->is_broken;
}

void http2_flush(struct http2 *h)
{
    hf_assert(!h->is_inside);
    h->is_inside = true;
    while (!h->is_broken && buffer_len(h->out) < h->out_soft &&
           nghttp2_session_want_write(h->session)) {
        const uint8_t *data;
        ssize_t len = nghttp2_session_mem_send(h->session, &data);
        if (len < 0) {
            h->is_broken = true;
        }
        if (len <= 0) {
            break;
        }
        bool is_taken = buffer_append(h->out, data, (size_t)len);
        hf_assert(is_taken); /* the buffer has space for one frame above the soft limit */
    }
    h->is_inside = false;
}

/* ---- responses ---- */

static void break_off(struct http2 *h, struct http2_stream *stream, uint32_t code)
{
    if (!stream->is_reset) {
        stream->is_reset = true;
        stream->lent = slice_make(NULL, 0);
        (void)nghttp2_submit_rst_stream(h->session, NGHTTP2_FLAG_NONE, stream->id, code);
    }
}

static void wake(struct http2 *h, struct http2_stream *stream)
{
    if (stream->is_stalled) {
        stream->is_stalled = false;
        (void)nghttp2_session_resume_data(h->session, stream->id);
    }
}

static void submit_head(struct http2 *h, struct http2_stream *stream,
                        const struct http2_header *headers, size_t count, bool is_whole)
{
    nghttp2_nv nv[HEADERS_MAX];
    nghttp2_data_provider provider = {.source = {.ptr = stream}, .read_callback = on_pull};
    hf_assert(!stream->is_begun && count <= HEADERS_MAX);
    stream->is_begun = true;
    for (size_t i = 0; i < count; i++) {
        nv[i] = to_nv(&headers[i]);
    }
    int error =
        nghttp2_submit_response(h->session, stream->id, nv, count, is_whole ? NULL : &provider);
    if (error != 0) {
        break_off(h, stream, NGHTTP2_INTERNAL_ERROR);
    }
}

void http2_respond(struct http2 *h, struct http2_stream *stream, const struct http2_header *headers,
                   size_t count, bool is_whole)
{
    stream->is_finished = is_whole;
    submit_head(h, stream, headers, count, is_whole);
}

static void append(struct http2 *h, struct http2_stream *stream, struct slice bytes)
{
    if (buffer_append_slice(&stream->out, bytes)) {
        h->backlog += bytes.len;
    } else {
        break_off(h, stream, NGHTTP2_ENHANCE_YOUR_CALM);
    }
}

static void keep(struct http2 *h, struct http2_stream *stream)
{
    struct slice rest = stream->lent;
    stream->lent = slice_make(NULL, 0);
    if (rest.len > 0) {
        append(h, stream, rest);
    }
}

void http2_write(struct http2 *h, struct http2_stream *stream, struct slice bytes)
{
    hf_assert(stream->is_begun && !stream->is_finished);
    if (stream->is_reset) {
        return;
    }
    append(h, stream, bytes);
    wake(h, stream);
}

static void set_trailers(struct http2_stream *stream, const struct http2_header *trailers,
                         size_t count, bool texts_last)
{
    stream->trailers = trailers;
    stream->trailer_count = count;
    if (texts_last || count == 0) {
        return;
    }
    size_t size = count * sizeof(*trailers);
    for (size_t i = 0; i < count; i++) {
        size += trailers[i].name.len + trailers[i].value.len;
    }
    struct http2_header *copies =
        (struct http2_header *)(void *)buffer_reserve(&stream->tail, size);
    hf_assert(copies != NULL); /* TAIL_MAX is more than our own trailers take */
    uint8_t *texts = (uint8_t *)(copies + count);
    for (size_t i = 0; i < count; i++) {
        memcpy(texts, trailers[i].name.data, trailers[i].name.len);
        copies[i].name = slice_make(texts, trailers[i].name.len);
        texts += trailers[i].name.len;
        memcpy(texts, trailers[i].value.data, trailers[i].value.len);
        copies[i].value = slice_make(texts, trailers[i].value.len);
        texts += trailers[i].value.len;
        copies[i].is_constant = false;
    }
    buffer_commit(&stream->tail, size);
    stream->trailers = copies;
}

void http2_finish(struct http2 *h, struct http2_stream *stream, const struct http2_header *trailers,
                  size_t count, bool texts_last)
{
    hf_assert(stream->is_begun && !stream->is_finished);
    stream->is_finished = true;
    set_trailers(stream, trailers, count, texts_last);
    wake(h, stream);
}

void http2_answer(struct http2 *h, struct http2_stream *stream, const struct http2_header *headers,
                  size_t count, struct slice body, const struct http2_header *trailers,
                  size_t trailer_count)
{
    stream->is_finished = true;
    stream->lent = body;
    set_trailers(stream, trailers, trailer_count, true);
    submit_head(h, stream, headers, count, false);
    h->lender = stream;
    if (!h->is_inside) {
        http2_flush(h);
    }
    if (h->lender == stream) { /* it was not closed in the meantime */
        h->lender = NULL;
        keep(h, stream);
    }
}

void http2_answer_constant(struct http2 *h, struct http2_stream *stream,
                           const struct http2_header *headers, size_t count, struct slice body)
{
    stream->is_finished = true;
    stream->lent = body;
    submit_head(h, stream, headers, count, false);
}

void http2_reset(struct http2 *h, struct http2_stream *stream, bool is_calm)
{
    break_off(h, stream, is_calm ? NGHTTP2_CANCEL : NGHTTP2_ENHANCE_YOUR_CALM);
}

void http2_consume(struct http2 *h, struct http2_stream *stream, size_t len)
{
    (void)nghttp2_session_consume_stream(h->session, stream->id, len);
}

/* ---- the connection ---- */

void http2_goaway(struct http2 *h)
{
    int32_t last = nghttp2_session_get_last_proc_stream_id(h->session);
    (void)nghttp2_submit_goaway(h->session, NGHTTP2_FLAG_NONE, last, NGHTTP2_NO_ERROR, NULL, 0);
}

uint32_t http2_take_resets(struct http2 *h)
{
    uint32_t resets = h->resets;
    h->resets = 0;
    return resets;
}

void http2_turn_away(struct http2 *h)
{
    (void)nghttp2_session_terminate_session(h->session, NGHTTP2_ENHANCE_YOUR_CALM);
    http2_flush(h);
    h->is_broken = true;
}

void http2_break_off(struct http2 *h, bool send_goaway)
{
    /* nghttp2 would also send the frames queued before it. */
    uint32_t last = (uint32_t)nghttp2_session_get_last_proc_stream_id(h->session);
    const uint8_t frame[] = {
        0,
        0,
        8,
        NGHTTP2_GOAWAY,
        0,
        0,
        0,
        0,
        0, /* length, type, flags, stream */
        (uint8_t)(last >> 24),
        (uint8_t)(last >> 16),
        (uint8_t)(last >> 8),
        (uint8_t)last,
        0,
        0,
        0,
        NGHTTP2_ENHANCE_YOUR_CALM,
    };
    hf_assert(!h->is_inside);
    h->is_broken = true;
    if (send_goaway) {
        bool is_taken = buffer_append(h->out, frame, sizeof(frame));
        hf_assert(is_taken); /* the buffer has space for one frame above the soft limit */
    }
}

void http2_ping(struct http2 *h)
{
    (void)nghttp2_submit_ping(h->session, NGHTTP2_FLAG_NONE, NULL);
}

bool http2_is_over(const struct http2 *h)
{
    return h->is_broken ||
           (!nghttp2_session_want_read(h->session) && !nghttp2_session_want_write(h->session));
}

size_t http2_backlog(const struct http2 *h)
{
    return h->backlog;
}

uint32_t http2_stream_count(const struct http2 *h)
{
    return h->streams;
}

/* From bytes to handler and from answer to bytes, see rpc.h. */
#include "service/grpc/rpc.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/text.h"
#include "service/http/host.h"

enum { MESSAGE_TEXT = 1024, STATUS_TEXT = 4, NUMBER_TEXT = 24 };

#define TEXT(text)                                \
    {                                             \
        (const uint8_t *)(text), sizeof(text) - 1 \
    }

struct rpc_headers {
    struct http2_header at[10];
    size_t count;
    char status[STATUS_TEXT];
    char message[MESSAGE_TEXT];
    char retry_ms[NUMBER_TEXT];
};

static void add(struct rpc_headers *heads, const char *name, struct slice value)
{
    if (value.len > 0) {
        heads->at[heads->count++] = (struct http2_header){slice_of(name), value, false};
    }
}

static void add_head(struct rpc_headers *heads, struct service *s)
{
    static const struct http2_header constant[] = {
        {TEXT(":status"), TEXT("200"), true},
        {TEXT("content-type"), TEXT("application/grpc+proto"), true},
    };
    memcpy(heads->at, constant, sizeof(constant));
    heads->count = sizeof(constant) / sizeof(constant[0]);
    add(heads, "holdfast-leader", conn_leader(s));
}

static void add_error(struct rpc_headers *heads, struct api_request *x, enum hf_error error,
                      const char *message)
{
    (void)snprintf(heads->status, sizeof(heads->status), "%u",
                   (unsigned)hf_error_grpc_code(error) % 100);
    add(heads, "grpc-status", slice_of(heads->status));
    if (error == HF_OK) {
        return;
    }
    struct slice text = slice_of(message == NULL ? hf_error_text(error) : message);
    size_t len = grpc_encode_message(text, heads->message, sizeof(heads->message));
    add(heads, "grpc-message", slice_make(heads->message, len));
    add(heads, "holdfast-error-code", slice_of(hf_error_code(error)));
    if (error == HF_OUTCOME_UNKNOWN) {
        add(heads, "holdfast-request-id", slice_of(x->request_id));
    }
    if (error == HF_QUOTA) {
        (void)snprintf(heads->retry_ms, sizeof(heads->retry_ms), "%" PRIu64, x->refusal.retry_ms);
        add(heads, "holdfast-quota", slice_of(quota_name(x->refusal.quota)));
        add(heads, "grpc-retry-pushback-ms", slice_of(heads->retry_ms));
    }
    if (error == HF_GRPC_ENCODING) {
        add(heads, "grpc-accept-encoding", slice_of("identity"));
    }
}

void rpc_over(struct stream *stream)
{
    if (stream->method != NULL && stream->method->over != NULL) {
        stream->method->over(&stream->x);
    }
}

void rpc_finish(struct api_request *x, enum hf_error error, const char *message)
{
    struct stream *stream = stream_of(x);
    struct http2 *http2 = stream->conn->http2;
    struct rpc_headers heads;
    heads.count = 0;
    rpc_over(stream);
    stream_answered(stream, NULL);
    if (stream->http2.is_begun) {
        add_error(&heads, x, error, message);
        http2_finish(http2, &stream->http2, heads.at, heads.count, false);
    } else {
        add_head(&heads, x->service);
        add_error(&heads, x, error, message);
        http2_respond(http2, &stream->http2, heads.at, heads.count, true);
    }
}

static void transport_answer(struct api_request *x, const struct answer *answer)
{
    static const struct http2_header ok = {TEXT("grpc-status"), TEXT("0"), true};
    struct stream *stream = stream_of(x);
    struct http2 *http2 = stream->conn->http2;
    if (answer->error != HF_OK) {
        if (answer->pending != NULL) {
            (void)pending_settle(answer->pending); /* an error is no grant */
        }
        rpc_finish(x, answer->error, answer->message);
        return;
    }
    struct rpc_headers heads;
    heads.count = 0;
    add_head(&heads, x->service);
    stream_answered(stream, answer->pending);
    x->service->budget.turn_bytes += answer->body.len;
    http2_answer(http2, &stream->http2, heads.at, heads.count, answer->body, &ok, 1);
}

static void transport_stream(struct api_request *x)
{
    struct stream *stream = stream_of(x);
    struct rpc_headers heads;
    heads.count = 0;
    add_head(&heads, x->service);
    stream_set_state(stream, STREAM_OPEN);
    conn_mark_ready(stream->conn);
    http2_respond(stream->conn->http2, &stream->http2, heads.at, heads.count, false);
}

static void transport_piece(struct api_request *x, struct slice piece)
{
    struct stream *stream = stream_of(x);
    conn_mark_ready(stream->conn);
    http2_write(stream->conn->http2, &stream->http2, piece);
    stream_wrote(stream);
}

/* Ends only when the client is too slow or not allowed any more, or the node stops. */
static void transport_end(struct api_request *x, enum hf_error error, const char *why)
{
    rpc_finish(x, error, why);
}

static size_t transport_backlog(const struct api_request *x)
{
    const struct stream *stream = stream_of(x);
    return http2_stream_backlog(&stream->http2) + buffer_len(&stream->conn->out);
}

static void transport_resume(struct api_request *x);

const struct api_transport rpc_transport = {
    false,         transport_answer,  transport_stream, transport_piece,
    transport_end, transport_backlog, transport_resume, NULL,
};

void rpc_put(struct api_request *x, const ProtobufCMessage *message)
{
    static const uint8_t prefix[GRPC_PREFIX];
    struct buffer *out = &x->service->scratch;
    size_t before = buffer_len(out);
    if (!buffer_append(out, prefix, sizeof(prefix)) || !message_write(message, out)) {
        out->overflowed = true; /* the answer becomes HF_ANSWER_TOO_LARGE */
        return;
    }
    size_t len = buffer_len(out) - before - GRPC_PREFIX;
    grpc_write_prefix(out->data + out->start + before, (uint32_t)len);
}

void rpc_stream(struct api_request *x)
{
    transport_stream(x);
}

void rpc_send(struct api_request *x, const ProtobufCMessage *message)
{
    struct buffer *scratch = &x->service->scratch;
    buffer_truncate(scratch, 0);
    rpc_put(x, message);
    hf_assert(!scratch->overflowed); /* messages of a stream are small */
    transport_piece(x, buffer_bytes(scratch));
    buffer_truncate(scratch, 0);
}

static void decode(struct stream *stream, struct slice bytes)
{
    struct service *s = stream->service;
    const struct rpc_method *method = stream->method;
    bump_reset(&s->arena);
    s->arena.max = SERVICE_ARENA_MAX;
    ProtobufCMessage *message = message_read(method->request, bytes, &s->arena);
    if (message == NULL) {
        api_request_fail(&stream->x, HF_PROTO_MALFORMED, NULL);
        return;
    }
    method->handle(&stream->x, message);
}

static void begin_one(struct stream *stream, struct slice bytes)
{
    stream->is_complete = true;
    stream_set_state(stream, STREAM_BUSY);
    decode(stream, bytes);
    stream_drop_body(stream);
}

static void refuse_bytes(struct stream *stream, const struct grpc_result *r)
{
    enum hf_error error = r->status == GRPC_UNIMPLEMENTED        ? HF_GRPC_ENCODING
                          : r->status == GRPC_RESOURCE_EXHAUSTED ? HF_MESSAGE_TOO_LARGE
                                                                 : HF_GRPC_FRAMING;
    api_request_fail(&stream->x, error, NULL);
}

/* False: no more is read. */
static bool take_message(struct stream *stream, struct slice message, bool is_last)
{
    if (stream->method->kind == RPC_MANY) {
        decode(stream, message);
        return stream->state != STREAM_SENDING;
    }
    if (stream->has_message) {
        api_request_fail(&stream->x, HF_GRPC_FRAMING, "a second message in a call that takes one");
        return false;
    }
    if (is_last) {
        begin_one(stream, message);
        return false;
    }
    stream->has_message = true; /* the call begins at the end of the request */
    return stream_keep_body(stream, message, LIMIT_GRPC_MESSAGE);
}

void rpc_data(struct stream *stream, struct slice bytes, bool is_last)
{
    while (true) {
        struct grpc_result r = grpc_reader_feed(&stream->reader, bytes);
        bytes = slice_make(bytes.data + r.consumed, bytes.len - r.consumed);
        if (r.event == GRPC_ERROR) {
            refuse_bytes(stream, &r);
            return;
        }
        if (r.event == GRPC_MORE) {
            return;
        }
        if (!take_message(stream, r.message, is_last && bytes.len == 0)) {
            return;
        }
    }
}

void rpc_end(struct stream *stream)
{
    if (!grpc_reader_is_between(&stream->reader)) {
        api_request_fail(&stream->x, HF_GRPC_FRAMING, "the call ends within a message");
    } else if (stream->method->kind == RPC_MANY) {
        stream->method->end(&stream->x);
    } else if (!stream->has_message) {
        api_request_fail(&stream->x, HF_GRPC_FRAMING, "the call has no message");
    } else {
        begin_one(stream, buffer_bytes(&stream->body));
    }
}

bool rpc_is_call(const struct http2_request *request)
{
    struct slice type = slice_of("application/grpc");
    struct slice given = request->content_type;
    return slice_starts_with(given, type) &&
           (given.len == type.len || given.data[type.len] == '+' || given.data[type.len] == ';');
}

static const struct rpc_method *find_method(struct slice path)
{
    size_t count;
    const struct rpc_method *methods = rpc_methods(&count);
    for (size_t i = 0; i < count; i++) {
        if (slice_equal(path, slice_of(methods[i].path))) {
            return &methods[i];
        }
    }
    return NULL;
}

static enum hf_error read_head(struct stream *stream, const struct http2_request *request)
{
    struct slice encoding = request->grpc_encoding;
    uint64_t timeout_ms;
    if (request->error != HF_OK) {
        return request->error;
    }
    if (request->method != HTTP_POST) {
        return HF_METHOD_NOT_ALLOWED;
    }
    if (!host_is_served(request->host, stream->service->options.server_names)) {
        return HF_MISDIRECTED;
    }
    stream->method = find_method(request->path);
    if (stream->method == NULL) {
        return HF_GRPC_METHOD;
    }
    if (encoding.len > 0 && !slice_equal(encoding, slice_of("identity"))) {
        return HF_GRPC_ENCODING;
    }
    if (request->grpc_timeout.len > 0) {
        if (!grpc_parse_timeout(request->grpc_timeout, &timeout_ms)) {
            return HF_GRPC_TIMEOUT;
        }
        stream_set_deadline(stream, service_boot_ms(stream->service) + timeout_ms);
    }
    return HF_OK;
}

/* The credentials are kept: the call may have to wait for the policy. The trace is needed when the message
 * is complete. */
static void keep_headers(struct stream *stream, const struct http2_request *request)
{
    struct api_request *x = &stream->x;
    bool has_trace = text_is_traceparent(request->traceparent);
    bool has_auth = stream->service->auth != NULL;
    struct slice none = slice_make(NULL, 0);
    const struct slice from[] = {has_auth ? request->authorization : none,
                                 has_auth ? request->tenant : none,
                                 has_trace ? request->traceparent : none};
    struct slice *to[] = {&x->authorization, &x->tenant_name, &x->traceparent};
    if (!has_auth && !has_trace) {
        return;
    }
    for (size_t i = 0; i < sizeof(to) / sizeof(to[0]); i++) {
        bool is_kept = buffer_append_slice(&stream->head, from[i]);
        hf_assert(is_kept); /* the capacity is the limit of a head */
    }
    struct slice all = buffer_bytes(&stream->head);
    size_t at = 0;
    for (size_t i = 0; i < sizeof(to) / sizeof(to[0]); i++) {
        *to[i] = slice_make(all.data == NULL ? NULL : all.data + at, from[i].len);
        at += from[i].len;
    }
}

/* False: the call is answered, or waits. */
static bool admit(struct stream *stream)
{
    if (!auth_admit(&stream->x, stream->method->need)) {
        return false;
    }
    if (stream->method->kind == RPC_MANY) {
        stream_set_state(stream, STREAM_OPEN); /* no timeout for receiving the request */
    }
    return true;
}

void rpc_begin(struct stream *stream, const struct http2_request *request)
{
    enum hf_error error = read_head(stream, request);
    if (error != HF_OK) {
        stream->method = NULL;
        api_request_fail(&stream->x, error, NULL);
    } else {
        keep_headers(stream, request);
        (void)admit(stream);
    }
}

/* Reads what arrived meanwhile. */
static void read_held(struct stream *stream)
{
    struct buffer held;
    bool is_complete = stream->is_complete;
    buffer_init(&held, stream->service->memory, LIMIT_HTTP_BODY);
    bool is_kept = buffer_append_slice(&held, buffer_bytes(&stream->body));
    hf_assert(is_kept);
    stream_drop_body(stream);
    stream->is_complete = false;
    if (buffer_len(&held) > 0) {
        rpc_data(stream, buffer_bytes(&held), false);
    }
    buffer_close(&held);
    if (is_complete && stream->state != STREAM_SENDING && !stream->is_complete) {
        stream->is_complete = true;
        rpc_end(stream);
    }
}

static void transport_resume(struct api_request *x)
{
    struct stream *stream = stream_of(x);
    x->service->source = stream->conn->source;
    if (admit(stream)) {
        read_held(stream);
    }
    x->service->source = 0;
}

void rpc_drain(struct stream *stream)
{
    if (stream->method != NULL && stream->method->drain != NULL &&
        stream->state != STREAM_SENDING) {
        stream->method->drain(&stream->x);
    }
}

/* S7.2: a wait without a request id is cancelled, and its grant released. The outcome of other
 * submitted commands is unknown. */
void rpc_late(struct stream *stream)
{
    struct api_request *x = &stream->x;
    if (stream->state == STREAM_SENDING) {
        return;
    }
    bool is_unknown = x->pending != NULL && (!x->pending->is_acquire || x->pending->keeps_place);
    api_request_abandon(x);
    api_request_fail(x, is_unknown ? HF_OUTCOME_UNKNOWN : HF_DEADLINE, NULL);
}

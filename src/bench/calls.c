/* gRPC calls in memory buffers, see calls.h. */
#include "bench/calls.h"

#include "bench/identity.h"

#include <stdio.h>

enum { MESSAGE_MAX = 64 << 10, REQUEST_MAX = 1024, OUTPUT_ENOUGH = 1 << 20 };

static const struct http2_client_handler http2_handler;

/* ---- connections ---- */

static size_t size_of(uint32_t slots)
{
    return sizeof(struct bench_calls) + slots * sizeof(struct bench_slot);
}

struct bench_calls *bench_calls_open(const char *host, uint32_t slots,
                                     const struct bench_calls_handler *handler)
{
    struct bench_calls *g = memory_alloc(memory_system(), size_of(slots));
    memset(g, 0, size_of(slots));
    g->handler = handler;
    g->host = host;
    g->slots = slots;
    for (uint32_t i = 0; i < slots; i++) {
        struct bench_slot *s = &g->slot[i];
        s->calls = g;
        s->number = i;
        s->unary.slot = s;
        s->stream.slot = s;
        grpc_reader_init(&s->unary.reader, memory_system(), MESSAGE_MAX);
        grpc_reader_init(&s->stream.reader, memory_system(), MESSAGE_MAX);
    }
    return g;
}

static void end_connection(struct bench_calls *g)
{
    g->is_ending = true;
    http2_client_free(g->http2);
    g->http2 = NULL;
    g->is_ending = false;
}

void bench_calls_close(void *state)
{
    struct bench_calls *g = state;
    end_connection(g);
    for (uint32_t i = 0; i < g->slots; i++) {
        grpc_reader_close(&g->slot[i].unary.reader);
        grpc_reader_close(&g->slot[i].stream.reader);
    }
    memory_free(memory_system(), g, size_of(g->slots));
}

static void flush(struct bench_calls *g, struct buffer *out)
{
    if (!g->is_receiving) {
        http2_client_output(g->http2, out, OUTPUT_ENOUGH);
    }
}

void bench_calls_begin(void *state, struct buffer *out)
{
    struct bench_calls *g = state;
    end_connection(g);
    g->http2 = http2_client_new(memory_system(), &http2_handler, g->host, "holdfast-bench");
    for (uint32_t i = 0; i < g->slots; i++) {
        g->slot[i].is_outstanding = false;
    }
    flush(g, out);
}

/* ---- reporting answers ---- */

void bench_slot_tell(struct bench_slot *s, struct bench_answer *answer)
{
    /* Before the first bytes are received there is no callback; the load times out then. */
    if (s->is_outstanding && !s->calls->is_ending && s->calls->on_answer != NULL) {
        s->is_outstanding = false;
        answer->slot = s->number;
        s->calls->on_answer(s->calls->on_answer_ctx, answer);
    }
}

void bench_call_tell_failure(struct bench_call *c)
{
    struct bench_answer answer = {.fine = false};
    enum grpc_status status = c->status < 0 ? GRPC_UNKNOWN : (enum grpc_status)c->status;
    (void)snprintf(answer.code, sizeof(answer.code), "%s",
                   c->code[0] != '\0' ? c->code : grpc_status_name(status));
    (void)snprintf(answer.message, sizeof(answer.message), "%s",
                   c->message[0] != '\0' ? c->message : answer.code);
    bench_slot_tell(c->slot, &answer);
}

/* ---- requests ---- */

static struct slice pack(const ProtobufCMessage *message, uint8_t *out, size_t size)
{
    size_t len = protobuf_c_message_get_packed_size(message);
    hf_assert(GRPC_PREFIX + len <= size);
    grpc_write_prefix(out, (uint32_t)len);
    protobuf_c_message_pack(message, out + GRPC_PREFIX);
    return slice_make(out, GRPC_PREFIX + len);
}

void bench_call_start(struct bench_call *c, const char *path, const ProtobufCMessage *message,
                      bool keep_open)
{
    uint8_t bytes[REQUEST_MAX];
    size_t header_count;
    const struct http2_client_header *headers = bench_identity_headers(&header_count);
    grpc_reader_close(&c->reader);
    grpc_reader_init(&c->reader, memory_system(), MESSAGE_MAX);
    c->status = -1;
    c->code[0] = '\0';
    c->message[0] = '\0';
    c->stream = http2_client_request(c->slot->calls->http2, path, headers, header_count,
                                     pack(message, bytes, sizeof(bytes)), keep_open, c);
    if (c->stream == NULL) {
        (void)snprintf(c->code, sizeof(c->code), "connection_is_closing");
        bench_call_tell_failure(c);
    }
}

void bench_call_send(struct bench_call *c, const ProtobufCMessage *message)
{
    uint8_t bytes[REQUEST_MAX];
    if (c->stream != NULL) {
        http2_client_send(c->stream, pack(message, bytes, sizeof(bytes)), false);
    } else {
        (void)snprintf(c->code, sizeof(c->code), "session_stream_ended");
        bench_call_tell_failure(c);
    }
}

void bench_calls_request(void *state, uint32_t number, const struct bench_request *request,
                         struct buffer *out)
{
    struct bench_calls *g = state;
    hf_assert(number < g->slots && !g->slot[number].is_outstanding);
    struct bench_slot *s = &g->slot[number];
    s->is_outstanding = true;
    s->is_done = false;
    s->token = 0;
    s->verb = request->verb;
    g->handler->request(s, request);
    flush(g, out);
}

/* ---- answers ---- */

static void on_header(void *ctx, struct slice name, struct slice value)
{
    struct bench_call *c = ctx;
    if (slice_equal(name, slice_of("grpc-status")) && value.len > 0 && value.len <= 2) {
        c->status = 0;
        for (size_t i = 0; i < value.len; i++) {
            c->status = c->status * 10 + (value.data[i] - '0');
        }
    } else if (slice_equal(name, slice_of("holdfast-error-code"))) {
        (void)snprintf(c->code, sizeof(c->code), "%.*s", (int)value.len, bench_text(value));
    } else if (slice_equal(name, slice_of("grpc-message")) && value.len < BENCH_MESSAGE) {
        size_t len = grpc_decode_message(value, c->message);
        c->message[len] = '\0';
    }
}

static void on_data(void *ctx, struct slice data)
{
    struct bench_call *c = ctx;
    while (data.len > 0) {
        struct grpc_result r = grpc_reader_feed(&c->reader, data);
        if (r.event == GRPC_ERROR) {
            return; /* on_end reports the failure */
        }
        data = slice_make(data.data + r.consumed, data.len - r.consumed);
        if (r.event == GRPC_MESSAGE) {
            c->slot->calls->handler->on_message(c, r.message);
        }
    }
}

static void on_end(void *ctx, uint32_t error, bool untouched)
{
    struct bench_call *c = ctx;
    (void)error;
    (void)untouched;
    c->stream = NULL;
    c->slot->calls->handler->on_end(c);
}

static const struct http2_client_handler http2_handler = {on_header, on_data, on_end};

size_t bench_calls_receive(void *state, struct slice bytes, struct buffer *out,
                           bench_answer_fn *on_answer, void *ctx, const char **problem)
{
    struct bench_calls *g = state;
    g->on_answer = on_answer;
    g->on_answer_ctx = ctx;
    g->is_receiving = true;
    bool sound = http2_client_input(g->http2, bytes);
    g->is_receiving = false;
    flush(g, out);
    sound = sound && !http2_client_is_over(g->http2);
    *problem = sound ? NULL : "the answer is not HTTP/2";
    return bytes.len;
}

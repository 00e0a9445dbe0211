/* gRPC for `holdfast bench`: LockService over HTTP/2, many clients on a connection if wanted.
 *
 * A client's session is a Session stream that stays open beside its calls. */
#include <google/protobuf/duration.pb-c.h>
#include <holdfast/v1/lock.pb-c.h>
#include <inttypes.h>
#include <stdio.h>

#include "cli/bench_protocol.h"
#include "wire/grpc.h"
#include "wire/http2_client.h"

#define SERVICE "/holdfast.v1.LockService/"

enum { MESSAGE_MAX = 64 << 10, OUTPUT_ENOUGH = 1 << 20 };

/* One stream: a call, or a session. */
struct call {
    struct slot *slot;
    struct http2_stream *stream; /* NULL: none */
    struct grpc_reader reader;
    int status; /* gRPC's, -1: none came */
    bool is_done;
    uint64_t token;
    char code[BENCH_CODE];
    char message[BENCH_MESSAGE];
};

struct slot {
    struct grpc *grpc;
    uint32_t number;
    bool is_asked; /* an answer is owed */
    enum bench_verb verb;
    uint64_t keepalives;
    struct call unary;
    struct call session;
};

struct grpc {
    struct http2_client *http2;
    const char *host;
    bool is_receiving; /* what is asked meanwhile leaves at the end */
    bool is_ending;    /* streams that end now have nobody to tell */
    bench_answer_fn *on_answer;
    void *on_answer_ctx;
    uint32_t slots;
    struct slot slot[];
};

static const struct http2_client_handler handler;

/* ---- coming and going ---- */

static size_t size_of(uint32_t slots)
{
    return sizeof(struct grpc) + slots * sizeof(struct slot);
}

static void *grpc_open(const char *host, uint32_t slots)
{
    struct grpc *g = memory_alloc(memory_system(), size_of(slots));
    memset(g, 0, size_of(slots));
    g->host = host;
    g->slots = slots;
    for (uint32_t i = 0; i < slots; i++) {
        struct slot *s = &g->slot[i];
        s->grpc = g;
        s->number = i;
        s->unary.slot = s;
        s->session.slot = s;
        grpc_reader_init(&s->unary.reader, memory_system(), MESSAGE_MAX);
        grpc_reader_init(&s->session.reader, memory_system(), MESSAGE_MAX);
    }
    return g;
}

static void end_connection(struct grpc *g)
{
    g->is_ending = true;
    http2_client_free(g->http2);
    g->http2 = NULL;
    g->is_ending = false;
}

static void grpc_close(void *state)
{
    struct grpc *g = state;
    end_connection(g);
    for (uint32_t i = 0; i < g->slots; i++) {
        grpc_reader_close(&g->slot[i].unary.reader);
        grpc_reader_close(&g->slot[i].session.reader);
    }
    memory_free(memory_system(), g, size_of(g->slots));
}

static void flush(struct grpc *g, struct buffer *out)
{
    if (!g->is_receiving) {
        http2_client_output(g->http2, out, OUTPUT_ENOUGH);
    }
}

static void grpc_begin(void *state, struct buffer *out)
{
    struct grpc *g = state;
    end_connection(g);
    g->http2 = http2_client_new(memory_system(), &handler, g->host, "holdfast-bench");
    for (uint32_t i = 0; i < g->slots; i++) {
        g->slot[i].is_asked = false;
    }
    flush(g, out);
}

/* ---- telling ---- */

static void tell(struct slot *s, struct bench_answer *answer)
{
    /* Before anything was heard there is nobody to tell: the load waits for its answer in vain. */
    if (s->is_asked && !s->grpc->is_ending && s->grpc->on_answer != NULL) {
        s->is_asked = false;
        answer->slot = s->number;
        s->grpc->on_answer(s->grpc->on_answer_ctx, answer);
    }
}

static void tell_failure(struct call *c)
{
    struct bench_answer answer = {.fine = false};
    enum grpc_status status = c->status < 0 ? GRPC_UNKNOWN : (enum grpc_status)c->status;
    (void)snprintf(answer.code, sizeof(answer.code), "%s",
                   c->code[0] != '\0' ? c->code : grpc_status_name(status));
    (void)snprintf(answer.message, sizeof(answer.message), "%s",
                   c->message[0] != '\0' ? c->message : answer.code);
    tell(c->slot, &answer);
}

/* ---- asking ---- */

static char *text_of(struct slice text)
{
    return (char *)(uintptr_t)text.data; /* protobuf-c does not write to what it packs */
}

static struct slice pack(const ProtobufCMessage *message, uint8_t *out, size_t size)
{
    size_t len = protobuf_c_message_get_packed_size(message);
    hf_assert(GRPC_PREFIX + len <= size);
    grpc_write_prefix(out, (uint32_t)len);
    protobuf_c_message_pack(message, out + GRPC_PREFIX);
    return slice_make(out, GRPC_PREFIX + len);
}

static void start(struct call *c, const char *path, struct slice message, bool keep_open)
{
    struct grpc *g = c->slot->grpc;
    grpc_reader_close(&c->reader);
    grpc_reader_init(&c->reader, memory_system(), MESSAGE_MAX);
    c->status = -1;
    c->is_done = false;
    c->token = 0;
    c->code[0] = '\0';
    c->message[0] = '\0';
    c->stream = http2_client_request(g->http2, path, NULL, 0, message, keep_open, c);
    if (c->stream == NULL) {
        (void)snprintf(c->code, sizeof(c->code), "connection_is_closing");
        tell_failure(c);
    }
}

static void ask_lock(struct slot *s, const struct bench_ask *ask)
{
    uint8_t bytes[1024];
    Holdfast__V1__LockRequest request = HOLDFAST__V1__LOCK_REQUEST__INIT;
    request.resource_id = text_of(ask->name);
    request.session_id = text_of(ask->session);
    request.tier = slice_equal(ask->tier, slice_of("EFFICIENCY")) ? HOLDFAST__V1__TIER__EFFICIENCY
                                                                  : HOLDFAST__V1__TIER__CORRECTNESS;
    start(&s->unary, SERVICE "Lock", pack(&request.base, bytes, sizeof(bytes)), false);
}

static void ask_unlock(struct slot *s, const struct bench_ask *ask)
{
    uint8_t bytes[1024];
    Holdfast__V1__UnlockRequest request = HOLDFAST__V1__UNLOCK_REQUEST__INIT;
    request.resource_id = text_of(ask->name);
    request.fence_token = ask->token;
    request.session_id = text_of(ask->session);
    start(&s->unary, SERVICE "Unlock", pack(&request.base, bytes, sizeof(bytes)), false);
}

static void ask_session(struct slot *s, const struct bench_ask *ask)
{
    uint8_t bytes[512];
    Holdfast__V1__SessionRequest request = HOLDFAST__V1__SESSION_REQUEST__INIT;
    Holdfast__V1__SessionRequest__Open open = HOLDFAST__V1__SESSION_REQUEST__OPEN__INIT;
    Holdfast__V1__SessionRequest__KeepAlive alive = HOLDFAST__V1__SESSION_REQUEST__KEEP_ALIVE__INIT;
    Holdfast__V1__SessionRequest__Close close = HOLDFAST__V1__SESSION_REQUEST__CLOSE__INIT;
    Google__Protobuf__Duration ttl = GOOGLE__PROTOBUF__DURATION__INIT;
    if (ask->verb == BENCH_OPEN) {
        ttl.seconds = (int64_t)(ask->ttl_ms / 1000);
        open.client_id = text_of(ask->client);
        open.ttl = &ttl;
        request.request_case = HOLDFAST__V1__SESSION_REQUEST__REQUEST_OPEN;
        request.open = &open;
        start(&s->session, SERVICE "Session", pack(&request.base, bytes, sizeof(bytes)), true);
        return;
    }
    if (ask->verb == BENCH_KEEPALIVE) {
        alive.number = ++s->keepalives;
        request.request_case = HOLDFAST__V1__SESSION_REQUEST__REQUEST_KEEP_ALIVE;
        request.keep_alive = &alive;
    } else {
        request.request_case = HOLDFAST__V1__SESSION_REQUEST__REQUEST_CLOSE;
        request.close = &close;
    }
    if (s->session.stream != NULL) {
        http2_client_send(s->session.stream, pack(&request.base, bytes, sizeof(bytes)), false);
    } else {
        (void)snprintf(s->session.code, sizeof(s->session.code), "session_stream_ended");
        tell_failure(&s->session);
    }
}

static void grpc_ask(void *state, uint32_t number, const struct bench_ask *ask, struct buffer *out)
{
    struct grpc *g = state;
    hf_assert(number < g->slots && !g->slot[number].is_asked);
    struct slot *s = &g->slot[number];
    s->is_asked = true;
    s->verb = ask->verb;
    if (ask->verb == BENCH_ACQUIRE) {
        ask_lock(s, ask);
    } else if (ask->verb == BENCH_RELEASE) {
        ask_unlock(s, ask);
    } else {
        ask_session(s, ask);
    }
    flush(g, out);
}

/* ---- answers ---- */

static const char *reason_of(Holdfast__V1__Reason reason)
{
    const ProtobufCEnumValue *value =
        protobuf_c_enum_descriptor_get_value(&holdfast__v1__reason__descriptor, (int)reason);
    return value == NULL ? "unknown" : value->name;
}

static void on_locked(struct call *c, struct slice message)
{
    Holdfast__V1__LockResponse *r =
        holdfast__v1__lock_response__unpack(NULL, message.len, message.data);
    if (r != NULL) {
        c->is_done = r->acquired && r->lock_handle != NULL;
        c->token = c->is_done ? r->lock_handle->fence_token : 0;
        (void)snprintf(c->code, sizeof(c->code), "%s", c->is_done ? "" : reason_of(r->reason));
        holdfast__v1__lock_response__free_unpacked(r, NULL);
    }
}

static void on_unlocked(struct call *c, struct slice message)
{
    Holdfast__V1__UnlockResponse *r =
        holdfast__v1__unlock_response__unpack(NULL, message.len, message.data);
    if (r != NULL) {
        c->is_done = r->released;
        (void)snprintf(c->code, sizeof(c->code), "%s", c->is_done ? "" : reason_of(r->reason));
        holdfast__v1__unlock_response__free_unpacked(r, NULL);
    }
}

static void on_session_message(struct call *c, struct slice message)
{
    struct bench_answer answer = {.fine = true};
    Holdfast__V1__SessionResponse *r =
        holdfast__v1__session_response__unpack(NULL, message.len, message.data);
    if (r == NULL) {
        return;
    }
    enum bench_verb verb = c->slot->verb;
    if (r->response_case == HOLDFAST__V1__SESSION_RESPONSE__RESPONSE_OPENED && verb == BENCH_OPEN) {
        answer.session = slice_of(r->opened->session_id);
        tell(c->slot, &answer);
    } else if ((r->response_case == HOLDFAST__V1__SESSION_RESPONSE__RESPONSE_ALIVE &&
                verb == BENCH_KEEPALIVE) ||
               (r->response_case == HOLDFAST__V1__SESSION_RESPONSE__RESPONSE_CLOSED &&
                verb == BENCH_CLOSE)) {
        tell(c->slot, &answer);
    }
    holdfast__v1__session_response__free_unpacked(r, NULL);
}

static void on_header(void *ctx, struct slice name, struct slice value)
{
    struct call *c = ctx;
    if (slice_equal(name, slice_of("grpc-status")) && value.len > 0 && value.len <= 2) {
        c->status = 0;
        for (size_t i = 0; i < value.len; i++) {
            c->status = c->status * 10 + (value.data[i] - '0');
        }
    } else if (slice_equal(name, slice_of("holdfast-error-code"))) {
        (void)snprintf(c->code, sizeof(c->code), "%.*s", (int)value.len, text_of(value));
    } else if (slice_equal(name, slice_of("grpc-message")) && value.len < BENCH_MESSAGE) {
        size_t len = grpc_decode_message(value, c->message);
        c->message[len] = '\0';
    }
}

static void on_data(void *ctx, struct slice data)
{
    struct call *c = ctx;
    while (data.len > 0) {
        struct grpc_result r = grpc_reader_feed(&c->reader, data);
        if (r.event == GRPC_ERROR) {
            return; /* its end tells */
        }
        data = slice_make(data.data + r.consumed, data.len - r.consumed);
        if (r.event == GRPC_MESSAGE) {
            if (c == &c->slot->session) {
                on_session_message(c, r.message);
            } else if (c->slot->verb == BENCH_ACQUIRE) {
                on_locked(c, r.message);
            } else {
                on_unlocked(c, r.message);
            }
        }
    }
}

static void on_session_end(struct call *c)
{
    struct slot *s = c->slot;
    struct bench_answer answer = {.fine = true};
    if (s->verb == BENCH_CLOSE) {
        tell(s, &answer);
    } else if (s->verb == BENCH_OPEN || s->verb == BENCH_KEEPALIVE) {
        tell_failure(c);
    }
}

static void on_end(void *ctx, uint32_t error, bool untouched)
{
    struct call *c = ctx;
    (void)error;
    (void)untouched;
    c->stream = NULL;
    if (c == &c->slot->session) {
        on_session_end(c);
    } else if (c->status == GRPC_OK && c->is_done) {
        struct bench_answer answer = {.fine = true, .token = c->token};
        tell(c->slot, &answer);
    } else {
        tell_failure(c);
    }
}

static const struct http2_client_handler handler = {on_header, on_data, on_end};

static size_t grpc_receive(void *state, struct slice bytes, struct buffer *out,
                           bench_answer_fn *on_answer, void *ctx, const char **problem)
{
    struct grpc *g = state;
    g->on_answer = on_answer;
    g->on_answer_ctx = ctx;
    g->is_receiving = true;
    bool sound = http2_client_input(g->http2, bytes);
    g->is_receiving = false;
    flush(g, out);
    sound = sound && !http2_client_is_over(g->http2);
    *problem = sound ? NULL : "an answer that is not HTTP/2";
    return bytes.len;
}

const struct bench_protocol bench_grpc = {
    .name = "grpc",
    .multiplexes = true,
    .sessions_follow = true,
    .open = grpc_open,
    .close = grpc_close,
    .begin = grpc_begin,
    .ask = grpc_ask,
    .receive = grpc_receive,
};

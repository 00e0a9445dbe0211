/* gRPC for `holdfast bench`. A connection can carry many clients. The session of a client is a
 * Session stream that stays open beside its calls. */
#include <google/protobuf/duration.pb-c.h>
#include <holdfast/v1/lock.pb-c.h>
#include <stddef.h>
#include <stdio.h>

#include "bench/calls.h"

#define SERVICE "/holdfast.v1.LockService/"

/* ---- requests ---- */

static Holdfast__V1__Tier tier_of(struct slice name)
{
    return slice_equal(name, slice_of("EFFICIENCY")) ? HOLDFAST__V1__TIER__EFFICIENCY
                                                     : HOLDFAST__V1__TIER__CORRECTNESS;
}

static void send_lock(struct bench_slot *s, const struct bench_request *call)
{
    Holdfast__V1__LockRequest request = HOLDFAST__V1__LOCK_REQUEST__INIT;
    Google__Protobuf__Duration wait = GOOGLE__PROTOBUF__DURATION__INIT;
    request.resource_id = bench_text(call->name);
    request.session_id = bench_text(call->session);
    request.tier = tier_of(call->tier);
    if (call->wait_ms > 0) {
        wait.seconds = (int64_t)(call->wait_ms / 1000);
        wait.nanos = (int32_t)(call->wait_ms % 1000 * 1000000);
        request.wait_timeout = &wait;
    }
    bench_call_start(&s->unary, SERVICE "Lock", &request.base, false);
}

static void send_unlock(struct bench_slot *s, const struct bench_request *call)
{
    Holdfast__V1__UnlockRequest request = HOLDFAST__V1__UNLOCK_REQUEST__INIT;
    request.resource_id = bench_text(call->name);
    request.fence_token = call->token;
    request.session_id = bench_text(call->session);
    bench_call_start(&s->unary, SERVICE "Unlock", &request.base, false);
}

static void send_session(struct bench_slot *s, const struct bench_request *call)
{
    Holdfast__V1__SessionRequest request = HOLDFAST__V1__SESSION_REQUEST__INIT;
    Holdfast__V1__SessionRequest__Open open = HOLDFAST__V1__SESSION_REQUEST__OPEN__INIT;
    Holdfast__V1__SessionRequest__KeepAlive alive = HOLDFAST__V1__SESSION_REQUEST__KEEP_ALIVE__INIT;
    Holdfast__V1__SessionRequest__Close close = HOLDFAST__V1__SESSION_REQUEST__CLOSE__INIT;
    Google__Protobuf__Duration ttl = GOOGLE__PROTOBUF__DURATION__INIT;
    if (call->verb == BENCH_OPEN) {
        ttl.seconds = (int64_t)(call->ttl_ms / 1000);
        open.client_id = bench_text(call->client);
        open.ttl = &ttl;
        request.request_case = HOLDFAST__V1__SESSION_REQUEST__REQUEST_OPEN;
        request.open = &open;
        bench_call_start(&s->stream, SERVICE "Session", &request.base, true);
        return;
    }
    if (call->verb == BENCH_KEEPALIVE) {
        alive.number = ++s->counter;
        request.request_case = HOLDFAST__V1__SESSION_REQUEST__REQUEST_KEEP_ALIVE;
        request.keep_alive = &alive;
    } else {
        request.request_case = HOLDFAST__V1__SESSION_REQUEST__REQUEST_CLOSE;
        request.close = &close;
    }
    bench_call_send(&s->stream, &request.base);
}

static void send_request(struct bench_slot *s, const struct bench_request *call)
{
    if (call->verb == BENCH_ACQUIRE) {
        send_lock(s, call);
    } else if (call->verb == BENCH_RELEASE) {
        send_unlock(s, call);
    } else {
        send_session(s, call);
    }
}

/* ---- answers ---- */

/* For one unpacked answer; the next one reuses it. An answer that does not fit counts as
 * unreadable; answers of Holdfast fit. */
struct arena {
    size_t used;
    _Alignas(max_align_t) uint8_t bytes[8 << 10];
};

static void *arena_alloc(void *ctx, size_t size)
{
    struct arena *arena = ctx;
    size_t rounded = (size + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
    if (rounded > sizeof(arena->bytes) - arena->used) {
        return NULL;
    }
    void *piece = arena->bytes + arena->used;
    arena->used += rounded;
    return piece;
}

static void arena_free(void *ctx, void *piece)
{
    (void)ctx;
    (void)piece;
}

/* NULL: it cannot be decoded. Valid until the next call. */
static void *unpack(const ProtobufCMessageDescriptor *type, struct slice message)
{
    static struct arena arena;
    static ProtobufCAllocator allocator = {arena_alloc, arena_free, &arena};
    arena.used = 0;
    return protobuf_c_message_unpack(type, &allocator, message.len, message.data);
}

static void note_reason(struct bench_call *c, Holdfast__V1__Reason reason)
{
    const ProtobufCEnumValue *value =
        protobuf_c_enum_descriptor_get_value(&holdfast__v1__reason__descriptor, (int)reason);
    (void)snprintf(c->code, sizeof(c->code), "%s", value == NULL ? "unknown" : value->name);
}

static void on_locked(struct bench_call *c, struct slice message)
{
    const Holdfast__V1__LockResponse *r = unpack(&holdfast__v1__lock_response__descriptor, message);
    if (r == NULL) {
        return;
    }
    c->slot->is_done = r->acquired && r->lock_handle != NULL;
    if (c->slot->is_done) {
        c->slot->token = r->lock_handle->fence_token;
    } else {
        note_reason(c, r->reason);
    }
}

static void on_unlocked(struct bench_call *c, struct slice message)
{
    const Holdfast__V1__UnlockResponse *r =
        unpack(&holdfast__v1__unlock_response__descriptor, message);
    if (r == NULL) {
        return;
    }
    c->slot->is_done = r->released;
    if (!r->released) {
        note_reason(c, r->reason);
    }
}

static void on_session_message(struct bench_call *c, struct slice message)
{
    struct bench_answer answer = {.fine = true};
    const Holdfast__V1__SessionResponse *r =
        unpack(&holdfast__v1__session_response__descriptor, message);
    if (r == NULL) {
        return;
    }
    enum bench_verb verb = c->slot->verb;
    if (r->response_case == HOLDFAST__V1__SESSION_RESPONSE__RESPONSE_OPENED && verb == BENCH_OPEN) {
        answer.session = slice_of(r->opened->session_id);
        bench_slot_tell(c->slot, &answer);
    } else if ((r->response_case == HOLDFAST__V1__SESSION_RESPONSE__RESPONSE_ALIVE &&
                verb == BENCH_KEEPALIVE) ||
               (r->response_case == HOLDFAST__V1__SESSION_RESPONSE__RESPONSE_CLOSED &&
                verb == BENCH_CLOSE)) {
        bench_slot_tell(c->slot, &answer);
    }
}

static void on_message(struct bench_call *c, struct slice message)
{
    if (c == &c->slot->stream) {
        on_session_message(c, message);
    } else if (c->slot->verb == BENCH_ACQUIRE) {
        on_locked(c, message);
    } else {
        on_unlocked(c, message);
    }
}

static void on_session_end(struct bench_call *c)
{
    struct bench_slot *s = c->slot;
    struct bench_answer answer = {.fine = true};
    if (s->verb == BENCH_CLOSE) {
        bench_slot_tell(s, &answer);
    } else if (s->verb == BENCH_OPEN || s->verb == BENCH_KEEPALIVE) {
        bench_call_tell_failure(c);
    }
}

static void on_end(struct bench_call *c)
{
    struct bench_slot *s = c->slot;
    if (c == &s->stream) {
        on_session_end(c);
    } else if (c->status == GRPC_OK && s->is_done) {
        struct bench_answer answer = {.fine = true, .token = s->token};
        bench_slot_tell(s, &answer);
    } else {
        bench_call_tell_failure(c);
    }
}

static const struct bench_calls_handler handler = {send_request, on_message, on_end};

static void *grpc_open(const char *host, uint32_t slots)
{
    return bench_calls_open(host, slots, &handler);
}

const struct bench_protocol bench_grpc = {
    .name = "grpc",
    .multiplexes = true,
    .waits = true,
    .sessions_follow = true,
    .open = grpc_open,
    .close = bench_calls_close,
    .begin = bench_calls_begin,
    .request = bench_calls_request,
    .receive = bench_calls_receive,
};

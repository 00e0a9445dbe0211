/* The common parts of messages, as reply.c for JSON. */
#include "service/grpc/rpc.h"
#include "service/http/reply.h"

void rpc_render_begin(struct service *s)
{
    bump_reset(&s->arena);
    s->arena.max = SERVICE_RENDER_MAX;
}

void *rpc_alloc(const struct service *s, size_t size)
{
    void *space = bump_take((struct bump *)(uintptr_t)&s->arena, size);
    hf_assert(space != NULL);
    return space;
}

char *rpc_string(const struct service *s, struct slice text)
{
    return bump_text((struct bump *)(uintptr_t)&s->arena, text);
}

char *rpc_id(const struct service *s, struct id id)
{
    char *text = rpc_alloc(s, REPLY_ID + 1);
    if (id_is_zero(id)) {
        text[0] = '\0';
    } else {
        reply_format_id(id, text);
    }
    return text;
}

Google__Protobuf__Timestamp *rpc_time(const struct service *s, uint64_t wall_ms)
{
    Google__Protobuf__Timestamp *t = rpc_alloc(s, sizeof(*t));
    google__protobuf__timestamp__init(t);
    t->seconds = (int64_t)(wall_ms / 1000);
    t->nanos = (int32_t)(wall_ms % 1000) * 1000000;
    return t;
}

Google__Protobuf__Timestamp *rpc_when(const struct service *s, uint64_t cluster_ms)
{
    if (cluster_ms == 0 || cluster_ms == UINT64_MAX) {
        return NULL;
    }
    return rpc_time(s, reply_wall_ms(s, cluster_ms));
}

Google__Protobuf__Duration *rpc_ms(const struct service *s, uint64_t ms)
{
    Google__Protobuf__Duration *d = rpc_alloc(s, sizeof(*d));
    google__protobuf__duration__init(d);
    d->seconds = (int64_t)(ms / 1000);
    d->nanos = (int32_t)(ms % 1000) * 1000000;
    return d;
}

Google__Protobuf__Duration *rpc_left(const struct service *s, uint64_t deadline_ms)
{
    return deadline_ms == UINT64_MAX ? NULL : rpc_ms(s, reply_left_ms(s, deadline_ms));
}

Holdfast__V1__Mode rpc_mode_out(enum mode mode)
{
    switch (mode) {
    case MODE_SHARED:
        return HOLDFAST__V1__MODE__SHARED;
    case MODE_SEMAPHORE:
        return HOLDFAST__V1__MODE__SEMAPHORE;
    case MODE_ELECTION:
        return HOLDFAST__V1__MODE__ELECTION;
    case MODE_EXCLUSIVE:
    case MODE_COUNT:
        break;
    }
    return HOLDFAST__V1__MODE__EXCLUSIVE;
}

/* Both enums have the same names in the same order. */
#define SAME(symbol)                                                            \
    _Static_assert((int)REASON_##symbol == (int)HOLDFAST__V1__REASON__##symbol, \
                   "lock.proto and result.h differ")
_Static_assert((int)REASON_NONE == (int)HOLDFAST__V1__REASON__OK, "lock.proto and result.h differ");
SAME(HELD);
SAME(TIMEOUT);
SAME(DELAYED);
SAME(DEADLOCK);
SAME(ALREADY_HELD);
SAME(MODE_MISMATCH);
SAME(LIMIT_MISMATCH);
SAME(PERMITS_EXCEED_LIMIT);
SAME(SUPERSEDED);
SAME(CANCELLED);
SAME(DETACHED);
SAME(SESSION_ENDED);
SAME(NOT_OWNER);
SAME(ALREADY_RELEASED);
SAME(EXPIRED);
SAME(NOT_WAITING);
SAME(BELOW_FLOOR);
SAME(STALE_TOKEN);
SAME(CONFLICT);
SAME(WRONG_KIND);
SAME(NOT_ISSUED);
SAME(DENIED);
_Static_assert((int)REASON_COUNT == (int)HOLDFAST__V1__REASON__DENIED + 1,
               "lock.proto does not know every reason");

Holdfast__V1__Reason rpc_reason_out(enum reason reason)
{
    return (Holdfast__V1__Reason)reason;
}

Google__Protobuf__Timestamp *rpc_since(const struct service *s, uint64_t since_ms,
                                       uint64_t since_wall_ms)
{
    uint64_t wall_ms = reply_since_ms(s, since_ms, since_wall_ms);
    return wall_ms == 0 ? NULL : rpc_time(s, wall_ms);
}

Holdfast__V1__Holder *rpc_holder(const struct service *s, const struct holder_view *holder)
{
    Holdfast__V1__Holder *out = rpc_alloc(s, sizeof(*out));
    holdfast__v1__holder__init(out);
    out->client_id = rpc_string(s, holder->client);
    out->owner = rpc_string(s, holder->owner);
    out->mode = rpc_mode_out(holder->mode);
    out->permits = holder->permits;
    out->since = rpc_since(s, holder->since_ms, holder->since_wall_ms);
    out->expires_at = rpc_when(s, holder->deadline_ms);
    out->expires_in = rpc_left(s, holder->deadline_ms);
    out->metadata = rpc_string(s, holder->metadata);
    out->trace = rpc_string(s, holder->trace);
    return out;
}

uint64_t rpc_epoch(const struct service *s)
{
    return reply_epoch(s);
}

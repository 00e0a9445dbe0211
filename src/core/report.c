/* Events, and the parts of results that describe holders and queues. */
#include "core/state.h"

const char *reason_name(enum reason reason)
{
    static const char *const names[REASON_COUNT] = {
#define X(symbol, word) word,
        REASON_LIST(X)
#undef X
    };
    hf_assert((unsigned)reason < REASON_COUNT);
    return names[reason];
}

const char *ended_name(enum ended ended)
{
    static const char *const names[ENDED_COUNT] = {
#define X(symbol, word) word,
        ENDED_LIST(X)
#undef X
    };
    hf_assert((unsigned)ended < ENDED_COUNT);
    return names[ended];
}

const char *event_name(enum event_type type)
{
    static const char *const names[EVENT_COUNT] = {"none",
#define X(symbol, name) #name,
                                                   EVENT_LIST(X)
#undef X
    };
    hf_assert((unsigned)type < EVENT_COUNT);
    return names[type];
}

void event_emit(struct core *c, struct event *event)
{
    hf_assert((unsigned)event->type < EVENT_COUNT && event->part <= event->parts);
    event->index = c->index;
    event->ordinal = c->ordinal++;
    event->at_ms = c->now_ms;
    event->wall_ms = core_wall_ms(c, c->now_ms);
    if (c->on_event != NULL) {
        c->on_event(c->event_ctx, event);
    }
}

struct slice grant_trace(const struct core *c, const struct grant *g)
{
    if (g->detail == 0) { /* parts of a multi-lock have one */
        return slice_make(NULL, 0);
    }
    const struct detail *d = grant_detail(c, grant_head(c, g));
    return blob_slice(c, d == NULL ? 0 : d->carried.trace);
}

struct slice grant_trace_copy(const struct core *c, const struct grant *g,
                              uint8_t bytes[LIMIT_TRACE])
{
    struct slice trace = grant_trace(c, g);
    if (trace.len > 0) {
        memcpy(bytes, trace.data, trace.len);
    }
    return slice_make(bytes, trace.len);
}

void event_about_grant(const struct core *c, const struct grant *g, struct event *out)
{
    const struct lock *l = lock_at(c, g->lock);
    const struct session *s = session_at(c, g->session);
    out->tenant = l->tenant;
    out->name = lock_name(l);
    out->mode = (enum mode)l->mode;
    out->token = g->token;
    out->slot = g->slot;
    out->session = s->is_private ? (struct id){0, 0} : s->id;
    out->lease = grant_lease(c, g);
    out->client = session_client(s);
    out->owner = grant_owner(g);
    out->since_ms = g->since_ms;
    out->since_wall_ms = core_wall_ms(c, g->since_ms);
    out->part = 1;
    out->parts = 1;
}

void event_set_part(const struct core *c, ref grant, struct event *out)
{
    out->part = 1;
    out->parts = grant_parts(c, grant_at(c, grant));
    while (grant_part(c, grant, out->part - 1) != grant) {
        out->part++;
    }
}

void event_about_waiter(const struct core *c, const struct waiter *w, struct event *out)
{
    const struct session *s = session_at(c, w->session);
    out->tenant = s->tenant;
    out->mode = (enum mode)w->mode;
    out->session = s->is_private ? (struct id){0, 0} : s->id;
    out->lease = w->lease;
    out->client = session_client(s);
    out->owner = waiter_owner(w);
    out->trace = blob_slice(c, w->carried.trace);
    out->node = w->node;
    out->attachment = w->attachment;
    out->deadline_ms = w->wait_deadline_ms;
    hf_assert(w->kind == KIND_WAITER && w->parts >= 1);
    out->name = lock_name(lock_at(c, place_at(c, w->places)->lock));
    out->part = 1;
    out->parts = w->parts;
}

void holder_view_fill(const struct core *c, const struct grant *g, struct holder_view *out)
{
    const struct session *s = session_at(c, g->session);
    const struct detail *d = grant_detail(c, grant_head(c, g));
    const struct lock *l = lock_at(c, g->lock);
    *out = (struct holder_view){
        .client = session_client(s),
        .owner = grant_owner(g),
        .metadata = blob_slice(c, d == NULL ? 0 : d->carried.metadata),
        .mode = (enum mode)l->mode,
        .permits = g->permits,
        .since_ms = g->since_ms,
        .deadline_ms = grant_deadline(c, g),
        .trace = grant_trace(c, g),
        .since_wall_ms = core_wall_ms(c, g->since_ms),
    };
}

void result_from_grant(const struct core *c, ref grant, struct result *out)
{
    ref first = grant_first_part(c, grant);
    const struct grant *g = grant_at(c, first);
    hf_assert(g->kind == KIND_GRANT && g->depth >= 1);
    out->mode = (enum mode)lock_at(c, g->lock)->mode;
    out->token = g->token;
    out->lease = grant_lease(c, g);
    out->deadline_ms = grant_deadline(c, g);
    out->ttl_ms = grant_ttl(c, g);
    out->hold_until_ms = grant_hold_until(c, g);
    out->slot = g->slot;
    out->depth = g->depth;
}

struct slice reserved_for(const struct core *c, const struct lock *l)
{
    const struct lock_extra *x = lock_extra_get(c, l);
    if (l->holders != 0 || x == NULL || x->cursor == 0 || x->delayed_until_ms > c->now_ms) {
        return slice_make(NULL, 0);
    }
    const struct waiter *w = waiter_at(c, place_at(c, x->cursor)->waiter);
    return session_client(session_at(c, w->session));
}

/* The blocking holder, for a refusal or a waiter. */
void result_holder(const struct core *c, ref lock, struct result *out)
{
    const struct lock *l = lock_at(c, lock);
    const struct lock_extra *x = lock_extra_get(c, l);
    out->name = lock_name(l);
    out->mode = (enum mode)l->mode;
    out->holders = lock_holders(c, l);
    out->has_holder = l->holders != 0;
    if (l->holders != 0) {
        ref first = RING_FIRST(c, l->holders, grant, in_lock);
        holder_view_fill(c, grant_at(c, first), &out->holder);
    }
    if (x != NULL) {
        out->queue_length = x->queue_length;
        out->delayed_until_ms = x->delayed_until_ms > c->now_ms ? x->delayed_until_ms : 0;
        out->reserved_for = reserved_for(c, l);
    }
}

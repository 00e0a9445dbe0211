/* Writes the canonical snapshot in a forked child: allocates nothing, changes nothing, and passes
 * the bytes to the sink in pieces.
 *
 * It writes exactly what a later output depends on. By object of core/state.h:
 *
 *   core        The replicated scalars. Reading counts grants and waiters again. ordinal, the steps
 *               and prune_left belong to an entry or to this process; alive and cycle are scratch.
 *   tables      Derived; the order of chains affects no output.
 *   tenant      Its memories, in the order of insertion, and the numbers that do not follow from
 *               them. Its usage follows from the objects.
 *   timers      The deadline in the heap of a session, grant or waiter: it may be early, and such
 *               visits count against the sweep's bounds. A delayed name is always in the heap at
 *               the end of its delay, the waiters of a gone node at `until_ms`.
 *   session     Everything; `entries` and `unacked` are counted. An empty extra is written too:
 *               stream_down depends on its existence. core->purge_at is a flag of its session.
 *   policy      Everything, by number; the other orders and the counts follow.
 *   grant       Everything. HAS_LEASE: the session is real. Later parts of a multi-lock differ from
 *               the first only in the name.
 *   detail      Created when one of its fields needs it. Its existence matters only for a renewal,
 *               which stores its time in it. That time counts only with a TTL of its own, so it is
 *               written only then. Membership in core->tokens follows from mode and parts. The
 *               flags and `changes` of a key are at the end of its record.
 *   group       Follows from the parts, which are adjacent in the session's ring.
 *   lock        Mode and limit are written with each grant, place, delay and woken name. A name
 *               that is only waited for has the mode of its last holder, which does not follow
 *               from the waiters. `holders` follows from the grants: the ring is by token.
 *   lock_extra  Its existence is written with the exclusive holder: releasing a lock with an extra
 *               wakes it, which takes a step of the wake budget. The queue follows from the
 *               tickets. The cursor is written with its place: it decides the steps of the next
 *               wake, and is visible in `reserved_for`. `slots` follow from the holders;
 *               `slots_from` only shortens a search.
 *   waiter      Everything. The lease of a private one is its session's id. Its place in the ring
 *               of its node follows from its attachment number, in the queues from its ticket.
 *   node_waiters
 *               Everything; `waiters` follows from the waiters, the timer from `until_ms`.
 *   request     By id: with its waiter or grant while there is one, else in the order of
 *               completion, each kind separately; `strays` follows. Session and scope of a request
 *               with a target are those of its session. By seq: with its session. A request with a
 *               target has no answer yet.
 *   wall rows, long-held rules, sinks: everything, since version 7.
 *   ended, fence marks, audit, counters, transactions: everything, in the order of their rings. */
#include "core/snapshot.h"

#include "core/snapshot_record.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { BUFFER_BYTES = 2 * SNAPSHOT_RECORD_MAX };

struct out {
    const struct core *c;
    snapshot_sink_fn sink;
    void *ctx;
    bool stopped;
    uint64_t records;
    size_t used;
    XXH3_state_t hash;
    uint8_t buffer[BUFFER_BYTES];
};

static void flush(struct out *o)
{
    if (o->used > 0 && !o->stopped) {
        XXH3_64bits_update(&o->hash, o->buffer, o->used);
        o->stopped = !o->sink(o->ctx, o->buffer, o->used);
    }
    o->used = 0;
}

/* Leaves space for the longest length; the end moves the record up. */
static struct writer record_begin(struct out *o, enum record_type type)
{
    size_t need = SNAPSHOT_LENGTH_BYTES + SNAPSHOT_RECORD_MAX;
    if (BUFFER_BYTES - o->used < need) {
        flush(o);
    }
    struct writer w = writer_make(o->buffer + o->used + SNAPSHOT_LENGTH_BYTES, SNAPSHOT_RECORD_MAX);
    write_u8(&w, (uint8_t)type);
    return w;
}

static void record_end(struct out *o, const struct writer *w)
{
    hf_assert(!w->full);
    uint8_t *body = o->buffer + o->used + SNAPSHOT_LENGTH_BYTES;
    size_t len = (size_t)(w->at - body);
    struct writer prefix = writer_make(o->buffer + o->used, SNAPSHOT_LENGTH_BYTES);
    write_u64(&prefix, len);
    memmove(prefix.at, body, len);
    o->used = (size_t)(prefix.at - o->buffer) + len;
    o->records++;
}

static void write_fixed32(struct writer *w, uint32_t value)
{
    for (unsigned i = 0; i < 4; i++) {
        write_u8(w, (uint8_t)(value >> (8 * i)));
    }
}

static void put_header(struct out *o)
{
    struct writer w = writer_make(o->buffer, SNAPSHOT_HEADER_BYTES);
    write_bytes(&w, SNAPSHOT_MAGIC, SNAPSHOT_MAGIC_BYTES);
    write_fixed32(&w, snapshot_format_of(o->c->version));
    write_fixed32(&w, o->c->version);
    hf_assert(!w.full);
    o->used = SNAPSHOT_HEADER_BYTES;
}

static void put_state(struct out *o)
{
    const struct core *c = o->c;
    struct writer w = record_begin(o, RECORD_STATE);
    write_u64(&w, c->index);
    write_u64(&w, c->now_ms);
    write_u64(&w, c->wall_ms);
    write_u64(&w, c->counter);
    write_u64(&w, c->epoch);
    write_u64(&w, c->ticket);
    write_u64(&w, c->attachment);
    write_u64(&w, c->node_waiters_number);
    write_u64(&w, c->own.audit_number);
    write_u64(&w, c->own.fence_floor);
    write_u64(&w, c->own.fence_rejections);
    if (snapshot_format_of(c->version) > 1) {
        write_u64(&w, c->counter_change);
    }
    write_u8(&w, c->backlog);
    write_u8(&w, snapshot_magnitude(table_count(&c->sessions)));
    write_u8(&w, snapshot_magnitude(table_count(&c->locks)));
    write_u8(&w, snapshot_magnitude(table_count(&c->leases)));
    if (c->version >= TENANT_VERSION) {
        write_u64(&w, c->fence_base);
    }
    record_end(o, &w);
}

static void put_node_waiters(struct out *o)
{
    const struct core *c = o->c;
    RING_EACH(c, obj, c->all_node_waiters, node_waiters, all)
    {
        const struct node_waiters *node_waiters = node_waiters_at(c, obj);
        struct writer w = record_begin(o, RECORD_NODE_WAITERS);
        write_u64(&w, node_waiters->number);
        write_u64(&w, node_waiters->node);
        write_u8(&w, node_waiters->gone);
        if (node_waiters->gone) {
            write_u64(&w, node_waiters->until_ms);
        }
        record_end(o, &w);
    }
}

static void put_revisits(struct out *o)
{
    const struct core *c = o->c;
    RING_EACH(c, obj, c->revisits, node_waiters, revisited)
    {
        const struct node_waiters *node_waiters = node_waiters_at(c, obj);
        struct writer w = record_begin(o, RECORD_REVISIT);
        write_u64(&w, node_waiters->number);
        write_u64(&w, waiter_at(c, node_waiters->revisit)->attachment);
        record_end(o, &w);
    }
}

static void put_answer(struct writer *w, const struct request *r)
{
    write_u8(w, r->outcome);
    write_u8(w, r->reason);
    write_u8(w, r->ended);
    write_u8(w, r->accepted);
    write_u64(w, r->count);
    write_u64(w, r->depth);
    write_id(w, r->lease);
    write_u64(w, r->token);
    write_u64(w, r->deadline_ms);
    write_u64(w, r->highest);
}

static void put_reply(struct out *o, const struct request *r)
{
    struct writer w = record_begin(o, RECORD_REPLY);
    write_u64(&w, r->seq);
    write_u8(&w, r->type);
    write_u8(&w, r->state);
    write_fixed64(&w, r->digest);
    if (r->state == REQUEST_DONE) {
        put_answer(&w, r);
    }
    record_end(o, &w);
}

static struct tie tie_of(const struct core *c, ref request)
{
    if (request == 0) {
        return (struct tie){.kind = TIED_TO_NONE};
    }
    const struct request *r = request_at(c, request);
    if (r->id_len == 0) {
        return (struct tie){.kind = TIED_BY_SEQ, .seq = r->seq};
    }
    return (struct tie){.kind = TIED_BY_ID,
                        .id = slice_make(r->text + r->scope_len, r->id_len),
                        .digest = r->digest};
}

static void put_done_requests(struct out *o, const struct tenant *t, enum record_type type,
                              enum done_kind where)
{
    const struct core *c = o->c;
    const struct recent *memory = &t->done_requests[where];
    for (uint32_t i = 0; i < recent_count(memory); i++) {
        const struct request *r = request_at(c, recent_at(memory, i));
        struct writer w = record_begin(o, type);
        write_u64(&w, r->tenant);
        write_u8(&w, r->type);
        write_id(&w, r->session);
        write_slice(&w, slice_make(r->text, r->scope_len));
        write_slice(&w, slice_make(r->text + r->scope_len, r->id_len));
        write_fixed64(&w, r->digest);
        put_answer(&w, r);
        if (where == DONE_OF_OPERATORS) {
            write_u64(&w, r->done_ms);
        }
        if (c->version >= POLICY_VERSION) {
            write_u64(&w, r->principal);
        }
        record_end(o, &w);
    }
}

static uint32_t limit_of(const struct core *c, const struct lock *l)
{
    return l->mode == MODE_SEMAPHORE ? lock_extra_at(c, l->extra)->limit : 0;
}

static void put_part(struct out *o, const struct grant *g)
{
    const struct core *c = o->c;
    const struct lock *l = lock_at(c, g->lock);
    struct writer w = record_begin(o, RECORD_PART);
    write_u8(&w, (uint8_t)((l->extra != 0 ? GRANT_LOCK_HAS_EXTRA : 0) |
                           (g->flags & GRANT_IS_LONG_HELD ? PART_WAS_LONG_HELD : 0)));
    write_slice(&w, lock_name(l));
    record_end(o, &w);
}

static uint32_t grant_record_flags(const struct grant *g, const struct lock *l,
                                   const struct detail *d, bool has_life, unsigned tie)
{
    return (d->hold_until_ms != 0 ? GRANT_HAS_MAX_HOLD : 0u) |
           (g->flags & GRANT_IS_LONG_HELD ? GRANT_WAS_LONG_HELD : 0u) |
           (l->extra != 0 ? GRANT_LOCK_HAS_EXTRA : 0u) | (has_life ? GRANT_HAS_LIFE : 0u) |
           (d->revoke_at_ms != 0 ? GRANT_HAS_REVOKE : 0u) | (d->timer != 0 ? GRANT_HAS_TIMER : 0u) |
           tie << GRANT_REQUEST_SHIFT;
}

static void put_grant(struct out *o, ref obj)
{
    static const struct detail none;
    const struct core *c = o->c;
    const struct grant *g = grant_at(c, obj);
    const struct lock *l = lock_at(c, g->lock);
    const struct detail *d = g->detail == 0 ? &none : detail_at(c, g->detail);
    bool has_life = d->ttl_ms != 0 && d->life_ms != g->since_ms;
    struct tie tie = tie_of(c, d->request);
    struct grant_record f = {
        .head = {l->mode, grant_record_flags(g, l, d, has_life, tie.kind)},
        .is_private = (g->flags & GRANT_HAS_LEASE) == 0,
        .name = lock_name(l),
        .token = g->token,
        .since_ms = g->since_ms,
        .parts = grant_parts(c, g),
        .depth = g->depth,
        .delay_ms = g->delay_ms,
        .owner = grant_owner(g),
        .lease = grant_lease(c, g),
        .limit = limit_of(c, l),
        .permits = g->permits,
        .slot = g->slot,
        .ttl_ms = d->ttl_ms,
        .carried = carried_slices(c, &d->carried),
        .life_ms = d->life_ms,
        .revoke_at_ms = d->revoke_at_ms,
        .revoke_record = d->revoke_record,
        .timer_ms = d->timer != 0 ? timer_at(c, obj) : UINT64_MAX,
        .tie = tie,
        .key = {(uint8_t)(g->flags & GRANT_KEY_FLAGS), d->changes},
        .hold_until_ms = d->hold_until_ms,
    };
    struct writer w = record_begin(o, RECORD_GRANT);
    grant_record_write(&w, c->version, &f);
    record_end(o, &w);
}

static uint32_t waiter_record_flags(const struct waiter *waiter, unsigned tie)
{
    return (waiter->wait_deadline_ms != UINT64_MAX ? WAITER_HAS_DEADLINE : 0u) |
           (waiter->detached_until_ms != 0 ? WAITER_IS_DETACHED : 0u) |
           (waiter->timer != 0 ? WAITER_HAS_TIMER : 0u) | tie << WAITER_REQUEST_SHIFT;
}

static void put_waiter(struct out *o, ref obj)
{
    const struct core *c = o->c;
    const struct waiter *waiter = waiter_at(c, obj);
    bool is_private = waiter->node_waiters != 0;
    struct tie tie = tie_of(c, waiter->request);
    struct waiter_record f = {
        .head = {waiter->mode, waiter_record_flags(waiter, tie.kind)},
        .is_private = is_private,
        .acquire_flags = waiter->flags,
        .ticket = waiter->ticket,
        .attachment = waiter->attachment,
        .node = waiter->node,
        .ttl_ms = waiter->ttl_ms,
        .delay_ms = waiter->delay_ms,
        .owner = waiter_owner(waiter),
        .carried = carried_slices(c, &waiter->carried),
        .node_waiters_number = is_private ? node_waiters_at(c, waiter->node_waiters)->number : 0,
        .lease = waiter->lease,
        .limit = waiter->limit,
        .permits = waiter->permits,
        .wait_deadline_ms = waiter->wait_deadline_ms,
        .detached_until_ms = waiter->detached_until_ms,
        .timer_ms = waiter->timer != 0 ? timer_at(c, obj) : UINT64_MAX,
        .tie = tie,
        .parts = waiter->parts,
        .since_ms = waiter->since_ms,
        .max_hold_ms = waiter->max_hold_ms,
    };
    struct writer w = record_begin(o, RECORD_WAITER);
    waiter_record_write(&w, c->version, &f);
    for (ref p = waiter->places; p != 0; p = place_at(c, p)->sibling) {
        const struct lock *l = lock_at(c, place_at(c, p)->lock);
        bool is_cursor = lock_extra_at(c, l->extra)->cursor == p;
        write_slice(&w, lock_name(l));
        record_head_write(&w, c->version,
                          &(struct record_head){l->mode, is_cursor ? PLACE_IS_CURSOR : 0});
    }
    record_end(o, &w);
}

static void put_session(struct out *o, ref obj)
{
    static const struct session_extra none;
    const struct core *c = o->c;
    const struct session *s = session_at(c, obj);
    const struct session_extra *x = s->extra == 0 ? &none : session_extra_at(c, s->extra);
    struct session_record f = {
        .flags = (s->is_private ? SESSION_IS_PRIVATE : 0u) |
                 (s->timer != 0 ? SESSION_HAS_TIMER : 0u) |
                 (s->extra != 0 ? SESSION_HAS_EXTRA : 0u) |
                 (c->purge_at == obj ? SESSION_IS_PURGE_CURSOR : 0u),
        .tenant = s->tenant,
        .principal = s->principal,
        .id = s->id,
        .client = session_client(s),
        .ttl_ms = s->ttl_ms,
        .life_ms = s->life_ms,
        .timer_ms = s->timer != 0 ? timer_at(c, obj) : UINT64_MAX,
        .acked_through = x->acked_through,
        .stream = x->stream,
        .linger_ms = x->linger_ms,
        .lingers_until_ms = x->lingers_until_ms,
        .node = x->node,
        .metadata = blob_slice(c, x->metadata),
    };
    struct writer w = record_begin(o, RECORD_SESSION);
    session_record_write(&w, c->version, &f);
    record_end(o, &w);
    RING_EACH(c, reply, x->replies, request, ring)
    {
        put_reply(o, request_at(c, reply));
    }
}

static void put_sessions(struct out *o)
{
    const struct core *c = o->c;
    RING_EACH(c, obj, c->all_sessions, session, all)
    {
        const struct session *s = session_at(c, obj);
        put_session(o, obj);
        RING_EACH(c, held, s->holds, grant, in_session)
        {
            if (grant_first_part(c, held) == held) {
                put_grant(o, held);
            } else {
                put_part(o, grant_at(c, held));
            }
        }
        RING_EACH(c, waiting, s->waits, waiter, in_session)
        {
            put_waiter(o, waiting);
        }
        if (o->stopped) {
            return;
        }
    }
}

static void put_name(struct writer *w, const struct core *c, const struct lock_extra *x)
{
    const struct lock *l = lock_at(c, x->lock);
    write_u64(w, l->tenant);
    write_slice(w, lock_name(l));
    write_u8(w, l->mode);
    write_u64(w, limit_of(c, l));
}

static void put_delayed_and_woken(struct out *o)
{
    const struct core *c = o->c;
    RING_EACH(c, obj, c->delayed, lock_extra, delayed)
    {
        const struct lock_extra *x = lock_extra_at(c, obj);
        struct writer w = record_begin(o, RECORD_DELAYED);
        put_name(&w, c, x);
        write_u64(&w, x->delayed_until_ms);
        record_end(o, &w);
    }
    RING_EACH(c, obj, c->woken, lock_extra, woken)
    {
        struct writer w = record_begin(o, RECORD_WOKEN);
        put_name(&w, c, lock_extra_at(c, obj));
        record_end(o, &w);
    }
}

static void put_ended_grants(struct out *o, const struct tenant *t)
{
    const struct core *c = o->c;
    for (uint32_t i = 0; i < recent_count(&t->ended_grants); i++) {
        const struct ended_grant *e = ended_grant_at(c, recent_at(&t->ended_grants, i));
        struct writer w = record_begin(o, RECORD_ENDED_GRANT);
        write_u64(&w, e->tenant);
        write_u8(&w, e->how);
        write_u64(&w, e->token);
        write_id(&w, e->lease);
        record_end(o, &w);
    }
}

static void put_ended_sessions(struct out *o, const struct tenant *t)
{
    const struct core *c = o->c;
    RING_EACH(c, obj, t->ended_sessions, ended_session, ring)
    {
        const struct ended_session *e = ended_session_at(c, obj);
        struct writer w = record_begin(o, RECORD_ENDED_SESSION);
        write_u64(&w, e->tenant);
        write_u8(&w, e->how);
        write_id(&w, e->id);
        record_end(o, &w);
    }
}

static void put_fences(struct out *o, const struct tenant *t)
{
    const struct core *c = o->c;
    RING_EACH(c, obj, t->fence_marks, fence_mark, ring)
    {
        const struct fence_mark *f = fence_mark_at(c, obj);
        struct writer w = record_begin(o, RECORD_FENCE);
        write_u64(&w, f->tenant);
        write_slice(&w, slice_make(f->name, f->name_len));
        write_u64(&w, f->slot);
        write_u64(&w, f->token);
        record_end(o, &w);
    }
}

static void put_audit(struct out *o, const struct tenant *t)
{
    const struct core *c = o->c;
    RING_EACH(c, obj, t->audit, audit_record, ring)
    {
        const struct audit_record *a = audit_record_at(c, obj);
        struct audit_fields f = {
            .number = a->number,
            .index = a->index,
            .wall_ms = a->wall_ms,
            .tenant = a->tenant,
            .action = (uint8_t)(a->action | (a->is_note ? AUDIT_IS_NOTE : 0)),
            .count = a->count,
            .resource = audit_text(a, AUDIT_RESOURCE),
            .actor = audit_text(a, AUDIT_ACTOR),
            .reason = audit_text(a, AUDIT_REASON),
            .trace = audit_text(a, AUDIT_TRACE),
            .slot = a->slot,
            .mark_before = a->mark_before,
            .mark_after = a->mark_after,
        };
        struct writer w = record_begin(o, RECORD_AUDIT);
        audit_fields_write(&w, c->version, &f);
        record_end(o, &w);
    }
}

static void put_counters(struct out *o, const struct tenant *t)
{
    const struct core *c = o->c;
    RING_EACH(c, obj, t->counters, counter, ring)
    {
        const struct counter *n = counter_at(c, obj);
        struct writer w = record_begin(o, RECORD_COUNTER);
        write_u64(&w, n->tenant);
        write_slice(&w, counter_name(n));
        write_fixed64(&w, (uint64_t)n->number);
        write_u64(&w, n->change);
        if (c->version >= 4) {
            write_u64(&w, n->deadline_ms);
        }
        record_end(o, &w);
    }
}

static void put_transacts(struct out *o, const struct tenant *t)
{
    const struct core *c = o->c;
    for (uint32_t i = 0; i < recent_count(&t->transacts); i++) {
        const struct done_transact *d = done_transact_at(c, recent_at(&t->transacts, i));
        struct writer w = record_begin(o, RECORD_TRANSACT);
        write_u64(&w, d->tenant);
        write_id(&w, d->id);
        write_fixed64(&w, d->digest);
        write_u8(&w, d->outcome);
        write_u8(&w, d->reason);
        write_u64(&w, d->count);
        write_u64(&w, d->token);
        write_u64(&w, d->deadline_ms);
        record_end(o, &w);
    }
}

static void put_requests(struct out *o, const struct tenant *t)
{
    put_done_requests(o, t, RECORD_REQUEST, DONE_OF_CLIENTS);
}

static void put_drawn_requests(struct out *o, const struct tenant *t)
{
    put_done_requests(o, t, RECORD_DRAWN_REQUEST, DONE_DRAWN);
}

static void put_operator_requests(struct out *o, const struct tenant *t)
{
    put_done_requests(o, t, RECORD_OPERATOR_REQUEST, DONE_OF_OPERATORS);
}

/* The numbers of a tenant other than 0, if they differ from those of a new one. */
static void put_tenant(struct out *o, const struct tenant *t)
{
    if (t->number == 0 || o->c->version < TENANT_VERSION ||
        (t->audit_number == 0 && t->fence_floor == o->c->fence_base && t->fence_rejections == 0)) {
        return;
    }
    struct writer w = record_begin(o, RECORD_TENANT);
    write_u64(&w, t->number);
    write_u64(&w, t->audit_number);
    write_u64(&w, t->fence_floor);
    write_u64(&w, t->fence_rejections);
    record_end(o, &w);
}

static void put_policy_record(void *ctx, enum policy_record_kind kind, const void *row)
{
    struct out *o = ctx;
    struct writer w = record_begin(o, RECORD_POLICY);
    policy_record_write(&w, o->c->policy, kind, row);
    record_end(o, &w);
}

static void put_policy(struct out *o)
{
    if (o->c->version >= POLICY_VERSION) {
        policy_each_record(o->c->policy, put_policy_record, o);
    }
}

static void put_wall_rows(struct out *o)
{
    const struct core *c = o->c;
    for (uint32_t i = 0; i < c->wall_row_count; i++) {
        struct writer w = record_begin(o, RECORD_WALL_ROW);
        write_u64(&w, c->wall_rows[i].cluster_ms);
        write_u64(&w, c->wall_rows[i].wall_ms);
        record_end(o, &w);
    }
}

static void put_alerts(struct out *o)
{
    TENANT_EACH(o->c, t)
    {
        for (uint32_t i = 0; i < t->alert_count; i++) {
            struct writer w = record_begin(o, RECORD_ALERT);
            write_u64(&w, t->number);
            write_slice(&w, alert_prefix(t->alerts[i]));
            write_u64(&w, t->alerts[i]->held_ms);
            record_end(o, &w);
        }
    }
}

static void put_sinks(struct out *o)
{
    const struct core *c = o->c;
    for (uint32_t i = 0; i < c->sink_count; i++) {
        const struct sink *s = &c->sinks[i];
        struct writer w = record_begin(o, RECORD_SINK);
        write_slice(&w, slice_make(s->name, s->name_len));
        write_u64(&w, s->index);
        write_u64(&w, s->ordinal);
        record_end(o, &w);
    }
}

/* What is remembered: by type, then by tenant. */
static void put_memories(struct out *o)
{
    static void (*const puts[])(struct out *, const struct tenant *) = {
        put_requests,  put_ended_grants,   put_ended_sessions,
        put_fences,    put_audit,          put_counters,
        put_transacts, put_drawn_requests, put_operator_requests,
        put_tenant};
    for (size_t i = 0; i < sizeof(puts) / sizeof(puts[0]); i++) {
        TENANT_EACH(o->c, t)
        {
            puts[i](o, t);
        }
    }
}

bool snapshot_write(const struct core *core, snapshot_sink_fn sink, void *ctx)
{
    hf_assert(core != NULL && sink != NULL);
    struct out o;
    o.c = core;
    o.sink = sink;
    o.ctx = ctx;
    o.stopped = false;
    o.records = 0;
    XXH3_64bits_reset(&o.hash);
    put_header(&o);
    put_state(&o);
    put_node_waiters(&o);
    put_sessions(&o);
    put_revisits(&o);
    put_delayed_and_woken(&o);
    put_memories(&o);
    put_policy(&o);
    put_wall_rows(&o);
    put_alerts(&o);
    put_sinks(&o);
    uint64_t before = o.records;
    uint8_t end = snapshot_end_of(snapshot_format_of(core->version));
    struct writer w = record_begin(&o, (enum record_type)end);
    write_u64(&w, before);
    record_end(&o, &w);
    flush(&o);
    if (o.stopped) {
        return false;
    }
    uint8_t checksum[SNAPSHOT_CHECKSUM_BYTES];
    w = writer_make(checksum, sizeof(checksum));
    write_fixed64(&w, XXH3_64bits_digest(&o.hash));
    return sink(ctx, checksum, sizeof(checksum));
}

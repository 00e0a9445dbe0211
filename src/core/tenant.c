/* Shares of tenants (S14.3): creating, finding and counting them, and moving what is remembered to
 * them when the version rises. */
#include "core/state.h"

static const struct tenant nobody; /* what a tenant without a share has */

static struct tenant *tenant_at(const struct core *c, ref obj)
{
    hf_assert(obj != 0);
    return pool_at(&c->pool, obj);
}

static uint32_t hash_number(const struct core *c, uint32_t number)
{
    return hash_token(c, number);
}

uint32_t tenant_hash(const void *ctx, const void *object)
{
    return hash_number(ctx, ((const struct tenant *)object)->number);
}

static bool fence_before(const void *ctx, ref a, ref b)
{
    const struct core *c = ctx;
    const struct fence_mark *x = fence_mark_at(c, a);
    const struct fence_mark *y = fence_mark_at(c, b);
    if (x->tenant != y->tenant) {
        return x->tenant < y->tenant;
    }
    int order = slice_compare(slice_make(x->name, x->name_len), slice_make(y->name, y->name_len));
    return order != 0 ? order < 0 : x->slot < y->slot;
}

static void fence_moved(void *ctx, ref obj, uint32_t position)
{
    fence_mark_at(ctx, obj)->position = position;
}

void tenant_init(struct core *c, struct tenant *t, uint32_t number)
{
    static const struct heap_ops fence_ops = {fence_before, fence_moved};
    t->number = number;
    t->fence_floor = c->fence_base;
    recent_init(&t->done_requests[DONE_OF_CLIENTS], c->memory, LIMIT_REQUESTS, 1);
    recent_init(&t->done_requests[DONE_DRAWN], c->memory, LIMIT_DRAWN_REQUESTS, 1);
    recent_init(&t->done_requests[DONE_OF_OPERATORS], c->memory, LIMIT_OPERATOR_REQUESTS, 1);
    recent_init(&t->transacts, c->memory, LIMIT_TRANSACTS, 1);
    recent_init(&t->ended_grants, c->memory, LIMIT_ENDED, 2);
    heap_init(&t->fence_heap, c->memory, &fence_ops, c);
}

void tenant_close(struct core *c, struct tenant *t)
{
    for (unsigned i = 0; i < DONE_KINDS; i++) {
        recent_close(&t->done_requests[i]);
    }
    recent_close(&t->transacts);
    recent_close(&t->ended_grants);
    heap_close(&t->fence_heap);
    alerts_free(c, t);
    if (t->audit_at != NULL) {
        memory_free(c->memory, t->audit_at, sizeof(ref) * LIMIT_AUDIT);
    }
}

uint64_t tenant_overhead(const struct tenant *t)
{
    uint64_t bytes = heap_bytes(&t->fence_heap) + recent_bytes(&t->transacts) +
                     recent_bytes(&t->ended_grants) + alerts_bytes(t) +
                     (t->audit_at != NULL ? sizeof(ref) * LIMIT_AUDIT : 0);
    for (unsigned i = 0; i < DONE_KINDS; i++) {
        bytes += recent_bytes(&t->done_requests[i]);
    }
    return bytes;
}

static struct tenant *find(const struct core *c, uint32_t number)
{
    hf_assert(number != 0);
    ref obj = table_first(&c->tenants, hash_number(c, number));
    while (obj != 0) {
        struct tenant *t = tenant_at(c, obj);
        if (t->number == number) {
            return t;
        }
        obj = t->next;
    }
    return NULL;
}

const struct tenant *tenant_look_other(const struct core *c, uint32_t number)
{
    const struct tenant *t = table_count(&c->tenants) == 0 ? NULL : find(c, number);
    return t == NULL ? &nobody : t;
}

/* In the ring by number. New numbers are mostly the highest. */
static ref place_before(const struct core *c, uint32_t number)
{
    ref before = c->all_tenants;
    while (before != 0 && tenant_at(c, before)->number > number) {
        before = ring_before(&c->pool, c->all_tenants, before, offsetof(struct tenant, all));
    }
    return before;
}

struct tenant *tenant_get_other(struct core *c, uint32_t number)
{
    struct tenant *t = find(c, number);
    if (t == NULL) {
        ref obj = 0;
        t = pool_alloc(&c->pool, sizeof(*t), &obj);
        t->self = obj;
        tenant_init(c, t, number);
        table_insert(&c->tenants, hash_number(c, number), obj);
        ring_insert(&c->pool, &c->all_tenants, place_before(c, number), obj,
                    offsetof(struct tenant, all));
        c->remembered_bytes += pool_rounded(sizeof(*t));
        core_step(c, 1);
    }
    return t;
}

struct tenant *tenant_first(const struct core *c)
{
    return (struct tenant *)&c->own;
}

struct tenant *tenant_after(const struct core *c, const struct tenant *t)
{
    ref next = t->self == 0
                   ? RING_FIRST(c, c->all_tenants, tenant, all)
                   : ring_after(&c->pool, c->all_tenants, t->self, offsetof(struct tenant, all));
    return next == 0 ? NULL : tenant_at(c, next);
}

/* ---- usage ---- */

void tenant_charge_other(struct core *c, uint32_t number)
{
    uint64_t live = core_live(c);
    if (live != c->charged_bytes) {
        struct tenant *t = tenant_get(c, c->charged);
        hf_assert(t->usage.bytes + live >= c->charged_bytes);
        t->usage.bytes += live - c->charged_bytes;
        c->charged_bytes = live;
    }
    c->charged = number;
}

void core_tenant_usage(const struct core *c, uint32_t tenant, struct tenant_usage *out)
{
    hf_assert(out != NULL);
    const struct tenant *t = tenant_look(c, tenant);
    *out = t->usage;
    if (c->charged == tenant) {
        out->bytes += core_live(c) - c->charged_bytes;
    }
}

/* ---- upgrade ---- */

/* Empties a memory; the caller adds what was in it to the memories of its tenants, in the same
 * order, and closes the result. */
static struct recent recent_take(struct core *c, struct recent *from, uint32_t limit,
                                 uint32_t indexes)
{
    struct recent old = *from;
    recent_init(from, c->memory, limit, indexes);
    return old;
}

static bool has_others(const struct core *c)
{
    const struct tenant *t = &c->own;
    for (unsigned where = 0; where < DONE_KINDS; where++) {
        for (uint32_t i = 0; i < recent_count(&t->done_requests[where]); i++) {
            if (request_at(c, recent_at(&t->done_requests[where], i))->tenant != 0) {
                return true;
            }
        }
    }
    for (uint32_t i = 0; i < recent_count(&t->transacts); i++) {
        if (done_transact_at(c, recent_at(&t->transacts, i))->tenant != 0) {
            return true;
        }
    }
    for (uint32_t i = 0; i < recent_count(&t->ended_grants); i++) {
        if (ended_grant_at(c, recent_at(&t->ended_grants, i))->tenant != 0) {
            return true;
        }
    }
#define ANY(ring_of, type)                    \
    RING_EACH(c, obj, t->ring_of, type, ring) \
    {                                         \
        if (type##_at(c, obj)->tenant != 0) { \
            return true;                      \
        }                                     \
    }
    ANY(ended_sessions, ended_session)
    ANY(fence_marks, fence_mark)
    ANY(counters, counter)
    ANY(audit, audit_record)
#undef ANY
    return false;
}

static void move_requests(struct core *c, enum done_kind where, uint32_t limit)
{
    struct recent old = recent_take(c, &c->own.done_requests[where], limit, 1);
    for (uint32_t i = 0; i < recent_count(&old); i++) {
        ref obj = recent_at(&old, i);
        c->remembered_bytes -= pool_rounded(request_size(request_at(c, obj)));
        request_remember(c, tenant_memory(c, request_at(c, obj)->tenant), where, obj);
    }
    recent_close(&old);
}

static void move_transacts(struct core *c)
{
    struct recent old = recent_take(c, &c->own.transacts, LIMIT_TRANSACTS, 1);
    for (uint32_t i = 0; i < recent_count(&old); i++) {
        ref obj = recent_at(&old, i);
        transact_remember(c, obj);
    }
    recent_close(&old);
}

static void move_ended(struct core *c)
{
    struct recent old = recent_take(c, &c->own.ended_grants, LIMIT_ENDED, 2);
    for (uint32_t i = 0; i < recent_count(&old); i++) {
        history_remember(c, recent_at(&old, i));
    }
    recent_close(&old);
    ref ring = c->own.ended_sessions;
    c->own.ended_sessions = 0;
    c->own.ended_session_count = 0;
    while (ring != 0) {
        ref obj = RING_FIRST(c, ring, ended_session, ring);
        struct tenant *t = tenant_memory(c, ended_session_at(c, obj)->tenant);
        RING_REMOVE(c, &ring, obj, ended_session, ring);
        RING_APPEND(c, &t->ended_sessions, obj, ended_session, ring);
        t->ended_session_count++;
    }
}

static void move_fences(struct core *c)
{
    ref ring = c->own.fence_marks;
    c->own.fence_marks = 0;
    c->own.fence_count = 0;
    while (ring != 0) {
        ref obj = RING_FIRST(c, ring, fence_mark, ring);
        struct fence_mark *f = fence_mark_at(c, obj);
        struct tenant *t = tenant_memory(c, f->tenant);
        RING_REMOVE(c, &ring, obj, fence_mark, ring);
        RING_APPEND(c, &t->fence_marks, obj, fence_mark, ring);
        heap_remove(&c->own.fence_heap, f->position);
        heap_insert(&t->fence_heap, f->token, obj);
        t->fence_count++;
    }
}

static void move_counters(struct core *c)
{
    ref ring = c->own.counters;
    c->own.counters = 0;
    c->own.counter_count = 0;
    while (ring != 0) {
        ref obj = RING_FIRST(c, ring, counter, ring);
        struct tenant *t = tenant_memory(c, counter_at(c, obj)->tenant);
        RING_REMOVE(c, &ring, obj, counter, ring);
        RING_APPEND(c, &t->counters, obj, counter, ring);
        t->counter_count++;
    }
}

/* Records keep their numbers, which grants refer to. Tenant 0 continues after the newest of all. */
static void move_audit(struct core *c)
{
    ref ring = c->own.audit;
    if (ring == 0) {
        return;
    }
    c->own.audit = 0;
    c->own.audit_count = 0;
    memset(c->own.audit_at, 0, sizeof(ref) * LIMIT_AUDIT);
    while (ring != 0) {
        ref obj = RING_FIRST(c, ring, audit_record, ring);
        const struct audit_record *a = audit_record_at(c, obj);
        struct tenant *t = tenant_memory(c, a->tenant);
        RING_REMOVE(c, &ring, obj, audit_record, ring);
        c->remembered_bytes -= pool_rounded(audit_size(a));
        t->audit_number = a->number > t->audit_number ? a->number : t->audit_number;
        audit_append(c, t, obj);
    }
}

void tenant_upgrade(struct core *c)
{
    hf_assert(c->version >= TENANT_VERSION && c->token_end == 0);
    /* Every tenant gets the common floor: marks of it may have been dropped. Tokens of tenants that
     * are added later are above it. */
    c->fence_base = c->own.fence_floor;
    TENANT_EACH(c, t)
    {
        t->fence_floor = c->fence_base;
    }
    if (!has_others(c)) {
        return; /* the rule: there was no way to create a tenant */
    }
    c->own.strays = 0;
    move_requests(c, DONE_OF_CLIENTS, LIMIT_REQUESTS);
    move_requests(c, DONE_DRAWN, LIMIT_DRAWN_REQUESTS);
    move_requests(c, DONE_OF_OPERATORS, LIMIT_OPERATOR_REQUESTS);
    move_transacts(c);
    move_ended(c);
    move_fences(c);
    move_counters(c);
    move_audit(c);
}

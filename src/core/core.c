/* Creating and freeing a core; hashes, blobs, timers. */
#include "core/core.h"

#include "core/state.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

_Static_assert(offsetof(struct grant, lease_next) == offsetof(struct waiter, lease_next),
               "grants and waiters share the table of leases");
_Static_assert(sizeof(struct grant) == 64 && offsetof(struct session, client) == 88 &&
                   offsetof(struct lock, name) == 20,
               "the sizes that bench/core counts on");

/* Hashes affect only the place of an object in its table (S2.2). */

uint32_t hash_name(const struct core *c, uint32_t tenant, struct slice name)
{
    return (uint32_t)XXH3_64bits_withSeed(name.data, name.len, c->hash_key + tenant);
}

uint32_t hash_id(const struct core *c, struct id id)
{
    uint64_t words[2] = {id.high, id.low};
    return (uint32_t)XXH3_64bits_withSeed(words, sizeof(words), c->hash_key);
}

uint32_t hash_token(const struct core *c, uint64_t token)
{
    return (uint32_t)XXH3_64bits_withSeed(&token, sizeof(token), c->hash_key);
}

uint32_t hash_fence(const struct core *c, uint32_t tenant, struct slice name, uint32_t slot)
{
    uint64_t seed = c->hash_key + ((uint64_t)slot << 32) + tenant;
    return (uint32_t)XXH3_64bits_withSeed(name.data, name.len, seed);
}

static uint32_t lock_hash(const void *ctx, const void *object)
{
    const struct lock *l = object;
    return hash_name(ctx, l->tenant, lock_name(l));
}

static uint32_t session_hash(const void *ctx, const void *object)
{
    const struct session *s = object;
    return hash_id(ctx, s->id);
}

static uint32_t lease_hash(const void *ctx, const void *object)
{
    const uint8_t *kind = object;
    if (*kind == KIND_WAITER) {
        return hash_id(ctx, ((const struct waiter *)object)->lease);
    }
    hf_assert(*kind == KIND_GRANT);
    return hash_id(ctx, grant_lease(ctx, (const struct grant *)object));
}

static uint32_t detail_hash(const void *ctx, const void *object)
{
    const struct core *c = ctx;
    const struct detail *d = object;
    return hash_token(c, grant_at(c, d->grant)->token);
}

static uint32_t ended_session_hash(const void *ctx, const void *object)
{
    return hash_id(ctx, ((const struct ended_session *)object)->id);
}

static uint32_t fence_hash(const void *ctx, const void *object)
{
    const struct fence_mark *f = object;
    return hash_fence(ctx, f->tenant, slice_make(f->name, f->name_len), f->slot);
}

static uint32_t counter_hash(const void *ctx, const void *object)
{
    const struct counter *n = object;
    return hash_name(ctx, n->tenant, counter_name(n));
}

ref blob_new(struct core *c, struct slice bytes)
{
    if (bytes.len == 0) {
        return 0;
    }
    hf_assert(bytes.data != NULL);
    ref obj = 0;
    struct blob *b = pool_alloc(&c->pool, sizeof(*b) + bytes.len, &obj);
    b->len = (uint32_t)bytes.len;
    memcpy(b->bytes, bytes.data, bytes.len);
    return obj;
}

void blob_free(struct core *c, ref obj)
{
    if (obj != 0) {
        pool_free(&c->pool, obj, sizeof(struct blob) + blob_at(c, obj)->len);
    }
}

struct carried_refs carried_new(struct core *c, const struct carried *from)
{
#define F(role, since, type, name, limit) .name = blob_new(c, from->name),
    return (struct carried_refs){CARRIED_FIELDS(F)};
#undef F
}

void carried_free(struct core *c, const struct carried_refs *refs)
{
#define F(role, since, type, name, limit) blob_free(c, refs->name);
    CARRIED_FIELDS(F)
#undef F
}

struct carried carried_slices(const struct core *c, const struct carried_refs *refs)
{
#define F(role, since, type, name, limit) .name = blob_slice(c, refs->name),
    return (struct carried){CARRIED_FIELDS(F)};
#undef F
}

bool carried_is_empty(const struct carried *carried)
{
#define F(role, since, type, name, limit) &&carried->name.len == 0
    return true CARRIED_FIELDS(F);
#undef F
}

struct slice blob_slice(const struct core *c, ref obj)
{
    if (obj == 0) {
        return slice_make(NULL, 0);
    }
    const struct blob *b = blob_at(c, obj);
    return slice_make(b->bytes, b->len);
}

static enum object_kind kind_of(const struct core *c, ref obj)
{
    return (enum object_kind) * (const uint8_t *)pool_at(&c->pool, obj);
}

static uint32_t *timer_slot(const struct core *c, ref obj)
{
    hf_assert(obj != 0);
    switch (kind_of(c, obj)) {
    case KIND_SESSION:
        return &session_at(c, obj)->timer;
    case KIND_GRANT:
        return &detail_at(c, grant_at(c, obj)->detail)->timer;
    case KIND_WAITER:
        return &waiter_at(c, obj)->timer;
    case KIND_LOCK:
        return &lock_extra_at(c, lock_at(c, obj)->extra)->timer;
    case KIND_NODE_WAITERS:
        return &node_waiters_at(c, obj)->timer;
    case KIND_COUNTER:
        return &counter_at(c, obj)->timer;
    }
    hf_panic(__FILE__, __LINE__, "an object of no kind has a timer");
}

static bool name_before(uint32_t tenant, struct slice name, uint32_t other_tenant,
                        struct slice other)
{
    return tenant != other_tenant ? tenant < other_tenant : slice_compare(name, other) < 0;
}

static bool timer_before(const void *ctx, ref a, ref b)
{
    const struct core *c = ctx;
    enum object_kind kind = kind_of(c, a);
    if (kind != kind_of(c, b)) {
        return kind < kind_of(c, b);
    }
    switch (kind) {
    case KIND_SESSION:
        return id_before(session_at(c, a)->id, session_at(c, b)->id);
    case KIND_GRANT:
        return grant_at(c, a)->token < grant_at(c, b)->token;
    case KIND_WAITER:
        return waiter_at(c, a)->ticket < waiter_at(c, b)->ticket;
    case KIND_LOCK: {
        const struct lock *x = lock_at(c, a);
        const struct lock *y = lock_at(c, b);
        return name_before(x->tenant, lock_name(x), y->tenant, lock_name(y));
    }
    case KIND_NODE_WAITERS:
        return node_waiters_at(c, a)->number < node_waiters_at(c, b)->number;
    case KIND_COUNTER: {
        const struct counter *x = counter_at(c, a);
        const struct counter *y = counter_at(c, b);
        return name_before(x->tenant, counter_name(x), y->tenant, counter_name(y));
    }
    }
    return false;
}

static void timer_moved(void *ctx, ref obj, uint32_t position)
{
    *timer_slot(ctx, obj) = position;
}

static const struct heap_ops timer_ops = {timer_before, timer_moved};

void timer_set(struct core *c, ref obj, uint64_t at_ms)
{
    uint32_t position = *timer_slot(c, obj);
    if (at_ms == UINT64_MAX) {
        if (position != 0) {
            heap_remove(&c->timers, position);
        }
    } else if (position == 0) {
        heap_insert(&c->timers, at_ms, obj);
    } else {
        heap_change(&c->timers, position, at_ms);
    }
}

void timer_lower(struct core *c, ref obj, uint64_t at_ms)
{
    if (at_ms < timer_at(c, obj)) {
        timer_set(c, obj, at_ms);
    }
}

uint64_t timer_at(const struct core *c, ref obj)
{
    uint32_t position = *timer_slot(c, obj);
    return position == 0 ? UINT64_MAX : heap_at(&c->timers, position);
}

static void core_table(struct core *c, struct table *t, size_t next_offset, table_hash_fn hash)
{
    table_init(t, c->memory, &c->pool, next_offset, hash, c);
}

struct core *core_new(const struct core_options *options)
{
    hf_assert(options->memory != NULL);
    struct core *c = memory_alloc(options->memory, sizeof(*c));
    memset(c, 0, sizeof(*c));
    c->memory = options->memory;
    c->hash_key = options->hash_key;
    c->on_event = options->on_event;
    c->event_ctx = options->event_ctx;
    c->version = options->version == 0 ? 1 : options->version;
    hf_assert(c->version <= CORE_VERSION);
    c->policy = policy_new(c->memory);
    pool_init(&c->pool, c->memory);
    core_table(c, &c->locks, offsetof(struct lock, next), lock_hash);
    core_table(c, &c->sessions, offsetof(struct session, next), session_hash);
    core_table(c, &c->leases, offsetof(struct grant, lease_next), lease_hash);
    core_table(c, &c->tokens, offsetof(struct detail, token_next), detail_hash);
    core_table(c, &c->requests, offsetof(struct request, next), request_hash);
    core_table(c, &c->ended_sessions, offsetof(struct ended_session, next), ended_session_hash);
    core_table(c, &c->fences, offsetof(struct fence_mark, next), fence_hash);
    core_table(c, &c->counters, offsetof(struct counter, next), counter_hash);
    core_table(c, &c->tenants, offsetof(struct tenant, next), tenant_hash);
    tenant_init(c, &c->own, 0);
    heap_init(&c->timers, c->memory, &timer_ops, c);
    c->alive = memory_alloc(c->memory, LIMIT_KEEPALIVE_IDS);
    c->cycle = memory_alloc(c->memory, sizeof(struct cycle_step) * LIMIT_DEADLOCK_CYCLE);
    c->kept = memory_alloc(c->memory, KEPT_BYTES);
    c->wall_rows = memory_alloc(c->memory, sizeof(struct wall_row) * LIMIT_WALL_ROWS);
    c->sinks = memory_alloc(c->memory, sizeof(struct sink) * LIMIT_SINKS);
    return c;
}

void core_free(struct core *c)
{
    if (c == NULL) {
        return;
    }
    TENANT_EACH(c, t)
    {
        tenant_close(c, t);
    }
    struct table *tables[] = {&c->locks,  &c->sessions, &c->leases,
                              &c->tokens, &c->requests, &c->ended_sessions,
                              &c->fences, &c->counters, &c->tenants};
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        table_close(tables[i]);
    }
    heap_close(&c->timers);
    pool_close(&c->pool);
    policy_free(c->policy);
    memory_free(c->memory, c->alive, LIMIT_KEEPALIVE_IDS);
    memory_free(c->memory, c->cycle, sizeof(struct cycle_step) * LIMIT_DEADLOCK_CYCLE);
    memory_free(c->memory, c->kept, KEPT_BYTES);
    memory_free(c->memory, c->wall_rows, sizeof(struct wall_row) * LIMIT_WALL_ROWS);
    memory_free(c->memory, c->sinks, sizeof(struct sink) * LIMIT_SINKS);
    memory_free(c->memory, c, sizeof(*c));
}

void core_set_events(struct core *c, core_event_fn on_event, void *ctx)
{
    c->on_event = on_event;
    c->event_ctx = ctx;
}

uint64_t core_now_ms(const struct core *c)
{
    return c->now_ms;
}

uint64_t core_last_wall_ms(const struct core *c)
{
    return c->wall_ms;
}

uint64_t core_index(const struct core *c)
{
    return c->index;
}

uint32_t core_version(const struct core *c)
{
    return c->version;
}

uint64_t core_counter(const struct core *c)
{
    return c->counter;
}

uint64_t core_epoch(const struct core *c)
{
    return c->epoch;
}

uint64_t core_names(const struct core *c)
{
    return table_count(&c->locks);
}

uint64_t core_counters(const struct core *c)
{
    return table_count(&c->counters);
}

uint64_t core_bytes(const struct core *c)
{
    hf_assert(pool_bytes_used(&c->pool) >= c->remembered_bytes);
    return pool_bytes_used(&c->pool) - c->remembered_bytes + table_bytes(&c->locks) +
           table_bytes(&c->sessions) + table_bytes(&c->leases) + table_bytes(&c->tokens) +
           table_bytes(&c->requests) + table_bytes(&c->counters) + heap_bytes(&c->timers);
}

void core_stats(const struct core *c, struct core_stats *out)
{
    hf_assert(out != NULL);
    *out = (struct core_stats){
        .names = table_count(&c->locks),
        .grants = c->grants,
        .waiters = c->waiters,
        .sessions = table_count(&c->sessions),
        .fence_marks = table_count(&c->fences),
        .counters = table_count(&c->counters),
        .long_held = c->long_held,
        .last_steps = c->last_steps,
        .worst_steps = c->worst_steps,
        .last_sweep_steps = c->last_sweep_steps,
    };
    uint64_t overhead = sizeof(*c) + LIMIT_KEEPALIVE_IDS + KEPT_BYTES +
                        sizeof(struct cycle_step) * LIMIT_DEADLOCK_CYCLE + heap_bytes(&c->timers) +
                        sizeof(struct wall_row) * LIMIT_WALL_ROWS +
                        sizeof(struct sink) * LIMIT_SINKS;
    TENANT_EACH(c, t)
    {
        out->fence_rejections += t->fence_rejections;
        out->audit_records += t->audit_count;
        out->alerts += t->alert_count;
        overhead += tenant_overhead(t);
    }
    const struct table *tables[] = {&c->locks,  &c->sessions, &c->leases,
                                    &c->tokens, &c->requests, &c->ended_sessions,
                                    &c->fences, &c->counters, &c->tenants};
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        overhead += table_bytes(tables[i]);
    }
    out->bytes = overhead + pool_bytes_reserved(&c->pool);
    out->bytes_used = overhead + pool_bytes_used(&c->pool);
}

/* Names: a lock exists only while it is held, waited for or delayed (S3: free names take no
 * memory). A lock with an `extra` is freed only after the command has served the woken names: no
 * reference to it dangles. */
#include "core/state.h"

struct slice lock_name(const struct lock *l)
{
    return slice_make(l->name, l->name_len);
}

size_t lock_size(const struct lock *l)
{
    return offsetof(struct lock, name) + l->name_len;
}

ref lock_find_hashed(const struct core *c, uint32_t hash, uint32_t tenant, struct slice name)
{
    ref obj = table_first(&c->locks, hash);
    while (obj != 0) {
        const struct lock *l = lock_at(c, obj);
        if (l->tenant == tenant && slice_equal(lock_name(l), name)) {
            return obj;
        }
        obj = l->next;
    }
    return 0;
}

ref lock_find(const struct core *c, uint32_t tenant, struct slice name)
{
    return lock_find_hashed(c, hash_name(c, tenant, name), tenant, name);
}

struct lock_extra *lock_extra_get(const struct core *c, const struct lock *l)
{
    return l->extra == 0 ? NULL : lock_extra_at(c, l->extra);
}

struct lock_extra *lock_extra_make(struct core *c, ref lock)
{
    struct lock *l = lock_at(c, lock);
    hf_assert(l->kind == KIND_LOCK);
    if (l->extra == 0) {
        struct lock_extra *x = pool_alloc(&c->pool, sizeof(*x), &l->extra);
        x->lock = lock;
        x->holders = l->holders == 0 ? 0 : 1; /* only an exclusive lock may lack an extra */
    }
    return lock_extra_at(c, l->extra);
}

size_t lock_slots_size(uint32_t limit)
{
    return ((size_t)limit + 63) / 64 * 8;
}

static void slots_drop(struct core *c, struct lock_extra *x)
{
    hf_assert(x->used == 0);
    if (x->slots != 0) {
        pool_free(&c->pool, x->slots, lock_slots_size(x->limit));
        x->slots = 0;
    }
    x->slots_from = 0;
    x->limit = 0;
}

/* The first request for an unused name sets its mode (S6.3). */
void lock_set_mode(struct core *c, ref lock, enum mode mode, uint32_t limit)
{
    struct lock *l = lock_at(c, lock);
    hf_assert(!lock_in_use(c, l));
    hf_assert(mode_class(mode) < MODE_COUNT && limit <= LIMIT_HOLDERS);
    hf_assert((mode == MODE_SEMAPHORE) == (limit != 0));
    if (l->extra != 0) {
        slots_drop(c, lock_extra_at(c, l->extra));
    }
    l->mode = (uint8_t)mode_class(mode);
    if (mode == MODE_SEMAPHORE) {
        struct lock_extra *x = lock_extra_make(c, lock);
        x->limit = limit;
        (void)pool_alloc(&c->pool, lock_slots_size(limit), &x->slots);
    }
}

ref lock_new(struct core *c, uint32_t hash, uint32_t tenant, struct slice name)
{
    hf_assert(name.len >= 1 && name.len <= LIMIT_NAME);
    ref obj = 0;
    struct lock *l = pool_alloc(&c->pool, offsetof(struct lock, name) + name.len, &obj);
    l->kind = KIND_LOCK;
    l->tenant = tenant;
    l->name_len = (uint16_t)name.len;
    memcpy(l->name, name.data, name.len);
    table_insert(&c->locks, hash, obj);
    tenant_get(c, tenant)->usage.names++;
    return obj;
}

uint32_t lock_holders(const struct core *c, const struct lock *l)
{
    return l->extra != 0 ? lock_extra_at(c, l->extra)->holders : l->holders != 0;
}

bool lock_in_use(const struct core *c, const struct lock *l)
{
    return l->holders != 0 || (l->extra != 0 && lock_extra_at(c, l->extra)->queue_length > 0);
}

bool lock_is_delayed(const struct core *c, const struct lock *l)
{
    return l->extra != 0 && lock_extra_at(c, l->extra)->delayed_until_ms > c->now_ms;
}

/* The caller checks queue and delay. */
bool lock_has_capacity(const struct core *c, const struct lock *l, enum mode mode, uint32_t permits)
{
    switch (mode) {
    case MODE_SHARED:
        return l->holders == 0 || (l->mode == MODE_SHARED && lock_holders(c, l) < LIMIT_HOLDERS);
    case MODE_SEMAPHORE: {
        const struct lock_extra *x = lock_extra_get(c, l);
        return x == NULL || x->used + permits <= x->limit;
    }
    case MODE_EXCLUSIVE:
    case MODE_ELECTION:
    case MODE_COUNT:
        break;
    }
    return l->holders == 0;
}

void lock_delay(struct core *c, ref lock, uint64_t until_ms)
{
    struct lock_extra *x = lock_extra_make(c, lock);
    hf_assert(x->lock == lock);
    if (until_ms <= c->now_ms || until_ms <= x->delayed_until_ms) {
        return;
    }
    ref extra = lock_at(c, lock)->extra;
    if (x->delayed_until_ms == 0) {
        RING_APPEND(c, &c->delayed, extra, lock_extra, delayed);
    }
    x->delayed_until_ms = until_ms;
    timer_set(c, lock, until_ms);
    const struct lock *l = lock_at(c, lock);
    event_emit(c, &(struct event){.type = EVENT_DELAYED,
                                  .tenant = l->tenant,
                                  .name = lock_name(l),
                                  .deadline_ms = until_ms,
                                  .parts = 1});
}

void lock_delay_over(struct core *c, ref lock)
{
    ref extra = lock_at(c, lock)->extra;
    struct lock_extra *x = lock_extra_at(c, extra);
    hf_assert(x->delayed_until_ms != 0);
    timer_set(c, lock, UINT64_MAX);
    x->delayed_until_ms = 0;
    RING_REMOVE(c, &c->delayed, extra, lock_extra, delayed);
    lock_wake(c, lock);
}

void lock_wake(struct core *c, ref lock)
{
    ref extra = lock_at(c, lock)->extra;
    if (extra != 0 && !ring_contains_link(&c->pool, extra, offsetof(struct lock_extra, woken))) {
        RING_APPEND(c, &c->woken, extra, lock_extra, woken);
    }
}

void lock_drop_if_unused(struct core *c, ref lock)
{
    struct lock *l = lock_at(c, lock);
    if (lock_in_use(c, l)) {
        return;
    }
    struct lock_extra *x = lock_extra_get(c, l);
    if (x != NULL) {
        if (x->delayed_until_ms != 0) {
            return;
        }
        hf_assert(x->woken.next == 0 && x->delayed.next == 0);
        hf_assert(x->queue == 0 && x->cursor == 0 && x->timer == 0);
        slots_drop(c, x);
        pool_free(&c->pool, l->extra, sizeof(*x));
    }
    table_remove(&c->locks, hash_name(c, l->tenant, lock_name(l)), lock);
    tenant_get(c, l->tenant)->usage.names--;
    pool_free(&c->pool, lock, lock_size(l));
}

void lock_prune(struct core *c, ref lock)
{
    ref dead[LIMIT_PRUNE];
    uint32_t count = 0;
    hf_assert(c->backlog && c->prune_left <= LIMIT_PRUNE);
    bool has_queue = lock_at(c, lock)->extra != 0; /* else the last holder frees the name */
    RING_EACH(c, obj, lock_at(c, lock)->holders, grant, in_lock)
    {
        if (c->prune_left == 0) {
            break;
        }
        c->prune_left--;
        core_step(c, 1);
        if (grant_is_dead(c, grant_at(c, obj))) {
            dead[count++] = obj;
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        grant_end_dead(c, dead[i]);
    }
    if (has_queue) { /* and the waiters at its head */
        bool unsure = false;
        (void)queue_front(c, lock, &c->prune_left, &unsure);
    }
}

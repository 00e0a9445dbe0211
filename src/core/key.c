/* Names as keys of the Redis protocol (S13), and counters.
 *
 * The version of a key must change whenever something readable of it changes. Otherwise a script
 * that decided by the old state would be applied to the new one:
 *
 *   a lock      the token of its first holder, how often its value was set since, its deadline or 0.
 *               Tokens are unique: a lock released and acquired again differs. Renewals and
 *               keep-alives of other APIs change only the deadline; the same deadline again looks
 *               the same to every reader.
 *   a counter   its number and its deadline: nothing else of it can be read. So a node can compute the
 *               version that a change will produce before the change is applied. Before version 8 of
 *               the state: the number of its last change, which rises over all counters.
 *   reserved    that it is (no token is 1), and when the delay ends. */
#include "core/state.h"

static const uint64_t reserved_number = 1;

struct key_version view_counter_version(int64_t number, uint64_t deadline_ms)
{
    /* No lock has this number of changes. */
    return (struct key_version){(uint64_t)number, UINT32_MAX,
                                deadline_ms == 0 ? UINT64_MAX : deadline_ms};
}

enum key_kind key_kind_of_effect(const struct effect *put)
{
    hf_assert(put->kind == EFFECT_PUT);
    return put->flags & EFFECT_HASH         ? KEY_HASH
           : put->flags & EFFECT_LIST       ? KEY_LIST
           : put->flags & EFFECT_SORTED_SET ? KEY_SORTED_SET
           : put->flags & EFFECT_SET        ? KEY_SET
                                            : KEY_STRING;
}

uint32_t key_kind_effect_flag(enum key_kind kind)
{
    hf_assert(key_kind_has_value(kind));
    return kind == KEY_HASH         ? EFFECT_HASH
           : kind == KEY_LIST       ? EFFECT_LIST
           : kind == KEY_SORTED_SET ? EFFECT_SORTED_SET
           : kind == KEY_SET        ? EFFECT_SET
                                    : 0;
}

bool key_types_ok(uint8_t flags, uint32_t version)
{
    unsigned types = flags & GRANT_TYPES;
    return (types & (types - 1)) == 0 &&
           (version >= 9 || (types & (GRANT_IS_LIST | GRANT_IS_SORTED_SET | GRANT_IS_SET)) == 0);
}

static void fill_reserved(const struct core *c, const struct lock *l, struct key_view *out)
{
    const struct lock_extra *x = lock_extra_get(c, l);
    bool is_delayed = l->holders == 0 && lock_is_delayed(c, l);
    hf_assert(!is_delayed || x != NULL);
    out->kind = KEY_RESERVED;
    out->deadline_ms = is_delayed ? x->delayed_until_ms : 0;
    out->version = (struct key_version){reserved_number, 0, out->deadline_ms};
}

static void fill_lock(const struct core *c, const struct lock *l, const struct grant *g,
                      struct key_view *out)
{
    const struct detail *d = grant_detail(c, g);
    out->kind = (g->flags & GRANT_IS_KEY) == 0   ? KEY_LOCK
                : g->flags & GRANT_IS_HASH       ? KEY_HASH
                : g->flags & GRANT_IS_LIST       ? KEY_LIST
                : g->flags & GRANT_IS_SORTED_SET ? KEY_SORTED_SET
                : g->flags & GRANT_IS_SET        ? KEY_SET
                                                 : KEY_STRING;
    out->client = session_client(session_at(c, g->session));
    out->holders = lock_holders(c, l);
    out->token = g->token;
    out->principal = session_at(c, g->session)->principal;
    uint64_t deadline_ms = grant_deadline(c, g);
    out->deadline_ms = deadline_ms == UINT64_MAX ? 0 : deadline_ms;
    out->version = (struct key_version){g->token, 0, out->deadline_ms};
    out->is_value = (g->flags & GRANT_IS_VALUE) != 0;
    if (out->kind != KEY_LOCK && d != NULL) {
        out->value = blob_slice(c, d->carried.value);
        out->version.changes = d->changes;
    }
}

void key_view_fill(const struct core *c, uint32_t tenant, struct slice name, struct key_view *out)
{
    hf_assert(out != NULL);
    *out = (struct key_view){.kind = KEY_ABSENT};
    ref lock = lock_find(c, tenant, name);
    const struct lock *l = lock == 0 ? NULL : lock_at(c, lock);
    if (l != NULL && (lock_in_use(c, l) || lock_is_delayed(c, l))) {
        ref first = RING_FIRST(c, l->holders, grant, in_lock);
        /* With a dead holder the name is neither held nor free until the sweep (S1.7). */
        if (first == 0 || grant_is_dead(c, grant_at(c, first))) {
            fill_reserved(c, l, out);
        } else {
            fill_lock(c, l, grant_at(c, first), out);
        }
        return;
    }
    const struct counter *n = counter_find(c, tenant, name);
    if (n != NULL) {
        out->kind = KEY_COUNTER;
        out->number = n->number;
        out->deadline_ms = n->deadline_ms;
        out->version = c->version < 8 ? (struct key_version){n->change, 0, UINT64_MAX}
                                      : view_counter_version(n->number, n->deadline_ms);
    }
}

/* Counters. A new deadline changes the version. Timers are exact: only a
 * transaction moves a deadline. */

struct slice counter_name(const struct counter *n)
{
    return slice_make(n->name, n->name_len);
}

bool counter_is_dead(const struct core *c, const struct counter *n)
{
    return n->deadline_ms != 0 && n->deadline_ms <= c->now_ms;
}

static ref find(const struct core *c, uint32_t tenant, struct slice name)
{
    if (table_count(&c->counters) == 0) {
        return 0; /* usual: no cost for an acquire */
    }
    ref obj = table_first(&c->counters, hash_name(c, tenant, name));
    while (obj != 0) {
        const struct counter *n = counter_at(c, obj);
        if (n->tenant == tenant && slice_equal(counter_name(n), name)) {
            return obj;
        }
        obj = n->next;
    }
    return 0;
}

struct counter *counter_find_any(const struct core *c, uint32_t tenant, struct slice name)
{
    ref obj = find(c, tenant, name);
    return obj == 0 ? NULL : counter_at(c, obj);
}

ref counter_ref(const struct core *c, uint32_t tenant, struct slice name)
{
    ref obj = find(c, tenant, name);
    return obj == 0 || counter_is_dead(c, counter_at(c, obj)) ? 0 : obj;
}

struct counter *counter_find(const struct core *c, uint32_t tenant, struct slice name)
{
    ref obj = counter_ref(c, tenant, name);
    return obj == 0 ? NULL : counter_at(c, obj);
}

ref counter_add(struct core *c, uint32_t tenant, struct slice name)
{
    struct tenant *t = tenant_memory(c, tenant);
    hf_assert(t->counter_count < LIMIT_COUNTERS && name.len <= LIMIT_NAME);
    hf_assert(name.len >= 1 && find(c, tenant, name) == 0);
    ref obj = 0;
    struct counter *n = pool_alloc(&c->pool, sizeof(*n) + name.len, &obj);
    n->kind = KIND_COUNTER;
    n->tenant = tenant;
    n->name_len = (uint16_t)name.len;
    memcpy(n->name, name.data, name.len);
    table_insert(&c->counters, hash_name(c, tenant, name), obj);
    RING_APPEND(c, &t->counters, obj, counter, ring);
    t->counter_count++;
    tenant_get(c, tenant)->usage.names++;
    core_step(c, 1);
    return obj;
}

void counter_set_deadline(struct core *c, ref obj, uint64_t deadline_ms)
{
    hf_assert(deadline_ms == 0 || deadline_ms > c->now_ms || c->backlog);
    counter_at(c, obj)->deadline_ms = deadline_ms;
    timer_set(c, obj, deadline_ms == 0 ? UINT64_MAX : deadline_ms);
}

void counter_remove(struct core *c, ref obj)
{
    struct counter *n = counter_at(c, obj);
    struct tenant *t = tenant_memory(c, n->tenant);
    hf_assert(n->kind == KIND_COUNTER && t->counter_count > 0);
    tenant_charge(c, n->tenant);
    t->counter_count--;
    tenant_get(c, n->tenant)->usage.names--;
    timer_set(c, obj, UINT64_MAX);
    table_remove(&c->counters, hash_name(c, n->tenant, counter_name(n)), obj);
    RING_REMOVE(c, &t->counters, obj, counter, ring);
    pool_free(&c->pool, obj, sizeof(*n) + n->name_len);
    core_step(c, 1);
}

void counter_prune(struct core *c, uint32_t tenant, struct slice name)
{
    ref obj = c->backlog ? find(c, tenant, name) : 0;
    if (obj != 0 && counter_is_dead(c, counter_at(c, obj))) {
        counter_remove(c, obj);
    }
}

/* Grants: granting, ending, deadlines. */
#include "core/state.h"

static size_t lease_len(const struct grant *g)
{
    return g->flags & GRANT_HAS_LEASE ? sizeof(struct id) : 0;
}

size_t grant_size(const struct grant *g)
{
    return sizeof(*g) + lease_len(g) + g->owner_len;
}

struct slice grant_owner(const struct grant *g)
{
    return slice_make(g->tail + lease_len(g), g->owner_len);
}

struct id grant_lease(const struct core *c, const struct grant *g)
{
    if ((g->flags & GRANT_HAS_LEASE) == 0) {
        return session_at(c, g->session)->id;
    }
    struct id lease;
    memcpy(&lease, g->tail, sizeof(lease));
    return lease;
}

struct detail *grant_detail(const struct core *c, const struct grant *g)
{
    return g->detail == 0 ? NULL : detail_at(c, g->detail);
}

struct detail *grant_detail_make(struct core *c, ref grant)
{
    struct grant *g = grant_at(c, grant);
    if (g->detail == 0) {
        struct detail *d = pool_alloc(&c->pool, sizeof(*d), &g->detail);
        d->grant = grant;
        d->life_ms = g->since_ms;
    }
    return detail_at(c, g->detail);
}

static struct group *grant_group(const struct core *c, const struct grant *g)
{
    const struct detail *d = grant_detail(c, g);
    return d == NULL || d->group == 0 ? NULL : group_at(c, d->group);
}

uint32_t grant_parts(const struct core *c, const struct grant *g)
{
    const struct group *all = grant_group(c, g);
    return all == NULL ? 1 : all->count;
}

ref grant_part(const struct core *c, ref grant, uint32_t i)
{
    const struct group *all = grant_group(c, grant_at(c, grant));
    hf_assert(i < (all == NULL ? 1 : all->count));
    return all == NULL ? grant : all->grants[i];
}

const struct grant *grant_head(const struct core *c, const struct grant *g)
{
    const struct group *all = grant_group(c, g);
    return all == NULL ? g : grant_at(c, all->grants[0]);
}

ref grant_first_part(const struct core *c, ref grant)
{
    return grant_part(c, grant, 0);
}

/* S4.2: the latest of grant, renewal and the session's sign of life, plus the TTL, never past the
 * session's end. */
static uint64_t lease_deadline(const struct core *c, const struct grant *g, const struct detail *d)
{
    const struct session *s = session_at(c, g->session);
    uint64_t end = session_deadline(c, s);
    if (d == NULL || d->ttl_ms == 0) {
        return end;
    }
    uint64_t own = (d->life_ms > s->life_ms ? d->life_ms : s->life_ms) + d->ttl_ms;
    return own < end ? own : end;
}

uint64_t grant_hold_until(const struct core *c, const struct grant *g)
{
    const struct detail *d = g->detail == 0 ? NULL : grant_detail(c, grant_head(c, g));
    return d == NULL ? 0 : d->hold_until_ms;
}

uint64_t grant_deadline(const struct core *c, const struct grant *g)
{
    const struct detail *d = g->detail == 0 ? NULL : grant_detail(c, grant_head(c, g));
    uint64_t end = lease_deadline(c, g, d);
    return d != NULL && d->hold_until_ms != 0 && d->hold_until_ms < end ? d->hold_until_ms : end;
}

uint64_t grant_due_ms(const struct core *c, const struct grant *g)
{
    uint64_t deadline = grant_deadline(c, g);
    const struct group *all = grant_group(c, g);
    const struct detail *d = grant_detail(c, all == NULL ? g : grant_at(c, all->grants[0]));
    bool revoked_first = d != NULL && d->revoke_at_ms != 0 && d->revoke_at_ms < deadline;
    return revoked_first ? d->revoke_at_ms : deadline;
}

bool grant_is_dead(const struct core *c, const struct grant *g)
{
    return grant_due_ms(c, g) <= c->now_ms;
}

/* Only its own TTL, a revocation or max_hold needs a timer; else it ends with its session. */
void grant_reschedule(struct core *c, ref grant)
{
    ref first = grant_first_part(c, grant);
    const struct grant *g = grant_at(c, first);
    if (g->detail != 0) {
        const struct detail *d = detail_at(c, g->detail);
        if (d->ttl_ms != 0 || d->revoke_at_ms != 0 || d->hold_until_ms != 0) {
            timer_lower(c, first, grant_due_ms(c, g));
        }
    }
}

ref grant_find_by_token(const struct core *c, uint64_t token)
{
    ref obj = table_first(&c->tokens, hash_token(c, token));
    while (obj != 0) {
        const struct detail *d = detail_at(c, obj);
        if (grant_at(c, d->grant)->token == token) {
            return d->grant;
        }
        obj = d->token_next;
    }
    return 0;
}

ref grant_of_lock(const struct core *c, ref lock, uint64_t token)
{
    const struct lock *l = lock_at(c, lock);
    if (l->holders == 0) {
        return 0;
    }
    if (l->mode == MODE_SHARED || l->mode == MODE_SEMAPHORE) {
        ref obj = grant_find_by_token(c, token);
        return obj != 0 && grant_at(c, obj)->lock == lock ? obj : 0;
    }
    return grant_at(c, l->holders)->token == token ? l->holders : 0;
}

static uint16_t slot_take(struct core *c, struct lock_extra *x)
{
    hf_assert(x->slots != 0 && x->limit <= LIMIT_HOLDERS);
    uint64_t *words = pool_at(&c->pool, x->slots);
    for (uint32_t i = x->slots_from; i < (x->limit + 63) / 64; i++) {
        core_step(c, 1);
        if (words[i] != UINT64_MAX) {
            x->slots_from = i;
            uint32_t bit = (uint32_t)__builtin_ctzll(~words[i]);
            words[i] |= UINT64_C(1) << bit;
            hf_assert(i * 64 + bit < x->limit);
            return (uint16_t)(i * 64 + bit);
        }
    }
    hf_panic(__FILE__, __LINE__, "a semaphore with free permits has no free slot");
}

static void slot_give_back(struct core *c, struct lock_extra *x, uint16_t slot)
{
    hf_assert(x->slots != 0 && slot < x->limit);
    uint64_t *words = pool_at(&c->pool, x->slots);
    hf_assert((words[slot / 64] & UINT64_C(1) << (slot % 64)) != 0);
    words[slot / 64] &= ~(UINT64_C(1) << (slot % 64));
    if (slot / 64 < x->slots_from) {
        x->slots_from = slot / 64;
    }
}

static ref grant_new(struct core *c, ref lock, const struct grant_terms *terms, uint64_t token)
{
    struct session *s = session_at(c, terms->session);
    size_t lease_bytes = s->is_private ? 0 : sizeof(struct id);
    hf_assert(token != 0 && terms->owner.len <= LIMIT_OWNER);
    hf_assert(terms->permits <= LIMIT_HOLDERS && terms->delay_ms <= LIMIT_DELAY_MAX_MS);
    hf_assert(s->entries < LIMIT_SESSION_ENTRIES);
    ref obj = 0;
    struct grant *g = pool_alloc(&c->pool, sizeof(*g) + lease_bytes + terms->owner.len, &obj);
    g->kind = KIND_GRANT;
    g->depth = 1;
    g->lock = lock;
    g->session = terms->session;
    g->permits = (uint16_t)terms->permits;
    g->delay_ms = terms->delay_ms;
    g->owner_len = (uint8_t)terms->owner.len;
    g->token = token;
    g->since_ms = c->now_ms;
    g->flags = terms->key_flags;
    if (lease_bytes > 0) {
        hf_assert(terms->key_flags == 0);
        g->flags = GRANT_HAS_LEASE;
        memcpy(g->tail, &terms->lease, sizeof(terms->lease));
    }
    if (terms->owner.len > 0) {
        memcpy(g->tail + lease_bytes, terms->owner.data, terms->owner.len);
    }
    struct lock *l = lock_at(c, lock);
    hf_assert(lock_has_capacity(c, l, terms->mode, terms->permits));
    if (terms->mode == MODE_SHARED) {
        (void)lock_extra_make(c, lock); /* it counts the holders */
    }
    l->mode = (uint8_t)terms->mode;
    RING_APPEND(c, &l->holders, obj, grant, in_lock);
    RING_APPEND(c, &s->holds, obj, grant, in_session);
    s->entries++;
    c->grants++;
    struct lock_extra *x = lock_extra_get(c, l);
    if (x != NULL) {
        x->holders++;
        x->used += terms->permits;
        if (l->mode == MODE_SEMAPHORE) {
            g->slot = slot_take(c, x);
        }
    }
    core_step(c, 1);
    return obj;
}

static void group_make(struct core *c, const ref *parts, uint32_t count)
{
    hf_assert(count > 1 && count <= LIMIT_MULTILOCK_NAMES);
    ref obj = 0;
    struct group *all = pool_alloc(&c->pool, sizeof(*all) + sizeof(ref) * count, &obj);
    all->count = count;
    memcpy(all->grants, parts, sizeof(ref) * count);
    for (uint32_t i = 0; i < count; i++) {
        grant_detail_make(c, parts[i])->group = obj;
    }
}

static void index_by_token(struct core *c, ref grant)
{
    struct detail *d = grant_detail_make(c, grant);
    hf_assert(!d->by_token);
    d->by_token = 1;
    const struct grant *g = grant_at(c, grant);
    table_insert(&c->tokens, hash_token(c, g->token), g->detail);
}

static void make_side_objects(struct core *c, ref first, const struct grant_terms *terms,
                              bool several)
{
    struct grant *g = grant_at(c, first);
    const struct lock *l = lock_at(c, g->lock);
    bool own_ttl = terms->ttl_ms != 0 && (g->flags & GRANT_HAS_LEASE);
    if (several || l->mode == MODE_SHARED || l->mode == MODE_SEMAPHORE) {
        index_by_token(c, first);
    }
    if (own_ttl || !carried_is_empty(&terms->carried) || terms->request != 0 ||
        terms->max_hold_ms != 0) {
        struct detail *d = grant_detail_make(c, first);
        d->ttl_ms = own_ttl ? (uint32_t)terms->ttl_ms : 0;
        d->hold_until_ms = terms->max_hold_ms != 0 ? g->since_ms + terms->max_hold_ms : 0;
        d->carried = carried_new(c, &terms->carried);
    }
    if (g->flags & GRANT_HAS_LEASE) {
        table_insert(&c->leases, hash_id(c, terms->lease), first);
    }
    hf_assert(g->detail != 0 || terms->request == 0);
    if (terms->request != 0) {
        request_hold(c, terms->request, first);
    }
}

static void announce_leader(struct core *c, const struct grant *g, uint64_t token,
                            struct slice value)
{
    struct event e = {.type = EVENT_LEADER_CHANGED};
    event_about_grant(c, g, &e);
    e.trace = grant_trace(c, g);
    if (token == 0) {
        e = (struct event){.type = EVENT_LEADER_CHANGED,
                           .tenant = e.tenant,
                           .name = e.name,
                           .mode = e.mode,
                           .part = 1,
                           .parts = 1};
    }
    e.text = value;
    event_emit(c, &e);
}

uint64_t grant_ttl(const struct core *c, const struct grant *g)
{
    const struct detail *d = grant_detail(c, grant_head(c, g));
    uint64_t ttl_ms = d != NULL && d->ttl_ms != 0 ? d->ttl_ms : session_at(c, g->session)->ttl_ms;
    if (d != NULL && d->hold_until_ms != 0) {
        uint64_t left_ms = d->hold_until_ms > c->now_ms ? d->hold_until_ms - c->now_ms : 0;
        ttl_ms = left_ms < ttl_ms ? left_ms : ttl_ms;
    }
    return ttl_ms;
}

static void announce_grant(struct core *c, const ref *parts, uint32_t count,
                           const struct waiter *waited)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct grant *g = grant_at(c, parts[i]);
        struct event e = {.type = EVENT_GRANTED};
        event_about_grant(c, g, &e);
        e.trace = grant_trace(c, g);
        e.part = i + 1;
        e.parts = count;
        e.deadline_ms = grant_deadline(c, g);
        uint64_t ttl_ms = grant_ttl(c, g);
        e.ttl_ms = ttl_ms == TTL_NONE ? 0 : ttl_ms;
        if (waited != NULL) {
            e.wait_deadline_ms = waited->wait_deadline_ms;
            e.node = waited->node;
            e.attachment = waited->attachment;
            e.waited_ms = waited->since_ms == 0 ? 0 : c->now_ms - waited->since_ms;
        }
        event_emit(c, &e);
        if (lock_at(c, g->lock)->mode == MODE_ELECTION) {
            const struct detail *d = grant_detail(c, g);
            announce_leader(c, g, g->token, blob_slice(c, d == NULL ? 0 : d->carried.value));
        }
    }
}

static uint64_t token_take(struct core *c)
{
    if (c->token_end != 0) {
        hf_assert(core_tokens_left(c) > 0);
        c->token_next += c->token_next % TOKEN_SCALE == 0;
        return c->token_next++;
    }
    c->counter++;
    hf_assert(c->counter < LIMIT_NUMBER / TOKEN_SCALE);
    return c->counter * TOKEN_SCALE;
}

ref grant_give(struct core *c, const ref *locks, uint32_t count, const struct grant_terms *terms,
               const struct waiter *waited)
{
    hf_assert(count >= 1 && count <= LIMIT_MULTILOCK_NAMES);
    hf_assert(waited == NULL || waited->parts == count);
    uint64_t token = token_take(c);
    ref parts[LIMIT_MULTILOCK_NAMES];
    for (uint32_t i = 0; i < count; i++) {
        parts[i] = grant_new(c, locks[i], terms, token);
    }
    struct session *s = session_at(c, terms->session);
    session_add_token(s, token);
    if (s->is_private) { /* the TTL starts at the grant (S4.3) */
        hf_assert(terms->key_flags != 0 ? key_ttl_is_valid(terms->ttl_ms)
                                        : terms->ttl_ms != 0 && terms->ttl_ms <= LIMIT_TTL_MAX_MS);
        s->ttl_ms = terms->ttl_ms;
        s->life_ms = c->now_ms;
        timer_set(c, terms->session, session_deadline(c, s));
    }
    if (count > 1) {
        group_make(c, parts, count);
    }
    make_side_objects(c, parts[0], terms, count > 1);
    grant_reschedule(c, parts[0]);
    announce_grant(c, parts, count, waited);
    return parts[0];
}

#define NO_DELAY UINT64_MAX

static bool is_clean(enum ended how)
{
    return how == ENDED_RELEASED || how == ENDED_SESSION_CLOSED;
}

static enum event_type end_event(enum ended how)
{
    return is_clean(how)          ? EVENT_RELEASED
           : how == ENDED_FORCED  ? EVENT_FORCED
           : how == ENDED_REVOKED ? EVENT_REVOKED
                                  : EVENT_EXPIRED;
}

/* `end` has what all parts share. */
static void announce_end(struct core *c, const struct grant *g, uint32_t part, uint32_t parts,
                         const struct event *end)
{
    hf_assert(part >= 1 && part <= parts);
    struct event e = *end;
    event_about_grant(c, g, &e);
    e.part = part;
    e.parts = parts;
    event_emit(c, &e);
    if (!is_clean(e.ended)) {
        e.type = EVENT_LOST;
        event_emit(c, &e);
    }
    if (lock_at(c, g->lock)->mode == MODE_ELECTION) {
        announce_leader(c, g, 0, slice_make(NULL, 0));
    }
}

static void detail_free(struct core *c, ref grant)
{
    struct grant *g = grant_at(c, grant);
    if (g->detail == 0) {
        return;
    }
    struct detail *d = detail_at(c, g->detail);
    hf_assert(d->grant == grant);
    if (d->timer != 0) {
        timer_set(c, grant, UINT64_MAX);
    }
    if (d->by_token) {
        table_remove(&c->tokens, hash_token(c, g->token), g->detail);
    }
    carried_free(c, &d->carried);
    pool_free(&c->pool, g->detail, sizeof(*d));
}

static void grant_remove(struct core *c, ref obj, bool is_first, uint64_t delay_from_ms)
{
    struct grant *g = grant_at(c, obj);
    struct session *s = session_at(c, g->session);
    struct lock *l = lock_at(c, g->lock);
    ref lock = g->lock;
    hf_assert(s->entries > 0 && c->grants > 0);
    if (is_first && (g->flags & GRANT_HAS_LEASE)) {
        table_remove(&c->leases, hash_id(c, grant_lease(c, g)), obj);
    }
    detail_free(c, obj);
    RING_REMOVE(c, &l->holders, obj, grant, in_lock);
    RING_REMOVE(c, &s->holds, obj, grant, in_session);
    s->entries--;
    c->grants--;
    struct lock_extra *x = lock_extra_get(c, l);
    if (x != NULL) {
        hf_assert(x->holders > 0 && x->used >= g->permits);
        x->holders--;
        x->used -= g->permits;
        if (l->mode == MODE_SEMAPHORE) {
            slot_give_back(c, x, g->slot);
        }
    }
    uint32_t delay_ms = g->delay_ms;
    if (g->flags & GRANT_IS_LONG_HELD) {
        hf_assert(c->long_held > 0);
        c->long_held--;
    }
    pool_free(&c->pool, obj, grant_size(g));
    core_step(c, 1);
    if (delay_from_ms != NO_DELAY && delay_from_ms + delay_ms > c->now_ms) {
        lock_delay(c, lock, delay_from_ms + delay_ms);
    }
    if (l->extra != 0) {
        lock_wake(c, lock);
    } else {
        lock_drop_if_unused(c, lock);
    }
}

void grant_end(struct core *c, ref grant, enum ended how, uint64_t at_ms, struct slice actor,
               struct slice text, bool no_delay)
{
    ref first = grant_first_part(c, grant);
    const struct grant *g = grant_at(c, first);
    ref session = g->session;
    uint32_t count = grant_parts(c, g);
    hf_assert(how != ENDED_NOT && (unsigned)how < ENDED_COUNT);
    hf_assert(at_ms <= c->now_ms && count <= LIMIT_MULTILOCK_NAMES);
    ref parts[LIMIT_MULTILOCK_NAMES];
    for (uint32_t i = 0; i < count; i++) {
        parts[i] = grant_part(c, first, i);
    }
    struct detail *d = grant_detail(c, g);
    ref group = d == NULL ? 0 : d->group;
    tenant_charge(c, session_at(c, session)->tenant);
    session_remove_token(session_at(c, session), g->token);
    if (c->is_taking_back) {
        if (d != NULL && d->request != 0) {
            request_forget(c, d->request, session);
        }
    } else {
        history_add_grant(c, session_at(c, session)->tenant, g->token, grant_lease(c, g), how);
    }
    if (d != NULL && d->request != 0 && !c->is_taking_back) {
        struct result answer = {.type = COMMAND_ACQUIRE,
                                .outcome = OUTCOME_GRANTED,
                                .ended = how,
                                .token = g->token,
                                .lease = grant_lease(c, g)};
        request_done(c, d->request, &answer);
    }
    uint64_t delay_from_ms = is_clean(how) || no_delay ? NO_DELAY : at_ms;
    uint8_t bytes[LIMIT_TRACE];
    struct event end = {.type = end_event(how),
                        .ended = how,
                        .actor = actor,
                        .text = text,
                        .trace = d == NULL ? slice_make(NULL, 0) : grant_trace_copy(c, g, bytes)};
    if (end.type == EVENT_EXPIRED) {
        uint64_t ttl_ms = grant_ttl(c, g);
        end.due_ms = at_ms;
        end.life_ms = at_ms > ttl_ms ? at_ms - ttl_ms : 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        announce_end(c, grant_at(c, parts[i]), i + 1, count, &end);
        grant_remove(c, parts[i], i == 0, delay_from_ms);
    }
    if (group != 0) {
        pool_free(&c->pool, group, sizeof(struct group) + sizeof(ref) * count);
    }
    session_drop_if_empty(c, session);
}

void grant_end_dead(struct core *c, ref grant)
{
    const struct grant *g = grant_at(c, grant);
    const struct session *s = session_at(c, g->session);
    uint64_t deadline = grant_deadline(c, g);
    hf_assert(grant_is_dead(c, g));
    if (grant_due_ms(c, g) < deadline) {
        revoke_take(c, grant);
        return;
    }
    bool with_session = !s->is_private && deadline == session_deadline(c, s);
    bool by_max_hold = deadline < lease_deadline(c, g, grant_detail(c, grant_head(c, g)));
    enum ended how = by_max_hold    ? ENDED_MAX_HOLD
                     : with_session ? ENDED_SESSION_EXPIRED
                                    : ENDED_EXPIRED;
    struct slice none = slice_make(NULL, 0);
    grant_end(c, grant, how, deadline, none, none, false);
}

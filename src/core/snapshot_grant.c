/* Grants of a snapshot and their locks (snapshot_build.h). */
#include "core/snapshot_build.h"

#include "base/text.h"

static const char *check_grant_times(const struct builder *b, const struct grant_record *f)
{
    bool own_ttl = f->ttl_ms != 0;
    bool has_revoke = (f->head.flags & GRANT_HAS_REVOKE) != 0;
    if (!is_past(b, f->since_ms) || !is_past(b, f->life_ms)) {
        return "its time is in the future";
    }
    if (own_ttl && (current(b)->is_private || !is_ttl(f->ttl_ms))) {
        return "its TTL is out of range";
    }
    if ((f->head.flags & GRANT_HAS_LIFE) && (!own_ttl || f->life_ms <= f->since_ms)) {
        return "its renewal is out of place";
    }
    if (has_revoke && (!is_deadline(f->revoke_at_ms) || f->revoke_record == 0 ||
                       f->revoke_record >= LIMIT_NUMBER ||
                       (current(b)->tenant == 0 && f->revoke_record > b->c->own.audit_number))) {
        return "its revocation is out of range";
    }
    bool has_max_hold = (f->head.flags & GRANT_HAS_MAX_HOLD) != 0;
    if (has_max_hold && (!is_deadline(f->hold_until_ms) || f->hold_until_ms <= f->since_ms ||
                         f->hold_until_ms - f->since_ms > LIMIT_HELD_MAX_MS)) {
        return "its max_hold is out of range";
    }
    bool has_timer = (f->head.flags & GRANT_HAS_TIMER) != 0;
    if (has_timer != (own_ttl || has_revoke || has_max_hold) ||
        (has_timer && !is_deadline(f->timer_ms))) {
        return "its deadline is out of place";
    }
    return f->delay_ms <= LIMIT_DELAY_MAX_MS ? NULL : "its lock-delay is out of range";
}

static const char *check_grant(const struct builder *b, const struct grant_record *f)
{
    const struct session *s = current(b);
    if (f->token == 0 || f->token > b->c->counter << 10) {
        return "its token is above the counter";
    }
    if (f->token <= b->last_token) {
        return "its token is out of order";
    }
    if (f->parts == 0 || f->parts > LIMIT_MULTILOCK_NAMES ||
        (f->parts > 1 && f->head.mode != MODE_EXCLUSIVE)) {
        return "it has a wrong number of parts";
    }
    if (f->depth == 0 || f->depth > UINT16_MAX ||
        (f->depth > 1 && (f->parts > 1 || s->is_private))) {
        return "its depth is out of range";
    }
    if (!text_is_plain(f->owner)) {
        return "its owner is not valid";
    }
    if (!s->is_private && (id_is_zero(f->lease) || is_id_taken(b->c, f->lease))) {
        return "its lease id is missing or comes twice";
    }
    if (f->head.mode == MODE_SEMAPHORE &&
        (f->permits == 0 || f->permits > f->limit || f->slot >= f->limit)) {
        return "its permits or its slot are out of range";
    }
    bool is_key = f->key.flags != 0;
    if (is_key && (b->c->version < 2 || !s->is_private || f->head.mode != MODE_EXCLUSIVE ||
                   f->parts > 1 || (f->key.flags & ~GRANT_KEY_FLAGS) != 0 ||
                   ((f->key.flags & GRANT_IS_VALUE) != 0 && b->c->version < 8) ||
                   !key_types_ok(f->key.flags, b->c->version))) {
        return "it cannot be a key";
    }
    if (!is_key && s->is_private && !is_ttl(s->ttl_ms)) {
        return "its session has the TTL of a key, and it is no key";
    }
    bool is_long = f->carried.value.len > LIMIT_VALUE && b->c->version < 9;
    if (is_long || carried_check(&f->carried, (enum mode)f->head.mode, is_key) != HF_OK) {
        return "its metadata or value is not valid";
    }
    return check_grant_times(b, f);
}

static const char *take_slot(struct builder *b, struct lock_extra *x, const struct grant *g)
{
    uint64_t *words = pool_at(&b->c->pool, x->slots);
    uint64_t bit = UINT64_C(1) << (g->slot % 64);
    if (x->used + g->permits > x->limit) {
        return "its name has more permits out than its limit";
    }
    if (words[g->slot / 64] & bit) {
        return "its slot is taken";
    }
    words[g->slot / 64] |= bit;
    x->used += g->permits;
    return NULL;
}

/* A ring of several holders is linked later. */
static const char *join_holders(struct builder *b, ref obj, bool has_extra)
{
    struct core *c = b->c;
    struct grant *g = grant_at(c, obj);
    struct lock *l = lock_at(c, g->lock);
    if (l->mode == MODE_EXCLUSIVE || l->mode == MODE_ELECTION) {
        if (l->holders != 0) {
            return "its name has another holder";
        }
        bool had_extra = l->extra != 0;
        if (had_extra && !has_extra) {
            return "its name has waiters, a delay or a wake-up that its flags exclude";
        }
        RING_APPEND(c, &l->holders, obj, grant, in_lock);
        if (has_extra) {
            lock_extra_make(c, g->lock)->holders = 1;
        }
        return NULL;
    }
    struct lock_extra *x = lock_extra_at(c, l->extra);
    if (!has_extra || x->holders == LIMIT_HOLDERS) {
        return "its name has too many holders, or no holder count";
    }
    x->holders++;
    keyed_add(&b->sharers, g->token, obj);
    return l->mode == MODE_SEMAPHORE ? take_slot(b, x, g) : NULL;
}

static ref new_grant(struct builder *b, ref lock, const struct grant_record *f)
{
    struct core *c = b->c;
    struct session *s = current(b);
    size_t lease_bytes = s->is_private ? 0 : sizeof(struct id);
    ref obj = 0;
    struct grant *g = pool_alloc(&c->pool, sizeof(*g) + lease_bytes + f->owner.len, &obj);
    g->kind = KIND_GRANT;
    g->depth = (uint16_t)f->depth;
    g->lock = lock;
    g->session = b->session;
    g->permits = (uint16_t)f->permits;
    g->slot = (uint16_t)f->slot;
    g->delay_ms = (uint32_t)f->delay_ms;
    g->owner_len = (uint8_t)f->owner.len;
    g->token = f->token;
    g->since_ms = f->since_ms;
    g->flags = f->key.flags;
    if (lease_bytes > 0) {
        g->flags |= GRANT_HAS_LEASE;
        memcpy(g->tail, &f->lease, sizeof(f->lease));
    }
    if (f->owner.len > 0) {
        memcpy(g->tail + lease_bytes, f->owner.data, f->owner.len);
    }
    RING_APPEND(c, &s->holds, obj, grant, in_session);
    c->grants++;
    return obj;
}

/* What only the first part has. */
static const char *set_first_part(struct builder *b, ref obj, const struct grant_record *f)
{
    struct core *c = b->c;
    const struct grant *g = grant_at(c, obj);
    if (f->ttl_ms != 0 || !carried_is_empty(&f->carried) || f->revoke_at_ms != 0 ||
        f->tie.kind != TIED_TO_NONE || f->key.changes > 0 || f->hold_until_ms != 0) {
        struct detail *d = grant_detail_make(c, obj);
        d->ttl_ms = (uint32_t)f->ttl_ms;
        d->life_ms = f->life_ms;
        d->revoke_at_ms = f->revoke_at_ms;
        d->revoke_record = f->revoke_record;
        d->hold_until_ms = f->hold_until_ms;
        d->changes = f->key.changes;
        d->carried = carried_new(c, &f->carried);
    }
    if (f->parts > 1 || f->head.mode == MODE_SHARED || f->head.mode == MODE_SEMAPHORE) {
        grant_detail_make(c, obj)->by_token = 1;
        table_insert(&c->tokens, hash_token(c, g->token), g->detail);
    }
    if (f->parts > 1) {
        struct detail *d = grant_detail_make(c, obj);
        struct group *all =
            pool_alloc(&c->pool, sizeof(*all) + sizeof(ref) * (size_t)f->parts, &d->group);
        all->count = (uint32_t)f->parts;
        all->grants[0] = obj;
        b->first_part = obj;
        b->parts_left = all->count - 1;
    }
    if (g->flags & GRANT_HAS_LEASE) {
        table_insert(&c->leases, hash_id(c, f->lease), obj);
    }
    if (f->timer_ms != UINT64_MAX) {
        timer_set(c, obj, f->timer_ms);
    }
    return f->tie.kind == TIED_TO_NONE
               ? NULL
               : build_tie(b, &f->tie, REQUEST_HOLDING, obj, &detail_at(c, g->detail)->request);
}

const char *build_grant(struct builder *b, struct reader *r)
{
    struct grant_record f;
    grant_record_read(r, b->c->version, current(b)->is_private, &f);
    if (!reader_done(r)) {
        return undecodable;
    }
    ref lock = 0;
    const char *wrong = check_grant(b, &f);
    wrong = wrong != NULL ? wrong : count_entries(b, 1, true);
    if (wrong == NULL) {
        wrong = build_name(b, current(b)->tenant, f.name, f.head.mode, f.limit, &lock);
    }
    if (wrong != NULL) {
        return wrong;
    }
    b->last_token = f.token;
    ref obj = new_grant(b, lock, &f);
    session_add_token(current(b), f.token);
    if (f.head.flags & GRANT_WAS_LONG_HELD) {
        grant_mark_long_held(b->c, grant_at(b->c, obj));
    }
    wrong = join_holders(b, obj, (f.head.flags & GRANT_LOCK_HAS_EXTRA) != 0);
    return wrong != NULL ? wrong : set_first_part(b, obj, &f);
}

const char *build_part(struct builder *b, struct reader *r)
{
    struct core *c = b->c;
    uint8_t flags = read_u8(r);
    struct slice name = read_slice(r, LIMIT_NAME);
    unsigned known = GRANT_LOCK_HAS_EXTRA | (c->version >= 7 ? PART_WAS_LONG_HELD : 0);
    if (!reader_done(r) || (flags & ~known) != 0) {
        return undecodable;
    }
    const struct grant *first = grant_at(c, b->first_part);
    ref group_ref = detail_at(c, first->detail)->group;
    struct group *all = group_at(c, group_ref);
    uint32_t at = all->count - b->parts_left;
    const struct lock *before = lock_at(c, grant_at(c, all->grants[at - 1])->lock);
    if (slice_compare(lock_name(before), name) >= 0) {
        return "the names of its multi-lock are out of order";
    }
    ref lock = 0;
    const char *wrong = count_entries(b, 1, false);
    if (wrong == NULL) {
        wrong = build_name(b, current(b)->tenant, name, MODE_EXCLUSIVE, 0, &lock);
    }
    if (wrong != NULL) {
        return wrong;
    }
    struct grant_record f = {.token = first->token,
                             .since_ms = first->since_ms,
                             .depth = 1,
                             .delay_ms = first->delay_ms,
                             .owner = grant_owner(first),
                             .lease = grant_lease(c, first)};
    ref obj = new_grant(b, lock, &f);
    all->grants[at] = obj;
    grant_detail_make(c, obj)->group = group_ref;
    b->parts_left--;
    if (flags & PART_WAS_LONG_HELD) {
        grant_mark_long_held(c, grant_at(c, obj));
    }
    return join_holders(b, obj, (flags & GRANT_LOCK_HAS_EXTRA) != 0);
}

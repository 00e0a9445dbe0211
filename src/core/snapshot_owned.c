/* Sessions of a snapshot and what they own: replies, grants, waiters; see snapshot_build.h. */
#include "core/snapshot_build.h"

#include "base/text.h"

static struct session *current(const struct builder *b)
{
    return session_at(b->c, b->session);
}

static bool is_past(const struct builder *b, uint64_t time_ms)
{
    return time_ms <= b->c->now_ms;
}

static bool is_deadline(uint64_t time_ms)
{
    return time_ms != 0 && time_ms < SNAPSHOT_DEADLINE_END;
}

static bool is_id_taken(const struct core *c, struct id id)
{
    return session_find(c, id) != 0 || lease_find(c, id) != 0;
}

/* Sessions. */

static const char *check_extra(const struct builder *b, const struct session_extra *x,
                               struct slice metadata)
{
    if (x->acked_through >= LIMIT_NUMBER || x->stream > b->c->attachment) {
        return "its stream or seq is out of range";
    }
    if (x->linger_ms > LIMIT_LINGER_MAX_MS || x->lingers_until_ms >= SNAPSHOT_DEADLINE_END ||
        (x->lingers_until_ms != 0 && x->linger_ms == 0)) {
        return "its linger time is out of range";
    }
    return text_is_utf8(metadata) ? NULL : "its metadata is no UTF-8";
}

static const char *check_session(const struct builder *b, uint8_t flags, struct id id,
                                 struct slice client, uint64_t ttl_ms, uint64_t life_ms,
                                 uint64_t timer_ms)
{
    if (flags > SESSION_FLAGS || id_is_zero(id)) {
        return undecodable;
    }
    if (b->counts[RECORD_SESSION] > LIMIT_SESSIONS) {
        return "there are more than 16,000,000";
    }
    if (client.len == 0) {
        return "client id is empty";
    }
    if (!text_is_plain(client)) {
        return "client id is not valid";
    }
    if (is_id_taken(b->c, id)) {
        return "its id comes twice";
    }
    if (!is_ttl(ttl_ms)) {
        return "its TTL is out of range";
    }
    if (!is_past(b, life_ms)) {
        return "its last sign of life is in the future";
    }
    if ((flags & SESSION_HAS_TIMER) && !is_deadline(timer_ms)) {
        return "its deadline is out of range";
    }
    if ((flags & SESSION_IS_PRIVATE) && (flags & SESSION_HAS_EXTRA)) {
        return "it is private and has what only real sessions have";
    }
    return NULL;
}

const char *build_session(struct builder *b, struct reader *r)
{
    struct core *c = b->c;
    struct session_extra extra = {0};
    struct slice metadata = slice_make(NULL, 0);
    uint8_t flags = read_u8(r);
    uint32_t tenant = read_u32(r);
    struct id id = read_id(r);
    struct slice client = read_slice(r, LIMIT_CLIENT);
    uint32_t ttl_ms = read_u32(r);
    uint64_t life_ms = read_u64(r);
    uint64_t timer_ms = flags & SESSION_HAS_TIMER ? read_u64(r) : UINT64_MAX;
    if (flags & SESSION_HAS_EXTRA) {
        extra.acked_through = read_u64(r);
        extra.stream = read_u64(r);
        extra.linger_ms = read_u32(r);
        extra.lingers_until_ms = read_u64(r);
        metadata = read_slice(r, LIMIT_METADATA);
    }
    if (!reader_done(r)) {
        return undecodable;
    }
    const char *wrong = check_session(b, flags, id, client, ttl_ms, life_ms, timer_ms);
    wrong = wrong != NULL ? wrong : check_extra(b, &extra, metadata);
    if (wrong != NULL) {
        return wrong;
    }
    b->session = session_new(c, tenant, id, client, (flags & SESSION_IS_PRIVATE) != 0, ttl_ms);
    current(b)->life_ms = life_ms;
    timer_set(c, b->session, timer_ms);
    if (flags & SESSION_HAS_EXTRA) {
        struct session_extra *x = session_extra_make(c, b->session);
        *x = extra;
        x->metadata = blob_new(c, metadata);
    }
    b->last_token = 0;
    b->last_ticket = 0;
    b->reply_at = 0;
    b->open_ties = 0;
    return NULL;
}

const char *session_complete(struct builder *b)
{
    const struct session *s = current(b);
    if (b->open_ties > 0) {
        return "a request of the session before it waits or holds, but nothing is there";
    }
    if (s->is_private && s->holds == 0 && s->waits == 0) {
        return "the session before it is private and has neither a grant nor a waiter";
    }
    return NULL;
}

/* Another name held or waited for by the session at hand. */
static const char *count_entries(struct builder *b, uint32_t entries, bool is_new)
{
    struct session *s = current(b);
    if (s->is_private && is_new && s->entries > 0) {
        return "its session is private and has another already";
    }
    s->entries += entries;
    return s->entries <= LIMIT_SESSION_ENTRIES ? NULL : "its session has more than 10,000 names";
}

/* Requests. */

const char *build_reply(struct builder *b, struct reader *r)
{
    struct core *c = b->c;
    struct session_extra *x = session_extra_get(c, current(b));
    struct request fields = {.seq = read_u64(r)};
    fields.type = read_u8(r);
    fields.state = read_u8(r);
    fields.digest = read_fixed64(r);
    bool is_done = fields.state == REQUEST_DONE;
    if (is_done) {
        read_answer(r, &fields);
    }
    if (!reader_done(r) || fields.state > REQUEST_DONE) {
        return undecodable;
    }
    const char *wrong = check_answer(&fields);
    if (wrong != NULL) {
        return wrong;
    }
    if (x == NULL) {
        return "its session keeps no replies";
    }
    uint64_t before = x->replies == 0 ? x->acked_through : request_at(c, x->replies)->seq;
    if (fields.seq <= before || fields.seq >= LIMIT_NUMBER) {
        return "its seq is out of order";
    }
    if (!is_done && fields.type != COMMAND_ACQUIRE) {
        return "it waits or holds and is no acquire";
    }
    if (x->unacked == LIMIT_SESSION_UNACKED) {
        return "its session has more than 1,024";
    }
    ref who = 0;
    struct request *reply = pool_alloc(&c->pool, sizeof(*reply), &who);
    *reply = fields;
    reply->tenant = current(b)->tenant;
    reply->session = current(b)->id;
    RING_APPEND(c, &x->replies, who, request, ring);
    x->unacked++;
    b->open_ties += !is_done;
    return NULL;
}

/* How a waiter or a grant names the request that it answers. */
struct tie {
    unsigned kind;
    struct slice id;
    uint64_t digest;
    uint64_t seq;
};

static struct tie read_tie(struct reader *r, unsigned kind)
{
    struct tie tie = {.kind = kind};
    if (kind == TIED_BY_ID) {
        tie.id = read_slice(r, LIMIT_REQUEST_ID);
        tie.digest = read_fixed64(r);
    } else if (kind == TIED_BY_SEQ) {
        tie.seq = read_u64(r);
    } else if (kind != TIED_TO_NONE) {
        r->bad = true;
    }
    return tie;
}

/* Begins behind the last one found: they mostly come in the same order. */
static ref find_reply(struct builder *b, uint64_t seq)
{
    const struct core *c = b->c;
    const struct session_extra *x = session_extra_get(c, current(b));
    ref who = b->reply_at;
    for (uint32_t i = 0; x != NULL && i < x->unacked; i++) {
        who = who == 0 ? RING_FIRST(c, x->replies, request, ring)
                       : ring_links(&c->pool, who, offsetof(struct request, ring))->next;
        if (request_at(c, who)->seq == seq) {
            b->reply_at = who;
            return who;
        }
    }
    return 0;
}

static const char *build_tie(struct builder *b, const struct tie *tie, enum request_state state,
                             ref target, ref *out)
{
    struct core *c = b->c;
    const struct session *s = current(b);
    if (tie->kind == TIED_TO_NONE) {
        return NULL;
    }
    if (tie->kind == TIED_BY_ID) {
        struct request fields = {.tenant = s->tenant,
                                 .type = COMMAND_ACQUIRE,
                                 .state = (uint8_t)state,
                                 .target = target,
                                 .session = s->is_private ? (struct id){0, 0} : s->id,
                                 .digest = tie->digest};
        struct slice scope = s->is_private ? session_client(s) : slice_make(NULL, 0);
        return build_request(b, &fields, scope, tie->id, out);
    }
    *out = find_reply(b, tie->seq);
    if (*out == 0 || request_at(c, *out)->state != state || request_at(c, *out)->target != 0) {
        return "it answers a seq that does not say so";
    }
    request_at(c, *out)->target = target;
    b->open_ties--;
    return NULL;
}

/* Grants. */

struct grant_fields {
    unsigned flags;
    unsigned mode;
    struct slice name;
    uint64_t token;
    uint64_t since_ms;
    uint64_t parts;
    uint64_t depth;
    uint64_t delay_ms;
    struct slice owner;
    struct id lease;
    uint64_t limit;
    uint64_t permits;
    uint64_t slot;
    uint64_t ttl_ms;
    struct slice metadata;
    struct slice value;
    uint64_t life_ms;
    uint64_t revoke_at_ms;
    uint64_t revoke_record;
    uint64_t timer_ms;
    struct tie tie;
};

static void read_grant(struct reader *r, bool is_private, struct grant_fields *f)
{
    *f = (struct grant_fields){.flags = read_u8(r), .timer_ms = UINT64_MAX};
    f->mode = f->flags & MODE_BITS;
    f->name = read_slice(r, LIMIT_NAME);
    f->token = read_u64(r);
    f->since_ms = read_u64(r);
    f->parts = read_u64(r);
    f->depth = read_u64(r);
    f->delay_ms = read_u64(r);
    f->owner = read_slice(r, LIMIT_OWNER);
    if (!is_private) {
        f->lease = read_id(r);
    }
    if (f->mode == MODE_SEMAPHORE) {
        f->limit = read_u64(r);
        f->permits = read_u64(r);
        f->slot = read_u64(r);
    }
    f->ttl_ms = read_u64(r);
    f->metadata = read_slice(r, LIMIT_METADATA);
    f->value = read_slice(r, LIMIT_VALUE);
    f->life_ms = f->flags & GRANT_HAS_LIFE ? read_u64(r) : f->since_ms;
    if (f->flags & GRANT_HAS_REVOKE) {
        f->revoke_at_ms = read_u64(r);
        f->revoke_record = read_u64(r);
    }
    if (f->flags & GRANT_HAS_TIMER) {
        f->timer_ms = read_u64(r);
    }
    f->tie = read_tie(r, f->flags >> GRANT_REQUEST_SHIFT);
}

static const char *check_grant_times(const struct builder *b, const struct grant_fields *f)
{
    bool own_ttl = f->ttl_ms != 0;
    bool asked = (f->flags & GRANT_HAS_REVOKE) != 0;
    if (!is_past(b, f->since_ms) || !is_past(b, f->life_ms)) {
        return "its time is in the future";
    }
    if (own_ttl && (current(b)->is_private || !is_ttl(f->ttl_ms))) {
        return "its TTL is out of range";
    }
    if ((f->flags & GRANT_HAS_LIFE) && (!own_ttl || f->life_ms <= f->since_ms)) {
        return "its renewal is out of place";
    }
    if (asked && (!is_deadline(f->revoke_at_ms) || f->revoke_record == 0 ||
                  f->revoke_record > b->c->audit_number)) {
        return "its revocation is out of range";
    }
    bool has_timer = (f->flags & GRANT_HAS_TIMER) != 0;
    if (has_timer != (own_ttl || asked) || (has_timer && !is_deadline(f->timer_ms))) {
        return "its deadline is out of place";
    }
    return f->delay_ms <= LIMIT_DELAY_MAX_MS ? NULL : "its lock-delay is out of range";
}

static const char *check_grant(const struct builder *b, const struct grant_fields *f)
{
    const struct session *s = current(b);
    if (f->token == 0 || f->token > b->c->counter << 10) {
        return "its token is above the counter";
    }
    if (f->token <= b->last_token) {
        return "its token is out of order";
    }
    if (f->parts == 0 || f->parts > LIMIT_MULTILOCK_NAMES ||
        (f->parts > 1 && f->mode != MODE_EXCLUSIVE)) {
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
    if (f->mode == MODE_SEMAPHORE &&
        (f->permits == 0 || f->permits > f->limit || f->slot >= f->limit)) {
        return "its permits or its slot are out of range";
    }
    if (!text_is_utf8(f->metadata) || !text_is_utf8(f->value) ||
        (f->value.len > 0 && f->mode != MODE_ELECTION)) {
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

/* Makes it a holder of its lock; where there may be several, their ring comes later. */
static const char *join_holders(struct builder *b, ref who, bool has_extra)
{
    struct core *c = b->c;
    struct grant *g = grant_at(c, who);
    struct lock *l = lock_at(c, g->lock);
    if (l->mode == MODE_EXCLUSIVE || l->mode == MODE_ELECTION) {
        if (l->holders != 0) {
            return "its name has another holder";
        }
        bool had_extra = l->extra != 0;
        if (had_extra && !has_extra) {
            return "its name has more than a holder";
        }
        RING_APPEND(c, &l->holders, who, grant, in_lock);
        if (has_extra) {
            lock_extra_make(c, g->lock)->holders = 1;
        }
        return NULL;
    }
    struct lock_extra *x = lock_extra_at(c, l->extra);
    if (!has_extra || x->holders == LIMIT_HOLDERS) {
        return "its name has too many holders, or no room to count them";
    }
    x->holders++;
    keyed_add(&b->sharers, g->token, who);
    return l->mode == MODE_SEMAPHORE ? take_slot(b, x, g) : NULL;
}

static ref new_grant(struct builder *b, ref lock, const struct grant_fields *f)
{
    struct core *c = b->c;
    struct session *s = current(b);
    size_t lease_bytes = s->is_private ? 0 : sizeof(struct id);
    ref who = 0;
    struct grant *g = pool_alloc(&c->pool, sizeof(*g) + lease_bytes + f->owner.len, &who);
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
    if (lease_bytes > 0) {
        g->flags = GRANT_HAS_LEASE;
        memcpy(g->tail, &f->lease, sizeof(f->lease));
    }
    if (f->owner.len > 0) {
        memcpy(g->tail + lease_bytes, f->owner.data, f->owner.len);
    }
    RING_APPEND(c, &s->holds, who, grant, in_session);
    c->grants++;
    return who;
}

/* Everything that the first part of a grant has and others have not. */
static const char *furnish(struct builder *b, ref who, const struct grant_fields *f)
{
    struct core *c = b->c;
    const struct grant *g = grant_at(c, who);
    if (f->ttl_ms != 0 || f->metadata.len > 0 || f->value.len > 0 || f->revoke_at_ms != 0 ||
        f->tie.kind != TIED_TO_NONE) {
        struct detail *d = grant_detail_make(c, who);
        d->ttl_ms = (uint32_t)f->ttl_ms;
        d->life_ms = f->life_ms;
        d->revoke_at_ms = f->revoke_at_ms;
        d->revoke_record = f->revoke_record;
        d->metadata = blob_new(c, f->metadata);
        d->value = blob_new(c, f->value);
    }
    if (f->parts > 1 || f->mode == MODE_SHARED || f->mode == MODE_SEMAPHORE) {
        grant_detail_make(c, who)->by_token = 1;
        table_insert(&c->tokens, hash_token(c, g->token), g->detail);
    }
    if (f->parts > 1) {
        struct detail *d = grant_detail_make(c, who);
        struct group *all =
            pool_alloc(&c->pool, sizeof(*all) + sizeof(ref) * (size_t)f->parts, &d->group);
        all->count = (uint32_t)f->parts;
        all->grants[0] = who;
        b->first_part = who;
        b->parts_left = all->count - 1;
    }
    if (g->flags & GRANT_HAS_LEASE) {
        table_insert(&c->leases, hash_id(c, f->lease), who);
    }
    if (f->timer_ms != UINT64_MAX) {
        timer_set(c, who, f->timer_ms);
    }
    return f->tie.kind == TIED_TO_NONE
               ? NULL
               : build_tie(b, &f->tie, REQUEST_HOLDING, who, &detail_at(c, g->detail)->request);
}

const char *build_grant(struct builder *b, struct reader *r)
{
    struct grant_fields f;
    read_grant(r, current(b)->is_private, &f);
    if (!reader_done(r)) {
        return undecodable;
    }
    ref lock = 0;
    const char *wrong = check_grant(b, &f);
    wrong = wrong != NULL ? wrong : count_entries(b, 1, true);
    if (wrong == NULL) {
        wrong = build_name(b, current(b)->tenant, f.name, f.mode, f.limit, &lock);
    }
    if (wrong != NULL) {
        return wrong;
    }
    b->last_token = f.token;
    ref who = new_grant(b, lock, &f);
    wrong = join_holders(b, who, (f.flags & GRANT_LOCK_HAS_EXTRA) != 0);
    return wrong != NULL ? wrong : furnish(b, who, &f);
}

const char *build_part(struct builder *b, struct reader *r)
{
    struct core *c = b->c;
    uint8_t flags = read_u8(r);
    struct slice name = read_slice(r, LIMIT_NAME);
    if (!reader_done(r) || (flags & ~GRANT_LOCK_HAS_EXTRA) != 0) {
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
    struct grant_fields f = {.token = first->token,
                             .since_ms = first->since_ms,
                             .depth = 1,
                             .delay_ms = first->delay_ms,
                             .owner = grant_owner(first),
                             .lease = grant_lease(c, first)};
    ref who = new_grant(b, lock, &f);
    all->grants[at] = who;
    grant_detail_make(c, who)->group = group_ref;
    b->parts_left--;
    return join_holders(b, who, flags != 0);
}

/* Waiters. */

struct waiter_fields {
    unsigned flags;
    unsigned mode;
    uint8_t acquire_flags;
    uint64_t ticket;
    uint64_t attachment;
    uint32_t node;
    uint64_t ttl_ms;
    uint64_t delay_ms;
    struct slice owner;
    struct slice metadata;
    struct slice value;
    struct id lease;
    uint64_t crowd_number;
    uint64_t limit;
    uint64_t permits;
    uint64_t wait_deadline_ms;
    uint64_t detached_until_ms;
    uint64_t timer_ms;
    struct tie tie;
    uint64_t parts;
};

static void read_waiter(struct reader *r, const struct session *s, struct waiter_fields *f)
{
    *f = (struct waiter_fields){
        .flags = read_u8(r), .wait_deadline_ms = UINT64_MAX, .timer_ms = UINT64_MAX};
    f->mode = f->flags & MODE_BITS;
    f->acquire_flags = read_u8(r);
    f->ticket = read_u64(r);
    f->attachment = read_u64(r);
    f->node = read_u32(r);
    f->ttl_ms = read_u64(r);
    f->delay_ms = read_u64(r);
    f->owner = read_slice(r, LIMIT_OWNER);
    f->metadata = read_slice(r, LIMIT_METADATA);
    f->value = read_slice(r, LIMIT_VALUE);
    if (s->is_private) {
        f->lease = s->id;
        f->crowd_number = read_u64(r);
    } else {
        f->lease = read_id(r);
    }
    if (f->mode == MODE_SEMAPHORE) {
        f->limit = read_u64(r);
        f->permits = read_u64(r);
    }
    if (f->flags & WAITER_HAS_DEADLINE) {
        f->wait_deadline_ms = read_u64(r);
    }
    if (f->flags & WAITER_IS_DETACHED) {
        f->detached_until_ms = read_u64(r);
    }
    if (f->flags & WAITER_HAS_TIMER) {
        f->timer_ms = read_u64(r);
    }
    f->tie = read_tie(r, (f->flags & WAITER_FLAGS) >> WAITER_REQUEST_SHIFT);
    f->parts = read_u64(r);
}

static const char *check_waiter(const struct builder *b, const struct waiter_fields *f)
{
    const struct session *s = current(b);
    if (f->flags > WAITER_FLAGS || f->acquire_flags > ACQUIRE_FLAGS) {
        return undecodable;
    }
    if (f->ticket <= b->last_ticket || f->ticket > b->c->ticket) {
        return "its ticket is out of order";
    }
    if (f->attachment == 0 || f->attachment > b->c->attachment) {
        return "its attachment number is out of range";
    }
    if (f->parts == 0 || f->parts > LIMIT_MULTILOCK_NAMES ||
        (f->parts > 1 && f->mode != MODE_EXCLUSIVE)) {
        return "it has a wrong number of names";
    }
    if (!is_ttl(f->ttl_ms) && (s->is_private || f->ttl_ms != 0)) {
        return "its TTL is out of range";
    }
    if (f->delay_ms > LIMIT_DELAY_MAX_MS) {
        return "its lock-delay is out of range";
    }
    if (!s->is_private && (id_is_zero(f->lease) || is_id_taken(b->c, f->lease))) {
        return "its lease id is missing or comes twice";
    }
    if (!text_is_plain(f->owner) || !text_is_utf8(f->metadata) || !text_is_utf8(f->value) ||
        (f->value.len > 0 && f->mode != MODE_ELECTION)) {
        return "its owner, metadata or value is not valid";
    }
    if (f->mode == MODE_SEMAPHORE && (f->permits == 0 || f->permits > f->limit)) {
        return "its permits are out of range";
    }
    if (((f->flags & WAITER_HAS_DEADLINE) && f->wait_deadline_ms >= LIMIT_NUMBER) ||
        ((f->flags & WAITER_IS_DETACHED) && !is_deadline(f->detached_until_ms)) ||
        ((f->flags & WAITER_HAS_TIMER) && !is_deadline(f->timer_ms))) {
        return "its deadline is out of range";
    }
    return s->is_private || f->detached_until_ms == 0 ? NULL : "it is detached in a real session";
}

static ref new_waiter(struct builder *b, const struct waiter_fields *f)
{
    struct core *c = b->c;
    ref who = 0;
    struct waiter *w = pool_alloc(&c->pool, sizeof(*w) + f->owner.len, &who);
    w->kind = KIND_WAITER;
    w->mode = (uint8_t)f->mode;
    w->flags = f->acquire_flags;
    w->session = b->session;
    w->parts = (uint32_t)f->parts;
    w->ttl_ms = (uint32_t)f->ttl_ms;
    w->delay_ms = (uint32_t)f->delay_ms;
    w->limit = (uint32_t)f->limit;
    w->permits = (uint32_t)f->permits;
    w->node = f->node;
    w->lease = f->lease;
    w->ticket = f->ticket;
    w->attachment = f->attachment;
    w->wait_deadline_ms = f->wait_deadline_ms;
    w->detached_until_ms = f->detached_until_ms;
    w->metadata = blob_new(c, f->metadata);
    w->value = blob_new(c, f->value);
    w->owner_len = (uint8_t)f->owner.len;
    if (f->owner.len > 0) {
        memcpy(w->owner, f->owner.data, f->owner.len);
    }
    RING_APPEND(c, &current(b)->waits, who, waiter, in_session);
    c->waiters++;
    timer_set(c, who, f->timer_ms);
    keyed_add(&b->waiters, f->ticket, who);
    return who;
}

/* One name of a waiter: its place, which joins the queue when all tickets are known. */
static const char *build_place(struct builder *b, struct reader *r, ref waiter, ref before,
                               ref *out)
{
    struct core *c = b->c;
    const struct waiter *w = waiter_at(c, waiter);
    struct slice name = read_slice(r, LIMIT_NAME);
    uint8_t is_cursor = read_u8(r);
    if (r->bad || is_cursor > 1) {
        return undecodable;
    }
    if (before != 0 && slice_compare(lock_name(lock_at(c, place_at(c, before)->lock)), name) >= 0) {
        return "its names are out of order";
    }
    ref lock = 0;
    struct lock_extra *x = NULL;
    const char *wrong = build_name(b, current(b)->tenant, name, w->mode, w->limit, &lock);
    wrong = wrong != NULL ? wrong : build_extra(b, lock, &x);
    if (wrong != NULL) {
        return wrong;
    }
    if (x->queue_length == LIMIT_QUEUE) {
        return "the queue of its name is longer than 1,000,000";
    }
    if (is_cursor && x->cursor != 0) {
        return "the queue of its name has two cursors";
    }
    struct place *p = pool_alloc(&c->pool, sizeof(*p), out);
    p->waiter = waiter;
    p->lock = lock;
    x->queue_length++;
    if (is_cursor) {
        x->cursor = *out;
    }
    return NULL;
}

static const char *join_crowd(struct builder *b, ref waiter, uint64_t number)
{
    struct core *c = b->c;
    RING_EACH(c, who, c->all_crowds, crowd, all)
    {
        if (crowd_at(c, who)->number == number) {
            struct waiter *w = waiter_at(c, waiter);
            w->crowd = who;
            return crowd_at(c, who)->node == w->node ? NULL : "its crowd is of another node";
        }
    }
    return "there is no such crowd as it says";
}

const char *build_waiter(struct builder *b, struct reader *r)
{
    struct core *c = b->c;
    struct waiter_fields f;
    read_waiter(r, current(b), &f);
    if (r->bad) {
        return undecodable;
    }
    const char *wrong = check_waiter(b, &f);
    wrong = wrong != NULL ? wrong : count_entries(b, (uint32_t)f.parts, true);
    if (wrong != NULL) {
        return wrong;
    }
    b->last_ticket = f.ticket;
    ref who = new_waiter(b, &f);
    struct waiter *w = waiter_at(c, who);
    ref *link = &w->places;
    ref before = 0;
    for (uint32_t i = 0; i < w->parts; i++) {
        wrong = build_place(b, r, who, before, link);
        if (wrong != NULL) {
            return wrong;
        }
        before = *link;
        link = &place_at(c, before)->sibling;
    }
    if (!reader_done(r)) {
        return undecodable;
    }
    if (current(b)->is_private) {
        wrong = join_crowd(b, who, f.crowd_number);
    } else {
        table_insert(&c->leases, hash_id(c, w->lease), who);
    }
    return wrong != NULL ? wrong : build_tie(b, &f.tie, REQUEST_WAITING, who, &w->request);
}

/* Waiters of a snapshot and their places (snapshot_build.h). */
#include "core/snapshot_build.h"

#include "base/text.h"

static const char *check_waiter(const struct builder *b, const struct waiter_record *f)
{
    const struct session *s = current(b);
    if (f->acquire_flags > ACQUIRE_FLAGS) {
        return undecodable;
    }
    if (f->ticket <= b->last_ticket || f->ticket > b->c->ticket) {
        return "its ticket is out of order";
    }
    if (f->attachment == 0 || f->attachment > b->c->attachment) {
        return "its attachment number is out of range";
    }
    if (f->parts == 0 || f->parts > LIMIT_MULTILOCK_NAMES ||
        (f->parts > 1 && f->head.mode != MODE_EXCLUSIVE)) {
        return "it has a wrong number of names";
    }
    bool is_key = (f->acquire_flags & ACQUIRE_KEY) != 0;
    if (!(is_key ? is_key_ttl(b, f->ttl_ms) : is_ttl(f->ttl_ms)) &&
        (s->is_private || f->ttl_ms != 0)) {
        return "its TTL is out of range";
    }
    if (f->delay_ms > LIMIT_DELAY_MAX_MS) {
        return "its lock-delay is out of range";
    }
    if (f->max_hold_ms != 0 &&
        (f->max_hold_ms < LIMIT_TTL_MIN_MS || f->max_hold_ms > LIMIT_HELD_MAX_MS)) {
        return "its max_hold is out of range";
    }
    if (!is_past(b, f->since_ms)) {
        return "its time is in the future";
    }
    if (!s->is_private && (id_is_zero(f->lease) || is_id_taken(b->c, f->lease))) {
        return "its lease id is missing or comes twice";
    }
    if (is_key &&
        (b->c->version < 2 || !s->is_private || f->head.mode != MODE_EXCLUSIVE || f->parts > 1)) {
        return "it cannot become a key";
    }
    if (!text_is_plain(f->owner) || f->carried.value.len > LIMIT_VALUE ||
        carried_check(&f->carried, (enum mode)f->head.mode, is_key) != HF_OK) {
        return "its owner, metadata or value is not valid";
    }
    if (f->head.mode == MODE_SEMAPHORE && (f->permits == 0 || f->permits > f->limit)) {
        return "its permits are out of range";
    }
    if (((f->head.flags & WAITER_HAS_DEADLINE) && f->wait_deadline_ms >= LIMIT_NUMBER) ||
        ((f->head.flags & WAITER_IS_DETACHED) && !is_deadline(f->detached_until_ms)) ||
        ((f->head.flags & WAITER_HAS_TIMER) && !is_deadline(f->timer_ms))) {
        return "its deadline is out of range";
    }
    return s->is_private || f->detached_until_ms == 0 ? NULL : "it is detached in a real session";
}

static ref new_waiter(struct builder *b, const struct waiter_record *f)
{
    struct core *c = b->c;
    ref obj = 0;
    struct waiter *w = pool_alloc(&c->pool, sizeof(*w) + f->owner.len, &obj);
    w->kind = KIND_WAITER;
    w->mode = f->head.mode;
    w->flags = (uint8_t)f->acquire_flags;
    w->session = b->session;
    w->parts = (uint32_t)f->parts;
    w->ttl_ms = f->ttl_ms;
    w->delay_ms = (uint32_t)f->delay_ms;
    w->limit = (uint32_t)f->limit;
    w->permits = (uint32_t)f->permits;
    w->node = f->node;
    w->max_hold_ms = f->max_hold_ms;
    w->since_ms = f->since_ms;
    w->lease = f->is_private ? current(b)->id : f->lease;
    w->ticket = f->ticket;
    w->attachment = f->attachment;
    w->wait_deadline_ms = f->wait_deadline_ms;
    w->detached_until_ms = f->detached_until_ms;
    w->carried = carried_new(c, &f->carried);
    w->owner_len = (uint8_t)f->owner.len;
    if (f->owner.len > 0) {
        memcpy(w->owner, f->owner.data, f->owner.len);
    }
    RING_APPEND(c, &current(b)->waits, obj, waiter, in_session);
    c->waiters++;
    tenant_get(c, current(b)->tenant)->usage.waiters++;
    timer_set(c, obj, f->timer_ms);
    keyed_add(&b->waiters, f->ticket, obj);
    return obj;
}

/* The place is linked into the queue when all tickets are known. */
static const char *build_place(struct builder *b, struct reader *r, ref waiter, ref before,
                               ref *out)
{
    struct core *c = b->c;
    const struct waiter *w = waiter_at(c, waiter);
    struct slice name = read_slice(r, LIMIT_NAME);
    struct record_head head = record_head_read(r, c->version, PLACE_FLAGS);
    if (r->bad) {
        return undecodable;
    }
    if (mode_class((enum mode)head.mode) != mode_class((enum mode)w->mode)) {
        return "its name has another mode class than the waiter";
    }
    if (before != 0 && slice_compare(lock_name(lock_at(c, place_at(c, before)->lock)), name) >= 0) {
        return "its names are out of order";
    }
    ref lock = 0;
    struct lock_extra *x = NULL;
    const char *wrong = build_name(b, current(b)->tenant, name, head.mode, w->limit, &lock);
    wrong = wrong != NULL ? wrong : build_extra(b, lock, &x);
    if (wrong != NULL) {
        return wrong;
    }
    if (x->queue_length == LIMIT_QUEUE) {
        return "the queue of its name is longer than 1,000,000";
    }
    bool is_cursor = (head.flags & PLACE_IS_CURSOR) != 0;
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

static const char *join_node_waiters(struct builder *b, ref waiter, uint64_t number)
{
    struct core *c = b->c;
    RING_EACH(c, obj, c->all_node_waiters, node_waiters, all)
    {
        if (node_waiters_at(c, obj)->number == number) {
            struct waiter *w = waiter_at(c, waiter);
            w->node_waiters = obj;
            return node_waiters_at(c, obj)->node == w->node
                       ? NULL
                       : "its list of waiters is of another node";
        }
    }
    return "its list of waiters does not exist";
}

const char *build_waiter(struct builder *b, struct reader *r)
{
    struct core *c = b->c;
    struct waiter_record f;
    waiter_record_read(r, c->version, current(b)->is_private, &f);
    if (r->bad) {
        return undecodable;
    }
    const char *wrong = check_waiter(b, &f);
    wrong = wrong != NULL ? wrong : count_entries(b, (uint32_t)f.parts, true);
    if (wrong != NULL) {
        return wrong;
    }
    b->last_ticket = f.ticket;
    ref obj = new_waiter(b, &f);
    struct waiter *w = waiter_at(c, obj);
    ref *link = &w->places;
    ref before = 0;
    for (uint32_t i = 0; i < w->parts; i++) {
        wrong = build_place(b, r, obj, before, link);
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
        wrong = join_node_waiters(b, obj, f.node_waiters_number);
    } else {
        table_insert(&c->leases, hash_id(c, w->lease), obj);
    }
    return wrong != NULL ? wrong : build_tie(b, &f.tie, REQUEST_WAITING, obj, &w->request);
}

/* The invariants (invariants.c) of names: holders, queues, delays; and of each node's waiters. */
#include "core/invariants.h"

#include "base/text.h"

static const char *check_semaphore(const struct core *c, const struct lock *l,
                                   const struct lock_extra *x)
{
    uint32_t words = (x->limit + 63) / 64;
    if (x->limit == 0 || x->limit > LIMIT_HOLDERS || x->slots == 0 || x->slots_from >= words) {
        return "I5: a semaphore has no limit";
    }
    uint64_t seen[(LIMIT_HOLDERS + 63) / 64] = {0};
    uint64_t used = 0;
    RING_EACH(c, obj, l->holders, grant, in_lock)
    {
        const struct grant *g = grant_at(c, obj);
        uint64_t bit = UINT64_C(1) << (g->slot % 64);
        if (g->permits == 0 || g->slot >= x->limit || (seen[g->slot / 64] & bit) != 0) {
            return "I6: two holders of a semaphore have the same slot, or one has none";
        }
        seen[g->slot / 64] |= bit;
        used += g->permits;
    }
    if (used != x->used || used > x->limit) {
        return "I5: the permits of a semaphore are counted wrongly, or too many";
    }
    const uint64_t *slots = pool_at(&c->pool, x->slots);
    for (uint32_t i = 0; i < words; i++) {
        if (slots[i] != seen[i] || (i < x->slots_from && slots[i] != UINT64_MAX)) {
            return "I6: the slot bits of a semaphore do not match its holders";
        }
    }
    return NULL;
}

static const char *check_holders(struct census *n, ref lock, const struct lock *l)
{
    const struct core *c = n->c;
    struct walk w;
    uint32_t count = 0;
    uint64_t last_token = 0;
    WALK(&w, c, obj, l->holders, grant, in_lock, LIMIT_HOLDERS)
    {
        const struct grant *g = grant_at(c, obj);
        if (g->kind != KIND_GRANT || g->lock != lock) {
            return "I16: a holder does not hold this name";
        }
        if (g->token <= last_token) {
            return "I7: holders are not in the order of their tokens";
        }
        if (l->mode != MODE_SEMAPHORE && (g->permits != 0 || g->slot != 0)) {
            return "I6: a grant has permits or a slot and is not of a semaphore";
        }
        last_token = g->token;
        count++;
    }
    if (w.is_broken) {
        return broken_ring;
    }
    n->held += count;
    if (count > 1 && (l->mode == MODE_EXCLUSIVE || l->mode == MODE_ELECTION)) {
        return "I4: an exclusive name has more than one holder";
    }
    return lock_holders(c, l) == count ? NULL : "I9: the holders of a name are counted wrongly";
}

static const char *check_queue(struct census *n, ref lock, const struct lock_extra *x)
{
    const struct core *c = n->c;
    struct walk w;
    uint32_t count = 0;
    uint64_t last_ticket = 0;
    bool past_cursor = false;
    WALK(&w, c, obj, x->queue, place, in_queue, LIMIT_QUEUE)
    {
        const struct place *place = place_at(c, obj);
        const struct waiter *waiter = waiter_at(c, place->waiter);
        if (place->lock != lock || waiter->kind != KIND_WAITER) {
            return "I10: a place does not belong to its queue";
        }
        if (waiter->ticket <= last_ticket) {
            return "I10: a queue is not in the order of tickets";
        }
        past_cursor = past_cursor || obj == x->cursor;
        if (!past_cursor && !waiter_is_detached(c, waiter)) {
            return "I11: a waiter before the cursor of a queue is attached";
        }
        last_ticket = waiter->ticket;
        count++;
    }
    if (w.is_broken) {
        return broken_ring;
    }
    n->queued += count;
    if (x->cursor != 0 && !past_cursor) {
        return "I11: the cursor of a queue is not in it";
    }
    return count == x->queue_length ? NULL : "I10: a queue is counted wrongly";
}

static const char *check_extra(struct census *n, ref lock, const struct lock *l,
                               const struct lock_extra *x)
{
    const struct core *c = n->c;
    const char *broken = check_queue(n, lock, x);
    if (broken != NULL) {
        return broken;
    }
    if (l->mode == MODE_SEMAPHORE) {
        broken = check_semaphore(c, l, x);
    } else if (x->limit != 0 || x->used != 0 || x->slots != 0) {
        broken = "I5: a name that is not a semaphore has permits";
    }
    if (broken != NULL) {
        return broken;
    }
    n->woken += x->woken.next != 0;
    n->delayed += x->delayed.next != 0;
    if ((x->delayed_until_ms != 0) != (x->delayed.next != 0)) {
        return "I14: a delayed name is not in the ring, or another name is";
    }
    uint64_t due_ms = x->delayed_until_ms == 0 ? UINT64_MAX : x->delayed_until_ms;
    if (!timer_is_right(n, lock, due_ms, false) || timer_at(c, lock) != due_ms) {
        return "I14: the timer of a delay is wrong";
    }
    return NULL;
}

static const char *check_lock(struct census *n, ref obj)
{
    const struct core *c = n->c;
    const struct lock *l = lock_at(c, obj);
    n->names++;
    if (l->kind != KIND_LOCK || l->mode >= MODE_COUNT ||
        (!n->trusts_tables &&
         (!text_is_name(lock_name(l)) || lock_find(c, l->tenant, lock_name(l)) != obj))) {
        return "I3: a name is not found, or twice";
    }
    const struct lock_extra *x = lock_extra_get(c, l);
    const char *broken = NULL;
    if (x == NULL) {
        if (l->mode == MODE_SHARED || l->mode == MODE_SEMAPHORE) {
            return "I9: a name that may have many holders cannot count them";
        }
        broken = check_holders(n, obj, l);
        return broken == NULL && l->holders == 0 ? "I13: an unused name exists" : broken;
    }
    if (x->lock != obj) {
        return "I3: the extra of a name belongs to another name";
    }
    broken = check_holders(n, obj, l);
    broken = broken != NULL ? broken : check_extra(n, obj, l, x);
    if (broken != NULL) {
        return broken;
    }
    if (!lock_in_use(c, l) && x->delayed_until_ms == 0 && x->woken.next == 0) {
        return "I13: an unused name exists";
    }
    return NULL;
}

static uint64_t ring_length(const struct core *c, ref last, size_t offset, uint64_t max)
{
    struct walk w;
    uint64_t length = 0;
    for (ref obj = walk_begin(&w, c, last, offset, max); obj != 0; obj = walk_next(&w)) {
        length++;
    }
    return w.is_broken ? UINT64_MAX : length;
}

/* Tables are not walked. Each name is checked once, from an object that uses it: its first holder,
 * else the first place in its queue, else its delay, else the ring of woken names. */

static const char *check_names_held(struct census *n, const struct session *s)
{
    const struct core *c = n->c;
    struct walk w;
    const char *broken = NULL;
    WALK(&w, c, obj, s->holds, grant, in_session, LIMIT_SESSION_ENTRIES)
    {
        ref lock = grant_at(c, obj)->lock;
        if (RING_FIRST(c, lock_at(c, lock)->holders, grant, in_lock) == obj) {
            broken = check_lock(n, lock);
        }
        if (broken != NULL) {
            return broken;
        }
    }
    return w.is_broken ? broken_ring : NULL;
}

static const char *check_names_awaited(struct census *n, const struct session *s)
{
    const struct core *c = n->c;
    struct walk w;
    const char *broken = NULL;
    WALK(&w, c, obj, s->waits, waiter, in_session, LIMIT_SESSION_ENTRIES)
    {
        uint32_t parts = 0;
        for (ref p = waiter_at(c, obj)->places; p != 0; p = place_at(c, p)->sibling) {
            const struct lock *l = lock_at(c, place_at(c, p)->lock);
            if (++parts > LIMIT_MULTILOCK_NAMES || l->extra == 0) {
                return "I10: a waiter's place does not belong where it is";
            }
            ref queue = lock_extra_at(c, l->extra)->queue;
            if (l->holders == 0 && RING_FIRST(c, queue, place, in_queue) == p) {
                broken = check_lock(n, place_at(c, p)->lock);
            }
            if (broken != NULL) {
                return broken;
            }
        }
    }
    return w.is_broken ? broken_ring : NULL;
}

static const char *check_names_unused(struct census *n)
{
    const struct core *c = n->c;
    struct walk w;
    const char *broken = NULL;
    WALK(&w, c, obj, c->delayed, lock_extra, delayed, table_count(&c->locks))
    {
        ref lock = lock_extra_at(c, obj)->lock;
        broken = lock_in_use(c, lock_at(c, lock)) ? NULL : check_lock(n, lock);
        if (broken != NULL) {
            return broken;
        }
    }
    if (w.is_broken) {
        return broken_ring;
    }
    WALK(&w, c, obj, c->woken, lock_extra, woken, table_count(&c->locks))
    {
        const struct lock_extra *x = lock_extra_at(c, obj);
        bool is_met = lock_in_use(c, lock_at(c, x->lock)) || x->delayed.next != 0;
        broken = is_met ? NULL : check_lock(n, x->lock);
        if (broken != NULL) {
            return broken;
        }
    }
    return w.is_broken ? broken_ring : NULL;
}

const char *check_locks(struct census *n)
{
    const struct core *c = n->c;
    struct walk w;
    WALK(&w, c, obj, c->all_sessions, session, all, LIMIT_SESSIONS)
    {
        const struct session *s = session_at(c, obj);
        const char *broken = check_names_held(n, s);
        broken = broken != NULL ? broken : check_names_awaited(n, s);
        if (broken != NULL) {
            return broken;
        }
    }
    const char *broken = w.is_broken ? broken_ring : check_names_unused(n);
    if (broken != NULL) {
        return broken;
    }
    uint64_t names = table_count(&c->locks);
    if (ring_length(c, c->delayed, offsetof(struct lock_extra, delayed), names) != n->delayed) {
        return "I14: the ring of delayed names does not match the names";
    }
    if (ring_length(c, c->woken, offsetof(struct lock_extra, woken), names) != n->woken) {
        return "I15: the ring of woken names does not match the names";
    }
    return n->names == names ? NULL : "I13: an unused name exists";
}

/* Its names will be woken because its node is gone (S7.3). */
static bool is_to_be_visited(const struct core *c, const struct waiter *w)
{
    if (w->node_waiters == 0 || node_waiters_at(c, w->node_waiters)->revisit == 0) {
        return false;
    }
    return w->attachment >= waiter_at(c, node_waiters_at(c, w->node_waiters)->revisit)->attachment;
}

enum queue_state { BEHIND, FIRST, TO_BE_SERVED };

/* Looks back only to the previous attached waiter: linear time for all places. */
static enum queue_state queue_state_of(const struct core *c, ref place)
{
    const struct lock *l = lock_at(c, place_at(c, place)->lock);
    const struct lock_extra *x = lock_extra_at(c, l->extra);
    if (x->woken.next != 0 || x->delayed_until_ms != 0) {
        return TO_BE_SERVED; /* now or after the delay */
    }
    size_t offset = offsetof(struct place, in_queue);
    for (ref p = ring_before(&c->pool, x->queue, place, offset); p != 0;
         p = ring_before(&c->pool, x->queue, p, offset)) {
        const struct waiter *before = waiter_at(c, place_at(c, p)->waiter);
        if (!waiter_is_detached(c, before)) {
            return BEHIND;
        }
        if (is_to_be_visited(c, before)) {
            return TO_BE_SERVED;
        }
    }
    return FIRST;
}

bool is_forgotten(const struct core *c, const struct waiter *w)
{
    if (waiter_is_detached(c, w) || waiter_is_dead(c, w)) {
        return false; /* the queue skips it, or the sweep ends it and wakes its names */
    }
    for (ref p = w->places; p != 0; p = place_at(c, p)->sibling) {
        const struct lock *l = lock_at(c, place_at(c, p)->lock);
        if (!lock_has_capacity(c, l, (enum mode)w->mode, w->permits) ||
            queue_state_of(c, p) != FIRST) {
            return false;
        }
    }
    return true;
}

static const char *check_node_waiters(struct census *n, ref obj)
{
    const struct core *c = n->c;
    const struct node_waiters *node_waiters = node_waiters_at(c, obj);
    struct walk w;
    uint64_t last = 0;
    WALK(&w, c, member, node_waiters->waiters, waiter, in_node_waiters, LIMIT_SESSIONS)
    {
        const struct waiter *waiter = waiter_at(c, member);
        if (waiter->node_waiters != obj || waiter->node != node_waiters->node ||
            waiter->attachment <= last) {
            return "I22: a waiter is in the list of another node, or at the wrong place";
        }
        last = waiter->attachment;
        n->in_node_waiters++;
    }
    if (w.is_broken) {
        return broken_ring;
    }
    if (node_waiters->waiters == 0) {
        return "I22: a node's list of waiters is empty";
    }
    uint64_t due_ms = node_waiters->gone ? node_waiters->until_ms : UINT64_MAX;
    if (!timer_is_right(n, obj, due_ms, false) || timer_at(c, obj) != due_ms) {
        return "I21: the timer of a node's waiters is wrong";
    }
    if ((node_waiters->revisit != 0) != (node_waiters->revisited.next != 0) ||
        (node_waiters->revisit != 0 &&
         (!node_waiters->gone || waiter_at(c, node_waiters->revisit)->node_waiters != obj))) {
        return "I23: a list to be visited is not of a gone node, or has no next waiter";
    }
    return NULL;
}

const char *check_all_node_waiters(struct census *n)
{
    const struct core *c = n->c;
    struct walk w;
    uint64_t last = 0;
    uint64_t to_visit = 0;
    WALK(&w, c, obj, c->all_node_waiters, node_waiters, all, LIMIT_NODES)
    {
        const struct node_waiters *node_waiters = node_waiters_at(c, obj);
        if (node_waiters->kind != KIND_NODE_WAITERS || node_waiters->number <= last ||
            node_waiters->number > c->node_waiters_number) {
            return "I22: the nodes' lists of waiters are out of order";
        }
        const char *broken = check_node_waiters(n, obj);
        if (broken != NULL) {
            return broken;
        }
        RING_EACH(c, other, c->all_node_waiters, node_waiters, all)
        {
            const struct node_waiters *o = node_waiters_at(c, other);
            if (other != obj && !o->gone && !node_waiters->gone && o->node == node_waiters->node) {
                return "I22: a node has two lists of waiters";
            }
        }
        last = node_waiters->number;
        to_visit += node_waiters->revisit != 0;
    }
    if (w.is_broken) {
        return broken_ring;
    }
    size_t offset = offsetof(struct node_waiters, revisited);
    return ring_length(c, c->revisits, offset, LIMIT_NODES) == to_visit
               ? NULL
               : "I23: the ring of lists to be visited does not match the lists";
}

/* Grants free names among the woken to the next waiter, or to the leading run of shared ones. The
 * work per command is bounded; the rest stays in the ring for the next command (S2.1, S6). */
#include "core/state.h"

static bool fits(const struct core *c, ref lock, const struct waiter *w)
{
    const struct lock *l = lock_at(c, lock);
    return !lock_is_delayed(c, l) && lock_has_capacity(c, l, (enum mode)w->mode, w->permits);
}

enum ready { READY, NOT_READY, UNSURE };

/* A multi-lock needs the first place in all its queues, and capacity on all its names (S6.2). */
static enum ready ready_everywhere(struct core *c, const struct waiter *w, uint32_t *budget)
{
    hf_assert(w->parts > 1);
    for (ref p = w->places; p != 0; p = place_at(c, p)->sibling) {
        bool unsure = false;
        ref lock = place_at(c, p)->lock;
        ref front = queue_front(c, lock, budget, &unsure);
        if (unsure) {
            return UNSURE;
        }
        if (front != p || !fits(c, lock, w)) {
            return NOT_READY;
        }
    }
    return READY;
}

static void give(struct core *c, ref waiter)
{
    struct waiter *w = waiter_at(c, waiter);
    ref locks[LIMIT_MULTILOCK_NAMES];
    uint32_t count = 0;
    for (ref p = w->places; p != 0; p = place_at(c, p)->sibling) {
        locks[count++] = place_at(c, p)->lock;
    }
    hf_assert(count == w->parts);
    struct grant_terms terms = {.session = w->session,
                                .owner = waiter_owner(w),
                                .carried = carried_slices(c, &w->carried),
                                .lease = w->lease,
                                .request = w->request,
                                .ttl_ms = w->ttl_ms,
                                .max_hold_ms = w->max_hold_ms,
                                .delay_ms = w->delay_ms,
                                .permits = w->permits,
                                .key_flags = w->flags & ACQUIRE_KEY ? GRANT_IS_KEY : 0,
                                .mode = (enum mode)w->mode};
    hf_assert(!session_is_dead(c, session_at(c, w->session))); /* etcd#11456 */
    waiter_remove(c, waiter);
    (void)grant_give(c, locks, count, &terms, w);
    carried_free(c, &w->carried);
    pool_free(&c->pool, waiter, waiter_size(w));
}

/* False: the budget ran out, and the name may have capacity for a waiter. */
static bool wake_one(struct core *c, ref lock, uint32_t *budget)
{
    for (;;) {
        bool unsure = false;
        ref front = queue_front(c, lock, budget, &unsure);
        if (unsure) {
            return false;
        }
        if (front == 0) {
            return true;
        }
        ref waiter = place_at(c, front)->waiter;
        const struct waiter *w = waiter_at(c, waiter);
        if (!fits(c, lock, w)) {
            return true;
        }
        if (w->parts > 1) {
            enum ready ready = ready_everywhere(c, w, budget);
            if (ready != READY) {
                return ready == NOT_READY;
            }
        }
        if (!waiter_is_allowed(c, w)) { /* S14.4 */
            *budget -= w->parts < *budget ? w->parts : *budget;
            waiter_end(c, waiter, REASON_DENIED);
            continue;
        }
        if (core_tokens_left(c) == 0) { /* it stays first in its queue */
            *budget = 0;
            return false;
        }
        if (*budget < w->parts) {
            *budget = 0;
            return false;
        }
        *budget -= w->parts;
        give(c, waiter);
    }
}

/* Wakes the names in whose queues waiters of a gone node are first. */
static void revisit_node_waiters(struct core *c, uint32_t *budget)
{
    while (c->revisits != 0 && *budget > 0) {
        ref obj = RING_FIRST(c, c->revisits, node_waiters, revisited);
        hf_assert(node_waiters_at(c, obj)->gone);
        const struct waiter *w = waiter_at(c, node_waiters_at(c, obj)->revisit);
        for (ref p = w->places; p != 0; p = place_at(c, p)->sibling) {
            core_step(c, 1);
            lock_wake(c, place_at(c, p)->lock);
        }
        *budget -= w->parts < *budget ? w->parts : *budget;
        node_waiters_revisit_next(c, obj);
    }
}

void wake_all(struct core *c)
{
    uint32_t budget = LIMIT_WAKE_STEPS;
    revisit_node_waiters(c, &budget);
    while (c->woken != 0 && budget > 0) {
        ref extra = RING_FIRST(c, c->woken, lock_extra, woken);
        ref lock = lock_extra_at(c, extra)->lock;
        hf_assert(lock_at(c, lock)->extra == extra);
        tenant_charge(c, lock_at(c, lock)->tenant);
        budget--;
        core_step(c, 1);
        if (!wake_one(c, lock, &budget)) {
            return;
        }
        RING_REMOVE(c, &c->woken, extra, lock_extra, woken);
        lock_drop_if_unused(c, lock);
    }
}

bool wake_pending(const struct core *c)
{
    return c->woken != 0 || c->revisits != 0;
}

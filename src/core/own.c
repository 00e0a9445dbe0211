/* Which names the same (session, owner) already holds or waits for (S4.1). */
#include "core/acquire_request.h"

/* A grant past its deadline does not count, swept or not (S1.7). */
static bool is_own_grant(const struct core *c, const struct acquire_request *req,
                         const struct grant *g)
{
    return slice_equal(grant_owner(g), req->a->owner) && !(c->backlog && grant_is_dead(c, g));
}

static bool is_own_waiter(const struct core *c, const struct acquire_request *req,
                          const struct waiter *w)
{
    return slice_equal(waiter_owner(w), req->a->owner) && !(c->backlog && waiter_is_dead(c, w));
}

/* One name: walks the lock's holders and the session's holds in parallel, at most the length of the
 * shorter list. The same for waiters. */
static void find_own_of_one(struct core *c, const struct acquire_request *req, ref lock,
                            struct own *own)
{
    hf_assert(req->count == 1 && lock == req->locks[0]);
    const struct session *s = session_at(c, req->session);
    const ref holders = lock_at(c, lock)->holders;
    ref x = RING_FIRST(c, holders, grant, in_lock);
    ref y = RING_FIRST(c, s->holds, grant, in_session);
    while (x != 0 && y != 0) {
        core_step(c, 1);
        const struct grant *g = grant_at(c, x);
        const struct grant *h = grant_at(c, y);
        bool by_lock = g->session == req->session && is_own_grant(c, req, g);
        if (by_lock || (h->lock == lock && is_own_grant(c, req, h))) {
            own->held = 1;
            own->grant = by_lock ? x : y;
            return;
        }
        x = ring_after(&c->pool, holders, x, offsetof(struct grant, in_lock));
        y = ring_after(&c->pool, s->holds, y, offsetof(struct grant, in_session));
    }
    const struct lock_extra *extra = lock_extra_get(c, lock_at(c, lock));
    const ref queue = extra == NULL ? 0 : extra->queue;
    ref place = RING_FIRST(c, queue, place, in_queue);
    ref waiter = RING_FIRST(c, s->waits, waiter, in_session);
    ref part = waiter == 0 ? 0 : waiter_at(c, waiter)->places;
    while (place != 0 && part != 0) {
        core_step(c, 1);
        const struct waiter *w = waiter_at(c, place_at(c, place)->waiter);
        const struct waiter *v = waiter_at(c, waiter);
        if ((w->session == req->session && is_own_waiter(c, req, w)) ||
            (place_at(c, part)->lock == lock && is_own_waiter(c, req, v))) {
            own->waited_for = 1;
            return;
        }
        place = ring_after(&c->pool, queue, place, offsetof(struct place, in_queue));
        part = place_at(c, part)->sibling;
        if (part == 0) {
            waiter = ring_after(&c->pool, s->waits, waiter, offsetof(struct waiter, in_session));
            part = waiter == 0 ? 0 : waiter_at(c, waiter)->places;
        }
    }
}

/* Locks sorted by reference, to find a lock's number. */
struct numbered {
    ref lock;
    uint32_t number;
};

static uint64_t bit_of(const struct numbered *locks, uint32_t count, ref lock)
{
    hf_assert(count <= LIMIT_MULTILOCK_NAMES);
    uint32_t low = 0;
    uint32_t high = count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (locks[middle].lock < lock) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < count && locks[low].lock == lock ? UINT64_C(1) << locks[low].number : 0;
}

/* Several names: one walk over the session's entries (at most 10,000), not one per name. */
static void find_own_of_many(struct core *c, const struct acquire_request *req, struct own *own)
{
    struct numbered locks[LIMIT_MULTILOCK_NAMES];
    hf_assert(req->count > 1 && req->count <= LIMIT_MULTILOCK_NAMES);
    uint32_t count = 0;
    for (uint32_t i = 0; i < req->count; i++) {
        if (req->locks[i] == 0) {
            continue;
        }
        uint32_t at = count++;
        for (; at > 0 && locks[at - 1].lock > req->locks[i]; at--) {
            locks[at] = locks[at - 1];
        }
        locks[at] = (struct numbered){req->locks[i], i};
    }
    const struct session *s = session_at(c, req->session);
    RING_EACH(c, obj, s->holds, grant, in_session)
    {
        const struct grant *g = grant_at(c, obj);
        core_step(c, 1);
        if (is_own_grant(c, req, g)) {
            own->held |= bit_of(locks, count, g->lock);
        }
    }
    RING_EACH(c, obj, s->waits, waiter, in_session)
    {
        const struct waiter *w = waiter_at(c, obj);
        core_step(c, w->parts);
        for (ref p = is_own_waiter(c, req, w) ? w->places : 0; p != 0;
             p = place_at(c, p)->sibling) {
            own->waited_for |= bit_of(locks, count, place_at(c, p)->lock);
        }
    }
}

void find_own(struct core *c, const struct acquire_request *req, struct own *own)
{
    *own = (struct own){0, 0, 0};
    hf_assert(req->count >= 1);
    if (req->session == 0) {
        return; /* a private session is new */
    }
    if (req->count > 1) {
        find_own_of_many(c, req, own);
    } else if (req->locks[0] != 0) {
        find_own_of_one(c, req, req->locks[0], own);
    }
}

/* The sweep at the start of an entry: ends what is due, in (deadline, kind, id) order, within S2.1.
 * Every command treats the rest, the backlog, as dead (S1.7). Then it ends sessions of removed
 * principals, if a policy_change requested that. */
#include "core/state.h"

struct budget {
    uint32_t sessions; /* ended */
    uint32_t entries;  /* grants and places ended */
    uint32_t visits;
};

static uint64_t due_ms(const struct core *c, ref obj)
{
    switch ((enum object_kind) * (const uint8_t *)pool_at(&c->pool, obj)) {
    case KIND_SESSION:
        return session_deadline(c, session_at(c, obj));
    case KIND_GRANT:
        return grant_due_ms(c, grant_at(c, obj));
    case KIND_WAITER:
        return waiter_due_ms(c, waiter_at(c, obj));
    case KIND_LOCK:
        return lock_extra_at(c, lock_at(c, obj)->extra)->delayed_until_ms;
    case KIND_NODE_WAITERS:
        return node_waiters_at(c, obj)->until_ms;
    case KIND_COUNTER:
        return counter_at(c, obj)->deadline_ms;
    }
    hf_panic(__FILE__, __LINE__, "an object of no kind is due");
}

static bool fits_budget(const struct budget *b, uint32_t sessions, uint32_t entries)
{
    if (b->sessions == 0 && b->entries == 0) {
        return true; /* one session, whatever its size */
    }
    return b->sessions + sessions <= LIMIT_SWEEP_SESSIONS &&
           b->entries + entries <= LIMIT_SWEEP_LOCKS;
}

/* False: over the budget of this sweep. */
static bool end_due(struct core *c, ref obj, struct budget *b)
{
    uint32_t sessions = 0;
    uint32_t entries = 0;
    hf_assert(heap_min(&c->timers) == obj);
    enum object_kind kind = (enum object_kind) * (const uint8_t *)pool_at(&c->pool, obj);
    switch (kind) {
    case KIND_SESSION:
        sessions = 1;
        entries = session_at(c, obj)->entries;
        break;
    case KIND_GRANT:
        entries = grant_parts(c, grant_at(c, obj));
        break;
    case KIND_WAITER:
        entries = waiter_at(c, obj)->parts;
        break;
    case KIND_COUNTER:
        entries = 1;
        break;
    case KIND_LOCK:
    case KIND_NODE_WAITERS:
        break;
    }
    if (kind == KIND_SESSION && session_is_mirrored(c, session_at(c, obj))) {
        session_put_off(c, obj);
        return true;
    }
    if (!fits_budget(b, sessions, entries)) {
        return false;
    }
    hf_assert(sessions <= 1);
    b->sessions += sessions;
    b->entries += entries;
    switch (kind) {
    case KIND_SESSION:
        session_end(c, obj, ENDED_SESSION_EXPIRED);
        break;
    case KIND_GRANT:
        grant_end_dead(c, obj);
        break;
    case KIND_WAITER:
        waiter_end_dead(c, obj);
        break;
    case KIND_LOCK:
        lock_delay_over(c, obj);
        break;
    case KIND_COUNTER:
        counter_remove(c, obj);
        break;
    case KIND_NODE_WAITERS: {
        uint32_t left = b->entries >= LIMIT_SWEEP_LOCKS ? 0 : LIMIT_SWEEP_LOCKS - b->entries;
        uint32_t before = left;
        bool all = node_waiters_leave(c, obj, &left);
        b->entries += before - left;
        return all;
    }
    }
    return true;
}

/* Ends the sessions of removed principals with what the sweep left of its budget (S14.4). */
static void purge(struct core *c, struct budget *b)
{
    while (c->purge_at != 0 && b->visits < LIMIT_SWEEP_VISITS) {
        ref obj = c->purge_at;
        const struct session *s = session_at(c, obj);
        b->visits++;
        core_step(c, 1);
        if (!principal_is_removed(c, s->principal) || session_is_mirrored(c, s)) {
            c->purge_at = ring_after(&c->pool, c->all_sessions, obj, offsetof(struct session, all));
            continue;
        }
        if (!fits_budget(b, 1, s->entries)) {
            return;
        }
        b->sessions++;
        b->entries += s->entries;
        session_end(c, obj, ENDED_REVOKED);
        hf_assert(c->purge_at != obj);
    }
}

void sweep(struct core *c)
{
    struct budget b = {0, 0, 0};
    c->backlog = false;
    while (heap_min_at(&c->timers) <= c->now_ms) {
        if (b.visits == LIMIT_SWEEP_VISITS) {
            c->backlog = true;
            break;
        }
        b.visits++;
        core_step(c, 1);
        ref obj = heap_min(&c->timers);
        hf_assert(obj != 0 && b.visits <= LIMIT_SWEEP_VISITS);
        uint64_t due = due_ms(c, obj);
        hf_assert(due >= heap_min_at(&c->timers));
        if (due > heap_min_at(&c->timers)) {
            timer_set(c, obj, due); /* the deadline was moved: correct it */
        } else if (!end_due(c, obj, &b)) {
            c->backlog = true;
            break;
        }
    }
    if (!c->backlog) {
        purge(c, &b);
    }
    wake_all(c);
}

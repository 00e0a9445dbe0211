/* The sweep: what is due ends in the order (deadline, kind, id), within limits (S1.7, S2.1). */
#include "model_state.h"

enum kind {
    KIND_SESSION,
    KIND_GRANT,
    KIND_WAITER,
    KIND_DELAY,
    KIND_GROUP,
    KIND_COUNTER,
    KIND_NOTHING
};

struct due {
    uint64_t deadline_ms;
    enum kind kind;
    void *what;
};

static bool name_order(uint32_t tenant, const struct owned *text, uint32_t other_tenant,
                       const struct owned *other)
{
    return tenant != other_tenant ? tenant < other_tenant
                                  : slice_compare(owned_slice(text), owned_slice(other)) < 0;
}

/* Is `a` before `b` of the same kind, by their ids? */
static bool id_order(enum kind kind, const void *a, const void *b)
{
    switch (kind) {
    case KIND_SESSION:
        return id_before(((const struct model_session *)a)->id,
                         ((const struct model_session *)b)->id);
    case KIND_GRANT:
        return ((const struct model_grant *)a)->token < ((const struct model_grant *)b)->token;
    case KIND_WAITER:
        return ((const struct model_waiter *)a)->ticket < ((const struct model_waiter *)b)->ticket;
    case KIND_DELAY: {
        const struct model_name *x = a;
        const struct model_name *y = b;
        return name_order(x->tenant, &x->text, y->tenant, &y->text);
    }
    case KIND_COUNTER: {
        const struct model_counter *x = a;
        const struct model_counter *y = b;
        return name_order(x->tenant, &x->text, y->tenant, &y->text);
    }
    case KIND_GROUP:
        return ((const struct model_node_waiters *)a)->number <
               ((const struct model_node_waiters *)b)->number;
    case KIND_NOTHING:
        break;
    }
    return false;
}

static void consider(struct due *first, enum kind kind, uint64_t deadline_ms, void *what)
{
    bool better = deadline_ms < first->deadline_ms;
    if (deadline_ms == first->deadline_ms && deadline_ms != NEVER) {
        better = kind != first->kind ? kind < first->kind : id_order(kind, what, first->what);
    }
    if (better) {
        *first = (struct due){deadline_ms, kind, what};
    }
}

static uint64_t waiter_due(const struct model_waiter *w)
{
    bool detached = w->detached_until_ms != 0 && w->detached_until_ms < w->wait_deadline_ms;
    return detached ? w->detached_until_ms : w->wait_deadline_ms;
}

void model_timer_lower(uint64_t *timer_ms, uint64_t at_ms)
{
    *timer_ms = at_ms < *timer_ms ? at_ms : *timer_ms;
}

/* One that lasts as long as its session needs no timer. */
void model_grant_reschedule(struct model_grant *g)
{
    if (g->r.ttl_ms != 0 || g->revoke_at_ms != 0 || g->r.max_hold_ms != 0) {
        model_timer_lower(&g->timer_ms, model_grant_due(g));
    }
}

/* The first thing that has a timer at all. */
static struct due find_first(const struct model *m)
{
    struct due first = {NEVER, KIND_NOTHING, NULL};
    for (size_t i = 0; i < m->sessions.count; i++) {
        struct model_session *s = m->sessions.at[i];
        consider(&first, KIND_SESSION, s->timer_ms, s);
    }
    for (size_t i = 0; i < m->grants.count; i++) {
        struct model_grant *g = m->grants.at[i];
        consider(&first, KIND_GRANT, g->timer_ms, g);
    }
    for (size_t i = 0; i < m->waiters.count; i++) {
        struct model_waiter *w = m->waiters.at[i];
        consider(&first, KIND_WAITER, w->timer_ms, w);
    }
    for (size_t i = 0; i < m->node_waiters_all.count; i++) {
        struct model_node_waiters *node_waiters = m->node_waiters_all.at[i];
        consider(&first, KIND_GROUP, node_waiters->gone ? node_waiters->until_ms : NEVER,
                 node_waiters);
    }
    for (size_t i = 0; i < m->names.count; i++) {
        struct model_name *name = m->names.at[i];
        consider(&first, KIND_DELAY, name->delayed_until_ms > 0 ? name->delayed_until_ms : NEVER,
                 name);
    }
    for (size_t i = 0; i < m->counters.count; i++) {
        struct model_counter *n = m->counters.at[i];
        consider(&first, KIND_COUNTER, n->deadline_ms, n);
    }
    return first;
}

/* Moves the timer to where it belongs; false when it is there. */
static bool put_off(const struct due *due)
{
    uint64_t *timer_ms = NULL;
    uint64_t due_ms = 0;
    switch (due->kind) {
    case KIND_SESSION:
        timer_ms = &((struct model_session *)due->what)->timer_ms;
        due_ms = model_session_deadline(due->what);
        break;
    case KIND_GRANT:
        timer_ms = &((struct model_grant *)due->what)->timer_ms;
        due_ms = model_grant_due(due->what);
        break;
    case KIND_WAITER:
        timer_ms = &((struct model_waiter *)due->what)->timer_ms;
        due_ms = waiter_due(due->what);
        break;
    case KIND_DELAY:
    case KIND_GROUP:
    case KIND_COUNTER:
    case KIND_NOTHING:
        return false;
    }
    bool later = due_ms > *timer_ms;
    *timer_ms = due_ms;
    return later;
}

static uint32_t session_entries(const struct model_session *s)
{
    uint32_t entries = 0;
    for (size_t i = 0; i < s->grants.count; i++) {
        entries += ((const struct model_grant *)s->grants.at[i])->r.parts;
    }
    for (size_t i = 0; i < s->waiters.count; i++) {
        entries += ((const struct model_waiter *)s->waiters.at[i])->r.parts;
    }
    return entries;
}

static uint32_t entries_of(const struct due *due)
{
    switch (due->kind) {
    case KIND_SESSION:
        return session_entries(due->what);
    case KIND_GRANT:
        return ((const struct model_grant *)due->what)->r.parts;
    case KIND_WAITER:
        return ((const struct model_waiter *)due->what)->r.parts;
    case KIND_COUNTER:
        return 1;
    case KIND_DELAY:
    case KIND_GROUP: /* counts its waiters as they go */
    case KIND_NOTHING:
        break;
    }
    return 0;
}

/* What one sweep has ended so far. */
struct tally {
    uint32_t sessions;
    uint32_t entries;
    uint32_t visits;
};

/* The waiters of a group leave one by one; false when the sweep ends before the group does. */
static bool end_group(struct model *m, struct model_node_waiters *node_waiters, struct tally *tally)
{
    for (size_t left = node_waiters->waiters.count; left > 0; left--) {
        struct model_waiter *w = node_waiters->waiters.at[0];
        if (tally->entries + w->r.parts > LIMIT_SWEEP_LOCKS) {
            return false;
        }
        tally->entries += w->r.parts;
        model_end_waiter(m, w, REASON_DETACHED); /* the last takes the group of waiters with it */
    }
    return true;
}

/* False when it does not fit into this sweep any more. */
static bool end_due(struct model *m, const struct due *due, struct tally *tally)
{
    uint32_t entries = entries_of(due);
    uint32_t sessions = due->kind == KIND_SESSION;
    bool first_thing = tally->sessions == 0 && tally->entries == 0; /* it goes, however large */
    if (!first_thing && (tally->entries + entries > LIMIT_SWEEP_LOCKS ||
                         tally->sessions + sessions > LIMIT_SWEEP_SESSIONS)) {
        return false;
    }
    tally->entries += entries;
    tally->sessions += sessions;
    switch (due->kind) {
    case KIND_SESSION:
        model_bury_session(m, due->what);
        break;
    case KIND_GRANT:
        model_bury_grant(m, due->what);
        break;
    case KIND_WAITER:
        model_bury_waiter(m, due->what);
        break;
    case KIND_GROUP:
        return end_group(m, due->what, tally);
    case KIND_COUNTER:
        model_remove_counter(m, due->what);
        break;
    case KIND_DELAY: {
        struct model_name *name = due->what;
        name->delayed_until_ms = 0;
        model_wake(m, name);
        break;
    }
    case KIND_NOTHING:
        break;
    }
    return true;
}

/* Ends the sessions of removed principals, with what is left of the sweep. */
static void purge(struct model *m, struct tally *tally)
{
    while (m->purge_at != NULL && tally->visits < LIMIT_SWEEP_VISITS) {
        struct model_session *s = m->purge_at;
        uint32_t entries = session_entries(s);
        bool first_thing = tally->sessions == 0 && tally->entries == 0;
        tally->visits++;
        if (model_principal_exists(m, s->principal)) {
            m->purge_at = model_session_after(m, s);
            continue;
        }
        if (!first_thing && (tally->entries + entries > LIMIT_SWEEP_LOCKS ||
                             tally->sessions + 1 > LIMIT_SWEEP_SESSIONS)) {
            return;
        }
        tally->sessions++;
        tally->entries += entries;
        model_end_session(m, s, ENDED_REVOKED);
    }
}

void model_sweep(struct model *m)
{
    struct tally tally = {0, 0, 0};
    m->backlog = false;
    for (;;) {
        struct due due = find_first(m);
        if (due.kind == KIND_NOTHING || due.deadline_ms > m->now_ms) {
            purge(m, &tally);
            return;
        }
        if (tally.visits++ == LIMIT_SWEEP_VISITS) {
            break;
        }
        if (!put_off(&due) && !end_due(m, &due, &tally)) {
            break;
        }
    }
    m->backlog = true;
}

uint64_t model_next_due_ms(const struct model *m)
{
    if (model_has_woken(m) || m->backlog || m->purge_at != NULL) {
        return m->now_ms;
    }
    return find_first(m).deadline_ms;
}

void model_prune_name(struct model *m, struct model_name *name)
{
    if (!m->backlog) {
        return; /* the sweep has seen to everything */
    }
    for (size_t i = 0; i < name->holders.count && m->prune_left > 0;) {
        struct model_grant *g = name->holders.at[i];
        m->prune_left--;
        if (model_grant_dead(m, g)) {
            model_bury_grant(m, g);
        } else {
            i++;
        }
    }
    bool unsure = false;
    (void)model_front(m, name, &m->prune_left, &unsure);
}

/* Optional deadlock detection (S6.4): would this request close a cycle of waiting owners? A bounded
 * breadth-first search from its owner to the holders and the earlier incompatible waiters of each
 * name. The result reports when it was given up. */
#include "core/state.h"

struct owner {
    ref session;
    struct slice name;
    struct slice via; /* lock for which `from` waits */
    uint32_t from;    /* predecessor */
};

struct deadlock_search {
    struct core *c;
    uint32_t edges;
    uint32_t visits;
    uint32_t known; /* owners; [0] is the request's */
    bool exhausted;
    bool closed; /* a cycle: owners[last] waits for owners[0] at `via` */
    uint32_t last;
    struct slice via;
    struct owner owners[LIMIT_DEADLOCK_EDGES + 1];
};

static bool is_owner(const struct owner *o, ref session, struct slice name)
{
    return o->session == session && slice_equal(o->name, name);
}

static bool visit(struct deadlock_search *w)
{
    hf_assert(w->visits <= LIMIT_DEADLOCK_VISITS);
    w->visits++;
    core_step(w->c, 1);
    if (w->visits > LIMIT_DEADLOCK_VISITS) {
        w->exhausted = true;
    }
    return !w->exhausted;
}

static bool holds_something(struct deadlock_search *w, ref session, struct slice owner)
{
    const ref last = session_at(w->c, session)->holds;
    RING_EACH(w->c, obj, last, grant, in_session)
    {
        if (!visit(w)) {
            return false;
        }
        const struct grant *g = grant_at(w->c, obj);
        if (slice_equal(grant_owner(g), owner) && !(w->c->backlog && grant_is_dead(w->c, g))) {
            return true;
        }
    }
    return false;
}

/* owners[from] waits for (session, owner) at `via`. */
static void edge(struct deadlock_search *w, uint32_t from, struct slice via, ref session,
                 struct slice owner)
{
    hf_assert(from < w->known && w->known <= w->edges + 1);
    if (w->edges == LIMIT_DEADLOCK_EDGES) {
        w->exhausted = true;
        return;
    }
    w->edges++;
    if (is_owner(&w->owners[0], session, owner)) {
        if (from != 0) { /* waiting for itself: `already_held` */
            w->closed = true;
            w->last = from;
            w->via = via;
        }
        return;
    }
    for (uint32_t i = 1; i < w->known; i++) {
        if (is_owner(&w->owners[i], session, owner)) {
            return;
        }
    }
    if (holds_something(w, session, owner)) {
        w->owners[w->known++] = (struct owner){session, owner, via, from};
    }
}

/* What owners[from] waits for in `mode` at `place` (0: it would be the last). */
static void expand(struct deadlock_search *w, uint32_t from, ref lock, ref place, enum mode mode)
{
    struct core *c = w->c;
    hf_assert(from < w->known && (unsigned)mode < MODE_COUNT);
    const struct lock *l = lock_at(c, lock);
    struct slice via = lock_name(l);
    bool beside_holders = mode == MODE_SHARED && l->mode == MODE_SHARED;
    RING_EACH(c, obj, beside_holders ? 0 : l->holders, grant, in_lock)
    {
        const struct grant *g = grant_at(c, obj);
        if (!visit(w) || w->closed) {
            return;
        }
        if (!(c->backlog && grant_is_dead(c, g))) {
            edge(w, from, via, g->session, grant_owner(g));
        }
    }
    const struct lock_extra *x = lock_extra_get(c, l);
    RING_EACH(c, obj, x == NULL ? 0 : x->queue, place, in_queue)
    {
        if (obj == place || !visit(w) || w->closed) {
            return;
        }
        const struct waiter *earlier = waiter_at(c, place_at(c, obj)->waiter);
        bool beside = mode == MODE_SHARED && earlier->mode == MODE_SHARED;
        if (!beside && !waiter_is_detached(c, earlier) &&
            !(c->backlog && waiter_is_dead(c, earlier))) {
            edge(w, from, via, earlier->session, waiter_owner(earlier));
        }
    }
}

static void expand_owner(struct deadlock_search *w, uint32_t from)
{
    struct core *c = w->c;
    hf_assert(from > 0 && from < w->known);
    const struct owner o = w->owners[from];
    RING_EACH(c, obj, session_at(c, o.session)->waits, waiter, in_session)
    {
        if (!visit(w)) {
            return;
        }
        const struct waiter *waiter = waiter_at(c, obj);
        if (!slice_equal(waiter_owner(waiter), o.name) ||
            (c->backlog && waiter_is_dead(c, waiter))) {
            continue;
        }
        for (ref p = waiter->places; p != 0; p = place_at(c, p)->sibling) {
            expand(w, from, place_at(c, p)->lock, p, (enum mode)waiter->mode);
            if (w->closed || w->exhausted) {
                return;
            }
        }
    }
}

static void report(struct deadlock_search *w, struct result *out)
{
    hf_assert(w->closed && w->last > 0 && w->last < w->known);
    uint32_t length = 1;
    for (uint32_t i = w->last; i != 0; i = w->owners[i].from) {
        length++;
    }
    struct slice via = w->via;
    uint32_t at = w->last;
    for (uint32_t k = length; k > 0; k--) {
        hf_assert((k == 1) == (at == 0));
        if (k <= LIMIT_DEADLOCK_CYCLE) {
            const struct session *s = session_at(w->c, w->owners[at].session);
            w->c->cycle[k - 1] = (struct cycle_step){session_client(s), w->owners[at].name, via};
        }
        via = w->owners[at].via;
        at = w->owners[at].from;
    }
    out->cycle = w->c->cycle;
    out->cycle_length = length < LIMIT_DEADLOCK_CYCLE ? length : LIMIT_DEADLOCK_CYCLE;
}

bool deadlock_would_close(struct core *c, ref session, struct slice owner, const ref *locks,
                          uint32_t count, enum mode mode, struct result *out)
{
    struct deadlock_search w;
    hf_assert(session != 0 && count >= 1 && count <= LIMIT_MULTILOCK_NAMES);
    w.c = c;
    w.edges = w.visits = 0;
    w.exhausted = w.closed = false;
    w.known = 1;
    w.owners[0] = (struct owner){.session = session, .name = owner};
    if (!holds_something(&w, session, owner)) {
        out->deadlock_unchecked = w.exhausted;
        return false; /* it holds nothing: no owner waits for it */
    }
    for (uint32_t i = 0; i < count && !w.exhausted; i++) {
        if (locks[i] != 0) {
            expand(&w, 0, locks[i], 0, mode);
        }
    }
    for (uint32_t i = 1; i < w.known && !w.closed && !w.exhausted; i++) {
        expand_owner(&w, i);
    }
    if (w.closed) {
        report(&w, out);
        return true;
    }
    out->deadlock_unchecked = w.exhausted;
    return false;
}

/* Handing over: a woken name gives its waiters what is free, from the front. */
#include "model_state.h"

void model_wake(struct model *m, struct model_name *name)
{
    if (!name->woken && name->furnished) {
        name->woken = true;
        model_list_add(&m->woken, name);
    }
}

static bool all_shared(const struct model_name *name)
{
    for (size_t i = 0; i < name->holders.count; i++) {
        if (((const struct model_grant *)name->holders.at[i])->r.mode != MODE_SHARED) {
            return false;
        }
    }
    return true;
}

bool model_name_has_capacity(const struct model *m, const struct model_name *name, enum mode mode,
                             uint32_t limit, uint32_t permits)
{
    if (name->delayed_until_ms > m->now_ms) {
        return false;
    }
    switch (mode) {
    case MODE_SHARED:
        return name->holders.count < LIMIT_HOLDERS && all_shared(name);
    case MODE_SEMAPHORE:
        return model_name_permits_used(name) + permits <= limit;
    case MODE_EXCLUSIVE:
    case MODE_ELECTION:
    case MODE_COUNT:
        break;
    }
    return name->holders.count == 0;
}

static uint32_t lowest_slot(const struct model_name *name)
{
    bool *taken = model_alloc((name->holders.count + 1) * sizeof(*taken));
    for (size_t i = 0; i < name->holders.count; i++) {
        const struct model_grant *g = name->holders.at[i];
        if (g->slot < name->holders.count) {
            taken[g->slot] = true;
        }
    }
    uint32_t slot = 0;
    while (taken[slot]) {
        slot++;
    }
    free(taken);
    return slot;
}

static void announce_grant(struct model *m, const struct model_grant *g,
                           const struct model_waiter *waited)
{
    struct event more;
    memset(&more, 0, sizeof(more));
    more.deadline_ms = model_grant_deadline(g);
    if (waited != NULL) {
        more.attachment = waited->attachment;
        more.node = waited->node;
        more.waited_ms = waited->since_ms != 0 ? m->now_ms - waited->since_ms : 0;
    }
    for (uint32_t i = 0; i < g->r.parts; i++) {
        model_emit_grant(m, EVENT_GRANTED, g, i, &more);
    }
    if (g->r.mode == MODE_ELECTION) {
        memset(&more, 0, sizeof(more));
        more.text = owned_slice(&g->r.value);
        model_emit_grant(m, EVENT_LEADER_CHANGED, g, 0, &more);
    }
}

struct model_grant *model_grant(struct model *m, const struct request *r,
                                const struct model_waiter *waited)
{
    struct model_grant *g = model_alloc(sizeof(*g));
    struct model_session *s = r->session;
    hf_assert(!model_session_dead(m, s));
    m->counter++;
    g->r = *r;
    g->token = m->counter * 1024;
    g->since_ms = m->now_ms;
    g->renewed_ms = m->now_ms;
    g->depth = 1;
    g->slot = r->mode == MODE_SEMAPHORE ? lowest_slot(r->names[0]) : 0;
    if (s->is_private) {
        s->waits = false;
        s->alive_ms = m->now_ms;
        s->timer_ms = model_session_deadline(s);
    }
    g->timer_ms = NEVER;
    model_grant_reschedule(g);
    model_list_add(&m->grants, g);
    model_list_add(&s->grants, g);
    for (uint32_t i = 0; i < r->parts; i++) {
        model_list_add(&r->names[i]->holders, g);
        r->names[i]->furnished |= r->mode == MODE_SHARED || r->mode == MODE_SEMAPHORE;
    }
    announce_grant(m, g, waited);
    return g;
}

struct model_waiter *model_front(struct model *m, struct model_name *name, uint32_t *steps,
                                 bool *unsure)
{
    for (;;) {
        struct model_waiter *w = model_name_cursor(name);
        if (w == NULL) {
            return NULL;
        }
        if (*steps == 0) {
            *unsure = true;
            return NULL;
        }
        --*steps;
        if (model_waiter_dead(m, w)) {
            uint32_t more = w->r.parts - 1; /* each of its places is a step */
            *steps -= more < *steps ? more : *steps;
            model_bury_waiter(m, w);
        } else if (model_waiter_detached(w)) {
            name->cursor = w->ticket + 1;
        } else {
            return w;
        }
    }
}

enum ready { READY, NOT_READY, UNSURE };

/* A multi-lock needs the first place in all its queues, and all its names free (S6.2). */
static enum ready ready_everywhere(struct model *m, const struct model_waiter *w, uint32_t *steps)
{
    for (uint32_t i = 0; i < w->r.parts; i++) {
        bool unsure = false;
        const struct model_waiter *front = model_front(m, w->r.names[i], steps, &unsure);
        if (unsure) {
            return UNSURE;
        }
        if (front != w ||
            !model_name_has_capacity(m, w->r.names[i], w->r.mode, w->r.limit, w->r.permits)) {
            return NOT_READY;
        }
    }
    return READY;
}

static void grant_waiter(struct model *m, struct model_waiter *w)
{
    hf_assert(model_list_remove(&m->waiters, w) && model_list_remove(&w->r.session->waiters, w));
    model_node_waiters_part(m, w);
    for (uint32_t i = 0; i < w->r.parts; i++) {
        hf_assert(model_list_remove(&w->r.names[i]->queue, w));
        model_wake(m, w->r.names[i]);
    }
    model_grant(m, &w->r, w);
    free(w); /* what it requested belongs to the grant now */
}

static bool may_lock_all(const struct model *m, const struct model_waiter *w)
{
    const struct model_session *s = w->r.session;
    for (uint32_t i = 0; i < w->r.parts; i++) {
        if (!model_may_lock(m, s->principal, s->tenant, owned_slice(&w->r.names[i]->text))) {
            return false;
        }
    }
    return true;
}

/* False when the steps ran out. */
static bool serve_name(struct model *m, struct model_name *name, uint32_t *steps)
{
    for (;;) {
        bool unsure = false;
        struct model_waiter *w = model_front(m, name, steps, &unsure);
        if (unsure) {
            return false;
        }
        if (w == NULL || !model_name_has_capacity(m, name, w->r.mode, w->r.limit, w->r.permits)) {
            return true;
        }
        if (w->r.parts > 1) {
            enum ready ready = ready_everywhere(m, w, steps);
            if (ready != READY) {
                return ready == NOT_READY;
            }
        }
        if (!may_lock_all(m, w)) { /* S14.4 */
            *steps -= w->r.parts < *steps ? w->r.parts : *steps;
            model_end_waiter(m, w, REASON_DENIED);
            continue;
        }
        if (*steps < w->r.parts) {
            return false;
        }
        *steps -= w->r.parts;
        grant_waiter(m, w);
    }
}

/* Steps: one for each name, for each waiter looked at, and for each name given. */
void model_serve(struct model *m)
{
    uint32_t steps = LIMIT_WAKE_STEPS;
    model_node_waiters_revisit(m, &steps);
    while (m->woken.count > 0 && steps > 0) {
        struct model_name *name = m->woken.at[0];
        steps--;
        if (!serve_name(m, name, &steps)) {
            return; /* it stays the first */
        }
        name->woken = false;
        hf_assert(model_list_remove(&m->woken, name));
    }
}

/* Looking things up, and the deadlines as CORE.md defines them. */
#include "model_state.h"

struct model_name *model_find_name(struct model *m, uint32_t tenant, struct slice text)
{
    uint64_t print = model_print(tenant, text);
    for (size_t i = 0; i < m->names.count; i++) {
        struct model_name *name = m->names.at[i];
        if (name->print == print && name->tenant == tenant &&
            slice_equal(owned_slice(&name->text), text)) {
            return name;
        }
    }
    return NULL;
}

struct model_name *model_make_name(struct model *m, uint32_t tenant, struct slice text)
{
    struct model_name *name = model_find_name(m, tenant, text);
    if (name == NULL) {
        name = model_alloc(sizeof(*name));
        name->tenant = tenant;
        name->text = owned_copy(text);
        name->print = model_print(tenant, text);
        model_list_add(&m->names, name);
    }
    return name;
}

static bool name_in_use(const struct model_name *name)
{
    return name->holders.count > 0 || name->queue.count > 0 || name->delayed_until_ms > 0 ||
           name->woken;
}

static void name_free(struct model_name *name)
{
    owned_free(&name->text);
    model_list_free(&name->holders);
    model_list_free(&name->queue);
    free(name);
}

void model_drop_unused_names(struct model *m)
{
    size_t kept = 0;
    for (size_t i = 0; i < m->names.count; i++) {
        struct model_name *name = m->names.at[i];
        if (name_in_use(name)) {
            m->names.at[kept++] = name;
        } else {
            name_free(name);
        }
    }
    m->names.count = kept;
}

struct model_session *model_find_session(const struct model *m, struct id id)
{
    for (size_t i = 0; i < m->sessions.count; i++) {
        struct model_session *s = m->sessions.at[i];
        if (id_equal(s->id, id)) {
            return s;
        }
    }
    return NULL;
}

struct model_grant *model_find_lease(const struct model *m, uint32_t tenant, struct id lease)
{
    for (size_t i = 0; i < m->grants.count; i++) {
        struct model_grant *g = m->grants.at[i];
        if (id_equal(g->r.lease, lease) && g->r.session->tenant == tenant) {
            return g;
        }
    }
    return NULL;
}

struct model_waiter *model_find_waiter(const struct model *m, uint32_t tenant, struct id lease)
{
    for (size_t i = 0; i < m->waiters.count; i++) {
        struct model_waiter *w = m->waiters.at[i];
        if (id_equal(w->r.lease, lease) && w->r.session->tenant == tenant) {
            return w;
        }
    }
    return NULL;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t model_session_deadline(const struct model_session *s)
{
    if (s->waits) {
        return NEVER;
    }
    uint64_t deadline = s->ttl_ms == TTL_NONE ? NEVER : s->alive_ms + s->ttl_ms;
    return s->broken ? earlier(deadline, s->broken_ms + s->linger_ms) : deadline;
}

uint64_t model_grant_ttl(const struct model_grant *g)
{
    return g->r.ttl_ms != 0 ? g->r.ttl_ms : g->r.session->ttl_ms;
}

uint64_t model_grant_lease_ends(const struct model_grant *g)
{
    const struct model_session *s = g->r.session;
    uint64_t alive = g->renewed_ms > s->alive_ms ? g->renewed_ms : s->alive_ms;
    uint64_t ttl_ms = model_grant_ttl(g);
    return earlier(ttl_ms == TTL_NONE ? NEVER : alive + ttl_ms, model_session_deadline(s));
}

uint64_t model_grant_hold_until(const struct model_grant *g)
{
    return g->r.max_hold_ms != 0 ? g->since_ms + g->r.max_hold_ms : 0;
}

uint64_t model_grant_deadline(const struct model_grant *g)
{
    uint64_t ends = model_grant_lease_ends(g);
    return g->r.max_hold_ms != 0 ? earlier(ends, model_grant_hold_until(g)) : ends;
}

uint64_t model_grant_due(const struct model_grant *g)
{
    uint64_t deadline = model_grant_deadline(g);
    return g->revoke_at_ms != 0 ? earlier(deadline, g->revoke_at_ms) : deadline;
}

uint64_t model_waiter_leaves(const struct model_waiter *w)
{
    uint64_t leaves = w->detached_until_ms != 0 ? w->detached_until_ms : NEVER;
    return w->node_waiters != NULL && w->node_waiters->gone
               ? earlier(leaves, w->node_waiters->until_ms)
               : leaves;
}

bool model_waiter_detached(const struct model_waiter *w)
{
    return model_waiter_leaves(w) != NEVER;
}

uint64_t model_waiter_dies(const struct model_waiter *w, enum reason *why)
{
    uint64_t ends = model_session_deadline(w->r.session);
    uint64_t leaves = model_waiter_leaves(w);
    uint64_t first = earlier(ends, earlier(w->wait_deadline_ms, leaves));
    *why = first == ends                  ? REASON_SESSION_ENDED
           : first == w->wait_deadline_ms ? REASON_TIMEOUT
                                          : REASON_DETACHED;
    return first;
}

bool model_session_dead(const struct model *m, const struct model_session *s)
{
    return model_session_deadline(s) <= m->now_ms;
}

bool model_grant_dead(const struct model *m, const struct model_grant *g)
{
    return model_grant_due(g) <= m->now_ms;
}

bool model_waiter_dead(const struct model *m, const struct model_waiter *w)
{
    enum reason why;
    return model_waiter_dies(w, &why) <= m->now_ms;
}

struct model_waiter *model_name_cursor(const struct model_name *name)
{
    for (size_t i = 0; i < name->queue.count; i++) {
        struct model_waiter *w = name->queue.at[i];
        if (w->ticket >= name->cursor) {
            return w;
        }
    }
    return NULL;
}

uint32_t model_name_permits_used(const struct model_name *name)
{
    uint32_t used = 0;
    for (size_t i = 0; i < name->holders.count; i++) {
        const struct model_grant *g = name->holders.at[i];
        used += g->r.permits;
    }
    return used;
}

bool model_name_mode(const struct model_name *name, enum mode *mode, uint32_t *limit)
{
    const struct request *r = NULL;
    if (name->holders.count > 0) {
        r = &((const struct model_grant *)name->holders.at[0])->r;
    } else if (name->queue.count > 0) {
        r = &((const struct model_waiter *)name->queue.at[0])->r;
    } else {
        return false;
    }
    *mode = r->mode;
    *limit = r->limit;
    return true;
}

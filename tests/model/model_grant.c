/* What is done to a grant or a waiter that exists: release, renew, proclaim, cancel, detach. */
#include "model_state.h"

/* How release, renew and proclaim name a grant. */
struct handle {
    struct slice name;
    struct slice client;
    struct id lease;
    uint64_t token;
};

static struct model_grant *by_name_and_token(struct model *m, uint32_t tenant,
                                             const struct handle *h)
{
    struct model_name *name = model_find_name(m, tenant, h->name);
    for (size_t i = 0; name != NULL && i < name->holders.count; i++) {
        struct model_grant *g = name->holders.at[i];
        if (g->token == h->token) {
            return g;
        }
    }
    return NULL;
}

/* Of any tenant: whether that agrees is checked later. */
static struct model_grant *by_lease_or_token(struct model *m, struct id lease, uint64_t token)
{
    bool by_lease = !id_is_zero(lease);
    for (size_t i = 0; i < m->grants.count; i++) {
        struct model_grant *g = m->grants.at[i];
        if (by_lease ? id_equal(g->r.lease, lease) : g->token == token && g->r.parts > 1) {
            return g;
        }
    }
    return NULL;
}

static bool everything_agrees(const struct model_grant *g, const struct command *c,
                              const struct handle *h)
{
    const struct model_session *s = g->r.session;
    bool name = h->name.len == 0;
    for (uint32_t i = 0; i < g->r.parts; i++) {
        name = name || slice_equal(owned_slice(&g->r.names[i]->text), h->name);
    }
    return name && model_owns(c, s) && (h->token == 0 || h->token == g->token) &&
           (h->client.len == 0 || slice_equal(h->client, owned_slice(&s->client))) &&
           (id_is_zero(c->session) || (!s->is_private && id_equal(c->session, s->id)));
}

static void refuse_ended(struct result *out, enum ended ended)
{
    out->outcome = OUTCOME_REFUSED;
    out->ended = ended;
    switch (ended) {
    case ENDED_RELEASED:
    case ENDED_SESSION_CLOSED:
        out->reason = REASON_ALREADY_RELEASED;
        break;
    case ENDED_EXPIRED:
    case ENDED_SESSION_EXPIRED:
    case ENDED_RECOVERED:
    case ENDED_MAX_HOLD:
        out->reason = REASON_EXPIRED;
        break;
    case ENDED_NOT:
    case ENDED_FORCED:
    case ENDED_REVOKED:
    case ENDED_COUNT:
        out->reason = REASON_NOT_OWNER;
        break;
    }
}

/* NULL when the refusal is in `out`. */
static struct model_grant *find_grant(struct model *m, const struct command *c,
                                      const struct handle *h, struct result *out)
{
    struct model_grant *g = NULL;
    if (id_is_zero(h->lease) && h->name.len > 0) {
        g = by_name_and_token(m, c->tenant, h);
    } else {
        g = by_lease_or_token(m, h->lease, h->token);
    }
    if (g != NULL && g->r.session->tenant != c->tenant) {
        g = NULL; /* the answer tells nothing about another tenant; an end in this one counts */
    }
    if (g != NULL && model_grant_dead(m, g)) {
        model_bury_grant(m, g);
        g = NULL;
    }
    if (g != NULL && !everything_agrees(g, c, h)) {
        refuse_ended(out, ENDED_NOT);
        return NULL;
    }
    if (g != NULL) {
        return g;
    }
    const struct ended_grant *e = !id_is_zero(h->lease) ? model_ended_lease(m, c->tenant, h->lease)
                                                        : model_ended_token(m, c->tenant, h->token);
    if (e != NULL && h->token != 0 && h->token != e->token) {
        e = NULL;
    }
    refuse_ended(out, e != NULL ? e->ended : ENDED_NOT);
    out->token = e != NULL ? e->token : 0;
    return NULL;
}

/* The session is only looked for: one that is gone does not refuse these commands. */
static struct model_session *session_if_alive(struct model *m, const struct command *c)
{
    struct model_session *s = NULL;
    if (!id_is_zero(c->session) && model_named_session(m, c, &s) != HF_OK) {
        return NULL;
    }
    return s;
}

void model_release(struct model *m, const struct command *c, struct result *out)
{
    struct model_session *s = session_if_alive(m, c);
    if (model_once(m, c, s, out)) {
        return;
    }
    const struct command_release *r = &c->release;
    struct handle h = {r->name, r->client, r->lease, r->token};
    struct model_grant *g = find_grant(m, c, &h, out);
    if (g != NULL) {
        out->token = g->token;
        out->depth = --g->depth;
        if (g->depth == 0) {
            struct end end = {.ended = ENDED_RELEASED, .clean = true};
            model_end_grant(m, g, &end);
        }
    }
    model_remember(m, c, s, out, NULL);
}

static void renewal_failed(struct model *m, const struct command *c, const struct result *out)
{
    struct event event = model_event(m, EVENT_RENEWAL_FAILED, c->tenant);
    event.token = c->renew.token;
    event.lease = c->renew.lease;
    event.session = c->session;
    event.name = c->renew.name;
    event.client = c->renew.client;
    event.reason = out->reason;
    event.ended = out->ended;
    model_emit(m, &event);
}

void model_renew_grant(struct model *m, struct model_grant *g, uint64_t ttl_ms)
{
    struct model_session *s = g->r.session;
    g->renewed_ms = m->now_ms;
    if (s->is_private) {
        s->alive_ms = m->now_ms;
        s->ttl_ms = ttl_ms != 0 ? ttl_ms : s->ttl_ms;
        if (s->ttl_ms == TTL_NONE) {
            s->timer_ms = NEVER;
        }
        model_timer_lower(&s->timer_ms, model_session_deadline(s));
    } else {
        g->r.ttl_ms = ttl_ms != 0 ? ttl_ms : g->r.ttl_ms;
        model_grant_reschedule(g);
    }
}

void model_renew(struct model *m, const struct command *c, struct result *out)
{
    struct model_session *s = session_if_alive(m, c);
    if (model_once(m, c, s, out)) {
        return;
    }
    const struct command_renew *r = &c->renew;
    struct handle h = {r->name, r->client, r->lease, r->token};
    struct model_grant *g = find_grant(m, c, &h, out);
    if (g == NULL) {
        renewal_failed(m, c, out);
        model_remember(m, c, s, out, NULL);
        return;
    }
    for (uint32_t i = 0; i < g->r.parts; i++) {
        if (!model_may_lock(m, c->principal, c->tenant, owned_slice(&g->r.names[i]->text))) {
            out->error = HF_DENIED;
            return;
        }
    }
    model_renew_grant(m, g, r->ttl_ms);
    model_result_from_grant(m, g, out);
    out->outcome = OUTCOME_DONE;
    model_remember(m, c, s, out, NULL);
}

void model_proclaim(struct model *m, const struct command *c, struct result *out)
{
    struct model_session *s = session_if_alive(m, c);
    if (model_once(m, c, s, out)) {
        return;
    }
    const struct command_proclaim *p = &c->proclaim;
    struct handle h = {p->name, p->client, {0, 0}, p->token};
    struct model_grant *g = find_grant(m, c, &h, out);
    if (g != NULL && g->r.mode != MODE_ELECTION) {
        out->outcome = OUTCOME_REFUSED;
        out->reason = REASON_MODE_MISMATCH;
    } else if (g != NULL) {
        owned_free(&g->r.value);
        g->r.value = owned_copy(p->value);
        model_result_from_grant(m, g, out);
        out->outcome = OUTCOME_DONE;
        struct event more;
        memset(&more, 0, sizeof(more));
        more.text = p->value;
        model_emit_grant(m, EVENT_PROCLAIMED, g, 0, &more);
    }
    model_remember(m, c, s, out, NULL);
}

/* The waiter with that lease id and attachment number; NULL when the refusal is in `out`. */
static struct model_waiter *named_waiter(struct model *m, const struct command *c, struct id lease,
                                         uint64_t attachment, struct result *out)
{
    struct model_waiter *w = model_find_waiter(m, c->tenant, lease);
    if (w != NULL && !model_owns(c, w->r.session)) {
        out->outcome = OUTCOME_REFUSED;
        out->reason = REASON_NOT_WAITING;
        return NULL;
    }
    if (w != NULL && model_waiter_dead(m, w)) {
        model_bury_waiter(m, w);
        w = NULL;
    }
    if (w == NULL) {
        struct model_grant *g = model_find_lease(m, c->tenant, lease);
        out->outcome = OUTCOME_REFUSED;
        out->reason = REASON_NOT_WAITING;
        out->token =
            g != NULL && model_owns(c, g->r.session) && !model_grant_dead(m, g) ? g->token : 0;
        return NULL;
    }
    if (w->attachment != attachment) {
        out->outcome = OUTCOME_REFUSED;
        out->reason = REASON_SUPERSEDED;
        return NULL;
    }
    return w;
}

void model_cancel(struct model *m, const struct command *c, struct result *out)
{
    struct model_waiter *w = named_waiter(m, c, c->cancel.lease, c->cancel.attachment, out);
    if (w != NULL) {
        model_end_waiter(m, w, REASON_CANCELLED);
    }
}

void model_detach(struct model *m, const struct command *c, struct result *out)
{
    struct model_waiter *w = named_waiter(m, c, c->detach.lease, c->detach.attachment, out);
    if (w == NULL || !w->r.session->is_private || model_waiter_detached(w)) {
        return;
    }
    w->detached_until_ms = m->now_ms + LIMIT_DETACHED_MS;
    model_timer_lower(&w->timer_ms, w->detached_until_ms);
    for (uint32_t i = 0; i < w->r.parts; i++) {
        model_emit_waiter(m, EVENT_DETACHED, w, i, NULL);
    }
    for (uint32_t i = 0; i < w->r.parts; i++) {
        model_wake(m, w->r.names[i]); /* it is passed over from now on */
    }
}

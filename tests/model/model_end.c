/* How grants, waits and sessions end, what follows, and what is remembered of it. */
#include "model_state.h"

void model_request_free(struct request *r)
{
    owned_free(&r->owner);
    owned_free(&r->metadata);
    owned_free(&r->value);
    owned_free(&r->trace);
}

void model_remember_grant(struct model_share *share, const struct ended_grant *ended)
{
    size_t at = share->ended_grant_count++ % LIMIT_ENDED;
    share->ended_grants[at] = *ended;
    share->ended_lease_prints[at] = ended->lease.low;
}

void model_remember_session(struct model_share *share, const struct ended_session *ended)
{
    size_t at = share->ended_session_count++ % LIMIT_ENDED;
    share->ended_sessions[at] = *ended;
    share->ended_session_prints[at] = ended->id.low;
}

static void remember_grant(struct model *m, const struct model_grant *g, enum ended ended)
{
    uint32_t tenant = g->r.session->tenant;
    model_remember_grant(model_share(m, tenant),
                         &(struct ended_grant){tenant, g->token, g->r.lease, ended});
}

static size_t ring_used(uint64_t count, size_t size)
{
    return count < size ? (size_t)count : size;
}

const struct ended_grant *model_ended_token(const struct model *m, uint32_t tenant, uint64_t token)
{
    const struct model_share *share = model_share(m, tenant);
    size_t used = ring_used(share->ended_grant_count, LIMIT_ENDED);
    for (size_t i = 0; i < used; i++) {
        const struct ended_grant *e = &share->ended_grants[i];
        if (e->token == token && e->tenant == tenant) {
            return e;
        }
    }
    return NULL;
}

const struct ended_grant *model_ended_lease(const struct model *m, uint32_t tenant, struct id lease)
{
    const struct model_share *share = model_share(m, tenant);
    size_t used = ring_used(share->ended_grant_count, LIMIT_ENDED);
    for (size_t i = 0; i < used; i++) {
        const struct ended_grant *e = &share->ended_grants[i];
        if (share->ended_lease_prints[i] == lease.low && id_equal(e->lease, lease) &&
            e->tenant == tenant) {
            return e;
        }
    }
    return NULL;
}

const struct ended_session *model_ended_session(const struct model *m, uint32_t tenant,
                                                struct id id)
{
    const struct model_share *share = model_share(m, tenant);
    size_t used = ring_used(share->ended_session_count, LIMIT_ENDED);
    for (size_t i = 0; i < used; i++) {
        const struct ended_session *e = &share->ended_sessions[i];
        if (share->ended_session_prints[i] == id.low && id_equal(e->id, id) &&
            e->tenant == tenant) {
            return e;
        }
    }
    return NULL;
}

bool model_ended_lease_anywhere(const struct model *m, uint32_t tenant, struct id lease)
{
    const struct model_share *share = model_share(m, tenant);
    size_t used = ring_used(share->ended_grant_count, LIMIT_ENDED);
    for (size_t i = 0; i < used; i++) {
        if (share->ended_lease_prints[i] == lease.low &&
            id_equal(share->ended_grants[i].lease, lease)) {
            return true;
        }
    }
    return false;
}

bool model_ended_session_anywhere(const struct model *m, uint32_t tenant, struct id id)
{
    const struct model_share *share = model_share(m, tenant);
    size_t used = ring_used(share->ended_session_count, LIMIT_ENDED);
    for (size_t i = 0; i < used; i++) {
        if (share->ended_session_prints[i] == id.low && id_equal(share->ended_sessions[i].id, id)) {
            return true;
        }
    }
    return false;
}

struct model_session *model_session_after(const struct model *m, const struct model_session *s)
{
    size_t i = 0;
    while (m->sessions.at[i] != s) {
        i++;
    }
    return i + 1 < m->sessions.count ? m->sessions.at[i + 1] : NULL;
}

static void session_free(struct model *m, struct model_session *s)
{
    hf_assert(s->grants.count == 0 && s->waiters.count == 0);
    if (m->purge_at == s) {
        m->purge_at = model_session_after(m, s);
    }
    for (size_t i = 0; i < s->memos.count; i++) {
        model_memo_free(s->memos.at[i]);
    }
    model_list_free(&s->memos);
    model_list_free(&s->grants);
    model_list_free(&s->waiters);
    owned_free(&s->client);
    owned_free(&s->metadata);
    model_list_remove(&m->sessions, s);
    free(s);
}

void model_free_session_if_unused(struct model *m, struct model_session *s)
{
    if (s->is_private && s->grants.count == 0 && s->waiters.count == 0) {
        session_free(m, s);
    }
}

static enum event_type event_of(enum ended ended)
{
    switch (ended) {
    case ENDED_RELEASED:
    case ENDED_SESSION_CLOSED:
        return EVENT_RELEASED;
    case ENDED_EXPIRED:
    case ENDED_SESSION_EXPIRED:
    case ENDED_RECOVERED:
    case ENDED_MAX_HOLD:
        return EVENT_EXPIRED;
    case ENDED_FORCED:
        return EVENT_FORCED;
    case ENDED_REVOKED:
        return EVENT_REVOKED;
    case ENDED_NOT:
    case ENDED_COUNT:
        break;
    }
    return EVENT_NONE;
}

/* A lock-delay follows an unclean end (S6.5). The longest one stands. */
static void delay(struct model *m, struct model_name *name, uint64_t until_ms)
{
    if (until_ms <= m->now_ms || until_ms <= name->delayed_until_ms) {
        return;
    }
    name->delayed_until_ms = until_ms;
    name->furnished = true;
    struct event event = model_event(m, EVENT_DELAYED, name->tenant);
    event.name = owned_slice(&name->text);
    event.deadline_ms = until_ms;
    model_emit(m, &event);
}

static void announce_end(struct model *m, const struct model_grant *g, const struct end *end)
{
    struct event more;
    memset(&more, 0, sizeof(more));
    more.ended = end->ended;
    more.actor = end->actor;
    more.text = end->text;
    for (uint32_t i = 0; i < g->r.parts; i++) {
        if (event_of(end->ended) != EVENT_NONE) {
            model_emit_grant(m, event_of(end->ended), g, i, &more);
        }
        if (!end->clean) {
            model_emit_grant(m, EVENT_LOST, g, i, &more);
        }
        if (g->r.mode == MODE_ELECTION) {
            struct event event = model_event(m, EVENT_LEADER_CHANGED, g->r.session->tenant);
            event.part = 1;
            event.mode = MODE_ELECTION;
            event.name = owned_slice(&g->r.names[i]->text);
            model_emit(m, &event);
        }
        if (!end->clean && g->r.delay_ms > 0) {
            delay(m, g->r.names[i], end->delay_from_ms + g->r.delay_ms);
        }
    }
}

void model_end_grant(struct model *m, struct model_grant *g, const struct end *end)
{
    struct model_session *s = g->r.session;
    hf_assert(model_list_remove(&m->grants, g) && model_list_remove(&s->grants, g));
    for (uint32_t i = 0; i < g->r.parts; i++) {
        hf_assert(model_list_remove(&g->r.names[i]->holders, g));
    }
    remember_grant(m, g, end->ended);
    announce_end(m, g, end);
    if (g->r.memo != NULL) {
        struct memo *memo = g->r.memo;
        memo->reply.outcome = OUTCOME_GRANTED;
        memo->reply.token = g->token;
        memo->reply.lease = g->r.lease;
        memo->reply.ended = end->ended;
        model_memo_ends(m, memo);
    }
    for (uint32_t i = 0; i < g->r.parts; i++) {
        model_wake(m, g->r.names[i]);
    }
    model_free_session_if_unused(m, s);
    model_request_free(&g->r);
    free(g);
}

void model_end_waiter(struct model *m, struct model_waiter *w, enum reason reason)
{
    struct model_session *s = w->r.session;
    hf_assert(model_list_remove(&m->waiters, w) && model_list_remove(&s->waiters, w));
    model_node_waiters_part(m, w);
    struct event more;
    memset(&more, 0, sizeof(more));
    more.reason = reason;
    more.waited_ms = w->since_ms != 0 ? m->now_ms - w->since_ms : 0;
    for (uint32_t i = 0; i < w->r.parts; i++) {
        hf_assert(model_list_remove(&w->r.names[i]->queue, w));
    }
    for (uint32_t i = 0; i < w->r.parts; i++) {
        model_emit_waiter(m, EVENT_WAIT_ENDED, w, i, &more);
    }
    if (w->r.memo != NULL) {
        struct memo *memo = w->r.memo;
        memo->reply.outcome = OUTCOME_REFUSED;
        memo->reply.reason = reason;
        model_memo_ends(m, memo);
    }
    for (uint32_t i = 0; i < w->r.parts; i++) {
        model_wake(m, w->r.names[i]);
    }
    model_free_session_if_unused(m, s);
    model_request_free(&w->r);
    free(w);
}

/* First its waiters in the order they came, then its grants in the order they were given. */
void model_end_session(struct model *m, struct model_session *s, enum ended ended)
{
    bool is_private = s->is_private;
    bool clean = ended == ENDED_SESSION_CLOSED;
    bool by_order = ended == ENDED_RECOVERED || ended == ENDED_REVOKED;
    uint64_t at_ms = by_order ? m->now_ms : model_session_deadline(s);
    enum reason reason = ended == ENDED_REVOKED ? REASON_DENIED : REASON_SESSION_ENDED;
    if (is_private) {
        /* It goes with its last grant or waiter, and nobody knew of it. */
        hf_assert(s->grants.count + s->waiters.count == 1);
        if (s->waiters.count > 0) {
            model_end_waiter(m, s->waiters.at[0], reason);
            return;
        }
        struct model_grant *g = s->grants.at[0];
        struct end end = {.ended = ended, .clean = clean, .delay_from_ms = at_ms};
        model_end_grant(m, g, &end);
        return;
    }
    while (s->waiters.count > 0) {
        model_end_waiter(m, s->waiters.at[0], reason);
    }
    while (s->grants.count > 0) {
        struct model_grant *g = s->grants.at[0];
        struct end end = {.ended = ended, .clean = clean, .delay_from_ms = at_ms};
        model_end_grant(m, g, &end);
    }
    model_emit_session(m, clean ? EVENT_SESSION_CLOSED : EVENT_SESSION_EXPIRED, s, ended);
    model_remember_session(model_share(m, s->tenant),
                           &(struct ended_session){s->tenant, s->id, ended});
    session_free(m, s);
}

void model_bury_session(struct model *m, struct model_session *s)
{
    model_end_session(m, s, s->is_private ? ENDED_EXPIRED : ENDED_SESSION_EXPIRED);
}

/* The actor and the reason stand in the audit trail, as long as it is kept there. */
static void bury_revoked(struct model *m, struct model_grant *g)
{
    uint32_t tenant = g->r.session->tenant;
    struct slice name = model_keep(m, owned_slice(&g->r.names[0]->text));
    struct slice trace = model_keep(m, owned_slice(&g->r.trace));
    struct end end = {.ended = ENDED_REVOKED,
                      .delay_from_ms = m->now_ms,
                      .actor = slice_of("unknown"),
                      .text = slice_of("unknown")};
    const struct model_share *share = model_share(m, g->r.session->tenant);
    for (size_t i = 0; i < share->audit.count; i++) {
        const struct audit_view *revocation = &((struct audit_record *)share->audit.at[i])->view;
        if (revocation->number == g->revoke_record) {
            name = model_keep(m, revocation->resource);
            end.actor = model_keep(m, revocation->actor);
            end.text = model_keep(m, revocation->reason);
        }
    }
    model_end_grant(m, g, &end);
    struct audit_view *last =
        share->audit.count == 0
            ? NULL
            : &((struct audit_record *)share->audit.at[share->audit.count - 1])->view;
    if (last != NULL && slice_equal(last->action, slice_of("REVOKE_TAKEN")) &&
        last->index == m->index && last->tenant == tenant && slice_equal(last->resource, name) &&
        slice_equal(last->actor, end.actor) && slice_equal(last->reason, end.text)) {
        last->count++; /* many holders that are taken in one entry make one record */
    } else {
        model_audit(m, tenant, "REVOKE_TAKEN", name, end.actor, end.text, trace, 1);
    }
}

/* Of the things that it may have died of, the one that came first; in (deadline, kind) order. */
void model_bury_grant(struct model *m, struct model_grant *g)
{
    struct model_session *s = g->r.session;
    struct end end = {.ended = ENDED_EXPIRED, .delay_from_ms = model_grant_deadline(g)};
    uint64_t due = model_grant_due(g);
    if (model_session_deadline(s) <= due) {
        end.ended = s->is_private ? ENDED_EXPIRED : ENDED_SESSION_EXPIRED;
    } else if (due < model_grant_deadline(g)) {
        bury_revoked(m, g);
        return;
    } else if (g->r.max_hold_ms != 0 && model_grant_hold_until(g) < model_grant_lease_ends(g)) {
        end.ended = ENDED_MAX_HOLD;
    }
    model_end_grant(m, g, &end);
}

void model_bury_waiter(struct model *m, struct model_waiter *w)
{
    enum reason why;
    (void)model_waiter_dies(w, &why);
    model_end_waiter(m, w, why);
}

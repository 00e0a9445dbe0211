/* Release, renew and proclaim, by token or lease id. A wrong or late one gets its exact reason
 * (S8.3). */
#include "core/state.h"

struct grant_selector {
    const struct command *cmd;
    uint32_t tenant;
    struct slice name;
    struct slice client;
    struct id lease;
    struct id session;
    uint64_t token;
};

/* 0 for the grant of another tenant, about which the caller must not learn anything. */
static ref of_tenant(const struct core *c, uint32_t tenant, ref grant)
{
    return grant != 0 && session_at(c, grant_at(c, grant)->session)->tenant == tenant ? grant : 0;
}

static ref find_named(const struct core *c, const struct grant_selector *n)
{
    hf_assert(n->token != 0 || !id_is_zero(n->lease));
    if (!id_is_zero(n->lease)) {
        bool is_grant = false;
        ref obj = lease_target(c, n->lease, &is_grant);
        return is_grant ? of_tenant(c, n->tenant, obj) : 0;
    }
    if (n->name.len == 0) {
        ref obj = of_tenant(c, n->tenant, grant_find_by_token(c, n->token));
        return obj != 0 && grant_parts(c, grant_at(c, obj)) > 1 ? obj : 0;
    }
    ref lock = lock_find(c, n->tenant, n->name);
    if (lock == 0 || lock_at(c, lock)->holders == 0) {
        return 0;
    }
    const struct lock *l = lock_at(c, lock);
    if (l->mode == MODE_SHARED || l->mode == MODE_SEMAPHORE) {
        ref obj = grant_find_by_token(c, n->token);
        return obj != 0 && grant_at(c, obj)->lock == lock ? obj : 0;
    }
    return grant_at(c, l->holders)->token == n->token ? l->holders : 0;
}

static bool agrees(const struct core *c, const struct grant_selector *n, ref grant)
{
    const struct grant *g = grant_at(c, grant);
    const struct session *s = session_at(c, g->session);
    if (!session_is_of(s, n->cmd) || (n->token != 0 && g->token != n->token) ||
        (n->client.len > 0 && !slice_equal(session_client(s), n->client)) ||
        (!id_is_zero(n->session) && (s->is_private || !id_equal(s->id, n->session)))) {
        return false;
    }
    if (n->name.len == 0) {
        return true;
    }
    for (uint32_t i = 0; i < grant_parts(c, g); i++) {
        const struct grant *part = grant_at(c, grant_part(c, grant, i));
        if (slice_equal(lock_name(lock_at(c, part->lock)), n->name)) {
            return true;
        }
    }
    return false;
}

static enum reason reason_after(enum ended how)
{
    switch (how) {
    case ENDED_RELEASED:
    case ENDED_SESSION_CLOSED:
        return REASON_ALREADY_RELEASED;
    case ENDED_EXPIRED:
    case ENDED_SESSION_EXPIRED:
    case ENDED_RECOVERED:
    case ENDED_MAX_HOLD:
        return REASON_EXPIRED;
    case ENDED_FORCED:
    case ENDED_REVOKED:
    case ENDED_NOT:
    case ENDED_COUNT:
        break;
    }
    return REASON_NOT_OWNER;
}

/* The first part, or 0 and the refusal in `out`. */
static ref find_grant(struct core *c, const struct grant_selector *n, struct result *out)
{
    ref obj = find_named(c, n);
    if (obj != 0 && c->backlog && grant_is_dead(c, grant_at(c, obj))) {
        grant_end_dead(c, obj);
        obj = 0;
    }
    hf_assert(obj == 0 || grant_at(c, obj)->kind == KIND_GRANT);
    if (obj != 0 && agrees(c, n, obj)) {
        core_step(c, grant_parts(c, grant_at(c, obj)));
        return grant_first_part(c, obj);
    }
    out->outcome = OUTCOME_REFUSED;
    out->reason = REASON_NOT_OWNER;
    if (obj == 0) {
        const struct ended_grant *e = id_is_zero(n->lease)
                                          ? history_by_token(c, n->tenant, n->token)
                                          : history_by_lease(c, n->tenant, n->lease);
        if (e != NULL && e->tenant == n->tenant && (n->token == 0 || n->token == e->token)) {
            out->ended = (enum ended)e->how;
            out->token = e->token;
            out->reason = reason_after(out->ended);
        }
    }
    return 0;
}

/* The session of the command, for its replies. One that is gone is no error: the token decides. */
static ref session_if_alive(struct core *c, const struct command *cmd)
{
    ref session = 0;
    if (!id_is_zero(cmd->session)) {
        (void)session_for(c, cmd, &session);
    }
    return session;
}

static void release_new(struct core *c, const struct command *cmd, ref session, struct result *out)
{
    (void)session;
    const struct command_release *r = &cmd->release;
    struct grant_selector n = {cmd,      cmd->tenant,  r->name, r->client,
                               r->lease, cmd->session, r->token};
    ref grant = find_grant(c, &n, out);
    if (grant == 0) {
        return;
    }
    struct grant *g = grant_at(c, grant);
    out->token = g->token;
    hf_assert(g->depth >= 1);
    if (g->depth > 1) {
        g->depth--;
        out->depth = g->depth;
        return;
    }
    struct slice none = slice_make(NULL, 0);
    grant_end(c, grant, ENDED_RELEASED, c->now_ms, none, none, false);
}

void apply_release(struct core *c, const struct command *cmd, struct result *out)
{
    hf_assert(cmd->type == COMMAND_RELEASE);
    request_once(c, cmd, session_if_alive(c, cmd), release_new, out);
}

void grant_renew(struct core *c, ref grant, uint64_t ttl_ms)
{
    hf_assert(grant_first_part(c, grant) == grant); /* has the TTL of all parts */
    const struct grant *g = grant_at(c, grant);
    struct session *s = session_at(c, g->session);
    hf_assert(ttl_ms <= LIMIT_TTL_MAX_MS || (g->flags & GRANT_IS_KEY) != 0);
    if (s->is_private) {
        s->life_ms = c->now_ms;
        s->ttl_ms = ttl_ms != 0 ? ttl_ms : s->ttl_ms;
        if (s->ttl_ms == TTL_NONE) {
            timer_set(c, g->session, UINT64_MAX); /* no deadline: it must cause no ticks (S1.4) */
        } else {
            timer_lower(c, g->session, session_deadline(c, s));
        }
        return;
    }
    struct detail *d = ttl_ms != 0 ? grant_detail_make(c, grant) : grant_detail(c, g);
    if (d != NULL) {
        d->life_ms = c->now_ms;
        d->ttl_ms = ttl_ms != 0 ? (uint32_t)ttl_ms : d->ttl_ms;
        grant_reschedule(c, grant);
    }
}

/* S14.4: whoever may not lock the names any more may not keep them. */
static bool may_renew(struct core *c, const struct command *cmd, ref grant)
{
    const struct grant *g = grant_at(c, grant);
    for (uint32_t i = 0; cmd->principal != 0 && i < grant_parts(c, g); i++) {
        const struct lock *l = lock_at(c, grant_at(c, grant_part(c, grant, i))->lock);
        if (!policy_allows(core_policy(c), cmd->principal, cmd->tenant, RIGHT_LOCK, lock_name(l))) {
            return false;
        }
    }
    return true;
}

static void renew_new(struct core *c, const struct command *cmd, ref session, struct result *out)
{
    (void)session;
    const struct command_renew *r = &cmd->renew;
    struct grant_selector n = {cmd,      cmd->tenant,  r->name, r->client,
                               r->lease, cmd->session, r->token};
    ref grant = find_grant(c, &n, out);
    if (grant != 0 && !may_renew(c, cmd, grant)) {
        out->error = HF_DENIED;
        return;
    }
    if (grant != 0) {
        grant_renew(c, grant, r->ttl_ms);
        result_from_grant(c, grant, out);
        return;
    }
    event_emit(c, &(struct event){.type = EVENT_RENEWAL_FAILED,
                                  .tenant = cmd->tenant,
                                  .name = r->name,
                                  .client = r->client,
                                  .lease = r->lease,
                                  .session = cmd->session,
                                  .token = r->token,
                                  .reason = out->reason,
                                  .ended = out->ended,
                                  .parts = 1});
}

void apply_renew(struct core *c, const struct command *cmd, struct result *out)
{
    hf_assert(cmd->type == COMMAND_RENEW);
    request_once(c, cmd, session_if_alive(c, cmd), renew_new, out);
}

static void proclaim_new(struct core *c, const struct command *cmd, ref session, struct result *out)
{
    (void)session;
    const struct command_proclaim *p = &cmd->proclaim;
    struct grant_selector n = {cmd,    cmd->tenant,  p->name, p->client,
                               {0, 0}, cmd->session, p->token};
    ref grant = find_grant(c, &n, out);
    if (grant == 0) {
        return;
    }
    const struct grant *g = grant_at(c, grant);
    if (lock_at(c, g->lock)->mode != MODE_ELECTION) {
        out->outcome = OUTCOME_REFUSED;
        out->reason = REASON_MODE_MISMATCH;
        return;
    }
    struct detail *d = grant_detail_make(c, grant);
    hf_assert(p->value.len <= LIMIT_VALUE && grant_parts(c, g) == 1);
    blob_free(c, d->carried.value);
    d->carried.value = blob_new(c, p->value);
    struct event e = {.type = EVENT_PROCLAIMED};
    event_about_grant(c, g, &e);
    e.trace = grant_trace(c, g);
    e.text = blob_slice(c, d->carried.value);
    event_emit(c, &e);
    result_from_grant(c, grant, out);
}

void apply_proclaim(struct core *c, const struct command *cmd, struct result *out)
{
    hf_assert(cmd->type == COMMAND_PROCLAIM);
    request_once(c, cmd, session_if_alive(c, cmd), proclaim_new, out);
}

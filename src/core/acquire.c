/* Acquire, now or after a wait. docs/CORE.md has the order of the decisions. */
#include "core/acquire_request.h"

/* At most 64 names, mostly one. False when a name occurs twice. */
static bool sort_names(struct acquire_request *req)
{
    const struct names *names = &req->a->names;
    hf_assert(names->count >= 1 && names->count <= LIMIT_MULTILOCK_NAMES);
    req->count = names->count;
    for (uint32_t i = 0; i < names->count; i++) {
        uint32_t at = i;
        while (at > 0) {
            int order = slice_compare(req->names[at - 1], names->at[i]);
            if (order == 0) {
                return false;
            }
            if (order < 0) {
                break;
            }
            req->names[at] = req->names[at - 1];
            at--;
        }
        req->names[at] = names->at[i];
    }
    return true;
}

static void refuse(struct result *out, enum reason reason)
{
    hf_assert(reason != REASON_NONE);
    out->outcome = OUTCOME_REFUSED;
    out->reason = reason;
}

static void reenter(struct core *c, ref grant, struct result *out)
{
    struct grant *g = grant_at(c, grant);
    hf_assert(g->depth >= 1 && g->depth < UINT16_MAX);
    g->depth++;
    struct event e = {.type = EVENT_REENTERED};
    event_about_grant(c, g, &e);
    e.trace = grant_trace(c, g);
    event_emit(c, &e);
    answer_granted(c, grant, out);
}

/* S4.1: what the owner already has. True: the request is decided. */
static bool decided_by_own(struct core *c, const struct acquire_request *req, uint32_t i,
                           const struct own *own, struct result *out)
{
    hf_assert(i < req->count && req->locks[i] != 0);
    uint64_t bit = UINT64_C(1) << i;
    if (((own->held | own->waited_for) & bit) == 0) {
        return false;
    }
    const struct grant *g = own->grant == 0 ? NULL : grant_at(c, own->grant);
    bool same = g != NULL && grant_parts(c, g) == 1 && g->depth < UINT16_MAX &&
                lock_at(c, g->lock)->mode == req->a->mode && g->permits == req->a->permits;
    if ((req->a->flags & ACQUIRE_REENTRANT) && same) {
        reenter(c, own->grant, out);
    } else {
        result_holder(c, req->locks[i], out);
        refuse(out, REASON_ALREADY_HELD);
    }
    return true;
}

/* True: the name is in use in another class or with another limit. */
static bool decided_by_class(struct core *c, const struct acquire_request *req, uint32_t i,
                             struct result *out)
{
    const struct command_acquire *a = req->a;
    hf_assert(i < req->count);
    const struct lock *l = lock_at(c, req->locks[i]);
    if (!lock_in_use(c, l)) {
        return false;
    }
    bool other_class = mode_class((enum mode)l->mode) != mode_class((enum mode)a->mode);
    if (!other_class &&
        (a->mode != MODE_SEMAPHORE || lock_extra_at(c, l->extra)->limit == a->limit)) {
        return false;
    }
    result_holder(c, req->locks[i], out);
    refuse(out, other_class ? REASON_MODE_MISMATCH : REASON_LIMIT_MISMATCH);
    return true;
}

static void find_locks(struct core *c, struct acquire_request *req)
{
    uint32_t tenant = req->cmd->tenant;
    for (uint32_t i = 0; i < req->count; i++) {
        core_step(c, 1);
        req->hashes[i] = hash_name(c, tenant, req->names[i]);
        req->locks[i] = lock_find_hashed(c, req->hashes[i], tenant, req->names[i]);
        if (req->locks[i] != 0 && c->backlog) {
            lock_prune(c, req->locks[i]);
            req->locks[i] = lock_find_hashed(c, req->hashes[i], tenant, req->names[i]);
        }
    }
}

/* True: a name decides the request, in canonical order. */
static bool decided_by_names(struct core *c, struct acquire_request *req, struct result *out)
{
    if (req->a->mode == MODE_SEMAPHORE && req->a->permits > req->a->limit) {
        out->name = req->names[0];
        refuse(out, REASON_PERMITS_EXCEED_LIMIT);
        return true;
    }
    find_locks(c, req);
    for (uint32_t i = 0; c->backlog && i < req->count; i++) {
        counter_prune(c, req->cmd->tenant, req->names[i]);
    }
    struct own own;
    find_own(c, req, &own);
    for (uint32_t i = 0; i < req->count; i++) {
        if (counter_find(c, req->cmd->tenant, req->names[i]) != NULL) {
            out->name = req->names[i];
            refuse(out, REASON_WRONG_KIND); /* S13.5 */
            return true;
        }
        if (req->locks[i] != 0 &&
            (decided_by_own(c, req, i, &own, out) || decided_by_class(c, req, i, out))) {
            return true;
        }
    }
    return false;
}

static bool is_free_for(struct core *c, const struct acquire_request *req, ref lock,
                        uint32_t *budget)
{
    if (lock == 0) {
        return true;
    }
    const struct lock *l = lock_at(c, lock);
    if (!lock_in_use(c, l)) {
        return !lock_is_delayed(c, l);
    }
    if (lock_is_delayed(c, l) ||
        !lock_has_capacity(c, l, (enum mode)req->a->mode, req->a->permits)) {
        return false;
    }
    bool unsure = false;
    return queue_front(c, lock, budget, &unsure) == 0 && !unsure;
}

static ref session_of(struct core *c, const struct acquire_request *req)
{
    if (req->session != 0) {
        return req->session;
    }
    ref session =
        session_new(c, req->cmd->tenant, req->a->lease, req->a->client, true, req->a->ttl_ms);
    session_at(c, session)->principal = req->cmd->principal;
    return session;
}

static void make_locks(struct core *c, struct acquire_request *req)
{
    for (uint32_t i = 0; i < req->count; i++) {
        if (req->locks[i] == 0) {
            req->locks[i] = lock_new(c, req->hashes[i], req->cmd->tenant, req->names[i]);
        }
        if (!lock_in_use(c, lock_at(c, req->locks[i]))) {
            lock_set_mode(c, req->locks[i], (enum mode)req->a->mode, req->a->limit);
        }
    }
}

static void grant_now(struct core *c, struct acquire_request *req, ref request, struct result *out)
{
    const struct command_acquire *a = req->a;
    hf_assert(core_tokens_left(c) > 0);
    make_locks(c, req);
    struct grant_terms terms = {.session = session_of(c, req),
                                .owner = a->owner,
                                .carried = carried_by(a, c->version),
                                .lease = a->lease,
                                .request = request,
                                .ttl_ms = a->ttl_ms,
                                .max_hold_ms = a->max_hold_ms,
                                .delay_ms = a->delay_ms,
                                .permits = a->permits,
                                .key_flags = a->flags & ACQUIRE_KEY ? GRANT_IS_KEY : 0,
                                .mode = (enum mode)a->mode};
    answer_granted(c, grant_give(c, req->locks, req->count, &terms, NULL), out);
}

static ref enqueue(struct core *c, struct acquire_request *req, struct result *out)
{
    hf_assert(req->a->wait_ms > 0);
    for (uint32_t i = 0; i < req->count; i++) {
        const struct lock_extra *x =
            req->locks[i] == 0 ? NULL : lock_extra_get(c, lock_at(c, req->locks[i]));
        if (x != NULL && x->queue_length >= LIMIT_QUEUE) {
            out->error = HF_QUEUE_FULL;
            return 0;
        }
    }
    if (req->session == 0 && node_waiters_for(c, req->a->node) == 0) {
        out->error = HF_TOO_MANY_NODES;
        return 0;
    }
    make_locks(c, req);
    ref waiter = waiter_new(c, req->a, session_of(c, req), req->locks, req->count);
    waiter_announce(c, waiter_at(c, waiter), &(struct event){.type = EVENT_QUEUED});
    answer_queued(c, waiter, out);
    return waiter;
}

static void refuse_as_busy(struct core *c, ref lock, struct result *out)
{
    result_holder(c, lock, out);
    refuse(out, lock_is_delayed(c, lock_at(c, lock)) ? REASON_DELAYED : REASON_HELD);
}

/* Links `request` when it is granted or queued. */
static void decide(struct core *c, struct acquire_request *req, const struct request_key *key,
                   bool remember, struct result *out)
{
    if (decided_by_names(c, req, out)) {
        return;
    }
    if (req->session != 0 &&
        session_at(c, req->session)->entries + req->count > LIMIT_SESSION_ENTRIES) {
        out->error = HF_TOO_MANY_LOCKS;
        return;
    }
    ref busy = 0;
    uint32_t budget = LIMIT_WAKE_STEPS; /* of all names (S2.1) */
    for (uint32_t i = 0; i < req->count && busy == 0; i++) {
        busy = is_free_for(c, req, req->locks[i], &budget) ? 0 : req->locks[i];
    }
    if (busy == 0) {
        grant_now(c, req, remember ? request_new(c, key) : 0, out);
        return;
    }
    if (req->a->wait_ms == 0) {
        refuse_as_busy(c, busy, out);
        return;
    }
    if ((req->a->flags & ACQUIRE_DETECT_DEADLOCK) && req->session != 0 &&
        deadlock_would_close(c, req->session, req->a->owner, req->locks, req->count,
                             (enum mode)req->a->mode, out)) {
        result_holder(c, busy, out);
        refuse(out, REASON_DEADLOCK);
        return;
    }
    ref waiter = enqueue(c, req, out);
    if (waiter != 0 && remember) {
        request_wait(c, request_new(c, key), waiter);
    }
}

void apply_acquire(struct core *c, const struct command *cmd, struct result *out)
{
    hf_assert(cmd->type == COMMAND_ACQUIRE);
    struct acquire_request req;
    req.cmd = cmd;
    req.a = &cmd->acquire;
    req.session = 0;
    if (!id_is_zero(cmd->session)) {
        out->error = session_for(c, cmd, &req.session);
        if (out->error != HF_OK) {
            return;
        }
    }
    struct request_key key;
    enum request_found found;
    ref request;
    out->error = request_look(c, cmd, req.session, &key, &found, &request);
    if (out->error != HF_OK) {
        return;
    }
    if (found == REQUEST_KNOWN) {
        answer_again(c, request, cmd->acquire.node, out);
        return;
    }
    if (!sort_names(&req)) {
        out->error = HF_DUPLICATE_NAME;
        return;
    }
    if (known_by_lease(c, &req, out)) {
        return;
    }
    if (req.session == 0 && table_count(&c->sessions) >= LIMIT_SESSIONS) {
        out->error = HF_TOO_MANY_SESSIONS;
        return;
    }
    decide(c, &req, &key, found == REQUEST_NEW, out);
    hf_assert(out->error != HF_OK || out->outcome != OUTCOME_DONE);
    bool settled =
        out->outcome == OUTCOME_REFUSED || (out->outcome == OUTCOME_GRANTED && out->depth > 1);
    if (found == REQUEST_NEW && out->error == HF_OK && settled) {
        request_done(c, request_new(c, &key), out);
    }
}

/* Repeated acquires (S7.1, S8), recognised by request id or seq, or else by lease id, which a node
 * draws once and keeps for its retries. */
#include "core/acquire_request.h"

ref lease_find(const struct core *c, struct id lease)
{
    ref obj = table_first(&c->leases, hash_id(c, lease));
    while (obj != 0) {
        const uint8_t *kind = pool_at(&c->pool, obj);
        if (*kind == KIND_WAITER) {
            const struct waiter *w = waiter_at(c, obj);
            if (id_equal(w->lease, lease)) {
                return obj;
            }
            obj = w->lease_next;
        } else {
            const struct grant *g = grant_at(c, obj);
            if (id_equal(grant_lease(c, g), lease)) {
                return obj;
            }
            obj = g->lease_next;
        }
    }
    return 0;
}

ref lease_target(const struct core *c, struct id lease, bool *is_grant)
{
    hf_assert(is_grant != NULL);
    ref session = session_find(c, lease);
    if (session != 0) {
        const struct session *s = session_at(c, session);
        if (!s->is_private) {
            return 0;
        }
        *is_grant = s->holds != 0;
        return *is_grant ? RING_FIRST(c, s->holds, grant, in_session)
                         : RING_FIRST(c, s->waits, waiter, in_session);
    }
    ref obj = lease_find(c, lease);
    if (obj != 0) {
        *is_grant = *(const uint8_t *)pool_at(&c->pool, obj) == KIND_GRANT;
    }
    return obj;
}

static uint32_t position_of(struct core *c, ref place)
{
    const struct lock_extra *x = lock_extra_at(c, lock_at(c, place_at(c, place)->lock)->extra);
    hf_assert(x->queue != 0 && x->queue_length > 0);
    if (place == x->queue) { /* last, as every new waiter */
        return x->queue_length > LIMIT_POSITION ? LIMIT_POSITION + 1 : x->queue_length;
    }
    uint32_t position = 1;
    RING_EACH(c, obj, x->queue, place, in_queue)
    {
        if (obj == place || position > LIMIT_POSITION) {
            break;
        }
        core_step(c, 1);
        position++;
    }
    return position;
}

/* The name that the answer describes: the first that is held or delayed. */
static ref blocking_place(const struct core *c, const struct waiter *w)
{
    for (ref p = w->places; p != 0; p = place_at(c, p)->sibling) {
        const struct lock *l = lock_at(c, place_at(c, p)->lock);
        if (l->holders != 0 || lock_is_delayed(c, l)) {
            return p;
        }
    }
    return w->places;
}

void answer_queued(struct core *c, ref waiter, struct result *out)
{
    const struct waiter *w = waiter_at(c, waiter);
    hf_assert(w->kind == KIND_WAITER && w->places != 0);
    ref place = blocking_place(c, w);
    result_holder(c, place_at(c, place)->lock, out);
    out->outcome = OUTCOME_QUEUED;
    out->lease = w->lease;
    out->attachment = w->attachment;
    out->wait_deadline_ms = w->wait_deadline_ms;
    out->queue_position = position_of(c, place);
}

void answer_granted(const struct core *c, ref grant, struct result *out)
{
    out->outcome = OUTCOME_GRANTED;
    result_from_grant(c, grant, out);
}

static void attach_again(struct core *c, ref waiter, uint32_t node, struct result *out)
{
    struct waiter *w = waiter_at(c, waiter);
    struct id lease = w->lease;
    if (session_at(c, w->session)->is_private && node_waiters_for(c, node) == 0) {
        out->error = HF_TOO_MANY_NODES;
        return;
    }
    out->replayed = true;
    waiter_attach(c, waiter, node);
    wake_all(c); /* the queue may have skipped it */
    bool is_grant = false;
    ref obj = lease_target(c, lease, &is_grant);
    hf_assert(obj != 0);
    if (is_grant) {
        answer_granted(c, obj, out);
    } else {
        answer_queued(c, obj, out);
    }
}

static bool end_if_dead(struct core *c, ref obj, bool is_grant)
{
    if (!c->backlog) {
        return false;
    }
    if (is_grant && grant_is_dead(c, grant_at(c, obj))) {
        grant_end_dead(c, obj);
        return true;
    }
    if (!is_grant && waiter_is_dead(c, waiter_at(c, obj))) {
        waiter_end_dead(c, obj);
        return true;
    }
    return false;
}

void answer_again(struct core *c, ref request, uint32_t node, struct result *out)
{
    struct request *r = request_at(c, request);
    hf_assert(r->type == COMMAND_ACQUIRE);
    if (r->state != REQUEST_DONE) {
        (void)end_if_dead(c, r->target, r->state == REQUEST_HOLDING);
    }
    switch ((enum request_state)r->state) {
    case REQUEST_DONE:
        request_replay(c, request, out);
        return;
    case REQUEST_HOLDING:
        out->replayed = true;
        answer_granted(c, r->target, out);
        return;
    case REQUEST_WAITING:
        attach_again(c, r->target, node, out);
        return;
    }
}

static ref lock_of(const struct core *c, bool is_grant, ref target, uint32_t i)
{
    if (is_grant) {
        return grant_at(c, grant_part(c, target, i))->lock;
    }
    hf_assert(i < waiter_at(c, target)->parts);
    ref p = waiter_at(c, target)->places;
    while (i-- > 0) {
        p = place_at(c, p)->sibling;
    }
    return place_at(c, p)->lock;
}

static bool is_same_request(const struct core *c, const struct acquire_request *req, bool is_grant,
                            ref target)
{
    ref session = is_grant ? grant_at(c, target)->session : waiter_at(c, target)->session;
    uint32_t parts = is_grant ? grant_parts(c, grant_at(c, target)) : waiter_at(c, target)->parts;
    const struct session *s = session_at(c, session);
    if (!session_is_of(s, req->cmd) || parts != req->count) {
        return false;
    }
    if (req->session != 0 ? session != req->session
                          : !s->is_private || !slice_equal(session_client(s), req->a->client)) {
        return false;
    }
    for (uint32_t i = 0; i < parts; i++) {
        ref lock = lock_of(c, is_grant, target, i);
        if (!slice_equal(lock_name(lock_at(c, lock)), req->names[i])) {
            return false;
        }
    }
    return true;
}

bool known_by_lease(struct core *c, const struct acquire_request *req, struct result *out)
{
    struct id lease = req->a->lease;
    hf_assert(!id_is_zero(lease));
    bool is_grant = false;
    ref target = lease_target(c, lease, &is_grant);
    if (target != 0) {
        if (!is_same_request(c, req, is_grant, target)) {
            out->error = HF_REQUEST_ID_REUSED;
            return true;
        }
        if (!end_if_dead(c, target, is_grant)) {
            if (is_grant) {
                out->replayed = true;
                answer_granted(c, target, out);
            } else {
                attach_again(c, target, req->a->node, out);
            }
            return true;
        }
    }
    const struct ended_grant *e = history_by_lease(c, req->cmd->tenant, lease);
    if (e != NULL && e->tenant == req->cmd->tenant) {
        out->replayed = true;
        out->outcome = OUTCOME_GRANTED;
        out->token = e->token;
        out->lease = e->lease;
        out->ended = (enum ended)e->how;
        return true;
    }
    if (e != NULL || session_find(c, lease) != 0 ||
        history_session(c, req->cmd->tenant, lease) != ENDED_NOT) {
        out->error = HF_REQUEST_ID_REUSED;
        return true;
    }
    return false;
}

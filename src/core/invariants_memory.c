/* The invariants (invariants.c) of remembered objects. */
#include "core/invariants.h"

static bool is_found(const struct core *c, ref request)
{
    const struct request *r = request_at(c, request);
    struct request_key key = {.tenant = r->tenant,
                              .principal = r->principal,
                              .type = (enum command_type)r->type,
                              .session_id = r->session,
                              .scope = slice_make(r->text, r->scope_len),
                              .id = slice_make(r->text + r->scope_len, r->id_len),
                              .hash = request_make_hash(c, r)};
    return request_find(c, &key) == request;
}

const char *check_tie(struct census *n, ref request, enum request_state state, ref target,
                      const struct session *s)
{
    const struct core *c = n->c;
    const struct request *r = request_at(c, request);
    if (r->target != target || r->state != state || r->type != COMMAND_ACQUIRE ||
        r->tenant != s->tenant) {
        return "I24: a request does not point to its waiter or grant";
    }
    struct id session = s->is_private ? (struct id){0, 0} : s->id;
    uint32_t principal = s->is_private ? s->principal : 0;
    if (!id_equal(r->session, session) || (r->id_len == 0 && s->is_private) ||
        r->principal != principal) {
        return "I24: a request is of another session than its waiter or grant";
    }
    if (r->id_len == 0) {
        return is_linked(c, request, offsetof(struct request, ring))
                   ? NULL
                   : "I25: a reply is not among those of its session";
    }
    struct slice scope = s->is_private ? session_client(s) : slice_make(NULL, 0);
    if (!slice_equal(slice_make(r->text, r->scope_len), scope)) {
        return "I24: a request by id is of another scope than its waiter or grant";
    }
    n->requests++;
    return is_found(c, request) ? NULL : "I24: a request by id is not found";
}

/* The other side of check_tie. */
static bool is_tied(const struct core *c, ref request)
{
    const struct request *r = request_at(c, request);
    if (r->state == REQUEST_DONE) {
        return r->target == 0;
    }
    if (r->target == 0) {
        return false;
    }
    if (r->state == REQUEST_WAITING) {
        return waiter_at(c, r->target)->kind == KIND_WAITER &&
               waiter_at(c, r->target)->request == request;
    }
    const struct grant *g = grant_at(c, r->target);
    return g->kind == KIND_GRANT && g->detail != 0 && detail_at(c, g->detail)->request == request;
}

const char *check_replies(struct census *n, const struct session *s)
{
    const struct core *c = n->c;
    const struct session_extra *x = session_extra_get(c, s);
    if (x == NULL) {
        return NULL;
    }
    struct walk w;
    uint32_t count = 0;
    uint64_t last = x->acked_through;
    WALK(&w, c, obj, x->replies, request, ring, LIMIT_SESSION_UNACKED)
    {
        const struct request *r = request_at(c, obj);
        if (r->seq <= last || r->id_len != 0 || !id_equal(r->session, s->id)) {
            return "I25: the replies of a session are out of order";
        }
        if (!is_tied(c, obj)) {
            return "I24: a reply does not point to its waiter or grant";
        }
        last = r->seq;
        count++;
    }
    if (w.is_broken) {
        return broken_ring;
    }
    return count == x->unacked ? NULL : "I25: the replies of a session are counted wrongly";
}

static const char strange[] = "I35: a remembered object is in the share of another tenant";

/* Before version 6 tenant 0 has those of all. */
static bool is_strange(const struct census *n, uint32_t tenant)
{
    return tenant != n->tenant->number && n->c->version >= TENANT_VERSION;
}

static const char *check_done_requests(struct census *n)
{
    const struct core *c = n->c;
    const struct tenant *t = n->tenant;
    uint32_t strays = 0;
    for (enum done_kind where = 0; where < DONE_KINDS; where++) {
        const struct recent *memory = &t->done_requests[where];
        uint64_t done_ms = 0;
        for (uint32_t i = 0; i < recent_count(memory); i++) {
            ref obj = recent_at(memory, i);
            const struct request *r = request_at(c, obj);
            if (is_strange(n, r->tenant)) {
                return strange;
            }
            if (r->id_len == 0 || r->state != REQUEST_DONE || !is_tied(c, obj) ||
                !is_found(c, obj)) {
                return "I24: a request that is done is not found, or not done";
            }
            bool is_stray = request_kind((enum command_type)r->type,
                                         slice_make(r->text + r->scope_len, r->id_len)) != where;
            if (is_stray && where != DONE_OF_CLIENTS) {
                return "I24: a request that is done is among those of another kind";
            }
            if (r->done_ms < done_ms || r->done_ms > c->now_ms ||
                (r->done_ms != 0 && where != DONE_OF_OPERATORS)) {
                return "I24: a request of an operator was done at another time";
            }
            done_ms = r->done_ms;
            strays += is_stray;
        }
    }
    bool is_older = c->version < 4;
    if (strays != t->strays ||
        (is_older && (recent_count(&t->done_requests[DONE_DRAWN]) > 0 ||
                      recent_count(&t->done_requests[DONE_OF_OPERATORS]) > 0))) {
        return "I24: requests that are done are counted wrongly";
    }
    return NULL;
}

/* Since version 6 another tenant may have an equal id. */
static bool is_live_session(const struct core *c, const struct ended_session *e)
{
    ref obj = session_find(c, e->id);
    return obj != 0 && (c->version < TENANT_VERSION || session_at(c, obj)->tenant == e->tenant);
}

static bool is_live_lease(const struct core *c, const struct ended_grant *e)
{
    bool is_grant = false;
    ref obj = lease_target(c, e->lease, &is_grant);
    if (obj == 0 || c->version < TENANT_VERSION) {
        return obj != 0;
    }
    ref session = is_grant ? grant_at(c, obj)->session : waiter_at(c, obj)->session;
    return session_at(c, session)->tenant == e->tenant;
}

static const char *check_ended(struct census *n)
{
    const struct core *c = n->c;
    const struct tenant *t = n->tenant;
    struct walk w;
    uint64_t sessions = 0;
    for (uint32_t i = 0; i < recent_count(&t->ended_grants); i++) {
        ref obj = recent_at(&t->ended_grants, i);
        const struct ended_grant *e = ended_grant_at(c, obj);
        if (is_strange(n, e->tenant)) {
            return strange;
        }
        if (history_by_token(c, e->tenant, e->token) != e ||
            history_by_lease(c, e->tenant, e->lease) != e) {
            return "I26: the end of a grant is not found, or twice";
        }
        if (is_live_lease(c, e) || e->token > token_highest(c)) {
            return "I26: a remembered end is of a grant that is live, or never existed";
        }
        keyed_add(&n->tokens, e->token, obj);
    }
    WALK(&w, c, obj, t->ended_sessions, ended_session, ring, LIMIT_ENDED)
    {
        const struct ended_session *e = ended_session_at(c, obj);
        if (is_strange(n, e->tenant)) {
            return strange;
        }
        if (e->how == ENDED_NOT || history_session(c, e->tenant, e->id) != (enum ended)e->how ||
            is_live_session(c, e)) {
            return "I26: the end of a session is not found, or the session is live";
        }
        sessions++;
    }
    if (w.is_broken) {
        return broken_ring;
    }
    n->ended_sessions += sessions;
    return sessions == t->ended_session_count ? NULL
                                              : "I26: the ends of sessions are counted wrongly";
}

static const char *check_fences(struct census *n)
{
    const struct core *c = n->c;
    const struct tenant *t = n->tenant;
    struct walk w;
    uint64_t count = 0;
    uint64_t lowest = UINT64_MAX;
    WALK(&w, c, obj, t->fence_marks, fence_mark, ring, LIMIT_FENCE_MARKS)
    {
        const struct fence_mark *f = fence_mark_at(c, obj);
        if (is_strange(n, f->tenant)) {
            return strange;
        }
        if (fence_find(c, f->tenant, slice_make(f->name, f->name_len), f->slot) != f) {
            return "I27: a fence mark is not found, or twice";
        }
        if (f->position == 0 || f->position > heap_count(&t->fence_heap) ||
            heap_at(&t->fence_heap, f->position) != f->token) {
            return "I27: a fence mark is at the wrong place in the heap";
        }
        if (f->token < t->fence_floor || f->token >= LIMIT_NUMBER) {
            return "I27: a fence mark is below the floor";
        }
        lowest = f->token < lowest ? f->token : lowest;
        count++;
    }
    if (w.is_broken) {
        return broken_ring;
    }
    n->fences += count;
    if (count != t->fence_count || count != heap_count(&t->fence_heap) ||
        lowest != heap_min_at(&t->fence_heap)) {
        return "I27: the table, heap and ring of fence marks do not match";
    }
    if (t->fence_floor < c->fence_base) {
        return "I27: a floor is below that of new tenants";
    }
    if (c->version >= 4 && t->fence_floor > fence_issued_bound(c)) {
        return "I27: the floor is above the tokens that were issued";
    }
    return t->fence_floor <= c->fence_base || count == LIMIT_FENCE_MARKS
               ? NULL
               : "I27: there is a floor although the marks are not full";
}

static const char *check_audit(struct census *n)
{
    const struct core *c = n->c;
    const struct tenant *t = n->tenant;
    bool has_share = c->version >= TENANT_VERSION;
    struct walk w;
    uint32_t count = 0;
    uint64_t last = 0;
    WALK(&w, c, obj, t->audit, audit_record, ring, LIMIT_AUDIT)
    {
        const struct audit_record *a = audit_record_at(c, obj);
        if (a->tenant != t->number && tenant_of_audit(c, a->tenant) != t->number) {
            return strange;
        }
        if (count > 0 && (has_share ? a->number <= last : a->number != last + 1)) {
            return "I28: the audit records have a gap, or are out of order";
        }
        if (audit_find(c, a->tenant, a->number) != a ||
            a->number + LIMIT_AUDIT <= t->audit_number) {
            return "I28: an audit record is not found by its number";
        }
        if (a->index > c->index || a->action >= AUDIT_COUNT) {
            return "I28: an audit record is from the future, or its action is unknown";
        }
        if (a->is_note && (c->version < 3 || a->action >= AUDIT_RECOVER)) {
            return "I28: an audit record cannot be a note";
        }
        last = a->number;
        count++;
    }
    if (w.is_broken) {
        return broken_ring;
    }
    /* At the upgrade to version 6, tenant 0 may lose its newest records to another tenant. */
    bool is_newest = last == t->audit_number || (has_share && t->number == 0);
    if (count != t->audit_count || (count > 0 && !is_newest) || last > t->audit_number) {
        return "I28: the audit records are counted wrongly";
    }
    return has_share || count == LIMIT_AUDIT || count == t->audit_number
               ? NULL
               : "I28: audit records are missing although the trail is not full";
}

static const char *check_counters(struct census *n)
{
    const struct core *c = n->c;
    const struct tenant *t = n->tenant;
    struct walk w;
    uint64_t count = 0;
    WALK(&w, c, obj, t->counters, counter, ring, LIMIT_COUNTERS)
    {
        const struct counter *counter = counter_at(c, obj);
        if (is_strange(n, counter->tenant)) {
            return strange;
        }
        if (counter->kind != KIND_COUNTER ||
            counter_find_any(c, counter->tenant, counter_name(counter)) != counter) {
            return "I31: a counter is not found, or twice";
        }
        ref lock = lock_find(c, counter->tenant, counter_name(counter));
        if (lock != 0 && lock_in_use(c, lock_at(c, lock))) {
            return "I31: a name is a counter and a lock";
        }
        if (counter->change == 0 || counter->change > c->counter_change) {
            return "I31: the last change of a counter is in the future";
        }
        if ((counter->deadline_ms != 0 && c->version < 4) ||
            (counter_is_dead(c, counter) && !c->backlog)) {
            return "I31: a counter has a deadline before version 4, or one that is past";
        }
        uint64_t due_ms = counter->deadline_ms == 0 ? UINT64_MAX : counter->deadline_ms;
        if (!timer_is_right(n, obj, due_ms, false) || timer_at(c, obj) != due_ms) {
            return "I21: a counter has no timer, a needless one, or one that is not its deadline";
        }
        count++;
    }
    if (w.is_broken) {
        return broken_ring;
    }
    n->counters += count;
    return count == t->counter_count ? NULL : "I31: the counters are counted wrongly";
}

static const char *check_transacts(struct census *n)
{
    const struct core *c = n->c;
    const struct recent *memory = &n->tenant->transacts;
    for (uint32_t i = 0; i < recent_count(memory); i++) {
        const struct done_transact *t = done_transact_at(c, recent_at(memory, i));
        if (is_strange(n, t->tenant)) {
            return strange;
        }
        if (transact_find(c, t->tenant, t->id) != t) {
            return "I32: a transaction is not found, or twice";
        }
    }
    return NULL;
}

static uint64_t remembered_by(const struct core *c, const struct tenant *t)
{
    uint64_t bytes =
        (t->number == 0 ? 0 : pool_rounded(sizeof(*t))) +
        recent_count(&t->ended_grants) * (uint64_t)pool_rounded(sizeof(struct ended_grant)) +
        recent_count(&t->transacts) * (uint64_t)pool_rounded(sizeof(struct done_transact)) +
        t->ended_session_count * (uint64_t)pool_rounded(sizeof(struct ended_session));
    for (enum done_kind where = 0; where < DONE_KINDS; where++) {
        const struct recent *memory = &t->done_requests[where];
        for (uint32_t i = 0; i < recent_count(memory); i++) {
            bytes += pool_rounded(request_size(request_at(c, recent_at(memory, i))));
        }
    }
    RING_EACH(c, mark, t->fence_marks, fence_mark, ring)
    {
        bytes += pool_rounded(fence_mark_size(fence_mark_at(c, mark)));
    }
    RING_EACH(c, record, t->audit, audit_record, ring)
    {
        bytes += pool_rounded(audit_size(audit_record_at(c, record)));
    }
    return bytes;
}

static const char *check_tenant(struct census *n)
{
    const char *(*const checks[])(struct census *) = {check_done_requests, check_ended,
                                                      check_fences,        check_audit,
                                                      check_counters,      check_transacts};
    const char *broken = NULL;
    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]) && broken == NULL; i++) {
        broken = checks[i](n);
    }
    return broken;
}

const char *check_memory(struct census *n)
{
    const struct core *c = n->c;
    uint64_t bytes = 0;
    uint64_t tenants = 0;
    TENANT_EACH(c, t)
    {
        n->tenant = t;
        const char *broken = check_tenant(n);
        if (broken == NULL && !n->trusts_tables) {
            broken = check_usage(n);
        }
        if (broken != NULL) {
            return broken;
        }
        bytes += remembered_by(c, t);
        tenants++;
    }
    if (tenants != table_count(&c->tenants) + 1) {
        return "I35: the table of tenants does not match the tenants";
    }
    if (n->ended_sessions != table_count(&c->ended_sessions) ||
        n->fences != table_count(&c->fences) || n->counters != table_count(&c->counters)) {
        return "I35: a table of remembered objects does not match the shares";
    }
    return bytes == c->remembered_bytes ? NULL
                                        : "I34: the byte count of remembered objects is wrong";
}

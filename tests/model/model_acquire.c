/* Acquire, in the order of the numbered steps in CORE.md. */
#include "model_state.h"

static struct holder_view holder_of(struct model *m, const struct model_grant *g)
{
    return (struct holder_view){
        .client = model_keep(m, owned_slice(&g->r.session->client)),
        .owner = model_keep(m, owned_slice(&g->r.owner)),
        .metadata = model_keep(m, owned_slice(&g->r.metadata)),
        .mode = g->r.mode,
        .permits = g->r.permits,
        .since_ms = g->since_ms,
        .deadline_ms = model_grant_deadline(g),
        .trace = model_keep(m, owned_slice(&g->r.trace)),
        .since_wall_ms = model_wall_of(m, g->since_ms),
    };
}

/* The client whose multi-lock is the first in the queue of a free name (S6.2). */
static struct slice reserved_for(const struct model *m, const struct model_name *name)
{
    const struct model_waiter *first = model_name_cursor(name);
    if (name->holders.count > 0 || name->delayed_until_ms > m->now_ms || first == NULL) {
        return slice_make(NULL, 0);
    }
    return owned_slice(&first->r.session->client);
}

void model_result_about_name(struct model *m, struct model_name *name, struct result *out)
{
    out->name = model_keep(m, owned_slice(&name->text));
    out->queue_length = (uint32_t)name->queue.count;
    out->holders = (uint32_t)name->holders.count;
    out->has_holder = name->holders.count > 0;
    if (out->has_holder) {
        out->holder = holder_of(m, name->holders.at[0]);
    }
    out->delayed_until_ms = name->delayed_until_ms > m->now_ms ? name->delayed_until_ms : 0;
    out->reserved_for = model_keep(m, reserved_for(m, name));
}

void model_result_from_grant(struct model *m, const struct model_grant *g, struct result *out)
{
    out->outcome = OUTCOME_GRANTED;
    out->mode = g->r.mode;
    out->token = g->token;
    out->lease = g->r.lease;
    out->deadline_ms = model_grant_deadline(g);
    out->ttl_ms = model_grant_ttl(g);
    out->hold_until_ms = model_grant_hold_until(g);
    bool is_none = out->ttl_ms == TTL_NONE;
    if (out->hold_until_ms != 0 && (is_none || out->hold_until_ms < m->now_ms + out->ttl_ms)) {
        out->ttl_ms = out->hold_until_ms > m->now_ms ? out->hold_until_ms - m->now_ms : 0;
    }
    out->slot = g->slot;
    out->depth = g->depth;
}

static bool name_free_for(struct model *m, struct model_name *name, const struct request *r,
                          uint32_t *steps)
{
    bool unsure = false;
    return model_name_has_capacity(m, name, r->mode, r->limit, r->permits) &&
           model_front(m, name, steps, &unsure) == NULL && !unsure;
}

/* Of several names the first that is held or delayed is reported, else the first. */
void model_result_from_waiter(struct model *m, const struct model_waiter *w, struct result *out)
{
    struct model_name *name = w->r.names[0];
    for (uint32_t i = 0; i < w->r.parts; i++) {
        if (w->r.names[i]->holders.count > 0 || w->r.names[i]->delayed_until_ms > m->now_ms) {
            name = w->r.names[i];
            break;
        }
    }
    out->outcome = OUTCOME_QUEUED;
    model_result_about_name(m, name, out);
    uint32_t limit = 0;
    model_name_mode(name, &out->mode, &limit);
    out->lease = w->r.lease;
    out->attachment = w->attachment;
    out->wait_deadline_ms = w->wait_deadline_ms;
    for (size_t i = 0; i < name->queue.count && i <= LIMIT_POSITION; i++) {
        out->queue_position = (uint32_t)i + 1;
        if (name->queue.at[i] == w) {
            break;
        }
    }
}

static void attach_anew(struct model *m, struct model_waiter *w, uint32_t node)
{
    struct event more;
    memset(&more, 0, sizeof(more));
    more.reason = REASON_SUPERSEDED;
    model_emit_waiter(m, EVENT_SUPERSEDED, w, 0, &more);
    if (w->node_waiters != NULL) {
        struct model_node_waiters *node_waiters = model_node_waiters_for(m, node);
        if (node_waiters == w->node_waiters) { /* to the end of its order */
            hf_assert(model_list_remove(&node_waiters->waiters, w));
        } else {
            model_node_waiters_part(m, w);
        }
        model_node_waiters_join(node_waiters, w);
    }
    w->attachment = ++m->last_attachment;
    w->node = node;
    w->detached_until_ms = 0;
    for (uint32_t i = 0; i < w->r.parts; i++) {
        struct model_name *name = w->r.names[i];
        name->cursor = w->ticket < name->cursor ? w->ticket : name->cursor;
        model_wake(m, name);
    }
}

static int compare_slices(const void *a, const void *b)
{
    return slice_compare(*(const struct slice *)a, *(const struct slice *)b);
}

/* Step 2: false when a name comes twice. */
static bool sort_names(const struct command_acquire *a, struct names *sorted)
{
    *sorted = a->names;
    qsort(sorted->at, sorted->count, sizeof(sorted->at[0]), compare_slices);
    for (uint32_t i = 1; i < sorted->count; i++) {
        if (slice_equal(sorted->at[i - 1], sorted->at[i])) {
            return false;
        }
    }
    return true;
}

static bool same_names(const struct request *r, const struct command_acquire *a)
{
    struct names sorted;
    if (!sort_names(a, &sorted) || sorted.count != r->parts) {
        return false;
    }
    for (uint32_t i = 0; i < r->parts; i++) {
        if (!slice_equal(owned_slice(&r->names[i]->text), sorted.at[i])) {
            return false;
        }
    }
    return true;
}

/* Is a request with the same lease id a repetition of this one? */
static bool same_requester(const struct request *r, const struct command *c)
{
    const struct model_session *s = r->session;
    bool same_session = s->is_private ? id_is_zero(c->session) : id_equal(s->id, c->session);
    bool same_client = !s->is_private || slice_equal(owned_slice(&s->client), c->acquire.client);
    return model_owns(c, s) && same_session && same_client && same_names(r, &c->acquire);
}

/* A waiter whose request comes again. It may have been passed over while it was detached, so what
 * is free is handed over before it is answered. */
void model_answer_waiter(struct model *m, struct model_waiter *w, uint32_t node, struct result *out)
{
    uint32_t tenant = w->r.session->tenant;
    struct id lease = w->r.lease;
    if (w->node_waiters != NULL && model_node_waiters_for(m, node) == NULL) {
        out->error = HF_TOO_MANY_NODES;
        return;
    }
    attach_anew(m, w, node);
    model_serve(m);
    const struct model_grant *g = model_find_lease(m, tenant, lease);
    out->replayed = true;
    if (g != NULL) {
        model_result_from_grant(m, g, out);
    } else {
        model_result_from_waiter(m, model_find_waiter(m, tenant, lease), out);
    }
}

/* Does anybody hold or wait under this lease id? Ids are unique over all tenants. */
bool model_lease_lives(const struct model *m, struct id lease)
{
    for (size_t i = 0; i < m->grants.count; i++) {
        if (id_equal(((const struct model_grant *)m->grants.at[i])->r.lease, lease)) {
            return true;
        }
    }
    for (size_t i = 0; i < m->waiters.count; i++) {
        if (id_equal(((const struct model_waiter *)m->waiters.at[i])->r.lease, lease)) {
            return true;
        }
    }
    return false;
}

/* The last part of step 1: a lease id that is known already. */
static bool known_lease(struct model *m, const struct command *c, struct result *out)
{
    struct model_grant *g = model_find_lease(m, c->tenant, c->acquire.lease);
    struct model_waiter *w = model_find_waiter(m, c->tenant, c->acquire.lease);
    bool elsewhere = g == NULL && w == NULL && model_lease_lives(m, c->acquire.lease);
    if (elsewhere || (g != NULL && !same_requester(&g->r, c)) ||
        (w != NULL && !same_requester(&w->r, c))) {
        out->error = HF_REQUEST_ID_REUSED;
        return true;
    }
    if (g != NULL && model_grant_dead(m, g)) {
        model_bury_grant(m, g);
        g = NULL;
    }
    if (w != NULL && model_waiter_dead(m, w)) {
        model_bury_waiter(m, w);
        w = NULL;
    }
    const struct ended_grant *e = model_ended_lease(m, c->tenant, c->acquire.lease);
    if (g != NULL) {
        model_result_from_grant(m, g, out);
        out->replayed = true;
        return true;
    }
    if (w != NULL) {
        model_answer_waiter(m, w, c->acquire.node, out);
        return true;
    }
    if (e != NULL) {
        out->outcome = OUTCOME_GRANTED;
        out->replayed = true;
        out->ended = e->ended;
        out->token = e->token;
        out->lease = e->lease;
        return true;
    }
    struct id lease = c->acquire.lease;
    if (model_lease_lives(m, lease) || model_find_session(m, lease) != NULL ||
        model_ended_lease_anywhere(m, c->tenant, lease) ||
        model_ended_session_anywhere(m, c->tenant, lease)) {
        out->error = HF_REQUEST_ID_REUSED;
        return true;
    }
    return false;
}

static bool same_owner(const struct request *r, const struct request *requester)
{
    return r->session == requester->session &&
           slice_equal(owned_slice(&r->owner), owned_slice(&requester->owner));
}

void model_refuse(struct model *m, struct result *out, enum reason reason, struct model_name *name)
{
    out->outcome = OUTCOME_REFUSED;
    out->reason = reason;
    uint32_t limit = 0;
    model_name_mode(name, &out->mode, &limit); /* what it is held or waited for in */
    model_result_about_name(m, name, out);
}

/* Step 3 for a name that the owner holds. */
static void hold_again(struct model *m, struct model_grant *g, const struct request *r,
                       uint32_t flags, struct model_name *name, struct result *out)
{
    bool again = (flags & ACQUIRE_REENTRANT) != 0 && r->parts == 1 && g->r.parts == 1 &&
                 g->r.mode == r->mode && g->r.permits == r->permits && g->depth < UINT16_MAX;
    if (!again) {
        model_refuse(m, out, REASON_ALREADY_HELD, name);
        return;
    }
    g->depth++;
    model_emit_grant(m, EVENT_REENTERED, g, 0, NULL);
    model_result_from_grant(m, g, out);
}

/* Step 3: true when it has been answered. */
static bool check_name(struct model *m, const struct request *r, uint32_t flags,
                       struct model_name *name, struct result *out)
{
    for (size_t i = 0; !r->session->is_private && i < name->holders.count; i++) {
        struct model_grant *g = name->holders.at[i];
        if (same_owner(&g->r, r) && !model_grant_dead(m, g)) {
            hold_again(m, g, r, flags, name, out);
            return true;
        }
    }
    for (size_t i = 0; !r->session->is_private && i < name->queue.count; i++) {
        const struct model_waiter *w = name->queue.at[i];
        if (same_owner(&w->r, r) && !model_waiter_dead(m, w)) {
            model_refuse(m, out, REASON_ALREADY_HELD, name);
            return true;
        }
    }
    enum mode mode = MODE_COUNT;
    uint32_t limit = 0;
    if (model_name_mode(name, &mode, &limit)) {
        if (mode_class(mode) != mode_class(r->mode)) {
            model_refuse(m, out, REASON_MODE_MISMATCH, name);
            return true;
        }
        if (mode == MODE_SEMAPHORE && limit != r->limit) {
            model_refuse(m, out, REASON_LIMIT_MISMATCH, name);
            return true;
        }
    }
    return false;
}

static void enqueue(struct model *m, const struct command *c, const struct request *r,
                    struct result *out)
{
    struct model_waiter *w = model_alloc(sizeof(*w));
    w->r = *r;
    w->ticket = ++m->last_ticket;
    w->since_ms = m->version < 7 ? 0 : m->now_ms;
    w->attachment = ++m->last_attachment;
    w->node = c->acquire.node;
    /* Sums saturate: a wait of 2^64-1 ms is for ever, and so is what ends past 2^53. */
    uint64_t wait = c->acquire.wait_ms;
    w->wait_deadline_ms =
        wait < LIMIT_NUMBER && m->now_ms + wait < LIMIT_NUMBER ? m->now_ms + wait : NEVER;
    w->timer_ms = w->wait_deadline_ms;
    model_list_add(&m->waiters, w);
    model_list_add(&w->r.session->waiters, w);
    for (uint32_t i = 0; i < w->r.parts; i++) {
        model_list_add(&w->r.names[i]->queue, w);
        w->r.names[i]->furnished = true;
    }
    if (w->r.session->is_private) {
        model_node_waiters_join(model_node_waiters_for(m, w->node), w);
    }
    for (uint32_t i = 0; i < w->r.parts; i++) {
        model_emit_waiter(m, EVENT_QUEUED, w, i, NULL);
    }
    model_result_from_waiter(m, w, out);
    model_remember(m, c, w->r.session, out, &w->r.memo);
}

/* Steps 5 and 6: true when it became a waiter. */
static bool wait_or_refuse(struct model *m, const struct command *c, const struct request *r,
                           struct model_name *blocked, struct result *out)
{
    if (c->acquire.wait_ms == 0) {
        model_refuse(m, out, blocked->delayed_until_ms > m->now_ms ? REASON_DELAYED : REASON_HELD,
                     blocked);
        return false;
    }
    if ((c->acquire.flags & ACQUIRE_DETECT_DEADLOCK) != 0) {
        enum deadlock found = model_deadlock(m, r, out);
        if (found == DEADLOCK_FOUND) {
            model_refuse(m, out, REASON_DEADLOCK, blocked);
            return false;
        }
        out->deadlock_unchecked = found == DEADLOCK_UNCHECKED;
    }
    for (uint32_t i = 0; i < r->parts; i++) {
        if (r->names[i]->queue.count >= LIMIT_QUEUE) {
            out->error = HF_QUEUE_FULL;
            return false;
        }
    }
    if (r->session->is_private && model_node_waiters_for(m, c->acquire.node) == NULL) {
        out->error = HF_TOO_MANY_NODES;
        return false;
    }
    enqueue(m, c, r, out);
    return true;
}

static size_t entries_of(const struct model_session *s)
{
    size_t entries = 0;
    for (size_t i = 0; i < s->grants.count; i++) {
        entries += ((const struct model_grant *)s->grants.at[i])->r.parts;
    }
    for (size_t i = 0; i < s->waiters.count; i++) {
        entries += ((const struct model_waiter *)s->waiters.at[i])->r.parts;
    }
    return entries;
}

/* Steps 3 to 6: true when `r` lives on in a grant or a waiter. */
static bool decide(struct model *m, const struct command *c, const struct request *r,
                   struct result *out)
{
    if (r->mode == MODE_SEMAPHORE && r->permits > r->limit) {
        out->outcome = OUTCOME_REFUSED;
        out->reason = REASON_PERMITS_EXCEED_LIMIT;
        out->name = model_keep(m, owned_slice(&r->names[0]->text));
        return false;
    }
    for (uint32_t i = 0; i < r->parts; i++) {
        model_prune_name(m, r->names[i]);
        model_prune_counter(m, c->tenant, owned_slice(&r->names[i]->text));
    }
    for (uint32_t i = 0; i < r->parts; i++) {
        struct slice text = owned_slice(&r->names[i]->text);
        if (model_find_counter(m, c->tenant, text) != NULL) {
            out->outcome = OUTCOME_REFUSED;
            out->reason = REASON_WRONG_KIND;
            out->name = model_keep(m, text);
            return false;
        }
        if (check_name(m, r, c->acquire.flags, r->names[i], out)) {
            return false;
        }
    }
    if (!r->session->is_private && entries_of(r->session) + r->parts > LIMIT_SESSION_ENTRIES) {
        out->error = HF_TOO_MANY_LOCKS;
        return false;
    }
    uint32_t steps = LIMIT_WAKE_STEPS; /* for all names together */
    for (uint32_t i = 0; i < r->parts; i++) {
        if (!name_free_for(m, r->names[i], r, &steps)) {
            return wait_or_refuse(m, c, r, r->names[i], out);
        }
    }
    struct model_grant *g = model_grant(m, r, NULL);
    model_result_from_grant(m, g, out);
    model_remember(m, c, r->session, out, &g->r.memo);
    return true;
}

struct model_session *model_private_session(struct model *m, const struct command *c,
                                            struct id lease, struct slice client, uint64_t ttl_ms)
{
    struct model_session *s = model_alloc(sizeof(*s));
    s->id = lease;
    s->tenant = c->tenant;
    s->principal = c->principal;
    s->client = owned_copy(client);
    s->metadata = owned_copy(slice_make(NULL, 0));
    s->ttl_ms = ttl_ms;
    s->is_private = true;
    s->waits = true;
    s->timer_ms = NEVER;
    model_list_add(&m->sessions, s);
    return s;
}

static void make_request(struct model *m, const struct command *c, struct model_session *s,
                         const struct names *names, struct request *r)
{
    const struct command_acquire *a = &c->acquire;
    memset(r, 0, sizeof(*r));
    r->lease = a->lease;
    r->session = s != NULL ? s : model_private_session(m, c, a->lease, a->client, a->ttl_ms);
    r->owner = owned_copy(a->owner);
    r->parts = names->count;
    for (uint32_t i = 0; i < names->count; i++) {
        r->names[i] = model_make_name(m, c->tenant, names->at[i]);
    }
    r->mode = (enum mode)a->mode;
    r->limit = a->limit;
    r->permits = a->permits;
    r->ttl_ms = s != NULL ? a->ttl_ms : 0;
    r->delay_ms = a->delay_ms;
    r->max_hold_ms = a->max_hold_ms;
    r->metadata = owned_copy(a->metadata);
    r->value = owned_copy(a->value);
    r->trace = owned_copy(m->version >= 5 ? a->trace : slice_make(NULL, 0));
    r->is_key = (a->flags & ACQUIRE_KEY) != 0;
    r->kind = KEY_STRING;
}

void model_acquire(struct model *m, const struct command *c, struct result *out)
{
    struct model_session *s = NULL;
    if (!id_is_zero(c->session)) {
        out->error = model_named_session(m, c, &s);
        if (out->error != HF_OK) {
            return;
        }
    }
    if (model_once(m, c, s, out)) {
        return;
    }
    struct names names;
    if (!sort_names(&c->acquire, &names)) {
        out->error = HF_DUPLICATE_NAME;
        return;
    }
    if (known_lease(m, c, out)) {
        return;
    }
    if (s == NULL && m->sessions.count >= LIMIT_SESSIONS) {
        out->error = HF_TOO_MANY_SESSIONS;
        return;
    }
    struct request r;
    make_request(m, c, s, &names, &r);
    if (decide(m, c, &r, out)) {
        return;
    }
    if (out->error == HF_OK) {
        model_remember(m, c, s, out, NULL);
    }
    model_request_free(&r);
    model_free_session_if_unused(m, r.session);
}

/* Acquire: one name or several, now or after a wait. docs/CORE.md has the order of the decisions.
 */
#include "core/state.h"

/* A request on its way through the decisions. */
struct asking {
    const struct command *cmd;
    const struct command_acquire *a;
    ref session; /* 0: it will get a private one */
    uint32_t count;
    struct slice names[LIMIT_MULTILOCK_NAMES]; /* canonical order */
    uint32_t hashes[LIMIT_MULTILOCK_NAMES];
    ref locks[LIMIT_MULTILOCK_NAMES]; /* 0: free as air */
};

ref lease_find(const struct core *c, struct id lease)
{
    ref who = table_first(&c->leases, hash_id(c, lease));
    while (who != 0) {
        const uint8_t *kind = pool_at(&c->pool, who);
        if (*kind == KIND_WAITER) {
            const struct waiter *w = waiter_at(c, who);
            if (id_equal(w->lease, lease)) {
                return who;
            }
            who = w->lease_next;
        } else {
            const struct grant *g = grant_at(c, who);
            if (id_equal(grant_lease(c, g), lease)) {
                return who;
            }
            who = g->lease_next;
        }
    }
    return 0;
}

ref lease_target(const struct core *c, struct id lease, bool *is_grant)
{
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
    ref who = lease_find(c, lease);
    if (who != 0) {
        *is_grant = *(const uint8_t *)pool_at(&c->pool, who) == KIND_GRANT;
    }
    return who;
}

/* Insertion sort: there are at most 64, and mostly one. False when a name comes twice. */
static bool sort_names(struct asking *ask)
{
    const struct names *names = &ask->a->names;
    ask->count = names->count;
    for (uint32_t i = 0; i < names->count; i++) {
        uint32_t at = i;
        while (at > 0) {
            int order = slice_compare(ask->names[at - 1], names->at[i]);
            if (order == 0) {
                return false;
            }
            if (order < 0) {
                break;
            }
            ask->names[at] = ask->names[at - 1];
            at--;
        }
        ask->names[at] = names->at[i];
    }
    return true;
}

static void refuse(struct result *out, enum reason reason)
{
    out->outcome = OUTCOME_REFUSED;
    out->reason = reason;
}

/* The same request again: a retry, or a client that came back (S7.1, S8). */

static uint32_t position_of(struct core *c, ref place)
{
    const struct lock *l = lock_at(c, place_at(c, place)->lock);
    uint32_t position = 1;
    RING_EACH(c, who, lock_extra_at(c, l->extra)->queue, place, in_queue)
    {
        if (who == place || position > LIMIT_POSITION) {
            break;
        }
        core_step(c, 1);
        position++;
    }
    return position;
}

static void answer_queued(struct core *c, ref waiter, struct result *out)
{
    const struct waiter *w = waiter_at(c, waiter);
    result_holder(c, place_at(c, w->places)->lock, out);
    out->outcome = OUTCOME_QUEUED;
    out->lease = w->lease;
    out->attachment = w->attachment;
    out->wait_deadline_ms = w->wait_deadline_ms;
    out->queue_position = position_of(c, w->places);
}

static void answer_granted(const struct core *c, ref grant, struct result *out)
{
    out->outcome = OUTCOME_GRANTED;
    result_from_grant(c, grant, out);
}

static void attach_again(struct core *c, ref waiter, uint32_t node, struct result *out)
{
    struct waiter *w = waiter_at(c, waiter);
    struct id lease = w->lease;
    if (session_at(c, w->session)->is_private && crowd_for(c, node) == 0) {
        out->error = HF_TOO_MANY_NODES;
        return;
    }
    out->replayed = true;
    waiter_attach(c, waiter, node);
    wake_all(c); /* it may have been passed over while it was away */
    bool is_grant = false;
    ref who = lease_target(c, lease, &is_grant);
    hf_assert(who != 0);
    if (is_grant) {
        answer_granted(c, who, out);
    } else {
        answer_queued(c, who, out);
    }
}

static bool end_if_dead(struct core *c, ref who, bool is_grant)
{
    if (!c->backlog) {
        return false;
    }
    if (is_grant && grant_is_dead(c, grant_at(c, who))) {
        grant_end_dead(c, who);
        return true;
    }
    if (!is_grant && waiter_is_dead(c, waiter_at(c, who))) {
        waiter_end_dead(c, who);
        return true;
    }
    return false;
}

static void answer_again(struct core *c, ref request, uint32_t node, struct result *out)
{
    struct request *r = request_at(c, request);
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
    ref p = waiter_at(c, target)->places;
    while (i-- > 0) {
        p = place_at(c, p)->sibling;
    }
    return place_at(c, p)->lock;
}

/* Whether the lease id was drawn for this very request. */
static bool is_same_request(const struct core *c, const struct asking *ask, bool is_grant,
                            ref target)
{
    ref session = is_grant ? grant_at(c, target)->session : waiter_at(c, target)->session;
    uint32_t parts = is_grant ? grant_parts(c, grant_at(c, target)) : waiter_at(c, target)->parts;
    const struct session *s = session_at(c, session);
    if (s->tenant != ask->cmd->tenant || parts != ask->count) {
        return false;
    }
    if (ask->session != 0 ? session != ask->session
                          : !s->is_private || !slice_equal(session_client(s), ask->a->client)) {
        return false;
    }
    for (uint32_t i = 0; i < parts; i++) {
        ref lock = lock_of(c, is_grant, target, i);
        if (!slice_equal(lock_name(lock_at(c, lock)), ask->names[i])) {
            return false;
        }
    }
    return true;
}

/* True when the lease id is known, and the answer is in `out`. */
static bool known_by_lease(struct core *c, const struct asking *ask, struct result *out)
{
    struct id lease = ask->a->lease;
    bool is_grant = false;
    ref target = lease_target(c, lease, &is_grant);
    if (target != 0) {
        if (!is_same_request(c, ask, is_grant, target)) {
            out->error = HF_REQUEST_ID_REUSED;
            return true;
        }
        if (!end_if_dead(c, target, is_grant)) {
            if (is_grant) {
                out->replayed = true;
                answer_granted(c, target, out);
            } else {
                attach_again(c, target, ask->a->node, out);
            }
            return true;
        }
    }
    const struct ended_grant *e = history_by_lease(c, lease);
    if (e != NULL && e->tenant == ask->cmd->tenant) {
        out->replayed = true;
        out->outcome = OUTCOME_GRANTED;
        out->token = e->token;
        out->lease = e->lease;
        out->ended = (enum ended)e->how;
        return true;
    }
    if (e != NULL || session_find(c, lease) != 0 || history_session(c, lease) != ENDED_NOT) {
        out->error = HF_REQUEST_ID_REUSED;
        return true;
    }
    return false;
}

/* The state of the names. */

/* What is past its deadline is nobody's, swept or not (S1.7). */
static bool is_own_grant(const struct core *c, const struct asking *ask, const struct grant *g)
{
    return slice_equal(grant_owner(g), ask->a->owner) && !(c->backlog && grant_is_dead(c, g));
}

static bool is_own_waiter(const struct core *c, const struct asking *ask, const struct waiter *w)
{
    return slice_equal(waiter_owner(w), ask->a->owner) && !(c->backlog && waiter_is_dead(c, w));
}

/* What the same owner already has of the names (S4.1), one bit for each. */
struct own {
    uint64_t held;
    uint64_t waited_for;
    ref grant; /* on one of the names that are held */
};

/* One name: walks the lock's holders and the session's holds side by side, since what is in both is
 * found in the shorter; the same for those who wait. */
static void find_own_of_one(struct core *c, const struct asking *ask, ref lock, struct own *own)
{
    const struct session *s = session_at(c, ask->session);
    const ref holders = lock_at(c, lock)->holders;
    ref x = RING_FIRST(c, holders, grant, in_lock);
    ref y = RING_FIRST(c, s->holds, grant, in_session);
    while (x != 0 && y != 0) {
        core_step(c, 1);
        const struct grant *g = grant_at(c, x);
        const struct grant *h = grant_at(c, y);
        bool by_lock = g->session == ask->session && is_own_grant(c, ask, g);
        if (by_lock || (h->lock == lock && is_own_grant(c, ask, h))) {
            own->held = 1;
            own->grant = by_lock ? x : y;
            return;
        }
        x = ring_after(&c->pool, holders, x, offsetof(struct grant, in_lock));
        y = ring_after(&c->pool, s->holds, y, offsetof(struct grant, in_session));
    }
    const struct lock_extra *extra = lock_extra_get(c, lock_at(c, lock));
    const ref queue = extra == NULL ? 0 : extra->queue;
    ref place = RING_FIRST(c, queue, place, in_queue);
    ref waiter = RING_FIRST(c, s->waits, waiter, in_session);
    ref part = waiter == 0 ? 0 : waiter_at(c, waiter)->places;
    while (place != 0 && part != 0) {
        core_step(c, 1);
        const struct waiter *w = waiter_at(c, place_at(c, place)->waiter);
        const struct waiter *v = waiter_at(c, waiter);
        if ((w->session == ask->session && is_own_waiter(c, ask, w)) ||
            (place_at(c, part)->lock == lock && is_own_waiter(c, ask, v))) {
            own->waited_for = 1;
            return;
        }
        place = ring_after(&c->pool, queue, place, offsetof(struct place, in_queue));
        part = place_at(c, part)->sibling;
        if (part == 0) {
            waiter = ring_after(&c->pool, s->waits, waiter, offsetof(struct waiter, in_session));
            part = waiter == 0 ? 0 : waiter_at(c, waiter)->places;
        }
    }
}

/* The names' locks in order of their references, to find a lock's number quickly. */
struct numbered {
    ref lock;
    uint32_t number;
};

static uint64_t bit_of(const struct numbered *locks, uint32_t count, ref lock)
{
    uint32_t low = 0;
    uint32_t high = count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (locks[middle].lock < lock) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < count && locks[low].lock == lock ? UINT64_C(1) << locks[low].number : 0;
}

/* Several names: one walk over all that the session has, at most 10,000, instead of one a name. */
static void find_own_of_many(struct core *c, const struct asking *ask, struct own *own)
{
    struct numbered locks[LIMIT_MULTILOCK_NAMES];
    uint32_t count = 0;
    for (uint32_t i = 0; i < ask->count; i++) {
        if (ask->locks[i] == 0) {
            continue;
        }
        uint32_t at = count++;
        for (; at > 0 && locks[at - 1].lock > ask->locks[i]; at--) {
            locks[at] = locks[at - 1];
        }
        locks[at] = (struct numbered){ask->locks[i], i};
    }
    const struct session *s = session_at(c, ask->session);
    RING_EACH(c, who, s->holds, grant, in_session)
    {
        const struct grant *g = grant_at(c, who);
        core_step(c, 1);
        if (is_own_grant(c, ask, g)) {
            own->held |= bit_of(locks, count, g->lock);
        }
    }
    RING_EACH(c, who, s->waits, waiter, in_session)
    {
        const struct waiter *w = waiter_at(c, who);
        core_step(c, w->parts);
        for (ref p = is_own_waiter(c, ask, w) ? w->places : 0; p != 0;
             p = place_at(c, p)->sibling) {
            own->waited_for |= bit_of(locks, count, place_at(c, p)->lock);
        }
    }
}

static void reenter(struct core *c, ref grant, struct result *out)
{
    struct grant *g = grant_at(c, grant);
    g->depth++;
    struct event e = {.type = EVENT_REENTERED};
    event_about_grant(c, g, &e);
    event_emit(c, &e);
    answer_granted(c, grant, out);
}

/* S4.1: what the same owner already has. True when that decides the request. */
static bool decided_by_own(struct core *c, const struct asking *ask, uint32_t i,
                           const struct own *own, struct result *out)
{
    uint64_t bit = UINT64_C(1) << i;
    if (((own->held | own->waited_for) & bit) == 0) {
        return false;
    }
    const struct grant *g = own->grant == 0 ? NULL : grant_at(c, own->grant);
    bool same = g != NULL && grant_parts(c, g) == 1 && g->depth < UINT16_MAX &&
                lock_at(c, g->lock)->mode == ask->a->mode && g->permits == ask->a->permits;
    if ((ask->a->flags & ACQUIRE_REENTRANT) && same) {
        reenter(c, own->grant, out);
    } else {
        result_holder(c, ask->locks[i], out);
        refuse(out, REASON_ALREADY_HELD);
    }
    return true;
}

/* True when the name refuses the request for what it asks, whoever holds it. */
static bool decided_by_class(struct core *c, const struct asking *ask, uint32_t i,
                             struct result *out)
{
    const struct command_acquire *a = ask->a;
    const struct lock *l = lock_at(c, ask->locks[i]);
    if (!lock_in_use(c, l)) {
        return false;
    }
    bool other_class = mode_class((enum mode)l->mode) != mode_class((enum mode)a->mode);
    if (!other_class &&
        (a->mode != MODE_SEMAPHORE || lock_extra_at(c, l->extra)->limit == a->limit)) {
        return false;
    }
    result_holder(c, ask->locks[i], out);
    refuse(out, other_class ? REASON_MODE_MISMATCH : REASON_LIMIT_MISMATCH);
    return true;
}

static void find_locks(struct core *c, struct asking *ask)
{
    uint32_t tenant = ask->cmd->tenant;
    for (uint32_t i = 0; i < ask->count; i++) {
        core_step(c, 1);
        ask->hashes[i] = hash_name(c, tenant, ask->names[i]);
        ask->locks[i] = lock_find_hashed(c, ask->hashes[i], tenant, ask->names[i]);
        if (ask->locks[i] != 0 && c->backlog) {
            lock_prune(c, ask->locks[i]);
            ask->locks[i] = lock_find_hashed(c, ask->hashes[i], tenant, ask->names[i]);
        }
    }
}

/* True when one of the names decides the request, in canonical order. */
static bool decided_by_names(struct core *c, struct asking *ask, struct result *out)
{
    if (ask->a->mode == MODE_SEMAPHORE && ask->a->permits > ask->a->limit) {
        out->name = ask->names[0];
        refuse(out, REASON_PERMITS_EXCEED_LIMIT);
        return true;
    }
    find_locks(c, ask);
    struct own own = {0, 0, 0};
    if (ask->session != 0 && ask->count > 1) {
        find_own_of_many(c, ask, &own);
    } else if (ask->session != 0 && ask->locks[0] != 0) {
        find_own_of_one(c, ask, ask->locks[0], &own);
    }
    for (uint32_t i = 0; i < ask->count; i++) {
        if (ask->locks[i] != 0 &&
            (decided_by_own(c, ask, i, &own, out) || decided_by_class(c, ask, i, out))) {
            return true;
        }
    }
    return false;
}

static bool is_free_for(struct core *c, const struct asking *ask, ref lock, uint32_t *budget)
{
    if (lock == 0) {
        return true;
    }
    const struct lock *l = lock_at(c, lock);
    if (!lock_in_use(c, l)) {
        return !lock_is_delayed(c, l);
    }
    if (lock_is_delayed(c, l) || !lock_has_room(c, l, (enum mode)ask->a->mode, ask->a->permits)) {
        return false;
    }
    bool unsure = false;
    return queue_front(c, lock, budget, &unsure) == 0 && !unsure;
}

/* Getting it. */

static ref session_of(struct core *c, const struct asking *ask)
{
    if (ask->session != 0) {
        return ask->session;
    }
    return session_new(c, ask->cmd->tenant, ask->a->lease, ask->a->client, true, ask->a->ttl_ms);
}

static void make_locks(struct core *c, struct asking *ask)
{
    for (uint32_t i = 0; i < ask->count; i++) {
        if (ask->locks[i] == 0) {
            ask->locks[i] = lock_new(c, ask->hashes[i], ask->cmd->tenant, ask->names[i]);
        }
        if (!lock_in_use(c, lock_at(c, ask->locks[i]))) {
            lock_set_mode(c, ask->locks[i], (enum mode)ask->a->mode, ask->a->limit);
        }
    }
}

static void grant_now(struct core *c, struct asking *ask, ref request, struct result *out)
{
    const struct command_acquire *a = ask->a;
    make_locks(c, ask);
    struct grant_terms terms = {.session = session_of(c, ask),
                                .owner = a->owner,
                                .metadata = a->metadata,
                                .value = a->value,
                                .lease = a->lease,
                                .request = request,
                                .ttl_ms = a->ttl_ms,
                                .delay_ms = a->delay_ms,
                                .permits = a->permits,
                                .mode = (enum mode)a->mode};
    answer_granted(c, grant_give(c, ask->locks, ask->count, &terms, NULL), out);
}

static void announce_queued(struct core *c, ref waiter)
{
    const struct waiter *w = waiter_at(c, waiter);
    uint32_t part = 1;
    for (ref p = w->places; p != 0; p = place_at(c, p)->sibling) {
        struct event e = {.type = EVENT_QUEUED};
        event_about_waiter(c, w, &e);
        e.name = lock_name(lock_at(c, place_at(c, p)->lock));
        e.part = part++;
        event_emit(c, &e);
    }
}

static ref enqueue(struct core *c, struct asking *ask, struct result *out)
{
    for (uint32_t i = 0; i < ask->count; i++) {
        const struct lock_extra *x =
            ask->locks[i] == 0 ? NULL : lock_extra_get(c, lock_at(c, ask->locks[i]));
        if (x != NULL && x->queue_length >= LIMIT_QUEUE) {
            out->error = HF_QUEUE_FULL;
            return 0;
        }
    }
    if (ask->session == 0 && crowd_for(c, ask->a->node) == 0) {
        out->error = HF_TOO_MANY_NODES;
        return 0;
    }
    make_locks(c, ask);
    ref waiter = waiter_new(c, ask->a, session_of(c, ask), ask->locks, ask->count);
    announce_queued(c, waiter);
    const struct waiter *w = waiter_at(c, waiter);
    ref lock = place_at(c, w->places)->lock;
    result_holder(c, lock, out);
    out->outcome = OUTCOME_QUEUED;
    out->lease = w->lease;
    out->attachment = w->attachment;
    out->wait_deadline_ms = w->wait_deadline_ms;
    uint32_t length = lock_extra_at(c, lock_at(c, lock)->extra)->queue_length;
    out->queue_position = length > LIMIT_POSITION ? LIMIT_POSITION + 1 : length;
    return waiter;
}

static void refuse_as_busy(struct core *c, ref lock, struct result *out)
{
    result_holder(c, lock, out);
    refuse(out, lock_is_delayed(c, lock_at(c, lock)) ? REASON_DELAYED : REASON_HELD);
}

/* Decides a request that is new. When it is granted or queued, `request` is tied to it. */
static void decide(struct core *c, struct asking *ask, const struct request_key *key, bool remember,
                   struct result *out)
{
    if (decided_by_names(c, ask, out)) {
        return;
    }
    ref busy = 0;
    uint32_t budget = LIMIT_WAKE_STEPS; /* for all names together (S2.1) */
    for (uint32_t i = 0; i < ask->count && busy == 0; i++) {
        busy = is_free_for(c, ask, ask->locks[i], &budget) ? 0 : ask->locks[i];
    }
    if (busy == 0) {
        grant_now(c, ask, remember ? request_new(c, key) : 0, out);
        return;
    }
    if (ask->a->wait_ms == 0) {
        refuse_as_busy(c, busy, out);
        return;
    }
    if ((ask->a->flags & ACQUIRE_DETECT_DEADLOCK) && ask->session != 0 &&
        deadlock_would_close(c, ask->session, ask->a->owner, ask->locks, ask->count,
                             (enum mode)ask->a->mode, out)) {
        result_holder(c, busy, out);
        refuse(out, REASON_DEADLOCK);
        return;
    }
    ref waiter = enqueue(c, ask, out);
    if (waiter != 0 && remember) {
        request_wait(c, request_new(c, key), waiter);
    }
}

static enum hf_error check_limits(const struct core *c, const struct asking *ask)
{
    if (ask->session == 0) {
        return table_count(&c->sessions) >= LIMIT_SESSIONS ? HF_TOO_MANY_SESSIONS : HF_OK;
    }
    const struct session *s = session_at(c, ask->session);
    return s->entries + ask->count > LIMIT_SESSION_ENTRIES ? HF_TOO_MANY_LOCKS : HF_OK;
}

void apply_acquire(struct core *c, const struct command *cmd, struct result *out)
{
    struct asking ask;
    ask.cmd = cmd;
    ask.a = &cmd->acquire;
    ask.session = 0;
    if (!id_is_zero(cmd->session)) {
        out->error = session_for(c, cmd->tenant, cmd->session, &ask.session);
        if (out->error != HF_OK) {
            return;
        }
    }
    struct request_key key;
    enum request_found found;
    ref request;
    out->error = request_look(c, cmd, ask.session, &key, &found, &request);
    if (out->error != HF_OK) {
        return;
    }
    if (found == REQUEST_KNOWN) {
        answer_again(c, request, cmd->acquire.node, out);
        return;
    }
    if (!sort_names(&ask)) {
        out->error = HF_DUPLICATE_NAME;
        return;
    }
    if (known_by_lease(c, &ask, out)) {
        return;
    }
    out->error = check_limits(c, &ask);
    if (out->error != HF_OK) {
        return;
    }
    decide(c, &ask, &key, found == REQUEST_NEW, out);
    bool settled =
        out->outcome == OUTCOME_REFUSED || (out->outcome == OUTCOME_GRANTED && out->depth > 1);
    if (found == REQUEST_NEW && out->error == HF_OK && settled) {
        request_done(c, request_new(c, &key), out);
    }
}

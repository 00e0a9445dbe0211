/* Waiters, their places in queues and their connections (S6, S7). Joining and leaving a queue is
 * O(1). */
#include "core/state.h"

size_t waiter_size(const struct waiter *w)
{
    return sizeof(*w) + w->owner_len;
}

struct slice waiter_owner(const struct waiter *w)
{
    return slice_make(w->owner, w->owner_len);
}

static bool in_real_session(const struct core *c, const struct waiter *w)
{
    return !session_at(c, w->session)->is_private;
}

/* Until when a detached waiter keeps its place; UINT64_MAX: attached. */
static uint64_t leaves_at_ms(const struct core *c, const struct waiter *w)
{
    uint64_t at = w->detached_until_ms == 0 ? UINT64_MAX : w->detached_until_ms;
    if (w->node_waiters != 0) {
        const struct node_waiters *node_waiters = node_waiters_at(c, w->node_waiters);
        if (node_waiters->gone && node_waiters->until_ms < at) {
            at = node_waiters->until_ms;
        }
    }
    return at;
}

bool waiter_is_detached(const struct core *c, const struct waiter *w)
{
    return leaves_at_ms(c, w) != UINT64_MAX;
}

/* When the sweep visits the waiter; sessions and lists of gone nodes have their own timers. */
uint64_t waiter_due_ms(const struct core *c, const struct waiter *w)
{
    (void)c;
    uint64_t due = w->wait_deadline_ms;
    return w->detached_until_ms != 0 && w->detached_until_ms < due ? w->detached_until_ms : due;
}

static uint64_t dies_at_ms(const struct core *c, const struct waiter *w, enum reason *why)
{
    uint64_t session_ends = session_deadline(c, session_at(c, w->session));
    uint64_t leaves = leaves_at_ms(c, w);
    if (session_ends <= w->wait_deadline_ms && session_ends <= leaves) {
        *why = REASON_SESSION_ENDED;
        return session_ends;
    }
    *why = w->wait_deadline_ms <= leaves ? REASON_TIMEOUT : REASON_DETACHED;
    return w->wait_deadline_ms <= leaves ? w->wait_deadline_ms : leaves;
}

bool waiter_is_dead(const struct core *c, const struct waiter *w)
{
    enum reason why;
    return dies_at_ms(c, w, &why) <= c->now_ms;
}

void waiter_end_dead(struct core *c, ref waiter)
{
    enum reason why;
    hf_assert(waiter_is_dead(c, waiter_at(c, waiter)));
    (void)dies_at_ms(c, waiter_at(c, waiter), &why);
    waiter_end(c, waiter, why);
}

ref node_waiters_for(struct core *c, uint32_t node)
{
    uint32_t count = 0;
    RING_EACH(c, obj, c->all_node_waiters, node_waiters, all)
    {
        const struct node_waiters *node_waiters = node_waiters_at(c, obj);
        if (node_waiters->node == node && !node_waiters->gone) {
            return obj;
        }
        core_step(c, 1);
        count++;
    }
    if (count >= LIMIT_NODES) {
        return 0;
    }
    ref obj = 0;
    struct node_waiters *node_waiters = pool_alloc(&c->pool, sizeof(*node_waiters), &obj);
    node_waiters->kind = KIND_NODE_WAITERS;
    node_waiters->node = node;
    node_waiters->number = ++c->node_waiters_number;
    RING_APPEND(c, &c->all_node_waiters, obj, node_waiters, all);
    c->shared_bytes += sizeof(*node_waiters);
    return obj;
}

void node_waiters_drop_if_empty(struct core *c, ref obj)
{
    struct node_waiters *node_waiters = node_waiters_at(c, obj);
    if (node_waiters->waiters != 0) {
        return;
    }
    hf_assert(node_waiters->revisit == 0 && node_waiters->revisited.next == 0);
    if (node_waiters->timer != 0) {
        timer_set(c, obj, UINT64_MAX);
    }
    RING_REMOVE(c, &c->all_node_waiters, obj, node_waiters, all);
    c->shared_bytes -= sizeof(*node_waiters);
    pool_free(&c->pool, obj, sizeof(*node_waiters));
}

static void node_waiters_join(struct core *c, ref obj, ref waiter)
{
    struct node_waiters *node_waiters = node_waiters_at(c, obj);
    hf_assert(!node_waiters->gone && waiter_at(c, waiter)->node_waiters == 0);
    waiter_at(c, waiter)->node_waiters = obj;
    RING_APPEND(c, &node_waiters->waiters, waiter, waiter, in_node_waiters);
}

static void node_waiters_part(struct core *c, ref waiter)
{
    struct waiter *w = waiter_at(c, waiter);
    if (w->node_waiters == 0) {
        return;
    }
    ref obj = w->node_waiters;
    struct node_waiters *node_waiters = node_waiters_at(c, obj);
    if (node_waiters->revisit == waiter) {
        node_waiters_revisit_next(c, obj);
    }
    RING_REMOVE(c, &node_waiters->waiters, waiter, waiter, in_node_waiters);
    w->node_waiters = 0;
    node_waiters_drop_if_empty(c, obj);
}

/* Advances the walk over a detached list by one waiter. */
void node_waiters_revisit_next(struct core *c, ref obj)
{
    struct node_waiters *node_waiters = node_waiters_at(c, obj);
    hf_assert(node_waiters->gone && node_waiters->revisit != 0);
    node_waiters->revisit = ring_after(&c->pool, node_waiters->waiters, node_waiters->revisit,
                                       offsetof(struct waiter, in_node_waiters));
    if (node_waiters->revisit == 0) {
        RING_REMOVE(c, &c->revisits, obj, node_waiters, revisited);
    }
}

bool node_waiters_leave(struct core *c, ref obj, uint32_t *budget)
{
    hf_assert(node_waiters_at(c, obj)->gone && node_waiters_at(c, obj)->waiters != 0);
    for (;;) {
        ref waiter = RING_FIRST(c, node_waiters_at(c, obj)->waiters, waiter, in_node_waiters);
        uint32_t parts = waiter_at(c, waiter)->parts;
        if (parts > *budget) {
            return false;
        }
        *budget -= parts;
        bool last = waiter == node_waiters_at(c, obj)->waiters;
        waiter_end(c, waiter, REASON_DETACHED);
        if (last) {
            return true; /* the empty list was freed */
        }
    }
}

static void place_add(struct core *c, ref waiter, ref lock, ref *link)
{
    ref obj = 0;
    struct place *p = pool_alloc(&c->pool, sizeof(*p), &obj);
    p->waiter = waiter;
    p->lock = lock;
    *link = obj;
    struct lock_extra *x = lock_extra_make(c, lock);
    hf_assert(x->queue_length < LIMIT_QUEUE);
    RING_APPEND(c, &x->queue, obj, place, in_queue);
    x->queue_length++;
    if (x->cursor == 0) {
        x->cursor = obj;
    }
    core_step(c, 1);
}

ref waiter_new(struct core *c, const struct command_acquire *a, ref session, const ref *locks,
               uint32_t count)
{
    hf_assert(count >= 1 && count <= LIMIT_MULTILOCK_NAMES);
    hf_assert(a->owner.len <= LIMIT_OWNER && a->wait_ms > 0);
    hf_assert(c->ticket < LIMIT_NUMBER && c->attachment < LIMIT_NUMBER);
    ref obj = 0;
    struct waiter *w = pool_alloc(&c->pool, sizeof(*w) + a->owner.len, &obj);
    w->kind = KIND_WAITER;
    w->mode = (uint8_t)a->mode;
    w->flags = (uint8_t)a->flags;
    w->session = session;
    w->parts = count;
    w->ttl_ms = a->ttl_ms;
    w->delay_ms = a->delay_ms;
    w->limit = a->limit;
    w->permits = a->permits;
    w->node = a->node;
    w->max_hold_ms = a->max_hold_ms;
    w->since_ms = c->version >= 7 ? c->now_ms : 0;
    w->lease = a->lease;
    w->ticket = ++c->ticket;
    w->attachment = ++c->attachment;
    w->wait_deadline_ms =
        a->wait_ms >= LIMIT_NUMBER - c->now_ms ? UINT64_MAX : c->now_ms + a->wait_ms;
    struct carried carried = carried_by(a, c->version);
    w->carried = carried_new(c, &carried);
    w->owner_len = (uint8_t)a->owner.len;
    if (a->owner.len > 0) {
        memcpy(w->owner, a->owner.data, a->owner.len);
    }
    struct session *s = session_at(c, session);
    RING_APPEND(c, &s->waits, obj, waiter, in_session);
    s->entries += count;
    c->waiters++;
    tenant_get(c, s->tenant)->usage.waiters++;
    ref *link = &w->places;
    for (uint32_t i = 0; i < count; i++) {
        place_add(c, obj, locks[i], link);
        link = &place_at(c, *link)->sibling;
    }
    if (s->is_private) {
        node_waiters_join(c, node_waiters_for(c, a->node), obj);
    } else {
        table_insert(&c->leases, hash_id(c, w->lease), obj);
    }
    if (w->wait_deadline_ms != UINT64_MAX) {
        timer_set(c, obj, w->wait_deadline_ms);
    }
    return obj;
}

/* S7.1: the newest connection counts; the older one gets SUPERSEDED. */
void waiter_attach(struct core *c, ref waiter, uint32_t node)
{
    struct waiter *w = waiter_at(c, waiter);
    struct event e = {.type = EVENT_SUPERSEDED, .reason = REASON_SUPERSEDED};
    hf_assert(w->kind == KIND_WAITER && w->places != 0);
    event_about_waiter(c, w, &e);
    event_emit(c, &e);
    if (!in_real_session(c, w)) {
        ref node_waiters = node_waiters_for(c, node);
        hf_assert(node_waiters != 0);          /* checked by the caller */
        if (node_waiters == w->node_waiters) { /* to the end of the list */
            RING_REMOVE(c, &node_waiters_at(c, node_waiters)->waiters, waiter, waiter,
                        in_node_waiters);
            w->node_waiters = 0;
        } else {
            node_waiters_part(c, waiter);
        }
        node_waiters_join(c, node_waiters, waiter);
    }
    w->node = node;
    w->attachment = ++c->attachment;
    w->detached_until_ms = 0;
    for (ref p = w->places; p != 0; p = place_at(c, p)->sibling) {
        ref lock = place_at(c, p)->lock;
        struct lock_extra *x = lock_extra_at(c, lock_at(c, lock)->extra);
        if (x->cursor == 0 || waiter_at(c, place_at(c, x->cursor)->waiter)->ticket > w->ticket) {
            x->cursor = p;
        }
        core_step(c, 1);
        lock_wake(c, lock);
    }
}

static void place_remove(struct core *c, ref obj)
{
    struct place *p = place_at(c, obj);
    struct lock_extra *x = lock_extra_at(c, lock_at(c, p->lock)->extra);
    hf_assert(x->queue_length > 0 && x->lock == p->lock);
    if (x->cursor == obj) {
        x->cursor = ring_after(&c->pool, x->queue, obj, offsetof(struct place, in_queue));
    }
    RING_REMOVE(c, &x->queue, obj, place, in_queue);
    x->queue_length--;
    lock_wake(c, p->lock);
    pool_free(&c->pool, obj, sizeof(*p));
    core_step(c, 1);
}

void waiter_remove(struct core *c, ref waiter)
{
    struct waiter *w = waiter_at(c, waiter);
    struct session *s = session_at(c, w->session);
    hf_assert(s->entries >= w->parts && c->waiters > 0);
    if (w->timer != 0) {
        timer_set(c, waiter, UINT64_MAX);
    }
    if (!s->is_private) {
        table_remove(&c->leases, hash_id(c, w->lease), waiter);
    }
    node_waiters_part(c, waiter);
    ref p = w->places;
    while (p != 0) {
        ref next = place_at(c, p)->sibling;
        place_remove(c, p);
        p = next;
    }
    RING_REMOVE(c, &s->waits, waiter, waiter, in_session);
    s->entries -= w->parts;
    c->waiters--;
    tenant_get(c, s->tenant)->usage.waiters--;
}

void waiter_announce(struct core *c, const struct waiter *w, const struct event *about)
{
    uint32_t part = 1;
    for (ref p = w->places; p != 0; p = place_at(c, p)->sibling) {
        struct event e = *about;
        event_about_waiter(c, w, &e);
        e.name = lock_name(lock_at(c, place_at(c, p)->lock));
        e.part = part++;
        if (about->deadline_ms != 0) {
            e.deadline_ms = about->deadline_ms;
        }
        event_emit(c, &e);
    }
    hf_assert(part == w->parts + 1);
}

void waiter_end(struct core *c, ref waiter, enum reason reason)
{
    struct waiter *w = waiter_at(c, waiter);
    struct event e = {.type = EVENT_WAIT_ENDED,
                      .reason = reason,
                      .waited_ms = w->since_ms == 0 ? 0 : c->now_ms - w->since_ms};
    hf_assert(reason != REASON_NONE);
    tenant_charge(c, session_at(c, w->session)->tenant);
    waiter_announce(c, w, &e);
    if (w->request != 0) {
        struct result answer = {.type = COMMAND_ACQUIRE,
                                .outcome = OUTCOME_REFUSED,
                                .reason = reason,
                                .lease = w->lease};
        request_done(c, w->request, &answer);
    }
    ref session = w->session;
    waiter_remove(c, waiter);
    carried_free(c, &w->carried);
    pool_free(&c->pool, waiter, waiter_size(w));
    session_drop_if_empty(c, session);
}

ref queue_front(struct core *c, ref lock, uint32_t *budget, bool *unsure)
{
    struct lock_extra *x = lock_extra_get(c, lock_at(c, lock));
    while (x != NULL && x->cursor != 0) {
        if (*budget == 0) {
            *unsure = true;
            return 0;
        }
        ref obj = x->cursor;
        hf_assert(x->queue_length > 0);
        ref waiter = place_at(c, obj)->waiter;
        const struct waiter *w = waiter_at(c, waiter);
        (*budget)--;
        core_step(c, 1);
        if (c->backlog && waiter_is_dead(c, w)) {
            uint32_t more = w->parts - 1; /* one step per place */
            *budget -= more < *budget ? more : *budget;
            waiter_end_dead(c, waiter);
        } else if (waiter_is_detached(c, w)) {
            x->cursor = ring_after(&c->pool, x->queue, obj, offsetof(struct place, in_queue));
        } else {
            return obj;
        }
    }
    return 0;
}

/* The live waiter, or 0 and the answer in `out`. */
static ref find_waiter(struct core *c, const struct command *cmd, struct id lease,
                       uint64_t attachment, struct result *out)
{
    bool is_grant = false;
    ref obj = lease_target(c, lease, &is_grant);
    out->outcome = OUTCOME_REFUSED;
    out->reason = REASON_NOT_WAITING;
    if (obj == 0) {
        return 0;
    }
    if (is_grant) {
        const struct grant *g = grant_at(c, obj);
        if (session_is_of(session_at(c, g->session), cmd) && !(c->backlog && grant_is_dead(c, g))) {
            out->token = g->token;
        }
        return 0;
    }
    const struct waiter *w = waiter_at(c, obj);
    if (!session_is_of(session_at(c, w->session), cmd)) {
        return 0;
    }
    if (c->backlog && waiter_is_dead(c, w)) {
        waiter_end_dead(c, obj);
        return 0;
    }
    hf_assert(w->attachment <= c->attachment);
    if (w->attachment != attachment) {
        out->reason = REASON_SUPERSEDED;
        return 0;
    }
    out->outcome = OUTCOME_DONE;
    out->reason = REASON_NONE;
    return obj;
}

void apply_cancel(struct core *c, const struct command *cmd, struct result *out)
{
    hf_assert(cmd->type == COMMAND_CANCEL);
    ref obj = find_waiter(c, cmd, cmd->cancel.lease, cmd->cancel.attachment, out);
    if (obj != 0) {
        waiter_end(c, obj, REASON_CANCELLED);
    }
}

static void wake_places(struct core *c, const struct waiter *w)
{
    for (ref p = w->places; p != 0; p = place_at(c, p)->sibling) {
        core_step(c, 1);
        lock_wake(c, place_at(c, p)->lock);
    }
}

void apply_detach(struct core *c, const struct command *cmd, struct result *out)
{
    hf_assert(cmd->type == COMMAND_DETACH);
    ref obj = find_waiter(c, cmd, cmd->detach.lease, cmd->detach.attachment, out);
    if (obj == 0) {
        return;
    }
    struct waiter *w = waiter_at(c, obj);
    if (in_real_session(c, w) || waiter_is_detached(c, w)) {
        return;
    }
    hf_assert(w->detached_until_ms == 0 && w->node_waiters != 0);
    w->detached_until_ms = c->now_ms + LIMIT_DETACHED_MS;
    timer_lower(c, obj, w->detached_until_ms);
    struct event e = {.type = EVENT_DETACHED, .deadline_ms = w->detached_until_ms};
    waiter_announce(c, w, &e);
    wake_places(c, w);
}

void apply_node_gone(struct core *c, const struct command *cmd, struct result *out)
{
    hf_assert(cmd->type == COMMAND_NODE_GONE);
    RING_EACH(c, obj, c->all_node_waiters, node_waiters, all)
    {
        struct node_waiters *node_waiters = node_waiters_at(c, obj);
        core_step(c, 1);
        if (node_waiters->node != cmd->node_gone.node || node_waiters->gone) {
            continue;
        }
        hf_assert(node_waiters->waiters != 0 && node_waiters->revisit == 0);
        node_waiters->gone = 1;
        node_waiters->until_ms = c->now_ms + LIMIT_DETACHED_MS;
        timer_set(c, obj, node_waiters->until_ms);
        node_waiters->revisit = RING_FIRST(c, node_waiters->waiters, waiter, in_node_waiters);
        RING_APPEND(c, &c->revisits, obj, node_waiters, revisited);
        out->count = 1;
        struct event e = {.type = EVENT_DETACHED,
                          .node = node_waiters->node,
                          .deadline_ms = node_waiters->until_ms,
                          .parts = 1};
        event_emit(c, &e);
        return;
    }
}

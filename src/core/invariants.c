/* The numbered invariants, with the promise that each guards. They hold between any two commands,
 * and in a restored snapshot.
 *
 *   I1   S3.2        Numbers are below 2^53, the counter below 2^43, the epoch not above it; the
 *                    version exists.
 *   I2               Every ring is closed in both directions and within its limit.
 *   I3   S2.2        Every name is found by its hash, once.
 *   I4   S6          An exclusive name and an election have at most one holder.
 *   I5   S6.1        A semaphore has `used` permits out, at most its limit.
 *   I6   S11         The holders of a semaphore have different slots, those of its bits.
 *   I7   S3.1        Holders are in the order of their tokens, none above the counter.
 *   I8   S3.1        No token was given twice, among live grants and remembered ends.
 *   I9   S2.1        The holder count of a lock is correct, at most 10,000; shared locks and
 *                    semaphores have the extra that holds it.
 *   I10  S6.1, S6.3  Queues are in the order of tickets and counted; their waiters have the class
 *                    and the limit of the name.
 *   I11  S7.3        Every waiter before a queue's cursor is detached; without a cursor, all are.
 *   I12  S6.1, S6.2  No wake-up is lost: a waiter that could be granted is in a queue that is
 *                    about to be served.
 *   I13              A name that is neither held nor waited for nor delayed is about to be freed.
 *   I14  S6.5        The delayed names are those with a delay, each with its timer.
 *   I15              The woken names are those in the ring of the woken.
 *   I16  S4          Sessions are found by id; what they hold and wait for points back, is in
 *                    order, and is counted, at most 10,000.
 *   I17  S4.3        A private session has exactly one grant or one waiter, and nothing else.
 *   I18  S4.4        Lease ids of real sessions are found; no id names two objects.
 *   I19  S6.2        The parts of a multi-lock refer to each other, are in canonical order, and
 *                    only the first has a TTL, a request, a timer and data.
 *   I20  S8.3        Only shared, semaphore and multi-lock grants are found by token, all of them.
 *   I21  S1.7        An object with a deadline has a timer that is not later; no other has one.
 *   I22  S7.1        Only waiters of private sessions, all of them, are in their node's list, by
 *                    rising attachment number; no list is empty, no number occurs twice.
 *   I23  S7.3        The lists to be visited are of gone nodes and have the next waiter to visit.
 *   I24  S8.1        A request that waits or holds and its waiter or grant point to each other;
 *                    requests by id are found; done requests are in the memory of their kind, or
 *                    where they were before version 4, and each memory has its limit.
 *   I25  S8.2        The replies of a session are in the order of their seq, above the
 *                    acknowledged ones, at most 1,024.
 *   I26  S8.3        Remembered ends are found by token, lease id and session id, at most 65,536
 *                    each, none of a live grant or session.
 *   I27  S11         Fence marks are found, are in the heap by their token, at most 65,536, not
 *                    below the floor; there is no floor before they are full, and since version 4
 *                    none above the issued tokens.
 *   I28              Audit records are numbered up to the newest, are found, and are at most
 *                    10,000. There is no gap before version 6.
 *   I29              The counts of grants and waiters are correct.
 *   I30  S1.1        No start time is in the future.
 *   I31  S13.5       Counters are found, at most 10,000, none with the name of a lock. One with a
 *                    deadline is of version 4, and outlives it only in a backlog.
 *   I32  S13.6       Remembered transactions are found by id, at most 65,536.
 *   I33  S13.1       Only a single exclusive grant of a private session is a key.
 *   I34  S12.14      The byte count of remembered objects is correct.
 *   I35  S14.3       Since version 6, remembered objects are in the share of their tenant; limits and
 *                    numbers hold for each share.
 *   I36  S14.3       The names, sessions, waiters and bytes of each tenant are counted correctly.
 *   I37  S14.1       The rows of the policy are found, in order and counted; no number is above the last
 *                    one given, also not that of a session's principal. Before version 6 there is
 *                    neither a policy nor a principal.
 *   I38  S16.1       The rows of the wall clock rise in cluster time, are not in the future, and are at
 *                    most 1,024.
 *   I39  S16.2       Long-held rules are sorted by prefix, at most 256 a tenant; marked grants are
 *                    counted.
 *   I40              At most 16 sinks have a position. Before version 7 there are no rows, rules, marks,
 *                    sinks and times of max_hold.
 *   I41  S4.8        A session has the count and the XOR of the tokens that it holds. */
#include "core/invariants.h"

const char broken_ring[] = "I2: a ring is not closed, or longer than its limit";

static const char future[] = "I30: something began in the future";

ref walk_begin(struct walk *w, const struct core *c, ref last, size_t offset, uint64_t max)
{
    *w = (struct walk){.c = c, .offset = offset, .last = last, .left = max};
    if (last == 0) {
        return 0;
    }
    w->at = last;
    ref first = ring_links(&c->pool, last, offset)->next;
    if (first == 0 || max == 0 || ring_links(&c->pool, first, offset)->prev != last) {
        w->is_broken = true;
        return 0;
    }
    w->left--;
    w->at = first;
    return first;
}

ref walk_next(struct walk *w)
{
    hf_assert(w->at != 0 && !w->is_broken);
    if (w->at == w->last) {
        return 0;
    }
    ref next = ring_links(&w->c->pool, w->at, w->offset)->next;
    if (next == 0 || w->left == 0 || ring_links(&w->c->pool, next, w->offset)->prev != w->at) {
        w->is_broken = true;
        return 0;
    }
    w->left--;
    w->at = next;
    return next;
}

bool is_linked(const struct core *c, ref obj, size_t offset)
{
    const struct links *l = ring_links(&c->pool, obj, offset);
    return l->next != 0 && l->prev != 0 && ring_links(&c->pool, l->next, offset)->prev == obj &&
           ring_links(&c->pool, l->prev, offset)->next == obj;
}

bool timer_is_right(struct census *n, ref obj, uint64_t due_ms, bool may_be_stale)
{
    hf_assert(obj != 0);
    uint64_t at_ms = timer_at(n->c, obj);
    if (at_ms != UINT64_MAX) {
        n->timers++;
        n->first_timer_ms = at_ms < n->first_timer_ms ? at_ms : n->first_timer_ms;
        return at_ms <= due_ms && (due_ms != UINT64_MAX || may_be_stale);
    }
    return due_ms == UINT64_MAX;
}

static const char *check_policy(struct census *n)
{
    const struct core *c = n->c;
    if (c->version < POLICY_VERSION && (c->policy->version > 0 || c->purge_at != 0)) {
        return "I37: the state has a policy of a later version";
    }
    return policy_check_invariants(c->policy);
}

static const char *check_rules(const struct core *c, const struct tenant *t)
{
    for (uint32_t i = 0; i < t->alert_count; i++) {
        if (i > 0 &&
            slice_compare(alert_prefix(t->alerts[i - 1]), alert_prefix(t->alerts[i])) >= 0) {
            return "I39: long-held rules are not in the order of their prefixes";
        }
    }
    if (t->alert_count > LIMIT_ALERTS) {
        return "I39: a tenant has too many long-held rules";
    }
    return c->version < 7 && t->alert_count > 0 ? "I40: the state has rules of a later version"
                                                : NULL;
}

static const char *check_version_7(struct census *n)
{
    const struct core *c = n->c;
    if (c->wall_row_count > LIMIT_WALL_ROWS || c->sink_count > LIMIT_SINKS) {
        return "I38: there are too many rows of the wall clock, or too many sinks";
    }
    for (uint32_t i = 0; i < c->wall_row_count; i++) {
        if (c->wall_rows[i].cluster_ms > c->now_ms ||
            (i > 0 && c->wall_rows[i - 1].cluster_ms >= c->wall_rows[i].cluster_ms)) {
            return "I38: the rows of the wall clock are out of order";
        }
    }
    if (n->long_held != c->long_held) {
        return "I39: the marked grants are counted wrongly";
    }
    if (c->version < 7 && c->wall_row_count + c->sink_count + c->long_held > 0) {
        return "I40: the state has objects of a later version";
    }
    const char *broken = NULL;
    TENANT_EACH(c, t)
    {
        broken = broken != NULL ? broken : check_rules(c, t);
    }
    return broken;
}

static const char *check_numbers(const struct core *c)
{
    const struct tenant *own = &c->own;
    const uint64_t numbers[] = {c->index,          c->now_ms,        c->wall_ms,
                                c->ticket,         c->attachment,    c->node_waiters_number,
                                own->audit_number, own->fence_floor, own->fence_rejections,
                                c->counter_change};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        if (numbers[i] >= LIMIT_NUMBER) {
            return "I1: a number is 2^53 or more";
        }
    }
    if (c->counter >= LIMIT_NUMBER >> 10 || c->epoch > c->counter) {
        return "I1: the counter is 2^43 or more, or below the epoch";
    }
    if (c->version < 1 || c->version > CORE_VERSION) {
        return "I1: the version does not exist";
    }
    return c->version == 1 && table_count(&c->counters) + recent_count(&own->transacts) > 0
               ? "I1: the state has objects of a later version"
               : NULL;
}

static const char *check_later_part(const struct core *c, const struct grant *g,
                                    const struct detail *d, const struct grant *first)
{
    struct carried carried = carried_slices(c, &d->carried);
    if (d->ttl_ms != 0 || d->request != 0 || !carried_is_empty(&carried) || d->timer != 0 ||
        d->revoke_at_ms != 0 || d->hold_until_ms != 0 || d->by_token) {
        return "I19: a later part of a multi-lock has what only the first may have";
    }
    if (g->token != first->token || g->session != first->session ||
        g->since_ms != first->since_ms || g->delay_ms != first->delay_ms ||
        !id_equal(grant_lease(c, g), grant_lease(c, first)) ||
        !slice_equal(grant_owner(g), grant_owner(first))) {
        return "I19: the parts of a multi-lock differ";
    }
    return NULL;
}

static const char *check_group(const struct core *c, ref obj, const struct grant *g, bool *is_first)
{
    const struct detail *d = grant_detail(c, g);
    *is_first = true;
    if (d == NULL || d->group == 0) {
        return NULL;
    }
    const struct group *all = group_at(c, d->group);
    if (all->count < 2 || all->count > LIMIT_MULTILOCK_NAMES) {
        return "I19: a multi-lock has a wrong number of parts";
    }
    if (lock_at(c, g->lock)->mode != MODE_EXCLUSIVE || g->depth != 1) {
        return "I19: a multi-lock is not exclusive, or was entered twice";
    }
    *is_first = all->grants[0] == obj;
    if (!*is_first) { /* the first part checks all */
        return check_later_part(c, g, d, grant_at(c, all->grants[0]));
    }
    ref at = obj;
    for (uint32_t i = 1; i < all->count; i++) {
        const struct grant *before = grant_at(c, at);
        const struct grant *part = grant_at(c, all->grants[i]);
        const struct detail *other = grant_detail(c, part);
        if (other == NULL || other->group != d->group ||
            before->in_session.next != all->grants[i]) {
            return "I19: a multi-lock does not refer to its parts";
        }
        if (slice_compare(lock_name(lock_at(c, before->lock)), lock_name(lock_at(c, part->lock))) >=
            0) {
            return "I19: the parts of a multi-lock are out of order";
        }
        at = all->grants[i];
    }
    return NULL;
}

static const char *check_first_part(struct census *n, ref obj, const struct grant *g,
                                    const struct session *s)
{
    const struct core *c = n->c;
    const struct detail *d = grant_detail(c, g);
    const struct lock *l = lock_at(c, g->lock);
    keyed_add(&n->tokens, g->token, obj);
    if (!s->is_private) {
        n->leases++;
        struct id lease = grant_lease(c, g);
        if (!n->trusts_tables && (lease_find(c, lease) != obj || session_find(c, lease) != 0)) {
            return "I18: the lease id of a grant is not found, or not unique";
        }
    }
    bool by_token =
        l->mode == MODE_SHARED || l->mode == MODE_SEMAPHORE || (d != NULL && d->group != 0);
    if (by_token != (d != NULL && d->by_token) ||
        (by_token && !n->trusts_tables && grant_find_by_token(c, g->token) != obj)) {
        return "I20: a grant is found by token and should not be, or the reverse";
    }
    if (d == NULL) {
        return NULL;
    }
    n->by_token += by_token;
    bool has_timer = d->ttl_ms != 0 || d->revoke_at_ms != 0 || d->hold_until_ms != 0;
    bool by_itself =
        grant_due_ms(c, g) < session_deadline(c, s); /* else the session's timer ends it */
    bool in_time = !has_timer || timer_is_right(n, obj, grant_due_ms(c, g), false) || !by_itself;
    if (has_timer != (d->timer != 0) || !in_time) {
        return "I21: a grant has no timer, a needless one, or one that is late";
    }
    if (d->life_ms > c->now_ms || d->life_ms < g->since_ms) {
        return future;
    }
    return d->request == 0 ? NULL : check_tie(n, d->request, REQUEST_HOLDING, obj, s);
}

static const char *check_grant(struct census *n, ref obj, ref session)
{
    const struct core *c = n->c;
    const struct grant *g = grant_at(c, obj);
    const struct session *s = session_at(c, session);
    if (g->kind != KIND_GRANT || g->session != session || g->depth == 0 ||
        !is_linked(c, obj, offsetof(struct grant, in_lock))) {
        return "I16: a grant does not belong where it is";
    }
    if (lock_at(c, g->lock)->tenant != s->tenant ||
        ((g->flags & GRANT_HAS_LEASE) != 0) == s->is_private) {
        return "I16: a grant does not fit its session";
    }
    if (g->token == 0 || g->token > token_highest(c)) {
        return "I7: a token is above the counter";
    }
    n->long_held += (g->flags & GRANT_IS_LONG_HELD) != 0;
    const struct detail *own = grant_detail(c, g);
    if (own != NULL && own->hold_until_ms != 0 && c->version < 7) {
        return "I40: a grant has a time of a later version";
    }
    bool is_key = (g->flags & GRANT_IS_KEY) != 0;
    if ((is_key && (!s->is_private || lock_at(c, g->lock)->mode != MODE_EXCLUSIVE ||
                    grant_parts(c, g) > 1)) ||
        (!is_key && ((g->flags & GRANT_KEY_FLAGS) != 0 || (own != NULL && own->changes != 0)))) {
        return "I33: a grant cannot be a key, or has what only a key has";
    }
    if ((g->flags & GRANT_IS_VALUE) != 0 && c->version < 8) {
        return "I33: a key is a value, which a later version has";
    }
    if (!key_types_ok(g->flags, c->version)) {
        return "I33: a key has several types, or one of a later version";
    }
    if (s->is_private && key_ttl_since(s->ttl_ms) > 2 && (!is_key || c->version < 8)) {
        return "I33: a grant has a TTL that only a key of a later version may have";
    }
    if (g->since_ms > c->now_ms) {
        return future;
    }
    if (g->detail != 0 && detail_at(c, g->detail)->grant != obj) {
        return "I16: the detail of a grant belongs to another grant";
    }
    bool is_first = true;
    const char *broken = check_group(c, obj, g, &is_first);
    if (broken == NULL && is_first) {
        broken = check_first_part(n, obj, g, s);
    }
    return broken;
}

static const char *check_places(struct census *n, ref obj, const struct waiter *w, uint32_t tenant)
{
    const struct core *c = n->c;
    uint32_t parts = 0;
    const struct lock *before = NULL;
    for (ref p = w->places; p != 0; p = place_at(c, p)->sibling) {
        const struct place *place = place_at(c, p);
        const struct lock *l = lock_at(c, place->lock);
        const struct lock_extra *x = lock_extra_get(c, l);
        if (++parts > w->parts || place->waiter != obj || l->tenant != tenant || x == NULL ||
            !is_linked(c, p, offsetof(struct place, in_queue))) {
            return "I10: a waiter's place does not belong where it is";
        }
        if (before != NULL && slice_compare(lock_name(before), lock_name(l)) >= 0) {
            return "I19: the names of a waiter are out of order";
        }
        if (mode_class((enum mode)l->mode) != mode_class((enum mode)w->mode) ||
            (w->mode == MODE_SEMAPHORE && (x->limit != w->limit || w->permits > w->limit))) {
            return "I10: a waiter has another mode or limit than its name";
        }
        before = l;
    }
    n->places += parts;
    return parts == w->parts ? NULL : "I10: a waiter has lost a place";
}

static const char *check_waiter(struct census *n, ref obj, ref session)
{
    const struct core *c = n->c;
    const struct waiter *w = waiter_at(c, obj);
    const struct session *s = session_at(c, session);
    if (w->kind != KIND_WAITER || w->session != session || w->parts == 0 ||
        w->parts > LIMIT_MULTILOCK_NAMES) {
        return "I16: a waiter does not belong where it is";
    }
    if (w->ticket == 0 || w->ticket > c->ticket) {
        return "I10: a ticket was never given";
    }
    if (w->attachment == 0 || w->attachment > c->attachment ||
        (w->node_waiters != 0) != s->is_private || (!s->is_private && w->detached_until_ms != 0)) {
        return "I22: a waiter is attached wrongly";
    }
    keyed_add(&n->attachments, w->attachment, obj);
    n->private_waiters += s->is_private;
    if (s->is_private) {
        if (!id_equal(w->lease, s->id)) {
            return "I17: a private session has another id than its lock";
        }
    } else {
        n->leases++;
        if (!n->trusts_tables &&
            (lease_find(c, w->lease) != obj || session_find(c, w->lease) != 0)) {
            return "I18: the lease id of a waiter is not found, or not unique";
        }
    }
    if (!timer_is_right(n, obj, waiter_due_ms(c, w), true)) {
        return "I21: a waiter has no timer, or one that is late";
    }
    const char *broken = check_places(n, obj, w, s->tenant);
    if (broken == NULL && w->request != 0) {
        broken = check_tie(n, w->request, REQUEST_WAITING, obj, s);
    }
    if (broken == NULL && is_forgotten(c, w)) {
        broken = "I12: a waiter could be granted, but no pending work will do it";
    }
    return broken;
}

static const char *check_holds(struct census *n, ref session, uint32_t *entries, uint32_t *things)
{
    const struct core *c = n->c;
    const struct session *s = session_at(c, session);
    struct walk w;
    uint64_t last_token = 0;
    uint64_t token_xor = 0;
    WALK(&w, c, obj, s->holds, grant, in_session, LIMIT_SESSION_ENTRIES)
    {
        const char *broken = check_grant(n, obj, session);
        if (broken != NULL) {
            return broken;
        }
        const struct grant *g = grant_at(c, obj);
        bool is_first = grant_first_part(c, obj) == obj;
        if (is_first ? g->token <= last_token : g->token != last_token) {
            return "I16: what a session holds is out of order";
        }
        last_token = g->token;
        n->grants++;
        *entries += 1;
        *things += is_first;
        token_xor ^= is_first ? g->token : 0;
    }
    if (!w.is_broken && (s->token_count != *things || s->token_xor != token_xor)) {
        return "I41: a session counts the tokens that it holds wrongly";
    }
    return w.is_broken ? broken_ring : NULL;
}

static const char *check_waits(struct census *n, ref session, uint32_t *entries, uint32_t *things)
{
    const struct core *c = n->c;
    struct walk w;
    uint64_t last_ticket = 0;
    WALK(&w, c, obj, session_at(c, session)->waits, waiter, in_session, LIMIT_SESSION_ENTRIES)
    {
        const char *broken = check_waiter(n, obj, session);
        if (broken != NULL) {
            return broken;
        }
        const struct waiter *waiter = waiter_at(c, obj);
        if (waiter->ticket <= last_ticket) {
            return "I16: what a session waits for is out of order";
        }
        last_ticket = waiter->ticket;
        n->waiters++;
        *entries += waiter->parts;
        *things += 1;
    }
    return w.is_broken ? broken_ring : NULL;
}

static const char *check_session(struct census *n, ref obj)
{
    const struct core *c = n->c;
    const struct session *s = session_at(c, obj);
    n->sessions++;
    if (s->kind != KIND_SESSION || s->client_len == 0 ||
        (!n->trusts_tables && session_find(c, s->id) != obj)) {
        return "I16: a session is not found by its id";
    }
    if (s->life_ms > c->now_ms) {
        return future;
    }
    if (s->principal > core_policy(c)->last_principal) {
        return "I37: the principal of a session was never given";
    }
    if (s->is_private && s->extra != 0) {
        return "I17: a private session has what only real ones have";
    }
    uint32_t entries = 0;
    uint32_t things = 0;
    const char *broken = check_replies(n, s);
    broken = broken != NULL ? broken : check_holds(n, obj, &entries, &things);
    broken = broken != NULL ? broken : check_waits(n, obj, &entries, &things);
    if (broken != NULL) {
        return broken;
    }
    if (s->entries != entries || entries > LIMIT_SESSION_ENTRIES) {
        return "I16: a session counts its names wrongly";
    }
    if (s->is_private && things != 1) {
        return "I17: a private session has not exactly one grant or waiter";
    }
    if (!timer_is_right(n, obj, session_deadline(c, s), false)) {
        return "I21: a session has no timer, a needless one, or one that is late";
    }
    return NULL;
}

static const char *check_sessions(struct census *n)
{
    const struct core *c = n->c;
    struct walk w;
    WALK(&w, c, obj, c->all_sessions, session, all, LIMIT_SESSIONS)
    {
        const char *broken = check_session(n, obj);
        if (broken != NULL) {
            return broken;
        }
    }
    return w.is_broken ? broken_ring : NULL;
}

static const char *check_sums(struct census *n)
{
    const struct core *c = n->c;
    if (n->sessions != table_count(&c->sessions)) {
        return "I16: the table of sessions does not match the sessions";
    }
    if (n->grants != c->grants || n->waiters != c->waiters || n->held != n->grants ||
        n->queued != n->places) {
        return "I29: grants or waiters are counted wrongly";
    }
    if (n->leases != table_count(&c->leases)) {
        return "I18: the table of leases does not match the grants and waiters";
    }
    if (n->by_token != table_count(&c->tokens)) {
        return "I20: the table of tokens does not match the grants";
    }
    if (n->in_node_waiters != n->private_waiters) {
        return "I22: the nodes' lists do not match the waiters";
    }
    if (n->requests != table_count(&c->requests)) {
        return "I24: the table of requests does not match those that wait or hold";
    }
    if (n->timers != heap_count(&c->timers) || n->first_timer_ms != heap_min_at(&c->timers)) {
        return "I21: the heap of timers does not match the objects";
    }
    keyed_sort(&n->tokens);
    if (!keyed_is_unique(&n->tokens)) {
        return "I8: a token was given twice";
    }
    keyed_sort(&n->attachments);
    return keyed_is_unique(&n->attachments) ? NULL : "I22: an attachment number was given twice";
}

const char *check_all(const struct core *c, bool trusts_tables)
{
    struct census n = {.c = c, .trusts_tables = trusts_tables, .first_timer_ms = UINT64_MAX};
    keyed_init(&n.tokens, c->memory);
    keyed_init(&n.attachments, c->memory);
    const char *(*const checks[])(struct census *) = {
        check_locks,     check_sessions, check_all_node_waiters, check_memory, check_policy,
        check_version_7, check_sums};
    const char *broken = check_numbers(c);
    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]) && broken == NULL; i++) {
        broken = checks[i](&n);
    }
    keyed_close(&n.tokens);
    keyed_close(&n.attachments);
    return broken;
}

const char *core_check_invariants(const struct core *c)
{
    return check_all(c, false);
}

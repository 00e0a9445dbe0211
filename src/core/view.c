/* Lists, `show` and audit; see view.h. */
#include "core/view.h"

#include "core/state.h"

static bool lock_is_visible(const struct core *c, const struct lock *l)
{
    return lock_in_use(c, l) || lock_is_delayed(c, l);
}

void grant_view_fill(const struct core *c, ref grant, struct grant_view *out)
{
    const struct grant *g = grant_at(c, grant);
    const struct grant *first = grant_at(c, grant_first_part(c, grant));
    const struct session *s = session_at(c, g->session);
    const struct detail *d = grant_detail(c, first);
    *out = (struct grant_view){
        .token = g->token,
        .session = s->is_private ? (struct id){0, 0} : s->id,
        .lease = grant_lease(c, g),
        .slot = g->slot,
        .depth = g->depth,
        .parts = grant_parts(c, g),
        .revoke_at_ms = d == NULL ? 0 : d->revoke_at_ms,
        .value = blob_slice(c, d == NULL ? 0 : d->carried.value),
        .is_key = (g->flags & GRANT_IS_KEY) != 0,
        .hold_until_ms = grant_hold_until(c, g),
        .long_held = (g->flags & GRANT_IS_LONG_HELD) != 0,
    };
    holder_view_fill(c, g, &out->holder);
}

static uint64_t waiter_wall_ms(const struct core *c, const struct waiter *w)
{
    return w->since_ms == 0 ? 0 : core_wall_ms(c, w->since_ms);
}

static void lock_view_fill(const struct core *c, const struct lock *l, struct lock_view *out)
{
    const struct lock_extra *x = lock_extra_get(c, l);
    *out = (struct lock_view){
        .name = lock_name(l),
        .tenant = l->tenant,
        .mode = (enum mode)l->mode,
        .holders = lock_holders(c, l),
        .reserved_for = reserved_for(c, l),
        .has_holder = l->holders != 0,
    };
    if (x != NULL) {
        out->limit = x->limit;
        out->permits_used = x->used;
        out->queue_length = x->queue_length;
        out->delayed_until_ms = lock_is_delayed(c, l) ? x->delayed_until_ms : 0;
        if (x->queue != 0) {
            ref first = place_at(c, RING_FIRST(c, x->queue, place, in_queue))->waiter;
            out->waiting_ms = waiter_at(c, first)->since_ms;
            out->waiting_wall_ms = waiter_wall_ms(c, waiter_at(c, first));
        }
    }
    if (l->holders != 0) {
        grant_view_fill(c, RING_FIRST(c, l->holders, grant, in_lock), &out->first);
        out->long_held = out->first.long_held;
    }
}

bool view_lock(const struct core *c, uint32_t tenant, struct slice name, struct lock_view *out)
{
    hf_assert(out != NULL);
    ref obj = lock_find(c, tenant, name);
    if (obj == 0 || !lock_is_visible(c, lock_at(c, obj))) {
        return false;
    }
    lock_view_fill(c, lock_at(c, obj), out);
    return true;
}

void waiter_view_fill(const struct core *c, const struct waiter *w, struct waiter_view *out)
{
    const struct session *s = session_at(c, w->session);
    *out = (struct waiter_view){
        .client = session_client(s),
        .owner = waiter_owner(w),
        .metadata = blob_slice(c, w->carried.metadata),
        .mode = (enum mode)w->mode,
        .permits = w->permits,
        .parts = w->parts,
        .node = w->node,
        .detached = waiter_is_detached(c, w),
        .ticket = w->ticket,
        .attachment = w->attachment,
        .wait_deadline_ms = w->wait_deadline_ms,
        .session = s->is_private ? (struct id){0, 0} : s->id,
        .lease = w->lease,
        .trace = blob_slice(c, w->carried.trace),
        .since_ms = w->since_ms,
        .since_wall_ms = waiter_wall_ms(c, w),
    };
}

bool view_holders_and_waiters(const struct core *c, uint32_t tenant, struct slice name,
                              uint32_t max, view_grant_fn on_grant, view_waiter_fn on_waiter,
                              void *ctx)
{
    hf_assert(on_grant != NULL && on_waiter != NULL);
    ref obj = lock_find(c, tenant, name);
    if (obj == 0 || !lock_is_visible(c, lock_at(c, obj))) {
        return false;
    }
    const struct lock *l = lock_at(c, obj);
    uint32_t left = max;
    RING_EACH(c, grant, l->holders, grant, in_lock)
    {
        if (left-- == 0) {
            break;
        }
        struct grant_view view;
        grant_view_fill(c, grant, &view);
        on_grant(ctx, &view);
    }
    const struct lock_extra *x = lock_extra_get(c, l);
    left = max;
    RING_EACH(c, place, x == NULL ? 0 : x->queue, place, in_queue)
    {
        if (left-- == 0) {
            break;
        }
        struct waiter_view view;
        waiter_view_fill(c, waiter_at(c, place_at(c, place)->waiter), &view);
        on_waiter(ctx, &view);
    }
    return true;
}

struct view_page {
    const struct core *c;
    uint32_t tenant;
    struct slice prefix;
    uint64_t now_ms;
    view_lock_fn on_lock;
    view_session_fn on_session;
    view_counter_fn on_counter;
    void *ctx;
    uint32_t visits;
    uint32_t found;
};

static uint64_t page_run(const struct table *t, struct view_page *page, uint64_t cursor,
                         uint32_t limit, table_visit_fn visit)
{
    hf_assert(page->found == 0 && page->visits == 0);
    do {
        cursor = table_scan(t, cursor, visit, page);
        page->visits++; /* also an empty bucket */
    } while (cursor != VIEW_END && page->found < limit && page->visits < LIMIT_LIST_VISITS);
    return cursor;
}

static void visit_lock(void *ctx, ref obj)
{
    struct view_page *page = ctx;
    const struct lock *l = lock_at(page->c, obj);
    page->visits++;
    if (l->tenant == page->tenant && lock_is_visible(page->c, l) &&
        slice_starts_with(lock_name(l), page->prefix)) {
        struct lock_view view;
        lock_view_fill(page->c, l, &view);
        page->on_lock(page->ctx, &view);
        page->found++;
    }
}

uint64_t view_locks(const struct core *c, uint32_t tenant, struct slice prefix, uint64_t cursor,
                    uint32_t limit, view_lock_fn on_lock, void *ctx)
{
    hf_assert(on_lock != NULL);
    struct view_page page = {
        .c = c, .tenant = tenant, .prefix = prefix, .on_lock = on_lock, .ctx = ctx};
    return page_run(&c->locks, &page, cursor, limit, visit_lock);
}

/* The earliest holder is past its rule if any is. */
static void visit_long_held(void *ctx, ref obj)
{
    struct view_page *page = ctx;
    const struct core *c = page->c;
    const struct lock *l = lock_at(c, obj);
    page->visits++;
    if (l->tenant != page->tenant || l->holders == 0) {
        return;
    }
    const struct grant *g = grant_at(c, RING_FIRST(c, l->holders, grant, in_lock));
    const struct alert_rule *rule = alert_for(c, l->tenant, lock_name(l));
    if (rule != NULL && g->since_ms + rule->held_ms <= page->now_ms) {
        struct lock_view view;
        lock_view_fill(c, l, &view);
        page->on_lock(page->ctx, &view);
        page->found++;
    }
}

uint64_t view_locks_long_held(const struct core *c, uint32_t tenant, uint64_t now_ms,
                              uint64_t cursor, uint32_t limit, view_lock_fn on_lock, void *ctx)
{
    hf_assert(on_lock != NULL);
    struct view_page page = {
        .c = c, .tenant = tenant, .now_ms = now_ms, .on_lock = on_lock, .ctx = ctx};
    return page_run(&c->locks, &page, cursor, limit, visit_long_held);
}

static void visit_counter(void *ctx, ref obj)
{
    struct view_page *page = ctx;
    const struct counter *n = counter_at(page->c, obj);
    page->visits++;
    if (n->tenant == page->tenant && !counter_is_dead(page->c, n)) {
        page->on_counter(page->ctx, counter_name(n), n->number);
        page->found++;
    }
}

uint64_t view_counters(const struct core *c, uint32_t tenant, uint64_t cursor, uint32_t limit,
                       view_counter_fn on_counter, void *ctx)
{
    hf_assert(on_counter != NULL);
    struct view_page page = {.c = c, .tenant = tenant, .on_counter = on_counter, .ctx = ctx};
    return page_run(&c->counters, &page, cursor, limit, visit_counter);
}

bool view_is_counter(const struct core *c, uint32_t tenant, struct slice name)
{
    return counter_find(c, tenant, name) != NULL;
}

void view_key(const struct core *c, uint32_t tenant, struct slice name, struct key_view *out)
{
    key_view_fill(c, tenant, name, out);
}

static void session_view_fill(const struct core *c, const struct session *s,
                              struct session_view *out)
{
    const struct session_extra *x = session_extra_get(c, s);
    *out = (struct session_view){
        .id = s->id,
        .tenant = s->tenant,
        .client = session_client(s),
        .metadata = blob_slice(c, x == NULL ? 0 : x->metadata),
        .ttl_ms = s->ttl_ms,
        .linger_ms = x == NULL ? 0 : x->linger_ms,
        .lingers = x != NULL && x->lingers_until_ms != 0,
        .stream = x == NULL ? 0 : x->stream,
        .node = x == NULL ? 0 : x->node,
        .deadline_ms = session_deadline(c, s),
        .entries = s->entries,
        .is_private = s->is_private,
        .principal = s->principal,
    };
}

static void visit_session(void *ctx, ref obj)
{
    struct view_page *page = ctx;
    const struct session *s = session_at(page->c, obj);
    page->visits++;
    if (s->tenant == page->tenant) {
        struct session_view view;
        session_view_fill(page->c, s, &view);
        page->on_session(page->ctx, &view);
        page->found++;
    }
}

uint64_t view_sessions(const struct core *c, uint32_t tenant, uint64_t cursor, uint32_t limit,
                       view_session_fn on_session, void *ctx)
{
    hf_assert(on_session != NULL);
    struct view_page page = {.c = c, .tenant = tenant, .on_session = on_session, .ctx = ctx};
    return page_run(&c->sessions, &page, cursor, limit, visit_session);
}

bool view_session(const struct core *c, struct id id, struct session_view *out)
{
    hf_assert(out != NULL);
    ref obj = session_find(c, id);
    if (obj == 0) {
        return false;
    }
    session_view_fill(c, session_at(c, obj), out);
    return true;
}

static struct audit_view audit_view_of(const struct audit_record *a)
{
    return (struct audit_view){
        .number = a->number,
        .index = a->index,
        .wall_ms = a->wall_ms,
        .tenant = a->tenant,
        .kind = a->action,
        .is_of_cluster = a->action == AUDIT_RECOVER ||
                         (a->action >= AUDIT_POLICY && a->action <= AUDIT_RESCUE) ||
                         (a->action >= AUDIT_PEER_REFUSED && a->action <= AUDIT_SETTING),
        .action = slice_of(audit_action_name((enum audit_action)a->action)),
        .resource = audit_text(a, AUDIT_RESOURCE),
        .actor = audit_text(a, AUDIT_ACTOR),
        .reason = audit_text(a, AUDIT_REASON),
        .trace = audit_text(a, AUDIT_TRACE),
        .count = a->count,
        .is_fence_reset = a->action == AUDIT_FENCE_RESET,
        .slot = a->slot,
        .mark_before = a->mark_before,
        .mark_after = a->mark_after,
        .is_note = a->is_note,
    };
}

uint64_t view_audit(const struct core *c, uint32_t tenant, uint64_t from, uint32_t max,
                    view_audit_fn on_record, void *ctx)
{
    uint64_t next = from;
    const struct tenant *t = tenant_look(c, tenant_of_audit(c, tenant));
    hf_assert(on_record != NULL);
    RING_EACH(c, obj, t->audit, audit_record, ring)
    {
        const struct audit_record *a = audit_record_at(c, obj);
        /* Before version 6 the trail is common. */
        if (a->number < from || (a->tenant != tenant && c->token_end == 0)) {
            continue;
        }
        if (max-- == 0) {
            break;
        }
        struct audit_view view = audit_view_of(a);
        on_record(ctx, &view);
        next = a->number + 1;
    }
    return next;
}

/* The record of the present entry, or NULL. */
static const struct audit_record *audit_of_entry(const struct core *c, const struct tenant *t,
                                                 uint64_t number)
{
    ref obj = t->audit_at == NULL || number == 0 ? 0 : t->audit_at[number % LIMIT_AUDIT];
    const struct audit_record *a = obj == 0 ? NULL : audit_record_at(c, obj);
    return a != NULL && a->number == number && a->index == c->index ? a : NULL;
}

void view_audit_of_entry(const struct core *c, view_audit_fn on_record, void *ctx)
{
    hf_assert(on_record != NULL);
    TENANT_EACH(c, t)
    {
        uint64_t number = t->audit_number;
        while (audit_of_entry(c, t, number) != NULL) {
            number--;
        }
        while (++number <= t->audit_number) {
            struct audit_view view = audit_view_of(audit_of_entry(c, t, number));
            on_record(ctx, &view);
        }
    }
}

uint64_t core_audits(const struct core *c)
{
    return c->audits;
}

bool view_has_lease(const struct core *c, struct id lease, bool *is_grant)
{
    return lease_target(c, lease, is_grant) != 0;
}

bool view_knows_lease(const struct core *c, uint32_t tenant, struct id lease)
{
    bool is_grant = false;
    return lease_target(c, lease, &is_grant) != 0 || history_by_lease(c, tenant, lease) != NULL;
}

bool view_fence(const struct core *c, uint32_t tenant, struct slice resource, uint32_t slot,
                uint64_t *highest, uint64_t *floor)
{
    hf_assert(highest != NULL && floor != NULL);
    const struct fence_mark *f = fence_find(c, tenant, resource, slot);
    *floor = fence_floor(c, tenant);
    if (f != NULL) {
        *highest = f->token;
    }
    return f != NULL;
}

struct oldest_page {
    const struct core *c;
    uint32_t visits;
    struct oldest_hold *oldest;
};

/* Grants have rising tokens and times, so the first of a name is its oldest. */
static void visit_oldest(void *ctx, ref obj)
{
    struct oldest_page *page = ctx;
    const struct core *c = page->c;
    const struct lock *l = lock_at(c, obj);
    page->visits++;
    if (l->holders == 0) {
        return;
    }
    const struct grant *g = grant_at(c, RING_FIRST(c, l->holders, grant, in_lock));
    if (g->since_ms < page->oldest->since_ms) {
        page->oldest->since_ms = g->since_ms;
        page->oldest->token = g->token;
        page->oldest->tenant = l->tenant;
        page->oldest->name_len = l->name_len;
        memcpy(page->oldest->name, l->name, l->name_len);
    }
}

uint64_t view_oldest(const struct core *c, uint64_t cursor, uint32_t visits,
                     struct oldest_hold *oldest)
{
    struct oldest_page page = {.c = c, .oldest = oldest};
    hf_assert(visits > 0);
    do {
        cursor = table_scan(&c->locks, cursor, visit_oldest, &page);
        page.visits++; /* also an empty bucket */
    } while (cursor != VIEW_END && page.visits < visits);
    return cursor;
}

bool view_still_holds(const struct core *c, const struct oldest_hold *hold)
{
    ref obj = lock_find(c, hold->tenant, slice_make(hold->name, hold->name_len));
    ref holders = obj == 0 ? 0 : lock_at(c, obj)->holders;
    return holders != 0 &&
           grant_at(c, RING_FIRST(c, holders, grant, in_lock))->token == hold->token;
}

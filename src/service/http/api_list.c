/* The list of names, and one name with holders and waiters. Only the latter shows tokens, session
 * and lease ids of others, to operators only (S4.4). */
#include "service/http/api.h"
#include "service/http/reply.h"
#include "service/request/list_lock.h"

void list_lock_members(struct json_writer *w, const struct service *s, const struct lock_view *lock)
{
    json_put_string(w, "name", lock->name);
    json_put_text(w, "mode", mode_name(lock->mode));
    json_put_bool(w, "held", lock->has_holder);
    json_put_bool(w, "long_held", lock->long_held);
    json_put_u64(w, "holder_count", lock->holders);
    json_put_u64(w, "queue_length", lock->queue_length);
    reply_put_since(w, s, "waiting_since", lock->waiting_ms, lock->waiting_wall_ms);
    if (lock->mode == MODE_SEMAPHORE) {
        json_put_u64(w, "limit", lock->limit);
        json_put_u64(w, "permits_used", lock->permits_used);
    }
    reply_put_when(w, s, "delayed_until", lock->delayed_until_ms);
    if (lock->reserved_for.len > 0) {
        json_put_string(w, "reserved_for", lock->reserved_for);
    }
    json_put_text(w, "tier", tier_name((enum tier)lock->tier));
}

void list_lock_row(struct json_writer *w, const struct service *s, const struct lock_view *lock)
{
    json_write_open(w, '{');
    list_lock_members(w, s, lock);
    if (lock->has_holder) {
        json_put_open(w, "holder", '{');
        reply_holder_members(w, s, &lock->first.holder);
        reply_put_hold(w, s, lock->first.hold_until_ms);
        json_write_close(w);
    } else {
        json_put_null(w, "holder");
    }
    json_write_close(w);
}

void list_put_next(struct json_writer *w, uint64_t cursor, uint64_t end)
{
    if (cursor == end) {
        json_put_null(w, "next_cursor");
        return;
    }
    uint8_t digits[20];
    size_t at = sizeof(digits);
    do {
        digits[--at] = (uint8_t)('0' + cursor % 10);
        cursor /= 10;
    } while (cursor > 0);
    json_put_string(w, "next_cursor", slice_make(digits + at, sizeof(digits) - at));
}

void list_put_stale(struct json_writer *w, const struct api_request *x)
{
    if (x->page.is_stale) {
        json_put_bool(w, "stale", true);
    }
    if (x->page.is_omitted) {
        json_put_text(w, "omitted_tier", tier_name(TIER_EFFICIENCY));
    }
}

bool list_is_cursor(uint64_t cursor)
{
    return cursor < VIEW_END || (cursor >= MEMORY_CURSOR && cursor < MEMORY_CURSOR + VIEW_END);
}

/* The last page of CORRECTNESS also has the first page of EFFICIENCY: the barrier carried its
 * query. */
static uint64_t list_next(uint64_t next)
{
    return next == VIEW_END ? LIST_END : MEMORY_CURSOR + next;
}

/* Rows that the caller may not read, or did not request, are left out. */
struct lock_filter {
    const struct api_request *x;
    view_lock_fn on_lock;
    void *ctx;
};

static void filter_lock(void *ctx, const struct lock_view *lock)
{
    const struct lock_filter *f = ctx;
    bool has_ttl = !lock->has_holder || lock->first.holder.deadline_ms != UINT64_MAX;
    if ((!has_ttl || !f->x->page.is_no_ttl) && list_may_read(f->x, lock->name)) {
        f->on_lock(f->ctx, lock);
    }
}

bool list_may_read(const struct api_request *x, struct slice name)
{
    const struct policy *p = service_policy(x->service);
    struct caller_id who = x->caller.id;
    return name.len > 0 ? caller_may(p, who, RIGHT_READ, name)
                        : who.principal == 0 ||
                              policy_allows_tenant(p, who.principal, who.tenant, RIGHT_READ);
}

uint64_t list_locks(struct api_request *x, view_lock_fn on_row, void *row_ctx)
{
    struct lock_filter filter = {x, on_row, row_ctx};
    bool is_open = x->caller.id.principal == 0 && !x->page.is_no_ttl;
    view_lock_fn on = is_open ? on_row : filter_lock;
    void *ctx = is_open ? row_ctx : &filter;
    if (x->page.cursor < MEMORY_CURSOR) {
        uint64_t next = view_locks(service_core(x->service), x->caller.id.tenant, x->name,
                                   x->page.cursor, (uint32_t)x->page.limit, on, ctx);
        if (next != VIEW_END) {
            return next;
        }
    }
    return list_next(memory_page_locks(x->service->looked, on, ctx));
}

uint64_t list_long_held(struct api_request *x, view_lock_fn on_row, void *row_ctx)
{
    struct lock_filter filter = {x, on_row, row_ctx};
    bool is_open = x->caller.id.principal == 0;
    view_lock_fn on = is_open ? on_row : filter_lock;
    void *ctx = is_open ? row_ctx : &filter;
    if (x->page.cursor < MEMORY_CURSOR) {
        uint64_t next = view_locks_long_held(service_core(x->service), x->caller.id.tenant,
                                             service_cluster_ms(x->service), x->page.cursor,
                                             (uint32_t)x->page.limit, on, ctx);
        if (next != VIEW_END) {
            return next;
        }
    }
    return list_next(memory_page_locks(x->service->looked, on, ctx));
}

struct session_filter {
    const struct api_request *x;
    view_session_fn on_session;
    void *ctx;
};

static void filter_session(void *ctx, const struct session_view *session)
{
    const struct session_filter *f = ctx;
    if (session->principal == f->x->caller.id.principal) {
        f->on_session(f->ctx, session);
    }
}

/* A session has no name: a caller without `read` on all names sees its own. */
uint64_t list_sessions(struct api_request *x, view_session_fn on_row, void *row_ctx)
{
    struct session_filter filter = {x, on_row, row_ctx};
    bool is_open = list_may_read(x, slice_make(NULL, 0));
    view_session_fn on = is_open ? on_row : filter_session;
    void *ctx = is_open ? row_ctx : &filter;
    if (x->page.cursor < MEMORY_CURSOR) {
        uint64_t next = view_sessions(service_core(x->service), x->caller.id.tenant, x->page.cursor,
                                      (uint32_t)x->page.limit, on, ctx);
        if (next != VIEW_END) {
            return next;
        }
    }
    return list_next(memory_page_sessions(x->service->looked, on, ctx));
}

struct lock_listing {
    struct json_writer *w;
    struct api_request *x;
};

static void on_lock(void *ctx, const struct lock_view *lock)
{
    struct lock_listing *l = ctx;
    list_lock_row(l->w, l->x->service, lock);
}

static void render_list(struct api_request *x, const struct result *r, struct json_writer *w)
{
    struct lock_listing l = {w, x};
    json_put_open(w, "locks", '[');
    uint64_t next = list_locks(x, on_lock, &l);
    json_write_close(w);
    list_put_next(w, next, LIST_END);
    list_put_stale(w, x);
}

void api_lock_list(struct api_request *x)
{
    if (!list_is_cursor(x->page.cursor)) {
        api_request_fail(x, HF_FIELD_RANGE, "cursor: must be the next_cursor of an earlier page");
        return;
    }
    api_request_look(x, MEMORY_LOCKS, render_list);
}

struct lock_details {
    struct json_writer *w;
    struct api_request *x;
    bool is_election;
    bool in_waiters; /* the array of waiters has begun */
    uint32_t position;
};

void list_grant_members(struct json_writer *w, const struct api_request *x,
                        const struct grant_view *g)
{
    reply_holder_members(w, x->service, &g->holder);
    reply_put_hold(w, x->service, g->hold_until_ms);
    json_put_bool(w, "long_held", g->long_held);
    if (g->holder.mode == MODE_SEMAPHORE) {
        json_put_u64(w, "slot", g->slot);
    }
    if (g->depth > 1) {
        json_put_u64(w, "depth", g->depth);
    }
    if (g->parts > 1) {
        json_put_u64(w, "multilock_names", g->parts);
    }
    if (g->holder.mode == MODE_ELECTION) {
        json_put_string(w, "value", g->value);
    }
    if (g->revoke_at_ms != 0) {
        reply_put_when(w, x->service, "revoked_at", g->revoke_at_ms);
    }
    if (x->is_operator) {
        json_put_u64(w, "fencing_token", g->token);
        reply_put_id(w, "session_id", g->session);
        reply_put_id(w, "lease_id", g->lease);
    }
}

static void on_grant(void *ctx, const struct grant_view *g)
{
    struct lock_details *show = ctx;
    json_write_open(show->w, '{');
    list_grant_members(show->w, show->x, g);
    json_write_close(show->w);
}

static void begin_waiters(struct lock_details *show)
{
    if (!show->in_waiters) {
        json_write_close(show->w);
        json_put_open(show->w, "waiters", '[');
        show->in_waiters = true;
    }
}

void list_waiter_members(struct json_writer *w, const struct api_request *x,
                         const struct waiter_view *waiter)
{
    json_put_string(w, "client_id", waiter->client);
    if (waiter->owner.len > 0) {
        json_put_string(w, "owner", waiter->owner);
    }
    json_put_text(w, "mode", mode_name(waiter->mode));
    if (waiter->mode == MODE_SEMAPHORE) {
        json_put_u64(w, "permits", waiter->permits);
    }
    if (waiter->parts > 1) {
        json_put_u64(w, "multilock_names", waiter->parts);
    }
    json_put_u64(w, "node", waiter->node);
    json_put_bool(w, "detached", waiter->detached);
    reply_put_since(w, x->service, "since", waiter->since_ms, waiter->since_wall_ms);
    reply_put_when(w, x->service, "gives_up_at", waiter->wait_deadline_ms);
    reply_put_metadata(w, waiter->metadata);
    reply_put_trace(w, waiter->trace);
    if (x->is_operator) {
        reply_put_id(w, "session_id", waiter->session);
        reply_put_id(w, "lease_id", waiter->lease);
    }
}

static void on_waiter(void *ctx, const struct waiter_view *waiter)
{
    struct lock_details *show = ctx;
    begin_waiters(show);
    json_write_open(show->w, '{');
    json_put_u64(show->w, "position", ++show->position);
    list_waiter_members(show->w, show->x, waiter);
    json_write_close(show->w);
}

void list_show(struct api_request *x, struct lock_view *lock)
{
    if (!memory_page_lock(x->service->looked, lock) &&
        !view_lock(service_core(x->service), x->caller.id.tenant, x->name, lock)) {
        *lock = (struct lock_view){.name = x->name}; /* an unknown name is a free lock */
    }
}

void list_holders(struct api_request *x, const struct lock_view *lock, uint32_t max,
                  view_grant_fn on_grant_, view_waiter_fn on_waiter_, void *ctx)
{
    if (lock->tier == TIER_EFFICIENCY) {
        memory_page_holders(x->service->looked, on_grant_, on_waiter_, ctx);
    } else {
        (void)view_holders_and_waiters(service_core(x->service), x->caller.id.tenant, x->name, max,
                                       on_grant_, on_waiter_, ctx);
    }
}

/* The rule that counts for the name (S16.2). */
static void put_rule(const struct api_request *x, struct json_writer *w)
{
    struct alert_view rule;
    if (view_alert_for(service_core(x->service), x->caller.id.tenant, x->name, &rule)) {
        json_put_u64(w, "long_held_after_ms", rule.held_ms);
    }
}

static void render_show(struct api_request *x, const struct result *r, struct json_writer *w)
{
    struct lock_view lock;
    struct lock_details show = {.w = w, .x = x};
    list_show(x, &lock);
    list_lock_members(w, x->service, &lock);
    put_rule(x, w);
    json_put_open(w, "holders", '[');
    list_holders(x, &lock, (uint32_t)x->page.limit, on_grant, on_waiter, &show);
    begin_waiters(&show);
    json_write_close(w);
    list_put_stale(w, x);
}

void api_lock_show(struct api_request *x)
{
    api_request_look(x, MEMORY_LOCK, render_show);
}

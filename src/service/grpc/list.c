/* AdminService: lists of locks and sessions, one lock in full. Only operators see tokens, session
 * and lease ids (S4.4). */
#include <inttypes.h>
#include <stdio.h>

#include <holdfast/v1/admin.pb-c.h>

#include "service/grpc/rpc.h"
#include "service/http/reply.h"
#include "service/request/list_lock.h"
#include "service/request/session_names.h"

/* A page ends with the hash bucket in which it reaches its limit, so it may be longer. */
struct rows {
    struct api_request *x;
    void **at;
    size_t count;
    size_t space;
};

static void add_row(struct rows *rows, void *row)
{
    if (rows->count == rows->space) {
        size_t space = rows->space == 0 ? 128 : rows->space * 2;
        void **larger = rpc_alloc(rows->x->service, space * sizeof(*larger));
        if (rows->count > 0) {
            memcpy(larger, rows->at, rows->count * sizeof(*larger));
        }
        rows->at = larger;
        rows->space = space;
    }
    rows->at[rows->count++] = row;
}

char *rpc_cursor(const struct service *s, uint64_t cursor, uint64_t end)
{
    enum { DIGITS = 21 };
    char *text = rpc_alloc(s, DIGITS);
    text[0] = '\0';
    if (cursor != end) {
        (void)snprintf(text, DIGITS, "%" PRIu64, cursor);
    }
    return text;
}

static bool is_cursor(struct api_request *x)
{
    if (!list_is_cursor(x->page.cursor)) {
        api_request_fail(x, HF_FIELD_RANGE, "cursor: must be the next_cursor of an earlier page");
        return false;
    }
    return true;
}

Holdfast__V1__LockInfo *rpc_lock_info(const struct service *s, const struct lock_view *lock)
{
    Holdfast__V1__LockInfo *out = rpc_alloc(s, sizeof(*out));
    holdfast__v1__lock_info__init(out);
    out->resource_id = rpc_string(s, lock->name);
    out->mode = rpc_mode_out(lock->mode);
    out->held = lock->has_holder;
    out->holder = lock->has_holder ? rpc_holder(s, &lock->first.holder) : NULL;
    out->holder_count = lock->holders;
    out->queue_length = lock->queue_length;
    out->limit = lock->limit;
    out->permits_used = lock->permits_used;
    out->delayed_until = rpc_when(s, lock->delayed_until_ms);
    out->reserved_for = rpc_string(s, lock->reserved_for);
    out->tier = rpc_tier_out((enum tier)lock->tier);
    out->long_held = lock->long_held;
    out->waiting_since = rpc_since(s, lock->waiting_ms, lock->waiting_wall_ms);
    return out;
}

static void on_lock(void *ctx, const struct lock_view *lock)
{
    struct rows *rows = ctx;
    add_row(rows, rpc_lock_info(rows->x->service, lock));
}

Holdfast__V1__Tier rpc_omitted(const struct api_request *x)
{
    return x->page.is_omitted ? rpc_tier_out(TIER_EFFICIENCY)
                              : HOLDFAST__V1__TIER__TIER_UNSPECIFIED;
}

static void render_list(struct api_request *x, const struct result *r, struct json_writer *w)
{
    struct rows rows = {.x = x};
    Holdfast__V1__ListResponse out = HOLDFAST__V1__LIST_RESPONSE__INIT;
    rpc_render_begin(x->service);
    uint64_t next = list_locks(x, on_lock, &rows);
    out.locks = (Holdfast__V1__LockInfo **)(void *)rows.at;
    out.n_locks = rows.count;
    out.next_cursor = rpc_cursor(x->service, next, LIST_END);
    out.omitted_tier = rpc_omitted(x);
    rpc_put(x, &out.base);
}

void rpc_list(struct api_request *x, const void *message)
{
    const Holdfast__V1__ListRequest *m = message;
    x->page.is_no_ttl = m->no_ttl;
    if ((m->prefix[0] == '\0' || rpc_name(x, m->prefix)) &&
        rpc_page(x, m->limit, m->cursor, m->stale) && is_cursor(x)) {
        api_request_look(x, MEMORY_LOCKS, render_list);
    }
}

struct lock_rows {
    struct rows holders;
    struct rows waiters;
};

static Holdfast__V1__HolderInfo *holder_info(const struct api_request *x,
                                             const struct grant_view *g)
{
    const struct service *s = x->service;
    Holdfast__V1__HolderInfo *out = rpc_alloc(s, sizeof(*out));
    holdfast__v1__holder_info__init(out);
    out->holder = rpc_holder(s, &g->holder);
    out->slot = g->slot;
    out->depth = g->depth;
    out->multilock_names = g->parts;
    out->hold_until = rpc_when(s, g->hold_until_ms);
    out->long_held = g->long_held;
    if (g->holder.mode == MODE_ELECTION) { /* a key's value may be any bytes, and is its client's */
        out->value = rpc_string(s, g->value);
    }
    if (x->is_operator) {
        out->fence_token = g->token;
        out->lease_id = rpc_id(s, g->lease);
        out->session_id = rpc_id(s, g->session);
    }
    return out;
}

static void on_grant(void *ctx, const struct grant_view *g)
{
    struct lock_rows *show = ctx;
    add_row(&show->holders, holder_info(show->holders.x, g));
}

static Holdfast__V1__WaiterInfo *waiter_info(const struct api_request *x,
                                             const struct waiter_view *waiter)
{
    const struct service *s = x->service;
    Holdfast__V1__WaiterInfo *out = rpc_alloc(s, sizeof(*out));
    holdfast__v1__waiter_info__init(out);
    out->client_id = rpc_string(s, waiter->client);
    out->owner = rpc_string(s, waiter->owner);
    out->trace = rpc_string(s, waiter->trace);
    out->mode = rpc_mode_out(waiter->mode);
    out->permits = waiter->permits;
    out->node = waiter->node;
    out->detached = waiter->detached;
    out->since = rpc_since(s, waiter->since_ms, waiter->since_wall_ms);
    out->gives_up_at = rpc_when(s, waiter->wait_deadline_ms);
    out->multilock_names = waiter->parts;
    if (x->is_operator) {
        out->session_id = rpc_id(s, waiter->session);
    }
    return out;
}

static void on_waiter(void *ctx, const struct waiter_view *waiter)
{
    struct lock_rows *show = ctx;
    Holdfast__V1__WaiterInfo *out = waiter_info(show->waiters.x, waiter);
    out->position = (uint32_t)show->waiters.count + 1;
    add_row(&show->waiters, out);
}

static void render_show(struct api_request *x, const struct result *r, struct json_writer *w)
{
    struct lock_view lock;
    struct lock_rows show = {.holders = {.x = x}, .waiters = {.x = x}};
    Holdfast__V1__ShowResponse out = HOLDFAST__V1__SHOW_RESPONSE__INIT;
    list_show(x, &lock);
    rpc_render_begin(x->service);
    out.lock = rpc_lock_info(x->service, &lock);
    list_holders(x, &lock, LIMIT_PAGE_MAX, on_grant, on_waiter, &show);
    out.holders = (Holdfast__V1__HolderInfo **)(void *)show.holders.at;
    out.n_holders = show.holders.count;
    out.waiters = (Holdfast__V1__WaiterInfo **)(void *)show.waiters.at;
    out.n_waiters = show.waiters.count;
    out.omitted_tier = rpc_omitted(x);
    rpc_put(x, &out.base);
}

void rpc_show(struct api_request *x, const void *message)
{
    const Holdfast__V1__ShowRequest *m = message;
    if (rpc_name(x, m->resource_id)) {
        x->page.is_stale = m->stale;
        x->page.limit = LIMIT_PAGE_MAX;
        api_request_look(x, MEMORY_LOCK, render_show);
    }
}

static void on_session(void *ctx, const struct session_view *session)
{
    struct rows *rows = ctx;
    struct api_request *x = rows->x;
    const struct service *s = x->service;
    if (session->is_private && !x->page.is_private) {
        return;
    }
    Holdfast__V1__SessionInfo *out = rpc_alloc(s, sizeof(*out));
    holdfast__v1__session_info__init(out);
    if (x->is_operator) {
        out->session_id = rpc_id(s, session->id);
    }
    out->client_id = rpc_string(s, session->client);
    out->ttl = session->ttl_ms == TTL_NONE ? NULL : rpc_ms(s, session->ttl_ms);
    out->linger = session->linger_ms == 0 ? NULL : rpc_ms(s, session->linger_ms);
    out->expires_at = rpc_when(s, session->deadline_ms);
    out->expires_in = rpc_left(s, session->deadline_ms);
    out->entries = session->entries;
    out->private_ = session->is_private;
    out->metadata = rpc_string(s, session->metadata);
    add_row(rows, out);
}

static void render_sessions(struct api_request *x, const struct result *r, struct json_writer *w)
{
    struct rows rows = {.x = x};
    Holdfast__V1__SessionsResponse out = HOLDFAST__V1__SESSIONS_RESPONSE__INIT;
    rpc_render_begin(x->service);
    uint64_t next = list_sessions(x, on_session, &rows);
    out.sessions = (Holdfast__V1__SessionInfo **)(void *)rows.at;
    out.n_sessions = rows.count;
    out.next_cursor = rpc_cursor(x->service, next, LIST_END);
    out.omitted_tier = rpc_omitted(x);
    rpc_put(x, &out.base);
}

void rpc_sessions(struct api_request *x, const void *message)
{
    const Holdfast__V1__SessionsRequest *m = message;
    if (rpc_page(x, m->limit, m->cursor, m->stale) && is_cursor(x)) {
        x->page.is_private = m->private_;
        api_request_look(x, MEMORY_SESSIONS, render_sessions);
    }
}

static void on_name(void *ctx, const struct session_name_view *name)
{
    struct rows *rows = ctx;
    struct api_request *x = rows->x;
    Holdfast__V1__SessionLock *out = rpc_alloc(x->service, sizeof(*out));
    holdfast__v1__session_lock__init(out);
    out->resource_id = rpc_string(x->service, name->name);
    out->tier = rpc_tier_out((enum tier)name->tier);
    out->queue_length = name->queue_length;
    if (name->is_held) {
        out->held = holder_info(x, &name->grant);
    } else {
        out->waiting = waiter_info(x, &name->waiter);
    }
    add_row(rows, out);
}

static void render_session_locks(struct api_request *x, const struct result *r,
                                 struct json_writer *w)
{
    struct rows rows = {.x = x};
    uint64_t next = LIST_END;
    Holdfast__V1__SessionLocksResponse out = HOLDFAST__V1__SESSION_LOCKS_RESPONSE__INIT;
    rpc_render_begin(x->service);
    if (!session_names_list(x, on_name, &rows, &next)) {
        x->refused = HF_SESSION_NOT_FOUND;
        return;
    }
    out.locks = (Holdfast__V1__SessionLock **)(void *)rows.at;
    out.n_locks = rows.count;
    out.next_cursor = rpc_cursor(x->service, next, LIST_END);
    out.omitted_tier = rpc_omitted(x);
    rpc_put(x, &out.base);
}

void rpc_session_locks(struct api_request *x, const void *message)
{
    const Holdfast__V1__SessionLocksRequest *m = message;
    if (!reply_parse_id(slice_of(m->session_id), &x->id)) {
        api_request_fail(x, HF_INVALID_ID, "session_id: must be 32 hexadecimal digits");
    } else if (rpc_page(x, m->limit, m->cursor, m->stale)) {
        api_request_look(x, MEMORY_SESSION_NAMES, render_session_locks);
    }
}

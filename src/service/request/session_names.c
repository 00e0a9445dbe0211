/* See session_names.h. */
#include "service/request/session_names.h"

#include "service/request/list_lock.h"

/* A session has no name: a caller without `read` on all names sees its own. */
static bool may_see(const struct api_request *x, const struct session_view *session)
{
    return session->tenant == x->caller.id.tenant &&
           (session->principal == x->caller.id.principal || list_may_read(x, slice_make(NULL, 0)));
}

struct session_seen {
    const struct api_request *x;
    bool is_visible;
};

static void on_session(void *ctx, const struct session_view *session)
{
    struct session_seen *seen = ctx;
    seen->is_visible = may_see(seen->x, session);
}

static bool is_visible(const struct api_request *x)
{
    struct session_view session;
    if (view_session(service_core(x->service), x->id, &session)) {
        return may_see(x, &session);
    }
    struct session_seen seen = {x, false};
    (void)memory_page_sessions(x->service->looked, on_session, &seen);
    return seen.is_visible;
}

/* Rows that the caller may not read are left out. */
struct session_name_filter {
    const struct api_request *x;
    view_session_name_fn on_name;
    void *ctx;
};

static void filter_name(void *ctx, const struct session_name_view *name)
{
    const struct session_name_filter *f = ctx;
    if (list_may_read(f->x, name->name)) {
        f->on_name(f->ctx, name);
    }
}

/* Held names come first, so nothing follows a name that is waited for. */
struct session_held_filter {
    view_session_name_fn on_name;
    void *ctx;
    bool is_over;
};

static void filter_held(void *ctx, const struct session_name_view *name)
{
    struct session_held_filter *f = ctx;
    f->is_over = f->is_over || !name->is_held;
    if (!f->is_over) {
        f->on_name(f->ctx, name);
    }
}

uint64_t session_names_held(struct api_request *x, struct id session, uint64_t cursor,
                            view_session_name_fn on_name, void *ctx)
{
    struct session_held_filter filter = {on_name, ctx, false};
    uint64_t next = VIEW_NAMES_END;
    if ((cursor & 1) == 0) {
        next = view_session_names(service_core(x->service), x->caller.id.tenant, session,
                                  cursor >> 1, LIMIT_PAGE_MAX, filter_held, &filter);
        if (next != VIEW_NAMES_END && !filter.is_over) {
            return next << 1;
        }
    }
    filter.is_over = false;
    next = memory_page_session_names(x->service->looked, filter_held, &filter);
    return next == VIEW_NAMES_END || filter.is_over ? LIST_END : next << 1 | 1;
}

bool session_names_list(struct api_request *x, view_session_name_fn on_name, void *ctx,
                        uint64_t *next)
{
    struct session_name_filter filter = {x, on_name, ctx};
    if (!is_visible(x)) {
        return false;
    }
    if ((x->page.cursor & 1) == 0) {
        uint64_t cursor =
            view_session_names(service_core(x->service), x->caller.id.tenant, x->id,
                               x->page.cursor >> 1, (uint32_t)x->page.limit, filter_name, &filter);
        if (cursor != VIEW_NAMES_END) {
            *next = cursor << 1;
            return true;
        }
    }
    x->page.is_omitted |= x->service->looked.len == 0;
    uint64_t cursor = memory_page_session_names(x->service->looked, filter_name, &filter);
    *next = cursor == VIEW_NAMES_END ? LIST_END : cursor << 1 | 1;
    return true;
}

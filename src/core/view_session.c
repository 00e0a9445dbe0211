/* The names that one session holds or waits for; see view.h.
 *
 * A session's grants have rising tokens, its waiters rising tickets. The cursor is the last one of a
 * page, so it stays valid while names before it are released. */
#include "core/state.h"
#include "core/view.h"

enum { CURSOR_WAITS = 1 }; /* the lowest bit: the grants are done */

struct session_page {
    const struct core *c;
    uint64_t from; /* token or ticket of the last row of the previous page */
    uint64_t last; /* ... of this one */
    uint32_t found;
    uint32_t limit;
    view_session_name_fn on_name;
    void *ctx;
};

static void name_fill(const struct core *c, ref lock, struct session_name_view *out)
{
    const struct lock *l = lock_at(c, lock);
    const struct lock_extra *x = lock_extra_get(c, l);
    *out = (struct session_name_view){.name = lock_name(l),
                                      .queue_length = x == NULL ? 0 : x->queue_length};
}

/* The parts of a multi-lock share a page. False: the page is full, and more follows. */
static bool page_grants(struct session_page *page, const struct session *s)
{
    const struct core *c = page->c;
    RING_EACH(c, obj, s->holds, grant, in_session)
    {
        const struct grant *g = grant_at(c, obj);
        if (g->token <= page->from) {
            continue;
        }
        if (page->found >= page->limit && g->token != page->last) {
            return false;
        }
        struct session_name_view view;
        name_fill(c, g->lock, &view);
        view.is_held = true;
        grant_view_fill(c, obj, &view.grant);
        page->on_name(page->ctx, &view);
        page->found++;
        page->last = g->token;
    }
    return true;
}

static bool page_waiters(struct session_page *page, const struct session *s)
{
    const struct core *c = page->c;
    RING_EACH(c, obj, s->waits, waiter, in_session)
    {
        const struct waiter *w = waiter_at(c, obj);
        if (w->ticket <= page->from) {
            continue;
        }
        if (page->found >= page->limit) {
            return false;
        }
        struct session_name_view view;
        for (ref p = w->places; p != 0; p = place_at(c, p)->sibling) {
            name_fill(c, place_at(c, p)->lock, &view);
            waiter_view_fill(c, w, &view.waiter);
            page->on_name(page->ctx, &view);
            page->found++;
        }
        page->last = w->ticket;
    }
    return true;
}

uint64_t view_session_names(const struct core *c, uint32_t tenant, struct id id, uint64_t cursor,
                            uint32_t limit, view_session_name_fn on_name, void *ctx)
{
    hf_assert(on_name != NULL);
    ref obj = session_find(c, id);
    if (obj == 0 || session_at(c, obj)->tenant != tenant) {
        return VIEW_NAMES_END;
    }
    const struct session *s = session_at(c, obj);
    struct session_page page = {
        .c = c, .from = cursor >> 1, .limit = limit, .on_name = on_name, .ctx = ctx};
    if ((cursor & CURSOR_WAITS) == 0) {
        if (!page_grants(&page, s)) {
            return page.last << 1;
        }
        page.from = 0;
        page.last = 0;
    }
    return page_waiters(&page, s) ? VIEW_NAMES_END : page.last << 1 | CURSOR_WAITS;
}

struct token_sum view_session_tokens(const struct core *c, struct id id)
{
    ref obj = session_find(c, id);
    if (obj == 0) {
        return (struct token_sum){0, 0};
    }
    const struct session *s = session_at(c, obj);
    return (struct token_sum){.count = s->token_count, .xor_of_all = s->token_xor};
}

/* Encodes pages of the tier EFFICIENCY, see memory_page.h. A page is a version, rows that each
 * begin with a letter, and an end row with the next cursor. */
#include "service/request/memory_page.h"

#include "base/codec.h"
#include "base/tier.h"

enum { PAGE_FORMAT = 1, ROW_LOCK = 'l', ROW_GRANT = 'g', ROW_WAITER = 'w', ROW_SESSION = 's' };
enum { ROW_END = 'e', ROW_MAX = 16 << 10 };

size_t memory_request_encode(const struct memory_request *request, uint8_t at[MEMORY_REQUEST_BYTES])
{
    struct writer w = writer_make(at, MEMORY_REQUEST_BYTES);
    write_u8(&w, PAGE_FORMAT);
    write_u8(&w, (uint8_t)request->kind);
    write_u64(&w, request->tenant);
    write_u64(&w, request->cursor);
    write_u64(&w, request->limit);
    write_slice(&w, request->name);
    hf_assert(!w.full);
    return (size_t)(w.at - at);
}

static bool request_decode(struct slice bytes, struct memory_request *out)
{
    struct reader r = reader_make(bytes);
    bool is_known = read_u8(&r) == PAGE_FORMAT;
    out->kind = (enum memory_page_kind)read_u8(&r);
    out->tenant = read_u32(&r);
    out->cursor = read_u64(&r);
    out->limit = read_u32(&r);
    out->name = read_slice(&r, LIMIT_NAME);
    return is_known && reader_done(&r) && out->cursor < VIEW_END && out->limit <= LIMIT_PAGE_MAX;
}

/* ---- writing ---- */

struct page_writer {
    struct buffer *out;
    bool is_bad;
};

static bool row_begin(struct page_writer *p, struct writer *w, uint8_t letter)
{
    uint8_t *space = buffer_reserve(p->out, ROW_MAX);
    if (space == NULL) {
        p->is_bad = true;
        return false;
    }
    *w = writer_make(space, ROW_MAX);
    write_u8(w, letter);
    return true;
}

static void row_end(struct page_writer *p, const struct writer *w)
{
    const uint8_t *space = w->end - ROW_MAX;
    hf_assert(!w->full); /* every string of a view has a limit */
    buffer_commit(p->out, (size_t)(w->at - space));
}

static void write_holder(struct writer *w, const struct holder_view *h)
{
    write_slice(w, h->client);
    write_slice(w, h->owner);
    write_slice(w, h->metadata);
    write_u64(w, h->mode);
    write_u64(w, h->permits);
    write_u64(w, h->since_ms);
    write_u64(w, h->deadline_ms);
}

static void write_grant(struct writer *w, const struct grant_view *g)
{
    write_holder(w, &g->holder);
    write_u64(w, g->token);
    write_id(w, g->session);
    write_id(w, g->lease);
    write_u64(w, g->slot);
    write_u64(w, g->depth);
    write_u64(w, g->parts);
    write_u64(w, g->revoke_at_ms);
    write_slice(w, g->value);
}

static void on_lock(void *ctx, const struct lock_view *lock)
{
    struct page_writer *p = ctx;
    struct writer w;
    if (!row_begin(p, &w, ROW_LOCK)) {
        return;
    }
    write_slice(&w, lock->name);
    write_u64(&w, lock->tenant);
    write_u64(&w, lock->mode);
    write_u64(&w, lock->limit);
    write_u64(&w, lock->permits_used);
    write_u64(&w, lock->holders);
    write_u64(&w, lock->queue_length);
    write_u64(&w, lock->delayed_until_ms);
    write_slice(&w, lock->reserved_for);
    write_u8(&w, lock->has_holder);
    if (lock->has_holder) {
        write_grant(&w, &lock->first);
    }
    row_end(p, &w);
}

static void on_grant(void *ctx, const struct grant_view *grant)
{
    struct page_writer *p = ctx;
    struct writer w;
    if (row_begin(p, &w, ROW_GRANT)) {
        write_grant(&w, grant);
        row_end(p, &w);
    }
}

static void on_waiter(void *ctx, const struct waiter_view *waiter)
{
    struct page_writer *p = ctx;
    struct writer w;
    if (!row_begin(p, &w, ROW_WAITER)) {
        return;
    }
    write_slice(&w, waiter->client);
    write_slice(&w, waiter->owner);
    write_slice(&w, waiter->metadata);
    write_u64(&w, waiter->mode);
    write_u64(&w, waiter->permits);
    write_u64(&w, waiter->parts);
    write_u64(&w, waiter->node);
    write_u8(&w, waiter->detached);
    write_u64(&w, waiter->ticket);
    write_u64(&w, waiter->attachment);
    write_u64(&w, waiter->wait_deadline_ms);
    write_id(&w, waiter->session);
    write_id(&w, waiter->lease);
    row_end(p, &w);
}

/* Mirrored sessions are listed in the tier they belong to. */
static void on_session(void *ctx, const struct session_view *session)
{
    struct page_writer *p = ctx;
    struct writer w;
    if (!session->is_private || !row_begin(p, &w, ROW_SESSION)) {
        return;
    }
    write_id(&w, session->id);
    write_u64(&w, session->tenant);
    write_slice(&w, session->client);
    write_slice(&w, session->metadata);
    write_u64(&w, session->ttl_ms);
    write_u64(&w, session->linger_ms);
    write_u64(&w, session->deadline_ms);
    write_u64(&w, session->entries);
    row_end(p, &w);
}

static uint64_t write_rows(const struct core *core, const struct memory_request *request,
                           struct page_writer *p)
{
    struct lock_view lock;
    switch (request->kind) {
    case MEMORY_LOCKS:
        return view_locks(core, request->tenant, request->name, request->cursor, request->limit,
                          on_lock, p);
    case MEMORY_SESSIONS:
        return view_sessions(core, request->tenant, request->cursor, request->limit, on_session, p);
    case MEMORY_LOCK:
        if (view_lock(core, request->tenant, request->name, &lock)) {
            on_lock(p, &lock);
            (void)view_holders_and_waiters(core, request->tenant, request->name, request->limit,
                                           on_grant, on_waiter, p);
        }
        return VIEW_END;
    }
    p->is_bad = true;
    return VIEW_END;
}

bool memory_page_write(const struct core *core, struct slice bytes, struct buffer *out)
{
    struct memory_request request;
    struct page_writer p = {.out = out};
    struct writer w;
    uint8_t format = PAGE_FORMAT;
    if (!request_decode(bytes, &request) || !buffer_append(out, &format, 1)) {
        return false;
    }
    uint64_t next = core == NULL ? VIEW_END : write_rows(core, &request, &p);
    if (!p.is_bad && row_begin(&p, &w, ROW_END)) {
        write_u64(&w, next);
        row_end(&p, &w);
    }
    return !p.is_bad;
}

/* ---- reading ---- */

static void read_holder(struct reader *r, struct holder_view *h)
{
    h->client = read_slice(r, LIMIT_CLIENT);
    h->owner = read_slice(r, LIMIT_OWNER);
    h->metadata = read_slice(r, LIMIT_METADATA);
    h->mode = (enum mode)read_u32(r);
    h->permits = read_u32(r);
    h->since_ms = read_u64(r);
    h->deadline_ms = read_u64(r);
    r->bad = r->bad || h->mode >= MODE_COUNT;
}

static void read_grant(struct reader *r, struct grant_view *g)
{
    read_holder(r, &g->holder);
    g->token = read_u64(r);
    g->session = read_id(r);
    g->lease = read_id(r);
    g->slot = read_u32(r);
    g->depth = read_u32(r);
    g->parts = read_u32(r);
    g->revoke_at_ms = read_u64(r);
    g->value = read_slice(r, LIMIT_VALUE);
}

static void read_lock(struct reader *r, struct lock_view *lock)
{
    *lock = (struct lock_view){.tier = TIER_EFFICIENCY};
    lock->name = read_slice(r, LIMIT_NAME);
    lock->tenant = read_u32(r);
    lock->mode = (enum mode)read_u32(r);
    lock->limit = read_u32(r);
    lock->permits_used = read_u32(r);
    lock->holders = read_u32(r);
    lock->queue_length = read_u32(r);
    lock->delayed_until_ms = read_u64(r);
    lock->reserved_for = read_slice(r, LIMIT_CLIENT);
    lock->has_holder = read_u8(r) == 1;
    if (lock->has_holder) {
        read_grant(r, &lock->first);
    }
    r->bad = r->bad || lock->mode >= MODE_COUNT;
}

static void read_waiter(struct reader *r, struct waiter_view *waiter)
{
    waiter->client = read_slice(r, LIMIT_CLIENT);
    waiter->owner = read_slice(r, LIMIT_OWNER);
    waiter->metadata = read_slice(r, LIMIT_METADATA);
    waiter->mode = (enum mode)read_u32(r);
    waiter->permits = read_u32(r);
    waiter->parts = read_u32(r);
    waiter->node = read_u32(r);
    waiter->detached = read_u8(r) == 1;
    waiter->ticket = read_u64(r);
    waiter->attachment = read_u64(r);
    waiter->wait_deadline_ms = read_u64(r);
    waiter->session = read_id(r);
    waiter->lease = read_id(r);
    r->bad = r->bad || waiter->mode >= MODE_COUNT;
}

static void read_session(struct reader *r, struct session_view *session)
{
    *session = (struct session_view){.is_private = true, .tier = TIER_EFFICIENCY};
    session->id = read_id(r);
    session->tenant = read_u32(r);
    session->client = read_slice(r, LIMIT_CLIENT);
    session->metadata = read_slice(r, LIMIT_METADATA);
    session->ttl_ms = read_u32(r);
    session->linger_ms = read_u32(r);
    session->deadline_ms = read_u64(r);
    session->entries = read_u32(r);
}

/* Callbacks for the rows of a page; each may be NULL. */
struct page_visitor {
    view_lock_fn on_lock;
    view_grant_fn on_grant;
    view_waiter_fn on_waiter;
    view_session_fn on_session;
    void *ctx;
};

static uint64_t read_page(struct slice page, const struct page_visitor *visitor)
{
    struct reader r = reader_make(page);
    struct lock_view lock;
    struct grant_view grant;
    struct waiter_view waiter;
    struct session_view session;
    if (page.len == 0 || read_u8(&r) != PAGE_FORMAT) {
        return VIEW_END;
    }
    while (!r.bad) {
        switch (read_u8(&r)) {
        case ROW_LOCK:
            read_lock(&r, &lock);
            if (!r.bad && visitor->on_lock != NULL) {
                visitor->on_lock(visitor->ctx, &lock);
            }
            break;
        case ROW_GRANT:
            read_grant(&r, &grant);
            if (!r.bad && visitor->on_grant != NULL) {
                visitor->on_grant(visitor->ctx, &grant);
            }
            break;
        case ROW_WAITER:
            read_waiter(&r, &waiter);
            if (!r.bad && visitor->on_waiter != NULL) {
                visitor->on_waiter(visitor->ctx, &waiter);
            }
            break;
        case ROW_SESSION:
            read_session(&r, &session);
            if (!r.bad && visitor->on_session != NULL) {
                visitor->on_session(visitor->ctx, &session);
            }
            break;
        case ROW_END: {
            uint64_t next = read_u64(&r);
            return r.bad || next > VIEW_END ? VIEW_END : next;
        }
        default:
            r.bad = true;
        }
    }
    return VIEW_END;
}

uint64_t memory_page_locks(struct slice page, view_lock_fn on, void *ctx)
{
    return read_page(page, &(struct page_visitor){.on_lock = on, .ctx = ctx});
}

uint64_t memory_page_sessions(struct slice page, view_session_fn on, void *ctx)
{
    return read_page(page, &(struct page_visitor){.on_session = on, .ctx = ctx});
}

static void keep_lock(void *ctx, const struct lock_view *lock)
{
    *(struct lock_view *)ctx = *lock;
}

bool memory_page_lock(struct slice page, struct lock_view *out)
{
    struct lock_view found = {.name = slice_make(NULL, 0)};
    (void)read_page(page, &(struct page_visitor){.on_lock = keep_lock, .ctx = &found});
    if (found.name.len == 0) {
        return false;
    }
    *out = found;
    return true;
}

void memory_page_holders(struct slice page, view_grant_fn on_grant_, view_waiter_fn on_waiter_,
                         void *ctx)
{
    (void)read_page(
        page, &(struct page_visitor){.on_grant = on_grant_, .on_waiter = on_waiter_, .ctx = ctx});
}

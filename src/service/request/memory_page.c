/* See memory_page.h. A page is its format (that of the request), rows that begin with a letter, and
 * an end row with the next cursor. Rows have the fields of core/view.h. */
#include "service/request/memory_page.h"

#include "base/tier.h"

enum { ROW_LOCK = 'l', ROW_GRANT = 'g', ROW_WAITER = 'w', ROW_SESSION = 's', ROW_NAME = 'n' };
enum { ROW_END = 'e', ROW_MAX = 16 << 10 };

size_t memory_request_encode(const struct memory_request *request, uint8_t at[MEMORY_REQUEST_BYTES])
{
    struct writer w = writer_make(at, MEMORY_REQUEST_BYTES);
    write_u8(&w, record_format(request->version));
    write_u8(&w, (uint8_t)request->kind);
    write_u64(&w, request->tenant);
    write_u64(&w, request->cursor);
    write_u64(&w, request->limit);
    write_slice(&w, request->name);
    if (request->kind == MEMORY_LONG_HELD) {
        write_u64(&w, request->now_ms);
    } else if (request->kind == MEMORY_SESSION_NAMES) {
        write_id(&w, request->session);
    }
    hf_assert(!w.full);
    return (size_t)(w.at - at);
}

static bool request_decode(struct slice bytes, struct memory_request *out)
{
    struct reader r = reader_make(bytes);
    out->version = record_version(read_u8(&r));
    bool is_known = out->version != 0 && out->version <= CORE_VERSION;
    out->kind = (enum memory_page_kind)read_u8(&r);
    out->tenant = read_u32(&r);
    out->cursor = read_u64(&r);
    out->limit = read_u32(&r);
    out->name = read_slice(&r, LIMIT_NAME);
    out->now_ms = out->kind == MEMORY_LONG_HELD ? read_u64(&r) : 0;
    bool is_of_session = out->kind == MEMORY_SESSION_NAMES;
    out->session = is_of_session ? read_id(&r) : (struct id){0, 0};
    return is_known && reader_done(&r) && (is_of_session || out->cursor < VIEW_END) &&
           out->limit <= LIMIT_PAGE_MAX;
}

struct page_writer {
    struct buffer *out;
    uint32_t version;
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

/* Longer than LIMIT_VALUE is only the value of a key, which no list shows. */
static void write_grant(struct writer *w, uint32_t version, const struct grant_view *grant)
{
    struct grant_view shown = *grant;
    const struct grant_view *f = &shown;
    if (grant->value.len > LIMIT_VALUE) {
        shown.value = (struct slice){NULL, 0};
    }
    GRANT_VIEW_FIELDS(FIELD_PUT)
}

static void write_lock(struct writer *w, uint32_t version, const struct lock_view *f)
{
    LOCK_VIEW_FIELDS(FIELD_PUT)
    if (f->has_holder) {
        write_grant(w, version, &f->first);
    }
}

static void write_waiter(struct writer *w, uint32_t version, const struct waiter_view *f)
{
    WAITER_VIEW_FIELDS(FIELD_PUT)
}

static void write_session(struct writer *w, uint32_t version, const struct session_view *f)
{
    SESSION_VIEW_FIELDS(FIELD_PUT)
}

static void on_lock(void *ctx, const struct lock_view *lock)
{
    struct page_writer *p = ctx;
    struct writer w;
    if (row_begin(p, &w, ROW_LOCK)) {
        write_lock(&w, p->version, lock);
        row_end(p, &w);
    }
}

static void on_grant(void *ctx, const struct grant_view *grant)
{
    struct page_writer *p = ctx;
    struct writer w;
    if (row_begin(p, &w, ROW_GRANT)) {
        write_grant(&w, p->version, grant);
        row_end(p, &w);
    }
}

static void on_waiter(void *ctx, const struct waiter_view *waiter)
{
    struct page_writer *p = ctx;
    struct writer w;
    if (row_begin(p, &w, ROW_WAITER)) {
        write_waiter(&w, p->version, waiter);
        row_end(p, &w);
    }
}

/* Mirrored sessions are listed in their own tier. */
static void on_session(void *ctx, const struct session_view *session)
{
    struct page_writer *p = ctx;
    struct writer w;
    if (session->is_private && row_begin(p, &w, ROW_SESSION)) {
        write_session(&w, p->version, session);
        row_end(p, &w);
    }
}

static void on_name(void *ctx, const struct session_name_view *name)
{
    struct page_writer *p = ctx;
    struct writer w;
    if (row_begin(p, &w, ROW_NAME)) {
        write_slice(&w, name->name);
        write_u8(&w, name->is_held);
        write_u64(&w, name->queue_length);
        if (name->is_held) {
            write_grant(&w, p->version, &name->grant);
        } else {
            write_waiter(&w, p->version, &name->waiter);
        }
        row_end(p, &w);
    }
}

static uint64_t write_session_names(const struct core *core, const struct memory_request *request,
                                    struct page_writer *p)
{
    struct session_view session;
    if (!view_session(core, request->session, &session) || session.tenant != request->tenant) {
        return VIEW_NAMES_END;
    }
    on_session(p, &session);
    return view_session_names(core, request->tenant, request->session, request->cursor,
                              request->limit, on_name, p);
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
    case MEMORY_LONG_HELD:
        return view_locks_long_held(core, request->tenant, request->now_ms, request->cursor,
                                    request->limit, on_lock, p);
    case MEMORY_LOCK:
        if (view_lock(core, request->tenant, request->name, &lock)) {
            on_lock(p, &lock);
            (void)view_holders_and_waiters(core, request->tenant, request->name, request->limit,
                                           on_grant, on_waiter, p);
        }
        return VIEW_END;
    case MEMORY_SESSION_NAMES:
        return write_session_names(core, request, p);
    }
    p->is_bad = true;
    return VIEW_END;
}

bool memory_page_write(const struct core *core, struct slice bytes, struct buffer *out)
{
    struct memory_request request;
    if (!request_decode(bytes, &request)) {
        return false;
    }
    struct page_writer p = {.out = out, .version = request.version};
    struct writer w;
    uint8_t format = record_format(request.version);
    if (!buffer_append(out, &format, 1)) {
        return false;
    }
    uint64_t end = request.kind == MEMORY_SESSION_NAMES ? VIEW_NAMES_END : VIEW_END;
    uint64_t next = core == NULL ? end : write_rows(core, &request, &p);
    if (!p.is_bad && row_begin(&p, &w, ROW_END)) {
        write_u64(&w, next);
        row_end(&p, &w);
    }
    return !p.is_bad;
}

static void read_grant(struct reader *r, uint32_t version, struct grant_view *f)
{
    *f = (struct grant_view){0};
    GRANT_VIEW_FIELDS(FIELD_TAKE)
}

static void read_lock(struct reader *r, uint32_t version, struct lock_view *f)
{
    *f = (struct lock_view){.tier = TIER_EFFICIENCY};
    LOCK_VIEW_FIELDS(FIELD_TAKE)
    if (f->has_holder) {
        read_grant(r, version, &f->first);
    }
}

static void read_waiter(struct reader *r, uint32_t version, struct waiter_view *f)
{
    WAITER_VIEW_FIELDS(FIELD_TAKE)
}

static void read_session(struct reader *r, uint32_t version, struct session_view *f)
{
    *f = (struct session_view){.is_private = true, .tier = TIER_EFFICIENCY};
    SESSION_VIEW_FIELDS(FIELD_TAKE)
}

static void read_name(struct reader *r, uint32_t version, struct session_name_view *out)
{
    *out = (struct session_name_view){.tier = TIER_EFFICIENCY};
    out->name = read_slice(r, LIMIT_NAME);
    out->is_held = read_u8(r) != 0;
    out->queue_length = read_u32(r);
    if (out->is_held) {
        read_grant(r, version, &out->grant);
    } else {
        read_waiter(r, version, &out->waiter);
    }
}

/* For the rows of a page; each may be NULL. */
struct page_visitor {
    view_lock_fn on_lock;
    view_grant_fn on_grant;
    view_waiter_fn on_waiter;
    view_session_fn on_session;
    view_session_name_fn on_name;
    void *ctx;
};

/* The next cursor; UINT64_MAX if the page is cut off. */
static uint64_t read_rows(struct slice page, const struct page_visitor *visitor)
{
    struct reader r = reader_make(page);
    struct lock_view lock;
    struct grant_view grant;
    struct waiter_view waiter;
    struct session_view session;
    struct session_name_view name;
    uint32_t version = page.len == 0 ? 0 : record_version(read_u8(&r));
    if (version == 0 || version > CORE_VERSION) {
        return UINT64_MAX;
    }
    while (!r.bad) {
        switch (read_u8(&r)) {
        case ROW_LOCK:
            read_lock(&r, version, &lock);
            if (!r.bad && visitor->on_lock != NULL) {
                visitor->on_lock(visitor->ctx, &lock);
            }
            break;
        case ROW_GRANT:
            read_grant(&r, version, &grant);
            if (!r.bad && visitor->on_grant != NULL) {
                visitor->on_grant(visitor->ctx, &grant);
            }
            break;
        case ROW_WAITER:
            read_waiter(&r, version, &waiter);
            if (!r.bad && visitor->on_waiter != NULL) {
                visitor->on_waiter(visitor->ctx, &waiter);
            }
            break;
        case ROW_SESSION:
            read_session(&r, version, &session);
            if (!r.bad && visitor->on_session != NULL) {
                visitor->on_session(visitor->ctx, &session);
            }
            break;
        case ROW_NAME:
            read_name(&r, version, &name);
            if (!r.bad && visitor->on_name != NULL) {
                visitor->on_name(visitor->ctx, &name);
            }
            break;
        case ROW_END: {
            uint64_t next = read_u64(&r);
            return r.bad ? UINT64_MAX : next;
        }
        default:
            r.bad = true;
        }
    }
    return UINT64_MAX;
}

static uint64_t read_page(struct slice page, const struct page_visitor *visitor)
{
    uint64_t next = read_rows(page, visitor);
    return next > VIEW_END ? VIEW_END : next;
}

uint64_t memory_page_locks(struct slice page, view_lock_fn on, void *ctx)
{
    return read_page(page, &(struct page_visitor){.on_lock = on, .ctx = ctx});
}

uint64_t memory_page_sessions(struct slice page, view_session_fn on, void *ctx)
{
    return read_page(page, &(struct page_visitor){.on_session = on, .ctx = ctx});
}

uint64_t memory_page_session_names(struct slice page, view_session_name_fn on, void *ctx)
{
    return read_rows(page, &(struct page_visitor){.on_name = on, .ctx = ctx});
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

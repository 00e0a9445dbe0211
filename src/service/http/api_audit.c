/* GET /api/v1/audit. Without filter, the records in the state, oldest first. With one, or with `order`,
 * also those that only the event log still has. */
#include "service/http/api.h"
#include "service/http/query.h"
#include "service/http/reply.h"
#include "service/request/audit_search.h"
#include "service/request/list_lock.h"
#include "service/request/operator.h"

static void put_record(struct json_writer *w, const struct audit_view *a)
{
    json_write_open(w, '{');
    json_put_u64(w, "number", a->number);
    json_put_string(w, "action", a->action);
    json_put_string(w, "resource", a->resource);
    json_put_string(w, "actorId", a->actor);
    json_put_string(w, "reason", a->reason);
    json_put_time(w, "createdAt", a->wall_ms);
    json_put_u64(w, "holders", a->count);
    reply_put_trace(w, a->trace);
    json_put_text(w, "tier", tier_name(operator_tier_of(a)));
    if (a->is_fence_reset) {
        json_put_u64(w, "slot", a->slot);
        json_put_u64(w, "previous", a->mark_before);
        json_put_u64(w, "highest", a->mark_after);
    }
    json_write_close(w);
}

struct audit_listing {
    struct api_request *x;
    struct json_writer *w;
    uint32_t count;
};

static void on_record(void *ctx, const struct audit_view *a)
{
    struct audit_listing *trail = ctx;
    trail->count++;
    if (a->tenant == trail->x->caller.id.tenant && operator_may_see(trail->x, a)) {
        put_record(trail->w, a);
    }
}

static void render_audit(struct api_request *x, const struct result *r, struct json_writer *w)
{
    struct audit_listing trail = {.x = x, .w = w};
    json_put_open(w, "records", '[');
    uint64_t next = view_audit(service_core(x->service), x->caller.id.tenant, x->page.cursor,
                               (uint32_t)x->page.limit, on_record, &trail);
    json_write_close(w);
    list_put_next(w, trail.count < x->page.limit ? UINT64_MAX : next, UINT64_MAX);
    list_put_stale(w, x);
}

static void render_found(struct api_request *x, const struct result *r, struct json_writer *w)
{
    const struct audit_found *found = audit_search_found(x);
    json_put_open(w, "records", '[');
    for (uint32_t i = 0; i < found->count; i++) {
        put_record(w, &found->records[i]);
    }
    json_write_close(w);
    if (found->next[0] != '\0') {
        json_put_text(w, "next_cursor", found->next);
    } else {
        json_put_null(w, "next_cursor");
    }
    if (found->complete_since_ms != 0) {
        json_put_time(w, "complete_since", found->complete_since_ms);
    } else {
        json_put_null(w, "complete_since");
    }
    list_put_stale(w, x);
}

static bool read_order(struct api_request *x, bool *newest_first)
{
    struct slice order;
    if (!uri_query_text(x->parameters, "order", &order)) {
        return true;
    }
    *newest_first = slice_is_word(order, "newest");
    if (!*newest_first && !slice_is_word(order, "oldest")) {
        api_request_fail(x, HF_FIELD_RANGE, "order: must be oldest or newest");
        return false;
    }
    return true;
}

/* False: invalid; answered. */
static bool read_query(struct api_request *x, struct audit_query *q)
{
    struct slice cursor;
    bool is_valid = query_text(x, "name", LIMIT_NAME, &q->name) &&
                    query_text(x, "actor", LIMIT_ACTOR, &q->actor) &&
                    query_text(x, "action", AUDIT_ACTION_MAX, &q->action) &&
                    query_instant(x, "since", UINT64_MAX, &q->since_ms) &&
                    query_instant(x, "until", UINT64_MAX, &q->until_ms) &&
                    query_range(x, q->since_ms, q->until_ms) && read_order(x, &q->newest_first);
    if (!is_valid) {
        return false;
    }
    if (uri_query_text(x->parameters, "cursor", &cursor) && !audit_cursor_parse(cursor, q)) {
        api_request_fail(x, HF_FIELD_RANGE, "cursor: must be the next_cursor of an earlier page");
        return false;
    }
    return audit_query_check(x, q);
}

void api_audit(struct api_request *x)
{
    static const char *const filters[] = {"name",  "prefix", "actor", "action",
                                          "since", "until",  "order"};
    struct audit_query q = {.limit = (uint32_t)x->page.limit};
    struct slice text;
    bool is_search = false;
    for (size_t i = 0; i < sizeof(filters) / sizeof(filters[0]); i++) {
        is_search |= uri_query_text(x->parameters, filters[i], &text);
    }
    if (!operator_is_allowed(x) || !read_query(x, &q)) {
        return;
    }
    q.match = q.name.len > 0 ? SCAN_EXACT_NAME : SCAN_ANY_NAME;
    if (x->name.len > 0) { /* the prefix */
        if (q.name.len > 0) {
            api_request_fail(x, HF_FIELD_RANGE, "prefix: not together with name");
            return;
        }
        q.match = SCAN_PREFIX;
        q.name = x->name;
    }
    if (is_search || q.from == AUDIT_FROM_POSITION) {
        audit_search_begin(x, &q, render_found);
    } else {
        x->page.cursor = q.number;
        api_request_read(x, render_audit);
    }
}

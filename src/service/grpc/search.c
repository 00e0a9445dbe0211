/* AdminService: searches in the audit trail and in the history of a lock. */
#include <holdfast/v1/admin.pb-c.h>

#include "service/grpc/rpc.h"
#include "service/http/reply.h"
#include "service/request/audit_search.h"
#include "service/request/history.h"
#include "service/request/operator.h"

/* False: invalid; answered. NULL leaves `*wall_ms` unchanged. */
static bool read_time(struct api_request *x, const Google__Protobuf__Timestamp *time,
                      const char *field, uint64_t *wall_ms)
{
    struct fault fault;
    const int64_t most_s = INT64_C(253402300799); /* the limit in timestamp.proto */
    if (time == NULL) {
        return true;
    }
    if (time->seconds < 0 || time->seconds > most_s || time->nanos < 0 || time->nanos > 999999999) {
        fault_set(&fault, HF_FIELD_RANGE, "%s: must be a time from the year 1970", field);
        api_request_fault(x, &fault);
        return false;
    }
    *wall_ms = (uint64_t)time->seconds * 1000 + (uint64_t)time->nanos / 1000000;
    return true;
}

static bool read_times(struct api_request *x, const Google__Protobuf__Timestamp *since,
                       const Google__Protobuf__Timestamp *until, uint64_t *since_ms,
                       uint64_t *until_ms)
{
    if (!read_time(x, since, "since", since_ms) || !read_time(x, until, "until", until_ms)) {
        return false;
    }
    if (until != NULL && *until_ms <= *since_ms) {
        api_request_fail(x, HF_FIELD_RANGE, "until: must be after since");
        return false;
    }
    return true;
}

struct audit_rows {
    struct api_request *x;
    Holdfast__V1__AuditResponse *out;
    uint32_t count;
};

static void put_record(struct audit_rows *trail, const struct audit_view *a)
{
    const struct service *s = trail->x->service;
    Holdfast__V1__AuditRecord *record = rpc_alloc(s, sizeof(*record));
    holdfast__v1__audit_record__init(record);
    record->number = a->number;
    record->action = rpc_string(s, a->action);
    record->resource = rpc_string(s, a->resource);
    record->actor_id = rpc_string(s, a->actor);
    record->reason = rpc_string(s, a->reason);
    record->trace = rpc_string(s, a->trace);
    record->created_at = rpc_time(s, a->wall_ms);
    record->holders = a->count;
    record->tier = rpc_tier_out(operator_tier_of(a));
    record->slot = a->slot;
    record->previous = a->mark_before;
    record->highest = a->mark_after;
    trail->out->records[trail->out->n_records++] = record;
}

static void on_record(void *ctx, const struct audit_view *a)
{
    struct audit_rows *trail = ctx;
    trail->count++;
    if (a->tenant == trail->x->caller.id.tenant && operator_may_see(trail->x, a)) {
        put_record(trail, a);
    }
}

static void render_audit(struct api_request *x, const struct result *r, struct json_writer *w)
{
    Holdfast__V1__AuditResponse out = HOLDFAST__V1__AUDIT_RESPONSE__INIT;
    struct audit_rows trail = {.x = x, .out = &out};
    rpc_render_begin(x->service);
    out.records = rpc_alloc(x->service, (size_t)x->page.limit * sizeof(*out.records));
    uint64_t next = view_audit(service_core(x->service), x->caller.id.tenant, x->page.cursor,
                               (uint32_t)x->page.limit, on_record, &trail);
    out.next_cursor = rpc_cursor(x->service, next, trail.count < x->page.limit ? next : UINT64_MAX);
    rpc_put(x, &out.base);
}

static void render_found(struct api_request *x, const struct result *r, struct json_writer *w)
{
    const struct audit_found *found = audit_search_found(x);
    Holdfast__V1__AuditResponse out = HOLDFAST__V1__AUDIT_RESPONSE__INIT;
    struct audit_rows trail = {.x = x, .out = &out};
    rpc_render_begin(x->service);
    out.records = rpc_alloc(x->service, ((size_t)found->count + 1) * sizeof(*out.records));
    for (uint32_t i = 0; i < found->count; i++) {
        put_record(&trail, &found->records[i]);
    }
    out.next_cursor = rpc_string(x->service, slice_of(found->next));
    out.complete_since =
        found->complete_since_ms == 0 ? NULL : rpc_time(x->service, found->complete_since_ms);
    rpc_put(x, &out.base);
}

/* False: invalid; answered. */
static bool read_query(struct api_request *x, const Holdfast__V1__AuditRequest *m,
                       struct audit_query *q)
{
    *q = (struct audit_query){.limit = (uint32_t)x->page.limit,
                              .actor = slice_of(m->actor_id),
                              .action = slice_of(m->action),
                              .newest_first = m->newest_first};
    bool is_exact = m->resource[0] != '\0';
    bool is_prefix = m->prefix[0] != '\0';
    q->name = slice_of(is_exact ? m->resource : m->prefix);
    q->match = is_exact ? SCAN_EXACT_NAME : is_prefix ? SCAN_PREFIX : SCAN_ANY_NAME;
    if (is_exact && is_prefix) {
        api_request_fail(x, HF_FIELD_RANGE, "prefix: not together with resource");
        return false;
    }
    if (q->name.len > LIMIT_NAME || q->actor.len > LIMIT_ACTOR ||
        q->action.len > AUDIT_ACTION_MAX) {
        api_request_fail(x, HF_FIELD_RANGE, "resource, prefix, actor_id, action: too long");
        return false;
    }
    if (m->cursor[0] != '\0' && !audit_cursor_parse(slice_of(m->cursor), q)) {
        api_request_fail(x, HF_FIELD_RANGE, "cursor: must be the next_cursor of an earlier page");
        return false;
    }
    return read_times(x, m->since, m->until, &q->since_ms, &q->until_ms) && audit_query_check(x, q);
}

void rpc_audit(struct api_request *x, const void *message)
{
    const Holdfast__V1__AuditRequest *m = message;
    struct audit_query q;
    if (!operator_is_allowed(x) || !rpc_page(x, m->limit, "", false) || !read_query(x, m, &q)) {
        return;
    }
    if (q.match != SCAN_ANY_NAME || q.actor.len > 0 || q.action.len > 0 || m->since != NULL ||
        m->until != NULL || q.newest_first || q.from == AUDIT_FROM_POSITION) {
        audit_search_begin(x, &q, render_found);
    } else {
        x->page.cursor = q.number;
        api_request_read(x, render_audit);
    }
}

/* ---- history ---- */

static Google__Protobuf__Timestamp *time_or_null(const struct service *s, uint64_t wall_ms)
{
    return wall_ms == 0 ? NULL : rpc_time(s, wall_ms);
}

static Google__Protobuf__Duration *span_or_null(const struct service *s, uint64_t ms)
{
    return ms == UINT64_MAX ? NULL : rpc_ms(s, ms);
}

static Holdfast__V1__PastHold *past_hold(const struct api_request *x, const struct past_hold *hold)
{
    const struct service *s = x->service;
    const char *end = history_end_name(hold);
    Holdfast__V1__PastHold *out = rpc_alloc(s, sizeof(*out));
    holdfast__v1__past_hold__init(out);
    out->client_id = rpc_string(s, hold->client);
    out->owner = rpc_string(s, hold->owner);
    out->mode = rpc_mode_out(hold->mode);
    out->tier = rpc_tier_out(hold->tier);
    out->slot = hold->slot;
    out->multilock_names = hold->parts;
    out->acquired_at = time_or_null(s, hold->acquired_ms);
    out->waited = span_or_null(s, hold->waited_ms);
    out->held = hold->state == HOLD_CURRENT;
    out->held_for = span_or_null(s, hold->held_ms);
    out->ended = rpc_string(s, slice_of(end == NULL ? "" : end));
    out->ended_at = time_or_null(s, hold->ended_ms);
    out->actor_id = rpc_string(s, hold->actor);
    out->reason = rpc_string(s, hold->reason);
    out->trace = rpc_string(s, hold->trace);
    if (x->is_operator) {
        out->fence_token = hold->token;
        out->session_id = rpc_id(s, hold->session);
        out->lease_id = rpc_id(s, hold->lease);
    }
    return out;
}

static void put_gaps(const struct service *s, const struct holds *h,
                     Holdfast__V1__HistoryResponse *out)
{
    out->gaps = rpc_alloc(s, HOLDS_GAPS * sizeof(*out->gaps));
    for (uint32_t i = 0; i < h->gap_count; i++) {
        Holdfast__V1__HistoryGap *gap = rpc_alloc(s, sizeof(*gap));
        holdfast__v1__history_gap__init(gap);
        gap->from = time_or_null(s, h->gaps[i].from_ms);
        gap->to = time_or_null(s, h->gaps[i].to_ms);
        out->gaps[out->n_gaps++] = gap;
    }
}

static void put_answer(const struct api_request *x, const struct holds *h,
                       Holdfast__V1__HistoryResponse *out)
{
    static const Holdfast__V1__HistoryAnswer answers[] = {
        [HOLDS_UNKNOWN] = HOLDFAST__V1__HISTORY_ANSWER__HISTORY_UNKNOWN,
        [HOLDS_FREE] = HOLDFAST__V1__HISTORY_ANSWER__HISTORY_FREE,
        [HOLDS_HELD] = HOLDFAST__V1__HISTORY_ANSWER__HISTORY_HELD};
    out->answer = answers[holds_answer(h)];
    out->certain = h->is_certain && !h->is_cut;
    out->previous = h->has_previous ? past_hold(x, &h->previous) : NULL;
}

static void render_history(struct api_request *x, const struct result *r, struct json_writer *w)
{
    const struct service *s = x->service;
    const struct holds *h = history_found(x);
    char cursor[EVENT_CURSOR_TEXT] = "";
    Holdfast__V1__HistoryResponse out = HOLDFAST__V1__HISTORY_RESPONSE__INIT;
    rpc_render_begin(x->service);
    out.holds = rpc_alloc(s, ((size_t)h->count + 1) * sizeof(*out.holds));
    for (uint32_t i = 0; i < h->count; i++) {
        out.holds[out.n_holds++] = past_hold(x, &h->rows[i]);
    }
    if (h->query.is_at) {
        put_answer(x, h, &out);
    } else if (h->more) {
        event_position_format(h->next, cursor);
    }
    out.next_cursor = cursor;
    out.complete_since = time_or_null(s, history_complete_since_ms(h));
    put_gaps(s, h, &out);
    out.node = s->node;
    rpc_put(x, &out.base);
}

void rpc_history(struct api_request *x, const void *message)
{
    const Holdfast__V1__HistoryRequest *m = message;
    struct history_query q = {.is_at = m->at != NULL, .is_continued = m->cursor[0] != '\0'};
    if (!rpc_name(x, m->resource_id) || !rpc_page(x, m->limit, "", m->stale) ||
        !read_time(x, m->at, "at", &q.at_ms) ||
        !read_times(x, m->since, m->until, &q.since_ms, &q.until_ms)) {
        return;
    }
    if (q.is_at && (q.is_continued || m->since != NULL || m->until != NULL)) {
        api_request_fail(x, HF_FIELD_RANGE, "at: not together with since, until or cursor");
    } else if (q.is_at && q.at_ms > x->service->gateway.wall_ms(x->service->gateway.ctx)) {
        api_request_fail(x, HF_FIELD_RANGE, "at: must not be in the future");
    } else if (q.is_continued && !event_position_parse(slice_of(m->cursor), &q.after)) {
        api_request_fail(x, HF_FIELD_RANGE, "cursor: must be the next_cursor of an earlier page");
    } else {
        history_begin(x, &q, render_history);
    }
}

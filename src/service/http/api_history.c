/* GET /api/v1/locks/{name}/history: a list of holds, or who held the name at a moment. Tokens and ids
 * only for operators (S4.4). */
#include "service/http/api.h"
#include "service/http/query.h"
#include "service/http/reply.h"
#include "service/request/history.h"
#include "service/request/list_lock.h"

static void put_time_or_null(struct json_writer *w, const char *key, uint64_t wall_ms)
{
    if (wall_ms != 0) {
        json_put_time(w, key, wall_ms);
    } else {
        json_put_null(w, key);
    }
}

static void put_span_or_null(struct json_writer *w, const char *key, uint64_t ms)
{
    if (ms != UINT64_MAX) {
        json_put_u64(w, key, ms);
    } else {
        json_put_null(w, key);
    }
}

static void put_text(struct json_writer *w, const char *key, struct slice text)
{
    if (text.len > 0) {
        json_put_string(w, key, text);
    }
}

static void put_hold(const struct api_request *x, struct json_writer *w,
                     const struct past_hold *hold)
{
    const char *end = history_end_name(hold);
    json_write_open(w, '{');
    json_put_string(w, "client_id", hold->client);
    put_text(w, "owner", hold->owner);
    json_put_text(w, "mode", mode_name(hold->mode));
    json_put_text(w, "tier", tier_name(hold->tier));
    if (hold->mode == MODE_SEMAPHORE) {
        json_put_u64(w, "slot", hold->slot);
    }
    if (hold->parts > 1) {
        json_put_u64(w, "multilock_names", hold->parts);
    }
    if (x->is_operator) {
        json_put_u64(w, "fencing_token", hold->token);
        reply_put_id(w, "session_id", hold->session);
        reply_put_id(w, "lease_id", hold->lease);
    }
    put_time_or_null(w, "acquired_at", hold->acquired_ms);
    put_span_or_null(w, "waited_ms", hold->waited_ms);
    json_put_bool(w, "held", hold->state == HOLD_CURRENT);
    put_span_or_null(w, "held_ms", hold->held_ms);
    if (end != NULL) {
        json_put_text(w, "ended", end);
    } else {
        json_put_null(w, "ended");
    }
    put_time_or_null(w, "ended_at", hold->ended_ms);
    put_text(w, "actor_id", hold->actor);
    put_text(w, "reason", hold->reason);
    reply_put_trace(w, hold->trace);
    json_write_close(w);
}

/* About the log of this node. */
static void put_log(const struct api_request *x, struct json_writer *w, const struct holds *h)
{
    put_time_or_null(w, "complete_since", history_complete_since_ms(h));
    json_put_open(w, "gaps", '[');
    for (uint32_t i = 0; i < h->gap_count; i++) {
        json_write_open(w, '{');
        put_time_or_null(w, "from", h->gaps[i].from_ms);
        put_time_or_null(w, "to", h->gaps[i].to_ms);
        json_write_close(w);
    }
    json_write_close(w);
    json_put_u64(w, "node", x->service->node);
    list_put_stale(w, x);
}

static void put_holds(const struct api_request *x, struct json_writer *w, const struct holds *h)
{
    json_put_string(w, "name", x->name);
    json_put_open(w, "holds", '[');
    for (uint32_t i = 0; i < h->count; i++) {
        put_hold(x, w, &h->rows[i]);
    }
    json_write_close(w);
}

static void render_list(struct api_request *x, const struct result *r, struct json_writer *w)
{
    const struct holds *h = history_found(x);
    put_holds(x, w, h);
    if (h->more) {
        char cursor[EVENT_CURSOR_TEXT];
        event_position_format(h->next, cursor);
        json_put_text(w, "next_cursor", cursor);
    } else {
        json_put_null(w, "next_cursor");
    }
    put_log(x, w, h);
}

static void render_at(struct api_request *x, const struct result *r, struct json_writer *w)
{
    static const char *const answers[] = {
        [HOLDS_UNKNOWN] = "unknown", [HOLDS_FREE] = "free", [HOLDS_HELD] = "held"};
    const struct holds *h = history_found(x);
    json_put_time(w, "at", h->query.at_ms);
    json_put_text(w, "answer", answers[holds_answer(h)]);
    json_put_bool(w, "certain", h->is_certain && !h->is_cut);
    put_holds(x, w, h);
    if (h->has_previous) {
        json_write_key(w, "previous");
        put_hold(x, w, &h->previous);
    } else {
        json_put_null(w, "previous");
    }
    put_log(x, w, h);
}

void api_lock_history(struct api_request *x)
{
    struct history_query q = {.is_at = false};
    struct slice text;
    uint64_t now_ms = x->service->gateway.wall_ms(x->service->gateway.ctx);
    q.is_at = uri_query_text(x->parameters, "at", &text);
    if (!query_instant(x, "at", now_ms, &q.at_ms) ||
        !query_instant(x, "since", UINT64_MAX, &q.since_ms) ||
        !query_instant(x, "until", UINT64_MAX, &q.until_ms) ||
        !query_range(x, q.since_ms, q.until_ms)) {
        return;
    }
    q.is_continued = uri_query_text(x->parameters, "cursor", &text);
    if (q.is_continued && !event_position_parse(text, &q.after)) {
        api_request_fail(x, HF_FIELD_RANGE, "cursor: must be the next_cursor of an earlier page");
        return;
    }
    if (q.is_at && (q.is_continued || uri_query_text(x->parameters, "since", &text) ||
                    uri_query_text(x->parameters, "until", &text))) {
        api_request_fail(x, HF_FIELD_RANGE, "at: not together with since, until or cursor");
        return;
    }
    history_begin(x, &q, q.is_at ? render_at : render_list);
}

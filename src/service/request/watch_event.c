/* Server-sent events, and which stream receives which (S4.4). Only the stream of the owning session
 * shows tokens and ids. */
#include "service/request/watch_event.h"

#include <inttypes.h>

#include "service/http/reply.h"
#include "service/request/election.h"
#include "service/request/list_lock.h"
#include "service/request/session_events.h"

static bool parse_number(struct slice text, uint64_t max, uint64_t *out)
{
    uint64_t value = 0;
    if (text.len == 0 || text.len > 16) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') {
            return false;
        }
        value = value * 10 + (uint64_t)(text.data[i] - '0');
    }
    *out = value;
    return value <= max;
}

bool watch_parse_id(struct slice text, struct event_id *out)
{
    uint64_t index;
    uint64_t ordinal;
    const uint8_t *dash = text.len == 0 ? NULL : memchr(text.data, '-', text.len);
    if (dash == NULL) {
        return false;
    }
    size_t len = (size_t)(dash - text.data);
    if (!parse_number(slice_make(text.data, len), LIMIT_NUMBER - 1, &index) ||
        !parse_number(slice_make(dash + 1, text.len - len - 1), UINT32_MAX, &ordinal)) {
        return false;
    }
    *out = (struct event_id){index, (uint32_t)ordinal};
    return true;
}

bool watch_is_for(const struct api_request *x, const struct event *e)
{
    if (e->tenant != x->caller.id.tenant && e->name.len + e->client.len > 0) {
        return false;
    }
    if (e->type == EVENT_LINGERS) {
        return false; /* for the node of the stream only */
    }
    switch (x->watcher.kind) {
    case WATCH_ELECTION:
        return (e->type == EVENT_LEADER_CHANGED || e->type == EVENT_PROCLAIMED) &&
               slice_equal(e->name, x->name);
    case WATCH_SESSION:
        return (e->type == EVENT_EPOCH ||
                (!id_is_zero(e->session) && id_equal(e->session, x->watcher.session))) &&
               (!x->watcher.is_brief || session_event_is_brief(e));
    case WATCH_PREFIX:
        break;
    }
    /* LOST and SUPERSEDED are for the affected session; other streams get expired, forced or
     * revoked. PUBLISHED is for Redis-protocol subscribers: its channel is no lock (S13.7). */
    if (e->type == EVENT_LOST || e->type == EVENT_SUPERSEDED || e->type == EVENT_PUBLISHED) {
        return false;
    }
    bool is_about_somebody = e->name.len + e->client.len > 0;
    return slice_starts_with(e->name, x->name) && (!is_about_somebody || list_may_read(x, e->name));
}

/* The caller adds the JSON and an empty line. */
static void write_head(struct buffer *out, const char *type, struct event_id id)
{
    buffer_printf(out, "id: %" PRIu64 "-%" PRIu32 "\nevent: %s\ndata: ", id.index, id.ordinal,
                  type);
}

static void write_position(struct api_request *x, const char *type)
{
    struct buffer *out = &x->service->scratch;
    write_head(out, type, x->watcher.seen);
    buffer_append_text(out, "{}\n\n");
}

static void write_reset(struct api_request *x)
{
    struct buffer *out = &x->service->scratch;
    struct json_writer w;
    buffer_append_text(out, "event: reset\ndata: ");
    json_writer_init(&w, out);
    json_write_open(&w, '{');
    if (x->watcher.missing_to != 0) {
        json_put_u64(&w, "missing_from", x->watcher.missing_from);
        json_put_u64(&w, "missing_to", x->watcher.missing_to);
    }
    json_write_close(&w);
    buffer_append_text(out, "\n\n");
}

static void write_beat(struct api_request *x)
{
    x->transport->piece(x, slice_of(": still here\n\n"));
}

static void write_lock(struct api_request *x, const struct lock_view *lock)
{
    struct buffer *out = &x->service->scratch;
    struct json_writer w;
    buffer_append_text(out, "event: lock\ndata: ");
    json_writer_init(&w, out);
    list_lock_row(&w, x->service, lock);
    buffer_append_text(out, "\n\n");
}

static void write_leader(struct api_request *x, const struct lock_view *lock)
{
    struct buffer *out = &x->service->scratch;
    struct json_writer w;
    write_head(out, "leader", x->watcher.seen);
    json_writer_init(&w, out);
    json_write_open(&w, '{');
    json_put_string(&w, "name", x->name);
    election_put_leader(&w, x->service, lock);
    json_write_close(&w);
    buffer_append_text(out, "\n\n");
}

static void write_skipped(struct api_request *x, uint64_t events)
{
    struct buffer *out = &x->service->scratch;
    struct json_writer w;
    write_head(out, "skipped", x->watcher.seen);
    json_writer_init(&w, out);
    json_write_open(&w, '{');
    json_put_u64(&w, "events", events);
    json_write_close(&w);
    buffer_append_text(out, "\n\n");
}

static void write_dropped(struct api_request *x, const char *why)
{
    struct buffer *out = &x->service->scratch;
    struct json_writer w;
    write_head(out, "dropped", x->watcher.seen);
    json_writer_init(&w, out);
    json_write_open(&w, '{');
    json_put_text(&w, "reason", why);
    json_write_close(&w);
    buffer_append_text(out, "\n\n");
}

static void put_text(struct json_writer *w, const char *key, struct slice text)
{
    if (text.len > 0) {
        json_put_string(w, key, text);
    }
}

static bool has_reason(const struct event *e)
{
    return e->type == EVENT_WAIT_ENDED || e->type == EVENT_RENEWAL_FAILED ||
           e->type == EVENT_FENCE_REJECTED || e->type == EVENT_SUPERSEDED;
}

static bool has_deadline(const struct event *e)
{
    return e->deadline_ms != 0 && e->deadline_ms != UINT64_MAX;
}

static const char *deadline_key(enum event_type type)
{
    switch (type) {
    case EVENT_QUEUED:
    case EVENT_WAIT_ENDED:
    case EVENT_SUPERSEDED:
        return "gives_up_at";
    case EVENT_DELAYED:
        return "delayed_until";
    case EVENT_DETACHED:
        return "leaves_at";
    case EVENT_REVOKE_REQUESTED:
        return "revoked_at";
    default:
        return "expires_at";
    }
}

/* Past its long-held rule (S16.2). */
static void put_long_held(struct json_writer *w, const struct event *e)
{
    json_put_string(w, "rule", e->text.len == 0 ? slice_of("*") : e->text);
    json_put_time(w, "since", e->since_wall_ms);
    json_put_u64(w, "held_ms", e->at_ms - e->since_ms);
}

static void put_own(struct json_writer *w, const struct api_request *x, const struct event *e)
{
    if (x->watcher.kind != WATCH_SESSION || id_is_zero(e->session)) {
        return;
    }
    if (e->token != 0) {
        json_put_u64(w, "fencing_token", e->token);
    }
    if (!id_is_zero(e->lease)) {
        reply_put_id(w, "lease_id", e->lease);
    }
}

static void write_event(struct api_request *x, const struct event *e)
{
    struct buffer *out = &x->service->scratch;
    struct json_writer w;
    bool is_leader = e->type == EVENT_LEADER_CHANGED || e->type == EVENT_PROCLAIMED;
    if (e->tier == TIER_CORRECTNESS) {
        write_head(out, event_name(e->type), (struct event_id){e->index, e->ordinal});
    } else { /* no id to resume from: no node stores the event (S9.3, S10) */
        buffer_printf(out, "event: %s\ndata: ", event_name(e->type));
    }
    json_writer_init(&w, out);
    json_write_open(&w, '{');
    json_put_text(&w, "type", event_name(e->type));
    json_put_time(&w, "at", e->wall_ms);
    put_text(&w, "name", e->name);
    put_text(&w, "client_id", e->client);
    put_text(&w, "owner", e->owner);
    put_text(&w, "trace", e->trace);
    if (e->name.len > 0 && e->type != EVENT_FENCE_REJECTED && e->type != EVENT_RENEWAL_FAILED) {
        json_put_text(&w, "mode", mode_name(e->mode));
        json_put_text(&w, "tier", tier_name((enum tier)e->tier));
    }
    if (e->parts > 1) {
        json_put_u64(&w, "part", e->part);
        json_put_u64(&w, "parts", e->parts);
    }
    if (has_reason(e)) {
        json_put_text(&w, "reason", reason_name(e->reason));
    }
    if (e->ended != ENDED_NOT) {
        json_put_text(&w, "ended", ended_name(e->ended));
    }
    if (has_deadline(e)) {
        /* Relative to the log entry, not to the local clock: the same on every node, and later. */
        json_put_time(&w, deadline_key(e->type), e->wall_ms + e->deadline_ms - e->at_ms);
    }
    put_text(&w, "actor_id", e->actor);
    if (e->type == EVENT_EPOCH) {
        json_put_u64(&w, "leader_epoch", e->token);
    }
    if (e->type == EVENT_LONG_HELD) {
        put_long_held(&w, e);
    } else if (is_leader) {
        json_put_string(&w, "value", e->text);
        json_put_bool(&w, "vacant", e->client.len == 0);
    } else {
        put_text(&w, "text", e->text);
    }
    put_own(&w, x, e);
    json_write_close(&w);
    buffer_append_text(out, "\n\n");
}

const struct watch_format watch_sse = {
    .event = write_event,
    .position = write_position,
    .reset = write_reset,
    .skipped = write_skipped,
    .dropped = write_dropped,
    .lock = write_lock,
    .leader = write_leader,
    .beat = write_beat,
};

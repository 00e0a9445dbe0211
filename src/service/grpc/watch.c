/* LockService.Watch and ElectionService.Observe. request/watch.c selects events and position. */
#include <inttypes.h>
#include <stdio.h>

#include <holdfast/v1/election.pb-c.h>

#include "service/grpc/rpc.h"
#include "service/http/reply.h"
#include "service/request/watch_event.h"
#include "service/request/watch_replay.h"

enum { EVENT_ID_TEXT = 32 };

static void format_event_id(struct event_id id, char out[EVENT_ID_TEXT])
{
    (void)snprintf(out, EVENT_ID_TEXT, "%" PRIu64 "-%" PRIu32, id.index, id.ordinal);
}

/* Events of the tier EFFICIENCY have no id: no node stores them (S9.3, S10). */
static void format_id_of(const struct event *e, char out[EVENT_ID_TEXT])
{
    out[0] = '\0';
    if (e->tier == TIER_CORRECTNESS) {
        format_event_id((struct event_id){e->index, e->ordinal}, out);
    }
}

static void put_word(struct api_request *x, const char *type, bool has_id, const char *text)
{
    char id[EVENT_ID_TEXT];
    Holdfast__V1__Event out = HOLDFAST__V1__EVENT__INIT;
    format_event_id(x->watcher.seen, id);
    if (has_id) {
        out.id = id;
    }
    out.type = (char *)(uintptr_t)type;
    out.text = (char *)(uintptr_t)text;
    rpc_put(x, &out.base);
}

static void write_position(struct api_request *x, const char *type)
{
    put_word(x, type, true, "");
}

static void write_reset(struct api_request *x)
{
    char missing[REPLAY_TEXT];
    replay_missing_text(&x->watcher, missing);
    put_word(x, "reset", false, missing);
}

static void write_skipped(struct api_request *x, uint64_t events)
{
    char id[EVENT_ID_TEXT];
    Holdfast__V1__Event out = HOLDFAST__V1__EVENT__INIT;
    format_event_id(x->watcher.seen, id);
    out.id = id;
    out.type = (char *)(uintptr_t) "skipped";
    out.skipped = events;
    rpc_put(x, &out.base);
}

static void write_dropped(struct api_request *x, const char *why)
{
    put_word(x, "dropped", true, why);
}

static void write_event(struct api_request *x, const struct event *e)
{
    const struct service *s = x->service;
    char id[EVENT_ID_TEXT];
    Holdfast__V1__Event out = HOLDFAST__V1__EVENT__INIT;
    rpc_render_begin(x->service);
    format_id_of(e, id);
    out.id = id;
    out.type = (char *)(uintptr_t)event_name(e->type);
    out.at = rpc_time(s, e->wall_ms);
    out.resource_id = rpc_string(s, e->name);
    out.client_id = rpc_string(s, e->client);
    out.owner = rpc_string(s, e->owner);
    out.trace = rpc_string(s, e->trace);
    if (e->name.len > 0 && e->type != EVENT_FENCE_REJECTED && e->type != EVENT_RENEWAL_FAILED) {
        out.mode = rpc_mode_out(e->mode);
        out.tier = rpc_tier_out((enum tier)e->tier);
    }
    out.reason = rpc_reason_out(e->reason);
    if (e->ended != ENDED_NOT) {
        out.ended = (char *)(uintptr_t)ended_name(e->ended);
    }
    out.deadline = rpc_when(s, e->deadline_ms);
    out.actor_id = rpc_string(s, e->actor);
    bool is_of_all = e->type == EVENT_LONG_HELD && e->text.len == 0;
    out.text = rpc_string(s, is_of_all ? slice_of("*") : e->text);
    if (e->parts > 1) {
        out.part = e->part;
        out.parts = e->parts;
    }
    rpc_put(x, &out.base);
}

static void write_lock(struct api_request *x, const struct lock_view *lock)
{
    const struct service *s = x->service;
    Holdfast__V1__Event out = HOLDFAST__V1__EVENT__INIT;
    out.type = (char *)(uintptr_t) "lock";
    rpc_render_begin(x->service);
    out.resource_id = rpc_string(s, lock->name);
    out.mode = rpc_mode_out(lock->mode);
    out.tier = rpc_tier_out((enum tier)lock->tier);
    if (lock->has_holder) {
        const struct holder_view *holder = &lock->first.holder;
        out.client_id = rpc_string(s, holder->client);
        out.owner = rpc_string(s, holder->owner);
        out.trace = rpc_string(s, holder->trace);
        out.at = rpc_since(s, holder->since_ms, holder->since_wall_ms);
        out.deadline = rpc_when(s, holder->deadline_ms);
    }
    rpc_put(x, &out.base);
}

/* gRPC has no comments; HTTP/2 pings check the connection. */
static void beat(struct api_request *x)
{
    struct stream *stream = stream_of(x);
    http2_ping(stream->conn->http2);
    conn_mark_ready(stream->conn);
}

static const struct watch_format events = {
    .event = write_event,
    .position = write_position,
    .reset = write_reset,
    .skipped = write_skipped,
    .dropped = write_dropped,
    .lock = write_lock,
    .leader = NULL,
    .beat = beat,
};

static bool read_after(struct api_request *x, const char *after_id)
{
    if (after_id[0] == '\0') {
        return true;
    }
    x->watcher.is_resumed = watch_parse_id(slice_of(after_id), &x->watcher.seen);
    if (!x->watcher.is_resumed) {
        api_request_fail(x, HF_FIELD_TYPE, "after_id: must be INDEX-ORDINAL");
    }
    return x->watcher.is_resumed;
}

void rpc_watch(struct api_request *x, const void *message)
{
    const Holdfast__V1__WatchRequest *m = message;
    x->watcher.kind = WATCH_PREFIX;
    x->watcher.format = &events;
    if ((m->prefix[0] == '\0' || rpc_name(x, m->prefix)) && read_after(x, m->after_id) &&
        watch_set_rate(x, m->max_rate)) {
        watch_begin(x);
    }
}

static void observe_event(struct api_request *x, const struct event *e)
{
    const struct service *s = x->service;
    char id[EVENT_ID_TEXT];
    Holdfast__V1__LeaderResponse out = HOLDFAST__V1__LEADER_RESPONSE__INIT;
    Holdfast__V1__Holder holder = HOLDFAST__V1__HOLDER__INIT;
    rpc_render_begin(x->service);
    format_id_of(e, id);
    out.event_id = id;
    out.name = rpc_string(s, e->name);
    out.vacant = e->client.len == 0;
    out.value = rpc_string(s, e->text);
    if (!out.vacant) {
        holder.client_id = rpc_string(s, e->client);
        holder.owner = rpc_string(s, e->owner);
        holder.mode = HOLDFAST__V1__MODE__ELECTION;
        holder.permits = 1;
        out.leader = &holder;
    }
    rpc_put(x, &out.base);
}

static void observe_leader(struct api_request *x, const struct lock_view *lock)
{
    char id[EVENT_ID_TEXT];
    Holdfast__V1__LeaderResponse out;
    format_event_id(x->watcher.seen, id);
    rpc_render_begin(x->service);
    rpc_leader_response(x, lock, &out);
    out.event_id = id;
    rpc_put(x, &out.base);
}

static void observe_nothing(struct api_request *x, const char *why)
{
    (void)x; /* the status of the call reports it */
    (void)why;
}

static const struct watch_format leaders = {
    .event = observe_event,
    .position = observe_nothing,
    .reset = NULL,
    .skipped = NULL,
    .dropped = observe_nothing,
    .lock = NULL,
    .leader = observe_leader,
    .beat = beat,
};

void rpc_observe(struct api_request *x, const void *message)
{
    const Holdfast__V1__LeaderRequest *m = message;
    x->watcher.kind = WATCH_ELECTION;
    x->watcher.format = &leaders;
    if (rpc_name(x, m->name)) {
        watch_begin(x);
    }
}

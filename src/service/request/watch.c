/* Streams of events, see watch.h. service_run writes them, and so does a query's result.
 *
 * A client that is too slow is notified and dropped while the ring still has its next event: it can
 * resume without a gap. A client that resumes later gets a `reset` and a full listing (S9.3). */
#include "service/request/watch.h"

#include <stdio.h>

#include "service/http/api.h"
#include "service/http/reply.h"
#include "service/request/list_lock.h"
#include "service/request/memory_page.h"
#include "service/request/session.h"
#include "service/request/session_events.h"
#include "service/request/watch_event.h"
#include "service/request/watch_replay.h"

enum {
    BACKLOG_SOFT = 64 << 10, /* unsent bytes above which nothing is added */
    PIECE_SOFT = 16 << 10,   /* bytes of events in one piece, about */
    LIST_PAGE = 100,
    RING_LOOK_MS = 60000,
};

static struct api_request *api_request_of(struct list *link)
{
    return (struct api_request *)(void *)((char *)link -
                                          offsetof(struct api_request, watcher.link));
}

void watch_send_scratch(struct api_request *x)
{
    struct service *s = x->service;
    if (buffer_len(&s->scratch) > 0) {
        x->transport->piece(x, buffer_bytes(&s->scratch));
        x->watcher.beat_ms = service_boot_ms(s) + s->options.heartbeat_ms;
    }
    buffer_truncate(&s->scratch, 0);
}

static void leave_streams(struct api_request *x)
{
    if (x->pending != NULL) {
        pending_abandon(x->pending);
        x->pending = NULL;
    }
    replay_stop(x);
    list_remove(&x->watcher.link);
    x->service->stream_count--;
    if (x->watcher.kind != WATCH_SESSION) {
        auth_watch_ended(x->service, x->caller.id.tenant);
    }
    if (x->watcher.stream != 0) {
        pending_stream_down(x->service, x->caller.id, x->watcher.session, x->watcher.stream);
    }
}

void watch_stop(struct api_request *x)
{
    if (!list_is_empty(&x->watcher.link)) {
        leave_streams(x);
    }
}

void watch_drop(struct api_request *x, enum hf_error error, const char *why)
{
    struct service *s = x->service;
    buffer_truncate(&s->scratch, 0);
    if (x->watcher.limit.skipped > 0) { /* the client resumes after them */
        x->watcher.format->skipped(x, x->watcher.limit.skipped);
        x->watcher.limit.skipped = 0;
    }
    x->watcher.format->dropped(x, why);
    watch_send_scratch(x);
    leave_streams(x);
    s->requests++;
    s->grpc_requests += !x->transport->is_json;
    x->transport->end(x, error, why);
}

static void on_lock(void *ctx, const struct lock_view *lock)
{
    struct api_request *x = ctx;
    if (list_may_read(x, lock->name)) {
        x->watcher.format->lock(x, lock);
    }
}

static void write_found(struct api_request *x, struct slice page)
{
    struct watcher *watcher = &x->watcher;
    uint64_t next = memory_page_locks(page, on_lock, x);
    watcher->list_cursor = MEMORY_CURSOR + next;
    if (next == VIEW_END) {
        watcher->is_listing = false;
        watcher->format->position(x, "listed");
    }
    x->service->pump = true; /* one page per loop turn is enough */
}

static void on_looked(void *owner, enum hf_error error, const struct result *result)
{
    struct api_request *x = owner;
    struct service *s = x->service;
    struct pending_request *pending = x->pending;
    (void)result;
    x->pending = NULL;
    (void)pending_settle(pending);
    if (error != HF_OK) {
        /* An incomplete listing has no id to resume from. */
        leave_streams(x);
        s->requests++;
        s->grpc_requests += !x->transport->is_json;
        x->transport->end(x, HF_UNAVAILABLE,
                          "cannot list the tier EFFICIENCY: no leader; start a new watch");
        return;
    }
    buffer_truncate(&s->scratch, 0);
    write_found(x, s->looked);
    watch_send_scratch(x);
}

/* A follower queries the leader. No gap before the events: a node subscribes before it sends the
 * query (node_turn.c). */
static void look_up(struct api_request *x)
{
    const struct core *memory = service_tier_core(x->service, TIER_EFFICIENCY);
    uint8_t bytes[MEMORY_REQUEST_BYTES];
    struct memory_request request = {.version = core_version(service_core(x->service)),
                                     .kind = MEMORY_LOCKS,
                                     .tenant = x->caller.id.tenant,
                                     .cursor = x->watcher.list_cursor - MEMORY_CURSOR,
                                     .limit = LIST_PAGE,
                                     .name = x->name};
    struct slice look = slice_make(bytes, memory_request_encode(&request, bytes));
    if (memory == NULL) {
        x->pending = pending_look(x->service, look, on_looked, x);
        return;
    }
    struct buffer page;
    buffer_init(&page, x->service->memory, MEMORY_PAGE_BYTES);
    bool fits = memory_page_write(memory, look, &page);
    hf_assert(fits); /* a page of LIST_PAGE rows always does */
    write_found(x, buffer_bytes(&page));
    buffer_close(&page);
}

/* Events that occur meanwhile stay in the ring and follow the listing. */
static void list_page(struct api_request *x)
{
    struct watcher *watcher = &x->watcher;
    struct service *s = x->service;
    if (!watcher->is_listed) {
        watcher->is_listed = true;
        watcher->format->reset(x);
    }
    if (watcher->list_cursor >= MEMORY_CURSOR) {
        look_up(x);
        return;
    }
    uint64_t next = view_locks(service_core(s), x->caller.id.tenant, x->name, watcher->list_cursor,
                               LIST_PAGE, on_lock, x);
    watcher->list_cursor = next == VIEW_END ? MEMORY_CURSOR : next;
    s->pump = true;
}

static void begin_listing(struct api_request *x)
{
    struct watcher *watcher = &x->watcher;
    watcher->is_listing = watcher->kind == WATCH_PREFIX;
    watcher->is_listed = false;
    watcher->list_cursor = 0;
    watcher->position = x->service->events.tail;
    watcher->seen = x->service->events.newest;
}

/* At the start and after missed events. Elections are in the tier CORRECTNESS. */
static void write_leader(struct api_request *x)
{
    struct lock_view lock = {.has_holder = false};
    (void)view_lock(service_core(x->service), x->caller.id.tenant, x->name, &lock);
    x->watcher.format->leader(x, &lock);
}

/* Events were overwritten before they were read, or skipped by a snapshot. */
void watch_start_over(struct api_request *x)
{
    begin_listing(x);
    x->watcher.limit.skipped = 0; /* `reset` covers them */
    if (x->watcher.kind == WATCH_ELECTION) {
        write_leader(x);
    } else if (x->watcher.kind == WATCH_SESSION) {
        x->watcher.format->reset(x);
        x->watcher.format->position(x, "ready");
        if (session_events_is_gone(x)) {
            x->watcher.format->dropped(x, "the session is not known here; its end may be among "
                                          "the missing events: resume, or send a keep-alive");
            x->watcher.is_over = true;
        }
    }
}

/* More than half of the ring behind. A stream that resumed from further back may catch up, unless
 * its distance grows by more than an eighth. */
static bool is_too_slow(struct api_request *x)
{
    const struct event_ring *ring = &x->service->events;
    struct watcher *watcher = &x->watcher;
    uint64_t behind = ring->tail - watcher->position;
    uint64_t slack = watcher->behind + ring->size / 8;
    if (behind < watcher->behind) {
        watcher->behind = behind;
    }
    return behind > ring->size / 2 && behind > slack;
}

/* ---- limited streams ---- */

bool watch_set_rate(struct api_request *x, uint64_t max_rate)
{
    if (max_rate != 0 && x->watcher.kind == WATCH_SESSION) {
        api_request_fail(x, HF_FIELD_RANGE,
                         "max_rate: not with session_id: no event of a session is skipped");
        return false;
    }
    if (max_rate > WATCH_RATE_MAX) {
        api_request_fail(x, HF_FIELD_RANGE, "max_rate: must be at most 100000 events a second");
        return false;
    }
    x->watcher.limit = (struct watch_limit){.max_rate = (uint32_t)max_rate};
    return true;
}

/* If the second is over, reports what was skipped in it and begins the next one. Events that were read
 * before have ids up to watcher.seen. */
void watch_limit_step(struct api_request *x)
{
    struct watch_limit *limit = &x->watcher.limit;
    if (limit->max_rate == 0) {
        return;
    }
    uint64_t now_ms = service_boot_ms(x->service);
    if (now_ms < limit->second_ms + WATCH_SECOND_MS) {
        return;
    }
    if (limit->skipped > 0) {
        x->watcher.format->skipped(x, limit->skipped);
    }
    limit->skipped = 0;
    limit->report_ms = 0;
    limit->sent = 0;
    limit->second_ms = now_ms;
}

/* Whether the event is sent. Encoding is most of its cost. */
static bool limit_take(struct watch_limit *limit)
{
    if (limit->max_rate == 0 || limit->sent < limit->max_rate) {
        limit->sent++;
        return true;
    }
    limit->skipped++;
    limit->report_ms = limit->second_ms + WATCH_SECOND_MS;
    return false;
}

/* True once. If the client does not read now, the report follows when it does. */
static bool limit_is_due(struct watch_limit *limit, uint64_t now_ms)
{
    if (limit->report_ms == 0 || limit->report_ms > now_ms) {
        return false;
    }
    limit->report_ms = 0;
    return true;
}

void watch_add_event(struct api_request *x, const struct event *e)
{
    struct watcher *watcher = &x->watcher;
    watcher->seen = (struct event_id){e->index, e->ordinal};
    if (watch_is_for(x, e) && limit_take(&watcher->limit)) {
        watcher->format->event(x, e);
        watcher->is_over = watcher->is_brief && session_event_is_end(e);
    }
}

/* The session has ended, and the client has got that. */
static void finish(struct api_request *x)
{
    struct service *s = x->service;
    x->watcher.stream = 0; /* it has ended with its session */
    leave_streams(x);
    s->requests++;
    s->grpc_requests += !x->transport->is_json;
    x->transport->end(x, HF_OK, NULL);
}

/* Events were overwritten before they were sent, or a snapshot replaced them. A listing begins anew. */
static void replay_or_start_over(struct api_request *x)
{
    if (!x->watcher.is_listing && replay_possible(x)) {
        replay_begin(x);
    } else {
        watch_start_over(x);
    }
}

/* False: nothing to send for now. */
static bool fill_piece(struct api_request *x)
{
    struct service *s = x->service;
    struct watcher *watcher = &x->watcher;
    const struct event *e;
    buffer_truncate(&s->scratch, 0);
    if (x->pending != NULL) {
        return false; /* a query to the leader is in flight */
    }
    if (!watcher->is_replaying && watcher->position < s->events.head) {
        replay_or_start_over(x);
    }
    watch_limit_step(x);
    if (watcher->is_replaying && !replay_step(x)) {
        return false;
    }
    if (watcher->is_listing) {
        list_page(x);
        return false;
    }
    while (buffer_len(&s->scratch) < PIECE_SOFT && !watcher->is_over) {
        e = event_ring_next(&s->events, &watcher->position);
        if (e == NULL) {
            return false;
        }
        watch_add_event(x, e);
    }
    return true;
}

static void pump(struct api_request *x)
{
    struct service *s = x->service;
    while (x->transport->backlog(x) < BACKLOG_SOFT && !x->watcher.is_over) {
        bool is_more = fill_piece(x);
        watch_send_scratch(x);
        if (!is_more && !x->watcher.is_over) {
            return;
        }
    }
    if (x->watcher.is_over) {
        finish(x);
        return;
    }
    if (!x->watcher.is_replaying && is_too_slow(x)) {
        s->dropped_streams++;
        watch_drop(x, HF_UNAVAILABLE, "too slow; resume after the last event");
    }
}

static void beat(struct api_request *x, uint64_t now_ms)
{
    if (x->watcher.beat_ms <= now_ms) {
        x->watcher.beat_ms = now_ms + x->service->options.heartbeat_ms;
        if (x->transport->backlog(x) < BACKLOG_SOFT) {
            x->watcher.format->beat(x);
        }
    }
}

/* A copy of each event is made for streams, also of those that come back. After a minute without any, the
 * event log is enough for the latter. Not if it loses records. */
static void rest_ring(struct service *s, uint64_t now_ms)
{
    struct gateway_events log;
    if (now_ms < s->ring_look_ms) {
        return;
    }
    s->gateway.events(s->gateway.ctx, &log);
    bool is_unused = s->stream_count == 0 && !s->ring_used;
    bool is_logged =
        log.is_kept && s->gateway.scan_events != NULL && log.dropped == s->ring_dropped;
    s->ring_rests = is_unused && is_logged;
    s->ring_used = s->stream_count > 0;
    s->ring_dropped = log.dropped;
    s->ring_look_ms = now_ms + RING_LOOK_MS;
}

void watch_run(struct service *s)
{
    bool is_due = s->pump || s->events_pumped != s->events.tail;
    uint64_t now_ms = service_boot_ms(s);
    struct list *next;
    rest_ring(s, now_ms);
    s->pump = false;
    s->events_pumped = s->events.tail;
    for (struct list *link = s->streams.next; link != &s->streams; link = next) {
        struct api_request *x = api_request_of(link);
        next = link->next;
        bool is_report_due = limit_is_due(&x->watcher.limit, now_ms);
        if (replay_is_due(x, now_ms) || is_report_due || is_due) {
            pump(x);
        }
        if (!list_is_empty(link)) {
            beat(x, now_ms);
        }
    }
}

uint64_t watch_next_ms(const struct service *s)
{
    uint64_t next_ms = UINT64_MAX;
    if (s->stream_count > 0 && (s->pump || s->events_pumped != s->events.tail)) {
        return 0;
    }
    for (struct list *link = s->streams.next; link != &s->streams; link = link->next) {
        const struct api_request *x = api_request_of(link);
        uint64_t replay_ms = replay_next_ms(x);
        next_ms = x->watcher.beat_ms < next_ms ? x->watcher.beat_ms : next_ms;
        next_ms = replay_ms < next_ms ? replay_ms : next_ms;
        if (x->watcher.limit.report_ms != 0 && x->watcher.limit.report_ms < next_ms) {
            next_ms = x->watcher.limit.report_ms;
        }
    }
    return next_ms;
}

void watch_state_replaced(struct service *s)
{
    for (struct list *link = s->streams.next; link != &s->streams; link = link->next) {
        struct watcher *watcher = LIST_OBJECT(link, struct watcher, link);
        const struct api_request *x = LIST_OBJECT(watcher, struct api_request, watcher);
        session_stream_check(s, x->caller.id, watcher->session, watcher->stream);
    }
}

/* The request is checked, the state is current. */
static void start(struct api_request *x, bool is_known)
{
    struct service *s = x->service;
    struct watcher *watcher = &x->watcher;
    watcher->beat_ms = service_boot_ms(s) + s->options.heartbeat_ms;
    list_append(&s->streams, &watcher->link);
    s->stream_count++;
    s->ring_rests = false;
    s->ring_used = true;
    watcher->behind = watcher->is_replaying ? 0 : s->events.tail - watcher->position;
    x->transport->stream(x);
    buffer_truncate(&s->scratch, 0);
    if (watcher->kind == WATCH_ELECTION) {
        write_leader(x);
    } else if (!watcher->is_listing) {
        if (watcher->is_resumed && watcher->kind == WATCH_SESSION && !is_known) {
            watcher->format->reset(x);
        }
        watcher->format->position(x, "ready");
    }
    watch_send_scratch(x);
    s->pump = true;
}

static void refuse_trimmed(struct api_request *x)
{
    char missing[REPLAY_TEXT];
    char text[REPLAY_TEXT + 64];
    struct pending_request *pending = x->pending;
    x->pending = NULL;
    (void)pending_settle(pending);
    replay_missing_text(&x->watcher, missing);
    (void)snprintf(text, sizeof(text), "the events after this id are no longer kept%s%s",
                   missing[0] == '\0' ? "" : ": ", missing);
    api_request_fail(x, HF_EVENTS_TRIMMED, text);
}

static void on_barrier(void *owner, enum hf_error error, const struct result *result)
{
    struct api_request *x = owner;
    struct pending_request *pending = x->pending;
    struct watcher *watcher = &x->watcher;
    struct service *s = x->service;
    char denial[AUTH_TEXT];
    if (error != HF_OK || (result != NULL && result->error != HF_OK)) {
        api_request_answered(owner, error, result);
        return;
    }
    if (result != NULL) {
        watcher->stream = result->attachment;
    } else if (!auth_may_render(x, denial)) {
        x->pending = NULL;
        (void)pending_settle(pending);
        api_request_fail(x, HF_DENIED, denial);
        return;
    }
    struct event_id resume_after = watcher->seen;
    bool is_resumed = watcher->is_resumed;
    bool is_known = is_resumed && resume_after.index <= core_index(service_core(s)) &&
                    event_ring_find(&s->events, resume_after, &watcher->position);
    bool is_replayed = is_resumed && !is_known && replay_possible(x);
    if (is_resumed && !is_known && !is_replayed && watcher->no_reset) {
        if (watcher->stream != 0) {
            pending_stream_down(s, x->caller.id, watcher->session, watcher->stream);
        }
        refuse_trimmed(x);
        return;
    }
    x->pending = NULL;
    (void)pending_settle(pending);
    struct quota_refusal refusal;
    if (watcher->kind != WATCH_SESSION && !auth_takes_watch(s, x->caller.id.tenant, &refusal)) {
        api_request_fail_quota(x, &refusal);
        return;
    }
    if (is_replayed) {
        is_known = true;
        replay_begin(x);
        watcher->is_listing = false;
    } else if (!is_known) {
        bool is_wanted = watcher->is_listing || is_resumed;
        begin_listing(x);
        watcher->is_listing = watcher->is_listing && is_wanted;
    } else {
        watcher->is_listing = false;
    }
    start(x, is_known);
    session_stream_check(s, x->caller.id, watcher->session, watcher->stream);
}

static enum hf_error read_position(struct api_request *x, struct fault *fault)
{
    struct slice text = x->last_event_id;
    (void)uri_query_text(x->parameters, "last_event_id", &text);
    if (text.len == 0) {
        return HF_OK;
    }
    if (!watch_parse_id(text, &x->watcher.seen)) {
        return fault_set(fault, HF_FIELD_TYPE, "last_event_id: must be INDEX-ORDINAL");
    }
    x->watcher.is_resumed = true;
    return HF_OK;
}

void watch_begin(struct api_request *x)
{
    struct service *s = x->service;
    if (x->method == HTTP_HEAD) {
        api_request_answer_text(x, 200, "text/event-stream", slice_make(NULL, 0));
    } else if (x->watcher.kind == WATCH_SESSION) {
        struct command c;
        session_stream_command(s, x->caller.id, x->watcher.session, &c);
        x->pending = pending_submit(s, &c, true, on_barrier, x);
    } else {
        x->pending = pending_barrier(s, on_barrier, x);
    }
}

/* False: neither true nor false; answered. */
static bool read_flag(struct api_request *x, const char *key, bool otherwise, bool *out)
{
    struct slice text;
    struct fault fault;
    *out = otherwise;
    if (!uri_query_text(x->parameters, key, &text)) {
        return true;
    }
    *out = slice_is_word(text, "true");
    if (*out || slice_is_word(text, "false")) {
        return true;
    }
    (void)fault_set(&fault, HF_FIELD_RANGE, "%s: must be true or false", key);
    api_request_fault(x, &fault);
    return false;
}

static bool read_rate(struct api_request *x)
{
    struct fault fault;
    uint64_t max_rate = 0;
    if (uri_query_number(x->parameters, "max_rate", 1, WATCH_RATE_MAX, &max_rate, &fault) !=
        HF_OK) {
        api_request_fault(x, &fault);
        return false;
    }
    return watch_set_rate(x, max_rate);
}

bool watch_read_resume(struct api_request *x)
{
    struct fault fault;
    bool is_reset_sent;
    if (read_position(x, &fault) != HF_OK) {
        api_request_fault(x, &fault);
        return false;
    }
    if (!read_flag(x, "reset", true, &is_reset_sent)) {
        return false;
    }
    x->watcher.no_reset = !is_reset_sent;
    return true;
}

void api_watch(struct api_request *x)
{
    struct slice session;
    if (!watch_read_resume(x) || !read_flag(x, "list", false, &x->watcher.is_listing)) {
        return;
    }
    if (uri_query_text(x->parameters, "session_id", &session)) {
        if (!reply_parse_id(session, &x->watcher.session)) {
            api_request_fail(x, HF_INVALID_ID, "session_id: must be 32 hexadecimal digits");
            return;
        }
        x->watcher.kind = WATCH_SESSION;
    }
    if (!read_rate(x)) {
        return;
    }
    watch_begin(x);
}

void api_election_observe(struct api_request *x)
{
    struct fault fault;
    x->watcher.kind = WATCH_ELECTION;
    if (read_position(x, &fault) != HF_OK) {
        api_request_fault(x, &fault);
        return;
    }
    watch_begin(x);
}

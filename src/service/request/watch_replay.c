/* See watch_replay.h. */
#include "service/request/watch_replay.h"

#include <inttypes.h>
#include <stdio.h>

#include "service/request/event_search.h"
#include "service/request/watch_event.h"

enum {
    REPLAY_PAGE = 256,       /* events of one page */
    REPLAY_PIECE = 16 << 10, /* bytes of events in one piece, about */
    REPLAYS_MAX = 8, /* pages in flight; the other searches of GATEWAY_SCANS are for others */
    REPLAY_RETRY_MS = 100,
    REPLAY_TRIES = 50, /* without progress */
};

static bool is_complete_after(const struct gateway_events *log, struct event_id seen)
{
    return log->is_kept &&
           (seen.index > log->complete_index ||
            (seen.index == log->complete_index && (seen.ordinal == UINT32_MAX || seen.index == 0)));
}

bool replay_possible(struct api_request *x)
{
    struct service *s = x->service;
    struct watcher *watcher = &x->watcher;
    struct gateway_events log;
    uint64_t here = core_index(service_core(s));
    watcher->missing_from = watcher->missing_to = 0;
    if (watcher->seen.index > here) {
        return false; /* of another life of this cluster */
    }
    s->gateway.events(s->gateway.ctx, &log);
    if (s->gateway.scan_events != NULL && is_complete_after(&log, watcher->seen)) {
        return true;
    }
    uint64_t to = log.is_kept ? log.complete_index : s->events.floor.index;
    watcher->missing_from = watcher->seen.index + (watcher->seen.ordinal == UINT32_MAX);
    watcher->missing_to = to > watcher->missing_from ? to : watcher->missing_from;
    return false;
}

void replay_missing_text(const struct watcher *watcher, char out[REPLAY_TEXT])
{
    out[0] = '\0';
    if (watcher->missing_to != 0) {
        (void)snprintf(out, REPLAY_TEXT,
                       "events of the log entries %" PRIu64 " to %" PRIu64 " are not on this node",
                       watcher->missing_from, watcher->missing_to);
    }
}

void replay_begin(struct api_request *x)
{
    struct watcher *watcher = &x->watcher;
    watcher->is_replaying = true;
    watcher->replay_at =
        (struct event_position){watcher->seen.index, watcher->seen.ordinal, UINT32_MAX};
    watcher->replay_ms = 0;
    watcher->replay_tries = 0;
}

static struct event_id id_of(struct event_position at)
{
    return (struct event_id){at.index, at.ordinal};
}

/* The ring has all that follows replay_at. */
static bool try_join(struct api_request *x)
{
    struct watcher *watcher = &x->watcher;
    const struct event_ring *ring = &x->service->events;
    if (!event_ring_find(ring, id_of(watcher->replay_at), &watcher->position)) {
        return false;
    }
    watcher->is_replaying = false;
    watcher->behind = ring->tail - watcher->position;
    return true;
}

static void retry_later(struct api_request *x)
{
    x->watcher.replay_ms = service_boot_ms(x->service) + REPLAY_RETRY_MS;
}

static void on_failed(struct api_request *x, enum hf_error error, const char *why)
{
    char text[256];
    struct watcher *watcher = &x->watcher;
    bool may_retry = error == HF_BUSY || error == HF_DEADLINE;
    if (may_retry && ++watcher->replay_tries < REPLAY_TRIES) {
        retry_later(x);
        return;
    }
    (void)snprintf(text, sizeof(text),
                   "cannot read the event log: %.160s; resume after the last event", why);
    watch_drop(x, HF_UNAVAILABLE, text);
}

static const struct event_gap *gap_of(const struct watcher *watcher, const struct event_page *page)
{
    for (uint32_t i = 0; i < page->gap_count; i++) {
        if (page->gaps[i].to > watcher->replay_at.index) {
            return &page->gaps[i];
        }
    }
    return NULL;
}

/* Events are missing, because the oldest were removed meanwhile, or the disk was full. */
static void on_gap(struct api_request *x, const struct event_gap *gap)
{
    char text[REPLAY_TEXT];
    struct watcher *watcher = &x->watcher;
    watcher->is_replaying = false;
    watcher->missing_from = gap->from + 1;
    watcher->missing_to = gap->to;
    if (watcher->no_reset) {
        replay_missing_text(watcher, text);
        watch_drop(x, HF_EVENTS_TRIMMED, text);
    } else {
        buffer_truncate(&x->service->scratch, 0);
        watch_start_over(x);
        watch_send_scratch(x);
    }
}

static void send_records(struct api_request *x, const struct event_page *page)
{
    struct service *s = x->service;
    buffer_truncate(&s->scratch, 0);
    watch_limit_step(x);
    for (uint32_t i = 0; i < page->count && !x->watcher.is_over; i++) {
        const struct logged_event *record = &page->records[i];
        if (record->kind == LOGGED_EVENT) {
            watch_add_event(x, &record->event);
        }
        if (buffer_len(&s->scratch) >= REPLAY_PIECE) {
            watch_send_scratch(x);
        }
    }
    watch_send_scratch(x);
}

/* Entries up to read_to are in the log as a whole. */
static struct event_position end_of(const struct event_page *page)
{
    return page->more ? page->next : (struct event_position){page->read_to, UINT32_MAX, UINT32_MAX};
}

static void on_page(struct api_request *x, const struct event_page *page, enum hf_error error,
                    const char *why)
{
    struct service *s = x->service;
    struct watcher *watcher = &x->watcher;
    hf_assert(watcher->is_reading && s->replays > 0);
    watcher->is_reading = false;
    s->replays--;
    s->pump = true; /* the next page, of this stream or another */
    if (page == NULL) {
        on_failed(x, error, why);
        return;
    }
    const struct event_gap *gap = gap_of(watcher, page);
    if (gap != NULL) {
        on_gap(x, gap);
        return;
    }
    send_records(x, page);
    struct event_position end = end_of(page);
    if (event_position_after(end, watcher->replay_at)) {
        watcher->replay_at = end;
        watcher->replay_tries = 0;
    } else if (!try_join(x)) { /* what was applied is not written yet */
        on_failed(x, HF_BUSY, "it is behind");
    }
}

static void read_page(struct api_request *x)
{
    struct service *s = x->service;
    struct watcher *watcher = &x->watcher;
    bool is_prefix = watcher->kind != WATCH_SESSION && x->name.len > 0;
    struct event_scan scan = {.kinds = SCAN_EVENTS,
                              .limit = REPLAY_PAGE,
                              .is_continued = true,
                              .after = watcher->replay_at};
    if (is_prefix) {
        scan.tenant = x->caller.id.tenant;
        scan.match = watcher->kind == WATCH_ELECTION ? SCAN_EXACT_NAME : SCAN_PREFIX;
        scan.name = x->name;
    } else {
        scan.all_tenants = true; /* also events of the cluster; watch_is_for selects */
    }
    watcher->is_reading = true;
    s->replays++;
    event_search_begin(x, &scan, on_page);
}

bool replay_step(struct api_request *x)
{
    struct service *s = x->service;
    struct watcher *watcher = &x->watcher;
    if (!watcher->is_replaying) {
        return true;
    }
    if (watcher->is_reading) {
        return false;
    }
    if (try_join(x)) {
        return true;
    }
    if (s->replays < REPLAYS_MAX && watcher->replay_ms <= service_boot_ms(s)) {
        read_page(x);
    }
    return false;
}

void replay_stop(struct api_request *x)
{
    struct watcher *watcher = &x->watcher;
    watcher->is_replaying = false;
    if (watcher->is_reading) {
        watcher->is_reading = false;
        x->service->replays--;
        x->service->pump = true;
        event_search_abandon(x);
    }
}

uint64_t replay_next_ms(const struct api_request *x)
{
    const struct watcher *watcher = &x->watcher;
    bool waits = watcher->is_replaying && !watcher->is_reading && watcher->replay_ms != 0;
    return waits ? watcher->replay_ms : UINT64_MAX;
}

/* If the client does not read now, the attempt follows when it does. */
bool replay_is_due(struct api_request *x, uint64_t now_ms)
{
    if (replay_next_ms(x) > now_ms) {
        return false;
    }
    x->watcher.replay_ms = 0;
    return true;
}

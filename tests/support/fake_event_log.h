/* An event log for tests of the service: keeps what the core reports, and searches it naively. To be
 * included after base_testing.h. */
#ifndef HOLDFAST_TESTS_FAKE_EVENT_LOG_H
#define HOLDFAST_TESTS_FAKE_EVENT_LOG_H

#include "fake_gateway.h"

enum { FAKE_LOG_EVENTS = 2000, FAKE_LOG_TEXTS = 256 << 10 };

struct fake_event_log {
    struct event events[FAKE_LOG_EVENTS];
    uint32_t count;
    uint32_t first; /* those before are not in the log */
    uint8_t texts[FAKE_LOG_TEXTS];
    size_t text_len;
};

static inline struct slice fake_log_keep(struct fake_event_log *l, struct slice text)
{
    hf_assert(text.len <= sizeof(l->texts) - l->text_len);
    uint8_t *at = l->texts + l->text_len;
    if (text.len > 0) {
        memcpy(at, text.data, text.len);
    }
    l->text_len += text.len;
    return slice_make(at, text.len);
}

/* fake_gateway.on_event */
static inline void fake_log_on_event(void *ctx, const struct event *event)
{
    struct fake_event_log *l = ctx;
    hf_assert(l->count < FAKE_LOG_EVENTS);
    struct event *e = &l->events[l->count++];
    *e = *event;
    e->name = fake_log_keep(l, event->name);
    e->client = fake_log_keep(l, event->client);
    e->owner = fake_log_keep(l, event->owner);
    e->actor = fake_log_keep(l, event->actor);
    e->text = fake_log_keep(l, event->text);
    e->trace = fake_log_keep(l, event->trace);
}

static inline bool fake_log_passes(const struct event_scan *scan, struct slice name,
                                   const struct event *e)
{
    return (scan->types & UINT64_C(1) << e->type) != 0 && e->tenant == scan->tenant &&
           slice_equal(name, e->name) && (scan->token == 0 || scan->token == e->token) &&
           e->wall_ms >= scan->since_ms && (scan->until_ms == 0 || e->wall_ms < scan->until_ms);
}

/* Answers the search that is open, if one is. `name`: its filter. */
static inline bool fake_log_answer(struct fake_event_log *l, struct fake_gateway *g,
                                   struct slice name)
{
    static struct logged_event records[EVENT_SCAN_RECORDS];
    struct event_page page = {.records = records,
                              .complete_from_begin = l->first == 0,
                              .complete_since_ms = l->events[l->first].wall_ms};
    const struct event_scan scan = g->scanned;
    struct gateway_scan_call *call = g->scan;
    if (call == NULL) {
        return false;
    }
    hf_assert(scan.kinds == SCAN_EVENTS && scan.match == SCAN_EXACT_NAME);
    for (uint32_t i = l->first; i < l->count; i++) {
        const struct event *e = &l->events[scan.newest_first ? l->count - 1 - (i - l->first) : i];
        struct event_position at = {e->index, e->ordinal, 0};
        if (scan.is_continued && (scan.newest_first ? !event_position_after(scan.after, at)
                                                    : !event_position_after(at, scan.after))) {
            continue;
        }
        if (page.count == scan.limit) {
            page.more = true;
            break;
        }
        page.next = at;
        if (fake_log_passes(&scan, name, e)) {
            records[page.count++] = (struct logged_event){
                .kind = LOGGED_EVENT, .id = {e->index, e->ordinal}, .event = *e};
        }
    }
    g->scan = NULL;
    call->done(call, HF_OK, &page, NULL);
    return true;
}

#endif

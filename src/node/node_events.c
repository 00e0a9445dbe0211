/* See node_events.h. Nothing here waits for a disk or fails a request: without the log the node serves
 * locks as before, and only history, searches and sinks are missing. */
#include "node/node_events.h"

#include <stdio.h>
#include <time.h>

#include "node/node_state.h"

enum {
    DROP_NOTE_US = 60000000, /* between two lines about dropped events */
    ENTRIES_AT_ONCE = 64,    /* applied before the log can write them */
};

struct event_log *node_event_log(struct node *n)
{
    return n->events.log;
}

static uint64_t wall_ms(void *ctx)
{
    struct timespec now;
    (void)ctx;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void begin_at(struct node *n, const struct core *core)
{
    struct node_events *v = &n->events;
    v->applied = core == NULL ? 0 : core_index(core);
    v->audits = core == NULL ? 0 : core_audits(core);
    if (v->log != NULL) {
        event_log_skipped(v->log, v->applied, core == NULL ? 0 : core_last_wall_ms(core));
    }
}

static void open_log(struct node *n)
{
    const struct node_options *o = &n->options;
    struct node_events *v = &n->events;
    struct event_log_stats stats;
    struct problem problem;
    struct event_log_options options = {.memory = o->memory,
                                        .path = v->path,
                                        .cluster = n->self.cluster,
                                        .node = o->id,
                                        .max_bytes = o->events_max_bytes,
                                        .max_age_ms = o->events_max_age_ms,
                                        .ctx = n,
                                        .wall_ms = wall_ms};
    v->log = event_log_open(&options, &problem);
    if (v->log == NULL) {
        snprintf(v->why, sizeof(v->why),
                 "the event log of this node cannot be used: %.500s; try another node",
                 problem.text);
        journal_note(o->journal, WARN, DISK, "event_log_not_open", JOURNAL_TEXT("folder", v->path),
                     JOURNAL_TEXT("reason", problem.text),
                     JOURNAL_TEXT("next", "locks are served without it, but this node has no "
                                          "history; correct the reason and restart this node"));
        return;
    }
    event_log_stats(v->log, &stats);
    journal_note(o->journal, INFO, DISK, "event_log_open", JOURNAL_NUMBER("bytes", stats.bytes),
                 JOURNAL_NUMBER("last_index", stats.last_index),
                 JOURNAL_NUMBER("gaps", stats.gaps));
}

static uint32_t fill_peers(void *ctx, uint64_t ids[LIMIT_NODES])
{
    struct node *n = ctx;
    uint32_t count = 0;
    for (uint32_t i = 0; i < n->absence_count; i++) {
        if (peers_protocol(n->peers, n->absences[i].id, true) >= PEER_PROTOCOL_EVENTS) {
            ids[count++] = n->absences[i].id;
        }
    }
    return count;
}

static bool fill_request(void *ctx, uint64_t peer, uint64_t number, struct slice body)
{
    struct node *n = ctx;
    return peers_request(n->peers, peer, number, FILL_REQUEST_KIND, body);
}

static void fill_answer(void *ctx, uint64_t peer, uint64_t link, uint64_t number, uint8_t status,
                        struct slice body)
{
    struct node *n = ctx;
    (void)peers_answer(n->peers, peer, link, number, status, body);
}

static uint32_t fill_version(void *ctx)
{
    struct node *n = ctx;
    return core_version(replica_core(n->replica));
}

static uint64_t boot_ms(void *ctx)
{
    return node_awake_ms(ctx);
}

static void open_fill(struct node *n)
{
    struct node_events *v = &n->events;
    struct gap_fill_options options = {.loop = n->options.loop,
                                       .memory = n->options.memory,
                                       .journal = n->options.journal,
                                       .log = v->log,
                                       .scans = v->scans,
                                       .ctx = n,
                                       .peers = fill_peers,
                                       .request = fill_request,
                                       .answer = fill_answer,
                                       .version = fill_version,
                                       .now_ms = boot_ms};
    v->fill = gap_fill_new(&options);
}

bool node_on_fill_request(struct node *n, uint64_t peer, uint64_t link, uint64_t number,
                          struct slice body)
{
    return gap_fill_on_request(n->events.fill, peer, link, number, body, node_awake_ms(n));
}

bool node_on_fill_answer(struct node *n, uint64_t peer, uint64_t number, uint8_t status,
                         struct slice body)
{
    return gap_fill_on_answer(n->events.fill, peer, number, status, body, node_awake_ms(n));
}

void node_open_events(struct node *n, const struct core *core)
{
    const struct node_options *o = &n->options;
    struct node_events *v = &n->events;
    snprintf(v->path, sizeof(v->path), "%s/events", o->data);
    if (o->events_max_bytes == 0) {
        snprintf(v->why, sizeof(v->why),
                 "this node keeps no event log (events-max-bytes = 0); try another node");
    } else {
        open_log(n);
    }
    struct scan_threads_options scans = {
        .loop = o->loop, .memory = o->memory, .log = v->log, .why = v->why};
    v->scans = scan_threads_new(&scans);
    open_fill(n);
    begin_at(n, core);
}

void node_stop_events(struct node *n)
{
    scan_threads_stop(n->events.scans);
    gap_fill_stop(n->events.fill);
}

void node_close_events(struct node *n)
{
    gap_fill_free(n->events.fill);
    scan_threads_free(n->events.scans);
    event_log_close(n->events.log);
    n->events.fill = NULL;
    n->events.scans = NULL;
    n->events.log = NULL;
}

static void report_applied(struct node *n, const struct core *core)
{
    struct node_events *v = &n->events;
    if (v->log != NULL && core_index(core) != v->applied) {
        v->applied = core_index(core);
        event_log_applied(v->log, v->applied, core_last_wall_ms(core));
    }
}

static void on_audit(void *ctx, const struct audit_view *record)
{
    struct node *n = ctx;
    event_log_append_audit(n->events.log, record);
}

void node_events_entry(struct node *n, const struct replica_applying *entry)
{
    struct node_events *v = &n->events;
    if (entry != NULL) {
        v->applying = entry->core;
        return;
    }
    if (v->log != NULL && core_audits(v->applying) != v->audits) {
        v->audits = core_audits(v->applying);
        view_audit_of_entry(v->applying, on_audit, n);
    }
    if (v->log != NULL && core_index(v->applying) >= v->applied + ENTRIES_AT_ONCE) {
        report_applied(n, v->applying); /* the thread writes while a long log is applied */
    }
    v->applying = NULL;
}

/* Messages of the Redis protocol are stored nowhere (S13.7). */
void node_events_add(struct node *n, const struct event *event)
{
    struct node_events *v = &n->events;
    if (v->log != NULL && event->type != EVENT_PUBLISHED) {
        const struct core *core = v->applying != NULL ? v->applying : replica_core(n->replica);
        event_log_append(v->log, event, core_version(core));
    }
}

void node_events_replaced(struct node *n, const struct core *core)
{
    begin_at(n, core);
}

void node_events_applied(struct node *n)
{
    report_applied(n, replica_core(n->replica));
}

static void note_dropped(struct node *n, const struct event_log_stats *stats, uint64_t now_us)
{
    struct node_events *v = &n->events;
    if (stats->dropped == v->dropped || now_us < v->drop_note_us) {
        return;
    }
    journal_note(n->options.journal, WARN, DISK, "events_dropped",
                 JOURNAL_NUMBER("records", stats->dropped - v->dropped),
                 JOURNAL_TEXT("next", "the disk is too slow or full for the event log, so history "
                                      "has a gap, which another node may fill; locks are served "
                                      "as before; check the disk"));
    v->dropped = stats->dropped;
    v->drop_note_us = now_us + DROP_NOTE_US;
}

void node_step_events(struct node *n, uint64_t now_us)
{
    struct node_events *v = &n->events;
    struct event_log_stats stats;
    if (v->log == NULL) {
        return;
    }
    event_log_stats(v->log, &stats);
    note_dropped(n, &stats, now_us);
    if (stats.disk_full != v->is_full) {
        v->is_full = stats.disk_full;
        if (v->is_full) {
            journal_note(n->options.journal, WARN, DISK, "event_log_disk_full",
                         JOURNAL_TEXT("folder", v->path), JOURNAL_NUMBER("bytes", stats.bytes),
                         JOURNAL_TEXT("next", "events are lost until the disk has space; locks are "
                                              "served as before; free space, or set a smaller "
                                              "events-max-bytes and restart this node"));
        } else {
            journal_note(n->options.journal, INFO, DISK, "event_log_writes_again",
                         JOURNAL_TEXT("folder", v->path));
        }
    }
}

void node_run_scans(struct node *n)
{
    scan_threads_run(n->events.scans, node_awake_ms(n));
    gap_fill_step(n->events.fill, node_awake_ms(n));
}

uint64_t node_events_next_us(const struct node *n)
{
    uint64_t next_ms = scan_threads_next_ms(n->events.scans);
    uint64_t fill_ms = gap_fill_next_ms(n->events.fill);
    next_ms = fill_ms < next_ms ? fill_ms : next_ms;
    return next_ms == UINT64_MAX ? UINT64_MAX : next_ms * 1000;
}

void node_events_view(void *ctx, struct gateway_events *out)
{
    struct node *n = ctx;
    struct event_log_stats stats;
    *out = (struct gateway_events){.is_kept = n->events.log != NULL};
    if (out->is_kept) {
        event_log_stats(n->events.log, &stats);
        out->bytes = stats.bytes;
        out->max_bytes = stats.max_bytes;
        out->gaps = stats.gaps;
        out->gaps_stay = stats.gaps > 0 && gap_fill_is_stuck(n->events.fill);
        out->dropped = stats.dropped;
        out->complete_since_ms = stats.complete_since_ms;
        out->complete_index = stats.complete_index;
    }
}

void node_scan_events(void *ctx, const struct event_scan *scan, struct gateway_scan_call *call)
{
    struct node *n = ctx;
    struct event_scan wanted = *scan;
    wanted.written_to = core_index(replica_core(n->replica));
    scan_threads_begin(n->events.scans, &wanted, call, node_awake_ms(n));
}

void node_scan_cancel(void *ctx, struct gateway_scan_call *call)
{
    struct node *n = ctx;
    scan_threads_cancel(n->events.scans, call);
}

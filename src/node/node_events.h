/* The event log of a node (events/event_log.h): opened at the start, fed while entries are applied, and
 * searched for the service. */
#ifndef HOLDFAST_NODE_NODE_EVENTS_H
#define HOLDFAST_NODE_NODE_EVENTS_H

#include "core/view.h"
#include "events/event_log.h"
#include "node/events/gap_fill.h"
#include "node/events/scan_threads.h"

struct node;
struct replica_applying;

enum { NODE_EVENTS_PATH = 4096, NODE_EVENTS_WHY = 640 };

/* Private to node_events.c. */
struct node_events {
    struct event_log *log;      /* NULL: off, or it cannot be opened */
    struct scan_threads *scans; /* as long as `log` */
    struct gap_fill *fill;
    const struct core *applying; /* inside an entry; else NULL */
    uint64_t audits;             /* core_audits that are in the log */
    uint64_t applied;            /* reported to the log */
    uint64_t dropped;            /* of the stats, logged already */
    uint64_t drop_note_us;       /* boot time before which no more are logged */
    bool is_full;                /* of the stats, logged */
    char path[NODE_EVENTS_PATH]; /* of the folder */
    char why[NODE_EVENTS_WHY];   /* a sentence: there is no log */
};

/* NULL: this node runs without. Valid from the start of the replica to node_free. */
struct event_log *node_event_log(struct node *n);

/* Before the first entry is applied. `core`: loaded from a snapshot; NULL: none. */
void node_open_events(struct node *n, const struct core *core);
/* Ends the threads of searches; while the loop runs. */
void node_stop_events(struct node *n);
void node_close_events(struct node *n);

void node_events_entry(struct node *n, const struct replica_applying *entry);
void node_events_add(struct node *n, const struct event *event);
/* The state is about to be replaced by `core`. */
void node_events_replaced(struct node *n, const struct core *core);
/* Before the loop sleeps: reports the applied entries to the log. */
void node_events_applied(struct node *n);
/* In each iteration of the loop: answers searches. */
void node_run_scans(struct node *n);
/* From time to time: log lines. */
void node_step_events(struct node *n, uint64_t now_us);
/* Boot time at which node_run_scans is due, besides wake-ups. */
uint64_t node_events_next_us(const struct node *n);

/* Frames of other nodes. False: malformed. */
bool node_on_fill_request(struct node *n, uint64_t peer, uint64_t link, uint64_t number,
                          struct slice body);
bool node_on_fill_answer(struct node *n, uint64_t peer, uint64_t number, uint8_t status,
                         struct slice body);

void node_events_view(void *ctx, struct gateway_events *out);
void node_scan_events(void *ctx, const struct event_scan *scan, struct gateway_scan_call *call);
void node_scan_cancel(void *ctx, struct gateway_scan_call *call);

#endif

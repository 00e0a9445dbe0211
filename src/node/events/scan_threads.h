/* Searches in the event log off the event loop: gateway.scan_events (service/gateway.h).
 *
 *      loop ──scan_threads_begin──▶ slots, GATEWAY_SCANS ──▶ SCAN_THREADS threads: event_scan_page
 *        ▲                                                      │
 *        └──────scan_threads_run, which calls `done`◀──uv_async─┘
 *
 * A search whose caller has cancelled it, or whose deadline has passed, keeps its slot until its thread is
 * finished with it: a disk that hangs costs slots and not memory. */
#ifndef HOLDFAST_NODE_EVENTS_SCAN_THREADS_H
#define HOLDFAST_NODE_EVENTS_SCAN_THREADS_H

#include <uv.h>

#include "service/gateway.h"

enum { SCAN_THREADS = 2 };

struct scan_threads;

struct scan_threads_options {
    uv_loop_t *loop;
    const struct memory *memory; /* thread-safe */
    struct event_log *log;       /* closed after scan_threads_stop; NULL: none */
    const char *why;             /* there is none: a sentence; must stay valid */
};

struct scan_threads *scan_threads_new(const struct scan_threads_options *options);

void scan_threads_begin(struct scan_threads *s, const struct event_scan *scan,
                        struct gateway_scan_call *call, uint64_t now_ms);
void scan_threads_cancel(struct scan_threads *s, struct gateway_scan_call *call);
/* Reports what is finished or late. In each iteration of the loop. */
void scan_threads_run(struct scan_threads *s, uint64_t now_ms);
/* Boot time at which a search is late; UINT64_MAX: none. */
uint64_t scan_threads_next_ms(const struct scan_threads *s);

/* Ends the threads: waits for the pages that they read. No further `done`. Closes the handle. Takes
 * NULL. */
void scan_threads_stop(struct scan_threads *s);
/* After the loop has closed the handle. Takes NULL. */
void scan_threads_free(struct scan_threads *s);

#endif

/* One sink: a thread that follows the event log of this node and delivers it to a driver, while this
 * node leads.
 *
 *      event log ──cursor──▶ batch of JSON lines ──▶ driver (Kafka, file, webhook)
 *                              │ delivered
 *                              ▼
 *      position ──loop, once a second──▶ SINK_POSITION ──▶ the next leader begins there
 *
 * The loop never waits for the thread: it starts and stops it by a number (`lead`, `halt`) and copies the
 * status. Every event of the tier CORRECTNESS is delivered at least once, in the order of its id. The
 * position moves only after a whole batch was delivered.
 *
 * Memory: one batch (SINK_BATCH_BYTES), and what the driver needs to send it. */
#ifndef HOLDFAST_SINKS_SINK_H
#define HOLDFAST_SINKS_SINK_H

#include "sinks/driver.h"

/* The event log, or a fake one in tests. Called on the thread of the sink. */
struct sink_source {
    void *ctx;
    struct event_cursor *(*open)(void *ctx, struct event_id after);
    enum event_read (*next)(struct event_cursor *cursor, struct event_step *out);
    void (*close)(struct event_cursor *cursor);
};

struct sink_options {
    const struct memory *memory; /* thread-safe */
    const char *name;            /* of its position: LIMIT_SINK_NAME */
    struct sink_driver *driver;  /* becomes the sink's */
    struct sink_source source;
    struct event_json json;
    struct slice prefix;     /* only these names; must stay valid */
    uint32_t backoff_min_ms; /* 0: 200 ms */
    uint32_t backoff_max_ms; /* 0: 30 s */
    uint32_t gap_wait_ms;    /* a gap that another node may fill is declared after this */
};

struct event_sink;
struct event_sink *sink_new(const struct sink_options *options);
/* Waits for the thread: for the end of a poll of the driver, or of its fsync. */
void sink_free(struct event_sink *sink);

/* ---- loop ---- */

/* Delivers what is after `after`; {0, 0}: from the oldest event in the log. */
void sink_lead(struct event_sink *sink, struct event_id after);
/* No further delivery begins. */
void sink_halt(struct event_sink *sink);
/* Opens the driver again: files may have been renamed or changed. */
void sink_reload(struct event_sink *sink);

struct sink_status {
    bool leads;
    bool is_failing;           /* the last attempt failed, or a delivery does not proceed */
    struct event_id position;  /* of this leadership */
    uint64_t delivered;        /* records since start */
    uint64_t failures;         /* failed attempts since start */
    uint64_t gaps;             /* declared since start */
    uint64_t gap_from, gap_to; /* the last one */
    uint64_t oldest_ms;        /* wall clock of the oldest event that is being delivered; 0: none */
    char trouble[DRIVER_TEXT]; /* the last; stays after the recovery */
    uint64_t trouble_ms;       /* its wall clock; 0: none */
};
void sink_status(struct event_sink *sink, struct sink_status *out);

/* ---- any thread ---- */

/* Records became readable. */
void sink_notify(void *sink);

#endif

/* A fake event log and a fake driver, for tests of src/sinks. Both are used by the thread of the sink and
 * by the test, so each has a lock. */
#ifndef HOLDFAST_TESTS_SINK_WORLD_H
#define HOLDFAST_TESTS_SINK_WORLD_H

#include <pthread.h>

#include "sinks/sink.h"

enum { FAKE_RECORDS = 5000, FAKE_IDS = 20000, FAKE_ID_TEXT = 64 };

struct fake_log {
    pthread_mutex_t lock;
    struct logged_event records[FAKE_RECORDS];
    uint32_t count;
    uint64_t gap_from, gap_to; /* in front of the first record after gap_from; equal: none */
    uint64_t reads_failing;    /* so many next calls fail */
    uint64_t opened;
};

void fake_log_init(struct fake_log *log);
struct sink_source fake_log_source(struct fake_log *log);
/* A granted lock "name-INDEX" at (index, ordinal). */
void fake_log_add(struct fake_log *log, uint64_t index, uint32_t ordinal);
void fake_log_add_audit(struct fake_log *log, struct event_id id, uint64_t number);
void fake_log_set_gap(struct fake_log *log, uint64_t from, uint64_t to);

struct fake_driver {
    struct sink_driver driver; /* first */
    pthread_mutex_t lock;
    /* Set by the test. */
    uint32_t failures;  /* so many deliveries fail */
    uint32_t too_large; /* more events than this are refused; 0: no limit */
    bool is_stuck;      /* deliveries wait */
    bool is_away;       /* cannot be opened */
    /* Seen. */
    uint32_t opens, closes, attempts;
    uint32_t count;
    char ids[FAKE_IDS][FAKE_ID_TEXT]; /* delivered, in order */
    struct event_sink *sink;          /* at a delivery its position is read ... */
    struct event_id position;         /* ... before the driver reports it */
    const struct sink_batch *batch;
};

void fake_driver_init(struct fake_driver *driver);
uint32_t fake_driver_count(struct fake_driver *driver);

struct slice fake_tenant_name(void *ctx, uint32_t tenant);

#endif

/* What `holdfast top` shows: the figures of the leader, and a row per lock. A row has the lock as it was
 * listed last, and its events since the last update. */
#ifndef HOLDFAST_CLI_TOP_ROWS_H
#define HOLDFAST_CLI_TOP_ROWS_H

#include "cli/sse.h"

enum { TOP_ROWS_MAX = 20000, TOP_NAME_TEXT = 513, TOP_CLIENT_TEXT = 64, TOP_MODE_TEXT = 16 };

enum top_sort { TOP_BY_QUEUE, TOP_BY_AGE, TOP_BY_WAIT, TOP_BY_RATE, TOP_SORTS };

struct top_row {
    char name[TOP_NAME_TEXT];
    char client[TOP_CLIENT_TEXT]; /* of the first holder; if it is free, of the last grant */
    char mode[TOP_MODE_TEXT];
    bool is_listed; /* held, waited for or delayed; else there were only events */
    bool is_held;
    bool is_long_held;
    unsigned holders, queue;
    uint64_t age_ms;  /* of the first hold */
    uint64_t wait_ms; /* of the first waiter */
    unsigned granted, queued, released, lost;
};

/* Of /api/v1/stats and /api/v1/cluster. */
struct top_figures {
    bool is_known, is_serving;
    uint64_t leader, term, uptime_ms;
    unsigned members, healthy;
    uint64_t held, waiting, sessions, long_held, oldest_ms;
    uint64_t grants, releases, contended, ended, renewals; /* totals of the leader */
    int64_t at_ms;                                         /* clock_boot_ms */
    double acquire_p99_ms, commit_p99_ms, wait_p99_ms;     /* negative: unknown */
};

struct top_table {
    struct top_row *rows;
    uint32_t *slots; /* hash table: index in `rows` plus 1, or 0; invalid after sorting */
    size_t count;
    size_t listed;
    bool is_cut;     /* more than TOP_ROWS_MAX names */
    unsigned events; /* also of names without a row */
};

struct top_data {
    struct top_table shown; /* of the last update */
    struct top_table next;  /* events since then */
    bool is_stale;          /* without a leader: as the node that answered knows it */
    struct top_figures now, before;
    char problem[256]; /* why the last update failed; "": it did not */
};

void top_data_init(struct top_data *data);
void top_data_free(struct top_data *data);

/* Counts an event of /api/v1/watch. */
void top_count_event(struct top_data *data, const struct sse_event *event);
/* Reads the figures and the locks with this prefix, and shows them. On failure `problem` is set, and the
 * rows stay. Returns 0 or the exit code. */
int top_read(struct top_data *data, struct api *api, const char *prefix, enum top_sort by);
void top_sort_rows(struct top_data *data, enum top_sort by);
/* Per second, between the last two updates; negative: unknown. */
double top_per_second(const struct top_data *data, uint64_t before, uint64_t now);

#endif

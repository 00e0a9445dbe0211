/* Lines of the text format of Prometheus. Private to metrics*.c. */
#ifndef HOLDFAST_SERVER_METRICS_TEXT_H
#define HOLDFAST_SERVER_METRICS_TEXT_H

#include "base/buffer.h"
#include "base/distribution.h"
#include "node/node.h"

enum metric_kind { GAUGE, COUNTER, HISTOGRAM };

/* HELP and TYPE. `name` without "holdfast_"; it ends at a label. */
void metrics_put_title(struct buffer *out, const char *name, enum metric_kind kind,
                       const char *help);

/* Microseconds as seconds, without zeros at the end. */
#define METRICS_SECONDS_TEXT 24
const char *metrics_seconds(uint64_t us, char text[METRICS_SECONDS_TEXT]);

/* The ends of a histogram's buckets: 1, 2 and 5 times the powers of ten from `first` to `last`, both of
 * which are powers of ten; or only the powers. */
struct metrics_buckets {
    uint64_t first;
    uint64_t last;
    bool is_coarse;
    bool is_us; /* the values are microseconds */
};
/* `labels`: "tier=\"...\"" or "". */
void metrics_put_histogram(struct buffer *out, const char *name, const char *labels,
                           const struct metrics_buckets *buckets, const struct distribution *d);

/* metrics_counts.c: totals and distributions of node/counts/counts.h. */
void metrics_put_counts(const struct node_view *view, struct buffer *out);

#endif

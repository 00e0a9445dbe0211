/* A log-linear histogram of latencies with a bounded relative error.
 *
 * Each power of two is divided into HISTOGRAM_PARTS equal buckets: an error of at most 0.8 %, from
 * 1 ns to half an hour, in constant memory. Minimum and maximum are exact. All zeros is an empty
 * histogram; it may be copied. */
#ifndef HOLDFAST_BENCH_HISTOGRAM_H
#define HOLDFAST_BENCH_HISTOGRAM_H

#include <stdint.h>

enum {
    HISTOGRAM_PART_BITS = 7,
    HISTOGRAM_PARTS = 1 << HISTOGRAM_PART_BITS,
    HISTOGRAM_VALUE_BITS = 41, /* larger values fall into the last bucket */
    HISTOGRAM_BUCKETS = (HISTOGRAM_VALUE_BITS - HISTOGRAM_PART_BITS + 1) * HISTOGRAM_PARTS,
};

struct histogram {
    uint64_t count;
    uint64_t max;
    uint64_t min;
    uint64_t buckets[HISTOGRAM_BUCKETS];
};

void histogram_add(struct histogram *h, uint64_t value);

/* The quantile of `share` / HISTOGRAM_ALL (50,000 is the median), rounded up to the end of its
 * bucket and at most `max`. 0 if empty. */
uint64_t histogram_at(const struct histogram *h, uint32_t share);

enum { HISTOGRAM_ALL = 100000 };

#endif

/* A histogram of latencies: log-linear, so that its relative error is bounded.
 *
 * Each power of two is divided into HISTOGRAM_PARTS equal buckets. So the error is at most one part
 * in that many (0.8 %), from a nanosecond to half an hour, in constant memory. The largest and the
 * smallest value are exact. It is plain data: zeroed is empty, and it may be copied. */
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

/* The value that `share` of all values (in 1/100,000: 50,000 is the median) do not exceed, rounded
 * up to the end of its bucket, at most `max`. 0 when empty. */
uint64_t histogram_at(const struct histogram *h, uint32_t share);

enum { HISTOGRAM_ALL = 100000 };

#endif

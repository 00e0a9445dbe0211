/* Counts of values in fixed buckets: quantiles, and the buckets of Prometheus, of durations, sizes and
 * numbers, in constant memory. No allocation, no floating point.
 *
 * A power of ten has 35 buckets: a quantile is at most 10 % above the exact value. Every 1, 2 and 5 times a
 * power of ten is the end of a bucket, so that distribution_up_to is exact there. All zeros is an
 * empty distribution; it may be copied. */
#ifndef HOLDFAST_BASE_DISTRIBUTION_H
#define HOLDFAST_BASE_DISTRIBUTION_H

#include <stdint.h>

enum {
    DISTRIBUTION_DECADES = 13, /* larger values fall into the last bucket */
    DISTRIBUTION_DECADE_BUCKETS = 35,
    DISTRIBUTION_BUCKETS = 10 + (DISTRIBUTION_DECADES - 1) * DISTRIBUTION_DECADE_BUCKETS,
};

struct distribution {
    uint64_t count;
    uint64_t sum;
    uint64_t buckets[DISTRIBUTION_BUCKETS];
};

void distribution_add(struct distribution *d, uint64_t value);
/* The quantile `per_mille` / 1000 of the values added after `before` was copied, as the end of its
 * bucket. UINT64_MAX: there are none. `before` NULL: of all. */
uint64_t distribution_quantile(const struct distribution *d, const struct distribution *before,
                               uint32_t per_mille);
/* The number of values <= `value`, which must be 1, 2 or 5 times a power of ten. */
uint64_t distribution_up_to(const struct distribution *d, uint64_t value);

#endif

/* See distribution.h. A bucket is named by the first two digits of (value - 1), so that its end is one
 * of its values: 5 ms is counted by the bucket up to 5 ms. */
#include "base/distribution.h"

#include <stddef.h>

#include "base/panic.h"

/* Steps of 1 below 20, of 2 below 50, of 5 above. */
enum { SMALL = 10, SINGLE = 20, DOUBLE = 50, BELOW_DOUBLE = 10, BELOW_FIVE = 25 };

static const uint64_t powers[] = {
    UINT64_C(1),
    UINT64_C(10),
    UINT64_C(100),
    UINT64_C(1000),
    UINT64_C(10000),
    UINT64_C(100000),
    UINT64_C(1000000),
    UINT64_C(10000000),
    UINT64_C(100000000),
    UINT64_C(1000000000),
    UINT64_C(10000000000),
    UINT64_C(100000000000),
    UINT64_C(1000000000000),
    UINT64_C(10000000000000),
};
_Static_assert(sizeof(powers) / sizeof(powers[0]) == DISTRIBUTION_DECADES + 1, "one a decade");

/* The power of ten of the first digit. */
static uint32_t decade_of(uint64_t value)
{
    uint32_t bits = 64 - (uint32_t)__builtin_clzll(value | 1);
    uint32_t decade = (bits * 1233) >> 12; /* log10(2) */
    return decade - (value < powers[decade]);
}

static uint32_t bucket_of(uint64_t value)
{
    value -= value > 0;
    if (value < SMALL) {
        return (uint32_t)value;
    }
    if (value >= powers[DISTRIBUTION_DECADES]) {
        return DISTRIBUTION_BUCKETS - 1;
    }
    uint32_t decade = decade_of(value);
    uint32_t digits = (uint32_t)(value / powers[decade - 1]); /* 10 to 99 */
    uint32_t part = digits < SINGLE   ? digits - 10
                    : digits < DOUBLE ? BELOW_DOUBLE + (digits - SINGLE) / 2
                                      : BELOW_FIVE + (digits - DOUBLE) / 5;
    return SMALL + (decade - 1) * DISTRIBUTION_DECADE_BUCKETS + part;
}

/* The largest value of the bucket. */
static uint64_t bucket_end(uint32_t bucket)
{
    if (bucket < SMALL) {
        return bucket + 1;
    }
    uint32_t decade = (bucket - SMALL) / DISTRIBUTION_DECADE_BUCKETS + 1;
    uint32_t part = (bucket - SMALL) % DISTRIBUTION_DECADE_BUCKETS;
    uint32_t digits = part < BELOW_DOUBLE ? 11 + part
                      : part < BELOW_FIVE ? SINGLE + 2 * (part - BELOW_DOUBLE + 1)
                                          : DOUBLE + 5 * (part - BELOW_FIVE + 1);
    return digits * powers[decade - 1];
}

void distribution_add(struct distribution *d, uint64_t value)
{
    d->buckets[bucket_of(value)]++;
    d->count++;
    d->sum += value;
}

uint64_t distribution_quantile(const struct distribution *d, const struct distribution *before,
                               uint32_t per_mille)
{
    hf_assert(per_mille <= 1000);
    uint64_t count = d->count - (before == NULL ? 0 : before->count);
    if (count == 0) {
        return UINT64_MAX;
    }
    uint64_t rank = count / 1000 * per_mille + (count % 1000 * per_mille + 999) / 1000;
    rank = rank == 0 ? 1 : rank;
    uint64_t seen = 0;
    for (uint32_t i = 0; i < DISTRIBUTION_BUCKETS; i++) {
        seen += d->buckets[i] - (before == NULL ? 0 : before->buckets[i]);
        if (seen >= rank) {
            return bucket_end(i);
        }
    }
    hf_panic(__FILE__, __LINE__, "the buckets of a distribution do not sum up to its count");
}

uint64_t distribution_up_to(const struct distribution *d, uint64_t value)
{
    uint32_t last = bucket_of(value);
    uint64_t sum = 0;
    hf_assert(bucket_end(last) == value);
    for (uint32_t i = 0; i <= last; i++) {
        sum += d->buckets[i];
    }
    return sum;
}

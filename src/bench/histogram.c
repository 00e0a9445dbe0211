/* A bucket is chosen by the highest bit of a value and the bits below it. */
#include "bench/histogram.h"

#include "base/panic.h"

static uint32_t bucket_of(uint64_t value)
{
    if (value < HISTOGRAM_PARTS) {
        return (uint32_t)value; /* small values have a bucket each */
    }
    uint32_t bits = 64 - (uint32_t)__builtin_clzll(value);
    if (bits > HISTOGRAM_VALUE_BITS) {
        return HISTOGRAM_BUCKETS - 1;
    }
    uint32_t shift = bits - HISTOGRAM_PART_BITS - 1;
    uint32_t part = (uint32_t)(value >> shift) - HISTOGRAM_PARTS;
    return (shift + 1) * HISTOGRAM_PARTS + part;
}

/* The largest value of the bucket. */
static uint64_t bucket_end(uint32_t bucket)
{
    if (bucket < HISTOGRAM_PARTS) {
        return bucket;
    }
    uint32_t shift = bucket / HISTOGRAM_PARTS - 1;
    uint64_t part = bucket % HISTOGRAM_PARTS + HISTOGRAM_PARTS;
    return ((part + 1) << shift) - 1;
}

void histogram_add(struct histogram *h, uint64_t value)
{
    uint32_t bucket = bucket_of(value);
    hf_assert(bucket < HISTOGRAM_BUCKETS);
    h->buckets[bucket]++;
    h->min = h->count == 0 || value < h->min ? value : h->min;
    h->max = value > h->max ? value : h->max;
    h->count++;
}

uint64_t histogram_at(const struct histogram *h, uint32_t share)
{
    hf_assert(share <= HISTOGRAM_ALL);
    if (h->count == 0) {
        return 0;
    }
    /* In two steps, because the product may overflow. */
    uint64_t rank = h->count / HISTOGRAM_ALL * share +
                    (h->count % HISTOGRAM_ALL * share + HISTOGRAM_ALL - 1) / HISTOGRAM_ALL;
    rank = rank == 0 ? 1 : rank;
    uint64_t seen = 0;
    uint32_t bucket = 0;
    for (; bucket < HISTOGRAM_BUCKETS - 1; bucket++) {
        seen += h->buckets[bucket];
        if (seen >= rank) {
            break;
        }
    }
    uint64_t end = bucket_end(bucket);
    /* The last bucket is unbounded. */
    return end > h->max || bucket == HISTOGRAM_BUCKETS - 1 ? h->max : end;
}

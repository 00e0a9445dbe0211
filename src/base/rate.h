/* A token bucket that holds the requests of one second, as one number: the time at which it is full
 * again (the generic cell rate algorithm). All zero: full. Time is an argument and never falls. */
#ifndef HOLDFAST_BASE_RATE_H
#define HOLDFAST_BASE_RATE_H

#include <stdbool.h>
#include <stdint.h>

struct rate_bucket {
    uint64_t full_ns;
};

enum { RATE_SECOND_NS = 1000000000 };

static inline uint64_t rate_after(const struct rate_bucket *b, uint64_t per_second, uint64_t now_us)
{
    uint64_t now_ns = now_us * 1000;
    return (b->full_ns > now_ns ? b->full_ns : now_ns) + RATE_SECOND_NS / per_second;
}

/* Microseconds until a token is there; 0: now. */
static inline uint64_t rate_wait_us(const struct rate_bucket *b, uint64_t per_second,
                                    uint64_t now_us)
{
    uint64_t after_ns = rate_after(b, per_second, now_us);
    uint64_t most_ns = now_us * 1000 + RATE_SECOND_NS;
    return after_ns <= most_ns ? 0 : (after_ns - most_ns + 999) / 1000;
}

/* Takes a token, also one that is not there: the debt is at most one second. */
static inline void rate_take(struct rate_bucket *b, uint64_t per_second, uint64_t now_us)
{
    uint64_t after_ns = rate_after(b, per_second, now_us);
    uint64_t most_ns = now_us * 1000 + 2 * (uint64_t)RATE_SECOND_NS;
    b->full_ns = after_ns < most_ns ? after_ns : most_ns;
}

#endif

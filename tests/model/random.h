/* Random numbers that are the same at every run: splitmix64. */
#ifndef HF_TESTS_MODEL_RANDOM_H
#define HF_TESTS_MODEL_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

struct random {
    uint64_t state;
};

static inline uint64_t random_next(struct random *r)
{
    uint64_t z = (r->state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* 0 to bound - 1. */
static inline uint32_t random_below(struct random *r, uint32_t bound)
{
    return (uint32_t)(((random_next(r) >> 32) * bound) >> 32);
}

/* low to high, both included. */
static inline uint32_t random_between(struct random *r, uint32_t low, uint32_t high)
{
    return low + random_below(r, high - low + 1);
}

static inline bool random_chance(struct random *r, uint32_t percent)
{
    return random_below(r, 100) < percent;
}

#endif

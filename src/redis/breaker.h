/* A circuit breaker: whether to ask a Redis that has failed. Pure; time (ms) is an argument.
 *
 * redis_link.h draws its states. The time that it stays open is doubled with each trial that fails,
 * between two bounds, and begins anew after a success. */
#ifndef HOLDFAST_REDIS_BREAKER_H
#define HOLDFAST_REDIS_BREAKER_H

#include <stdbool.h>
#include <stdint.h>

enum redis_breaker { REDIS_CLOSED, REDIS_OPEN, REDIS_HALF_OPEN };

struct breaker {
    uint32_t limit; /* failures in a row that open it */
    uint32_t open_min_ms;
    uint32_t open_max_ms;

    enum redis_breaker state;
    uint32_t failures;
    uint32_t open_ms; /* how long it opens the next time */
    uint64_t until_ms;
    uint64_t opened;
};

void breaker_init(struct breaker *b, uint32_t limit, uint32_t open_min_ms, uint32_t open_max_ms);
/* True when it opened by this. */
bool breaker_failed(struct breaker *b, uint64_t now_ms);
/* True when it closed by this. */
bool breaker_succeeded(struct breaker *b);
/* True when it is half open by this: its time is over, and one trial must be made now. */
bool breaker_rest(struct breaker *b, uint64_t now_ms);
const char *redis_breaker_name(enum redis_breaker breaker);

#endif

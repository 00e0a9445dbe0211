/* A circuit breaker; link.h has its states. Time (ms) is an argument.
 *
 * A failed trial doubles the open time, within bounds; a success resets it. */
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
    uint32_t open_ms; /* the next open time */
    uint64_t until_ms;
    uint64_t opened;
};

void breaker_init(struct breaker *b, uint32_t limit, uint32_t open_min_ms, uint32_t open_max_ms);
/* True: this failure opened it. */
bool breaker_failed(struct breaker *b, uint64_t now_ms);
/* True: this success closed it. */
bool breaker_succeeded(struct breaker *b);
/* True: its time is over, it is half open. The caller must make one trial now. */
bool breaker_rest(struct breaker *b, uint64_t now_ms);
const char *redis_breaker_name(enum redis_breaker breaker);

#endif

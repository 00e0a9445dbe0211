/* See breaker.h. */
#include "redis/breaker.h"

#include "base/panic.h"

void breaker_init(struct breaker *b, uint32_t limit, uint32_t open_min_ms, uint32_t open_max_ms)
{
    hf_assert(limit > 0 && open_min_ms > 0 && open_min_ms <= open_max_ms);
    *b = (struct breaker){.limit = limit,
                          .open_min_ms = open_min_ms,
                          .open_max_ms = open_max_ms,
                          .open_ms = open_min_ms};
}

bool breaker_failed(struct breaker *b, uint64_t now_ms)
{
    b->failures++;
    if (b->state == REDIS_OPEN || (b->state == REDIS_CLOSED && b->failures < b->limit)) {
        return false;
    }
    b->state = REDIS_OPEN;
    b->until_ms = now_ms + b->open_ms;
    b->open_ms = b->open_ms > b->open_max_ms / 2 ? b->open_max_ms : b->open_ms * 2;
    b->opened++;
    return true;
}

/* A call sent before it opened may still succeed; that predicts nothing. */
bool breaker_succeeded(struct breaker *b)
{
    if (b->state == REDIS_OPEN) {
        return false;
    }
    bool closed = b->state == REDIS_HALF_OPEN;
    b->state = REDIS_CLOSED;
    b->failures = 0;
    b->open_ms = b->open_min_ms;
    return closed;
}

bool breaker_rest(struct breaker *b, uint64_t now_ms)
{
    if (b->state != REDIS_OPEN || now_ms < b->until_ms) {
        return false;
    }
    b->state = REDIS_HALF_OPEN;
    return true;
}

const char *redis_breaker_name(enum redis_breaker breaker)
{
    static const char *const names[] = {"closed", "open", "half_open"};
    return names[breaker];
}

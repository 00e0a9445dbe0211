/* See stall.h. */
#include "node/stall.h"

bool stall_is_late(const struct stall *s, uint64_t now_us)
{
    return s->reading || now_us - s->turn_us > STALL_US;
}

bool stall_begin_turn(struct stall *s, uint64_t now_us, uint64_t bytes_read)
{
    if (!s->reading) {
        s->reading = now_us - s->turn_us > STALL_US;
        s->turns = 0;
    } else if (bytes_read == s->bytes || s->turns++ == STALL_TURNS) {
        s->reading = false;
    }
    s->bytes = bytes_read;
    s->turn_us = now_us;
    return s->reading;
}

bool stall_may_seal(const struct stall *s, uint64_t now_us)
{
    return !s->reading && now_us - s->turn_us <= STALL_US;
}

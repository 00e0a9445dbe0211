/* The rule of batch.h. */
#include "replica/batch.h"

uint64_t batch_close_at_us(const struct batch_situation *s)
{
    if (s->in_flight || s->waiting == 0) {
        return UINT64_MAX;
    }
    bool only_lazy = s->lazy == s->waiting;
    bool traffic_is_thin = s->expected <= 1;
    bool nearly_all_are_back = (uint64_t)s->waiting * 4 >= (uint64_t)s->expected * 3;
    if (!only_lazy && (traffic_is_thin || nearly_all_are_back)) {
        return 0;
    }
    uint64_t from_us = s->answered_us > s->first_us && !only_lazy ? s->answered_us : s->first_us;
    uint64_t at_us = from_us + (only_lazy ? BATCH_LAZY_US : BATCH_WAIT_US);
    return at_us <= s->now_us ? 0 : at_us;
}

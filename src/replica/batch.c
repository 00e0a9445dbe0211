/* The rule of batch.h. */
#include "replica/batch.h"

#include "base/panic.h"

uint64_t batch_close_at_us(const struct batch_situation *s)
{
    hf_assert(s->lazy <= s->waiting && s->lazy_us <= BATCH_LAZY_US);
    if (s->in_flight || s->waiting == 0) {
        return UINT64_MAX;
    }
    bool only_lazy = s->lazy == s->waiting;
    bool traffic_is_thin = s->expected <= 1;
    bool all_are_back = s->waiting >= s->expected;
    if (!only_lazy && (traffic_is_thin || all_are_back)) {
        return 0;
    }
    uint64_t at_us = s->first_us + s->lazy_us;
    if (!only_lazy) {
        uint64_t quiet_us = s->heard_us + BATCH_QUIET_US;
        uint64_t latest_us = s->answered_us + BATCH_WAIT_US;
        at_us = quiet_us < latest_us ? quiet_us : latest_us;
    }
    return at_us <= s->now_us ? 0 : at_us;
}

uint64_t batch_heard_us(uint64_t heard_us, uint64_t now_us)
{
    return now_us <= heard_us + BATCH_QUIET_US ? now_us : heard_us;
}

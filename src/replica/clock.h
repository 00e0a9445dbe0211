/* Cluster time (S1). While a node leads, its clock runs on CLOCK_BOOTTIME from the highest time
 * that it had received. Otherwise it is the highest time received in entries and in messages of
 * leaders. So time never goes back, and a change of leader loses at most the time without a leader.
 *
 * Only times of the latest term count. A partitioned leader goes on counting while its successor,
 * whose clock is behind, grants leases. The old leader's time would shorten them (decision
 * 0010). */
#ifndef HOLDFAST_REPLICA_CLOCK_H
#define HOLDFAST_REPLICA_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/panic.h"

struct cluster_clock {
    uint64_t heard_term;
    uint64_t heard_ms;
    uint64_t term; /* in which the clock runs, or ran last */
    uint64_t base_ms;
    uint64_t base_us;
    bool running;
};

static inline uint64_t clock_now_ms(const struct cluster_clock *c, uint64_t boot_us)
{
    if (!c->running) {
        return c->heard_ms;
    }
    return c->base_ms + (boot_us > c->base_us ? (boot_us - c->base_us) / 1000 : 0);
}

/* `term`: of the entry, or of the leader that sent the message. */
static inline void clock_hear(struct cluster_clock *c, uint64_t term, uint64_t ms)
{
    if (term > c->heard_term || (term == c->heard_term && ms > c->heard_ms)) {
        c->heard_term = term;
        c->heard_ms = ms;
    }
}

/* `log_ms`: the highest timestamp in the log (S1.3). It may be above the received time: this node
 * may have written a batch before it received a later term. */
static inline void clock_start(struct cluster_clock *c, uint64_t term, uint64_t log_ms,
                               uint64_t boot_us)
{
    hf_assert(!c->running);
    hf_assert(term > c->term); /* a node leads a term once (E13) */
    c->term = term;
    c->base_ms = c->heard_ms > log_ms ? c->heard_ms : log_ms;
    c->base_ms = c->base_ms > 0 ? c->base_ms : 1; /* 0 means no time */
    c->base_us = boot_us;
    c->running = true;
}

static inline void clock_stop(struct cluster_clock *c, uint64_t boot_us)
{
    hf_assert(c->running);
    clock_hear(c, c->term, clock_now_ms(c, boot_us));
    c->running = false;
}

/* When, on CLOCK_BOOTTIME, the running clock will show `ms`. */
static inline uint64_t clock_when_us(const struct cluster_clock *c, uint64_t ms)
{
    if (ms <= c->base_ms) {
        return c->base_us;
    }
    uint64_t ahead_ms = ms - c->base_ms;
    return ahead_ms > UINT64_MAX / 2000 ? UINT64_MAX : c->base_us + ahead_ms * 1000;
}

#endif

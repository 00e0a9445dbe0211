/* How far cluster time (S1.3) is behind a node's own clock, and so how much longer than its TTL a lease
 * lasted. Cluster time stands still without a leader; the clocks of leaders run at slightly different rates.
 *
 * Each node compares both clocks in each term. A follower has the leader's time from messages, so
 * the smallest difference of a term is used: it is exact up to the delay of the fastest message.
 *
 * All zeros is the beginning. No allocation, no clock: time is an argument. */
#ifndef HOLDFAST_NODE_COUNTS_CLUSTER_TIME_H
#define HOLDFAST_NODE_COUNTS_CLUSTER_TIME_H

#include <stdbool.h>
#include <stdint.h>

enum { CLUSTER_TIME_TERMS = 16 }; /* older ones are forgotten */

struct cluster_time {
    struct cluster_time_term {
        /* Cluster time at which it began; exact at its leader. */
        uint64_t from_ms;
        int64_t behind_us;       /* boot time minus cluster time, the smallest seen */
    } terms[CLUSTER_TIME_TERMS]; /* the newest is terms[count - 1] */
    uint32_t count;
    uint64_t term;
    int64_t first_us;   /* the difference in the first term */
    uint64_t window_us; /* boot time at which the younger window began */
    int64_t windows[2]; /* smallest difference: of the last complete window, of the younger */
    bool has_window;    /* the first of the two is set */
};

/* Call this several times a second while a leader is known, and when a term begins. `from_ms`: at which the
 * leader's clock began to run; 0: not known here. */
void cluster_time_note(struct cluster_time *c, uint64_t term, uint64_t from_ms, uint64_t cluster_ms,
                       uint64_t boot_us);
/* By how much cluster time has fallen behind this node's clock since the first call; negative if a
 * leader's clock is faster. */
int64_t cluster_time_behind_us(const struct cluster_time *c);
/* How much more time passed than cluster time between these two, which is time without a leader. What a
 * leader does at the begin of its clock comes after that time. */
uint64_t cluster_time_lost_us(const struct cluster_time *c, uint64_t from_ms, uint64_t to_ms);

#endif

/* When a batch is closed: one pure function, asked in one place after each turn of the loop.
 *
 * One batch is in flight at a time and the next gathers meanwhile. What a batch costs (a sync, a
 * round trip, a wake-up of five processes) is shared by what is in it, so it pays to wait for those
 * who are about to ask again because the last batch answered them, as long as they keep coming, but
 * never for long. Those who gathered meanwhile wait too: else two halves of the clients take turns
 * in batches of half the size, and each batch costs the same (decisions 0011 and 0013). */
#ifndef HOLDFAST_REPLICA_BATCH_H
#define HOLDFAST_REPLICA_BATCH_H

#include <stdbool.h>
#include <stdint.h>

#define BATCH_QUIET_US 200   /* who has not come back so long after the last who did, will not */
#define BATCH_WAIT_US 1000   /* nobody waits longer than that for others */
#define BATCH_LAZY_US 100000 /* keep-alives and ticks alone, at most (S4.5) */

struct batch_situation {
    bool in_flight;       /* the last batch is not applied yet */
    uint32_t waiting;     /* commands and reads that wait in the open batch */
    uint32_t lazy;        /* of those, how many are in no hurry */
    uint64_t lazy_us;     /* how long those may wait */
    uint32_t expected;    /* who waited when the last batch was answered, and of those whom it
                             answered as many as usually come back (return_predictor.h) */
    uint64_t answered_us; /* when their answers had left */
    uint64_t heard_us;    /* that, or when the last of those came who came in time */
    uint64_t first_us;    /* when the first of the waiting came */
    uint64_t now_us;
};

/* 0: close now. UINT64_MAX: not before something happens. Otherwise: not before that time. */
uint64_t batch_close_at_us(const struct batch_situation *s);
/* Somebody came: what heard_us is now. */
uint64_t batch_heard_us(uint64_t heard_us, uint64_t now_us);

#endif

/* Decides when a batch is closed: one pure function, called after each event-loop iteration.
 *
 * One batch is in flight at a time; the next one collects commands meanwhile. The commands of a
 * batch share its cost. So a batch waits briefly for clients that the last batch answered and that
 * will send their next request immediately. Commands that arrived during the flight wait too: else
 * two halves of the clients alternate in batches of half the size (decisions 0011 and 0013). */
#ifndef HOLDFAST_REPLICA_BATCH_H
#define HOLDFAST_REPLICA_BATCH_H

#include <stdbool.h>
#include <stdint.h>

#define BATCH_QUIET_US 200   /* after this much silence, expect no further clients */
#define BATCH_WAIT_US 1000   /* no command waits longer for other clients */
#define BATCH_LAZY_US 100000 /* keep-alives and ticks alone wait at most so long (S4.5) */

struct batch_situation {
    bool in_flight;
    uint32_t waiting; /* commands and reads in the open batch */
    uint32_t lazy;    /* of those, the lazy ones */
    uint64_t lazy_us;
    uint32_t expected;    /* commands that waited at the last answer, plus its clients that will
                             probably return (return_predictor.h) */
    uint64_t answered_us; /* when the answers of the last batch were written */
    uint64_t heard_us;    /* that, or the last arrival that followed in time (batch_heard_us) */
    uint64_t first_us;    /* when the first waiting command arrived */
    uint64_t now_us;
};

/* 0: close now. UINT64_MAX: wait for an event. Otherwise: the earliest time to close. */
uint64_t batch_close_at_us(const struct batch_situation *s);
/* The new heard_us after the arrival of a command. */
uint64_t batch_heard_us(uint64_t heard_us, uint64_t now_us);

#endif

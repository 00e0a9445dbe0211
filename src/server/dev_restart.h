/* When a node of the local cluster that has ended starts again: after a pause that doubles with each failure in
 * a row, and not at all after several. Pure; times are milliseconds of any one clock. */
#ifndef HOLDFAST_SERVER_DEV_RESTART_H
#define HOLDFAST_SERVER_DEV_RESTART_H

#include <stdbool.h>
#include <stdint.h>

enum {
    DEV_PAUSE_MS = 3000,      /* by default, from the end of a node to its next start */
    DEV_PAUSE_MAX_MS = 60000, /* it doubles up to here */
    DEV_STEADY_MS = 10000,    /* a node that ran for so long did not fail at its start */
    DEV_FAILURES_MAX = 5,     /* in a row; then the node stays down */
};

struct dev_restart {
    int64_t started_ms;
    int64_t due_ms;    /* of the next start; 0: none is planned */
    unsigned failures; /* in a row */
};

/* How a node ended. */
struct dev_end {
    bool was_ready;
    bool was_signalled; /* by SIGKILL or SIGTERM: somebody wanted it to end */
};

/* Plans the next start. False: the node has failed too often and stays down. */
bool dev_restart_plan(struct dev_restart *r, struct dev_end end, uint64_t pause_ms, int64_t now_ms);

#endif

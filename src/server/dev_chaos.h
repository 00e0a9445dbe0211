/* `holdfast dev --chaos`: nodes of the local cluster are killed, or stopped for a while, on a schedule drawn from a
 * seed. Never more than a minority is away at once: a planned fault waits until it can be done, so that a seed gives
 * the same faults in the same order. */
#ifndef HOLDFAST_SERVER_DEV_CHAOS_H
#define HOLDFAST_SERVER_DEV_CHAOS_H

#include "server/dev_cluster.h"

enum {
    DEV_CHAOS_INTERVAL_MS = 10000, /* by default, from one fault to the next, on average */
    DEV_CHAOS_INTERVAL_MIN_MS = 1000,
    DEV_CHAOS_INTERVAL_MAX_MS = 3600000,
    DEV_CHAOS_SETTLE_MS =
        1000, /* a stopped node still counts as away for so long after it continued */
    DEV_CHAOS_NODES_MIN = 3, /* fewer have no minority */
};

struct dev_fault {
    unsigned node; /* index in dev_cluster.nodes */
    bool is_kill;  /* else the node is stopped for `stop_ms` */
    int64_t stop_ms;
    int64_t after_ms; /* from the fault before it */
};

struct dev_chaos {
    uint64_t interval_ms; /* 0: no faults */
    uint64_t random;
    struct dev_fault planned;
    int64_t due_ms;
    pid_t killed[DEV_NODES_MAX];        /* the process that was killed last */
    pid_t stopped[DEV_NODES_MAX];       /* 0: not stopped */
    int64_t continue_ms[DEV_NODES_MAX]; /* of a stopped one */
    int64_t settled_ms[DEV_NODES_MAX];  /* of one that was stopped */
};

/* `interval_ms` 0: no faults. */
void dev_chaos_begin(struct dev_chaos *chaos, const struct dev_cluster *c, uint64_t seed,
                     uint64_t interval_ms, int64_t now_ms);
/* The next fault of the sequence. */
struct dev_fault dev_chaos_draw(struct dev_chaos *chaos, unsigned nodes);
/* Not serving: ended, not ready yet, stopped, or continued a moment ago. */
bool dev_chaos_is_away(const struct dev_chaos *chaos, const struct dev_cluster *c, unsigned node,
                       int64_t now_ms);
/* Whether the planned fault leaves a majority that serves. */
bool dev_chaos_is_allowed(const struct dev_chaos *chaos, const struct dev_cluster *c,
                          int64_t now_ms);

/* Time until dev_chaos_run has something to do; -1: without limit. */
int dev_chaos_in_ms(const struct dev_chaos *chaos, const struct dev_cluster *c, int64_t now_ms);
/* Does what is due, and prints it. */
void dev_chaos_run(struct dev_chaos *chaos, const struct dev_cluster *c, int64_t now_ms);

#endif

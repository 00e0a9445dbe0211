/* What the parts of raft_floor share: how many nodes, what they measure, and how they meet. */
#ifndef HOLDFAST_BENCH_RAFT_FLOOR_H
#define HOLDFAST_BENCH_RAFT_FLOOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FLOOR_NODES_MAX = 7, FLOOR_RESULTS = 3 };

/* How many commands are under way, for each of the results. */
extern const unsigned floor_outstanding[FLOOR_RESULTS];

struct floor_figures {
    double commands_per_second;
    double p50_us;
    double p99_us;
    double sync_p50_us; /* of the leader's disk */
};

struct floor_settings {
    unsigned nodes;
    double seconds; /* for each result */
    const char *folder;
    unsigned there; /* bytes of a client's request, and of its answer */
    unsigned back;
    bool has_thread; /* for the disk */
};

/* ---- raft_floor.c ---- */

/* Ends this process with what errno says of it. */
_Noreturn void floor_die(const char *what);
uint64_t floor_now_ns(void);

/* ---- raft_floor_node.c ---- */

/* One process of the group; `fds` are its connections, by the others' ids. Node 1 leads, measures,
 * and writes its figures into `results`; the others stay until they are ended. */
_Noreturn void floor_run_node(uint64_t id, const struct floor_settings *s,
                              const int fds[FLOOR_NODES_MAX + 1], int results);

/* ---- raft_floor_trip.c ---- */

/* A connection over loopback; both ends are ours. */
void floor_connect(int ends[2]);
/* The median round trip of a client in microseconds. */
double floor_round_trip_us(const struct floor_settings *s);

#endif

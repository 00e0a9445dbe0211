/* A lone node without sockets, threads and clock: the modules of a running node (service, forward,
 * replica, both tiers, log) on a disk in memory. For bench/hotpath.c. */
#ifndef HOLDFAST_BENCH_HOTPATH_NODE_H
#define HOLDFAST_BENCH_HOTPATH_NODE_H

#include "service/service.h"

/* Opens the only node of the process; it leads and serves when this returns. `secret`: auth = on, and
 * the token of default/bench, which may take locks under bench/; "": auth = off. */
void hotpath_node_open(const char *secret);
void hotpath_node_close(void);

/* For the connections of clients. */
struct service *hotpath_node_service(void);

/* Runs turns of the event loop until all requests are answered. */
void hotpath_node_run(void);

#endif

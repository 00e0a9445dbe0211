/* How the file descriptors of the process are shared.
 *
 *     limit = open at the start + fixed + log + peers + refusals + clients
 *
 * Clients get the rest: log, snapshots and peers never lack a descriptor. */
#ifndef HOLDFAST_NODE_CLIENTS_DESCRIPTORS_H
#define HOLDFAST_NODE_CLIENTS_DESCRIPTORS_H

#include <stdint.h>

enum {
    DESCRIPTORS_FIXED = 32, /* loop, timers, listening sockets, resolver, Redis, snapshot files */
    DESCRIPTORS_LOG = 32,   /* minimum: the segments, and the next one */
    DESCRIPTORS_REFUSALS = 16, /* connections being refused */
    DESCRIPTORS_CLIENTS = 16,  /* minimum: with fewer a node does not start */
};

struct descriptor_use {
    uint64_t limit;        /* RLIMIT_NOFILE */
    uint64_t open;         /* before the node opened anything */
    uint64_t log_segments; /* files that the log has, or is expected to have */
};

struct descriptor_shares {
    uint32_t clients; /* 0: the others need all */
    uint32_t peers;   /* incoming; the same number is kept for outgoing ones */
};

void descriptors_share(const struct descriptor_use *use, struct descriptor_shares *out);
/* The smallest limit that leaves `clients` descriptors for clients. */
uint64_t descriptors_needed(const struct descriptor_use *use, uint32_t clients);

/* RLIMIT_NOFILE, and how many descriptors are open. */
uint64_t descriptors_limit(void);
uint64_t descriptors_open(void);

#endif

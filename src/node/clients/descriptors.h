/* Who gets how many of the process's file descriptors.
 *
 *     limit = open at the start + fixed + log + peers + refusals + clients
 *
 * Client connections get what the others leave, so that the log, snapshots and other nodes never
 * lack a descriptor, however many clients there are. */
#ifndef HOLDFAST_NODE_CLIENTS_DESCRIPTORS_H
#define HOLDFAST_NODE_CLIENTS_DESCRIPTORS_H

#include <stdint.h>

enum {
    DESCRIPTORS_FIXED = 32, /* loop, timers, listening sockets, resolver, Redis, snapshot files */
    DESCRIPTORS_LOG = 32,   /* of the log at least: segments, and the one that is being made */
    DESCRIPTORS_REFUSALS = 16, /* connections that are being refused */
    DESCRIPTORS_CLIENTS = 16,  /* with fewer for clients a node does not start */
};

struct descriptor_use {
    uint64_t limit;        /* RLIMIT_NOFILE */
    uint64_t open;         /* at the start, before the node opened anything */
    uint64_t log_segments; /* files that the log has, or is expected to have */
};

struct descriptor_shares {
    uint32_t clients; /* 0 where the others need all */
    uint32_t peers;   /* connections that other nodes made; as many again are for our own */
};

void descriptors_share(const struct descriptor_use *use, struct descriptor_shares *out);
/* The smallest limit that leaves `clients` descriptors for clients. */
uint64_t descriptors_needed(const struct descriptor_use *use, uint32_t clients);

/* RLIMIT_NOFILE, and how many descriptors are open. */
uint64_t descriptors_limit(void);
uint64_t descriptors_open(void);

#endif

/* The store id of each node of the cluster (S12.1), in a small file.
 *
 * A node learns it by dialling a member's address, or from another member. An entry never changes.
 * A node that presents another store id has lost its disk, and its votes with it: it must not vote
 * again.
 *
 * Ids are never reused: the entry of a removed node is dropped, and every id up to it counts as
 * used. */
#ifndef HOLDFAST_NODE_PEERS_KNOWN_STORES_H
#define HOLDFAST_NODE_PEERS_KNOWN_STORES_H

#include "base/limits.h"
#include "base/slice.h"
#include "storage/disk.h"

#define KNOWN_STORES_MAX (4 * LIMIT_NODES)
#define KNOWN_STORES_NAME "known-stores"

struct known_store {
    uint64_t node;
    struct id store;
};

struct known_stores {
    uint64_t removed; /* highest id that this node saw removed */
    uint64_t used;    /* `removed`, or what a member reported if higher; new members are above it */
    uint32_t count;
    struct known_store at[KNOWN_STORES_MAX];
};

/* Upper bound of `removed` and `used`: unused ids always exist above it. A removed node with a
 * higher id keeps its entry. */
#define KNOWN_STORES_ID_MAX (UINT64_C(4294967295) - 65535)

/* A missing file is an empty list; a damaged one is STORAGE_CORRUPT. */
enum storage_status known_stores_load(struct known_stores *known, struct disk *disk,
                                      struct problem *problem);
/* Durable when it returns. */
enum storage_status known_stores_save(const struct known_stores *known, struct disk *disk,
                                      struct problem *problem);

/* NULL: not known. */
const struct known_store *known_stores_find(const struct known_stores *known, uint64_t node);
/* False: full. The node must have no entry. */
bool known_stores_add(struct known_stores *known, uint64_t node, struct id store);
/* No entry: does nothing. */
void known_stores_remove(struct known_stores *known, uint64_t node);
/* The id belongs, or may have belonged, to a member. */
bool known_stores_is_used(const struct known_stores *known, uint64_t node);

struct known_members {
    const uint64_t *ids;
    uint32_t count;
};
/* Drops the entries of removed members. Returns whether something changed. */
bool known_stores_follow(struct known_stores *known, struct known_members before,
                         struct known_members now);
/* If full, drops the entry with the lowest id that is not a member. */
void known_stores_evict(struct known_stores *known, struct known_members now);
/* Returns whether something changed. */
bool known_stores_raise_used(struct known_stores *known, uint64_t used);

#endif

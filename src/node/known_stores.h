/* Which store each node of the cluster has (S12.1), in a small file of its own. The first greeting
 * teaches it, nodes tell each other what they know, and from then on a node that comes with another
 * store has lost its disk: what it promised by its votes is forgotten, and it must not vote again.
 * Ids are never used again, so entries are never changed and never removed. */
#ifndef HOLDFAST_NODE_KNOWN_STORES_H
#define HOLDFAST_NODE_KNOWN_STORES_H

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
    uint32_t count;
    struct known_store at[KNOWN_STORES_MAX];
};

/* No file is an empty list; a damaged one is STORAGE_CORRUPT. */
enum storage_status known_stores_load(struct known_stores *known, struct disk *disk,
                                      struct problem *problem);
/* Durable when it returns. */
enum storage_status known_stores_save(const struct known_stores *known, struct disk *disk,
                                      struct problem *problem);

/* NULL: not known. */
const struct known_store *known_stores_find(const struct known_stores *known, uint64_t node);
/* False when there is no room. The node must not be known. */
bool known_stores_add(struct known_stores *known, uint64_t node, struct id store);

#endif

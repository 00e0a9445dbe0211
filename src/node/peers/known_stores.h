/* Which store each node of the cluster has (S12.1), in a small file of its own. A node that answers
 * at the address of a member teaches its own, and members tell each other what they know. From then
 * on a node that comes with another store has lost its disk: what it promised by its votes is
 * forgotten, and it must not vote again. Entries are never changed.
 *
 * Ids are never used again. So an entry of a node that was removed is not kept: instead every id up
 * to the highest that was removed counts as used, and a new member needs a higher one. */
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
    uint64_t
        removed;   /* the highest id that this node saw removed; who is not above it is no member */
    uint64_t used; /* at least that, and what members told: new members need a higher id */
    uint32_t count;
    struct known_store at[KNOWN_STORES_MAX];
};

/* The highest that both can be, so that there are always ids above: what is removed beyond it keeps
 * its entry. */
#define KNOWN_STORES_ID_MAX (UINT64_C(4294967295) - 65535)

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
/* Nothing if it is not there. */
void known_stores_remove(struct known_stores *known, uint64_t node);
/* Was a member, or may have been: not to be used for another node. */
bool known_stores_is_used(const struct known_stores *known, uint64_t node);

/* A list of members, for what follows. */
struct known_members {
    const uint64_t *ids;
    uint32_t count;
};
/* The committed members were `before` and are `now`: what was removed is not known any more. True:
 * something changed. */
bool known_stores_follow(struct known_stores *known, struct known_members before,
                         struct known_members now);
/* There is no room: makes some, of the lowest that is no member. */
void known_stores_make_room(struct known_stores *known, struct known_members now);
/* A member told that ids up to `used` were used. True: something changed. */
bool known_stores_raise_used(struct known_stores *known, uint64_t used);

#endif

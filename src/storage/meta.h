/* Who this node is, and its term and vote: the one small file that must never go back (S12.1).
 *
 * The file `meta` holds the same state twice, a page each. A save writes one copy and syncs it,
 * then the other and syncs it, and only then returns. So a torn write leaves the other copy, which
 * is whole and not older than what was acknowledged; and a bit that flips later in one of them
 * harms nothing, since the other has the same. If neither is sound the node does not start: a vote
 * given and forgotten would elect two leaders.
 *
 * Belongs to one thread at a time, which need not be the log's. */
#ifndef HOLDFAST_STORAGE_META_H
#define HOLDFAST_STORAGE_META_H

#include <stdbool.h>

#include "base/slice.h"
#include "storage/disk.h"

#define META_NAME "meta"

struct meta_state {
    struct id cluster; /* zero until it is known */
    struct id store;   /* random, made with the folder: another disk is another store */
    uint64_t node;
    uint64_t term;
    uint64_t vote;     /* the node voted for in this term, 0 for none */
    uint64_t life;     /* counts the openings */
    bool bootstrapped; /* it may take part in elections */
    bool log_made;     /* from then on a missing log is damage */
};

/* The caller allocates it; fields other than `state` are private. */
struct meta {
    struct meta_state state; /* to be read; changed by meta_save alone */
    bool repaired;           /* one copy was not sound when the file was read */
    struct disk_file *file;
    uint64_t sequence;
    unsigned newest; /* the copy that was read or written last */
    struct problem broken;
};

/* Makes the file, durably. For a folder that has none. */
enum storage_status meta_create(struct disk *disk, const struct meta_state *state,
                                struct problem *problem);

/* Reads the file and changes nothing. STORAGE_MISSING when there is none. Closed with meta_close,
 * also after an error. */
enum storage_status meta_open(struct meta *meta, struct disk *disk, struct problem *problem);
void meta_close(struct meta *meta);

/* Begins a life: makes durable what was read, which perhaps is not yet (S12.2), with both copies
 * sound and `life` one higher. To be called once, before anything else is written to the folder. */
enum storage_status meta_begin_life(struct meta *meta, struct problem *problem);

/* Makes `next` the state. The term does not fall, a vote is not changed within a term, and what a
 * store is stays. After any failure every later save fails with the same problem. */
enum storage_status meta_save(struct meta *meta, const struct meta_state *next,
                              struct problem *problem);

/* The same for term and vote alone. */
enum storage_status meta_save_vote(struct meta *meta, uint64_t term, uint64_t vote,
                                   struct problem *problem);

#endif

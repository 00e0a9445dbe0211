/* Identity, term and vote of this node: the one small file that must never go back (S12.1).
 *
 * The file `meta` holds the same state twice, a page each. A save writes and syncs one copy, then
 * the other. So after a torn write or a bit flip the other copy is valid and not older than what
 * was acknowledged. If no copy is valid the node does not start: a forgotten vote could elect two
 * leaders.
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
    struct id store;   /* random, created with the folder: identifies the disk */
    uint64_t node;
    uint64_t term;
    uint64_t vote;     /* the node voted for in this term, 0 for none */
    uint64_t life;     /* number of openings */
    bool bootstrapped; /* may take part in elections */
    bool log_made;     /* a log exists, so a missing one is damage */
};

/* Allocated by the caller; all but `state` and `repaired` are private. */
struct meta {
    struct meta_state state; /* changed by meta_save alone */
    bool repaired;           /* one copy was not valid when the file was read */
    struct disk_file *file;
    uint64_t sequence;
    unsigned newest; /* the copy that was read or written last */
    struct problem broken;
};

/* Durably. The folder must not have one. */
enum storage_status meta_create(struct disk *disk, const struct meta_state *state,
                                struct problem *problem);

/* Changes nothing. STORAGE_MISSING when there is none. Closed with meta_close, also after an
 * error. */
enum storage_status meta_open(struct meta *meta, struct disk *disk, struct problem *problem);
void meta_close(struct meta *meta);

/* Writes both copies durably, with `life` one higher, since what was read may not be durable yet
 * (S12.2). Once, before anything else is written to the folder. */
enum storage_status meta_begin_life(struct meta *meta, struct problem *problem);

/* Makes `next` the state. The term does not fall, a vote does not change within a term, the
 * identity stays. After a failure every later save fails with the same problem. */
enum storage_status meta_save(struct meta *meta, const struct meta_state *next,
                              struct problem *problem);

/* The same for term and vote alone. */
enum storage_status meta_save_vote(struct meta *meta, uint64_t term, uint64_t vote,
                                   struct problem *problem);

#endif

/* The folder of one node, as a whole: lock, meta, log and snapshots, opened in the one order in
 * which that is safe, and checked against each other.
 *
 *   lock                      held while the store is open; two processes never share a folder
 *   meta                      identity, term, vote; its version is that of the folder
 *   log-NUMBER                segments of the log
 *   spare-NUMBER              segments that are used again
 *   snapshot-INDEX-TERM
 *   *.tmp                     in the making, removed at opening
 *
 * What the node must do in order, so that any crash leaves a folder that opens:
 *
 *   - term and vote are saved before entries of that term are appended, also when bootstrapping;
 *   - `bootstrapped` is saved after the first entry is appended;
 *   - a snapshot is durable (commit) before the log is dropped or reset. */
#ifndef HOLDFAST_STORAGE_STORE_H
#define HOLDFAST_STORAGE_STORE_H

#include "storage/log.h"
#include "storage/meta.h"
#include "storage/snapshots.h"

struct store_options {
    uint64_t node;
    struct id cluster;      /* zero: whatever the folder says */
    struct id new_store;    /* random; becomes the store id of a folder that is new */
    uint32_t segment_bytes; /* see struct log_options */
    uint32_t spare_limit;
    bool direct;
};

/* The caller allocates it and uses its members through their own headers. */
struct store {
    struct disk *disk;
    struct disk_file *lock;
    struct meta meta;
    struct snapshots *snapshots;
    struct log *log;
    bool is_new; /* the folder was empty */
};

/* Opens the folder, or begins one when it is empty. When this returns, all that is in the log and
 * in the meta file is durable (S12.2), the log reaches down to the snapshot, and the entry at its
 * index, if there is one, is the one that the snapshot ends with. The texts of problems say what is
 * wrong, with which file, and what to do. On failure nothing stays open. */
enum storage_status store_open(struct store *store, struct disk *disk,
                               const struct store_options *options, struct problem *problem);

/* Writes nothing; a clean stop calls log_seal before. Also for a store whose open failed. */
void store_close(struct store *store);

#endif

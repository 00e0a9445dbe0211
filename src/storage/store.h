/* The folder of one node: lock, meta, log and snapshots, opened in the one safe order and checked
 * against each other.
 *
 *   lock                      held while the store is open; two processes never share a folder
 *   meta                      identity, term, vote; its version is that of the folder
 *   log-NUMBER                segments of the log
 *   spare-NUMBER              segments for reuse
 *   snapshot-INDEX-TERM
 *   *.tmp                     unfinished, removed at opening
 *
 * The node must keep this order, so that the folder opens after any crash:
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
    struct id cluster;      /* zero: take it from the folder */
    struct id new_store;    /* random; the store id if the folder is new */
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

/* Opens the folder, or initialises it when it is empty. All of log and meta file is then durable
 * (S12.2), the log reaches down to the snapshot, and its entry at the snapshot's index, if any, is
 * the snapshot's last one. On failure nothing stays open. */
enum storage_status store_open(struct store *store, struct disk *disk,
                               const struct store_options *options, struct problem *problem);

/* Writes nothing; a clean stop calls log_seal before. Also for a store whose open failed. */
void store_close(struct store *store);

#endif

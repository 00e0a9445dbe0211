/* A state that no node runs: read from the folder of a stopped node or from a snapshot file, shown,
 * and made into the folder of a new cluster's first member (S3.3). What `holdfast recover` and
 * `holdfast snapshot` share.
 *
 *      folder of a stopped node ─┐
 *                                ├─▶ offline_state ──offline_make──▶ folder of a new cluster
 *      snapshot file ────────────┘
 *
 * Blocks; for commands that do nothing else. */
#ifndef HOLDFAST_NODE_OFFLINE_H
#define HOLDFAST_NODE_OFFLINE_H

#include "base/limits.h"
#include "core/core.h"
#include "node/peers/peer_protocol.h"
#include "storage/store.h"

struct offline_member {
    uint64_t id;
    char address[PEER_ADDRESS_MAX + 1]; /* of its peer port */
    bool voter;
};

struct offline_state {
    struct id cluster;
    uint64_t node;           /* 0: it comes from a file */
    uint64_t snapshot_index; /* 0: there was none */
    uint64_t snapshot_bytes;
    uint64_t index; /* of the last entry, which is applied like all before it */
    uint64_t term;  /* of that entry */
    uint64_t known_term;
    uint64_t members_index;
    uint32_t member_count;
    struct offline_member members[LIMIT_NODES];
    struct core *core;

    /* The folder, which stays locked until offline_close. */
    struct disk *disk;
    struct store store;
    bool store_open;
};

#define OFFLINE_PROBLEM 640

/* Reads a stopped node's folder: the snapshot, and every entry of its log, known to be committed or
 * not: one that was acknowledged may be among the last ones, and nobody is left to ask. Opens it as
 * a start of the node does, so the log's tail is made durable; what it holds stays the same. False,
 * and a sentence: another process uses it, it is another node's, it holds none, it is damaged. */
bool offline_read_folder(struct offline_state *state, const char *path, uint64_t node,
                         char problem[OFFLINE_PROBLEM]);
/* Reads and checks a snapshot file of any name. */
bool offline_read_file(struct offline_state *state, const char *path,
                       char problem[OFFLINE_PROBLEM]);
/* Also for a state that could not be read. */
void offline_close(struct offline_state *state);

struct offline_new {
    const char *path;    /* of the new folder; there may be an empty one */
    uint64_t node;       /* who will be the only member, ... */
    const char *address; /* ... and where others reach it */
    struct slice actor;  /* for the audit record */
    struct slice reason;
    uint64_t wall_ms;
};

/* Does what S3.3 says to the state, and makes it durable as the folder of a cluster of one, with
 * new cluster and store ids. `*cluster` is the new one's. On failure what was written is removed.
 */
bool offline_make(struct offline_state *state, const struct offline_new *options,
                  struct id *cluster, char problem[OFFLINE_PROBLEM]);
/* Removes what offline_make made: the files that lie directly in the folder, and the folder. */
void offline_remove(const char *path);

#endif

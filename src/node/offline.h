/* A state that no node runs: read from the folder of a stopped node or a snapshot file, and made
 * into the folder of the first member of a new cluster (S3.3), for `holdfast recover` and `holdfast
 * snapshot`.
 *
 *      folder of a stopped node ─┐
 *                                ├─▶ offline_state ──offline_make──▶ folder of a new cluster
 *      snapshot file ────────────┘
 *
 * All functions block. */
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

/* Work that may take long, in steps ("reading the log"); `step` has a static lifetime. Bytes or log
 * entries; `total` 0: not known. */
struct offline_watch {
    void (*note)(void *ctx, const char *step, bool is_bytes, uint64_t done, uint64_t total);
    void *ctx;
};

struct offline_state {
    struct offline_watch watch; /* set before reading; `note` may be NULL */
    struct id cluster;
    uint64_t node;           /* 0: read from a snapshot file */
    uint64_t snapshot_index; /* 0: no snapshot */
    uint64_t snapshot_bytes;
    uint64_t index; /* of the last entry; all up to it are applied */
    uint64_t term;  /* of that entry */
    uint64_t known_term;
    uint64_t members_index;
    uint32_t member_count;
    struct offline_member members[LIMIT_NODES];
    struct core *core;

    /* Locked until offline_close. */
    struct disk *disk;
    struct store store;
    bool store_open;
};

#define OFFLINE_PROBLEM 640

/* Reads the snapshot and the whole log: an entry not known to be committed may be acknowledged, and
 * no other node can confirm it. Opens the folder like the start of a node: makes the log's tail
 * durable, changes nothing else. False, with a problem: another process uses it, it belongs to
 * another node, it contains no node, or it is damaged. */
bool offline_read_folder(struct offline_state *state, const char *path, uint64_t node,
                         char problem[OFFLINE_PROBLEM]);
bool offline_read_file(struct offline_state *state, const char *path,
                       char problem[OFFLINE_PROBLEM]);
/* Also for a state that could not be read. */
void offline_close(struct offline_state *state);

struct offline_new {
    const char *path;    /* must be missing or empty */
    uint64_t node;       /* the only member */
    const char *address; /* of its peer port */
    struct slice actor;  /* for the audit record */
    struct slice reason;
    uint64_t wall_ms;
};

/* Changes the state as S3.3 requires, and writes it durably as the folder of a cluster of one, with
 * new cluster and store ids; `*cluster` is the first. On failure removes what it wrote. */
bool offline_make(struct offline_state *state, const struct offline_new *options,
                  struct id *cluster, char problem[OFFLINE_PROBLEM]);
/* The files directly in the folder, and the folder. */
void offline_remove(const char *path);

#endif

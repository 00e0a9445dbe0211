/* Serves a snapshot to a client that requests a backup (service/gateway.h): waits for one that is
 * new enough, and pins its file while the client reads.
 *
 *      open ──▶ waiting ──newest index is enough──▶ read ... ──▶ close ──▶ old files are removed
 *                  └──snapshot failed──▶ HF_UNAVAILABLE
 */
#ifndef HOLDFAST_NODE_SNAPSHOT_SNAPSHOT_GIVE_H
#define HOLDFAST_NODE_SNAPSHOT_SNAPSHOT_GIVE_H

#include "base/journal.h"
#include "base/list.h"
#include "node/log/logger.h"
#include "service/gateway.h"

struct snapshot_give_options {
    const struct memory *memory;
    const struct journal *journal;
    struct store *store;
    struct logger *logger;
};

/* Part of the node; needs no closing. */
struct snapshot_gives {
    struct snapshot_give_options options;
    struct list waiting;
    bool pruning;     /* the log thread removes old files */
    bool prune_again; /* another file was unpinned meanwhile */
};

void snapshot_gives_init(struct snapshot_gives *g, const struct snapshot_give_options *options);

/* The snapshot must be of `index` or later. */
void snapshot_give_open(struct snapshot_gives *g, uint64_t index,
                        struct gateway_snapshot_call *call);
bool snapshot_give_read(struct gateway_snapshot_call *call, uint64_t offset, void *to, size_t len);
void snapshot_give_close(struct gateway_snapshot_call *call);

/* True: some calls wait for a newer one. */
bool snapshot_gives_step(struct snapshot_gives *g, uint64_t newest_index);
/* Fails all waiting calls with HF_UNAVAILABLE. */
void snapshot_gives_fail(struct snapshot_gives *g, const char *problem);

#endif

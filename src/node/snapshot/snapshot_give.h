/* Gives the bytes of a snapshot to a client that asks for a backup (service/gateway.h): waits until
 * one is there that is new enough, keeps its file while it is read, and lets it go then.
 *
 *      open ──▶ waits ──newest index is enough──▶ read ... ──▶ close ──▶ what is old is removed
 *                 └──cannot be taken──▶ HF_UNAVAILABLE
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

/* All of them; lies in the node, and needs no closing. */
struct snapshot_gives {
    struct snapshot_give_options options;
    struct list waiting;
    bool pruning;     /* the log's thread is at it */
    bool prune_again; /* another one was let go meanwhile */
};

void snapshot_gives_init(struct snapshot_gives *g, const struct snapshot_give_options *options);

/* `index` is what the snapshot has to hold at least. */
void snapshot_give_open(struct snapshot_gives *g, uint64_t index,
                        struct gateway_snapshot_call *call);
bool snapshot_give_read(struct gateway_snapshot_call *call, uint64_t offset, void *to, size_t len);
void snapshot_give_close(struct gateway_snapshot_call *call);

/* The newest snapshot is of `newest_index`. True when some wait for a newer one. */
bool snapshot_gives_step(struct snapshot_gives *g, uint64_t newest_index);
/* None can be taken: those who wait are told so. */
void snapshot_gives_fail(struct snapshot_gives *g, const char *problem);

#endif

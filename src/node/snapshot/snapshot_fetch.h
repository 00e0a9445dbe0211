/* Fetches a snapshot from a peer (S12.4) over a separate connection, and checks each piece before
 * it is written. Then the log thread syncs and names the file, resets the log and loads the state.
 * The fetch is abandoned (E20) if the sender is silent (snapshot_patience.h) or the data is
 * invalid. What a silent sender sent is kept for a minute, for another announcement of that
 * snapshot.
 *
 *      idle ──start──▶ dialling ──connected──▶ receiving ──complete──▶ installing ──▶ on_fetched
 *                       │    ▲                  │      │                               idle
 *                       │    └───────lost───────┘      │
 *                       └──silent──┬──silent, invalid──┘
 *                                  └──▶ on_abandoned, idle */
#ifndef HOLDFAST_NODE_SNAPSHOT_SNAPSHOT_FETCH_H
#define HOLDFAST_NODE_SNAPSHOT_SNAPSHOT_FETCH_H

#include "node/log/logger.h"
#include "node/peers/peers.h"

struct snapshot_fetch;

struct snapshot_fetch_options {
    struct net *net;
    const struct journal *journal;
    const struct peer_self *self;
    struct peers *peers;
    struct store *store;
    struct logger *logger;
    struct core_options core;
    uint32_t election_ms;
    void *ctx;
    void (*on_fetched)(void *ctx, struct core *core, uint64_t bytes);
    /* The node's log and state are unchanged. */
    void (*on_abandoned)(void *ctx);
    /* The disk failed: the node must end. */
    void (*on_failed)(void *ctx, const char *text);
};

struct snapshot_fetch *snapshot_fetch_new(const struct snapshot_fetch_options *options);
/* No callbacks. The loop must run once more before free. */
void snapshot_fetch_stop(struct snapshot_fetch *s);
void snapshot_fetch_free(struct snapshot_fetch *s);

/* Ignored while a fetch is in progress: the leader repeats its announcement. */
void snapshot_fetch_start(struct snapshot_fetch *s, uint64_t peer,
                          const struct replica_snapshot *about);
bool snapshot_fetch_is_busy(const struct snapshot_fetch *s);

#endif

/* Gets a snapshot from a peer (S12.4): bytes over a connection of their own, checked piece by piece
 * into a file; then, on the log's thread, the file is synced and named, the old log ends, and the
 * state is loaded. A broken connection is picked up where it broke. A snapshot whose sender is silent
 * (snapshot_patience.h), or that is wrong, is abandoned (E20). What was received from a silent sender
 * is kept for a minute: when the same peer announces the same snapshot again, the rest is fetched.
 *
 *      idle ──start──▶ dialling ◀──lost── receiving ──all there──▶ installing ──▶ on_fetched, idle
 *                          └──────silent─────┴──▶ on_abandoned, idle
 */
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
    struct core_options core; /* how the state is built */
    uint32_t election_ms;
    void *ctx;
    void (*on_fetched)(void *ctx, struct core *core, uint64_t bytes);
    /* It cannot be fetched; nothing of the node's own was changed. */
    void (*on_abandoned)(void *ctx);
    /* The disk failed: the node must end. */
    void (*on_failed)(void *ctx, const char *text);
};

struct snapshot_fetch *snapshot_fetch_new(const struct snapshot_fetch_options *options);
void snapshot_fetch_stop(struct snapshot_fetch *s); /* calls nobody; the loop runs, then free */
void snapshot_fetch_free(struct snapshot_fetch *s);

/* Another call while one is under way is dropped: the leader repeats itself. */
void snapshot_fetch_start(struct snapshot_fetch *s, uint64_t peer,
                          const struct replica_snapshot *about);
bool snapshot_fetch_is_busy(const struct snapshot_fetch *s);

#endif

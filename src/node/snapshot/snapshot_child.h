/* Takes a snapshot without stopping the node: a forked child writes the state as it was at the fork
 * (S12.5).
 *
 *      idle ──take──▶ child writes ──success──▶ log thread names the file ──▶ on_taken, idle
 *                          │
 *                          └──failed, killed──▶ pause, longer each time ──▶ on_failed, idle */
#ifndef HOLDFAST_NODE_SNAPSHOT_SNAPSHOT_CHILD_H
#define HOLDFAST_NODE_SNAPSHOT_SNAPSHOT_CHILD_H

#include "base/journal.h"
#include "node/log/logger.h"

struct snapshot_child;

struct snapshot_child_options {
    uv_loop_t *loop;
    struct store *store;
    struct logger *logger;
    const struct memory *memory;
    const struct journal *journal;
    void *ctx;
    void (*on_taken)(void *ctx, uint64_t index, uint64_t bytes);
    void (*on_failed)(void *ctx); /* the caller may try again */
};

/* Bytes of log until the next snapshot (S12.5): the larger of `least` and twice the last snapshot,
 * plus up to 7/16: nodes do not take snapshots simultaneously. */
static inline uint64_t snapshot_trigger_bytes(uint64_t least, uint64_t last_bytes, uint64_t node)
{
    uint64_t twice = last_bytes > UINT64_MAX / 4 ? UINT64_MAX / 2 : 2 * last_bytes;
    uint64_t bytes = twice > least ? twice : least;
    return bytes + bytes / 16 * (node % 8);
}

struct snapshot_child *snapshot_child_new(const struct snapshot_child_options *options);
/* Kills the child if there is one. No callbacks. The loop must run once more before free. */
void snapshot_child_stop(struct snapshot_child *s);
void snapshot_child_free(struct snapshot_child *s);

/* Only if no snapshot is in progress. */
void snapshot_child_take(struct snapshot_child *s, struct id cluster, const struct core *core,
                         const struct replica_snapshot *about);
/* The one in progress ends with on_failed immediately. */
void snapshot_child_cancel(struct snapshot_child *s);
bool snapshot_child_is_busy(const struct snapshot_child *s);
/* The last one failed, and the pause is not over. */
bool snapshot_child_has_failed(const struct snapshot_child *s);

#endif

/* Taking a snapshot without stopping: a forked child writes the state as it was at the fork, while
 * the parent goes on and shares its memory with it (S12.5).
 *
 *      idle ──take──▶ child writes ──ended well──▶ the log's thread names the file ──▶ on_taken,
 * idle └──failed, killed──▶ a pause, longer each time ──▶ on_failed, idle */
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
    void (*on_failed)(void *ctx); /* to be tried again */
};

/* The log after which a node takes the next one (S12.5): `least`, or twice the last one's bytes;
 * and up to 7/16 more, so that no two nodes of a group do it at the same moment. */
static inline uint64_t snapshot_trigger_bytes(uint64_t least, uint64_t last_bytes, uint64_t node)
{
    uint64_t twice = last_bytes > UINT64_MAX / 4 ? UINT64_MAX / 2 : 2 * last_bytes;
    uint64_t bytes = twice > least ? twice : least;
    return bytes + bytes / 16 * (node % 8);
}

struct snapshot_child *snapshot_child_new(const struct snapshot_child_options *options);
/* Kills the child if there is one. Calls nobody. The loop must run once more, then free. */
void snapshot_child_stop(struct snapshot_child *s);
void snapshot_child_free(struct snapshot_child *s);

/* Only when none is under way. */
void snapshot_child_take(struct snapshot_child *s, struct id cluster, const struct core *core,
                         const struct replica_snapshot *about);
/* A newer one comes from the leader: whatever is under way ends with on_failed, at once. */
void snapshot_child_cancel(struct snapshot_child *s);
bool snapshot_child_is_busy(const struct snapshot_child *s);
/* The last one could not be written, and the pause after that is not over. */
bool snapshot_child_has_failed(const struct snapshot_child *s);

#endif

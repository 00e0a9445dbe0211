/* Whoever writes to the disk while a node runs: the log's writes, each one batch, one sync (S12.3),
 * and whatever else may take long and must happen in order with them: naming a snapshot, dropping
 * or resetting the log, loading a state.
 *
 *      loop: write, run ──queue──▶ thread: append+sync, work ──done──▶ loop: on_written, done
 *                          └─────▶ the kernel: a direct write ───┘
 *
 * Where the log can be written directly (storage/log.h, log_begin) the loop itself begins the
 * writes that are next in the queue, and hears from the kernel when they are durable; the thread
 * does the rest, and all of it elsewhere (decision 19).
 *
 * The log is that one's who is at it, the thread or the loop; the loop reads it beside them
 * (storage/log.h). Snapshots are committed and pruned by the thread, and opened, pinned and aborted
 * by the loop (storage/snapshots.h). So the loop never waits for a write to the log or a snapshot,
 * a sync, or the removal of a file; only to begin a direct write may take the kernel a moment. Term
 * and vote are the loop's own (storage/meta.h). What is removed goes in steps, on the thread, when
 * there is nothing else for it to do.
 *
 * A full disk is waited out: the write is tried again until there is room, and on_full tells so.
 * Any other failure is final: on_failed comes once, and nothing is done any more. */
#ifndef HOLDFAST_NODE_LOG_LOGGER_H
#define HOLDFAST_NODE_LOG_LOGGER_H

#include <uv.h>

#include "replica/ports.h"
#include "storage/store.h"

struct logger;

struct logger_options {
    uv_loop_t *loop;
    struct store *store;
    const struct memory *memory;
    void *ctx;
    /* On the loop's thread, in order. */
    void (*on_written)(void *ctx, uint64_t last);
    void (*on_full)(void *ctx, bool full, const char *text);
    void (*on_failed)(void *ctx, const char *text);
};

struct logger *logger_new(const struct logger_options *options);
/* Does what is queued (a write that finds the disk full is given up), seals the log, ends the
 * thread. Calls nobody. The loop must run once more. */
void logger_stop(struct logger *l);
void logger_free(struct logger *l); /* after that */

/* As replica/ports.h says: the bytes stay valid until on_written. */
void logger_write(struct logger *l, uint64_t first, const struct replica_entry *entries,
                  uint32_t count);
/* To be called before the loop sleeps, when all was sent: begins the direct write. To begin one
 * takes the time of some messages, and a leader's must not wait for it. */
void logger_begin(struct logger *l);
bool logger_read(struct logger *l, uint64_t index, struct replica_entry *out);

/* `work` runs on the thread, after all that was asked for before; then `done` on
 * the loop's. STORAGE_FULL is passed on to `done` and is not waited out, other failures of the log
 * or the disk end in on_failed if `work` says so by returning them. */
typedef enum storage_status (*logger_work_fn)(void *ctx, struct problem *problem);
typedef void (*logger_done_fn)(void *ctx, enum storage_status status,
                               const struct problem *problem);
void logger_run(struct logger *l, logger_work_fn work, logger_done_fn done, void *ctx);

/* The log and the snapshots, for a node that starts: waits for what the thread is at, or the
 * kernel. */
void logger_lock_all(struct logger *l);
void logger_unlock_all(struct logger *l);

struct logger_stats {
    uint64_t appends; /* writes to the log, each with its sync */
    uint64_t direct;  /* of these, by the loop */
    uint64_t entries;
    uint64_t bytes;
    uint64_t sync_us; /* spent in appends, in all */
    uint64_t worst_us;
    uint64_t disk_bytes; /* of all files of the log */
};
void logger_stats(struct logger *l, struct logger_stats *out);

#endif

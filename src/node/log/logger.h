/* The log writes of a running node, one sync per batch (S12.3), and slow disk work in order with
 * them: naming a snapshot, dropping or resetting the log, loading a state.
 *
 *      loop: write, run ──queue──┬──▶ thread: append+sync, work ──┬──done──▶ loop: on_written, done
 *                                └──▶ kernel: a direct write ─────┘
 *
 * The loop starts direct writes, if the log supports them (storage/log.h, log_begin). The thread
 * does all other work (decision 19).
 *
 * Ownership:
 *   - The log: the thread or the loop, whichever writes; the loop may read it at any time
 *     (storage/log.h).
 *   - Snapshots: the thread commits and prunes; the loop opens, pins and aborts
 *     (storage/snapshots.h).
 *   - Term and vote: the loop (storage/meta.h).
 * So the loop never waits for the disk; only starting a direct write may block shortly. The thread
 * removes files in steps, when it is idle.
 *
 * Full disk: the write is retried until space is free, and on_full reports both changes. Any other
 * failure is final: on_failed is called once, and no more work is done. */
#ifndef HOLDFAST_NODE_LOG_LOGGER_H
#define HOLDFAST_NODE_LOG_LOGGER_H

#include <uv.h>

#include "base/distribution.h"
#include "replica/ports.h"
#include "storage/store.h"

struct logger;

struct logger_options {
    uv_loop_t *loop;
    struct store *store;
    const struct memory *memory;
    void *ctx;
    /* Called on the loop, in order. */
    void (*on_written)(void *ctx, uint64_t last);
    void (*on_full)(void *ctx, bool full, const char *text);
    void (*on_failed)(void *ctx, const char *text);
};

struct logger *logger_new(const struct logger_options *options);
/* Completes the queue (a write that finds the disk full is dropped), seals the log, ends the
 * thread. No callbacks. The loop must run once more before logger_free. */
void logger_stop(struct logger *l);
void logger_free(struct logger *l);

/* The bytes must stay valid until on_written (replica/ports.h). */
void logger_write(struct logger *l, uint64_t first, const struct replica_entry *entries,
                  uint32_t count);
/* Before the loop sleeps, after all output is sent: starting a direct write takes as long as
 * sending several messages. */
void logger_begin(struct logger *l);
bool logger_read(struct logger *l, uint64_t index, struct replica_entry *out);

/* Runs `work` on the thread, after everything queued before; then `done` on the loop. STORAGE_FULL
 * is passed to `done` without a retry. After another failure, on_failed is called. */
typedef enum storage_status (*logger_work_fn)(void *ctx, struct problem *problem);
typedef void (*logger_done_fn)(void *ctx, enum storage_status status,
                               const struct problem *problem);
void logger_run(struct logger *l, logger_work_fn work, logger_done_fn done, void *ctx);

/* Exclusive access to log and snapshots while a node starts. Waits for the current work of thread
 * and kernel. */
void logger_lock_all(struct logger *l);
void logger_unlock_all(struct logger *l);

struct logger_stats {
    uint64_t appends; /* writes to the log, each with its sync */
    uint64_t direct;  /* of these, by the loop */
    uint64_t entries;
    uint64_t bytes;
    uint64_t sync_us; /* total time of appends */
    uint64_t worst_us;
    uint64_t disk_bytes; /* of all files of the log */
};
void logger_stats(struct logger *l, struct logger_stats *out);
/* Durations of appends, in us. */
void logger_append_times(struct logger *l, struct distribution *out);

#endif

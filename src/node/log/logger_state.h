/* The logger in memory. Private to logger.c and logger_direct.c.
 *
 * Who owns the log:
 *   - `busy`: the thread.
 *   - `in_flight` not empty: the loop, with a direct write outstanding.
 *   - Neither: the log is free. Never both. Both change only under queue_lock.
 * The owner also holds log_lock while it uses the log, which excludes logger_lock_all. The thread
 * fills the file of the next segment without owning the log (log_fill). */
#ifndef HOLDFAST_NODE_LOG_LOGGER_STATE_H
#define HOLDFAST_NODE_LOG_LOGGER_STATE_H

#include <pthread.h>

#include "base/list.h"
#include "node/log/logger.h"

enum {
    LOGGER_MERGE_BYTES = 4 << 20, /* of writes that are merged into one */
    LOGGER_MERGE_ENTRIES = 4096,
};

struct job {
    struct list link;    /* in todo, in_flight or done */
    logger_work_fn work; /* NULL: a write */
    bool by_thread;      /* a write that cannot be made directly */
    logger_done_fn done;
    void *ctx;
    enum storage_status status;
    struct problem problem;
    uint64_t first;
    uint64_t last;
    size_t bytes;
    uint32_t count;
    struct log_entry entries[];
};

struct logger {
    struct logger_options options;
    pthread_t thread;
    int wake_fd; /* an eventfd: uv_async spins if its sender is preempted */
    uv_poll_t wake;

    /* Lock order: log_lock, then queue_lock. */
    pthread_mutex_t log_lock;   /* see above */
    pthread_mutex_t queue_lock; /* guards the rest */
    pthread_cond_t queue_changed;
    struct list todo;
    struct list done;
    struct list in_flight;
    bool direct;  /* use direct writes where possible */
    bool busy;    /* the thread owns the log */
    bool waiting; /* the thread takes the log when in_flight is empty */
    bool stopping;
    bool full;
    bool full_changed;
    bool failed;
    bool failed_reported;
    bool woken; /* wake_fd is signalled, not handled yet */
    struct problem problem;
    struct logger_stats stats;
    struct distribution append_us;

    uint64_t fill_us;                 /* thread only: no log_fill before this time, disk was full */
    struct log_entry *merged;         /* used by the owner of the log */
    struct log_piece piece;           /* loop only: entries read ahead */
    struct disk_file *in_flight_file; /* loop only: of the outstanding direct write */
    size_t in_flight_count;           /* entries of that write */
    size_t in_flight_bytes;
    uint64_t in_flight_since_us;
};

/* ---- logger.c ---- */

uint64_t logger_now_us(void);
/* NULL: the list is empty. */
struct job *logger_first(const struct list *jobs);

/* The caller holds queue_lock. */

/* Takes the first write, of any length, and the writes that continue it. */
void logger_take_writes(struct logger *l, struct list *batch);
const struct log_entry *logger_merge(struct logger *l, const struct list *batch, size_t *count,
                                     size_t *bytes);
void logger_count_append(struct logger *l, size_t entries, size_t bytes, uint64_t since_us);
/* The caller wakes the loop, which reports the jobs. */
void logger_finish(struct logger *l, struct list *batch, enum storage_status status);
void logger_fail(struct logger *l, const struct problem *problem);

/* ---- logger_direct.c: direct writes by the loop ---- */

/* With queue_lock. Whether the next job is a direct write. */
bool logger_is_for_loop(const struct logger *l);

/* On the loop, with queue_lock, which is released meanwhile. Starts a direct write of the next
 * jobs, if the log is free and allows it. Otherwise wakes the thread if it has work. */
void logger_begin_write(struct logger *l);

/* On the loop, without locks: completes the outstanding direct write. False: not done yet. */
bool logger_end_write(struct logger *l, bool wait);

#endif

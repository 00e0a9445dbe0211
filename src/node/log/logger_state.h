/* The logger in memory, as logger.c and logger_direct.c share it. Private to them.
 *
 * The log is the thread's while `busy`, the loop's while there is something in the `air`, and
 * nobody's at other times; both change only under queue_lock, and never hold together. Whoever uses
 * the log holds log_lock as well, which keeps it from logger_lock_all. To fill the file that will
 * be the next segment the thread needs neither (log_fill). */
#ifndef HOLDFAST_NODE_LOG_LOGGER_STATE_H
#define HOLDFAST_NODE_LOG_LOGGER_STATE_H

#include <pthread.h>

#include "node/log/logger.h"

enum {
    LOGGER_MERGE_BYTES = 4 << 20, /* of writes that are made one */
    LOGGER_MERGE_ENTRIES = 4096,
};

struct job {
    struct job *next;
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

struct job_list {
    struct job *first;
    struct job *last;
};

struct logger {
    struct logger_options options;
    pthread_t thread;
    int wake_fd; /* an eventfd: uv_async spins when its sender was interrupted in the middle */
    uv_poll_t wake;

    /* In this order. */
    pthread_mutex_t log_lock;   /* see above */
    pthread_mutex_t queue_lock; /* guards the rest; log_lock is not taken with it */
    pthread_cond_t queue_changed;
    struct job_list todo;
    struct job_list done;
    struct job_list in_flight; /* writes that are made directly just now, as one */
    bool direct;               /* writes are made directly if they can be */
    bool busy;                 /* the thread is at something */
    bool waiting;              /* the thread wants the log as soon as the air is empty */
    bool stopping;
    bool full;
    bool full_changed;
    bool failed;
    bool failed_told;
    bool woken; /* the loop was told, and did not look yet */
    struct problem problem;
    struct logger_stats stats;

    uint64_t fill_us;                 /* the thread's: not before then, there was no room */
    struct log_entry *merged;         /* of whoever has the log */
    struct log_piece piece;           /* the loop's: read ahead */
    struct disk_file *in_flight_file; /* the loop's: of what is in the air */
    size_t in_flight_count;           /* its entries */
    size_t in_flight_bytes;
    uint64_t in_flight_since_us;
};

/* ---- logger.c ---- */

uint64_t logger_now_us(void);
void job_list_push(struct job_list *list, struct job *job);
struct job *job_list_pop(struct job_list *list);

/* All with queue_lock. */

/* Takes the first write and those that go on where it ends. A single one may be of any length. */
void logger_take_writes(struct logger *l, struct job_list *batch);
/* The entries of the jobs of `batch`, which are writes that follow each other, as one list. */
const struct log_entry *logger_merge(struct logger *l, const struct job_list *batch, size_t *count,
                                     size_t *bytes);
void logger_count_append(struct logger *l, size_t entries, size_t bytes, uint64_t since_us);
/* The jobs are done; the loop hears of it when it is woken. */
void logger_finish(struct logger *l, struct job_list *batch, enum storage_status status);
void logger_fail(struct logger *l, const struct problem *problem);

/* ---- logger_direct.c: the loop's own writes ---- */

/* With queue_lock. Whether what is to be done next is a write that the loop makes. */
bool logger_is_for_loop(const struct logger *l);

/* On the loop, with queue_lock, which is given up meanwhile: begins to write what is next, if the
 * log is nobody's and it can be; else the thread is told if there is something for it. */
void logger_begin_write(struct logger *l);

/* On the loop, without locks: hears what became of what is in the air. False: nothing yet. */
bool logger_end_write(struct logger *l, bool wait);

#endif

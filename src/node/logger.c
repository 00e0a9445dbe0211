/* The log's own thread: see logger.h. */
#include "node/logger.h"

#include <errno.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/panic.h"

enum {
    FULL_RETRY_MS = 500,
    IDLE_MS = 1000,        /* then the log is sealed */
    MERGE_BYTES = 4 << 20, /* of writes that are made one */
    MERGE_ENTRIES = 4096,
    READ_AHEAD_BYTES = 1 << 20, /* for a follower that is far behind */
};

struct job {
    struct job *next;
    logger_work_fn work; /* NULL: a write */
    bool on_log;         /* it does not concern snapshots */
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
    pthread_mutex_t log_lock;       /* the thread's, but for logger_lock_all */
    pthread_mutex_t snapshots_lock; /* logger_lock */
    pthread_mutex_t queue_lock;     /* guards the rest; none of the others is taken with it */
    pthread_cond_t queue_changed;
    struct job_list todo;
    struct job_list done;
    bool stopping;
    bool full;
    bool full_changed;
    bool failed;
    bool failed_told;
    bool woken; /* the loop was told, and did not look yet */
    struct problem problem;
    struct logger_stats stats;

    struct log_entry *merged; /* the thread's */
    struct log_piece piece;   /* the loop's: read ahead */
};

static void list_push(struct job_list *list, struct job *job)
{
    job->next = NULL;
    if (list->last != NULL) {
        list->last->next = job;
    } else {
        list->first = job;
    }
    list->last = job;
}

static struct job *list_pop(struct job_list *list)
{
    struct job *job = list->first;
    if (job != NULL) {
        list->first = job->next;
        if (list->first == NULL) {
            list->last = NULL;
        }
    }
    return job;
}

static size_t job_size(const struct job *job)
{
    return sizeof(*job) + job->count * sizeof(job->entries[0]);
}

/* ---- the thread ---- */

static uint64_t monotonic_us(void)
{
    return uv_hrtime() / 1000;
}

/* With queue_lock. True: something changed; false: the time is over. */
static bool wait_for_change(struct logger *l, unsigned ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += (long)(ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    return pthread_cond_timedwait(&l->queue_changed, &l->queue_lock, &until) != ETIMEDOUT;
}

/* With queue_lock, which is given up meanwhile: the jobs of `batch`, which are writes that follow
 * each other, become one append. */
static enum storage_status append(struct logger *l, const struct job_list *batch,
                                  struct problem *problem)
{
    const struct log_entry *entries = batch->first->entries;
    size_t count = batch->first->count;
    size_t bytes = batch->first->bytes;
    if (batch->first != batch->last) {
        entries = l->merged;
        count = bytes = 0;
        for (const struct job *job = batch->first; job != NULL; job = job->next) {
            memcpy(&l->merged[count], job->entries, job->count * sizeof(job->entries[0]));
            count += job->count;
            bytes += job->bytes;
        }
    }
    pthread_mutex_unlock(&l->queue_lock);
    uint64_t start_us = monotonic_us();
    pthread_mutex_lock(&l->log_lock);
    enum storage_status status =
        log_append(l->options.store->log, batch->first->first, entries, count, problem);
    uint64_t disk_bytes = log_bytes_on_disk(l->options.store->log);
    pthread_mutex_unlock(&l->log_lock);
    uint64_t took_us = monotonic_us() - start_us;
    pthread_mutex_lock(&l->queue_lock);
    l->stats.disk_bytes = disk_bytes;
    if (status == STORAGE_OK) {
        l->stats.appends++;
        l->stats.entries += count;
        l->stats.bytes += bytes;
        l->stats.sync_us += took_us;
        l->stats.worst_us = took_us > l->stats.worst_us ? took_us : l->stats.worst_us;
    }
    return status;
}

/* With queue_lock, which is given up meanwhile: who wakes up would wait for it. */
static void wake_loop(struct logger *l)
{
    if (l->woken) {
        return;
    }
    l->woken = true;
    pthread_mutex_unlock(&l->queue_lock);
    uint64_t one = 1;
    ssize_t put = write(l->wake_fd, &one, sizeof(one));
    hf_assert(put == (ssize_t)sizeof(one));
    pthread_mutex_lock(&l->queue_lock);
}

static void set_full(struct logger *l, bool full, const struct problem *problem)
{
    if (full == l->full) {
        return;
    }
    l->full = full;
    l->full_changed = true;
    if (problem != NULL) {
        l->problem = *problem;
    }
    wake_loop(l);
}

static void fail(struct logger *l, const struct problem *problem)
{
    l->failed = true;
    l->problem = *problem;
    wake_loop(l);
}

/* Takes the first write and those that go on where it ends. A single one may be of any length. */
static void take_writes(struct logger *l, struct job_list *batch)
{
    struct job *job = list_pop(&l->todo);
    size_t count = job->count;
    size_t bytes = job->bytes;
    list_push(batch, job);
    while (l->todo.first != NULL && l->todo.first->work == NULL &&
           l->todo.first->first == batch->last->last + 1 &&
           count + l->todo.first->count <= MERGE_ENTRIES &&
           bytes + l->todo.first->bytes <= MERGE_BYTES) {
        job = list_pop(&l->todo);
        count += job->count;
        bytes += job->bytes;
        list_push(batch, job);
    }
}

static void do_writes(struct logger *l)
{
    struct job_list batch = {NULL, NULL};
    struct problem problem = {0};
    take_writes(l, &batch);
    enum storage_status status = append(l, &batch, &problem);
    while (status == STORAGE_FULL && !l->stopping) {
        set_full(l, true, &problem);
        wait_for_change(l, FULL_RETRY_MS);
        status = append(l, &batch, &problem);
    }
    if (status == STORAGE_OK) {
        set_full(l, false, NULL);
    } else if (status != STORAGE_FULL) {
        fail(l, &problem);
    }
    for (struct job *job = list_pop(&batch); job != NULL; job = list_pop(&batch)) {
        job->status = status;
        list_push(&l->done, job);
    }
    wake_loop(l);
}

static void do_work(struct logger *l)
{
    struct job *job = list_pop(&l->todo);
    pthread_mutex_unlock(&l->queue_lock);
    pthread_mutex_lock(&l->log_lock);
    if (!job->on_log) {
        pthread_mutex_lock(&l->snapshots_lock);
    }
    job->status = job->work(job->ctx, &job->problem);
    if (!job->on_log) {
        pthread_mutex_unlock(&l->snapshots_lock);
    }
    uint64_t disk_bytes = log_bytes_on_disk(l->options.store->log);
    pthread_mutex_unlock(&l->log_lock);
    pthread_mutex_lock(&l->queue_lock);
    l->stats.disk_bytes = disk_bytes;
    list_push(&l->done, job);
    if (job->status != STORAGE_OK && job->status != STORAGE_FULL) {
        fail(l, &job->problem);
    }
    wake_loop(l);
}

/* Nothing to do: make the next segment, or say that all of it was durable. */
static void do_nothing(struct logger *l)
{
    struct problem problem = {0};
    enum storage_status status = STORAGE_OK;
    struct log *log = l->options.store->log;
    pthread_mutex_unlock(&l->queue_lock);
    pthread_mutex_lock(&l->log_lock);
    bool prepared = log_wants_prepare(log);
    if (prepared) {
        status = log_prepare(log, &problem);
    }
    bool more = status == STORAGE_OK && log_wants_prepare(log);
    uint64_t disk_bytes = log_bytes_on_disk(log);
    pthread_mutex_unlock(&l->log_lock);
    pthread_mutex_lock(&l->queue_lock);
    l->stats.disk_bytes = disk_bytes;
    if (l->todo.first == NULL && !l->stopping && !more && !wait_for_change(l, IDLE_MS) &&
        l->todo.first == NULL && !l->stopping) {
        pthread_mutex_unlock(&l->queue_lock);
        pthread_mutex_lock(&l->log_lock);
        if (log_wants_seal(log) && status == STORAGE_OK) {
            status = log_seal(log, &problem);
        }
        pthread_mutex_unlock(&l->log_lock);
        pthread_mutex_lock(&l->queue_lock);
    }
    if (status != STORAGE_OK && status != STORAGE_FULL) {
        fail(l, &problem);
    }
}

static void *run(void *argument)
{
    struct logger *l = argument;
    pthread_mutex_lock(&l->queue_lock);
    while (!l->failed && (!l->stopping || l->todo.first != NULL)) {
        if (l->todo.first == NULL) {
            do_nothing(l);
        } else if (l->todo.first->work == NULL) {
            do_writes(l);
        } else {
            do_work(l);
        }
    }
    bool failed = l->failed;
    pthread_mutex_unlock(&l->queue_lock);
    if (!failed) {
        struct problem ignored;
        pthread_mutex_lock(&l->log_lock);
        (void)log_seal(l->options.store->log, &ignored); /* only helps to find damage later */
        pthread_mutex_unlock(&l->log_lock);
    }
    return NULL;
}

/* ---- the loop's side ---- */

static void job_free(struct logger *l, struct job *job)
{
    memory_free(l->options.memory, job, job_size(job));
}

/* With queue_lock, which is given up while it is told. */
static void tell_state(struct logger *l)
{
    bool full = l->full;
    bool full_changed = l->full_changed;
    bool failed = l->failed && !l->failed_told;
    if (!full_changed && !failed) {
        return;
    }
    struct problem problem = l->problem;
    l->full_changed = false;
    l->failed_told = l->failed;
    pthread_mutex_unlock(&l->queue_lock);
    if (full_changed) {
        l->options.on_full(l->options.ctx, full, problem.text);
    }
    if (failed) {
        l->options.on_failed(l->options.ctx, problem.text);
    }
    pthread_mutex_lock(&l->queue_lock);
}

static void on_wake(uv_poll_t *handle, int status, int events)
{
    (void)status;
    (void)events;
    struct logger *l = handle->data;
    uint64_t times;
    ssize_t got = read(l->wake_fd, &times, sizeof(times));
    (void)got; /* to look for nothing does no harm */
    pthread_mutex_lock(&l->queue_lock);
    l->woken = false;
    tell_state(l);
    struct job_list done = l->done;
    l->done = (struct job_list){NULL, NULL};
    pthread_mutex_unlock(&l->queue_lock);
    for (struct job *job = list_pop(&done); job != NULL; job = list_pop(&done)) {
        if (job->work != NULL) {
            job->done(job->ctx, job->status, &job->problem);
        } else if (job->status == STORAGE_OK) {
            l->options.on_written(l->options.ctx, job->last);
        }
        job_free(l, job);
    }
}

static void enqueue(struct logger *l, struct job *job)
{
    pthread_mutex_lock(&l->queue_lock);
    list_push(&l->todo, job);
    pthread_mutex_unlock(&l->queue_lock);
    pthread_cond_signal(&l->queue_changed); /* who wakes up finds the lock free */
}

void logger_write(struct logger *l, uint64_t first, const struct replica_entry *entries,
                  uint32_t count)
{
    hf_assert(count > 0);
    /* What was read ahead and is replaced now must not be found again. */
    if (l->piece.count > 0 && first <= l->piece.first + l->piece.count - 1) {
        log_piece_free(&l->piece);
        l->piece = (struct log_piece){0};
    }
    size_t size = sizeof(struct job) + count * sizeof(struct log_entry);
    struct job *job = memory_alloc(l->options.memory, size);
    memset(job, 0, sizeof(*job));
    job->first = first;
    job->last = first + count - 1;
    job->count = count;
    for (uint32_t i = 0; i < count; i++) {
        job->entries[i] = (struct log_entry){entries[i].term, entries[i].type, entries[i].bytes};
        job->bytes += entries[i].bytes.len;
    }
    enqueue(l, job);
}

static void run_job(struct logger *l, logger_work_fn work, logger_done_fn done, void *ctx,
                    bool on_log)
{
    struct job *job = memory_alloc(l->options.memory, sizeof(*job));
    memset(job, 0, sizeof(*job));
    job->work = work;
    job->done = done;
    job->ctx = ctx;
    job->on_log = on_log;
    enqueue(l, job);
}

void logger_run(struct logger *l, logger_work_fn work, logger_done_fn done, void *ctx)
{
    run_job(l, work, done, ctx, false);
}

void logger_run_on_log(struct logger *l, logger_work_fn work, logger_done_fn done, void *ctx)
{
    run_job(l, work, done, ctx, true);
}

bool logger_read(struct logger *l, uint64_t index, struct replica_entry *out)
{
    struct log_piece *piece = &l->piece;
    if (index < piece->first || index >= piece->first + piece->count) {
        struct problem problem;
        log_piece_free(piece);
        *piece = (struct log_piece){0};
        enum storage_status status =
            log_read_beside(l->options.store->log, index, READ_AHEAD_BYTES, piece, &problem);
        if (status != STORAGE_OK) {
            *piece = (struct log_piece){0};
            if (status != STORAGE_MISSING) {
                l->options.on_failed(l->options.ctx, problem.text);
            }
            return false;
        }
    }
    const struct log_entry *entry = &piece->entries[index - piece->first];
    *out = (struct replica_entry){entry->term, entry->type, entry->data};
    return true;
}

void logger_lock(struct logger *l)
{
    pthread_mutex_lock(&l->snapshots_lock);
}

void logger_unlock(struct logger *l)
{
    pthread_mutex_unlock(&l->snapshots_lock);
}

void logger_lock_all(struct logger *l)
{
    pthread_mutex_lock(&l->log_lock);
    pthread_mutex_lock(&l->snapshots_lock);
}

void logger_unlock_all(struct logger *l)
{
    pthread_mutex_unlock(&l->snapshots_lock);
    pthread_mutex_unlock(&l->log_lock);
}

void logger_stats(struct logger *l, struct logger_stats *out)
{
    pthread_mutex_lock(&l->queue_lock);
    *out = l->stats;
    pthread_mutex_unlock(&l->queue_lock);
}

/* ---- life ---- */

struct logger *logger_new(const struct logger_options *options)
{
    struct logger *l = memory_alloc(options->memory, sizeof(*l));
    memset(l, 0, sizeof(*l));
    l->options = *options;
    l->merged = memory_alloc(options->memory, MERGE_ENTRIES * sizeof(l->merged[0]));
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&l->queue_changed, &clock);
    pthread_condattr_destroy(&clock);
    pthread_mutex_init(&l->log_lock, NULL);
    pthread_mutex_init(&l->snapshots_lock, NULL);
    pthread_mutex_init(&l->queue_lock, NULL);
    l->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    hf_assert(l->wake_fd >= 0);
    int status = uv_poll_init(options->loop, &l->wake, l->wake_fd);
    hf_assert(status == 0);
    l->wake.data = l;
    uv_poll_start(&l->wake, UV_READABLE, on_wake);
    status = pthread_create(&l->thread, NULL, run, l);
    hf_assert(status == 0);
    return l;
}

void logger_stop(struct logger *l)
{
    pthread_mutex_lock(&l->queue_lock);
    l->stopping = true;
    pthread_cond_signal(&l->queue_changed);
    pthread_mutex_unlock(&l->queue_lock);
    pthread_join(l->thread, NULL);
    uv_poll_stop(&l->wake);
    uv_close((uv_handle_t *)&l->wake, NULL);
    close(l->wake_fd);
}

void logger_free(struct logger *l)
{
    if (l == NULL) {
        return;
    }
    for (struct job *job = list_pop(&l->todo); job != NULL; job = list_pop(&l->todo)) {
        job_free(l, job);
    }
    for (struct job *job = list_pop(&l->done); job != NULL; job = list_pop(&l->done)) {
        job_free(l, job);
    }
    log_piece_free(&l->piece);
    pthread_cond_destroy(&l->queue_changed);
    pthread_mutex_destroy(&l->log_lock);
    pthread_mutex_destroy(&l->snapshots_lock);
    pthread_mutex_destroy(&l->queue_lock);
    memory_free(l->options.memory, l->merged, MERGE_ENTRIES * sizeof(l->merged[0]));
    memory_free(l->options.memory, l, sizeof(*l));
}

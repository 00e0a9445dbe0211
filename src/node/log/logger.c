/* The log thread, and the loop's side of it. */
#include "node/log/logger.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/panic.h"
#include "node/log/logger_state.h"

enum {
    FULL_RETRY_MS = 500,
    IDLE_MS = 1000,             /* after this the log is sealed */
    READ_AHEAD_BYTES = 1 << 20, /* for a follower that is far behind */
};

struct job *logger_first(const struct list *jobs)
{
    return list_is_empty(jobs) ? NULL : LIST_OBJECT(jobs->next, struct job, link);
}

static struct job *take_job(struct list *jobs)
{
    struct job *job = logger_first(jobs);
    (void)list_take(jobs);
    return job;
}

static struct job *last_job(const struct list *jobs)
{
    return LIST_OBJECT(jobs->prev, struct job, link);
}

static size_t job_size(const struct job *job)
{
    return sizeof(*job) + job->count * sizeof(job->entries[0]);
}

uint64_t logger_now_us(void)
{
    return uv_hrtime() / 1000;
}

/* With queue_lock. False: timeout. */
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

const struct log_entry *logger_merge(struct logger *l, const struct list *batch, size_t *count,
                                     size_t *bytes)
{
    const struct job *first = logger_first(batch);
    *count = first->count;
    *bytes = first->bytes;
    if (first == last_job(batch)) {
        return first->entries;
    }
    *count = *bytes = 0;
    for (struct list *link = batch->next; link != batch; link = link->next) {
        const struct job *job = LIST_OBJECT(link, struct job, link);
        memcpy(&l->merged[*count], job->entries, job->count * sizeof(job->entries[0]));
        *count += job->count;
        *bytes += job->bytes;
    }
    return l->merged;
}

void logger_count_append(struct logger *l, size_t entries, size_t bytes, uint64_t since_us)
{
    uint64_t took_us = logger_now_us() - since_us;
    l->stats.appends++;
    l->stats.entries += entries;
    l->stats.bytes += bytes;
    l->stats.sync_us += took_us;
    distribution_add(&l->append_us, took_us);
    l->stats.worst_us = took_us > l->stats.worst_us ? took_us : l->stats.worst_us;
}

/* With queue_lock, which is released until release_log. */
static void take_log(struct logger *l)
{
    hf_assert(l->busy && list_is_empty(&l->in_flight));
    pthread_mutex_unlock(&l->queue_lock);
    pthread_mutex_lock(&l->log_lock);
}

static void release_log(struct logger *l)
{
    uint64_t disk_bytes = log_bytes_on_disk(l->options.store->log);
    pthread_mutex_unlock(&l->log_lock);
    pthread_mutex_lock(&l->queue_lock);
    l->stats.disk_bytes = disk_bytes;
}

/* With queue_lock, which is released meanwhile. */
static enum storage_status append(struct logger *l, const struct list *batch,
                                  struct problem *problem)
{
    size_t count, bytes;
    const struct log_entry *entries = logger_merge(l, batch, &count, &bytes);
    uint64_t start_us = logger_now_us();
    take_log(l);
    enum storage_status status =
        log_append(l->options.store->log, logger_first(batch)->first, entries, count, problem);
    release_log(l);
    if (status == STORAGE_OK) {
        logger_count_append(l, count, bytes, start_us);
    }
    return status;
}

/* With queue_lock, which is released meanwhile: the woken loop does not wait for it. */
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

void logger_fail(struct logger *l, const struct problem *problem)
{
    l->failed = true;
    l->problem = *problem;
    wake_loop(l);
}

void logger_take_writes(struct logger *l, struct list *batch)
{
    struct job *job = logger_first(&l->todo);
    size_t count = 0;
    size_t bytes = 0;
    do {
        list_append(batch, &job->link);
        count += job->count;
        bytes += job->bytes;
        job = logger_first(&l->todo);
    } while (job != NULL && job->work == NULL && job->first == last_job(batch)->last + 1 &&
             count + job->count <= LOGGER_MERGE_ENTRIES &&
             bytes + job->bytes <= LOGGER_MERGE_BYTES);
}

void logger_finish(struct logger *l, struct list *batch, enum storage_status status)
{
    for (struct job *job = take_job(batch); job != NULL; job = take_job(batch)) {
        job->status = status;
        list_append(&l->done, &job->link);
    }
}

/* With queue_lock, which is released meanwhile. Completes removals of files. False: there are
 * none. */
static bool trim_all(struct logger *l)
{
    struct snapshots *snapshots = l->options.store->snapshots;
    bool any = snapshots_wants_trim(snapshots);
    pthread_mutex_unlock(&l->queue_lock);
    while (snapshots_wants_trim(snapshots)) {
        snapshots_trim(snapshots);
    }
    pthread_mutex_lock(&l->queue_lock);
    return any;
}

static void do_writes(struct logger *l)
{
    struct list batch;
    list_init(&batch);
    struct problem problem = {0};
    logger_take_writes(l, &batch);
    enum storage_status status = append(l, &batch, &problem);
    while (status == STORAGE_FULL && !l->stopping) {
        set_full(l, true, &problem);
        if (!trim_all(l)) {
            wait_for_change(l, FULL_RETRY_MS);
        }
        status = append(l, &batch, &problem);
    }
    if (status == STORAGE_OK) {
        set_full(l, false, NULL);
    } else if (status != STORAGE_FULL) {
        logger_fail(l, &problem);
    }
    logger_finish(l, &batch, status);
}

static void do_work(struct logger *l)
{
    struct job *job = take_job(&l->todo);
    take_log(l);
    job->status = job->work(job->ctx, &job->problem);
    release_log(l);
    list_append(&l->done, &job->link);
    if (job->status != STORAGE_OK && job->status != STORAGE_FULL) {
        logger_fail(l, &job->problem);
    }
}

/* Releases the log and waits. True: nothing happened for IDLE_MS, and the thread owns the log. */
static bool wait_idle(struct logger *l)
{
    uint64_t appends = l->stats.appends;
    l->busy = false;
    bool changed = !list_is_empty(&l->todo) || l->stopping || wait_for_change(l, IDLE_MS);
    bool idle = !changed && list_is_empty(&l->todo) && list_is_empty(&l->in_flight) &&
                !l->stopping && l->stats.appends == appends;
    l->busy = idle;
    return idle;
}

/* Prepares the next segment from a filled file, or seals the log. */
static void do_idle_work(struct logger *l)
{
    struct problem problem = {0};
    enum storage_status status = STORAGE_OK;
    struct log *log = l->options.store->log;
    take_log(l);
    if (log_wants_prepare(log)) {
        status = log_prepare(log, &problem);
    }
    bool more = status == STORAGE_OK && log_wants_prepare(log);
    release_log(l);
    if (!more && wait_idle(l)) {
        take_log(l);
        if (log_wants_seal(log) && status == STORAGE_OK) {
            status = log_seal(log, &problem);
        }
        release_log(l);
    }
    if (status != STORAGE_OK && status != STORAGE_FULL) {
        logger_fail(l, &problem);
    }
}

/* The loop owns the log, or is about to take it. */
static void wait_for_loop(struct logger *l)
{
    if (list_is_empty(&l->in_flight)) {
        wake_loop(l);
    }
    if (!list_is_empty(&l->in_flight) || logger_is_for_loop(l)) { /* still so */
        l->waiting = true;
        pthread_cond_wait(&l->queue_changed, &l->queue_lock);
        l->waiting = false;
    }
}

static void do_next(struct logger *l)
{
    l->busy = true; /* throughout: no direct write overtakes a job taken from todo */
    if (list_is_empty(&l->todo)) {
        do_idle_work(l);
    } else if (logger_first(&l->todo)->work == NULL) {
        do_writes(l);
    } else {
        do_work(l);
    }
    l->busy = false;
    if (!list_is_empty(&l->done)) {
        wake_loop(l);
    }
}

/* With queue_lock. The thread has no other work, and the disk is not known to be full. */
static bool may_fill(const struct logger *l)
{
    bool is_free = list_is_empty(&l->todo) || logger_is_for_loop(l);
    return is_free && !l->stopping && log_wants_fill(l->options.store->log) &&
           logger_now_us() >= l->fill_us;
}

/* With queue_lock, which is released meanwhile. A step takes as long as many appends; no direct
 * write waits for it. */
static void fill_next_segment(struct logger *l)
{
    struct problem problem = {0};
    if (list_is_empty(&l->in_flight) && logger_is_for_loop(l)) {
        wake_loop(l); /* the log may have become free without notice */
    }
    pthread_mutex_unlock(&l->queue_lock);
    enum storage_status status = log_fill(l->options.store->log, &problem);
    pthread_mutex_lock(&l->queue_lock);
    if (status == STORAGE_FULL) {
        l->fill_us = logger_now_us() + FULL_RETRY_MS * 1000;
    } else if (status != STORAGE_OK) {
        logger_fail(l, &problem);
    }
}

/* With queue_lock. The thread has nothing else to do. */
static bool may_trim(const struct logger *l)
{
    bool is_free = list_is_empty(&l->todo) || logger_is_for_loop(l);
    return is_free && !l->stopping && snapshots_wants_trim(l->options.store->snapshots);
}

/* With queue_lock, which is released meanwhile. Does not need the log. */
static void trim_step(struct logger *l)
{
    if (list_is_empty(&l->in_flight) && logger_is_for_loop(l)) {
        wake_loop(l); /* the log may have become free without notice */
    }
    pthread_mutex_unlock(&l->queue_lock);
    snapshots_trim(l->options.store->snapshots);
    pthread_mutex_lock(&l->queue_lock);
}

static void *run(void *argument)
{
    struct logger *l = argument;
    pthread_mutex_lock(&l->queue_lock);
    while (!l->failed && (!l->stopping || !list_is_empty(&l->todo))) {
        if (may_fill(l)) {
            fill_next_segment(l);
        } else if (may_trim(l)) {
            trim_step(l);
        } else if (!list_is_empty(&l->in_flight) || logger_is_for_loop(l)) {
            wait_for_loop(l);
        } else {
            do_next(l);
        }
    }
    bool failed = l->failed;
    pthread_mutex_unlock(&l->queue_lock);
    if (!failed) {
        struct problem ignored;
        pthread_mutex_lock(&l->log_lock);
        (void)log_seal(l->options.store->log, &ignored); /* optional: helps to find damage later */
        pthread_mutex_unlock(&l->log_lock);
    }
    return NULL;
}

static void job_free(struct logger *l, struct job *job)
{
    memory_free(l->options.memory, job, job_size(job));
}

/* With queue_lock, which is released during the callbacks. */
static void report_state(struct logger *l)
{
    bool full = l->full;
    bool full_changed = l->full_changed;
    bool failed = l->failed && !l->failed_reported;
    if (!full_changed && !failed) {
        return;
    }
    struct problem problem = l->problem;
    l->full_changed = false;
    l->failed_reported = l->failed;
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
    (void)got; /* a spurious wake-up is harmless */
    if (l->in_flight_file != NULL) {
        (void)logger_end_write(l, false);
    }
    pthread_mutex_lock(&l->queue_lock);
    l->woken = false;
    report_state(l);
    struct list done;
    list_init(&done);
    list_move_all(&done, &l->done);
    logger_begin_write(l); /* before the callbacks of the last one */
    pthread_mutex_unlock(&l->queue_lock);
    for (struct job *job = take_job(&done); job != NULL; job = take_job(&done)) {
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
    list_append(&l->todo, &job->link);
    if (!logger_is_for_loop(l)) {
        logger_begin_write(l);
    }
    pthread_mutex_unlock(&l->queue_lock);
}

void logger_begin(struct logger *l)
{
    pthread_mutex_lock(&l->queue_lock);
    if (logger_is_for_loop(l)) {
        logger_begin_write(l);
    }
    pthread_mutex_unlock(&l->queue_lock);
}

void logger_write(struct logger *l, uint64_t first, const struct replica_entry *entries,
                  uint32_t count)
{
    hf_assert(count > 0);
    if (l->piece.count > 0 && first <= l->piece.first + l->piece.count - 1) {
        log_piece_free(&l->piece);
        l->piece = (struct log_piece){0};
    }
    size_t size = sizeof(struct job) + count * sizeof(struct log_entry);
    struct job *job = memory_alloc(l->options.memory, size);
    memset(job, 0, sizeof(*job));
    list_init(&job->link);
    job->first = first;
    job->last = first + count - 1;
    job->count = count;
    for (uint32_t i = 0; i < count; i++) {
        job->entries[i] = (struct log_entry){entries[i].term, entries[i].type, entries[i].bytes};
        job->bytes += entries[i].bytes.len;
    }
    enqueue(l, job);
}

void logger_run(struct logger *l, logger_work_fn work, logger_done_fn done, void *ctx)
{
    struct job *job = memory_alloc(l->options.memory, sizeof(*job));
    memset(job, 0, sizeof(*job));
    list_init(&job->link);
    job->work = work;
    job->done = done;
    job->ctx = ctx;
    enqueue(l, job);
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

/* On the loop: waits for the direct write. Its callbacks run later, as usual. */
static void clear_in_flight(struct logger *l)
{
    if (l->in_flight_file != NULL) {
        (void)logger_end_write(l, true);
        uint64_t one = 1;
        ssize_t put = write(l->wake_fd, &one, sizeof(one));
        hf_assert(put == (ssize_t)sizeof(one));
    }
}

void logger_lock_all(struct logger *l)
{
    clear_in_flight(l);
    pthread_mutex_lock(&l->log_lock);
}

void logger_unlock_all(struct logger *l)
{
    pthread_mutex_unlock(&l->log_lock);
}

void logger_stats(struct logger *l, struct logger_stats *out)
{
    pthread_mutex_lock(&l->queue_lock);
    *out = l->stats;
    pthread_mutex_unlock(&l->queue_lock);
}

void logger_append_times(struct logger *l, struct distribution *out)
{
    pthread_mutex_lock(&l->queue_lock);
    *out = l->append_us;
    pthread_mutex_unlock(&l->queue_lock);
}

struct logger *logger_new(const struct logger_options *options)
{
    struct logger *l = memory_alloc(options->memory, sizeof(*l));
    memset(l, 0, sizeof(*l));
    l->options = *options;
    list_init(&l->todo);
    list_init(&l->done);
    list_init(&l->in_flight);
    l->direct = log_is_direct(options->store->log);
    snapshots_remove_in_steps(options->store->snapshots);
    l->merged = memory_alloc(options->memory, LOGGER_MERGE_ENTRIES * sizeof(l->merged[0]));
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&l->queue_changed, &clock);
    pthread_condattr_destroy(&clock);
    pthread_mutex_init(&l->log_lock, NULL);
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
    clear_in_flight(l);
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
    for (struct job *job = take_job(&l->todo); job != NULL; job = take_job(&l->todo)) {
        job_free(l, job);
    }
    for (struct job *job = take_job(&l->done); job != NULL; job = take_job(&l->done)) {
        job_free(l, job);
    }
    log_piece_free(&l->piece);
    pthread_cond_destroy(&l->queue_changed);
    pthread_mutex_destroy(&l->log_lock);
    pthread_mutex_destroy(&l->queue_lock);
    memory_free(l->options.memory, l->merged, LOGGER_MERGE_ENTRIES * sizeof(l->merged[0]));
    memory_free(l->options.memory, l, sizeof(*l));
}

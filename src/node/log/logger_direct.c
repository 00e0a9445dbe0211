/* Direct writes: the loop itself starts and completes an append that fits into the open segment
 * (storage/disk.h); no thread is woken.
 *
 *      todo ──begin──▶ in_flight ──DONE────▶ done (reported from on_wake)
 *                          │
 *                          ├──────AGAIN────▶ front of todo, marked for the thread
 *                          └──────FAILED───▶ done, and the logger has failed
 *      todo ──the log refuses a direct write──▶ todo, marked for the thread
 *
 * The log has one owner at a time (logger_state.h), which keeps the order. Later jobs wait in todo,
 * where consecutive writes are merged. */
#include "node/log/logger_state.h"

#include "base/panic.h"

bool logger_is_for_loop(const struct logger *l)
{
    const struct job *next = logger_first(&l->todo);
    return l->direct && !l->stopping && !l->failed && next != NULL && next->work == NULL &&
           !next->by_thread;
}

/* With queue_lock. */
static void wake_thread(struct logger *l)
{
    if (l->waiting || (!list_is_empty(&l->todo) && !logger_is_for_loop(l))) {
        pthread_cond_signal(&l->queue_changed);
    }
}

/* With queue_lock. Moves the jobs in flight to the front of todo, for the thread. */
static void requeue(struct logger *l)
{
    logger_first(&l->in_flight)->by_thread = true;
    list_move_all(&l->in_flight, &l->todo);
    list_move_all(&l->todo, &l->in_flight);
    l->in_flight_file = NULL;
}

/* Without locks; the loop owns the log. */
static enum disk_direct submit(struct logger *l, const struct log_entry *entries)
{
    struct log *log = l->options.store->log;
    struct log_write write;
    pthread_mutex_lock(&l->log_lock);
    bool begun =
        log_begin(log, logger_first(&l->in_flight)->first, entries, l->in_flight_count, &write);
    pthread_mutex_unlock(&l->log_lock);
    if (!begun) {
        return DISK_DIRECT_AGAIN;
    }
    enum disk_direct how =
        disk_direct_begin(write.file, write.offset, write.bytes, write.len, l->wake_fd);
    if (how == DISK_DIRECT_WAITS) {
        l->in_flight_file = write.file;
    } else {
        hf_assert(how == DISK_DIRECT_AGAIN || how == DISK_DIRECT_NEVER);
        pthread_mutex_lock(&l->log_lock);
        log_end(log, how, NULL);
        pthread_mutex_unlock(&l->log_lock);
    }
    return how;
}

void logger_begin_write(struct logger *l)
{
    if (!list_is_empty(&l->in_flight) || l->busy) {
        return; /* the owner of the log then continues with the queue */
    }
    if (logger_is_for_loop(l)) {
        logger_take_writes(l, &l->in_flight);
        const struct log_entry *entries =
            logger_merge(l, &l->in_flight, &l->in_flight_count, &l->in_flight_bytes);
        l->in_flight_since_us = logger_now_us();
        pthread_mutex_unlock(&l->queue_lock);
        enum disk_direct how = submit(l, entries);
        pthread_mutex_lock(&l->queue_lock);
        if (how == DISK_DIRECT_WAITS) {
            return;
        }
        l->direct = how != DISK_DIRECT_NEVER;
        requeue(l);
    }
    wake_thread(l);
}

bool logger_end_write(struct logger *l, bool wait)
{
    struct problem problem = {0};
    enum disk_direct how = disk_direct_end(l->in_flight_file, wait, &problem);
    if (how == DISK_DIRECT_WAITS) {
        return false;
    }
    pthread_mutex_lock(&l->log_lock);
    log_end(l->options.store->log, how, &problem);
    pthread_mutex_unlock(&l->log_lock);
    pthread_mutex_lock(&l->queue_lock);
    if (how == DISK_DIRECT_DONE) {
        logger_count_append(l, l->in_flight_count, l->in_flight_bytes, l->in_flight_since_us);
        l->stats.direct++;
        logger_finish(l, &l->in_flight, STORAGE_OK);
    } else if (how == DISK_DIRECT_FAILED) {
        logger_finish(l, &l->in_flight, STORAGE_IO);
        logger_fail(l, &problem);
    } else {
        l->direct = how != DISK_DIRECT_NEVER;
        requeue(l);
    }
    l->in_flight_file = NULL;
    wake_thread(l);
    pthread_mutex_unlock(&l->queue_lock);
    return true;
}

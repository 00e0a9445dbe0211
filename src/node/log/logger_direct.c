/* The loop's own writes: an append that fits into the open segment is a direct write
 * (storage/disk.h) that the loop begins and hears the end of, so that no thread is woken for it.
 *
 *      todo ──begin──▶ air ──DONE──▶ done          (told from on_wake)
 *        ▲              ├───AGAIN──▶ todo, first, by the thread
 *        │              └───FAILED─▶ done, and the logger has failed
 *        └── the log says no: the same, by the thread
 *
 * Order is kept: one thing at a time has the log (logger_state.h), and what comes meanwhile waits
 * in todo, where writes that follow each other become one. */
#include "node/log/logger_state.h"

#include "base/panic.h"

bool logger_is_for_loop(const struct logger *l)
{
    const struct job *next = l->todo.first;
    return l->direct && !l->stopping && !l->failed && next != NULL && next->work == NULL &&
           !next->by_thread;
}

/* With queue_lock. */
static void call_thread(struct logger *l)
{
    if (l->waiting || (l->todo.first != NULL && !logger_is_for_loop(l))) {
        pthread_cond_signal(&l->queue_changed);
    }
}

/* With queue_lock. What is in the air goes back to where it came from, for the thread. */
static void give_back(struct logger *l)
{
    l->in_flight.first->by_thread = true;
    l->in_flight.last->next = l->todo.first;
    l->todo.first = l->in_flight.first;
    l->todo.last = l->todo.last == NULL ? l->in_flight.last : l->todo.last;
    l->in_flight = (struct job_list){NULL, NULL};
    l->in_flight_file = NULL;
}

/* Without locks; the log is the loop's. */
static enum disk_direct submit(struct logger *l, const struct log_entry *entries)
{
    struct log *log = l->options.store->log;
    struct log_write write;
    pthread_mutex_lock(&l->log_lock);
    bool begun = log_begin(log, l->in_flight.first->first, entries, l->in_flight_count, &write);
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
    if (l->in_flight.first != NULL || l->busy) {
        return; /* who has the log goes on when he is done */
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
        give_back(l);
    }
    call_thread(l);
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
        give_back(l);
    }
    l->in_flight_file = NULL;
    call_thread(l);
    pthread_mutex_unlock(&l->queue_lock);
    return true;
}

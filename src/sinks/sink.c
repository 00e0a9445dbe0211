/* The loop and the thread share what `lock` protects; the lock is never held during I/O. A change of
 * `generation` ends what the thread is doing. */
#include "sinks/sink.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tls/digest.h"

enum {
    BACKOFF_MIN_MS = 200,
    BACKOFF_MAX_MS = 30000,
    NICE = 10, /* requests of clients come first */
    PAUSE_FOREVER = UINT32_MAX,
};

struct event_sink {
    struct sink_options options;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;

    /* Under `lock`. */
    bool is_ending;
    bool is_readable; /* notified since the last look */
    bool is_reload;
    struct event_id start;
    struct sink_status status;
    /* Written under `lock`, read by the thread without it. */
    _Atomic uint64_t generation;

    /* Of the thread. */
    uint64_t serves; /* the generation that it works for */
    struct sink_batch batch;
    struct event_cursor *cursor;
    struct event_id read; /* where to open the cursor */
    bool is_open;         /* the driver */
    uint32_t backoff_ms;
    uint64_t gap_from; /* a gap that is waited for, since gap_ms; UINT64_MAX: none */
    uint64_t gap_ms;
};

static uint64_t clock_ms(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* ---- waiting ---- */

static bool is_over(const struct event_sink *s)
{
    return atomic_load(&s->generation) != s->serves;
}

static bool may_sleep(const struct event_sink *s, bool until_readable)
{
    return !is_over(s) && !s->is_reload && !(until_readable && s->is_readable);
}

/* Until the leadership ended, a reload, `ms` have passed or, if `until_readable`, a notification. */
static void pause_for(struct event_sink *s, uint32_t ms, bool until_readable)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += (long)(ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    int result = 0;
    pthread_mutex_lock(&s->lock);
    while (result == 0 && may_sleep(s, until_readable)) {
        result = ms == PAUSE_FOREVER ? pthread_cond_wait(&s->changed, &s->lock)
                                     : pthread_cond_timedwait(&s->changed, &s->lock, &until);
    }
    pthread_mutex_unlock(&s->lock);
}

/* A random part of it, so that nodes and sinks do not return together. */
static void back_off(struct event_sink *s, uint32_t retry_after_ms)
{
    uint32_t random;
    digest_random(&random, sizeof(random));
    uint32_t ms = s->backoff_ms / 2 + random % (s->backoff_ms / 2 + 1);
    pause_for(s, ms > retry_after_ms ? ms : retry_after_ms, false);
    uint32_t max = s->options.backoff_max_ms;
    s->backoff_ms = s->backoff_ms > max / 2 ? max : s->backoff_ms * 2;
}

/* ---- status ---- */

/* The status is of the current leadership only. */
static bool begin_report(struct event_sink *s)
{
    pthread_mutex_lock(&s->lock);
    return !is_over(s);
}

static void end_report(struct event_sink *s)
{
    pthread_mutex_unlock(&s->lock);
}

static void report_trouble(struct event_sink *s, const char *text, bool is_failure)
{
    if (begin_report(s)) {
        s->status.is_failing = true;
        s->status.trouble_ms = clock_ms(CLOCK_REALTIME);
        snprintf(s->status.trouble, sizeof(s->status.trouble), "%s", text);
    }
    s->status.failures += is_failure;
    end_report(s);
}

static void report_batch(struct event_sink *s)
{
    if (begin_report(s)) {
        s->status.oldest_ms = s->batch.oldest_ms;
    }
    end_report(s);
}

/* Only here does the position move. */
static void report_delivered(struct event_sink *s)
{
    if (begin_report(s)) {
        s->status.position = s->batch.up_to;
        s->status.oldest_ms = 0;
        s->status.is_failing = false;
    }
    s->status.delivered += s->batch.count;
    end_report(s);
}

static void report_gap(struct event_sink *s, uint64_t from, uint64_t to)
{
    pthread_mutex_lock(&s->lock);
    s->status.gaps++;
    s->status.gap_from = from;
    s->status.gap_to = to;
    pthread_mutex_unlock(&s->lock);
}

/* ---- reading ---- */

static void close_cursor(struct event_sink *s)
{
    if (s->cursor != NULL) {
        s->options.source.close(s->cursor);
        s->cursor = NULL;
    }
}

static void drop_batch(struct event_sink *s)
{
    close_cursor(s);
    sink_batch_clear(&s->batch);
    pthread_mutex_lock(&s->lock);
    s->read = s->status.position;
    pthread_mutex_unlock(&s->lock);
}

/* A gap may be filled from another node soon: read again before it is declared. True: read on. */
static bool take_gap(struct event_sink *s, const struct event_step *step)
{
    uint64_t now_ms = clock_ms(CLOCK_MONOTONIC);
    if (s->gap_from != step->gap_from) {
        s->gap_from = step->gap_from;
        s->gap_ms = now_ms;
    }
    if (now_ms - s->gap_ms < s->options.gap_wait_ms) {
        close_cursor(s);
        return false;
    }
    s->gap_from = UINT64_MAX;
    sink_batch_add_gap(&s->batch, &s->options.json, step->gap_from, step->gap_to,
                       clock_ms(CLOCK_REALTIME));
    report_gap(s, step->gap_from, step->gap_to);
    return true;
}

/* Reads until the batch is full or all is read. False: pause before the next look. */
static bool read_some(struct event_sink *s)
{
    const struct sink_options *o = &s->options;
    struct event_step step;
    if (s->cursor == NULL) {
        s->cursor = o->source.open(o->source.ctx, s->read);
    }
    while (!sink_batch_is_full(&s->batch) && !is_over(s)) {
        switch (o->source.next(s->cursor, &step)) {
        case EVENT_READ_RECORD:
            sink_batch_add(&s->batch, &o->json, o->prefix, &step.record);
            s->read = s->batch.up_to;
            break;
        case EVENT_READ_GAP:
            if (!take_gap(s, &step)) {
                return false;
            }
            s->read = s->batch.up_to;
            break;
        case EVENT_READ_MORE:
            break;
        case EVENT_READ_FAILED:
            report_trouble(s, step.problem.text, true);
            close_cursor(s);
            return false;
        case EVENT_READ_END:
            return true;
        }
    }
    return true;
}

static void look_again(struct event_sink *s)
{
    pthread_mutex_lock(&s->lock);
    s->is_readable = false;
    pthread_mutex_unlock(&s->lock);
}

/* Collects a batch. It may be empty: call again. */
static void collect(struct event_sink *s)
{
    look_again(s);
    bool is_fine = read_some(s);
    if (!is_fine) {
        if (!s->batch.has_read) {
            back_off(s, 0);
        }
        return;
    }
    if (!s->batch.has_read) {
        pause_for(s, PAUSE_FOREVER, true);
        return;
    }
    if (s->batch.count > 0 && !sink_batch_is_full(&s->batch)) {
        report_batch(s);
        pause_for(s, s->options.driver->linger_ms, false);
        look_again(s);
        (void)read_some(s);
    }
    report_batch(s);
}

/* ---- delivering ---- */

static bool wants_reload(struct event_sink *s)
{
    pthread_mutex_lock(&s->lock);
    bool reload = s->is_reload;
    pthread_mutex_unlock(&s->lock);
    return reload;
}

static bool open_driver(struct event_sink *s)
{
    struct driver_trouble trouble = {0};
    if (s->is_open) {
        return true;
    }
    s->is_open = s->options.driver->open(s->options.driver, &trouble);
    if (!s->is_open) {
        report_trouble(s, trouble.text, true);
        back_off(s, trouble.retry_after_ms);
    }
    return s->is_open;
}

static void close_driver(struct event_sink *s)
{
    if (s->is_open) {
        s->options.driver->close(s->options.driver);
        s->is_open = false;
    }
}

static void on_delivered(struct event_sink *s)
{
    report_delivered(s);
    sink_batch_clear(&s->batch);
    s->backoff_ms = s->options.backoff_min_ms;
    uint32_t max = s->options.driver->events;
    s->batch.max = s->batch.max > max / 2 ? max : s->batch.max * 2;
}

static void on_failed(struct event_sink *s, const struct driver_trouble *trouble)
{
    report_trouble(s, trouble->text, true);
    if (trouble->reopen) {
        close_driver(s);
    }
    if (trouble->too_large && s->batch.count > 1) {
        uint32_t half = s->batch.count / 2;
        drop_batch(s);
        s->batch.max = half;
        return;
    }
    back_off(s, trouble->retry_after_ms);
}

static void deliver(struct event_sink *s)
{
    struct sink_driver *driver = s->options.driver;
    if (s->batch.count == 0) {
        on_delivered(s); /* nothing for this sink up to here */
        return;
    }
    driver->begin(driver, &s->batch);
    while (!is_over(s) && !wants_reload(s)) {
        struct driver_trouble trouble = {0};
        switch (driver->poll(driver, DRIVER_POLL_MS, &trouble)) {
        case DRIVER_WAITS:
            if (trouble.text[0] != '\0') {
                report_trouble(s, trouble.text, false);
            }
            break;
        case DRIVER_DELIVERED:
            on_delivered(s);
            return;
        case DRIVER_FAILED:
            on_failed(s, &trouble);
            return;
        }
    }
}

/* ---- the thread ---- */

static bool take_reload(struct event_sink *s)
{
    pthread_mutex_lock(&s->lock);
    bool reload = s->is_reload;
    s->is_reload = false;
    pthread_mutex_unlock(&s->lock);
    return reload;
}

/* One leadership. */
static void serve(struct event_sink *s)
{
    s->backoff_ms = s->options.backoff_min_ms;
    s->gap_from = UINT64_MAX;
    s->batch.max = s->options.driver->events;
    while (!is_over(s)) {
        if (take_reload(s)) {
            close_driver(s);
        }
        if (open_driver(s)) {
            if (!s->batch.has_read) {
                collect(s);
            }
            if (s->batch.has_read && !is_over(s)) {
                deliver(s);
            }
        }
    }
    close_driver(s);
    close_cursor(s);
    sink_batch_clear(&s->batch);
}

/* False: the end. */
static bool wait_for_lead(struct event_sink *s)
{
    pthread_mutex_lock(&s->lock);
    while (!s->status.leads && !s->is_ending) {
        pthread_cond_wait(&s->changed, &s->lock);
    }
    s->serves = atomic_load(&s->generation);
    s->read = s->start;
    bool is_ending = s->is_ending;
    pthread_mutex_unlock(&s->lock);
    return !is_ending;
}

static void *work(void *ctx)
{
    struct event_sink *s = ctx;
    (void)pthread_setname_np(pthread_self(), "sink");
    (void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICE);
    while (wait_for_lead(s)) {
        serve(s);
    }
    return NULL;
}

/* Signals are for the thread of the loop; those of errors and of the sandbox must stay open. */
static void start_thread(struct event_sink *s)
{
    sigset_t blocked;
    sigset_t before;
    sigfillset(&blocked);
    sigdelset(&blocked, SIGSYS);
    sigdelset(&blocked, SIGSEGV);
    sigdelset(&blocked, SIGBUS);
    sigdelset(&blocked, SIGFPE);
    sigdelset(&blocked, SIGILL);
    sigdelset(&blocked, SIGABRT);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    int status = pthread_create(&s->thread, NULL, work, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    hf_assert(status == 0);
}

struct event_sink *sink_new(const struct sink_options *options)
{
    pthread_condattr_t attributes;
    struct event_sink *s = memory_alloc(options->memory, sizeof(*s));
    memset(s, 0, sizeof(*s));
    s->options = *options;
    if (s->options.backoff_min_ms == 0) {
        s->options.backoff_min_ms = BACKOFF_MIN_MS;
    }
    if (s->options.backoff_max_ms == 0) {
        s->options.backoff_max_ms = BACKOFF_MAX_MS;
    }
    hf_assert(options->driver->events > 0 && options->driver->events <= SINK_BATCH_EVENTS);
    sink_batch_init(&s->batch, options->memory);
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&s->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    start_thread(s);
    return s;
}

/* ---- the loop ---- */

static void change(struct event_sink *s, bool leads, struct event_id after)
{
    s->start = after;
    s->status.leads = leads;
    s->status.position = after;
    s->status.is_failing = false;
    s->status.oldest_ms = 0;
    atomic_fetch_add(&s->generation, 1);
    pthread_cond_signal(&s->changed);
}

void sink_lead(struct event_sink *s, struct event_id after)
{
    pthread_mutex_lock(&s->lock);
    change(s, true, after);
    pthread_mutex_unlock(&s->lock);
}

void sink_halt(struct event_sink *s)
{
    pthread_mutex_lock(&s->lock);
    change(s, false, (struct event_id){0, 0});
    pthread_mutex_unlock(&s->lock);
}

void sink_reload(struct event_sink *s)
{
    pthread_mutex_lock(&s->lock);
    s->is_reload = true;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

void sink_notify(void *sink)
{
    struct event_sink *s = sink;
    pthread_mutex_lock(&s->lock);
    if (!s->is_readable) {
        s->is_readable = true;
        pthread_cond_signal(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
}

void sink_status(struct event_sink *s, struct sink_status *out)
{
    pthread_mutex_lock(&s->lock);
    *out = s->status;
    pthread_mutex_unlock(&s->lock);
}

void sink_free(struct event_sink *s)
{
    pthread_mutex_lock(&s->lock);
    s->is_ending = true;
    change(s, false, (struct event_id){0, 0});
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    sink_batch_close(&s->batch);
    s->options.driver->free(s->options.driver);
    memory_free(s->options.memory, s, sizeof(*s));
}

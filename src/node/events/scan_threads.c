/* See scan_threads.h. The loop and the threads share the slots, under `lock`; `calls` and `late_ms` of a
 * slot are the loop's. */
#include "node/events/scan_threads.h"

#include <pthread.h>

#include "base/panic.h"

enum scan_state { SCAN_FREE, SCAN_QUEUED, SCAN_READING, SCAN_DONE };

enum { SCAN_ACTION = 64 };

struct scan_slot {
    enum scan_state state;
    uint64_t number;                /* rises with each search: the order of the queue */
    struct gateway_scan_call *call; /* NULL: no longer wanted */
    uint64_t late_ms;
    struct event_scan scan;
    struct event_page page;
    enum hf_error error;
    struct problem problem;
    uint8_t name[LIMIT_NAME];
    uint8_t client[LIMIT_CLIENT];
    uint8_t actor[LIMIT_ACTOR];
    uint8_t action[SCAN_ACTION];
};

struct scan_threads {
    struct scan_threads_options options;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stops;
    bool is_stopped; /* the threads are gone */
    pthread_t threads[SCAN_THREADS];
    struct scan_slot slots[GATEWAY_SCANS];
    uint32_t taken; /* slots that are not free; only the loop takes and frees them */
    uint64_t newest;
    uv_async_t wake;
    /* Refused, not reported yet: linked by their `in_flight`; the last points to `this`. */
    struct gateway_scan_call *refused;
    uint32_t refused_count;
};

/* ---- threads ---- */

static struct scan_slot *oldest_queued(struct scan_threads *s)
{
    struct scan_slot *oldest = NULL;
    for (unsigned i = 0; i < GATEWAY_SCANS; i++) {
        struct scan_slot *slot = &s->slots[i];
        if (slot->state == SCAN_QUEUED && (oldest == NULL || slot->number < oldest->number)) {
            oldest = slot;
        }
    }
    return oldest;
}

static void *scan_main(void *ctx)
{
    struct scan_threads *s = ctx;
    pthread_mutex_lock(&s->lock);
    while (!s->stops) {
        struct scan_slot *slot = oldest_queued(s);
        if (slot == NULL) {
            pthread_cond_wait(&s->changed, &s->lock);
            continue;
        }
        slot->state = SCAN_READING;
        pthread_mutex_unlock(&s->lock);
        slot->error = event_scan_page(s->options.log, &slot->scan, &slot->page, &slot->problem);
        pthread_mutex_lock(&s->lock);
        slot->state = SCAN_DONE;
        (void)uv_async_send(&s->wake);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* ---- loop ---- */

static void on_wake(uv_async_t *wake)
{
    (void)wake; /* it only wakes the loop, which calls scan_threads_run */
}

struct scan_threads *scan_threads_new(const struct scan_threads_options *options)
{
    struct scan_threads *s = memory_alloc(options->memory, sizeof(*s));
    memset(s, 0, sizeof(*s));
    s->options = *options;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    int status = uv_async_init(options->loop, &s->wake, on_wake);
    hf_assert(status == 0);
    for (unsigned i = 0; i < SCAN_THREADS && options->log != NULL; i++) {
        status = pthread_create(&s->threads[i], NULL, scan_main, s);
        hf_assert(status == 0);
    }
    return s;
}

static struct slice copy_text(uint8_t *to, size_t max, struct slice text)
{
    hf_assert(text.len <= max);
    if (text.len > 0) {
        memcpy(to, text.data, text.len);
    }
    return slice_make(to, text.len);
}

static void copy_scan(struct scan_slot *slot, const struct event_scan *scan)
{
    slot->scan = *scan;
    slot->scan.name = copy_text(slot->name, sizeof(slot->name), scan->name);
    slot->scan.client = copy_text(slot->client, sizeof(slot->client), scan->client);
    slot->scan.actor = copy_text(slot->actor, sizeof(slot->actor), scan->actor);
    slot->scan.action = copy_text(slot->action, sizeof(slot->action), scan->action);
}

static struct gateway_scan_call *after_refused(const struct scan_threads *s,
                                               const struct gateway_scan_call *call)
{
    return call->in_flight == s ? NULL : call->in_flight;
}

static void refuse(struct scan_threads *s, struct gateway_scan_call *call)
{
    struct gateway_scan_call *last = s->refused;
    call->in_flight = s;
    while (last != NULL && after_refused(s, last) != NULL) {
        last = after_refused(s, last);
    }
    if (last == NULL) {
        s->refused = call;
    } else {
        last->in_flight = call;
    }
    s->refused_count++;
    (void)uv_async_send(&s->wake);
}

void scan_threads_begin(struct scan_threads *s, const struct event_scan *scan,
                        struct gateway_scan_call *call, uint64_t now_ms)
{
    struct scan_slot *slot = NULL;
    call->in_flight = NULL;
    pthread_mutex_lock(&s->lock);
    for (unsigned i = 0; i < GATEWAY_SCANS && slot == NULL && s->options.log != NULL; i++) {
        slot = s->slots[i].state == SCAN_FREE ? &s->slots[i] : NULL;
    }
    if (slot != NULL && !s->stops) {
        copy_scan(slot, scan);
        slot->state = SCAN_QUEUED;
        s->taken++;
        slot->number = ++s->newest;
        slot->call = call;
        slot->late_ms = now_ms + GATEWAY_SCAN_MS;
        pthread_cond_signal(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
    if (slot == NULL && !s->is_stopped) {
        refuse(s, call);
    }
}

/* Its call was reported or cancelled. With the lock. */
static void leave_slot(struct scan_threads *s, struct scan_slot *slot)
{
    slot->call = NULL;
    if (slot->state == SCAN_QUEUED) {
        slot->state = SCAN_FREE;
        s->taken--;
    }
}

static void forget_refused(struct scan_threads *s, const struct gateway_scan_call *call)
{
    struct gateway_scan_call *before = NULL;
    struct gateway_scan_call *at = s->refused;
    while (at != NULL && at != call) {
        before = at;
        at = after_refused(s, at);
    }
    if (at == NULL) {
        return;
    }
    if (before == NULL) {
        s->refused = after_refused(s, at);
    } else {
        before->in_flight = at->in_flight;
    }
    s->refused_count--;
}

void scan_threads_cancel(struct scan_threads *s, struct gateway_scan_call *call)
{
    pthread_mutex_lock(&s->lock);
    for (unsigned i = 0; i < GATEWAY_SCANS; i++) {
        if (s->slots[i].call == call) {
            leave_slot(s, &s->slots[i]);
        }
    }
    pthread_mutex_unlock(&s->lock);
    forget_refused(s, call);
}

static void report(struct gateway_scan_call *call, enum hf_error error,
                   const struct event_page *page, const char *why)
{
    call->in_flight = NULL;
    call->done(call, error, page, why);
}

static void finish(struct scan_threads *s, struct scan_slot *slot)
{
    struct gateway_scan_call *call = slot->call;
    struct event_page page = slot->page;
    struct problem problem = slot->problem;
    enum hf_error error = slot->error;
    pthread_mutex_lock(&s->lock);
    slot->call = NULL;
    slot->state = SCAN_FREE;
    s->taken--;
    pthread_mutex_unlock(&s->lock);
    if (call != NULL && error == HF_OK) {
        report(call, HF_OK, &page, NULL);
    } else if (call != NULL) {
        report(call, error, NULL, problem.text);
    }
    if (error == HF_OK) {
        event_page_close(s->options.log, &page);
    }
}

static void give_up(struct scan_threads *s, struct scan_slot *slot)
{
    struct gateway_scan_call *call = slot->call;
    pthread_mutex_lock(&s->lock);
    leave_slot(s, slot);
    pthread_mutex_unlock(&s->lock);
    report(call, HF_DEADLINE, NULL,
           "the event log of this node could not be read in time; nothing was done; try again, or "
           "another node");
}

static enum scan_state state_of(struct scan_threads *s, const struct scan_slot *slot)
{
    pthread_mutex_lock(&s->lock);
    enum scan_state state = slot->state;
    pthread_mutex_unlock(&s->lock);
    return state;
}

/* `done` may begin and cancel searches, so a slot is examined when it is its turn. */
void scan_threads_run(struct scan_threads *s, uint64_t now_ms)
{
    for (uint32_t left = s->refused_count; left > 0 && s->refused != NULL; left--) {
        struct gateway_scan_call *call = s->refused;
        forget_refused(s, call);
        if (s->options.log == NULL) {
            report(call, HF_EVENT_LOG, NULL, s->options.why);
        } else {
            report(call, HF_BUSY, NULL,
                   "this node already reads its event log for as many requests as it may; nothing "
                   "was done; try again, or another node");
        }
    }
    for (unsigned i = 0; i < GATEWAY_SCANS && s->taken > 0 && !s->is_stopped; i++) {
        struct scan_slot *slot = &s->slots[i];
        enum scan_state state = state_of(s, slot);
        if (state == SCAN_DONE) {
            finish(s, slot);
        } else if (slot->call != NULL && slot->late_ms <= now_ms) {
            give_up(s, slot);
        }
    }
}

uint64_t scan_threads_next_ms(const struct scan_threads *s)
{
    uint64_t next_ms = UINT64_MAX;
    for (unsigned i = 0; i < GATEWAY_SCANS; i++) {
        const struct scan_slot *slot = &s->slots[i];
        if (slot->call != NULL && slot->late_ms < next_ms) {
            next_ms = slot->late_ms;
        }
    }
    return next_ms;
}

void scan_threads_stop(struct scan_threads *s)
{
    if (s == NULL || s->is_stopped) {
        return;
    }
    pthread_mutex_lock(&s->lock);
    s->stops = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    for (unsigned i = 0; i < SCAN_THREADS && s->options.log != NULL; i++) {
        pthread_join(s->threads[i], NULL);
    }
    s->is_stopped = true;
    for (unsigned i = 0; i < GATEWAY_SCANS; i++) {
        struct scan_slot *slot = &s->slots[i];
        if (slot->state == SCAN_DONE && slot->error == HF_OK) {
            event_page_close(s->options.log, &slot->page);
        }
        slot->state = SCAN_FREE;
        slot->call = NULL;
    }
    uv_close((uv_handle_t *)&s->wake, NULL);
}

void scan_threads_free(struct scan_threads *s)
{
    if (s == NULL) {
        return;
    }
    hf_assert(s->is_stopped);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->changed);
    memory_free(s->options.memory, s, sizeof(*s));
}

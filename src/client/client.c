/* Runs a client: thread, iterations, callbacks, waiting threads. */
#include "client/client.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "client/options.h"
#include "client/proto.h"

bool client_is_forked(const struct hf_client *c)
{
    return c->pid != getpid();
}

int client_refuse_child(void)
{
    return error_set(HF_ERR_INVALID, "this client belongs to the process before the fork: "
                                     "abandon it here and open another");
}

int client_enter(struct hf_client *c, bool waits)
{
    if (client_is_forked(c)) {
        return client_refuse_child();
    }
    pthread_mutex_lock(&c->mutex);
    if (waits && c->is_dispatching && pthread_equal(c->dispatcher, pthread_self())) {
        pthread_mutex_unlock(&c->mutex);
        return error_set(HF_ERR_INVALID, "a call that waits cannot be made within a callback: use "
                                         "the form without waiting");
    }
    if (c->client_engine.session.is_closing) {
        pthread_mutex_unlock(&c->mutex);
        return error_set(HF_ERR_CANCELLED, "the client is being closed");
    }
    return 0;
}

void client_leave(struct hf_client *c)
{
    pthread_mutex_unlock(&c->mutex);
}

void client_kick(struct hf_client *c)
{
    io_write(c);
    bool is_unsent = false;
    for (unsigned i = 0; i < ENGINE_LINKS; i++) {
        is_unsent = is_unsent || buffer_len(&c->client_engine.links[i].out) > 0;
    }
    if (is_unsent || !list_is_empty(&c->client_engine.notifications)) {
        io_wake(&c->io);
    }
}

static void notify_event(struct hf_client *c, const struct notification_event *n)
{
    struct hf_lock *lock = n->lock;
    int64_t now_ms = client_now_ms();
    struct hf_event event = {.type = n->type,
                             .lock = lock,
                             .safe_for_ms = life_left(n->safe_until_ms, now_ms),
                             .deadline_ms = life_left(n->deadline_at_ms, now_ms),
                             .text = n->text};
    if (lock != NULL && lock->on_event != NULL) {
        lock->on_event(c, &event, lock->arg);
    }
    if (c->on_event != NULL) {
        c->on_event(c, &event, c->arg);
    }
}

static void tell_done(struct hf_client *c, struct hf_call *ticket, struct hf_lock *lock)
{
    (void)error_set(ticket->error, "%s", ticket->text);
    error_set_holder(ticket->holder);
    if (ticket->done != NULL) {
        ticket->done(c, ticket->error, lock, ticket->arg);
    }
}

static void tell_leader(struct hf_client *c, const struct notification_leader *n)
{
    struct hf_leader leader = {n->vacant, n->client_id, n->value, n->candidates};
    n->ticket->changed(c, &leader, n->ticket->arg);
}

/* The caller owns the handle now. */
static struct hf_lock *hand_over(struct hf_client *c, struct hf_call *ticket)
{
    struct hf_lock *lock = ticket->lock;
    ticket->lock = NULL;
    if (lock != NULL) {
        list_append(&c->handles, &lock->handle_link);
    }
    return lock;
}

/* Callers that wait do not wait for callbacks before them. */
static void wake_callers(struct hf_client *c)
{
    struct list *next;
    for (struct list *at = c->client_engine.notifications.next;
         at != &c->client_engine.notifications; at = next) {
        struct notification *n = LIST_OBJECT(at, struct notification, link);
        struct hf_call *ticket = (struct hf_call *)n;
        next = at->next;
        if (n->kind == NOTIFICATION_DONE && ticket->waiter != NULL) {
            list_remove(at);
            pthread_cond_signal(ticket->waiter); /* it frees the ticket */
        }
    }
}

/* Callbacks run one by one, without the mutex. */
static void dispatch(struct hf_client *c)
{
    if (c->is_dispatching) {
        return;
    }
    c->is_dispatching = true;
    c->dispatcher = pthread_self();
    for (struct notification *n = notification_take(&c->client_engine); n != NULL;
         n = notification_take(&c->client_engine)) {
        struct hf_call *ticket = (struct hf_call *)n;
        if (n->kind == NOTIFICATION_DONE && ticket->waiter != NULL) {
            pthread_cond_signal(ticket->waiter); /* it frees the ticket */
            continue;
        }
        struct hf_lock *lock = n->kind == NOTIFICATION_DONE ? hand_over(c, ticket) : NULL;
        bool is_wanted = true;
        if (n->kind == NOTIFICATION_EVENT) {
            const struct notification_event *event = (struct notification_event *)n;
            is_wanted = event->lock == NULL || !event->lock->is_gone;
        } else if (n->kind == NOTIFICATION_LEADER) {
            is_wanted = !((struct notification_leader *)n)->ticket->is_cancelled;
        }
        pthread_mutex_unlock(&c->mutex);
        if (is_wanted && n->kind == NOTIFICATION_EVENT) {
            notify_event(c, (struct notification_event *)n);
        } else if (is_wanted && n->kind == NOTIFICATION_LEADER) {
            tell_leader(c, (struct notification_leader *)n);
        } else if (n->kind == NOTIFICATION_DONE) {
            tell_done(c, ticket, lock);
        }
        pthread_mutex_lock(&c->mutex);
        notification_free(n);
    }
    c->is_dispatching = false;
}

static void rest(struct hf_client *c, int wait_ms)
{
    if (!c->is_stopping && (c->has_thread || list_is_empty(&c->client_engine.notifications))) {
        struct pollfd fds[2 + ENGINE_LINKS];
        int count = io_pollfds(c, fds, 2 + ENGINE_LINKS);
        pthread_mutex_unlock(&c->mutex);
        (void)poll(fds, (nfds_t)count, wait_ms);
        pthread_mutex_lock(&c->mutex);
    }
}

void client_turn(struct hf_client *c, int wait_ms)
{
    hf_assert(!c->is_driven);
    c->is_driven = true;
    io_read(c);
    client_engine_go(&c->client_engine, client_now_ms());
    io_write(c);
    if (c->has_thread) {
        wake_callers(c);
        if (!list_is_empty(&c->client_engine.notifications)) {
            pthread_cond_signal(&c->notified);
        }
    } else {
        dispatch(c);
        io_write(c); /* what the callbacks began */
    }
    if (wait_ms != 0) {
        rest(c, wait_ms);
    }
    c->is_driven = false;
    if (!c->has_thread || c->client_engine.session.is_closing) {
        pthread_cond_broadcast(&c->changed);
    }
}

/* Sleeps until there is work. A waiting thread first checks whether its wait has ended. */
static void client_sleep(struct hf_client *c, int wait_ms)
{
    c->is_driven = true;
    rest(c, wait_ms);
    c->is_driven = false;
}

static void *thread_main(void *arg)
{
    struct hf_client *c = arg;
    pthread_mutex_lock(&c->mutex);
    while (!c->is_stopping) {
        client_turn(c, -1);
    }
    wake_callers(c);
    pthread_mutex_unlock(&c->mutex);
    return NULL;
}

/* A callback that blocks must not delay keep-alives, so callbacks have a thread of their own. */
static void *callbacks_main(void *arg)
{
    struct hf_client *c = arg;
    pthread_mutex_lock(&c->mutex);
    for (dispatch(c); !c->is_stopped; dispatch(c)) {
        pthread_cond_wait(&c->notified, &c->mutex);
    }
    pthread_mutex_unlock(&c->mutex);
    return NULL;
}

int client_wait(struct hf_client *c, struct hf_call *ticket, struct hf_lock **lock,
                int64_t *expires_in_ms)
{
    pthread_cond_t woken = PTHREAD_COND_INITIALIZER;
    ticket->waiter = &woken;
    c->callers++;
    client_kick(c);
    while (!ticket->is_done) {
        if (c->has_thread) {
            pthread_cond_wait(&woken, &c->mutex);
        } else if (c->is_driven) {
            pthread_cond_wait(&c->changed, &c->mutex);
        } else {
            client_turn(c, 0);
            if (!ticket->is_done) {
                client_sleep(c, -1);
            }
        }
    }
    c->callers--;
    if (c->client_engine.session.is_closing) {
        pthread_cond_broadcast(&c->changed);
    }
    int error = ticket->error;
    (void)error_set(error, "%s", ticket->text);
    if (error != 0) {
        error_set_holder(ticket->holder);
    }
    if (lock != NULL) {
        *lock = hand_over(c, ticket);
    }
    if (expires_in_ms != NULL) {
        *expires_in_ms = ticket->expires_in_ms;
    }
    ticket_free(ticket);
    pthread_cond_destroy(&woken);
    return error;
}

/* Ends the thread for callbacks after the last one. With the mutex, which is released. */
static void end_callbacks(struct hf_client *c)
{
    c->is_stopped = true;
    pthread_cond_signal(&c->notified);
    pthread_mutex_unlock(&c->mutex);
    pthread_join(c->callback_thread, NULL);
}

static bool start_threads(struct hf_client *c)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    c->has_thread = true; /* before they run */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&c->callback_thread, NULL, callbacks_main, c);
    if (error == 0) {
        error = pthread_create(&c->thread, NULL, thread_main, c);
        if (error != 0) {
            pthread_mutex_lock(&c->mutex);
            end_callbacks(c);
        }
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0) {
        c->has_thread = false;
        errno = error;
    }
    return error == 0;
}

static void init_sync(struct hf_client *c)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&c->mutex, NULL);
    pthread_cond_init(&c->changed, &attributes);
    pthread_cond_init(&c->notified, &attributes);
    pthread_condattr_destroy(&attributes);
}

static void client_free(struct hf_client *c)
{
    while (!list_is_empty(&c->handles)) {
        struct hf_lock *lock = LIST_OBJECT(c->handles.next, struct hf_lock, handle_link);
        list_remove(&lock->handle_link);
        lock_unref(lock);
    }
    client_engine_close(&c->client_engine);
    io_close(&c->io);
    security_free(c->client_engine.options.security);
    if (!client_is_forked(
            c)) { /* of a condition on which a thread of the parent waits, it would hang */
        pthread_cond_destroy(&c->changed);
        pthread_cond_destroy(&c->notified);
        pthread_mutex_destroy(&c->mutex);
    }
    free(c);
}

int hf_client_open(hf_client **out, const char *endpoints, const struct hf_options *given)
{
    struct client_engine_options options;
    struct hf_options whole;
    uint64_t seed[2];
    int error = options_read(given, &whole, &options);
    if (error != 0) {
        return error;
    }
    if (getrandom(seed, sizeof(seed), 0) != (ssize_t)sizeof(seed)) {
        return error_set(HF_ERR_SYSTEM, "no random numbers: %s", strerrordesc_np(errno));
    }
    options.security = options_security(&whole);
    if (options.security == NULL) {
        return HF_ERR_INVALID;
    }
    struct hf_client *c = calloc(1, sizeof(*c));
    if (c == NULL) {
        security_free(options.security);
        return error_set(HF_ERR_MEMORY, "out of memory");
    }
    if (!io_open(&c->io)) {
        error = error_set(HF_ERR_SYSTEM, "no descriptors: %s", strerrordesc_np(errno));
        security_free(options.security);
        free(c);
        return error;
    }
    list_init(&c->handles);
    c->pid = getpid();
    c->on_event = whole.on_event;
    c->arg = whole.arg;
    const char *problem = client_engine_init(&c->client_engine, &options,
                                             options_endpoints(endpoints), seed, client_now_ms());
    if (problem != NULL) {
        io_close(&c->io);
        security_free(options.security);
        free(c);
        return error_set(HF_ERR_INVALID, "endpoints: %s", problem);
    }
    c->client_engine.client = c;
    init_sync(c);
    if (!whole.own_loop && !start_threads(c)) {
        error = error_set(HF_ERR_SYSTEM, "no thread: %s", strerrordesc_np(errno));
        client_free(c);
        return error;
    }
    *out = c;
    return 0;
}

static void stop(struct hf_client *c)
{
    c->is_stopping = true;
    io_wake(&c->io);
    while (c->callers > 0 || (!c->has_thread && c->is_driven)) {
        pthread_cond_wait(&c->changed, &c->mutex);
    }
    pthread_mutex_unlock(&c->mutex);
    if (c->has_thread) {
        pthread_join(c->thread, NULL);
        pthread_mutex_lock(&c->mutex);
        end_callbacks(c);
    }
    client_free(c);
}

static void wait_closed(struct hf_client *c)
{
    int64_t until_ms = client_now_ms() + c->client_engine.options.call_timeout_ms;
    while (!c->client_engine.is_closed) {
        int64_t left_ms = until_ms - client_now_ms();
        if (left_ms <= 0) {
            return;
        }
        if (c->has_thread || c->is_driven) {
            struct timespec at;
            clock_gettime(CLOCK_MONOTONIC, &at);
            at.tv_sec += (time_t)(left_ms / 1000);
            at.tv_nsec += (long)(left_ms % 1000) * 1000000;
            if (at.tv_nsec >= 1000000000) {
                at.tv_nsec -= 1000000000;
                at.tv_sec++;
            }
            (void)pthread_cond_timedwait(&c->changed, &c->mutex, &at);
        } else {
            client_turn(c, 0);
            if (!c->client_engine.is_closed) {
                client_sleep(c, (int)(left_ms < 1000 ? left_ms : 1000));
            }
        }
    }
}

void hf_client_close(hf_client *c)
{
    if (c == NULL) {
        return;
    }
    if (client_is_forked(c)) {
        hf_client_abandon(c);
        return;
    }
    if (client_enter(c, true) != 0) {
        return; /* inside a callback, or concurrent: it stays open */
    }
    client_engine_cancel_all(&c->client_engine, client_now_ms());
    client_engine_shut(&c->client_engine, client_now_ms());
    client_kick(c);
    io_wake(&c->io);
    wait_closed(c);
    if (!c->has_thread && !c->is_driven) {
        client_turn(c, 0); /* calls every callback */
    }
    stop(c);
}

/* A child has the memory at the fork, without threads. If another thread held the mutex, the state
 * may be inconsistent: only the descriptors are closed. */
static void abandon_in_child(struct hf_client *c)
{
    if (pthread_mutex_trylock(&c->mutex) != 0) {
        io_close(&c->io);
        return;
    }
    pthread_mutex_unlock(&c->mutex);
    client_free(c);
}

void hf_client_abandon(hf_client *c)
{
    if (c == NULL) {
        return;
    }
    if (client_is_forked(c)) {
        abandon_in_child(c);
        return;
    }
    if (client_enter(c, true) != 0) {
        return;
    }
    c->client_engine.session.is_closing = true; /* refuses further calls */
    c->client_engine.is_closed = true;
    client_engine_cancel_all(&c->client_engine, client_now_ms());
    io_wake(&c->io);
    stop(c);
}

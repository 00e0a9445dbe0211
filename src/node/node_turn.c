/* One turn of the loop, its clocks and its timer. */
#include <stdio.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "node/node_state.h"

#define TIMER_UNSET UINT64_MAX
/* A timer that fires at most this early is not set again: that costs more than a spurious wake-up,
 * and the deadline of a batch moves with every request. */
#define TIMER_EARLY_US 1000

static uint64_t clock_us(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

uint64_t node_boot_us(void)
{
    return clock_us(CLOCK_BOOTTIME);
}

struct replica_time node_now(const struct node *n)
{
    (void)n;
    return (struct replica_time){.boot_us = node_boot_us(),
                                 .wall_ms = clock_us(CLOCK_REALTIME) / 1000};
}

static void on_timer(uv_poll_t *timer, int status, int events)
{
    (void)status;
    (void)events;
    struct node *n = timer->data;
    uint64_t times;
    ssize_t got = read(n->timer_fd, &times, sizeof(times));
    (void)got; /* it only wakes the loop: on_turn reads the clock */
    n->timer_us = TIMER_UNSET;
}

/* A timerfd: timers of libuv count milliseconds, and a batch waits 200 µs. */
static void set_timer(struct node *n, uint64_t due_us)
{
    if (due_us >= n->timer_us && due_us - n->timer_us <= TIMER_EARLY_US) {
        return;
    }
    n->timer_us = due_us;
    due_us = due_us == 0 ? 1 : due_us; /* 0 would disarm it */
    struct itimerspec spec = {.it_value = {.tv_sec = (time_t)(due_us / 1000000),
                                           .tv_nsec = (long)(due_us % 1000000) * 1000}};
    int status = timerfd_settime(n->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL);
    hf_assert(status == 0);
}

static uint64_t from_ms(uint64_t ms)
{
    return ms >= UINT64_MAX / 1000 ? UINT64_MAX : ms * 1000;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static bool is_watched(const struct node *n)
{
    return n->net.client_connections > 0 || forward_outstanding(n->forward) > 0;
}

/* Work delayed until all output, with the acknowledgement to the leader, was sent. True: clients
 * may need its results, so the loop runs again. */
static bool catch_up(struct node *n)
{
    if (!replica_may_catch_up(n->replica)) {
        return false;
    }
    replica_catch_up(n->replica, node_now(n));
    return n->changed || is_watched(n);
}

/* Boot time, read once per turn: each request needs it several times. Time stamps (S1.1) read the
 * clock themselves. */
uint64_t node_awake_ms(struct node *n)
{
    if (n->awake_ms == 0) {
        n->awake_ms = node_boot_us() / 1000;
    }
    return n->awake_ms;
}

void node_on_sleep(void *ctx)
{
    struct node *n = ctx;
    n->awake_ms = 0;
    if (n->phase >= NODE_CLOSING) {
        return;
    }
    uint64_t due = n->maintenance_us;
    if (n->replica != NULL) {
        logger_begin(n->logger); /* the disk writes while entries are applied */
        if (replica_is_answering(n->replica)) {
            replica_answers_left(n->replica, node_now(n));
        }
        if (catch_up(n)) {
            due = 0;
        }
        node_events_applied(n);
        replica_set_unwatched(n->replica, !is_watched(n)); /* saves a timer call per batch */
        due = earlier(due, replica_next_us(n->replica));
        due = earlier(due, from_ms(forward_next_ms(n->forward)));
        due = earlier(due, from_ms(service_next_ms(n->service)));
        due = earlier(due, node_tier_next_us(n));
        due = earlier(due, node_events_next_us(n));
        due = earlier(due, node_promote_next_us(n));
        due = n->admin == NULL ? due : earlier(due, admin_socket_next_ms(n->admin));
    }
    set_timer(n, due);
}

bool node_open_timer(struct node *n, char problem[NODE_PROBLEM])
{
    n->timer_us = TIMER_UNSET;
    n->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
    if (n->timer_fd < 0) {
        snprintf(problem, NODE_PROBLEM, "this machine has no timer on CLOCK_BOOTTIME");
        return false;
    }
    uv_poll_init(n->options.loop, &n->timer, n->timer_fd);
    n->timer.data = n;
    uv_poll_start(&n->timer, UV_READABLE, on_timer);
    return true;
}

static void awake(uv_idle_t *handle)
{
    (void)handle; /* while it is active the loop does not sleep */
}

bool node_is_late(const struct node *n, struct replica_time now)
{
    return stall_is_late(&n->stall, now.boot_us);
}

/* S1.5: the sockets are read before a batch may be sealed. Keep-alives in them must not expire. */
static bool is_reading_first(struct node *n, struct replica_time now)
{
    uint64_t pause_us = now.boot_us - n->stall.turn_us;
    bool was_reading = n->stall.reading;
    bool reading = stall_begin_turn(&n->stall, now.boot_us, n->net.bytes_read);
    if (reading && !was_reading) {
        uv_idle_start(&n->awake, awake);
        journal_note(n->options.journal, WARN, NODE, "stalled",
                     JOURNAL_NUMBER("ms", pause_us / 1000));
    } else if (was_reading && !reading) {
        uv_idle_stop(&n->awake);
    }
    return reading;
}

static void start_if_known(struct node *n)
{
    char problem[NODE_PROBLEM];
    if (n->phase == NODE_STARTING && !id_is_zero(n->self.cluster) &&
        !node_start_serving(n, problem)) {
        node_fail(n, problem);
    }
}

void node_on_turn(void *ctx)
{
    struct node *n = ctx;
    if (n->phase >= NODE_CLOSING) {
        return;
    }
    struct replica_time now = node_now(n);
    if (n->phase > NODE_RUNNING) {
        node_step_stop(n, now);
    }
    node_step_tls(n, now);
    if (n->replica == NULL || n->phase >= NODE_CLOSING) {
        n->stall.turn_us = now.boot_us;
        start_if_known(n);
        return;
    }
    if (n->cancel_child) {
        n->cancel_child = false;
        snapshot_child_cancel(n->child);
    }
    bool reading = is_reading_first(n, now);
    forward_set_reading(n->forward, reading);
    if (!reading && service_has_transactions(n->service)) {
        /* They read the applied state, so they are first in a batch. */
        service_transact(n->service);
    }
    forward_run(n->forward); /* before a timer closes the batch */
    if (!reading && now.boot_us >= replica_next_us(n->replica)) {
        replica_on_timer(n->replica, now);
    }
    node_step_transfer(n, now);
    node_step_promote(n, now);
    forward_run(n->forward); /* complete earlier calls before the service answers ... */
    node_step_snapshots(n, now);
    node_run_scans(n);
    service_run(n->service);
    if (n->admin != NULL) {
        admin_socket_run(n->admin);
    }
    if (!reading) {
        node_step_tier(n, now);
    }
    (void)forward_has_answered(n->forward);
    forward_run(n->forward); /* ... and send its new calls */
    if (forward_has_answered(n->forward)) {
        service_run(n->service); /* the tier EFFICIENCY has answered already */
    }
    node_step_snapshots(n, now);
    struct replica_time sealing = node_now(n);
    if (stall_may_seal(&n->stall, sealing.boot_us)) {
        replica_flush(n->replica, sealing);
    }
    if (n->changed) {
        n->changed = false;
        node_follow_change(n);
    }
    node_maintain(n, now);
}

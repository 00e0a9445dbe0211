/* One running node: plugs the rooms together and keeps their rhythm. What it decides by itself is
 * in node_duties.c, how it begins in node_start.c. */
#include "node/node.h"

#include <stdio.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "node/node_state.h"
#include "storage/disk_posix.h"

enum {
    STALL_US = 1000000,     /* S1.5 */
    STALL_TURNS = 200,      /* reading never takes longer than so many turns */
    HAND_OVER_US = 2000000, /* the longest that each phase of a stop may take */
    DRAIN_US = 3000000,
};

#define TIMER_UNSET UINT64_MAX

/* ---- clocks ---- */

static uint64_t clock_us(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

struct replica_time node_now(const struct node *n)
{
    (void)n;
    return (struct replica_time){.boot_us = clock_us(CLOCK_BOOTTIME),
                                 .wall_ms = clock_us(CLOCK_REALTIME) / 1000};
}

static void on_timer(uv_poll_t *timer, int status, int events)
{
    (void)status;
    (void)events;
    struct node *n = timer->data;
    uint64_t times;
    ssize_t got = read(n->timer_fd, &times, sizeof(times));
    (void)got; /* that it woke the loop is all that counts: on_turn looks at the clock */
    n->timer_us = TIMER_UNSET;
}

/* libuv's own timers count milliseconds, and a batch waits 200 µs. */
static void set_timer(struct node *n, uint64_t due_us)
{
    if (due_us == n->timer_us) {
        return;
    }
    n->timer_us = due_us;
    due_us = due_us == 0 ? 1 : due_us; /* 0 would switch it off */
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

static void on_sleep(void *ctx)
{
    struct node *n = ctx;
    if (n->phase >= NODE_CLOSING) {
        return;
    }
    uint64_t due = n->housekeeping_us;
    if (n->replica != NULL) {
        due = earlier(due, replica_next_us(n->replica));
        due = earlier(due, from_ms(forward_next_ms(n->forward)));
        due = earlier(due, from_ms(service_next_ms(n->service)));
    }
    set_timer(n, due);
}

/* ---- turns ---- */

static void awake(uv_idle_t *handle)
{
    (void)handle; /* while it is active the loop does not sleep */
}

/* S1.5: after a stall, what came meanwhile is read before a batch may be sealed: keep-alives that
 * lie in our sockets must not be late because we were. */
static bool is_reading_first(struct node *n, struct replica_time now)
{
    if (!n->stalled && now.boot_us - n->turn_us > STALL_US) {
        n->stalled = true;
        n->stalled_turns = 0;
        uv_idle_start(&n->awake, awake);
        journal_note(n->options.journal, WARN, NODE, "stalled",
                     JOURNAL_NUMBER("ms", (now.boot_us - n->turn_us) / 1000));
    } else if (n->stalled &&
               (n->net.bytes_read == n->stalled_bytes || n->stalled_turns++ == STALL_TURNS)) {
        n->stalled = false;
        uv_idle_stop(&n->awake);
    }
    n->stalled_bytes = n->net.bytes_read;
    n->turn_us = now.boot_us;
    return n->stalled;
}

static bool start_serving(struct node *n, char problem[NODE_PROBLEM]);
static void abandon(struct node *n);
static void step_stop(struct node *n, struct replica_time now);

/* A node that joins begins when it has heard of its cluster. */
static void start_if_known(struct node *n)
{
    char problem[NODE_PROBLEM];
    if (n->phase == NODE_STARTING && !id_is_zero(n->self.cluster) && !start_serving(n, problem)) {
        node_fail(n, problem);
    }
}

static void on_turn(void *ctx)
{
    struct node *n = ctx;
    if (n->phase >= NODE_CLOSING) {
        return;
    }
    struct replica_time now = node_now(n);
    if (n->phase > NODE_RUNNING) {
        step_stop(n, now);
    }
    if (n->replica == NULL || n->phase >= NODE_CLOSING) {
        n->turn_us = now.boot_us;
        start_if_known(n);
        return;
    }
    if (n->cancel_child) {
        n->cancel_child = false;
        snapshot_child_cancel(n->child);
    }
    bool reading = is_reading_first(n, now);
    if (!reading && now.boot_us >= replica_next_us(n->replica)) {
        replica_on_timer(n->replica, now);
    }
    service_run(n->service);
    forward_run(n->forward);
    if (!reading) {
        replica_flush(n->replica, node_now(n));
    }
    if (n->changed) {
        n->changed = false;
        node_follow_change(n);
    }
    node_keep_house(n, now);
}

/* ---- from the log's thread, the snapshot child and the fetch ---- */

void node_fail(struct node *n, const char *text)
{
    n->options.on_failed(n->options.ctx, text);
}

void node_set_term(struct node *n, uint64_t term)
{
    if (n->term != term) {
        n->term = term;
        n->options.journal->set_term(n->options.journal->ctx, term);
    }
}

static void on_written(void *ctx, uint64_t last)
{
    struct node *n = ctx;
    if (n->replica != NULL) {
        replica_written(n->replica, last, node_now(n));
    }
}

static void on_full(void *ctx, bool full, const char *text)
{
    struct node *n = ctx;
    if (full) {
        journal_note(n->options.journal, ERROR, DISK, "disk_full", JOURNAL_TEXT("reason", text));
    } else {
        journal_note(n->options.journal, INFO, DISK, "disk_has_room",
                     JOURNAL_TEXT("data", n->options.data));
    }
    n->disk_full = full;
    forward_set_read_only(n->forward, full);
}

static void on_disk_failed(void *ctx, const char *text)
{
    node_fail(ctx, text);
}

static void on_snapshot_taken(void *ctx, uint64_t index)
{
    struct node *n = ctx;
    replica_snapshot_taken(n->replica, index, node_now(n));
}

static void on_snapshot_failed(void *ctx)
{
    struct node *n = ctx;
    replica_snapshot_failed(n->replica, node_now(n));
}

static void on_fetched(void *ctx, struct core *core)
{
    struct node *n = ctx;
    replica_snapshot_installed(n->replica, core, node_now(n));
    n->drop_before = replica_log_start(n->replica);
    service_state_replaced(n->service);
}

/* ---- from the peers ---- */

static bool on_message(void *ctx, uint64_t peer, struct slice message)
{
    struct node *n = ctx;
    return n->replica == NULL || replica_receive(n->replica, peer, message, node_now(n));
}

static bool on_request(void *ctx, uint64_t peer, uint64_t link, uint64_t number, uint8_t kind,
                       struct slice body)
{
    struct node *n = ctx;
    return n->replica != NULL && forward_on_request(n->forward, peer, link, number, kind, body);
}

static bool on_answer(void *ctx, uint64_t peer, uint64_t number, uint8_t status, struct slice body)
{
    struct node *n = ctx;
    return n->replica != NULL && forward_on_answer(n->forward, peer, number, status, body);
}

static void on_up(void *ctx, uint64_t peer)
{
    (void)peer;
    struct node *n = ctx;
    if (n->forward != NULL) {
        forward_on_change(n->forward);
    }
}

static void on_down(void *ctx, uint64_t peer)
{
    struct node *n = ctx;
    if (n->forward != NULL && n->phase < NODE_CLOSING) {
        forward_on_down(n->forward, peer);
    }
}

static void on_snapshot_link(void *ctx, struct peer_link *link)
{
    struct node *n = ctx;
    snapshot_send(&n->send, link);
}

/* ---- beginning ---- */

static bool open_timer(struct node *n, char problem[NODE_PROBLEM])
{
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

static struct replica_time now_of(void *ctx)
{
    return node_now(ctx);
}

static void open_disk_users(struct node *n)
{
    const struct node_options *o = &n->options;
    struct logger_options logger = {.loop = o->loop,
                                    .store = &n->store,
                                    .memory = o->memory,
                                    .ctx = n,
                                    .on_written = on_written,
                                    .on_full = on_full,
                                    .on_failed = on_disk_failed};
    n->logger = logger_new(&logger);
    struct snapshot_child_options child = {.loop = o->loop,
                                           .store = &n->store,
                                           .logger = n->logger,
                                           .memory = o->memory,
                                           .journal = o->journal,
                                           .ctx = n,
                                           .on_taken = on_snapshot_taken,
                                           .on_failed = on_snapshot_failed};
    n->child = snapshot_child_new(&child);
    n->send = (struct snapshot_send_options){
        .memory = o->memory, .journal = o->journal, .store = &n->store, .logger = n->logger};
    struct forward_options forward = {.memory = o->memory,
                                      .journal = o->journal,
                                      .node = o->id,
                                      .give_up_ms = o->request_ms,
                                      .ctx = n,
                                      .now = now_of};
    n->forward = forward_new(&forward);
}

static bool open_peers(struct node *n, char problem[NODE_PROBLEM])
{
    struct peers_options options = {.net = &n->net,
                                    .journal = n->options.journal,
                                    .self = &n->self,
                                    .listen = n->options.peer,
                                    .ctx = n,
                                    .on_message = on_message,
                                    .on_request = on_request,
                                    .on_answer = on_answer,
                                    .on_up = on_up,
                                    .on_down = on_down,
                                    .on_snapshot_link = on_snapshot_link,
                                    .know_store = node_know_store,
                                    .on_cluster = node_on_cluster};
    n->peers = peers_new(&options, problem, NODE_PROBLEM);
    if (n->peers == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < n->options.member_count; i++) {
        const struct node_member *member = &n->options.members[i];
        if (member->id != n->options.id) {
            peers_set(n->peers, member->id, &member->address);
            n->absences[n->absence_count++] = (struct node_absence){member->id, false};
        }
    }
    return true;
}

static void on_first_done(struct gateway_call *call, enum hf_error error,
                          const struct result *result)
{
    (void)result;
    struct node *n = call->owner;
    hf_assert(error == HF_OK); /* it is never given up */
    n->first_done = true;
}

/* Whoever waited through an earlier life of this node lost the connection: they are detached (S7.3)
 * before anybody new can wait through it. */
static void detach_earlier_life(struct node *n)
{
    struct command gone;
    command_init(&gone, COMMAND_NODE_GONE);
    gone.node_gone.node = (uint32_t)n->options.id;
    n->first = (struct gateway_call){.done = on_first_done, .owner = n};
    forward_submit_first(n->forward, &gone, &n->first);
}

/* The cluster is known: everything that stands on the replicated state. */
static bool start_serving(struct node *n, char problem[NODE_PROBLEM])
{
    const struct node_options *o = &n->options;
    if (!node_start_replica(n, problem)) {
        return false;
    }
    forward_connect(n->forward, n->replica, n->peers);
    struct snapshot_fetch_options fetch = {
        .net = &n->net,
        .journal = o->journal,
        .self = &n->self,
        .peers = n->peers,
        .store = &n->store,
        .logger = n->logger,
        .core = {.memory = o->memory, .hash_key = n->self.cluster.high ^ n->self.cluster.low},
        .ctx = n,
        .on_fetched = on_fetched,
        .on_failed = on_disk_failed};
    n->fetch = snapshot_fetch_new(&fetch);
    struct service_options service = {
        .memory = o->memory, .gateway = node_gateway(n), .ttl_min_ms = o->ttl_min_ms};
    n->service = service_new(&service);
    struct door_options door = {.net = &n->net,
                                .service = n->service,
                                .journal = o->journal,
                                .listen = o->client,
                                .max_connections = o->max_clients};
    n->door = door_new(&door, problem, NODE_PROBLEM);
    if (n->door == NULL) {
        return false;
    }
    n->phase = NODE_RUNNING;
    n->changed = true;
    detach_earlier_life(n);
    return true;
}

static void name_addresses(struct node *n)
{
    const struct node_options *o = &n->options;
    struct address known = o->peer;
    for (uint32_t i = 0; i < o->member_count; i++) {
        if (o->members[i].id == o->id) {
            known = o->members[i].address;
        }
    }
    address_format(&known, n->address_text, sizeof(n->address_text));
    snprintf(n->self.cluster_name, sizeof(n->self.cluster_name), "%s", o->cluster_name);
    if (o->client_advertised[0] != '\0') {
        snprintf(n->self.client_address, sizeof(n->self.client_address), "%s",
                 o->client_advertised);
    } else {
        address_format(&o->client, n->self.client_address, sizeof(n->self.client_address));
    }
}

struct node *node_new(const struct node_options *options, char problem[NODE_PROBLEM])
{
    struct node *n = memory_alloc(options->memory, sizeof(*n));
    memset(n, 0, sizeof(*n));
    n->options = *options;
    n->timer_fd = -1;
    n->timer_us = TIMER_UNSET;
    n->started_us = n->turn_us = node_now(n).boot_us;
    name_addresses(n);
    if (!node_open_store(n, problem) || !open_timer(n, problem)) {
        node_free(n);
        return NULL;
    }
    net_init(&n->net, options->loop, options->memory);
    n->net.on_turn = on_turn;
    n->net.on_sleep = on_sleep;
    n->net.turn_ctx = n;
    uv_idle_init(options->loop, &n->awake);
    open_disk_users(n);
    n->net_open = true;
    if (!open_peers(n, problem) || (!id_is_zero(n->self.cluster) && !start_serving(n, problem))) {
        abandon(n);
        return NULL;
    }
    return n;
}

/* ---- the end ---- */

static void enter(struct node *n, enum node_phase phase, uint64_t now_us)
{
    n->phase = phase;
    n->phase_us = now_us;
}

void node_stop(struct node *n)
{
    if (n->phase > NODE_RUNNING) {
        return;
    }
    journal_note(n->options.journal, INFO, NODE, "stopping",
                 JOURNAL_NUMBER("outstanding", forward_outstanding(n->forward)));
    enter(n, n->replica != NULL ? NODE_HANDING_OVER : NODE_DRAINING, node_now(n).boot_us);
}

static bool is_anybody_reachable(const struct node *n)
{
    for (uint32_t i = 0; i < n->absence_count; i++) {
        struct peer_view view;
        if (peers_view(n->peers, n->absences[i].id, &view) && view.reachable) {
            return true;
        }
    }
    return false;
}

/* The lead goes to whoever is best; with a batch in flight that has to wait a moment (S12.7). */
static bool is_handed_over(struct node *n, struct replica_time now)
{
    struct replica_status status;
    const char *reason;
    replica_status(n->replica, now, &status);
    if (!status.is_leader || !is_anybody_reachable(n)) {
        return true;
    }
    enum hf_error error = replica_transfer(n->replica, 0, now, &reason);
    return error != HF_OK && error != HF_BUSY;
}

static void on_closed(uv_handle_t *handle)
{
    struct node *n = handle->data;
    close(n->timer_fd);
    n->timer_fd = -1;
    n->phase = NODE_STOPPED;
    n->options.on_stopped(n->options.ctx);
}

static void close_all(struct node *n)
{
    net_flush(&n->net);
    net_abort_all(&n->net, "the node stops");
    if (n->peers != NULL) {
        peers_close(n->peers);
    }
    if (n->fetch != NULL) {
        snapshot_fetch_stop(n->fetch);
    }
    snapshot_child_stop(n->child);
    logger_stop(n->logger);
    uv_close((uv_handle_t *)&n->awake, NULL);
    n->timer.data = n;
    uv_close((uv_handle_t *)&n->timer, on_closed);
}

static void step_stop(struct node *n, struct replica_time now)
{
    uint64_t since_us = now.boot_us - n->phase_us;
    if (n->phase == NODE_HANDING_OVER && (is_handed_over(n, now) || since_us > HAND_OVER_US)) {
        service_drain(n->service);
        door_shut(n->door);
        enter(n, NODE_DRAINING, now.boot_us);
    } else if (n->phase == NODE_DRAINING &&
               (n->door == NULL || door_clients(n->door) == 0 || since_us > DRAIN_US)) {
        enter(n, NODE_CLOSING, now.boot_us);
        close_all(n);
    }
}

static void ignore_stopped(void *ctx)
{
    (void)ctx;
}

/* It could not begin: nothing stays open. Nobody else uses the loop yet. */
static void abandon(struct node *n)
{
    n->phase = NODE_CLOSING;
    n->options.on_stopped = ignore_stopped;
    if (n->door != NULL) {
        door_shut(n->door);
    }
    close_all(n);
    uv_run(n->options.loop, UV_RUN_DEFAULT);
    node_free(n);
}

/* Everything was closed, and the loop has run since. */
void node_free(struct node *n)
{
    if (n == NULL) {
        return;
    }
    const struct memory *memory = n->options.memory;
    if (n->net_open) {
        net_close(&n->net);
        uv_run(n->options.loop, UV_RUN_DEFAULT);
        replica_free(n->replica);
        forward_free(n->forward);
        service_free(n->service);
        door_free(n->door);
        snapshot_fetch_free(n->fetch);
        snapshot_child_free(n->child);
        peers_free(n->peers);
        logger_free(n->logger);
    }
    if (n->store_open) {
        store_close(&n->store);
    }
    if (n->disk != NULL) {
        disk_posix_free(n->disk);
    }
    memory_free(memory, n, sizeof(*n));
}

uint16_t node_client_port(const struct node *n)
{
    return n->door != NULL ? door_port(n->door) : 0;
}

uint16_t node_peer_port(const struct node *n)
{
    return peers_port(n->peers);
}

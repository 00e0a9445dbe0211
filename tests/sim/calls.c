/* Requests on their way, see calls.h. */
#include "calls.h"

#include "core/view.h"
#include "tier.h"

enum { CALLS = 1 << 14, NO_COOKIE = 1, LATER_TRIES = 40 };

/* Who waits for what was submitted; a cookie is a place in this ring. */
static struct sim_call {
    uint64_t serial;
    int client;
    int lane;
    uint64_t attempt;
    int entry;
    uint32_t entry_life;
    bool is_read;
    bool is_fence;
    uint64_t proposal; /* its number in the tier, 0: none */
    enum tier tier;
    uint32_t name;
    uint64_t token;
    uint64_t committed; /* when it was sent */
} calls[CALLS];
static uint64_t next_serial = NO_COOKIE + 1;

static uint64_t step_us(void)
{
    uint64_t us = 30 + chance_below(400);
    return world.faults && one_in(world.weather.slow_net) ? us + chance_below(100000) : us;
}

/* ---- back ---- */

static void arrive(struct happening *h)
{
    client_hears(h->data);
}

static void answer_client(const struct sim_answer *a, int entry, uint32_t entry_life)
{
    const struct sim_node *n = &world.nodes[entry];
    if (!n->up || n->life != entry_life || (world.faults && one_in(world.weather.loss))) {
        return;
    }
    struct happening *h = happen(step_us(), arrive, 0);
    h->data = malloc(sizeof(*a));
    memcpy(h->data, a, sizeof(*a));
}

/* From the node that knows it, by way of the one that the client is connected to. */
static void answer_by(const struct sim_node *n, const struct sim_call *c, struct sim_answer *a)
{
    a->client = c->client;
    a->lane = c->lane;
    a->attempt = c->attempt;
    if (n->id == c->entry || network_reaches(n->id, c->entry)) {
        answer_client(a, c->entry, c->entry_life);
    }
}

static struct sim_call *call_of(const void *cookie)
{
    uint64_t serial = (uint64_t)(uintptr_t)cookie;
    struct sim_call *c = &calls[serial % CALLS];
    return serial != NO_COOKIE && c->serial == serial ? c : NULL;
}

static void fill(const struct sim_node *n, const struct result *r, struct sim_answer *a)
{
    a->error = r->error;
    a->outcome = r->outcome;
    a->reason = r->reason;
    a->ended = r->ended;
    a->replayed = r->replayed;
    a->accepted = r->accepted;
    a->alive = r->alive != NULL && r->alive[0] == HF_OK;
    a->token = r->token;
    a->lease = r->lease;
    a->attachment = r->attachment;
    a->epoch = core_epoch(replica_core(n->replica));
}

void *calls_nobody(void)
{
    return (void *)(uintptr_t)NO_COOKIE;
}

void clients_tier_result(struct sim_node *n, void *cookie, const struct result *r)
{
    const struct sim_call *c = call_of(cookie);
    struct sim_answer a = {.kind = ANSWER_RESULT, .by_tier = true};
    if (c != NULL && !n->failed) {
        fill(n, r, &a);
        answer_by(n, c, &a);
    }
}

void clients_result(struct sim_node *n, void *cookie, enum replica_outcome outcome,
                    const struct result *r)
{
    struct sim_call *c = call_of(cookie);
    if (c != NULL && c->proposal != 0) {
        memory_tier_on_settled(n->tier, c->proposal);
        c->proposal = 0;
    }
    if (c == NULL || n->failed) {
        return;
    }
    struct sim_answer a = {.kind = outcome == REPLICA_DONE       ? ANSWER_RESULT
                                   : outcome == REPLICA_NOT_DONE ? ANSWER_UNAVAILABLE
                                                                 : ANSWER_UNKNOWN};
    if (outcome == REPLICA_DONE) {
        fill(n, r, &a);
        if (c->is_fence && r->error == HF_OK && !r->replayed) {
            const struct core *core = replica_core(n->replica);
            if (r->accepted && c->token >> 10 > core_counter(core)) {
                violation("the fence of n%u accepted token %llu, which was never issued (S11)",
                          c->name, ull(c->token));
            }
            truth_fence(c->name, core_index(core), c->token, r->accepted);
        }
    }
    world.counts.unknown += outcome == REPLICA_UNKNOWN;
    answer_by(n, c, &a);
}

/* S9.1: the state shows now everything that was done before. */
void clients_barrier(struct sim_node *n, void *cookie, bool reached)
{
    struct sim_call *c = call_of(cookie);
    if (c == NULL || n->failed) {
        return;
    }
    struct sim_answer a = {.kind = reached ? ANSWER_READ : ANSWER_UNAVAILABLE};
    if (reached) {
        char name[16];
        struct replica_status s;
        replica_status(n->replica, node_time(n), &s);
        if (s.applied_index < c->committed) {
            violation(
                "node %d answers a read at %llu, which was sent when %llu was committed (S9.1)",
                n->id, ull(s.applied_index), ull(c->committed));
        }
        struct lock_view view;
        snprintf(name, sizeof(name), "n%u", c->name);
        if (view_lock(replica_core(n->replica), 0, slice_of(name), &view) && view.has_holder) {
            a.token = view.first.token;
        }
    }
    answer_by(n, c, &a);
}

/* A wait is over: the node that the waiter is attached through sees it and tells (S7.3). */
void clients_event(const struct sim_node *n, const struct event *e)
{
    uint64_t client = e->lease.high;
    uint32_t life = 0;
    if ((e->type != EVENT_GRANTED && e->type != EVENT_WAIT_ENDED) || e->part != 1 || client == 0 ||
        client > CLIENTS || e->attachment == 0 || e->node != (uint32_t)n->id || n->failed ||
        client_entry((int)client, &life) != n->id || life != n->life) {
        return;
    }
    struct sim_answer a = {
        .kind = e->type == EVENT_GRANTED ? ANSWER_GRANTED : ANSWER_WAIT_ENDED,
        .client = (int)client,
        .lease = e->lease,
        .token = e->token,
        .reason = e->reason,
    };
    answer_client(&a, n->id, n->life);
}

/* Likewise in the tier EFFICIENCY: the leader tells that node. */
void clients_tier_event(const struct sim_node *leader, const struct event *e)
{
    uint64_t client = e->lease.high;
    uint32_t life = 0;
    if ((e->type != EVENT_GRANTED && e->type != EVENT_WAIT_ENDED) || e->part != 1 || client == 0 ||
        client > CLIENTS || e->attachment == 0 || leader->failed) {
        return;
    }
    int entry = client_entry((int)client, &life);
    if (e->node != (uint32_t)entry ||
        (entry != leader->id && !network_reaches(leader->id, entry))) {
        return;
    }
    struct sim_answer a = {
        .kind = e->type == EVENT_GRANTED ? ANSWER_GRANTED : ANSWER_WAIT_ENDED,
        .client = (int)client,
        .lease = e->lease,
        .token = e->token,
        .reason = e->reason,
        .by_tier = true,
        .epoch = core_epoch(replica_core(leader->replica)),
    };
    answer_client(&a, entry, life);
}

void clients_node_died(const struct sim_node *n)
{
    for (int i = 1; i <= CLIENTS; i++) {
        uint32_t life = 0;
        if (client_entry(i, &life) == n->id && life == n->life && !one_in(4)) {
            struct sim_answer a = {.kind = ANSWER_BROKEN, .client = i};
            struct happening *h = happen(step_us(), arrive, 0);
            h->data = malloc(sizeof(a));
            memcpy(h->data, &a, sizeof(a));
        }
    }
}

/* ---- there ---- */

struct sim_request {
    struct sim_call call;
    int hops;
    int later;  /* how often it was put off */
    size_t len; /* of the encoded command */
    uint8_t bytes[];
};

/* As src/node/forward/forward.c does it. HF_BUSY: nothing was done, later. */
static enum hf_error take(struct sim_node *n, struct sim_call *c, const struct command *command,
                          void *cookie)
{
    enum tier_taken taken = tier_submit(n, c->tier, command, cookie);
    if (taken != TIER_PROPOSE) {
        return taken == TIER_TAKEN ? HF_OK : HF_BUSY;
    }
    enum hf_error error = replica_submit(n->replica, command, cookie, node_time(n));
    if (error == HF_OK && memory_tier_is_counted(command)) {
        c->proposal = memory_tier_on_proposed(n->tier, command);
    }
    return error == HF_BUSY ? HF_UNAVAILABLE : error;
}

/* False: it is to be submitted once more, later. */
static bool submit(struct sim_node *n, const struct sim_request *r)
{
    struct command command;
    uint64_t serial = next_serial++;
    struct sim_call *c = &calls[serial % CALLS];
    *c = r->call;
    c->serial = serial;
    world.counts.commands++;
    enum hf_error error;
    if (c->is_read) {
        error =
            replica_barrier(n->replica, (void *)(uintptr_t)serial, c->entry != n->id, node_time(n));
    } else {
        if (command_decode(slice_make(r->bytes, r->len), &command) != HF_OK) {
            violation("a command cannot be decoded");
        }
        if (command.type == COMMAND_ACQUIRE) {
            command.acquire.node = (uint32_t)c->entry;
        }
        error = take(n, c, &command, (void *)(uintptr_t)serial);
    }
    if (error == HF_BUSY && r->later < LATER_TRIES) {
        world.counts.tier_later++;
        return false;
    }
    if (error != HF_OK) {
        struct sim_answer a = {.kind = ANSWER_UNAVAILABLE};
        answer_by(n, c, &a);
        return true;
    }
    replica_flush(n->replica, node_time(n));
    node_after(n);
    return true;
}

static void at_node(struct happening *h)
{
    struct sim_node *n = &world.nodes[h->node];
    struct sim_request *r = h->data;
    struct replica_status s;
    if (!n->up || n->failed) {
        if (r->hops == 0) { /* nobody listens there */
            struct sim_answer a = {.kind = ANSWER_BROKEN, .client = r->call.client};
            client_hears(&a);
        }
        return;
    }
    if (r->hops == 0) {
        r->call.entry_life = n->life;
    }
    replica_status(n->replica, node_time(n), &s);
    if (s.serving) {
        if (!submit(n, r)) {
            r->later++;
            struct happening *again = happen(500 + chance_below(20000), at_node, n->id);
            again->data = h->data;
            h->data = NULL;
        }
        return;
    }
    if (r->hops > 0 || s.leader == 0 || s.leader == (uint64_t)n->id || s.leader > MAX_NODES ||
        !network_reaches(n->id, (int)s.leader)) {
        struct sim_answer a = {.kind = ANSWER_UNAVAILABLE};
        answer_by(n, &r->call, &a);
        return;
    }
    r->hops++;
    struct happening *next = happen(step_us(), at_node, (int)s.leader);
    next->data = h->data;
    h->data = NULL;
}

static void send_it(struct sim_request *r, int node)
{
    r->call.entry = node;
    happen(step_us(), at_node, node)->data = r;
}

void call_send(int client, int lane, uint64_t attempt, int node, enum tier tier,
               const struct command *command, uint32_t name)
{
    uint8_t bytes[1024];
    size_t len = command_encode(command, CORE_VERSION, bytes, sizeof(bytes));
    if (len == 0) {
        violation("a command cannot be encoded");
    }
    struct sim_request *r = calloc(1, sizeof(*r) + len);
    r->call = (struct sim_call){.client = client, .lane = lane, .attempt = attempt, .tier = tier};
    if (command->type == COMMAND_FENCE_CHECK) {
        r->call.is_fence = true;
        r->call.token = command->fence_check.token;
        r->call.name = name;
    }
    r->len = len;
    memcpy(r->bytes, bytes, len);
    send_it(r, node);
}

void call_read(int client, int lane, uint64_t attempt, int node, uint32_t name)
{
    struct sim_request *r = calloc(1, sizeof(*r));
    r->call = (struct sim_call){.client = client,
                                .lane = lane,
                                .attempt = attempt,
                                .is_read = true,
                                .name = name,
                                .committed = check_committed()};
    send_it(r, node);
}

void calls_end(void)
{
    memset(calls, 0, sizeof(calls));
    next_serial = NO_COOKIE + 1;
}

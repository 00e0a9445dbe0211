/* Clients: they acquire, hold, renew, release; some vanish, some wake up late and write with an old
 * token to a fenced resource; all retry under the same lease id when they hear nothing. */
#include "world.h"

enum state { IDLE, ASKING, WAITING, HOLDING, RELEASING };

struct client {
    int id;
    enum state state;
    uint64_t attempt;  /* raised by each step, so that late timers are known */
    uint32_t resource; /* the name, as a number */
    char name[16];
    struct id lease;
    uint64_t asked_us;
    uint64_t ttl_ms;
    uint64_t token;
    bool told;              /* the grant was acknowledged to us */
    struct command command; /* the last one, for retries */
    char owner[16];
};

static struct client clients[CLIENTS + 1];
static uint64_t done;
/* A resource for each name that checks tokens (S11). */
static uint64_t high_water[NAMES];

static void next_step(struct client *c, uint64_t in_us);

static void write_to_resource(struct client *c)
{
    uint64_t *mark = &high_water[c->resource];
    if (c->token < *mark) {
        world.counts.fence_refusals++;
        return;
    }
    *mark = c->token;
}

static void submit(struct client *c, uint64_t otherwise_us)
{
    struct node *n = leader_now();
    if (n == NULL || one_in(20)) {
        n = &world.nodes[1 + chance_below(MAX_NODES)];
    }
    world.counts.commands++;
    if (!n->up || replica_submit(n->replica, &c->command, c, node_time(n)) != HF_OK) {
        world.counts.unavailable++;
        next_step(c, otherwise_us);
        return;
    }
    replica_flush(n->replica, node_time(n));
    node_after(n);
    next_step(c, 1500000); /* or the answer comes first */
}

static void ask(struct client *c)
{
    struct command *cmd = &c->command;
    command_init(cmd, COMMAND_ACQUIRE);
    c->state = ASKING;
    c->told = false;
    c->token = 0;
    c->resource = (uint32_t)chance_below(NAMES);
    snprintf(c->name, sizeof(c->name), "n%u", c->resource);
    c->lease = (struct id){(uint64_t)c->id, chance() | 1};
    c->ttl_ms = 300 + chance_below(2500);
    c->asked_us = world.now_us;
    cmd->acquire.lease = c->lease;
    cmd->acquire.node = 1 + (uint32_t)chance_below(5);
    cmd->acquire.client = slice_of("client");
    cmd->acquire.owner = slice_of(c->owner);
    cmd->acquire.names.count = 1;
    cmd->acquire.names.at[0] = slice_of(c->name);
    cmd->acquire.ttl_ms = (uint32_t)c->ttl_ms;
    cmd->acquire.wait_ms = one_in(2) ? 0 : chance_below(1500);
    cmd->acquire.mode = one_in(4) ? MODE_SHARED : MODE_EXCLUSIVE;
    submit(c, 20000 + chance_below(100000));
}

static void let_go(struct client *c)
{
    struct command *cmd = &c->command;
    command_init(cmd, COMMAND_RELEASE);
    c->state = RELEASING;
    cmd->release.name = slice_of(c->name);
    cmd->release.client = slice_of("client");
    cmd->release.token = c->token;
    submit(c, 20000 + chance_below(100000));
}

static void idle(struct client *c, uint64_t in_us)
{
    c->state = IDLE;
    next_step(c, in_us);
}

static void step(struct happening *h)
{
    struct client *c = &clients[h->a];
    if (h->b != c->attempt) {
        return;
    }
    switch (c->state) {
    case IDLE:
        ask(c);
        break;
    case ASKING:
        submit(c, 50000); /* the same command, the same lease id (S8.3) */
        break;
    case WAITING:
        idle(c, 1000); /* heard nothing for long: gives up */
        break;
    case HOLDING:
        write_to_resource(c);
        if (one_in(8)) {
            idle(c, 1000); /* vanishes: the lease has to expire */
        } else {
            let_go(c);
        }
        break;
    case RELEASING:
        submit(c, 50000);
        break;
    }
}

static void next_step(struct client *c, uint64_t in_us)
{
    struct happening *h = happen(in_us, step, 0);
    h->a = (uint64_t)c->id;
    h->b = ++c->attempt;
}

static void hold(struct client *c, uint64_t token)
{
    if (c->told) {
        return;
    }
    c->told = true;
    c->token = token;
    c->state = HOLDING;
    world.counts.granted++;
    uint64_t hold_us = one_in(10) ? c->ttl_ms * 1500 : chance_below(40000); /* some far too long */
    next_step(c, 1000 + hold_us);
}

void clients_result(const struct node *n, void *cookie, enum replica_outcome outcome,
                    const struct command *command, const struct result *result)
{
    (void)n;
    struct client *c = cookie;
    if (outcome == REPLICA_NOT_DONE) {
        world.counts.not_done++;
        return; /* it retries by its timer */
    }
    if (outcome == REPLICA_UNKNOWN) {
        world.counts.unknown++;
        return;
    }
    done++;
    bool current = command->type == c->command.type &&
                   (command->type == COMMAND_ACQUIRE
                        ? id_equal(command->acquire.lease, c->command.acquire.lease)
                        : command->release.token == c->token);
    if (!current) {
        return; /* the answer to something it gave up */
    }
    if (result->error != HF_OK) {
        violation("client %d got the error %s", c->id, hf_error_code(result->error));
    }
    if (c->state == ASKING) {
        if (result->outcome == OUTCOME_GRANTED && result->ended == ENDED_NOT) {
            hold(c, result->token);
        } else if (result->outcome == OUTCOME_QUEUED) {
            c->state = WAITING;
            next_step(c, 4000000);
        } else {
            world.counts.refused++;
            idle(c, 1000 + chance_below(30000));
        }
    } else if (c->state == RELEASING) {
        idle(c, 1000 + chance_below(30000));
    }
}

/* On first sight of an event anywhere. */
void clients_event(const struct node *n, const struct event *e)
{
    (void)n;
    uint64_t id = e->lease.high;
    if (id == 0 || id > CLIENTS || (e->type != EVENT_GRANTED && e->type != EVENT_WAIT_ENDED)) {
        return;
    }
    struct client *c = &clients[id];
    if (!id_equal(c->lease, e->lease)) {
        return;
    }
    if (e->type == EVENT_GRANTED) {
        /* With a wait the life of the lock begins at the grant, which the client learns now. */
        check_granted(e->token, e->attachment == 0 ? c->asked_us : world.now_us - 1000000,
                      e->attachment == 0 ? c->ttl_ms : 0);
        if (c->state == WAITING) {
            hold(c, e->token);
        }
    } else if (c->state == WAITING) {
        world.counts.refused++;
        idle(c, 1000);
    }
}

uint64_t clients_done(void)
{
    return done;
}

void clients_begin(void)
{
    done = 0;
    memset(clients, 0, sizeof(clients));
    memset(high_water, 0, sizeof(high_water));
    for (int i = 1; i <= CLIENTS; i++) {
        clients[i].id = i;
        snprintf(clients[i].owner, sizeof(clients[i].owner), "o%d", i);
        next_step(&clients[i], 400000 + chance_below(50000));
    }
}

/* Clients: they acquire, wait, hold, renew, keep their sessions alive, release, read, check the
 * fence; and they misbehave: repeat a request under the same id, vanish, sleep past their lease and use
 * the old token. What each saw goes into the history, which is checked as a whole. */
#include "client.h"
#include "keys.h"
#include "principals.h"

enum { CHECK_STEPS = 3000000 };

struct sim_client clients[CLIENTS + 1];
bool clients_stopping;

static struct lock_history {
    struct history_op *ops;
    size_t count;
    size_t capacity;
} history[NAMES];

void client_record_one(uint32_t name, struct history_op op)
{
    struct lock_history *r = &history[name];
    if (r->count == r->capacity) {
        r->capacity = r->capacity == 0 ? 256 : r->capacity * 2;
        r->ops = realloc(r->ops, r->capacity * sizeof(*r->ops));
    }
    r->ops[r->count++] = op;
}
void client_record(const struct sim_client *c, struct history_op op)
{
    op.client = c->id;
    if (c->hold.tier == TIER_EFFICIENCY) {
        return; /* it is checked where it is done, see tier_truth.c */
    }
    for (uint32_t i = 0; i < c->hold.count; i++) {
        client_record_one(c->hold.names[i], op);
    }
}

/* ---- sending ---- */

void client_choose_entry(struct sim_client *c)
{
    for (int i = 0; i < 10; i++) {
        c->entry = 1 + (int)chance_below(MAX_NODES);
        if (world.nodes[c->entry].up && !world.nodes[c->entry].lost) {
            break;
        }
    }
    c->entry_life = world.nodes[c->entry].life;
}

int client_entry(int client, uint32_t *life)
{
    *life = clients[client].entry_life;
    return clients[client].entry;
}

void client_submit(struct sim_client *c)
{
    c->tries++;
    world.counts.retries += c->tries > 1;
    client_trace(c);
    client_next_step(c, PATIENCE_US);
    if (c->doing == READING) {
        call_read(c->id, MAIN, c->attempt[MAIN], c->entry, c->name);
    } else {
        call_send(c->id, MAIN, c->attempt[MAIN], c->entry, client_tier(c), &c->command, c->name);
    }
}

void client_begin(struct sim_client *c, enum doing doing, enum command_type type)
{
    c->doing = doing;
    c->call_us = world.now_us;
    c->tries = 0;
    command_init(&c->command, type);
    bool once = c->in_session || c->id % 2 == 0;
    if (c->in_session && (type == COMMAND_ACQUIRE || type == COMMAND_RELEASE)) {
        c->command.session = c->session;
        if (c->id % 4 == 0) {
            c->command.seq = ++c->seq;
            c->command.acked_through = c->acked;
            once = false;
        }
    }
    if ((once && type == COMMAND_ACQUIRE) || type == COMMAND_FORCE_UNLOCK ||
        type == COMMAND_REVOKE) { /* the others rely on their lease id (S8.3) */
        snprintf(c->request, sizeof(c->request), "%d-%u", c->id, ++c->number);
        c->command.request_id = slice_of(c->request);
    }
}

void client_idle(struct sim_client *c, uint64_t in_us)
{
    c->doing = IDLE;
    if (c->command.seq != 0) {
        c->acked = c->seq;
    }
    client_next_step(c, in_us);
}

uint64_t client_think_us(void)
{
    return 200 + chance_below(world.weather.think_us * (one_in(10) ? 10 : 1));
}

/* ---- what next ---- */

static void look(struct sim_client *c)
{
    client_begin(c, READING, COMMAND_TICK);
    c->name = (uint32_t)chance_below(one_in(2) ? HOT_NAMES : CHECKED_NAMES);
    client_submit(c);
}

static void begin_something(struct sim_client *c)
{
    if (world.now_us < world.calm_until_us) {
        client_next_step(c, 50000 + chance_below(200000));
    } else if (c->id == OPERATOR && one_in(4)) {
        client_meddle(c);
    } else if (c->in_session && (id_is_zero(c->session) || c->vanished)) {
        client_open_session(c);
    } else if (one_in(6)) {
        look(c);
    } else if (one_in(8)) {
        client_change(c);
    } else if (one_in(8)) {
        client_check_fence(c);
    } else {
        client_acquire(c);
    }
}

/* Nothing was heard: once more, elsewhere; or it is given up. */
static void again(struct sim_client *c)
{
    if (c->tries < TRIES && c->doing != RENEWING) {
        client_choose_entry(c);
        client_submit(c);
        return;
    }
    switch (c->doing) {
    case REQUESTING:
        client_give_up_acquire(c);
        break;
    case RELEASING:
        client_give_up_release(c);
        break;
    case RENEWING: /* never under an old id: a new one counts from its own sending (S5.1) */
        c->doing = HOLDING;
        client_next_step(c, 1000);
        break;
    case OPENING:
    case CLOSING:
        client_session_is_gone(c);
        break;
    case MEDDLING:
        client_give_up_meddling(c);
        break;
    case CHANGING:
        client_give_up_change(c);
        break;
    default:
        client_idle(c, client_think_us());
        break;
    }
}

static void step(struct happening *h)
{
    struct sim_client *c = &clients[h->a];
    if (h->b != c->attempt[MAIN] || clients_stopping) {
        return;
    }
    if (c->doing == IDLE) {
        begin_something(c);
    } else if (c->doing == HOLDING) {
        client_while_holding(c);
    } else if (c->doing == WAITING) {
        c->doing = REQUESTING; /* requests again under the same id, and keeps its place (S7.1) */
        again(c);
    } else {
        again(c);
    }
}

void client_next_step(struct sim_client *c, uint64_t in_us)
{
    struct happening *h = happen(in_us, step, 0);
    h->a = (uint64_t)c->id;
    h->b = ++c->attempt[MAIN];
}

static void hear_result(struct sim_client *c, const struct sim_answer *a)
{
    c->done++;
    world.counts.answers++;
    switch (c->doing) {
    case REQUESTING:
        client_hear_acquire(c, a);
        break;
    case RENEWING:
        client_hear_renewal(c, a);
        break;
    case RELEASING:
        client_hear_release(c, a);
        break;
    case MEDDLING:
        client_hear_meddling(c, a);
        break;
    case CHANGING:
        client_hear_change(c, a);
        break;
    case CLOSING:
        client_session_is_gone(c);
        break;
    case OPENING:
        if (a->error != HF_OK) {
            client_session_is_gone(c);
            break;
        }
        c->alive_us = c->call_us;
        struct happening *h = happen(c->session_ttl_ms * 333, client_keep_alive, 0);
        h->a = (uint64_t)c->id;
        h->b = ++c->attempt[KEEPALIVE];
        client_idle(c, client_think_us());
        break;
    case READING:
        world.counts.reads++;
        client_record_one(c->name, (struct history_op){.kind = HISTORY_READ,
                                                       .client = c->id,
                                                       .token = a->token,
                                                       .call_us = c->call_us,
                                                       .return_us = world.now_us});
        client_idle(c, client_think_us());
        break;
    default:
        client_idle(c, client_think_us());
        break;
    }
}

void client_hears(const struct sim_answer *a)
{
    if (clients_stopping) {
        return;
    }
    if (principals_is_client(a->client)) {
        principals_hear(a);
        return;
    }
    struct sim_client *c = &clients[a->client];
    client_hear_epoch(c, a);
    if (a->kind == ANSWER_BROKEN) {
        client_choose_entry(c);
        if (c->doing != IDLE && c->doing != HOLDING) {
            client_next_step(c, 5000 + chance_below(30000));
        }
        return;
    }
    if (a->kind == ANSWER_GRANTED || a->kind == ANSWER_WAIT_ENDED) {
        if (c->doing == WAITING && id_equal(a->lease, c->lease)) {
            c->done++;
            if (a->kind == ANSWER_GRANTED) {
                client_hold(c, a, true);
            } else {
                client_not_granted(c, a->reason);
            }
        }
        return;
    }
    if (a->lane == KEEPALIVE) {
        client_hear_keepalive(c, a);
        return;
    }
    if (a->attempt != c->attempt[MAIN]) {
        return; /* the answer to something that it gave up */
    }
    if (a->kind == ANSWER_UNAVAILABLE || a->kind == ANSWER_UNKNOWN) {
        world.counts.unavailable++;
        if (one_in(2)) {
            client_choose_entry(c);
        }
        c->tries -= c->tries > 1 && a->kind == ANSWER_UNAVAILABLE && one_in(2);
        client_next_step(c, 10000 + chance_below(60000));
        return;
    }
    hear_result(c, a);
}

/* ---- all of them ---- */

uint64_t clients_least_done(void)
{
    uint64_t least = UINT64_MAX;
    for (int i = 1; i <= CLIENTS; i++) {
        least = clients[i].done < least ? clients[i].done : least;
    }
    return least;
}

void clients_begin(void)
{
    for (int i = 1; i <= CLIENTS; i++) {
        struct sim_client *c = &clients[i];
        c->id = i;
        c->rate = 1.0 + ((double)chance_below(1000) - 500.0) / 1e6;
        c->in_session = i % 5 >= 3 && i != OPERATOR;
        snprintf(c->owner, sizeof(c->owner), "o%d", i);
        client_choose_entry(c);
        client_next_step(c, 400000 + chance_below(50000));
    }
    client_changes_begin();
    principals_begin();
}

/* What is under way has no outcome. */
void clients_stop(void)
{
    for (int i = 1; i <= CLIENTS; i++) {
        struct sim_client *c = &clients[i];
        if (c->doing == REQUESTING || c->doing == WAITING) {
            client_give_up_acquire(c);
        } else if (c->doing == RELEASING) {
            client_give_up_release(c);
        } else if (c->doing == MEDDLING) {
            client_give_up_meddling(c);
        } else if (c->doing == CHANGING) {
            client_give_up_change(c);
        }
    }
    clients_stopping = true;
}

bool clients_are_stopping(void)
{
    return clients_stopping;
}

void clients_check(void)
{
    char problem[400];
    client_changes_check();
    keys_check();
    for (uint32_t i = 0; i < CHECKED_NAMES; i++) {
        world.counts.histories++;
        switch (history_check(history[i].ops, history[i].count, CHECK_STEPS, problem,
                              sizeof(problem))) {
        case HISTORY_GOOD:
            break;
        case HISTORY_BAD:
            violation("n%u: %s", i, problem);
        case HISTORY_UNDECIDED:
            world.counts.undecided++;
            break;
        }
    }
}

void clients_end(void)
{
    for (int i = 0; i < NAMES; i++) {
        free(history[i].ops);
    }
    memset(history, 0, sizeof(history));
    memset(clients, 0, sizeof(clients));
    clients_stopping = false;
    client_changes_end();
    keys_end();
    principals_end();
    calls_end();
}

/* Bursts: thousands of similar commands that push the core against its bounds on work (S2.1): more
 * to sweep than one sweep may end, more waiters to serve than one command may serve. In their
 * aftermath normal commands meet what was left over. */
#include "generator.h"

enum { ENTRY_COMMANDS = 250, SEMAPHORE = 8000 };

static void start(struct generator *g, uint32_t stage, uint32_t commands, uint32_t jump_ms)
{
    g->burst.stage = stage;
    g->burst.left = commands;
    g->burst.total = commands;
    g->burst.jump_ms = jump_ms;
}

void burst_begin(struct generator *g)
{
    struct burst *b = &g->burst;
    struct random *r = &g->random;
    if (b->kind != BURST_NONE) {
        return;
    }
    if (g->kind == PROFILE_RINGS) {
        if (BURST_DEPTH + b->number >= BURST_COUNT || (b->number > 0 && random_below(r, 500) > 0)) {
            return;
        }
        b->kind = (enum burst_kind)(BURST_DEPTH + b->number);
    } else if (random_below(r, 200) == 0) {
        b->kind = (enum burst_kind)random_between(r, BURST_SESSIONS, BURST_LOCKS);
    } else {
        return;
    }
    b->number++;
    b->id_count = 0;
    b->ttl_ms = random_between(r, 500, 3000);
    switch (b->kind) {
    case BURST_SESSIONS:
        start(g, 0, random_between(r, 1100, 2600) * 2, 0);
        break;
    case BURST_QUEUE:
        start(g, 0, random_between(r, 1200, 6500), 0);
        break;
    case BURST_DELAY:
        start(g, 0, random_between(r, 1200, 6000), 0);
        break;
    case BURST_GROUP:
        start(g, 0, random_between(r, 150, 420), 0);
        break;
    case BURST_DETACHED:
        start(g, 0, random_between(r, 1200, 6000), 0);
        break;
    case BURST_LOCKS:
        start(g, 0, 660, 0);
        break;
    case BURST_DEPTH:
        start(g, 0, UINT16_MAX + 10, 0);
        break;
    case BURST_RING_SESSIONS:
        start(g, 0, LIMIT_ENDED + 1000, 0);
        break;
    case BURST_RING_GRANTS:
        start(g, 0, LIMIT_ENDED + 1000, 0);
        break;
    case BURST_RING_FENCES:
        start(g, 0, LIMIT_FENCE_MARKS + 4000, 0);
        break;
    case BURST_RING_AUDIT:
        start(g, 0, (LIMIT_AUDIT + 200) * 2, 0);
        break;
    case BURST_NONE:
    case BURST_COUNT:
        break;
    }
}

/* What follows when a stage has sent everything. */
static void next_stage(struct generator *g)
{
    struct burst *b = &g->burst;
    struct random *r = &g->random;
    uint32_t aftermath = random_between(r, 25, 60);
    if (b->stage == 0) {
        uint32_t jump_ms = b->ttl_ms;
        if (b->kind == BURST_QUEUE || b->kind == BURST_DETACHED || b->kind == BURST_DEPTH) {
            jump_ms = 0;
        } else if (b->kind == BURST_GROUP) {
            jump_ms = LIMIT_DETACHED_MS;
        }
        start(g, 1, aftermath, jump_ms);
    } else if (b->stage < 3 && g->kind != PROFILE_RINGS) {
        start(g, b->stage + 1, aftermath, b->ttl_ms + random_below(r, 100));
    } else {
        b->kind = BURST_NONE;
        b->id_count = 0;
    }
}

uint32_t burst_entry(struct generator *g, uint64_t *step_ms)
{
    struct burst *b = &g->burst;
    if (b->kind == BURST_NONE) {
        return 0;
    }
    if (b->left == 0) {
        next_stage(g);
        if (b->kind == BURST_NONE) {
            return 0;
        }
    }
    *step_ms = b->jump_ms;
    b->jump_ms = 0;
    if (b->stage == 0) {
        bool rings = b->kind == BURST_RING_SESSIONS || b->kind == BURST_RING_GRANTS;
        *step_ms += rings ? 2 * LIMIT_TTL_MIN_MS : random_below(&g->random, 2);
        return b->left < ENTRY_COMMANDS ? b->left : ENTRY_COMMANDS;
    }
    uint32_t count = random_between(&g->random, 1, 3);
    return b->left < count ? b->left : count;
}

static struct command_acquire *acquire(struct generator *g, struct command *c, const char *name)
{
    command_init(c, COMMAND_ACQUIRE);
    struct command_acquire *a = &c->acquire;
    a->lease = new_id(g);
    a->client = client_number(g, random_below(&g->random, 5));
    a->node = random_between(&g->random, 1, g->profile->nodes);
    a->ttl_ms = g->burst.ttl_ms;
    a->names.count = 1;
    a->names.at[0] = arena_text(g, "burst/%s%u", name, g->burst.number);
    return a;
}

static void many_names(struct generator *g, struct command_acquire *a, uint32_t first)
{
    a->names.count = LIMIT_MULTILOCK_NAMES;
    for (uint32_t i = 0; i < a->names.count; i++) {
        a->names.at[i] = arena_text(g, "burst/%u/%u", g->burst.number, first + i);
    }
}

static void open_session(struct generator *g, struct command *c)
{
    struct burst *b = &g->burst;
    command_init(c, COMMAND_SESSION_OPEN);
    c->session_open.id = new_id(g);
    c->session_open.client = client_number(g, random_below(&g->random, 5));
    c->session_open.ttl_ms = b->ttl_ms;
    if (b->id_count < BURST_IDS) {
        b->ids[b->id_count++] = c->session_open.id;
    }
}

/* Sessions in pairs of commands: open, and a shared lock or a place in a queue. */
static void burst_sessions(struct generator *g, struct command *c, uint32_t number)
{
    struct burst *b = &g->burst;
    if (number % 2 == 0) {
        open_session(g, c);
        return;
    }
    struct command_acquire *a = acquire(g, c, random_chance(&g->random, 80) ? "s" : "t");
    c->session = b->ids[b->id_count - 1];
    a->mode = MODE_SHARED;
    a->ttl_ms = random_chance(&g->random, 20) ? b->ttl_ms / 2 + 100 : 0;
    a->delay_ms = random_chance(&g->random, 5) ? 5 : 0;
    if (random_chance(&g->random, 30)) {
        a->mode = MODE_EXCLUSIVE;
        a->names.at[0] = arena_text(g, "burst/x%u", random_below(&g->random, 5));
        a->wait_ms = random_between(&g->random, 1, b->ttl_ms * 2);
    }
}

static void burst_queue(struct generator *g, struct command *c, uint32_t number)
{
    struct burst *b = &g->burst;
    struct command_acquire *a = acquire(g, c, "q");
    a->mode = MODE_SEMAPHORE;
    a->limit = SEMAPHORE;
    a->permits = 1;
    if (number == 0) {
        a->permits = SEMAPHORE;
        a->ttl_ms = LIMIT_TTL_MAX_MS;
        b->ids[BURST_IDS - 1] = a->lease;
        return;
    }
    a->wait_ms = random_chance(&g->random, 90) ? WAIT_FOREVER : b->ttl_ms;
    if (number % 5 == 0) {
        a->node = random_between(&g->random, 1, 100);
    }
}

static void burst_delay(struct generator *g, struct command *c, uint32_t number)
{
    struct command_acquire *a = acquire(g, c, "d");
    a->mode = MODE_SHARED;
    if (number == 0) {
        a->delay_ms = g->burst.ttl_ms;
    } else if (number == 1) {
        struct slice name = a->names.at[0];
        command_init(c, COMMAND_FORCE_UNLOCK);
        c->force_unlock.name = name;
        c->force_unlock.actor = slice_of("admin-0");
        c->force_unlock.reason = slice_of("burst");
    } else {
        a->wait_ms = random_chance(&g->random, 95) ? WAIT_FOREVER : g->burst.ttl_ms;
    }
}

/* Every second time only one of the names is held: the others are free, kept for the first of many
 * multi-locks, until all those are detached. */
static void burst_group(struct generator *g, struct command *c, uint32_t number)
{
    struct command_acquire *a = acquire(g, c, "g");
    many_names(g, a, 0);
    a->node = 7;
    if (number == 0) {
        a->ttl_ms = LIMIT_TTL_MAX_MS;
        a->names.count = g->burst.number % 2 == 0 ? 1 : a->names.count;
    } else if (number + 3 < g->burst.total) {
        a->wait_ms = WAIT_FOREVER;
    } else if (number + 3 == g->burst.total) {
        command_init(c, COMMAND_NODE_GONE);
        c->node_gone.node = 7;
    } else { /* at once after it: a newcomer to the free ones */
        a->names.at[0] = arena_text(g, "burst/g%u", g->burst.number);
        a->node = 1;
        a->wait_ms = number + 2 == g->burst.total ? 0 : 50;
    }
}

/* One long queue of waiters through a node that goes, and a few behind them through others. */
static void burst_detached(struct generator *g, struct command *c, uint32_t number)
{
    struct burst *b = &g->burst;
    struct command_acquire *a = acquire(g, c, "q");
    a->wait_ms = WAIT_FOREVER;
    a->node = 7;
    if (number == 0) {
        a->wait_ms = 0;
        a->ttl_ms = LIMIT_TTL_MAX_MS;
        b->ids[BURST_IDS - 1] = a->lease;
    } else if (number + 1 == b->total) {
        command_init(c, COMMAND_NODE_GONE);
        c->node_gone.node = 7;
    } else if (number + 10 >= b->total || random_chance(&g->random, 1)) {
        a->node = 1;
    }
}

/* Three sessions; the first wants more than a session may have. */
static void burst_locks(struct generator *g, struct command *c, uint32_t number)
{
    struct burst *b = &g->burst;
    if (number == 0 || number == 320 || number == 490) {
        open_session(g, c);
        return;
    }
    struct command_acquire *a = acquire(g, c, "l");
    many_names(g, a, (number - 1) / 2 * LIMIT_MULTILOCK_NAMES);
    if (number % 2 != 0) {
        c->session = b->ids[b->id_count - 1];
        a->ttl_ms = 0;
    } else {
        a->wait_ms = random_between(&g->random, 1, 20); /* it leaves soon */
    }
}

static void burst_depth(struct generator *g, struct command *c, uint32_t number)
{
    struct burst *b = &g->burst;
    if (number == 0) {
        open_session(g, c);
        c->session_open.ttl_ms = LIMIT_TTL_MAX_MS;
        return;
    }
    struct command_acquire *a = acquire(g, c, "depth");
    c->session = b->ids[0];
    a->flags = ACQUIRE_REENTRANT;
    a->ttl_ms = 0;
}

/* What is remembered of one entry has ended before the next. */
static void burst_ring(struct generator *g, struct command *c, uint32_t number)
{
    struct command_acquire *a = acquire(g, c, "r");
    a->names.at[0] = arena_text(g, "ring/%u", number % ENTRY_COMMANDS);
    a->ttl_ms = LIMIT_TTL_MIN_MS;
    keep_lease(g, a->lease);
    if (g->burst.kind == BURST_RING_SESSIONS) {
        open_session(g, c);
        c->session_open.ttl_ms = LIMIT_TTL_MIN_MS;
        g->burst.id_count = 0;
    } else if (g->burst.kind == BURST_RING_FENCES) {
        command_init(c, COMMAND_FENCE_CHECK);
        c->fence_check.resource = arena_text(g, "resource/%u", number);
        c->fence_check.token = random_between(&g->random, 1, 1023);
    } else if (g->burst.kind == BURST_RING_AUDIT && number % 2 != 0) {
        command_init(c, COMMAND_FORCE_UNLOCK);
        c->force_unlock.name = arena_text(g, "ring/%u", (number - 1) % ENTRY_COMMANDS);
        c->force_unlock.actor = slice_of("admin-2");
        c->force_unlock.reason = arena_text(g, "number %u", number);
    }
    c->request_id = g->burst.number % 2 == 0
                        ? arena_text(g, "b%u-%u", g->burst.number, number)
                        : arena_text(g, "node-%016x%016x", g->burst.number, number);
}

/* A few commands that are about the burst itself, between normal ones. */
static bool aftermath(struct generator *g, struct command *c)
{
    struct burst *b = &g->burst;
    struct random *r = &g->random;
    uint32_t number = b->total - b->left;
    if ((b->kind == BURST_QUEUE || b->kind == BURST_DETACHED) && b->stage == 1 &&
        number == (b->kind == BURST_QUEUE ? 1 : 20)) {
        command_init(c, COMMAND_RELEASE);
        c->release.lease = b->ids[BURST_IDS - 1];
        return true;
    }
    if ((b->kind == BURST_QUEUE || b->kind == BURST_DELAY) && b->stage == 1 && number >= 6 &&
        number <= 8) { /* an owner that holds something requests a name with many holders */
        if (number == 6) {
            open_session(g, c);
            c->session_open.ttl_ms = 60000;
            return true;
        }
        struct command_acquire *a = acquire(g, c, number == 7 ? "h" : "q");
        c->session = b->ids[b->id_count - 1];
        a->ttl_ms = 0;
        if (number == 8) {
            a->mode = MODE_SEMAPHORE;
            a->limit = SEMAPHORE;
            a->permits = SEMAPHORE;
            a->wait_ms = 5000;
            a->flags = ACQUIRE_DETECT_DEADLOCK;
        }
        return true;
    }
    if (random_chance(r, 8) && b->kind != BURST_SESSIONS) {
        struct command_acquire *a = acquire(g, c, b->kind == BURST_QUEUE ? "q" : "d");
        struct slice name = a->names.at[0];
        command_init(c, COMMAND_FORCE_UNLOCK);
        c->force_unlock.name = name;
        c->force_unlock.actor = slice_of("admin-1");
        c->force_unlock.reason = slice_of("aftermath");
        c->force_unlock.now = random_chance(r, 50);
        return true;
    }
    if (random_chance(r, 15)) {
        struct command_acquire *a = acquire(g, c, random_chance(r, 50) ? "s" : "t");
        a->mode = MODE_SHARED;
        if (b->kind == BURST_GROUP || b->kind == BURST_LOCKS) {
            a->mode = MODE_EXCLUSIVE;
            many_names(g, a, b->kind == BURST_GROUP ? 0 : random_below(r, 300) * 64);
            a->wait_ms = random_chance(r, 50) ? 700 : 0;
        }
        return true;
    }
    return false;
}

bool burst_command(struct generator *g, struct command *c)
{
    struct burst *b = &g->burst;
    if (b->kind == BURST_NONE || b->left == 0) {
        return false;
    }
    uint32_t number = b->total - b->left;
    b->left--;
    if (b->stage > 0) {
        return aftermath(g, c);
    }
    switch (b->kind) {
    case BURST_SESSIONS:
        burst_sessions(g, c, number);
        break;
    case BURST_QUEUE:
        burst_queue(g, c, number);
        break;
    case BURST_DELAY:
        burst_delay(g, c, number);
        break;
    case BURST_GROUP:
        burst_group(g, c, number);
        break;
    case BURST_DETACHED:
        burst_detached(g, c, number);
        break;
    case BURST_LOCKS:
        burst_locks(g, c, number);
        break;
    case BURST_DEPTH:
        burst_depth(g, c, number);
        break;
    case BURST_RING_SESSIONS:
    case BURST_RING_GRANTS:
    case BURST_RING_FENCES:
    case BURST_RING_AUDIT:
        burst_ring(g, c, number);
        break;
    case BURST_NONE:
    case BURST_COUNT:
        break;
    }
    return true;
}

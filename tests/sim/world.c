/* Time and chance. */
#include "world.h"

struct world world;

uint64_t chance(void)
{
    world.random ^= world.random << 13;
    world.random ^= world.random >> 7;
    world.random ^= world.random << 17;
    return world.random;
}

uint64_t chance_below(uint64_t n)
{
    return (chance() >> 11) % n;
}

bool one_in(uint64_t n)
{
    return n != 0 && chance_below(n) == 0;
}

uint64_t about(uint64_t mean)
{
    return chance_below(2 * mean + 1);
}

/* What will happen lies in a wheel: by time, in slots of 256 us, where a slot also holds what comes
 * whole turns of the wheel later. A slot holds few at a time, so the next one is found by looking
 * at them all: the earliest, of equals the one that was made first. */
static uint32_t slot_of(uint64_t at_us)
{
    return (uint32_t)(at_us / SLOT_US) % SLOTS;
}

static void push(struct happening *h)
{
    uint32_t slot = slot_of(h->at_us);
    h->next = world.wheel[slot];
    world.wheel[slot] = h;
    world.waiting++;
}

static bool earlier(const struct happening *a, const struct happening *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->number < b->number;
}

/* The next one of this slot in this turn, taken out of it; NULL: there is none. */
static struct happening *take(uint32_t slot, uint64_t end_us)
{
    struct happening **best = NULL;
    for (struct happening **at = &world.wheel[slot]; *at != NULL; at = &(*at)->next) {
        if ((*at)->at_us < end_us && (best == NULL || earlier(*at, *best))) {
            best = at;
        }
    }
    if (best == NULL) {
        return NULL;
    }
    struct happening *h = *best;
    *best = h->next;
    world.waiting--;
    return h;
}

static struct happening *pop(void)
{
    uint64_t start_us = world.now_us / SLOT_US * SLOT_US;
    for (;;) {
        start_us += SLOT_US;
        struct happening *h = take(slot_of(start_us - SLOT_US), start_us);
        if (h != NULL) {
            return h;
        }
    }
}

struct happening *happening_make(void (*run)(struct happening *h), int node)
{
    struct happening *h = malloc(sizeof(*h));
    *h = (struct happening){.run = run, .node = node, .life = world.nodes[node].life};
    return h;
}

void happening_push(struct happening *h, uint64_t in_us)
{
    h->at_us = world.now_us + in_us;
    h->number = ++world.next_number;
    push(h);
}

struct happening *happen(uint64_t in_us, void (*run)(struct happening *h), int node)
{
    struct happening *h = happening_make(run, node);
    happening_push(h, in_us);
    return h;
}

void node_pause(struct sim_node *n, uint64_t for_us)
{
    if (n->paused_until_us < world.now_us + for_us) {
        n->paused_until_us = world.now_us + for_us;
        n->paused_for_us = for_us;
    }
}

void node_resume(struct sim_node *n)
{
    if (n->paused_until_us <= world.now_us) {
        return;
    }
    n->paused_until_us = world.now_us;
    struct happening *delayed = NULL;
    for (uint32_t i = 0; i < SLOTS; i++) {
        struct happening **at = &world.wheel[i];
        while (*at != NULL) {
            struct happening *h = *at;
            if (h->node == n->id && h->is_delayed) {
                *at = h->next;
                world.waiting--;
                h->next = delayed;
                delayed = h;
            } else {
                at = &h->next;
            }
        }
    }
    while (delayed != NULL) {
        struct happening *h = delayed;
        delayed = h->next;
        h->at_us = world.now_us;
        push(h);
    }
}

bool world_step(void)
{
    if (world.waiting == 0) {
        return false;
    }
    struct happening *h = pop();
    world.now_us = h->at_us;
    const struct sim_node *n = &world.nodes[h->node];
    if (h->node != 0 && n->up && n->paused_until_us > world.now_us) {
        h->at_us = n->paused_until_us; /* it waits, and keeps its place */
        h->is_delayed = true;
        push(h);
        return true;
    }
    world.counts.happenings++;
    h->run(h);
    free(h->data);
    free(h);
    return true;
}

void world_close(void)
{
    for (uint32_t i = 0; i < SLOTS; i++) {
        while (world.wheel[i] != NULL) {
            struct happening *h = world.wheel[i];
            world.wheel[i] = h->next;
            free(h->data);
            free(h);
        }
    }
    world.waiting = 0;
}

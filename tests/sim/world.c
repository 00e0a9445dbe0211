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

static bool earlier(const struct happening *a, const struct happening *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->number < b->number;
}

static void push(struct happening *h)
{
    if (world.heap_count == world.heap_capacity) {
        world.heap_capacity = world.heap_capacity == 0 ? 1024 : world.heap_capacity * 2;
        world.heap = realloc(world.heap, world.heap_capacity * sizeof(struct happening *));
    }
    uint32_t i = world.heap_count++;
    while (i > 0 && earlier(h, world.heap[(i - 1) / 2])) {
        world.heap[i] = world.heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    world.heap[i] = h;
}

static struct happening *pop(void)
{
    struct happening *first = world.heap[0];
    struct happening *last = world.heap[--world.heap_count];
    uint32_t i = 0;
    for (;;) {
        uint32_t child = 2 * i + 1;
        if (child >= world.heap_count) {
            break;
        }
        if (child + 1 < world.heap_count && earlier(world.heap[child + 1], world.heap[child])) {
            child++;
        }
        if (!earlier(world.heap[child], last)) {
            break;
        }
        world.heap[i] = world.heap[child];
        i = child;
    }
    world.heap[i] = last;
    return first;
}

struct happening *happen(uint64_t in_us, void (*run)(struct happening *h), int node)
{
    struct happening *h = calloc(1, sizeof(*h));
    h->at_us = world.now_us + in_us;
    h->number = ++world.next_number;
    h->run = run;
    h->node = node;
    h->life = world.nodes[node].life;
    push(h);
    return h;
}

bool world_step(void)
{
    if (world.heap_count == 0) {
        return false;
    }
    struct happening *h = pop();
    world.now_us = h->at_us;
    const struct node *n = &world.nodes[h->node];
    if (h->node != 0 && n->up && n->paused_until_us > world.now_us) {
        h->at_us = n->paused_until_us; /* it waits, and keeps its place */
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
    for (uint32_t i = 0; i < world.heap_count; i++) {
        free(world.heap[i]->data);
        free(world.heap[i]);
    }
    free(world.heap);
    world.heap = NULL;
    world.heap_count = 0;
    world.heap_capacity = 0;
}

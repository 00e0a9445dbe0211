/* Time and chance. */
#include "world.h"

#include <stdarg.h>

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
    return chance() % n;
}

bool one_in(uint64_t n)
{
    return chance_below(n) == 0;
}

static bool earlier(const struct happening *a, const struct happening *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->number < b->number;
}

struct happening *happen(uint64_t in_us, void (*run)(struct happening *h), int node)
{
    struct happening *h = calloc(1, sizeof(*h));
    h->at_us = world.now_us + in_us;
    h->number = ++world.next_number;
    h->run = run;
    h->node = node;
    h->life = world.nodes[node].life;
    if (world.heap_count == world.heap_capacity) {
        world.heap_capacity = world.heap_capacity == 0 ? 1024 : world.heap_capacity * 2;
        world.heap = realloc(world.heap, world.heap_capacity * sizeof(*world.heap));
    }
    uint32_t i = world.heap_count++;
    while (i > 0 && earlier(h, world.heap[(i - 1) / 2])) {
        world.heap[i] = world.heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    world.heap[i] = h;
    return h;
}

static struct happening *next_happening(void)
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

static void happening_free(struct happening *h)
{
    free(h->data);
    free(h);
}

bool world_step(void)
{
    if (world.heap_count == 0) {
        return false;
    }
    struct happening *h = next_happening();
    world.now_us = h->at_us;
    world.counts.happenings++;
    h->run(h);
    happening_free(h);
    return true;
}

void world_close(void)
{
    for (uint32_t i = 0; i < world.heap_count; i++) {
        if (world.heap[i]->drop != NULL) {
            world.heap[i]->drop(world.heap[i]);
        }
        happening_free(world.heap[i]);
    }
    free(world.heap);
}

struct replica_time node_time(const struct node *n)
{
    uint64_t boot_us = n->offset_us + (uint64_t)((double)world.now_us * n->rate);
    return (struct replica_time){boot_us, 1700000000000 + world.now_us / 1000};
}

__attribute__((format(printf, 2, 0))) static void line(FILE *to, const char *format, va_list args)
{
    fprintf(to, "%10.6f ", (double)world.now_us / 1e6);
    vfprintf(to, format, args);
    fputc('\n', to);
}

void trace(const char *format, ...)
{
    if (world.options.trace) {
        va_list args;
        va_start(args, format);
        line(stdout, format, args);
        va_end(args);
    }
}

void violation(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fflush(stdout);
    fprintf(stderr, "VIOLATION seed %llu\n", (unsigned long long)world.options.seed);
    line(stderr, format, args);
    va_end(args);
    fprintf(stderr, "replay: make sim SEED=%llu\n", (unsigned long long)world.options.seed);
    exit(1);
}

/* The heap of deadlines of heap.h.
 *
 * Positions count from 1. The children of position p are exactly group p, so the group of a
 * position is the number of its parent:
 *
 *     group 0   - - - 1        (the root has the last place; the other three stay empty)
 *     group 1   2 3 4 5        children of 1
 *     group 2   6 7 8 9        children of 2
 *
 * An entry that moves up or down is held aside while others move into its hole. So each moved entry
 * is written, and its position reported, once. */
#include "base/heap.h"

enum {
    FIRST_SEGMENT_CAPACITY = 4,
    ROOT = 1,
};

/* Avoids overflow in the arithmetic on positions. */
static const uint32_t max_count = UINT32_MAX - HEAP_ARITY;

struct heap_entry {
    uint64_t at;
    ref who;
};

static uint32_t group_of(uint32_t position)
{
    return (position + 2) / HEAP_ARITY;
}

static uint32_t lane_of(uint32_t position)
{
    return (position + 2) % HEAP_ARITY;
}

static uint32_t first_of(uint32_t group)
{
    return group * HEAP_ARITY - 2;
}

static struct heap_group *group_at(const struct heap *h, uint32_t group)
{
    return &h->segments[group >> HEAP_SEGMENT_SHIFT][group & (HEAP_SEGMENT_GROUPS - 1)];
}

static struct heap_entry load(const struct heap *h, uint32_t position)
{
    const struct heap_group *g = group_at(h, group_of(position));
    uint32_t lane = lane_of(position);
    return (struct heap_entry){g->at[lane], g->who[lane]};
}

static void store(struct heap *h, uint32_t position, struct heap_entry e)
{
    struct heap_group *g = group_at(h, group_of(position));
    uint32_t lane = lane_of(position);
    g->at[lane] = e.at;
    g->who[lane] = e.who;
}

static void move_to(struct heap *h, uint32_t position, struct heap_entry e)
{
    store(h, position, e);
    h->ops->moved(h->ctx, e.who, position);
}

static bool is_before(const struct heap *h, struct heap_entry a, struct heap_entry b)
{
    return a.at != b.at ? a.at < b.at : h->ops->before(h->ctx, a.who, b.who);
}

/* Moves parents down until `e` fits; returns the final hole. */
static uint32_t hole_up(struct heap *h, uint32_t hole, struct heap_entry e)
{
    while (hole != ROOT) {
        uint32_t parent = group_of(hole);
        struct heap_entry above = load(h, parent);
        if (!is_before(h, e, above))
            break;
        move_to(h, hole, above);
        hole = parent;
    }
    return hole;
}

/* Moves the first of the children up until `e` fits. */
static uint32_t hole_down(struct heap *h, uint32_t hole, struct heap_entry e)
{
    uint32_t last_group = group_of(h->count);
    while (hole <= last_group) {
        const struct heap_group *g = group_at(h, hole);
        uint32_t lanes = hole < last_group ? HEAP_ARITY : lane_of(h->count) + 1;
        uint32_t best = 0;
        struct heap_entry child = {g->at[0], g->who[0]};
        for (uint32_t lane = 1; lane < lanes; lane++) {
            struct heap_entry sibling = {g->at[lane], g->who[lane]};
            if (is_before(h, sibling, child)) {
                child = sibling;
                best = lane;
            }
        }
        if (!is_before(h, child, e))
            break;
        move_to(h, hole, child);
        hole = first_of(hole) + best;
    }
    return hole;
}

/* `e` was at `from` (0: not in the heap); the hole is at `hole`. */
static void settle(struct heap *h, uint32_t hole, struct heap_entry e, uint32_t from)
{
    uint32_t position = hole_up(h, hole, e);
    if (position == hole)
        position = hole_down(h, hole, e);
    if (position == from)
        store(h, position, e);
    else
        move_to(h, position, e);
}

static uint32_t segments_for(uint32_t count)
{
    return count == 0 ? 0 : (group_of(count) >> HEAP_SEGMENT_SHIFT) + 1;
}

static void add_segment(struct heap *h)
{
    if (h->segment_count == h->segment_capacity) {
        uint32_t capacity =
            h->segment_capacity == 0 ? FIRST_SEGMENT_CAPACITY : h->segment_capacity * 2;
        h->segments =
            memory_grow(h->memory, h->segments, h->segment_capacity * sizeof(*h->segments),
                        capacity * sizeof(*h->segments));
        h->segment_capacity = capacity;
    }
    h->segments[h->segment_count++] =
        memory_alloc(h->memory, HEAP_SEGMENT_GROUPS * sizeof(**h->segments));
}

static void drop_segment(struct heap *h)
{
    h->segment_count--;
    memory_free(h->memory, h->segments[h->segment_count],
                HEAP_SEGMENT_GROUPS * sizeof(**h->segments));
}

void heap_init(struct heap *h, const struct memory *memory, const struct heap_ops *ops, void *ctx)
{
    hf_assert(memory != NULL && ops != NULL);
    hf_assert(ops->before != NULL && ops->moved != NULL);
    *h = (struct heap){.ops = ops, .ctx = ctx, .memory = memory};
}

void heap_close(struct heap *h)
{
    while (h->segment_count > 0)
        drop_segment(h);
    if (h->segment_capacity > 0)
        memory_free(h->memory, h->segments, h->segment_capacity * sizeof(*h->segments));
    *h = (struct heap){0};
}

void heap_insert(struct heap *h, uint64_t at, ref who)
{
    hf_assert(who != 0);
    hf_assert(h->count < max_count);
    if (h->segment_count < segments_for(h->count + 1))
        add_segment(h);
    h->count++;
    struct heap_entry e = {at, who};
    move_to(h, hole_up(h, h->count, e), e);
}

void heap_remove(struct heap *h, uint32_t position)
{
    hf_assert(position >= 1 && position <= h->count);
    ref removed = load(h, position).who;
    uint32_t last = h->count;
    struct heap_entry moving = load(h, last);
    h->count--;
    if (position != last)
        settle(h, position, moving, last);
    /* One spare segment avoids repeated allocation at a boundary. */
    if (h->segment_count > segments_for(h->count) + 1)
        drop_segment(h);
    h->ops->moved(h->ctx, removed, 0);
}

void heap_change(struct heap *h, uint32_t position, uint64_t at)
{
    hf_assert(position >= 1 && position <= h->count);
    settle(h, position, (struct heap_entry){at, load(h, position).who}, position);
}

uint64_t heap_at(const struct heap *h, uint32_t position)
{
    hf_assert(position >= 1 && position <= h->count);
    return load(h, position).at;
}

uint64_t heap_bytes(const struct heap *h)
{
    return (uint64_t)h->segment_count * HEAP_SEGMENT_GROUPS * sizeof(**h->segments) +
           h->segment_capacity * sizeof(*h->segments);
}

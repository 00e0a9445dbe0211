/* A 4-ary min-heap of (at, who): which object has the next deadline.
 *
 * It reports its position to each object, so that a deadline can be changed or removed without a
 * search. `before` orders equal deadlines: the order of expiry is an output and must be the same on
 * every replica.
 *
 * Entries take 12 bytes in segments that never move, so no insert makes a large copy.
 *
 * The caller owns the `struct heap` and the objects. The heap owns its entries; heap_close does not
 * notify the objects. */
#ifndef HOLDFAST_BASE_HEAP_H
#define HOLDFAST_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"
#include "base/pool.h"

/* Neither function may use the heap. */
struct heap_ops {
    /* `a` precedes `b` when both have the same `at`: a total order that must not change while both
     * are in the heap (but see heap_change). */
    bool (*before)(const void *ctx, ref a, ref b);
    /* `who` is now at `position`, from 1; 0: it has left the heap. */
    void (*moved)(void *ctx, ref who, uint32_t position);
};

enum {
    HEAP_ARITY = 4,
    HEAP_SEGMENT_SHIFT = 10, /* 1024 groups of 4 entries, which is 48 KiB */
    HEAP_SEGMENT_GROUPS = 1 << HEAP_SEGMENT_SHIFT,
};

/* Four siblings, compared by a step down the heap. */
struct heap_group {
    uint64_t at[HEAP_ARITY];
    ref who[HEAP_ARITY];
};

/* Private to heap.c and to the functions below. */
struct heap {
    struct heap_group **segments;
    uint32_t count;
    uint32_t segment_count;
    uint32_t segment_capacity;
    const struct heap_ops *ops;
    void *ctx;
    const struct memory *memory;
};

/* `ops` and `ctx` must outlive the heap. */
void heap_init(struct heap *h, const struct memory *memory, const struct heap_ops *ops, void *ctx);
void heap_close(struct heap *h);

void heap_insert(struct heap *h, uint64_t at, ref who);

/* Its object gets `moved` with 0, after the others. */
void heap_remove(struct heap *h, uint32_t position);

/* Also to be called, with the same `at`, right after a change of how `before` ranks this object. */
void heap_change(struct heap *h, uint32_t position, uint64_t at);

uint64_t heap_at(const struct heap *h, uint32_t position);

uint64_t heap_bytes(const struct heap *h);

static inline uint32_t heap_count(const struct heap *h)
{
    return h->count;
}

/* UINT64_MAX when empty. The root is the last of group 0, see heap.c. */
static inline uint64_t heap_min_at(const struct heap *h)
{
    return h->count == 0 ? UINT64_MAX : h->segments[0][0].at[HEAP_ARITY - 1];
}

static inline ref heap_min(const struct heap *h)
{
    return h->count == 0 ? 0 : h->segments[0][0].who[HEAP_ARITY - 1];
}

#endif

/* The allocator interface, an argument of every container.
 *
 * The core never calls malloc, so a test can count, limit or replay its allocations. `alloc` never
 * returns NULL: when memory is exhausted the process ends, because a replica that half-applied a
 * command is worse than one that stopped.
 *
 * Blocks are aligned for any type, not zeroed, and freed with the size that was requested. A
 * container keeps the pointer to its `struct memory`, which must outlive it. */
#ifndef HOLDFAST_BASE_MEMORY_H
#define HOLDFAST_BASE_MEMORY_H

#include <stddef.h>
#include <string.h>

#include "base/panic.h"

struct memory {
    void *(*alloc)(void *ctx, size_t size);
    void (*free)(void *ctx, void *block, size_t size);
    void *ctx;
};

/* malloc and free, in memory.c. */
const struct memory *memory_system(void);

static inline void *memory_alloc(const struct memory *memory, size_t size)
{
    return memory->alloc(memory->ctx, size);
}

static inline void memory_free(const struct memory *memory, void *block, size_t size)
{
    memory->free(memory->ctx, block, size);
}

/* `old_size` 0: there is no old block. For small pointer tables: large data grows in pieces. */
static inline void *memory_grow(const struct memory *memory, void *block, size_t old_size,
                                size_t new_size)
{
    hf_assert(new_size > old_size);
    void *grown = memory_alloc(memory, new_size);
    if (old_size > 0) {
        memcpy(grown, block, old_size);
        memory_free(memory, block, old_size);
    }
    return grown;
}

#endif

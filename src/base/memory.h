/* Where memory comes from: one small interface that every container takes as an argument.
 *
 * The core never calls malloc, so a test can count, limit or replay every byte it takes. `alloc`
 * never returns NULL: an implementation that has run out ends the process with a clear message,
 * because a replica that half-applied a command is worse than one that stopped.
 *
 * Blocks are aligned for any type, are not zeroed, and belong to the caller until it hands them
 * back with the size it asked for. A container keeps the pointer to its `struct memory`, which
 * must outlive it. */
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

/* malloc and free. Lives in a file of its own, memory.c, so that the core need not link it. */
const struct memory *memory_system(void);

static inline void *memory_alloc(const struct memory *memory, size_t size)
{
    return memory->alloc(memory->ctx, size);
}

static inline void memory_free(const struct memory *memory, void *block, size_t size)
{
    memory->free(memory->ctx, block, size);
}

/* Moves a block to a larger one and gives the old one back; with `old_size` 0 there is no old
 * block. Meant for the small pointer tables of the containers: what is large grows in pieces. */
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

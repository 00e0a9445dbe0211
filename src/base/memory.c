/* The allocator of the process. The core takes a `struct memory` and must link without this
 * file. */
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>

static void *system_alloc(void *ctx, size_t size)
{
    (void)ctx;
    hf_assert(size > 0);
    void *block = malloc(size);
    if (block == NULL) {
        char what[64];
        snprintf(what, sizeof(what), "out of memory: no %zu bytes left to allocate", size);
        hf_panic(__FILE__, __LINE__, what);
    }
    return block;
}

static void system_free(void *ctx, void *block, size_t size)
{
    (void)ctx;
    (void)size;
    free(block);
}

const struct memory *memory_system(void)
{
    static const struct memory system = {system_alloc, system_free, NULL};
    return &system;
}

/* See arena.h. A list of blocks; the first has the free capacity. */
#include "arena.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/panic.h"

#define BLOCK_BYTES 65536
#define ALIGNMENT 16u

struct arena_block {
    struct arena_block *next;
    size_t size;
    size_t used;
    size_t unused; /* keeps the bytes aligned */
    uint8_t bytes[];
};

void *arena_alloc(struct arena *arena, size_t size)
{
    size = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    struct arena_block *block = arena->blocks;
    if (block == NULL || block->size - block->used < size) {
        size_t capacity = size > BLOCK_BYTES ? size : BLOCK_BYTES;
        block = malloc(sizeof(*block) + capacity);
        hf_assert(block != NULL);
        *block = (struct arena_block){.next = arena->blocks, .size = capacity};
        arena->blocks = block;
    }
    void *out = block->bytes + block->used;
    block->used += size;
    memset(out, 0, size);
    return out;
}

char *arena_text(struct arena *arena, const char *text, size_t len)
{
    char *out = arena_alloc(arena, len + 1);
    if (len > 0) {
        memcpy(out, text, len);
    }
    return out;
}

char *arena_vformat(struct arena *arena, const char *format, va_list arguments)
{
    va_list again;
    va_copy(again, arguments);
    int len = vsnprintf(NULL, 0, format, arguments);
    hf_assert(len >= 0);
    char *out = arena_alloc(arena, (size_t)len + 1);
    vsnprintf(out, (size_t)len + 1, format, again);
    va_end(again);
    return out;
}

char *arena_format(struct arena *arena, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *out = arena_vformat(arena, format, arguments);
    va_end(arguments);
    return out;
}

void *arena_grow(struct arena *arena, const void *old, size_t count, size_t *capacity,
                 size_t element_size)
{
    *capacity = *capacity == 0 ? 16 : *capacity * 2;
    void *out = arena_alloc(arena, *capacity * element_size);
    if (count > 0) {
        memcpy(out, old, count * element_size);
    }
    return out;
}

void arena_clear(struct arena *arena)
{
    /* One block of the usual size stays: a step that needs a little must not cost a malloc. */
    struct arena_block *kept = NULL;
    while (arena->blocks != NULL) {
        struct arena_block *next = arena->blocks->next;
        if (kept == NULL && arena->blocks->size == BLOCK_BYTES) {
            kept = arena->blocks;
        } else {
            free(arena->blocks);
        }
        arena->blocks = next;
    }
    if (kept != NULL) {
        kept->next = NULL;
        kept->used = 0;
    }
    arena->blocks = kept;
}

void arena_close(struct arena *arena)
{
    arena_clear(arena);
    free(arena->blocks);
    arena->blocks = NULL;
}

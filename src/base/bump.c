/* Implements base/bump.h. */
#include "base/bump.h"

enum { BLOCK = 16 << 10, ALIGN = 16 };

struct bump_block {
    struct bump_block *next;
    size_t size;
    _Alignas(ALIGN) uint8_t bytes[];
};

void bump_init(struct bump *a, const struct memory *memory, size_t max)
{
    *a = (struct bump){.memory = memory, .max = max};
}

static void free_first(struct bump *a)
{
    struct bump_block *first = a->blocks;
    a->blocks = first->next;
    memory_free(a->memory, first, sizeof(*first) + first->size);
}

void bump_close(struct bump *a)
{
    while (a->blocks != NULL) {
        free_first(a);
    }
}

void bump_reset(struct bump *a)
{
    while (a->blocks != NULL && (a->blocks->next != NULL || a->blocks->size > BLOCK)) {
        free_first(a);
    }
    a->used = 0;
    a->taken = 0;
}

static void add_block(struct bump *a, size_t size)
{
    size_t capacity = size < BLOCK ? BLOCK : size;
    struct bump_block *block = memory_alloc(a->memory, sizeof(*block) + capacity);
    block->next = a->blocks;
    block->size = capacity;
    a->blocks = block;
    a->used = 0;
}

void *bump_take(struct bump *a, size_t size)
{
    if (size > a->max) {
        return NULL;
    }
    size = (size + ALIGN - 1) / ALIGN * ALIGN;
    if (size > a->max - a->taken) {
        return NULL;
    }
    if (a->blocks == NULL || size > a->blocks->size - a->used) {
        add_block(a, size);
    }
    void *piece = a->blocks->bytes + a->used;
    a->used += size;
    a->taken += size;
    return piece;
}

char *bump_text(struct bump *a, struct slice text)
{
    static char nothing[1] = "";
    char *copy = bump_take(a, text.len + 1);
    if (copy == NULL) {
        return nothing;
    }
    if (text.len > 0) {
        memcpy(copy, text.data, text.len);
    }
    copy[text.len] = '\0';
    return copy;
}

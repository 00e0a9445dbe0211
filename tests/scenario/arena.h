/* Memory that is given back all at once: a scenario stops wherever its first mistake is, so nothing
 * it made is freed one by one. */
#ifndef SCENARIO_ARENA_H
#define SCENARIO_ARENA_H

#include <stdarg.h>
#include <stddef.h>

struct arena_block;

struct arena {
    struct arena_block *blocks;
};

/* Zeroed, aligned for any type; never NULL. */
void *arena_alloc(struct arena *arena, size_t size);
char *arena_text(struct arena *arena, const char *text, size_t len);
char *arena_format(struct arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
char *arena_vformat(struct arena *arena, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));

/* A copy of an array of `count` elements with twice the capacity, which it updates. */
void *arena_grow(struct arena *arena, const void *old, size_t count, size_t *capacity,
                 size_t element_size);

/* Forgets everything; the arena can be used again. arena_close gives its memory back. */
void arena_clear(struct arena *arena);
void arena_close(struct arena *arena);

#endif

/* A list of references with a number each, to be sorted by the numbers. Restoring a snapshot uses
 * it for rings that are ordered by token or ticket. invariants.c uses it to find duplicates. */
#ifndef HOLDFAST_CORE_KEYED_H
#define HOLDFAST_CORE_KEYED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory.h"
#include "base/pool.h"

struct keyed {
    uint64_t key;
    ref who;
};

/* The fields may be read; `at` may move when an element is added. */
struct keyed_list {
    const struct memory *memory;
    struct keyed *at;
    size_t count;
    size_t size;
};

/* The list owns its memory, not the objects. */
void keyed_init(struct keyed_list *list, const struct memory *memory);
void keyed_close(struct keyed_list *list);
void keyed_add(struct keyed_list *list, uint64_t key, ref obj);

/* Sorts by rising key; equal keys keep their order. Linear time. */
void keyed_sort(struct keyed_list *list);

/* Whether all keys of a sorted list differ. */
bool keyed_is_unique(const struct keyed_list *list);

#endif

/* References with a number each, to be sorted by it: rings of a restored snapshot, duplicates in
 * invariants.c. */
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

/* Read only; `at` may move when an element is added. */
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

/* By rising key; stable. Linear time. */
void keyed_sort(struct keyed_list *list);

/* Whether the keys of a sorted list differ. */
bool keyed_is_unique(const struct keyed_list *list);

#endif

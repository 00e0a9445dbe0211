/* A list of references with a number each, to be put into the order of the numbers. Restoring a
 * snapshot needs it for rings that are ordered by token or ticket, and the check of the invariants
 * to see that no number comes twice. */
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

/* The fields may be read; `at` moves when something is added. */
struct keyed_list {
    const struct memory *memory;
    struct keyed *at;
    size_t count;
    size_t size;
};

/* The list owns its memory and nothing else. */
void keyed_init(struct keyed_list *list, const struct memory *memory);
void keyed_close(struct keyed_list *list);
void keyed_add(struct keyed_list *list, uint64_t key, ref who);

/* Sorts by rising key; equal ones keep their order. Takes time in proportion to the length. */
void keyed_sort(struct keyed_list *list);

/* Whether no key comes twice, in a list that is sorted. */
bool keyed_is_unique(const struct keyed_list *list);

#endif

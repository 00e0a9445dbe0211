/* The last so many objects of a pool, in the order they came, found by one or two hashes: what is
 * remembered for a while and forgotten oldest first.
 *
 * Made for many additions, and lookups that mostly find nothing. An addition writes one place of a
 * small array for each hash and goes on in a straight line elsewhere; forgetting writes nothing.
 * Neither reads another object, which in a large memory would be a miss of all caches each.
 *
 *     for (struct recent_walk w = recent_find(&r, 0, hash); recent_next(&w);)
 *         ... w.who has that hash, most likely; the caller compares keys ...
 *
 * Newest first. The memory is taken with the first addition.
 *
 * The caller owns the `struct recent` and the objects; recent_close leaves the objects as they
 * are. */
#ifndef HOLDFAST_BASE_RECENT_H
#define HOLDFAST_BASE_RECENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory.h"
#include "base/pool.h"

enum {
    RECENT_MAX = 65536,
    RECENT_INDEXES = 2,
};

/* What a number knows of its neighbour in the same chain. */
struct recent_link {
    uint16_t back; /* so many numbers before is the next; 0: none that is remembered */
    uint16_t tag;  /* the high bits of the hash; the low ones chose the chain */
};

struct recent_index {
    uint32_t *heads;           /* the number of the newest of each chain */
    struct recent_link *links; /* by number */
};

/* The fields are private to recent.c and to the functions below. Objects are numbered as they come,
 * from 1 and modulo 2^32; arrays by number have the places of `mask`, and a hash has the head of
 * its bits in `head_mask`. */
struct recent {
    ref *objects; /* by number */
    struct recent_index index[RECENT_INDEXES];
    uint32_t indexes;
    uint32_t mask;
    uint32_t head_mask;
    uint32_t limit;
    uint32_t newest;
    uint32_t count;
    const struct memory *memory;
};

/* Remembers `limit` objects, 1 to RECENT_MAX, by `indexes` hashes. */
void recent_init(struct recent *r, const struct memory *memory, uint32_t limit, uint32_t indexes);
void recent_close(struct recent *r);

/* Adds `who` under its hashes, one for each index, and returns the object that is forgotten for it,
 * or 0. The low bits of a hash must differ well. Does not look for doubles. */
ref recent_add(struct recent *r, ref who, const uint32_t *hashes);

/* Forgets the oldest and returns it; there is one. */
ref recent_drop_oldest(struct recent *r);

/* What the arrays take, without the objects. */
uint64_t recent_bytes(const struct recent *r);

static inline uint32_t recent_count(const struct recent *r)
{
    return r->count;
}

/* The one that came `i` after the oldest; `i` is below the count. */
static inline ref recent_at(const struct recent *r, uint32_t i)
{
    return r->objects[(r->newest - r->count + 1 + i) & r->mask];
}

struct recent_walk {
    ref who;
    const struct recent *recent;
    const struct recent_link *links;
    uint32_t age; /* how many are newer than the one to look at next */
    uint16_t tag;
};

static inline struct recent_walk recent_find(const struct recent *r, uint32_t index, uint32_t hash)
{
    struct recent_walk w = {.recent = r, .age = UINT32_MAX, .tag = (uint16_t)(hash >> 16)};
    if (r->count > 0) {
        w.links = r->index[index].links;
        w.age = r->newest - r->index[index].heads[hash & r->head_mask];
    }
    return w;
}

/* Sets `who` to the next that may have the hash; false when there is none. Ages only rise, so it
 * ends. A head so old that its number has come again leads into another chain, where the caller
 * finds nothing: one with a remembered object is never that old. */
static inline bool recent_next(struct recent_walk *w)
{
    const struct recent *r = w->recent;
    while (w->age < r->count) {
        uint32_t at = (r->newest - w->age) & r->mask;
        struct recent_link link = w->links[at];
        w->age = link.back == 0 ? UINT32_MAX : w->age + link.back;
        if (link.tag == w->tag) {
            w->who = r->objects[at];
            return true;
        }
    }
    return false;
}

/* Have the head of a chain ready soon, and then, when that is there, what it leads to. Macros for
 * the reason of TABLE_PREFETCH. */
#define RECENT_PREFETCH_HEAD(r, i, hash)                                       \
    do {                                                                       \
        if ((r)->count > 0)                                                    \
            __builtin_prefetch(&(r)->index[i].heads[(hash) & (r)->head_mask]); \
    } while (0)
#define RECENT_PREFETCH_LINK(r, i, hash)                                                         \
    do {                                                                                         \
        if ((r)->count > 0)                                                                      \
            __builtin_prefetch(                                                                  \
                &(r)->index[i].links[(r)->index[i].heads[(hash) & (r)->head_mask] & (r)->mask]); \
    } while (0)

#endif

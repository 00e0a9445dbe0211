/* The most recent objects of a pool, in insertion order, found by one or two hashes. The oldest one
 * is dropped first.
 *
 * Optimised for many additions, and for lookups that mostly find nothing. For each hash, an
 * addition writes one element of a small array and one of a sequential one; a drop writes nothing.
 * Neither reads another object, which would be a cache miss.
 *
 *     for (struct recent_walk w = recent_find(&r, 0, hash); recent_next(&w);)
 *         ... w.who has that hash, most likely; the caller compares keys ...
 *
 * Newest first. The memory is allocated with the first addition.
 *
 * The caller owns the `struct recent` and the objects; recent_close does not touch the objects. */
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

/* The link of a number to the next one in the same chain. */
struct recent_link {
    uint16_t back; /* distance to the next older number; 0: none that is stored */
    uint16_t tag;  /* the high bits of the hash; the low ones select the chain */
};

struct recent_index {
    uint32_t *heads;           /* the newest number of each chain */
    struct recent_link *links; /* by number */
};

/* Private to recent.c and the functions below. Objects are numbered in insertion order, from 1 and
 * modulo 2^32. Arrays by number are indexed with `mask`, heads by hash with `head_mask`. */
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

/* `limit`: 1 to RECENT_MAX. */
void recent_init(struct recent *r, const struct memory *memory, uint32_t limit, uint32_t indexes);
void recent_close(struct recent *r);

/* Adds `who` under its hashes, one for each index, and returns the object that it displaces, or 0.
 * The low bits of a hash must be well distributed. Does not check for duplicates. */
ref recent_add(struct recent *r, ref who, const uint32_t *hashes);

/* There must be one. */
ref recent_drop_oldest(struct recent *r);

/* Of the arrays, without the objects. */
uint64_t recent_bytes(const struct recent *r);

static inline uint32_t recent_count(const struct recent *r)
{
    return r->count;
}

/* The object that was added as number `i` after the oldest; `i` is below the count. */
static inline ref recent_at(const struct recent *r, uint32_t i)
{
    return r->objects[(r->newest - r->count + 1 + i) & r->mask];
}

struct recent_walk {
    ref who;
    const struct recent *recent;
    const struct recent_link *links;
    uint32_t age; /* how many are newer than the next one to visit */
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

/* Sets `who` to the next object that may have the hash; false: none. It terminates, since ages only
 * rise. If a head is so old that its number was reused, it leads into another chain, where the
 * caller finds no match. The head of a stored object is never that old. */
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

/* The head of a chain, and then what it refers to. Macros for the same reason as TABLE_PREFETCH. */
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

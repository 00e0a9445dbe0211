/* A slab allocator whose objects have 32-bit references.
 *
 * A reference takes 4 bytes instead of 8, and counts units of 8 bytes, so that it reaches 32 GiB.
 * Memory is allocated in chunks of 1 MiB that never move, so a pointer from pool_at is valid until
 * the object is freed.
 *
 * Sizes are rounded up to a size class, and a freed block serves the next allocation of its class.
 * Blocks are not merged or returned before pool_close: the reserved memory is the sum of the peaks
 * of all classes.
 *
 * The caller owns the `struct pool`; the pool owns its objects, and pool_close frees the remaining
 * ones. */
#ifndef HOLDFAST_BASE_POOL_H
#define HOLDFAST_BASE_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"

/* The reference of an object in a pool; 0 is none. */
typedef uint32_t ref;

enum {
    POOL_MAX_OBJECT = 66560, /* a value of LIMIT_KEY_VALUE, with its head */
    POOL_UNIT = 8,
    POOL_CHUNK_SHIFT = 17, /* a chunk has 2^17 units, which is 1 MiB */
    POOL_CHUNK_UNITS = 1 << POOL_CHUNK_SHIFT,
    POOL_CHUNK_BYTES = POOL_CHUNK_UNITS * POOL_UNIT,
    POOL_MAX_CHUNKS = 1 << (32 - POOL_CHUNK_SHIFT),
    /* Multiples of 8 up to 1024, of 128 up to 8192, of 1024 up to 66560. */
    POOL_CLASSES = 128 + 56 + 57,
};

/* Private to pool.c and to pool_at. */
struct pool {
    unsigned char **chunks;
    uint32_t chunk_count;
    uint32_t chunk_capacity;
    uint32_t fresh_unit; /* the first never-used unit of the newest chunk */
    uint64_t bytes_used;
    const struct memory *memory;
    ref free_lists[POOL_CLASSES];
};

void pool_init(struct pool *p, const struct memory *memory);
void pool_close(struct pool *p);

/* `size` zeroed bytes (1 to POOL_MAX_OBJECT), 8-byte aligned. Panics beyond 32 GiB. */
void *pool_alloc(struct pool *p, size_t size, ref *out);

/* `size` must be the allocated one. */
void pool_free(struct pool *p, ref who, size_t size);

/* `size` rounded up to its size class. */
size_t pool_rounded(size_t size);

/* Taken from `memory`, tables included. */
uint64_t pool_bytes_reserved(const struct pool *p);

/* Of the live objects, each rounded up to its size class. */
uint64_t pool_bytes_used(const struct pool *p);

/* The object must be alive. Checks nothing: the hottest function of the program. */
static inline void *pool_at(const struct pool *p, ref who)
{
    return p->chunks[who >> POOL_CHUNK_SHIFT] + (size_t)(who & (POOL_CHUNK_UNITS - 1)) * POOL_UNIT;
}

#endif

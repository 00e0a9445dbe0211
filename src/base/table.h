/* A hash index over objects of a pool, by linear hashing: buckets are split and merged one at a
 * time, so that growth never has a step that one unlucky command would pay for.
 *
 * The index is intrusive. Each object holds a `ref` that links it to the next one of its bucket;
 * the caller walks that chain and compares keys itself:
 *
 *     for (ref r = table_first(&t, hash); r != 0; r = ((struct lock *)pool_at(pool, r))->next)
 *         ...
 *
 * A chain also holds objects of other hashes. Its order is a matter of history and must never
 * reach an output. The low bits of the hash choose the bucket, so they have to be good ones.
 *
 * The caller owns the `struct table` and the objects; the table owns its buckets only, and
 * table_close leaves the objects as they are. */
#ifndef HOLDFAST_BASE_TABLE_H
#define HOLDFAST_BASE_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"
#include "base/pool.h"

/* The hash of an object, always the one it was inserted with. */
typedef uint32_t (*table_hash_fn)(const void *ctx, const void *object);

typedef void (*table_visit_fn)(void *ctx, ref who);

/* The cursor of a scan that is over. */
#define TABLE_SCAN_END (UINT64_C(1) << 32)

enum {
    TABLE_SEGMENT_SHIFT = 12, /* 4096 buckets, which is 16 KiB */
    TABLE_SEGMENT_BUCKETS = 1 << TABLE_SEGMENT_SHIFT,
    TABLE_MIN_BUCKETS = 16,
};

/* The fields are private to table.c and to the functions below. */
struct table {
    ref **segments;
    uint32_t mask;         /* 2^k - 1, where 2^(k-1) < bucket_count <= 2^k */
    uint32_t bucket_count; /* those in use */
    uint64_t count;
    uint32_t segment_count;
    uint32_t segment_capacity;
    struct pool *pool;
    size_t next_offset;
    table_hash_fn hash;
    const void *ctx;
    const struct memory *memory;
};

/* `next_offset` is where in an object its chain link lies, a `ref` that belongs to the table while
 * the object is in it. `pool` and `ctx` must outlive the table. */
void table_init(struct table *t, const struct memory *memory, struct pool *pool, size_t next_offset,
                table_hash_fn hash, const void *ctx);
void table_close(struct table *t);

/* Makes the buckets for `count` elements at once, for one who is about to insert so many: then no
 * insert has to split one. Only while the table is empty. */
void table_reserve(struct table *t, uint64_t count);

/* Puts `who` at the front of its chain; does not look for doubles. What the hash function reads of
 * the object must be in place already. */
void table_insert(struct table *t, uint32_t hash, ref who);

/* Takes `who` out; it has to be there. */
void table_remove(struct table *t, uint32_t hash, ref who);

/* Visits the elements of one bucket and returns the cursor of the next, or TABLE_SCAN_END; start
 * with 0. Between two calls the table may change in any way: an element that is in it from the
 * first call to the last is visited exactly once, one that comes or goes is visited or not. `visit`
 * must not change the table. */
uint64_t table_scan(const struct table *t, uint64_t cursor, table_visit_fn visit, void *ctx);

/* What the buckets take, without the objects. */
uint64_t table_bytes(const struct table *t);

static inline uint64_t table_count(const struct table *t)
{
    return t->count;
}

/* The bucket where `hash` lives: that of its low k bits, or of one bit less where that bucket has
 * not been split off yet. */
static inline uint32_t table_bucket(const struct table *t, uint32_t hash)
{
    uint32_t bucket = hash & t->mask;
    return bucket < t->bucket_count ? bucket : bucket & t->mask >> 1;
}

static inline ref *table_head(const struct table *t, uint32_t bucket)
{
    return &t->segments[bucket >> TABLE_SEGMENT_SHIFT][bucket & (TABLE_SEGMENT_BUCKETS - 1)];
}

/* The first element of the chain where elements of that hash are, or 0. */
static inline ref table_first(const struct table *t, uint32_t hash)
{
    return *table_head(t, table_bucket(t, hash));
}

/* Has the head of a chain ready soon. A macro: gcc takes a function that only prefetches for one
 * without effect and drops it. */
#define TABLE_PREFETCH(t, hash) __builtin_prefetch(table_head(t, table_bucket(t, hash)))

#endif

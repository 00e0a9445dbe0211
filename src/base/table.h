/* A hash index over objects of a pool, by linear hashing: buckets are split and merged one at a
 * time, so that no command pays for the growth.
 *
 * The index is intrusive. Each object holds a `ref` that links it to the next one of its bucket;
 * the caller walks that chain and compares keys itself:
 *
 *     for (ref r = table_first(&t, hash); r != 0; r = ((struct lock *)pool_at(pool, r))->next) ...
 *
 * A chain also holds objects of other hashes. Its order depends on history and must never reach an
 * output. The low bits of the hash select the bucket, so they must be well distributed.
 *
 * The caller owns the `struct table` and the objects; table_close does not touch the objects. */
#ifndef HOLDFAST_BASE_TABLE_H
#define HOLDFAST_BASE_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"
#include "base/pool.h"

/* Always the hash that it was inserted with. */
typedef uint32_t (*table_hash_fn)(const void *ctx, const void *object);

typedef void (*table_visit_fn)(void *ctx, ref who);

/* The cursor at the end of a scan. */
#define TABLE_SCAN_END (UINT64_C(1) << 32)

enum {
    TABLE_SEGMENT_SHIFT = 12, /* 4096 buckets, which is 16 KiB */
    TABLE_SEGMENT_BUCKETS = 1 << TABLE_SEGMENT_SHIFT,
    TABLE_MIN_BUCKETS = 16,
};

/* Private to table.c and to the functions below. */
struct table {
    ref **segments;
    uint32_t mask;         /* 2^k - 1, where 2^(k-1) < bucket_count <= 2^k */
    uint32_t bucket_count; /* in use */
    uint64_t count;
    uint32_t segment_count;
    uint32_t segment_capacity;
    struct pool *pool;
    size_t next_offset;
    table_hash_fn hash;
    const void *ctx;
    const struct memory *memory;
};

/* `next_offset` is the offset of the chain link, a `ref` that belongs to the table while the object
 * is in it. `pool` and `ctx` must outlive the table. */
void table_init(struct table *t, const struct memory *memory, struct pool *pool, size_t next_offset,
                table_hash_fn hash, const void *ctx);
void table_close(struct table *t);

/* The buckets for `count` elements at once, so that their inserts split none. Only while the table
 * is empty. */
void table_reserve(struct table *t, uint64_t count);

/* At the front of its chain; does not check for duplicates. The fields that the hash function reads
 * must be set before. */
void table_insert(struct table *t, uint32_t hash, ref who);

/* It must be in the table. */
void table_remove(struct table *t, uint32_t hash, ref who);

/* Visits the elements of one bucket and returns the cursor of the next, or TABLE_SCAN_END; start
 * with 0. The table may change between two calls: an element that is present from the first call to
 * the last is visited exactly once; an added or removed one may be visited. `visit` must not change
 * the table. */
uint64_t table_scan(const struct table *t, uint64_t cursor, table_visit_fn visit, void *ctx);

/* Of the buckets, without the objects. */
uint64_t table_bytes(const struct table *t);

static inline uint64_t table_count(const struct table *t)
{
    return t->count;
}

/* The low k bits of `hash`, or one bit less where that bucket has not been split off yet. */
static inline uint32_t table_bucket(const struct table *t, uint32_t hash)
{
    uint32_t bucket = hash & t->mask;
    return bucket < t->bucket_count ? bucket : bucket & t->mask >> 1;
}

static inline ref *table_head(const struct table *t, uint32_t bucket)
{
    return &t->segments[bucket >> TABLE_SEGMENT_SHIFT][bucket & (TABLE_SEGMENT_BUCKETS - 1)];
}

static inline ref table_first(const struct table *t, uint32_t hash)
{
    return *table_head(t, table_bucket(t, hash));
}

/* A macro, since gcc removes a function that only prefetches. */
#define TABLE_PREFETCH(t, hash) __builtin_prefetch(table_head(t, table_bucket(t, hash)))

#endif

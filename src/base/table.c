/* Linear hashing (Litwin, "Linear hashing: a new tool for file and table addressing", 1980).
 *
 * With 2^(k-1) < n <= 2^k buckets, the next new bucket is n. It takes its elements from its parent,
 * the bucket of the same number without its highest bit; the last bucket is merged into its parent.
 * Either step touches one chain, about half an element long.
 *
 * A scan orders elements by their hash with its bits reversed. A bucket is a contiguous range in
 * that order; a split divides a range in two, a merge joins two neighbours. So a cursor is a point
 * in that order and everything before it was visited, whatever the number of buckets at the next
 * call. */
#include "base/table.h"

#include <stdbool.h>

enum {
    FIRST_SEGMENT_CAPACITY = 4,
    /* A lookup that finds nothing, of which each acquire makes several, then visits half an element
     * on average. Each visit is a cache miss in a large table. */
    BUCKETS_PER_ELEMENT = 2,
    /* Unused buckets before a merge. A constant: a remove merges few buckets and could not catch up
     * with a share of the table. */
    MAX_IDLE_BUCKETS = TABLE_SEGMENT_BUCKETS,
};

/* Beyond this the chains get longer; the pool is full before it matters. */
static const uint32_t max_buckets = UINT32_C(1) << 31;

static ref *next_of(const struct table *t, ref who)
{
    return (ref *)(void *)((unsigned char *)pool_at(t->pool, who) + t->next_offset);
}

static uint32_t hash_of(const struct table *t, ref who)
{
    return t->hash(t->ctx, pool_at(t->pool, who));
}

static void add_segment(struct table *t)
{
    if (t->segment_count == t->segment_capacity) {
        uint32_t capacity =
            t->segment_capacity == 0 ? FIRST_SEGMENT_CAPACITY : t->segment_capacity * 2;
        t->segments =
            memory_grow(t->memory, t->segments, t->segment_capacity * sizeof(*t->segments),
                        capacity * sizeof(*t->segments));
        t->segment_capacity = capacity;
    }
    t->segments[t->segment_count++] =
        memory_alloc(t->memory, TABLE_SEGMENT_BUCKETS * sizeof(**t->segments));
}

static void drop_segment(struct table *t)
{
    t->segment_count--;
    memory_free(t->memory, t->segments[t->segment_count],
                TABLE_SEGMENT_BUCKETS * sizeof(**t->segments));
}

/* Keeps the order in both chains. */
static void split_bucket(struct table *t)
{
    uint32_t added = t->bucket_count;
    if (added > t->mask)
        t->mask = t->mask << 1 | 1;
    if (added >> TABLE_SEGMENT_SHIFT == t->segment_count)
        add_segment(t);
    t->bucket_count++;

    uint32_t parent = added & t->mask >> 1;
    ref who = *table_head(t, parent);
    ref *stay = table_head(t, parent);
    ref *leave = table_head(t, added);
    while (who != 0) {
        uint32_t hash = hash_of(t, who);
        hf_assert((hash & t->mask >> 1) == parent); /* else it was inserted with another hash */
        ref **end = (hash & t->mask) == added ? &leave : &stay;
        **end = who;
        *end = next_of(t, who);
        who = **end;
    }
    *stay = 0;
    *leave = 0;
}

/* Prepends the chain of the last bucket to that of its parent. */
static void merge_bucket(struct table *t)
{
    uint32_t dropped = t->bucket_count - 1;
    ref *parent = table_head(t, dropped & t->mask >> 1);
    ref first = *table_head(t, dropped);
    if (first != 0) {
        ref *end = next_of(t, first);
        while (*end != 0)
            end = next_of(t, *end);
        *end = *parent;
        *parent = first;
    }
    t->bucket_count = dropped;
    if (dropped == (t->mask >> 1) + 1)
        t->mask >>= 1;
    if ((dropped & (TABLE_SEGMENT_BUCKETS - 1)) == 0)
        drop_segment(t);
}

/* More buckets than elements by a margin, so that merges and splits do not alternate around one
 * size. */
static bool is_sparse(const struct table *t)
{
    uint32_t idle = t->bucket_count / 4;
    if (idle > MAX_IDLE_BUCKETS)
        idle = MAX_IDLE_BUCKETS;
    return t->bucket_count > TABLE_MIN_BUCKETS &&
           t->count * BUCKETS_PER_ELEMENT + idle < t->bucket_count;
}

void table_init(struct table *t, const struct memory *memory, struct pool *pool, size_t next_offset,
                table_hash_fn hash, const void *ctx)
{
    hf_assert(memory != NULL && pool != NULL && hash != NULL);
    hf_assert(next_offset % _Alignof(ref) == 0);
    *t = (struct table){
        .mask = TABLE_MIN_BUCKETS - 1,
        .bucket_count = TABLE_MIN_BUCKETS,
        .pool = pool,
        .next_offset = next_offset,
        .hash = hash,
        .ctx = ctx,
        .memory = memory,
    };
    add_segment(t);
    for (uint32_t i = 0; i < TABLE_MIN_BUCKETS; i++)
        *table_head(t, i) = 0;
}

void table_close(struct table *t)
{
    while (t->segment_count > 0)
        drop_segment(t);
    if (t->segment_capacity > 0)
        memory_free(t->memory, t->segments, t->segment_capacity * sizeof(*t->segments));
    *t = (struct table){0};
}

void table_reserve(struct table *t, uint64_t count)
{
    hf_assert(t->count == 0);
    while (t->bucket_count < count * BUCKETS_PER_ELEMENT && t->bucket_count < max_buckets)
        split_bucket(t);
}

void table_insert(struct table *t, uint32_t hash, ref who)
{
    hf_assert(who != 0);
    ref *head = table_head(t, table_bucket(t, hash));
    *next_of(t, who) = *head;
    *head = who;
    t->count++;
    for (int i = 0; i < BUCKETS_PER_ELEMENT; i++)
        if (t->count * BUCKETS_PER_ELEMENT > t->bucket_count && t->bucket_count < max_buckets)
            split_bucket(t);
}

void table_remove(struct table *t, uint32_t hash, ref who)
{
    hf_assert(who != 0);
    ref *link = table_head(t, table_bucket(t, hash));
    while (*link != who) {
        hf_assert(*link != 0); /* else `who` is not in the table */
        link = next_of(t, *link);
    }
    *link = *next_of(t, who);
    *next_of(t, who) = 0;
    t->count--;
    for (int i = 0; i < BUCKETS_PER_ELEMENT; i++)
        if (is_sparse(t))
            merge_bucket(t);
}

static uint32_t reverse_bits(uint32_t x)
{
    x = (x >> 1 & UINT32_C(0x55555555)) | (x & UINT32_C(0x55555555)) << 1;
    x = (x >> 2 & UINT32_C(0x33333333)) | (x & UINT32_C(0x33333333)) << 2;
    x = (x >> 4 & UINT32_C(0x0f0f0f0f)) | (x & UINT32_C(0x0f0f0f0f)) << 4;
    x = (x >> 8 & UINT32_C(0x00ff00ff)) | (x & UINT32_C(0x00ff00ff)) << 8;
    return x >> 16 | x << 16;
}

/* Low bits of the hash that all elements of `bucket` share. */
static uint32_t bucket_bits(const struct table *t, uint32_t bucket)
{
    uint32_t half = (t->mask >> 1) + 1;
    bool is_split = bucket >= half || bucket + half < t->bucket_count;
    uint32_t mask = is_split ? t->mask : t->mask >> 1;
    return 32 - (uint32_t)__builtin_clz(mask);
}

uint64_t table_scan(const struct table *t, uint64_t cursor, table_visit_fn visit, void *ctx)
{
    hf_assert(cursor < TABLE_SCAN_END);
    uint32_t bucket = table_bucket(t, reverse_bits((uint32_t)cursor));
    for (ref who = *table_head(t, bucket); who != 0; who = *next_of(t, who))
        if (reverse_bits(hash_of(t, who)) >= cursor)
            visit(ctx, who);
    uint32_t range_shift = 32 - bucket_bits(t, bucket);
    return ((cursor >> range_shift) + 1) << range_shift;
}

uint64_t table_bytes(const struct table *t)
{
    return (uint64_t)t->segment_count * TABLE_SEGMENT_BUCKETS * sizeof(**t->segments) +
           t->segment_capacity * sizeof(*t->segments);
}

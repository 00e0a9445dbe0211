/* The log in memory: term, type and length of every entry, and the bytes of the newest, for
 * applying and up-to-date followers. Older bytes are on disk. */
#ifndef HOLDFAST_REPLICA_ENTRIES_H
#define HOLDFAST_REPLICA_ENTRIES_H

#include "replica/ports.h"

struct entry_slot {
    uint64_t term;
    uint8_t *bytes; /* NULL: on disk only, or empty */
    uint32_t len;
    uint16_t type;
};

struct entry_garbage {
    uint8_t *bytes;
    uint32_t len;
    uint64_t until; /* number of the last write that may still read it */
};

struct entries {
    const struct memory *memory;
    uint64_t first; /* index of slots[head] */
    uint32_t count;
    uint32_t head;
    uint32_t capacity;
    struct entry_slot *slots;
    uint64_t bytes;
    uint64_t in_memory_from; /* entries below this have no bytes here */
    uint64_t limit_bytes;
    struct entry_garbage *garbage; /* replaced while their write was in flight */
    uint32_t garbage_count;
    uint32_t garbage_capacity;
};

void entries_init(struct entries *e, const struct memory *memory, uint64_t first,
                  uint64_t limit_bytes);
void entries_close(struct entries *e);

static inline uint64_t entries_last(const struct entries *e)
{
    return e->first + e->count - 1; /* first - 1 when there are none */
}

/* NULL: the log does not have it. */
struct entry_slot *entries_at(const struct entries *e, uint64_t index);

/* Copies the entry. */
void entries_append(struct entries *e, const struct replica_entry *entry);
/* From `index` on. Bytes that a write up to number `writing` may read are kept until it is done. */
void entries_truncate(struct entries *e, uint64_t index, uint64_t writing);
void entries_written(struct entries *e, uint64_t number);
void entries_drop_before(struct entries *e, uint64_t index);
/* Removes all entries; the log restarts at `first`. */
void entries_reset(struct entries *e, uint64_t first, uint64_t writing);
/* Frees bytes, oldest first, while over the limit; none at or above `keep_from`. */
void entries_evict(struct entries *e, uint64_t keep_from);

#endif

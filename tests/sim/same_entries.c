/* Two entries with the same index and term are equal, on all nodes and in all lives, committed or
 * not (Raft, 5.3, Log Matching): a leader writes an index once a term. Kept as a hash of each, for
 * the whole world. */
#include "world.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

struct same {
    uint64_t index; /* 0: free */
    uint64_t term;
    uint64_t hash;
    int node; /* that wrote it first */
};

static struct same *table;
static uint64_t capacity; /* a power of two */
static uint64_t used;

static struct same *find(uint64_t index, uint64_t term)
{
    uint64_t at = (index * UINT64_C(0x9e3779b97f4a7c15) ^ term * UINT64_C(0xc2b2ae3d27d4eb4f)) >> 8;
    struct same *s = &table[at & (capacity - 1)];
    while (s->index != 0 && (s->index != index || s->term != term)) {
        s = &table[++at & (capacity - 1)];
    }
    return s;
}

static void grow(void)
{
    struct same *old = table;
    uint64_t had = capacity;
    capacity = had == 0 ? 1 << 14 : had * 2;
    table = calloc(capacity, sizeof(*table));
    for (uint64_t i = 0; i < had; i++) {
        if (old[i].index != 0) {
            *find(old[i].index, old[i].term) = old[i];
        }
    }
    free(old);
}

void same_entries_written(const struct sim_node *n, uint64_t first,
                          const struct replica_entry *entries, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct replica_entry *e = &entries[i];
        if (used * 2 >= capacity) {
            grow();
        }
        uint64_t hash = XXH3_64bits_withSeed(e->bytes.data, e->bytes.len, e->type);
        struct same *s = find(first + i, e->term);
        if (s->index == 0) {
            *s = (struct same){first + i, e->term, hash, n->id};
            used++;
        } else if (s->hash != hash) {
            breach("same entries",
                   "node %d writes another entry %llu of term %llu than node %d did", n->id,
                   ull(first + i), ull(e->term), s->node);
        }
    }
}

void same_entries_end(void)
{
    free(table);
    table = NULL;
    capacity = used = 0;
}

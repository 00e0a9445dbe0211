/* The ring and the chains of recent.h.
 *
 * A chain links its newest member to older ones by distances. It is never cut: a walk stops at the
 * first number that is no longer stored, since all further ones are older. */
#include "base/recent.h"

/* Then one lookup in ten follows more than one link. */
enum { HEADS_PER_OBJECT = 2 };

static size_t places(const struct recent *r)
{
    return (size_t)r->mask + 1;
}

static size_t heads_bytes(const struct recent *r)
{
    return ((size_t)r->head_mask + 1) * sizeof(*r->index[0].heads);
}

static size_t links_bytes(const struct recent *r)
{
    return places(r) * sizeof(*r->index[0].links);
}

void recent_init(struct recent *r, const struct memory *memory, uint32_t limit, uint32_t indexes)
{
    hf_assert(memory != NULL && limit >= 1 && limit <= RECENT_MAX);
    hf_assert(indexes >= 1 && indexes <= RECENT_INDEXES);
    *r = (struct recent){.indexes = indexes, .limit = limit, .memory = memory};
    while (r->mask < limit - 1) {
        r->mask = r->mask << 1 | 1;
    }
    r->head_mask = (r->mask + 1) * HEADS_PER_OBJECT - 1;
}

/* Only the heads are initialised: to number 0, which no object has. */
static void take_memory(struct recent *r)
{
    r->objects = memory_alloc(r->memory, places(r) * sizeof(*r->objects));
    for (uint32_t i = 0; i < r->indexes; i++) {
        r->index[i].heads = memory_alloc(r->memory, heads_bytes(r));
        r->index[i].links = memory_alloc(r->memory, links_bytes(r));
        memset(r->index[i].heads, 0, heads_bytes(r));
    }
}

void recent_close(struct recent *r)
{
    if (r->objects != NULL) {
        memory_free(r->memory, r->objects, places(r) * sizeof(*r->objects));
        for (uint32_t i = 0; i < r->indexes; i++) {
            memory_free(r->memory, r->index[i].heads, heads_bytes(r));
            memory_free(r->memory, r->index[i].links, links_bytes(r));
        }
    }
    *r = (struct recent){0};
}

ref recent_add(struct recent *r, ref who, const uint32_t *hashes)
{
    hf_assert(who != 0);
    if (r->objects == NULL) {
        take_memory(r);
    }
    ref forgotten = 0;
    if (r->count == r->limit) {
        forgotten = recent_at(r, 0);
        r->count--;
    }
    r->newest++;
    r->count++;
    uint32_t at = r->newest & r->mask;
    r->objects[at] = who;
    for (uint32_t i = 0; i < r->indexes; i++) {
        uint32_t *head = &r->index[i].heads[hashes[i] & r->head_mask];
        uint32_t back = r->newest - *head;
        r->index[i].links[at] = (struct recent_link){
            .back = back < r->limit ? (uint16_t)back : 0,
            .tag = (uint16_t)(hashes[i] >> 16),
        };
        *head = r->newest;
    }
    return forgotten;
}

ref recent_drop_oldest(struct recent *r)
{
    hf_assert(r->count > 0);
    ref oldest = recent_at(r, 0);
    r->count--;
    return oldest;
}

uint64_t recent_bytes(const struct recent *r)
{
    if (r->objects == NULL) {
        return 0;
    }
    return places(r) * sizeof(*r->objects) + r->indexes * (heads_bytes(r) + links_bytes(r));
}

/* A ring of entries with two indexes that have one place for each hash: an entry that loses its place to
 * a newer one is not found any more. */
#include "node/lines/recent_ends.h"

#include <string.h>

enum { INDEX = 2 * RECENT_ENDS, TEXTS = 4 };

_Static_assert((INDEX & (INDEX - 1)) == 0, "a hash becomes a place by its lowest bits");

struct ended_entry {
    uint32_t tenant;
    uint32_t tier;
    uint64_t token;
    struct id lease;
    uint16_t len[TEXTS];
    uint8_t text[LIMIT_NAME + LIMIT_CLIENT + LIMIT_OWNER + LIMIT_TRACE];
};

struct recent_ends {
    const struct memory *memory;
    uint32_t next;            /* entry */
    uint16_t by_token[INDEX]; /* entry + 1; 0: none */
    uint16_t by_lease[INDEX]; /* ... */
    struct ended_entry entries[RECENT_ENDS];
};

static uint32_t place(uint64_t bits)
{
    return (uint32_t)((bits * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (INDEX - 1);
}

static uint32_t place_of_lease(struct id lease)
{
    return place(lease.high ^ lease.low);
}

struct recent_ends *recent_ends_new(const struct memory *memory)
{
    struct recent_ends *ends = memory_alloc(memory, sizeof(*ends));
    ends->memory = memory;
    ends->next = 0;
    memset(ends->by_token, 0, sizeof(ends->by_token));
    memset(ends->by_lease, 0, sizeof(ends->by_lease));
    return ends; /* an entry is written before an index names it */
}

void recent_ends_free(struct recent_ends *ends)
{
    memory_free(ends->memory, ends, sizeof(*ends));
}

void recent_ends_add(struct recent_ends *ends, const struct event *e)
{
    uint32_t at = ends->next;
    struct ended_entry *entry = &ends->entries[at];
    const struct slice texts[TEXTS] = {e->name, e->client, e->owner, e->trace};
    size_t len = 0;
    hf_assert(e->name.len <= LIMIT_NAME && e->client.len <= LIMIT_CLIENT);
    hf_assert(e->owner.len <= LIMIT_OWNER && e->trace.len <= LIMIT_TRACE);
    entry->tenant = e->tenant;
    entry->tier = e->tier;
    entry->token = e->token;
    entry->lease = e->lease;
    for (unsigned i = 0; i < TEXTS; i++) {
        if (texts[i].len > 0) {
            memcpy(entry->text + len, texts[i].data, texts[i].len);
        }
        entry->len[i] = (uint16_t)texts[i].len;
        len += texts[i].len;
    }
    ends->by_token[place(e->token)] = (uint16_t)(at + 1);
    ends->by_lease[place_of_lease(e->lease)] = (uint16_t)(at + 1);
    ends->next = (at + 1) % RECENT_ENDS;
}

bool recent_ends_find(const struct recent_ends *ends, uint32_t tenant, uint64_t token,
                      struct id lease, struct recent_end *out)
{
    bool by_lease = !id_is_zero(lease);
    uint16_t at = by_lease ? ends->by_lease[place_of_lease(lease)] : ends->by_token[place(token)];
    if (at == 0) {
        return false;
    }
    const struct ended_entry *entry = &ends->entries[at - 1];
    if (entry->tenant != tenant ||
        (by_lease ? !id_equal(entry->lease, lease) : entry->token != token)) {
        return false;
    }
    struct slice texts[TEXTS];
    const uint8_t *text = entry->text;
    for (unsigned i = 0; i < TEXTS; i++) {
        texts[i] = slice_make(text, entry->len[i]);
        text += entry->len[i];
    }
    *out = (struct recent_end){.tier = (enum tier)entry->tier,
                               .token = entry->token,
                               .lease = entry->lease,
                               .name = texts[0],
                               .client = texts[1],
                               .owner = texts[2],
                               .trace = texts[3]};
    return true;
}

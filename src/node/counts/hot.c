/* See hot.h. A sketch is an array of counters, a heap of them with the smallest at the top, and a hash
 * index with linear probing. */
#include "node/counts/hot.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/panic.h"

enum { SLOTS = 2 * HOT_PREFIXES, FADE_PART = 15, SKETCHES = HOT_TENANTS + 1 };

struct hot_counter {
    uint64_t weight;
    uint64_t error;
    uint32_t hash;
    uint32_t tenant;
    uint16_t heap_at;
    uint8_t len;
    char prefix[HOT_PREFIX_MAX];
};

struct sketch {
    uint64_t total;
    uint32_t count;
    uint16_t heap[HOT_PREFIXES]; /* counters; each weighs no less than its parent */
    uint16_t slots[SLOTS];       /* counter + 1; 0: free */
    struct hot_counter counters[HOT_PREFIXES];
};

struct hot {
    const struct memory *memory;
    uint64_t hash_key;
    uint64_t since_wall_ms;
    uint64_t faded_us;  /* boot time of the last fading */
    uint64_t window_us; /* until then, faded */
    uint32_t tenant_count;
    uint32_t tenants[HOT_TENANTS];
    struct sketch *sketches[SKETCHES][HOT_BY_COUNT]; /* NULL: nothing yet */
};

struct slice hot_prefix(struct slice name)
{
    size_t len = name.len < HOT_PREFIX_MAX ? name.len : HOT_PREFIX_MAX;
    for (size_t i = len; i > 0; i--) {
        if (name.data[i - 1] == '/' || name.data[i - 1] == ':') {
            return slice_make(name.data, i);
        }
    }
    while (len < name.len && len > 0 && (name.data[len] & 0xc0) == 0x80) {
        len--; /* not within a character of UTF-8 */
    }
    return slice_make(name.data, len);
}

/* ---- the heap ---- */

static void heap_set(struct sketch *s, uint32_t at, uint16_t counter)
{
    s->heap[at] = counter;
    s->counters[counter].heap_at = (uint16_t)at;
}

static uint64_t weight_at(const struct sketch *s, uint32_t at)
{
    return s->counters[s->heap[at]].weight;
}

static void sift_down(struct sketch *s, uint32_t at)
{
    uint16_t moved = s->heap[at];
    uint64_t weight = s->counters[moved].weight;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= s->count) {
            break;
        }
        child += child + 1 < s->count && weight_at(s, child + 1) < weight_at(s, child);
        if (weight_at(s, child) >= weight) {
            break;
        }
        heap_set(s, at, s->heap[child]);
        at = child;
    }
    heap_set(s, at, moved);
}

static void sift_up(struct sketch *s, uint32_t at)
{
    uint16_t moved = s->heap[at];
    uint64_t weight = s->counters[moved].weight;
    while (at > 0 && weight_at(s, (at - 1) / 2) > weight) {
        heap_set(s, at, s->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    heap_set(s, at, moved);
}

/* ---- the index ---- */

static uint32_t slot_of(const struct sketch *s, uint32_t hash, uint32_t tenant, struct slice prefix)
{
    uint32_t slot = hash % SLOTS;
    for (; s->slots[slot] != 0; slot = (slot + 1) % SLOTS) {
        const struct hot_counter *c = &s->counters[s->slots[slot] - 1];
        if (c->hash == hash && c->tenant == tenant && c->len == prefix.len &&
            memcmp(c->prefix, prefix.data, prefix.len) == 0) {
            break;
        }
    }
    return slot;
}

/* Closes the gap: later ones of the same run move up. */
static void unindex(struct sketch *s, const struct hot_counter *c)
{
    uint32_t gap = slot_of(s, c->hash, c->tenant, slice_make(c->prefix, c->len));
    hf_assert(s->slots[gap] == c - s->counters + 1);
    s->slots[gap] = 0;
    for (uint32_t slot = (gap + 1) % SLOTS; s->slots[slot] != 0; slot = (slot + 1) % SLOTS) {
        uint32_t home = s->counters[s->slots[slot] - 1].hash % SLOTS;
        if ((slot - home) % SLOTS >= (slot - gap) % SLOTS) {
            s->slots[gap] = s->slots[slot];
            s->slots[slot] = 0;
            gap = slot;
        }
    }
}

static void name_counter(struct sketch *s, uint16_t counter, uint32_t hash, uint32_t tenant,
                         struct slice prefix)
{
    struct hot_counter *c = &s->counters[counter];
    c->hash = hash;
    c->tenant = tenant;
    c->len = (uint8_t)prefix.len;
    memcpy(c->prefix, prefix.data, prefix.len);
    s->slots[slot_of(s, hash, tenant, prefix)] = (uint16_t)(counter + 1);
}

/* ---- the algorithm ---- */

static void sketch_add(struct sketch *s, uint32_t hash, uint32_t tenant, struct slice prefix,
                       uint64_t weight)
{
    uint32_t slot = slot_of(s, hash, tenant, prefix);
    s->total += weight;
    if (s->slots[slot] != 0) {
        struct hot_counter *c = &s->counters[s->slots[slot] - 1];
        c->weight += weight;
        sift_down(s, c->heap_at);
    } else if (s->count < HOT_PREFIXES) {
        uint16_t counter = (uint16_t)s->count++;
        s->counters[counter].weight = weight;
        s->counters[counter].error = 0;
        name_counter(s, counter, hash, tenant, prefix);
        heap_set(s, counter, counter);
        sift_up(s, counter);
    } else {
        uint16_t counter = s->heap[0]; /* the smallest is replaced, and may have been this prefix */
        struct hot_counter *c = &s->counters[counter];
        unindex(s, c);
        c->error = c->weight;
        c->weight += weight;
        name_counter(s, counter, hash, tenant, prefix);
        sift_down(s, 0);
    }
}

/* Keeps the order, and that a weight without its error is at most the true one. */
static uint64_t fade(uint64_t weight)
{
    return weight - weight / FADE_PART;
}

static void sketch_fade(struct sketch *s)
{
    s->total = fade(s->total);
    for (uint32_t i = 0; i < s->count; i++) {
        s->counters[i].weight = fade(s->counters[i].weight);
        s->counters[i].error = fade(s->counters[i].error);
    }
}

/* ---- all tenants ---- */

static uint32_t place_of(struct hot *h, uint32_t tenant)
{
    for (uint32_t i = 0; i < h->tenant_count; i++) {
        if (h->tenants[i] == tenant) {
            return i;
        }
    }
    if (h->tenant_count == HOT_TENANTS) {
        return HOT_TENANTS;
    }
    h->tenants[h->tenant_count] = tenant;
    return h->tenant_count++;
}

void hot_add(struct hot *h, enum hot_by by, uint32_t tenant, struct slice name, uint64_t weight)
{
    if (weight == 0) {
        return;
    }
    uint32_t place = place_of(h, tenant);
    struct sketch *s = h->sketches[place][by];
    if (s == NULL) {
        s = memory_alloc(h->memory, sizeof(*s));
        memset(s, 0, offsetof(struct sketch, counters));
        h->sketches[place][by] = s;
    }
    struct slice prefix = hot_prefix(name);
    uint32_t hash = (uint32_t)XXH3_64bits_withSeed(prefix.data, prefix.len, h->hash_key + tenant);
    sketch_add(s, hash, tenant, prefix, weight);
}

static void each_sketch(const struct hot *h, void (*visit)(struct sketch *s))
{
    for (unsigned place = 0; place < SKETCHES; place++) {
        for (unsigned by = 0; by < HOT_BY_COUNT; by++) {
            if (h->sketches[place][by] != NULL) {
                visit(h->sketches[place][by]);
            }
        }
    }
}

void hot_tick(struct hot *h, uint64_t now_us)
{
    if (now_us < h->faded_us + HOT_FADE_US) { /* also before a reset later in this iteration */
        return;
    }
    h->window_us = fade(h->window_us + (now_us - h->faded_us));
    h->faded_us = now_us;
    each_sketch(h, sketch_fade);
}

static void sketch_clear(struct sketch *s)
{
    memset(s, 0, offsetof(struct sketch, counters));
}

void hot_reset(struct hot *h, uint64_t now_us, uint64_t wall_ms)
{
    h->since_wall_ms = wall_ms;
    h->faded_us = now_us;
    h->window_us = 0;
    each_sketch(h, sketch_clear);
}

struct hot *hot_new(const struct memory *memory, uint64_t hash_key)
{
    struct hot *h = memory_alloc(memory, sizeof(*h));
    memset(h, 0, sizeof(*h));
    h->memory = memory;
    h->hash_key = hash_key;
    return h;
}

void hot_free(struct hot *h)
{
    if (h == NULL) {
        return;
    }
    for (unsigned place = 0; place < SKETCHES; place++) {
        for (unsigned by = 0; by < HOT_BY_COUNT; by++) {
            if (h->sketches[place][by] != NULL) {
                memory_free(h->memory, h->sketches[place][by], sizeof(struct sketch));
            }
        }
    }
    memory_free(h->memory, h, sizeof(*h));
}

/* Before `b` in the answer. Equal ones by tenant and prefix, so that answers do not change. */
static bool is_busier(const struct hot_counter *a, const struct hot_row *b)
{
    if (a->weight != b->weight) {
        return a->weight > b->weight;
    }
    if (a->tenant != b->tenant) {
        return a->tenant < b->tenant;
    }
    return slice_compare(slice_make(a->prefix, a->len), slice_make(b->prefix, b->prefix_len)) < 0;
}

static void put_row(struct leader_hot *out, uint32_t limit, const struct hot_counter *c)
{
    uint32_t at = out->count;
    while (at > 0 && is_busier(c, &out->rows[at - 1])) {
        at--;
    }
    if (at == limit) {
        return;
    }
    out->count += out->count < limit;
    memmove(out->rows + at + 1, out->rows + at, (out->count - 1 - at) * sizeof(out->rows[0]));
    out->rows[at] = (struct hot_row){
        .tenant = c->tenant, .prefix_len = c->len, .weight = c->weight, .error = c->error};
    memcpy(out->rows[at].prefix, c->prefix, c->len);
}

void hot_top(const struct hot *h, enum hot_by by, uint32_t limit, uint64_t now_us,
             struct leader_hot *out)
{
    limit = limit < HOT_ROWS_MAX ? limit : HOT_ROWS_MAX;
    out->by = by;
    out->count = 0;
    out->total = 0;
    out->since_wall_ms = h->since_wall_ms;
    out->window_us = h->window_us + (now_us - h->faded_us);
    for (unsigned place = 0; place < SKETCHES && limit > 0; place++) {
        const struct sketch *s = h->sketches[place][by];
        for (uint32_t i = 0; s != NULL && i < s->count; i++) {
            if (s->counters[i].weight > 0) {
                put_row(out, limit, &s->counters[i]);
            }
        }
        out->total += s == NULL ? 0 : s->total;
    }
}

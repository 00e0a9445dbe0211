/* The log in memory, see entries.h. */
#include "replica/entries.h"

#include "base/panic.h"

#define FIRST_CAPACITY 64

void entries_init(struct entries *e, const struct memory *memory, uint64_t first,
                  uint64_t limit_bytes)
{
    hf_assert(memory != NULL && first > 0);
    *e = (struct entries){
        .memory = memory, .first = first, .in_memory_from = first, .limit_bytes = limit_bytes};
}

static struct entry_slot *slot(const struct entries *e, uint32_t position)
{
    hf_assert(position < e->capacity);
    return &e->slots[(e->head + position) % e->capacity];
}

static void free_bytes(struct entries *e, struct entry_slot *s)
{
    if (s->bytes != NULL) {
        hf_assert(e->bytes >= s->len);
        memory_free(e->memory, s->bytes, s->len);
        e->bytes -= s->len;
        s->bytes = NULL;
    }
}

static void bury(struct entries *e, struct entry_slot *s, uint64_t until)
{
    if (s->bytes == NULL) {
        return;
    }
    if (e->garbage_count == e->garbage_capacity) {
        uint32_t capacity = e->garbage_capacity == 0 ? 16 : e->garbage_capacity * 2;
        e->garbage = memory_grow(e->memory, e->garbage, e->garbage_capacity * sizeof(*e->garbage),
                                 capacity * sizeof(*e->garbage));
        e->garbage_capacity = capacity;
    }
    hf_assert(e->bytes >= s->len);
    e->garbage[e->garbage_count++] = (struct entry_garbage){s->bytes, s->len, until};
    e->bytes -= s->len;
    s->bytes = NULL;
}

void entries_written(struct entries *e, uint64_t number)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < e->garbage_count; i++) {
        if (e->garbage[i].until <= number) {
            memory_free(e->memory, e->garbage[i].bytes, e->garbage[i].len);
        } else {
            e->garbage[kept++] = e->garbage[i];
        }
    }
    e->garbage_count = kept;
}

void entries_close(struct entries *e)
{
    for (uint32_t i = 0; i < e->count; i++) {
        free_bytes(e, slot(e, i));
    }
    entries_written(e, UINT64_MAX);
    if (e->capacity > 0) {
        memory_free(e->memory, e->slots, e->capacity * sizeof(*e->slots));
    }
    if (e->garbage_capacity > 0) {
        memory_free(e->memory, e->garbage, e->garbage_capacity * sizeof(*e->garbage));
    }
}

struct entry_slot *entries_at(const struct entries *e, uint64_t index)
{
    if (index < e->first || index - e->first >= e->count) {
        return NULL;
    }
    return slot(e, (uint32_t)(index - e->first));
}

static void grow(struct entries *e)
{
    hf_assert(e->count == e->capacity && e->capacity <= UINT32_MAX / 2);
    uint32_t capacity = e->capacity == 0 ? FIRST_CAPACITY : e->capacity * 2;
    struct entry_slot *slots = memory_alloc(e->memory, capacity * sizeof(*slots));
    for (uint32_t i = 0; i < e->count; i++) {
        slots[i] = *slot(e, i);
    }
    if (e->capacity > 0) {
        memory_free(e->memory, e->slots, e->capacity * sizeof(*e->slots));
    }
    e->slots = slots;
    e->capacity = capacity;
    e->head = 0;
}

void entries_append(struct entries *e, const struct replica_entry *entry)
{
    hf_assert(entry->bytes.len <= LIMIT_ENTRY);
    hf_assert(entry->bytes.len == 0 || entry->bytes.data != NULL);
    if (e->count == e->capacity) {
        grow(e);
    }
    struct entry_slot *s = slot(e, e->count++);
    *s = (struct entry_slot){
        .term = entry->term, .type = entry->type, .len = (uint32_t)entry->bytes.len};
    if (s->len > 0) {
        s->bytes = memory_alloc(e->memory, s->len);
        memcpy(s->bytes, entry->bytes.data, s->len);
        e->bytes += s->len;
    }
}

void entries_truncate(struct entries *e, uint64_t index, uint64_t writing)
{
    hf_assert(index >= e->first);
    while (e->count > 0 && entries_last(e) >= index) {
        bury(e, slot(e, e->count - 1), writing);
        e->count--;
    }
    if (e->in_memory_from > entries_last(e) + 1) {
        e->in_memory_from = entries_last(e) + 1;
    }
}

void entries_drop_before(struct entries *e, uint64_t index)
{
    hf_assert(index <= entries_last(e) + 1);
    while (e->count > 0 && e->first < index) {
        free_bytes(e, slot(e, 0));
        e->head = (e->head + 1) % e->capacity;
        e->count--;
        e->first++;
    }
    if (e->in_memory_from < e->first) {
        e->in_memory_from = e->first;
    }
}

void entries_reset(struct entries *e, uint64_t first, uint64_t writing)
{
    hf_assert(first >= e->first);
    entries_truncate(e, e->first, writing);
    e->first = first;
    e->in_memory_from = first;
    e->head = 0;
}

void entries_evict(struct entries *e, uint64_t keep_from)
{
    hf_assert(e->in_memory_from >= e->first && e->in_memory_from <= entries_last(e) + 1);
    while (e->bytes > e->limit_bytes && e->in_memory_from < keep_from &&
           e->in_memory_from <= entries_last(e)) {
        free_bytes(e, entries_at(e, e->in_memory_from));
        e->in_memory_from++;
    }
}

/* See event_ring.h. A record is a struct event and its strings. If it does not fit before the end
 * of the buffer, it starts at offset 0. */
#include "service/request/event_ring.h"

struct ring_record {
    uint32_t size;  /* with its strings, a multiple of 8 */
    uint32_t skips; /* 1: no event, fills the end of the buffer */
    struct event event;
    uint8_t texts[];
};

static size_t record_size(const struct event *e)
{
    size_t size = sizeof(struct ring_record);
#define ADD_LENGTH(name) size += e->name.len;
#define F(role, since, type, name, limit) FIELD_SLICE_##type(ADD_LENGTH, name)
    EVENT_FIELDS(F)
#undef F
    return (size + 7) & ~(size_t)7;
}

static void copy_text(uint8_t **at, struct slice *text)
{
    if (text->len > 0) {
        memcpy(*at, text->data, text->len);
    }
    text->data = *at;
    *at += text->len;
}

void event_ring_open(struct event_ring *ring, const struct memory *memory, size_t size)
{
    size_t least = (size_t)64 << 10;
    *ring = (struct event_ring){.memory = memory};
    ring->size = ((size < least ? least : size) + 7) & ~(size_t)7;
    ring->bytes = memory_alloc(memory, ring->size);
}

void event_ring_close(struct event_ring *ring)
{
    memory_free(ring->memory, ring->bytes, ring->size);
}

void event_ring_reset(struct event_ring *ring, struct event_id floor)
{
    ring->tail += 8; /* a watcher at the end is now before the head: it missed events */
    ring->head = ring->tail;
    ring->newest = floor;
    ring->floor = floor;
}

static struct ring_record *record_at(const struct event_ring *ring, uint64_t position)
{
    return (struct ring_record *)(void *)(ring->bytes + position % ring->size);
}

static void drop_oldest(struct event_ring *ring)
{
    const struct ring_record *r = record_at(ring, ring->head);
    hf_assert(ring->head < ring->tail);
    if (!r->skips) {
        ring->floor = (struct event_id){r->event.index, r->event.ordinal};
    }
    ring->head += r->size;
}

static void free_space(struct event_ring *ring, size_t size)
{
    while (ring->tail + size - ring->head > ring->size) {
        drop_oldest(ring);
    }
}

static void make_run(struct event_ring *ring, size_t size)
{
    size_t left = ring->size - ring->tail % ring->size;
    if (left < size) {
        free_space(ring, left);
        struct ring_record *r = record_at(ring, ring->tail);
        r->size = (uint32_t)left;
        r->skips = 1;
        ring->tail += left;
    }
    free_space(ring, size);
}

void event_ring_add(struct event_ring *ring, const struct event *event)
{
    size_t size = record_size(event);
    hf_assert(size <= ring->size / 2);
    make_run(ring, size);
    struct ring_record *r = record_at(ring, ring->tail);
    r->size = (uint32_t)size;
    r->skips = 0;
    r->event = *event;
    uint8_t *at = r->texts;
#define COPY(name) copy_text(&at, &r->event.name);
#define F(role, since, type, name, limit) FIELD_SLICE_##type(COPY, name)
    EVENT_FIELDS(F)
#undef F
    ring->tail += size;
    ring->newest = (struct event_id){event->index, event->ordinal};
}

void event_ring_skip(struct event_ring *ring, struct event_id id)
{
    ring->head = ring->tail;
    ring->newest = id;
    ring->floor = id;
}

const struct event *event_ring_next(const struct event_ring *ring, uint64_t *position)
{
    hf_assert(*position >= ring->head && *position <= ring->tail);
    if (*position < ring->tail && record_at(ring, *position)->skips) {
        *position += record_at(ring, *position)->size;
    }
    if (*position == ring->tail) {
        return NULL;
    }
    const struct ring_record *r = record_at(ring, *position);
    *position += r->size;
    return &r->event;
}

bool event_ring_find(const struct event_ring *ring, struct event_id id, uint64_t *position)
{
    if (event_id_after(ring->floor, id)) {
        return false;
    }
    uint64_t at = ring->head;
    uint64_t before = at;
    const struct event *e;
    while ((e = event_ring_next(ring, &at)) != NULL) {
        if (event_id_after((struct event_id){e->index, e->ordinal}, id)) {
            break;
        }
        before = at;
    }
    *position = before;
    return true;
}

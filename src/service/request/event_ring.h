/* The recent events of this node, for those who watch: a run of bytes of fixed size, in which the
 * newest push out the oldest (S9.3).
 *
 * A position is a number of bytes since the beginning of time, so it never means anything else. */
#ifndef HOLDFAST_SERVICE_REQUEST_EVENT_RING_H
#define HOLDFAST_SERVICE_REQUEST_EVENT_RING_H

#include "base/memory.h"
#include "core/event.h"

/* "index-ordinal": everything up to this event has been seen. */
struct event_id {
    uint64_t index;
    uint32_t ordinal;
};

static inline bool event_id_after(struct event_id a, struct event_id b)
{
    return a.index != b.index ? a.index > b.index : a.ordinal > b.ordinal;
}

struct event_ring {
    const struct memory *memory;
    uint8_t *bytes;
    size_t size;
    uint64_t head; /* position of the oldest event */
    uint64_t tail; /* ... of the one that comes next */
    struct event_id newest;
    struct event_id floor; /* the newest event that is not here any more, or never was */
};

/* `size` is rounded up to hold at least a few events of any length. */
void event_ring_open(struct event_ring *ring, const struct memory *memory, size_t size);
void event_ring_close(struct event_ring *ring);

/* Drops everything: the events up to `floor` are not known. */
void event_ring_reset(struct event_ring *ring, struct event_id floor);

void event_ring_add(struct event_ring *ring, const struct event *event);

/* The event at `*position`, which moves on to the next; false at the end. The slices lie in the
 * ring and last until the next event is added. `*position` must not be before the head. */
bool event_ring_next(const struct event_ring *ring, uint64_t *position, struct event *out);

/* The position of the first event after `id`; false when some that came after it are gone. */
bool event_ring_find(const struct event_ring *ring, struct event_id id, uint64_t *position);

#endif

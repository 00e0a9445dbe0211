/* Recent events for watchers; new events overwrite the oldest (S9.3).
 *
 * A position counts the bytes written since the ring was opened; positions are never reused. */
#ifndef HOLDFAST_SERVICE_REQUEST_EVENT_RING_H
#define HOLDFAST_SERVICE_REQUEST_EVENT_RING_H

#include "base/memory.h"
#include "core/event.h"
#include "events/event_id.h"

struct event_ring {
    const struct memory *memory;
    uint8_t *bytes;
    size_t size;
    uint64_t head; /* of the oldest event */
    uint64_t tail; /* of the next event */
    struct event_id newest;
    struct event_id floor; /* newest event not in the ring: overwritten or skipped */
};

/* In bytes; raised to hold a few events of any length. */
void event_ring_open(struct event_ring *ring, const struct memory *memory, size_t size);
void event_ring_close(struct event_ring *ring);

/* Events up to `floor` are not available. */
void event_ring_reset(struct event_ring *ring, struct event_id floor);

void event_ring_add(struct event_ring *ring, const struct event *event);
/* The event with this id is not kept, and no earlier one is. Nobody may have a position. */
void event_ring_skip(struct event_ring *ring, struct event_id id);

/* The event at `*position`, which must not be before the head, and advances the position; NULL at the
 * end. The event is in the ring, valid until the next event is added. */
const struct event *event_ring_next(const struct event_ring *ring, uint64_t *position);

/* The first position after `id`; false: events after `id` were overwritten. */
bool event_ring_find(const struct event_ring *ring, struct event_id id, uint64_t *position);

#endif

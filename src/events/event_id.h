/* The number of an event: the log entry, and the number within it (S9.3). */
#ifndef HOLDFAST_EVENTS_EVENT_ID_H
#define HOLDFAST_EVENTS_EVENT_ID_H

#include <stdbool.h>
#include <stdint.h>

/* "index-ordinal". As a position: every event up to this one has been seen. */
struct event_id {
    uint64_t index;
    uint32_t ordinal;
};

static inline bool event_id_after(struct event_id a, struct event_id b)
{
    return a.index != b.index ? a.index > b.index : a.ordinal > b.ordinal;
}

#endif

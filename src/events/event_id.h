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

/* The place of a record in the event log; no two records have the same.
 *
 *   event of the tier CORRECTNESS   its id, 0
 *   audit record                    its entry, EVENT_AUDIT, its number among those of the entry from 1
 *   event of the tier EFFICIENCY    the index and ordinal of the record before it, or (if entries were
 *                                   applied since) the newest entry, EVENT_AUDIT; EVENT_LOSSY + a
 *                                   number from 1
 *
 * The first two are the same on every node. */
struct event_position {
    uint64_t index;
    uint32_t ordinal;
    uint32_t sub;
};

#define EVENT_AUDIT UINT32_MAX
#define EVENT_LOSSY (UINT32_C(1) << 31)

/* After every record of the entries up to `index`, except for later ones of the tier EFFICIENCY. */
static inline struct event_position event_position_end_of(uint64_t index)
{
    return (struct event_position){index, EVENT_AUDIT, EVENT_LOSSY};
}

static inline bool event_position_after(struct event_position a, struct event_position b)
{
    if (a.index != b.index) {
        return a.index > b.index;
    }
    return a.ordinal != b.ordinal ? a.ordinal > b.ordinal : a.sub > b.sub;
}

#endif

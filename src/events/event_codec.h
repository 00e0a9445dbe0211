/* An event as bytes: in the event log, and from the leader to nodes with waiting clients (tier
 * EFFICIENCY, S10). */
#ifndef HOLDFAST_EVENTS_EVENT_CODEC_H
#define HOLDFAST_EVENTS_EVENT_CODEC_H

#include "base/buffer.h"
#include "core/event.h"

#define EVENT_BYTES_MAX \
    (256 + LIMIT_NAME + LIMIT_CLIENT + LIMIT_OWNER + LIMIT_ACTOR + LIMIT_TRACE + EVENT_TEXT_MAX)

/* For receivers of at least this state version. Returns the length; 0 if it does not fit, which
 * EVENT_BYTES_MAX prevents. */
size_t event_encode(const struct event *event, uint32_t version, uint8_t at[EVENT_BYTES_MAX]);
/* The slices of `out` point into `bytes`. False: malformed. */
bool event_decode(struct slice bytes, struct event *out);

#endif

/* An event as bytes: in the event log, and from the leader to nodes with waiting clients (tier
 * EFFICIENCY, S10). An audit record as bytes: in the event log. */
#ifndef HOLDFAST_EVENTS_EVENT_CODEC_H
#define HOLDFAST_EVENTS_EVENT_CODEC_H

#include "base/buffer.h"
#include "core/event.h"
#include "core/view.h"

#define EVENT_BYTES_MAX \
    (256 + LIMIT_NAME + LIMIT_CLIENT + LIMIT_OWNER + LIMIT_ACTOR + LIMIT_TRACE + EVENT_TEXT_MAX)

/* For receivers of at least this state version. Returns the length; 0 if it does not fit, which
 * EVENT_BYTES_MAX prevents. */
size_t event_encode(const struct event *event, uint32_t version, uint8_t at[EVENT_BYTES_MAX]);
/* The slices of `out` point into `bytes`. False: malformed. */
bool event_decode(struct slice bytes, struct event *out);

enum {
    AUDIT_BYTES_MAX = 256 + 2 * LIMIT_NAME + LIMIT_ACTOR + LIMIT_REASON + LIMIT_TRACE,
};

/* As event_encode; texts that are longer than those of an audit record do not fit. */
size_t audit_encode(const struct audit_view *record, uint8_t at[AUDIT_BYTES_MAX]);
/* The slices of `out` point into `bytes`. False: malformed. */
bool audit_decode(struct slice bytes, struct audit_view *out);

#endif

/* An event as bytes, for the way from the leader to a node where somebody waits to hear of it: the
 * tier EFFICIENCY has no log that would tell (S10). */
#ifndef HOLDFAST_NODE_FORWARD_EVENT_CODEC_H
#define HOLDFAST_NODE_FORWARD_EVENT_CODEC_H

#include "base/buffer.h"
#include "core/event.h"

#define EVENT_BYTES_MAX                                            \
    (256 + LIMIT_NAME + LIMIT_CLIENT + LIMIT_OWNER + LIMIT_ACTOR + \
     (LIMIT_VALUE > LIMIT_REASON ? LIMIT_VALUE : LIMIT_REASON))

/* The length; 0 when it does not fit, which EVENT_BYTES_MAX prevents. */
size_t event_encode(const struct event *event, uint8_t at[EVENT_BYTES_MAX]);
/* The slices point into `bytes`. False: garbled. */
bool event_decode(struct slice bytes, struct event *out);

#endif

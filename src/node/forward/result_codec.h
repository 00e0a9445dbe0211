/* A command's result as bytes, for the way from the leader to the node that the client asked. */
#ifndef HOLDFAST_NODE_FORWARD_RESULT_CODEC_H
#define HOLDFAST_NODE_FORWARD_RESULT_CODEC_H

#include "base/buffer.h"
#include "core/result.h"

/* A result in bytes is never longer. */
#define RESULT_BYTES_MAX (128u << 10)

/* Appends it; false when it does not fit. */
bool result_encode(const struct result *result, struct buffer *out);

/* What a decoded result points to besides the bytes it came from. */
struct result_scratch {
    struct cycle_step cycle[LIMIT_DEADLOCK_CYCLE];
};

/* The slices of `out` point into `bytes`. False: garbled. */
bool result_decode(struct slice bytes, struct result_scratch *scratch, struct result *out);

#endif

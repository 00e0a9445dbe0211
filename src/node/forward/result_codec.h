/* Encodes the result of a command, which the leader sends to the node that forwarded it. */
#ifndef HOLDFAST_NODE_FORWARD_RESULT_CODEC_H
#define HOLDFAST_NODE_FORWARD_RESULT_CODEC_H

#include "base/buffer.h"
#include "core/result.h"

/* Upper bound of an encoded result. */
#define RESULT_BYTES_MAX (128u << 10)

/* Appends the result, encoded for a receiver whose state has at least this version. False: it does
 * not fit. */
bool result_encode(const struct result *result, uint32_t version, struct buffer *out);

/* Memory that a decoded result points to, besides the encoded bytes. */
struct result_scratch {
    struct cycle_step cycle[LIMIT_DEADLOCK_CYCLE];
};

/* The slices of `out` point into `bytes`. False: malformed. */
bool result_decode(struct slice bytes, struct result_scratch *scratch, struct result *out);

#endif

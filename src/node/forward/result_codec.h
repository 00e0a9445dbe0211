/* The result of a command for the node that forwarded it. */
#ifndef HOLDFAST_NODE_FORWARD_RESULT_CODEC_H
#define HOLDFAST_NODE_FORWARD_RESULT_CODEC_H

#include "base/buffer.h"
#include "core/result.h"

#define RESULT_BYTES_MAX (128u << 10)

/* For a receiver of at least this state version. False: it does not fit. */
bool result_encode(const struct result *result, uint32_t version, struct buffer *out);

/* Memory of a decoded result besides the encoded bytes. */
struct result_scratch {
    struct cycle_step cycle[LIMIT_DEADLOCK_CYCLE];
};

/* The slices of `out` point into `bytes`. False: malformed. */
bool result_decode(struct slice bytes, struct result_scratch *scratch, struct result *out);

#endif

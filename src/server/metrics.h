/* The metrics of a node in the text format of Prometheus. */
#ifndef HOLDFAST_SERVER_METRICS_H
#define HOLDFAST_SERVER_METRICS_H

#include "base/buffer.h"
#include "node/node.h"

#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

void metrics_write(const struct node_view *view, const struct gateway_member *members,
                   uint32_t member_count, struct buffer *out);

#endif

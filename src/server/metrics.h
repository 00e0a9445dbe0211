/* The metrics of a node in the text format of Prometheus. */
#ifndef HOLDFAST_SERVER_METRICS_H
#define HOLDFAST_SERVER_METRICS_H

#include "base/buffer.h"
#include "node/node.h"

/* Without tenants that have quotas: no metrics of tenants. */
struct metric_rows {
    const struct gateway_member *members;
    uint32_t member_count;
    const struct node_tenant *tenants; /* at most NODE_TENANTS, which bounds the series */
    uint32_t tenant_count;
};

#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

void metrics_write(const struct node_view *view, const struct metric_rows *rows,
                   struct buffer *out);

/* Nothing without sinks. */
void sink_metrics_write(const struct sink_reports *sinks, struct buffer *out);

#endif

/* The plain page: node, state of the cluster, links. No scripts, images or external resources, so
 * it works in every browser and in curl. The dashboard refers browsers without scripts to it. */
#include "server/pages.h"

#include <inttypes.h>

#include "server/metrics.h"
#include "service/request/sink_report.h"

/* Escapes special characters of HTML. */
static void put_text(struct buffer *out, const char *text)
{
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '<':
            buffer_append_text(out, "&lt;");
            break;
        case '&':
            buffer_append_text(out, "&amp;");
            break;
        case '"':
            buffer_append_text(out, "&quot;");
            break;
        default:
            buffer_append_byte(out, (uint8_t)*text);
            break;
        }
    }
}

static void put_member(struct buffer *out, const struct gateway_member *m, uint64_t leader)
{
    buffer_printf(out, "<tr><td>%" PRIu64 "</td><td>%s</td><td>%s</td><td>", m->id,
                  m->id == leader ? "leader"
                  : m->voter      ? "follower"
                                  : "learner",
                  m->healthy ? "reachable" : "unreachable");
    put_text(out, m->client_address);
    buffer_append_text(out, "</td><td>");
    put_text(out, m->peer_address);
    buffer_append_text(out, "</td><td>");
    if (m->lag != UINT64_MAX) {
        buffer_printf(out, "%" PRIu64, m->lag);
    }
    buffer_append_text(out, "</td></tr>\n");
}

static void put_plain(const struct node_view *v, const struct gateway_member *members,
                      uint32_t count, struct buffer *out)
{
    buffer_printf(out,
                  "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                  "<title>Holdfast, node %" PRIu64 "</title>\n"
                  "<style>body{font:16px sans-serif;margin:2em}td,th{padding:0 1em 0 "
                  "0;text-align:left}</style></head><body>\n<h1>Holdfast, node %" PRIu64 "</h1>\n"
                  "<p>Cluster \"",
                  v->node, v->node);
    put_text(out, v->cluster_name);
    buffer_printf(out, "\" (%016" PRIx64 "%016" PRIx64 "): ", v->cluster.high, v->cluster.low);
    if (v->serving) {
        buffer_printf(out,
                      "node %" PRIu64 " is the leader in term %" PRIu64 " and serves requests."
                      "</p>\n",
                      v->leader, v->term);
    } else {
        buffer_append_text(out, "<b>this node sees no leader with a majority, so no lock is "
                                "granted.</b></p>\n");
    }
    buffer_printf(out,
                  "<p>%" PRIu64 " locks held, %" PRIu64 " waiting, %" PRIu64 " sessions, %" PRIu64
                  " requests answered by this node in %" PRIu64 " s.</p>\n",
                  v->state.grants, v->state.waiters, v->state.sessions, v->requests,
                  v->uptime_ms / 1000);
    buffer_append_text(out,
                       "<table><tr><th>node</th><th>role</th><th>status</th>"
                       "<th>client address</th><th>peer address</th><th>lag (entries)</th></tr>\n");
    for (uint32_t i = 0; i < count; i++) {
        put_member(out, &members[i], v->leader);
    }
    buffer_append_text(
        out, "</table>\n<p><a href=\"/api/v1/cluster\">cluster</a> "
             "<a href=\"/api/v1/locks\">locks</a> <a href=\"/api/v1/sessions\">sessions</a> "
             "<a href=\"/api/v1/audit\">audit</a> <a href=\"/metrics\">metrics</a> "
             "<a href=\"/readyz?verbose\">readyz</a> <a href=\"/openapi.yaml\">the API</a></p>\n"
             "</body></html>\n");
}

bool pages_write(struct node *node, struct slice path, struct buffer *out,
                 const char **content_type)
{
    bool is_plain = slice_equal(path, slice_of("/plain"));
    struct node_view view;
    struct gateway_member members[LIMIT_NODES];
    if (!is_plain && !slice_equal(path, slice_of("/metrics"))) {
        return false;
    }
    node_view(node, &view);
    uint32_t count = node_members(node, members, LIMIT_NODES);
    if (is_plain) {
        *content_type = "text/html; charset=utf-8";
        put_plain(&view, members, count, out);
    } else {
        *content_type = METRICS_CONTENT_TYPE;
        struct node_tenant tenants[NODE_TENANTS];
        struct metric_rows rows = {members, count, tenants,
                                   node_tenants(node, tenants, NODE_TENANTS)};
        struct sink_reports sinks;
        metrics_write(&view, &rows, out);
        node_sink_reports(node, &sinks);
        sink_metrics_write(&sinks, out);
    }
    return true;
}

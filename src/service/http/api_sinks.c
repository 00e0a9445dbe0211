/* GET /api/v1/sinks: the event sinks as the leader sees them, from any node. */
#include <inttypes.h>
#include <stdio.h>

#include "service/http/api.h"
#include "service/request/sink_report.h"

enum { POSITION_TEXT = 48 };

static void put_position(struct json_writer *w, const struct sink_report *sink)
{
    char text[POSITION_TEXT];
    (void)snprintf(text, sizeof(text), "%" PRIu64 "-%" PRIu32, sink->index, sink->ordinal);
    json_put_text(w, "position", text);
}

static void put_gap(struct json_writer *w, const struct sink_report *sink)
{
    if (sink->gaps == 0) {
        json_put_null(w, "last_gap");
        return;
    }
    json_put_open(w, "last_gap", '{');
    json_put_u64(w, "from", sink->gap_from);
    json_put_u64(w, "to", sink->gap_to);
    json_write_close(w);
}

static void put_trouble(struct json_writer *w, const struct sink_report *sink)
{
    if (sink->trouble.len == 0) {
        json_put_null(w, "last_error");
        return;
    }
    json_put_open(w, "last_error", '{');
    json_put_string(w, "message", sink->trouble);
    json_put_time(w, "time", sink->trouble_ms);
    json_write_close(w);
}

static void put_sink(struct json_writer *w, const struct sink_report *sink)
{
    json_write_open(w, '{');
    json_put_string(w, "name", sink->name);
    json_put_text(w, "state",
                  !sink->leads       ? "stopped"
                  : sink->is_failing ? "failing"
                  : sink->lag_ms > 0 ? "delivering"
                                     : "idle");
    put_position(w, sink);
    json_put_u64(w, "lag_entries", sink->lag_entries);
    json_put_u64(w, "lag_ms", sink->lag_ms);
    json_put_u64(w, "delivered", sink->delivered);
    json_put_u64(w, "failures", sink->failures);
    json_put_u64(w, "gaps", sink->gaps);
    put_gap(w, sink);
    put_trouble(w, sink);
    json_write_close(w);
}

static void render_sinks(struct api_request *x, const struct result *r, struct json_writer *w)
{
    struct sink_reports reports;
    (void)r;
    if (!sink_reports_read(x->service->looked, &reports)) {
        x->refused = HF_NOT_UPGRADED;
        return;
    }
    json_put_u64(w, "node", x->service->node);
    json_put_u64(w, "leader", reports.node);
    json_put_open(w, "sinks", '[');
    for (uint32_t i = 0; i < reports.count; i++) {
        put_sink(w, &reports.rows[i]);
    }
    json_write_close(w);
}

void api_sinks(struct api_request *x)
{
    uint8_t query[LEADER_QUERY_HEAD];
    size_t len = sink_reports_query(query);
    api_request_query(x, slice_make(query, len), render_sinks);
}

/* Metrics of event sinks. The label `sink` has at most NODE_SINKS values. */
#include <inttypes.h>

#include "server/metrics.h"
#include "service/request/sink_report.h"

enum sink_unit { SINK_COUNTER, SINK_GAUGE, SINK_FLAG, SINK_SECONDS };

struct sink_metric {
    const char *name;
    enum sink_unit unit;
    bool of_leader; /* left out on nodes whose sinks do not deliver */
    size_t offset;
    const char *help;
};

#define FIELD(type, member) \
    _Generic(&((struct sink_report *)NULL)->member, type * : offsetof(struct sink_report, member))

/* clang-format off */
static const struct sink_metric table[] = {
    {"delivered_total", SINK_COUNTER, false, FIELD(uint64_t, delivered), "Events that this node delivered to the sink since start, repetitions included."},
    {"failed_total", SINK_COUNTER, false, FIELD(uint64_t, failures), "Failed attempts of this node to deliver to the sink since start."},
    {"gaps_total", SINK_COUNTER, false, FIELD(uint64_t, gaps), "Gaps that this node declared to the sink since start, because the event log did not have the events any more."},
    {"failing", SINK_FLAG, false, FIELD(bool, is_failing), "1 if the last attempt of this node as leader to deliver to the sink failed, else 0."},
    {"position", SINK_GAUGE, false, FIELD(uint64_t, index), "Index of the log entry up to which the sink has all events; on followers the replicated one, which is at most a second older while the sink works."},
    {"lag_entries", SINK_GAUGE, true, FIELD(uint64_t, lag_entries), "Log entries between the last delivered event and the newest event; only on the leader."},
    {"lag_seconds", SINK_SECONDS, true, FIELD(uint64_t, lag_ms), "Age of the oldest event that the sink does not have yet, in seconds; only on the leader."},
};
/* clang-format on */

static void put_value(const struct sink_report *sink, const struct sink_metric *m,
                      struct buffer *out)
{
    const char *at = (const char *)sink + m->offset;
    uint64_t value = 0;
    if (m->unit == SINK_FLAG) {
        value = *(const bool *)at;
    } else {
        memcpy(&value, at, sizeof(value));
    }
    buffer_printf(out, "holdfast_sink_%s{sink=\"%.*s\"} ", m->name, (int)sink->name.len,
                  (const char *)sink->name.data);
    if (m->unit == SINK_SECONDS) {
        buffer_printf(out, "%" PRIu64 ".%03" PRIu64 "\n", value / 1000, value % 1000);
    } else {
        buffer_printf(out, "%" PRIu64 "\n", value);
    }
}

static bool has_value(const struct sink_report *sink, const struct sink_metric *m)
{
    return !m->of_leader || sink->leads;
}

void sink_metrics_write(const struct sink_reports *sinks, struct buffer *out)
{
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        bool has_title = false;
        for (uint32_t j = 0; j < sinks->count; j++) {
            if (!has_value(&sinks->rows[j], &table[i])) {
                continue;
            }
            if (!has_title) {
                buffer_printf(out, "# HELP holdfast_sink_%s %s\n# TYPE holdfast_sink_%s %s\n",
                              table[i].name, table[i].help, table[i].name,
                              table[i].unit == SINK_COUNTER ? "counter" : "gauge");
                has_title = true;
            }
            put_value(&sinks->rows[j], &table[i], out);
        }
    }
}

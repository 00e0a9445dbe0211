/* The state of the event sinks, which the leader has: GET /api/v1/sinks. */
#ifndef HOLDFAST_SERVICE_REQUEST_SINK_REPORT_H
#define HOLDFAST_SERVICE_REQUEST_SINK_REPORT_H

#include "base/buffer.h"
#include "base/limits.h"
#include "core/field.h"
#include "service/request/leader_query.h"

/* Of one sink. Totals are those of the node since its start. `index` and `ordinal`: of the last
 * delivered event. `trouble`: the last, also after the recovery; `trouble_ms`: its wall clock time. */
#define SINK_REPORT_FIELDS(F)                   \
    F(NOW, 7, slice, name, LIMIT_SINK_NAME)     \
    F(NOW, 7, flag, leads, 1)                   \
    F(NOW, 7, flag, is_failing, 1)              \
    F(NOW, 7, u64, index, UINT64_MAX)           \
    F(NOW, 7, u32, ordinal, UINT32_MAX)         \
    F(NOW, 7, u64, lag_entries, UINT64_MAX)     \
    F(NOW, 7, u64, lag_ms, UINT64_MAX)          \
    F(NOW, 7, u64, delivered, UINT64_MAX)       \
    F(NOW, 7, u64, failures, UINT64_MAX)        \
    F(NOW, 7, u64, gaps, UINT64_MAX)            \
    F(NOW, 7, u64, gap_from, UINT64_MAX)        \
    F(NOW, 7, u64, gap_to, UINT64_MAX)          \
    F(NOW, 7, slice, trouble, SINK_REPORT_TEXT) \
    F(NOW, 7, u64, trouble_ms, UINT64_MAX)

enum { SINK_REPORT_ROWS = 4, SINK_REPORT_TEXT = 512 };

struct sink_report {
    SINK_REPORT_FIELDS(FIELD_MEMBER)
};

struct sink_reports {
    uint64_t node; /* the leader */
    uint32_t count;
    struct sink_report rows[SINK_REPORT_ROWS];
};

size_t sink_reports_query(uint8_t at[LEADER_QUERY_HEAD]);
/* On the leader. False: the query has an unknown format, or the answer does not fit. */
bool sink_reports_answer(const struct sink_reports *reports, struct slice query,
                         struct buffer *out);
/* On any node. False: the leader's program has no sinks. Texts point into `answer`. */
bool sink_reports_read(struct slice answer, struct sink_reports *out);

#endif

/* See sink_report.h. */
#include "service/request/sink_report.h"

enum { REPORTS_BYTES = 64 + SINK_REPORT_ROWS * (LIMIT_SINK_NAME + SINK_REPORT_TEXT + 160) };

size_t sink_reports_query(uint8_t at[LEADER_QUERY_HEAD])
{
    return leader_query_begin(QUERY_SINKS, at);
}

static void put(struct writer *w, uint32_t version, const struct sink_report *f)
{
    SINK_REPORT_FIELDS(FIELD_PUT)
}

static void take(struct reader *r, uint32_t version, struct sink_report *f)
{
    SINK_REPORT_FIELDS(FIELD_TAKE)
}

bool sink_reports_answer(const struct sink_reports *reports, struct slice query, struct buffer *out)
{
    struct writer w;
    uint32_t version = leader_answer_begin(query, REPORTS_BYTES, out, &w);
    if (version == 0 || query.len != LEADER_QUERY_HEAD) {
        return false;
    }
    write_u64(&w, reports->node);
    write_u64(&w, reports->count);
    for (uint32_t i = 0; i < reports->count; i++) {
        put(&w, version, &reports->rows[i]);
    }
    leader_answer_end(&w, out);
    return true;
}

bool sink_reports_read(struct slice answer, struct sink_reports *out)
{
    struct reader r;
    uint32_t version = leader_answer_read(answer, &r);
    if (version == 0) {
        return false;
    }
    out->node = read_u64(&r);
    uint64_t count = read_u64(&r);
    if (count > SINK_REPORT_ROWS) {
        return false;
    }
    out->count = (uint32_t)count;
    for (uint32_t i = 0; i < out->count; i++) {
        take(&r, version, &out->rows[i]);
    }
    return reader_done(&r);
}

/* See sink_report.h. */
#include "service/request/sink_report.h"

enum { REPORTS_BYTES = 64 + SINK_REPORT_ROWS * (LIMIT_SINK_NAME + SINK_REPORT_TEXT + 160) };

size_t sink_reports_query(uint8_t at[LEADER_QUERY_HEAD])
{
    at[0] = record_format(CORE_VERSION);
    at[1] = QUERY_SINKS;
    return LEADER_QUERY_HEAD;
}

/* 0: not known here. */
static uint32_t version_of(struct slice record)
{
    uint32_t version = record.len == 0 ? 0 : record_version(record.data[0]);
    return version > CORE_VERSION ? 0 : version;
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
    uint32_t version = version_of(query);
    uint8_t *space = buffer_reserve(out, REPORTS_BYTES);
    if (version == 0 || query.len != LEADER_QUERY_HEAD || space == NULL) {
        return false;
    }
    struct writer w = writer_make(space, REPORTS_BYTES);
    write_u8(&w, record_format(version));
    write_u64(&w, reports->node);
    write_u64(&w, reports->count);
    for (uint32_t i = 0; i < reports->count; i++) {
        put(&w, version, &reports->rows[i]);
    }
    hf_assert(!w.full);
    buffer_commit(out, (size_t)(w.at - space));
    return true;
}

bool sink_reports_read(struct slice answer, struct sink_reports *out)
{
    uint32_t version = version_of(answer);
    if (version == 0) {
        return false;
    }
    struct reader r = reader_make(answer);
    (void)read_u8(&r);
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

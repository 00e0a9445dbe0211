/* See leader_stats.h. */
#include "service/request/leader_stats.h"

enum { STATS_BYTES = 1024 };

static void field_clear_pair(struct latency_pair *field)
{
    *field = (struct latency_pair){0, 0};
}

static void field_put_pair(struct writer *w, uint32_t version, const struct latency_pair *field)
{
    (void)version;
    write_u64(w, field->p50_us);
    write_u64(w, field->p99_us);
}

static void field_take_pair(struct reader *r, uint32_t version, struct latency_pair *field,
                            uint64_t max)
{
    (void)version;
    (void)max;
    field->p50_us = read_u64(r);
    field->p99_us = read_u64(r);
}

size_t leader_stats_query(uint8_t at[LEADER_QUERY_HEAD])
{
    at[0] = record_format(CORE_VERSION);
    at[1] = QUERY_STATS;
    return LEADER_QUERY_HEAD;
}

/* 0: not known here. */
static uint32_t version_of(struct slice record)
{
    uint32_t version = record.len == 0 ? 0 : record_version(record.data[0]);
    return version > CORE_VERSION ? 0 : version;
}

bool leader_stats_answer(const struct leader_stats *f, struct slice query, struct buffer *out)
{
    uint32_t version = version_of(query);
    uint8_t *space = buffer_reserve(out, STATS_BYTES);
    if (version == 0 || query.len != LEADER_QUERY_HEAD || space == NULL) {
        return false;
    }
    struct writer writer = writer_make(space, STATS_BYTES);
    struct writer *w = &writer;
    write_u8(w, record_format(version));
    LEADER_STATS_FIELDS(FIELD_PUT)
    hf_assert(!w->full);
    buffer_commit(out, (size_t)(w->at - space));
    return true;
}

bool leader_stats_read(struct slice answer, struct leader_stats *f)
{
    uint32_t version = version_of(answer);
    if (version == 0) {
        return false;
    }
    struct reader reader = reader_make(answer);
    struct reader *r = &reader;
    (void)read_u8(r);
    LEADER_STATS_FIELDS(FIELD_TAKE)
    return reader_done(r);
}

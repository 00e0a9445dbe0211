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
    return leader_query_begin(QUERY_STATS, at);
}

bool leader_stats_answer(const struct leader_stats *f, struct slice query, struct buffer *out)
{
    struct writer writer;
    struct writer *w = &writer;
    uint32_t version = leader_answer_begin(query, STATS_BYTES, out, w);
    if (version == 0 || query.len != LEADER_QUERY_HEAD) {
        return false;
    }
    LEADER_STATS_FIELDS(FIELD_PUT)
    leader_answer_end(w, out);
    return true;
}

bool leader_stats_read(struct slice answer, struct leader_stats *f)
{
    struct reader reader;
    struct reader *r = &reader;
    uint32_t version = leader_answer_read(answer, r);
    if (version == 0) {
        return false;
    }
    LEADER_STATS_FIELDS(FIELD_TAKE)
    return reader_done(r);
}

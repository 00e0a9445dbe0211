/* See leader_hot.h. */
#include "service/request/leader_hot.h"

#include <inttypes.h>
#include <stdio.h>

enum { HEAD_BYTES = 64, ROW_BYTES = 4 + 4 + 8 + 8 + HOT_PREFIX_MAX };

const char *hot_by_name(enum hot_by by)
{
    static const char *const names[HOT_BY_COUNT] = {
#define X(symbol, word) word,
        HOT_BY_LIST(X)
#undef X
    };
    hf_assert((unsigned)by < HOT_BY_COUNT);
    return names[by];
}

size_t leader_hot_query(enum hot_by by, uint32_t limit, uint8_t at[LEADER_HOT_QUERY])
{
    hf_assert(limit <= HOT_ROWS_MAX);
    (void)leader_query_begin(QUERY_HOT, at);
    at[2] = (uint8_t)by;
    at[3] = (uint8_t)limit;
    return LEADER_HOT_QUERY;
}

bool leader_hot_requested(struct slice query, enum hot_by *by, uint32_t *limit)
{
    if (query.len != LEADER_HOT_QUERY || query.data[2] >= HOT_BY_COUNT ||
        query.data[3] > HOT_ROWS_MAX) {
        return false;
    }
    *by = (enum hot_by)query.data[2];
    *limit = query.data[3];
    return true;
}

bool leader_hot_answer(const struct leader_hot *f, struct slice query, struct buffer *out)
{
    size_t size = HEAD_BYTES + f->count * (size_t)ROW_BYTES;
    struct writer writer;
    struct writer *w = &writer;
    uint32_t version = leader_answer_begin(query, size, out, w);
    if (version == 0) {
        return false;
    }
    LEADER_HOT_FIELDS(FIELD_PUT)
    for (uint32_t i = 0; i < f->count; i++) {
        const struct hot_row *row = &f->rows[i];
        write_u64(w, row->tenant);
        write_u64(w, row->weight);
        write_u64(w, row->error);
        write_slice(w, slice_make(row->prefix, row->prefix_len));
    }
    leader_answer_end(w, out);
    return true;
}

bool leader_hot_read(struct slice answer, struct leader_hot *f)
{
    struct reader reader;
    struct reader *r = &reader;
    uint32_t version = leader_answer_read(answer, r);
    if (version == 0) {
        return false;
    }
    LEADER_HOT_FIELDS(FIELD_TAKE)
    for (uint32_t i = 0; i < f->count && !r->bad; i++) {
        struct hot_row *row = &f->rows[i];
        row->tenant = read_u32(r);
        row->weight = read_u64(r);
        row->error = read_u64(r);
        struct slice prefix = read_slice(r, HOT_PREFIX_MAX);
        row->prefix_len = (uint32_t)prefix.len;
        if (prefix.len > 0) {
            memcpy(row->prefix, prefix.data, prefix.len);
        }
    }
    return reader_done(r);
}

double hot_per_second(const struct leader_hot *hot, uint64_t weight)
{
    bool is_time = hot->by == HOT_HOLD || hot->by == HOT_WAIT;
    double seconds = hot->window_us < 1000000 ? 1 : (double)hot->window_us / 1000000;
    return (double)weight / (is_time ? 1000000 : HOT_EVENT) / seconds;
}

struct slice hot_tenant(const struct policy *policy, const struct hot_row *row,
                        char text[HOT_TENANT_TEXT])
{
    struct tenant_view tenant;
    if (policy_tenant(policy, row->tenant, &tenant)) {
        return tenant.name;
    }
    (void)snprintf(text, HOT_TENANT_TEXT, "%" PRIu32, row->tenant);
    return slice_of(text);
}

double hot_share(const struct leader_hot *hot, const struct hot_row *row)
{
    return hot->total == 0 ? 0 : (double)row->weight / (double)hot->total;
}

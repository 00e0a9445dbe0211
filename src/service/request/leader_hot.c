/* See leader_hot.h. */
#include "service/request/leader_hot.h"

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
    at[0] = record_format(CORE_VERSION);
    at[1] = QUERY_HOT;
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

/* 0: not known here. */
static uint32_t version_of(struct slice record)
{
    uint32_t version = record.len == 0 ? 0 : record_version(record.data[0]);
    return version > CORE_VERSION ? 0 : version;
}

bool leader_hot_answer(const struct leader_hot *f, struct slice query, struct buffer *out)
{
    size_t size = HEAD_BYTES + f->count * (size_t)ROW_BYTES;
    uint32_t version = version_of(query);
    uint8_t *space = buffer_reserve(out, size);
    if (version == 0 || space == NULL) {
        return false;
    }
    struct writer writer = writer_make(space, size);
    struct writer *w = &writer;
    write_u8(w, record_format(version));
    LEADER_HOT_FIELDS(FIELD_PUT)
    for (uint32_t i = 0; i < f->count; i++) {
        const struct hot_row *row = &f->rows[i];
        write_u64(w, row->tenant);
        write_u64(w, row->weight);
        write_u64(w, row->error);
        write_slice(w, slice_make(row->prefix, row->prefix_len));
    }
    hf_assert(!w->full);
    buffer_commit(out, (size_t)(w->at - space));
    return true;
}

bool leader_hot_read(struct slice answer, struct leader_hot *f)
{
    uint32_t version = version_of(answer);
    if (version == 0) {
        return false;
    }
    struct reader reader = reader_make(answer);
    struct reader *r = &reader;
    (void)read_u8(r);
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

/* See leader_query.h. */
#include "service/request/leader_query.h"

size_t leader_query_begin(enum leader_query kind, uint8_t at[LEADER_QUERY_HEAD])
{
    at[0] = record_format(CORE_VERSION);
    at[1] = (uint8_t)kind;
    return LEADER_QUERY_HEAD;
}

uint32_t leader_query_version(struct slice record)
{
    uint32_t version = record.len == 0 ? 0 : record_version(record.data[0]);
    return version > CORE_VERSION ? 0 : version;
}

uint32_t leader_answer_begin(struct slice query, size_t max, struct buffer *out, struct writer *w)
{
    uint32_t version = leader_query_version(query);
    uint8_t *space = version == 0 ? NULL : buffer_reserve(out, max);
    if (space == NULL) {
        return 0;
    }
    *w = writer_make(space, max);
    write_u8(w, record_format(version));
    return version;
}

void leader_answer_end(const struct writer *w, struct buffer *out)
{
    hf_assert(!w->full);
    buffer_commit(out, (size_t)(w->at - (out->data + out->end)));
}

uint32_t leader_answer_read(struct slice answer, struct reader *r)
{
    *r = reader_make(answer);
    (void)read_u8(r);
    return leader_query_version(answer);
}

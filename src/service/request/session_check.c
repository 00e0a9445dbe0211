/* See session_check.h. The answer is its format, the number of checks, and one byte for each. */
#include "service/request/session_check.h"

void session_checks_begin(struct writer *w, uint32_t version, uint32_t count)
{
    hf_assert(count <= SESSION_CHECKS_MAX);
    write_u8(w, record_format(version));
    write_u8(w, QUERY_SESSION_CHECKS);
    write_u64(w, count);
}

void session_checks_put(struct writer *w, const struct session_check *check)
{
    write_id(w, check->session);
    write_u64(w, check->tokens.count);
    write_fixed64(w, check->tokens.xor_of_all);
}

static enum session_check_outcome compare(const struct core *core, const struct core *memory,
                                          const struct session_check *check)
{
    if (memory == NULL) {
        return SESSION_UNKNOWN;
    }
    struct token_sum here = view_session_tokens(core, check->session);
    struct token_sum there = view_session_tokens(memory, check->session);
    bool is_same = here.count + there.count == check->tokens.count &&
                   (here.xor_of_all ^ there.xor_of_all) == check->tokens.xor_of_all;
    return is_same ? SESSION_SAME : SESSION_DIFFERS;
}

bool session_checks_answer(const struct core *core, const struct core *memory, struct slice query,
                           struct buffer *out)
{
    struct reader r = reader_make(query);
    uint8_t format = read_u8(&r);
    uint32_t version = record_version(format);
    (void)read_u8(&r);
    uint64_t count = read_u64(&r);
    if (r.bad || version == 0 || version > CORE_VERSION || count > SESSION_CHECKS_MAX) {
        return false;
    }
    uint8_t *space = buffer_reserve(out, SESSION_CHECKS_BYTES(count));
    if (space == NULL) {
        return false;
    }
    struct writer w = writer_make(space, SESSION_CHECKS_BYTES(count));
    write_u8(&w, format);
    write_u64(&w, count);
    for (uint64_t i = 0; i < count; i++) {
        struct session_check check = {.session = read_id(&r)};
        check.tokens.count = read_u32(&r);
        check.tokens.xor_of_all = read_fixed64(&r);
        write_u8(&w, r.bad ? SESSION_UNKNOWN : (uint8_t)compare(core, memory, &check));
    }
    if (!reader_done(&r)) {
        return false;
    }
    hf_assert(!w.full);
    buffer_commit(out, (size_t)(w.at - space));
    return true;
}

struct slice session_checks_read(struct slice answer, uint32_t count)
{
    struct reader r = reader_make(answer);
    uint32_t version = record_version(read_u8(&r));
    uint64_t found = read_u64(&r);
    if (r.bad || version == 0 || version > CORE_VERSION || found != count ||
        reader_left(&r) != count) {
        return slice_make(NULL, 0);
    }
    struct slice outcomes = slice_make(r.at, count);
    for (uint32_t i = 0; i < count; i++) {
        if (outcomes.data[i] >= SESSION_OUTCOMES) {
            return slice_make(NULL, 0);
        }
    }
    return outcomes;
}

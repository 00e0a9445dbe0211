/* Encodes results by RESULT_FIELDS. */
#include "node/forward/result_codec.h"

/* Answers of a keep-alive; `count` has another meaning in other results. */
static uint32_t alive_count(const struct result *result)
{
    return result->type == COMMAND_KEEPALIVE && result->error == HF_OK ? result->count : 0;
}

bool result_encode(const struct result *f, uint32_t version, struct buffer *out)
{
    uint8_t *space = buffer_reserve(out, RESULT_BYTES_MAX);
    if (space == NULL) {
        return false;
    }
    struct writer writer = writer_make(space, RESULT_BYTES_MAX);
    struct writer *w = &writer;
    write_u8(w, record_format(version));
    RESULT_FIELDS(FIELD_PUT)
    write_bytes(w, f->alive, alive_count(f));
    write_u64(w, f->cycle_length);
    for (uint32_t i = 0; i < f->cycle_length; i++) {
        write_slice(w, f->cycle[i].client);
        write_slice(w, f->cycle[i].owner);
        write_slice(w, f->cycle[i].name);
    }
    if (w->full) {
        return false;
    }
    buffer_commit(out, (size_t)(w->at - space));
    return true;
}

static void read_fields(struct reader *r, uint32_t version, struct result *f)
{
    RESULT_FIELDS(FIELD_TAKE)
}

bool result_decode(struct slice bytes, struct result_scratch *scratch, struct result *out)
{
    struct reader r = reader_make(bytes);
    memset(out, 0, sizeof(*out));
    uint32_t version = record_version(read_u8(&r));
    if (r.bad || version == 0 || version > CORE_VERSION) {
        return false;
    }
    read_fields(&r, version, out);
    uint32_t alive = r.bad ? 0 : alive_count(out);
    if (alive > LIMIT_KEEPALIVE_IDS || alive > reader_left(&r)) {
        return false;
    }
    if (alive > 0) {
        out->alive = r.at;
        r.at += alive;
        for (uint32_t i = 0; i < alive; i++) {
            r.bad = r.bad || out->alive[i] >= HF_ERROR_COUNT;
        }
    }
    out->cycle_length = read_u32(&r);
    if (r.bad || out->cycle_length > LIMIT_DEADLOCK_CYCLE) {
        return false;
    }
    out->cycle = out->cycle_length > 0 ? scratch->cycle : NULL;
    for (uint32_t i = 0; i < out->cycle_length; i++) {
        scratch->cycle[i].client = read_slice(&r, LIMIT_CLIENT);
        scratch->cycle[i].owner = read_slice(&r, LIMIT_OWNER);
        scratch->cycle[i].name = read_slice(&r, LIMIT_NAME);
    }
    return reader_done(&r);
}

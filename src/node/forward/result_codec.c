/* Encodes results: one table lists every field, its kind and its largest value, for both
 * directions. A missing field would be zero on followers only, so a test fills every byte of a
 * result and compares. */
#include "node/forward/result_codec.h"

#include "base/codec.h"

/* Format of relayed results; nodes may differ in version during an upgrade. */
#define RESULT_FORMAT 1u

enum kind { NUMBER, ID, BYTES };

struct field {
    enum kind kind;
    uint32_t offset;
    uint32_t size;
    uint64_t max; /* of a number, or of a length */
};

#define N(member, max_)                                                                     \
    {                                                                                       \
        NUMBER, offsetof(struct result, member), sizeof(((struct result *)0)->member), max_ \
    }
#define I(member)                                                 \
    {                                                             \
        ID, offsetof(struct result, member), sizeof(struct id), 0 \
    }
#define S(member, max_)                                                    \
    {                                                                      \
        BYTES, offsetof(struct result, member), sizeof(struct slice), max_ \
    }

/* The order is the format: new fields go to the end, with a new RESULT_FORMAT. */
static const struct field fields[] = {
    N(type, COMMAND_COUNT - 1),
    N(error, HF_ERROR_COUNT - 1),
    N(outcome, OUTCOME_REFUSED),
    N(reason, REASON_COUNT - 1),
    N(ended, ENDED_COUNT - 1),
    N(replayed, 1),
    N(deadlock_unchecked, 1),
    N(accepted, 1),
    N(mode, MODE_COUNT - 1),
    N(token, LIMIT_NUMBER - 1),
    I(lease),
    N(deadline_ms, UINT64_MAX),
    N(ttl_ms, UINT64_MAX),
    N(attachment, UINT64_MAX),
    N(wait_deadline_ms, UINT64_MAX),
    N(delayed_until_ms, UINT64_MAX),
    N(highest, UINT64_MAX),
    N(slot, UINT32_MAX),
    N(depth, UINT32_MAX),
    N(queue_length, UINT32_MAX),
    N(queue_position, UINT32_MAX),
    N(count, UINT32_MAX),
    N(more, 1),
    N(has_holder, 1),
    N(holders, UINT32_MAX),
    S(holder.client, LIMIT_CLIENT),
    S(holder.owner, LIMIT_OWNER),
    S(holder.metadata, LIMIT_METADATA),
    N(holder.mode, MODE_COUNT - 1),
    N(holder.permits, UINT32_MAX),
    N(holder.since_ms, UINT64_MAX),
    N(holder.deadline_ms, UINT64_MAX),
    S(reserved_for, LIMIT_CLIENT),
    S(name, LIMIT_NAME),
};

enum { FIELDS = sizeof(fields) / sizeof(fields[0]) };

static uint64_t get_number(const struct result *result, const struct field *field)
{
    const uint8_t *at = (const uint8_t *)result + field->offset;
    uint64_t wide;
    uint32_t word;
    switch (field->size) {
    case 1:
        return *at;
    case 4:
        memcpy(&word, at, sizeof(word));
        return word;
    default:
        hf_assert(field->size == 8);
        memcpy(&wide, at, sizeof(wide));
        return wide;
    }
}

static void set_number(struct result *result, const struct field *field, uint64_t value)
{
    uint8_t *at = (uint8_t *)result + field->offset;
    uint8_t byte = (uint8_t)value;
    uint32_t word = (uint32_t)value;
    switch (field->size) {
    case 1:
        memcpy(at, &byte, sizeof(byte));
        break;
    case 4:
        memcpy(at, &word, sizeof(word));
        break;
    default:
        memcpy(at, &value, sizeof(value));
        break;
    }
}

/* The number of answers of a keep-alive; `count` has another meaning in other results. */
static uint32_t alive_count(const struct result *result)
{
    return result->type == COMMAND_KEEPALIVE && result->error == HF_OK ? result->count : 0;
}

static void write_fields(struct writer *w, const struct result *result)
{
    for (unsigned i = 0; i < FIELDS; i++) {
        const struct field *field = &fields[i];
        const uint8_t *at = (const uint8_t *)result + field->offset;
        struct slice slice;
        struct id id;
        switch (field->kind) {
        case NUMBER:
            write_u64(w, get_number(result, field));
            break;
        case ID:
            memcpy(&id, at, sizeof(id));
            write_id(w, id);
            break;
        case BYTES:
            memcpy(&slice, at, sizeof(slice));
            write_slice(w, slice);
            break;
        }
    }
}

bool result_encode(const struct result *result, struct buffer *out)
{
    uint8_t *space = buffer_reserve(out, RESULT_BYTES_MAX);
    if (space == NULL) {
        return false;
    }
    struct writer w = writer_make(space, RESULT_BYTES_MAX);
    write_u8(&w, RESULT_FORMAT);
    write_fields(&w, result);
    write_bytes(&w, result->alive, alive_count(result));
    write_u64(&w, result->cycle_length);
    for (uint32_t i = 0; i < result->cycle_length; i++) {
        write_slice(&w, result->cycle[i].client);
        write_slice(&w, result->cycle[i].owner);
        write_slice(&w, result->cycle[i].name);
    }
    if (w.full) {
        return false;
    }
    buffer_commit(out, (size_t)(w.at - space));
    return true;
}

static void read_fields(struct reader *r, struct result *out)
{
    for (unsigned i = 0; i < FIELDS; i++) {
        const struct field *field = &fields[i];
        uint8_t *at = (uint8_t *)out + field->offset;
        if (field->kind == NUMBER) {
            uint64_t value = read_u64(r);
            if (value > field->max) {
                r->bad = true;
            }
            set_number(out, field, r->bad ? 0 : value);
        } else if (field->kind == ID) {
            struct id id = read_id(r);
            memcpy(at, &id, sizeof(id));
        } else {
            struct slice slice = read_slice(r, field->max);
            memcpy(at, &slice, sizeof(slice));
        }
    }
}

bool result_decode(struct slice bytes, struct result_scratch *scratch, struct result *out)
{
    struct reader r = reader_make(bytes);
    memset(out, 0, sizeof(*out));
    if (read_u8(&r) != RESULT_FORMAT) {
        return false;
    }
    read_fields(&r, out);
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

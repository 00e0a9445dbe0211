/* Encoding, decoding and digests of commands, generated from the list in command.h. */
#include "core/command.h"

#include "base/codec.h"
#include "base/panic.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

/* The first byte of each command; a new layout gets another value. */
#define COMMAND_FORMAT 1

const char *mode_name(enum mode mode)
{
    static const char *const names[MODE_COUNT] = {"exclusive", "shared", "semaphore", "election"};
    hf_assert((unsigned)mode < MODE_COUNT);
    return names[mode];
}

const char *command_name(enum command_type type)
{
    static const char *const names[COMMAND_COUNT] = {"none",
#define X(symbol, name) #name,
                                                     COMMAND_LIST(X)
#undef X
    };
    hf_assert((unsigned)type < COMMAND_COUNT);
    return names[type];
}

struct id ids_at(const struct ids *ids, uint32_t i)
{
    hf_assert(i < ids->count);
    struct reader r = reader_make(slice_make(ids->packed + (size_t)i * 16, 16));
    uint64_t high = read_fixed64(&r);
    return (struct id){high, read_fixed64(&r)};
}

/* Fields: how each type is cleared, written, read and digested. */

static void clear_u32(uint32_t *field)
{
    *field = 0;
}

static void clear_u64(uint64_t *field)
{
    *field = 0;
}

static void clear_id(struct id *field)
{
    *field = (struct id){0, 0};
}

static void clear_ids(struct ids *field)
{
    *field = (struct ids){0, NULL};
}

static void clear_slice(struct slice *field)
{
    *field = slice_make(NULL, 0);
}

static void clear_names(struct names *field)
{
    field->count = 0;
}

static void clear_checks(struct packed *field)
{
    *field = (struct packed){0, {NULL, 0}};
}

static void clear_effects(struct packed *field)
{
    clear_checks(field);
}

static void put_u32(struct writer *w, const uint32_t *field)
{
    write_u64(w, *field);
}

static void put_u64(struct writer *w, const uint64_t *field)
{
    write_u64(w, *field);
}

static void put_id(struct writer *w, const struct id *field)
{
    write_id(w, *field);
}

static void put_ids(struct writer *w, const struct ids *field)
{
    write_u64(w, field->count);
    write_bytes(w, field->packed, (size_t)field->count * 16);
}

static void put_slice(struct writer *w, const struct slice *field)
{
    write_slice(w, *field);
}

static void put_names(struct writer *w, const struct names *field)
{
    write_u64(w, field->count);
    for (uint32_t i = 0; i < field->count; i++) {
        write_slice(w, field->at[i]);
    }
}

static void put_checks(struct writer *w, const struct packed *field)
{
    write_u64(w, field->count);
    write_slice(w, field->bytes);
}

static void put_effects(struct writer *w, const struct packed *field)
{
    put_checks(w, field);
}

static void take_u64(struct reader *r, uint64_t *field, uint64_t max)
{
    *field = read_u64(r);
    if (*field > max) {
        r->bad = true;
    }
}

static void take_u32(struct reader *r, uint32_t *field, uint64_t max)
{
    uint64_t value = 0;
    take_u64(r, &value, max);
    *field = (uint32_t)value;
}

static void take_id(struct reader *r, struct id *field, uint64_t max)
{
    (void)max;
    *field = read_id(r);
}

static void take_ids(struct reader *r, struct ids *field, uint64_t max)
{
    uint64_t count = read_u64(r);
    if (r->bad || count > max || count * 16 > reader_left(r)) {
        r->bad = true;
        count = 0;
    }
    *field = (struct ids){(uint32_t)count, r->at};
    r->at += count * 16;
}

static void take_slice(struct reader *r, struct slice *field, uint64_t max)
{
    *field = read_slice(r, (size_t)max);
}

static void take_names(struct reader *r, struct names *field, uint64_t max)
{
    uint64_t count = read_u64(r);
    if (r->bad || count > max) {
        r->bad = true;
        count = 0;
    }
    field->count = (uint32_t)count;
    for (uint32_t i = 0; i < field->count; i++) {
        field->at[i] = read_slice(r, LIMIT_NAME);
    }
}

/* Checks the elements, too, so that every entry that was decoded can be applied completely. */
static void take_checks(struct reader *r, struct packed *field, uint64_t max)
{
    uint64_t count = read_u64(r);
    struct slice bytes = read_slice(r, LIMIT_TRANSACT_BYTES);
    struct reader list = reader_make(bytes);
    struct key_check check;
    uint64_t found = 0;
    while (unpack_check(&list, &check)) {
        found++;
    }
    r->bad = r->bad || count > max || count != found || !reader_done(&list);
    *field = (struct packed){(uint32_t)found, bytes};
}

static void take_effects(struct reader *r, struct packed *field, uint64_t max)
{
    uint64_t count = read_u64(r);
    struct slice bytes = read_slice(r, LIMIT_TRANSACT_BYTES);
    struct reader list = reader_make(bytes);
    struct effect effect;
    uint64_t found = 0;
    while (unpack_effect(&list, &effect)) {
        found++;
    }
    r->bad = r->bad || count > max || count != found || !reader_done(&list);
    *field = (struct packed){(uint32_t)found, bytes};
}

static uint64_t mix_u64(uint64_t digest, const uint64_t *field)
{
    uint8_t bytes[8];
    struct writer w = writer_make(bytes, sizeof(bytes));
    write_fixed64(&w, *field);
    return XXH3_64bits_withSeed(bytes, sizeof(bytes), digest);
}

static uint64_t mix_u32(uint64_t digest, const uint32_t *field)
{
    uint64_t wide = *field;
    return mix_u64(digest, &wide);
}

static uint64_t mix_id(uint64_t digest, const struct id *field)
{
    return mix_u64(mix_u64(digest, &field->high), &field->low);
}

static uint64_t mix_slice(uint64_t digest, const struct slice *field)
{
    uint64_t len = field->len;
    digest = mix_u64(digest, &len);
    return len == 0 ? digest : XXH3_64bits_withSeed(field->data, field->len, digest);
}

static uint64_t mix_names(uint64_t digest, const struct names *field)
{
    digest = mix_u32(digest, &field->count);
    for (uint32_t i = 0; i < field->count; i++) {
        digest = mix_slice(digest, &field->at[i]);
    }
    return digest;
}

static uint64_t mix_checks(uint64_t digest, const struct packed *field)
{
    return mix_slice(digest, &field->bytes);
}

static uint64_t mix_effects(uint64_t digest, const struct packed *field)
{
    return mix_slice(digest, &field->bytes);
}

void command_init(struct command *c, enum command_type type)
{
    hf_assert(type > COMMAND_NONE && type < COMMAND_COUNT);
    c->type = type;
    c->tenant = 0;
    c->session = (struct id){0, 0};
    c->request_id = slice_make(NULL, 0);
    c->seq = 0;
    c->acked_through = 0;
    switch (type) {
#define F(role, kind, field, max) clear_##kind(&part->field);
#define X(symbol, name)                         \
    case COMMAND_##symbol: {                    \
        struct command_##name *part = &c->name; \
        part->unused = 0;                       \
        COMMAND_FIELDS_##name(F) break;         \
    }
        COMMAND_LIST(X)
#undef X
#undef F
    case COMMAND_NONE:
    case COMMAND_COUNT:
        break;
    }
}

size_t command_encode(const struct command *c, void *buffer, size_t size)
{
    hf_assert(c->type > COMMAND_NONE && c->type < COMMAND_COUNT);
    struct writer w = writer_make(buffer, size);
    write_u8(&w, COMMAND_FORMAT);
    write_u8(&w, (uint8_t)c->type);
    write_u64(&w, c->tenant);
    write_id(&w, c->session);
    write_slice(&w, c->request_id);
    write_u64(&w, c->seq);
    write_u64(&w, c->acked_through);
    switch (c->type) {
#define F(role, kind, field, max) put_##kind(&w, &part->field);
#define X(symbol, name)                               \
    case COMMAND_##symbol: {                          \
        const struct command_##name *part = &c->name; \
        (void)part;                                   \
        COMMAND_FIELDS_##name(F) break;               \
    }
        COMMAND_LIST(X)
#undef X
#undef F
    case COMMAND_NONE:
    case COMMAND_COUNT:
        break;
    }
    return w.full ? 0 : (size_t)(w.at - (uint8_t *)buffer);
}

enum hf_error command_decode(struct slice bytes, struct command *out)
{
    struct reader r = reader_make(bytes);
    uint8_t format = read_u8(&r);
    uint8_t type = read_u8(&r);
    if (r.bad || format != COMMAND_FORMAT || type == COMMAND_NONE || type >= COMMAND_COUNT) {
        return HF_MALFORMED;
    }
    out->type = (enum command_type)type;
    out->tenant = read_u32(&r);
    out->session = read_id(&r);
    out->request_id = read_slice(&r, LIMIT_REQUEST_ID);
    out->seq = read_u64(&r);
    out->acked_through = read_u64(&r);
    switch (out->type) {
#define F(role, kind, field, max) take_##kind(&r, &part->field, max);
#define X(symbol, name)                           \
    case COMMAND_##symbol: {                      \
        struct command_##name *part = &out->name; \
        part->unused = 0;                         \
        COMMAND_FIELDS_##name(F) break;           \
    }
        COMMAND_LIST(X)
#undef X
#undef F
    case COMMAND_NONE:
    case COMMAND_COUNT:
        break;
    }
    return reader_done(&r) ? HF_OK : HF_MALFORMED;
}

#define DIGEST_BODY(kind, field) digest = mix_##kind(digest, &part->field);
#define DIGEST_EDGE(kind, field)

uint64_t command_digest(const struct command *c)
{
    uint64_t digest = (uint64_t)c->type;
    switch (c->type) {
#define F(role, kind, field, max) DIGEST_##role(kind, field)
#define X(symbol, name)                               \
    case COMMAND_##symbol: {                          \
        const struct command_##name *part = &c->name; \
        (void)part;                                   \
        COMMAND_FIELDS_##name(F) break;               \
    }
        COMMAND_LIST(X)
#undef X
#undef F
    case COMMAND_NONE:
    case COMMAND_COUNT:
        break;
    }
    return digest;
}

/* Encoding, decoding and digests of commands, generated from the list in command.h. */
#include "core/command.h"

#include "base/panic.h"
#include "core/digest.h"

static const char *const mode_names[MODE_COUNT] = {
#define X(symbol, word) word,
    MODE_LIST(X)
#undef X
};

const char *mode_name(enum mode mode)
{
    hf_assert((unsigned)mode < MODE_COUNT);
    return mode_names[mode];
}

enum mode mode_of_word(struct slice word)
{
    unsigned mode = 0;
    while (mode < MODE_COUNT && !slice_is_word(word, mode_names[mode])) {
        mode++;
    }
    return (enum mode)mode;
}

const char *command_name(enum command_type type)
{
    static const char *const names[COMMAND_COUNT] = {"none",
#define X(symbol, name, since) #name,
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

static void field_clear_ids(struct ids *field)
{
    *field = (struct ids){0, NULL};
}

static void field_clear_names(struct names *field)
{
    field->count = 0;
}

static void field_clear_checks(struct packed *field)
{
    *field = (struct packed){0, {NULL, 0}};
}

static void field_clear_effects(struct packed *field)
{
    field_clear_checks(field);
}

static void field_clear_changes(struct packed *field)
{
    field_clear_checks(field);
}

static void field_put_ids(struct writer *w, uint32_t version, const struct ids *field)
{
    (void)version;
    write_u64(w, field->count);
    write_bytes(w, field->packed, (size_t)field->count * 16);
}

static void field_put_names(struct writer *w, uint32_t version, const struct names *field)
{
    (void)version;
    write_u64(w, field->count);
    for (uint32_t i = 0; i < field->count; i++) {
        write_slice(w, field->at[i]);
    }
}

static void field_put_checks(struct writer *w, uint32_t version, const struct packed *field)
{
    (void)version;
    write_u64(w, field->count);
    write_slice(w, field->bytes);
}

static void field_put_effects(struct writer *w, uint32_t version, const struct packed *field)
{
    field_put_checks(w, version, field);
}

static void field_put_changes(struct writer *w, uint32_t version, const struct packed *field)
{
    field_put_checks(w, version, field);
}

static void field_take_ids(struct reader *r, uint32_t version, struct ids *field, uint64_t max)
{
    (void)version;
    uint64_t count = read_u64(r);
    if (r->bad || count > max || count * 16 > reader_left(r)) {
        r->bad = true;
        count = 0;
    }
    *field = (struct ids){(uint32_t)count, r->at};
    r->at += count * 16;
}

static void field_take_names(struct reader *r, uint32_t version, struct names *field, uint64_t max)
{
    (void)version;
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

/* Checks the elements, too: a decoded entry can be applied completely. */
static void field_take_checks(struct reader *r, uint32_t version, struct packed *field,
                              uint64_t max)
{
    (void)version;
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

static void field_take_effects(struct reader *r, uint32_t version, struct packed *field,
                               uint64_t max)
{
    (void)version;
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

static void field_take_changes(struct reader *r, uint32_t version, struct packed *field,
                               uint64_t max)
{
    (void)version;
    uint64_t count = read_u64(r);
    struct slice bytes = read_slice(r, LIMIT_POLICY_BYTES);
    struct reader list = reader_make(bytes);
    struct policy_change change;
    uint64_t found = 0;
    while (unpack_policy_change(&list, &change)) {
        found++;
    }
    r->bad = r->bad || count > max || count != found || !reader_done(&list);
    *field = (struct packed){(uint32_t)found, bytes};
}

static bool field_is_set_ids(const struct ids *field)
{
    return field->count > 0;
}

static bool field_is_set_names(const struct names *field)
{
    return field->count > 0;
}

static bool field_is_set_checks(const struct packed *field)
{
    return field->count > 0;
}

static bool field_is_set_effects(const struct packed *field)
{
    return field->count > 0;
}

static bool field_is_set_changes(const struct packed *field)
{
    return field->count > 0;
}

static uint64_t digest_add_names(uint64_t digest, const struct names *field)
{
    digest = digest_add_u32(digest, &field->count);
    for (uint32_t i = 0; i < field->count; i++) {
        digest = digest_add_slice(digest, &field->at[i]);
    }
    return digest;
}

static uint64_t digest_add_checks(uint64_t digest, const struct packed *field)
{
    return digest_add_slice(digest, &field->bytes);
}

static uint64_t digest_add_effects(uint64_t digest, const struct packed *field)
{
    return digest_add_slice(digest, &field->bytes);
}

static uint64_t digest_add_changes(uint64_t digest, const struct packed *field)
{
    return digest_add_slice(digest, &field->bytes);
}

struct carried carried_by(const struct command_acquire *acquire, uint32_t version)
{
#define F(role, since, type, name, limit) \
    .name = (since) <= version ? acquire->name : slice_make(NULL, 0),
    return (struct carried){CARRIED_FIELDS(F)};
#undef F
}

#define CLEAR(role, since, type, name, limit) field_clear_##type(&f->name);

void command_init(struct command *c, enum command_type type)
{
    hf_assert(type > COMMAND_NONE && type < COMMAND_COUNT);
    c->type = type;
    {
        struct command *f = c;
        COMMAND_COMMON_FIELDS(CLEAR)
    }
    switch (type) {
#define X(symbol, name, since)               \
    case COMMAND_##symbol: {                 \
        struct command_##name *f = &c->name; \
        f->unused = 0;                       \
        COMMAND_FIELDS_##name(CLEAR) break;  \
    }
        COMMAND_LIST(X)
#undef X
    case COMMAND_NONE:
    case COMMAND_COUNT:
        break;
    }
}

/* The first version with all set fields of these roles. */
#define NEED_BODY(since, type, name)                                                            \
    if ((since) > RECORD_FORMAT_1_VERSION && (since) > need && field_is_set_##type(&f->name)) { \
        need = (since);                                                                         \
    }
#define NEED_EDGE(since, type, name) NEED_BODY(since, type, name)
#define NEED_COMMON(since, type, name) NEED_BODY(since, type, name)
#define NEED_HINT(since, type, name) \
    if ((since) <= version) {        \
        NEED_BODY(since, type, name) \
    }
#define NEED(role, since, type, name, limit) NEED_##role(since, type, name)

/* The first version with the values of fields that earlier versions have. */
static uint32_t values_since(const struct command *c)
{
    const struct command_transact *t = &c->transact;
    bool is_large = c->type == COMMAND_TRANSACT &&
                    t->checks.bytes.len + t->effects.bytes.len > LIMIT_TRANSACT_8_BYTES;
    return is_large                      ? 9
           : c->type == COMMAND_TRANSACT ? effects_since(&t->effects)
           : c->type == COMMAND_ACQUIRE && (c->acquire.flags & ACQUIRE_KEY) != 0
               ? key_ttl_since(c->acquire.ttl_ms)
               : 1;
}

/* The first version with all set fields; HINTs above `version` do not count. */
static uint32_t fields_since(const struct command *c, uint32_t version)
{
    (void)version;
    uint32_t need = 1;
    {
        const struct command *f = c;
        (void)f;
        COMMAND_COMMON_FIELDS(NEED)
    }
    switch (c->type) {
#define X(symbol, name, since)                     \
    case COMMAND_##symbol: {                       \
        const struct command_##name *f = &c->name; \
        (void)f;                                   \
        COMMAND_FIELDS_##name(NEED) break;         \
    }
        COMMAND_LIST(X)
#undef X
    case COMMAND_NONE:
    case COMMAND_COUNT:
        break;
    }
    uint32_t values = values_since(c);
    return values > need ? values : need;
}

#define DROP_HINT(since, type, name)  \
    if ((since) > version) {          \
        field_clear_##type(&f->name); \
    }
#define DROP_BODY(since, type, name)
#define DROP_EDGE(since, type, name)
#define DROP(role, since, type, name, limit) DROP_##role(since, type, name)

void command_drop_hints(struct command *c, uint32_t version)
{
    (void)version;
    switch (c->type) {
#define X(symbol, name, since)               \
    case COMMAND_##symbol: {                 \
        struct command_##name *f = &c->name; \
        (void)f;                             \
        COMMAND_FIELDS_##name(DROP) break;   \
    }
        COMMAND_LIST(X)
#undef X
    case COMMAND_NONE:
    case COMMAND_COUNT:
        break;
    }
}

uint32_t command_since(const struct command *c)
{
    static const uint8_t types[COMMAND_COUNT] = {0,
#define X(symbol, name, since) since,
                                                 COMMAND_LIST(X)
#undef X
    };
    hf_assert(c->type > COMMAND_NONE && c->type < COMMAND_COUNT);
    uint32_t since = fields_since(c, 0);
    return types[c->type] > since ? types[c->type] : since;
}

size_t command_encode(const struct command *c, uint32_t target, void *buffer, size_t size)
{
    hf_assert(c->type > COMMAND_NONE && c->type < COMMAND_COUNT);
    uint8_t format = record_format(fields_since(c, target));
    uint32_t version = record_version(format);
    hf_assert(version <= RECORD_FORMAT_1_VERSION || version <= target);
    struct writer out = writer_make(buffer, size);
    struct writer *w = &out;
    write_u8(w, format);
    write_u8(w, (uint8_t)c->type);
    {
        const struct command *f = c;
        COMMAND_COMMON_FIELDS(FIELD_PUT)
    }
    switch (c->type) {
#define X(symbol, name, since)                     \
    case COMMAND_##symbol: {                       \
        const struct command_##name *f = &c->name; \
        (void)f;                                   \
        COMMAND_FIELDS_##name(FIELD_PUT) break;    \
    }
        COMMAND_LIST(X)
#undef X
    case COMMAND_NONE:
    case COMMAND_COUNT:
        break;
    }
    return out.full ? 0 : (size_t)(out.at - (uint8_t *)buffer);
}

enum hf_error command_decode(struct slice bytes, struct command *out)
{
    struct reader in = reader_make(bytes);
    struct reader *r = &in;
    uint8_t format = read_u8(r);
    uint8_t type = read_u8(r);
    uint32_t version = record_version(format);
    if (!in.bad && version > CORE_VERSION) {
        return HF_VERSION;
    }
    if (in.bad || version == 0 || type == COMMAND_NONE || type >= COMMAND_COUNT) {
        return HF_MALFORMED;
    }
    out->type = (enum command_type)type;
    {
        struct command *f = out;
        COMMAND_COMMON_FIELDS(FIELD_TAKE)
    }
    switch (out->type) {
#define X(symbol, name, since)                   \
    case COMMAND_##symbol: {                     \
        struct command_##name *f = &out->name;   \
        f->unused = 0;                           \
        COMMAND_FIELDS_##name(FIELD_TAKE) break; \
    }
        COMMAND_LIST(X)
#undef X
    case COMMAND_NONE:
    case COMMAND_COUNT:
        break;
    }
    if (!reader_done(r) || record_format(fields_since(out, version)) != format) {
        return HF_MALFORMED; /* the second: a lower format has all set fields */
    }
    return HF_OK;
}

#define DIGEST_BODY(since, type, name) digest = DIGEST_FIELD(digest, since, type, name, &f->name);
#define DIGEST_EDGE(since, type, name)
#define DIGEST_HINT(since, type, name)
#define DIGEST(role, since, type, name, limit) DIGEST_##role(since, type, name)

uint64_t command_digest(const struct command *c)
{
    uint64_t digest = (uint64_t)c->type;
    switch (c->type) {
#define X(symbol, name, since)                     \
    case COMMAND_##symbol: {                       \
        const struct command_##name *f = &c->name; \
        (void)f;                                   \
        COMMAND_FIELDS_##name(DIGEST) break;       \
    }
        COMMAND_LIST(X)
#undef X
    case COMMAND_NONE:
    case COMMAND_COUNT:
        break;
    }
    return digest;
}

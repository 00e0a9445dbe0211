/* Packing, unpacking and rules of policy_change.h. Unpacking accepts a text that is too long: the
 * rules report it with its own error. */
#include "core/policy_change.h"

#include "base/panic.h"
#include "base/text.h"

const char *policy_change_name(enum policy_change_kind kind)
{
    static const char *const names[POLICY_CHANGE_COUNT] = {"none",
#define X(symbol, name) #name,
                                                           POLICY_CHANGE_LIST(X)
#undef X
    };
    hf_assert((unsigned)kind < POLICY_CHANGE_COUNT);
    return names[kind];
}

static void put_slice(struct writer *w, const struct slice *field)
{
    write_slice(w, *field);
}

static void put_u64(struct writer *w, const uint64_t *field)
{
    write_u64(w, *field);
}

static void put_list(struct writer *w, const struct packed *field)
{
    write_u64(w, field->count);
    write_slice(w, field->bytes);
}

static void put_quotas(struct writer *w, const struct quotas *field)
{
#define X(name) write_u64(w, field->name);
    QUOTA_LIST(X)
#undef X
}

static void take_slice(struct reader *r, struct slice *field, size_t max)
{
    *field = read_slice(r, max);
}

static void take_u64(struct reader *r, uint64_t *field, size_t max)
{
    (void)max;
    *field = read_u64(r);
}

static void take_list(struct reader *r, struct packed *field, size_t max)
{
    uint64_t count = read_u64(r);
    struct slice bytes = read_slice(r, max);
    struct reader list = reader_make(bytes);
    struct policy_grant grant;
    uint64_t found = 0;
    while (unpack_policy_grant(&list, &grant)) {
        found++;
    }
    r->bad = r->bad || count != found || !reader_done(&list);
    *field = (struct packed){(uint32_t)found, bytes};
}

static void take_quotas(struct reader *r, struct quotas *field, size_t max)
{
    (void)max;
#define X(name) field->name = read_u64(r);
    QUOTA_LIST(X)
#undef X
}

static bool packed_one(struct packer *p, const struct writer *w)
{
    if (w->full) {
        return false;
    }
    hf_assert(w->at > p->out.at && w->end == p->out.end);
    p->out = *w;
    p->count++;
    return true;
}

bool pack_policy_grant(struct packer *p, const struct policy_grant *grant)
{
    struct writer w = p->out;
    write_slice(&w, grant->tenant);
    write_slice(&w, grant->prefix);
    write_u64(&w, grant->rights);
    return packed_one(p, &w);
}

bool unpack_policy_grant(struct reader *r, struct policy_grant *out)
{
    if (r->bad || r->at == r->end) {
        return false;
    }
    out->tenant = read_slice(r, LIMIT_POLICY_BYTES);
    out->prefix = read_slice(r, LIMIT_POLICY_BYTES);
    out->rights = read_u32(r);
    return !r->bad;
}

bool pack_policy_change(struct packer *p, const struct policy_change *change)
{
    struct writer writer = p->out;
    struct writer *w = &writer;
    hf_assert(p->count <= LIMIT_POLICY_CHANGES);
    if (p->count == LIMIT_POLICY_CHANGES) {
        return false;
    }
    write_u8(w, (uint8_t)change->kind);
    switch (change->kind) {
#define F(type, name, limit) put_##type(w, &change->name);
#define X(symbol, name)                \
    case POLICY_##symbol: {            \
        POLICY_FIELDS_##name(F) break; \
    }
        POLICY_CHANGE_LIST(X)
#undef X
#undef F
    case POLICY_CHANGE_NONE:
    case POLICY_CHANGE_COUNT:
        hf_panic(__FILE__, __LINE__, "a change of no kind was to be packed");
    }
    return packed_one(p, w);
}

bool unpack_policy_change(struct reader *r, struct policy_change *out)
{
    if (r->bad || r->at == r->end) {
        return false;
    }
    *out = (struct policy_change){.kind = (enum policy_change_kind)read_u8(r)};
    switch (out->kind) {
#define F(type, name, limit) take_##type(r, &out->name, (limit));
#define X(symbol, name)                \
    case POLICY_##symbol: {            \
        POLICY_FIELDS_##name(F) break; \
    }
        POLICY_CHANGE_LIST(X)
#undef X
#undef F
    case POLICY_CHANGE_NONE:
    case POLICY_CHANGE_COUNT:
    default:
        r->bad = true;
        break;
    }
    return !r->bad;
}

static bool is_alphanumeric(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool policy_name_is_valid(struct slice name)
{
    if (name.len == 0 || name.len > LIMIT_POLICY_NAME || !is_alphanumeric(name.data[0])) {
        return false;
    }
    for (size_t i = 1; i < name.len; i++) {
        uint8_t c = name.data[i];
        if (!is_alphanumeric(c) && c != '.' && c != '_' && c != '-') {
            return false;
        }
    }
    return true;
}

bool policy_prefix_is_valid(struct slice prefix)
{
    if (prefix.len == 0) {
        return true;
    }
    if (prefix.data[prefix.len - 1] == '/') {
        return prefix.len <= LIMIT_NAME && text_is_name(slice_make(prefix.data, prefix.len - 1));
    }
    return text_is_name(prefix);
}

bool policy_serial_is_valid(struct slice serial)
{
    if (serial.len == 0 || serial.len > LIMIT_SERIAL || (serial.len > 1 && serial.data[0] == '0')) {
        return false;
    }
    for (size_t i = 0; i < serial.len; i++) {
        uint8_t c = serial.data[i];
        if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'f')) {
            return false;
        }
    }
    return true;
}

static enum hf_error grants_check(const struct packed *grants)
{
    struct reader r = packed_reader(grants);
    struct policy_grant grant;
    if (grants->count > LIMIT_PRINCIPAL_GRANTS) {
        return HF_POLICY_FULL;
    }
    while (unpack_policy_grant(&r, &grant)) {
        bool is_all = slice_equal(grant.tenant, slice_of("*"));
        if ((!is_all && !policy_name_is_valid(grant.tenant)) ||
            !policy_prefix_is_valid(grant.prefix) || grant.rights == 0 ||
            grant.rights > RIGHTS_ALL) {
            return HF_INVALID_POLICY;
        }
    }
    return HF_OK;
}

static bool text_ok(struct slice text)
{
    return text.len <= LIMIT_POLICY_TEXT && text_is_plain(text);
}

bool policy_quotas_are_valid(const struct quotas *q)
{
#define X(name) &&q->name < LIMIT_NUMBER
    return true QUOTA_LIST(X);
#undef X
}

static bool is_named(const struct policy_change *c)
{
    return policy_name_is_valid(c->tenant) && policy_name_is_valid(c->name);
}

static enum hf_error change_check(const struct policy_change *c)
{
    bool ok = false;
    switch (c->kind) {
    case POLICY_TENANT_PUT:
        ok = policy_name_is_valid(c->tenant) && policy_quotas_are_valid(&c->quotas);
        break;
    case POLICY_TENANT_REMOVE:
        ok = policy_name_is_valid(c->tenant);
        break;
    case POLICY_PRINCIPAL_PUT:
        if (is_named(c) && text_ok(c->description)) {
            return grants_check(&c->grants);
        }
        break;
    case POLICY_PRINCIPAL_REMOVE:
        ok = is_named(c);
        break;
    case POLICY_TOKEN_ADD:
        ok = is_named(c) && text_ok(c->description) && c->sha256.len == TOKEN_SHA_BYTES &&
             c->expires_wall_ms < LIMIT_NUMBER;
        break;
    case POLICY_TOKEN_REMOVE:
        ok = c->token > 0 && c->token < LIMIT_NUMBER;
        break;
    case POLICY_SERIAL_BAR:
    case POLICY_SERIAL_ALLOW:
        ok = policy_serial_is_valid(c->serial);
        break;
    case POLICY_CHANGE_NONE:
    case POLICY_CHANGE_COUNT:
        break;
    }
    return ok ? HF_OK : HF_INVALID_POLICY;
}

enum hf_error policy_changes_check(const struct packed *changes)
{
    struct reader r = packed_reader(changes);
    struct policy_change change;
    uint32_t count = 0;
    uint32_t grants = 0;
    if (changes->bytes.len > LIMIT_POLICY_BYTES) {
        return HF_INVALID_POLICY;
    }
    while (unpack_policy_change(&r, &change)) {
        grants += change.grants.count;
        if (++count > LIMIT_POLICY_CHANGES || grants > LIMIT_POLICY_CHANGE_GRANTS) {
            return HF_INVALID_POLICY;
        }
        enum hf_error error = change_check(&change);
        if (error != HF_OK) {
            return error;
        }
    }
    return reader_done(&r) && count == changes->count ? HF_OK : HF_MALFORMED;
}

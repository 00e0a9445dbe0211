/* Packing and unpacking of effect.h. An effect encodes only the fields that it uses, so a list
 * has one encoding. Unpacking accepts a text that is too long: the rules report it with its own
 * error. */
#include "core/effect.h"

#include "base/panic.h"
#include "base/text.h"
#include "core/command.h"

/* Small for numbers close to zero. */
static uint64_t zigzag(int64_t number)
{
    return number < 0 ? ~((uint64_t)number << 1) : (uint64_t)number << 1;
}

static int64_t unzigzag(uint64_t number)
{
    uint64_t half = number >> 1;
    return (int64_t)(number & 1 ? ~half : half);
}

static bool packed_one(struct packer *p, struct writer *w)
{
    if (w->full) {
        return false;
    }
    hf_assert(w->at > p->out.at && w->end == p->out.end);
    p->out = *w;
    p->count++;
    return true;
}

bool pack_check(struct packer *p, const struct key_check *check)
{
    struct writer w = p->out;
    hf_assert(p->count <= LIMIT_CHECKS);
    if (p->count == LIMIT_CHECKS) {
        return false;
    }
    write_slice(&w, check->name);
    write_u64(&w, check->version.number);
    write_u64(&w, check->version.changes);
    write_u64(&w, check->version.deadline_ms);
    return packed_one(p, &w);
}

bool unpack_check(struct reader *r, struct key_check *out)
{
    if (r->bad || r->at == r->end) {
        return false;
    }
    out->name = read_slice(r, LIMIT_TRANSACT_BYTES);
    out->version.number = read_u64(r);
    out->version.changes = read_u32(r);
    out->version.deadline_ms = read_u64(r);
    return !r->bad;
}

bool pack_effect(struct packer *p, const struct effect *effect)
{
    struct writer w = p->out;
    hf_assert(p->count <= LIMIT_EFFECTS && effect->flags <= UINT8_MAX);
    if (p->count == LIMIT_EFFECTS) {
        return false;
    }
    write_u8(&w, (uint8_t)effect->kind);
    write_u8(&w, (uint8_t)effect->flags);
    write_slice(&w, effect->name);
    switch (effect->kind) {
    case EFFECT_PUT:
        write_id(&w, effect->lease);
        write_u64(&w, effect->ttl_ms);
        write_slice(&w, effect->value);
        break;
    case EFFECT_EXPIRE:
        write_u64(&w, effect->ttl_ms);
        break;
    case EFFECT_DROP:
        break;
    case EFFECT_COUNTER:
        write_u64(&w, zigzag(effect->number));
        if (effect->flags & EFFECT_TTL) {
            write_u64(&w, effect->ttl_ms);
        }
        break;
    case EFFECT_PUBLISH:
        write_slice(&w, effect->value);
        break;
    case EFFECT_NONE:
    case EFFECT_COUNT:
        hf_panic(__FILE__, __LINE__, "an effect of no kind was to be packed");
    }
    return packed_one(p, &w);
}

bool unpack_effect(struct reader *r, struct effect *out)
{
    if (r->bad || r->at == r->end) {
        return false;
    }
    *out = (struct effect){.kind = (enum effect_kind)read_u8(r)};
    out->flags = read_u8(r);
    out->name = read_slice(r, LIMIT_TRANSACT_BYTES);
    switch (out->kind) {
    case EFFECT_PUT:
        out->lease = read_id(r);
        out->ttl_ms = read_u64(r);
        out->value = read_slice(r, LIMIT_TRANSACT_BYTES);
        break;
    case EFFECT_EXPIRE:
        out->ttl_ms = read_u64(r);
        break;
    case EFFECT_DROP:
        break;
    case EFFECT_COUNTER:
        out->number = unzigzag(read_u64(r));
        out->ttl_ms = out->flags & EFFECT_TTL ? read_u64(r) : 0;
        break;
    case EFFECT_PUBLISH:
        out->value = read_slice(r, LIMIT_TRANSACT_BYTES);
        break;
    case EFFECT_NONE:
    case EFFECT_COUNT:
    default:
        r->bad = true;
        break;
    }
    return !r->bad;
}

struct packed packer_list(const struct packer *p)
{
    hf_assert(p->out.at >= p->buffer && p->out.at <= p->out.end);
    return (struct packed){p->count, slice_make(p->buffer, (size_t)(p->out.at - p->buffer))};
}

enum hf_error checks_check(const struct packed *checks)
{
    struct reader r = packed_reader(checks);
    struct key_check check;
    uint32_t count = 0;
    while (unpack_check(&r, &check)) {
        count++;
        if (!text_is_name(check.name)) {
            return HF_INVALID_NAME;
        }
    }
    if (count > LIMIT_CHECKS) {
        return HF_TRANSACT_TOO_LARGE;
    }
    return reader_done(&r) && count == checks->count ? HF_OK : HF_MALFORMED;
}

bool key_ttl_is_valid(uint64_t ttl_ms)
{
    return (ttl_ms >= 1 && ttl_ms <= LIMIT_KEY_TTL_MAX_MS) || ttl_ms == TTL_NONE;
}

uint32_t key_ttl_since(uint64_t ttl_ms)
{
    return ttl_ms >= LIMIT_TTL_MIN_MS && ttl_ms <= LIMIT_TTL_MAX_MS ? 2 : 8;
}

static bool ttl_ok(const struct effect *e)
{
    if (e->kind == EFFECT_COUNTER) { /* a counter has no lease */
        return (e->flags & EFFECT_TTL) == 0 ||
               (e->ttl_ms >= 1 && e->ttl_ms <= LIMIT_KEY_TTL_MAX_MS);
    }
    return e->ttl_ms == 0 || key_ttl_is_valid(e->ttl_ms);
}

static bool is_one_bit_at_most(uint32_t flags)
{
    return (flags & (flags - 1)) == 0;
}

static bool flags_ok(const struct effect *e)
{
    switch (e->kind) {
    case EFFECT_PUT:
        return (e->flags & ~(uint32_t)(EFFECT_TYPES | EFFECT_VALUE)) == 0 &&
               is_one_bit_at_most(e->flags & EFFECT_TYPES);
    case EFFECT_DROP:
        return e->flags == 0 || e->flags == EFFECT_FORCED ||
               e->flags == (EFFECT_FORCED | EFFECT_NOW);
    case EFFECT_COUNTER:
        return e->flags == 0 || e->flags == EFFECT_TTL || e->flags == EFFECT_PERSIST;
    default:
        return e->flags == 0;
    }
}

static enum hf_error effect_check(const struct effect *e)
{
    if (!flags_ok(e)) {
        return HF_MALFORMED;
    }
    bool name_ok = e->kind == EFFECT_PUBLISH
                       ? e->name.len >= 1 && e->name.len <= LIMIT_NAME && text_is_plain(e->name)
                       : text_is_name(e->name);
    if (!name_ok) {
        return HF_INVALID_NAME;
    }
    if (e->kind == EFFECT_PUT && id_is_zero(e->lease)) {
        return HF_INVALID_ID;
    }
    if (!ttl_ok(e)) {
        return HF_INVALID_TTL;
    }
    size_t max = e->kind == EFFECT_PUT ? LIMIT_KEY_VALUE : LIMIT_VALUE;
    return e->value.len <= max ? HF_OK : HF_INVALID_METADATA;
}

/* Keys and lease ids so far, to find duplicates. */
struct seen {
    uint32_t names;
    uint32_t leases;
    struct slice name[LIMIT_EFFECTS];
    struct id lease[LIMIT_EFFECTS];
};

static enum hf_error not_seen_before(struct seen *seen, const struct effect *e)
{
    if (e->kind == EFFECT_PUBLISH) {
        return HF_OK;
    }
    for (uint32_t i = 0; i < seen->names; i++) {
        if (slice_equal(seen->name[i], e->name)) {
            return HF_DUPLICATE_NAME;
        }
    }
    hf_assert(seen->names < LIMIT_EFFECTS);
    seen->name[seen->names++] = e->name;
    if (e->kind == EFFECT_PUT) {
        for (uint32_t i = 0; i < seen->leases; i++) {
            if (id_equal(seen->lease[i], e->lease)) {
                return HF_INVALID_ID;
            }
        }
        hf_assert(seen->leases < LIMIT_EFFECTS);
        seen->lease[seen->leases++] = e->lease;
    }
    return HF_OK;
}

enum hf_error effects_check(const struct packed *effects, bool *forced)
{
    struct reader r = packed_reader(effects);
    struct effect e;
    struct seen seen;
    uint32_t count = 0;
    seen.names = 0;
    seen.leases = 0;
    hf_assert(forced != NULL);
    *forced = false;
    while (unpack_effect(&r, &e)) {
        if (++count > LIMIT_EFFECTS) {
            return HF_TRANSACT_TOO_LARGE;
        }
        enum hf_error error = effect_check(&e);
        error = error != HF_OK ? error : not_seen_before(&seen, &e);
        if (error != HF_OK) {
            return error;
        }
        *forced = *forced || (e.flags & EFFECT_FORCED) != 0;
    }
    return reader_done(&r) && count == effects->count ? HF_OK : HF_MALFORMED;
}

static uint32_t lease_since(const struct effect *e)
{
    return (e->flags & EFFECT_VALUE) != 0 ? 8 : e->ttl_ms == 0 ? 2 : key_ttl_since(e->ttl_ms);
}

static uint32_t effect_since(const struct effect *e)
{
    switch (e->kind) {
    case EFFECT_PUT:
        return (e->flags & (EFFECT_LIST | EFFECT_SORTED_SET | EFFECT_SET)) != 0 ||
                       e->value.len > LIMIT_VALUE
                   ? 9
                   : lease_since(e);
    case EFFECT_EXPIRE:
        return lease_since(e);
    case EFFECT_COUNTER:
        return (e->flags & (EFFECT_TTL | EFFECT_PERSIST)) == 0 ? 2
               : e->ttl_ms > LIMIT_COUNTER_TTL_7_MS            ? 8
                                                               : 4;
    default:
        return 2;
    }
}

uint32_t effects_since(const struct packed *effects)
{
    struct reader r = packed_reader(effects);
    struct effect e;
    uint32_t since = 2;
    while (unpack_effect(&r, &e)) {
        uint32_t own = effect_since(&e);
        since = own > since ? own : since;
    }
    return since;
}

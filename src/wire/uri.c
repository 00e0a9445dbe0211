/* Percent-decoding and queries (wire/uri.h). */
#include "wire/uri.h"

#include <inttypes.h>

#include "base/text.h"

enum { QUOTED_KEY = 64 }; /* bytes of a parameter's name quoted in an error */

static int hex_value(uint8_t c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The length, or -1 when an escape is invalid. */
static ptrdiff_t decode(struct slice raw, bool plus_is_space, uint8_t *out)
{
    ptrdiff_t len = 0;
    for (size_t i = 0; i < raw.len; i++) {
        uint8_t c = raw.data[i];
        if (c == '%') {
            int high = raw.len - i > 2 ? hex_value(raw.data[i + 1]) : -1;
            int low = raw.len - i > 2 ? hex_value(raw.data[i + 2]) : -1;
            if (high < 0 || low < 0) {
                return -1;
            }
            c = (uint8_t)(high << 4 | low);
            i += 2;
        } else if (c == '+' && plus_is_space) {
            c = ' ';
        }
        out[len++] = c;
    }
    return len;
}

static enum hf_error decode_text(struct slice raw, bool plus_is_space, uint8_t *out,
                                 struct slice *text)
{
    ptrdiff_t len = decode(raw, plus_is_space, out);
    if (len < 0) {
        return HF_BAD_ESCAPE;
    }
    struct slice decoded = slice_make(out, (size_t)len);
    if (!text_is_utf8(decoded) || (len > 0 && memchr(out, 0, (size_t)len) != NULL)) {
        return HF_URI_NOT_UTF8;
    }
    *text = decoded;
    return HF_OK;
}

enum hf_error uri_decode(struct slice raw, uint8_t *out, struct slice *text)
{
    return decode_text(raw, false, out, text);
}

enum hf_error uri_decode_name(struct slice raw, uint8_t out[LIMIT_NAME], struct slice *name)
{
    uint8_t decoded[3 * LIMIT_NAME];
    if (raw.len > sizeof(decoded)) {
        return HF_INVALID_NAME;
    }
    ptrdiff_t len = decode(raw, false, decoded);
    if (len < 0) {
        return HF_BAD_ESCAPE;
    }
    if (!text_is_name(slice_make(decoded, (size_t)len))) {
        return HF_INVALID_NAME;
    }
    memcpy(out, decoded, (size_t)len);
    *name = slice_make(out, (size_t)len);
    return HF_OK;
}

bool uri_cut_verb(struct slice raw, struct slice *name, struct slice *verb)
{
    for (size_t i = raw.len; i > 0; i--) {
        if (raw.data[i - 1] == '/') {
            *name = slice_make(raw.data, i - 1);
            *verb = slice_make(raw.data + i, raw.len - i);
            return true;
        }
    }
    return false;
}

static const struct uri_parameter *find(const struct uri_query *query, struct slice key)
{
    for (unsigned i = 0; i < query->count; i++) {
        if (slice_equal(query->parameters[i].key, key)) {
            return &query->parameters[i];
        }
    }
    return NULL;
}

static enum hf_error plain_fault(struct fault *fault, enum hf_error code)
{
    return fault_set(fault, code, "%s", hf_error_text(code));
}

static enum hf_error add_parameter(struct uri_query *query, struct slice piece, uint8_t *out,
                                   struct fault *fault)
{
    const uint8_t *equals = memchr(piece.data, '=', piece.len);
    size_t key_len = equals == NULL ? piece.len : (size_t)(equals - piece.data);
    size_t value_at = equals == NULL ? piece.len : key_len + 1;
    struct uri_parameter new = {{NULL, 0}, {NULL, 0}};
    enum hf_error error = decode_text(slice_make(piece.data, key_len), true, out, &new.key);
    if (error == HF_OK) {
        struct slice value = slice_make(piece.data + value_at, piece.len - value_at);
        error = decode_text(value, true, out + key_len, &new.value);
    }
    if (error != HF_OK) {
        return plain_fault(fault, error);
    }
    if (find(query, new.key) != NULL) {
        return fault_set(fault, HF_FIELD_REPEATED, "%.*s: the parameter is given twice",
                         fault_clip(new.key, QUOTED_KEY), (const char *)new.key.data);
    }
    if (query->count == LIMIT_HTTP_PARAMETERS) {
        return plain_fault(fault, HF_TOO_MANY_PARAMETERS);
    }
    query->parameters[query->count++] = new;
    return HF_OK;
}

enum hf_error uri_query_parse(struct slice raw, uint8_t *out, struct uri_query *query,
                              struct fault *fault)
{
    struct uri_query parsed = {.count = 0};
    size_t start = 0;
    for (size_t i = 0; i <= raw.len; i++) {
        if (i < raw.len && raw.data[i] != '&') {
            continue;
        }
        if (i > start) { /* skip an empty part between two '&' */
            struct slice piece = slice_make(raw.data + start, i - start);
            enum hf_error error = add_parameter(&parsed, piece, out + start, fault);
            if (error != HF_OK) {
                return error;
            }
        }
        start = i + 1;
    }
    *query = parsed;
    return HF_OK;
}

bool uri_query_text(const struct uri_query *query, const char *key, struct slice *value)
{
    const struct uri_parameter *found = find(query, slice_of(key));
    if (found != NULL) {
        *value = found->value;
    }
    return found != NULL;
}

enum hf_error uri_query_number(const struct uri_query *query, const char *key, uint64_t min,
                               uint64_t max, uint64_t *value, struct fault *fault)
{
    struct slice text;
    if (!uri_query_text(query, key, &text)) {
        return HF_OK;
    }
    enum hf_error error = text.len == 0 ? HF_FIELD_TYPE : HF_OK;
    uint64_t number = 0;
    for (size_t i = 0; i < text.len && error != HF_FIELD_TYPE; i++) {
        unsigned digit = text.data[i] - (unsigned)'0';
        if (digit > 9) {
            error = HF_FIELD_TYPE;
        } else if (number >= LIMIT_NUMBER) {
            error = HF_FIELD_RANGE;
        } else {
            number = number * 10 + digit;
        }
    }
    if (error == HF_OK && (number < min || number > max)) {
        error = HF_FIELD_RANGE;
    }
    if (error != HF_OK) {
        return fault_set(fault, error, "%s: must be a whole number from %" PRIu64 " to %" PRIu64,
                         key, min, max);
    }
    *value = number;
    return HF_OK;
}

static bool is_known(struct slice key, const char *const *known)
{
    for (; *known != NULL; known++) {
        if (slice_equal(key, slice_of(*known))) {
            return true;
        }
    }
    return false;
}

enum hf_error uri_query_known(const struct uri_query *query, const char *const *known,
                              struct fault *fault)
{
    for (unsigned i = 0; i < query->count; i++) {
        struct slice key = query->parameters[i].key;
        if (!is_known(key, known)) {
            return fault_set(fault, HF_FIELD_UNKNOWN, "%.*s: there is no such parameter here",
                             fault_clip(key, QUOTED_KEY), (const char *)key.data);
        }
    }
    return HF_OK;
}

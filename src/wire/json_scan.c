/* Parts of valid JSON text, see json_scan.h. */
#include "wire/json_scan.h"

static bool is_white(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Returns the position after the string that begins at `at`, or the end when it is not
 * terminated. */
static const uint8_t *skip_string(const uint8_t *at, const uint8_t *end)
{
    for (at++; at < end; at++) {
        if (*at == '"') {
            return at + 1;
        }
        if (*at == '\\' && at + 1 < end) {
            at++;
        }
    }
    return end;
}

size_t json_scan_compact(struct slice text, uint8_t *out)
{
    const uint8_t *at = text.data;
    const uint8_t *end = text.data + text.len;
    size_t len = 0;
    while (at < end) {
        if (*at == '"') {
            const uint8_t *behind = skip_string(at, end);
            memcpy(out + len, at, (size_t)(behind - at));
            len += (size_t)(behind - at);
            at = behind;
        } else if (is_white(*at)) {
            at++;
        } else {
            out[len++] = *at++;
        }
    }
    return len;
}

enum json_scan_number json_scan_integer(struct slice text, int64_t *out)
{
    bool negative = text.len > 0 && text.data[0] == '-';
    bool large = false;
    uint64_t value = 0;
    for (size_t i = negative; i < text.len; i++) {
        unsigned digit = text.data[i] - (unsigned)'0';
        if (digit > 9) {
            return JSON_SCAN_FRACTION;
        }
        value = value * 10 + digit;
        if (value >= LIMIT_NUMBER) {
            large = true;
            value = 0; /* continue only to check that it is whole */
        }
    }
    if (large) {
        return JSON_SCAN_LARGE;
    }
    *out = negative ? -(int64_t)value : (int64_t)value;
    return JSON_SCAN_WHOLE;
}

/* ---- strings ---- */

bool json_scan_hex(const uint8_t *at, uint32_t *out)
{
    uint32_t value = 0;
    for (unsigned i = 0; i < 4; i++) {
        uint8_t small = at[i] | 0x20;
        unsigned digit = at[i] - (unsigned)'0';
        unsigned letter = small - (unsigned)'a';
        if (digit > 9 && letter > 5) {
            return false;
        }
        value = value << 4 | (digit <= 9 ? digit : letter + 10);
    }
    *out = value;
    return true;
}

static size_t put_utf8(uint32_t c, uint8_t *out)
{
    if (c < 0x80) {
        out[0] = (uint8_t)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (uint8_t)(0xc0 | c >> 6);
        out[1] = (uint8_t)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (uint8_t)(0xe0 | c >> 12);
        out[1] = (uint8_t)(0x80 | (c >> 6 & 0x3f));
        out[2] = (uint8_t)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (uint8_t)(0xf0 | c >> 18);
    out[1] = (uint8_t)(0x80 | (c >> 12 & 0x3f));
    out[2] = (uint8_t)(0x80 | (c >> 6 & 0x3f));
    out[3] = (uint8_t)(0x80 | (c & 0x3f));
    return 4;
}

/* `at` is after `\u`; returns the position after the character. */
static const uint8_t *unescape_code_point(const uint8_t *at, uint32_t *out)
{
    uint32_t first = 0;
    uint32_t second = 0;
    (void)json_scan_hex(at, &first);
    if (first < 0xd800 || first > 0xdfff) {
        *out = first;
        return at + 4;
    }
    (void)json_scan_hex(at + 6, &second);
    *out = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
    return at + 10;
}

size_t json_scan_unescape(struct slice text, uint8_t *out)
{
    static const uint8_t controls[256] = {
        ['b'] = '\b', ['f'] = '\f', ['n'] = '\n', ['r'] = '\r', ['t'] = '\t'};
    const uint8_t *end = text.len == 0 ? text.data : text.data + text.len;
    size_t len = 0;
    for (const uint8_t *at = text.data; at < end;) {
        if (*at != '\\') {
            out[len++] = *at++;
        } else if (at[1] == 'u') {
            uint32_t c;
            at = unescape_code_point(at + 2, &c);
            len += put_utf8(c, out + len);
        } else {
            out[len++] = controls[at[1]] != 0 ? controls[at[1]] : at[1];
            at += 2;
        }
    }
    return len;
}

/* ---- arrays ---- */

/* The position after the value that begins at `at`. */
static const uint8_t *skip_value(const uint8_t *at, const uint8_t *end)
{
    unsigned depth = 0;
    while (at < end) {
        if (*at == '"') {
            at = skip_string(at, end);
            if (depth == 0) {
                return at;
            }
            continue;
        }
        bool is_end = *at == ']' || *at == '}';
        if (depth == 0 && (is_end || *at == ',' || is_white(*at))) {
            return at;
        }
        depth += *at == '[' || *at == '{';
        depth -= is_end;
        at++;
        if (depth == 0 && is_end) {
            return at;
        }
    }
    return end;
}

bool json_scan_item(struct slice *rest, struct slice *item)
{
    const uint8_t *at = rest->data;
    const uint8_t *end = rest->data + rest->len;
    at++; /* the bracket, or the comma after the last item */
    while (at < end && is_white(*at)) {
        at++;
    }
    if (at >= end || *at == ']') {
        return false;
    }
    const uint8_t *behind = skip_value(at, end);
    *item = slice_make(at, (size_t)(behind - at));
    while (behind < end && is_white(*behind)) {
        behind++;
    }
    *rest = slice_make(behind, (size_t)(end - behind));
    return true;
}

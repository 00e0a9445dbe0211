/* One pass over the text that recognises only strings and brackets. */
#include "wire/json_scan.h"

static bool is_white(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static struct slice trim(const uint8_t *begin, const uint8_t *end)
{
    while (begin < end && is_white(*begin)) {
        begin++;
    }
    while (begin < end && is_white(end[-1])) {
        end--;
    }
    return slice_make(begin, (size_t)(end - begin));
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

/* Ends the value that began after a colon, if any. */
static void note_value(struct json_scan *out, const uint8_t **begin, const uint8_t *end)
{
    if (*begin != NULL) {
        if (out->count < JSON_SCAN_MEMBERS) {
            out->values[out->count] = trim(*begin, end);
        }
        out->count++;
        *begin = NULL;
    }
}

bool json_scan(struct slice text, struct json_scan *out)
{
    const uint8_t *at = text.data;
    const uint8_t *end = text.data + text.len;
    const uint8_t *value = NULL;
    unsigned depth = 0;
    out->count = 0;
    while (at < end) {
        switch (*at) {
        case '"':
            at = skip_string(at, end);
            continue;
        case '{':
        case '[':
            if (++depth > LIMIT_JSON_DEPTH) {
                return false;
            }
            break;
        case '}':
        case ']':
            if (depth == 1) {
                note_value(out, &value, at);
            }
            depth -= depth > 0;
            break;
        case ',':
            if (depth == 1) {
                note_value(out, &value, at);
            }
            break;
        case ':':
            if (depth == 1) {
                value = at + 1;
            }
            break;
        default:
            break;
        }
        at++;
    }
    return true;
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

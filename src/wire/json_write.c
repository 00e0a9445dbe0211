/* The JSON writer of wire/json_write.h. Most strings are ASCII without escapes, so runs of such
 * bytes are copied whole. */
#include "wire/json_write.h"

#include "base/text.h"
#include "wire/civil.h"

enum { MAX_DEPTH = 64 };

void json_writer_init(struct json_writer *w, struct buffer *out)
{
    *w = (struct json_writer){.out = out};
}

/* Called before each value: writes a comma if needed; asserts that an object's value has a key. */
static void begin_value(struct json_writer *w)
{
    bool in_object = w->depth > 0 && (w->objects >> (w->depth - 1) & 1) != 0;
    hf_assert(w->keyed == in_object && (w->depth > 0 || !w->comma));
    if (w->comma) {
        buffer_append_byte(w->out, ',');
    }
    w->comma = true;
    w->keyed = false;
}

void json_write_open(struct json_writer *w, char bracket)
{
    hf_assert(bracket == '{' || bracket == '[');
    begin_value(w);
    hf_assert(w->depth < MAX_DEPTH);
    buffer_append_byte(w->out, (uint8_t)bracket);
    uint64_t bit = UINT64_C(1) << w->depth++;
    w->objects = bracket == '{' ? w->objects | bit : w->objects & ~bit;
    w->comma = false;
}

void json_write_close(struct json_writer *w)
{
    hf_assert(w->depth > 0 && !w->keyed);
    w->depth--;
    buffer_append_byte(w->out, (w->objects >> w->depth & 1) != 0 ? '}' : ']');
    w->comma = true;
}

void json_write_key(struct json_writer *w, const char *key)
{
    hf_assert(!w->keyed && w->depth > 0 && (w->objects >> (w->depth - 1) & 1) != 0);
    size_t len = strlen(key);
    uint8_t *space = buffer_reserve(w->out, len + 3 + w->comma);
    if (space != NULL) {
        if (w->comma) {
            *space++ = ',';
        }
        *space++ = '"';
        memcpy(space, key, len);
        memcpy(space + len, "\":", 2);
        buffer_commit(w->out, len + 3 + w->comma);
    }
    w->comma = false;
    w->keyed = true;
}

/* ---- strings ---- */

/* 0: copied; 'u': as \u00XX; WIDE: part of a multi-byte character; else: after a '\'. */
enum { WIDE = 1 };

/* clang-format off */
static const uint8_t escapes[256] = {
    [0 ... 0x07] = 'u', ['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', [0x0b] = 'u', ['\f'] = 'f',
    ['\r'] = 'r', [0x0e ... 0x1f] = 'u', ['"'] = '"', ['\\'] = '\\', [0x7f] = 'u',
    [0x80 ... 0xff] = WIDE,
};
/* clang-format on */

/* The length of the character that begins with the byte >= 0x80 at `text`, 0 if it is not valid. */
static size_t wide_len(struct slice text)
{
    size_t len = text.data[0] >= 0xf0 ? 4 : text.data[0] >= 0xe0 ? 3 : 2;
    return len <= text.len && text_is_utf8(slice_make(text.data, len)) ? len : 0;
}

/* Writes one character that needs an escape; returns its length in `text`. */
static size_t add_escaped(struct buffer *out, struct slice text)
{
    static const char hex[] = "0123456789abcdef";
    uint8_t byte = text.data[0];
    uint8_t escape = escapes[byte];
    if (escape == WIDE) {
        size_t len = wide_len(text);
        buffer_append(out, len > 0 ? text.data : (const uint8_t *)"\xef\xbf\xbd",
                      len > 0 ? len : 3);
        return len > 0 ? len : 1;
    }
    if (escape == 'u') {
        const char written[6] = {'\\', 'u', '0', '0', hex[byte >> 4], hex[byte & 15]};
        buffer_append(out, written, sizeof(written));
    } else {
        const char written[2] = {'\\', (char)escape};
        buffer_append(out, written, sizeof(written));
    }
    return 1;
}

void json_write_string(struct json_writer *w, struct slice text)
{
    begin_value(w);
    buffer_append_byte(w->out, '"');
    size_t done = 0;
    while (done < text.len) {
        size_t i = done;
        while (i < text.len && escapes[text.data[i]] == 0) {
            i++;
        }
        buffer_append(w->out, text.data + done, i - done);
        if (i < text.len) {
            i += add_escaped(w->out, slice_make(text.data + i, text.len - i));
        }
        done = i;
    }
    buffer_append_byte(w->out, '"');
}

/* ---- other values ---- */

static void add_number(struct json_writer *w, bool negative, uint64_t value)
{
    uint8_t digits[21];
    size_t at = sizeof(digits);
    do {
        digits[--at] = (uint8_t)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    if (negative) {
        digits[--at] = '-';
    }
    begin_value(w);
    buffer_append(w->out, digits + at, sizeof(digits) - at);
}

void json_write_u64(struct json_writer *w, uint64_t value)
{
    add_number(w, false, value);
}

void json_write_i64(struct json_writer *w, int64_t value)
{
    add_number(w, value < 0, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

void json_write_bool(struct json_writer *w, bool value)
{
    begin_value(w);
    buffer_append_text(w->out, value ? "true" : "false");
}

void json_write_null(struct json_writer *w)
{
    begin_value(w);
    buffer_append_text(w->out, "null");
}

void json_write_time(struct json_writer *w, uint64_t wall_ms)
{
    struct civil c = civil_from_seconds(wall_ms / 1000);
    char text[] = "\"0000-00-00T00:00:00.000Z\"";
    civil_digits(text + 1, 4, c.year);
    civil_digits(text + 6, 2, c.month);
    civil_digits(text + 9, 2, c.day);
    civil_digits(text + 12, 2, c.hour);
    civil_digits(text + 15, 2, c.minute);
    civil_digits(text + 18, 2, c.second);
    civil_digits(text + 21, 3, (unsigned)(wall_ms % 1000));
    begin_value(w);
    buffer_append(w->out, text, sizeof(text) - 1);
}

void json_write_raw(struct json_writer *w, struct slice json)
{
    if (json.len == 0) {
        json_write_null(w);
        return;
    }
    begin_value(w);
    buffer_append_slice(w->out, json);
}

void json_write_members(struct json_writer *w, struct slice object)
{
    hf_assert(w->depth > 0 && !w->comma && !w->keyed && object.len > 2);
    buffer_append(w->out, object.data + 1, object.len - 2);
    w->comma = true;
}

void json_write_error(struct json_writer *w, enum hf_error error, const char *message)
{
    json_write_open(w, '{');
    json_put_open(w, "error", '{');
    json_put_text(w, "code", hf_error_code(error));
    json_put_text(w, "message", message != NULL ? message : hf_error_text(error));
    json_write_close(w);
    json_write_close(w);
}

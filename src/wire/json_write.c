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

/* Begins a value: space for `len` bytes of it, after a comma if it needs one. The caller fills and
 * commits all of them. NULL: the buffer is full. Asserts that an object's value has a key. */
static uint8_t *begin_value(struct json_writer *w, size_t len)
{
    bool in_object = w->depth > 0 && (w->objects >> (w->depth - 1) & 1) != 0;
    hf_assert(w->keyed == in_object && (w->depth > 0 || !w->comma));
    bool comma = w->comma;
    w->comma = true;
    w->keyed = false;
    uint8_t *space = buffer_reserve(w->out, len + comma);
    if (space != NULL && comma) {
        *space++ = ',';
        buffer_commit(w->out, 1);
    }
    return space;
}

static void put_value(struct json_writer *w, const void *bytes, size_t len)
{
    uint8_t *space = begin_value(w, len);
    if (space != NULL) {
        memcpy(space, bytes, len);
        buffer_commit(w->out, len);
    }
}

void json_write_open(struct json_writer *w, char bracket)
{
    hf_assert(bracket == '{' || bracket == '[');
    hf_assert(w->depth < MAX_DEPTH);
    put_value(w, &bracket, 1);
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

void json_write_key_of(struct json_writer *w, const char *key, size_t len)
{
    hf_assert(!w->keyed && w->depth > 0 && (w->objects >> (w->depth - 1) & 1) != 0);
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

enum { ESCAPED_MAX = 6 };

/* Writes the first character, which needs an escape; `*taken`: its length in `text`. Returns the length of
 * what was written. */
static size_t escape(struct slice text, uint8_t out[ESCAPED_MAX], size_t *taken)
{
    static const char hex[] = "0123456789abcdef";
    uint8_t byte = text.data[0];
    uint8_t kind = escapes[byte];
    *taken = 1;
    if (kind == WIDE) {
        size_t len = wide_len(text);
        if (len == 0) {
            memcpy(out, "\xef\xbf\xbd", 3);
            return 3;
        }
        memcpy(out, text.data, len);
        *taken = len;
        return len;
    }
    out[0] = '\\';
    out[1] = kind;
    if (kind != 'u') {
        return 2;
    }
    memcpy(out + 2, "00", 2);
    out[4] = (uint8_t)hex[byte >> 4];
    out[5] = (uint8_t)hex[byte & 15];
    return ESCAPED_MAX;
}

#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

/* Whether one of the eight bytes may need an escape. */
static bool has_special(uint64_t word)
{
    uint64_t below_space = word - EACH(0x20);
    uint64_t quote = (word ^ EACH('"')) - EACH(1);
    uint64_t backslash = (word ^ EACH('\\')) - EACH(1);
    uint64_t delete = (word ^ EACH(0x7f)) - EACH(1);
    return ((word | below_space | quote | backslash | delete) & EACH(0x80)) != 0;
}

/* Where the next byte is that needs an escape, from `i` on; the length of the text: nowhere. */
static size_t skip_ordinary(struct slice text, size_t i)
{
    uint64_t word;
    for (; text.len - i >= sizeof(word); i += sizeof(word)) {
        memcpy(&word, text.data + i, sizeof(word));
        if (has_special(word)) {
            break;
        }
    }
    while (i < text.len && escapes[text.data[i]] == 0) {
        i++;
    }
    return i;
}

static void write_escaped(struct json_writer *w, struct slice text)
{
    uint8_t escaped[ESCAPED_MAX];
    put_value(w, "\"", 1);
    for (size_t i = 0, taken; i < text.len; i += taken) {
        size_t ordinary = skip_ordinary(text, i);
        buffer_append(w->out, text.data + i, ordinary - i);
        i = ordinary;
        taken = 0;
        if (i < text.len) {
            size_t len = escape(slice_make(text.data + i, text.len - i), escaped, &taken);
            buffer_append(w->out, escaped, len);
        }
    }
    buffer_append_byte(w->out, '"');
}

size_t json_quote(struct slice text, uint8_t *out)
{
    uint8_t *at = out;
    *at++ = '"';
    for (size_t i = 0, taken; i < text.len; i += taken) {
        size_t ordinary = skip_ordinary(text, i);
        memcpy(at, text.data + i, ordinary - i);
        at += ordinary - i;
        i = ordinary;
        taken = 0;
        if (i < text.len) {
            at += escape(slice_make(text.data + i, text.len - i), at, &taken);
        }
    }
    *at++ = '"';
    return (size_t)(at - out);
}

void json_write_string(struct json_writer *w, struct slice text)
{
    if (skip_ordinary(text, 0) < text.len) {
        write_escaped(w, text);
        return;
    }
    uint8_t *space = begin_value(w, text.len + 2);
    if (space != NULL) {
        space[0] = '"';
        if (text.len > 0) {
            memcpy(space + 1, text.data, text.len);
        }
        space[text.len + 1] = '"';
        buffer_commit(w->out, text.len + 2);
    }
}

/* ---- other values ---- */

void json_write_u64(struct json_writer *w, uint64_t value)
{
    uint8_t text[TEXT_U64];
    put_value(w, text, text_put_u64(text, value));
}

void json_write_i64(struct json_writer *w, int64_t value)
{
    uint8_t text[1 + TEXT_U64] = "-";
    uint64_t size = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    size_t len = text_put_u64(text + 1, size);
    put_value(w, value < 0 ? text : text + 1, value < 0 ? len + 1 : len);
}

void json_write_bool(struct json_writer *w, bool value)
{
    put_value(w, value ? "true" : "false", value ? 4 : 5);
}

void json_write_null(struct json_writer *w)
{
    put_value(w, "null", 4);
}

static void write_second(uint64_t wall_s, char text[JSON_TIME])
{
    struct civil c = civil_from_seconds(wall_s);
    memcpy(text, "\"0000-00-00T00:00:00.000Z\"", JSON_TIME);
    civil_digits(text + 1, 4, c.year);
    civil_digits(text + 6, 2, c.month);
    civil_digits(text + 9, 2, c.day);
    civil_digits(text + 12, 2, c.hour);
    civil_digits(text + 15, 2, c.minute);
    civil_digits(text + 18, 2, c.second);
}

/* Most times are in a few seconds: now, and the deadlines that belong to it. */
void json_time(uint64_t wall_ms, uint8_t out[JSON_TIME])
{
    static _Thread_local struct {
        uint64_t next_s; /* the second after the one in `text`; 0: none */
        char text[JSON_TIME];
    } recent[8];
    uint64_t wall_s = wall_ms / 1000;
    unsigned at = (unsigned)(wall_s % 8);
    if (recent[at].next_s != wall_s + 1) {
        write_second(wall_s, recent[at].text);
        recent[at].next_s = wall_s + 1;
    }
    memcpy(out, recent[at].text, JSON_TIME);
    civil_digits((char *)out + 21, 3, (unsigned)(wall_ms % 1000));
}

void json_write_time(struct json_writer *w, uint64_t wall_ms)
{
    uint8_t text[JSON_TIME];
    json_time(wall_ms, text);
    put_value(w, text, sizeof(text));
}

void json_write_raw(struct json_writer *w, struct slice json)
{
    if (json.len == 0) {
        json_write_null(w);
        return;
    }
    put_value(w, json.data, json.len);
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

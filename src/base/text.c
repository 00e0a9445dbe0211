/* Checks of client-supplied text. ASCII is the fast path. */
#include "base/text.h"

#include "base/codec.h"
#include "base/limits.h"

/* A character that begins with a byte >= 0x80; returns its length, 0 when malformed. */
static size_t decode_wide(const uint8_t *at, size_t left, uint32_t *out)
{
    static const uint32_t smallest[5] = {0, 0, 0x80, 0x800, 0x10000};
    uint8_t lead = at[0];
    size_t len = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc2 || lead > 0xf4 || left < len) {
        return 0;
    }
    uint32_t c = lead & (0x7fu >> len);
    for (size_t i = 1; i < len; i++) {
        if ((at[i] & 0xc0) != 0x80) {
            return 0;
        }
        c = c << 6 | (at[i] & 0x3fu);
    }
    if (c < smallest[len] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff)) {
        return 0;
    }
    *out = c;
    return len;
}

/* Classes of bytes in plain text. */
enum { ORDINARY, SLASH, CONTROL, WIDE };

static const uint8_t classes[256] = {
    [0 ... 0x1f] = CONTROL, ['/'] = SLASH, [0x7f] = CONTROL, [0x80 ... 0xff] = WIDE};

#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

/* How many of the eight bytes, from the lowest one, are ORDINARY. A subtraction borrows only from
 * bytes above one that is not, so the lowest bit that is set is exact. */
static size_t count_ordinary(uint64_t word)
{
    uint64_t below_space = word - EACH(0x20);
    uint64_t slash = (word ^ EACH('/')) - EACH(1);
    uint64_t delete = (word ^ EACH(0x7f)) - EACH(1);
    uint64_t others = (word | below_space | slash | delete) & EACH(0x80);
    return others == 0 ? sizeof(word) : (size_t)__builtin_ctzll(others) / 8;
}

static uint64_t load_word(const uint8_t *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof(word));
    return little_endian(word);
}

static size_t skip_ordinary(struct slice text, size_t i)
{
    while (text.len - i >= sizeof(uint64_t)) {
        size_t count = count_ordinary(load_word(text.data + i));
        i += count;
        if (count < sizeof(uint64_t)) {
            return i;
        }
    }
    while (i < text.len && classes[text.data[i]] == ORDINARY) {
        i++;
    }
    return i;
}

static size_t skip_ascii(struct slice text, size_t i)
{
    while (text.len - i >= sizeof(uint64_t) && (load_word(text.data + i) & EACH(0x80)) == 0) {
        i += sizeof(uint64_t);
    }
    while (i < text.len && text.data[i] < 0x80) {
        i++;
    }
    return i;
}

bool text_is_utf8(struct slice text)
{
    size_t i = 0;
    while ((i = skip_ascii(text, i)) < text.len) {
        uint32_t c;
        size_t len = decode_wide(text.data + i, text.len - i, &c);
        if (len == 0) {
            return false;
        }
        i += len;
    }
    return true;
}

bool text_is_plain(struct slice text)
{
    size_t i = 0;
    while ((i = skip_ordinary(text, i)) < text.len) {
        uint8_t class = classes[text.data[i]];
        uint32_t c = 0;
        size_t len = class == WIDE ? decode_wide(text.data + i, text.len - i, &c) : 1;
        if (class == CONTROL || len == 0 || (class == WIDE && c < 0xa0)) {
            return false;
        }
        i += len;
    }
    return true;
}

static bool segment_is_bad(const uint8_t *at, size_t len)
{
    return len == 0 || (len == 1 && at[0] == '.') || (len == 2 && at[0] == '.' && at[1] == '.');
}

bool text_is_name(struct slice text)
{
    if (text.len == 0 || text.len > LIMIT_NAME) {
        return false;
    }
    size_t start = 0;
    size_t i = 0;
    for (;;) {
        i = skip_ordinary(text, i);
        uint8_t class = i == text.len ? SLASH : classes[text.data[i]];
        if (class == SLASH) {
            if (segment_is_bad(text.data + start, i - start)) {
                return false;
            }
            if (i == text.len) {
                return true;
            }
            start = ++i;
            continue;
        }
        uint32_t c = 0;
        size_t len = class == WIDE ? decode_wide(text.data + i, text.len - i, &c) : 0;
        if (len == 0 || c < 0xa0) {
            return false;
        }
        i += len;
    }
}

bool text_is_request_id(struct slice text)
{
    if (text.len == 0 || text.len > LIMIT_REQUEST_ID) {
        return false;
    }
    size_t i = 0;
    for (; text.len - i >= sizeof(uint64_t); i += sizeof(uint64_t)) {
        uint64_t word = load_word(text.data + i);
        uint64_t below = word - EACH('!');
        uint64_t delete = (word ^ EACH(0x7f)) - EACH(1);
        if (((word | below | delete) & EACH(0x80)) != 0) {
            return false;
        }
    }
    for (; i < text.len; i++) {
        if (text.data[i] < '!' || text.data[i] > '~') {
            return false;
        }
    }
    return true;
}

static bool is_lower_hex(uint8_t c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

/* `count` hexadecimal digits, not all of them `never`. */
static bool is_hex_field(const uint8_t *at, size_t count, uint8_t never)
{
    size_t equal = 0;
    for (size_t i = 0; i < count; i++) {
        if (!is_lower_hex(at[i])) {
            return false;
        }
        equal += at[i] == never;
    }
    return equal < count;
}

bool text_is_traceparent(struct slice text)
{
    const uint8_t *at = text.data;
    return text.len == LIMIT_TRACE && is_hex_field(at, 2, 'f') && at[2] == '-' &&
           is_hex_field(at + 3, 32, '0') && at[35] == '-' && is_hex_field(at + 36, 16, '0') &&
           at[52] == '-' && is_hex_field(at + 53, 2, '\0');
}

/* 1 for 0. The factor is log10(2), so the estimate is the number of digits or one less. */
static size_t count_digits(uint64_t value)
{
    static const uint64_t powers[TEXT_U64] = {0,    1e1,  1e2,  1e3,  1e4,  1e5,  1e6,
                                              1e7,  1e8,  1e9,  1e10, 1e11, 1e12, 1e13,
                                              1e14, 1e15, 1e16, 1e17, 1e18, 1e19};
    size_t estimate = (64 - (size_t)__builtin_clzll(value | 1)) * 1233 >> 12;
    return estimate + (value >= powers[estimate]);
}

size_t text_put_u64(uint8_t out[TEXT_U64], uint64_t value)
{
    size_t len = count_digits(value);
    uint8_t *at = out + len;
    for (; value >= 100; value /= 100) { /* a division takes most of the time */
        unsigned pair = (unsigned)(value % 100);
        *--at = (uint8_t)('0' + pair % 10);
        *--at = (uint8_t)('0' + pair / 10);
    }
    if (value >= 10) {
        *--at = (uint8_t)('0' + value % 10);
        value /= 10;
    }
    *--at = (uint8_t)('0' + value);
    return len;
}

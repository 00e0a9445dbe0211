/* Checks on text that comes from clients. Names are mostly ASCII, so that is the fast way. */
#include "base/text.h"

#include "base/limits.h"

/* Decodes one character that begins with a byte >= 0x80; returns its length, 0 when malformed. */
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

static bool check(struct slice text, bool allow_control)
{
    size_t i = 0;
    while (i < text.len) {
        uint8_t byte = text.data[i];
        if (byte < 0x80) {
            if (!allow_control && (byte < 0x20 || byte == 0x7f)) {
                return false;
            }
            i++;
            continue;
        }
        uint32_t c = 0;
        size_t len = decode_wide(text.data + i, text.len - i, &c);
        if (len == 0 || (!allow_control && c < 0xa0)) {
            return false;
        }
        i += len;
    }
    return true;
}

bool text_is_utf8(struct slice text)
{
    return check(text, true);
}

bool text_is_plain(struct slice text)
{
    return check(text, false);
}

static bool segment_is_bad(const uint8_t *at, size_t len)
{
    return len == 0 || (len == 1 && at[0] == '.') || (len == 2 && at[0] == '.' && at[1] == '.');
}

bool text_is_name(struct slice text)
{
    if (text.len == 0 || text.len > LIMIT_NAME || !text_is_plain(text)) {
        return false;
    }
    size_t start = 0;
    for (size_t i = 0; i <= text.len; i++) {
        if (i == text.len || text.data[i] == '/') {
            if (segment_is_bad(text.data + start, i - start)) {
                return false;
            }
            start = i + 1;
        }
    }
    return true;
}

bool text_is_request_id(struct slice text)
{
    if (text.len == 0 || text.len > LIMIT_REQUEST_ID) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < '!' || text.data[i] > '~') {
            return false;
        }
    }
    return true;
}

/* Basic credentials (RFC 7617), for HTTP clients that cannot send a bearer token. */
#include "service/auth/auth.h"

/* 64 or more: not a digit of base64. */
static unsigned digit_of(uint8_t c)
{
    return c >= 'A' && c <= 'Z'   ? c - (unsigned)'A'
           : c >= 'a' && c <= 'z' ? c - (unsigned)'a' + 26
           : c >= '0' && c <= '9' ? c - (unsigned)'0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : 64;
}

/* The length; 0: not base64 with its padding, or longer than `size`. */
static size_t decode(struct slice text, uint8_t *out, size_t size)
{
    size_t padding = 0;
    while (padding < 2 && text.len > 0 && text.data[text.len - 1] == '=') {
        text.len--;
        padding++;
    }
    size_t len = text.len * 3 / 4;
    if ((text.len + padding) % 4 != 0 || text.len % 4 == 1 || len > size) {
        return 0;
    }
    uint32_t bits = 0;
    for (size_t i = 0, at = 0; i < text.len; i++) {
        unsigned digit = digit_of(text.data[i]);
        if (digit > 63) {
            return 0;
        }
        bits = bits << 6 | digit;
        if (i % 4 != 0) {
            out[at++] = (uint8_t)(bits >> (6 - 2 * (i % 4)));
        }
    }
    return len;
}

bool auth_basic(struct slice authorization, uint8_t bytes[AUTH_BASIC_MAX], struct slice *token)
{
    static const char scheme[] = "basic ";
    size_t skip = sizeof(scheme) - 1;
    if (authorization.len <= skip || !slice_is_word(slice_make(authorization.data, skip), scheme)) {
        return false;
    }
    while (skip < authorization.len && authorization.data[skip] == ' ') {
        skip++;
    }
    size_t len = decode(slice_make(authorization.data + skip, authorization.len - skip), bytes,
                        AUTH_BASIC_MAX);
    const uint8_t *colon = len == 0 ? NULL : memchr(bytes, ':', len);
    if (colon == NULL) {
        return false;
    }
    *token = slice_make(colon + 1, len - (size_t)(colon + 1 - bytes));
    return token->len > 0;
}

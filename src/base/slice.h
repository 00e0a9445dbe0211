/* A view of bytes owned elsewhere, and the 128-bit ids of sessions and leases (S4.4), both passed
 * by value. */
#ifndef HOLDFAST_BASE_SLICE_H
#define HOLDFAST_BASE_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct slice {
    const uint8_t *data;
    size_t len;
};

static inline struct slice slice_make(const void *data, size_t len)
{
    return (struct slice){(const uint8_t *)data, len};
}

static inline struct slice slice_of(const char *text)
{
    return slice_make(text, strlen(text));
}

static inline bool slice_equal(struct slice a, struct slice b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

/* Equal apart from the case of ASCII letters. For words of the API. */
static inline bool slice_is_word(struct slice text, const char *word)
{
    size_t len = strlen(word);
    for (size_t i = 0; i < len && text.len == len; i++) {
        uint8_t a = text.data[i];
        uint8_t b = (uint8_t)word[i];
        a = a >= 'A' && a <= 'Z' ? (uint8_t)(a | 0x20) : a;
        b = b >= 'A' && b <= 'Z' ? (uint8_t)(b | 0x20) : b;
        if (a != b) {
            return false;
        }
    }
    return text.len == len;
}

/* Byte order, a prefix first: the canonical order of names (S6.2). */
static inline int slice_compare(struct slice a, struct slice b)
{
    size_t shorter = a.len < b.len ? a.len : b.len;
    int order = shorter == 0 ? 0 : memcmp(a.data, b.data, shorter);
    if (order != 0) {
        return order;
    }
    return a.len < b.len ? -1 : a.len > b.len;
}

static inline bool slice_starts_with(struct slice text, struct slice prefix)
{
    return text.len >= prefix.len &&
           (prefix.len == 0 || memcmp(text.data, prefix.data, prefix.len) == 0);
}

struct id {
    uint64_t high;
    uint64_t low;
};

static inline bool id_equal(struct id a, struct id b)
{
    return a.high == b.high && a.low == b.low;
}

static inline bool id_is_zero(struct id a)
{
    return (a.high | a.low) == 0;
}

static inline bool id_before(struct id a, struct id b)
{
    return a.high != b.high ? a.high < b.high : a.low < b.low;
}

#endif

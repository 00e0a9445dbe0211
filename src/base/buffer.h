/* A growable byte queue with a limit: append at the end, consume at the front.
 *
 * Consuming moves an index. Bytes are moved only when the space at the end is used up: at most one
 * move per appended byte, amortised, since the block is at most 1.5 times `max`.
 *
 * An append that would exceed `max` appends nothing and sets `overflowed`, and so does each append
 * after it. So a caller may append many pieces and check once. buffer_truncate removes a partial
 * response and clears the flag.
 *
 * The caller owns the `struct buffer`, which owns its block. An unused or released empty buffer
 * takes no memory. Pointers into it are valid until the next non-const call. */
#ifndef HOLDFAST_BASE_BUFFER_H
#define HOLDFAST_BASE_BUFFER_H

#include <stdarg.h>

#include "base/memory.h"
#include "base/slice.h"

struct buffer {
    uint8_t *data; /* the block; `start` to `end` is in use */
    size_t start;
    size_t end;
    size_t capacity;
    size_t max; /* limit of the bytes in use */
    bool overflowed;
    const struct memory *memory;
};

void buffer_init(struct buffer *b, const struct memory *memory, size_t max);
void buffer_close(struct buffer *b);

static inline size_t buffer_len(const struct buffer *b)
{
    return b->end - b->start;
}

static inline struct slice buffer_bytes(const struct buffer *b)
{
    return slice_make(b->data == NULL ? NULL : b->data + b->start, b->end - b->start);
}

static inline size_t buffer_space(const struct buffer *b)
{
    return b->max - buffer_len(b);
}

uint8_t *buffer_reserve_slowly(struct buffer *b, size_t len);

/* Space for `len` bytes at the end, which the caller fills and commits; NULL when that would exceed
 * `max`. */
static inline uint8_t *buffer_reserve(struct buffer *b, size_t len)
{
    if (len == 0 || len > b->capacity - b->end || len > buffer_space(b) || b->overflowed) {
        return buffer_reserve_slowly(b, len);
    }
    return b->data + b->end;
}

/* The first `len` bytes of the last reserved space. */
static inline void buffer_commit(struct buffer *b, size_t len)
{
    hf_assert(len <= b->capacity - b->end && len <= buffer_space(b));
    b->end += len;
}

/* Whether the bytes were appended: all or nothing. `data` must not point into the buffer. */
bool buffer_append_slowly(struct buffer *b, const void *data, size_t len);
bool buffer_printf(struct buffer *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool buffer_vprintf(struct buffer *b, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));

static inline bool buffer_append(struct buffer *b, const void *data, size_t len)
{
    /* Fast path: responses are written in many small pieces. */
    if (len == 0 || len > b->capacity - b->end || len > buffer_space(b) || b->overflowed) {
        return buffer_append_slowly(b, data, len);
    }
    memcpy(b->data + b->end, data, len);
    b->end += len;
    return true;
}

static inline bool buffer_append_slice(struct buffer *b, struct slice bytes)
{
    return buffer_append(b, bytes.data, bytes.len);
}

/* For literals, whose length is a compile-time constant, too. */
static inline bool buffer_append_text(struct buffer *b, const char *text)
{
    return buffer_append(b, text, strlen(text));
}

static inline bool buffer_append_byte(struct buffer *b, uint8_t byte)
{
    return buffer_append(b, &byte, 1);
}

void buffer_consume(struct buffer *b, size_t len);
/* Drops all but the first `len` bytes, and clears `overflowed`. */
void buffer_truncate(struct buffer *b, size_t len);
/* Frees the block of an empty buffer, so that an idle connection takes no memory. */
void buffer_release(struct buffer *b);
/* Keeps a block of at most `kept` bytes, for a buffer that is refilled soon. */
void buffer_release_above(struct buffer *b, size_t kept);

#endif

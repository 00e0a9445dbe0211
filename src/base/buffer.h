/* A growable run of bytes with a limit: appended to at the end, consumed at the front.
 *
 * It is what a connection reads into and what answers are written into. Consuming moves an index;
 * bytes are moved only when the room at the end has run out, and then no more of them than were
 * appended since the last time, on average. The block is at most half as large again as `max`, so
 * that this holds for a full buffer too.
 *
 * An append that would pass `max` appends nothing and sets `overflowed`, and so does each append
 * after it. So a caller may append many pieces and ask once at the end; buffer_truncate then takes
 * the half of an answer away and clears the flag.
 *
 * The caller owns the `struct buffer`, the buffer its block; an empty one that was released, or
 * never used, takes no memory. Pointers into it last until the next call that is not const. */
#ifndef HOLDFAST_BASE_BUFFER_H
#define HOLDFAST_BASE_BUFFER_H

#include <stdarg.h>

#include "base/memory.h"
#include "base/slice.h"

struct buffer {
    uint8_t *data; /* the block; what is held lies from `start` to `end` */
    size_t start;
    size_t end;
    size_t capacity;
    size_t max; /* bytes held at most */
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

/* How much more may be appended. */
static inline size_t buffer_room(const struct buffer *b)
{
    return b->max - buffer_len(b);
}

/* Room for `len` bytes at the end, to be filled by the caller and then committed, or NULL when
 * that would pass `max`. */
uint8_t *buffer_reserve(struct buffer *b, size_t len);
/* The first `len` bytes of what was reserved last are now held. */
void buffer_commit(struct buffer *b, size_t len);

/* These say whether it was appended; if not, nothing was. `data` must not lie in the buffer. */
bool buffer_append_slowly(struct buffer *b, const void *data, size_t len);
bool buffer_printf(struct buffer *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool buffer_vprintf(struct buffer *b, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));

static inline bool buffer_append(struct buffer *b, const void *data, size_t len)
{
    /* Mostly there is room, and answers are written in many small pieces. */
    if (len == 0 || len > b->capacity - b->end || len > buffer_room(b) || b->overflowed) {
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

/* For literals too: the compiler knows their length. */
static inline bool buffer_append_text(struct buffer *b, const char *text)
{
    return buffer_append(b, text, strlen(text));
}

static inline bool buffer_append_byte(struct buffer *b, uint8_t byte)
{
    return buffer_append(b, &byte, 1);
}

/* Drops the first `len` bytes. */
void buffer_consume(struct buffer *b, size_t len);
/* Drops all but the first `len` bytes, and forgets that an append did not fit. */
void buffer_truncate(struct buffer *b, size_t len);
/* Gives the block back if nothing is held: an idle connection should take no memory. */
void buffer_release(struct buffer *b);
/* The same, but for a block of at most `kept` bytes: for who is soon filled again, and again. */
void buffer_release_above(struct buffer *b, size_t kept);

#endif

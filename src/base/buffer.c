/* Implements base/buffer.h. */
#include "base/buffer.h"

#include <stdio.h>

enum { FIRST_CAPACITY = 512, PRINTF_GUESS = 256 };

void buffer_init(struct buffer *b, const struct memory *memory, size_t max)
{
    hf_assert(max > 0 && max <= SIZE_MAX / 4);
    *b = (struct buffer){.max = max, .memory = memory};
}

void buffer_close(struct buffer *b)
{
    if (b->data != NULL) {
        memory_free(b->memory, b->data, b->capacity);
    }
    *b = (struct buffer){.max = b->max, .memory = b->memory};
}

static size_t capacity_for(const struct buffer *b, size_t needed)
{
    size_t most = b->max + b->max / 2;
    size_t capacity = b->capacity == 0 ? FIRST_CAPACITY : b->capacity * 2;
    if (capacity > most) {
        capacity = most;
    }
    return capacity < needed ? needed : capacity;
}

/* Space for `len` bytes after `end`, regardless of `max`. */
static void ensure_space(struct buffer *b, size_t len)
{
    size_t held = buffer_len(b);
    if (b->capacity - b->end >= len) {
        return;
    }
    /* Move the bytes when at most half is used, or the block has its maximum size. */
    bool full_grown = b->capacity >= b->max + b->max / 2;
    if (held + len <= b->capacity && (held <= b->capacity / 2 || full_grown)) {
        memmove(b->data, b->data + b->start, held);
    } else {
        size_t capacity = capacity_for(b, held + len);
        uint8_t *grown = memory_alloc(b->memory, capacity);
        if (held > 0) {
            memcpy(grown, b->data + b->start, held);
        }
        if (b->data != NULL) {
            memory_free(b->memory, b->data, b->capacity);
        }
        b->data = grown;
        b->capacity = capacity;
    }
    b->start = 0;
    b->end = held;
}

uint8_t *buffer_reserve_slowly(struct buffer *b, size_t len)
{
    if (b->overflowed || len > buffer_space(b)) {
        b->overflowed = true;
        return NULL;
    }
    ensure_space(b, len > 0 ? len : 1);
    return b->data + b->end;
}

bool buffer_append_slowly(struct buffer *b, const void *data, size_t len)
{
    uint8_t *space = buffer_reserve(b, len);
    if (space == NULL) {
        return false;
    }
    if (len > 0) {
        memcpy(space, data, len);
    }
    b->end += len;
    return true;
}

bool buffer_vprintf(struct buffer *b, const char *format, va_list arguments)
{
    char guess[PRINTF_GUESS];
    va_list again;
    va_copy(again, arguments);
    int printed = vsnprintf(guess, sizeof(guess), format, arguments);
    hf_assert(printed >= 0);
    size_t len = (size_t)printed;
    bool fits = true;
    if (len < sizeof(guess)) {
        fits = buffer_append(b, guess, len);
    } else if (b->overflowed || len > buffer_space(b)) {
        b->overflowed = true;
        fits = false;
    } else {
        ensure_space(b, len + 1); /* vsnprintf also writes a NUL, which is not kept */
        vsnprintf((char *)b->data + b->end, len + 1, format, again);
        b->end += len;
    }
    va_end(again);
    return fits;
}

bool buffer_printf(struct buffer *b, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    bool fits = buffer_vprintf(b, format, arguments);
    va_end(arguments);
    return fits;
}

void buffer_consume(struct buffer *b, size_t len)
{
    hf_assert(len <= buffer_len(b));
    b->start += len;
    if (b->start == b->end) {
        b->start = b->end = 0;
    }
}

void buffer_truncate(struct buffer *b, size_t len)
{
    hf_assert(len <= buffer_len(b));
    b->end = b->start + len;
    b->overflowed = false;
}

void buffer_release(struct buffer *b)
{
    if (buffer_len(b) == 0) {
        bool overflowed = b->overflowed;
        buffer_close(b);
        b->overflowed = overflowed;
    }
}

void buffer_release_above(struct buffer *b, size_t kept)
{
    if (b->capacity > kept) {
        buffer_release(b);
    }
}

/* The binary formats of the log and of snapshots. Numbers are LEB128 in their shortest form: a
 * value has exactly one encoding. A reader that finds anything else sets `bad` permanently; the
 * caller checks it once at the end. Nothing here allocates. */
#ifndef HOLDFAST_BASE_CODEC_H
#define HOLDFAST_BASE_CODEC_H

#include "base/slice.h"

struct reader {
    const uint8_t *at;
    const uint8_t *end;
    bool bad;
};

static inline struct reader reader_make(struct slice bytes)
{
    /* NULL + 0 is undefined. */
    return (struct reader){bytes.data, bytes.len == 0 ? bytes.data : bytes.data + bytes.len, false};
}

static inline size_t reader_left(const struct reader *r)
{
    return (size_t)(r->end - r->at);
}

static inline bool reader_done(const struct reader *r)
{
    return !r->bad && r->at == r->end;
}

static inline uint8_t read_u8(struct reader *r)
{
    if (r->at == r->end) {
        r->bad = true;
        return 0;
    }
    return *r->at++;
}

/* More than one byte; the caller has checked the first. */
static inline uint64_t read_u64_long(struct reader *r)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t byte = read_u8(r);
        if (shift == 63 && byte > 1) {
            r->bad = true;
        }
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            if (byte == 0 && shift > 0) {
                r->bad = true; /* a longer form of a smaller number */
            }
            return value;
        }
    }
    r->bad = true;
    return 0;
}

static inline uint64_t read_u64(struct reader *r)
{
    if (r->at != r->end && *r->at < 0x80) {
        return *r->at++;
    }
    return read_u64_long(r);
}

static inline uint32_t read_u32(struct reader *r)
{
    uint64_t value = read_u64(r);
    if (value > UINT32_MAX) {
        r->bad = true;
        return 0;
    }
    return (uint32_t)value;
}

static inline uint64_t little_endian(uint64_t value)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return __builtin_bswap64(value);
#else
    return value;
#endif
}

static inline uint64_t read_fixed64(struct reader *r)
{
    if (reader_left(r) < 8) {
        r->bad = true;
        return 0;
    }
    uint64_t value;
    memcpy(&value, r->at, 8);
    r->at += 8;
    return little_endian(value);
}

/* A byte 0 when absent, otherwise a byte 1 and 16 bytes. */
static inline struct id read_id(struct reader *r)
{
    struct id id = {0, 0};
    uint8_t present = read_u8(r);
    if (present == 1) {
        id.high = read_fixed64(r);
        id.low = read_fixed64(r);
    }
    if (present > 1 || (present == 1 && id_is_zero(id))) {
        r->bad = true;
    }
    return id;
}

static inline struct slice read_slice(struct reader *r, size_t max)
{
    uint64_t len = read_u64(r);
    if (r->bad || len > max || len > reader_left(r)) {
        r->bad = true;
        return slice_make(NULL, 0);
    }
    struct slice bytes = slice_make(r->at, (size_t)len);
    r->at += len;
    return bytes;
}

/* Into a buffer of the caller; what does not fit sets `full` and is dropped. */
struct writer {
    uint8_t *at;
    uint8_t *end;
    bool full;
};

static inline struct writer writer_make(void *buffer, size_t size)
{
    return (struct writer){(uint8_t *)buffer, (uint8_t *)buffer + size, false};
}

static inline void write_bytes(struct writer *w, const void *data, size_t len)
{
    if ((size_t)(w->end - w->at) < len) {
        w->full = true;
        return;
    }
    if (len > 0) {
        memcpy(w->at, data, len);
    }
    w->at += len;
}

static inline void write_u8(struct writer *w, uint8_t value)
{
    if (w->at == w->end) {
        w->full = true;
        return;
    }
    *w->at++ = value;
}

static inline void write_u64(struct writer *w, uint64_t value)
{
    while (value >= 0x80) {
        write_u8(w, (uint8_t)(value | 0x80));
        value >>= 7;
    }
    write_u8(w, (uint8_t)value);
}

static inline void write_fixed64(struct writer *w, uint64_t value)
{
    value = little_endian(value);
    write_bytes(w, &value, sizeof(value));
}

static inline void write_id(struct writer *w, struct id id)
{
    if (id_is_zero(id)) {
        write_u8(w, 0);
        return;
    }
    write_u8(w, 1);
    write_fixed64(w, id.high);
    write_fixed64(w, id.low);
}

static inline void write_slice(struct writer *w, struct slice bytes)
{
    write_u64(w, bytes.len);
    write_bytes(w, bytes.data, bytes.len);
}

#endif

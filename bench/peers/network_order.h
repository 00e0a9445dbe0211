/* Numbers as ZooKeeper's and PostgreSQL's protocols have them: big-endian, in a buffer. */
#ifndef HOLDFAST_BENCH_NETWORK_ORDER_H
#define HOLDFAST_BENCH_NETWORK_ORDER_H

#include "base/buffer.h"

static inline void put_be(struct buffer *out, uint64_t value, unsigned bytes)
{
    uint8_t at[8];
    for (unsigned i = 0; i < bytes; i++) {
        at[i] = (uint8_t)(value >> (8 * (bytes - 1 - i)));
    }
    buffer_append(out, at, bytes);
}

static inline void put_u8(struct buffer *out, uint8_t value)
{
    put_be(out, value, 1);
}

static inline void put_u16(struct buffer *out, uint16_t value)
{
    put_be(out, value, 2);
}

static inline void put_u32(struct buffer *out, uint32_t value)
{
    put_be(out, value, 4);
}

static inline void put_u64(struct buffer *out, uint64_t value)
{
    put_be(out, value, 8);
}

/* Zero where the bytes do not reach; what is read that way is never taken for a success. */
static inline uint64_t get_be(struct slice in, size_t at, unsigned bytes)
{
    uint64_t value = 0;
    if (at > in.len || in.len - at < bytes) {
        return 0;
    }
    for (unsigned i = 0; i < bytes; i++) {
        value = value << 8 | in.data[at + i];
    }
    return value;
}

/* A message's length stands before it, as four bytes. It is left out first, and filled in when the
 * message is complete. */
static inline size_t begin_length(struct buffer *out)
{
    size_t at = buffer_len(out);
    put_u32(out, 0);
    return at;
}

/* With `itself` the four bytes count. */
static inline void end_length(struct buffer *out, size_t at, bool itself)
{
    size_t len = buffer_len(out) - at - (itself ? 0 : 4);
    /* The buffer is ours, and these bytes of it were appended above. */
    uint8_t *bytes = (uint8_t *)(uintptr_t)buffer_bytes(out).data + at;
    hf_assert(!out->overflowed && len <= UINT32_MAX);
    for (unsigned i = 0; i < 4; i++) {
        bytes[i] = (uint8_t)(len >> (8 * (3 - i)));
    }
}

#endif

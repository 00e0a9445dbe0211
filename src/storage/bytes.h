/* Little-endian numbers at any address, and the checksum of all files of storage/. XXH3 detects
 * damage; it does not protect against an attacker who can write to the disk. */
#ifndef HOLDFAST_STORAGE_BYTES_H
#define HOLDFAST_STORAGE_BYTES_H

#include <stddef.h>
#include <stdint.h>

static inline void put_u32(uint8_t *at, uint32_t value)
{
    for (unsigned i = 0; i < 4; i++) {
        at[i] = (uint8_t)(value >> 8 * i);
    }
}

static inline void put_u64(uint8_t *at, uint64_t value)
{
    for (unsigned i = 0; i < 8; i++) {
        at[i] = (uint8_t)(value >> 8 * i);
    }
}

static inline uint32_t get_u32(const uint8_t *at)
{
    uint32_t value = 0;
    for (unsigned i = 0; i < 4; i++) {
        value |= (uint32_t)at[i] << 8 * i;
    }
    return value;
}

static inline uint64_t get_u64(const uint8_t *at)
{
    return get_u32(at) | (uint64_t)get_u32(at + 4) << 32;
}

static inline size_t round_up_8(size_t n)
{
    return (n + 7) & ~(size_t)7;
}

/* In checksum.c, so that xxHash is compiled once. */
uint64_t storage_checksum(const void *data, size_t len, uint64_t seed);

#endif

/* The checksum of storage/: 64-bit XXH3, header-only. */
#include "storage/bytes.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t storage_checksum(const void *data, size_t len, uint64_t seed)
{
    return XXH3_64bits_withSeed(data, len, seed);
}

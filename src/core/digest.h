/* Digests of fields, for command_digest. The same fields must have the same digest in every
 * version: members of two versions compare them. */
#ifndef HOLDFAST_CORE_DIGEST_H
#define HOLDFAST_CORE_DIGEST_H

#include <string.h>

#include "core/field.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

static inline uint64_t digest_add_u64(uint64_t digest, const uint64_t *field)
{
    uint8_t bytes[8];
    struct writer w = writer_make(bytes, sizeof(bytes));
    write_fixed64(&w, *field);
    return XXH3_64bits_withSeed(bytes, sizeof(bytes), digest);
}

static inline uint64_t digest_add_u32(uint64_t digest, const uint32_t *field)
{
    uint64_t wide = *field;
    return digest_add_u64(digest, &wide);
}

static inline uint64_t digest_add_id(uint64_t digest, const struct id *field)
{
    return digest_add_u64(digest_add_u64(digest, &field->high), &field->low);
}

static inline uint64_t digest_add_slice(uint64_t digest, const struct slice *field)
{
    uint64_t len = field->len;
    digest = digest_add_u64(digest, &len);
    return len == 0 ? digest : XXH3_64bits_withSeed(field->data, field->len, digest);
}

static inline uint64_t digest_add_word(uint64_t digest, const char *word)
{
    return XXH3_64bits_withSeed(word, strlen(word), digest);
}

/* A field of format 1 is always part of the digest. A later one is part of it only when it is set,
 * with its name before it: two such fields with equal values differ. */
#define DIGEST_FIELD(digest, since, type, name, at)                                             \
    ((since) <= RECORD_FORMAT_1_VERSION ? digest_add_##type(digest, at)                         \
     : field_is_set_##type(at)          ? digest_add_##type(digest_add_word(digest, #name), at) \
                                        : (digest))

#endif

/* SHA-256, HMAC-SHA-256, random bytes and comparison in constant time. */
#ifndef HOLDFAST_TLS_DIGEST_H
#define HOLDFAST_TLS_DIGEST_H

#include "base/slice.h"

#define DIGEST_SIZE 32

void digest_sha256(struct slice bytes, uint8_t out[DIGEST_SIZE]);
/* Of the parts, one after the other. Parts of varying length need their lengths in between. */
void digest_hmac(struct slice key, const struct slice *parts, size_t count,
                 uint8_t out[DIGEST_SIZE]);
/* From the generator for secrets. The process ends if the system has none. */
void digest_random(void *out, size_t len);
/* In a time that depends on `len` only. */
bool digest_equal(const void *a, const void *b, size_t len);
/* Overwrites a secret; the compiler cannot remove the call. */
void digest_wipe(void *secret, size_t len);

#endif

/* Implements tls/digest.h by OpenSSL. */
#include "tls/digest.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include "base/panic.h"

enum { BLOCK = 64 }; /* of SHA-256, in bytes */

/* Fetched once per thread: the lookup is slower than the digest of a token. */
static const EVP_MD *sha256(void)
{
    static _Thread_local EVP_MD *found;
    if (found == NULL) {
        found = EVP_MD_fetch(NULL, "SHA256", NULL);
        hf_assert(found != NULL);
    }
    return found;
}

void digest_sha256(struct slice bytes, uint8_t out[DIGEST_SIZE])
{
    unsigned len = 0;
    int done = EVP_Digest(bytes.data, bytes.len, out, &len, sha256(), NULL);
    hf_assert(done == 1 && len == DIGEST_SIZE);
}

/* H(pad || parts), RFC 2104. */
static void hash_padded(const uint8_t pad[BLOCK], const struct slice *parts, size_t count,
                        uint8_t out[DIGEST_SIZE])
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    unsigned len = 0;
    bool done = ctx != NULL && EVP_DigestInit_ex(ctx, sha256(), NULL) == 1 &&
                EVP_DigestUpdate(ctx, pad, BLOCK) == 1;
    for (size_t i = 0; i < count && done; i++) {
        done = EVP_DigestUpdate(ctx, parts[i].data, parts[i].len) == 1;
    }
    done = done && EVP_DigestFinal_ex(ctx, out, &len) == 1;
    hf_assert(done && len == DIGEST_SIZE);
    EVP_MD_CTX_free(ctx);
}

void digest_hmac(struct slice key, const struct slice *parts, size_t count,
                 uint8_t out[DIGEST_SIZE])
{
    uint8_t inner[BLOCK] = {0}, outer[BLOCK], inside[DIGEST_SIZE];
    if (key.len > BLOCK) {
        digest_sha256(key, inner);
    } else if (key.len > 0) {
        memcpy(inner, key.data, key.len);
    }
    for (int i = 0; i < BLOCK; i++) {
        outer[i] = inner[i] ^ 0x5c;
        inner[i] ^= 0x36;
    }
    hash_padded(inner, parts, count, inside);
    struct slice result = slice_make(inside, sizeof(inside));
    hash_padded(outer, &result, 1, out);
    digest_wipe(inner, sizeof(inner));
    digest_wipe(outer, sizeof(outer));
}

void digest_random(void *out, size_t len)
{
    hf_assert(len <= INT32_MAX);
    int done = RAND_priv_bytes(out, (int)len);
    hf_assert(done == 1);
}

bool digest_equal(const void *a, const void *b, size_t len)
{
    return CRYPTO_memcmp(a, b, len) == 0;
}

void digest_wipe(void *secret, size_t len)
{
    OPENSSL_cleanse(secret, len);
}

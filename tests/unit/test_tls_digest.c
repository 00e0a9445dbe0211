/* Digests, by published vectors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tls/digest.h"

static void sha256_gives_the_published_digest(void **state)
{
    (void)state;
    static const uint8_t expected[] = {0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea,
                                       0x41, 0x41, 0x40, 0xde, 0x5d, 0xae, 0x22, 0x23,
                                       0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17, 0x7a, 0x9c,
                                       0xb4, 0x10, 0xff, 0x61, 0xf2, 0x00, 0x15, 0xad};
    uint8_t sum[DIGEST_SIZE];
    digest_sha256(slice_of("abc"), sum);
    assert_memory_equal(sum, expected, DIGEST_SIZE);
}

/* RFC 4231, cases 2 and 6. */
static void hmac_gives_the_published_codes(void **state)
{
    (void)state;
    static const uint8_t second[] = {0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e,
                                     0x6a, 0x04, 0x24, 0x26, 0x08, 0x95, 0x75, 0xc7,
                                     0x5a, 0x00, 0x3f, 0x08, 0x9d, 0x27, 0x39, 0x83,
                                     0x9d, 0xec, 0x58, 0xb9, 0x64, 0xec, 0x38, 0x43};
    static const uint8_t sixth[] = {0x60, 0xe4, 0x31, 0x59, 0x1e, 0xe0, 0xb6, 0x7f,
                                    0x0d, 0x8a, 0x26, 0xaa, 0xcb, 0xf5, 0xb7, 0x7f,
                                    0x8e, 0x0b, 0xc6, 0x21, 0x37, 0x28, 0xc5, 0x14,
                                    0x05, 0x46, 0x04, 0x0f, 0x0e, 0xe3, 0x7f, 0x54};
    uint8_t code[DIGEST_SIZE], key[131];
    struct slice parts[] = {slice_of("what do ya want "), slice_of("for nothing?")};
    digest_hmac(slice_of("Jefe"), parts, 2, code);
    assert_memory_equal(code, second, DIGEST_SIZE);
    memset(key, 0xaa, sizeof(key));
    parts[0] = slice_of("Test Using Larger Than Block-Size Key - Hash Key First");
    digest_hmac(slice_make(key, sizeof(key)), parts, 1, code);
    assert_memory_equal(code, sixth, DIGEST_SIZE);
}

static void random_bytes_differ_and_secrets_are_wiped(void **state)
{
    (void)state;
    uint8_t a[32], b[32], zero[32] = {0};
    digest_random(a, sizeof(a));
    digest_random(b, sizeof(b));
    assert_false(digest_equal(a, b, sizeof(a)));
    memcpy(b, a, sizeof(a));
    assert_true(digest_equal(a, b, sizeof(a)));
    b[31] ^= 1;
    assert_false(digest_equal(a, b, sizeof(a)));
    digest_wipe(a, sizeof(a));
    assert_memory_equal(a, zero, sizeof(a));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sha256_gives_the_published_digest),
        cmocka_unit_test(hmac_gives_the_published_codes),
        cmocka_unit_test(random_bytes_differ_and_secrets_are_wiped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Keys of Redis clients as names (service/resp/name.h). */
#include "base_testing.h"

#include "base/text.h"
#include "service/resp/name.h"

static void expect(uint32_t database, struct slice key, const char *expected)
{
    uint8_t bytes[RESP_NAME_BYTES];
    uint8_t back[RESP_KEY_MAX];
    struct slice name;
    struct slice again;
    assert_true(resp_name_of_key(database, key, bytes, &name));
    assert_true(slice_equal(name, slice_of(expected)));
    assert_true(resp_key_of_name(database, name, back, &again));
    assert_true(slice_equal(again, key));
}

static void a_key_that_can_be_a_name_is_its_own_name(void **state)
{
    expect(0, slice_of("jobs/1"), "jobs/1");
    expect(0, slice_of("100%25"), "100%25");
    expect(0, slice_of("redis:16/a"), "redis:16/a");
    expect(0,
           slice_of("gr\xc3\xbc\xc3\x9f"
                    "e"),
           "gr\xc3\xbc\xc3\x9f"
           "e");
}

static void every_other_key_is_percent_encoded(void **state)
{
    expect(0, slice_of("a\xff"), "redis:0/a%FF");
    expect(0, slice_make("\0", 1), "redis:0/%00");
    expect(0, slice_of("http://x/"), "redis:0/http:/%2Fx%2F");
    expect(0, slice_of("/"), "redis:0/%2F");
    expect(0, slice_of("//"), "redis:0/%2F%2F");
    expect(0, slice_of("."), "redis:0/%2E");
    expect(0, slice_of("a/../b"), "redis:0/a/%2E./b");
    expect(0, slice_of("../"), "redis:0/%2E.%2F");
    expect(0, slice_of("a//.b"), "redis:0/a/%2F.b");
    expect(0, slice_of("\xc2\x80%41"), "redis:0/%C2%80%2541");
    expect(0, slice_of("redis:3/a"), "redis:0/redis:3/a");
    expect(3, slice_of("a"), "redis:3/a");
    expect(15, slice_of("50%"), "redis:15/50%25");
}

static void a_name_belongs_to_one_database(void **state)
{
    uint8_t back[RESP_KEY_MAX];
    struct slice key;
    assert_false(resp_key_of_name(0, slice_of("redis:3/a"), back, &key));
    assert_false(resp_key_of_name(3, slice_of("a"), back, &key));
    assert_false(resp_key_of_name(1, slice_of("redis:10/a"), back, &key));
    /* Names of other APIs that no key has. */
    assert_false(resp_key_of_name(0, slice_of("redis:0/a"), back, &key));
    assert_false(resp_key_of_name(3, slice_of("redis:3/%41"), back, &key));
    assert_false(resp_key_of_name(3, slice_of("redis:3/%"), back, &key));
    assert_false(resp_key_of_name(3, slice_of("redis:3/%ff"), back, &key));
}

/* Bytes that meet the rules of names often. */
static void different_keys_have_different_names(void **state)
{
    static const uint8_t some[] = {'/', '.', '%', '2', 'F', 'a', 0, 0xff, 0xc3, 0xbc, 0x7f};
    uint64_t seed = 1;
    for (int i = 0; i < 200000; i++) {
        uint8_t bytes[12];
        uint8_t text[RESP_NAME_BYTES];
        uint8_t back[RESP_KEY_MAX];
        struct slice name;
        struct slice again;
        size_t len = 1 + seed % sizeof(bytes);
        for (size_t at = 0; at < len; at++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            bytes[at] = some[(seed >> 33) % sizeof(some)];
        }
        struct slice key = slice_make(bytes, len);
        uint32_t database = (uint32_t)(seed >> 40) % RESP_DATABASES;
        assert_true(resp_name_of_key(database, key, text, &name));
        assert_true(text_is_name(name));
        assert_true(resp_key_of_name(database, name, back, &again));
        assert_true(slice_equal(again, key));
    }
}

static void a_key_has_1_to_512_bytes(void **state)
{
    uint8_t bytes[RESP_KEY_MAX + 1];
    uint8_t text[RESP_NAME_BYTES];
    struct slice name;
    memset(bytes, 'k', sizeof(bytes));
    assert_false(resp_name_of_key(0, slice_make(bytes, 0), text, &name));
    assert_true(resp_name_of_key(0, slice_make(bytes, RESP_KEY_MAX), text, &name));
    assert_false(resp_name_of_key(0, slice_make(bytes, RESP_KEY_MAX + 1), text, &name));
}

static void a_sharded_channel_has_a_name_that_no_key_has(void **state)
{
    static const char *const channels[] = {"a",         "jobs/1", "100%25", "a\xff",
                                           "redis:3/a", "//",     "%shard/"};
    static const char *const names[] = {"redis:0/%shard/a",          "redis:0/%shard/jobs/1",
                                        "redis:0/%shard/100%2525",   "redis:0/%shard/a%FF",
                                        "redis:0/%shard/redis:3/a",  "redis:0/%shard/%2F%2F",
                                        "redis:0/%shard/%25shard%2F"};
    uint8_t bytes[RESP_NAME_BYTES];
    uint8_t back[RESP_KEY_MAX];
    struct slice name;
    struct slice again;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        assert_true(resp_name_of_shard(slice_of(channels[i]), bytes, &name));
        assert_true(slice_equal(name, slice_of(names[i])));
        assert_true(resp_shard_of_name(name, back, &again));
        assert_true(slice_equal(again, slice_of(channels[i])));
        assert_false(resp_key_of_name(0, name, back, &again));
        /* An ordinary channel that is called so has another name. */
        assert_true(resp_name_of_channel(slice_of(names[i]), bytes, &name));
        assert_false(resp_shard_of_name(name, back, &again));
    }
    assert_false(resp_name_of_shard(slice_of(""), bytes, &name));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_that_can_be_a_name_is_its_own_name),
        cmocka_unit_test(every_other_key_is_percent_encoded),
        cmocka_unit_test(a_name_belongs_to_one_database),
        cmocka_unit_test(different_keys_have_different_names),
        cmocka_unit_test(a_key_has_1_to_512_bytes),
        cmocka_unit_test(a_sharded_channel_has_a_name_that_no_key_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

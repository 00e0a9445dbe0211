/* The lists of a transaction as bytes, and the rules about them that need no state (S13.2). */
#include "base_testing.h"

#include "core/command.h"

static const struct id session_id = {7, 8};

/* A transaction with one effect of each kind. */
static void fill(struct command *c)
{
    static uint8_t check_bytes[256];
    static uint8_t effect_bytes[1024];
    struct packer checks = packer_make(check_bytes, sizeof(check_bytes));
    struct packer effects = packer_make(effect_bytes, sizeof(effect_bytes));
    command_init(c, COMMAND_TRANSACT);
    c->transact.id = session_id;
    c->transact.client = slice_of("resp");
    c->transact.actor = slice_of("resp");
    c->transact.reason = slice_of("DEL");
    assert_true(pack_check(&checks, &(struct key_check){slice_of("a"), {0, 0, 0}}));
    assert_true(pack_check(&checks, &(struct key_check){slice_of("b"), {2048, 3, UINT64_MAX}}));
    const struct effect all[] = {
        {.kind = EFFECT_PUT,
         .flags = EFFECT_HASH,
         .name = slice_of("a"),
         .value = slice_make("\0\xff", 2),
         .lease = {3, 4},
         .ttl_ms = 30000},
        {.kind = EFFECT_EXPIRE, .name = slice_of("b"), .ttl_ms = 100},
        {.kind = EFFECT_DROP, .name = slice_of("c"), .flags = EFFECT_FORCED | EFFECT_NOW},
        {.kind = EFFECT_COUNTER, .name = slice_of("d"), .number = INT64_MIN},
        {.kind = EFFECT_COUNTER, .name = slice_of("e"), .flags = EFFECT_TTL, .ttl_ms = 1},
        {.kind = EFFECT_COUNTER, .name = slice_of("f"), .flags = EFFECT_PERSIST, .number = 2},
        {.kind = EFFECT_PUBLISH, .name = slice_of("a//b"), .value = slice_of("0")},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        assert_true(pack_effect(&effects, &all[i]));
    }
    c->transact.checks = packer_list(&checks);
    c->transact.effects = packer_list(&effects);
}

static struct packed one_effect(const struct effect *e)
{
    static uint8_t bytes[2 * LIMIT_KEY_VALUE];
    struct packer p = packer_make(bytes, sizeof(bytes));
    assert_true(pack_effect(&p, e));
    return packer_list(&p);
}

static void the_lists_of_a_transaction_come_back_as_they_were(void **state)
{
    (void)state;
    struct command in;
    struct command out;
    uint8_t bytes[4096];
    fill(&in);
    size_t len = command_encode(&in, CORE_VERSION, bytes, sizeof(bytes));
    assert_int_equal(command_decode(slice_make(bytes, len), &out), HF_OK);
    struct reader r = packed_reader(&out.transact.checks);
    struct key_check check;
    assert_true(unpack_check(&r, &check) && unpack_check(&r, &check));
    assert_true(slice_equal(check.name, slice_of("b")));
    assert_true(key_version_equal(check.version, (struct key_version){2048, 3, UINT64_MAX}));
    assert_false(unpack_check(&r, &check));
    r = packed_reader(&out.transact.effects);
    struct effect e;
    assert_true(unpack_effect(&r, &e));
    assert_int_equal(e.kind, EFFECT_PUT);
    assert_int_equal(e.flags, EFFECT_HASH);
    assert_true(slice_equal(e.value, slice_make("\0\xff", 2)));
    assert_int_equal(e.ttl_ms, 30000);
    assert_true(id_equal(e.lease, (struct id){3, 4}));
    for (int i = 0; i < 3; i++) {
        assert_true(unpack_effect(&r, &e));
    }
    assert_true(e.number == INT64_MIN);
    assert_true(unpack_effect(&r, &e));
    assert_int_equal(e.flags, EFFECT_TTL);
    assert_int_equal(e.ttl_ms, 1);
    assert_true(unpack_effect(&r, &e));
    assert_int_equal(e.flags, EFFECT_PERSIST);
    assert_int_equal(e.number, 2);
    assert_int_equal(e.ttl_ms, 0);
    assert_true(unpack_effect(&r, &e));
    assert_false(unpack_effect(&r, &e));
    assert_true(reader_done(&r));
}

static void an_effect_that_breaks_a_rule_is_named(void **state)
{
    (void)state;
    static const uint8_t long_value[LIMIT_KEY_VALUE + 1] = {0};
    const struct id lease = {1, 1};
    const struct {
        enum hf_error expected;
        struct effect effect;
    } rules[] = {
        {HF_OK,
         {EFFECT_PUT, 0, slice_of("a"), slice_make(long_value, LIMIT_KEY_VALUE), lease, 0, 0}},
        {HF_INVALID_METADATA,
         {EFFECT_PUT, 0, slice_of("a"), slice_make(long_value, LIMIT_KEY_VALUE + 1), lease, 0, 0}},
        {HF_OK,
         {EFFECT_PUBLISH, 0, slice_of("a"), slice_make(long_value, LIMIT_VALUE), {0, 0}, 0, 0}},
        {HF_INVALID_METADATA,
         {EFFECT_PUBLISH, 0, slice_of("a"), slice_make(long_value, LIMIT_VALUE + 1), {0, 0}, 0, 0}},
        {HF_INVALID_NAME,
         {EFFECT_DROP, 0, slice_make(long_value, LIMIT_NAME + 1), {NULL, 0}, {0, 0}, 0, 0}},
        {HF_INVALID_NAME, {EFFECT_PUT, 0, slice_of("a//b"), {NULL, 0}, lease, 0, 0}},
        {HF_INVALID_NAME, {EFFECT_PUBLISH, 0, {NULL, 0}, {NULL, 0}, {0, 0}, 0, 0}},
        {HF_INVALID_NAME, {EFFECT_PUBLISH, 0, slice_of("\n"), {NULL, 0}, {0, 0}, 0, 0}},
        {HF_INVALID_ID, {EFFECT_PUT, 0, slice_of("a"), {NULL, 0}, {0, 0}, 0, 0}},
        {HF_INVALID_TTL,
         {EFFECT_PUT, 0, slice_of("a"), {NULL, 0}, lease, LIMIT_KEY_TTL_MAX_MS + 1, 0}},
        {HF_INVALID_TTL, {EFFECT_EXPIRE, 0, slice_of("a"), {NULL, 0}, {0, 0}, TTL_NONE - 1, 0}},
        {HF_MALFORMED, {EFFECT_EXPIRE, EFFECT_HASH, slice_of("a"), {NULL, 0}, {0, 0}, 0, 0}},
        {HF_OK, {EFFECT_PUT, EFFECT_LIST, slice_of("a"), {NULL, 0}, lease, 0, 0}},
        {HF_OK, {EFFECT_PUT, EFFECT_SORTED_SET, slice_of("a"), {NULL, 0}, lease, 0, 0}},
        {HF_OK, {EFFECT_PUT, EFFECT_SET, slice_of("a"), {NULL, 0}, lease, 0, 0}},
        {HF_MALFORMED,
         {EFFECT_PUT, EFFECT_LIST | EFFECT_HASH, slice_of("a"), {NULL, 0}, lease, 0, 0}},
        {HF_MALFORMED, {EFFECT_DROP, EFFECT_LIST, slice_of("a"), {NULL, 0}, {0, 0}, 0, 0}},
        {HF_MALFORMED, {EFFECT_DROP, EFFECT_NOW, slice_of("a"), {NULL, 0}, {0, 0}, 0, 0}},
        {HF_MALFORMED, {EFFECT_PUT, EFFECT_FORCED, slice_of("a"), {NULL, 0}, lease, 0, 0}},
    };
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        struct command c;
        fill(&c);
        c.transact.effects = one_effect(&rules[i].effect);
        assert_string_equal(hf_error_code(command_check(&c)), hf_error_code(rules[i].expected));
    }
}

static void a_transaction_that_breaks_a_rule_is_refused(void **state)
{
    (void)state;
    struct command c;
    static uint8_t bytes[1 << 17];
    fill(&c);
    c.transact.actor = slice_of(""); /* something is forced */
    assert_int_equal(command_check(&c), HF_INVALID_ACTOR);
    fill(&c);
    c.transact.id = (struct id){0, 0};
    assert_int_equal(command_check(&c), HF_INVALID_ID);
    fill(&c);
    c.session = session_id;
    assert_int_equal(command_check(&c), HF_INVALID_ID);
    fill(&c);
    c.request_id = slice_of("r");
    assert_int_equal(command_check(&c), HF_INVALID_REQUEST_ID);
    fill(&c);
    c.transact.client = slice_of("");
    assert_int_equal(command_check(&c), HF_INVALID_CLIENT);
    fill(&c);
    c.transact.checks = c.transact.effects = (struct packed){0, {NULL, 0}};
    assert_int_equal(command_check(&c), HF_MALFORMED);
    fill(&c);
    c.transact.checks.count++;
    assert_int_equal(command_check(&c), HF_MALFORMED);

    struct packer p = packer_make(bytes, sizeof(bytes));
    struct effect twice = {.kind = EFFECT_DROP, .name = slice_of("a")};
    assert_true(pack_effect(&p, &twice) && pack_effect(&p, &twice));
    fill(&c);
    c.transact.effects = packer_list(&p);
    assert_int_equal(command_check(&c), HF_DUPLICATE_NAME);

    p = packer_make(bytes, sizeof(bytes));
    struct effect put = {
        .kind = EFFECT_PUT, .name = slice_of("a"), .lease = {1, 1}, .ttl_ms = 1000};
    assert_true(pack_effect(&p, &put));
    put.name = slice_of("b");
    assert_true(pack_effect(&p, &put));
    c.transact.effects = packer_list(&p);
    assert_int_equal(command_check(&c), HF_INVALID_ID); /* one lease id for two locks */
}

static void a_transaction_has_at_most_64_effects_and_160_kib(void **state)
{
    (void)state;
    struct command c;
    static uint8_t bytes[1 << 18];
    static uint8_t encoded[1 << 18];
    static const uint8_t value[LIMIT_VALUE] = {1};
    struct effect e = {.kind = EFFECT_PUBLISH, .name = slice_of("channel")};
    struct packer p = packer_make(bytes, sizeof(bytes));
    for (uint32_t i = 0; i < LIMIT_EFFECTS; i++) {
        assert_true(pack_effect(&p, &e));
    }
    assert_false(pack_effect(&p, &e));
    fill(&c);
    c.transact.effects = packer_list(&p);
    assert_int_equal(command_check(&c), HF_OK);

    p = packer_make(bytes, sizeof(bytes));
    e.value = slice_make(value, sizeof(value));
    for (int i = 0; i < 39; i++) {
        assert_true(pack_effect(&p, &e));
        c.transact.effects = packer_list(&p);
        assert_int_equal(command_since(&c), i < 9 ? 2 : 9); /* 40 KiB */
    }
    assert_int_equal(command_check(&c), HF_OK);
    assert_true(pack_effect(&p, &e));
    c.transact.effects = packer_list(&p);
    assert_int_equal(command_check(&c), HF_TRANSACT_TOO_LARGE);
    size_t len = command_encode(&c, CORE_VERSION, encoded, sizeof(encoded));
    struct command out;
    assert_int_equal(command_decode(slice_make(encoded, len), &out), HF_MALFORMED);

    uint8_t small[8];
    p = packer_make(small, sizeof(small));
    assert_false(pack_effect(&p, &e)); /* no space, and nothing of it stays */
    assert_int_equal(packer_list(&p).bytes.len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_lists_of_a_transaction_come_back_as_they_were),
        cmocka_unit_test(an_effect_that_breaks_a_rule_is_named),
        cmocka_unit_test(a_transaction_that_breaks_a_rule_is_refused),
        cmocka_unit_test(a_transaction_has_at_most_64_effects_and_160_kib),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

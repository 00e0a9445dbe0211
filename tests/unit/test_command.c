/* Commands and entries as bytes: every value comes back, one value has one encoding, and damaged
 * bytes are refused without a trace. */
#include "base_testing.h"

#include "base/codec.h"
#include "core/entry.h"
#include "every_command.h"

static void every_command_survives_encoding(void **state)
{
    (void)state;
    for (int type = COMMAND_NONE + 1; type < COMMAND_COUNT; type++) {
        struct command in;
        struct command out;
        uint8_t first[4096];
        uint8_t second[4096];
        fill_command(&in, (enum command_type)type);
        assert_int_equal(command_check(&in), HF_OK);
        size_t len = command_encode(&in, CORE_VERSION, first, sizeof(first));
        assert_true(len > 0);
        assert_int_equal(command_decode(slice_make(first, len), &out), HF_OK);
        assert_int_equal(command_encode(&out, CORE_VERSION, second, sizeof(second)), len);
        assert_memory_equal(first, second, len);
        assert_true(command_digest(&in) == command_digest(&out));
    }
}

static void fields_come_back_as_they_were(void **state)
{
    (void)state;
    struct command in;
    struct command out;
    uint8_t bytes[4096];
    fill_command(&in, COMMAND_ACQUIRE);
    size_t len = command_encode(&in, CORE_VERSION, bytes, sizeof(bytes));
    assert_int_equal(command_decode(slice_make(bytes, len), &out), HF_OK);
    assert_int_equal(out.tenant, 5);
    assert_true(id_equal(out.session, filled_id));
    assert_int_equal(out.seq, 4);
    assert_int_equal(out.acked_through, 3);
    assert_true(out.acquire.lease.low == UINT64_MAX);
    assert_int_equal(out.acquire.names.count, 2);
    assert_true(slice_equal(out.acquire.names.at[1], slice_of("a")));
    assert_true(out.acquire.wait_ms == WAIT_FOREVER);
    assert_true(slice_equal(out.acquire.owner, slice_of("thread-1")));
}

static void every_truncation_is_refused(void **state)
{
    (void)state;
    for (int type = COMMAND_NONE + 1; type < COMMAND_COUNT; type++) {
        struct command in;
        struct command out;
        uint8_t bytes[4096];
        fill_command(&in, (enum command_type)type);
        size_t len = command_encode(&in, CORE_VERSION, bytes, sizeof(bytes));
        for (size_t cut = 0; cut < len; cut++) {
            assert_int_equal(command_decode(slice_make(bytes, cut), &out), HF_MALFORMED);
        }
        bytes[len] = 0;
        assert_int_equal(command_decode(slice_make(bytes, len + 1), &out), HF_MALFORMED);
    }
}

static void a_buffer_too_small_is_said_so(void **state)
{
    (void)state;
    struct command in;
    uint8_t bytes[4096];
    fill_command(&in, COMMAND_ACQUIRE);
    size_t len = command_encode(&in, CORE_VERSION, bytes, sizeof(bytes));
    for (size_t size = 0; size < len; size++) {
        assert_int_equal(command_encode(&in, CORE_VERSION, bytes, size), 0);
    }
}

static void numbers_have_one_encoding(void **state)
{
    (void)state;
    static const uint64_t values[] = {0, 1, 127, 128, 16383, 16384, UINT32_MAX, UINT64_MAX};
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        uint8_t bytes[16];
        struct writer w = writer_make(bytes, sizeof(bytes));
        write_u64(&w, values[i]);
        struct reader r = reader_make(slice_make(bytes, (size_t)(w.at - bytes)));
        assert_true(read_u64(&r) == values[i]);
        assert_true(reader_done(&r));
    }
    static const uint8_t longer[] = {0x80, 0x00};
    struct reader r = reader_make(slice_make(longer, sizeof(longer)));
    (void)read_u64(&r);
    assert_true(r.bad);
    static const uint8_t too_large[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02};
    r = reader_make(slice_make(too_large, sizeof(too_large)));
    (void)read_u64(&r);
    assert_true(r.bad);
}

static void the_digest_covers_what_the_client_requested_and_no_more(void **state)
{
    (void)state;
    struct command a;
    struct command b;
    fill_command(&a, COMMAND_ACQUIRE);
    fill_command(&b, COMMAND_ACQUIRE);
    b.acquire.lease = (struct id){9, 9}; /* drawn anew by another node (S8.1) */
    b.acquire.node = 77;
    b.acked_through = 0;
    assert_true(command_digest(&a) == command_digest(&b));
    b.acquire.ttl_ms++;
    assert_false(command_digest(&a) == command_digest(&b));
    fill_command(&b, COMMAND_ACQUIRE);
    b.acquire.names.at[0] = slice_of("c");
    assert_false(command_digest(&a) == command_digest(&b));
}

/* The rules. */

struct rule {
    enum hf_error expected;
    void (*breaks)(struct command *c);
    enum command_type type;
};

static char long_text[8192];

static void no_lease(struct command *c)
{
    c->acquire.lease = (struct id){0, 0};
}
static void no_names(struct command *c)
{
    c->acquire.names.count = 0;
}
static void bad_name(struct command *c)
{
    c->acquire.names.at[1] = slice_of("a//b");
}
static void no_ttl(struct command *c)
{
    c->session = (struct id){0, 0};
    c->seq = c->acked_through = 0;
    c->acquire.ttl_ms = 0;
}
static void short_ttl(struct command *c)
{
    c->acquire.ttl_ms = LIMIT_TTL_MIN_MS - 1;
}
static void long_ttl(struct command *c)
{
    c->acquire.ttl_ms = LIMIT_TTL_MAX_MS + 1;
}
static void shared_multilock(struct command *c)
{
    c->acquire.mode = MODE_SHARED;
}
static void unknown_mode(struct command *c)
{
    c->acquire.mode = MODE_COUNT;
}
static void stray_permits(struct command *c)
{
    c->acquire.permits = 1;
}
static void semaphore_without_limit(struct command *c)
{
    c->acquire.names.count = 1;
    c->acquire.mode = MODE_SEMAPHORE;
    c->acquire.permits = 1;
}
static void long_delay(struct command *c)
{
    c->acquire.delay_ms = LIMIT_DELAY_MAX_MS + 1;
}
static void long_metadata(struct command *c)
{
    c->acquire.metadata = slice_make(long_text, LIMIT_METADATA + 1);
}
static void value_without_election(struct command *c)
{
    c->acquire.value = slice_of("v");
}
static void client_missing(struct command *c)
{
    c->session_open.client = slice_of("");
}
static void client_too_long(struct command *c)
{
    c->session_open.client = slice_make(long_text, LIMIT_CLIENT + 1);
}
static void owner_too_long(struct command *c)
{
    c->acquire.owner = slice_make(long_text, LIMIT_OWNER + 1);
}
static void id_and_seq(struct command *c)
{
    c->request_id = slice_of("x");
}
static void seq_without_session(struct command *c)
{
    c->session = (struct id){0, 0};
}
static void invisible_request_id(struct command *c)
{
    c->request_id = slice_of("a b");
}
static void no_token(struct command *c)
{
    c->release.token = 0;
}
static void token_past_the_limit(struct command *c)
{
    c->release.token = LIMIT_NUMBER;
}
static void no_reason(struct command *c)
{
    c->force_unlock.reason = slice_of("");
}
static void no_actor(struct command *c)
{
    c->revoke.actor = slice_of("");
}
static void fence_without_token(struct command *c)
{
    c->fence_check.token = 0;
}

static void each_broken_rule_has_its_error(void **state)
{
    (void)state;
    static const struct rule rules[] = {
        {HF_INVALID_ID, no_lease, COMMAND_ACQUIRE},
        {HF_INVALID_NAME, no_names, COMMAND_ACQUIRE},
        {HF_INVALID_NAME, bad_name, COMMAND_ACQUIRE},
        {HF_INVALID_TTL, no_ttl, COMMAND_ACQUIRE},
        {HF_INVALID_TTL, short_ttl, COMMAND_ACQUIRE},
        {HF_INVALID_TTL, long_ttl, COMMAND_ACQUIRE},
        {HF_INVALID_MODE, shared_multilock, COMMAND_ACQUIRE},
        {HF_INVALID_MODE, unknown_mode, COMMAND_ACQUIRE},
        {HF_INVALID_LIMIT, stray_permits, COMMAND_ACQUIRE},
        {HF_INVALID_LIMIT, semaphore_without_limit, COMMAND_ACQUIRE},
        {HF_INVALID_DELAY, long_delay, COMMAND_ACQUIRE},
        {HF_INVALID_METADATA, long_metadata, COMMAND_ACQUIRE},
        {HF_INVALID_METADATA, value_without_election, COMMAND_ACQUIRE},
        {HF_INVALID_OWNER, owner_too_long, COMMAND_ACQUIRE},
        {HF_INVALID_REQUEST_ID, id_and_seq, COMMAND_ACQUIRE},
        {HF_INVALID_REQUEST_ID, seq_without_session, COMMAND_ACQUIRE},
        {HF_INVALID_CLIENT, client_missing, COMMAND_SESSION_OPEN},
        {HF_INVALID_CLIENT, client_too_long, COMMAND_SESSION_OPEN},
        {HF_INVALID_REQUEST_ID, invisible_request_id, COMMAND_SESSION_OPEN},
        {HF_INVALID_TOKEN, no_token, COMMAND_RELEASE},
        {HF_INVALID_TOKEN, token_past_the_limit, COMMAND_RELEASE},
        {HF_INVALID_ACTOR, no_reason, COMMAND_FORCE_UNLOCK},
        {HF_INVALID_ACTOR, no_actor, COMMAND_REVOKE},
        {HF_INVALID_TOKEN, fence_without_token, COMMAND_FENCE_CHECK},
    };
    memset(long_text, 'x', sizeof(long_text));
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        struct command c;
        fill_command(&c, rules[i].type);
        rules[i].breaks(&c);
        assert_string_equal(hf_error_code(command_check(&c)), hf_error_code(rules[i].expected));
    }
}

/* Entries. */

struct seen {
    uint32_t count;
    uint32_t last;
};

static void on_result(void *ctx, uint32_t number, const struct command *command,
                      const struct result *result)
{
    struct seen *seen = ctx;
    assert_int_equal(number, seen->count);
    assert_int_equal(result->type, command->type);
    seen->count++;
    seen->last = number;
}

static size_t make_entry(uint8_t *buffer, size_t size, uint32_t commands)
{
    struct entry_writer w;
    entry_writer_init(&w, CORE_VERSION, buffer, size);
    for (uint32_t i = 0; i < commands; i++) {
        struct command c;
        fill_command(&c, COMMAND_FENCE_CHECK);
        assert_true(entry_writer_add(&w, &c));
    }
    return entry_writer_seal(&w, 1234, 5678);
}

static struct core *core_for_test(void)
{
    struct core_options options = {.memory = memory_system(), .hash_key = 1};
    return core_new(&options);
}

static void entries_of_any_size_are_applied_in_order(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {0, 1, 16, 17, 63, 64, 65, 128, 1000};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        static uint8_t buffer[256 * 1024];
        struct core *core = core_for_test();
        struct seen seen = {0, 0};
        size_t len = make_entry(buffer, sizeof(buffer), sizes[i]);
        assert_int_equal(len % 8, 0);
        assert_int_equal(entry_apply(core, 9, slice_make(buffer, len), on_result, &seen), HF_OK);
        assert_int_equal(seen.count, sizes[i]);
        assert_int_equal(core_index(core), 9);
        assert_int_equal(core_now_ms(core), 1234);
        assert_int_equal(core_last_wall_ms(core), 5678);
        core_free(core);
    }
}

/* 80 commands, so that the second group is checked before the first is applied. */
static void a_damaged_entry_changes_nothing(void **state)
{
    (void)state;
    static uint8_t buffer[256 * 1024];
    size_t len = make_entry(buffer, sizeof(buffer), 80);
    struct core *core = core_for_test();
    uint32_t refused = 0;
    for (size_t at = 0; at < len; at++) {
        uint8_t was = buffer[at];
        if (at >= 8 && at < 24) {
            continue; /* the two clocks: any value is well-formed */
        }
        buffer[at] = (uint8_t)(was ^ 0xff);
        struct entry_header header;
        if (entry_check(slice_make(buffer, len), &header) != HF_OK) {
            refused++;
            assert_int_not_equal(entry_apply(core, 1, slice_make(buffer, len), NULL, NULL), HF_OK);
        }
        buffer[at] = was;
    }
    assert_true(refused > len / 4);
    for (size_t cut = 0; cut < len; cut++) {
        assert_int_not_equal(entry_apply(core, 1, slice_make(buffer, cut), NULL, NULL), HF_OK);
    }
    struct core_stats stats;
    core_stats(core, &stats);
    assert_int_equal(stats.fence_marks, 0);
    assert_int_equal(core_index(core), 0);
    assert_int_equal(core_now_ms(core), 0);
    core_free(core);
}

static void an_entry_that_is_full_says_so_and_stays_whole(void **state)
{
    (void)state;
    uint8_t buffer[128];
    struct entry_writer w;
    entry_writer_init(&w, CORE_VERSION, buffer, sizeof(buffer));
    struct command c;
    fill_command(&c, COMMAND_FENCE_CHECK);
    uint32_t added = 0;
    while (entry_writer_add(&w, &c)) {
        added++;
    }
    assert_true(added > 0 && w.full);
    size_t len = entry_writer_seal(&w, 1, 1);
    assert_true(len <= sizeof(buffer));
    struct entry_header header;
    assert_int_equal(entry_check(slice_make(buffer, len), &header), HF_OK);
    assert_int_equal(header.count, added);
}

static void a_newer_entry_format_is_distinguished_from_damage(void **state)
{
    (void)state;
    uint8_t buffer[256];
    size_t len = make_entry(buffer, sizeof(buffer), 1);
    buffer[0] = 200;
    struct entry_header header;
    assert_int_equal(entry_check(slice_make(buffer, len), &header), HF_VERSION);
}

/* S12.9: a node that cannot follow an upgrade stops before it, and applies nothing of its entry. */
static void an_upgrade_to_a_version_that_is_not_known_is_distinguished_from_damage(void **state)
{
    (void)state;
    uint8_t buffer[256];
    struct entry_writer w;
    struct command c;
    struct core *core = core_for_test();
    entry_writer_init(&w, CORE_VERSION, buffer, sizeof(buffer));
    command_init(&c, COMMAND_ADVANCE);
    assert_true(entry_writer_add(&w, &c));
    command_init(&c, COMMAND_UPGRADE);
    c.upgrade.version = CORE_VERSION + 1;
    assert_true(entry_writer_add(&w, &c));
    struct slice entry = slice_make(buffer, entry_writer_seal(&w, 1, 1));
    struct entry_header header;
    assert_int_equal(entry_check(entry, &header), HF_VERSION);
    assert_int_equal(entry_apply(core, 1, entry, NULL, NULL), HF_VERSION);
    assert_int_equal(core_counter(core), 0);
    assert_int_equal(core_index(core), 0);
    core_free(core);
}

static void every_error_has_a_code_a_text_and_a_status(void **state)
{
    (void)state;
    for (int i = 0; i < HF_ERROR_COUNT; i++) {
        assert_true(strlen(hf_error_code((enum hf_error)i)) > 1);
        assert_true(strlen(hf_error_text((enum hf_error)i)) > 3);
        int status = hf_error_http_status((enum hf_error)i);
        assert_true(status >= 200 && status < 600);
        for (int k = 0; k < i; k++) {
            assert_string_not_equal(hf_error_code((enum hf_error)i),
                                    hf_error_code((enum hf_error)k));
        }
    }
}

static void words_of_modes_are_accepted_in_any_case(void **state)
{
    (void)state;
    for (unsigned mode = 0; mode < MODE_COUNT; mode++) {
        assert_int_equal(mode_of_word(slice_of(mode_name((enum mode)mode))), mode);
    }
    assert_int_equal(mode_of_word(slice_of("SHARED")), MODE_SHARED);
    assert_int_equal(mode_of_word(slice_of("Semaphore")), MODE_SEMAPHORE);
    static const char *const none[] = {"", "share", "sharedd", "shared ", "sh@red", "1"};
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        assert_int_equal(mode_of_word(slice_of(none[i])), MODE_COUNT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_command_survives_encoding),
        cmocka_unit_test(fields_come_back_as_they_were),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(a_buffer_too_small_is_said_so),
        cmocka_unit_test(numbers_have_one_encoding),
        cmocka_unit_test(the_digest_covers_what_the_client_requested_and_no_more),
        cmocka_unit_test(each_broken_rule_has_its_error),
        cmocka_unit_test(entries_of_any_size_are_applied_in_order),
        cmocka_unit_test(a_damaged_entry_changes_nothing),
        cmocka_unit_test(an_entry_that_is_full_says_so_and_stays_whole),
        cmocka_unit_test(a_newer_entry_format_is_distinguished_from_damage),
        cmocka_unit_test(an_upgrade_to_a_version_that_is_not_known_is_distinguished_from_damage),
        cmocka_unit_test(words_of_modes_are_accepted_in_any_case),
        cmocka_unit_test(every_error_has_a_code_a_text_and_a_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What the lists of fields promise (core/field.h, core/version.h): a version leaves out later fields,
 * a later format is reported as such, and a digest does not depend on fields that are not set. */
#include "base_testing.h"

#include "core/digest.h"
#include "core/entry.h"
#include "events/event_codec.h"
#include "every_command.h"
#include "node/forward/result_codec.h"
#include "service/request/memory_page.h"

/* ---- a list of the test ---- */

#define SAMPLE_FIELDS(F)         \
    F(BODY, 1, u32, first, 100)  \
    F(BODY, 4, slice, second, 8) \
    F(BODY, 5, u32, third, 100)  \
    F(BODY, 5, u32, fourth, 100) \
    F(BODY, 6, slice, fifth, 8)  \
    F(BODY, 6, id, sixth, 0)     \
    F(BODY, 7, flag, seventh, 1)

struct sample {
    SAMPLE_FIELDS(FIELD_MEMBER)
};

static size_t sample_put(const struct sample *f, uint32_t version, uint8_t *at, size_t size)
{
    struct writer writer = writer_make(at, size);
    struct writer *w = &writer;
    SAMPLE_FIELDS(FIELD_PUT)
    assert_false(w->full);
    return (size_t)(w->at - at);
}

static bool sample_take(struct sample *f, uint32_t version, const uint8_t *at, size_t len)
{
    struct reader reader = reader_make(slice_make(at, len));
    struct reader *r = &reader;
    memset(f, 0x5a, sizeof(*f));
    SAMPLE_FIELDS(FIELD_TAKE)
    return reader_done(r);
}

static uint64_t digest_add_flag(uint64_t digest, const bool *field)
{
    uint32_t value = *field;
    return digest_add_u32(digest, &value);
}

static uint64_t sample_digest(const struct sample *f)
{
    uint64_t digest = 1;
#define F(role, since, type, name, limit) \
    digest = DIGEST_FIELD(digest, since, type, name, &f->name);
    SAMPLE_FIELDS(F)
#undef F
    return digest;
}

static struct sample full_sample(void)
{
    return (struct sample){.first = 1,
                           .second = slice_of("two"),
                           .third = 3,
                           .fourth = 4,
                           .fifth = slice_of("five"),
                           .sixth = {6, 6},
                           .seventh = true};
}

static void a_version_has_the_fields_up_to_it(void **state)
{
    (void)state;
    static const size_t lengths[] = {0, 1, 1, 1, 5, 7, 29, 30};
    struct sample full = full_sample();
    for (uint32_t version = 1; version <= 7; version++) {
        uint8_t bytes[64];
        struct sample got;
        size_t len = sample_put(&full, version, bytes, sizeof(bytes));
        assert_int_equal(len, lengths[version]);
        assert_true(sample_take(&got, version, bytes, len));
        assert_int_equal(got.first, 1);
        assert_int_equal(got.second.len, version >= 4 ? 3 : 0);
        assert_int_equal(got.third, version >= 5 ? 3 : 0);
        assert_int_equal(got.fourth, version >= 5 ? 4 : 0);
        assert_int_equal(got.fifth.len, version >= 6 ? 4 : 0);
        assert_int_equal(got.sixth.low, version >= 6 ? 6 : 0);
        assert_true(got.seventh == (version >= 7));
        for (size_t cut = 0; cut < len; cut++) {
            assert_false(sample_take(&got, version, bytes, cut));
        }
    }
}

static void a_field_above_its_limit_is_refused(void **state)
{
    (void)state;
    uint8_t bytes[64];
    struct sample got;
    struct sample full = full_sample();
    full.third = 101;
    size_t len = sample_put(&full, 7, bytes, sizeof(bytes));
    assert_false(sample_take(&got, 7, bytes, len));
    full = full_sample();
    full.fifth = slice_of("too long.");
    len = sample_put(&full, 7, bytes, sizeof(bytes));
    assert_false(sample_take(&got, 7, bytes, len));
}

static void a_digest_skips_later_fields_that_are_not_set(void **state)
{
    (void)state;
    struct sample early = {.first = 1, .second = slice_of("two")};
    uint64_t first = 1;
    first = digest_add_u32(first, &early.first); /* as a program without the later fields */
    first = digest_add_slice(first, &early.second);
    assert_true(sample_digest(&early) == first);
    early.second = slice_of(""); /* a field of format 1 counts also when it is not set */
    assert_true(sample_digest(&early) != digest_add_u32(1, &early.first));
}

static void a_digest_tells_later_fields_apart(void **state)
{
    (void)state;
    struct sample early = {.first = 1, .second = slice_of("two")};
    struct sample samples[6];
    for (size_t i = 0; i < 6; i++) {
        samples[i] = early;
    }
    samples[1].third = 7;
    samples[2].fourth = 7;
    samples[3].third = 8;
    samples[4].fifth = slice_of("five");
    samples[5].sixth.low = 7;
    for (size_t i = 0; i < 6; i++) {
        for (size_t j = 0; j < i; j++) {
            assert_true(sample_digest(&samples[i]) != sample_digest(&samples[j]));
        }
    }
}

/* ---- formats ---- */

static void every_version_has_one_format(void **state)
{
    (void)state;
    for (uint32_t version = 1; version <= 20; version++) {
        uint8_t format = record_format(version);
        assert_int_equal(format, version <= 4 ? 1 : version);
        assert_int_equal(record_version(format), version <= 4 ? 4 : version);
    }
    for (uint8_t format = 0; format <= 4; format++) {
        assert_int_equal(record_version(format), format == 1 ? 4 : 0);
    }
}

static void a_command_of_a_later_format_is_not_damage(void **state)
{
    (void)state;
    for (int type = COMMAND_NONE + 1; type < COMMAND_COUNT; type++) {
        struct command command;
        uint8_t bytes[4096];
        fill_command(&command, (enum command_type)type);
        size_t len = command_encode(&command, CORE_VERSION, bytes, sizeof(bytes));
        for (unsigned format = CORE_VERSION + 1; format <= UINT8_MAX; format++) {
            bytes[0] = (uint8_t)format;
            assert_int_equal(command_decode(slice_make(bytes, len), &command), HF_VERSION);
        }
        bytes[1] = COMMAND_COUNT; /* a type that this program does not support */
        bytes[0] = CORE_VERSION + 1;
        assert_int_equal(command_decode(slice_make(bytes, len), &command), HF_VERSION);
        for (uint8_t format = 0; format <= 4; format++) { /* no program writes these, except 1 */
            bytes[0] = format;
            assert_int_equal(command_decode(slice_make(bytes, len), &command), HF_MALFORMED);
        }
    }
}

static void assert_malformed_with_zeros(uint8_t *bytes, size_t len)
{
    for (size_t more = 0; more < 4; more++) {
        struct command command;
        assert_int_equal(command_decode(slice_make(bytes, len + more), &command), HF_MALFORMED);
    }
}

/* A command has one encoding: the lowest format that has all of its fields. Formats above it have
 * later fields with their default value, a zero byte each. */
static void a_command_in_a_higher_format_than_it_needs_is_refused(void **state)
{
    (void)state;
    for (int type = COMMAND_NONE + 1; type < COMMAND_COUNT; type++) {
        struct command command;
        uint8_t bytes[4096] = {0};
        fill_command(&command, (enum command_type)type);
        size_t len = command_encode(&command, RECORD_FORMAT_1_VERSION, bytes, sizeof(bytes));
        assert_int_equal(bytes[0], 1);
        bytes[0] = 5;
        assert_malformed_with_zeros(bytes, len);
    }
}

/* Format 6 has the principal before the fields of the type. */
static void a_command_without_principal_is_refused_in_format_6(void **state)
{
    (void)state;
    for (int type = COMMAND_NONE + 1; type < COMMAND_COUNT; type++) {
        struct command command;
        uint8_t one[4096] = {0};
        uint8_t two[4096] = {0};
        fill_command(&command, (enum command_type)type);
        command.principal = 1;
        size_t len = command_encode(&command, CORE_VERSION, one, sizeof(one));
        assert_int_equal(one[0], 6);
        assert_int_equal(command_decode(slice_make(one, len), &command), HF_OK);
        assert_int_equal(command.principal, 1);
        command.principal = 2;
        assert_int_equal(command_encode(&command, CORE_VERSION, two, sizeof(two)), len);
        size_t at = 0;
        while (one[at] == two[at]) {
            at++;
        }
        one[at] = 0;
        assert_malformed_with_zeros(one, len);
    }
}

static void a_log_entry_with_a_later_command_is_not_damage(void **state)
{
    (void)state;
    enum { FIRST_FORMAT = 33 }; /* after the header and the length of the command */
    uint8_t bytes[256];
    struct entry_writer w;
    struct entry_header header;
    struct command tick;
    command_init(&tick, COMMAND_TICK);
    entry_writer_init(&w, CORE_VERSION, bytes, sizeof(bytes));
    assert_true(entry_writer_add(&w, &tick));
    size_t len = entry_writer_seal(&w, 1000, 2000);
    assert_int_equal(entry_check(slice_make(bytes, len), &header), HF_OK);
    assert_int_equal(bytes[FIRST_FORMAT], 1);
    bytes[FIRST_FORMAT] = CORE_VERSION + 1;
    assert_int_equal(entry_check(slice_make(bytes, len), &header), HF_VERSION);
    bytes[FIRST_FORMAT] = 2;
    assert_int_equal(entry_check(slice_make(bytes, len), &header), HF_MALFORMED);
}

/* ---- messages between nodes ---- */

static void an_event_for_version_4_leaves_out_later_fields(void **state)
{
    (void)state;
    struct event sent = {.type = EVENT_GRANTED,
                         .token = 1024,
                         .name = slice_of("a"),
                         .ttl_ms = 30000,
                         .wait_deadline_ms = 70000,
                         .trace = slice_of("trace")};
    uint8_t four[EVENT_BYTES_MAX];
    uint8_t five[EVENT_BYTES_MAX];
    struct event got;
    size_t four_len = event_encode(&sent, 4, four);
    size_t five_len = event_encode(&sent, 5, five);
    assert_int_equal(four[0], 1);
    assert_int_equal(five[0], 5);
    assert_int_equal(five_len, four_len + 6 + 6); /* two numbers of three bytes, a text of five */
    assert_memory_equal(four + 1, five + 1, four_len - 1);
    assert_true(event_decode(slice_make(four, four_len), &got));
    assert_int_equal(got.token, 1024);
    assert_int_equal(got.ttl_ms, 0);
    assert_int_equal(got.wait_deadline_ms, 0);
    assert_int_equal(got.trace.len, 0);
    assert_true(event_decode(slice_make(five, five_len), &got));
    assert_int_equal(got.ttl_ms, 30000);
    assert_int_equal(got.wait_deadline_ms, 70000);
    assert_int_equal(got.trace.len, 5);
    five[0] = 1; /* with fields that format 1 does not have */
    assert_false(event_decode(slice_make(five, five_len), &got));
    four[0] = 5;
    assert_false(event_decode(slice_make(four, four_len), &got));
    five[0] = CORE_VERSION + 1;
    assert_false(event_decode(slice_make(five, five_len), &got));
}

static void a_result_has_the_format_of_its_receiver(void **state)
{
    (void)state;
    struct result sent = {.type = COMMAND_ACQUIRE, .outcome = OUTCOME_GRANTED, .token = 1024};
    for (uint32_t version = 1; version <= CORE_VERSION; version++) {
        struct buffer out;
        struct result_scratch scratch;
        struct result got;
        buffer_init(&out, memory_system(), RESULT_BYTES_MAX);
        assert_true(result_encode(&sent, version, &out));
        uint8_t bytes[256];
        size_t len = buffer_bytes(&out).len;
        assert_true(len <= sizeof(bytes));
        memcpy(bytes, buffer_bytes(&out).data, len);
        buffer_close(&out);
        assert_int_equal(bytes[0], record_format(version));
        assert_true(result_decode(slice_make(bytes, len), &scratch, &got));
        assert_int_equal(got.token, 1024);
        bytes[0] = CORE_VERSION + 1;
        assert_false(result_decode(slice_make(bytes, len), &scratch, &got));
    }
}

static void a_page_has_the_format_of_its_request(void **state)
{
    (void)state;
    for (uint32_t version = 1; version <= CORE_VERSION; version++) {
        uint8_t bytes[MEMORY_REQUEST_BYTES];
        struct buffer out;
        struct memory_request request = {.version = version, .kind = MEMORY_LOCKS, .limit = 100};
        size_t len = memory_request_encode(&request, bytes);
        buffer_init(&out, memory_system(), MEMORY_PAGE_BYTES);
        assert_true(memory_page_write(NULL, slice_make(bytes, len), &out));
        assert_int_equal(buffer_bytes(&out).data[0], record_format(version));
        bytes[0] = CORE_VERSION + 1;
        assert_false(memory_page_write(NULL, slice_make(bytes, len), &out));
        buffer_close(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_version_has_the_fields_up_to_it),
        cmocka_unit_test(a_field_above_its_limit_is_refused),
        cmocka_unit_test(a_digest_skips_later_fields_that_are_not_set),
        cmocka_unit_test(a_digest_tells_later_fields_apart),
        cmocka_unit_test(every_version_has_one_format),
        cmocka_unit_test(a_command_of_a_later_format_is_not_damage),
        cmocka_unit_test(a_command_in_a_higher_format_than_it_needs_is_refused),
        cmocka_unit_test(a_command_without_principal_is_refused_in_format_6),
        cmocka_unit_test(a_log_entry_with_a_later_command_is_not_damage),
        cmocka_unit_test(an_event_for_version_4_leaves_out_later_fields),
        cmocka_unit_test(a_result_has_the_format_of_its_receiver),
        cmocka_unit_test(a_page_has_the_format_of_its_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

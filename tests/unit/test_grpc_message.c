/* Tests of reading and writing protobuf messages: both agree with protobuf-c, and what protobuf-c
 * does not check is refused. */
#include "base_testing.h"

#include <holdfast/v1/admin.pb-c.h>
#include <holdfast/v1/lock.pb-c.h>

#include "service/grpc/message.h"

enum { ARENA = 1 << 20, MAX = 1 << 16 };

static struct bump arena;
static struct buffer out;

static int set_up(void **state)
{
    (void)state;
    bump_init(&arena, memory_system(), ARENA);
    buffer_init(&out, memory_system(), MAX);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    bump_close(&arena);
    buffer_close(&out);
    return 0;
}

static struct slice packed(const ProtobufCMessage *message, uint8_t *bytes)
{
    size_t len = protobuf_c_message_get_packed_size(message);
    assert_true(len <= MAX);
    protobuf_c_message_pack(message, bytes);
    return slice_make(bytes, len);
}

/* Written by us and by protobuf-c: the same bytes. Read by us and packed again: the same bytes. */
static void assert_same(const ProtobufCMessage *message)
{
    uint8_t *bytes = malloc(2 * MAX);
    struct slice expected = packed(message, bytes);
    buffer_truncate(&out, 0);
    assert_true(message_write(message, &out));
    assert_true(slice_equal(buffer_bytes(&out), expected));
    bump_reset(&arena);
    ProtobufCMessage *back = message_read(message->descriptor, expected, &arena);
    assert_non_null(back);
    struct slice again = packed(back, bytes + MAX);
    assert_true(slice_equal(again, expected));
    free(bytes);
}

static void a_message_with_all_kinds_of_fields_is_the_same(void **state)
{
    (void)state;
    Google__Protobuf__Duration ttl = GOOGLE__PROTOBUF__DURATION__INIT;
    Holdfast__V1__LockRequest m = HOLDFAST__V1__LOCK_REQUEST__INIT;
    assert_same(&m.base);
    ttl.seconds = -3;
    ttl.nanos = -1000000;
    m.ttl = &ttl;
    m.resource_id = (char *)"a name \xe2\x82\xac";
    m.limit = UINT32_MAX;
    m.reentrant = 1;
    m.seq = UINT64_MAX;
    m.tier = HOLDFAST__V1__TIER__EFFICIENCY;
    assert_same(&m.base);
}

static void doubles_are_written_as_protobuf_c_writes_them(void **state)
{
    (void)state;
    static const double values[] = {0, 1.5, -2.25, 1e300, 1e-300, 123456.789};
    uint8_t *bytes = malloc(MAX);
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        Holdfast__V1__HotPrefix row = HOLDFAST__V1__HOT_PREFIX__INIT;
        Holdfast__V1__HotPrefix *rows[] = {&row};
        Holdfast__V1__HotResponse m = HOLDFAST__V1__HOT_RESPONSE__INIT;
        row.prefix = (char *)"orders/";
        row.per_second = values[i];
        row.share = -values[i];
        m.total_per_second = values[i];
        m.prefixes = rows;
        m.n_prefixes = 1;
        if (values[i] == 0) {
            row.share = 0; /* -0 is not the default value */
        }
        buffer_truncate(&out, 0);
        assert_true(message_write(&m.base, &out));
        assert_true(slice_equal(buffer_bytes(&out), packed(&m.base, bytes)));
    }
    free(bytes);
}

static void repeated_fields_are_the_same(void **state)
{
    (void)state;
    enum { NAMES = 40 };
    char *names[NAMES];
    Holdfast__V1__MultiLockRequest m = HOLDFAST__V1__MULTI_LOCK_REQUEST__INIT;
    for (size_t i = 0; i < NAMES; i++) {
        names[i] = i % 3 == 0 ? (char *)"" : (char *)"resource";
        m.resource_ids = names;
        m.n_resource_ids = i + 1;
        assert_same(&m.base);
    }
}

/* The length of an embedded message takes one, two or three bytes. */
static void embedded_messages_of_any_length_are_the_same(void **state)
{
    (void)state;
    static const size_t lengths[] = {0, 100, 123, 124, 125, 126, 127, 128, 129, 300, 16380, 17000};
    char *text = malloc(MAX);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        Holdfast__V1__Holder holder = HOLDFAST__V1__HOLDER__INIT;
        Holdfast__V1__LockResponse m = HOLDFAST__V1__LOCK_RESPONSE__INIT;
        memset(text, 'x', lengths[i]);
        text[lengths[i]] = '\0';
        holder.client_id = text;
        m.holder = &holder;
        m.queue_length = 5;
        assert_same(&m.base);
    }
    free(text);
}

static void a_oneof_is_written_even_if_it_is_empty_and_the_last_one_counts(void **state)
{
    (void)state;
    Holdfast__V1__SessionRequest m = HOLDFAST__V1__SESSION_REQUEST__INIT;
    assert_same(&m.base);
    Holdfast__V1__SessionRequest__Open open = HOLDFAST__V1__SESSION_REQUEST__OPEN__INIT;
    m.request_case = HOLDFAST__V1__SESSION_REQUEST__REQUEST_OPEN;
    m.open = &open;
    assert_same(&m.base);
    uint8_t bytes[512];
    open.client_id = (char *)"first";
    struct slice first = packed(&m.base, bytes);
    Holdfast__V1__SessionRequest__KeepAlive keepalive =
        HOLDFAST__V1__SESSION_REQUEST__KEEP_ALIVE__INIT;
    m.request_case = HOLDFAST__V1__SESSION_REQUEST__REQUEST_KEEP_ALIVE;
    m.keep_alive = &keepalive;
    struct slice second = packed(&m.base, bytes + first.len);
    struct slice both = slice_make(bytes, first.len + second.len);
    Holdfast__V1__SessionRequest *back = (void *)message_read(m.base.descriptor, both, &arena);
    assert_non_null(back);
    assert_int_equal(back->request_case, HOLDFAST__V1__SESSION_REQUEST__REQUEST_KEEP_ALIVE);
    assert_non_null(back->keep_alive);
}

static const void *read_lock(const void *bytes, size_t len)
{
    bump_reset(&arena);
    return message_read(&holdfast__v1__lock_request__descriptor, slice_make(bytes, len), &arena);
}

#define READ(text) read_lock(text, sizeof(text) - 1)

static void an_embedded_message_that_occurs_twice_is_merged(void **state)
{
    (void)state;
    const Holdfast__V1__LockRequest *m = READ("\x1a\x02\x08\x05\x1a\x02\x10\x07");
    assert_non_null(m);
    assert_int_equal(m->ttl->seconds, 5);
    assert_int_equal(m->ttl->nanos, 7);
}

static void unknown_fields_are_ignored(void **state)
{
    (void)state;
    const Holdfast__V1__LockRequest *m =
        READ("\x12\x01n\xa0\x06\x05\xa2\x06\x02zz\xa5\x06\x01\x02\x03\x04"
             "\xa1\x06\x01\x02\x03\x04\x05\x06\x07\x08\x32\x01"
             "c");
    assert_non_null(m);
    assert_string_equal(m->resource_id, "n");
    assert_string_equal(m->client_id, "c");
}

static void invalid_bytes_are_refused(void **state)
{
    (void)state;
    assert_non_null(READ(""));
    assert_null(READ("\x12")); /* no value */
    assert_null(READ("\x12\x05"
                     "abc")); /* shorter than its length */
    assert_null(READ("\x12\x03"
                     "a\0b"));         /* NUL */
    assert_null(READ("\x12\x01\xff")); /* not UTF-8 */
    assert_null(READ("\x10\x01"));     /* a number for a string */
    assert_null(READ("\x4a\x01"
                     "a"));        /* a string for a number */
    assert_null(READ("\x02\x01")); /* field 0 */
    assert_null(READ("\x13"));     /* a group */
    assert_null(READ("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"));
    assert_null(READ("\x1a\x02\x08")); /* an embedded message without its end */
    assert_null(READ("\x1a\x03\x12\x01"
                     "a")); /* an embedded field of another type */
}

static void assert_equal_durations(const Google__Protobuf__Duration *a,
                                   const Google__Protobuf__Duration *b)
{
    assert_int_equal(a == NULL, b == NULL);
    if (a != NULL) {
        assert_int_equal(a->seconds, b->seconds);
        assert_int_equal(a->nanos, b->nanos);
    }
}

static void assert_equal_locks(const Holdfast__V1__LockRequest *a,
                               const Holdfast__V1__LockRequest *b)
{
    assert_string_equal(a->session_id, b->session_id);
    assert_string_equal(a->resource_id, b->resource_id);
    assert_string_equal(a->client_id, b->client_id);
    assert_string_equal(a->owner, b->owner);
    assert_string_equal(a->metadata, b->metadata);
    assert_string_equal(a->request_id, b->request_id);
    assert_equal_durations(a->ttl, b->ttl);
    assert_equal_durations(a->wait_timeout, b->wait_timeout);
    assert_equal_durations(a->lock_delay, b->lock_delay);
    assert_int_equal(a->mode, b->mode);
    assert_int_equal(a->tier, b->tier);
    assert_int_equal(a->limit, b->limit);
    assert_int_equal(a->permits, b->permits);
    assert_int_equal(a->reentrant, b->reentrant);
    assert_int_equal(a->detect_deadlock, b->detect_deadlock);
    assert_int_equal(a->cancel, b->cancel);
    assert_int_equal(a->seq, b->seq);
    assert_int_equal(a->acked_through, b->acked_through);
}

/* Random changes of valid messages: protobuf-c accepts at least what we accept, with the same
 * contents. */
static void what_is_accepted_is_what_protobuf_c_reads(void **state)
{
    (void)state;
    enum { RUNS = 50000 };
    Google__Protobuf__Duration ttl = GOOGLE__PROTOBUF__DURATION__INIT;
    Holdfast__V1__LockRequest m = HOLDFAST__V1__LOCK_REQUEST__INIT;
    ttl.seconds = 30;
    m.ttl = &ttl;
    m.session_id = (char *)"session";
    m.resource_id = (char *)"name";
    m.limit = 300;
    m.reentrant = 1;
    uint8_t original[256];
    size_t len = packed(&m.base, original).len;
    uint64_t drawn = 7;
    uint32_t accepted = 0;
    for (uint32_t run = 0; run < RUNS; run++) {
        uint8_t bytes[256];
        memcpy(bytes, original, len);
        for (int i = 0; i < 2; i++) {
            drawn = drawn * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            bytes[(drawn >> 40) % len] = (uint8_t)(drawn >> 33);
        }
        ProtobufCMessage *ours = (void *)(uintptr_t)read_lock(bytes, len);
        if (ours == NULL) {
            continue;
        }
        accepted++;
        ProtobufCMessage *theirs = protobuf_c_message_unpack(ours->descriptor, NULL, len, bytes);
        assert_non_null(theirs);
        assert_equal_locks((const void *)ours, (const void *)theirs);
        protobuf_c_message_free_unpacked(theirs, NULL);
    }
    assert_true(accepted > RUNS / 20);
}

static void a_full_buffer_or_arena_is_reported(void **state)
{
    (void)state;
    struct buffer small;
    struct bump little;
    Holdfast__V1__LockRequest m = HOLDFAST__V1__LOCK_REQUEST__INIT;
    m.resource_id = (char *)"a name that is longer than the buffer";
    buffer_init(&small, memory_system(), 16);
    assert_false(message_write(&m.base, &small));
    buffer_close(&small);
    uint8_t bytes[64];
    bump_init(&little, memory_system(), 64);
    assert_null(message_read(m.base.descriptor, packed(&m.base, bytes), &little));
    bump_close(&little);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_message_with_all_kinds_of_fields_is_the_same),
        TEST(doubles_are_written_as_protobuf_c_writes_them),
        TEST(repeated_fields_are_the_same),
        TEST(embedded_messages_of_any_length_are_the_same),
        TEST(a_oneof_is_written_even_if_it_is_empty_and_the_last_one_counts),
        TEST(an_embedded_message_that_occurs_twice_is_merged),
        TEST(unknown_fields_are_ignored),
        TEST(invalid_bytes_are_refused),
        TEST(what_is_accepted_is_what_protobuf_c_reads),
        TEST(a_full_buffer_or_arena_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

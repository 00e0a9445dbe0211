/* Tests of wire/grpc.h: messages in pieces, timeouts, texts of errors. */
#include "base_testing.h"

#include "wire/grpc.h"

enum { MAX = 1000 };

/* Feeds `bytes` in pieces of `piece` and joins the messages, each behind its length. */
static enum grpc_event run(struct slice bytes, size_t piece, struct buffer *out,
                           struct grpc_result *last)
{
    struct grpc_reader r;
    grpc_reader_init(&r, memory_system(), MAX);
    enum grpc_event event = GRPC_MORE;
    size_t at = 0;
    while (at < bytes.len && event != GRPC_ERROR) {
        size_t len = bytes.len - at < piece ? bytes.len - at : piece;
        uint8_t *exact = malloc(len); /* nothing readable follows */
        memcpy(exact, bytes.data + at, len);
        size_t used = 0;
        do {
            *last = grpc_reader_feed(&r, slice_make(exact + used, len - used));
            event = last->event;
            used += last->consumed;
            if (event == GRPC_MESSAGE) {
                buffer_printf(out, "%zu:", last->message.len);
                buffer_append_slice(out, last->message);
            }
        } while (event == GRPC_MESSAGE);
        assert_true(event == GRPC_ERROR || used == len);
        at += len;
        free(exact);
    }
    if (event == GRPC_ERROR) {
        assert_false(grpc_reader_is_between(&r));
        assert_int_equal(grpc_reader_feed(&r, bytes).event, GRPC_ERROR);
    }
    grpc_reader_close(&r);
    return event;
}

static void messages_are_the_same_however_they_are_cut(void **state)
{
    (void)state;
    static const char bytes[] = "\0\0\0\0\5hello"
                                "\0\0\0\0\0"
                                "\0\0\0\0\1x";
    for (size_t piece = 1; piece <= sizeof(bytes) - 1; piece++) {
        struct buffer out;
        struct grpc_result last;
        buffer_init(&out, memory_system(), 100);
        assert_int_equal(run(slice_make(bytes, sizeof(bytes) - 1), piece, &out, &last), GRPC_MORE);
        struct slice seen = buffer_bytes(&out);
        assert_int_equal(seen.len, 12);
        assert_memory_equal(seen.data, "5:hello0:1:x", 12);
        buffer_close(&out);
    }
}

static void assert_refused(const char *prefix, enum grpc_status status)
{
    struct buffer out;
    struct grpc_result last;
    buffer_init(&out, memory_system(), 100);
    for (size_t piece = 1; piece <= GRPC_PREFIX; piece++) {
        assert_int_equal(run(slice_make(prefix, GRPC_PREFIX), piece, &out, &last), GRPC_ERROR);
        assert_int_equal(last.status, status);
        assert_non_null(last.problem);
    }
    buffer_close(&out);
}

static void a_message_that_is_compressed_or_too_long_is_refused(void **state)
{
    (void)state;
    assert_refused("\1\0\0\0\1", GRPC_UNIMPLEMENTED);
    assert_refused("\2\0\0\0\1", GRPC_INTERNAL);
    assert_refused("\0\0\0\3\351", GRPC_RESOURCE_EXHAUSTED); /* 1,001 */
    assert_refused("\0\377\377\377\377", GRPC_RESOURCE_EXHAUSTED);
}

static void a_message_of_the_longest_length_is_taken(void **state)
{
    (void)state;
    uint8_t bytes[GRPC_PREFIX + MAX];
    memset(bytes, 'a', sizeof(bytes));
    grpc_write_prefix(bytes, MAX);
    for (size_t piece = 1; piece <= sizeof(bytes); piece += 167) {
        struct buffer out;
        struct grpc_result last;
        buffer_init(&out, memory_system(), 2000);
        assert_int_equal(run(slice_make(bytes, sizeof(bytes)), piece, &out, &last), GRPC_MORE);
        assert_int_equal(buffer_len(&out), MAX + 5);
        buffer_close(&out);
    }
}

static void a_stream_may_end_between_messages_only(void **state)
{
    (void)state;
    struct grpc_reader r;
    grpc_reader_init(&r, memory_system(), MAX);
    assert_true(grpc_reader_is_between(&r));
    (void)grpc_reader_feed(&r, slice_make("\0\0", 2));
    assert_false(grpc_reader_is_between(&r));
    (void)grpc_reader_feed(&r, slice_make("\0\0\2a", 4));
    assert_false(grpc_reader_is_between(&r));
    assert_int_equal(grpc_reader_feed(&r, slice_make("b", 1)).event, GRPC_MESSAGE);
    assert_true(grpc_reader_is_between(&r));
    (void)grpc_reader_feed(&r, slice_make("", 0));
    assert_null(r.body.data); /* an idle stream takes no memory */
    grpc_reader_close(&r);
}

static void timeouts_are_read_in_every_unit_and_rounded_up(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t ms;
    } good[] = {{"1H", 3600000},
                {"2M", 120000},
                {"3S", 3000},
                {"0m", 0},
                {"40m", 40},
                {"99999999m", 99999999},
                {"1u", 1},
                {"1001u", 2},
                {"1n", 1},
                {"1000000n", 1},
                {"99999999H", UINT64_C(31556952000000)}};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        uint64_t ms = 7;
        assert_true(grpc_parse_timeout(slice_of(good[i].text), &ms));
        assert_int_equal(ms, good[i].ms);
    }
    static const char *const bad[] = {"",    "1",          "m",  "-1m", "1.5S",
                                      " 1S", "123456789m", "1s", "1mm"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        uint64_t ms = 7;
        assert_false(grpc_parse_timeout(slice_of(bad[i]), &ms));
        assert_int_equal(ms, 7);
    }
}

static void a_timeout_is_written_as_it_is_read(void **state)
{
    (void)state;
    static const uint64_t exact[] = {0, 1, 99999999, 100000000, UINT64_C(99999999) * 3600000};
    char text[GRPC_TIMEOUT];
    for (size_t i = 0; i < sizeof(exact) / sizeof(exact[0]) - 1; i++) {
        uint64_t ms = 0;
        grpc_format_timeout(exact[i], text);
        assert_true(grpc_parse_timeout(slice_of(text), &ms));
        assert_int_equal(ms, exact[i]);
    }
    grpc_format_timeout(100000999, text);
    assert_string_equal(text, "100000S");
    grpc_format_timeout(UINT64_MAX, text);
    assert_string_equal(text, "99999999H");
}

static void texts_of_errors_survive_the_way(void **state)
{
    (void)state;
    static const char text[] = "caf\xc3\xa9 100% \"so\"\n";
    char encoded[100];
    char decoded[100];
    size_t len = grpc_encode_message(slice_of(text), encoded, sizeof(encoded));
    assert_int_equal(len, strlen("caf%C3%A9 100%25 \"so\"%0A"));
    assert_memory_equal(encoded, "caf%C3%A9 100%25 \"so\"%0A", len);
    size_t back = grpc_decode_message(slice_make(encoded, len), decoded);
    assert_int_equal(back, strlen(text));
    assert_memory_equal(decoded, text, back);
    assert_int_equal(grpc_encode_message(slice_of(text), encoded, 8), 6); /* no half escape */
    assert_int_equal(grpc_decode_message(slice_of("%2"), decoded), 2);
    assert_int_equal(grpc_decode_message(slice_of("%zz%"), decoded), 4);
}

static void statuses_have_the_names_of_the_standard(void **state)
{
    (void)state;
    assert_int_equal(GRPC_UNAUTHENTICATED, 16);
    assert_string_equal(grpc_status_name(GRPC_OK), "OK");
    assert_string_equal(grpc_status_name(GRPC_UNAVAILABLE), "UNAVAILABLE");
    assert_string_equal(grpc_status_name((enum grpc_status)99), "UNKNOWN");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_are_the_same_however_they_are_cut),
        cmocka_unit_test(a_message_that_is_compressed_or_too_long_is_refused),
        cmocka_unit_test(a_message_of_the_longest_length_is_taken),
        cmocka_unit_test(a_stream_may_end_between_messages_only),
        cmocka_unit_test(timeouts_are_read_in_every_unit_and_rounded_up),
        cmocka_unit_test(a_timeout_is_written_as_it_is_read),
        cmocka_unit_test(texts_of_errors_survive_the_way),
        cmocka_unit_test(statuses_have_the_names_of_the_standard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

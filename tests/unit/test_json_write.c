/* Tests of writing JSON, and of the body of errors. */
#include "base_testing.h"

#include "wire/json.h"
#include "wire/json_write.h"

struct fixture {
    struct counted counted;
    struct buffer out;
    struct json_writer w;
};

static void fixture_init(struct fixture *f, size_t max)
{
    counted_init(&f->counted);
    buffer_init(&f->out, &f->counted.memory, max);
    json_writer_init(&f->w, &f->out);
}

static void fixture_close(struct fixture *f, const char *expected)
{
    assert_true(json_writer_done(&f->w));
    struct slice text = buffer_bytes(&f->out);
    if (text.len != strlen(expected) || memcmp(text.data, expected, text.len) != 0)
        fail_msg("expected\n%s\ngot\n%.*s", expected, (int)text.len, (const char *)text.data);
    buffer_close(&f->out);
    assert_all_given_back(&f->counted);
}

static void commas_stand_between_values_and_nowhere_else(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 4096);
    json_write_open(&f.w, '{');
    json_put_bool(&f.w, "acquired", true);
    json_put_u64(&f.w, "fencing_token", 1024);
    json_put_open(&f.w, "list", '[');
    json_write_open(&f.w, '[');
    json_write_close(&f.w);
    json_write_open(&f.w, '{');
    json_write_close(&f.w);
    json_write_bool(&f.w, false);
    json_write_null(&f.w);
    json_write_string(&f.w, slice_of(""));
    json_write_close(&f.w);
    json_put_null(&f.w, "next_cursor");
    json_put_raw(&f.w, "metadata", slice_of("{\"a\": 1}"));
    json_put_raw(&f.w, "none", slice_make(NULL, 0));
    json_put_i64(&f.w, "lag", -1);
    assert_false(json_writer_done(&f.w));
    json_write_close(&f.w);
    fixture_close(&f, "{\"acquired\":true,\"fencing_token\":1024,"
                      "\"list\":[[],{},false,null,\"\"],"
                      "\"next_cursor\":null,\"metadata\":{\"a\": 1},\"none\":null,\"lag\":-1}");
}

static void strings_are_escaped(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 4096);
    static const char text[] = "a\"b\\c/d\b\f\n\r\t\0\x1f\x7f caf\xc3\xa9 \xe2\x82\xac "
                               "\xf0\x9f\x98\x80";
    json_write_string(&f.w, slice_make(text, sizeof(text) - 1));
    fixture_close(&f, "\"a\\\"b\\\\c/d\\b\\f\\n\\r\\t\\u0000\\u001f\\u007f caf\xc3\xa9 "
                      "\xe2\x82\xac \xf0\x9f\x98\x80\"");
}

static void what_is_no_utf_8_is_replaced(void **state)
{
    (void)state;
    static const char *const bad[] = {"\x80",     "\xff",         "\xc3",
                                      "\xc0\xaf", "\xed\xa0\x80", "\xf0\x9f"};
    static const int replaced[] = {1, 1, 1, 2, 3, 2};
    for (size_t i = 0; i < 6; i++) {
        struct fixture f;
        fixture_init(&f, 4096);
        char text[20], expected[100];
        snprintf(text, sizeof(text), "a%s!", bad[i]);
        snprintf(expected, sizeof(expected), "\"a%.*s!\"", 3 * replaced[i],
                 "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
        json_write_string(&f.w, slice_of(text));
        fixture_close(&f, expected);
    }
    struct fixture f;
    fixture_init(&f, 4096);
    char *half = malloc(3); /* of a character, with nothing readable behind it */
    memcpy(half, "\xf0\x9f\x98", 3);
    json_write_string(&f.w, slice_make(half, 3));
    free(half);
    fixture_close(&f, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
}

static void numbers_are_whole_and_exact(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 4096);
    json_write_open(&f.w, '[');
    json_write_u64(&f.w, 0);
    json_write_u64(&f.w, 9007199254740991);
    json_write_u64(&f.w, UINT64_MAX);
    json_write_i64(&f.w, INT64_MIN);
    json_write_i64(&f.w, INT64_MAX);
    json_write_close(&f.w);
    fixture_close(&f, "[0,9007199254740991,18446744073709551615,-9223372036854775808,"
                      "9223372036854775807]");
}

static void times_are_rfc_3339_in_utc(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 4096);
    json_write_open(&f.w, '[');
    json_write_time(&f.w, 0);
    json_write_time(&f.w, UINT64_C(1731660577123));
    json_write_time(&f.w, UINT64_C(951782400007));
    json_write_time(&f.w, UINT64_MAX);
    json_write_close(&f.w);
    buffer_truncate(&f.out, buffer_len(&f.out) - 6); /* the last one's milliseconds do not matter */
    buffer_append_text(&f.out, "]");
    fixture_close(&f, "[\"1970-01-01T00:00:00.000Z\",\"2024-11-15T08:49:37.123Z\","
                      "\"2000-02-29T00:00:00.007Z\",\"9999-12-31T23:59:59.]");
}

static void every_day_follows_the_one_before(void **state)
{
    (void)state;
    static const unsigned lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    unsigned year = 1970, month = 1, day = 1;
    struct fixture f;
    fixture_init(&f, 4096);
    for (uint64_t days = 0; year < 2500; days++) {
        char expected[40];
        snprintf(expected, sizeof(expected), "\"%04u-%02u-%02uT12:00:00.000Z\"", year, month, day);
        json_writer_init(&f.w, &f.out);
        buffer_truncate(&f.out, 0);
        json_write_time(&f.w, days * 86400000 + 43200000);
        assert_memory_equal(buffer_bytes(&f.out).data, expected, 26);
        bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
        if (day++ == lengths[month - 1] + (leap && month == 2)) {
            day = 1;
            if (month++ == 12) {
                month = 1;
                year++;
            }
        }
    }
    buffer_close(&f.out);
}

static void an_error_is_a_code_and_a_message(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 4096);
    json_write_error(&f.w, HF_SESSION_NOT_FOUND, NULL);
    fixture_close(&f,
                  "{\"error\":{\"code\":\"session_not_found\",\"message\":\"no such session\"}}");
    fixture_init(&f, 4096);
    json_write_error(&f.w, HF_FIELD_UNKNOWN, "a\"b: there is no such field here");
    fixture_close(&f, "{\"error\":{\"code\":\"field_unknown\","
                      "\"message\":\"a\\\"b: there is no such field here\"}}");
}

static void every_error_has_a_code_of_its_own(void **state)
{
    (void)state;
    for (int i = 0; i < HF_ERROR_COUNT; i++) {
        const char *code = hf_error_code((enum hf_error)i);
        assert_true(strspn(code, "abcdefghijklmnopqrstuvwxyz_0123456789") == strlen(code));
        for (int j = 0; j < i; j++)
            assert_string_not_equal(code, hf_error_code((enum hf_error)j));
    }
}

static void what_does_not_fit_is_noticed_at_the_end(void **state)
{
    (void)state;
    const size_t needed = strlen("{\"a\":\"\\u0001x\",\"b\":[1,true,null]}");
    for (size_t max = 1; max <= needed; max++) {
        struct fixture f;
        fixture_init(&f, max);
        json_write_open(&f.w, '{');
        json_put_text(&f.w, "a", "\x01x");
        json_put_open(&f.w, "b", '[');
        json_write_u64(&f.w, 1);
        json_write_bool(&f.w, true);
        json_write_null(&f.w);
        json_write_close(&f.w);
        json_write_close(&f.w);
        assert_int_equal(f.out.overflowed, max < needed);
        buffer_close(&f.out);
        assert_all_given_back(&f.counted);
    }
}

static void a_string_that_was_written_reads_the_same(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, __func__);
    static const struct json_field field = {"s", JSON_FIELD_STRING, true, 0, 0, 1000, 0};
    for (int round = 0; round < 2000; round++) {
        char text[40];
        size_t len = random_below(&random, sizeof(text));
        for (size_t i = 0; i < len; i++)
            text[i] = (char)(1 + random_below(&random, 127));
        struct fixture f;
        fixture_init(&f, 4096);
        json_write_open(&f.w, '{');
        json_put_string(&f.w, "s", slice_make(text, len));
        json_write_close(&f.w);
        struct json_doc doc;
        struct fault fault;
        struct slice back;
        uint64_t present;
        assert_int_equal(json_doc_open(&doc, &f.counted.memory, buffer_bytes(&f.out), &fault),
                         HF_OK);
        assert_int_equal(json_doc_read(&doc, &field, 1, &back, &present, &fault), HF_OK);
        assert_int_equal(back.len, len);
        assert_memory_equal(back.data, text, len);
        json_doc_close(&doc);
        buffer_close(&f.out);
        assert_all_given_back(&f.counted);
    }
}

/* Escapes, whole and broken characters, next to each other and at every offset. */
static void a_quoted_string_is_the_same_as_a_written_one(void **state)
{
    (void)state;
    static const char parts[] = "aZ /\"\\\n\x01\x7f\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\xff";
    struct random random;
    random_init(&random, __func__);
    for (int round = 0; round < 5000; round++) {
        uint8_t text[40];
        uint8_t quoted[JSON_QUOTED_MAX(sizeof(text))];
        size_t len = random_below(&random, sizeof(text));
        for (size_t i = 0; i < len; i++) {
            bool is_letter = random_below(&random, 4) > 0;
            text[i] = is_letter ? 'x' : (uint8_t)parts[random_below(&random, sizeof(parts) - 1)];
        }
        struct fixture f;
        fixture_init(&f, 4096);
        json_write_string(&f.w, slice_make(text, len));
        assert_int_equal(json_quote(slice_make(text, len), quoted), buffer_len(&f.out));
        assert_memory_equal(quoted, buffer_bytes(&f.out).data, buffer_len(&f.out));
        buffer_close(&f.out);
    }
}

static void write_a_value_without_a_key(void *ctx)
{
    struct json_writer *w = ctx;
    json_write_open(w, '{');
    json_write_null(w);
}

static void write_a_key_in_an_array(void *ctx)
{
    struct json_writer *w = ctx;
    json_write_open(w, '[');
    json_write_key(w, "a");
}

static void close_behind_a_key(void *ctx)
{
    struct json_writer *w = ctx;
    json_write_open(w, '{');
    json_write_key(w, "a");
    json_write_close(w);
}

static void write_two_values(void *ctx)
{
    json_write_null(ctx);
    json_write_null(ctx);
}

static void misuse_of_a_writer_ends_the_process(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 4096);
    assert_panics(write_a_value_without_a_key, &f.w, "w->keyed == in_object");
    assert_panics(write_a_key_in_an_array, &f.w, "!w->keyed && w->depth > 0");
    assert_panics(close_behind_a_key, &f.w, "w->depth > 0 && !w->keyed");
    assert_panics(write_two_values, &f.w, "!w->comma");
    buffer_close(&f.out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commas_stand_between_values_and_nowhere_else),
        cmocka_unit_test(strings_are_escaped),
        cmocka_unit_test(what_is_no_utf_8_is_replaced),
        cmocka_unit_test(numbers_are_whole_and_exact),
        cmocka_unit_test(times_are_rfc_3339_in_utc),
        cmocka_unit_test(every_day_follows_the_one_before),
        cmocka_unit_test(an_error_is_a_code_and_a_message),
        cmocka_unit_test(every_error_has_a_code_of_its_own),
        cmocka_unit_test(what_does_not_fit_is_noticed_at_the_end),
        cmocka_unit_test(a_string_that_was_written_reads_the_same),
        cmocka_unit_test(a_quoted_string_is_the_same_as_a_written_one),
        cmocka_unit_test(misuse_of_a_writer_ends_the_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

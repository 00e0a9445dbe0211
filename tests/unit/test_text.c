/* What may stand in a name, a client id, a request id. */
#include "base_testing.h"

#include "base/limits.h"
#include "base/text.h"

static bool name_ok(const char *text)
{
    return text_is_name(slice_of(text));
}

static void ordinary_names_are_names(void **state)
{
    (void)state;
    assert_true(name_ok("a"));
    assert_true(name_ok("tenant_123:billing-close:2026-04"));
    assert_true(name_ok("a/b/c"));
    assert_true(name_ok(".hidden/..x/x."));
    assert_true(name_ok("with space"));
    assert_true(name_ok("größe/日本語/\xf0\x9f\x94\x92"));
}

static void names_with_bad_segments_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"",   "/",   "/a",   "a/",     "a//b", ".",
                                      "..", "./a", "a/..", "a/../b", "a/./b"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(name_ok(bad[i]));
    }
}

static void names_have_at_most_512_bytes(void **state)
{
    (void)state;
    char text[LIMIT_NAME + 1];
    memset(text, 'x', sizeof(text));
    assert_true(text_is_name(slice_make(text, LIMIT_NAME)));
    assert_false(text_is_name(slice_make(text, LIMIT_NAME + 1)));
}

static void control_characters_are_refused_wherever_they_stand(void **state)
{
    (void)state;
    for (int c = 0; c < 256; c++) {
        for (size_t at = 0; at < 20; at++) {
            char text[20];
            memset(text, 'x', sizeof(text));
            text[at] = (char)c;
            bool fine = c >= 0x20 && c < 0x7f; /* a lone byte >= 0x80 is no UTF-8 */
            assert_int_equal(text_is_plain(slice_make(text, sizeof(text))), fine);
            bool slash_at_an_end = c == '/' && (at == 0 || at == 19);
            assert_int_equal(text_is_name(slice_make(text, sizeof(text))),
                             fine && !slash_at_an_end);
        }
    }
    assert_false(name_ok("\xc2\x80")); /* C1 */
    assert_false(name_ok("\xc2\x9f"));
    assert_true(name_ok("\xc2\xa0"));
}

static void malformed_utf8_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "\x80",             /* a tail without a head */
        "\xc3",             /* cut off */
        "\xe2\x82",         /* cut off */
        "\xc0\xaf",         /* a longer form of '/' */
        "\xe0\x80\xaf",     /* the same */
        "\xed\xa0\x80",     /* a surrogate */
        "\xf4\x90\x80\x80", /* past the last character */
        "\xff",
        "a\xc3(",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(text_is_utf8(slice_of(bad[i])));
        assert_false(name_ok(bad[i]));
    }
    assert_true(text_is_utf8(slice_of("\xf4\x8f\xbf\xbf")));
    assert_true(text_is_utf8(slice_of("tab\tand\nline"))); /* metadata may have them */
}

static void request_ids_are_visible_ascii(void **state)
{
    (void)state;
    assert_true(text_is_request_id(slice_of("a-1_~!")));
    assert_false(text_is_request_id(slice_of("")));
    assert_false(text_is_request_id(slice_of("a b")));
    assert_false(text_is_request_id(slice_of("\xc3\xa9")));
    char text[LIMIT_REQUEST_ID + 1];
    memset(text, 'x', sizeof(text));
    assert_true(text_is_request_id(slice_make(text, LIMIT_REQUEST_ID)));
    assert_false(text_is_request_id(slice_make(text, LIMIT_REQUEST_ID + 1)));
}

/* The checks read eight bytes at a time: every byte at every position of texts of several words. */
static void each_byte_counts_at_every_position(void **state)
{
    (void)state;
    enum { LONGEST = 20 };
    uint8_t text[LONGEST];
    for (size_t len = 1; len <= LONGEST; len++) {
        for (size_t at = 0; at < len; at++) {
            for (unsigned byte = 0; byte < 256; byte++) {
                memset(text, 'a', len);
                text[at] = (uint8_t)byte;
                struct slice all = slice_make(text, len);
                bool is_plain = byte >= 0x20 && byte < 0x7f;
                bool is_segment_end = byte == '/' && (at == 0 || at == len - 1);
                bool is_dot = byte == '.' && len == 1;
                assert_int_equal(text_is_utf8(all), byte < 0x80);
                assert_int_equal(text_is_plain(all), is_plain);
                assert_int_equal(text_is_name(all), is_plain && !is_segment_end && !is_dot);
                assert_int_equal(text_is_request_id(all), is_plain && byte != ' ');
            }
        }
    }
}

static void a_traceparent_has_55_characters_in_four_fields(void **state)
{
    (void)state;
    static const char good[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    static const struct {
        const char *text;
        bool is_good;
    } cases[] = {
        {good, true},
        {"cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00", true},
        {"f0-00000000000000000000000000000001-0000000000000001-ff", true},
        {"", false},
        {"00", false},
        {"ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", false},
        {"00-00000000000000000000000000000000-00f067aa0ba902b7-01", false},
        {"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01", false},
        {"00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01", false},
        {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0g", false},
        {"00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", false},
        {"00-4bf92f3577b34da6a3ce929d0e0e473-600f067aa0ba902b7-01", false},
        {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-1", false},
        {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-", false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(text_is_traceparent(slice_of(cases[i].text)), cases[i].is_good);
    }
    for (size_t at = 0; at < LIMIT_TRACE; at++) {
        for (unsigned byte = 0; byte < 256; byte++) {
            char text[sizeof(good)];
            memcpy(text, good, sizeof(good));
            text[at] = (char)byte;
            bool is_hex = (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'f');
            assert_int_equal(text_is_traceparent(slice_make(text, LIMIT_TRACE)),
                             good[at] == '-' ? byte == '-' : is_hex);
        }
    }
}

static void assert_digits(uint64_t value)
{
    char expected[24];
    uint8_t text[TEXT_U64];
    int len = snprintf(expected, sizeof(expected), "%llu", (unsigned long long)value);
    assert_int_equal(text_put_u64(text, value), len);
    assert_memory_equal(text, expected, (size_t)len);
}

static void numbers_have_as_many_digits_as_they_need(void **state)
{
    (void)state;
    uint64_t power = 1;
    for (unsigned digits = 0; digits < TEXT_U64; digits++, power *= 10) {
        assert_digits(power - 1);
        assert_digits(power);
        assert_digits(power + 1);
    }
    for (unsigned bit = 0; bit < 64; bit++) {
        assert_digits(UINT64_C(1) << bit);
        assert_digits((UINT64_C(1) << bit) - 1);
    }
    assert_digits(UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ordinary_names_are_names),
        cmocka_unit_test(names_with_bad_segments_are_refused),
        cmocka_unit_test(names_have_at_most_512_bytes),
        cmocka_unit_test(control_characters_are_refused_wherever_they_stand),
        cmocka_unit_test(malformed_utf8_is_refused),
        cmocka_unit_test(request_ids_are_visible_ascii),
        cmocka_unit_test(each_byte_counts_at_every_position),
        cmocka_unit_test(a_traceparent_has_55_characters_in_four_fields),
        cmocka_unit_test(numbers_have_as_many_digits_as_they_need),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

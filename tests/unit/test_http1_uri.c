/* Tests of names and parameters in request targets. */
#include "base_testing.h"

#include "wire/uri.h"

static void assert_text(struct slice text, const char *expected)
{
    if (text.len != strlen(expected) || memcmp(text.data, expected, text.len) != 0)
        fail_msg("expected \"%s\", got \"%.*s\"", expected, (int)text.len, (const char *)text.data);
}

static void assert_name(const char *raw, enum hf_error error, const char *expected)
{
    uint8_t out[LIMIT_NAME];
    struct slice name = slice_of("untouched");
    size_t len = strlen(raw);
    uint8_t *exact = malloc(len + (len == 0)); /* nothing readable follows */
    memcpy(exact, raw, len);
    assert_int_equal(uri_decode_name(slice_make(exact, len), out, &name), error);
    assert_text(name, error == HF_OK ? expected : "untouched");
    free(exact);
}

static void a_slash_in_a_name_may_be_escaped_or_not(void **state)
{
    (void)state;
    assert_name("a/b", HF_OK, "a/b");
    assert_name("a%2Fb", HF_OK, "a/b");
    assert_name("a%2fb", HF_OK, "a/b");
    assert_name("%61", HF_OK, "a");
    assert_name("a%252Fb", HF_OK, "a%2Fb"); /* decoded once */
    assert_name("a+b c", HF_OK, "a+b c");   /* a plus is a plus in a path */
    assert_name("caf%C3%A9", HF_OK, "caf\xc3\xa9");
    assert_name("caf\xc3\xa9", HF_OK, "caf\xc3\xa9");
}

static void what_is_no_name_after_decoding_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"",         "/",   "a/",  "/a",   "a//b",
                                      "a%2F%2Fb", ".",   "%2e", "a/..", "a%00",
                                      "%0A",      "%7F", "%C3", "%FF",  "a%C0%AF"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_name(bad[i], HF_INVALID_NAME, NULL);
}

static void a_broken_escape_has_its_own_code(void **state)
{
    (void)state;
    static const char *const bad[] = {"%", "a%", "a%2", "a%2g", "a%g2", "%%41", "% 2", "%+2"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_name(bad[i], HF_BAD_ESCAPE, NULL);
}

static void the_length_of_a_name_is_that_of_what_it_means(void **state)
{
    (void)state;
    char raw[3 * LIMIT_NAME + 4];
    char expected[LIMIT_NAME + 1];
    for (size_t i = 0; i < LIMIT_NAME + 1; i++)
        memcpy(raw + 3 * i, "%78", 3);
    memset(expected, 'x', LIMIT_NAME);
    expected[LIMIT_NAME] = 0;
    raw[3 * LIMIT_NAME] = 0;
    assert_name(raw, HF_OK, expected);
    memcpy(raw + 3 * LIMIT_NAME, "x", 2);
    assert_name(raw, HF_INVALID_NAME, NULL);
    memset(raw, 'x', LIMIT_NAME + 1);
    raw[LIMIT_NAME + 1] = 0;
    assert_name(raw, HF_INVALID_NAME, NULL);
}

static void assert_cut(const char *raw, const char *expected_name, const char *expected_verb)
{
    struct slice name, verb;
    assert_true(uri_cut_verb(slice_of(raw), &name, &verb));
    assert_text(name, expected_name);
    assert_text(verb, expected_verb);
}

static void the_verb_is_what_follows_the_last_plain_slash(void **state)
{
    (void)state;
    assert_cut("a/acquire", "a", "acquire");
    assert_cut("a/b/c/release", "a/b/c", "release");
    assert_cut("a%2Fb/acquire", "a%2Fb", "acquire");
    assert_cut("acquire/acquire", "acquire", "acquire");
    assert_cut("a%2Facquire/acquire", "a%2Facquire", "acquire");
    assert_cut("a/%61cquire", "a", "%61cquire"); /* another word, and so no verb of ours */
    assert_cut("/acquire", "", "acquire");
    assert_cut("a/", "a", "");
    struct slice name, verb;
    assert_false(uri_cut_verb(slice_of("a%2Facquire"), &name, &verb));
    assert_false(uri_cut_verb(slice_of(""), &name, &verb));
}

static void text_in_a_path_is_utf_8_without_nul(void **state)
{
    (void)state;
    uint8_t out[100];
    struct slice text = slice_of("untouched");
    assert_int_equal(uri_decode(slice_of("a%00"), out, &text), HF_URI_NOT_UTF8);
    assert_int_equal(uri_decode(slice_of("a%FF"), out, &text), HF_URI_NOT_UTF8);
    assert_int_equal(uri_decode(slice_of("a%F"), out, &text), HF_BAD_ESCAPE);
    assert_text(text, "untouched");
    assert_int_equal(uri_decode(slice_of("a%0Ab%E2%82%ac+"), out, &text), HF_OK);
    assert_text(text, "a\nb\xe2\x82\xac+");
}

/* ---- queries ---- */

struct parsed {
    struct uri_query query;
    struct fault fault;
    uint8_t text[1000];
};

static enum hf_error parse(struct parsed *p, const char *raw)
{
    return uri_query_parse(slice_of(raw), p->text, &p->query, &p->fault);
}

static void assert_parameter(const struct parsed *p, const char *key, const char *expected)
{
    struct slice value;
    assert_true(uri_query_text(&p->query, key, &value));
    assert_text(value, expected);
}

static void parameters_are_decoded(void **state)
{
    (void)state;
    struct parsed p;
    assert_int_equal(parse(&p, "prefix=a%2Fb+c&limit=10&flag&&empty=&%6bey=x=y%26z&"), HF_OK);
    assert_int_equal(p.query.count, 5);
    assert_parameter(&p, "prefix", "a/b c");
    assert_parameter(&p, "limit", "10");
    assert_parameter(&p, "flag", "");
    assert_parameter(&p, "empty", "");
    assert_parameter(&p, "key", "x=y&z");
    struct slice value = slice_of("untouched");
    assert_false(uri_query_text(&p.query, "cursor", &value));
    assert_text(value, "untouched");
    assert_int_equal(parse(&p, ""), HF_OK);
    assert_int_equal(p.query.count, 0);
}

static void bad_queries_have_codes(void **state)
{
    (void)state;
    struct parsed p = {.query.count = 77};
    assert_int_equal(parse(&p, "a=1&b=%4"), HF_BAD_ESCAPE);
    assert_int_equal(parse(&p, "a%=1"), HF_BAD_ESCAPE);
    assert_int_equal(parse(&p, "a=%ff"), HF_URI_NOT_UTF8);
    assert_int_equal(parse(&p, "a=%00"), HF_URI_NOT_UTF8);
    assert_int_equal(parse(&p, "limit=1&l%69mit=2"), HF_FIELD_REPEATED);
    assert_string_equal(p.fault.text, "limit: the parameter is given twice");
    assert_int_equal(p.query.count, 77); /* untouched */
    assert_int_equal(parse(&p, "a&b&c&d&e&f&g&h&i&j&k&l&m&n&o&p"), HF_OK);
    assert_int_equal(parse(&p, "a&b&c&d&e&f&g&h&i&j&k&l&m&n&o&p&q"), HF_TOO_MANY_PARAMETERS);
}

static void a_number_in_a_query_is_whole_and_in_range(void **state)
{
    (void)state;
    struct parsed p;
    parse(&p, "limit=1000&large=1001&small=0&huge=99999999999999999999999&edge=9007199254740991"
              "&over=9007199254740992&text=10x&sign=-1&plus=%2B1&none=");
    uint64_t value = 77;
    assert_int_equal(uri_query_number(&p.query, "absent", 1, 1000, &value, &p.fault), HF_OK);
    assert_int_equal(value, 77);
    static const char *const range[] = {"large", "small", "huge", "over"};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(uri_query_number(&p.query, range[i], 1, 1000, &value, &p.fault),
                         HF_FIELD_RANGE);
    assert_string_equal(p.fault.text, "over: must be a whole number from 1 to 1000");
    static const char *const type[] = {"text", "sign", "plus", "none"};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(uri_query_number(&p.query, type[i], 1, 1000, &value, &p.fault),
                         HF_FIELD_TYPE);
    assert_int_equal(value, 77);
    assert_int_equal(uri_query_number(&p.query, "limit", 1, 1000, &value, &p.fault), HF_OK);
    assert_int_equal(value, 1000);
    assert_int_equal(uri_query_number(&p.query, "edge", 1, LIMIT_NUMBER - 1, &value, &p.fault),
                     HF_OK);
    assert_int_equal(value, LIMIT_NUMBER - 1);
    assert_int_equal(uri_query_number(&p.query, "over", 1, LIMIT_NUMBER - 1, &value, &p.fault),
                     HF_FIELD_RANGE);
}

static void an_unknown_parameter_is_named(void **state)
{
    (void)state;
    static const char *const known[] = {"prefix", "limit", NULL};
    struct parsed p;
    parse(&p, "limit=1&prefix=a");
    assert_int_equal(uri_query_known(&p.query, known, &p.fault), HF_OK);
    parse(&p, "limit=1&prefx=a");
    assert_int_equal(uri_query_known(&p.query, known, &p.fault), HF_FIELD_UNKNOWN);
    assert_string_equal(p.fault.text, "prefx: there is no such parameter here");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slash_in_a_name_may_be_escaped_or_not),
        cmocka_unit_test(what_is_no_name_after_decoding_is_refused),
        cmocka_unit_test(a_broken_escape_has_its_own_code),
        cmocka_unit_test(the_length_of_a_name_is_that_of_what_it_means),
        cmocka_unit_test(the_verb_is_what_follows_the_last_plain_slash),
        cmocka_unit_test(text_in_a_path_is_utf_8_without_nul),
        cmocka_unit_test(parameters_are_decoded),
        cmocka_unit_test(bad_queries_have_codes),
        cmocka_unit_test(a_number_in_a_query_is_whole_and_in_range),
        cmocka_unit_test(an_unknown_parameter_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

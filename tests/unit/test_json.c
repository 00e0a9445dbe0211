/* Tests of reading JSON: what is taken, and how each mistake is named. */
#include "base_testing.h"

#include "wire/json.h"
#include "wire/json_scan.h"

struct acquire {
    struct slice client_id;
    uint64_t ttl_ms;
    int64_t wait_timeout_ms;
    bool reentrant;
    struct json_strings names;
    struct slice metadata;
};

static const struct json_field fields[] = {
    {"client_id", JSON_FIELD_STRING, true, offsetof(struct acquire, client_id), 1, 255, 0},
    {"ttl_ms", JSON_FIELD_UINT, false, offsetof(struct acquire, ttl_ms), 100, 86400000, 0},
    {"wait_timeout_ms", JSON_FIELD_INT, false, offsetof(struct acquire, wait_timeout_ms), -1,
     (int64_t)LIMIT_NUMBER - 1, 0},
    {"reentrant", JSON_FIELD_BOOL, false, offsetof(struct acquire, reentrant), 0, 0, 0},
    {"names", JSON_FIELD_STRINGS, false, offsetof(struct acquire, names), 1, 3, 8},
    {"metadata", JSON_FIELD_ANY, false, offsetof(struct acquire, metadata), 0, LIMIT_METADATA, 0},
};
enum { FIELD_COUNT = sizeof(fields) / sizeof(fields[0]) };

struct fixture {
    struct counted counted;
    struct json_doc doc;
    struct fault fault;
    struct acquire out;
    uint64_t present;
    bool open;
};

/* Defaults first, then what `text` says. */
static enum hf_error read_bytes(struct fixture *f, struct slice text)
{
    counted_init(&f->counted);
    f->out = (struct acquire){.ttl_ms = 30000, .client_id = slice_of("default")};
    f->present = 777;
    enum hf_error error = json_doc_open(&f->doc, &f->counted.memory, text, &f->fault);
    f->open = error == HF_OK;
    if (f->open)
        error = json_doc_read(&f->doc, fields, FIELD_COUNT, &f->out, &f->present, &f->fault);
    return error;
}

static enum hf_error read_text(struct fixture *f, const char *text)
{
    return read_bytes(f, slice_of(text));
}

static void done(struct fixture *f)
{
    if (f->open)
        json_doc_close(&f->doc);
    assert_all_given_back(&f->counted);
}

static void assert_text(struct slice text, const char *expected)
{
    if (text.len != strlen(expected) || memcmp(text.data, expected, text.len) != 0)
        fail_msg("expected \"%s\", got \"%.*s\"", expected, (int)text.len, (const char *)text.data);
}

static void an_object_fills_a_struct(void **state)
{
    (void)state;
    struct fixture f;
    assert_int_equal(read_text(&f, " {\"client_id\":\"w\\u00f6rker \\ud83d\\ude00\",\"ttl_ms\":100,"
                                   "\"wait_timeout_ms\":-1,\"reentrant\":true,"
                                   "\"names\":[\"a\",\"b\"],\"metadata\":{\"pid\":1}}\r\n"),
                     HF_OK);
    assert_text(f.out.client_id, "w\xc3\xb6rker \xf0\x9f\x98\x80");
    assert_int_equal(f.out.ttl_ms, 100);
    assert_int_equal(f.out.wait_timeout_ms, -1);
    assert_true(f.out.reentrant);
    assert_int_equal(f.out.names.count, 2);
    assert_text(f.out.names.items[0], "a");
    assert_text(f.out.names.items[1], "b");
    assert_text(f.out.metadata, "{\"pid\":1}");
    assert_int_equal(f.present, 0x3f);
    done(&f);
}

static void what_is_absent_or_null_keeps_its_default(void **state)
{
    (void)state;
    struct fixture f;
    assert_int_equal(read_text(&f, "{\"metadata\":null,\"ttl_ms\":null,\"client_id\":\"c\"}"),
                     HF_OK);
    assert_text(f.out.client_id, "c");
    assert_int_equal(f.out.ttl_ms, 30000);
    assert_null(f.out.metadata.data);
    assert_int_equal(f.present, 1);
    done(&f);
}

struct mistake {
    const char *text;
    enum hf_error error;
    const char *message; /* how it begins */
};

static const struct mistake mistakes[] = {
    {"", HF_JSON_MALFORMED, "the body is empty"},
    {"{", HF_JSON_MALFORMED, "the body is not valid JSON: line 1, column 1: "},
    {"{\"client_id\":\"c\"", HF_JSON_MALFORMED, "the body is not valid JSON: "},
    {"{\"client_id\":\"c\"} x", HF_JSON_MALFORMED, "the body is not valid JSON: "},
    {"{\"client_id\":\"c\",}", HF_JSON_MALFORMED, "the body is not valid JSON: "},
    {"{'client_id':'c'}", HF_JSON_MALFORMED, "the body is not valid JSON: "},
    {"{\"client_id\":\"a\nb\"}", HF_JSON_MALFORMED, "the body is not valid JSON: "},
    {"{\"client_id\":\"\\x\"}", HF_JSON_MALFORMED, "the body is not valid JSON: "},
    {"{\"client_id\":\"\\ud800\"}", HF_JSON_MALFORMED, "the body is not valid JSON: "},
    {"{\"ttl_ms\":0100}", HF_JSON_MALFORMED, "the body is not valid JSON: "},
    {"{\"ttl_ms\":+100}", HF_JSON_MALFORMED, "the body is not valid JSON: "},
    {"{\"ttl_ms\":NaN}", HF_JSON_MALFORMED, "the body is not valid JSON: "},
    {"\xef\xbb\xbf{}", HF_JSON_MALFORMED, "the body is not valid JSON: "}, /* a byte order mark */
    {"[]", HF_JSON_NOT_OBJECT, "the body is not a JSON object"},
    {"5", HF_JSON_NOT_OBJECT, "the body is not a JSON object"},
    {"null", HF_JSON_NOT_OBJECT, "the body is not a JSON object"},
    {"{\"client_id\":\"\xff\"}", HF_JSON_NOT_UTF8, "the body is not UTF-8: line 1"},
    {"{\"client_id\":\"\xc0\xaf\"}", HF_JSON_NOT_UTF8, "the body is not UTF-8"},
    {"{\"client_id\":\"\xed\xa0\x80\"}", HF_JSON_NOT_UTF8, "the body is not UTF-8"},
    {"{\"client_id\":\"a\\u0000b\"}", HF_JSON_NUL, "the body holds a NUL"},
    {"{\"client\\u0000_id\":\"a\"}", HF_JSON_NUL, "the body holds a NUL"},
    {"{\"metadata\":1e999}", HF_JSON_NUMBER, "the body holds a number that is too large"},
    {"{\"client_id\":\"a\",\"client_id\":\"a\"}", HF_FIELD_REPEATED,
     "a field or parameter is given twice: line 1, column 28: duplicate object key near "
     "'\"client_id\"'"},
    {"{\"metadata\":{\"a\":1,\"\\u0061\":2}}", HF_FIELD_REPEATED, "a field or parameter is given"},
    {"{\"client_id\":\"a\",\"ttl\":5}", HF_FIELD_UNKNOWN, "ttl: there is no such field here"},
    {"{\"client_id\":\"a\",\"\":5}", HF_FIELD_UNKNOWN, ": there is no such field here"},
    {"{\"Client_id\":\"a\"}", HF_FIELD_UNKNOWN, "Client_id: there is no such field here"},
    {"{}", HF_FIELD_MISSING, "client_id: is required"},
    {"{\"client_id\":null}", HF_FIELD_MISSING, "client_id: is required"},
    {"{\"client_id\":5}", HF_FIELD_TYPE, "client_id: must be a string of 1 to 255 bytes"},
    {"{\"client_id\":\"\"}", HF_FIELD_RANGE, "client_id: must be a string of 1 to 255 bytes"},
    {"{\"ttl_ms\":\"100\"}", HF_FIELD_TYPE, "ttl_ms: must be a whole number from 100 to 86400000"},
    {"{\"ttl_ms\":true}", HF_FIELD_TYPE, "ttl_ms: must be a whole number from 100 to 86400000"},
    {"{\"ttl_ms\":100.5}", HF_FIELD_TYPE, "ttl_ms: must be a whole number from 100 to 86400000"},
    {"{\"ttl_ms\":100.0}", HF_FIELD_TYPE, "ttl_ms: must be a whole number from 100 to 86400000"},
    {"{\"ttl_ms\":1e3}", HF_FIELD_TYPE, "ttl_ms: must be a whole number from 100 to 86400000"},
    {"{\"ttl_ms\":99}", HF_FIELD_RANGE, "ttl_ms: must be a whole number from 100 to 86400000"},
    {"{\"ttl_ms\":-100}", HF_FIELD_RANGE, "ttl_ms: must be a whole number from 100 to 86400000"},
    {"{\"ttl_ms\":86400001}", HF_FIELD_RANGE, "ttl_ms: must be a whole number from 100 to 864000"},
    {"{\"ttl_ms\":18446744073709551716}", HF_FIELD_RANGE, "ttl_ms: "}, /* 2^64 + 100 */
    {"{\"ttl_ms\":9999999999999999999999999999999999999999}", HF_FIELD_RANGE, "ttl_ms: "},
    {"{\"wait_timeout_ms\":-2}", HF_FIELD_RANGE, "wait_timeout_ms: must be a whole number from -1"},
    {"{\"wait_timeout_ms\":9007199254740992}", HF_FIELD_RANGE, "wait_timeout_ms: "},
    {"{\"reentrant\":1}", HF_FIELD_TYPE, "reentrant: must be true or false"},
    {"{\"names\":\"a\"}", HF_FIELD_TYPE, "names: must be an array of 1 to 3 strings"},
    {"{\"names\":[]}", HF_FIELD_RANGE, "names: must be an array of 1 to 3 strings"},
    {"{\"names\":[\"a\",\"b\",\"c\",\"d\"]}", HF_FIELD_RANGE, "names: must be an array of 1 to 3"},
    {"{\"names\":[\"a\",2]}", HF_FIELD_TYPE, "names[1]: must be a string of 1 to 8 bytes"},
    {"{\"names\":[\"a\",null]}", HF_FIELD_TYPE, "names[1]: must be a string of 1 to 8 bytes"},
    {"{\"names\":[\"\"]}", HF_FIELD_RANGE, "names[0]: must be a string of 1 to 8 bytes"},
    {"{\"names\":[\"123456789\"]}", HF_FIELD_RANGE, "names[0]: must be a string of 1 to 8 bytes"},
    /* the first bad one in the text counts */
    {"{\"ttl_ms\":1,\"reentrant\":1,\"x\":1}", HF_FIELD_RANGE, "ttl_ms: "},
};

static void each_mistake_has_a_code_and_names_the_field(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
        const struct mistake *m = &mistakes[i];
        struct fixture f;
        enum hf_error error = read_text(&f, m->text);
        if (error != m->error || f.fault.code != error ||
            strncmp(f.fault.text, m->message, strlen(m->message)) != 0)
            fail_msg("%s: expected %s \"%s\", got %s \"%s\"", m->text, hf_error_code(m->error),
                     m->message, hf_error_code(error), f.fault.text);
        assert_int_equal(hf_error_http_status(error), 400);
        assert_int_equal(f.out.ttl_ms, 30000); /* untouched */
        assert_text(f.out.client_id, "default");
        assert_int_equal(f.present, 777);
        done(&f);
    }
}

static void a_nul_byte_is_refused_wherever_it_is(void **state)
{
    (void)state;
    const char text[] = "{\"client_id\":\"c\"}";
    for (size_t i = 0; i <= sizeof(text) - 1; i++) {
        char bad[sizeof(text) + 1];
        memcpy(bad, text, i);
        bad[i] = 0;
        memcpy(bad + i + 1, text + i, sizeof(text) - i);
        struct fixture f;
        assert_int_equal(read_bytes(&f, slice_make(bad, sizeof(text))), HF_JSON_NUL);
        done(&f);
    }
}

static void numbers_are_exact_up_to_two_to_the_53(void **state)
{
    (void)state;
    static const char *const texts[] = {"9007199254740991", "9007199254740990", "-0", "-1", "0"};
    static const int64_t values[] = {INT64_C(9007199254740991), INT64_C(9007199254740990), 0, -1,
                                     0};
    for (size_t i = 0; i < 5; i++) {
        char text[100];
        snprintf(text, sizeof(text), "{\"client_id\":\"c\", \"wait_timeout_ms\" : %s }", texts[i]);
        struct fixture f;
        assert_int_equal(read_text(&f, text), HF_OK);
        assert_int_equal(f.out.wait_timeout_ms, values[i]);
        done(&f);
    }
}

static void a_number_as_text_is_whole_large_or_neither(void **state)
{
    (void)state;
    int64_t value = 77;
    assert_int_equal(json_scan_integer(slice_of("9007199254740992"), &value), JSON_SCAN_LARGE);
    assert_int_equal(json_scan_integer(slice_of("-9007199254740992"), &value), JSON_SCAN_LARGE);
    assert_int_equal(json_scan_integer(slice_of("99999999999999999999.5"), &value),
                     JSON_SCAN_FRACTION);
    assert_int_equal(json_scan_integer(slice_of("1E2"), &value), JSON_SCAN_FRACTION);
    assert_int_equal(value, 77);
    assert_int_equal(json_scan_integer(slice_of("-9007199254740991"), &value), JSON_SCAN_WHOLE);
    assert_int_equal(value, -INT64_C(9007199254740991));
}

static void assert_metadata(const char *given, const char *expected)
{
    char text[20000];
    snprintf(text, sizeof(text), "{\"metadata\":%s,\"client_id\":\"c\"}", given);
    struct fixture f;
    assert_int_equal(read_text(&f, text), HF_OK);
    assert_text(f.out.metadata, expected);
    done(&f);
}

static void metadata_is_any_value_and_keeps_its_text(void **state)
{
    (void)state;
    assert_metadata("1", "1");
    assert_metadata("false", "false");
    assert_metadata("\"a \\\" b\\\\\"", "\"a \\\" b\\\\\"");
    assert_metadata("\t0.1 ", "0.1"); /* and not 0.10000000000000001 */
    assert_metadata("1e2", "1e2");
    assert_metadata("123456789012345678901234567890", "123456789012345678901234567890");
    assert_metadata("[ ]", "[]");
    assert_metadata(" { \"b\" : [ 1 , { \"\" : \"}, ] :\" } ] ,\r\n\t\"a\" : null } ",
                    "{\"b\":[1,{\"\":\"}, ] :\"}],\"a\":null}");
}

static void metadata_has_a_limit_that_white_space_does_not_count_for(void **state)
{
    (void)state;
    for (size_t over = 0; over < 2; over++) {
        char string[LIMIT_METADATA + 2], text[LIMIT_METADATA + 200];
        memset(string, 'x', LIMIT_METADATA - 2 + over);
        string[LIMIT_METADATA - 2 + over] = 0;
        snprintf(text, sizeof(text), "{\"client_id\":\"c\",\"metadata\":   \"%s\"   }", string);
        struct fixture f;
        assert_int_equal(read_text(&f, text), over == 0 ? HF_OK : HF_FIELD_RANGE);
        if (over != 0)
            assert_string_equal(f.fault.text, "metadata: must be at most 4096 bytes of JSON");
        done(&f);
    }
}

static void depth_has_a_limit(void **state)
{
    (void)state;
    for (size_t over = 0; over < 2; over++) {
        char text[200] = "{\"client_id\":\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\",\"metadata\":";
        size_t len = strlen(text);
        size_t levels = LIMIT_JSON_DEPTH - 1 + over;
        memset(text + len, '[', levels);
        memset(text + len + levels, ']', levels);
        memcpy(text + len + 2 * levels, "}", 2);
        struct fixture f;
        assert_int_equal(read_text(&f, text), over == 0 ? HF_OK : HF_JSON_TOO_DEEP);
        done(&f);
    }
}

static void size_has_a_limit(void **state)
{
    (void)state;
    char *text = malloc(LIMIT_HTTP_BODY + 1);
    memset(text, ' ', LIMIT_HTTP_BODY + 1);
    memcpy(text, "{\"client_id\":\"c\"}", 17);
    struct fixture f;
    assert_int_equal(read_bytes(&f, slice_make(text, LIMIT_HTTP_BODY)), HF_OK);
    done(&f);
    assert_int_equal(read_bytes(&f, slice_make(text, LIMIT_HTTP_BODY + 1)), HF_BODY_TOO_LARGE);
    done(&f);
    free(text);
}

static void more_members_than_any_table_has_are_no_problem(void **state)
{
    (void)state;
    char text[10000] = "{\"client_id\":\"c\"";
    size_t len = strlen(text);
    for (int i = 0; i < 200; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len, ",\"x%d\":%d", i, i);
    memcpy(text + len, "}", 2);
    struct fixture f;
    assert_int_equal(read_text(&f, text), HF_FIELD_UNKNOWN);
    assert_string_equal(f.fault.text, "x0: there is no such field here");
    done(&f);
}

static void a_long_name_is_cut_between_characters(void **state)
{
    (void)state;
    char text[1000] = "{\"xy";
    for (int i = 0; i < 100; i++)
        memcpy(text + 4 + 3 * i, "\xe2\x82\xac", 3);
    memcpy(text + 304, "\":1}", 5);
    struct fixture f;
    assert_int_equal(read_text(&f, text), HF_FIELD_UNKNOWN);
    char *rest = strchr(f.fault.text, ':');
    assert_non_null(rest);
    assert_string_equal(rest, ": there is no such field here");
    assert_int_equal(rest - f.fault.text, 62); /* xy and 20 times the euro sign */
    done(&f);
}

static void read_with_too_large_limits(void *ctx)
{
    const struct json_field bad = {"n", JSON_FIELD_UINT, false, 0, 0, (int64_t)LIMIT_NUMBER, 0};
    struct fixture *f = ctx;
    json_doc_read(&f->doc, &bad, 1, &f->out, &f->present, &f->fault);
}

static void a_table_must_keep_the_rules(void **state)
{
    (void)state;
    struct fixture f;
    assert_int_equal(read_text(&f, "{\"client_id\":\"c\"}"), HF_OK);
    assert_panics(read_with_too_large_limits, &f, "fields[i].max");
    done(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_object_fills_a_struct),
        cmocka_unit_test(what_is_absent_or_null_keeps_its_default),
        cmocka_unit_test(each_mistake_has_a_code_and_names_the_field),
        cmocka_unit_test(a_nul_byte_is_refused_wherever_it_is),
        cmocka_unit_test(numbers_are_exact_up_to_two_to_the_53),
        cmocka_unit_test(a_number_as_text_is_whole_large_or_neither),
        cmocka_unit_test(metadata_is_any_value_and_keeps_its_text),
        cmocka_unit_test(metadata_has_a_limit_that_white_space_does_not_count_for),
        cmocka_unit_test(depth_has_a_limit),
        cmocka_unit_test(size_has_a_limit),
        cmocka_unit_test(more_members_than_any_table_has_are_no_problem),
        cmocka_unit_test(a_long_name_is_cut_between_characters),
        cmocka_unit_test(a_table_must_keep_the_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

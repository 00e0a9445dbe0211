/* Requests of Redis clients, whole, cut and wrong; answers in both protocols. */
#include "base_testing.h"

#include "wire/resp.h"

/* The request "a|b|c", "!words" for an error, "..." for one that is not whole; fed in pieces. */
static const char *read_request(const char *text, size_t len, size_t step, size_t *consumed)
{
    static char out[4096];
    static uint8_t bytes[LIMIT_RESP_REQUEST];
    struct resp_parser *p = malloc(sizeof(*p));
    struct resp_result r = {.status = RESP_INCOMPLETE};
    resp_parser_init(p);
    memcpy(bytes, text, len);
    for (size_t have = 0; r.status == RESP_INCOMPLETE && have < len;) {
        have = have + step < len ? have + step : len;
        r = resp_feed(p, bytes, have);
    }
    out[0] = '\0';
    if (r.status == RESP_INCOMPLETE) {
        snprintf(out, sizeof(out), "...");
    } else if (r.status == RESP_ERROR) {
        snprintf(out, sizeof(out), "!%s", r.error);
    } else {
        for (uint32_t i = 0; i < resp_count(p); i++) {
            struct slice a = resp_argument(p, bytes, i);
            snprintf(out + strlen(out), sizeof(out) - strlen(out), "%s%.*s", i > 0 ? "|" : "",
                     (int)a.len, (const char *)a.data);
        }
        *consumed = r.consumed;
    }
    free(p);
    return out;
}

static void assert_reads(const char *text, const char *expected)
{
    size_t len = strlen(text);
    for (size_t step = 1; step <= len; step = step < 4 ? step + 1 : step + len / 3 + 1) {
        size_t consumed = 0;
        assert_string_equal(read_request(text, len, step, &consumed), expected);
        if (expected[0] != '!' && strcmp(expected, "...") != 0) {
            assert_int_equal(consumed, len);
        }
    }
}

static void arrays_of_bulk_strings_are_read_however_they_are_cut(void **state)
{
    (void)state;
    assert_reads("*1\r\n$4\r\nPING\r\n", "PING");
    assert_reads("*3\r\n$3\r\nSET\r\n$0\r\n\r\n$5\r\na\r\nb!\r\n", "SET||a\r\nb!");
    assert_reads("*2\r\n$3\r\nGET\r\n$1\r\n", "...");
    assert_reads("*2\r\n$3\r\nGET\r\n$1\r\nx\r", "...");
    assert_reads("*1", "...");
}

static void arrays_of_nothing_request_nothing(void **state)
{
    (void)state;
    assert_reads("*0\r\n", "");
    assert_reads("*-1\r\n", "");
    assert_reads("\r\n", "");
    assert_reads("   \r\n", "");
}

static void words_on_a_line_are_a_request(void **state)
{
    (void)state;
    assert_reads("PING\r\n", "PING");
    assert_reads("set a  b\n", "set|a|b");
    assert_reads("SET \"a b\" 'c\\'d' \"\\x41\\n\\\"\"\r\n", "SET|a b|c'd|A\n\"");
    assert_reads("GET \"\"\r\n", "GET|");
    assert_reads("GET \"a\r\n", "!unbalanced quotes in request");
    assert_reads("GET \"a\"b\r\n", "!unbalanced quotes in request");
    assert_reads("PIN", "...");
}

static void what_is_no_request_is_a_protocol_error(void **state)
{
    (void)state;
    assert_reads("*x\r\n", "!invalid multibulk length");
    assert_reads("*\r\n", "!invalid multibulk length");
    assert_reads("*01\r\n", "!invalid multibulk length");
    assert_reads("*1025\r\n", "!invalid multibulk length");
    assert_reads("*99999999999\r\n", "!invalid multibulk length");
    assert_reads("*1\r\n:4\r\n", "!expected '$'");
    assert_reads("*1\r\n$-1\r\n", "!invalid bulk length");
    assert_reads("*1\r\n$65537\r\n", "!invalid bulk length");
    assert_reads("*1\r\n$1\r\nab\r\n", "!a bulk string does not end with CR LF");
    char long_head[64];
    memset(long_head, '1', sizeof(long_head));
    long_head[0] = '*';
    size_t consumed;
    assert_string_equal(read_request(long_head, sizeof(long_head), 1, &consumed),
                        "!too big mbulk count string");
}

static void a_line_has_an_end(void **state)
{
    (void)state;
    char *line = malloc(LIMIT_RESP_INLINE + 2);
    size_t consumed;
    memset(line, 'a', LIMIT_RESP_INLINE + 2);
    assert_string_equal(read_request(line, LIMIT_RESP_INLINE, 1000, &consumed), "...");
    assert_string_equal(read_request(line, LIMIT_RESP_INLINE + 2, 1000, &consumed),
                        "!too big inline request");
    free(line);
}

static void one_request_is_taken_at_a_time(void **state)
{
    (void)state;
    uint8_t bytes[] = "*1\r\n$4\r\nPING\r\nget k\r\n*1\r\n$4\r\nQUIT\r\n";
    static struct resp_parser p;
    resp_parser_init(&p);
    size_t at = 0;
    const char *expected[] = {"PING", "get", "QUIT"};
    for (unsigned i = 0; i < 3; i++) {
        struct resp_result r = resp_feed(&p, bytes + at, sizeof(bytes) - 1 - at);
        assert_int_equal(r.status, RESP_REQUEST);
        assert_true(slice_equal(resp_argument(&p, bytes + at, 0), slice_of(expected[i])));
        at += r.consumed;
    }
    assert_int_equal(at, sizeof(bytes) - 1);
    assert_int_equal(resp_feed(&p, bytes, 0).status, RESP_INCOMPLETE);
}

static void answers_know_both_protocols(void **state)
{
    (void)state;
    static const char *const expected[] = {
        "+OK\r\n-ERR a  b\r\n:-7\r\n$2\r\nhi\r\n$-1\r\n*-1\r\n*2\r\n*4\r\n*3\r\n:1\r\n",
        "+OK\r\n-ERR a  b\r\n:-7\r\n$2\r\nhi\r\n_\r\n_\r\n*2\r\n%2\r\n>3\r\n#t\r\n",
    };
    for (int protocol = 2; protocol <= 3; protocol++) {
        struct buffer out;
        buffer_init(&out, memory_system(), 4096);
        struct resp_writer w = {&out, protocol};
        resp_simple(&w, "OK");
        resp_error(&w, "ERR", "a\r\n%s", "b");
        resp_integer(&w, -7);
        resp_text(&w, "hi");
        resp_null(&w);
        resp_null_array(&w);
        resp_array(&w, 2);
        resp_map(&w, 2);
        resp_push(&w, 3);
        resp_bool(&w, true);
        assert_true(slice_equal(buffer_bytes(&out), slice_of(expected[protocol - 2])));
        buffer_close(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays_of_bulk_strings_are_read_however_they_are_cut),
        cmocka_unit_test(arrays_of_nothing_request_nothing),
        cmocka_unit_test(words_on_a_line_are_a_request),
        cmocka_unit_test(what_is_no_request_is_a_protocol_error),
        cmocka_unit_test(a_line_has_an_end),
        cmocka_unit_test(one_request_is_taken_at_a_time),
        cmocka_unit_test(answers_know_both_protocols),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

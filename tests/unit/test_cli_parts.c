/* The small parts of the command line: answers of HTTP however they are cut, tables, spans, trees.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "cli/columns.h"
#include "cli/http_answer.h"
#include "cli/human.h"
#include "cli/when.h"
#include "wire/json_tree.h"

enum { BODY_MAX = 1 << 16 };

/* Reads `text` in pieces of `step` bytes; the body comes into `body`. */
static enum http_state read_in_steps(const char *text, size_t step, struct http *h,
                                     struct buffer *body)
{
    size_t len = strlen(text);
    bool has_head = false;
    enum http_state state = HTTP_MORE;
    *h = (struct http){.status = 0};
    transport_init(&h->transport);
    buffer_init(&h->in, memory_system(), HTTP_HEAD_MAX);
    buffer_init(body, memory_system(), BODY_MAX);
    for (size_t at = 0; at < len && state == HTTP_MORE; at += step) {
        buffer_append(&h->in, text + at, at + step < len ? step : len - at);
        if (!has_head) {
            state = http_take_head(h);
            has_head = state == HTTP_DONE;
            state = has_head ? HTTP_MORE : state;
        }
        if (has_head) {
            state = http_take_body(h, body);
        }
    }
    return state;
}

static void expect_body(const char *text, int status, const char *body_text)
{
    struct http h;
    struct buffer body;
    for (size_t step = 1; step <= strlen(text); step++) {
        assert_int_equal(read_in_steps(text, step, &h, &body), HTTP_DONE);
        assert_int_equal(h.status, status);
        assert_true(slice_equal(buffer_bytes(&body), slice_of(body_text)));
        http_close(&h);
        buffer_close(&body);
    }
}

static void an_answer_is_read_wherever_it_is_cut(void **state)
{
    expect_body("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: y\r\n\r\nhello", 200, "hello");
    expect_body("HTTP/1.1 503 Service Unavailable\r\nretry-after: 7\r\ncontent-length: 0\r\n\r\n",
                503, "");
    expect_body("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                "5\r\nhello\r\nA\r\n, world...\r\n0\r\n\r\n",
                200, "hello, world...");
}

static void an_answer_without_a_length_goes_on_to_the_end(void **state)
{
    struct http h;
    struct buffer body;
    assert_int_equal(read_in_steps("HTTP/1.0 200 OK\r\n\r\nabc", 3, &h, &body), HTTP_MORE);
    assert_true(slice_equal(buffer_bytes(&body), slice_of("abc")));
    http_close(&h);
    buffer_close(&body);
}

static void what_is_no_answer_is_refused(void **state)
{
    static const char *const texts[] = {
        "SSH-2.0-OpenSSH\r\n\r\n",
        "HTTP/2.0 200 OK\r\n\r\n",
        "HTTP/1.1 2x0 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: five\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999999\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabcd\r\n",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct http h;
        struct buffer body;
        assert_int_equal(read_in_steps(texts[i], strlen(texts[i]), &h, &body), HTTP_BROKEN);
        assert_true(h.problem[0] != '\0');
        http_close(&h);
        buffer_close(&body);
    }
}

static void names_are_escaped_for_paths_and_queries(void **state)
{
    struct buffer out;
    buffer_init(&out, memory_system(), 256);
    http_escape(&out, slice_of("a/b c%?\xc3\xa4"), true);
    buffer_append_byte(&out, '|');
    http_escape(&out, slice_of("a/b&=+"), false);
    assert_true(slice_equal(buffer_bytes(&out), slice_of("a/b%20c%25%3F%C3%A4|a%2Fb%26%3D%2B")));
    buffer_close(&out);
}

static void columns_are_as_wide_as_what_is_in_them(void **state)
{
    struct columns t;
    char *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    assert_non_null(to);
    columns_init(&t, 2);
    columns_text(&t, "NAME");
    columns_text(&t, "N");
    columns_text(&t, "\xc3\xa4\xc3\xb6"); /* two characters */
    columns_printf(&t, "%d", 7);
    columns_colour(&t, COLOUR_RED); /* not shown: it is no terminal */
    columns_text(&t, "a\x1b[2Jb");
    columns_text(&t, "");
    columns_print(&t, to);
    columns_close(&t);
    assert_int_equal(fclose(to), 0);
    assert_string_equal(text, "NAME    N\n\xc3\xa4\xc3\xb6      7\na?[2Jb  \n");
    free(text);
}

static void an_optional_column_is_shown_if_a_row_has_text_in_it(void **state)
{
    static const char *const cells[] = {"", "x"};
    static const char *const expected[] = {"A  C\n1  2\n3  4\n", "A  B  C\n1  -  2\n3  x  4\n"};
    for (unsigned i = 0; i < 2; i++) {
        struct columns t;
        char *text = NULL;
        size_t size = 0;
        FILE *to = open_memstream(&text, &size);
        assert_non_null(to);
        columns_init(&t, 4);
        columns_text(&t, "A");
        columns_optional(&t, "B");
        columns_text(&t, "C");
        columns_optional(&t, "D"); /* always empty, and the last */
        const char *const row[] = {"1", "", "2", "", "3", cells[i], "4", ""};
        for (unsigned k = 0; k < 8; k++) {
            columns_text(&t, row[k]);
        }
        columns_print(&t, to);
        columns_close(&t);
        assert_int_equal(fclose(to), 0);
        assert_string_equal(text, expected[i]);
        free(text);
    }
}

static void spans_and_times_are_short(void **state)
{
    char out[HUMAN_TEXT];
    assert_string_equal(human_span(0, out), "0ms");
    assert_string_equal(human_span(999, out), "999ms");
    assert_string_equal(human_span(59999, out), "59s");
    assert_string_equal(human_span(61000, out), "1m01s");
    assert_string_equal(human_span(3 * 3600000 + 120000, out), "3h02m");
    assert_string_equal(human_span(UINT64_C(50) * 3600000, out), "2d02h");
    assert_string_equal(human_time(slice_of("2026-11-15T12:00:03.123Z"), out),
                        "2026-11-15 12:00:03Z");
    assert_string_equal(human_time(slice_of("soon"), out), "-");
    assert_string_equal(human_time(slice_of(""), out), "-");
}

static void a_tree_finds_nothing_where_nothing_is(void **state)
{
    struct fault fault;
    struct buffer out;
    struct json_t *tree = json_tree_parse(
        slice_of("{\"a\":[1,\"x\",null],\"t\":true,\"big\":123456789012345678901234}"), &fault);
    assert_non_null(tree);
    assert_int_equal(json_tree_count(json_tree_get(tree, "a")), 3);
    assert_int_equal(json_tree_u64(json_tree_at(json_tree_get(tree, "a"), 0), 9), 1);
    assert_true(
        slice_equal(json_tree_text(json_tree_at(json_tree_get(tree, "a"), 1)), slice_of("x")));
    assert_null(json_tree_at(json_tree_get(tree, "a"), 2));
    assert_true(json_tree_true(json_tree_get(tree, "t")));
    assert_int_equal(json_tree_u64(json_tree_get(tree, "big"), 9), 9);
    assert_null(json_tree_get(json_tree_get(tree, "no"), "such"));
    assert_int_equal(json_tree_count(NULL), 0);
    assert_int_equal(json_tree_text(NULL).len, 0);
    json_tree_free(tree);
    assert_null(json_tree_parse(slice_of("{\"a\":"), &fault));
    assert_non_null(strstr(fault.text, "line 1"));
    buffer_init(&out, memory_system(), 64);
    json_tree_write(NULL, &out);
    assert_true(slice_equal(buffer_bytes(&out), slice_of("null")));
    buffer_close(&out);
}

static void expect_when(const char *text, const char *expected)
{
    const uint64_t now_ms = UINT64_C(1731660577123); /* 2024-11-15T08:49:37.123Z */
    char out[WHEN_TEXT] = "unchanged";
    bool is_read = when_parse(text, now_ms, out);
    if (is_read != (expected != NULL)) {
        fail_msg("\"%s\": %d", text, is_read);
    }
    if (is_read) {
        assert_string_equal(out, expected);
    }
}

static void times_may_be_short(void **state)
{
    (void)state;
    expect_when("2h", "2h");
    expect_when("1h30m", "1h30m");
    expect_when("08:03", "2024-11-15T08:03:00.000Z");
    expect_when("08:49:37", "2024-11-15T08:49:37.000Z");
    expect_when("08:50", "2024-11-14T08:50:00.000Z"); /* the last one */
    expect_when("23:59:59", "2024-11-14T23:59:59.000Z");
    expect_when("2024-11-01", "2024-11-01T00:00:00.000Z");
    expect_when("2024-11-01 14:03", "2024-11-01T14:03:00.000Z");
    expect_when("2024-11-01 14:03:20Z", "2024-11-01T14:03:20.000Z"); /* as tables show it */
    expect_when("2024-11-01T14:03:20.5+01:00", "2024-11-01T13:03:20.500Z");
    expect_when("14", NULL);
    expect_when("24:00", NULL);
    expect_when("14:3", NULL);
    expect_when("2024-11-31", NULL);
    expect_when("2024-11-01 noon", NULL);
    expect_when("2024-11-01x14:03", NULL);
    expect_when("0000000000000000000000000000000000001h", NULL);
    expect_when("", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_may_be_short),
        cmocka_unit_test(an_answer_is_read_wherever_it_is_cut),
        cmocka_unit_test(an_answer_without_a_length_goes_on_to_the_end),
        cmocka_unit_test(what_is_no_answer_is_refused),
        cmocka_unit_test(names_are_escaped_for_paths_and_queries),
        cmocka_unit_test(columns_are_as_wide_as_what_is_in_them),
        cmocka_unit_test(an_optional_column_is_shown_if_a_row_has_text_in_it),
        cmocka_unit_test(spans_and_times_are_short),
        cmocka_unit_test(a_tree_finds_nothing_where_nothing_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Tests of the HTTP/1.1 parser: what it understands. What it refuses is in test_http1_strict.c. */
#include "base_testing.h"

#include "../support/http1_events.h"

/* What the parser reports about `text`, as http1_events.h writes it down. */
static void assert_reports(const char *text, const char *expected)
{
    struct buffer log;
    buffer_init(&log, memory_system(), 1 << 20);
    http1_run(slice_of(text), CUT_WHOLE, 0, &log);
    buffer_append_byte(&log, 0);
    assert_string_equal((const char *)buffer_bytes(&log).data, expected);
    buffer_close(&log);
}

/* The head of a request that is complete in `text`. */
static const struct http1_request *parse(struct http1 *p, const char *text)
{
    http1_init(p);
    struct http1_result r = http1_feed(p, slice_of(text));
    assert_int_equal(r.event, HTTP1_HEAD);
    return http1_request(p);
}

static void assert_text(struct slice text, const char *expected)
{
    assert_int_equal(text.len, strlen(expected));
    assert_memory_equal(text.data, expected, text.len);
}

static void a_request_with_a_body_is_head_body_and_done(void **state)
{
    (void)state;
    assert_reports("POST /api/v1/locks/a/acquire HTTP/1.1\r\n"
                   "Host: localhost:4653\r\n"
                   "Content-Type: application/json\r\n"
                   "Content-Length: 7\r\n"
                   "\r\n"
                   "{\"a\":1}",
                   "HEAD POST HTTP/1.1 keep-alive 7\n"
                   "localhost:4653\n/api/v1/locks/a/acquire\n\n"
                   "Host=localhost:4653\nContent-Type=application/json\nContent-Length=7\n"
                   "BODY {\"a\":1}\nDONE\n121 bytes, idle\n");
}

static void requests_may_follow_each_other_in_the_same_bytes(void **state)
{
    (void)state;
    assert_reports("GET /a HTTP/1.1\r\nHost: x\r\n\r\n"
                   "POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi"
                   "DELETE /c HTTP/1.1\r\nHost: x\r\n\r\n"
                   "GET /d",
                   "HEAD GET HTTP/1.1 keep-alive 0\nx\n/a\n\nHost=x\nBODY \nDONE\n"
                   "HEAD POST HTTP/1.1 keep-alive 2\nx\n/b\n\nHost=x\nContent-Length=2\n"
                   "BODY hi\nDONE\n"
                   "HEAD DELETE HTTP/1.1 keep-alive 0\nx\n/c\n\nHost=x\nBODY \nDONE\n"
                   "109 bytes\n");
}

static void a_chunked_body_is_put_together(void **state)
{
    (void)state;
    assert_reports("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: Chunked\r\n\r\n"
                   "5\r\nhello\r\n"
                   "00000B;name=value;other=\"x\"\r\n, a \r\nbody\n\r\n"
                   "0\r\nX-Sum: 1\r\nOther:\r\n\r\n",
                   "HEAD POST HTTP/1.1 keep-alive chunked 0\nx\n/\n\n"
                   "Host=x\nTransfer-Encoding=Chunked\n"
                   "BODY hello, a \r\nbody\n\nDONE\n131 bytes, idle\n");
}

static void the_last_request_is_the_one_that_says_close(void **state)
{
    (void)state;
    assert_reports("GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade , CLOSE\r\n\r\n"
                   "GET /never HTTP/1.1\r\nHost: x\r\n\r\n",
                   "HEAD GET HTTP/1.1 0\nx\n/\n\nHost=x\nConnection=upgrade , CLOSE\nBODY \n"
                   "DONE\nCLOSED\n56 bytes\n");
}

static void http_1_0_closes_unless_it_says_keep_alive(void **state)
{
    (void)state;
    struct http1 p;
    assert_false(parse(&p, "GET / HTTP/1.0\r\n\r\n")->keep_alive);
    assert_true(parse(&p, "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n")->keep_alive);
    assert_false(parse(&p, "GET / HTTP/1.0\r\nConnection: keep-alive\r\nConnection: close\r\n\r\n")
                     ->keep_alive);
    assert_true(parse(&p, "GET / HTTP/1.1\r\nHost:\r\n\r\n")->keep_alive);
    assert_int_equal(p.request.host.len, 0);
}

static void a_client_may_wait_for_100_continue(void **state)
{
    (void)state;
    struct http1 p;
    assert_true(parse(&p, "POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-Continue\r\n"
                          "Content-Length: 1\r\n\r\n")
                    ->expect_continue);
    assert_true(parse(&p, "POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
                          "Transfer-Encoding: chunked\r\n\r\n")
                    ->expect_continue);
    /* Nothing to wait for, and a version that knows nothing of it. */
    assert_false(
        parse(&p, "POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n\r\n")->expect_continue);
    assert_false(parse(&p, "POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n")
                     ->expect_continue);
}

static void a_target_may_be_a_path_or_an_address(void **state)
{
    (void)state;
    struct http1 p;
    const struct http1_request *q =
        parse(&p, "GET /a/b%2Fc?x=1&y=?z HTTP/1.1\r\nHost: h:1\r\n\r\n");
    assert_text(q->path, "/a/b%2Fc");
    assert_text(q->query, "x=1&y=?z");
    assert_text(q->host, "h:1");

    q = parse(&p, "GET HTTP://[::1]:4653/a?b HTTP/1.1\r\nHost: other\r\n\r\n");
    assert_text(q->path, "/a");
    assert_text(q->query, "b");
    assert_text(q->host, "[::1]:4653"); /* RFC 9112, section 3.2.2: it counts, Host does not */

    q = parse(&p, "GET https://h HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_text(q->path, "/");
    q = parse(&p, "GET http://h?q HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_text(q->path, "/");
    assert_text(q->query, "q");
    q = parse(&p, "GET /caf\xc3\xa9|{} HTTP/1.1\r\nHost: h\r\n\r\n"); /* as curl sends it */
    assert_text(q->path, "/caf\xc3\xa9|{}");
    q = parse(&p, "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_text(q->path, "*");
}

static void every_method_is_distinguished(void **state)
{
    (void)state;
    for (int method = HTTP_GET; method <= HTTP_OPTIONS; method++) {
        char text[100];
        snprintf(text, sizeof(text), "%s / HTTP/1.1\r\nHost: h\r\n\r\n",
                 http_method_text((enum http_method)method));
        struct http1 p;
        assert_int_equal(parse(&p, text)->method, method);
    }
}

static void headers_are_found_without_regard_to_case(void **state)
{
    (void)state;
    struct http1 p;
    parse(&p, "GET / HTTP/1.1\r\nHOST: h\r\nIdempotency-KEY: \t abc \t def\t \r\n"
              "X-Twice: 1\r\nx-twice: 2\r\nX-Empty:\r\n\r\n");
    struct slice value = slice_of("untouched");
    assert_int_equal(http1_header(&p, "idempotency-key", &value), 1);
    assert_text(value, "abc \t def");
    assert_int_equal(http1_header(&p, "x-twice", &value), 2);
    assert_text(value, "1");
    assert_int_equal(http1_header(&p, "x-empty", &value), 1);
    assert_text(value, "");
    value = slice_of("untouched");
    assert_int_equal(http1_header(&p, "x-absent", &value), 0);
    assert_text(value, "untouched");
    assert_int_equal(http1_header_count(&p), 5);
    assert_text(http1_header_name(&p, 2), "X-Twice");
    assert_text(http1_header_value(&p, 3), "2");
}

static void an_empty_line_before_a_request_is_skipped_once(void **state)
{
    (void)state;
    assert_reports("\r\nGET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
                   "\r\nGET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n\r\n",
                   "HEAD GET HTTP/1.0 keep-alive 0\n\n/\n\nConnection=keep-alive\nBODY \nDONE\n"
                   "HEAD GET HTTP/1.0 keep-alive 0\n\n/\n\nConnection=keep-alive\nBODY \nDONE\n"
                   "90 bytes, idle\n");
    assert_reports("\r\n\r\nGET / HTTP/1.0\r\n\r\n", "\nERROR http_request_line\n2 bytes\n");
}

static void the_preface_of_http_2_is_an_event_of_its_own(void **state)
{
    (void)state;
    assert_reports("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nframes", "PREFACE\n0 bytes\n");
    assert_reports("PRI * HTTP/2.0\r\n\r\nSM\r\n", "0 bytes\n"); /* not all there yet */
    assert_reports("PRI * HTTP/2.0\r\n\r\nSX", "\nERROR http_version\n0 bytes\n");
    /* Only a connection begins with it. */
    assert_reports("GET / HTTP/1.1\r\nHost: h\r\n\r\nPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                   "HEAD GET HTTP/1.1 keep-alive 0\nh\n/\n\nHost=h\nBODY \nDONE\n"
                   "\nERROR http_version\n27 bytes\n");
    assert_reports("\r\nPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\nERROR http_version\n2 bytes\n");
}

static void a_post_without_a_length_has_no_body(void **state)
{
    (void)state;
    struct http1 p; /* curl -X POST sends just that */
    const struct http1_request *q = parse(&p, "POST / HTTP/1.1\r\nHost: h\r\n\r\nGET");
    assert_int_equal(q->content_length, 0);
    assert_false(q->chunked);
    struct http1_result r = http1_feed(&p, slice_of("GET"));
    assert_int_equal(r.event, HTTP1_DONE);
    assert_int_equal(r.consumed, 0);
    assert_true(http1_is_idle(&p));
}

static void a_body_comes_in_the_pieces_in_which_it_was_read(void **state)
{
    (void)state;
    struct http1 p;
    parse(&p, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n");
    assert_int_equal(http1_feed(&p, slice_make(NULL, 0)).event, HTTP1_MORE);
    struct http1_result r = http1_feed(&p, slice_of("abc"));
    assert_int_equal(r.event, HTTP1_BODY);
    assert_text(r.body, "abc");
    assert_false(http1_is_idle(&p));
    r = http1_feed(&p, slice_of("deGET"));
    assert_int_equal(r.event, HTTP1_BODY);
    assert_text(r.body, "de");
    assert_int_equal(r.consumed, 2);
    assert_int_equal(http1_feed(&p, slice_of("GET")).event, HTTP1_DONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_with_a_body_is_head_body_and_done),
        cmocka_unit_test(requests_may_follow_each_other_in_the_same_bytes),
        cmocka_unit_test(a_chunked_body_is_put_together),
        cmocka_unit_test(the_last_request_is_the_one_that_says_close),
        cmocka_unit_test(http_1_0_closes_unless_it_says_keep_alive),
        cmocka_unit_test(a_client_may_wait_for_100_continue),
        cmocka_unit_test(a_target_may_be_a_path_or_an_address),
        cmocka_unit_test(every_method_is_distinguished),
        cmocka_unit_test(headers_are_found_without_regard_to_case),
        cmocka_unit_test(an_empty_line_before_a_request_is_skipped_once),
        cmocka_unit_test(the_preface_of_http_2_is_an_event_of_its_own),
        cmocka_unit_test(a_post_without_a_length_has_no_body),
        cmocka_unit_test(a_body_comes_in_the_pieces_in_which_it_was_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

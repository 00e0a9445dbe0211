/* Tests of HTTP/1.1 answers, byte for byte. */
#include "base_testing.h"

#include "wire/http1_response.h"

struct fixture {
    struct counted counted;
    struct buffer out;
};

static void fixture_init(struct fixture *f, size_t max)
{
    counted_init(&f->counted);
    buffer_init(&f->out, &f->counted.memory, max);
}

static void fixture_close(struct fixture *f, const char *expected)
{
    size_t len = buffer_len(&f->out);
    if (len != strlen(expected) ||
        (len > 0 && memcmp(buffer_bytes(&f->out).data, expected, len) != 0))
        fail_msg("expected\n%s\ngot\n%.*s", expected, (int)len,
                 (const char *)buffer_bytes(&f->out).data);
    buffer_close(&f->out);
    assert_all_given_back(&f->counted);
}

static const struct http1_request get = {.method = HTTP_GET, .minor = 1, .keep_alive = true};
static const struct http1_request head = {.method = HTTP_HEAD, .minor = 1, .keep_alive = true};
static const struct http1_request old = {.method = HTTP_GET, .minor = 0, .keep_alive = false};
static const struct http1_request old_kept = {.method = HTTP_GET, .minor = 0, .keep_alive = true};

static void an_answer_has_its_headers_and_its_body(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 4096);
    struct http1_response r = http1_response_to(503, &get);
    r.content_type = "application/json";
    r.date = slice_of("Fri, 15 Nov 2024 08:49:37 GMT");
    r.leader = slice_of("10.0.0.3:4653");
    r.retry_after_s = 1;
    const struct http1_extra extra[] = {{"Allow", slice_of("GET, HEAD")},
                                        {"Cache-Control", slice_of("no-store")}};
    r.extra = extra;
    r.extra_count = 2;
    assert_true(http1_response_write(&f.out, &r, slice_of("{}")));
    fixture_close(&f, "HTTP/1.1 503 Service Unavailable\r\n"
                      "Date: Fri, 15 Nov 2024 08:49:37 GMT\r\n"
                      "Content-Type: application/json\r\n"
                      "Holdfast-Leader: 10.0.0.3:4653\r\n"
                      "Retry-After: 1\r\n"
                      "Allow: GET, HEAD\r\n"
                      "Cache-Control: no-store\r\n"
                      "Content-Length: 2\r\n"
                      "\r\n"
                      "{}");
}

static void the_answer_says_what_becomes_of_the_connection(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 4096);
    const struct http1_request *requests[] = {&get, &old, &old_kept, NULL};
    for (size_t i = 0; i < 4; i++) {
        struct http1_response r = http1_response_to(200, requests[i]);
        assert_true(http1_response_write(&f.out, &r, slice_of("")));
    }
    fixture_close(&f, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
                      "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
                      "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n"
                      "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
}

static void head_gets_the_length_but_not_the_body(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 4096);
    struct http1_response r = http1_response_to(200, &head);
    assert_true(http1_response_write(&f.out, &r, slice_of("0123456789")));
    r = http1_response_to(200, &head);
    assert_true(http1_response_stream(&f.out, &r));
    assert_true(http1_response_piece(&f.out, &r, slice_of("abc")));
    assert_true(http1_response_end(&f.out, &r));
    fixture_close(&f, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"
                      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
}

static void some_answers_have_no_body_and_some_no_reason(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 4096);
    struct http1_response r = http1_response_to(204, &get);
    assert_true(http1_response_write(&f.out, &r, slice_make(NULL, 0)));
    r = http1_response_to(299, &get);
    assert_true(http1_response_write(&f.out, &r, slice_make(NULL, 0)));
    assert_true(http1_response_continue(&f.out));
    fixture_close(&f, "HTTP/1.1 204 No Content\r\n\r\n"
                      "HTTP/1.1 299 \r\nContent-Length: 0\r\n\r\n"
                      "HTTP/1.1 100 Continue\r\n\r\n");
}

static void a_stream_comes_in_chunks(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 4096);
    struct http1_response r = http1_response_to(200, &get);
    r.content_type = "text/event-stream";
    assert_true(http1_response_stream(&f.out, &r));
    assert_true(http1_response_piece(&f.out, &r, slice_of("id: 1\ndata: {}\n\n")));
    assert_true(http1_response_piece(&f.out, &r, slice_of(""))); /* must not end the stream */
    assert_true(http1_response_piece(&f.out, &r, slice_of(":\n\n")));
    assert_true(http1_response_end(&f.out, &r));
    fixture_close(&f, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                      "Cache-Control: no-store\r\nX-Accel-Buffering: no\r\n"
                      "Transfer-Encoding: chunked\r\n\r\n"
                      "10\r\nid: 1\ndata: {}\n\n\r\n"
                      "3\r\n:\n\n\r\n"
                      "0\r\n\r\n");
}

static void a_stream_to_http_1_0_ends_with_the_connection(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 4096);
    struct http1_response r = http1_response_to(200, &old);
    assert_true(http1_response_stream(&f.out, &r));
    assert_true(http1_response_piece(&f.out, &r, slice_of("abc")));
    assert_true(http1_response_end(&f.out, &r));
    fixture_close(&f, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nabc");
}

static void an_answer_that_does_not_fit_leaves_no_trace(void **state)
{
    (void)state;
    struct http1_response r = http1_response_to(200, &get);
    for (size_t max = 4; max < 140; max++) {
        struct fixture f;
        fixture_init(&f, max);
        buffer_append_text(&f.out, "old ");
        size_t before = buffer_len(&f.out);
        if (!http1_response_write(&f.out, &r, slice_of("body")))
            assert_int_equal(buffer_len(&f.out), before);
        before = buffer_len(&f.out);
        if (!http1_response_stream(&f.out, &r))
            assert_int_equal(buffer_len(&f.out), before);
        before = buffer_len(&f.out);
        if (!http1_response_piece(&f.out, &r, slice_of("piece")))
            assert_int_equal(buffer_len(&f.out), before);
        assert_false(f.out.overflowed);
        buffer_close(&f.out);
        assert_all_given_back(&f.counted);
    }
}

static void every_error_has_a_reason_phrase(void **state)
{
    (void)state;
    for (int error = 0; error < HF_ERROR_COUNT; error++) {
        struct fixture f;
        fixture_init(&f, 4096);
        struct http1_response r =
            http1_response_to(hf_error_http_status((enum hf_error)error), NULL);
        assert_true(http1_response_write(&f.out, &r, slice_of("")));
        assert_true(buffer_bytes(&f.out).data[13] != '\r');
        buffer_close(&f.out);
    }
}

static void dates_are_those_of_the_calendar(void **state)
{
    (void)state;
    static const struct {
        uint64_t wall_s;
        const char *text;
    } rows[] = {
        {0, "Thu, 01 Jan 1970 00:00:00 GMT"},
        {784111777, "Sun, 06 Nov 1994 08:49:37 GMT"}, /* RFC 9110, section 5.6.7 */
        {951782400, "Tue, 29 Feb 2000 00:00:00 GMT"},
        {951868800, "Wed, 01 Mar 2000 00:00:00 GMT"},
        {1709164799, "Wed, 28 Feb 2024 23:59:59 GMT"},
        {1735689599, "Tue, 31 Dec 2024 23:59:59 GMT"},
        {4107542400, "Mon, 01 Mar 2100 00:00:00 GMT"}, /* 2100 is no leap year */
        {253402300799, "Fri, 31 Dec 9999 23:59:59 GMT"},
        {UINT64_MAX, "Fri, 31 Dec 9999 23:59:59 GMT"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[HTTP1_DATE_LEN + 1];
        http1_date(rows[i].wall_s, text);
        assert_string_equal(text, rows[i].text);
    }
}

static void split_the_answer(void *ctx)
{
    struct http1_response r = http1_response_to(200, &get);
    r.leader = slice_of("a\r\nSet-Cookie: b");
    http1_response_write(ctx, &r, slice_of(""));
}

static void keep_a_stream_to_http_1_0(void *ctx)
{
    struct http1_response r = http1_response_to(200, &old_kept);
    http1_response_stream(ctx, &r);
}

static void misuse_of_answers_ends_the_process(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 4096);
    assert_panics(split_the_answer, &f.out, "head_check_text(value) == HF_OK");
    assert_panics(keep_a_stream_to_http_1_0, &f.out, "response->close");
    fixture_close(&f, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_has_its_headers_and_its_body),
        cmocka_unit_test(the_answer_says_what_becomes_of_the_connection),
        cmocka_unit_test(head_gets_the_length_but_not_the_body),
        cmocka_unit_test(some_answers_have_no_body_and_some_no_reason),
        cmocka_unit_test(a_stream_comes_in_chunks),
        cmocka_unit_test(a_stream_to_http_1_0_ends_with_the_connection),
        cmocka_unit_test(an_answer_that_does_not_fit_leaves_no_trace),
        cmocka_unit_test(every_error_has_a_reason_phrase),
        cmocka_unit_test(dates_are_those_of_the_calendar),
        cmocka_unit_test(misuse_of_answers_ends_the_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Tests of what the HTTP/1.1 parser refuses, and with which code: whatever could smuggle a request,
 * and whatever is too much. And the property that all rests on: where the bytes were cut between
 * two calls does not show. */
#include "base_testing.h"

#include "../support/http1_events.h"

struct refusal {
    const char *text;
    size_t len; /* for texts with a NUL, else 0 */
    enum hf_error error;
};

#define POST "POST / HTTP/1.1\r\nHost: h\r\n"
#define GET "GET / HTTP/1.1\r\n"
#define CHUNKED POST "Transfer-Encoding: chunked\r\n\r\n"
#define WITH_NUL(text) text, sizeof(text) - 1

static const struct refusal refusals[] = {
    /* the request line */
    {"GET  / HTTP/1.1\r\n", 0, HF_HTTP_REQUEST_LINE},
    {"GET /  HTTP/1.1\r\n", 0, HF_HTTP_REQUEST_LINE},
    {"GET / HTTP/1.1 \r\n", 0, HF_HTTP_REQUEST_LINE},
    {" GET / HTTP/1.1\r\n", 0, HF_HTTP_REQUEST_LINE},
    {"GET /\r\n", 0, HF_HTTP_REQUEST_LINE},
    {"GET\r\n", 0, HF_HTTP_REQUEST_LINE},
    {"G(T / HTTP/1.1\r\n", 0, HF_HTTP_REQUEST_LINE},
    {"GET\t/ HTTP/1.1\r\n", 0, HF_HTTP_REQUEST_LINE},
    {"GET / http/1.1\r\n", 0, HF_HTTP_REQUEST_LINE},
    {"GET / HTTP/1.10\r\n", 0, HF_HTTP_REQUEST_LINE},
    {"GET / HTTP/1,1\r\n", 0, HF_HTTP_REQUEST_LINE},
    {"\x16\x03\x01", 0, HF_HTTP_REQUEST_LINE}, /* a TLS greeting, recognized by its first byte */
    {"GET / HTTP/1.2\r\n", 0, HF_HTTP_VERSION},
    {"GET / HTTP/2.0\r\n", 0, HF_HTTP_VERSION},
    {"GET / HTTP/0.9\r\n", 0, HF_HTTP_VERSION},
    {"BREW / HTTP/1.1\r\n", 0, HF_HTTP_METHOD},
    {"get / HTTP/1.1\r\n", 0, HF_HTTP_METHOD},
    {"CONNECT h:1 HTTP/1.1\r\n", 0, HF_HTTP_METHOD},
    {"TRACE / HTTP/1.1\r\n", 0, HF_HTTP_METHOD},
    {"GET a HTTP/1.1\r\n", 0, HF_HTTP_TARGET},
    {"GET * HTTP/1.1\r\n", 0, HF_HTTP_TARGET},
    {"GET ** HTTP/1.1\r\n", 0, HF_HTTP_TARGET},
    {"GET /#a HTTP/1.1\r\n", 0, HF_HTTP_TARGET},
    {"GET http:/a HTTP/1.1\r\n", 0, HF_HTTP_TARGET},
    {"GET http:///a HTTP/1.1\r\n", 0, HF_HTTP_TARGET},
    {"GET ftp://h/a HTTP/1.1\r\n", 0, HF_HTTP_TARGET},
    {"GET http://user@h/a HTTP/1.1\r\n", 0, HF_HTTP_TARGET},
    /* lines */
    {"GET / HTTP/1.1\n", 0, HF_HTTP_BARE_LF},
    {"\n", 0, HF_HTTP_BARE_LF},
    {GET "Host: h\n", 0, HF_HTTP_BARE_LF},
    {GET "Host: h\r\n\n", 0, HF_HTTP_BARE_LF},
    {GET "Host: h\r\r\n", 0, HF_HTTP_CONTROL},
    {GET "Host: h\rX: y\r\n", 0, HF_HTTP_CONTROL},
    {"GET /\r HTTP/1.1\r\n", 0, HF_HTTP_CONTROL},
    {"GET /\x7f HTTP/1.1\r\n", 0, HF_HTTP_CONTROL},
    {WITH_NUL("GET /\0 HTTP/1.1\r\n"), HF_HTTP_NUL},
    {GET "Host: h\x01\r\n", 0, HF_HTTP_CONTROL},
    {GET "X: a long value, then \x0b in it\r\n", 0, HF_HTTP_CONTROL},
    {GET "X: a long value, then \x7f in it\r\n", 0, HF_HTTP_CONTROL},
    {WITH_NUL(GET "X: a long value, then \0 in it\r\n"), HF_HTTP_NUL},
    {WITH_NUL(GET "X\0: y\r\n"), HF_HTTP_NUL},
    {GET "X\x02: y\r\n", 0, HF_HTTP_CONTROL},
    /* headers */
    {GET "Host: h\r\n folded\r\n", 0, HF_HTTP_FOLDED},
    {GET "Host: h\r\n\tfolded\r\n", 0, HF_HTTP_FOLDED},
    {GET " Host: h\r\n", 0, HF_HTTP_FOLDED},
    {GET "Host : h\r\n", 0, HF_HTTP_COLON},
    {GET "Host\t: h\r\n", 0, HF_HTTP_COLON},
    {GET "Content-Length : 5\r\n", 0, HF_HTTP_COLON},
    {GET "Transfer-Encoding : chunked\r\n", 0, HF_HTTP_COLON},
    {GET "Host\r\n", 0, HF_HTTP_HEADER},
    {GET "Host h\r\n", 0, HF_HTTP_HEADER},
    {GET ": h\r\n", 0, HF_HTTP_HEADER},
    {GET "H(st: h\r\n", 0, HF_HTTP_HEADER},
    {GET "H\xc3\xb6st: h\r\n", 0, HF_HTTP_HEADER},
    {GET "\r\n", 0, HF_HTTP_HOST},
    {GET "Host: a\r\nHost: a\r\n", 0, HF_HTTP_HOST},
    {GET "Host: a b\r\n", 0, HF_HTTP_HOST},
    {GET "Host: user@a\r\n", 0, HF_HTTP_HOST},
    {GET "Host: a/b\r\n", 0, HF_HTTP_HOST},
    /* the length of the body */
    {POST "Content-Length: +5\r\n", 0, HF_HTTP_LENGTH},
    {POST "Content-Length: -5\r\n", 0, HF_HTTP_LENGTH},
    {POST "Content-Length: 5 5\r\n", 0, HF_HTTP_LENGTH},
    {POST "Content-Length: 5,5\r\n", 0, HF_HTTP_LENGTH},
    {POST "Content-Length: 0x5\r\n", 0, HF_HTTP_LENGTH},
    {POST "Content-Length: 5.0\r\n", 0, HF_HTTP_LENGTH},
    {POST "Content-Length:\r\n", 0, HF_HTTP_LENGTH},
    {POST "Content-Length: \xd9\xa3\r\n", 0, HF_HTTP_LENGTH}, /* a digit, but not one of ours */
    {POST "Content-Length: 5\r\nContent-Length: 5\r\n", 0, HF_HTTP_LENGTH_REPEATED},
    {POST "Content-Length: 5\r\nContent-Length: 6\r\n", 0, HF_HTTP_LENGTH_REPEATED},
    {POST "Content-Length: 1048577\r\n", 0, HF_BODY_TOO_LARGE},
    {POST "Content-Length: 18446744073709551621\r\n", 0, HF_BODY_TOO_LARGE}, /* 2^64 + 5 */
    {POST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 0, HF_HTTP_LENGTH_CHUNKED},
    {POST "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n", 0, HF_HTTP_LENGTH_CHUNKED},
    {POST "Transfer-Encoding: identity\r\n", 0, HF_HTTP_ENCODING},
    {POST "Transfer-Encoding: gzip, chunked\r\n", 0, HF_HTTP_ENCODING},
    {POST "Transfer-Encoding: chunked, chunked\r\n", 0, HF_HTTP_ENCODING},
    {POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", 0, HF_HTTP_ENCODING},
    {POST "Transfer-Encoding: xchunked\r\n", 0, HF_HTTP_ENCODING},
    {POST "Transfer-Encoding: \"chunked\"\r\n", 0, HF_HTTP_ENCODING},
    {POST "Transfer-Encoding:\r\n", 0, HF_HTTP_ENCODING},
    {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 0, HF_HTTP_10_CHUNKED},
    {"POST / HTTP/1.0\r\n\r\n", 0, HF_HTTP_LENGTH_REQUIRED},
    {POST "Expect: 200-ok\r\n", 0, HF_HTTP_EXPECT},
    /* chunks */
    {CHUNKED "\r\n", 0, HF_HTTP_CHUNK},
    {CHUNKED "g\r\n", 0, HF_HTTP_CHUNK},
    {CHUNKED "0x5\r\n", 0, HF_HTTP_CHUNK},
    {CHUNKED "-1\r\n", 0, HF_HTTP_CHUNK},
    {CHUNKED "5 \r\n", 0, HF_HTTP_CHUNK},
    {CHUNKED "5 ;a\r\n", 0, HF_HTTP_CHUNK},
    {CHUNKED " 5\r\n", 0, HF_HTTP_CHUNK},
    {CHUNKED "0000000000000005\r\n", 0, HF_HTTP_CHUNK},
    {CHUNKED "10000000000000005\r\n", 0, HF_HTTP_CHUNK},
    {CHUNKED "5\r\nhelloX", 0, HF_HTTP_CHUNK},
    {CHUNKED "5\r\nhello\rX", 0, HF_HTTP_CHUNK},
    {CHUNKED "5\r\nhello\n", 0, HF_HTTP_BARE_LF},
    {CHUNKED "5\nhello", 0, HF_HTTP_BARE_LF},
    {CHUNKED "5;a\x01\r\n", 0, HF_HTTP_CONTROL},
    {WITH_NUL(CHUNKED "5;a\0\r\n"), HF_HTTP_NUL},
    {CHUNKED "100001\r\n", 0, HF_BODY_TOO_LARGE},
    {CHUNKED "fffffffffffffff\r\n", 0, HF_BODY_TOO_LARGE},
    {CHUNKED "1\r\na\r\n100000\r\n", 0, HF_BODY_TOO_LARGE},
    {CHUNKED "0\r\n folded\r\n", 0, HF_HTTP_FOLDED},
    {CHUNKED "0\r\nX : y\r\n", 0, HF_HTTP_COLON},
    {CHUNKED "0\r\nX\r\n", 0, HF_HTTP_HEADER},
    {CHUNKED "0\r\nX: y\n", 0, HF_HTTP_BARE_LF},
    {CHUNKED "0\r\n\n", 0, HF_HTTP_BARE_LF},
};

static void assert_log(struct slice input, unsigned cut, uint64_t seed, const struct buffer *whole)
{
    struct buffer log;
    buffer_init(&log, memory_system(), 8 << 20);
    http1_run(input, cut, seed, &log);
    assert_false(log.overflowed);
    assert_int_equal(buffer_len(&log), buffer_len(whole));
    assert_memory_equal(buffer_bytes(&log).data, buffer_bytes(whole).data, buffer_len(whole));
    buffer_close(&log);
}

/* Whole, byte by byte and in random pieces: the same. */
static void assert_cuts_do_not_show(struct slice input, bool bytewise)
{
    struct buffer whole;
    buffer_init(&whole, memory_system(), 8 << 20);
    http1_run(input, CUT_WHOLE, 0, &whole);
    if (bytewise)
        assert_log(input, CUT_BYTES, 0, &whole);
    for (uint64_t seed = 1; seed <= 4; seed++)
        assert_log(input, bytewise ? 2u << seed : 4096u << seed, seed, &whole);
    buffer_close(&whole);
}

/* The error that ends `input`. */
static enum hf_error error_of(struct slice input)
{
    struct http1 p;
    http1_init(&p);
    size_t used = 0;
    for (;;) {
        struct http1_result r = http1_feed(&p, slice_make(input.data + used, input.len - used));
        used += r.consumed;
        if (r.event == HTTP1_ERROR)
            return r.error;
        if (r.event == HTTP1_MORE || r.event == HTTP1_CLOSED)
            return HF_OK;
    }
}

static void each_way_to_smuggle_or_mumble_has_its_own_code(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        const struct refusal *r = &refusals[i];
        struct slice input = r->len > 0 ? slice_make(r->text, r->len) : slice_of(r->text);
        enum hf_error error = error_of(input);
        if (error != r->error)
            fail_msg("row %zu, \"%s\": expected %s, got %s", i, r->text, hf_error_code(r->error),
                     hf_error_code(error));
        int status = hf_error_http_status(error);
        assert_true((status >= 400 && status < 500) || status == 501 || status == 505);
        assert_cuts_do_not_show(input, true);
    }
}

static void a_broken_parser_stays_broken_with_the_same_code(void **state)
{
    (void)state;
    struct http1 p;
    http1_init(&p);
    struct slice bad = slice_of("GET / HTTP/1.1\r\nHost : h\r\n\r\n");
    for (int i = 0; i < 3; i++) {
        struct http1_result r = http1_feed(&p, bad);
        assert_int_equal(r.event, HTTP1_ERROR);
        assert_int_equal(r.error, HF_HTTP_COLON);
        assert_int_equal(r.consumed, 0);
        bad = slice_of(i == 0 ? "" : "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    }
    assert_false(http1_is_idle(&p));
}

/* ---- limits: what is just allowed, and one more ---- */

struct text {
    struct buffer b;
};

static struct text text_begin(void)
{
    struct text t;
    buffer_init(&t.b, memory_system(), 8 << 20);
    return t;
}

static void text_fill(struct text *t, char c, size_t count)
{
    for (size_t i = 0; i < count; i++)
        buffer_append_byte(&t->b, (uint8_t)c);
}

static void text_end(struct text *t, enum hf_error expected)
{
    assert_false(t->b.overflowed);
    enum hf_error error = error_of(buffer_bytes(&t->b));
    if (error != expected)
        fail_msg("expected %s, got %s", hf_error_code(expected), hf_error_code(error));
    assert_cuts_do_not_show(buffer_bytes(&t->b), buffer_len(&t->b) < 40000);
    buffer_close(&t->b);
}

static void a_request_line_has_a_limit(void **state)
{
    (void)state;
    for (size_t over = 0; over < 3; over++) {
        struct text t = text_begin();
        buffer_append_text(&t.b, "GET /");
        text_fill(&t, 'a', LIMIT_HTTP_LINE - strlen("GET / HTTP/1.1") + over);
        buffer_append_text(&t.b, " HTTP/1.1\r\nHost: h\r\n\r\n");
        text_end(&t, over == 0 ? HF_OK : HF_LINE_TOO_LONG);
    }
    struct text endless = text_begin();
    text_fill(&endless, 'G', LIMIT_HTTP_LINE + 2);
    text_end(&endless, HF_LINE_TOO_LONG);
}

static void the_headers_together_have_a_limit(void **state)
{
    (void)state;
    const size_t fixed = strlen("Host: h\r\nX: \r\n\r\n");
    for (size_t over = 0; over < 5; over++) {
        struct text t = text_begin();
        buffer_append_text(&t.b, "GET / HTTP/1.1\r\nHost: h\r\nX: ");
        text_fill(&t, 'x', LIMIT_HTTP_HEADER_BYTES - fixed + over);
        buffer_append_text(&t.b, "\r\n\r\n");
        text_end(&t, over == 0 ? HF_OK : HF_HEADERS_TOO_LARGE);
    }
    struct text endless = text_begin();
    buffer_append_text(&endless.b, "GET / HTTP/1.1\r\nX: ");
    text_fill(&endless, 'x', LIMIT_HTTP_HEADER_BYTES);
    text_end(&endless, HF_HEADERS_TOO_LARGE);
}

static void headers_are_counted(void **state)
{
    (void)state;
    for (size_t over = 0; over < 2; over++) {
        struct text t = text_begin();
        buffer_append_text(&t.b, "GET / HTTP/1.1\r\nHost: h\r\n");
        for (size_t i = 0; i < LIMIT_HTTP_HEADERS - 1 + over; i++)
            buffer_printf(&t.b, "X-%zu: y\r\n", i);
        buffer_append_text(&t.b, "\r\n");
        text_end(&t, over == 0 ? HF_OK : HF_TOO_MANY_HEADERS);
    }
}

static void a_body_has_a_limit_in_either_form(void **state)
{
    (void)state;
    struct text t = text_begin();
    buffer_printf(&t.b, POST "Content-Length: 0000%u\r\n\r\n", LIMIT_HTTP_BODY);
    text_fill(&t, 'b', LIMIT_HTTP_BODY);
    text_end(&t, HF_OK);
    for (int over = 0; over < 2; over++) {
        t = text_begin();
        buffer_append_text(&t.b, CHUNKED);
        for (int i = 0; i < 16; i++) {
            buffer_append_text(&t.b, "10000\r\n");
            text_fill(&t, 'b', 0x10000);
            buffer_append_text(&t.b, "\r\n");
        }
        buffer_append_text(&t.b, over == 0 ? "0\r\n\r\n" : "1\r\nb\r\n0\r\n\r\n");
        text_end(&t, over == 0 ? HF_OK : HF_BODY_TOO_LARGE);
    }
}

static void chunk_lines_and_all_extensions_together_have_limits(void **state)
{
    (void)state;
    for (size_t over = 0; over < 2; over++) {
        struct text t = text_begin();
        buffer_append_text(&t.b, CHUNKED "0;");
        text_fill(&t, 'x', LIMIT_HTTP_CHUNK_LINE - 2 + over);
        buffer_append_text(&t.b, "\r\n\r\n");
        text_end(&t, over == 0 ? HF_OK : HF_CHUNK_LINE_TOO_LONG);
    }
    for (int over = 0; over < 2; over++) { /* 32 times 128 bytes of extension, and one more */
        struct text t = text_begin();
        buffer_append_text(&t.b, CHUNKED);
        for (int i = 0; i < LIMIT_HTTP_EXTENSIONS / 128; i++) {
            buffer_append_text(&t.b, "1;");
            text_fill(&t, 'x', 127);
            buffer_append_text(&t.b, "\r\nb\r\n");
        }
        buffer_append_text(&t.b, over == 0 ? "0\r\n\r\n" : "0;\r\n\r\n");
        text_end(&t, over == 0 ? HF_OK : HF_CHUNK_LINE_TOO_LONG);
    }
}

static void trailers_have_a_limit(void **state)
{
    (void)state;
    for (size_t over = 0; over < 3; over++) {
        struct text t = text_begin();
        buffer_append_text(&t.b, CHUNKED "0\r\nX: y\r\nX:");
        text_fill(&t, 'x', LIMIT_HTTP_TRAILERS - strlen("X: y") - strlen("X:") + over);
        buffer_append_text(&t.b, "\r\n\r\n");
        text_end(&t, over == 0 ? HF_OK : HF_TRAILERS_TOO_LARGE);
    }
    /* What was spent on extensions is not missing here. */
    struct text t = text_begin();
    buffer_append_text(&t.b, CHUNKED "1;");
    text_fill(&t, 'x', 200);
    buffer_append_text(&t.b, "\r\nb\r\n0\r\nX:");
    text_fill(&t, 'x', LIMIT_HTTP_TRAILERS - strlen("X:"));
    buffer_append_text(&t.b, "\r\n\r\n");
    text_end(&t, HF_OK);
}

/* ---- where the bytes are cut ---- */

static const char *const pieces[] = {
    "GET / HTTP/1.1\r\n",
    "POST /api/v1/locks/a%2Fb/acquire?x=1 HTTP/1.1\r\n",
    "HEAD http://h/ HTTP/1.0\r\n",
    "Host: h\r\n",
    "Connection: close\r\n",
    "Connection: keep-alive\r\n",
    "Content-Length: 3\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Expect: 100-continue\r\n",
    "X: y\r\n",
    "\r\n",
    "\r\n",
    "\r\n",
    "3\r\nabc\r\n",
    "0\r\n",
    "abc",
    "\n",
    "\r",
    " ",
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
};

enum { FIRST_HEADER = 4, LAST_HEADER = 9, PIECE_COUNT = sizeof(pieces) / sizeof(pieces[0]) };

static void add_pieces(struct text *t, struct random *random, uint32_t from, uint32_t to,
                       uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        buffer_append_text(&t->b, pieces[from + random_below(random, to - from)]);
}

static void random_texts_read_the_same_however_they_are_cut(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, __func__);
    unsigned heads = 0;
    for (int round = 0; round < 4000; round++) {
        struct text t = text_begin();
        if (random_below(&random, 2) == 0) { /* mostly in order */
            buffer_append_text(&t.b, POST);
            add_pieces(&t, &random, FIRST_HEADER, LAST_HEADER + 1, random_below(&random, 3));
            buffer_append_text(&t.b, "\r\n");
        }
        add_pieces(&t, &random, 0, PIECE_COUNT, random_below(&random, 12));
        if (random_below(&random, 3) == 0 && buffer_len(&t.b) > 0)
            t.b.data[random_below(&random, (uint32_t)buffer_len(&t.b))] =
                (uint8_t)random_next(&random);
        assert_cuts_do_not_show(buffer_bytes(&t.b), true);
        struct http1 p;
        http1_init(&p);
        heads += http1_feed(&p, buffer_bytes(&t.b)).event == HTTP1_HEAD;
        buffer_close(&t.b);
    }
    assert_true(heads > 1000); /* not only nonsense */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_way_to_smuggle_or_mumble_has_its_own_code),
        cmocka_unit_test(a_broken_parser_stays_broken_with_the_same_code),
        cmocka_unit_test(a_request_line_has_a_limit),
        cmocka_unit_test(the_headers_together_have_a_limit),
        cmocka_unit_test(headers_are_counted),
        cmocka_unit_test(a_body_has_a_limit_in_either_form),
        cmocka_unit_test(chunk_lines_and_all_extensions_together_have_limits),
        cmocka_unit_test(trailers_have_a_limit),
        cmocka_unit_test(random_texts_read_the_same_however_they_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

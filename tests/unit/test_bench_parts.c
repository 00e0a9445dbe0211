/* The parts of `holdfast bench` that decide what its figures say: the histogram, and how
 * answers of HTTP and of the Redis protocol are read. */
#include "base_testing.h"

#include <stdio.h>
#include <stdlib.h>

#include "bench/histogram.h"
#include "bench/protocol.h"

/* ---- the histogram ---- */

static struct histogram *new_histogram(void)
{
    struct histogram *h = calloc(1, sizeof(*h));
    assert_non_null(h);
    return h;
}

static void an_empty_histogram_is_zero_everywhere(void **state)
{
    (void)state;
    struct histogram *h = new_histogram();
    assert_int_equal(histogram_at(h, 0), 0);
    assert_int_equal(histogram_at(h, 99000), 0);
    assert_int_equal(histogram_at(h, HISTOGRAM_ALL), 0);
    free(h);
}

static void a_single_value_is_every_share_exactly(void **state)
{
    (void)state;
    struct histogram *h = new_histogram();
    histogram_add(h, 1234567);
    assert_int_equal(histogram_at(h, 0), 1234567);
    assert_int_equal(histogram_at(h, 50000), 1234567);
    assert_int_equal(histogram_at(h, HISTOGRAM_ALL), 1234567);
    assert_int_equal(h->min, 1234567);
    free(h);
}

/* Never below the true value, and above it by less than one part in HISTOGRAM_PARTS. */
static void every_value_is_known_to_one_part_in_128(void **state)
{
    (void)state;
    struct histogram *h = new_histogram();
    uint64_t value = 1;
    while (value < UINT64_C(1) << (HISTOGRAM_VALUE_BITS - 1)) {
        for (uint64_t near = value - (value > 1 ? 1 : 0); near <= value + 1; near++) {
            memset(h, 0, sizeof(*h));
            histogram_add(h, near);
            histogram_add(h, UINT64_C(1) << 50); /* so that the first is not the largest */
            uint64_t read = histogram_at(h, 50000);
            assert_true(read >= near);
            assert_true(read - near <= near / HISTOGRAM_PARTS);
        }
        value += value / 3 + 1;
    }
    free(h);
}

static void shares_follow_the_ranks(void **state)
{
    (void)state;
    struct histogram *h = new_histogram();
    for (uint64_t i = 1; i <= 100; i++) { /* so small that each has its own bucket */
        histogram_add(h, i);
    }
    assert_int_equal(histogram_at(h, 50000), 50);
    assert_int_equal(histogram_at(h, 90000), 90);
    assert_int_equal(histogram_at(h, 99000), 99);
    assert_int_equal(histogram_at(h, 99001), 100);
    assert_int_equal(histogram_at(h, 99900), 100);
    assert_int_equal(histogram_at(h, 1), 1);
    free(h);
}

static void the_largest_value_is_exact_however_large(void **state)
{
    (void)state;
    struct histogram *h = new_histogram();
    histogram_add(h, 5);
    histogram_add(h, UINT64_MAX);
    assert_true(histogram_at(h, HISTOGRAM_ALL) == UINT64_MAX);
    assert_int_equal(histogram_at(h, 50000), 5);
    free(h);
}

static void ranks_of_very_many_values_do_not_overflow(void **state)
{
    (void)state;
    struct histogram *h = new_histogram();
    histogram_add(h, 7);
    histogram_add(h, 90);
    h->buckets[7] += UINT64_C(1) << 60;
    h->count += UINT64_C(1) << 60;
    assert_int_equal(histogram_at(h, 99900), 7);
    assert_int_equal(histogram_at(h, HISTOGRAM_ALL), 90);
    free(h);
}

/* ---- HTTP ---- */

struct heard {
    unsigned answers;
    struct bench_answer last;
    char session[BENCH_SESSION];
};

static void on_answer(void *ctx, const struct bench_answer *answer)
{
    struct heard *heard = ctx;
    heard->answers++;
    heard->last = *answer;
    (void)snprintf(heard->session, sizeof(heard->session), "%.*s", (int)answer->session.len,
                   answer->session.len == 0 ? "" : (const char *)answer->session.data);
}

/* Sends a request with `verb`, and receives `answer` byte by byte: only the last one completes it. */
static struct heard hear_by(const struct bench_protocol *protocol, enum bench_verb verb,
                            const char *answer, const char **problem)
{
    struct heard heard = {.answers = 0};
    struct buffer out;
    buffer_init(&out, memory_system(), 1 << 16);
    void *open = protocol->open("node:1", 1);
    struct bench_request request = {
        .verb = verb, .session = slice_of("5e55"), .name = slice_of("n"), .client = slice_of("c")};
    protocol->begin(open, &out);
    protocol->request(open, 0, &request, &out);
    assert_true(buffer_len(&out) > 0);
    *problem = NULL;
    for (size_t len = 0; len < strlen(answer) && *problem == NULL; len++) {
        assert_int_equal(heard.answers, 0);
        size_t used =
            protocol->receive(open, slice_make(answer, len + 1), &out, on_answer, &heard, problem);
        assert_int_equal(used, heard.answers == 0 ? 0 : len + 1);
    }
    protocol->close(open);
    buffer_close(&out);
    return heard;
}

static struct heard hear(enum bench_verb verb, const char *answer, const char **problem)
{
    return hear_by(&bench_http, verb, answer, problem);
}

static void an_acquire_yields_its_token(void **state)
{
    (void)state;
    const char *problem;
    struct heard heard = hear(BENCH_ACQUIRE,
                              "HTTP/1.1 200 OK\r\nDate: x\r\ncontent-length:  42\r\nA: b\r\n\r\n"
                              "{\"acquired\":true,\"fencing_token\":7340032}\n",
                              &problem);
    assert_int_equal(heard.answers, 1);
    assert_true(heard.last.fine);
    assert_int_equal(heard.last.token, 7340032);
}

static void a_lock_that_somebody_holds_is_no_success(void **state)
{
    (void)state;
    const char *problem;
    struct heard heard = hear(BENCH_ACQUIRE,
                              "HTTP/1.1 200 OK\r\nContent-Length: 34\r\n\r\n"
                              "{\"acquired\":false,\"reason\":\"held\"}",
                              &problem);
    assert_int_equal(heard.answers, 1);
    assert_false(heard.last.fine);
    assert_string_equal(heard.last.code, "held");
}

static void an_error_is_reported_by_its_code_and_sentence(void **state)
{
    (void)state;
    const char *problem;
    struct heard heard = hear(BENCH_RELEASE,
                              "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 56\r\n\r\n"
                              "{\"error\":{\"code\":\"unavailable\",\"message\":\"no leader\"}}  ",
                              &problem);
    assert_int_equal(heard.answers, 1);
    assert_false(heard.last.fine);
    assert_string_equal(heard.last.code, "unavailable");
    assert_string_equal(heard.last.message, "no leader");
}

static void an_opened_session_yields_its_id(void **state)
{
    (void)state;
    const char *problem;
    struct heard heard = hear(BENCH_OPEN,
                              "HTTP/1.1 200 OK\r\nContent-Length: 22\r\n\r\n"
                              "{\"session_id\":\"5e55\"}",
                              &problem);
    assert_int_equal(heard.answers, 0); /* one byte is missing */
    heard = hear(BENCH_OPEN,
                 "HTTP/1.1 200 OK\r\nContent-Length: 22\r\n\r\n"
                 "{\"session_id\":\"5e55\"}\n",
                 &problem);
    assert_int_equal(heard.answers, 1);
    assert_true(heard.last.fine);
    assert_string_equal(heard.session, "5e55");
}

static void bytes_that_are_no_answer_are_a_problem(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "SSH-2.0-OpenSSH\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "HTTP/1.1 \r\n\r\n",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const char *problem;
        struct heard heard = hear(BENCH_RELEASE, bad[i], &problem);
        assert_non_null(problem);
        assert_int_equal(heard.answers, 0);
    }
}

static void requests_name_their_lock_session_and_token(void **state)
{
    (void)state;
    struct buffer out;
    buffer_init(&out, memory_system(), 1 << 16);
    void *http = bench_http.open("node:1", 1);
    struct bench_request request = {.verb = BENCH_RELEASE,
                                    .session = slice_of("5e55"),
                                    .name = slice_of("bench/1"),
                                    .token = 4096};
    bench_http.request(http, 0, &request, &out);
    assert_true(slice_equal(
        buffer_bytes(&out),
        slice_of("POST /api/v1/locks/bench/1/release HTTP/1.1\r\nHost: node:1\r\n"
                 "Content-Length: 42\r\n\r\n{\"session_id\":\"5e55\",\"fencing_token\":4096}")));
    bench_http.close(http);
    buffer_close(&out);
}

/* ---- the Redis protocol ---- */

static void what_redis_answers_is_understood(void **state)
{
    (void)state;
    static const struct {
        enum bench_verb verb;
        const char *answer;
        bool fine;
        const char *code;
    } rows[] = {
        {BENCH_ACQUIRE, "+OK\r\n", true, ""},
        {BENCH_ACQUIRE, "$-1\r\n", false, "refused"},
        {BENCH_ACQUIRE, "_\r\n", false, "refused"}, /* RESP3's null */
        {BENCH_ACQUIRE, "-TRYAGAIN later\r\n", false, "TRYAGAIN"},
        {BENCH_ACQUIRE, "-ERR\r\n", false, "ERR"},
        {BENCH_RELEASE, ":1\r\n", true, ""},
        {BENCH_RELEASE, ":0\r\n", false, "refused"},
        {BENCH_RELEASE, "-NOSCRIPT No matching script.\r\n", false, "NOSCRIPT"},
        {BENCH_KEEPALIVE, "+PONG\r\n", true, ""},
        {BENCH_OPEN, "$4\r\n5e55\r\n", true, ""},
        {BENCH_OPEN, "$-1\r\n", false, "refused"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *problem;
        struct heard heard = hear_by(&bench_resp, rows[i].verb, rows[i].answer, &problem);
        assert_null(problem);
        assert_int_equal(heard.answers, 1);
        assert_int_equal(heard.last.fine, rows[i].fine);
        assert_string_equal(heard.last.code, rows[i].code);
        assert_string_equal(heard.session,
                            rows[i].verb == BENCH_OPEN && rows[i].fine ? "5e55" : "");
    }
}

static void what_is_not_of_the_redis_protocol_is_a_problem(void **state)
{
    (void)state;
    static const char *const bad[] = {"HTTP/1.1 400\r\n", "+OK\n", "$1x\r\n", "$99999999\r\n",
                                      "\r\n"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const char *problem;
        struct heard heard = hear_by(&bench_resp, BENCH_OPEN, bad[i], &problem);
        assert_non_null(problem);
        assert_int_equal(heard.answers, 0);
    }
}

static void a_lock_of_redis_is_released_by_the_value_that_took_it(void **state)
{
    (void)state;
    struct buffer out;
    buffer_init(&out, memory_system(), 1 << 16);
    void *resp = bench_resp.open("node:1", 1);
    struct bench_request request = {
        .verb = BENCH_ACQUIRE, .session = slice_of("5e55"), .name = slice_of("bench/1")};
    bench_resp.request(resp, 0, &request, &out);
    buffer_append(&out, "", 1);
    char value[33];
    int len = 0;
    int read = sscanf((const char *)buffer_bytes(&out).data,
                      "*6\r\n$3\r\nSET\r\n$7\r\nbench/1\r\n$%d\r\n%32s", &len, value);
    assert_int_equal(read, 2);
    assert_int_equal(strlen(value), len);
    assert_non_null(
        strstr((const char *)buffer_bytes(&out).data, "NX\r\n$2\r\nPX\r\n$5\r\n30000\r\n"));
    buffer_truncate(&out, 0);
    request.verb = BENCH_RELEASE;
    bench_resp.request(resp, 0, &request, &out);
    char expected[200];
    (void)snprintf(expected, sizeof(expected),
                   "*5\r\n$7\r\nEVALSHA\r\n$4\r\n5e55\r\n$1\r\n1\r\n$7\r\nbench/1\r\n$%d\r\n%s\r\n",
                   len, value);
    assert_true(slice_equal(buffer_bytes(&out), slice_of(expected)));
    bench_resp.close(resp);
    buffer_close(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_histogram_is_zero_everywhere),
        cmocka_unit_test(a_single_value_is_every_share_exactly),
        cmocka_unit_test(every_value_is_known_to_one_part_in_128),
        cmocka_unit_test(shares_follow_the_ranks),
        cmocka_unit_test(the_largest_value_is_exact_however_large),
        cmocka_unit_test(ranks_of_very_many_values_do_not_overflow),
        cmocka_unit_test(an_acquire_yields_its_token),
        cmocka_unit_test(a_lock_that_somebody_holds_is_no_success),
        cmocka_unit_test(an_error_is_reported_by_its_code_and_sentence),
        cmocka_unit_test(an_opened_session_yields_its_id),
        cmocka_unit_test(bytes_that_are_no_answer_are_a_problem),
        cmocka_unit_test(requests_name_their_lock_session_and_token),
        cmocka_unit_test(what_redis_answers_is_understood),
        cmocka_unit_test(what_is_not_of_the_redis_protocol_is_a_problem),
        cmocka_unit_test(a_lock_of_redis_is_released_by_the_value_that_took_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Tests of the memory that HTTP connections may hold together (service/http/conn_budget.h): what is
 * counted, which connection is closed, what is reset, and how much one turn does. */
#include "base_testing.h"

#include "h2_world.h"

enum {
    LIMIT = 4 << 20,
    PAGE = 256 << 10,
    HUGE_PAGE = 5 << 20,
    HOLDERS = 3,
};

static struct http_world world;
static struct h2_client holders[HOLDERS];

/* "/page" and "/huge": answers that are made anew for each request. */
static bool page(void *ctx, struct slice path, struct buffer *out, const char **content_type)
{
    bool is_huge = slice_equal(path, slice_of("/huge"));
    size_t len = is_huge ? HUGE_PAGE : PAGE;
    uint8_t *bytes =
        is_huge || slice_equal(path, slice_of("/page")) ? buffer_reserve(out, len) : NULL;
    if (bytes == NULL) {
        return false;
    }
    memset(bytes, 'x', len);
    buffer_commit(out, len);
    *content_type = "text/plain";
    return true;
}

static int open_world(void **state)
{
    struct service_options options = {.event_bytes = 256 << 10, .conn_bytes = LIMIT, .page = page};
    world_open(&world, memory_system(), &options);
    return 0;
}

static int open_wide_world(void **state)
{
    struct service_options options = {.event_bytes = 256 << 10, .page = page};
    world_open(&world, memory_system(), &options);
    return 0;
}

static int close_world(void **state)
{
    world_run(&world);
    world_close(&world);
    return 0;
}

static struct service_stats stats(void)
{
    struct service_stats s;
    service_stats(world.service, &s);
    return s;
}

/* A client whose streams may receive `window` bytes each. */
static void open_client(struct h2_client *h, uint32_t window)
{
    h2_open_by_hand(h, &world, true);
    nghttp2_settings_entry entry = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, window};
    assert_int_equal(nghttp2_submit_settings(h->session, 0, &entry, 1), 0);
    h2_run(h);
}

static struct h2_call *get(struct h2_client *h, const char *path)
{
    return h2_request(h, "GET", path, "", NULL, 0, true);
}

static void open_holders(void)
{
    for (size_t i = 0; i < HOLDERS; i++) {
        open_client(&holders[i], 0);
    }
}

static void close_holders(void)
{
    for (size_t i = 0; i < HOLDERS; i++) {
        h2_close(&holders[i]);
    }
}

/* ---- counting ---- */

static void answers_are_counted_until_they_are_taken(void **state)
{
    struct h2_client *h = &holders[0];
    open_client(h, 0);
    uint64_t before = stats().conn_bytes;
    assert_int_equal(stats().conn_bytes_max, LIMIT);
    struct h2_call *call = get(h, "/page");
    uint64_t held = stats().conn_bytes - before;
    assert_true(held >= PAGE && held < 2 * PAGE);
    assert_false(call->is_closed);
    assert_int_equal(nghttp2_submit_window_update(h->session, 0, call->id, PAGE), 0);
    assert_int_equal(nghttp2_submit_window_update(h->session, 0, 0, PAGE), 0);
    h2_run(h);
    assert_true(call->is_closed);
    assert_int_equal(call->body_len, PAGE);
    assert_true(stats().conn_bytes <= before);
    h2_close(h);
    assert_int_equal(stats().conn_bytes, 0);
}

static void bodies_of_unfinished_requests_are_counted(void **state)
{
    static uint8_t body[600 << 10];
    struct h2_client *h = &holders[0];
    open_client(h, 0);
    struct http_client *plain = world_client(&world, true);
    client_send(plain,
                "POST /api/v1/sessions HTTP/1.1\r\nHost: a\r\nContent-Length: 700000\r\n\r\n");
    client_send_bytes(plain, body, sizeof(body));
    assert_true(stats().conn_bytes >= sizeof(body));
    (void)h2_request(h, "POST", "/api/v1/sessions", "", body, sizeof(body), false);
    assert_true(stats().conn_bytes >= 2 * sizeof(body));
    client_close(plain);
    h2_close(h);
    assert_int_equal(stats().conn_bytes, 0);
}

static void a_constant_answer_is_not_copied_for_each_stream(void **state)
{
    enum { STREAMS = 50, EACH = 8 << 10 };
    struct h2_client *h = &holders[0];
    open_client(h, 0);
    struct h2_call *calls[STREAMS];
    for (size_t i = 0; i < STREAMS; i++) {
        calls[i] = get(h, "/openapi.yaml");
    }
    assert_true(stats().conn_bytes < STREAMS * EACH);
    size_t len = strtoul(h2_header(calls[0], "content-length"), NULL, 10);
    assert_true(len > EACH);
    assert_int_equal(nghttp2_submit_window_update(h->session, 0, calls[7]->id, (int32_t)len), 0);
    assert_int_equal(nghttp2_submit_window_update(h->session, 0, 0, (int32_t)len), 0);
    h2_run(h);
    assert_true(calls[7]->is_closed);
    assert_int_equal(calls[7]->body_len, len);
    assert_memory_equal(calls[7]->body, "openapi", 7);
    h2_close(h);
}

/* ---- the limit ---- */

static void the_connection_that_holds_the_most_is_closed(void **state)
{
    open_holders();
    for (int i = 0; i < 5; i++) {
        (void)get(&holders[0], "/page");
    }
    for (int i = 0; i < 7; i++) {
        (void)get(&holders[1], "/page");
    }
    assert_int_equal(stats().conn_closed, 0);
    uint64_t before = stats().conn_bytes;
    for (int i = 0; i < 6 && stats().conn_closed == 0; i++) {
        (void)get(&holders[2], "/page");
    }
    h2_run(&holders[1]);
    assert_int_equal(stats().conn_closed, 1);
    assert_true(stats().conn_bytes < before);
    assert_true(holders[1].has_goaway);
    assert_int_equal(holders[1].goaway_error, NGHTTP2_ENHANCE_YOUR_CALM);
    assert_null(holders[1].client->conn);
    h2_run(&holders[0]);
    assert_false(holders[0].has_goaway || holders[2].has_goaway);
    assert_non_null(holders[0].client->conn);
    struct http_client *other = world_client(&world, true);
    expect(other, "GET", "/api/v1/locks", "", 200, "locks=*");
    close_holders();
    assert_int_equal(stats().conn_closed, 1);
}

static void a_plain_connection_that_does_not_read_is_closed(void **state)
{
    open_client(&holders[0], 0);
    (void)get(&holders[0], "/page");
    struct http_client *plain = world_client(&world, true);
    plain->is_deaf = true;
    client_send(plain, "GET /huge HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_int_equal(stats().conn_closed, 1);
    assert_null(plain->conn);
    assert_non_null(holders[0].client->conn);
    assert_true(stats().conn_bytes < LIMIT);
    h2_close(&holders[0]);
}

static void a_wait_of_a_closed_connection_is_withdrawn(void **state)
{
    struct http_client *other = world_client(&world, true);
    expect(other, "POST", "/api/v1/locks/a/acquire", "{\"client_id\":\"x\",\"ttl_ms\":60000}", 200,
           "");
    open_client(&holders[0], 0);
    static const char body[] = "{\"client_id\":\"y\",\"ttl_ms\":60000,\"wait_timeout_ms\":60000}";
    (void)h2_request(&holders[0], "POST", "/api/v1/locks/a/acquire", "", body, sizeof(body) - 1,
                     true);
    assert_int_equal(stats().waiting, 1);
    (void)get(&holders[0], "/huge");
    h2_run(&holders[0]);
    assert_int_equal(stats().conn_closed, 1);
    assert_int_equal(stats().waiting, 0);
    h2_close(&holders[0]);
}

/* ---- streams that do not move ---- */

static void a_stream_that_does_not_move_is_reset(void **state)
{
    struct h2_client *h = &holders[0];
    open_client(h, 0);
    struct h2_call *still = get(h, "/page");
    struct h2_call *moves = get(h, "/page");
    for (int s = 0; s < 80; s += 20) {
        h2_pass(h, 20000);
        assert_int_equal(nghttp2_submit_window_update(h->session, 0, moves->id, 1000), 0);
        h2_run(h);
        assert_int_equal(still->is_closed, s >= 20);
        assert_false(moves->is_closed);
    }
    assert_int_equal(stats().stalled_streams, 1);
    h2_pass(h, 31000);
    assert_true(moves->is_closed);
    assert_int_equal(moves->body_len, 4000);
    assert_int_equal(stats().stalled_streams, 2);
    assert_false(h->has_goaway);
    h2_close(h);
}

static void a_watch_that_does_not_move_is_reset(void **state)
{
    struct h2_client *h = &holders[0];
    open_client(h, 64);
    struct h2_call *call = get(h, "/api/v1/watch");
    struct http_client *other = world_client(&world, true);
    expect(other, "POST", "/api/v1/locks/a/acquire", "{\"client_id\":\"x\",\"ttl_ms\":600000}", 200,
           "");
    h2_pass(h, 25000);
    assert_int_equal(call->body_len, 64);
    assert_false(call->is_closed);
    h2_pass(h, 6000);
    assert_true(call->is_closed);
    assert_int_equal(stats().stalled_streams, 1);
    assert_int_equal(stats().streams, 0);
    h2_close(h);
}

/* ---- one turn ---- */

static void a_turn_makes_a_bounded_number_of_answers(void **state)
{
    enum { CLIENTS = 40 };
    static const char request[] = "GET /page HTTP/1.1\r\nHost: a\r\n\r\n";
    struct http_client *clients[CLIENTS];
    size_t answered = 0;
    for (size_t i = 0; i < CLIENTS; i++) {
        clients[i] = world_client(&world, true);
        client_send_only(clients[i], request, sizeof(request) - 1);
        answered += http_conn_output(clients[i]->conn).len > 0;
    }
    assert_true(answered > 0 && answered * PAGE <= (8u << 20));
    assert_false(http_conn_wants_input(clients[CLIENTS - 1]->conn));
    assert_false(clients[CLIENTS - 1]->is_readied);
    assert_int_equal(service_next_ms(world.service), 0);
    world_run(&world);
    assert_true(clients[CLIENTS - 1]->is_readied);
    assert_true(http_conn_wants_input(clients[CLIENTS - 1]->conn));
    client_send(clients[CLIENTS - 1], request);
    struct reply r = client_reply(clients[CLIENTS - 1]);
    assert_int_equal(r.status, 200);
    reply_free(&r);
}

/* One request of HTTP/2 for "/page", with a header of 100 bytes. */
static size_t put_request(uint8_t *out, uint32_t stream)
{
    static const uint8_t head[] = {0x82, 0x86, 0x04, 5,   '/', 'p', 'a', 'g',
                                   'e',  0x01, 1,    'a', 0x0, 1,   'p', 100};
    enum { FRAME_HEAD = 9, VALUE = 100, LEN = sizeof(head) + VALUE };
    const uint8_t frame[FRAME_HEAD] = {
        0, 0, LEN, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_STREAM | NGHTTP2_FLAG_END_HEADERS,
        0, 0, 0,   (uint8_t)stream};
    memcpy(out, frame, FRAME_HEAD);
    memcpy(out + FRAME_HEAD, head, sizeof(head));
    memset(out + FRAME_HEAD + sizeof(head), 'v', VALUE);
    return FRAME_HEAD + LEN;
}

/* Many requests in one read: those that this turn does not do wait in the connection. */
static void requests_of_one_read_are_done_in_several_turns(void **state)
{
    enum { REQUESTS = 75 };
    static const char begin[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\6\4\0\0\0\0\0\0\4\0\0\0\0";
    uint8_t bytes[32 << 10];
    size_t len = 0;
    for (uint32_t i = 0; i < REQUESTS; i++) {
        len += put_request(bytes + len, 2 * i + 1);
    }
    struct http_client *c = world_client(&world, true);
    client_send_bytes(c, begin, sizeof(begin) - 1);
    uint64_t before = stats().requests;
    client_send_only(c, bytes, len);
    uint64_t answered = stats().requests - before;
    assert_true(answered > 0 && answered < REQUESTS);
    assert_int_equal(service_next_ms(world.service), 0);
    world_run(&world);
    assert_int_equal(stats().requests - before, REQUESTS);
    assert_non_null(c->conn);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_world, close_world)
    const struct CMUnitTest tests[] = {
        TEST(answers_are_counted_until_they_are_taken),
        TEST(bodies_of_unfinished_requests_are_counted),
        TEST(a_constant_answer_is_not_copied_for_each_stream),
        TEST(the_connection_that_holds_the_most_is_closed),
        TEST(a_plain_connection_that_does_not_read_is_closed),
        TEST(a_wait_of_a_closed_connection_is_withdrawn),
        TEST(a_stream_that_does_not_move_is_reset),
        TEST(a_watch_that_does_not_move_is_reset),
        cmocka_unit_test_setup_teardown(a_turn_makes_a_bounded_number_of_answers, open_wide_world,
                                        close_world),
        cmocka_unit_test_setup_teardown(requests_of_one_read_are_done_in_several_turns,
                                        open_wide_world, close_world),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

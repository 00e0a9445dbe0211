/* A snapshot by call (S9.1): who may have it, how it comes, and that one who reads slowly or not at
 * all costs neither memory nor the file for long. */
#define _GNU_SOURCE
#include "base_testing.h"

#include "h2_world.h"

enum {
    BYTES = 10 << 20,
    MEMORY_MAX = 1 << 20, /* that sending it takes: the output of one client, a piece */
};

#define PATH "/api/v1/snapshot"
#define REQUEST "GET " PATH " HTTP/1.1\r\nHost: t\r\n\r\n"

static struct http_world world;
static struct counted counted;
static const struct service_options options = {.event_bytes = 64 << 10};

static int set_up(void **state)
{
    counted_init(&counted);
    world_open(&world, &counted.memory, &options);
    return 0;
}

static int tear_down(void **state)
{
    for (size_t i = 0; i < WORLD_CLIENTS; i++) {
        client_close(&world.clients[i]);
    }
    assert_int_equal(world.gateway.snapshot_count, 0);
    world_close(&world);
    assert_all_given_back(&counted);
    return 0;
}

static void expect_bytes(const void *data, size_t len, size_t from)
{
    const uint8_t *at = data;
    for (size_t i = 0; i < len; i++) {
        if (at[i] != fake_snapshot_byte(from + i)) {
            fail_msg("byte %zu is wrong", from + i);
        }
    }
}

static struct http_client *pending_for_one(void)
{
    struct http_client *c = world_client(&world, true);
    client_send(c, REQUEST);
    assert_int_equal(world.gateway.snapshot_count, 1);
    assert_int_equal(c->got_len, 0);
    return c;
}

static void it_comes_whole_and_the_connection_goes_on(void **state)
{
    struct http_client *c = pending_for_one();
    fake_gateway_give(&world.gateway, BYTES);
    world_run(&world);
    struct reply r = client_reply(c);
    assert_int_equal(r.status, 200);
    assert_int_equal(r.body_len, BYTES);
    expect_bytes(r.body, r.body_len, 0);
    assert_non_null(strstr(r.head, "Content-Type: application/octet-stream\r\n"));
    assert_non_null(strstr(r.head, "holdfast-snapshot-index: "));
    assert_non_null(strstr(r.head, "holdfast-snapshot-term: 3\r\n"));
    assert_non_null(
        strstr(r.head, "holdfast-snapshot-cluster: 00000000000000010000000000000002\r\n"));
    reply_free(&r);
    assert_int_equal(world.gateway.snapshot_count, 0);
    assert_int_equal(world.gateway.barriers, 1);
    expect(c, "GET", "/api/v1/cluster", NULL, 200, "node=1");
}

static void its_head_tells_the_size_without_it(void **state)
{
    struct http_client *c = world_client(&world, true);
    client_send(c, "HEAD " PATH " HTTP/1.1\r\nHost: t\r\n\r\n");
    fake_gateway_give(&world.gateway, BYTES);
    world_run(&world);
    assert_non_null(strstr((char *)c->got, "Content-Length: 10485760\r\n"));
    assert_int_equal(world.gateway.snapshot_reads, 0);
    assert_int_equal(world.gateway.snapshot_count, 0);
    c->got_len = 0;
    expect(c, "GET", "/api/v1/cluster", NULL, 200, "node=1");
}

/* Takes a few bytes of the output, as a socket with little space does. */
static size_t sip(struct http_client *c, size_t max, size_t at, size_t head)
{
    struct slice out = http_conn_output(c->conn);
    size_t len = out.len < max ? out.len : max;
    size_t skip = at < head ? (head - at < len ? head - at : len) : 0;
    expect_bytes(out.data + skip, len - skip, at + skip - head);
    http_conn_written(c->conn, len);
    world_run(&world);
    return len;
}

static void a_slow_reader_costs_no_memory(void **state)
{
    struct http_client *c = pending_for_one();
    uint64_t memory = counted.bytes;
    c->is_deaf = true;
    fake_gateway_give(&world.gateway, BYTES);
    world_run(&world);
    struct slice first = http_conn_output(c->conn);
    const char *end = memmem(first.data, first.len, "\r\n\r\n", 4);
    assert_non_null(end);
    size_t head = (size_t)(end + 4 - (const char *)first.data);
    uint64_t reads = world.gateway.snapshot_reads;
    world_pass(&world, 1000);
    assert_int_equal(world.gateway.snapshot_reads, reads); /* nothing was taken, nothing is read */
    size_t at = 0;
    while (at < head + BYTES) {
        assert_true(counted.bytes < memory + MEMORY_MAX);
        assert_true(http_conn_output(c->conn).len <= 512 << 10);
        at += sip(c, 50000, at, head);
        world_pass(&world, 1000); /* 210 s in all, longer than any reader may stall */
    }
    assert_int_equal(at, head + BYTES);
    assert_int_equal(world.gateway.snapshot_count, 0);
    c->is_deaf = false;
    expect(c, "GET", "/api/v1/cluster", NULL, 200, "node=1");
}

static void one_who_stalls_is_cut_off(void **state)
{
    struct http_client *c = pending_for_one();
    c->is_deaf = true;
    fake_gateway_give(&world.gateway, BYTES);
    world_pass(&world, 29000);
    assert_int_equal(world.gateway.snapshot_count, 1);
    world_pass(&world, 2000);
    assert_int_equal(world.gateway.snapshot_count, 0); /* the file is free at once ... */
    world_pass(&world, 11000);
    assert_null(c->conn); /* ... and the connection soon */
}

static void one_who_vanishes_leaves_nothing(void **state)
{
    for (int when = 0; when < 3; when++) {
        struct http_client *c = world_client(&world, true);
        c->is_deaf = true;
        world.gateway.is_held = when == 0; /* before the barrier, before it is taken, half-way */
        client_send(c, REQUEST);
        if (when == 2) {
            fake_gateway_give(&world.gateway, BYTES);
            world_run(&world);
        }
        assert_int_equal(world.gateway.snapshot_count, when > 0);
        client_close(c);
        assert_int_equal(world.gateway.snapshot_count, 0);
        world.gateway.is_held = false;
        world_run(&world);
        assert_int_equal(world.gateway.snapshot_count, 0);
    }
}

static void a_disk_that_cannot_read_cuts_it_off(void **state)
{
    struct http_client *c = pending_for_one();
    world.gateway.snapshot_breaks = true;
    fake_gateway_give(&world.gateway, BYTES);
    world_run(&world);
    assert_null(c->conn); /* with a length that was not kept */
    assert_non_null(strstr((char *)c->got, "Content-Length: 10485760\r\n"));
    assert_true(c->got_len < 1000);
}

static void two_at_once_and_no_more(void **state)
{
    struct http_client *a = world_client(&world, true);
    struct http_client *b = world_client(&world, true);
    client_send(a, REQUEST);
    client_send(b, REQUEST);
    struct http_client *c = world_client(&world, true);
    expect(c, "GET", PATH, NULL, 429, "error.code=\"limit_snapshots\"");
    fake_gateway_give(&world.gateway, 100);
    world_run(&world);
    struct reply r = client_reply(a);
    assert_int_equal(r.body_len, 100);
    reply_free(&r);
    client_send(c, REQUEST);
    assert_int_equal(world.gateway.snapshot_count, 1);
}

static void only_operators_get_it(void **state)
{
    struct http_client *c = world_client(&world, false);
    expect(c, "GET", PATH, NULL, 403, "error.code=\"denied\"");
    assert_int_equal(world.gateway.barriers, 0);
}

static void a_node_that_serves_nobody_gives_none(void **state)
{
    struct http_client *c = world_client(&world, true);
    world.gateway.fails = HF_UNAVAILABLE;
    expect(c, "GET", PATH, NULL, 503, "error.code=\"unavailable\"");
    world.gateway.fails = HF_OK;
    client_send(c, REQUEST);
    struct gateway_snapshot_call *call = world.gateway.snapshots[0];
    call->done(call, HF_UNAVAILABLE, NULL, "the disk is full");
    world_run(&world);
    struct reply r = client_reply(c);
    assert_int_equal(r.status, 503);
    assert_non_null(strstr(r.body, "the disk is full"));
    reply_free(&r);
}

static void it_is_not_waited_for_without_end(void **state)
{
    struct http_client *c = pending_for_one();
    world_pass(&world, 299000);
    assert_int_equal(client_reply(c).status, 0);
    world_pass(&world, 2000);
    struct reply r = client_reply(c);
    assert_int_equal(r.status, 503);
    expect_json(r.body, "error.code=\"unavailable\"");
    reply_free(&r);
}

static void a_node_that_stops_sends_on_what_it_began(void **state)
{
    struct http_client *sent = pending_for_one();
    sent->is_deaf = true;
    fake_gateway_give(&world.gateway, BYTES);
    world_run(&world);
    struct http_client *waits = world_client(&world, true);
    client_send(waits, REQUEST);
    service_drain(world.service);
    world_run(&world);
    struct reply r = client_reply(waits);
    assert_int_equal(r.status, 503);
    reply_free(&r);
    sent->is_deaf = false;
    world_run(&world);
    r = client_reply(sent);
    assert_int_equal(r.body_len, BYTES);
    reply_free(&r);
    assert_null(sent->conn);
}

/* ---- HTTP/2 ---- */

static void it_comes_over_http2_beside_other_requests(void **state)
{
    struct h2_client h;
    h2_open(&h, &world, true);
    struct h2_call *call = h2_request(&h, "GET", PATH, "", NULL, 0, true);
    fake_gateway_give(&world.gateway, BYTES);
    h2_run(&h);
    struct h2_call *other = h2_request(&h, "GET", "/api/v1/cluster", "", NULL, 0, true);
    assert_string_equal(h2_header(other, ":status"), "200");
    h2_run(&h);
    assert_string_equal(h2_header(call, ":status"), "200");
    assert_string_equal(h2_header(call, "content-length"), "10485760");
    assert_string_equal(h2_header(call, "holdfast-snapshot-term"), "3");
    assert_true(call->is_closed);
    assert_int_equal(call->error, NGHTTP2_NO_ERROR);
    assert_int_equal(call->body_len, BYTES);
    expect_bytes(call->body, call->body_len, 0);
    call = h2_request(&h, "HEAD", PATH, "", NULL, 0, true);
    fake_gateway_give(&world.gateway, BYTES);
    h2_run(&h);
    assert_true(call->is_closed);
    assert_int_equal(call->body_len, 0);
    assert_string_equal(h2_header(call, "content-length"), "10485760");
    h2_close(&h);
}

/* It reads the connection, and never opens the window of the stream again. */
static void a_stream_that_stalls_is_reset_and_bounded(void **state)
{
    struct h2_client h;
    h2_open(&h, &world, true);
    struct h2_call *call = h2_request(&h, "GET", PATH, "", NULL, 0, true);
    assert_int_equal(nghttp2_session_set_local_window_size(h.session, 0, call->id, 0), 0);
    uint64_t memory = counted.bytes;
    fake_gateway_give(&world.gateway, BYTES);
    h2_pass(&h, 25000);
    assert_in_range(call->body_len, 1, 65535);
    assert_true(counted.bytes < memory + MEMORY_MAX);
    assert_int_equal(world.gateway.snapshot_count, 1);
    struct h2_call *other = h2_request(&h, "GET", "/api/v1/cluster", "", NULL, 0, true);
    assert_string_equal(h2_header(other, ":status"), "200");
    h2_pass(&h, 6000);
    assert_int_equal(world.gateway.snapshot_count, 0);
    assert_true(call->is_closed);
    assert_int_equal(call->error, NGHTTP2_CANCEL);
    assert_false(h.has_goaway);
    h2_close(&h);
}

static void a_stream_that_is_cancelled_leaves_nothing(void **state)
{
    struct h2_client h;
    h2_open(&h, &world, true);
    struct h2_call *call = h2_request(&h, "GET", PATH, "", NULL, 0, true);
    h2_cancel(&h, call);
    assert_int_equal(world.gateway.snapshot_count, 0);
    call = h2_request(&h, "GET", PATH, "", NULL, 0, true);
    h.client->is_deaf = true;
    fake_gateway_give(&world.gateway, BYTES);
    h2_run(&h);
    h2_cancel(&h, call);
    assert_int_equal(world.gateway.snapshot_count, 0);
    h2_close(&h);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(it_comes_whole_and_the_connection_goes_on),
        T(its_head_tells_the_size_without_it),
        T(a_slow_reader_costs_no_memory),
        T(one_who_stalls_is_cut_off),
        T(one_who_vanishes_leaves_nothing),
        T(a_disk_that_cannot_read_cuts_it_off),
        T(two_at_once_and_no_more),
        T(only_operators_get_it),
        T(a_node_that_serves_nobody_gives_none),
        T(it_is_not_waited_for_without_end),
        T(a_node_that_stops_sends_on_what_it_began),
        T(it_comes_over_http2_beside_other_requests),
        T(a_stream_that_stalls_is_reset_and_bounded),
        T(a_stream_that_is_cancelled_leaves_nothing),
    };
#undef T
    return cmocka_run_group_tests(tests, NULL, NULL);
}

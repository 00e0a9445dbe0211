/* Tests of src/net on a real loop and real sockets: addresses and connections. */
#include "net_world.h"

/* ---- addresses ---- */

static void addresses_are_read_and_written(void **state)
{
    (void)state;
    static const struct {
        const char *text, *host, *again;
        unsigned port;
    } good[] = {
        {"localhost:4653", "localhost", "localhost:4653", 4653},
        {"10.0.0.1:0", "10.0.0.1", "10.0.0.1:0", 0},
        {"[::1]:65535", "::1", "[::1]:65535", 65535},
        {":4653", "", ":4653", 4653},
        {"*:4653", "", ":4653", 4653},
        {"node-1.example.org:1", "node-1.example.org", "node-1.example.org:1", 1},
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct address address;
        char text[ADDRESS_TEXT];
        assert_true(address_parse(good[i].text, &address));
        assert_string_equal(address.host, good[i].host);
        assert_int_equal(address.port, good[i].port);
        address_format(&address, text, sizeof(text));
        assert_string_equal(text, good[i].again);
    }
    static const char *const bad[] = {
        "",      "localhost", "localhost:", "localhost:x",  "localhost:65536", "localhost:-1",
        "::1:1", "[::1]",     "[::1:1",     "a b:1",        "a/b:1",           "a:+1",
        "[]:1",  "a,b:1",     "x:123456",   "\xc3\xa9:123",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct address address;
        if (address_parse(bad[i], &address)) {
            fail_msg("\"%s\" was taken for an address", bad[i]);
        }
    }
}

static void loopback_addresses_are_distinguished_from_others(void **state)
{
    (void)state;
    static const struct {
        const char *host;
        bool loopback;
    } rows[] = {{"127.0.0.1", true}, {"127.9.9.9", true}, {"::1", true}, {"::ffff:127.0.0.1", true},
                {"0.0.0.0", false},  {"10.0.0.1", false}, {"::", false}, {"fe80::1", false}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct address address = {.port = 1};
        struct sockaddr_storage socket_address;
        snprintf(address.host, sizeof(address.host), "%s", rows[i].host);
        assert_true(address_is_numeric(&address, &socket_address));
        assert_int_equal(address_is_loopback(&socket_address), rows[i].loopback);
    }
}

/* ---- connections ---- */

static void bytes_come_back_in_order(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    w.echo = true;
    connect_both(&w);
    uint64_t writes = w.net.writes;
    for (int i = 0; i < 1000; i++) {
        buffer_printf(connection_output(w.client.connection), "%d,", i);
    }
    UNTIL(&w, buffer_len(&w.client.got) == 3890);
    assert_memory_equal(buffer_bytes(&w.client.got).data, "0,1,2,3,", 8);
    assert_true(w.net.writes - writes < 10); /* gathered: not one write a piece */
    world_close(&w);
}

static void a_filter_sees_every_byte_in_both_directions(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    w.echo = true;
    w.xored = true;
    connect_both(&w);
    char *large = malloc(3000000);
    memset(large, 'x', 3000000);
    buffer_append(connection_output(w.client.connection), large, 3000000);
    UNTIL(&w, buffer_len(&w.client.got) == 3000000);
    assert_memory_equal(buffer_bytes(&w.client.got).data, large, 3000000);
    free(large);
    world_close(&w);
}

static void an_end_that_does_not_read_causes_pressure_and_no_loss(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    connect_both(&w);
    connection_pause(w.server.connection);
    char *large = malloc(16000000);
    memset(large, 'y', 16000000);
    buffer_append(connection_output(w.client.connection), large, 16000000);
    UNTIL(&w, w.client.pressures == 1);
    assert_int_equal(w.client.releases, 0);
    assert_true(connection_pending(w.client.connection) > w.options.out_high);
    connection_resume(w.server.connection);
    UNTIL(&w, buffer_len(&w.server.got) == 16000000);
    UNTIL(&w, w.client.releases == 1);
    free(large);
    world_close(&w);
}

static void an_end_that_never_reads_is_given_up(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    w.options.stall_ms = 50;
    connect_both(&w);
    connection_pause(w.server.connection);
    char *large = malloc(30000000);
    memset(large, 'z', 30000000);
    buffer_append(connection_output(w.client.connection), large, 30000000);
    free(large);
    UNTIL(&w, w.client.closes == 1);
    assert_string_equal(w.client.reason, "the other end does not read");
    world_close(&w);
}

static void more_output_than_allowed_ends_the_connection(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    w.options.out_max = 1000;
    connect_both(&w);
    char piece[600] = {0};
    assert_true(buffer_append(connection_output(w.client.connection), piece, sizeof(piece)));
    assert_false(buffer_append(connection_output(w.client.connection), piece, sizeof(piece)));
    UNTIL(&w, w.client.closes == 1);
    assert_string_equal(w.client.reason, "more output than a connection may have");
    world_close(&w);
}

static void an_owner_that_is_not_ready_gets_its_bytes_when_it_resumes(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    w.options.in_max = 4096;
    connect_both(&w);
    w.server.hold = true;
    char bytes[10000];
    memset(bytes, 'h', sizeof(bytes));
    buffer_append(connection_output(w.client.connection), bytes, sizeof(bytes));
    UNTIL(&w, w.net.bytes_read >= 4096);
    assert_int_equal(buffer_len(&w.server.got), 0);
    w.server.hold = false;
    connection_resume(w.server.connection);
    UNTIL(&w, buffer_len(&w.server.got) == sizeof(bytes));
    world_close(&w);
}

static void a_close_lets_everything_out_first(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    connect_both(&w);
    char *large = malloc(9000000);
    memset(large, 'c', 9000000);
    /* The server has bytes to read that it never looks at: no reason to lose its answer. */
    buffer_append_text(connection_output(w.client.connection), "never read");
    buffer_append(connection_output(w.server.connection), large, 9000000);
    connection_close(w.server.connection);
    buffer_append_text(connection_output(w.server.connection), "too late");
    UNTIL(&w, w.server.closes == 1);
    assert_string_equal(w.server.reason, "closed");
    assert_int_equal(buffer_len(&w.client.got), 9000000);
    assert_int_equal(w.client.ends, 1);
    free(large);
    world_close(&w);
}

static void an_abort_is_reported_once_and_later(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    connect_both(&w);
    connection_abort(w.server.connection, "enough");
    connection_abort(w.server.connection, "again");
    connection_close(w.server.connection);
    assert_int_equal(w.server.closes, 0);
    UNTIL(&w, w.server.closes == 1);
    assert_string_equal(w.server.reason, "enough");
    world_close(&w);
    assert_int_equal(w.server.closes, 1);
}

static void the_end_of_the_other_side_is_noticed_while_bytes_are_held(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    connect_both(&w);
    w.server.hold = true;
    w.server.keep_open = true;
    buffer_append_text(connection_output(w.client.connection), "unread");
    connection_close(w.client.connection);
    UNTIL(&w, w.server.ends == 1);
    /* The other direction is still open. */
    buffer_append_text(connection_output(w.server.connection), "bye");
    connection_close(w.server.connection);
    UNTIL(&w, w.server.closes == 1 && w.client.closes == 1);
    world_close(&w);
}

static void a_timeout_comes_once_and_can_be_moved(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    connect_both(&w);
    uint64_t start = uv_hrtime();
    connection_set_timeout(w.server.connection, 10);
    for (int i = 0; i < 100; i++) {
        connection_set_timeout(w.server.connection, 60);
    }
    UNTIL(&w, w.server.timeouts == 1);
    assert_true(uv_hrtime() - start >= 50000000);
    connection_set_timeout(w.server.connection, 10);
    connection_set_timeout(w.server.connection, 0);
    start = uv_hrtime();
    UNTIL(&w, uv_hrtime() - start > 50000000);
    assert_int_equal(w.server.timeouts, 1);
    world_close(&w);
}

/* An owner that keeps its output itself. */
struct keeper {
    struct connection *connection;
    struct buffer out;
    size_t written;
    int calls;
};

static struct slice keeper_output(void *owner)
{
    struct keeper *k = owner;
    return buffer_bytes(&k->out);
}

static void keeper_written(void *owner, size_t len)
{
    struct keeper *k = owner;
    k->written += len;
    k->calls++;
    buffer_consume(&k->out, len);
    if (buffer_len(&k->out) > 0) {
        connection_touch(k->connection);
    }
}

static size_t keeper_bytes(void *owner, struct slice bytes)
{
    (void)owner;
    return bytes.len;
}

static void keeper_close(void *owner, const char *reason)
{
    (void)reason;
    struct keeper *k = owner;
    k->connection = NULL;
}

static struct keeper keeper;

static void keeper_accept(void *ctx, struct connection *c)
{
    static const struct connection_handlers ops = {.on_bytes = keeper_bytes,
                                                   .on_close = keeper_close,
                                                   .output = keeper_output,
                                                   .on_written = keeper_written};
    struct world *w = ctx;
    w->accepted++;
    if (w->xored) {
        connection_set_filter(c, &xor_filter);
    }
    keeper.connection = c;
    connection_start(c, &ops, &keeper);
}

static void an_owner_that_keeps_its_output_learns_how_much_has_left(void **state)
{
    (void)state;
    for (int filtered = 0; filtered < 2; filtered++) {
        struct world w;
        char problem[LISTENER_PROBLEM];
        world_open(&w);
        w.xored = filtered;
        memset(&keeper, 0, sizeof(keeper));
        buffer_init(&keeper.out, memory_system(), 1 << 25);
        struct listener_options options = {.connection = w.options,
                                           .max_connections = 2,
                                           .on_accept = keeper_accept,
                                           .ctx = &w,
                                           .address = {.host = "127.0.0.1"}};
        w.listener = listener_new(&w.net, &options, problem);
        assert_non_null(w.listener);
        dial(&w, "127.0.0.1", listener_port(w.listener));
        UNTIL(&w, w.accepted == 1 && w.connected == 1);
        connection_pause(w.client.connection);
        char *large = malloc(20000000);
        for (int i = 0; i < 20000000; i++) {
            large[i] = (char)(i * 7);
        }
        buffer_append(&keeper.out, large, 20000000);
        connection_touch(keeper.connection);
        uint64_t start = uv_hrtime();
        UNTIL(&w, uv_hrtime() - start > 50000000);
        assert_true(keeper.written < 20000000); /* the other end does not read */
        connection_resume(w.client.connection);
        UNTIL(&w, buffer_len(&w.client.got) == 20000000);
        UNTIL(&w, keeper.written == 20000000);
        assert_memory_equal(buffer_bytes(&w.client.got).data, large, 20000000);
        free(large);
        world_close(&w);
        buffer_close(&keeper.out);
    }
}

static int turns;
static void count_turn(void *ctx)
{
    (void)ctx;
    turns++;
}

static void each_turn_of_the_loop_is_announced_after_the_poll(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    turns = 0;
    w.net.on_turn = count_turn;
    connect_both(&w);
    assert_true(turns > 0);
    world_close(&w);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_read_and_written),
        cmocka_unit_test(loopback_addresses_are_distinguished_from_others),
        cmocka_unit_test(bytes_come_back_in_order),
        cmocka_unit_test(a_filter_sees_every_byte_in_both_directions),
        cmocka_unit_test(an_end_that_does_not_read_causes_pressure_and_no_loss),
        cmocka_unit_test(an_end_that_never_reads_is_given_up),
        cmocka_unit_test(more_output_than_allowed_ends_the_connection),
        cmocka_unit_test(an_owner_that_is_not_ready_gets_its_bytes_when_it_resumes),
        cmocka_unit_test(a_close_lets_everything_out_first),
        cmocka_unit_test(an_abort_is_reported_once_and_later),
        cmocka_unit_test(the_end_of_the_other_side_is_noticed_while_bytes_are_held),
        cmocka_unit_test(a_timeout_comes_once_and_can_be_moved),
        cmocka_unit_test(an_owner_that_keeps_its_output_learns_how_much_has_left),
        cmocka_unit_test(each_turn_of_the_loop_is_announced_after_the_poll),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

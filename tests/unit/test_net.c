/* Tests of src/net on a real loop and real sockets: addresses, connections, listeners, dialers. */
#include "base_testing.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include "net/address.h"
#include "net/dialer.h"
#include "net/listener.h"

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

static void loopback_addresses_are_told_from_others(void **state)
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

/* ---- a loop with one listener, and what happened on it ---- */

struct side {
    struct connection *connection;
    struct world *world;
    struct buffer got;
    bool hold;      /* consume nothing */
    bool keep_open; /* do not close when the other end does */
    int ends, closes, timeouts, pressures, releases;
    char reason[64];
};

struct world {
    uv_loop_t loop;
    struct net net;
    struct counted counted;
    struct listener *listener;
    struct dialer *dialer;
    struct side server, client;
    int accepted, connected, failed;
    bool echo;
    bool xored;
    bool many; /* connections, of which the test keeps none */
    struct connection_options options;
};

static size_t on_bytes(void *owner, struct slice bytes)
{
    struct side *side = owner;
    if (side->hold) {
        return 0;
    }
    assert_true(buffer_append_slice(&side->got, bytes));
    if (side == &side->world->server && side->world->echo) {
        buffer_append_slice(connection_output(side->connection), bytes);
    }
    return bytes.len;
}

static void on_end(void *owner)
{
    struct side *side = owner;
    side->ends++;
    if (!side->keep_open) {
        connection_close(side->connection);
    }
}

static void on_pressure(void *owner, bool pressed)
{
    struct side *side = owner;
    if (pressed) {
        side->pressures++;
    } else {
        side->releases++;
    }
}

static void on_timeout(void *owner)
{
    struct side *side = owner;
    side->timeouts++;
}

static void on_close(void *owner, const char *reason)
{
    struct side *side = owner;
    side->closes++;
    side->connection = NULL;
    snprintf(side->reason, sizeof(side->reason), "%s", reason);
    if (side == &side->world->client && side->world->dialer != NULL) {
        dialer_lost(side->world->dialer);
    }
}

static const struct connection_handlers handlers = {
    .on_bytes = on_bytes,
    .on_end = on_end,
    .on_pressure = on_pressure,
    .on_timeout = on_timeout,
    .on_close = on_close,
};

static bool xor_bytes(void *ctx, struct slice bytes, struct buffer *to)
{
    (void)ctx;
    for (size_t i = 0; i < bytes.len; i++) {
        buffer_append_byte(to, bytes.data[i] ^ 0x55);
    }
    return true;
}

static bool xor_incoming(void *ctx, struct slice bytes, struct buffer *plain, struct buffer *wire)
{
    (void)wire;
    return xor_bytes(ctx, bytes, plain);
}

static const struct connection_filter xor_filter = {.incoming = xor_incoming,
                                                    .outgoing = xor_bytes};

static const struct connection_handlers bare_handlers = {.on_bytes = on_bytes,
                                                         .on_close = on_close};

static void take(struct world *w, struct side *side, struct connection *c)
{
    if (w->many) {
        connection_start(c, &bare_handlers, side);
        return;
    }
    side->connection = c;
    if (w->xored) {
        connection_set_filter(c, &xor_filter);
    }
    connection_start(c, &handlers, side);
}

static void on_accept(void *ctx, struct connection *c)
{
    struct world *w = ctx;
    w->accepted++;
    take(w, &w->server, c);
}

static void on_connected(void *ctx, struct connection *c)
{
    struct world *w = ctx;
    w->connected++;
    take(w, &w->client, c);
}

static void on_failed(void *ctx, const char *reason)
{
    struct world *w = ctx;
    assert_true(strlen(reason) > 0);
    w->failed++;
}

static void world_open(struct world *w)
{
    memset(w, 0, sizeof(*w));
    counted_init(&w->counted);
    w->options = (struct connection_options){.in_max = 1 << 20,
                                             .out_max = 1 << 25,
                                             .out_high = 1 << 20,
                                             .out_low = 1 << 18,
                                             .stall_ms = 5000};
    uv_loop_init(&w->loop);
    net_init(&w->net, &w->loop, &w->counted.memory);
    w->server.world = w->client.world = w;
    buffer_init(&w->server.got, &w->counted.memory, 1 << 26);
    buffer_init(&w->client.got, &w->counted.memory, 1 << 26);
}

static void listen_on(struct world *w, const char *host, uint16_t port)
{
    char problem[LISTENER_PROBLEM] = "";
    struct listener_options options = {
        .connection = w->options, .max_connections = 2, .on_accept = on_accept, .ctx = w};
    snprintf(options.address.host, sizeof(options.address.host), "%s", host);
    options.address.port = port;
    w->listener = listener_new(&w->net, &options, problem);
    if (w->listener == NULL) {
        fail_msg("%s", problem);
    }
}

static void dial(struct world *w, const char *host, uint16_t port)
{
    struct dialer_options options = {.connection = w->options,
                                     .connect_ms = 1000,
                                     .wait_min_ms = 5,
                                     .wait_max_ms = 20,
                                     .on_connected = on_connected,
                                     .on_failed = on_failed,
                                     .ctx = w};
    snprintf(options.address.host, sizeof(options.address.host), "%s", host);
    options.address.port = port;
    w->dialer = dialer_new(&w->net, &options);
}

static void world_close(struct world *w)
{
    dialer_close(w->dialer);
    w->dialer = NULL;
    listener_close(w->listener);
    if (w->server.connection != NULL) {
        connection_abort(w->server.connection, "the test ends");
    }
    if (w->client.connection != NULL) {
        connection_abort(w->client.connection, "the test ends");
    }
    uv_run(&w->loop, UV_RUN_DEFAULT);
    net_close(&w->net);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&w->loop), 0);
    buffer_close(&w->server.got);
    buffer_close(&w->client.got);
    assert_int_equal(w->counted.blocks, 0);
}

static void on_tick(uv_timer_t *timer)
{
    (void)timer;
}

/* Turns the loop until the condition holds, for 10 s at most. */
#define UNTIL(w, condition)                                  \
    do {                                                     \
        uv_timer_t tick_;                                    \
        uint64_t end_ = uv_hrtime() + UINT64_C(10000000000); \
        uv_timer_init(&(w)->loop, &tick_);                   \
        uv_timer_start(&tick_, on_tick, 1, 1);               \
        while (!(condition) && uv_hrtime() < end_) {         \
            uv_run(&(w)->loop, UV_RUN_ONCE);                 \
        }                                                    \
        uv_close((uv_handle_t *)&tick_, NULL);               \
        uv_run(&(w)->loop, UV_RUN_NOWAIT);                   \
        assert_true(condition);                              \
    } while (0)

static void connect_both(struct world *w)
{
    listen_on(w, "127.0.0.1", 0);
    dial(w, "127.0.0.1", listener_port(w->listener));
    UNTIL(w, w->accepted == 1 && w->connected == 1);
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

static void an_abort_is_told_once_and_later(void **state)
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

/* ---- listeners and dialers ---- */

static void a_taken_port_is_refused_with_a_clear_word(void **state)
{
    (void)state;
    struct world w;
    char problem[LISTENER_PROBLEM] = "";
    world_open(&w);
    listen_on(&w, "127.0.0.1", 0);
    struct listener_options options = {.connection = w.options,
                                       .max_connections = 1,
                                       .on_accept = on_accept,
                                       .ctx = &w,
                                       .address = {.host = "127.0.0.1"}};
    options.address.port = listener_port(w.listener);
    assert_null(listener_new(&w.net, &options, problem));
    assert_non_null(strstr(problem, "the port is taken by another program"));
    snprintf(options.address.host, sizeof(options.address.host), "no-such-host.invalid");
    assert_null(listener_new(&w.net, &options, problem));
    assert_non_null(strstr(problem, "cannot resolve no-such-host.invalid:"));
    world_close(&w);
}

static void a_host_name_is_listened_on_and_dialled(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    listen_on(&w, "localhost", 0);
    dial(&w, "localhost", listener_port(w.listener));
    UNTIL(&w, w.accepted == 1 && w.connected == 1);
    world_close(&w);
}

static void ipv6_is_listened_on_and_dialled(void **state)
{
    (void)state;
    struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int probe = socket(AF_INET6, SOCK_STREAM, 0);
    bool have = probe >= 0 && bind(probe, (struct sockaddr *)&any, sizeof(any)) == 0;
    if (probe >= 0) {
        close(probe);
    }
    if (!have) {
        skip();
    }
    struct world w;
    world_open(&w);
    listen_on(&w, "::1", 0);
    dial(&w, "::1", listener_port(w.listener));
    UNTIL(&w, w.accepted == 1 && w.connected == 1);
    assert_int_equal(strncmp(connection_remote(w.client.connection), "[::1]:", 6), 0);
    world_close(&w);
}

static void a_listener_at_its_limit_lets_the_next_in_when_one_leaves(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    w.many = true;
    listen_on(&w, "127.0.0.1", 0);
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(listener_port(w.listener)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fds[4];
    for (int i = 0; i < 4; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM, 0);
        assert_int_equal(connect(fds[i], (struct sockaddr *)&to, sizeof(to)), 0);
    }
    UNTIL(&w, w.accepted == 2);
    for (int i = 0; i < 20; i++) {
        uv_run(&w.loop, UV_RUN_NOWAIT);
    }
    assert_int_equal(w.accepted, 2);
    assert_int_equal(listener_connections(w.listener), 2);
    close(fds[1]);
    UNTIL(&w, w.accepted == 3);
    close(fds[2]);
    UNTIL(&w, w.accepted == 4);
    close(fds[0]);
    close(fds[3]);
    UNTIL(&w, listener_connections(w.listener) == 0);
    assert_int_equal(w.server.closes, 4);
    world_close(&w);
}

static void a_dialer_tries_until_somebody_listens_and_again_after_an_end(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    listen_on(&w, "127.0.0.1", 0);
    uint16_t port = listener_port(w.listener);
    listener_close(w.listener);
    w.listener = NULL;
    for (int i = 0; i < 5; i++) {
        uv_run(&w.loop, UV_RUN_NOWAIT);
    }
    dial(&w, "127.0.0.1", port);
    UNTIL(&w, w.failed >= 3);
    listen_on(&w, "127.0.0.1", port);
    UNTIL(&w, w.connected == 1 && w.accepted == 1);
    dialer_good(w.dialer);
    connection_abort(w.server.connection, "the test cuts it");
    UNTIL(&w, w.connected == 2 && w.accepted == 2);
    world_close(&w);
}

static void a_dialer_can_be_closed_in_every_state(void **state)
{
    (void)state;
    for (int turns_before = 0; turns_before < 6; turns_before++) {
        struct world w;
        world_open(&w);
        listen_on(&w, "127.0.0.1", 0);
        dial(&w, turns_before % 2 == 0 ? "localhost" : "127.0.0.1", listener_port(w.listener));
        for (int i = 0; i < turns_before; i++) {
            uv_run(&w.loop, UV_RUN_NOWAIT);
        }
        world_close(&w);
    }
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_read_and_written),
        cmocka_unit_test(loopback_addresses_are_told_from_others),
        cmocka_unit_test(bytes_come_back_in_order),
        cmocka_unit_test(a_filter_sees_every_byte_in_both_directions),
        cmocka_unit_test(an_end_that_does_not_read_causes_pressure_and_no_loss),
        cmocka_unit_test(an_end_that_never_reads_is_given_up),
        cmocka_unit_test(more_output_than_allowed_ends_the_connection),
        cmocka_unit_test(an_owner_that_is_not_ready_gets_its_bytes_when_it_resumes),
        cmocka_unit_test(a_close_lets_everything_out_first),
        cmocka_unit_test(an_abort_is_told_once_and_later),
        cmocka_unit_test(the_end_of_the_other_side_is_noticed_while_bytes_are_held),
        cmocka_unit_test(a_timeout_comes_once_and_can_be_moved),
        cmocka_unit_test(each_turn_of_the_loop_is_announced_after_the_poll),
        cmocka_unit_test(a_taken_port_is_refused_with_a_clear_word),
        cmocka_unit_test(a_host_name_is_listened_on_and_dialled),
        cmocka_unit_test(ipv6_is_listened_on_and_dialled),
        cmocka_unit_test(a_listener_at_its_limit_lets_the_next_in_when_one_leaves),
        cmocka_unit_test(a_dialer_tries_until_somebody_listens_and_again_after_an_end),
        cmocka_unit_test(a_dialer_can_be_closed_in_every_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

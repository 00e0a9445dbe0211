/* Handshakes that all arrive at once: each turn spends 2 ms on them, those of peers come before
 * those of clients, connections without one are served in each turn, and memory is bounded. */
#include "net_world.h"

enum {
    CLIENTS = 60,
    PEERS = 20,
    STEP_NS = 500000,    /* of a handshake here */
    BUDGET_NS = 2000000, /* of a turn: OPENING_NS of src/net/opening.c */
};

struct fake_handshake {
    struct flood *flood;
    bool is_peer;
    bool is_open;
};

struct flood {
    struct world w;
    struct listener *clients, *peers;
    struct fake_handshake handshakes[CLIENTS + PEERS + 1];
    int sockets[CLIENTS + PEERS];
    int accepted, opened, opened_peers, closed;
    int steps;         /* of the current turn */
    int clients_first; /* handshakes of clients while one of a peer was waiting */
};

/* A step of a handshake takes real time, and one step completes it. */
static enum filter_result burn(void *ctx, struct slice bytes, struct buffer *plain,
                               struct buffer *wire)
{
    struct fake_handshake *h = ctx;
    (void)plain;
    uint64_t end = uv_hrtime() + STEP_NS;
    while (uv_hrtime() < end) {
    }
    assert_true(bytes.len > 0);
    h->flood->steps++;
    h->is_open = true;
    buffer_append_byte(wire, 'o');
    return FILTER_GOES_ON;
}

static bool pass_unchanged(void *ctx, struct slice plain, struct buffer *wire)
{
    (void)ctx;
    return buffer_append_slice(wire, plain);
}

static bool is_opening(void *ctx)
{
    const struct fake_handshake *h = ctx;
    return !h->is_open;
}

static void on_open(void *owner)
{
    struct fake_handshake *h = owner;
    h->flood->opened++;
    if (h->is_peer) {
        h->flood->opened_peers++;
    } else if (h->flood->opened_peers < PEERS) {
        h->flood->clients_first++;
    }
}

static size_t swallow(void *owner, struct slice bytes)
{
    (void)owner;
    return bytes.len;
}

static void on_gone(void *owner, const char *reason)
{
    struct fake_handshake *h = owner;
    (void)reason;
    h->flood->closed++;
}

static const struct connection_handlers opening_handlers = {
    .on_bytes = swallow, .on_open = on_open, .on_close = on_gone};

static void start(struct flood *f, struct connection *c, bool is_peer)
{
    struct fake_handshake *h = &f->handshakes[f->accepted++];
    *h = (struct fake_handshake){.flood = f, .is_peer = is_peer};
    struct connection_filter filter = {
        .ctx = h, .incoming = burn, .outgoing = pass_unchanged, .is_opening = is_opening};
    connection_set_filter(c, &filter);
    connection_start(c, &opening_handlers, h);
}

static void accept_client(void *ctx, struct connection *c)
{
    start(ctx, c, false);
}

static void accept_peer(void *ctx, struct connection *c)
{
    start(ctx, c, true);
}

static struct listener *listen_for(struct flood *f, bool is_peer)
{
    char problem[LISTENER_PROBLEM] = "";
    struct listener_options options = {.connection = f->w.options,
                                       .max_connections = UINT32_MAX,
                                       .on_accept = is_peer ? accept_peer : accept_client,
                                       .ctx = f};
    options.connection.writes_first = is_peer;
    snprintf(options.address.host, sizeof(options.address.host), "127.0.0.1");
    struct listener *l = listener_new(&f->w.net, &options, problem);
    assert_string_equal(problem, "");
    return l;
}

static int connect_to(uint16_t port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

static void flood_init(struct flood *f)
{
    memset(f, 0, sizeof(*f));
    world_open(&f->w);
    f->clients = listen_for(f, false);
    f->peers = listen_for(f, true);
}

/* All are accepted. */
static void flood_connect(struct flood *f)
{
    for (int i = 0; i < CLIENTS + PEERS; i++) {
        f->sockets[i] = connect_to(listener_port(i < CLIENTS ? f->clients : f->peers));
    }
    UNTIL(&f->w, f->accepted == CLIENTS + PEERS);
}

static void flood_open(struct flood *f)
{
    flood_init(f);
    flood_connect(f);
}

static void send_hellos(struct flood *f)
{
    static const char hello[3000] = "hello";
    for (int i = 0; i < CLIENTS + PEERS; i++) {
        assert_int_equal(write(f->sockets[i], hello, sizeof(hello)), sizeof(hello));
    }
}

static void flood_close(struct flood *f)
{
    for (int i = 0; i < CLIENTS + PEERS; i++) {
        close(f->sockets[i]);
    }
    listener_close(f->clients);
    listener_close(f->peers);
    world_close(&f->w);
}

static void a_turn_spends_2_ms_on_handshakes_and_peers_come_first(void **state)
{
    (void)state;
    struct flood f;
    int turns = 0;
    flood_open(&f);
    send_hellos(&f);
    while (f.opened < CLIENTS + PEERS) {
        f.steps = 0;
        uv_run(&f.w.loop, UV_RUN_NOWAIT);
        assert_in_range(f.steps, 1, BUDGET_NS / STEP_NS);
        turns++;
    }
    assert_in_range(turns, (CLIENTS + PEERS) / (BUDGET_NS / STEP_NS), CLIENTS + PEERS);
    /* One turn may end before the first byte of a peer was read. */
    assert_in_range(f.clients_first, 0, BUDGET_NS / STEP_NS);
    assert_true(f.w.net.opening_ns >= (uint64_t)(CLIENTS + PEERS) * STEP_NS);
    flood_close(&f);
}

/* A client that is connected already gets an answer in the turn in which its request arrives. */
static void other_connections_are_served_in_each_turn(void **state)
{
    (void)state;
    struct flood f;
    char byte;
    flood_open(&f);
    f.w.echo = true;
    f.w.options.in_max = 4096;
    listen_on(&f.w, "127.0.0.1", 0);
    int other = connect_to(listener_port(f.w.listener));
    UNTIL(&f.w, f.w.accepted == 1);
    send_hellos(&f);
    uv_run(&f.w.loop, UV_RUN_NOWAIT);
    for (int i = 0; i < 10; i++) {
        int before = f.opened;
        assert_true(before < CLIENTS + PEERS);
        assert_int_equal(write(other, "x", 1), 1);
        f.steps = 0;
        while (recv(other, &byte, 1, MSG_DONTWAIT) != 1) {
            f.steps = 0;
            uv_run(&f.w.loop, UV_RUN_NOWAIT);
            assert_true(f.opened - before <= 3 * BUDGET_NS / STEP_NS);
        }
    }
    close(other);
    flood_close(&f);
}

/* What waits for its handshake is at most OPENING_READ bytes; reading stops then. */
static void bytes_that_wait_for_a_handshake_are_bounded(void **state)
{
    (void)state;
    struct flood f;
    static const char more[60000];
    flood_open(&f);
    size_t before = f.w.counted.bytes;
    send_hellos(&f);
    for (int i = 0; i < CLIENTS + PEERS; i++) {
        (void)send(f.sockets[i], more, sizeof(more), MSG_DONTWAIT);
    }
    uv_run(&f.w.loop, UV_RUN_NOWAIT);
    assert_true(f.opened < CLIENTS + PEERS);
    assert_true(f.w.counted.bytes - before < (CLIENTS + PEERS) * 8192);
    flood_close(&f);
}

/* Above the limit, the one that has waited longest for its client makes space. */
static void handshakes_of_clients_are_limited_in_number(void **state)
{
    (void)state;
    struct flood f;
    char byte;
    flood_init(&f);
    f.w.net.openings_max = CLIENTS - 10;
    flood_connect(&f);
    assert_int_equal(f.w.net.openings, CLIENTS - 10);
    UNTIL(&f.w, f.closed == 10);
    for (int i = 0; i < CLIENTS + PEERS; i++) {
        bool is_closed = recv(f.sockets[i], &byte, 1, MSG_DONTWAIT) == 0;
        assert_int_equal(is_closed, i < 10);
    }
    send_hellos(&f);
    UNTIL(&f.w, f.opened == CLIENTS + PEERS - 10);
    assert_int_equal(f.w.net.openings, 0);
    flood_close(&f);
}

/* Those whose bytes have arrived wait for the node, and are not closed in favour of newer ones. */
static void a_handshake_that_waits_for_the_node_is_kept(void **state)
{
    (void)state;
    struct flood f;
    char byte;
    flood_init(&f);
    f.w.net.openings_max = CLIENTS;
    flood_connect(&f);
    send_hellos(&f);
    uv_run(&f.w.loop, UV_RUN_NOWAIT);
    assert_true(f.w.net.openings > CLIENTS / 2);
    int opened = f.opened;
    f.w.net.openings_max = 1;
    int late = connect_to(listener_port(f.clients));
    UNTIL(&f.w, f.closed == 1);
    assert_int_equal(recv(late, &byte, 1, MSG_DONTWAIT), 0);
    UNTIL(&f.w, f.opened == CLIENTS + PEERS);
    assert_true(opened < CLIENTS + PEERS && f.closed == 1);
    close(late);
    flood_close(&f);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_turn_spends_2_ms_on_handshakes_and_peers_come_first),
        cmocka_unit_test(other_connections_are_served_in_each_turn),
        cmocka_unit_test(bytes_that_wait_for_a_handshake_are_bounded),
        cmocka_unit_test(handshakes_of_clients_are_limited_in_number),
        cmocka_unit_test(a_handshake_that_waits_for_the_node_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* A loop with one listener, one dialer and what happened on them, for the tests of src/net. To be
 * included first. */
#ifndef HOLDFAST_TESTS_NET_WORLD_H
#define HOLDFAST_TESTS_NET_WORLD_H

#include "base_testing.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include "net/address.h"
#include "net/dialer.h"
#include "net/listener.h"

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
    bool nobody_there; /* as the last failure said */
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

static enum filter_result xor_incoming(void *ctx, struct slice bytes, struct buffer *plain,
                                       struct buffer *wire)
{
    (void)wire;
    return xor_bytes(ctx, bytes, plain) ? FILTER_GOES_ON : FILTER_FAILED;
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

static void on_failed(void *ctx, bool nobody_there, const char *reason)
{
    struct world *w = ctx;
    assert_true(strlen(reason) > 0);
    w->nobody_there = nobody_there;
    w->failed++;
}

static inline void world_open(struct world *w)
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

static inline void listen_on(struct world *w, const char *host, uint16_t port)
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

static inline void dial(struct world *w, const char *host, uint16_t port)
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

static inline void world_close(struct world *w)
{
    dialer_close(w->dialer);
    w->dialer = NULL;
    listener_close(w->listener);
    net_abort_all(&w->net, "the test ends");
    uv_run(&w->loop, UV_RUN_DEFAULT);
    net_close(&w->net);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&w->loop), 0);
    buffer_close(&w->server.got);
    buffer_close(&w->client.got);
    assert_int_equal(w->counted.blocks, 0);
}

static inline void on_tick(uv_timer_t *timer)
{
    (void)timer;
}

/* Turns the loop until the condition holds, for 10 s at most. */
#define UNTIL(w, condition)                                  \
    do {                                                     \
        uv_timer_t tick_;                                    \
        uint64_t end_ = uv_hrtime() + UINT64_C(60000000000); \
        uv_timer_init(&(w)->loop, &tick_);                   \
        uv_timer_start(&tick_, on_tick, 1, 1);               \
        while (!(condition) && uv_hrtime() < end_) {         \
            uv_run(&(w)->loop, UV_RUN_ONCE);                 \
        }                                                    \
        uv_close((uv_handle_t *)&tick_, NULL);               \
        uv_run(&(w)->loop, UV_RUN_NOWAIT);                   \
        assert_true(condition);                              \
    } while (0)

static inline void connect_both(struct world *w)
{
    listen_on(w, "127.0.0.1", 0);
    dial(w, "127.0.0.1", listener_port(w->listener));
    UNTIL(w, w->accepted == 1 && w->connected == 1);
}

#endif

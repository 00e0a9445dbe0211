/* Tests of src/net on a real loop and real sockets: who listens, and who dials. */
#include "net_world.h"

#include <sys/resource.h>

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

/* Client sockets are made and connected first: what lacks a descriptor then is accept alone. */
static void without_descriptors_accepting_pauses_and_goes_on_later(void **state)
{
    (void)state;
    struct world w;
    struct rlimit before;
    int clients[2];
    world_open(&w);
    w.many = true;
    listen_on(&w, "127.0.0.1", 0);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(listener_port(w.listener))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int i = 0; i < 2; i++) {
        clients[i] = socket(AF_INET, SOCK_STREAM, 0);
        assert_int_equal(connect(clients[i], (struct sockaddr *)&address, sizeof(address)), 0);
    }
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    struct rlimit none = {.rlim_cur = 0, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    uint64_t start = uv_hrtime();
    UNTIL(&w, w.net.accept_pauses >= 3);
    uint64_t ms = (uv_hrtime() - start) / 1000000;
    assert_true(ms >= 2 * LISTENER_PAUSE_MS - 2); /* it does not spin */
    assert_int_equal(w.accepted, 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    UNTIL(&w, w.accepted == 2); /* nobody was turned away */
    close(clients[0]);
    close(clients[1]);
    world_close(&w);
}

static void a_paused_listener_can_be_closed(void **state)
{
    (void)state;
    struct world w;
    struct rlimit before;
    world_open(&w);
    listen_on(&w, "127.0.0.1", 0);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(listener_port(w.listener))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int client = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(client, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    struct rlimit none = {.rlim_cur = 0, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    UNTIL(&w, w.net.accept_pauses >= 1);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    world_close(&w);
    close(client);
}

static void what_is_said_before_a_dismissal_arrives(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    connect_both(&w);
    buffer_append_slice(connection_output(w.server.connection), slice_of("bye"));
    connection_dismiss(w.server.connection, "dismissed");
    UNTIL(&w, w.server.closes == 1 && w.client.ends == 1);
    assert_string_equal(w.server.reason, "dismissed");
    assert_true(slice_equal(buffer_bytes(&w.client.got), slice_of("bye")));
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
    assert_true(w.nobody_there);
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
        cmocka_unit_test(a_taken_port_is_refused_with_a_clear_word),
        cmocka_unit_test(a_host_name_is_listened_on_and_dialled),
        cmocka_unit_test(ipv6_is_listened_on_and_dialled),
        cmocka_unit_test(a_listener_at_its_limit_lets_the_next_in_when_one_leaves),
        cmocka_unit_test(without_descriptors_accepting_pauses_and_goes_on_later),
        cmocka_unit_test(a_paused_listener_can_be_closed),
        cmocka_unit_test(what_is_said_before_a_dismissal_arrives),
        cmocka_unit_test(a_dialer_tries_until_somebody_listens_and_again_after_an_end),
        cmocka_unit_test(a_dialer_can_be_closed_in_every_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

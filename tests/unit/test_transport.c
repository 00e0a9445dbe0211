/* The connection of clients: addresses, connecting, bytes and deadlines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "transport/clock.h"
#include "transport/wait.h"

enum { PATIENCE_MS = 10000, SHORT_MS = 50 };

/* ---- addresses ---- */

static bool parse(const char *text, const char *default_port, struct host_port *out)
{
    return host_port_parse(text, strlen(text), default_port, out);
}

static void an_address_is_a_host_and_a_port(void **state)
{
    static const char *const wrong[] = {"",       ":1",    "a",      "a:",    "a:0",  "a:65536",
                                        "a:b",    "a:1x",  "::1:1",  "[::1]", "[]:1", "[::1]x:1",
                                        "[::1:1", "a b:1", "a]:123", "a:1:2", "a:+1", "\x01:1"};
    struct host_port p;
    char text[HOST_PORT_TEXT];
    assert_true(parse("10.0.0.1:4653", NULL, &p));
    assert_string_equal(p.host, "10.0.0.1");
    assert_string_equal(p.port, "4653");
    assert_true(parse("[::1]:65535", NULL, &p));
    assert_string_equal(p.host, "::1");
    host_port_format(&p, text, sizeof(text));
    assert_string_equal(text, "[::1]:65535");
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_false(parse(wrong[i], NULL, &p));
    }
    assert_string_equal(p.host, "::1");
}

static void a_missing_port_is_the_default(void **state)
{
    struct host_port p;
    assert_true(parse("localhost", "4653", &p));
    assert_string_equal(p.host, "localhost");
    assert_string_equal(p.port, "4653");
    assert_true(parse("[::1]", "4653", &p));
    assert_string_equal(p.port, "4653");
    assert_false(parse("localhost:", "4653", &p));
    char long_host[HOST_PORT_TEXT + 1];
    memset(long_host, 'a', HOST_PORT_TEXT);
    long_host[HOST_PORT_TEXT] = '\0';
    assert_false(parse(long_host, "4653", &p));
}

/* ---- connections ---- */

struct server {
    int fd;
    struct host_port address;
};

static void server_open(struct server *s, bool listens)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(s->fd, (struct sockaddr *)&a, sizeof(a)), 0);
    assert_true(!listens || listen(s->fd, 8) == 0);
    assert_int_equal(getsockname(s->fd, (struct sockaddr *)&a, &len), 0);
    snprintf(s->address.host, sizeof(s->address.host), "127.0.0.1");
    snprintf(s->address.port, sizeof(s->address.port), "%u", ntohs(a.sin_port));
}

static int64_t after(int64_t ms)
{
    return clock_boot_ms() + ms;
}

static void bytes_arrive_in_both_directions(void **state)
{
    struct server s;
    struct transport t;
    char text[HOST_PORT_TEXT];
    char expected[HOST_PORT_TEXT];
    char bytes[16];
    size_t got;
    server_open(&s, true);
    transport_init(&t);
    assert_true(transport_open(&t, &s.address, after(PATIENCE_MS)));
    assert_int_equal(t.state, TRANSPORT_UP);
    transport_peer(&t, text, sizeof(text));
    host_port_format(&s.address, expected, sizeof(expected));
    assert_string_equal(text, expected);
    int peer = accept(s.fd, NULL, NULL);
    assert_true(transport_put(&t, slice_of("get"), after(PATIENCE_MS)));
    assert_int_equal(read(peer, bytes, sizeof(bytes)), 3);
    assert_int_equal(transport_read(&t, bytes, sizeof(bytes), &got), TRANSPORT_AGAIN);
    assert_int_equal(got, 0);
    assert_int_equal(write(peer, "fine", 4), 4);
    assert_int_equal(transport_get(&t, bytes, sizeof(bytes), &got, after(PATIENCE_MS)),
                     TRANSPORT_OK);
    assert_int_equal(got, 4);
    assert_memory_equal(bytes, "fine", 4);
    close(peer);
    assert_int_equal(transport_get(&t, bytes, sizeof(bytes), &got, after(PATIENCE_MS)),
                     TRANSPORT_END);
    assert_string_equal(t.problem, "the connection was closed");
    transport_close(&t);
    assert_int_equal(t.state, TRANSPORT_CLOSED);
    transport_close(&t);
    close(s.fd);
}

static void a_host_name_is_looked_up(void **state)
{
    struct server s;
    struct transport t;
    server_open(&s, true);
    snprintf(s.address.host, sizeof(s.address.host), "localhost");
    transport_init(&t);
    assert_true(transport_open(&t, &s.address, after(PATIENCE_MS)));
    transport_close(&t);
    close(s.fd);
}

static void a_refused_connection_has_its_reason(void **state)
{
    struct server s;
    struct transport t;
    server_open(&s, false); /* bound, so that no other process uses the port */
    transport_init(&t);
    assert_false(transport_open(&t, &s.address, after(PATIENCE_MS)));
    assert_string_equal(t.problem, "Connection refused");
    assert_int_equal(t.state, TRANSPORT_CLOSED);
    close(s.fd);
    snprintf(s.address.host, sizeof(s.address.host), "name.invalid");
    assert_false(transport_open(&t, &s.address, after(PATIENCE_MS)));
    assert_non_null(t.problem);
    transport_close(&t);
}

static void a_silent_node_is_left_at_the_deadline(void **state)
{
    struct server s;
    struct transport t;
    char bytes[16];
    size_t got;
    server_open(&s, true);
    transport_init(&t);
    assert_true(transport_open(&t, &s.address, after(PATIENCE_MS)));
    int64_t until_ms = after(SHORT_MS);
    assert_int_equal(transport_get(&t, bytes, sizeof(bytes), &got, until_ms), TRANSPORT_FAILED);
    assert_true(clock_boot_ms() >= until_ms);
    assert_string_equal(t.problem, "no answer in time");
    static const char page[1 << 16];
    while (transport_put(&t, slice_make(page, sizeof(page)), after(SHORT_MS))) {
    }
    assert_string_equal(t.problem, "no answer in time");
    transport_close(&t);
    close(s.fd);
}

static void a_dial_without_a_lookup_advances_by_events(void **state)
{
    struct server s;
    struct transport t;
    struct sockaddr_storage address;
    server_open(&s, true);
    socklen_t len = resolve_now(&s.address, &address);
    assert_true(len > 0);
    transport_init(&t);
    assert_true(transport_dial_address(&t, (struct sockaddr *)&address, len));
    assert_int_equal(t.state, TRANSPORT_CONNECTING);
    int peer = accept(s.fd, NULL, NULL); /* so that it is connected */
    assert_int_equal(transport_advance(&t), TRANSPORT_UP);
    assert_int_equal(transport_advance(&t), TRANSPORT_UP);
    transport_close(&t);
    close(peer);
    close(s.fd);
    assert_int_equal(resolve_now(&(struct host_port){"name.invalid", "1"}, &address), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_is_a_host_and_a_port),
        cmocka_unit_test(a_missing_port_is_the_default),
        cmocka_unit_test(bytes_arrive_in_both_directions),
        cmocka_unit_test(a_host_name_is_looked_up),
        cmocka_unit_test(a_refused_connection_has_its_reason),
        cmocka_unit_test(a_silent_node_is_left_at_the_deadline),
        cmocka_unit_test(a_dial_without_a_lookup_advances_by_events),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

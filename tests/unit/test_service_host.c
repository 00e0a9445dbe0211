/* Which values of Host are served, and what the others get. */
#include "base_testing.h"

#include "http_world.h"
#include "service/http/host.h"

static bool is_served(const char *host, const char *names)
{
    return host_is_served(slice_of(host), names);
}

static void ip_literals_and_localhost_are_served(void **state)
{
    static const char *const hosts[] = {"",          "127.0.0.1",      "10.1.2.3:4653",
                                        "[::1]",     "[::1]:4653",     "[fe80::1:2]:80",
                                        "localhost", "LocalHost:4653", "localhost."};
    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
        if (!is_served(hosts[i], "")) {
            fail_msg("%s is refused", hosts[i]);
        }
    }
}

static void other_names_are_refused(void **state)
{
    static const char *const hosts[] = {"evil.example",
                                        "evil.example:4653",
                                        "127.0.0.1.evil.example",
                                        "localhost.evil.example",
                                        "127.1",
                                        "[::1",
                                        "[::1]x",
                                        "[evil]:1",
                                        "0x7f000001",
                                        "127.0.0.1:80:80",
                                        "localhost:x",
                                        "::1",
                                        " localhost",
                                        "localhost@evil",
                                        "127.0.0.1:123456",
                                        ":4653"};
    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
        if (is_served(hosts[i], "")) {
            fail_msg("%s is served", hosts[i]);
        }
    }
}

static void configured_names_are_served(void **state)
{
    assert_true(is_served("locks.example:4653", "a, Locks.Example,b"));
    assert_true(is_served("B", "a,locks.example,b"));
    assert_false(is_served("locks.example.evil", "a,locks.example,b"));
    assert_false(is_served("example", "a,locks.example,b"));
    assert_true(is_served("anything", "*"));
}

static struct http_world world;
static struct counted counted;

static int set_up(void **state)
{
    struct service_options options = {.server_names = "node-1"};
    counted_init(&counted);
    world_open(&world, &counted.memory, &options);
    return 0;
}

static int tear_down(void **state)
{
    world_close(&world);
    assert_all_given_back(&counted);
    return 0;
}

static int status_for(const char *host, const char *code)
{
    char request[128];
    struct http_client *c = world_client(&world, true);
    snprintf(request, sizeof(request), "GET /livez HTTP/1.1\r\nHost: %s\r\n\r\n", host);
    client_send(c, request);
    struct reply r = client_reply(c);
    int status = r.status;
    assert_non_null(strstr(r.body, code));
    reply_free(&r);
    client_close(c);
    return status;
}

static void request_for_another_name_is_misdirected(void **state)
{
    assert_int_equal(status_for("evil.example", "\"misdirected\""), 421);
    assert_int_equal(status_for("node-1:4653", "ok"), 200);
    assert_int_equal(status_for("127.0.0.1:4653", "ok"), 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ip_literals_and_localhost_are_served),
        cmocka_unit_test(other_names_are_refused),
        cmocka_unit_test(configured_names_are_served),
        cmocka_unit_test_setup_teardown(request_for_another_name_is_misdirected, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The Redis protocol: one connection of it, whatever comes in, and the order of what goes out. */
#include "resp_testing.h"

static int set_up_guarded(void **state)
{
    set_up_with(&(struct service_options){.resp_password = "se cret", .resp_del_refused = true});
    return 0;
}

/* ---- the connection ---- */

static void set_with_nx_is_an_acquire(void **state)
{
    struct resp_client *a = client();
    struct resp_client *b = client();
    resp_request(a, "SET lock me NX PX 30000", "+OK|");
    resp_request(b, "SET lock you NX PX 30000", "$-1|");
    assert_int_equal(submitted(COMMAND_ACQUIRE), 2);
    assert_int_equal(submitted(COMMAND_TRANSACT), 0);
    struct key_view view;
    view_key(world.gateway.core, 0, slice_of("lock"), &view);
    assert_int_equal(view.kind, KEY_STRING);
    assert_memory_equal(view.value.data, "me", 2);
    assert_int_equal(view.client.len, strlen("resp:10.0.0.1:4000"));
    assert_memory_equal(view.client.data, "resp:10.0.0.1:4000", view.client.len);
    resp_request(b, "HELLO 3 SETNAME worker",
                 "%7|$6|server|$5|redis|$7|version|$5|7.0.0|$5|proto|:3|"
                 "$2|id|:2|$4|mode|$10|standalone|$4|role|$6|master|"
                 "$7|modules|*0|");
    resp_request(b, "SET lock you NX PX 30000", "_|");
    resp_request(b, "SET other you NX EX 5", "+OK|");
    view_key(world.gateway.core, 0, slice_of("other"), &view);
    assert_memory_equal(view.client.data, "resp:worker@10.0.0.2:4000", view.client.len);
}

static void answers_come_in_the_order_of_the_requests(void **state)
{
    struct resp_client *c = client();
    resp_send_only(c, "SET a 1 NX PX 5000\r\nSET b 2 NX PX 5000\r\nPING\r\nGET a\r\nGET b\r\n"
                      "DEL a\r\nGET a\r\nSET a 3 NX PX 5000\r\nNONSENSE\r\nINCR n\r\nGET n\r\n");
    resp_world_run(&world);
    resp_expect(c, "+OK|+OK|+PONG|$1|1|$1|2|:1|$-1|+OK|"
                   "-ERR unknown command 'NONSENSE', with args beginning with: |:1|$1|1|");
    assert_int_equal(submitted(COMMAND_ACQUIRE), 3);
}

/* Connections take turns by this number (node/forward/forward_turns.c). */
static void requests_carry_the_number_of_their_connection(void **state)
{
    struct resp_client *a = client();
    struct resp_client *b = client();
    resp_send_only(a, "SET k1 v NX PX 5000\r\nSET k2 v NX PX 5000\r\n");
    resp_send_only(b, "SET k3 v NX PX 5000\r\n");
    const struct fake_call *call = world.gateway.first;
    uint64_t first = call->call->source;
    assert_int_not_equal(first, 0);
    assert_int_equal(call->next->call->source, first);
    assert_int_not_equal(call->next->next->call->source, first);
    assert_int_not_equal(call->next->next->call->source, 0);
    resp_world_run(&world);
    resp_expect(a, "+OK|+OK|");
    resp_expect(b, "+OK|");
}

static void acquires_of_one_connection_share_a_batch(void **state)
{
    struct resp_client *c = client();
    uint64_t before = world.gateway.entries;
    for (int i = 0; i < 100; i++) {
        char line[64];
        snprintf(line, sizeof(line), "SET k%d v NX PX 5000\r\n", i);
        resp_send_only(c, line);
    }
    resp_world_run(&world);
    assert_int_equal(world.gateway.entries - before, 1);
    assert_int_equal(c->got_len, 500);
}

static void reads_that_came_together_share_a_barrier(void **state)
{
    struct resp_client *c = client();
    resp_say(c, "SET a 1 NX PX 5000");
    c->got_len = 0;
    resp_send_only(c, "GET a\r\nTTL a\r\nEXISTS a a b\r\nECHO x\r\nTYPE a\r\n");
    resp_world_run(&world);
    resp_expect(c, "$1|1|:5|:2|$1|x|+string|");
    assert_int_equal(world.gateway.barriers, 1);
    resp_request(c, "GET a", "$1|1|");
    assert_int_equal(world.gateway.barriers, 2);
}

static void a_request_may_be_cut_anywhere(void **state)
{
    static const char request[] =
        "*6\r\n$3\r\nSET\r\n$1\r\nk\r\n$3\r\nv\r\n\r\n$2\r\nNX\r\n$2\r\nPX\r\n"
        "$4\r\n5000\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
    struct resp_client *c = client();
    for (size_t i = 0; i + 1 < sizeof(request); i++) {
        resp_send_bytes(c, request + i, 1);
    }
    resp_expect(c, "+OK|$3|v||");
}

static void bad_bytes_get_a_protocol_error_and_the_end(void **state)
{
    struct resp_client *c = client();
    resp_say(c, "*1\r\n+PING");
    resp_expect(c, "-ERR Protocol error: expected '$'|");
    assert_null(c->conn);
    c = client();
    resp_say(c, "*1\r\n$2000000000");
    resp_expect(c, "-ERR Protocol error: invalid bulk length|");
    assert_null(c->conn);
    c = client();
    resp_say(c, "SET a 1 NX PX 5000\r\nPING\r\n*2147483647");
    resp_expect(c, "+OK|+PONG|-ERR Protocol error: invalid multibulk length|");
    assert_null(c->conn);
}

static void half_a_request_is_not_waited_for_for_ever(void **state)
{
    struct resp_client *c = client();
    resp_send_bytes(c, "*2\r\n$3\r\nGET\r\n$100", 17);
    resp_world_pass(&world, 9000);
    assert_non_null(c->conn);
    resp_world_pass(&world, 2000);
    resp_expect_start(c, "-ERR Protocol error: the request did not arrive in time\r\n");
    assert_null(c->conn);
}

static void an_idle_connection_ends_after_an_hour_a_subscriber_does_not(void **state)
{
    struct resp_client *idle = client();
    struct resp_client *listens = client();
    resp_say(listens, "SUBSCRIBE c");
    resp_request(idle, "PING", "+PONG|");
    resp_world_pass(&world, 3500000);
    resp_request(idle, "PING", "+PONG|");
    resp_world_pass(&world, 3500000);
    assert_non_null(idle->conn);
    resp_world_pass(&world, 200000);
    assert_null(idle->conn);
    assert_non_null(listens->conn);
}

/* What the node may close in favour of a new connection. */
static void a_connection_is_idle_while_nothing_hangs_on_it(void **state)
{
    struct resp_client *c = client();
    assert_true(resp_conn_is_idle(c->conn));
    resp_request(c, "SET lock me NX PX 30000", "+OK|");
    assert_true(resp_conn_is_idle(c->conn)); /* the lock does not hang on the connection */
    resp_send_bytes(c, "PI", 2);
    assert_false(resp_conn_is_idle(c->conn));
    resp_request(c, "NG", "+PONG|");
    assert_true(resp_conn_is_idle(c->conn));
    resp_request(c, "MULTI", "+OK|");
    assert_false(resp_conn_is_idle(c->conn));
    resp_request(c, "DISCARD", "+OK|");
    assert_true(resp_conn_is_idle(c->conn));
    struct resp_client *waits = client();
    resp_say(waits, "HF.ACQUIRE lock you PX 30000 WAIT 60000");
    assert_false(resp_conn_is_idle(waits->conn));
    struct resp_client *listens = client();
    resp_say(listens, "SUBSCRIBE c");
    assert_false(resp_conn_is_idle(listens->conn));
    resp_say(listens, "UNSUBSCRIBE c");
    assert_true(resp_conn_is_idle(listens->conn));
}

static void a_client_that_does_not_read_is_not_read_from(void **state)
{
    struct resp_client *c = client();
    char line[4200];
    memset(line, 'x', sizeof(line));
    memcpy(line, "ECHO ", 5);
    memcpy(line + 4000, "\r\n", 3);
    c->is_deaf = true;
    size_t sent = 0;
    while (resp_conn_wants_input(c->conn)) {
        resp_send_bytes(c, line, 4002);
        assert_true(++sent < 1000);
    }
    assert_true(resp_conn_output(c->conn).len < 300 << 10);
    c->is_deaf = false;
    resp_world_run(&world);
    assert_true(resp_conn_wants_input(c->conn));
    assert_int_equal(c->got_len, sent * (3995 + 9));
}

/* S7.2. */
static void a_lock_whose_grant_was_never_reported_is_given_back(void **state)
{
    struct resp_client *a = client();
    struct resp_client *b = client();
    a->is_deaf = true;
    resp_say(a, "SET lock me NX PX 30000");
    resp_client_close(a);
    resp_world_run(&world);
    resp_request(b, "SET lock you NX PX 30000", "+OK|");
}

static void a_connection_may_go_at_any_time(void **state)
{
    static const char *const lines[] = {"SET lock me NX PX 30000\r\n", "GET lock\r\n", "INCR n\r\n",
                                        "SUBSCRIBE a b\r\n", "*2\r\n$3\r\n"};
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        struct resp_client *c = client();
        world.gateway.is_held = true;
        resp_send_only(c, lines[i]);
        resp_world_run(&world);
        resp_client_close(c);
        world.gateway.is_held = false;
        resp_world_run(&world);
    }
    struct resp_client *c = client();
    resp_request(c, "GET n", "$1|1|");
    resp_request(c, "EXISTS lock", ":0|");
}

static void a_client_that_sends_no_more_still_gets_its_answers(void **state)
{
    struct resp_client *c = client();
    resp_send_only(c, "SET a 1 NX PX 5000\r\nGET a\r\nINCR n\r\nGE");
    resp_conn_end(c->conn);
    resp_world_run(&world);
    resp_expect(c, "+OK|$1|1|:1|");
    assert_null(c->conn);
}

static void quit_ends_it(void **state)
{
    struct resp_client *c = client();
    resp_send_only(c, "SET a 1 NX PX 5000\r\nQUIT\r\nPING\r\n");
    resp_world_run(&world);
    resp_expect(c, "+OK|+OK|");
    assert_null(c->conn);
}

/* ---- commands about the connection ---- */

static void commands_about_the_connection(void **state)
{
    struct resp_client *c = client();
    resp_request(c, "PING hello", "$5|hello|");
    resp_request(c, "CLIENT ID", ":1|");
    resp_request(c, "CLIENT GETNAME", "$-1|");
    resp_request(c, "CLIENT SETNAME worker-1", "+OK|");
    resp_request(c, "CLIENT GETNAME", "$8|worker-1|");
    resp_say(c, "CLIENT SETNAME \"a b\"");
    resp_expect_start(c, "-ERR Client names cannot contain spaces");
    resp_request(c, "CLIENT SETINFO lib-name redis-py", "+OK|");
    resp_say(c, "CLIENT NONSENSE");
    resp_expect_start(c, "-ERR unknown subcommand");
    resp_request(c, "SELECT 0", "+OK|");
    resp_request(c, "SELECT 16", "-ERR DB index is out of range|");
    resp_request(c, "HELLO 4", "-NOPROTO unsupported protocol version|");
    resp_request(c, "TIME", "*2|$10|1731660577|$6|123000|");
    resp_request(c, "CONFIG GET sav*", "*2|$4|save|$0||");
    resp_request(c, "COMMAND GETKEYS SET a b", "*1|$1|a|");
    resp_request(c, "COMMAND INFO get nonsense",
                 "*2|*10|$3|get|:2|*2|+readonly|+fast|:1|:1|:1|*0|*0|*0|*0|*-1|");
    resp_request(c, "GET", "-ERR wrong number of arguments for 'get' command|");
    resp_request(
        c, "AUTH x",
        "-ERR AUTH <password> called without any password configured for the default user. Are "
        "you sure your configuration is correct?|");
    resp_request(c, "RESET", "+RESET|");
    resp_request(c, "CLIENT GETNAME", "$-1|");
    resp_say(c, "INFO");
    assert_non_null(strstr(c->got, "redis_version:"));
    assert_non_null(strstr(c->got, "loading:0"));
    assert_non_null(strstr(c->got, "role:master"));
}

/* A client that knows nothing of the password gets nowhere, and keeps its locks to itself. */
static void a_password_is_requested(void **state)
{
    struct resp_client *c = client();
    resp_request(c, "GET a", "-NOAUTH Authentication required.|");
    resp_request(c, "NONSENSE", "-NOAUTH Authentication required.|");
    resp_request(c, "SET a 1 NX PX 5000", "-NOAUTH Authentication required.|");
    resp_request(c, "AUTH secret",
                 "-WRONGPASS invalid username-password pair or user is disabled.|");
    resp_request(c, "AUTH \"\"", "-WRONGPASS invalid username-password pair or user is disabled.|");
    resp_request(c, "AUTH \"se cretse cret\"",
                 "-WRONGPASS invalid username-password pair or user is disabled.|");
    resp_request(c, "AUTH someone \"se cret\"",
                 "-WRONGPASS invalid username-password pair or user is disabled.|");
    resp_say(c, "HELLO 3");
    resp_expect_start(c, "-NOAUTH HELLO must be called");
    resp_request(c, "AUTH \"se cret\"", "+OK|");
    resp_request(c, "SET a 1 NX PX 5000", "+OK|");
    resp_say(c, "RESET");
    resp_expect(c, "+RESET|");
    resp_request(c, "GET a", "-NOAUTH Authentication required.|");
    resp_say(c, "HELLO 2 AUTH default \"se cret\"");
    resp_expect_start(c, "*14\r\n");
    resp_request(c, "GET a", "$1|1|");
    assert_int_equal(submitted(COMMAND_ACQUIRE), 1);
}

/* ---- channels ---- */

static void messages_reach_everybody_who_listens(void **state)
{
    struct resp_client *a = client();
    struct resp_client *b = client();
    struct resp_client *c = client();
    resp_request(a, "SUBSCRIBE names other",
                 "*3|$9|subscribe|$5|names|:1|*3|$9|subscribe|$5|other|:2|");
    resp_request(b, "PSUBSCRIBE n*s", "*3|$10|psubscribe|$3|n*s|:1|");
    resp_request(c, "PUBLISH names hello", ":2|");
    resp_expect(a, "*3|$7|message|$5|names|$5|hello|");
    resp_expect(b, "*4|$8|pmessage|$3|n*s|$5|names|$5|hello|");
    resp_request(c, "PUBLISH nobody hello", ":0|");
    resp_request(c, "PUBSUB NUMSUB names", "*2|$5|names|:1|");
    struct resp_client *d = client();
    resp_say(d, "HELLO 3");
    resp_expect_start(d, "%7\r\n");
    resp_request(d, "PUBSUB NUMSUB names none",
                 "*4|$5|names|:1|$4|none|:0|"); /* no map: as Redis */
    resp_request(d, "PUBSUB NUMSUB", "*0|");
    resp_request(a, "UNSUBSCRIBE",
                 "*3|$11|unsubscribe|$5|names|:1|*3|$11|unsubscribe|$5|other|:0|");
    resp_request(a, "UNSUBSCRIBE", "*3|$11|unsubscribe|$-1|:0|");
    resp_request(c, "PUBLISH names again", ":1|");
    resp_expect(a, "");
    resp_request(b, "PUNSUBSCRIBE n*s",
                 "*4|$8|pmessage|$3|n*s|$5|names|$5|again|*3|$12|punsubscribe|$3|n*s|:0|");
}

static void a_subscriber_of_resp2_may_do_little_else(void **state)
{
    struct resp_client *c = client();
    resp_say(c, "SUBSCRIBE names");
    c->got_len = 0;
    resp_say(c, "GET a");
    resp_expect_start(c, "-ERR Can't execute 'get'");
    resp_request(c, "PING", "*2|$4|pong|$0||");
    resp_say(c, "HELLO 3");
    c->got_len = 0;
    resp_request(c, "GET a", "_|");
    resp_request(c, "PUBLISH names x", ">3|$7|message|$5|names|$1|x|:1|");
}

static void a_subscriber_that_does_not_read_is_dropped(void **state)
{
    struct resp_client *slow = client();
    struct resp_client *quick = client();
    struct resp_client *c = client();
    char line[4200] = "PUBLISH names ";
    memset(line + strlen(line), 'x', 4000);
    resp_say(slow, "SUBSCRIBE names");
    resp_say(quick, "SUBSCRIBE names");
    slow->is_deaf = true;
    for (int i = 0; i < 300; i++) {
        resp_say(c, line);
    }
    struct service_stats stats;
    service_stats(world.service, &stats);
    assert_int_equal(stats.resp_dropped, 1);
    assert_null(slow->conn);
    assert_non_null(quick->conn);
}

/* ---- trouble ---- */

static void errors_have_the_form_of_redis(void **state)
{
    struct resp_client *c = client();
    static const struct {
        enum hf_error error;
        const char *start;
    } cases[] = {{HF_UNAVAILABLE, "-CLUSTERDOWN "},
                 {HF_BUSY, "-TRYAGAIN "},
                 {HF_DISK_FULL, "-MISCONF "},
                 {HF_OUTCOME_UNKNOWN, "-OUTCOMEUNKNOWN "}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        world.gateway.fails = cases[i].error;
        resp_say(c, "SET lock v NX PX 5000");
        resp_expect_start(c, cases[i].start);
        resp_say(c, "GET lock");
        resp_expect_start(c, cases[i].start);
        resp_say(c, "INCR n");
        resp_expect_start(c, cases[i].start);
    }
    world.gateway.fails = HF_OK;
    resp_request(c, "INCR n", ":1|");
}

static void a_node_that_stops_answers_first(void **state)
{
    struct resp_client *c = client();
    struct resp_client *idle = client();
    world.gateway.is_held = true;
    resp_send_only(c, "SET a 1 NX PX 5000\r\nGET a\r\n");
    service_drain(world.service);
    resp_world_run(&world);
    assert_null(idle->conn);
    world.gateway.is_held = false;
    resp_world_run(&world);
    resp_expect(c, "+OK|$1|1|");
    assert_null(c->conn);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(set_with_nx_is_an_acquire, set_up, tear_down),
        cmocka_unit_test_setup_teardown(answers_come_in_the_order_of_the_requests, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(requests_carry_the_number_of_their_connection, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(acquires_of_one_connection_share_a_batch, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(reads_that_came_together_share_a_barrier, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_request_may_be_cut_anywhere, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bad_bytes_get_a_protocol_error_and_the_end, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(half_a_request_is_not_waited_for_for_ever, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(an_idle_connection_ends_after_an_hour_a_subscriber_does_not,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_connection_is_idle_while_nothing_hangs_on_it, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_client_that_does_not_read_is_not_read_from, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_lock_whose_grant_was_never_reported_is_given_back, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_connection_may_go_at_any_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_client_that_sends_no_more_still_gets_its_answers, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(quit_ends_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(commands_about_the_connection, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_password_is_requested, set_up_guarded, tear_down),
        cmocka_unit_test_setup_teardown(messages_reach_everybody_who_listens, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_subscriber_of_resp2_may_do_little_else, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_subscriber_that_does_not_read_is_dropped, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(errors_have_the_form_of_redis, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_node_that_stops_answers_first, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

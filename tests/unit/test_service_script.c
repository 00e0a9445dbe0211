/* Scripts of Redis clients in the service: what they read and change is one command, which is made
 * again when others were quicker. What a script may say and do by itself is in test_script*.c. */
#include "resp_testing.h"

static uint64_t transactions(void)
{
    return world.gateway.submitted[COMMAND_TRANSACT];
}

#define TAKE "\"return redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', 30000)\""
#define DROP                                                                                 \
    "\"if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end " \
    "return 0\""

static void a_script_is_one_command(void **state)
{
    struct resp_client *a = client();
    struct resp_client *b = client();
    resp_request(a, "EVAL \"return {KEYS[1], ARGV[1]}\" 1 k v", "*2|$1|k|$1|v|");
    assert_int_equal(transactions(), 0); /* it requested nothing */
    resp_request(a,
                 "EVAL \"for i, k in ipairs(KEYS) do redis.call('set', k, i) end "
                 "return redis.call('publish', 'c', 'x')\" 3 x y z",
                 ":0|");
    assert_int_equal(transactions(), 1);
    resp_request(b, "MGET x y z", "*3|$1|1|$1|2|$1|3|");
    resp_request(b, "EVAL " TAKE " 1 x mine", "$-1|");
    assert_int_equal(transactions(), 2); /* what it saw is confirmed */
    resp_request(b, "EVAL " DROP " 1 x 2", ":0|");
    resp_request(b, "EVAL " DROP " 1 x 1", ":1|");
    resp_request(b, "EVAL " TAKE " 1 x mine", "+OK|");
    struct key_view view;
    view_key(world.gateway.core, 0, slice_of("x"), &view);
    assert_memory_equal(view.value.data, "mine", 4);
}

static void a_script_that_met_a_conflict_is_run_again_from_its_beginning(void **state)
{
    struct resp_client *c = client();
    world.gateway.is_held = true;
    resp_send_only(c, "EVAL " TAKE " 1 k v\r\n");
    resp_world_run(&world);
    take_elsewhere("k");
    world.gateway.is_held = false;
    resp_world_run(&world);
    resp_expect(c, "$-1|");
    assert_int_equal(transactions(), 2);
    struct service_stats stats;
    service_stats(world.service, &stats);
    assert_int_equal(stats.resp_conflicts, 1);
}

static void after_eight_conflicts_a_script_is_given_up(void **state)
{
    struct resp_client *c = client();
    take_elsewhere("k");
    resp_send_only(
        c, "EVAL \"redis.call('exists', KEYS[1]) redis.call('set', KEYS[2], 1)\" 2 k j\r\n");
    for (unsigned i = 0; i < 8; i++) {
        world.gateway.is_held = true;
        service_run(world.service);
        renew_elsewhere("k");
        world.gateway.is_held = false;
        fake_gateway_deliver(&world.gateway);
    }
    resp_world_run(&world);
    resp_expect_start(c, "-TRYAGAIN ");
    assert_int_equal(transactions(), 8);
    resp_request(c, "EXISTS j", ":0|");
}

static void a_script_that_breaks_off_changes_nothing(void **state)
{
    struct resp_client *c = client();
    static const char *const ends[] = {"error('x')", "redis.call('nope')", "while true do end",
                                       "string.rep('x', 2^31)"};
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        char line[128];
        snprintf(line, sizeof(line), "EVAL \"redis.call('set', KEYS[1], 1) %s\" 1 k", ends[i]);
        resp_say(c, line);
        resp_expect_start(c, "-");
        resp_request(c, "EXISTS k", ":0|");
    }
    struct service_stats stats;
    service_stats(world.service, &stats);
    assert_int_equal(stats.resp_scripts, 4);
    assert_int_equal(stats.resp_stopped, 2);
    resp_say(c, "EVAL \"redis.call('set', KEYS[1], 1) return {err='MY own'}\" 1 k");
    resp_expect(c, "-MY own|");
    resp_request(c, "EXISTS k", ":1|");
}

static void scripts_are_known_by_name_until_they_are_flushed(void **state)
{
    struct resp_client *c = client();
    const char *by_name = "EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0";
    resp_request(c, by_name, "-NOSCRIPT No matching script. Please use EVAL.|");
    resp_request(c, "SCRIPT LOAD \"return 1\"", "$40|e0e1f9fabfc9d4800c877a703b823ac0578ff8db|");
    resp_request(c, by_name, ":1|");
    resp_request(c, "EVALSHA_RO E0E1F9FABFC9D4800C877A703B823AC0578FF8DB 0", ":1|");
    resp_request(c, "SCRIPT EXISTS e0e1f9fabfc9d4800c877a703b823ac0578ff8db x", "*2|:1|:0|");
    resp_request(c, "SCRIPT FLUSH", "+OK|");
    resp_request(c, by_name, "-NOSCRIPT No matching script. Please use EVAL.|");
}

static void a_script_that_was_forgotten_between_two_runs_is_requested(void **state)
{
    struct resp_client *c = client();
    struct resp_client *other = client();
    resp_request(c, "SCRIPT LOAD " TAKE, "$40|589a721ea62b059bb6d9747303c25120391c5114|");
    world.gateway.is_held = true;
    resp_send_only(c, "EVALSHA 589a721ea62b059bb6d9747303c25120391c5114 1 k v\r\n");
    resp_world_run(&world);
    take_elsewhere("k");
    resp_request(other, "SCRIPT FLUSH", "+OK|");
    world.gateway.is_held = false;
    resp_world_run(&world);
    resp_expect(c, "-NOSCRIPT No matching script. Please use EVAL.|");
}

static void a_script_may_not_do_all_that_a_client_may(void **state)
{
    struct resp_client *c = client();
    static const char *const refused[] = {"subscribe", "eval", "script",
                                          "client",    "auth", "select"};
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        char line[128];
        snprintf(line, sizeof(line), "EVAL \"return redis.call('%s', 'a', 'b')\" 0", refused[i]);
        resp_say(c, line);
        resp_expect_start(c, "-ERR This Redis command is not allowed from script");
    }
    resp_say(c, "EVAL_RO \"return redis.call('del', KEYS[1])\" 1 k");
    resp_expect_start(c, "-ERR Write commands are not allowed from read-only scripts.");
    resp_request(c, "EVAL_RO \"return redis.call('get', KEYS[1])\" 1 k", "$-1|");
}

static void scripts_that_come_behind_each_other_are_run_in_order(void **state)
{
    struct resp_client *c = client();
    resp_send_only(c, "EVAL " TAKE " 1 k a\r\nEVAL " TAKE " 1 k b\r\nEVAL " DROP " 1 k a\r\n"
                      "EVAL " TAKE " 1 k c\r\nGET k\r\n");
    resp_world_run(&world);
    resp_expect(c, "+OK|$-1|:1|+OK|$1|c|");
}

static void a_script_in_a_transaction_takes_back_only_what_it_did(void **state)
{
    struct resp_client *c = client();
    resp_request(c, "MULTI", "+OK|");
    resp_request(c, "SET a 1", "+QUEUED|");
    resp_request(
        c,
        "EVAL \"redis.call('set', KEYS[1], 2) redis.call('set', KEYS[2], 2) error('x', 0)\" 2 a b",
        "+QUEUED|");
    resp_request(c, "GET b", "+QUEUED|");
    resp_request(c, "EVAL \"return redis.call('get', KEYS[1])\" 1 a", "+QUEUED|");
    resp_request(
        c, "EXEC",
        "*4|+OK|-ERR x script: a20af8dfe872638fe393065f6d596c77863ab47e, on @user_script:1.|"
        "$-1|$1|1|");
    resp_request(c, "MGET a b", "*2|$1|1|$-1|");
    assert_int_equal(transactions(), 1);
}

/* One turn of the service is short, whatever clients run; all have theirs in the end. */
static uint64_t scripts_stopped(void)
{
    struct service_stats stats;
    service_stats(world.service, &stats);
    return stats.resp_stopped;
}

/* A script without an end takes all steps of a turn, or longer than the time of a turn: the next
 * one waits for the next turn, on a machine of any speed. So the length of a turn does not depend
 * on how many scripts wait, and a leader sends its heartbeats in between. */
static void one_turn_runs_one_script_without_an_end(void **state)
{
    struct resp_client *clients[RESP_CLIENTS];
    for (size_t i = 0; i < RESP_CLIENTS; i++) {
        clients[i] = client();
        resp_send_only(clients[i], "EVAL \"while true do end\" 0\r\n");
    }
    for (size_t turn = 1; turn <= RESP_CLIENTS; turn++) {
        service_run(world.service);
        assert_int_equal(scripts_stopped(), turn);
        if (turn < RESP_CLIENTS) {
            assert_int_equal(service_next_ms(world.service), 0); /* the next turn is due at once */
        }
    }
    resp_world_run(&world);
    assert_int_equal(scripts_stopped(), RESP_CLIENTS);
    for (size_t i = 0; i < RESP_CLIENTS; i++) {
        resp_expect_start(clients[i], "-LIMIT ");
    }
}

static void who_sends_no_script_is_answered_in_the_first_turn(void **state)
{
    struct resp_client *clients[RESP_CLIENTS - 1];
    for (size_t i = 0; i < RESP_CLIENTS - 1; i++) {
        clients[i] = client();
        resp_send_only(clients[i], "EVAL \"while true do end\" 0\r\n");
    }
    struct resp_client *other = client();
    resp_send_only(other, "PING\r\n");
    service_run(world.service);
    assert_int_equal(scripts_stopped(), 1);
    struct slice answer = resp_conn_output(other->conn);
    assert_int_equal(answer.len, 7);
    assert_memory_equal(answer.data, "+PONG\r\n", 7);
    resp_world_run(&world);
    resp_expect(other, "+PONG|");
    for (size_t i = 0; i < RESP_CLIENTS - 1; i++) {
        resp_expect_start(clients[i], "-LIMIT ");
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_script_is_one_command),
        TEST(a_script_that_met_a_conflict_is_run_again_from_its_beginning),
        TEST(after_eight_conflicts_a_script_is_given_up),
        TEST(a_script_that_breaks_off_changes_nothing),
        TEST(scripts_are_known_by_name_until_they_are_flushed),
        TEST(a_script_that_was_forgotten_between_two_runs_is_requested),
        TEST(a_script_may_not_do_all_that_a_client_may),
        TEST(a_script_in_a_transaction_takes_back_only_what_it_did),
        TEST(one_turn_runs_one_script_without_an_end),
        TEST(who_sends_no_script_is_answered_in_the_first_turn),
        TEST(scripts_that_come_behind_each_other_are_run_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

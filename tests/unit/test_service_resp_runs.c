/* Runs of commands of the Redis protocol that meet on keys, that belong together, and that a script
 * makes (service/resp/keyspace.h). */
#include "resp_testing.h"

#include "service/resp/conn.h"
#include "service/resp/keyspace_state.h"

/* ---- runs that meet ---- */

/* Of the clients that sent `line`, all at once, before anything is applied. */
static void send_all(struct resp_client **clients, size_t count, const char *line)
{
    world.gateway.is_held = true;
    for (size_t i = 0; i < count; i++) {
        clients[i] = client();
        resp_send_only(clients[i], line);
    }
    resp_world_run(&world);
}

static void deliver(void)
{
    world.gateway.is_held = false;
    resp_world_run(&world);
}

static uint64_t conflicts(void)
{
    struct service_stats stats;
    service_stats(world.service, &stats);
    return stats.resp_conflicts;
}

/* Somebody sets a counter through another node. */
static void count_elsewhere(const char *name, int64_t number)
{
    uint8_t bytes[256];
    struct packer effects = packer_make(bytes, sizeof(bytes));
    struct effect e = {.kind = EFFECT_COUNTER, .name = slice_of(name), .number = number};
    struct command c;
    struct result r;
    assert_true(pack_effect(&effects, &e));
    command_init(&c, COMMAND_TRANSACT);
    c.transact.id = (struct id){78, world.gateway.index};
    c.transact.client = slice_of("elsewhere");
    c.transact.effects = packer_list(&effects);
    fake_gateway_apply(&world.gateway, &c, &r);
    assert_int_equal(r.outcome, OUTCOME_DONE);
}

static void runs_on_one_key_build_on_each_other(void **state)
{
    struct resp_client *clients[10];
    send_all(clients, 10, "INCR n\r\n");
    assert_int_equal(submitted(COMMAND_TRANSACT), 10);
    uint64_t entries = world.gateway.entries;
    deliver();
    assert_int_equal(world.gateway.entries, entries + 1);
    for (size_t i = 0; i < 10; i++) {
        char expected[16];
        snprintf(expected, sizeof(expected), ":%zu|", i + 1);
        resp_expect(clients[i], expected);
    }
    assert_int_equal(conflicts(), 0);
}

static void what_was_built_on_a_refused_run_is_made_again(void **state)
{
    struct resp_client *clients[3];
    struct resp_client *reader = client();
    send_all(clients, 3, "INCR n\r\n");
    resp_send_only(reader, "EVAL \"return redis.call('GET', KEYS[1])\" 1 n\r\n");
    resp_world_run(&world);
    assert_int_equal(submitted(COMMAND_TRANSACT), 4);
    count_elsewhere("n", 100); /* all four conflict */
    deliver();
    resp_expect(clients[0], ":101|");
    resp_expect(clients[1], ":102|");
    resp_expect(clients[2], ":103|");
    resp_expect(reader, "$3|103|"); /* never a number that was not applied */
    assert_int_equal(conflicts(), 4);
}

static void a_failure_of_the_cluster_leaves_nothing_to_build_on(void **state)
{
    struct resp_client *clients[3];
    send_all(clients, 3, "INCR n\r\n");
    world.gateway.fails = HF_UNAVAILABLE;
    deliver();
    for (size_t i = 0; i < 3; i++) {
        resp_expect_start(clients[i], "-CLUSTERDOWN ");
    }
    world.gateway.fails = HF_OK;
    resp_request(clients[0], "INCR n", ":1|");
    assert_int_equal(conflicts(), 0);
}

/* The entry decides the deadline of a key, and its token. */
static void a_run_waits_for_what_only_the_entry_decides(void **state)
{
    struct resp_client *clients[2];
    struct resp_client *c = client();
    resp_request(c, "INCR n", ":1|");
    uint64_t before = submitted(COMMAND_TRANSACT);
    send_all(clients, 1, "PEXPIRE n 5000\r\n");
    send_all(clients + 1, 1, "INCR n\r\n");
    assert_int_equal(submitted(COMMAND_TRANSACT), before + 1);
    deliver();
    resp_expect(clients[0], ":1|");
    resp_expect(clients[1], ":2|");
    resp_request(c, "PTTL n", ":5000|");
    before = submitted(COMMAND_TRANSACT);
    send_all(clients, 1, "SET k v PX 5000\r\n");
    send_all(clients + 1, 1, "EVAL \"return redis.call('GET', KEYS[1])\" 1 k\r\n");
    assert_int_equal(submitted(COMMAND_TRANSACT), before + 1);
    deliver();
    resp_expect(clients[0], "+OK|");
    resp_expect(clients[1], "$1|v|");
    assert_int_equal(conflicts(), 0);
}

static void a_counter_keeps_its_deadline_for_the_next_run(void **state)
{
    struct resp_client *clients[3];
    struct resp_client *c = client();
    resp_request(c, "INCR n", ":1|");
    resp_request(c, "PEXPIRE n 5000", ":1|");
    send_all(clients, 3, "INCR n\r\n");
    deliver();
    resp_expect(clients[2], ":4|");
    resp_request(c, "PTTL n", ":5000|");
    send_all(clients, 1, "PERSIST n\r\n");
    send_all(clients + 1, 1, "INCR n\r\n");
    send_all(clients + 2, 1, "PTTL n\r\n");
    deliver();
    resp_expect(clients[0], ":1|");
    resp_expect(clients[1], ":5|");
    resp_expect(clients[2], ":-1|");
    assert_int_equal(conflicts(), 0);
}

static void a_value_is_changed_once_in_an_entry(void **state)
{
    struct resp_client *c = client();
    resp_request(c, "SET k a", "+OK|");
    uint64_t entries = world.gateway.entries;
    const char *set = "EVAL \"local old = redis.call('GET', KEYS[1]); "
                      "redis.call('SET', KEYS[1], ARGV[1]); return old\" 1 k ";
    struct resp_client *clients[3];
    char line[200];
    for (size_t i = 0; i < 3; i++) {
        snprintf(line, sizeof(line), "%s%c\r\n", set, (int)('b' + i));
        send_all(clients + i, 1, line);
    }
    deliver();
    resp_expect(clients[0], "$1|a|");
    resp_expect(clients[1], "$1|b|");
    resp_expect(clients[2], "$1|c|");
    assert_int_equal(world.gateway.entries, entries + 3);
    assert_int_equal(conflicts(), 0);
    resp_request(c, "GET k", "$1|d|");
    resp_request(c, "TTL k", ":-1|");
}

static void a_value_and_its_removal_are_built_on(void **state)
{
    struct resp_client *clients[4];
    struct resp_client *c = client();
    resp_request(c, "HSET h f 1", ":1|");
    const char *add = "EVAL \"redis.call('HGET', KEYS[1], 'f'); "
                      "return redis.call('HINCRBY', KEYS[1], 'f', 1)\" 1 h\r\n";
    send_all(clients, 2, add);
    send_all(
        clients + 2, 1,
        "EVAL \"redis.call('HGET', KEYS[1], 'f'); return redis.call('DEL', KEYS[1])\" 1 h\r\n");
    send_all(clients + 3, 1, "EVAL \"return redis.call('EXISTS', KEYS[1])\" 1 h\r\n");
    deliver();
    resp_expect(clients[0], ":2|");
    resp_expect(clients[1], ":3|");
    resp_expect(clients[2], ":1|");
    resp_expect(clients[3], ":0|");
    assert_int_equal(conflicts(), 0);
}

static void a_run_that_met_a_conflict_is_made_again(void **state)
{
    struct resp_client *c = client();
    for (unsigned times = 1; times <= 8; times++) {
        char name[16];
        char line[32];
        char expected[16];
        snprintf(name, sizeof(name), "k%u", times);
        snprintf(line, sizeof(line), "SETNX %s v\r\n", name);
        snprintf(expected, sizeof(expected), "%s", times % 2 == 1 ? ":0|" : ":1|");
        world.gateway.is_held = true;
        resp_send_only(c, line);
        resp_world_run(&world);
        if (times % 2 == 1) {
            take_elsewhere(name); /* while it is on its way */
        }
        world.gateway.is_held = false;
        resp_world_run(&world);
        resp_expect(c, expected);
    }
    struct service_stats stats;
    service_stats(world.service, &stats);
    assert_int_equal(stats.resp_conflicts, 4);
}

static void after_eight_conflicts_the_client_gets_try_again(void **state)
{
    struct resp_client *c = client();
    struct resp_client *own = client();
    uint64_t before = world.gateway.submitted[COMMAND_TRANSACT];
    resp_request(own, "SET k v NX PX 5000", "+OK|");
    resp_send_only(c, "SET k w XX GET\r\n");
    for (unsigned i = 0; i < 8; i++) {
        world.gateway.is_held = true;
        service_run(world.service);
        renew_elsewhere("k");
        world.gateway.is_held = false;
        fake_gateway_deliver(&world.gateway);
    }
    resp_world_run(&world);
    resp_expect_start(c, "-TRYAGAIN ");
    assert_int_equal(world.gateway.submitted[COMMAND_TRANSACT] - before, 8);
    resp_request(c, "GET k", "$1|v|");
}

static bool is_never_settled(void *ctx)
{
    (void)ctx;
    return false;
}

static void a_run_that_never_gets_its_turn_is_given_up(void **state)
{
    struct resp_client *c = client();
    world.service->gateway.is_settled = is_never_settled;
    resp_say(c, "INCR n");
    resp_world_pass(&world, 4000);
    resp_expect(c, "");
    resp_world_pass(&world, 1500);
    resp_expect_start(c, "-CLUSTERDOWN ");
    assert_int_equal(world.gateway.submitted[COMMAND_TRANSACT], 0);
}

/* Acquires of other clients are under way: they cannot change a lock that is held. */
static void a_held_lock_is_released_while_others_want_it(void **state)
{
    struct resp_client *c = client();
    resp_request(c, "SET a v NX PX 60000", "+OK|");
    resp_request(c, "SET b v NX PX 60000", "+OK|");
    world.service->gateway.is_settled = is_never_settled;
    resp_request(c, "EVAL \"return redis.call('GET', KEYS[1])\" 1 a", "$1|v|");
    resp_request(c, "DEL a", ":1|");
    uint64_t before = submitted(COMMAND_TRANSACT);
    resp_say(c, "DEL a"); /* it is free: an acquire may take it */
    assert_int_equal(submitted(COMMAND_TRANSACT), before);
    world.service->gateway.is_settled = NULL;
    resp_world_pass(&world, 10);
    resp_expect(c, ":0|");
}

/* A run that has met a conflict is not tried early again: clients of other nodes change the key. */
static void a_run_that_was_too_early_waits_for_its_turn(void **state)
{
    struct resp_client *c = client();
    resp_request(c, "INCR n", ":1|");
    world.service->gateway.is_settled = is_never_settled;
    world.gateway.is_held = true;
    resp_send_only(c, "INCR n\r\n");
    resp_world_run(&world);
    uint64_t before = submitted(COMMAND_TRANSACT);
    count_elsewhere("n", 100);
    world.gateway.is_held = false;
    resp_world_run(&world);
    assert_int_equal(submitted(COMMAND_TRANSACT), before);
    world.service->gateway.is_settled = NULL;
    resp_world_pass(&world, 10);
    resp_expect(c, ":101|");
    assert_int_equal(conflicts(), 1);
}

static void multi_and_exec_are_one_transaction(void **state)
{
    struct resp_client *a = client();
    struct resp_client *b = client();
    resp_request(a, "MULTI", "+OK|");
    resp_request(a, "SET k \"a b\" NX PX 5000", "+QUEUED|");
    resp_request(a, "INCR n", "+QUEUED|");
    resp_request(a, "GET k", "+QUEUED|");
    resp_request(a, "HGET k f", "+QUEUED|");
    resp_request(b, "EXISTS k n", ":0|");
    resp_request(a, "EXEC", "*4|+OK|:1|$3|a b|-WRONGTYPE " KEY_WRONG_TYPE "|");
    assert_int_equal(world.gateway.submitted[COMMAND_TRANSACT], 1);
    resp_request(b, "GET k", "$3|a b|");
    resp_request(a, "EXEC", "-ERR EXEC without MULTI|");
    resp_request(a, "MULTI", "+OK|");
    resp_request(a, "EXEC", "*0|");
    resp_request(a, "MULTI", "+OK|");
    resp_request(a, "INCR n", "+QUEUED|");
    resp_request(a, "MULTI", "-ERR MULTI calls can not be nested|");
    resp_request(a, "DISCARD", "+OK|");
    resp_request(a, "DISCARD", "-ERR DISCARD without MULTI|");
    resp_request(a, "MULTI", "+OK|");
    resp_request(a, "INCR n", "+QUEUED|");
    resp_say(a, "NONSENSE");
    resp_expect_start(a, "-ERR unknown command");
    resp_request(a, "EXEC", "-EXECABORT Transaction discarded because of previous errors.|");
    resp_request(a, "MULTI", "+OK|");
    resp_say(a, "SUBSCRIBE c");
    resp_expect_start(a, "-ERR 'subscribe' is not possible");
    resp_request(a, "EXEC", "-EXECABORT Transaction discarded because of previous errors.|");
    resp_request(a, "GET n", "$1|1|");
}

/* S10: the leader's memory is read without a barrier, and by nobody else. */
static void keys_of_the_tier_efficiency_are_in_the_memory_of_the_leader(void **state)
{
    struct resp_client *c = client();
    world.service->options.resp_tier = TIER_EFFICIENCY;
    world.service->gateway.memory_core = world.gateway.gateway.core; /* there is one core here */
    resp_request(c, "SET k v NX PX 5000", "+OK|");
    resp_request(c, "GET k", "$1|v|");
    resp_request(c, "PEXPIRE k 10000", ":1|");
    resp_request(c, "DEL k", ":1|");
    assert_int_equal(world.gateway.barriers, 0);
    world.service->gateway.memory_core = NULL;
    resp_say(c, "GET k");
    resp_expect_start(c, "-CLUSTERDOWN ");
    world.gateway.status.leader = 2;
    resp_say(c, "GET k");
    resp_expect_start(c, "-READONLY ");
    resp_say(c, "INCR n");
    resp_expect_start(c, "-READONLY ");
    resp_say(c, "SET k v NX PX 5000"); /* it could not be given back here */
    resp_expect_start(c, "-READONLY ");
}

/* ---- as a script sees it ---- */

struct heard {
    char text[256];
};

static void hear(void *ctx, const char *text)
{
    struct heard *h = ctx;
    strncat(h->text, text, sizeof(h->text) - strlen(h->text) - 1);
    strncat(h->text, " ", sizeof(h->text) - strlen(h->text) - 1);
}

static void hear_error(void *ctx, const char *code, const char *text)
{
    hear(ctx, code);
    (void)text;
}

static void hear_integer(void *ctx, int64_t value)
{
    char text[24];
    snprintf(text, sizeof(text), "%lld", (long long)value);
    hear(ctx, text);
}

static void hear_bulk(void *ctx, struct slice bytes)
{
    char text[64];
    snprintf(text, sizeof(text), "%.*s", (int)bytes.len, (const char *)bytes.data);
    hear(ctx, text);
}

static void hear_null(void *ctx)
{
    hear(ctx, "nil");
}

static void hear_count(void *ctx, uint32_t count)
{
    hear_integer(ctx, count);
}

static void call(struct keyspace *k, const char *line, const char *expected)
{
    struct heard h = {""};
    struct key_sink sink = {&h,        hear,      hear_error, hear_integer,
                            hear_bulk, hear_null, hear_count, hear_count};
    struct slice args[8];
    uint32_t count = 0;
    while (*line != '\0') {
        size_t len = strcspn(line, " ");
        args[count++] = slice_make(line, len);
        line += len + (line[len] == ' ');
    }
    keyspace_call(k, args, count, &sink);
    if (strlen(h.text) > 0) {
        h.text[strlen(h.text) - 1] = '\0';
    }
    assert_string_equal(h.text, expected);
}

static struct keyspace *script(const char *client_name)
{
    struct keyspace *k = &world.service->resp->keyspace;
    keyspace_begin(k, caller_node(0), slice_of(client_name), false);
    keyspace_enter_script(k);
    return k;
}

static void submit(struct keyspace *k, enum outcome expected)
{
    struct command c;
    struct result r;
    assert_int_equal(keyspace_build(k, &c), HF_OK);
    fake_gateway_apply(&world.gateway, &c, &r);
    assert_int_equal(r.error, HF_OK);
    assert_int_equal(r.outcome, expected);
}

static void a_script_sees_what_it_has_done(void **state)
{
    struct keyspace *k = script("a");
    call(k, "GET k", "nil");
    call(k, "SET k v PX 5000", "OK");
    call(k, "GET k", "v");
    call(k, "PTTL k", "5000");
    call(k, "INCR n", "1");
    call(k, "INCR n", "2");
    call(k, "HSET h f 1", "1");
    call(k, "HINCRBY h f 2", "3");
    call(k, "DEL h", "1");
    call(k, "EXISTS h k n", "2");
    call(k, "PUBLISH c m", "0");
    call(k, "PING", "ERR");
    call(k, "SUBSCRIBE c", "ERR");
    call(k, "SCAN 0", "ERR");
    call(k, "NONSENSE", "ERR");
    call(k, "GET", "ERR");
    call(k, "HF.TOKEN k v", "ERR"); /* it has none before it is done */
    submit(k, OUTCOME_DONE);
    struct resp_client *c = client();
    resp_request(c, "MGET k n h", "*3|$1|v|$1|2|$-1|");
}

static void a_script_counts_within_a_window(void **state)
{
    struct resp_client *c = client();
    struct keyspace *k = script("a");
    call(k, "INCR n", "1");
    call(k, "PEXPIRE n 10000", "1");
    call(k, "PTTL n", "10000");
    submit(k, OUTCOME_DONE);
    resp_request(c, "PTTL n", ":10000|");
    k = script("a");
    call(k, "PERSIST n", "1");
    call(k, "PTTL n", "-1");
    call(k, "PERSIST n", "0");
    call(k, "EXPIRE n 20", "1");
    submit(k, OUTCOME_DONE);
    resp_request(c, "PTTL n", ":20000|");
    k = script("a"); /* what is new after a DEL has no TTL of the old one */
    call(k, "DEL n", "1");
    call(k, "PTTL n", "-2");
    call(k, "INCRBY n 7", "7");
    call(k, "PTTL n", "-1");
    submit(k, OUTCOME_DONE);
    resp_request(c, "TTL n", ":-1|");
    resp_request(c, "GET n", "$1|7|");
}

/* The window ended between the script's reading and its writing: it is run again. */
static void a_window_that_ended_meanwhile_is_a_conflict(void **state)
{
    struct resp_client *c = client();
    resp_request(c, "INCR n", ":1|");
    resp_request(c, "PEXPIRE n 1000", ":1|");
    struct keyspace *k = script("a");
    call(k, "INCR n", "2");
    fake_gateway_pass(&world.gateway, 1000);
    submit(k, OUTCOME_REFUSED);
    k = script("a");
    call(k, "INCR n", "1");
    submit(k, OUTCOME_DONE);
}

static void a_script_that_compared_may_delete(void **state)
{
    struct resp_client *c = client();
    resp_request(c, "SET k v NX PX 30000", "+OK|");
    struct keyspace *k = script("b");
    call(k, "EXISTS k", "1"); /* that it is there says nothing about whose it is */
    call(k, "SET k w", "ERR");
    call(k, "GET k", "v");
    call(k, "DEL k", "1");
    submit(k, OUTCOME_DONE);
    assert_int_equal(audited(), 0);
    resp_request(c, "SET k v NX PX 30000", "+OK|");
    k = script("b");
    call(k, "DEL k", "1"); /* Redisson's forceUnlock */
    submit(k, OUTCOME_DONE);
    assert_int_equal(audited(), 1);
}

static void a_script_is_done_only_if_nothing_it_read_has_changed(void **state)
{
    struct resp_client *c = client();
    resp_request(c, "SET k v NX PX 30000", "+OK|");
    struct keyspace *k = script("b");
    call(k, "GET k", "v");
    call(k, "SET other w", "OK");
    struct command command;
    struct result r;
    assert_int_equal(keyspace_build(k, &command), HF_OK);
    take_elsewhere("unrelated");
    fake_gateway_apply(&world.gateway, &command, &r);
    assert_int_equal(r.outcome, OUTCOME_DONE);
    k = script("b");
    call(k, "GET k", "v");
    call(k, "GET free", "nil");
    call(k, "SET third w", "OK");
    assert_int_equal(keyspace_build(k, &command), HF_OK);
    take_elsewhere("free");
    fake_gateway_apply(&world.gateway, &command, &r);
    assert_int_equal(r.outcome, OUTCOME_REFUSED);
    assert_int_equal(r.reason, REASON_CONFLICT);
    resp_request(c, "EXISTS other third", ":1|");
}

static void a_script_has_bounds(void **state)
{
    struct keyspace *k = script("a");
    char line[64];
    for (int i = 0; i < LIMIT_CHECKS; i++) {
        snprintf(line, sizeof(line), "EXISTS k%d", i);
        call(k, line, "0");
    }
    call(k, "EXISTS more", "ERR");
    call(k, "EXISTS k1", "0");
    for (int i = 0; i < LIMIT_EFFECTS; i++) {
        call(k, "PUBLISH c m", "0");
    }
    call(k, "PUBLISH c m", "ERR");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(runs_on_one_key_build_on_each_other, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_was_built_on_a_refused_run_is_made_again, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_failure_of_the_cluster_leaves_nothing_to_build_on, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_run_waits_for_what_only_the_entry_decides, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_counter_keeps_its_deadline_for_the_next_run, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_value_is_changed_once_in_an_entry, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_value_and_its_removal_are_built_on, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_run_that_met_a_conflict_is_made_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(after_eight_conflicts_the_client_gets_try_again, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_run_that_never_gets_its_turn_is_given_up, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_held_lock_is_released_while_others_want_it, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_run_that_was_too_early_waits_for_its_turn, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(multi_and_exec_are_one_transaction, set_up, tear_down),
        cmocka_unit_test_setup_teardown(keys_of_the_tier_efficiency_are_in_the_memory_of_the_leader,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_script_sees_what_it_has_done, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_script_counts_within_a_window, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_window_that_ended_meanwhile_is_a_conflict, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_script_that_compared_may_delete, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_script_is_done_only_if_nothing_it_read_has_changed,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_script_has_bounds, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

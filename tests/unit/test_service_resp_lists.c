/* Lists, sorted sets and clients that wait for them (service/resp/blocking.c). That the commands answer
 * as Redis does is compared in tests/cluster/test_resp_lists.py. */
#include "resp_testing.h"

#include "service/resp/conn.h"

static uint64_t waits(void)
{
    return world.service->resp->wait_count;
}

static void deliver(void)
{
    world.gateway.is_held = false;
    resp_world_run(&world);
}

/* Another node changes a list without having seen it. */
static void put_elsewhere(const char *name, struct slice list)
{
    static uint8_t bytes[9000];
    struct packer effects = packer_make(bytes, sizeof(bytes));
    struct effect e = {.kind = EFFECT_PUT,
                       .flags = EFFECT_LIST | EFFECT_VALUE,
                       .name = slice_of(name),
                       .value = list,
                       .lease = {79, world.gateway.index},
                       .ttl_ms = TTL_NONE};
    struct command c;
    struct result r;
    assert_true(pack_effect(&effects, &e));
    command_init(&c, COMMAND_TRANSACT);
    c.transact.id = (struct id){80, world.gateway.index};
    c.transact.client = slice_of("elsewhere");
    c.transact.effects = packer_list(&effects);
    fake_gateway_apply(&world.gateway, &c, &r);
    assert_int_equal(r.outcome, OUTCOME_DONE);
}

/* ---- values ---- */

static void a_list_is_a_value_without_an_owner_and_a_ttl(void **state)
{
    struct resp_client *a = client();
    struct resp_client *b = client();
    struct key_view view;
    resp_request(a, "RPUSH l a b", ":2|");
    resp_request(b, "LPUSH l c", ":3|");
    view_key(world.gateway.core, 0, slice_of("l"), &view);
    assert_int_equal(view.kind, KEY_LIST);
    assert_true(view.is_value);
    assert_true(slice_equal(view.value, slice_of("\1c\1a\1b")));
    resp_request(b, "TTL l", ":-1|");
    resp_request(b, "PEXPIRE l 50", ":1|");
    resp_request(b, "RPUSH l d", ":4|"); /* keeps it */
    resp_world_pass(&world, 50);
    resp_request(a, "EXISTS l", ":0|");
    /* It needs no force, whoever deletes it. */
    resp_request(a, "RPUSH l a", ":1|");
    resp_request(b, "DEL l", ":1|");
    assert_int_equal(audited(), 0);
}

static void a_lock_is_not_made_a_list(void **state)
{
    struct resp_client *a = client();
    struct resp_client *b = client();
    resp_request(a, "SET l v NX PX 5000", "+OK|");
    resp_say(b, "RPUSH l x");
    resp_expect_start(b, "-WRONGTYPE");
    resp_request(b, "MULTI", "+OK|");
    resp_request(b, "DEL l", "+QUEUED|");
    resp_request(b, "RPUSH l x", "+QUEUED|");
    resp_say(b, "EXEC");
    resp_expect_start(b, "*2\r\n:1\r\n-ERR the lock is held by another connection");
}

static void members_are_sorted_by_score_and_name(void **state)
{
    struct resp_client *c = client();
    struct key_view view;
    resp_request(c, "ZADD z 2 b 1 x 2 a -0 o 2 aa", ":5|");
    view_key(world.gateway.core, 0, slice_of("z"), &view);
    assert_int_equal(view.kind, KEY_SORTED_SET);
    assert_int_equal(view.value.len, 5 * 10 + 1);
    assert_memory_equal(view.value.data, "\0\0\0\0\0\0\0\0\1o", 10); /* no -0 */
    resp_request(c, "ZRANGE z 0 -1", "*5|$1|o|$1|x|$1|a|$2|aa|$1|b|");
    /* The same set by another way has the same bytes. */
    resp_request(c, "ZADD y 7 aa 2 a 0 o 3 b 1 x", ":5|");
    resp_request(c, "ZADD y 2 aa 2 b", ":0|");
    struct key_view other;
    view_key(world.gateway.core, 0, slice_of("y"), &other);
    view_key(world.gateway.core, 0, slice_of("z"), &view);
    assert_true(slice_equal(view.value, other.value));
}

static void members_of_a_set_are_distinct_and_sorted(void **state)
{
    struct resp_client *a = client();
    struct resp_client *b = client();
    struct key_view view;
    resp_request(a, "SADD s b a b", ":2|");
    resp_request(b, "SADD s aa a", ":1|");
    view_key(world.gateway.core, 0, slice_of("s"), &view);
    assert_int_equal(view.kind, KEY_SET);
    assert_true(view.is_value);
    assert_true(slice_equal(view.value, slice_of("\1a\2aa\1b")));
    resp_request(b, "TYPE s", "+set|");
    resp_request(b, "SCAN 0 TYPE set COUNT 100", "*2|$13|1099511627776|*1|$1|s|");
    resp_request(b, "SREM s a b aa x", ":3|");
    resp_request(b, "EXISTS s", ":0|");
    /* The largest value, and one byte more. */
    char line[5000] = "SADD s ";
    memset(line + strlen(line), 'x', 4094);
    resp_request(a, line, ":1|");
    resp_say(a, "SADD s y");
    resp_expect_start(a, "-ERR limit_value: the members of a set take at most 4096 bytes");
    resp_request(b, "SCARD s", ":1|");
    resp_request(b, "DEL s", ":1|");
    assert_int_equal(audited(), 0);
}

static void scores_have_17_digits(void **state)
{
    struct resp_client *c = client();
    resp_request(c, "ZADD z 0.1 a 3 b 1e100 c", ":3|");
    resp_request(c, "ZSCORE z a", "$19|0.10000000000000001|");
    resp_request(c, "ZMSCORE z b c x", "*3|$1|3|$6|1e+100|$-1|");
    resp_say(c, "HELLO 3");
    resp_expect_start(c, "%");
    resp_request(c, "ZINCRBY z 0.2 a", ",0.30000000000000004|");
    resp_request(c, "ZPOPMIN z 2", "*2|*2|$1|a|,0.30000000000000004|*2|$1|b|,3|");
    resp_request(c, "ZADD z inf c", ":0|");
    resp_request(c, "ZSCORE z c", ",inf|");
}

static void before_version_9_there_are_none(void **state)
{
    struct resp_client *c;
    fake_gateway_start_over(&world.gateway, 8);
    c = client();
    resp_say(c, "RPUSH l a");
    resp_expect_start(c, "-ERR not_upgraded");
    resp_say(c, "ZADD z 1 a");
    resp_expect_start(c, "-ERR not_upgraded");
    resp_request(c, "LLEN l", ":0|");
}

/* ---- waiting ---- */

static void who_waits_is_served_in_order(void **state)
{
    struct resp_client *pusher = client();
    struct resp_client *c[4];
    for (unsigned i = 0; i < 4; i++) {
        c[i] = client();
        resp_request(c[i], i == 2 ? "BLPOP k l 0" : "BRPOP l 0", "");
    }
    assert_int_equal(waits(), 4);
    resp_request(pusher, "RPUSH l a", ":1|");
    resp_expect(c[0], "*2|$1|l|$1|a|");
    resp_expect(c[1], "");
    resp_request(pusher, "RPUSH l b c", ":2|"); /* one event, two elements */
    resp_expect(c[1], "*2|$1|l|$1|c|");
    resp_expect(c[2], "*2|$1|l|$1|b|");
    resp_expect(c[3], "");
    put_elsewhere("l", slice_of("\1x"));
    resp_world_run(&world);
    resp_expect(c[3], "*2|$1|l|$1|x|");
    assert_int_equal(waits(), 0);
    resp_request(pusher, "EXISTS l", ":0|");
}

static void a_wait_costs_nothing_while_nothing_happens(void **state)
{
    struct resp_client *c = client();
    resp_request(c, "BLPOP l 100", "");
    uint64_t before = submitted(COMMAND_TRANSACT);
    uint64_t barriers = world.gateway.barriers;
    resp_world_pass(&world, 99999);
    resp_expect(c, "");
    assert_int_equal(submitted(COMMAND_TRANSACT), before);
    assert_int_equal(world.gateway.barriers, barriers);
    resp_world_pass(&world, 1);
    resp_expect(c, "*-1|");
    assert_int_equal(world.gateway.barriers, barriers + 1); /* nil is an answer of now */
    assert_int_equal(submitted(COMMAND_TRANSACT), before);
    assert_int_equal(waits(), 0);
}

/* A request of a command, the key "k", perhaps a score, and a word of `len` bytes: a line may not be
 * that long. */
static void say_long(struct resp_client *c, const char *command, bool has_score, size_t len)
{
    static char text[LIMIT_KEY_VALUE + 100];
    size_t at = (size_t)snprintf(text, sizeof(text), "*%d\r\n$%zu\r\n%s\r\n$1\r\nk\r\n%s$%zu\r\n",
                                 has_score ? 4 : 3, strlen(command), command,
                                 has_score ? "$1\r\n1\r\n" : "", len);
    assert_true(at + len + 2 <= sizeof(text));
    memset(text + at, 'x', len);
    memcpy(text + at + len, "\r\n", 2);
    resp_send_bytes(c, text, at + len + 2);
}

static void expect_length(size_t len)
{
    struct key_view view;
    view_key(world.gateway.core, 0, slice_of("k"), &view);
    assert_int_equal(view.value.len, len);
}

static void open_with(uint32_t value_max)
{
    struct service_options options = {.resp_value_max = value_max};
    resp_world_close(&world);
    resp_world_open(&world, &counted.memory, &options);
}

/* The largest value of each type, and one byte more. */
static void values_are_as_long_as_the_setting_allows(void **state)
{
    open_with(LIMIT_KEY_VALUE);
    struct resp_client *c = client();
    say_long(c, "SET", false, LIMIT_KEY_VALUE);
    resp_expect(c, "+OK|");
    expect_length(LIMIT_KEY_VALUE);
    resp_request(c, "DEL k", ":1|");
    const struct {
        const char *command;
        const char *what;
        bool has_score;
        size_t head;
    } types[] = {
        {"RPUSH", "the elements of a list", false, 3},
        {"SADD", "the members of a set", false, 3},
        {"ZADD", "the members of a sorted set", true, 8 + 3},
    };
    for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
        char error[100];
        snprintf(error, sizeof(error), "-ERR limit_value: %s take at most 65536 bytes",
                 types[i].what);
        say_long(c, types[i].command, types[i].has_score, LIMIT_KEY_VALUE - types[i].head + 1);
        resp_expect_start(c, error);
        say_long(c, types[i].command, types[i].has_score, LIMIT_KEY_VALUE - types[i].head);
        resp_expect(c, ":1|");
        say_long(c, types[i].command, types[i].has_score, 0);
        resp_expect_start(c, error);
        expect_length(LIMIT_KEY_VALUE);
        resp_request(c, "DEL k", ":1|");
    }
}

/* Made by a node with a higher limit. */
static void a_value_above_the_limit_may_shrink(void **state)
{
    static char list[9000];
    struct resp_client *c = client();
    memcpy(list, "\xff\x1f", 2); /* 4,095 bytes, and 3,000 */
    memset(list + 2, 'x', 4095);
    memcpy(list + 4097, "\xb8\x17", 2);
    memset(list + 4099, 'y', 3000);
    put_elsewhere("k", slice_make(list, 7099));
    resp_request(c, "LLEN k", ":2|");
    resp_say(c, "RPUSH k z");
    resp_expect_start(c, "-ERR limit_value");
    resp_request(c, "LSET k 1 z", "+OK|");
    expect_length(4099);
    resp_say(c, "LSET k 1 zz");
    resp_expect_start(c, "-ERR limit_value");
    resp_request(c, "RPOP k", "$1|z|");
    expect_length(4097);
}

/* The members of a rolling upgrade read no longer ones, whatever the setting. */
static void an_earlier_state_has_the_earlier_limits(void **state)
{
    open_with(LIMIT_KEY_VALUE);
    struct resp_client *c = client();
    char request[60000];
    size_t at = (size_t)snprintf(request, sizeof(request), "*23\r\n$4\r\nMSET\r\n");
    for (uint32_t i = 0; i < 11; i++) { /* more than 40 KiB together */
        at += (size_t)snprintf(request + at, sizeof(request) - at, "$3\r\nk%02u\r\n$4000\r\n", i);
        memset(request + at, 'x', 4000);
        memcpy(request + at + 4000, "\r\n", 2);
        at += 4002;
    }
    resp_send_bytes(c, request, at);
    resp_expect(c, "+OK|");
    fake_gateway_start_over(&world.gateway, 8);
    resp_send_bytes(c, request, at);
    resp_expect_start(c, "-ERR limit_transaction");
    say_long(c, "SET", false, LIMIT_VALUE + 1);
    resp_expect_start(c, "-ERR a value is at most 4096 bytes");
    say_long(c, "SET", false, LIMIT_VALUE);
    resp_expect(c, "+OK|");
}

static void at_its_end_a_wait_without_a_majority_is_an_error(void **state)
{
    struct resp_client *c = client();
    resp_request(c, "BLPOP l 1", "");
    world.gateway.fails = HF_UNAVAILABLE;
    resp_world_pass(&world, 1000);
    resp_expect_start(c, "-CLUSTERDOWN");
    world.gateway.fails = HF_OK;
}

static void a_client_that_goes_passes_its_turn_on(void **state)
{
    struct resp_client *pusher = client();
    struct resp_client *first = client();
    struct resp_client *second = client();
    resp_request(first, "BLPOP l 0", "");
    resp_request(second, "BLPOP l 0", "");
    /* It goes after it was woken, and before it ran. */
    world.gateway.is_held = true;
    resp_send_only(pusher, "RPUSH l a\r\n");
    resp_world_run(&world);
    world.gateway.is_held = false;
    fake_gateway_deliver(&world.gateway);
    resp_client_close(first);
    resp_world_run(&world);
    resp_expect(pusher, ":1|");
    resp_expect(second, "*2|$1|l|$1|a|");
    assert_int_equal(waits(), 0);
}

static void who_ends_its_input_waits_no_more(void **state)
{
    struct resp_client *pusher = client();
    struct resp_client *c = client();
    resp_request(c, "BLPOP l 0", "");
    resp_conn_end(c->conn);
    resp_world_run(&world);
    assert_null(c->conn);
    assert_int_equal(waits(), 0);
    resp_request(pusher, "RPUSH l a", ":1|");
    resp_request(pusher, "LLEN l", ":1|");
}

/* The pop that made the list look empty is refused, so the element is still there. */
static void an_empty_list_that_was_only_expected_is_looked_at_again(void **state)
{
    struct resp_client *popper = client();
    struct resp_client *waiter = client();
    resp_request(popper, "RPUSH l a", ":1|");
    world.gateway.is_held = true;
    resp_send_only(popper, "LPOP l\r\n");
    resp_world_run(&world);
    resp_send_only(waiter, "BLPOP l 0\r\n");
    resp_world_run(&world);
    assert_int_equal(waits(), 1);
    put_elsewhere("l", slice_of("\1b\1c"));
    deliver();
    resp_expect(popper, "$1|b|");
    resp_expect(waiter, "*2|$1|l|$1|c|");
}

/* Another node's change has the number that the first of these changes would have had. */
static void no_change_is_lost_between_two_nodes(void **state)
{
    struct resp_client *c[2] = {client(), client()};
    resp_request(c[0], "RPUSH l a", ":1|");
    world.gateway.is_held = true;
    resp_send_only(c[0], "RPUSH l b\r\n");
    resp_world_run(&world);
    resp_send_only(c[1], "RPUSH l c\r\n");
    resp_world_run(&world);
    put_elsewhere("l", slice_of("\1x"));
    deliver();
    resp_expect(c[0], ":3|"); /* after its conflict */
    resp_expect(c[1], ":2|");
    resp_request(c[0], "LRANGE l 0 -1", "*3|$1|x|$1|c|$1|b|");
}

static void a_conflict_does_not_change_the_order(void **state)
{
    struct resp_client *c[3];
    for (unsigned i = 0; i < 3; i++) {
        c[i] = client();
        resp_request(c[i], "BLPOP l 0", "");
    }
    world.gateway.is_held = true;
    put_elsewhere("l", slice_of("\1a\1b"));
    resp_world_run(&world);
    put_elsewhere("l", slice_of("\1x\1y"));
    deliver();
    resp_expect(c[0], "*2|$1|l|$1|x|");
    resp_expect(c[1], "*2|$1|l|$1|y|");
    resp_expect(c[2], "");
    resp_request(client(), "RPUSH l z", ":1|");
    resp_expect(c[2], "*2|$1|l|$1|z|");
}

/* The same when nobody hears of the refusal any more. */
static void a_popper_that_is_gone_misleads_nobody(void **state)
{
    struct resp_client *popper = client();
    struct resp_client *waiter = client();
    resp_request(popper, "RPUSH l a", ":1|");
    world.gateway.is_held = true;
    resp_send_only(popper, "LPOP l\r\n");
    resp_world_run(&world);
    resp_send_only(waiter, "BLPOP l 0\r\n");
    resp_world_run(&world);
    resp_client_close(popper);
    put_elsewhere("l", slice_of("\1b\1c"));
    deliver();
    resp_expect(waiter, "*2|$1|l|$1|b|");
}

static void lost_events_make_all_look_again(void **state)
{
    struct resp_client *c = client();
    resp_request(c, "BLPOP l 0", "");
    service_state_replaced(world.service); /* still nothing there */
    resp_world_run(&world);
    resp_expect(c, "");
    world.gateway.service = NULL; /* it gets no event */
    put_elsewhere("l", slice_of("\1a"));
    world.gateway.service = world.service;
    resp_world_run(&world);
    resp_expect(c, "");
    service_state_replaced(world.service);
    resp_world_run(&world);
    resp_expect(c, "*2|$1|l|$1|a|");
}

static void a_node_that_stops_ends_all_waits(void **state)
{
    struct resp_client *c = client();
    resp_request(c, "BLPOP l 0", "");
    service_drain(world.service);
    resp_world_run(&world);
    resp_expect_start(c, "-CLUSTERDOWN");
    assert_null(c->conn);
    assert_int_equal(waits(), 0);
}

static void a_transaction_does_not_wait(void **state)
{
    struct resp_client *c = client();
    resp_request(c, "MULTI", "+OK|");
    resp_request(c, "BLPOP l 0", "+QUEUED|");
    resp_request(c, "BRPOPLPUSH l m 0", "+QUEUED|");
    resp_request(c, "RPUSH l a", "+QUEUED|");
    resp_request(c, "BLPOP l 0", "+QUEUED|");
    resp_request(c, "EXEC", "*4|*-1|$-1|:1|*2|$1|l|$1|a|");
    resp_say(c, "EVAL \"return redis.call('blpop','l',0)\" 0");
    resp_expect_start(c, "-ERR This Redis command is not allowed from script");
}

static void requests_behind_a_wait_are_answered_after_it(void **state)
{
    struct resp_client *c = client();
    resp_request(c, "BLPOP l 0\r\nPING", "");
    resp_request(client(), "RPUSH l a", ":1|");
    resp_expect(c, "*2|$1|l|$1|a|+PONG|");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_list_is_a_value_without_an_owner_and_a_ttl),
        TEST(a_lock_is_not_made_a_list),
        TEST(members_are_sorted_by_score_and_name),
        TEST(members_of_a_set_are_distinct_and_sorted),
        TEST(scores_have_17_digits),
        TEST(before_version_9_there_are_none),
        TEST(who_waits_is_served_in_order),
        TEST(a_wait_costs_nothing_while_nothing_happens),
        TEST(values_are_as_long_as_the_setting_allows),
        TEST(a_value_above_the_limit_may_shrink),
        TEST(an_earlier_state_has_the_earlier_limits),
        TEST(at_its_end_a_wait_without_a_majority_is_an_error),
        TEST(a_client_that_goes_passes_its_turn_on),
        TEST(who_ends_its_input_waits_no_more),
        TEST(an_empty_list_that_was_only_expected_is_looked_at_again),
        TEST(no_change_is_lost_between_two_nodes),
        TEST(a_conflict_does_not_change_the_order),
        TEST(a_popper_that_is_gone_misleads_nobody),
        TEST(lost_events_make_all_look_again),
        TEST(a_node_that_stops_ends_all_waits),
        TEST(a_transaction_does_not_wait),
        TEST(requests_behind_a_wait_are_answered_after_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

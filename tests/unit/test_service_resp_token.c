/* Fencing tokens over the Redis protocol: HF.ACQUIRE and HF.TOKEN. */
#include "resp_testing.h"

static uint64_t token_of(const char *name)
{
    struct key_view view;
    view_key(world.gateway.core, 0, slice_of(name), &view);
    return view.token;
}

/* What was received is an integer; returns it and forgets it. */
static uint64_t take_integer(struct resp_client *c)
{
    assert_non_null(c->got);
    if (c->got_len == 0 || c->got[0] != ':') {
        fail_msg("\"%.200s\" is no integer", c->got_len == 0 ? "" : c->got);
    }
    uint64_t value = strtoull(c->got + 1, NULL, 10);
    c->got_len = 0;
    c->got[0] = '\0';
    return value;
}

static uint64_t request_integer(struct resp_client *c, const char *line)
{
    resp_say(c, line);
    return take_integer(c);
}

static uint64_t waiting(void)
{
    struct service_stats stats;
    service_stats(world.service, &stats);
    return stats.waiting;
}

/* ---- HF.TOKEN ---- */

static void a_token_is_given_to_the_owner_only(void **state)
{
    struct resp_client *a = client();
    struct resp_client *b = client();
    resp_request(a, "SET k mine NX PX 5000", "+OK|");
    assert_int_equal(request_integer(a, "HF.TOKEN k mine"), token_of("k"));
    assert_int_equal(request_integer(b, "HF.TOKEN k mine"), token_of("k")); /* of the same pool */
    resp_request(b, "HF.TOKEN k yours", "$-1|");
    resp_request(b, "HF.TOKEN k min", "$-1|");
    resp_request(b, "HF.TOKEN k \"\"", "$-1|");
    resp_request(b, "HF.TOKEN nothing mine", "$-1|");
    resp_request(b, "INCR n", ":1|");
    resp_request(b, "HF.TOKEN n 1", "$-1|");
    resp_say(b, "HF.TOKEN \"\" v");
    resp_expect_start(b, "-ERR invalid key");
}

static void a_holder_that_paused_does_not_get_the_next_holders_token(void **state)
{
    struct resp_client *a = client();
    struct resp_client *b = client();
    resp_request(a, "SET k first NX PX 1000", "+OK|");
    uint64_t first = request_integer(a, "HF.TOKEN k first");
    resp_world_pass(&world, 1001);
    resp_request(b, "SET k second NX PX 5000", "+OK|");
    resp_request(a, "HF.TOKEN k first", "$-1|");
    assert_true(request_integer(b, "HF.TOKEN k second") > first);
}

static void the_owner_of_a_hash_is_one_of_its_fields(void **state)
{
    struct resp_client *a = client();
    resp_request(a, "HSET h uuid:7 1", ":1|");
    assert_int_equal(request_integer(a, "HF.TOKEN h uuid:7"), token_of("h"));
    resp_request(a, "HF.TOKEN h uuid:8", "$-1|");
    resp_request(a, "HF.TOKEN h 1", "$-1|");
}

static void a_lock_of_another_api_gives_no_token(void **state)
{
    struct resp_client *c = client();
    take_elsewhere("k");
    resp_request(c, "GET k", "$13|holdfast:curl|");
    resp_request(c, "HF.TOKEN k holdfast:curl", "$-1|"); /* everybody can read that */
    resp_request(c, "HF.TOKEN k \"\"", "$-1|");
}

static void the_old_form_says_what_to_use(void **state)
{
    struct resp_client *c = client();
    resp_request(c, "SET k v NX PX 5000", "+OK|");
    resp_say(c, "HF.TOKEN k");
    assert_non_null(strstr(c->got, "HF.TOKEN key value"));
    assert_non_null(strstr(c->got, "HF.ACQUIRE key value PX ms"));
    resp_expect_start(c, "-ERR HF.TOKEN needs the value");
    resp_request(c, "HF.TOKEN k v w", "-ERR wrong number of arguments for 'hf.token' command|");
    resp_request(c, "HF.TOKEN", "-ERR wrong number of arguments for 'hf.token' command|");
}

/* ---- HF.ACQUIRE ---- */

static void acquire_answers_with_the_token(void **state)
{
    struct resp_client *a = client();
    struct resp_client *b = client();
    uint64_t first = request_integer(a, "HF.ACQUIRE k mine PX 5000");
    assert_int_equal(first, token_of("k"));
    assert_int_equal(submitted(COMMAND_ACQUIRE), 1);
    resp_request(b, "GET k", "$4|mine|");
    resp_request(b, "PTTL k", ":5000|");
    resp_request(b, "HF.ACQUIRE k yours PX 5000", "$-1|");
    resp_request(b, "HF.ACQUIRE k yours PX 5000 WAIT 0", "$-1|");
    resp_request(a, "DEL k", ":1|");
    assert_true(request_integer(b, "hf.acquire k yours wait 0 px 5000") > first);
    resp_request(a, "SET other v NX PX 5000", "+OK|"); /* which stays as it was */
}

static void a_max_hold_ends_it_although_its_owner_extends_it(void **state)
{
    struct resp_client *c = client();
    (void)request_integer(c, "HF.ACQUIRE k mine PX 5000 MAXHOLD 8000");
    resp_world_pass(&world, 4000);
    resp_request(c, "PEXPIRE k 5000", ":1|");
    resp_request(c, "PTTL k", ":4000|");
    resp_world_pass(&world, 4001);
    resp_request(c, "EXISTS k", ":0|");
}

static void acquire_refuses_what_makes_no_lock(void **state)
{
    struct resp_client *c = client();
    static const char *const wrong[] = {
        "HF.ACQUIRE k v",
        "HF.ACQUIRE k v PX",
        "HF.ACQUIRE k v EX 5",
        "HF.ACQUIRE k v WAIT 100",
        "HF.ACQUIRE k v PX 5000 PX 5000",
        "HF.ACQUIRE k v PX 5000 WAIT",
        "HF.ACQUIRE k v PX 5000 WAIT 1 WAIT 1",
        "HF.ACQUIRE k v PX 5000 MAXHOLD",
        "HF.ACQUIRE k v PX 5000 MAXHOLD 100 MAXHOLD 100",
        "HF.ACQUIRE k v PX 5000 NX",
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        resp_say(c, wrong[i]);
        resp_expect_start(c, "-ERR syntax error: HF.ACQUIRE key value PX");
    }
    static const char *const times[] = {"HF.ACQUIRE k v PX 0", "HF.ACQUIRE k v PX -1",
                                        "HF.ACQUIRE k v PX 315360000001 WAIT 5"};
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        resp_say(c, times[i]);
        resp_expect_start(c, "-ERR invalid expire time");
    }
    static const char *const waits[] = {"HF.ACQUIRE k v PX 5000 WAIT -1",
                                        "HF.ACQUIRE k v PX 5000 WAIT 86400001",
                                        "HF.ACQUIRE k v PX 5000 WAIT soon"};
    for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
        resp_say(c, waits[i]);
        resp_expect_start(c, "-ERR invalid WAIT");
    }
    static const char *const holds[] = {"HF.ACQUIRE k v PX 5000 MAXHOLD 99",
                                        "HF.ACQUIRE k v PX 5000 MAXHOLD 2678400001",
                                        "HF.ACQUIRE k v PX 5000 MAXHOLD long"};
    for (size_t i = 0; i < sizeof(holds) / sizeof(holds[0]); i++) {
        resp_say(c, holds[i]);
        resp_expect_start(c, "-ERR invalid MAXHOLD");
    }
    resp_say(c, "HF.ACQUIRE \"\" v PX 5000");
    resp_expect_start(c, "-ERR invalid key");
    char large[4200] = "HF.ACQUIRE k ";
    memset(large + 13, 'v', 4097);
    memcpy(large + 13 + 4097, " PX 5000", 9);
    resp_say(c, large);
    resp_expect_start(c, "-ERR a value is at most");
    resp_request(c, "INCR n", ":1|");
    resp_say(c, "HF.ACQUIRE n v PX 5000");
    resp_expect_start(c, "$-1\r\n"); /* a counter is in the way, as for SET NX */
    resp_request(c, "EXISTS k", ":0|");
}

static void acquire_waits_for_its_turn(void **state)
{
    struct resp_client *a = client();
    struct resp_client *b = client();
    uint64_t first = request_integer(a, "HF.ACQUIRE k mine PX 30000");
    resp_say(b, "HF.ACQUIRE k yours PX 5000 WAIT 10000\r\nPTTL k");
    resp_expect(b, "");
    assert_int_equal(waiting(), 1);
    resp_world_pass(&world, 2000);
    resp_expect(b, "");
    resp_request(a, "DEL k", ":1|");
    char expected[64];
    assert_true(token_of("k") > first);
    snprintf(expected, sizeof(expected), ":%llu|:5000|", (unsigned long long)token_of("k"));
    resp_expect(b, expected); /* its TTL began with the grant */
    assert_int_equal(waiting(), 0);
}

static void acquire_waits_no_longer_than_it_said(void **state)
{
    struct resp_client *a = client();
    struct resp_client *b = client();
    (void)request_integer(a, "HF.ACQUIRE k mine PX 30000");
    resp_say(b, "HF.ACQUIRE k yours PX 5000 WAIT 3000");
    resp_world_pass(&world, 2999);
    resp_expect(b, "");
    resp_world_pass(&world, 2);
    resp_expect(b, "$-1|");
    assert_int_equal(waiting(), 0);
}

static void who_waits_and_closes_leaves_the_queue(void **state)
{
    struct resp_client *a = client();
    struct resp_client *closes = client();
    struct resp_client *ends = client();
    (void)request_integer(a, "HF.ACQUIRE k mine PX 30000");
    resp_say(closes, "HF.ACQUIRE k yours PX 5000 WAIT 20000");
    resp_say(ends, "HF.ACQUIRE k theirs PX 5000 WAIT 20000");
    assert_int_equal(waiting(), 2);
    resp_client_close(closes);
    resp_conn_end(ends->conn);
    resp_world_run(&world);
    assert_null(ends->conn);
    assert_int_equal(waiting(), 0);
    struct lock_view lock;
    assert_true(view_lock(world.gateway.core, 0, slice_of("k"), &lock));
    assert_int_equal(lock.queue_length, 0);
    resp_request(a, "DEL k", ":1|");
    resp_request(a, "EXISTS k", ":0|");
}

static void a_grant_that_was_never_reported_is_given_back(void **state)
{
    struct resp_client *a = client();
    struct resp_client *b = client();
    (void)request_integer(a, "HF.ACQUIRE k mine PX 30000");
    resp_say(b, "HF.ACQUIRE k yours PX 5000 WAIT 20000");
    b->is_deaf = true;
    resp_request(a, "DEL k", ":1|");
    resp_request(a, "GET k", "$5|yours|");
    resp_client_close(b);
    resp_world_run(&world);
    resp_request(a, "EXISTS k", ":0|");
}

static void acquire_is_no_part_of_a_transaction(void **state)
{
    struct resp_client *c = client();
    resp_request(c, "MULTI", "+OK|");
    resp_say(c, "HF.ACQUIRE k v PX 5000");
    resp_expect_start(c, "-ERR 'hf.acquire' is not possible inside a transaction");
    resp_say(c, "EXEC");
    resp_expect_start(c, "-EXECABORT");
    resp_say(c, "EVAL \"return redis.call('hf.acquire','k','v','PX','5000')\" 0");
    resp_expect_start(c, "-ERR This Redis command is not allowed from script");
    resp_request(c, "EXISTS k", ":0|");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_token_is_given_to_the_owner_only, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_holder_that_paused_does_not_get_the_next_holders_token,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_owner_of_a_hash_is_one_of_its_fields, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_lock_of_another_api_gives_no_token, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_old_form_says_what_to_use, set_up, tear_down),
        cmocka_unit_test_setup_teardown(acquire_answers_with_the_token, set_up, tear_down),
        cmocka_unit_test_setup_teardown(acquire_refuses_what_makes_no_lock, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_max_hold_ends_it_although_its_owner_extends_it, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(acquire_waits_for_its_turn, set_up, tear_down),
        cmocka_unit_test_setup_teardown(acquire_waits_no_longer_than_it_said, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_waits_and_closes_leaves_the_queue, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_grant_that_was_never_reported_is_given_back, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(acquire_is_no_part_of_a_transaction, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

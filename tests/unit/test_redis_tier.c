/* Grants that a real Redis confirms, keeps alive and loses (S10.3). */
#include "base/text.h"
#include "redis_tier_world.h"

static void a_grant_is_confirmed_and_given_back(void **state)
{
    (void)state;
    struct tier_world w;
    open_with(&w, REDIS_FALLBACK_FAIL);
    struct redis_hold hold = hold_of("a", FLOOR + 1);
    expect_grant(&w, &hold, REDIS_CONFIRMED);
    assert_string_equal(request(&w.redis, "EXISTS lock:a"), "1");
    /* Two TTLs and a margin. */
    assert_in_range(strtol(request(&w.redis, "PTTL lock:a"), NULL, 10), 55000, 71000);
    assert_int_equal(see(&w).keys, 1);
    redis_tier_end(w.tier, FLOOR + 1, slice_of("a"));
    UNTIL(&w.redis, see(&w).keys == 0);
    assert_string_equal(request(&w.redis, "EXISTS lock:a"), "0");
    close_world(&w);
}

static void somebody_outside_refuses_a_try_and_holds_up_a_wait(void **state)
{
    (void)state;
    struct tier_world w;
    open_with(&w, REDIS_FALLBACK_FAIL);
    request(&w.redis, "SET lock:a theirs PX 60000");
    struct redis_hold hold = hold_of("a", FLOOR + 1);
    expect_grant(&w, &hold, REDIS_FOREIGN);
    assert_string_equal(w.grants[0].holder, "theirs");
    UNTIL(&w.redis, see(&w).keys == 0);

    hold = hold_of("a", FLOOR + 2);
    hold.wait_ms = 300;
    expect_grant(&w, &hold, REDIS_WAITING);
    UNTIL(&w.redis, w.grant_count == 3);
    assert_int_equal(w.grants[2].word, REDIS_FOREIGN);
    UNTIL(&w.redis, see(&w).keys == 0);

    hold = hold_of("a", FLOOR + 3);
    hold.wait_ms = UINT64_MAX;
    expect_grant(&w, &hold, REDIS_WAITING);
    request(&w.redis, "DEL lock:a");
    UNTIL(&w.redis, w.grant_count == 5);
    assert_int_equal(w.grants[4].word, REDIS_CONFIRMED);
    assert_string_equal(request(&w.redis, "GETRANGE lock:a 0 2"), "hf:");

    /* It gives up while it polls: nothing is left, and theirs is not touched. */
    redis_tier_end(w.tier, FLOOR + 3, slice_of("a"));
    UNTIL(&w.redis, see(&w).keys == 0);
    request(&w.redis, "SET lock:a theirs PX 60000");
    hold = hold_of("a", FLOOR + 4);
    hold.wait_ms = UINT64_MAX;
    expect_grant(&w, &hold, REDIS_WAITING);
    redis_tier_end(w.tier, FLOOR + 4, slice_of("a"));
    UNTIL(&w.redis, see(&w).keys == 0);
    assert_string_equal(request(&w.redis, "GET lock:a"), "theirs");
    close_world(&w);
}

static void a_waiter_takes_the_key_over_with_no_gap(void **state)
{
    (void)state;
    struct tier_world w;
    open_with(&w, REDIS_FALLBACK_FAIL);
    struct redis_hold hold = hold_of("a", FLOOR + 1);
    expect_grant(&w, &hold, REDIS_CONFIRMED);
    /* One who looks all the time whether it is free. */
    redisContext *c = server_connect(&w.redis);
    redisReply *reply = redisCommand(c, "CONFIG RESETSTAT");
    freeReplyObject(reply);
    for (uint64_t i = 1; i < 50; i++) {
        redis_tier_end(w.tier, FLOOR + i, slice_of("a"));
        hold = hold_of("a", FLOOR + i + 1);
        hold.is_new = false;
        expect_grant(&w, &hold, REDIS_CONFIRMED);
    }
    /* Nothing was deleted on the way. */
    reply = redisCommand(c, "INFO commandstats");
    assert_null(strstr(reply->str, "cmdstat_del:"));
    freeReplyObject(reply);
    redisFree(c);
    close_world(&w);
}

static void what_ends_while_it_is_being_requested_leaves_nothing(void **state)
{
    (void)state;
    struct tier_world w;
    open_with(&w, REDIS_FALLBACK_FAIL);
    UNTIL(&w.redis, see(&w).link.up);
    struct redis_hold hold = hold_of("a", FLOOR + 1);
    assert_true(redis_tier_grant(w.tier, &hold));
    redis_tier_end(w.tier, FLOOR + 1, slice_of("a"));
    UNTIL(&w.redis, see(&w).keys == 0);
    assert_int_equal(w.grant_count, 0);
    assert_string_equal(request(&w.redis, "EXISTS lock:a"), "0");
    close_world(&w);
}

static bool a_key_lives_as_long_as_its_lock(int scale)
{
    struct tier_world w;
    uint32_t ttl_ms = 200 * (uint32_t)scale;
    uint32_t timeout_ms = 2 * TIMEOUT_MS * (uint32_t)scale;
    open_timed(&w, REDIS_FALLBACK_FAIL, timeout_ms);
    struct redis_hold hold = hold_of("a", FLOOR + 1);
    hold.ttl_ms = ttl_ms;
    if (!is_granted_in_time(&w, &hold)) {
        return late(&w);
    }
    /* Its first life is two TTLs, two timeouts and a second. */
    uint64_t end = world_ms() + 2 * ttl_ms + 2 * timeout_ms + 1000 + 400;
    UNTIL(&w.redis, world_ms() > end || w.lost_count > 0);
    if (w.lost_count > 0) {
        return late(&w); /* it was not extended, because nothing went on */
    }
    assert_string_equal(request(&w.redis, "EXISTS lock:a"), "1");
    close_world(&w);
    return true;
}

static void a_key_is_kept_alive_as_long_as_its_lock(void **state)
{
    (void)state;
    in_time(a_key_lives_as_long_as_its_lock);
}

static void a_renewal_is_confirmed(void **state)
{
    (void)state;
    struct tier_world w;
    open_with(&w, REDIS_FALLBACK_FAIL);
    struct redis_hold hold = hold_of("a", FLOOR + 1);
    expect_grant(&w, &hold, REDIS_CONFIRMED);
    assert_true(redis_tier_renew(w.tier, FLOOR + 1, 60000));
    UNTIL(&w.redis, w.renewal_count == 1);
    assert_int_equal(w.renewals[0].word, REDIS_CONFIRMED);
    assert_in_range(strtol(request(&w.redis, "PTTL lock:a"), NULL, 10), 115000, 131000);
    /* One that Redis knows nothing of. */
    assert_false(redis_tier_renew(w.tier, FLOOR + 9, 60000));

    request(&w.redis, "SET lock:a theirs");
    assert_true(redis_tier_renew(w.tier, FLOOR + 1, 60000));
    UNTIL(&w.redis, w.renewal_count == 2);
    assert_int_equal(w.renewals[1].word, REDIS_FOREIGN);
    assert_int_equal(w.lost_count, 1);
    redis_tier_end(w.tier, FLOOR + 1, slice_of("a"));
    UNTIL(&w.redis, see(&w).keys == 0);
    assert_string_equal(request(&w.redis, "GET lock:a"), "theirs");
    close_world(&w);
}

static void a_redis_that_forgot_everything_loses_the_locks(void **state)
{
    (void)state;
    struct tier_world w;
    open_with(&w, REDIS_FALLBACK_FAIL);
    struct redis_hold hold = hold_of("a", FLOOR + 1);
    expect_grant(&w, &hold, REDIS_CONFIRMED);
    server_kill(&w.redis);
    server_start(&w.redis);
    UNTIL(&w.redis, w.lost_count == 1);
    assert_int_equal(w.lost[0], FLOOR + 1);
    redis_tier_end(w.tier, FLOOR + 1, slice_of("a"));
    UNTIL(&w.redis, see(&w).keys == 0);
    close_world(&w);
}

static bool a_lock_is_lost_before_its_key(int scale)
{
    struct tier_world w;
    uint32_t ttl_ms = 1000 * (uint32_t)scale;
    uint32_t timeout_ms = TIMEOUT_MS * (uint32_t)scale;
    open_timed(&w, REDIS_FALLBACK_FAIL, timeout_ms);
    struct redis_hold hold = hold_of("a", FLOOR + 1);
    hold.ttl_ms = ttl_ms;
    uint64_t begun = world_ms();
    if (!is_granted_in_time(&w, &hold)) {
        return late(&w);
    }
    kill(w.redis.server, SIGSTOP);
    UNTIL(&w.redis, w.lost_count == 1);
    uint64_t lost = world_ms();
    assert_true(lost > begun + ttl_ms); /* a short pause of Redis costs nobody a lock */
    kill(w.redis.server, SIGCONT);
    close_world(&w);
    /* It could be prolonged by a TTL until that moment, and the key lives for longer. */
    return lost + ttl_ms < begun + 2 * ttl_ms + 2 * timeout_ms + 1000;
}

static void a_lock_is_lost_before_its_key_can_end_unseen(void **state)
{
    (void)state;
    in_time(a_lock_is_lost_before_its_key);
}

static void each_fallback_says_what_becomes_of_a_new_acquire(void **state)
{
    (void)state;
    static const enum redis_word words[] = {[REDIS_FALLBACK_FAIL] = REDIS_FAILED,
                                            [REDIS_FALLBACK_EMBEDDED] = REDIS_CONFIRMED,
                                            [REDIS_FALLBACK_CORRECTNESS] = REDIS_AGAIN};
    for (int i = 0; i < 3; i++) {
        struct tier_world w;
        open_timed(&w, (enum redis_fallback)i, TIMEOUT_MS);
        UNTIL(&w.redis, see(&w).link.up);
        assert_int_equal(redis_tier_route(w.tier), REDIS_CONFIRMED);
        kill(w.redis.server, SIGSTOP);
        /* In doubt: Redis may do it later. */
        struct redis_hold hold = hold_of("a", FLOOR + 1);
        expect_grant(&w, &hold, words[i]);
        UNTIL(&w.redis, see(&w).link.breaker == REDIS_OPEN);
        assert_int_equal(redis_tier_route(w.tier), words[i]);
        if (i == REDIS_FALLBACK_EMBEDDED) {
            hold = hold_of("b", FLOOR + 2);
            assert_false(redis_tier_grant(w.tier, &hold));
            assert_false(redis_tier_renew(w.tier, FLOOR + 2, 1000));
            redis_tier_end(w.tier, FLOOR + 2, slice_of("b"));
            assert_int_equal(see(&w).embedded, 2);
        }
        kill(w.redis.server, SIGCONT);
        /* What it did late is given back. */
        UNTIL(&w.redis, see(&w).keys == 0);
        assert_string_equal(request(&w.redis, "EXISTS lock:a"), "0");
        close_world(&w);
    }
}

static void a_waiter_goes_on_waiting_while_redis_is_away(void **state)
{
    (void)state;
    struct tier_world w;
    open_with(&w, REDIS_FALLBACK_FAIL);
    UNTIL(&w.redis, see(&w).link.up);
    server_kill(&w.redis);
    UNTIL(&w.redis, see(&w).link.breaker == REDIS_OPEN);
    struct redis_hold hold = hold_of("a", FLOOR + 1);
    hold.is_new = false;
    hold.wait_ms = UINT64_MAX;
    expect_grant(&w, &hold, REDIS_WAITING);
    server_start(&w.redis);
    UNTIL(&w.redis, w.grant_count == 2);
    assert_int_equal(w.grants[1].word, REDIS_CONFIRMED);
    close_world(&w);
}

static void holders_that_share_a_name_share_its_key(void **state)
{
    (void)state;
    struct tier_world w;
    open_with(&w, REDIS_FALLBACK_FAIL);
    struct redis_hold hold = hold_of("a", FLOOR + 1);
    expect_grant(&w, &hold, REDIS_CONFIRMED);
    hold = hold_of("a", FLOOR + 2);
    hold.ttl_ms = 1000;
    expect_grant(&w, &hold, REDIS_CONFIRMED);
    /* The longer life stays. */
    assert_in_range(strtol(request(&w.redis, "PTTL lock:a"), NULL, 10), 55000, 71000);
    redis_tier_end(w.tier, FLOOR + 2, slice_of("a"));
    UNTIL(&w.redis, strstr(request(&w.redis, "GET lock:a"), ":7169:") != NULL);
    hold = hold_of("a", FLOOR + 3);
    expect_grant(&w, &hold, REDIS_CONFIRMED);
    redis_tier_end(w.tier, FLOOR + 1, slice_of("a"));
    assert_true(redis_tier_renew(w.tier, FLOOR + 3, 30000));
    UNTIL(&w.redis, w.renewal_count == 1);
    assert_int_equal(w.renewals[0].word, REDIS_CONFIRMED);
    assert_non_null(strstr(request(&w.redis, "GET lock:a"), ":7171:"));
    redis_tier_end(w.tier, FLOOR + 3, slice_of("a"));
    UNTIL(&w.redis, see(&w).keys == 0);
    assert_string_equal(request(&w.redis, "EXISTS lock:a"), "0");
    assert_int_equal(w.lost_count, 0);
    close_world(&w);
}

static void a_multi_lock_is_confirmed_once(void **state)
{
    (void)state;
    struct tier_world w;
    open_with(&w, REDIS_FALLBACK_FAIL);
    static const char *const names[] = {"a", "b", "c"};
    expect_multi_grant(&w, names, FLOOR + 1);
    assert_string_equal(request(&w.redis, "EXISTS lock:a lock:b lock:c"), "3");
    for (uint32_t i = 0; i < 3; i++) {
        redis_tier_end(w.tier, FLOOR + 1, slice_of(names[i]));
    }
    UNTIL(&w.redis, see(&w).keys == 0);
    assert_string_equal(request(&w.redis, "EXISTS lock:a lock:b lock:c"), "0");
    assert_int_equal(w.grant_count, 1);
    close_world(&w);
}

static void a_new_lead_leaves_the_keys_of_the_old_one_alone(void **state)
{
    (void)state;
    struct tier_world w;
    open_with(&w, REDIS_FALLBACK_FAIL);
    struct redis_hold hold = hold_of("a", FLOOR + 1);
    expect_grant(&w, &hold, REDIS_CONFIRMED);
    hold = hold_of("b", FLOOR + 2);
    assert_true(redis_tier_grant(w.tier, &hold)); /* its answer is for nobody */
    redis_tier_begin(w.tier, 0);
    assert_true(redis_tier_next_ms(w.tier) == UINT64_MAX);
    redis_tier_begin(w.tier, FLOOR + 1024);
    assert_int_equal(see(&w).keys, 0);
    hold = hold_of("a", FLOOR + 1025);
    expect_grant(&w, &hold, REDIS_FOREIGN); /* its holder may not know yet */
    assert_int_equal(w.grant_count, 2);
    assert_non_null(strstr(request(&w.redis, "GET lock:a"), ":7169:"));
    close_world(&w);
}

/* The number of a tenant is never used again; its name may be. */
static void a_key_names_the_tenant_unless_it_is_the_default_one(void **state)
{
    (void)state;
    uint8_t out[REDIS_NAME_MAX];
    uint8_t longest[LIMIT_NAME];
    memset(longest, 'x', sizeof(longest));
    assert_true(slice_equal(redis_tenant_name(0, slice_of("app/a"), out), slice_of("app/a")));
    assert_true(slice_equal(redis_tenant_name(7, slice_of("app/a"), out), slice_of("/7/app/a")));
    assert_false(text_is_name(redis_tenant_name(7, slice_of("app/a"), out)));
    struct slice name = redis_tenant_name(UINT32_MAX, slice_make(longest, sizeof(longest)), out);
    assert_int_equal(name.len, REDIS_NAME_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_names_the_tenant_unless_it_is_the_default_one),
        cmocka_unit_test(a_grant_is_confirmed_and_given_back),
        cmocka_unit_test(somebody_outside_refuses_a_try_and_holds_up_a_wait),
        cmocka_unit_test(a_waiter_takes_the_key_over_with_no_gap),
        cmocka_unit_test(what_ends_while_it_is_being_requested_leaves_nothing),
        cmocka_unit_test(a_key_is_kept_alive_as_long_as_its_lock),
        cmocka_unit_test(a_renewal_is_confirmed),
        cmocka_unit_test(a_redis_that_forgot_everything_loses_the_locks),
        cmocka_unit_test(a_lock_is_lost_before_its_key_can_end_unseen),
        cmocka_unit_test(each_fallback_says_what_becomes_of_a_new_acquire),
        cmocka_unit_test(a_waiter_goes_on_waiting_while_redis_is_away),
        cmocka_unit_test(holders_that_share_a_name_share_its_key),
        cmocka_unit_test(a_multi_lock_is_confirmed_once),
        cmocka_unit_test(a_new_lead_leaves_the_keys_of_the_old_one_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Releases are reported when a real Redis has answered, and are in doubt until then (S10.3). */
#include "redis_tier_world.h"

/* It ended, and whoever ended it waits. */
static void release(struct tier_world *w, const char *name, uint64_t token)
{
    int before = w->release_count;
    redis_tier_end(w->tier, token, slice_of(name));
    assert_true(redis_tier_release(w->tier, token));
    assert_int_equal(w->release_count, before);
}

static void expect_released(struct tier_world *w, int number, uint64_t token, const char *key)
{
    UNTIL(&w->redis, w->release_count == number);
    assert_int_equal(w->releases[number - 1].token, token);
    assert_int_equal(w->releases[number - 1].word, REDIS_CONFIRMED);
    assert_non_null(strstr(w->releases[number - 1].holder, key));
}

static void a_release_is_reported_when_the_key_is_gone_or_the_next_ones(void **state)
{
    (void)state;
    struct tier_world w;
    open_with(&w, REDIS_FALLBACK_FAIL);
    struct redis_hold hold = hold_of("a", FLOOR + 1);
    expect_grant(&w, &hold, REDIS_CONFIRMED);
    assert_false(redis_tier_release(w.tier, FLOOR + 1)); /* it has not ended */
    release(&w, "a", FLOOR + 1);
    expect_released(&w, 1, FLOOR + 1, "(nil)");
    assert_false(redis_tier_release(w.tier, FLOOR + 1)); /* there is nothing to wait for */

    /* A waiter follows. */
    hold = hold_of("a", FLOOR + 2);
    expect_grant(&w, &hold, REDIS_CONFIRMED);
    release(&w, "a", FLOOR + 2);
    hold = hold_of("a", FLOOR + 3);
    hold.is_new = false;
    expect_grant(&w, &hold, REDIS_CONFIRMED);
    expect_released(&w, 2, FLOOR + 2, ":7171:");

    /* Of several that share it the newest leaves, and then another. */
    for (uint64_t i = 4; i <= 5; i++) {
        hold = hold_of("a", FLOOR + i);
        expect_grant(&w, &hold, REDIS_CONFIRMED);
    }
    release(&w, "a", FLOOR + 5);
    expect_released(&w, 3, FLOOR + 5, ":7172:");
    release(&w, "a", FLOOR + 3);
    expect_released(&w, 4, FLOOR + 3, ":7172:");
    release(&w, "a", FLOOR + 4);
    expect_released(&w, 5, FLOOR + 4, "(nil)");
    UNTIL(&w.redis, see(&w).keys == 0);
    close_world(&w);
}

static void a_multi_lock_is_released_when_all_of_it_is(void **state)
{
    (void)state;
    struct tier_world w;
    open_with(&w, REDIS_FALLBACK_FAIL);
    static const char *const names[] = {"b", "c", "a"};
    expect_multi_grant(&w, names, FLOOR + 1);
    redis_tier_end(w.tier, FLOOR + 1, slice_of("b"));
    redis_tier_end(w.tier, FLOOR + 1, slice_of("c"));
    release(&w, "a", FLOOR + 1);
    expect_released(&w, 1, FLOOR + 1, "(nil)");
    assert_string_equal(request(&w.redis, "EXISTS lock:a lock:b lock:c"), "0");
    close_world(&w);
}

static bool a_release_is_in_doubt_until_redis_answers(int scale)
{
    struct tier_world w;
    open_timed(&w, REDIS_FALLBACK_FAIL, TIMEOUT_MS * (uint32_t)scale);
    struct redis_hold hold = hold_of("a", FLOOR + 1);
    if (!is_granted_in_time(&w, &hold)) {
        return late(&w);
    }
    kill(w.redis.server, SIGSTOP);
    release(&w, "a", FLOOR + 1);
    UNTIL(&w.redis, w.release_count == 1);
    assert_int_equal(w.releases[0].word, REDIS_AGAIN);
    /* The breaker is open: a repeated request gets that answer at the next try. */
    UNTIL(&w.redis, see(&w).link.breaker == REDIS_OPEN);
    assert_true(redis_tier_release(w.tier, FLOOR + 1));
    UNTIL(&w.redis, w.release_count == 2);
    assert_int_equal(w.releases[1].word, REDIS_AGAIN);
    kill(w.redis.server, SIGCONT);
    while (redis_tier_release(w.tier, FLOOR + 1)) {
        int before = w.release_count;
        UNTIL(&w.redis, w.release_count > before);
    }
    assert_string_equal(request(&w.redis, "EXISTS lock:a"), "0");
    /* It may have been given back without a request. */
    struct said last = w.releases[(w.release_count - 1) % SAID];
    bool is_confirmed = last.word == REDIS_CONFIRMED;
    assert_true(is_confirmed ? strcmp(last.holder, "(nil)") == 0 : last.word == REDIS_AGAIN);
    close_world(&w);
    return is_confirmed;
}

static void a_release_that_redis_does_not_answer_is_in_doubt_until_it_does(void **state)
{
    (void)state;
    in_time(a_release_is_in_doubt_until_redis_answers);
}

static void a_key_whose_handing_over_failed_is_given_back_all_the_same(void **state)
{
    (void)state;
    struct tier_world w;
    open_with(&w, REDIS_FALLBACK_FAIL);
    for (uint64_t i = 1; i <= 2; i++) {
        struct redis_hold hold = hold_of("a", FLOOR + i);
        expect_grant(&w, &hold, REDIS_CONFIRMED);
    }
    server_kill(&w.redis);
    UNTIL(&w.redis, see(&w).link.breaker == REDIS_OPEN);
    release(&w, "a", FLOOR + 2); /* it would be handed over to the other one */
    UNTIL(&w.redis, w.release_count == 1);
    assert_int_equal(w.releases[0].word, REDIS_AGAIN);
    redis_tier_end(w.tier, FLOOR + 1, slice_of("a"));
    server_start(&w.redis);
    request(&w.redis, "SET lock:a hf:0000000000000abc0000000000000def:7170:web-1 PX 60000");
    UNTIL(&w.redis, see(&w).keys == 0);
    assert_string_equal(request(&w.redis, "EXISTS lock:a"), "0");
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_release_is_reported_when_the_key_is_gone_or_the_next_ones),
        cmocka_unit_test(a_multi_lock_is_released_when_all_of_it_is),
        cmocka_unit_test(a_release_that_redis_does_not_answer_is_in_doubt_until_it_does),
        cmocka_unit_test(a_key_whose_handing_over_failed_is_given_back_all_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The scripts of the second tier's Redis, on a real redis-server (S10.3). */
#include "redis_world.h"

#define MARK "hf:0000000000000abc0000000000000def:"

static void a_name_is_taken_with_our_token_and_a_time_limit(void **state)
{
    (void)state;
    struct redis_world w;
    world_open(&w);
    world_up(&w);
    assert_int_equal(take(&w, "jobs/1", FLOOR + 1).verdict, REDIS_DONE);
    assert_string_equal(request(&w, "GET lock:jobs/1"), MARK "7169:web-1");
    long left = strtol(request(&w, "PTTL lock:jobs/1"), NULL, 10);
    assert_in_range(left, 20000, 30000);
    assert_int_equal(give_back(&w, "jobs/1", FLOOR + 1).verdict, REDIS_DONE);
    assert_string_equal(request(&w, "EXISTS lock:jobs/1"), "0");
    world_close(&w);
}

static void what_somebody_else_holds_is_not_taken(void **state)
{
    (void)state;
    struct redis_world w;
    world_open(&w);
    world_up(&w);
    request(&w, "SET lock:theirs cron-7 PX 60000");
    struct heard h = take(&w, "theirs", FLOOR + 1);
    assert_int_equal(h.verdict, REDIS_HELD);
    assert_string_equal(h.holder, "cron-7");
    assert_in_range(h.holder_ms, 50000, 60000);
    assert_string_equal(request(&w, "GET lock:theirs"), "cron-7");

    request(&w, "HSET lock:redisson 8f:1 1");
    h = take(&w, "redisson", FLOOR + 2);
    assert_int_equal(h.verdict, REDIS_HELD);
    assert_string_equal(h.holder, "");
    assert_true(h.holder_ms == UINT64_MAX);
    assert_string_equal(request(&w, "TYPE lock:redisson"), "hash");

    request(&w, "SET lock:empty %s", "");
    assert_int_equal(take(&w, "empty", FLOOR + 3).verdict, REDIS_HELD);
    request(&w, "SETRANGE lock:long 100000 x");
    assert_int_equal(take(&w, "long", FLOOR + 4).verdict, REDIS_HELD);
    world_close(&w);
}

static void only_what_this_lead_left_is_replaced(void **state)
{
    (void)state;
    struct redis_world w;
    world_open(&w);
    world_up(&w);
    /* Released or expired in our own state, and Redis did not hear of it. */
    assert_int_equal(take(&w, "a", FLOOR + 1).verdict, REDIS_DONE);
    assert_int_equal(take(&w, "a", FLOOR + 2).verdict, REDIS_DONE);
    assert_string_equal(request(&w, "GET lock:a"), MARK "7170:web-1");
    /* A script that Redis runs late. */
    assert_int_equal(take(&w, "a", FLOOR + 1).verdict, REDIS_HELD);
    assert_int_equal(give_back(&w, "a", FLOOR + 1).verdict, REDIS_GONE);
    assert_int_equal(extend(&w, "a", FLOOR + 3, 90000).verdict, REDIS_GONE);
    assert_string_equal(request(&w, "GET lock:a"), MARK "7170:web-1");
    /* The same again: its answer was lost. */
    assert_int_equal(take(&w, "a", FLOOR + 2).verdict, REDIS_DONE);
    /* Of an earlier leader, whose holder may not know yet; of another cluster. */
    request(&w, "SET lock:a " MARK "7167:web-1 PX 60000");
    assert_int_equal(take(&w, "a", FLOOR + 3).verdict, REDIS_HELD);
    request(&w, "SET lock:a hf:00000000000000000000000000000001:7169:web-1 PX 60000");
    assert_int_equal(take(&w, "a", FLOOR + 3).verdict, REDIS_HELD);
    assert_int_equal(give_back(&w, "a", FLOOR + 9).verdict, REDIS_GONE);
    request(&w, "SET lock:a " MARK "7169:web-1 PX 60000");
    assert_int_equal(give_back(&w, "a", FLOOR + 9).verdict, REDIS_DONE);
    world_close(&w);
}

static void a_time_limit_is_only_lengthened_and_only_for_its_token(void **state)
{
    (void)state;
    struct redis_world w;
    world_open(&w);
    world_up(&w);
    take(&w, "a", FLOOR + 1);
    assert_int_equal(extend(&w, "a", FLOOR + 1, 90000).verdict, REDIS_DONE);
    assert_in_range(strtol(request(&w, "PTTL lock:a"), NULL, 10), 80000, 90000);
    assert_int_equal(extend(&w, "a", FLOOR + 1, 1000).verdict, REDIS_DONE);
    assert_in_range(strtol(request(&w, "PTTL lock:a"), NULL, 10), 70000, 90000);
    assert_int_equal(extend(&w, "a", FLOOR + 2, 100000).verdict, REDIS_GONE);
    assert_int_equal(extend(&w, "a", FLOOR, 70000).verdict, REDIS_DONE); /* it shares the name */
    request(&w, "DEL lock:a");
    assert_int_equal(extend(&w, "a", FLOOR + 1, 90000).verdict, REDIS_GONE);
    assert_string_equal(request(&w, "EXISTS lock:a"), "0");
    world_close(&w);
}

static void a_key_is_handed_over_only_from_the_token_that_has_it(void **state)
{
    (void)state;
    struct redis_world w;
    world_open(&w);
    world_up(&w);
    take(&w, "a", FLOOR + 5);
    struct heard h = {0};
    redis_hand_over(w.backend, slice_of("a"), FLOOR + 5, FLOOR + 2, 40000, slice_of("web-2"), hear,
                    &h);
    UNTIL(&w, h.count == 1);
    assert_int_equal(h.verdict, REDIS_DONE);
    assert_string_equal(request(&w, "GET lock:a"), MARK "7170:web-2");
    redis_hand_over(w.backend, slice_of("a"), FLOOR + 5, FLOOR + 6, 40000, slice_of("web-3"), hear,
                    &h);
    UNTIL(&w, h.count == 2);
    assert_int_equal(h.verdict, REDIS_GONE);
    assert_string_equal(request(&w, "GET lock:a"), MARK "7170:web-2");
    world_close(&w);
}

static void several_names_are_taken_together_or_not_at_all(void **state)
{
    (void)state;
    struct redis_world w;
    world_open(&w);
    world_up(&w);
    char text[LIMIT_MULTILOCK_NAMES][LIMIT_NAME];
    uint64_t tokens[LIMIT_MULTILOCK_NAMES];
    struct redis_names names = {.count = LIMIT_MULTILOCK_NAMES};
    for (uint32_t i = 0; i < names.count; i++) {
        memset(text[i], 'x', LIMIT_NAME);
        text[i][0] = (char)('0' + i % 10);
        text[i][1] = (char)('0' + i / 10);
        names.at[i] = slice_make(text[i], LIMIT_NAME);
        tokens[i] = FLOOR + 1;
    }
    char client[LIMIT_CLIENT];
    memset(client, 'c', sizeof(client));
    struct heard h = {0};
    request(&w, "SET lock:%b theirs", text[40], (size_t)LIMIT_NAME);
    redis_take(w.backend, &names, FLOOR + 1, FLOOR, 30000, slice_make(client, sizeof(client)), hear,
               &h);
    UNTIL(&w, h.count == 1);
    assert_int_equal(h.verdict, REDIS_HELD);
    assert_int_equal(h.name, 40);
    assert_string_equal(request(&w, "DBSIZE"), "1");

    request(&w, "DEL lock:%b", text[40], (size_t)LIMIT_NAME);
    redis_take(w.backend, &names, FLOOR + 1, FLOOR, 30000, slice_make(client, sizeof(client)), hear,
               &h);
    UNTIL(&w, h.count == 2);
    assert_int_equal(h.verdict, REDIS_DONE);
    assert_string_equal(request(&w, "DBSIZE"), "64");
    redis_extend(w.backend, &names, tokens, 50000, hear, &h);
    UNTIL(&w, h.count == 3);
    assert_int_equal(h.verdict, REDIS_DONE);
    request(&w, "DEL lock:%b", text[63], (size_t)LIMIT_NAME);
    redis_extend(w.backend, &names, tokens, 90000, hear, &h);
    UNTIL(&w, h.count == 4);
    assert_int_equal(h.verdict, REDIS_GONE);
    assert_int_equal(h.name, 63);
    assert_in_range(strtol(request(&w, "PTTL lock:%b", text[0], (size_t)LIMIT_NAME), NULL, 10), 1,
                    50000);
    redis_give_back(w.backend, &names, tokens, FLOOR, hear, &h);
    UNTIL(&w, h.count == 5);
    assert_int_equal(h.verdict, REDIS_GONE);
    assert_string_equal(request(&w, "DBSIZE"), "0");
    world_close(&w);
}

static void calls_go_in_one_pipeline_and_are_answered_in_order(void **state)
{
    (void)state;
    struct redis_world w;
    world_open(&w);
    world_up(&w);
    static struct heard h[2000];
    static char names[2000][16];
    memset(h, 0, sizeof(h));
    for (uint32_t i = 0; i < 2000; i++) {
        snprintf(names[i], sizeof(names[i]), "n%u", i);
        struct redis_names one = one_name(names[i]);
        redis_take(w.backend, &one, FLOOR + 1, FLOOR, 30000, slice_of("c"), hear, &h[i]);
    }
    UNTIL(&w, h[1999].count == 1);
    for (uint32_t i = 0; i < 2000; i++) {
        assert_int_equal(h[i].count, 1);
        assert_int_equal(h[i].verdict, REDIS_DONE);
    }
    assert_string_equal(request(&w, "DBSIZE"), "2000");
    assert_int_equal(world_view(&w).answered, 2000);
    assert_int_equal(world_view(&w).outstanding, 0);
    world_close(&w);
}

static void a_forgotten_script_is_loaded_again_and_the_call_is_made(void **state)
{
    (void)state;
    struct redis_world w;
    world_open(&w);
    world_up(&w);
    request(&w, "SCRIPT FLUSH");
    assert_int_equal(take(&w, "a", FLOOR + 1).verdict, REDIS_DONE);
    assert_int_equal(world_view(&w).reloads, 1);
    assert_int_equal(world_view(&w).breaker, REDIS_CLOSED);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_is_taken_with_our_token_and_a_time_limit),
        cmocka_unit_test(what_somebody_else_holds_is_not_taken),
        cmocka_unit_test(only_what_this_lead_left_is_replaced),
        cmocka_unit_test(a_time_limit_is_only_lengthened_and_only_for_its_token),
        cmocka_unit_test(a_key_is_handed_over_only_from_the_token_that_has_it),
        cmocka_unit_test(several_names_are_taken_together_or_not_at_all),
        cmocka_unit_test(calls_go_in_one_pipeline_and_are_answered_in_order),
        cmocka_unit_test(a_forgotten_script_is_loaded_again_and_the_call_is_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

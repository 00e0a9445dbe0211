/* Grants that a real Redis confirms, keeps alive, loses and is given back (S10.3). */
#include "redis_world.h"

#include "in_time.h"
#include "node/redis_tier.h"

enum { SAID = 64 };

struct said {
    uint64_t token;
    enum redis_word word;
    char holder[64];
};

struct tier_world {
    struct redis_world redis;
    struct redis_tier *tier;
    enum redis_fallback fallback;
    struct said grants[SAID];
    int grant_count;
    struct said renewals[SAID];
    int renewal_count;
    struct said releases[SAID]; /* `holder`: what the key "a" was at that moment */
    int release_count;
    uint64_t lost[SAID];
    int lost_count;
};

static uint64_t now_ms(void *ctx)
{
    (void)ctx;
    return world_ms();
}

static void on_grant(void *ctx, uint64_t token, enum redis_word word, struct slice holder,
                     uint64_t holder_ms)
{
    struct tier_world *w = ctx;
    (void)holder_ms;
    struct said *s = &w->grants[w->grant_count++ % SAID];
    *s = (struct said){.token = token, .word = word};
    snprintf(s->holder, sizeof(s->holder), "%.*s", (int)holder.len,
             holder.data == NULL ? "" : (const char *)holder.data);
}

static void on_renewed(void *ctx, uint64_t token, enum redis_word word)
{
    struct tier_world *w = ctx;
    w->renewals[w->renewal_count++ % SAID] = (struct said){.token = token, .word = word};
}

static void on_released(void *ctx, uint64_t token, enum redis_word word)
{
    struct tier_world *w = ctx;
    struct said *s = &w->releases[w->release_count++ % SAID];
    *s = (struct said){.token = token, .word = word};
    if (word == REDIS_CONFIRMED) {
        snprintf(s->holder, sizeof(s->holder), "%s", ask(&w->redis, "GET lock:a"));
    }
}

static void on_lost(void *ctx, uint64_t token, struct id lease, const char *why)
{
    struct tier_world *w = ctx;
    assert_int_equal(lease.low, token);
    assert_true(strlen(why) > 0);
    w->lost[w->lost_count++ % SAID] = token;
}

/* The timer plays the node's turns. */
static void on_turn(void *ctx)
{
    struct tier_world *w = ctx;
    redis_tier_run(w->tier);
}

static void open_timed(struct tier_world *w, enum redis_fallback fallback, uint32_t timeout_ms)
{
    memset(w, 0, sizeof(*w));
    world_open(&w->redis);
    w->redis.options.link.timeout_ms = timeout_ms;
    w->redis.net.on_turn = on_turn;
    w->redis.net.turn_ctx = w;
    server_start(&w->redis);
    struct redis_tier_options options = {.backend = w->redis.options,
                                         .fallback = fallback,
                                         .ctx = w,
                                         .now_ms = now_ms,
                                         .on_grant = on_grant,
                                         .on_renewed = on_renewed,
                                         .on_released = on_released,
                                         .on_lost = on_lost};
    w->tier = redis_tier_new(&options);
    redis_tier_begin(w->tier, FLOOR);
}

static void open_with(struct tier_world *w, enum redis_fallback fallback)
{
    open_timed(w, fallback, LONG_TIMEOUT_MS);
}

static void close_world(struct tier_world *w)
{
    w->redis.net.on_turn = NULL;
    redis_tier_close(w->tier);
    world_close(&w->redis);
}

static struct redis_tier_view see(struct tier_world *w)
{
    struct redis_tier_view view;
    redis_tier_view(w->tier, &view);
    return view;
}

static struct redis_hold hold_of(const char *name, uint64_t token)
{
    return (struct redis_hold){.name = slice_of(name),
                               .client = slice_of("web-1"),
                               .token = token,
                               .lease = {.low = token},
                               .part = 1,
                               .parts = 1,
                               .ttl_ms = 30000,
                               .is_new = true};
}

static void expect_grant(struct tier_world *w, const struct redis_hold *hold, enum redis_word word)
{
    int before = w->grant_count;
    assert_true(redis_tier_grant(w->tier, hold));
    assert_int_equal(w->grant_count, before);
    UNTIL(&w->redis, w->grant_count > before);
    assert_int_equal(w->grants[before].token, hold->token);
    assert_int_equal(w->grants[before].word, word);
}

/* The same where the timeout is short: false when Redis, or we, were too slow for it. */
static bool is_granted_in_time(struct tier_world *w, const struct redis_hold *hold)
{
    int before = w->grant_count;
    assert_true(redis_tier_grant(w->tier, hold));
    UNTIL(&w->redis, w->grant_count > before);
    assert_int_equal(w->grants[before].token, hold->token);
    enum redis_word word = w->grants[before].word;
    struct redis_link_view link = see(w).link;
    uint64_t slow = link.timeouts + link.connects_failed + link.not_sent;
    assert_true(word == REDIS_CONFIRMED || (word == REDIS_FAILED && slow > 0));
    return word == REDIS_CONFIRMED;
}

/* For a test that is to be tried again. */
static bool late(struct tier_world *w)
{
    close_world(w);
    return false;
}

static void a_grant_is_confirmed_and_given_back(void **state)
{
    (void)state;
    struct tier_world w;
    open_with(&w, REDIS_FALLBACK_FAIL);
    struct redis_hold hold = hold_of("a", FLOOR + 1);
    expect_grant(&w, &hold, REDIS_CONFIRMED);
    assert_string_equal(ask(&w.redis, "EXISTS lock:a"), "1");
    /* Two TTLs and a margin. */
    assert_in_range(strtol(ask(&w.redis, "PTTL lock:a"), NULL, 10), 55000, 71000);
    assert_int_equal(see(&w).keys, 1);
    redis_tier_end(w.tier, FLOOR + 1, slice_of("a"));
    UNTIL(&w.redis, see(&w).keys == 0);
    assert_string_equal(ask(&w.redis, "EXISTS lock:a"), "0");
    close_world(&w);
}

static void somebody_outside_refuses_a_try_and_holds_up_a_wait(void **state)
{
    (void)state;
    struct tier_world w;
    open_with(&w, REDIS_FALLBACK_FAIL);
    ask(&w.redis, "SET lock:a theirs PX 60000");
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
    ask(&w.redis, "DEL lock:a");
    UNTIL(&w.redis, w.grant_count == 5);
    assert_int_equal(w.grants[4].word, REDIS_CONFIRMED);
    assert_string_equal(ask(&w.redis, "GETRANGE lock:a 0 2"), "hf:");

    /* It gives up while it polls: nothing is left, and theirs is not touched. */
    redis_tier_end(w.tier, FLOOR + 3, slice_of("a"));
    UNTIL(&w.redis, see(&w).keys == 0);
    ask(&w.redis, "SET lock:a theirs PX 60000");
    hold = hold_of("a", FLOOR + 4);
    hold.wait_ms = UINT64_MAX;
    expect_grant(&w, &hold, REDIS_WAITING);
    redis_tier_end(w.tier, FLOOR + 4, slice_of("a"));
    UNTIL(&w.redis, see(&w).keys == 0);
    assert_string_equal(ask(&w.redis, "GET lock:a"), "theirs");
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

static void what_ends_while_it_is_being_asked_for_leaves_nothing(void **state)
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
    assert_string_equal(ask(&w.redis, "EXISTS lock:a"), "0");
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
    assert_string_equal(ask(&w.redis, "EXISTS lock:a"), "1");
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
    assert_in_range(strtol(ask(&w.redis, "PTTL lock:a"), NULL, 10), 115000, 131000);
    /* One that Redis knows nothing of. */
    assert_false(redis_tier_renew(w.tier, FLOOR + 9, 60000));

    ask(&w.redis, "SET lock:a theirs");
    assert_true(redis_tier_renew(w.tier, FLOOR + 1, 60000));
    UNTIL(&w.redis, w.renewal_count == 2);
    assert_int_equal(w.renewals[1].word, REDIS_FOREIGN);
    assert_int_equal(w.lost_count, 1);
    redis_tier_end(w.tier, FLOOR + 1, slice_of("a"));
    UNTIL(&w.redis, see(&w).keys == 0);
    assert_string_equal(ask(&w.redis, "GET lock:a"), "theirs");
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
        assert_string_equal(ask(&w.redis, "EXISTS lock:a"), "0");
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
    assert_in_range(strtol(ask(&w.redis, "PTTL lock:a"), NULL, 10), 55000, 71000);
    redis_tier_end(w.tier, FLOOR + 2, slice_of("a"));
    UNTIL(&w.redis, strstr(ask(&w.redis, "GET lock:a"), ":7169:") != NULL);
    hold = hold_of("a", FLOOR + 3);
    expect_grant(&w, &hold, REDIS_CONFIRMED);
    redis_tier_end(w.tier, FLOOR + 1, slice_of("a"));
    assert_true(redis_tier_renew(w.tier, FLOOR + 3, 30000));
    UNTIL(&w.redis, w.renewal_count == 1);
    assert_int_equal(w.renewals[0].word, REDIS_CONFIRMED);
    assert_non_null(strstr(ask(&w.redis, "GET lock:a"), ":7171:"));
    redis_tier_end(w.tier, FLOOR + 3, slice_of("a"));
    UNTIL(&w.redis, see(&w).keys == 0);
    assert_string_equal(ask(&w.redis, "EXISTS lock:a"), "0");
    assert_int_equal(w.lost_count, 0);
    close_world(&w);
}

static void a_multi_lock_is_confirmed_once(void **state)
{
    (void)state;
    struct tier_world w;
    open_with(&w, REDIS_FALLBACK_FAIL);
    static const char *const names[] = {"a", "b", "c"};
    for (uint32_t i = 0; i < 3; i++) {
        struct redis_hold hold = hold_of(names[i], FLOOR + 1);
        hold.part = i + 1;
        hold.parts = 3;
        assert_true(redis_tier_grant(w.tier, &hold));
    }
    UNTIL(&w.redis, w.grant_count == 1);
    assert_int_equal(w.grants[0].word, REDIS_CONFIRMED);
    assert_string_equal(ask(&w.redis, "EXISTS lock:a lock:b lock:c"), "3");
    for (uint32_t i = 0; i < 3; i++) {
        redis_tier_end(w.tier, FLOOR + 1, slice_of(names[i]));
    }
    UNTIL(&w.redis, see(&w).keys == 0);
    assert_string_equal(ask(&w.redis, "EXISTS lock:a lock:b lock:c"), "0");
    assert_int_equal(w.grant_count, 1);
    close_world(&w);
}

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

static void a_release_is_told_when_the_key_is_gone_or_the_next_ones(void **state)
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
    for (uint32_t i = 0; i < 3; i++) {
        struct redis_hold hold = hold_of(names[i], FLOOR + 1);
        hold.part = i + 1;
        hold.parts = 3;
        assert_true(redis_tier_grant(w.tier, &hold));
    }
    UNTIL(&w.redis, w.grant_count == 1);
    redis_tier_end(w.tier, FLOOR + 1, slice_of("b"));
    redis_tier_end(w.tier, FLOOR + 1, slice_of("c"));
    release(&w, "a", FLOOR + 1);
    expect_released(&w, 1, FLOOR + 1, "(nil)");
    assert_string_equal(ask(&w.redis, "EXISTS lock:a lock:b lock:c"), "0");
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
    /* The breaker is open: whoever asks again is told so at the next try. */
    UNTIL(&w.redis, see(&w).link.breaker == REDIS_OPEN);
    assert_true(redis_tier_release(w.tier, FLOOR + 1));
    UNTIL(&w.redis, w.release_count == 2);
    assert_int_equal(w.releases[1].word, REDIS_AGAIN);
    kill(w.redis.server, SIGCONT);
    while (redis_tier_release(w.tier, FLOOR + 1)) {
        int before = w.release_count;
        UNTIL(&w.redis, w.release_count > before);
    }
    assert_string_equal(ask(&w.redis, "EXISTS lock:a"), "0");
    /* It may have been given back while nobody asked. */
    struct said last = w.releases[(w.release_count - 1) % SAID];
    bool is_told = last.word == REDIS_CONFIRMED;
    assert_true(is_told ? strcmp(last.holder, "(nil)") == 0 : last.word == REDIS_AGAIN);
    close_world(&w);
    return is_told;
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
    ask(&w.redis, "SET lock:a hf:0000000000000abc0000000000000def:7170:web-1 PX 60000");
    UNTIL(&w.redis, see(&w).keys == 0);
    assert_string_equal(ask(&w.redis, "EXISTS lock:a"), "0");
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
    assert_non_null(strstr(ask(&w.redis, "GET lock:a"), ":7169:"));
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_grant_is_confirmed_and_given_back),
        cmocka_unit_test(somebody_outside_refuses_a_try_and_holds_up_a_wait),
        cmocka_unit_test(a_waiter_takes_the_key_over_with_no_gap),
        cmocka_unit_test(what_ends_while_it_is_being_asked_for_leaves_nothing),
        cmocka_unit_test(a_key_is_kept_alive_as_long_as_its_lock),
        cmocka_unit_test(a_renewal_is_confirmed),
        cmocka_unit_test(a_redis_that_forgot_everything_loses_the_locks),
        cmocka_unit_test(a_lock_is_lost_before_its_key_can_end_unseen),
        cmocka_unit_test(each_fallback_says_what_becomes_of_a_new_acquire),
        cmocka_unit_test(a_waiter_goes_on_waiting_while_redis_is_away),
        cmocka_unit_test(holders_that_share_a_name_share_its_key),
        cmocka_unit_test(a_multi_lock_is_confirmed_once),
        cmocka_unit_test(a_release_is_told_when_the_key_is_gone_or_the_next_ones),
        cmocka_unit_test(a_multi_lock_is_released_when_all_of_it_is),
        cmocka_unit_test(a_release_that_redis_does_not_answer_is_in_doubt_until_it_does),
        cmocka_unit_test(a_key_whose_handing_over_failed_is_given_back_all_the_same),
        cmocka_unit_test(a_new_lead_leaves_the_keys_of_the_old_one_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The keys of locks on a real Redis, and what was said about them, in order. To be included
 * first. */
#ifndef HOLDFAST_TESTS_REDIS_TIER_WORLD_H
#define HOLDFAST_TESTS_REDIS_TIER_WORLD_H

#include "redis_world.h"

#include "in_time.h"
#include "redis/tier.h"

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

static inline uint64_t now_ms(void *ctx)
{
    (void)ctx;
    return world_ms();
}

static inline void on_grant(void *ctx, uint64_t token, enum redis_word word, struct slice holder,
                            uint64_t holder_ms)
{
    struct tier_world *w = ctx;
    (void)holder_ms;
    struct said *s = &w->grants[w->grant_count++ % SAID];
    *s = (struct said){.token = token, .word = word};
    snprintf(s->holder, sizeof(s->holder), "%.*s", (int)holder.len,
             holder.data == NULL ? "" : (const char *)holder.data);
}

static inline void on_renewed(void *ctx, uint64_t token, enum redis_word word)
{
    struct tier_world *w = ctx;
    w->renewals[w->renewal_count++ % SAID] = (struct said){.token = token, .word = word};
}

static inline void on_released(void *ctx, uint64_t token, enum redis_word word)
{
    struct tier_world *w = ctx;
    struct said *s = &w->releases[w->release_count++ % SAID];
    *s = (struct said){.token = token, .word = word};
    if (word == REDIS_CONFIRMED) {
        snprintf(s->holder, sizeof(s->holder), "%s", request(&w->redis, "GET lock:a"));
    }
}

static inline void on_lost(void *ctx, uint64_t token, struct id lease, const char *why)
{
    struct tier_world *w = ctx;
    assert_int_equal(lease.low, token);
    assert_true(strlen(why) > 0);
    w->lost[w->lost_count++ % SAID] = token;
}

/* The timer runs the node's turns. */
static inline void on_turn(void *ctx)
{
    struct tier_world *w = ctx;
    redis_tier_run(w->tier);
}

static inline void open_timed(struct tier_world *w, enum redis_fallback fallback,
                              uint32_t timeout_ms)
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

static inline void open_with(struct tier_world *w, enum redis_fallback fallback)
{
    open_timed(w, fallback, LONG_TIMEOUT_MS);
}

static inline void close_world(struct tier_world *w)
{
    w->redis.net.on_turn = NULL;
    redis_tier_close(w->tier);
    world_close(&w->redis);
}

static inline struct redis_tier_view see(struct tier_world *w)
{
    struct redis_tier_view view;
    redis_tier_view(w->tier, &view);
    return view;
}

static inline struct redis_hold hold_of(const char *name, uint64_t token)
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

static inline void expect_grant(struct tier_world *w, const struct redis_hold *hold,
                                enum redis_word word)
{
    int before = w->grant_count;
    assert_true(redis_tier_grant(w->tier, hold));
    assert_int_equal(w->grant_count, before);
    UNTIL(&w->redis, w->grant_count > before);
    assert_int_equal(w->grants[before].token, hold->token);
    assert_int_equal(w->grants[before].word, word);
}

/* Three names under one token, a part each, in this order; confirmed once. */
static inline void expect_multi_grant(struct tier_world *w, const char *const names[3],
                                      uint64_t token)
{
    int before = w->grant_count;
    for (uint32_t i = 0; i < 3; i++) {
        struct redis_hold hold = hold_of(names[i], token);
        hold.part = i + 1;
        hold.parts = 3;
        assert_true(redis_tier_grant(w->tier, &hold));
    }
    UNTIL(&w->redis, w->grant_count == before + 1);
    assert_int_equal(w->grants[before].word, REDIS_CONFIRMED);
}

/* The same where the timeout is short: false when Redis, or we, were too slow for it. */
static inline bool is_granted_in_time(struct tier_world *w, const struct redis_hold *hold)
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
static inline bool late(struct tier_world *w)
{
    close_world(w);
    return false;
}

#endif

/* Counters (S13.5): no locks, limited, and with a TTL or without. */
#include "transact_world.h"

static void a_counter_is_no_lock(void **state)
{
    struct world *w = *state;
    set_counter(w, "n", -1);
    assert_done(run(w));
    struct key_view view = look(w, "n");
    assert_int_equal(view.kind, KEY_COUNTER);
    assert_int_equal(view.number, -1);
    acquire(w, "n", MODE_SHARED, 1000);
    assert_int_equal(w->result.outcome, OUTCOME_REFUSED);
    assert_int_equal(w->result.reason, REASON_WRONG_KIND);
    set_counter(w, "n", -2);
    assert_done(run(w));
    expect(w, "n", view.version);
    assert_int_equal(run(w)->reason, REASON_CONFLICT);
    set_counter(w, "n", -1); /* nothing else of a counter can be read */
    assert_done(run(w));
    expect(w, "n", view.version);
    assert_done(run(w));
    drop(w, "n", 0);
    assert_done(run(w));
    assert_int_equal(look(w, "n").kind, KEY_ABSENT);
    acquire(w, "n", MODE_SHARED, 0);
    assert_int_equal(w->result.outcome, OUTCOME_GRANTED);
}

static void set_counter_ttl(struct world *w, const char *name, int64_t number, uint64_t ttl_ms)
{
    effect(w, (struct effect){.kind = EFFECT_COUNTER,
                              .flags = ttl_ms == 0 ? EFFECT_PERSIST : EFFECT_TTL,
                              .name = slice_of(name),
                              .number = number,
                              .ttl_ms = ttl_ms});
}

static void a_counter_may_have_a_ttl(void **state)
{
    struct world *w = *state;
    set_counter(w, "n", 1);
    assert_done(run(w));
    struct key_view before = look(w, "n");
    assert_int_equal(before.deadline_ms, 0);
    set_counter_ttl(w, "n", 1, 5000);
    assert_done(run(w));
    assert_int_equal(look(w, "n").deadline_ms, w->now_ms + 5000);
    assert_false(key_version_equal(before.version, look(w, "n").version));
    assert_int_equal(core_next_due_ms(w->core), w->now_ms + 5000);
    uint64_t deadline_ms = w->now_ms + 5000;
    pass(w, 3000);
    set_counter(w, "n", 2); /* keeps it, as INCR does */
    assert_done(run(w));
    assert_int_equal(look(w, "n").deadline_ms, deadline_ms);
    pass(w, 1999);
    assert_int_equal(look(w, "n").number, 2);
    pass(w, 1);
    assert_int_equal(look(w, "n").kind, KEY_ABSENT);
    acquire(w, "n", MODE_EXCLUSIVE, 1000); /* the name is free for a lock */
    assert_int_equal(w->result.outcome, OUTCOME_GRANTED);
    struct core_stats stats;
    core_stats(w->core, &stats);
    assert_int_equal(stats.counters, 0);
}

static void a_counter_can_lose_its_ttl(void **state)
{
    struct world *w = *state;
    set_counter_ttl(w, "n", 7, 1000);
    assert_done(run(w));
    set_counter_ttl(w, "n", 7, 0);
    assert_done(run(w));
    pass(w, 100000);
    assert_int_equal(look(w, "n").number, 7);
    assert_int_equal(look(w, "n").deadline_ms, 0);
    set_counter_ttl(w, "n", 8, 1000);
    drop(w, "m", 0);
    assert_int_equal(run(w)->reason, REASON_CONFLICT); /* all or nothing */
    assert_int_equal(look(w, "n").deadline_ms, 0);
    set_counter_ttl(w, "n", 8, 500);
    assert_done(run(w));
    drop(w, "n", 0);
    assert_done(run(w));
    set_counter(w, "n", 1); /* a new one has no deadline */
    assert_done(run(w));
    assert_int_equal(look(w, "n").deadline_ms, 0);
    assert_int_equal(core_next_due_ms(w->core), UINT64_MAX);
}

/* S12.9: until all members know of it. */
static void the_ttl_of_a_counter_needs_version_4(void **state)
{
    (void)state;
    struct world w = {.core = core_new(&(struct core_options){
                          .memory = memory_system(), .hash_key = 1, .version = 3})};
    pass(&w, 1000);
    fresh(&w);
    set_counter(&w, "n", 1);
    assert_done(run(&w));
    set_counter_ttl(&w, "n", 2, 1000);
    assert_int_equal(run(&w)->error, HF_NOT_UPGRADED);
    set_counter_ttl(&w, "n", 2, 0);
    assert_int_equal(run(&w)->error, HF_NOT_UPGRADED);
    assert_int_equal(look(&w, "n").number, 1);
    struct command upgrade;
    command_init(&upgrade, COMMAND_UPGRADE);
    upgrade.upgrade.version = 4;
    core_apply(w.core, &upgrade, &w.result);
    set_counter_ttl(&w, "n", 2, 1000);
    assert_done(run(&w));
    core_free(w.core);
}

static void the_ttl_of_a_counter_has_a_range(void **state)
{
    struct world *w = *state;
    set_counter_ttl(w, "n", 1, LIMIT_KEY_TTL_MAX_MS);
    assert_done(run(w));
    set_counter_ttl(w, "n", 1, LIMIT_KEY_TTL_MAX_MS + 1);
    assert_int_equal(run(w)->error, HF_INVALID_TTL);
    effect(w, (struct effect){.kind = EFFECT_COUNTER, .flags = EFFECT_TTL, .name = slice_of("n")});
    assert_int_equal(run(w)->error, HF_INVALID_TTL);
    effect(w, (struct effect){.kind = EFFECT_COUNTER,
                              .flags = EFFECT_TTL | EFFECT_PERSIST,
                              .name = slice_of("n"),
                              .ttl_ms = 1000});
    assert_int_equal(run(w)->error, HF_MALFORMED);
    effect(w,
           (struct effect){
               .kind = EFFECT_EXPIRE, .flags = EFFECT_TTL, .name = slice_of("n"), .ttl_ms = 1000});
    assert_int_equal(run(w)->error, HF_MALFORMED);
}

static void counters_are_limited(void **state)
{
    struct world *w = *state;
    char name[32];
    uint64_t made = 0;
    while (made < LIMIT_COUNTERS) {
        for (uint32_t i = 0; i < 50; i++) {
            (void)snprintf(name, sizeof(name), "n/%u", (unsigned)made++);
            set_counter(w, name, 1);
        }
        struct command c;
        command_init(&c, COMMAND_TRANSACT);
        c.transact.id = (struct id){++w->ids, 9};
        c.transact.client = slice_of("resp");
        c.transact.effects = packer_list(&w->effects);
        core_apply(w->core, &c, &w->result);
        assert_done(&w->result);
        fresh(w);
    }
    set_counter(w, "n/1", 2); /* one that is there may change */
    assert_done(run(w));
    set_counter(w, "one-more", 1);
    assert_string_equal(hf_error_code(run(w)->error), "limit_counters");
    drop(w, "n/7", 0);
    assert_done(run(w));
    set_counter(w, "one-more", 1);
    assert_done(run(w));
    struct core_stats stats;
    core_stats(w->core, &stats);
    assert_int_equal(stats.counters, LIMIT_COUNTERS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_counter_is_no_lock, setup, teardown),
        cmocka_unit_test_setup_teardown(a_counter_may_have_a_ttl, setup, teardown),
        cmocka_unit_test_setup_teardown(a_counter_can_lose_its_ttl, setup, teardown),
        cmocka_unit_test(the_ttl_of_a_counter_needs_version_4),
        cmocka_unit_test_setup_teardown(the_ttl_of_a_counter_has_a_range, setup, teardown),
        cmocka_unit_test_setup_teardown(counters_are_limited, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Tests of the leader's scan for grants past their long-held rule (S16.2), on both tiers, with a replica and a
 * clock of the test. */
#include "base_testing.h"

#include "leader_world.h"

enum { STEP_MS = 100, MANY = 200 };

static uint32_t submitted;
static uint32_t space;    /* commands that replica_submit still takes */
static uint32_t reported; /* events of the replicated state */

void *forward_no_cookie(void)
{
    return &world;
}

bool replica_has_majority(struct replica *r, struct replica_time now)
{
    (void)r;
    (void)now;
    return world.majority;
}

struct tier_time node_tier_now(void *ctx)
{
    (void)ctx;
    return tier_at();
}

enum hf_error replica_submit(struct replica *r, const struct command *command, void *cookie,
                             struct replica_time now)
{
    (void)r;
    (void)now;
    assert_non_null(cookie);
    assert_int_equal(command->type, COMMAND_LONG_HELD);
    if (space == 0) {
        return HF_BUSY;
    }
    space--;
    submitted++;
    struct result result = tier_replicate(command);
    assert_int_equal(result.error, HF_OK);
    reported += result.count;
    return HF_OK;
}

static int set_up(void **state)
{
    (void)state;
    leader_world_open();
    submitted = 0;
    reported = 0;
    space = UINT32_MAX;
    return 0;
}

static void steps(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        leader_world_pass(STEP_MS);
        node_step_alerts(node, (struct replica_time){.boot_us = boot_us});
    }
}

static void set_rule(const char *prefix, uint64_t held_ms)
{
    struct command c;
    command_init(&c, COMMAND_ALERT_SET);
    c.alert_set.prefix = slice_of(prefix);
    c.alert_set.held_ms = held_ms;
    c.alert_set.actor = slice_of("olga");
    c.alert_set.reason = slice_of("a test");
    assert_int_equal(tier_replicate(&c).error, HF_OK);
}

static uint32_t tier_reports(void)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < world.event_count; i++) {
        count += world.events[i].type == EVENT_LONG_HELD;
    }
    return count;
}

static bool is_marked(const struct core *core, const char *name)
{
    struct lock_view lock;
    assert_true(view_lock(core, 0, slice_of(name), &lock));
    return lock.long_held;
}

static void a_grant_past_its_rule_is_reported_once_in_both_tiers(void **state)
{
    (void)state;
    set_rule("jobs/", 3000);
    (void)take_in_log("jobs/log");
    (void)take_in_log("other");
    (void)take_in_memory("jobs/memory");
    (void)take_in_memory("other/memory");
    steps(29);
    assert_int_equal(reported + tier_reports(), 0);
    steps(30);
    assert_int_equal(reported, 1);
    assert_int_equal(tier_reports(), 1);
    assert_true(is_marked(world.core, "jobs/log"));
    assert_false(is_marked(world.core, "other"));
    assert_true(is_marked(memory_tier_core(world.tier), "jobs/memory"));
    assert_false(is_marked(memory_tier_core(world.tier), "other/memory"));
    steps(100);
    assert_int_equal(submitted, 1);
    assert_int_equal(tier_reports(), 1);
}

static void the_next_grant_of_a_name_is_reported_again(void **state)
{
    (void)state;
    set_rule("", 1000);
    uint64_t token = take_in_memory("m");
    steps(40);
    assert_int_equal(tier_reports(), 1);
    tier_give(token, "m");
    (void)take_in_memory("m");
    assert_false(is_marked(memory_tier_core(world.tier), "m"));
    steps(40);
    assert_int_equal(tier_reports(), 2);
}

static void without_a_rule_nothing_is_examined(void **state)
{
    (void)state;
    (void)take_in_log("a");
    for (int i = 0; i < 50; i++) {
        steps(1);
        assert_false(node->alerts.scanning);
    }
    assert_int_equal(submitted, 0);
}

static void a_step_reports_a_bounded_number_and_the_rest_follows(void **state)
{
    (void)state;
    char name[16];
    set_rule("k", 1000);
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof(name), "k%d", i);
        (void)take_in_log(name);
        snprintf(name, sizeof(name), "km%d", i);
        (void)take_in_memory(name);
    }
    world.now_ms += 2000;
    uint32_t before = 0;
    for (int i = 0; i < 60; i++) {
        steps(1);
        assert_in_range(submitted + tier_reports() - before, 0, 64);
        before = submitted + tier_reports();
    }
    assert_int_equal(reported, MANY);
    assert_int_equal(submitted, MANY);
    assert_int_equal(tier_reports(), MANY);
}

static void what_does_not_fit_into_a_batch_is_reported_later(void **state)
{
    (void)state;
    set_rule("", 1000);
    (void)take_in_log("a");
    (void)take_in_log("b");
    space = 1;
    steps(40);
    assert_int_equal(reported, 1);
    space = 1;
    steps(1);
    assert_int_equal(reported, 2);
}

static void only_a_leader_with_a_majority_reports(void **state)
{
    (void)state;
    set_rule("", 1000);
    (void)take_in_log("a");
    (void)take_in_memory("m");
    node->serving = false;
    steps(40);
    node->serving = true;
    world.majority = false;
    steps(40);
    assert_int_equal(submitted + tier_reports(), 0);
    world.majority = true;
    steps(20);
    assert_int_equal(submitted, 1);
    assert_int_equal(tier_reports(), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_grant_past_its_rule_is_reported_once_in_both_tiers,
                                        set_up, leader_world_close),
        cmocka_unit_test_setup_teardown(the_next_grant_of_a_name_is_reported_again, set_up,
                                        leader_world_close),
        cmocka_unit_test_setup_teardown(without_a_rule_nothing_is_examined, set_up,
                                        leader_world_close),
        cmocka_unit_test_setup_teardown(a_step_reports_a_bounded_number_and_the_rest_follows,
                                        set_up, leader_world_close),
        cmocka_unit_test_setup_teardown(what_does_not_fit_into_a_batch_is_reported_later, set_up,
                                        leader_world_close),
        cmocka_unit_test_setup_teardown(only_a_leader_with_a_majority_reports, set_up,
                                        leader_world_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Tests of the age of the oldest hold (node_oldest.c), over both tiers, with a clock of the test. */
#include "base_testing.h"

#include "leader_world.h"

enum { STEP_MS = 100, MANY = 30000 };

struct replica_time node_now(const struct node *n)
{
    (void)n;
    return (struct replica_time){.boot_us = boot_us};
}

static int set_up(void **state)
{
    (void)state;
    leader_world_open();
    node->oldest.found.since_ms = UINT64_MAX;
    node->oldest.scanned.since_ms = UINT64_MAX;
    return 0;
}

static void steps(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        leader_world_pass(STEP_MS);
        node_step_oldest(node, node_now(node));
    }
}

static void release(enum tier tier, const char *name, uint64_t token)
{
    struct command c;
    command_init(&c, COMMAND_RELEASE);
    c.release.client = slice_of("client");
    c.release.token = token;
    c.release.name = slice_of(name);
    if (tier == TIER_CORRECTNESS) {
        assert_int_equal(tier_replicate(&c).outcome, OUTCOME_DONE);
    } else {
        assert_int_equal(tier_submit(tier, &c), TIER_TAKEN);
        assert_int_equal(world.last.outcome, OUTCOME_DONE);
    }
}

static void the_oldest_of_both_tiers_is_followed(void **state)
{
    (void)state;
    steps(3);
    assert_int_equal(node_oldest_hold_ms(node), 0);
    uint64_t first = take_in_memory("first");
    steps(20);
    uint64_t second = take_in_log("second");
    steps(20);
    (void)take_in_log("third");
    steps(20);
    assert_int_equal(node_oldest_hold_ms(node), 60 * STEP_MS);
    release(TIER_EFFICIENCY, "first", first);
    steps(20);
    assert_int_equal(node_oldest_hold_ms(node), 60 * STEP_MS);
    release(TIER_CORRECTNESS, "second", second);
    steps(20);
    assert_int_equal(node_oldest_hold_ms(node), 60 * STEP_MS);
    node->serving = false;
    steps(1);
    assert_int_equal(node_oldest_hold_ms(node), 0);
}

static void many_names_take_several_steps(void **state)
{
    (void)state;
    char name[32];
    uint64_t first = take_in_log("first");
    steps(30);
    uint64_t began_ms = world.now_ms;
    for (uint32_t i = 0; i < MANY; i++) {
        snprintf(name, sizeof(name), "many/%u", i);
        (void)take_in_log(name);
    }
    assert_true(world.now_ms - began_ms < 1000000);
    release(TIER_CORRECTNESS, "first", first);
    assert_true(node_oldest_hold_ms(node) <= world.now_ms - began_ms); /* never what has ended */
    steps(1);
    assert_true(node->oldest.scanning);
    steps(40);
    assert_false(node->oldest.scanning);
    assert_int_equal(node_oldest_hold_ms(node), world.now_ms - began_ms);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_oldest_of_both_tiers_is_followed, set_up,
                                        leader_world_close),
        cmocka_unit_test_setup_teardown(many_names_take_several_steps, set_up, leader_world_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

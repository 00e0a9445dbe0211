/* Tests of the age of the oldest hold (node_oldest.c), over both tiers, with a clock of the test. */
#include "base_testing.h"

#include "core/view.h"
#include "node/node_state.h"
#include "tier_world.h"

enum { STEP_MS = 100, MANY = 30000 };

static struct node *node;
static uint64_t boot_us;

const struct core *replica_core(const struct replica *r)
{
    (void)r;
    return world.core;
}

uint64_t replica_cluster_ms(const struct replica *r, struct replica_time now)
{
    (void)r;
    (void)now;
    return world.now_ms;
}

struct replica_time node_now(const struct node *n)
{
    (void)n;
    return (struct replica_time){.boot_us = boot_us};
}

static int set_up(void **state)
{
    (void)state;
    tier_world_open();
    node = calloc(1, sizeof(*node));
    node->serving = true;
    node->tier = world.tier;
    node->oldest.found.since_ms = UINT64_MAX;
    node->oldest.scanned.since_ms = UINT64_MAX;
    boot_us = 5000000;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tier_world_close();
    free(node);
    return 0;
}

static void steps(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        boot_us += STEP_MS * 1000;
        world.now_ms += STEP_MS;
        node_step_oldest(node, node_now(node));
    }
}

/* For an hour. */
static uint64_t take_in_log(const char *name)
{
    struct command c;
    tier_make_acquire(&c, name, 0);
    c.acquire.ttl_ms = 3600000;
    struct result result = tier_replicate(&c);
    assert_int_equal(result.outcome, OUTCOME_GRANTED);
    return result.token;
}

static uint64_t take_in_memory(const char *name)
{
    struct command c;
    tier_make_acquire(&c, name, 0);
    c.acquire.ttl_ms = 3600000;
    assert_int_equal(tier_submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    assert_int_equal(world.last.outcome, OUTCOME_GRANTED);
    return world.last.token;
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
        cmocka_unit_test_setup_teardown(the_oldest_of_both_tiers_is_followed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_names_take_several_steps, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

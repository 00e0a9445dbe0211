/* Tests of names in two tiers when one of them has a counter of the Redis protocol there: one name
 * is in one tier, whatever it is (S10.2, S13.5). */
#include "base_testing.h"

#include "core/effect.h"
#include "core/view.h"
#include "tier_world.h"

static uint8_t packed_bytes[256];

/* INCR, or a DEL of the counter. */
static void make_counting(struct command *c, enum effect_kind kind, const char *name)
{
    static uint64_t drawn;
    struct packer p = packer_make(packed_bytes, sizeof(packed_bytes));
    struct effect effect = {.kind = kind, .name = slice_of(name), .number = 7};
    assert_true(pack_effect(&p, &effect));
    command_init(c, COMMAND_TRANSACT);
    c->transact.id = (struct id){9, ++drawn};
    c->transact.client = slice_of("client");
    c->transact.effects = packer_list(&p);
}

static void assert_refused(enum tier tier, const struct command *c)
{
    assert_int_equal(tier_submit(tier, c), TIER_TAKEN);
    assert_int_equal(world.last.error, HF_WRONG_TIER);
}

static void a_counter_in_the_log_keeps_its_name_out_of_memory(void **state)
{
    (void)state;
    struct command count;
    struct command lock;
    tier_world_open();
    make_counting(&count, EFFECT_COUNTER, "n");
    assert_int_equal(tier_submit(TIER_CORRECTNESS, &count), TIER_PROPOSE);
    assert_int_equal(tier_replicate(&count).outcome, OUTCOME_DONE);
    tier_make_acquire(&lock, "n", 0);
    assert_refused(TIER_EFFICIENCY, &lock);
    make_counting(&count, EFFECT_COUNTER, "n");
    assert_refused(TIER_EFFICIENCY, &count);
    /* It is free for either when it is free. */
    make_counting(&count, EFFECT_DROP, "n");
    assert_int_equal(tier_replicate(&count).outcome, OUTCOME_DONE);
    assert_int_equal(tier_submit(TIER_EFFICIENCY, &lock), TIER_TAKEN);
    assert_int_equal(world.last.outcome, OUTCOME_GRANTED);
    tier_world_close();
}

static void a_counter_in_memory_keeps_its_name_out_of_the_log(void **state)
{
    (void)state;
    struct command count;
    struct command lock;
    tier_world_open();
    make_counting(&count, EFFECT_COUNTER, "n");
    assert_int_equal(tier_submit(TIER_EFFICIENCY, &count), TIER_TAKEN);
    assert_int_equal(world.last.error, HF_OK);
    assert_true(view_is_counter(memory_tier_core(world.tier), 0, slice_of("n")));
    tier_make_acquire(&lock, "n", 0);
    assert_refused(TIER_CORRECTNESS, &lock);
    make_counting(&count, EFFECT_COUNTER, "n");
    assert_refused(TIER_CORRECTNESS, &count);
    tier_make_acquire(&lock, "another", 0);
    assert_int_equal(tier_submit(TIER_CORRECTNESS, &lock), TIER_PROPOSE);
    tier_world_close();
}

static void nobody_counts_in_a_lock_of_the_other_tier(void **state)
{
    (void)state;
    struct command count;
    tier_world_open();
    (void)tier_take("fast");
    (void)tier_take_replicated("safe");
    make_counting(&count, EFFECT_COUNTER, "fast");
    assert_refused(TIER_CORRECTNESS, &count);
    make_counting(&count, EFFECT_COUNTER, "safe");
    assert_refused(TIER_EFFICIENCY, &count);
    tier_world_close();
}

static void a_counter_in_a_batch_is_decided_by_its_outcome(void **state)
{
    (void)state;
    struct command count;
    struct command lock;
    tier_world_open();
    make_counting(&count, EFFECT_COUNTER, "n");
    assert_int_equal(tier_submit(TIER_CORRECTNESS, &count), TIER_PROPOSE);
    uint64_t number = memory_tier_on_proposed(world.tier, &count);
    tier_make_acquire(&lock, "n", 0);
    assert_int_equal(tier_submit(TIER_EFFICIENCY, &lock), TIER_LATER);
    (void)tier_replicate(&count);
    memory_tier_on_settled(world.tier, number);
    assert_refused(TIER_EFFICIENCY, &lock);
    tier_world_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_counter_in_the_log_keeps_its_name_out_of_memory),
        cmocka_unit_test(a_counter_in_memory_keeps_its_name_out_of_the_log),
        cmocka_unit_test(nobody_counts_in_a_lock_of_the_other_tier),
        cmocka_unit_test(a_counter_in_a_batch_is_decided_by_its_outcome),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

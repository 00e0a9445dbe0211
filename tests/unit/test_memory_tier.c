/* Tests of the tier EFFICIENCY without a node around it: a replicated core that the test feeds, the
 * tier next to it, and time as an argument (S3.1, S10). */
#include "base_testing.h"

#include "core/effect.h"
#include "core/view.h"
#include "replica/contact.h"
#include "tier_world.h"

/* ---- tokens ---- */

static void tokens_rise_through_both_tiers(void **state)
{
    (void)state;
    tier_world_open();
    uint64_t last = 0;
    char name[16];
    for (int i = 0; i < 60; i++) {
        snprintf(name, sizeof(name), "n%d", i);
        uint64_t token = i % 3 == 2 ? tier_take_replicated(name) : tier_take(name);
        assert_int_equal(tier_of_token(token), i % 3 == 2 ? TIER_CORRECTNESS : TIER_EFFICIENCY);
        assert_true(token > last);
        assert_int_equal(token / 1024, core_counter(world.core));
        last = token;
    }
    tier_world_close();
}

/* What makes the tier quick: the answer comes within the call, and nothing is written to the log. */
static void a_grant_and_a_release_are_answered_at_once_without_the_log(void **state)
{
    (void)state;
    tier_world_open();
    struct command c;
    uint64_t index = world.index;
    for (uint32_t i = 1; i <= 100; i++) {
        tier_make_acquire(&c, "n", 0);
        world.results = 0;
        assert_int_equal(tier_submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
        assert_int_equal(world.results, 1);
        assert_int_equal(world.last.outcome, OUTCOME_GRANTED);
        tier_give(world.last.token, "n");
        assert_int_equal(world.results, 2);
    }
    assert_int_equal(world.index, index);
    assert_int_equal(world.advances, 0);
    tier_world_close();
}

static void at_half_of_the_tokens_an_advance_is_proposed_once(void **state)
{
    (void)state;
    tier_world_open();
    for (int i = 1; i <= 511; i++) {
        tier_give(tier_take("n"), "n");
    }
    assert_int_equal(world.advances, 0);
    tier_give(tier_take("n"), "n");
    assert_int_equal(world.advances, 1);
    tier_give(tier_take("n"), "n");
    assert_int_equal(world.advances, 1);
    tier_replicate_plain(COMMAND_ADVANCE);
    assert_int_equal(tier_take("n") % 1024, 514); /* those before it are as good as ever */
    assert_int_equal(world.advances, 1);
    tier_world_close();
}

/* Takes and gives, once at least, until so many tokens are left; each is above the one before, and
 * of this tier. */
static uint64_t take_until_left(uint64_t left, uint64_t last)
{
    do {
        uint64_t token = tier_take("n");
        assert_true(token > last);
        assert_int_equal(tier_of_token(token), TIER_EFFICIENCY);
        tier_give(token, "n");
        last = token;
    } while (core_tokens_left(memory_tier_core(world.tier)) > left);
    return last;
}

static void one_advance_is_64_times_1023_tokens_and_requested_at_half(void **state)
{
    (void)state;
    tier_world_open();
    uint64_t lead = core_counter(world.core);
    uint64_t last = take_until_left(511, 0);
    assert_int_equal(world.advances, 1);
    tier_replicate_plain(COMMAND_ADVANCE);
    assert_int_equal(core_counter(world.core), lead + 64);
    last = take_until_left(32 * 1023 + 1, last);
    assert_int_equal(world.advances, 1);
    last = take_until_left(32 * 1023, last);
    assert_int_equal(world.advances, 2);
    /* The next is on its way while the rest is used, and adds to it. */
    last = take_until_left(31 * 1023, last);
    assert_int_equal(world.advances, 2);
    tier_replicate_plain(COMMAND_ADVANCE);
    (void)tier_take("m");
    assert_int_equal(core_tokens_left(memory_tier_core(world.tier)), 95 * 1023 - 1);
    last = take_until_left(0, last);
    assert_int_equal(last, (lead + 129) * 1024 - 1); /* not one was left out */
    assert_int_equal(world.advances, 3);
    assert_int_equal(core_counter(world.core), lead + 128);
    struct command c;
    tier_make_acquire(&c, "n", 0);
    assert_int_equal(tier_submit(TIER_EFFICIENCY, &c), TIER_LATER);
    assert_true(tier_take_replicated("safe") > last);
    tier_world_close();
}

/* S3.1: a later holder has a higher token, of whichever tier. */
static void what_is_left_of_a_block_is_not_used_after_a_grant_of_the_log(void **state)
{
    (void)state;
    tier_world_open();
    tier_replicate_plain(COMMAND_ADVANCE);
    uint64_t fast = tier_take("a");
    uint64_t safe = tier_take_replicated("b");
    assert_true(safe > fast);
    fast = tier_take("c");
    assert_int_equal(fast, safe + 1);
    /* Nor when an advance that was under way comes behind it, before anybody looked. */
    tier_replicate_plain(COMMAND_ADVANCE);
    safe = tier_take_replicated("d");
    assert_true(safe > fast);
    tier_replicate_plain(COMMAND_ADVANCE);
    fast = tier_take("e");
    assert_int_equal(fast, safe + 1);
    /* And of a block nobody else has a token. */
    fast = take_until_left(0, fast);
    assert_true(fast > core_counter(world.core) * 1024);
    assert_true(tier_take_replicated("f") > fast);
    tier_world_close();
}

static void a_block_ends_with_the_leadership_that_reserved_it(void **state)
{
    (void)state;
    tier_world_open();
    tier_replicate_plain(COMMAND_ADVANCE);
    uint64_t before = take_until_left(40 * 1023, 0);
    tier_replicate_plain(COMMAND_LEAD);
    memory_tier_begin(world.tier, 1);
    uint64_t epoch = core_epoch(world.core) * 1024;
    assert_true(epoch > before);
    assert_int_equal(tier_take("n"), epoch + 1);
    assert_int_equal(core_tokens_left(memory_tier_core(world.tier)), 1022);
    /* Nor is one good that nobody said was ours. */
    struct command advance;
    struct result result;
    command_init(&advance, COMMAND_ADVANCE);
    core_begin(world.core, ++world.index, world.now_ms, 0);
    core_apply(world.core, &advance, &result);
    assert_int_equal(tier_take("m"), core_counter(world.core) * 1024 + 1);
    tier_world_close();
}

/* Decision 21: a member of an earlier version is among us, and raises C by one. */
static void before_the_upgrade_an_advance_is_one_c(void **state)
{
    (void)state;
    tier_world_open_version(2);
    uint64_t lead = core_counter(world.core);
    uint64_t last = take_until_left(511, 0);
    assert_int_equal(world.advances, 1);
    tier_replicate_plain(COMMAND_ADVANCE);
    assert_int_equal(core_counter(world.core), lead + 1);
    last = take_until_left(511, last);
    assert_int_equal(world.advances, 2);
    struct command upgrade;
    command_init(&upgrade, COMMAND_UPGRADE);
    upgrade.upgrade.version = CORE_VERSION;
    (void)tier_replicate(&upgrade);
    tier_replicate_plain(COMMAND_ADVANCE);
    assert_int_equal(core_counter(world.core), lead + 65);
    last = take_until_left(0, last);
    assert_int_equal(last, (lead + 66) * 1024 - 1);
    tier_world_close();
}

static void without_tokens_grants_wait_and_are_not_refused(void **state)
{
    (void)state;
    tier_world_open();
    struct command c;
    uint64_t lead = core_counter(world.core);
    world.refuses = true;
    for (int i = 1; i <= 1022; i++) {
        tier_give(tier_take("n"), "n");
    }
    uint64_t last = tier_take("held");
    assert_int_equal(last % 1024, 1023);
    /* Who comes now waits outside, who waits inside stays there, and a release is still taken. */
    tier_make_acquire(&c, "n", 0);
    uint32_t results = world.results;
    assert_int_equal(tier_submit(TIER_EFFICIENCY, &c), TIER_LATER);
    assert_int_equal(world.results, results);
    world.refuses = false;
    assert_int_equal(tier_submit(TIER_EFFICIENCY, &c), TIER_LATER);
    assert_int_equal(world.advances, 1); /* as soon as it can be */
    tier_give(last, "held");
    tier_replicate_plain(COMMAND_ADVANCE);
    assert_int_equal(tier_submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    assert_int_equal(world.last.token, (lead + 1) * 1024 + 1); /* the next that is not of the log */
    tier_world_close();
}

static void a_waiter_that_is_next_without_a_token_gets_it_after_the_advance(void **state)
{
    (void)state;
    tier_world_open();
    struct command c;
    uint64_t lead = core_counter(world.core);
    world.refuses = true;
    uint64_t first = tier_take("held");
    tier_make_acquire(&c, "held", 60000);
    assert_int_equal(tier_submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    assert_int_equal(world.last.outcome, OUTCOME_QUEUED);
    assert_true(world.last.attachment > TIER_ATTACHMENTS);
    for (int i = 2; i <= 1023; i++) {
        tier_give(tier_take("n"), "n");
    }
    tier_give(first, "held");
    assert_int_not_equal(world.events[world.event_count - 1].type, EVENT_GRANTED);
    assert_int_equal(memory_tier_next_ms(world.tier), UINT64_MAX); /* and nobody spins meanwhile */
    tier_replicate_plain(COMMAND_ADVANCE);
    assert_true(memory_tier_next_ms(world.tier) <= world.now_ms);
    memory_tier_run(world.tier, tier_at());
    const struct event *e = &world.events[world.event_count - 1];
    assert_int_equal(e->type, EVENT_GRANTED);
    assert_int_equal(e->token, (lead + 1) * 1024 + 1);
    assert_true(id_equal(e->lease, c.acquire.lease));
    tier_world_close();
}

/* ---- the other tier ---- */

static void assert_wrong_tier(enum tier tier, const char *name)
{
    struct command c;
    tier_make_acquire(&c, name, 0);
    assert_int_equal(tier_submit(tier, &c), TIER_TAKEN);
    assert_int_equal(world.last.error, HF_WRONG_TIER);
}

static void a_name_in_one_tier_is_refused_in_the_other(void **state)
{
    (void)state;
    tier_world_open();
    uint64_t token = tier_take("fast");
    assert_wrong_tier(TIER_CORRECTNESS, "fast");
    (void)tier_take_replicated("safe");
    assert_wrong_tier(TIER_EFFICIENCY, "safe");
    tier_give(token, "fast");
    (void)tier_take_replicated("fast");
    assert_wrong_tier(TIER_EFFICIENCY, "fast");
    /* One of several names is enough. */
    struct command c;
    tier_make_acquire(&c, "other", 0);
    c.acquire.names.count = 2;
    c.acquire.names.at[1] = slice_of("safe");
    assert_int_equal(tier_submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    assert_int_equal(world.last.error, HF_WRONG_TIER);
    tier_world_close();
}

static void a_name_in_a_batch_is_decided_by_its_outcome(void **state)
{
    (void)state;
    tier_world_open();
    struct command proposed;
    struct command c;
    tier_make_acquire(&proposed, "n", 0);
    assert_int_equal(tier_submit(TIER_CORRECTNESS, &proposed), TIER_PROPOSE);
    uint64_t number = memory_tier_on_proposed(world.tier, &proposed);
    tier_make_acquire(&c, "n", 0);
    assert_int_equal(tier_submit(TIER_EFFICIENCY, &c), TIER_LATER);
    (void)tier_take("another"); /* names that nobody proposed are free */
    (void)tier_replicate(&proposed);
    memory_tier_on_settled(world.tier, number);
    assert_int_equal(tier_submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    assert_int_equal(world.last.error, HF_WRONG_TIER);
    /* One that came to nothing leaves the name free. */
    tier_make_acquire(&proposed, "m", 0);
    number = memory_tier_on_proposed(world.tier, &proposed);
    tier_make_acquire(&c, "m", 0);
    assert_int_equal(tier_submit(TIER_EFFICIENCY, &c), TIER_LATER);
    memory_tier_on_settled(world.tier, number);
    assert_int_equal(tier_submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    assert_int_equal(world.last.outcome, OUTCOME_GRANTED);
    tier_world_close();
}

/* ---- routing ---- */

static void a_token_a_lease_and_a_name_find_their_tier(void **state)
{
    (void)state;
    tier_world_open();
    struct command c;
    uint64_t safe = tier_take_replicated("safe");
    (void)tier_take("fast");
    struct id lease = world.last.lease;
    command_init(&c, COMMAND_RENEW);
    c.renew.name = slice_of("safe");
    c.renew.token = safe;
    assert_int_equal(tier_submit(TIER_EFFICIENCY, &c), TIER_PROPOSE);
    command_init(&c, COMMAND_RENEW);
    c.renew.lease = lease;
    c.renew.ttl_ms = 5000;
    assert_int_equal(tier_submit(TIER_CORRECTNESS, &c), TIER_TAKEN);
    assert_int_equal(world.last.deadline_ms, world.now_ms + 5000);
    c.renew.lease = (struct id){9, 9};
    assert_int_equal(tier_submit(TIER_CORRECTNESS, &c), TIER_PROPOSE);
    command_init(&c, COMMAND_FORCE_UNLOCK);
    c.force_unlock.name = slice_of("safe");
    c.force_unlock.actor = c.force_unlock.reason = slice_of("x");
    assert_int_equal(tier_submit(TIER_CORRECTNESS, &c), TIER_PROPOSE);
    command_init(&c, COMMAND_CANCEL);
    c.cancel.lease = lease;
    c.cancel.attachment = 3;
    assert_int_equal(tier_submit(TIER_CORRECTNESS, &c), TIER_PROPOSE);
    /* What has ended is remembered where it was. */
    command_init(&c, COMMAND_RELEASE);
    c.release.lease = lease;
    assert_int_equal(tier_submit(TIER_CORRECTNESS, &c), TIER_TAKEN);
    assert_int_equal(tier_submit(TIER_CORRECTNESS, &c), TIER_TAKEN);
    assert_int_equal(world.last.reason, REASON_ALREADY_RELEASED);
    tier_world_close();
}

static void without_a_majority_nothing_is_served(void **state)
{
    (void)state;
    tier_world_open();
    struct command c;
    uint64_t token = tier_take("n");
    world.majority = false;
    tier_make_acquire(&c, "m", 0);
    assert_int_equal(tier_submit(TIER_EFFICIENCY, &c), TIER_LATER);
    command_init(&c, COMMAND_RELEASE);
    c.release.name = slice_of("n");
    c.release.token = token;
    assert_int_equal(tier_submit(TIER_EFFICIENCY, &c), TIER_LATER);
    world.now_ms += 2000;
    uint32_t events = world.event_count;
    memory_tier_run(world.tier, tier_at());
    assert_int_equal(world.event_count, events);
    command_init(&c, COMMAND_NODE_GONE); /* nor is what is due done along with it */
    c.node_gone.node = 1;
    assert_int_equal(tier_submit(TIER_CORRECTNESS, &c), TIER_LATER);
    assert_int_equal(world.event_count, events);
    world.majority = true;
    memory_tier_run(world.tier, tier_at());
    assert_int_equal(world.events[events].type, EVENT_EXPIRED);
    tier_world_close();
}

static void a_new_leadership_begins_empty_and_with_higher_tokens(void **state)
{
    (void)state;
    tier_world_open();
    struct command c;
    uint64_t before = tier_take("n");
    tier_make_acquire(&c, "n", 60000);
    assert_int_equal(tier_submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    uint64_t attachment = world.last.attachment;
    memory_tier_end(world.tier);
    assert_null(memory_tier_core(world.tier));
    tier_make_acquire(&c, "n", 60000);
    assert_int_equal(tier_submit(TIER_EFFICIENCY, &c), TIER_LATER);
    assert_int_equal(tier_submit(TIER_CORRECTNESS, &c), TIER_PROPOSE);
    tier_replicate_plain(COMMAND_LEAD);
    memory_tier_begin(world.tier, 1);
    assert_true(tier_take("n") > before);
    assert_int_equal(tier_submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    assert_int_not_equal(world.last.attachment, attachment);
    tier_world_close();
}

/* ---- nodes, operators, transactions ---- */

static void a_node_that_is_gone_is_gone_for_both(void **state)
{
    (void)state;
    tier_world_open();
    struct command c;
    (void)tier_take("n");
    tier_make_acquire(&c, "n", 60000);
    assert_int_equal(tier_submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    command_init(&c, COMMAND_NODE_GONE);
    c.node_gone.node = 1;
    assert_int_equal(tier_submit(TIER_CORRECTNESS, &c), TIER_PROPOSE);
    assert_int_equal(world.events[world.event_count - 1].type, EVENT_DETACHED);
    assert_int_equal(world.events[world.event_count - 1].node, 1);
    tier_world_close();
}

static void on_record(void *ctx, const struct audit_view *record)
{
    struct audit_view *out = ctx;
    *out = *record;
}

static void what_operators_do_here_is_on_the_replicated_trail(void **state)
{
    (void)state;
    tier_world_open();
    struct command c;
    struct audit_view record;
    (void)tier_take("n");
    command_init(&c, COMMAND_FORCE_UNLOCK);
    c.force_unlock.name = slice_of("n");
    c.force_unlock.actor = slice_of("admin");
    c.force_unlock.reason = slice_of("stuck");
    world.refuses = true;
    assert_int_equal(tier_submit(TIER_CORRECTNESS, &c), TIER_TAKEN);
    assert_int_equal(world.last.count, 1);
    assert_int_equal(core_audited(world.core), 0);
    world.refuses = false;
    (void)tier_take("m");
    assert_int_equal(core_audited(world.core), 1); /* later, when it could not be at once */
    (void)tier_take("o");
    assert_int_equal(core_audited(world.core), 1); /* and once */
    (void)view_audit(world.core, 0, 1, 1, on_record, &record);
    assert_true(slice_equal(record.action, slice_of("FORCE_UNLOCK")));
    assert_true(slice_equal(record.resource, slice_of("n")));
    assert_true(slice_equal(record.actor, slice_of("admin")));
    assert_true(slice_equal(record.reason, slice_of("stuck")));
    assert_int_equal(record.count, 1);
    tier_world_close();
}

static void a_transaction_takes_a_token_for_each_name(void **state)
{
    (void)state;
    tier_world_open();
    uint8_t bytes[512];
    struct packer p = packer_make(bytes, sizeof(bytes));
    struct command c;
    struct effect put = {.kind = EFFECT_PUT, .value = slice_of("v"), .ttl_ms = 5000};
    put.name = slice_of("a");
    put.lease = (struct id){8, 1};
    assert_true(pack_effect(&p, &put));
    put.name = slice_of("b");
    put.lease = (struct id){8, 2};
    assert_true(pack_effect(&p, &put));
    command_init(&c, COMMAND_TRANSACT);
    c.transact.id = (struct id){8, 3};
    c.transact.client = slice_of("client");
    c.transact.effects = packer_list(&p);
    world.refuses = true;
    for (int i = 1; i <= 1022; i++) {
        tier_give(tier_take("n"), "n");
    }
    assert_int_equal(tier_submit(TIER_EFFICIENCY, &c),
                     TIER_LATER); /* one is left, two are needed */
    tier_replicate_plain(COMMAND_ADVANCE);
    assert_int_equal(tier_submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    assert_int_equal(world.last.error, HF_OK);
    assert_int_equal(core_names(memory_tier_core(world.tier)), 2);
    assert_wrong_tier(TIER_CORRECTNESS, "b");
    assert_int_equal(tier_submit(TIER_CORRECTNESS, &c), TIER_TAKEN);
    assert_int_equal(world.last.error, HF_WRONG_TIER);
    tier_world_close();
}

/* ---- a majority (S10.1) ---- */

static void a_majority_is_more_than_half_of_the_voters_within_the_time(void **state)
{
    (void)state;
    struct contact c;
    static const uint64_t voters[] = {1, 2, 3, 4, 5};
    contact_reset(&c);
    assert_true(contact_is_majority(&c, voters, 1, 1, 300, 1000)); /* alone: always */
    contact_reset(&c);
    assert_false(contact_is_majority(&c, voters, 5, 1, 300, 1000));
    contact_note(&c, 2, 1000);
    contact_note(&c, 9, 1000); /* no voter */
    assert_false(contact_is_majority(&c, voters, 5, 1, 300, 1001));
    contact_note(&c, 4, 1100);
    assert_true(contact_is_majority(&c, voters, 5, 1, 300, 1101));
    assert_true(contact_is_majority(&c, voters, 5, 1, 300, 1300));
    assert_false(contact_is_majority(&c, voters, 5, 1, 300, 1301));
    contact_note(&c, 5, 1290);
    assert_true(contact_is_majority(&c, voters, 5, 1, 300, 1302));
    assert_true(contact_is_majority(&c, voters, 5, 1, 300, 1400));
    assert_false(contact_is_majority(&c, voters, 5, 1, 300, 1401));
}

/* A leader of five that removes itself counts for nothing among the four that stay. */
static void a_majority_of_earlier_members_does_not_count(void **state)
{
    (void)state;
    struct contact c;
    static const uint64_t voters[] = {1, 2, 3, 4, 5};
    contact_reset(&c);
    contact_members(&c, 7);
    contact_note(&c, 2, 1000);
    contact_note(&c, 4, 1000);
    assert_true(contact_is_majority(&c, voters, 5, 1, 300, 1001));
    contact_members(&c, 7);
    assert_true(contact_is_majority(&c, voters + 1, 4, 1, 300, 1002)); /* nobody looked again */
    contact_members(&c, 8);
    assert_false(contact_is_majority(&c, voters + 1, 4, 1, 300, 1002));
    contact_note(&c, 5, 1003);
    assert_true(contact_is_majority(&c, voters + 1, 4, 1, 300, 1004));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_rise_through_both_tiers),
        cmocka_unit_test(a_grant_and_a_release_are_answered_at_once_without_the_log),
        cmocka_unit_test(at_half_of_the_tokens_an_advance_is_proposed_once),
        cmocka_unit_test(one_advance_is_64_times_1023_tokens_and_requested_at_half),
        cmocka_unit_test(what_is_left_of_a_block_is_not_used_after_a_grant_of_the_log),
        cmocka_unit_test(a_block_ends_with_the_leadership_that_reserved_it),
        cmocka_unit_test(before_the_upgrade_an_advance_is_one_c),
        cmocka_unit_test(without_tokens_grants_wait_and_are_not_refused),
        cmocka_unit_test(a_waiter_that_is_next_without_a_token_gets_it_after_the_advance),
        cmocka_unit_test(a_name_in_one_tier_is_refused_in_the_other),
        cmocka_unit_test(a_name_in_a_batch_is_decided_by_its_outcome),
        cmocka_unit_test(a_token_a_lease_and_a_name_find_their_tier),
        cmocka_unit_test(without_a_majority_nothing_is_served),
        cmocka_unit_test(a_new_leadership_begins_empty_and_with_higher_tokens),
        cmocka_unit_test(a_node_that_is_gone_is_gone_for_both),
        cmocka_unit_test(what_operators_do_here_is_on_the_replicated_trail),
        cmocka_unit_test(a_transaction_takes_a_token_for_each_name),
        cmocka_unit_test(a_majority_is_more_than_half_of_the_voters_within_the_time),
        cmocka_unit_test(a_majority_of_earlier_members_does_not_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

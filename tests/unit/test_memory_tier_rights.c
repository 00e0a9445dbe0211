/* Tests of the tier EFFICIENCY with principals: the policy of the replicated state decides here, too
 * (decision 29, S14). */
#include "base_testing.h"

#include "core/policy.h"
#include "core/view.h"
#include "tier_world.h"

enum { POLICY_SIZE = 1024 };

static struct result change_policy(const struct policy_change *change, bool ends_sessions)
{
    uint8_t bytes[POLICY_SIZE];
    struct packer changes = packer_make(bytes, sizeof(bytes));
    struct command c;
    assert_true(pack_policy_change(&changes, change));
    command_init(&c, COMMAND_POLICY_CHANGE);
    c.policy_change.expect = UINT64_MAX;
    c.policy_change.actor = slice_of("test");
    c.policy_change.reason = slice_of("test");
    c.policy_change.end_sessions = ends_sessions;
    c.policy_change.changes = packer_list(&changes);
    struct result result = tier_replicate(&c);
    assert_int_equal(result.error, HF_OK);
    return result;
}

/* A principal of tenant 0 with `lock` on these names. Returns its number. */
static uint32_t put_principal(const char *name, const char *prefix)
{
    uint8_t bytes[256];
    struct packer grants = packer_make(bytes, sizeof(bytes));
    struct policy_grant grant = {
        .tenant = slice_of("default"), .prefix = slice_of(prefix), .rights = RIGHT_LOCK};
    assert_true(pack_policy_grant(&grants, &grant));
    struct policy_change put = {.kind = POLICY_PRINCIPAL_PUT,
                                .tenant = slice_of("default"),
                                .name = slice_of(name),
                                .grants = packer_list(&grants)};
    struct principal_view view;
    change_policy(&put, false);
    assert_true(policy_find_principal(core_policy(world.core), 0, slice_of(name), &view));
    return view.number;
}

static void remove_principal(const char *name, bool ends_sessions)
{
    struct policy_change change = {
        .kind = POLICY_PRINCIPAL_REMOVE, .tenant = slice_of("default"), .name = slice_of(name)};
    change_policy(&change, ends_sessions);
}

static struct result acquire(uint32_t principal, const char *name, uint64_t wait_ms,
                             struct id session)
{
    struct command c;
    tier_make_acquire(&c, name, wait_ms);
    c.principal = principal;
    c.session = session;
    assert_int_equal(tier_submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    return world.last;
}

static const struct id no_session = {0, 0};

static const struct event *event_of(enum event_type type, struct id lease)
{
    for (uint32_t i = 0; i < world.event_count; i++) {
        if (world.events[i].type == type && id_equal(world.events[i].lease, lease)) {
            return &world.events[i];
        }
    }
    return NULL;
}

static void the_replicated_policy_decides_in_this_tier(void **state)
{
    (void)state;
    tier_world_open();
    uint32_t ci = put_principal("ci", "app/");
    assert_int_equal(acquire(ci, "app/a", 0, no_session).outcome, OUTCOME_GRANTED);
    assert_int_equal(acquire(ci, "other", 0, no_session).error, HF_DENIED);
    put_principal("ci", "other");
    assert_int_equal(acquire(ci, "other", 0, no_session).outcome, OUTCOME_GRANTED);
    assert_int_equal(acquire(ci, "app/b", 0, no_session).error, HF_DENIED);
    remove_principal("ci", false);
    assert_int_equal(acquire(ci, "other", 0, no_session).error, HF_DENIED);
    assert_int_equal(acquire(0, "free", 0, no_session).outcome, OUTCOME_GRANTED); /* a node's */
    tier_world_close();
}

static void a_waiter_whose_principal_was_removed_ends_as_denied(void **state)
{
    (void)state;
    tier_world_open();
    uint32_t ci = put_principal("ci", "app/");
    struct result held = acquire(0, "app/a", 0, no_session);
    struct result denied = acquire(ci, "app/a", 60000, no_session);
    struct result next = acquire(0, "app/a", 60000, no_session);
    assert_int_equal(denied.outcome, OUTCOME_QUEUED);
    assert_int_equal(next.outcome, OUTCOME_QUEUED);
    remove_principal("ci", false);
    tier_give(held.token, "app/a");
    const struct event *refused = event_of(EVENT_WAIT_ENDED, denied.lease);
    assert_non_null(refused);
    assert_int_equal(refused->reason, REASON_DENIED);
    assert_null(event_of(EVENT_GRANTED, denied.lease));
    assert_non_null(event_of(EVENT_GRANTED, next.lease));
    tier_world_close();
}

static void a_mirrored_session_belongs_to_its_principal(void **state)
{
    (void)state;
    struct command open;
    tier_world_open();
    uint32_t ci = put_principal("ci", "app/");
    uint32_t other = put_principal("other", "app/");
    command_init(&open, COMMAND_SESSION_OPEN);
    open.principal = ci;
    open.session_open.id = (struct id){3, 4};
    open.session_open.client = slice_of("client");
    open.session_open.ttl_ms = 60000;
    assert_int_equal(tier_replicate(&open).error, HF_OK);
    assert_int_equal(acquire(other, "app/a", 0, open.session_open.id).error, HF_SESSION_NOT_FOUND);
    assert_int_equal(acquire(ci, "app/a", 0, open.session_open.id).outcome, OUTCOME_GRANTED);
    tier_world_close();
}

static void sessions_of_a_removed_principal_end_here_too(void **state)
{
    (void)state;
    tier_world_open();
    uint32_t ci = put_principal("ci", "app/");
    struct result lost = acquire(ci, "app/a", 0, no_session);
    struct result kept = acquire(0, "app/b", 0, no_session);
    remove_principal("ci", false);
    memory_tier_run(world.tier, tier_at());
    assert_null(event_of(EVENT_LOST, lost.lease)); /* until its TTL, unless requested */
    put_principal("again", "app/");
    remove_principal("again", true);
    assert_true(memory_tier_next_ms(world.tier) <= world.now_ms);
    memory_tier_run(world.tier, tier_at());
    struct lock_view lock;
    assert_false(view_lock(memory_tier_core(world.tier), 0, slice_of("app/a"), &lock) &&
                 lock.has_holder);
    assert_true(view_lock(memory_tier_core(world.tier), 0, slice_of("app/b"), &lock));
    assert_non_null(event_of(EVENT_LOST, lost.lease));
    assert_null(event_of(EVENT_LOST, kept.lease));
    tier_world_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_replicated_policy_decides_in_this_tier),
        cmocka_unit_test(a_waiter_whose_principal_was_removed_ends_as_denied),
        cmocka_unit_test(a_mirrored_session_belongs_to_its_principal),
        cmocka_unit_test(sessions_of_a_removed_principal_end_here_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The version of the state rises when all members know the next one, and not before; until then
 * nothing is proposed that one of them does not know (S12.9). */
#include "base_testing.h"

#include "replica_alone.h"

static uint32_t version(const struct alone *a)
{
    return core_version(replica_core(a->replica));
}

static enum hf_error submit_new_command(struct alone *a)
{
    struct command note;
    command_init(&note, COMMAND_NOTE);
    note.note.name = slice_of("n");
    note.note.actor = slice_of("ann");
    note.note.reason = slice_of("why");
    return replica_submit(a->replica, &note, a, a->now);
}

static void all_have_it(struct alone *a, uint32_t members)
{
    alone_all_written(a);
    for (uint64_t id = 2; id <= members; id++) {
        alone_acknowledge(a, id, alone_last_index(a), 0);
    }
}

/* The log of these has entries that served somebody. */
static void open_old_cluster(struct alone *a)
{
    alone_open_as(a, &(struct alone_life){.id = 1, .members = 3, .term = 1, .last = 4});
}

static void a_new_cluster_begins_with_the_newest_version(void **state)
{
    (void)state;
    struct alone a;
    alone_open(&a, 3);
    alone_lead(&a, 3);
    assert_int_equal(version(&a), CORE_VERSION);
    assert_int_equal(submit_new_command(&a), HF_OK);
    alone_close(&a);
}

static void a_new_cluster_with_an_older_member_begins_with_what_that_knows(void **state)
{
    (void)state;
    struct alone a;
    alone_open(&a, 3);
    a.peer_versions[3] = 1;
    alone_lead(&a, 3);
    assert_int_equal(version(&a), 1);
    assert_int_equal(submit_new_command(&a), HF_NOT_UPGRADED);
    alone_close(&a);
}

static void nothing_rises_while_a_member_has_not_said_what_it_knows(void **state)
{
    (void)state;
    struct alone a;
    open_old_cluster(&a);
    a.peer_versions[2] = CORE_VERSION;
    alone_lead(&a, 3);
    for (int i = 0; i < 5; i++) {
        uint64_t last = alone_last_index(&a);
        alone_pass_us(&a, 2000000);
        replica_flush(a.replica, a.now);
        assert_int_equal(alone_last_index(&a), last);
    }
    assert_int_equal(version(&a), 1);
    assert_int_equal(submit_new_command(&a), HF_NOT_UPGRADED);
    alone_close(&a);
}

static void the_last_member_that_is_upgraded_raises_the_version(void **state)
{
    (void)state;
    struct alone a;
    open_old_cluster(&a);
    a.peer_versions[2] = CORE_VERSION;
    a.peer_versions[3] = 1;
    alone_lead(&a, 3);
    assert_int_equal(version(&a), 1);
    a.peer_versions[3] = CORE_VERSION;
    uint64_t last = alone_last_index(&a);
    replica_flush(a.replica, a.now);
    alone_run(&a, 1000);
    assert_int_equal(alone_last_index(&a), last + 1);
    assert_int_equal(submit_new_command(&a), HF_NOT_UPGRADED); /* it is not committed yet */
    all_have_it(&a, 3);
    assert_int_equal(version(&a), CORE_VERSION);
    assert_int_equal(submit_new_command(&a), HF_OK);
    alone_close(&a);
}

static void a_leader_whose_members_all_know_more_upgrades_with_its_first_entry(void **state)
{
    (void)state;
    struct alone a;
    open_old_cluster(&a);
    a.peer_versions[2] = CORE_VERSION;
    a.peer_versions[3] = CORE_VERSION;
    alone_lead(&a, 3);
    assert_int_equal(version(&a), CORE_VERSION);
    alone_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_cluster_begins_with_the_newest_version),
        cmocka_unit_test(a_new_cluster_with_an_older_member_begins_with_what_that_knows),
        cmocka_unit_test(nothing_rises_while_a_member_has_not_said_what_it_knows),
        cmocka_unit_test(the_last_member_that_is_upgraded_raises_the_version),
        cmocka_unit_test(a_leader_whose_members_all_know_more_upgrades_with_its_first_entry),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The rules for driving libraft that concern disk and log: E1 (term and vote first), E3 (what is
 * reported as persisted), E6 (a membership entry is the first), E7 (where a snapshot is taken).
 * Each test here was seen to fail with its rule taken out of the code: docs/ENGINE.md. */
#include "base_testing.h"

#include "replica_alone.h"

static uint8_t tick[256];

static struct replica_entry tick_of(uint64_t term)
{
    size_t len = alone_batch(tick, sizeof(tick), 0);
    return (struct replica_entry){term, RAFT_COMMAND, slice_make(tick, len)};
}

/* The highest index that was acknowledged to anybody. */
static uint64_t acknowledged(const struct alone *a)
{
    uint64_t highest = 0;
    for (uint32_t i = 0; i < a->sent_count; i++) {
        const struct raft_message *m = &a->sent[i].message;
        if (m->type == RAFT_APPEND_ENTRIES_RESULT && m->append_entries_result.rejected == 0 &&
            m->append_entries_result.last_log_index > highest) {
            highest = m->append_entries_result.last_log_index;
        }
    }
    return highest;
}

/* ---- E1 ---- */

static void a_vote_is_on_disk_before_it_is_given(void **state)
{
    (void)state;
    struct alone a;
    alone_open(&a, 3);
    struct raft_message m = {.type = RAFT_REQUEST_VOTE};
    m.request_vote.version = 2;
    m.request_vote.term = 5;
    m.request_vote.candidate_id = 2;
    m.request_vote.last_log_index = 1;
    m.request_vote.last_log_term = 1;
    alone_receive(&a, 2, &m, slice_make(NULL, 0), NULL, NULL);
    assert_string_equal(a.trace, "VS");
    assert_int_equal(a.saved_term, 5);
    assert_int_equal(a.saved_vote, 2);
    assert_true(a.sent[0].message.request_vote_result.vote_granted);
    alone_close(&a);
}

/* The term came with a candidate that was refused; the vote comes later, alone. */
static void a_vote_in_a_term_that_is_known_is_on_disk_too(void **state)
{
    (void)state;
    struct alone a;
    alone_open(&a, 3);
    struct raft_message m = {.type = RAFT_REQUEST_VOTE};
    m.request_vote.version = 2;
    m.request_vote.term = 5;
    m.request_vote.candidate_id = 2;
    alone_receive(&a, 2, &m, slice_make(NULL, 0), NULL, NULL); /* its log is empty */
    assert_int_equal(a.saved_term, 5);
    assert_int_equal(a.saved_vote, 0);
    m.request_vote.candidate_id = 3;
    m.request_vote.last_log_index = 1;
    m.request_vote.last_log_term = 1;
    alone_receive(&a, 3, &m, slice_make(NULL, 0), NULL, NULL);
    assert_string_equal(a.trace, "VSVS");
    assert_int_equal(a.saved_vote, 3);
    assert_true(a.sent[1].message.request_vote_result.vote_granted);
    alone_close(&a);
}

static void a_new_term_is_on_disk_before_its_entries_are_written(void **state)
{
    (void)state;
    struct alone a;
    alone_open(&a, 3);
    struct replica_entry entry = tick_of(7);
    alone_receive_append(&a, (struct alone_append){2, 7, 1, 1, 1, &entry, 1});
    assert_string_equal(a.trace, "VW");
    assert_int_equal(a.saved_term, 7);
    alone_written(&a);
    assert_string_equal(a.trace, "VWS"); /* acknowledged when it is durable */
    alone_close(&a);
}

static void a_candidate_has_its_own_vote_on_disk_before_it_requests_others(void **state)
{
    (void)state;
    struct alone a;
    alone_open(&a, 3);
    alone_pass_us(&a, replica_next_us(a.replica) - a.now.boot_us);
    replica_on_timer(a.replica, a.now);
    assert_string_equal(a.trace, "SS"); /* a pre-vote binds nobody */
    alone_forget(&a);
    alone_vote(&a, 2, 2, true);
    assert_string_equal(a.trace, "VSS");
    assert_int_equal(a.saved_term, 2);
    assert_int_equal(a.saved_vote, 1);
    alone_close(&a);
}

/* ---- E3 ---- */

static void a_write_that_was_replaced_is_not_reported(void **state)
{
    (void)state;
    struct alone a;
    alone_open(&a, 3);
    struct replica_entry old[] = {tick_of(2), tick_of(2)};
    struct replica_entry new[] = {tick_of(3), tick_of(3)};
    alone_receive_append(&a, (struct alone_append){2, 2, 1, 1, 1, old, 2});
    alone_receive_append(&a, (struct alone_append){3, 3, 1, 1, 1, new, 2});
    assert_int_equal(a.write_count, 2);
    alone_written(&a);
    assert_int_equal(acknowledged(&a), 0);
    alone_written(&a);
    assert_int_equal(acknowledged(&a), 3);
    alone_close(&a);
}

static void a_write_is_reported_up_to_the_entry_before_what_was_replaced(void **state)
{
    (void)state;
    struct alone a;
    alone_open(&a, 3);
    struct replica_entry old[] = {tick_of(2), tick_of(2), tick_of(2)};
    struct replica_entry new[] = {tick_of(3), tick_of(3)};
    alone_receive_append(&a, (struct alone_append){2, 2, 1, 1, 1, old, 3});
    alone_receive_append(&a, (struct alone_append){3, 3, 3, 2, 1, new, 2}); /* 4 and 5 anew */
    alone_written(&a);
    assert_int_equal(acknowledged(&a), 3);
    alone_written(&a);
    assert_int_equal(acknowledged(&a), 5);
    alone_close(&a);
}

static void nothing_is_reported_twice(void **state)
{
    (void)state;
    struct alone a;
    alone_open(&a, 3);
    struct replica_entry old[] = {tick_of(2), tick_of(2)};
    struct replica_entry other[] = {tick_of(2)};
    struct replica_entry new[] = {tick_of(3)};
    alone_receive_append(&a, (struct alone_append){2, 2, 1, 1, 1, old, 2});
    alone_written(&a);
    assert_int_equal(a.replica->engine.reported, 3);
    alone_receive_append(&a, (struct alone_append){2, 2, 3, 2, 1, other, 1});
    alone_receive_append(&a, (struct alone_append){3, 3, 3, 2, 1, new, 1});
    uint32_t before = a.sent_count;
    alone_written(&a); /* of `other`: up to 3, which was reported */
    assert_int_equal(a.sent_count, before);
    assert_int_equal(a.replica->engine.reported, 3);
    alone_close(&a);
}

static void what_replaces_reported_entries_is_reported_again(void **state)
{
    (void)state;
    struct alone a;
    alone_open(&a, 3);
    struct replica_entry old[] = {tick_of(2), tick_of(2), tick_of(2)};
    struct replica_entry new[] = {tick_of(3)};
    alone_receive_append(&a, (struct alone_append){2, 2, 1, 1, 1, old, 3});
    alone_written(&a);
    assert_int_equal(acknowledged(&a), 4);
    alone_forget(&a);
    alone_receive_append(&a, (struct alone_append){3, 3, 2, 2, 1, new, 1}); /* 3 anew, 4 goes */
    assert_int_equal(a.sent_count, 0);
    alone_written(&a);
    assert_int_equal(acknowledged(&a), 3);
    alone_close(&a);
}

/* Node 2 leads in term 2 and sends a snapshot at index 20. */
static void announce_snapshot(struct alone *a)
{
    uint8_t members[1024];
    size_t len = alone_members_entry(3, members, sizeof(members));
    struct raft_message m = {.type = RAFT_INSTALL_SNAPSHOT};
    m.install_snapshot.term = 2;
    m.install_snapshot.last_index = 20;
    m.install_snapshot.last_term = 2;
    m.install_snapshot.conf_index = 1;
    alone_receive(a, 2, &m, slice_make(members, len), NULL, NULL);
    assert_int_equal(a->fetches, 1);
    assert_int_equal(a->fetched_from, 2);
    assert_int_equal(a->about.index, 20);
}

static struct core *state_at(uint64_t index)
{
    struct core_options options = {.memory = memory_system(), .hash_key = 1};
    struct core *core = core_new(&options);
    struct replica_entry entry = tick_of(2);
    assert_int_equal(entry_apply(core, index, entry.bytes, NULL, NULL), HF_OK);
    return core;
}

static void nothing_is_reported_while_a_snapshot_is_installed_nor_what_is_older(void **state)
{
    (void)state;
    struct alone a;
    alone_open(&a, 3);
    struct replica_entry entries[] = {tick_of(2), tick_of(2)};
    struct replica_entry later = tick_of(2);
    alone_receive_append(&a, (struct alone_append){2, 2, 1, 1, 1, entries, 2});
    alone_receive_append(&a, (struct alone_append){2, 2, 3, 2, 1, &later, 1});
    announce_snapshot(&a);
    alone_forget(&a);
    alone_written(&a); /* while it is installed */
    assert_int_equal(a.sent_count, 0);
    assert_int_equal(a.replica->engine.reported, 1);
    replica_snapshot_installed(a.replica, state_at(20), a.now);
    assert_int_equal(acknowledged(&a), 20);
    alone_forget(&a);
    alone_written(&a); /* after it */
    assert_int_equal(a.sent_count, 0);
    assert_int_equal(a.replica->engine.reported, 20);
    assert_int_equal(a.replica->engine.raft.last_stored, 20);
    alone_close(&a);
}

/* ---- E6 ---- */

static uint32_t members_now(const struct alone *a)
{
    struct replica_member members[8];
    return replica_members(a->replica, members, 8);
}

static void a_membership_entry_is_undone_with_its_own_index(void **state)
{
    (void)state;
    struct alone a;
    uint8_t five[1024];
    alone_open(&a, 3);
    size_t len = alone_members_entry(5, five, sizeof(five));
    struct replica_entry entries[] = {
        tick_of(2), {2, RAFT_CHANGE, slice_make(five, len)}, tick_of(2)};
    alone_receive_append(&a, (struct alone_append){2, 2, 1, 1, 1, entries, 3});
    assert_int_equal(members_now(&a), 5);
    assert_int_equal(a.replica->engine.raft.configuration_uncommitted_index, 3);
    assert_int_equal(alone_last_index(&a), 4);
    struct replica_entry other =
        tick_of(3); /* takes the place of the change, not of what precedes */
    alone_receive_append(&a, (struct alone_append){3, 3, 2, 2, 1, &other, 1});
    assert_int_equal(alone_last_index(&a), 3);
    assert_int_equal(members_now(&a), 3);
    alone_all_written(&a);
    assert_int_equal(acknowledged(&a), 3);
    alone_close(&a);
}

/* ---- E12 ---- */

static void the_second_of_two_changes_is_undone_alone(void **state)
{
    (void)state;
    struct alone a;
    uint8_t four[1024], five[1024];
    alone_open(&a, 3);
    size_t four_len = alone_members_entry(4, four, sizeof(four));
    size_t five_len = alone_members_entry(5, five, sizeof(five));
    struct replica_entry entries[] = {{2, RAFT_CHANGE, slice_make(four, four_len)},
                                      {2, RAFT_CHANGE, slice_make(five, five_len)}};
    /* No message has said yet that the first one is committed. */
    alone_receive_append(&a, (struct alone_append){2, 2, 1, 1, 1, entries, 2});
    assert_int_equal(members_now(&a), 5);
    struct replica_entry other = tick_of(3); /* takes the place of the second */
    alone_receive_append(&a, (struct alone_append){3, 3, 2, 2, 1, &other, 1});
    assert_int_equal(members_now(&a), 4);
    alone_close(&a);
}

static void a_change_that_is_refused_settles_nothing(void **state)
{
    (void)state;
    struct alone a;
    uint8_t four[1024], five[1024];
    alone_open(&a, 3);
    size_t four_len = alone_members_entry(4, four, sizeof(four));
    size_t five_len = alone_members_entry(5, five, sizeof(five));
    struct replica_entry first = {2, RAFT_CHANGE, slice_make(four, four_len)};
    struct replica_entry second = {3, RAFT_CHANGE, slice_make(five, five_len)};
    alone_receive_append(&a, (struct alone_append){2, 2, 1, 1, 1, &first, 1});
    /* Another leader has something else before it: this proves nothing about ours. */
    alone_receive_append(&a, (struct alone_append){3, 3, 2, 3, 1, &second, 1});
    assert_int_equal(members_now(&a), 4);
    assert_int_equal(a.replica->engine.raft.configuration_uncommitted_index, 2);
    alone_close(&a);
}

/* ---- E7 ---- */

static void want_snapshot_after_next(struct alone *a)
{
    a->replica->log_bytes = 0;
    replica_set_snapshot_bytes(a->replica, 1);
}

static void a_snapshot_waits_until_its_index_is_on_our_own_disk(void **state)
{
    (void)state;
    struct alone a;
    alone_open(&a, 3);
    alone_lead(&a, 3);
    want_snapshot_after_next(&a);
    alone_submit(&a);
    uint64_t index = alone_last_index(&a);
    alone_acknowledge(&a, 2, index, 0); /* two others have it: it is committed without us */
    alone_acknowledge(&a, 3, index, 0);
    struct replica_status status;
    replica_status(a.replica, a.now, &status);
    assert_int_equal(status.applied_index, index);
    assert_true(status.stored_index < index);
    assert_int_equal(a.takes, 0);
    alone_all_written(&a);
    assert_int_equal(a.takes, 1);
    assert_int_equal(a.about.index, index);
    alone_close(&a);
}

static void a_snapshot_holds_the_members_that_were_committed_at_its_index(void **state)
{
    (void)state;
    struct alone a;
    const char *problem = NULL;
    alone_open(&a, 3);
    alone_lead(&a, 3);
    want_snapshot_after_next(&a);
    alone_submit(&a);
    assert_int_equal(replica_change_member(a.replica, REPLICA_ADD, 4, "n4", a.now, &problem),
                     HF_OK);
    uint64_t change = alone_last_index(&a);
    assert_int_equal(members_now(&a), 4);
    alone_all_written(&a);
    alone_acknowledge(&a, 2, change - 1, 0); /* the batch is committed, the change is not */
    assert_int_equal(a.takes, 1);
    assert_int_equal(a.about.index, change - 1);
    assert_int_equal(a.about.members_index, 1);
    struct raft_configuration conf;
    struct raft_buffer bytes = {(void *)(uintptr_t)a.about.members.data, a.about.members.len};
    assert_int_equal(raft_configuration_decode(&bytes, &conf), 0);
    assert_int_equal(conf.n, 3);
    raft_configuration_close(&conf);
    alone_close(&a);
}

static void no_snapshot_is_taken_while_one_is_installed(void **state)
{
    (void)state;
    struct alone a;
    alone_open(&a, 3);
    struct replica_entry entry = tick_of(2);
    replica_set_snapshot_bytes(a.replica, 1);
    alone_receive_append(&a, (struct alone_append){2, 2, 1, 1, 1, &entry, 1});
    alone_written(&a);
    alone_receive_append(&a, (struct alone_append){2, 2, 2, 2, 2, NULL, 0});
    assert_int_equal(a.takes, 1); /* at 2, by a child that is slow */
    alone_receive_append(&a, (struct alone_append){2, 2, 2, 2, 2, &entry, 1});
    alone_written(&a);
    alone_receive_append(&a, (struct alone_append){2, 2, 3, 2, 3, NULL, 0}); /* another is due */
    announce_snapshot(&a);
    replica_snapshot_failed(a.replica, a.now); /* the child was ended */
    alone_receive_append(&a, (struct alone_append){2, 2, 20, 2, 20, NULL, 0});
    assert_int_equal(a.takes, 1);
    replica_snapshot_installed(a.replica, state_at(20), a.now);
    assert_int_equal(a.takes, 1);
    alone_close(&a);
}

static void a_snapshot_that_was_overtaken_by_the_leaders_is_forgotten(void **state)
{
    (void)state;
    struct alone a;
    alone_open(&a, 3);
    struct replica_entry entry = tick_of(2);
    replica_set_snapshot_bytes(a.replica, 1);
    alone_receive_append(&a, (struct alone_append){2, 2, 1, 1, 1, &entry, 1});
    alone_written(&a);
    alone_receive_append(&a, (struct alone_append){2, 2, 2, 2, 2, NULL, 0});
    assert_int_equal(a.takes, 1);
    announce_snapshot(&a);
    replica_snapshot_taken(a.replica, 2, a.now);
    struct replica_status status;
    replica_status(a.replica, a.now, &status);
    assert_int_equal(status.snapshot_index, 0);
    replica_snapshot_installed(a.replica, state_at(20), a.now);
    replica_status(a.replica, a.now, &status);
    assert_int_equal(status.snapshot_index, 20);
    assert_int_equal(status.applied_index, 20);
    alone_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_vote_is_on_disk_before_it_is_given),
        cmocka_unit_test(a_vote_in_a_term_that_is_known_is_on_disk_too),
        cmocka_unit_test(a_new_term_is_on_disk_before_its_entries_are_written),
        cmocka_unit_test(a_candidate_has_its_own_vote_on_disk_before_it_requests_others),
        cmocka_unit_test(a_write_that_was_replaced_is_not_reported),
        cmocka_unit_test(a_write_is_reported_up_to_the_entry_before_what_was_replaced),
        cmocka_unit_test(nothing_is_reported_twice),
        cmocka_unit_test(what_replaces_reported_entries_is_reported_again),
        cmocka_unit_test(nothing_is_reported_while_a_snapshot_is_installed_nor_what_is_older),
        cmocka_unit_test(a_membership_entry_is_undone_with_its_own_index),
        cmocka_unit_test(the_second_of_two_changes_is_undone_alone),
        cmocka_unit_test(a_change_that_is_refused_settles_nothing),
        cmocka_unit_test(a_snapshot_waits_until_its_index_is_on_our_own_disk),
        cmocka_unit_test(a_snapshot_holds_the_members_that_were_committed_at_its_index),
        cmocka_unit_test(no_snapshot_is_taken_while_one_is_installed),
        cmocka_unit_test(a_snapshot_that_was_overtaken_by_the_leaders_is_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

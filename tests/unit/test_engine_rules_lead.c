/* The rules for driving libraft that concern who leads and who belongs to the group: E2 (timers),
 * E4 (refused pre-votes), E5 and E8 (members), E9 (giving the lead away), one batch in flight,
 * length a multiple of 8. Each test here was seen to fail with its rule taken out of the code:
 * docs/ENGINE.md. */
#include "base_testing.h"

#include "replica_alone.h"

/* ---- E2 ---- */

/* Node 3 lacks what only a snapshot holds any more. */
static void open_with_snapshot(struct alone *a)
{
    alone_open(a, 3);
    alone_lead(a, 3);
    replica_set_snapshot_bytes(a->replica, 1);
    for (int i = 0; i < 8; i++) {
        alone_submit(a);
        alone_all_written(a);
        alone_acknowledge(a, 2, alone_last_index(a), 0);
        replica_set_snapshot_bytes(a->replica, UINT64_MAX);
    }
    replica_snapshot_taken(a->replica, a->about.index, a->now);
    replica_set_snapshot_bytes(a->replica, 1);
    alone_submit(a);
    alone_all_written(a);
    alone_acknowledge(a, 2, alone_last_index(a), 0);
    replica_set_snapshot_bytes(a->replica, UINT64_MAX);
    replica_snapshot_taken(a->replica, a->about.index, a->now);
    assert_true(replica_log_start(a->replica) > 5);
    alone_forget(a);
}

/* Sending a snapshot moves the timer without the flag that says so. Whoever trusts the flag finds
 * the timer due again at once, and libraft, which has not heard of node 3 meanwhile, sends the
 * snapshot again, and again. */
static void the_timer_is_requested_after_every_step(void **state)
{
    (void)state;
    struct alone a;
    open_with_snapshot(&a);
    uint64_t last = alone_last_index(&a);
    alone_acknowledge(&a, 2, last, 0);
    alone_acknowledge(&a, 3, 1, last); /* a refusal: it needs the snapshot */
    assert_int_equal(alone_count(&a, RAFT_INSTALL_SNAPSHOT, 3), 1);
    alone_run(&a, 70000);
    alone_submit(&a); /* node 2 hears of us: its heartbeat is due later than node 3's */
    alone_forget(&a);
    int timers = alone_run(&a, 40000);
    assert_true(timers <= 4);
    assert_int_equal(alone_count(&a, RAFT_INSTALL_SNAPSHOT, 3), 1);
    alone_close(&a);
}

/* ---- E4 ---- */

static void a_refused_pre_vote_names_our_own_term(void **state)
{
    (void)state;
    struct alone a;
    alone_open(&a, 3);
    alone_receive_append(&a, (struct alone_append){2, 9, 1, 1, 1, NULL, 0}); /* term 9 */
    alone_forget(&a);
    struct raft_message m = {.type = RAFT_REQUEST_VOTE};
    m.request_vote.version = 2;
    m.request_vote.term = 4;
    m.request_vote.candidate_id = 3;
    m.request_vote.last_log_index = 100; /* it has the longer log, and never hears of term 9 else */
    m.request_vote.last_log_term = 3;
    m.request_vote.pre_vote = true;
    alone_receive(&a, 3, &m, slice_make(NULL, 0), NULL, NULL);
    const struct message_in *answer = alone_last(&a, RAFT_REQUEST_VOTE_RESULT, 3);
    assert_non_null(answer);
    assert_false(answer->message.request_vote_result.vote_granted);
    assert_true(answer->message.request_vote_result.pre_vote);
    assert_int_equal(answer->message.request_vote_result.term, 9);
    alone_close(&a);
}

/* ---- E5, E8 ---- */

static enum hf_error change(struct alone *a, enum replica_change what, uint64_t id,
                            const char **problem)
{
    static const char *const addresses[] = {"", "n1", "n2", "n3", "n4", "n5", "n6"};
    *problem = "";
    return replica_change_member(a->replica, what, id, addresses[id], a->now, problem);
}

#define REFUSED(a, what, id, words)                                  \
    do {                                                             \
        const char *why_;                                            \
        assert_int_equal(change(a, what, id, &why_), HF_MEMBERSHIP); \
        assert_non_null(strstr(why_, words));                        \
    } while (0)

#define ACCEPTED(a, what, id)                                \
    do {                                                     \
        const char *why_;                                    \
        assert_int_equal(change(a, what, id, &why_), HF_OK); \
    } while (0)

static void acknowledge_all(struct alone *a, uint64_t first, uint64_t last)
{
    alone_all_written(a);
    for (uint64_t id = first; id <= last; id++) {
        alone_acknowledge(a, id, alone_last_index(a), 0);
    }
}

static bool members_change(const struct alone *a)
{
    struct replica_status status;
    replica_status(a->replica, a->now, &status);
    return status.members_change;
}

static void members_change_one_at_a_time(void **state)
{
    (void)state;
    struct alone a;
    alone_open(&a, 3);
    alone_lead(&a, 3);
    assert_false(members_change(&a));
    ACCEPTED(&a, REPLICA_ADD, 4);
    assert_true(members_change(&a));
    REFUSED(&a, REPLICA_ADD, 5, "another membership change is under way");
    acknowledge_all(&a, 2, 3);
    assert_false(members_change(&a));
    ACCEPTED(&a, REPLICA_ADD, 5);
    alone_close(&a);
}

static void a_leader_that_committed_nothing_yet_changes_no_members(void **state)
{
    (void)state;
    struct alone a;
    alone_open(&a, 3);
    alone_elect(&a, 3);
    const char *why;
    assert_int_equal(change(&a, REPLICA_ADD, 4, &why), HF_UNAVAILABLE);
    const char *rule = members_may_change(&a.replica->engine);
    assert_non_null(rule);
    assert_non_null(strstr(rule, "committed nothing yet"));
    acknowledge_all(&a, 2, 3);
    assert_null(members_may_change(&a.replica->engine));
    alone_close(&a);
}

static void
a_voter_without_the_last_members_blocks_the_next_change_but_not_its_own_removal(void **state)
{
    (void)state;
    struct alone a;
    alone_open(&a, 5);
    alone_lead(&a, 5);
    ACCEPTED(&a, REPLICA_ADD, 6);
    acknowledge_all(&a, 2, 4); /* node 5 is silent */
    REFUSED(&a, REPLICA_REMOVE, 6, "does not have the current membership");
    ACCEPTED(&a, REPLICA_REMOVE, 5);
    acknowledge_all(&a, 2, 4);
    ACCEPTED(&a, REPLICA_REMOVE, 6);
    alone_close(&a);
}

static void nobody_changes_members_while_the_lead_moves(void **state)
{
    (void)state;
    struct alone a;
    const char *problem = NULL;
    alone_open(&a, 3);
    alone_lead(&a, 3);
    assert_int_equal(replica_transfer(a.replica, 2, a.now, &problem), HF_OK);
    REFUSED(&a, REPLICA_ADD, 4, "being transferred");
    alone_close(&a);
}

static void only_who_has_caught_up_is_promoted(void **state)
{
    (void)state;
    struct alone a;
    alone_open(&a, 3);
    alone_lead(&a, 3);
    ACCEPTED(&a, REPLICA_ADD, 4);
    acknowledge_all(&a, 2, 3);
    REFUSED(&a, REPLICA_PROMOTE, 4, "not caught up");
    alone_acknowledge(&a, 4, alone_last_index(&a) - 1, 0);
    REFUSED(&a, REPLICA_PROMOTE, 4, "not caught up");
    alone_acknowledge(&a, 4, alone_last_index(&a), 0);
    ACCEPTED(&a, REPLICA_PROMOTE, 4);
    alone_close(&a);
}

static void the_engine_is_notified_of_each_committed_change(void **state)
{
    (void)state;
    struct alone a;
    alone_open(&a, 3);
    alone_lead(&a, 3);
    ACCEPTED(&a, REPLICA_ADD, 4);
    uint64_t index = alone_last_index(&a);
    assert_int_equal(a.replica->engine.raft.configuration_uncommitted_index, index);
    acknowledge_all(&a, 2, 3);
    assert_int_equal(a.replica->engine.raft.configuration_uncommitted_index, 0);
    assert_int_equal(a.replica->engine.raft.configuration_committed_index, index);
    ACCEPTED(&a, REPLICA_REMOVE, 4); /* the next one is possible */
    alone_close(&a);
}

/* ---- E9 ---- */

static void the_lead_is_not_given_away_with_a_batch_in_flight(void **state)
{
    (void)state;
    struct alone a;
    const char *problem = NULL;
    alone_open(&a, 3);
    alone_lead(&a, 3);
    alone_submit(&a);
    assert_int_equal(replica_transfer(a.replica, 2, a.now, &problem), HF_BUSY);
    assert_int_equal(alone_count(&a, RAFT_TIMEOUT_NOW, 0), 0);
    acknowledge_all(&a, 2, 3);
    assert_int_equal(a.results[REPLICA_DONE], 1);
    assert_int_equal(replica_transfer(a.replica, 2, a.now, &problem), HF_OK);
    assert_int_equal(alone_count(&a, RAFT_TIMEOUT_NOW, 2), 1);
    alone_close(&a);
}

static void commands_are_held_while_the_lead_moves(void **state)
{
    (void)state;
    struct alone a;
    const char *problem = NULL;
    alone_open(&a, 3);
    alone_lead(&a, 3);
    assert_int_equal(replica_transfer(a.replica, 2, a.now, &problem), HF_OK);
    uint64_t last = alone_last_index(&a);
    alone_submit(&a); /* the engine would say NOTLEADER, and it would be answered so */
    assert_int_equal(alone_last_index(&a), last);
    assert_int_equal(a.results[REPLICA_NOT_DONE], 0);
    for (int i = 0; i < 10 && raft_transferee(&a.replica->engine.raft) != 0; i++) {
        alone_run(&a, 50000); /* nothing comes of it */
        alone_acknowledge(&a, 2, last, 0);
        alone_acknowledge(&a, 3, last, 0);
    }
    assert_true(engine_is_leader(&a.replica->engine));
    alone_run(&a, 1000);
    assert_int_equal(alone_last_index(&a), last + 1);
    acknowledge_all(&a, 2, 3);
    assert_int_equal(a.results[REPLICA_DONE], 1);
    alone_close(&a);
}

/* ---- batches ---- */

static void one_batch_is_in_flight_and_the_next_gathers(void **state)
{
    (void)state;
    struct alone a;
    alone_open(&a, 3);
    alone_lead(&a, 3);
    alone_submit(&a);
    uint64_t first = alone_last_index(&a);
    for (int i = 0; i < 5; i++) {
        alone_submit(&a);
        alone_run(&a, 1000);
    }
    assert_int_equal(alone_last_index(&a), first);
    acknowledge_all(&a, 2, 3);
    alone_run(&a, 1000);
    assert_int_equal(alone_last_index(&a), first + 1); /* all five in one entry */
    acknowledge_all(&a, 2, 3);
    assert_int_equal(a.results[REPLICA_DONE], 6);
    alone_close(&a);
}

static void nothing_is_sealed_before_the_leaders_own_entry_is_applied(void **state)
{
    (void)state;
    struct alone a;
    struct command command;
    alone_open(&a, 3);
    alone_elect(&a, 3);
    command_init(&command, COMMAND_TICK);
    assert_int_equal(replica_submit(a.replica, &command, &a, a.now), HF_UNAVAILABLE); /* S1.3 */
    acknowledge_all(&a, 2, 3);
    assert_int_equal(replica_submit(a.replica, &command, &a, a.now), HF_OK);
    alone_close(&a);
}

/* S1.1, S1.3: it is cut off with a batch of its own, hears of a later term whose leader is behind
 * it in time, and is elected again with its batch. */
static void a_new_leaders_clock_is_not_behind_its_log(void **state)
{
    (void)state;
    struct alone a;
    struct replica_status status;
    alone_open(&a, 3);
    alone_lead(&a, 3);
    uint64_t committed = alone_last_index(&a);
    alone_pass_us(&a, 100000);
    alone_submit(&a);
    alone_all_written(&a);
    uint64_t last = alone_last_index(&a);
    assert_true(last > committed);
    uint64_t stamp_ms = entry_stamp_ms(slice_make(a.log[last].bytes, a.log[last].len));
    assert_true(stamp_ms >= 100);
    uint64_t term = raft_current_term(&a.replica->engine.raft);
    alone_receive_append(&a, (struct alone_append){.from = 2,
                                                   .term = term + 1,
                                                   .prev = committed,
                                                   .prev_term = term,
                                                   .commit = committed});
    replica_status(a.replica, a.now, &status);
    assert_int_equal(status.leader, 2);
    assert_true(status.cluster_ms < stamp_ms);
    alone_elect(&a, 3);
    replica_status(a.replica, a.now, &status);
    assert_true(status.last_index > last);
    assert_true(status.cluster_ms >= stamp_ms);
    alone_close(&a);
}

static void the_length_of_every_entry_is_a_multiple_of_8(void **state)
{
    (void)state;
    struct alone a;
    alone_open(&a, 3);
    alone_lead(&a, 3);
    static char text[64];
    memset(text, 'x', sizeof(text));
    for (size_t i = 1; i <= 24; i++) {
        struct command command;
        command_init(&command, COMMAND_FORCE_UNLOCK);
        command.force_unlock.name = slice_make(text, i);
        command.force_unlock.actor = slice_of("test");
        command.force_unlock.reason = slice_of("why");
        assert_int_equal(replica_submit(a.replica, &command, &a, a.now), HF_OK);
        replica_flush(a.replica, a.now);
        assert_int_equal(a.log[alone_last_index(&a)].len % 8, 0);
        acknowledge_all(&a, 2, 3);
    }
    assert_int_equal(a.results[REPLICA_DONE], 24);
    alone_close(&a);
}

/* ---- contact (S10.1), keep-alives (S4.5) ---- */

static void acknowledge_of(struct alone *a, uint64_t from, uint64_t cluster_ms)
{
    struct raft_message m = {.type = RAFT_APPEND_ENTRIES_RESULT};
    size_t len = 0;
    m.append_entries_result.version = 2;
    m.append_entries_result.term = raft_current_term(&a->replica->engine.raft);
    m.append_entries_result.last_log_index = alone_last_index(a);
    uint8_t *bytes = message_encode(&m, cluster_ms, slice_make(NULL, 0), NULL, NULL, &len);
    assert_true(replica_receive(a->replica, from, slice_make(bytes, len), a->now));
    raft_free(bytes);
}

static void contact_is_dated_by_the_message_that_was_answered(void **state)
{
    (void)state;
    struct alone a;
    alone_open(&a, 3);
    alone_lead(&a, 3);
    uint64_t sent_ms = replica_cluster_ms(a.replica, a.now);
    assert_true(replica_has_majority(a.replica, a.now));
    alone_pass_us(&a, 400000); /* it stands still, and the answers wait in its sockets */
    acknowledge_of(&a, 2, sent_ms);
    acknowledge_of(&a, 3, sent_ms);
    assert_false(replica_has_majority(a.replica, a.now));
    acknowledge_of(&a, 2, sent_ms + 399);
    assert_true(replica_has_majority(a.replica, a.now));
    alone_close(&a);
}

static void an_answer_has_the_time_of_the_message_that_it_answers(void **state)
{
    (void)state;
    struct alone a;
    alone_open(&a, 3);
    for (uint64_t ms = 5000; ms < 5003; ms++) {
        struct raft_message m = {.type = RAFT_APPEND_ENTRIES};
        size_t len = 0;
        m.append_entries.term = 9;
        m.append_entries.prev_log_index = 1;
        m.append_entries.prev_log_term = 1;
        uint8_t *bytes = message_encode(&m, ms, slice_make(NULL, 0), NULL, NULL, &len);
        assert_true(replica_receive(a.replica, 2, slice_make(bytes, len), a.now));
        raft_free(bytes);
        assert_int_equal(alone_last(&a, RAFT_APPEND_ENTRIES_RESULT, 2)->cluster_ms, ms);
    }
    alone_close(&a);
}

/* A session of 100 ms lives on an otherwise idle cluster. */
static void a_keep_alive_waits_a_twentieth_of_its_ttl(void **state)
{
    (void)state;
    struct alone a;
    struct command command;
    struct id id = {7, 7};
    uint8_t packed[16] = {0};
    packed[0] = 7;
    packed[8] = 7;
    alone_open(&a, 3);
    alone_lead(&a, 3);
    command_init(&command, COMMAND_SESSION_OPEN);
    command.session_open.id = id;
    command.session_open.client = slice_of("test");
    command.session_open.ttl_ms = 100;
    assert_int_equal(replica_submit(a.replica, &command, &a, a.now), HF_OK);
    replica_flush(a.replica, a.now);
    acknowledge_all(&a, 2, 3);
    assert_int_equal(a.results[REPLICA_DONE], 1);
    uint64_t last = alone_last_index(&a);
    command_init(&command, COMMAND_KEEPALIVE);
    command.keepalive.sessions = (struct ids){1, packed};
    assert_int_equal(replica_submit(a.replica, &command, &a, a.now), HF_OK);
    replica_flush(a.replica, a.now);
    assert_int_equal(alone_last_index(&a), last);
    alone_run(&a, 5000);
    assert_int_equal(alone_last_index(&a), last + 1);
    alone_close(&a);
}

/* ---- E22 ---- */

static void follow_node_2(struct alone *a)
{
    alone_open(a, 3);
    alone_receive_append(a, (struct alone_append){2, 9, 1, 1, 1, NULL, 0});
    alone_forget(a);
}

static void a_leader_whose_process_has_ended_is_not_waited_for(void **state)
{
    (void)state;
    struct alone a;
    follow_node_2(&a);
    replica_peer_ended(a.replica, 2, a.now);
    alone_run(&a, 101000); /* a third of 300 ms */
    assert_int_equal(alone_count(&a, RAFT_REQUEST_VOTE, 3), 1);
    assert_true(alone_last(&a, RAFT_REQUEST_VOTE, 3)->message.request_vote.pre_vote);
    alone_close(&a);
}

static void that_another_node_has_ended_changes_nothing(void **state)
{
    (void)state;
    struct alone a;
    follow_node_2(&a);
    replica_peer_ended(a.replica, 3, a.now);
    alone_run(&a, 299000);
    assert_int_equal(alone_count(&a, RAFT_REQUEST_VOTE, 3), 0);
    alone_close(&a);
}

/* What was heard of the end of its last life says nothing about this one. */
static void a_leader_that_is_heard_again_is_waited_for_again(void **state)
{
    (void)state;
    struct alone a;
    follow_node_2(&a);
    replica_peer_ended(a.replica, 2, a.now);
    replica_peer_ended(a.replica, 2, a.now); /* it is said with every attempt to connect */
    alone_receive_append(&a, (struct alone_append){2, 9, 1, 1, 1, NULL, 0});
    alone_forget(&a);
    alone_run(&a, 299000);
    assert_int_equal(alone_count(&a, RAFT_REQUEST_VOTE, 3), 0);
    alone_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_timer_is_requested_after_every_step),
        cmocka_unit_test(a_refused_pre_vote_names_our_own_term),
        cmocka_unit_test(members_change_one_at_a_time),
        cmocka_unit_test(a_leader_that_committed_nothing_yet_changes_no_members),
        cmocka_unit_test(
            a_voter_without_the_last_members_blocks_the_next_change_but_not_its_own_removal),
        cmocka_unit_test(nobody_changes_members_while_the_lead_moves),
        cmocka_unit_test(only_who_has_caught_up_is_promoted),
        cmocka_unit_test(the_engine_is_notified_of_each_committed_change),
        cmocka_unit_test(the_lead_is_not_given_away_with_a_batch_in_flight),
        cmocka_unit_test(commands_are_held_while_the_lead_moves),
        cmocka_unit_test(one_batch_is_in_flight_and_the_next_gathers),
        cmocka_unit_test(nothing_is_sealed_before_the_leaders_own_entry_is_applied),
        cmocka_unit_test(a_new_leaders_clock_is_not_behind_its_log),
        cmocka_unit_test(the_length_of_every_entry_is_a_multiple_of_8),
        cmocka_unit_test(contact_is_dated_by_the_message_that_was_answered),
        cmocka_unit_test(an_answer_has_the_time_of_the_message_that_it_answers),
        cmocka_unit_test(a_keep_alive_waits_a_twentieth_of_its_ttl),
        cmocka_unit_test(a_leader_whose_process_has_ended_is_not_waited_for),
        cmocka_unit_test(that_another_node_has_ended_changes_nothing),
        cmocka_unit_test(a_leader_that_is_heard_again_is_waited_for_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

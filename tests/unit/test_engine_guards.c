/* The rules that keep libraft 0.22.1 out of situations that it handles wrongly: E13 to E21 and E23
 * of engine.h. Each test was seen to fail with its rule taken out of the code: docs/ENGINE.md. The
 * linked library is the real one, so these tests also show whether the rules still fit it. */
#include "base_testing.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "replica_alone.h"

static const struct raft *raft_of(const struct alone *a)
{
    return &a->replica->engine.raft;
}

static uint64_t term_of(const struct alone *a)
{
    return raft_current_term(raft_of(a));
}

static bool leads(const struct alone *a)
{
    return engine_is_leader(&a->replica->engine);
}

static enum hf_error change(struct alone *a, enum replica_change what, uint64_t id,
                            const char **problem)
{
    static const char *const addresses[] = {"", "n1", "n2", "n3", "n4", "n5", "n6"};
    *problem = "";
    return replica_change_member(a->replica, what, id, addresses[id], a->now, problem);
}

/* A membership entry of `voters` first voters of `count` members. */
static struct replica_entry members_entry(uint64_t term, const bool *voter, uint32_t count,
                                          uint8_t *buffer, size_t size)
{
    static const char *const addresses[] = {"n1", "n2", "n3", "n4"};
    struct replica_member list[4];
    for (uint32_t i = 0; i < count; i++) {
        list[i] = (struct replica_member){i + 1, addresses[i], voter[i]};
    }
    size_t len = replica_bootstrap_entry(list, count, buffer, size);
    assert_true(len > 0);
    return (struct replica_entry){term, RAFT_CHANGE, slice_make(buffer, len)};
}

/* Node 1 of three follows node 2 in `term`, which has sent it these members at index 2. */
static void follow_with_members(struct alone *a, uint64_t term, const bool *voter, uint32_t count)
{
    uint8_t bytes[1024];
    struct replica_entry entry = members_entry(term, voter, count, bytes, sizeof(bytes));
    alone_open(a, count);
    alone_receive_append(a, (struct alone_append){2, term, 1, 1, 1, &entry, 1});
    alone_all_written(a);
    alone_forget(a);
}

static void request_vote(struct alone *a, uint64_t from, uint64_t term, bool pre_vote)
{
    struct raft_message m = {.type = RAFT_REQUEST_VOTE};
    m.request_vote.version = 2;
    m.request_vote.term = term;
    m.request_vote.candidate_id = from;
    m.request_vote.last_log_index = 100;
    m.request_vote.last_log_term = term - 1;
    m.request_vote.pre_vote = pre_vote;
    alone_receive(a, from, &m, slice_make(NULL, 0), NULL, NULL);
}

static bool is_granted(const struct alone *a, uint64_t to)
{
    const struct message_in *answer = alone_last(a, RAFT_REQUEST_VOTE_RESULT, to);
    assert_non_null(answer);
    return answer->message.request_vote_result.vote_granted;
}

/* ---- E13 ---- */

static void the_only_voter_raises_its_term_when_it_starts(void **state)
{
    (void)state;
    struct alone a;
    alone_open_as(&a, &(struct alone_life){.id = 1, .members = 1, .term = 4, .last = 3});
    assert_true(leads(&a));
    assert_int_equal(term_of(&a), 5);
    assert_int_equal(a.saved_term, 5);
    assert_int_equal(a.saved_vote, 1);
    alone_close(&a);
}

static const bool only_the_first[] = {true, false};

static void a_follower_that_became_the_only_voter_raises_its_term(void **state)
{
    (void)state;
    struct alone a;
    follow_with_members(&a, 7, only_the_first, 2);
    assert_int_equal(term_of(&a), 7);
    alone_run(&a, 700000);
    assert_true(leads(&a));
    assert_int_equal(term_of(&a), 8);
    assert_int_equal(a.saved_term, 8);
    assert_int_equal(a.saved_vote, 1);
    assert_int_equal(a.trace[0], 'V'); /* on disk before anything else */
    alone_close(&a);
}

static void the_only_voter_does_not_lead_because_of_a_timeout_now(void **state)
{
    (void)state;
    struct alone a;
    follow_with_members(&a, 7, only_the_first, 2);
    struct raft_message m = {.type = RAFT_TIMEOUT_NOW};
    m.timeout_now.version = 1;
    m.timeout_now.term = 7;
    m.timeout_now.last_log_index = 2;
    m.timeout_now.last_log_term = 7;
    alone_receive(&a, 2, &m, slice_make(NULL, 0), NULL, NULL);
    assert_false(leads(&a));
    alone_close(&a);
}

static void leadership_is_not_transferred_during_a_membership_change(void **state)
{
    (void)state;
    struct alone a;
    const char *problem = NULL;
    alone_open(&a, 3);
    alone_lead(&a, 3);
    assert_int_equal(change(&a, REPLICA_ADD, 4, &problem), HF_OK);
    assert_int_equal(replica_transfer(a.replica, 2, a.now, &problem), HF_BUSY);
    assert_non_null(strstr(problem, "membership change"));
    assert_int_equal(alone_count(&a, RAFT_TIMEOUT_NOW, 0), 0);
    alone_close(&a);
}

/* ---- E14 ---- */

static void check_refusal(const struct alone *a, uint64_t term)
{
    const struct message_in *answer = alone_last(a, RAFT_APPEND_ENTRIES_RESULT, 3);
    assert_non_null(answer);
    assert_int_equal(answer->message.append_entries_result.term, term);
    assert_true(answer->message.append_entries_result.rejected == UINT64_MAX);
    assert_int_equal(answer->message.append_entries_result.last_log_index, 0);
}

static struct raft_message snapshot_message(uint64_t term, uint64_t index, uint64_t index_term)
{
    struct raft_message m = {.type = RAFT_INSTALL_SNAPSHOT};
    m.install_snapshot.term = term;
    m.install_snapshot.last_index = index;
    m.install_snapshot.last_term = index_term;
    m.install_snapshot.conf_index = 1;
    return m;
}

static void receive_snapshot(struct alone *a, uint64_t from, uint64_t term, uint64_t index)
{
    uint8_t bytes[1024];
    size_t len = alone_members_entry(3, bytes, sizeof(bytes));
    struct raft_message m = snapshot_message(term, index, term);
    alone_receive(a, from, &m, slice_make(bytes, len), NULL, NULL);
}

static void a_message_of_an_older_term_is_refused_without_an_index(void **state)
{
    (void)state;
    struct alone a;
    alone_open(&a, 3);
    alone_receive_append(&a, (struct alone_append){2, 9, 1, 1, 1, NULL, 0});
    alone_receive_append(&a, (struct alone_append){3, 5, 0, 0, 1, NULL, 0});
    check_refusal(&a, 9);
    alone_forget(&a);
    alone_receive_append(&a, (struct alone_append){3, 5, 1, 1, 1, NULL, 0});
    check_refusal(&a, 9);
    alone_forget(&a);
    receive_snapshot(&a, 3, 5, 40);
    check_refusal(&a, 9);
    assert_int_equal(a.fetches, 0);
    alone_close(&a);
}

static void an_acknowledgement_of_what_was_not_sent_is_dropped(void **state)
{
    (void)state;
    struct alone a;
    alone_open(&a, 3);
    alone_lead(&a, 3);
    uint64_t committed = raft_commit_index(raft_of(&a));
    alone_submit(&a);
    alone_all_written(&a);
    uint64_t last = alone_last_index(&a);
    assert_true(last > committed);
    alone_result_of(&a, 2, last + 1, 0);
    alone_result_of(&a, 2, UINT64_MAX, 0);
    assert_int_equal(raft_commit_index(raft_of(&a)), committed);
    alone_acknowledge(&a, 2, last, 0);
    assert_int_equal(raft_commit_index(raft_of(&a)), last);
    alone_close(&a);
}

/* ---- E15 ---- */

static const bool all_but_the_first[] = {false, true, true};

static void a_server_votes_that_does_not_know_that_it_is_a_voter(void **state)
{
    (void)state;
    struct alone a;
    follow_with_members(&a, 7, all_but_the_first, 3);
    request_vote(&a, 3, 8, true);
    assert_false(is_granted(&a, 3)); /* it hears its leader */
    request_vote(&a, 2, 8, true);
    assert_true(
        is_granted(&a, 2)); /* ... which is a candidate itself, so it does not lead any more */
    alone_close(&a);
    follow_with_members(&a, 7, all_but_the_first, 3);
    alone_run(&a, 301000);
    request_vote(&a, 3, 8, false);
    assert_true(is_granted(&a, 3));
    assert_int_equal(a.saved_term, 8);
    assert_int_equal(a.saved_vote, 3);
    alone_run(&a, 3000000);
    assert_int_equal(alone_count(&a, RAFT_REQUEST_VOTE, 0), 0); /* it does not campaign */
    alone_close(&a);
}

static void only_a_member_that_answers_is_promoted(void **state)
{
    (void)state;
    struct alone a;
    const char *problem = NULL;
    alone_open(&a, 3);
    alone_lead(&a, 3);
    assert_int_equal(change(&a, REPLICA_ADD, 4, &problem), HF_OK);
    alone_all_written(&a);
    for (uint64_t id = 2; id <= 4; id++) {
        alone_acknowledge(&a, id, alone_last_index(&a), 0);
    }
    alone_pass_us(&a, 101000);
    assert_int_equal(change(&a, REPLICA_PROMOTE, 4, &problem), HF_MEMBERSHIP);
    assert_non_null(strstr(problem, "does not answer"));
    alone_acknowledge(&a, 4, alone_last_index(&a), 0);
    assert_int_equal(change(&a, REPLICA_PROMOTE, 4, &problem), HF_OK);
    alone_close(&a);
}

/* Each answer is to a message of more than two heartbeats ago, and one comes with each heartbeat. */
static void a_member_far_away_is_promoted(void **state)
{
    (void)state;
    const char *problem = NULL;
    for (uint64_t round_trip_us = 110000; round_trip_us <= 250000; round_trip_us += 70000) {
        struct alone a;
        alone_open(&a, 3);
        alone_lead(&a, 3);
        assert_int_equal(change(&a, REPLICA_ADD, 4, &problem), HF_OK);
        alone_all_written(&a);
        for (int i = 0; i < 12; i++) {
            for (uint64_t id = 2; id <= 4; id++) {
                a.round_trip_us = id == 4 && i > 6 ? round_trip_us : 0;
                alone_acknowledge(&a, id, alone_last_index(&a), 0);
            }
            alone_run(&a, 50000);
        }
        assert_int_equal(change(&a, REPLICA_PROMOTE, 4, &problem), HF_OK);
        alone_close(&a);
    }
}

/* ---- E16 ---- */

static void the_leader_neither_demotes_nor_removes_itself(void **state)
{
    (void)state;
    struct alone a;
    const char *problem = NULL;
    alone_open(&a, 3);
    alone_lead(&a, 3);
    assert_int_equal(change(&a, REPLICA_DEMOTE, 1, &problem), HF_MEMBERSHIP);
    assert_non_null(strstr(problem, "transfer the leadership first"));
    assert_int_equal(change(&a, REPLICA_REMOVE, 1, &problem), HF_MEMBERSHIP);
    assert_non_null(strstr(problem, "transfer the leadership first"));
    assert_int_equal(change(&a, REPLICA_REMOVE, 2, &problem), HF_OK);
    alone_close(&a);
}

/* ---- E17 ---- */

/* Node 1 led, and compacted its log: only a few entries are left before the snapshot's. */
static uint64_t open_compacted(struct alone *a)
{
    alone_open(a, 3);
    alone_lead(a, 3);
    for (int i = 0; i < 8; i++) {
        alone_submit(a);
        alone_all_written(a);
        alone_acknowledge(a, 2, alone_last_index(a), 0);
    }
    replica_set_snapshot_bytes(a->replica, 1);
    alone_submit(a);
    alone_all_written(a);
    alone_acknowledge(a, 2, alone_last_index(a), 0);
    replica_set_snapshot_bytes(a->replica, UINT64_MAX);
    assert_int_equal(a->takes, 1);
    replica_snapshot_taken(a->replica, a->about.index, a->now);
    assert_true(replica_log_start(a->replica) > 3);
    alone_forget(a);
    return a->about.index;
}

static void entries_from_the_first_on_are_taken_behind_the_snapshot(void **state)
{
    (void)state;
    struct alone a;
    struct replica_entry entries[32];
    uint64_t snapshot = open_compacted(&a);
    uint64_t last = alone_last_index(&a);
    uint64_t term = term_of(&a) + 1;
    for (uint64_t i = 1; i <= last; i++) {
        entries[i - 1] = (struct replica_entry){a.log[i].term, a.log[i].type,
                                                slice_make(a.log[i].bytes, a.log[i].len)};
    }
    uint8_t batch[256];
    size_t len = alone_batch(batch, sizeof(batch), 0);
    entries[last] = (struct replica_entry){term, RAFT_COMMAND, slice_make(batch, len)};
    alone_receive_append(
        &a, (struct alone_append){2, term, 0, 0, snapshot, entries, (unsigned)last + 1});
    assert_int_equal(alone_last_index(&a), last + 1);
    assert_int_equal(a.log[last + 1].term, term);
    alone_all_written(&a);
    const struct message_in *answer = alone_last(&a, RAFT_APPEND_ENTRIES_RESULT, 2);
    assert_non_null(answer);
    assert_int_equal(answer->message.append_entries_result.rejected, 0);
    assert_int_equal(answer->message.append_entries_result.last_log_index, last + 1);
    alone_close(&a);
}

static void what_the_snapshot_covers_is_acknowledged_up_to_it(void **state)
{
    (void)state;
    struct alone a;
    uint64_t snapshot = open_compacted(&a);
    uint64_t term = term_of(&a) + 1;
    struct replica_entry entry = {a.log[3].term, a.log[3].type,
                                  slice_make(a.log[3].bytes, a.log[3].len)};
    alone_receive_append(&a, (struct alone_append){2, term, 2, a.log[2].term, 2, &entry, 1});
    const struct message_in *answer = alone_last(&a, RAFT_APPEND_ENTRIES_RESULT, 2);
    assert_non_null(answer);
    assert_int_equal(answer->message.append_entries_result.rejected, 0);
    assert_int_equal(answer->message.append_entries_result.last_log_index, snapshot);
    alone_close(&a);
}

/* ---- E18 ---- */

static void a_late_pre_vote_answer_does_not_raise_the_term(void **state)
{
    (void)state;
    struct alone a;
    alone_open(&a, 3); /* without a leader, libraft's stray byte is always 0 */
    alone_vote(&a, 3, 2, true);
    assert_int_equal(term_of(&a), 1);
    assert_int_equal(a.trace_len, 0);
    alone_close(&a);
}

static void a_pre_vote_for_an_earlier_term_does_not_count(void **state)
{
    (void)state;
    struct alone a;
    alone_open(&a, 3);
    alone_pass_us(&a, replica_next_us(a.replica) - a.now.boot_us);
    replica_on_timer(a.replica, a.now);
    alone_vote(&a, 2, 2, true);
    alone_run(&a, 601000); /* nobody votes: it requests pre-votes again, for term 3 */
    alone_vote(&a, 3, 2, true);
    assert_int_equal(term_of(&a), 2);
    alone_vote(&a, 3, 3, true);
    assert_int_equal(term_of(&a), 3);
    alone_close(&a);
}

/* ---- E19 ---- */

static void a_candidate_without_success_requests_pre_votes_again(void **state)
{
    (void)state;
    struct alone a;
    alone_open(&a, 3);
    alone_pass_us(&a, replica_next_us(a.replica) - a.now.boot_us);
    replica_on_timer(a.replica, a.now);
    alone_vote(&a, 2, 2, true);
    assert_int_equal(term_of(&a), 2); /* it campaigns, and nobody answers any more */
    for (int i = 0; i < 5; i++) {
        alone_forget(&a);
        alone_run(&a, 601000);
        assert_int_equal(term_of(&a), 2);
        const struct message_in *request = alone_last(&a, RAFT_REQUEST_VOTE, 3);
        assert_non_null(request);
        assert_true(request->message.request_vote.pre_vote);
    }
    alone_vote(&a, 2, 3, true);
    assert_int_equal(term_of(&a), 3); /* it can still be elected */
    alone_close(&a);
}

static void a_candidate_disrupts_a_leader_once(void **state)
{
    (void)state;
    struct alone a;
    alone_open(&a, 3);
    alone_receive_append(&a, (struct alone_append){2, 9, 1, 1, 1, NULL, 0});
    struct raft_message m = {.type = RAFT_TIMEOUT_NOW};
    m.timeout_now.version = 1;
    m.timeout_now.term = 9;
    m.timeout_now.last_log_index = 1;
    m.timeout_now.last_log_term = 1;
    alone_receive(&a, 2, &m, slice_make(NULL, 0), NULL, NULL);
    assert_true(alone_last(&a, RAFT_REQUEST_VOTE, 3)->message.request_vote.disrupt_leader);
    assert_int_equal(term_of(&a), 10);
    alone_forget(&a);
    alone_run(&a, 601000);
    assert_false(alone_last(&a, RAFT_REQUEST_VOTE, 3)->message.request_vote.disrupt_leader);
    assert_int_equal(term_of(&a), 10);
    alone_close(&a);
}

/* ---- E20 ---- */

static void a_node_whose_snapshot_does_not_arrive_goes_on_with_its_log(void **state)
{
    (void)state;
    struct alone a;
    uint8_t batch[256];
    size_t len = alone_batch(batch, sizeof(batch), 0);
    struct replica_entry entry = {9, RAFT_COMMAND, slice_make(batch, len)};
    alone_open(&a, 3);
    alone_receive_append(&a, (struct alone_append){2, 9, 1, 1, 2, &entry, 1});
    receive_snapshot(&a, 2, 9, 40);
    assert_int_equal(a.fetches, 1);
    /* It hears what is committed beyond its own log meanwhile. */
    alone_receive_append(&a, (struct alone_append){2, 9, 40, 9, 40, NULL, 0});
    replica_snapshot_abandoned(a.replica, a.now);
    assert_true(a.replica->engine.installing); /* a write of a committed entry is in flight */
    alone_all_written(&a);
    assert_false(a.replica->engine.installing);
    assert_int_equal(alone_last_index(&a), 2);
    assert_int_equal(raft_commit_index(raft_of(&a)), 2);
    request_vote(&a, 3, 10, false);
    assert_true(is_granted(&a, 3));
    entry.term = 10;
    alone_receive_append(&a, (struct alone_append){3, 10, 2, 9, 2, &entry, 1});
    alone_all_written(&a);
    assert_int_equal(
        alone_last(&a, RAFT_APPEND_ENTRIES_RESULT, 3)->message.append_entries_result.last_log_index,
        3);
    alone_close(&a);
}

/* The batch and the change before it leave the log, and the next first entry of this node has a
 * lower index. It serves, and expects outcomes in the order of submission, only after the old
 * one. */
static void a_batch_that_left_the_log_is_reported_before_the_node_serves_again(void **state)
{
    (void)state;
    struct alone a;
    const char *problem = NULL;
    alone_open(&a, 3);
    alone_lead(&a, 3);
    uint64_t last = alone_last_index(&a);
    assert_int_equal(
        replica_change_member(a.replica, REPLICA_ADD, 4, "127.0.0.1:4", a.now, &problem), HF_OK);
    alone_submit(&a);
    assert_int_equal(a.replica->flights[0].index, last + 2);
    receive_snapshot(&a, 2, term_of(&a) + 1, 40);
    replica_snapshot_abandoned(a.replica, a.now);
    assert_false(a.replica->engine.installing);
    assert_int_equal(alone_last_index(&a), last);
    assert_int_equal(a.results[REPLICA_NOT_DONE], 0); /* another node may have it */
    alone_elect(&a, 3);
    assert_true(leads(&a));
    assert_int_equal(a.replica->lead_index, last + 1);
    alone_all_written(&a);
    alone_acknowledge(&a, 2, last + 1, 0);
    assert_true(a.replica->serving);
    assert_int_equal(a.results[REPLICA_NOT_DONE], 1);
    assert_int_equal(a.replica->flight_count, 0);
    alone_close(&a);
}

/* For example because its disk is full. */
static void a_write_that_does_not_end_does_not_keep_a_node_installing(void **state)
{
    (void)state;
    struct alone a;
    uint8_t batch[256];
    size_t len = alone_batch(batch, sizeof(batch), 0);
    struct replica_entry entries[] = {{9, RAFT_COMMAND, slice_make(batch, len)},
                                      {9, RAFT_COMMAND, slice_make(batch, len)}};
    alone_open(&a, 3);
    alone_receive_append(&a, (struct alone_append){2, 9, 1, 1, 1, entries, 1});
    alone_all_written(&a);
    alone_receive_append(&a, (struct alone_append){2, 9, 2, 9, 1, entries, 1});
    alone_receive_append(&a, (struct alone_append){2, 9, 3, 9, 1, entries, 1});
    assert_int_equal(a.write_count, 2);
    receive_snapshot(&a, 2, 9, 40);
    replica_snapshot_abandoned(a.replica, a.now);
    assert_false(a.replica->engine.installing);
    assert_int_equal(alone_last_index(&a), 2); /* what is on disk */
    request_vote(&a, 3, 10, false);
    assert_true(is_granted(&a, 3));
    entries[0].term = 10;
    entries[1].term = 10;
    alone_forget(&a);
    alone_receive_append(&a, (struct alone_append){3, 10, 2, 9, 2, entries, 2});
    alone_written(&a); /* the two old ones */
    alone_written(&a);
    assert_int_equal(alone_count(&a, RAFT_APPEND_ENTRIES_RESULT, 3), 0);
    alone_written(&a);
    assert_int_equal(
        alone_last(&a, RAFT_APPEND_ENTRIES_RESULT, 3)->message.append_entries_result.last_log_index,
        4);
    alone_close(&a);
}

/* libraft takes the last members in its log for uncommitted when it is started anew. */
static void the_members_stay_committed_when_a_snapshot_does_not_arrive(void **state)
{
    (void)state;
    struct alone a;
    follow_with_members(&a, 9, (const bool[]){true, true, true}, 3);
    alone_receive_append(&a, (struct alone_append){2, 9, 2, 9, 2, NULL, 0});
    alone_run(&a, 10000);
    assert_int_equal(raft_of(&a)->configuration_uncommitted_index, 0);
    receive_snapshot(&a, 2, 9, 40);
    assert_int_equal(a.fetches, 1);
    replica_snapshot_abandoned(a.replica, a.now);
    assert_false(a.replica->engine.installing);
    assert_int_equal(raft_of(&a)->configuration_uncommitted_index, 0);
    assert_int_equal(raft_of(&a)->configuration_committed_index, 2);
    alone_close(&a);
}

/* ---- E21 ---- */

static void the_commit_index_never_falls(void **state)
{
    (void)state;
    struct alone a;
    struct replica_entry entries[4];
    uint8_t batch[256];
    size_t len = alone_batch(batch, sizeof(batch), 0);
    for (int i = 0; i < 4; i++) {
        entries[i] = (struct replica_entry){9, RAFT_COMMAND, slice_make(batch, len)};
    }
    alone_open(&a, 3);
    alone_receive_append(&a, (struct alone_append){2, 9, 1, 1, 5, entries, 4});
    alone_all_written(&a);
    assert_int_equal(raft_commit_index(raft_of(&a)), 5);
    alone_receive_append(&a, (struct alone_append){2, 9, 1, 1, 7, entries, 1});
    assert_int_equal(raft_commit_index(raft_of(&a)), 5);
    alone_close(&a);
}

static void a_leader_ends_when_another_leads_its_term(void **state)
{
    (void)state;
    struct alone a;
    char said[512] = "";
    int out[2];
    alone_open(&a, 3);
    alone_lead(&a, 3);
    assert_int_equal(pipe(out), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        dup2(out[1], STDERR_FILENO);
        alone_receive_append(&a, (struct alone_append){2, term_of(&a), 1, 1, 1, NULL, 0});
        _exit(0);
    }
    close(out[1]);
    ssize_t len = read(out[0], said, sizeof(said) - 1);
    close(out[0]);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_true(len > 0);
    assert_non_null(strstr(said, "two nodes were elected in one term"));
    alone_close(&a);
}

/* ---- E23 ---- */

static uint64_t highest_sent(const struct alone *a, uint64_t to)
{
    uint64_t highest = 0;
    for (uint32_t i = 0; i < a->sent_count; i++) {
        const struct raft_message *m = &a->sent[i].message;
        if (m->type == RAFT_APPEND_ENTRIES && m->server_id == to) {
            uint64_t last = m->append_entries.prev_log_index + m->append_entries.n_entries;
            highest = last > highest ? last : highest;
        }
    }
    return highest;
}

static void a_voter_learns_of_its_demotion_when_that_is_committed(void **state)
{
    (void)state;
    struct alone a;
    const char *problem = NULL;
    alone_open(&a, 4);
    alone_lead(&a, 4);
    assert_int_equal(change(&a, REPLICA_DEMOTE, 4, &problem), HF_OK);
    uint64_t index = alone_last_index(&a);
    alone_run(&a, 60000); /* a heartbeat too */
    assert_int_equal(highest_sent(&a, 2), index);
    assert_true(alone_count(&a, RAFT_APPEND_ENTRIES, 4) > 0);
    assert_int_equal(highest_sent(&a, 4), index - 1);
    alone_all_written(&a);
    alone_acknowledge(&a, 2, index, 0);
    assert_int_equal(raft_of(&a)->configuration_uncommitted_index, 0);
    alone_forget(&a);
    alone_acknowledge(&a, 4, index - 1, 0);
    alone_acknowledge(&a, 4, index - 1, index); /* it refuses what follows the change */
    alone_run(&a, 60000);
    assert_int_equal(highest_sent(&a, 4), index);
    alone_close(&a);
}

/* Removals need no rule: libraft drops a removed server at once. These show that it does, and that
 * the voters that are left elect a leader whoever of them has the change. Node 1 leads four voters
 * and removes node 4 while node 3 is down. Node 1 dies, and node 3 is back. */

static void a_voter_that_is_removed_is_not_sent_the_change(void **state)
{
    (void)state;
    struct alone a;
    const char *problem = NULL;
    alone_open(&a, 4);
    alone_lead(&a, 4);
    alone_run(&a, 60000);
    assert_true(alone_count(&a, RAFT_APPEND_ENTRIES, 4) > 0);
    alone_forget(&a);
    for (uint64_t id = 2; id <= 4; id++) {
        alone_acknowledge(&a, id, alone_last_index(&a), 0);
    }
    assert_int_equal(change(&a, REPLICA_REMOVE, 4, &problem), HF_OK);
    uint64_t index = alone_last_index(&a);
    alone_run(&a, 60000); /* a heartbeat too */
    alone_acknowledge(&a, 4, index - 1, 0);
    alone_acknowledge(&a, 4, index - 1, index);
    alone_run(&a, 60000);
    assert_int_equal(highest_sent(&a, 2), index);
    assert_true(highest_sent(&a, 4) < index);
    alone_all_written(&a);
    alone_acknowledge(&a, 2, index, 0); /* two of three voters have it */
    assert_int_equal(raft_of(&a)->configuration_uncommitted_index, 0);
    assert_true(highest_sent(&a, 4) < index);
    alone_close(&a);
}

/* Node 2 of four voters, which followed node 1 in term 7 and requests votes now. */
static void follow_as_second_of_four(struct alone *a, bool has_removal)
{
    static const bool all[] = {true, true, true};
    uint8_t bytes[1024];
    struct replica_entry removal = members_entry(7, all, 3, bytes, sizeof(bytes));
    alone_open_as(a, &(struct alone_life){.id = 2, .members = 4, .term = 1, .last = 1});
    alone_receive_append(a, (struct alone_append){1, 7, 1, 1, 1, &removal, has_removal ? 1 : 0});
    alone_all_written(a);
    alone_forget(a);
    alone_pass_us(a, 700000); /* node 1 is silent */
    replica_on_timer(a->replica, a->now);
}

static void give_votes(struct alone *a, uint64_t from)
{
    alone_vote(a, from, 8, true);
    alone_vote(a, from, 8, false);
}

/* Only the leader has the removal: the others elect by the four voters, the removed one too. */
static void without_the_removal_the_removed_voter_votes_and_a_leader_is_elected(void **state)
{
    (void)state;
    struct alone a;
    follow_as_second_of_four(&a, false);
    assert_non_null(alone_last(&a, RAFT_REQUEST_VOTE, 4)); /* its vote is requested */
    alone_vote(&a, 3, 8, true);
    alone_vote(&a, 4, 8, true);
    assert_int_equal(term_of(&a), 8);
    alone_vote(&a, 3, 8, false);
    assert_false(leads(&a)); /* two of four */
    alone_vote(&a, 4, 8, false);
    assert_true(leads(&a));
    alone_close(&a);
    follow_as_second_of_four(&a, false); /* now as the voter that was to be removed */
    request_vote(&a, 3, 8, false);
    assert_true(is_granted(&a, 3));
    alone_close(&a);
}

/* One more voter has the removal: it has the longest log, and one of the two others is enough. */
static void a_voter_with_the_removal_is_elected_by_those_that_are_left(void **state)
{
    (void)state;
    struct alone a;
    follow_as_second_of_four(&a, true);
    assert_null(alone_last(&a, RAFT_REQUEST_VOTE, 4));
    assert_non_null(alone_last(&a, RAFT_REQUEST_VOTE, 3));
    give_votes(&a, 3);
    assert_true(leads(&a));
    assert_int_equal(term_of(&a), 8);
    alone_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_only_voter_raises_its_term_when_it_starts),
        cmocka_unit_test(a_follower_that_became_the_only_voter_raises_its_term),
        cmocka_unit_test(the_only_voter_does_not_lead_because_of_a_timeout_now),
        cmocka_unit_test(leadership_is_not_transferred_during_a_membership_change),
        cmocka_unit_test(a_message_of_an_older_term_is_refused_without_an_index),
        cmocka_unit_test(an_acknowledgement_of_what_was_not_sent_is_dropped),
        cmocka_unit_test(a_server_votes_that_does_not_know_that_it_is_a_voter),
        cmocka_unit_test(only_a_member_that_answers_is_promoted),
        cmocka_unit_test(a_member_far_away_is_promoted),
        cmocka_unit_test(the_leader_neither_demotes_nor_removes_itself),
        cmocka_unit_test(entries_from_the_first_on_are_taken_behind_the_snapshot),
        cmocka_unit_test(what_the_snapshot_covers_is_acknowledged_up_to_it),
        cmocka_unit_test(a_late_pre_vote_answer_does_not_raise_the_term),
        cmocka_unit_test(a_pre_vote_for_an_earlier_term_does_not_count),
        cmocka_unit_test(a_candidate_without_success_requests_pre_votes_again),
        cmocka_unit_test(a_candidate_disrupts_a_leader_once),
        cmocka_unit_test(a_node_whose_snapshot_does_not_arrive_goes_on_with_its_log),
        cmocka_unit_test(a_batch_that_left_the_log_is_reported_before_the_node_serves_again),
        cmocka_unit_test(a_write_that_does_not_end_does_not_keep_a_node_installing),
        cmocka_unit_test(the_members_stay_committed_when_a_snapshot_does_not_arrive),
        cmocka_unit_test(the_commit_index_never_falls),
        cmocka_unit_test(a_leader_ends_when_another_leads_its_term),
        cmocka_unit_test(a_voter_learns_of_its_demotion_when_that_is_committed),
        cmocka_unit_test(a_voter_that_is_removed_is_not_sent_the_change),
        cmocka_unit_test(without_the_removal_the_removed_voter_votes_and_a_leader_is_elected),
        cmocka_unit_test(a_voter_with_the_removal_is_elected_by_those_that_are_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

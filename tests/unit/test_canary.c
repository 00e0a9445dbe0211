/* The canary: is the libraft that this was linked with one that may be trusted, and do we drive it
 * so that it does not come to a stand?
 *
 * Two safety scenarios (DESIGN.md, "Consensus is a library") are put to the library itself by
 * raft_step, without any code of ours between: an entry of an earlier term is not committed by
 * counting replicas, and a follower acknowledges no entry that the leader did not show it. Debian
 * 12's libraft 0.15.0 fails both, and loses acknowledged writes; it has no raft_step, so that this
 * file does not even compile with it. Both tests were seen to fail with a libraft 0.22.1 that had
 * the error put back. Two dead-locks are put to our replicas, which must get out of them, or never
 * into them: terms that a refused pre-vote hides, and a voter that does not know it is one. */
#include "base_testing.h"

#include "replica_alone.h"

/* ---- the library alone ---- */

enum { ELECTION_MS = 300, MEMBERS = 3 };

struct server {
    struct raft raft;
    struct raft_update update;
    uint64_t now_ms;
};

static void step(struct server *s, struct raft_event *event)
{
    event->time = s->now_ms;
    event->capacity = UINT16_MAX;
    assert_int_equal(raft_step(&s->raft, event, &s->update), 0);
    if ((s->update.flags & (RAFT_UPDATE_ENTRIES)) != 0) {
        raft_free(s->update.entries.batch[0].batch);
    }
}

/* Server 1 with a log whose first entry names its members and whose others are of these terms. */
static void server_start(struct server *s, uint64_t term, const uint64_t *terms, unsigned count,
                         int own_role)
{
    static uint8_t nothing[8];
    static const char *const addresses[] = {"n1", "n2", "n3"};
    struct raft_configuration members;
    struct raft_entry entries[8];
    memset(s, 0, sizeof(*s));
    assert_int_equal(raft_init(&s->raft, NULL, NULL, 1, "n1"), 0);
    s->raft.tracer = NULL;
    raft_seed(&s->raft, 1);
    raft_set_pre_vote(&s->raft, true);
    raft_set_election_timeout(&s->raft, ELECTION_MS);
    raft_set_heartbeat_timeout(&s->raft, ELECTION_MS / 6);
    raft_configuration_init(&members);
    for (uint64_t id = 1; id <= MEMBERS; id++) {
        assert_int_equal(raft_configuration_add(&members, id, addresses[id - 1],
                                                id == 1 ? own_role : RAFT_VOTER),
                         0);
    }
    entries[0] = (struct raft_entry){.term = 1, .type = RAFT_CHANGE};
    assert_int_equal(raft_configuration_encode(&members, &entries[0].buf), 0);
    for (unsigned i = 0; i < count; i++) {
        entries[i + 1] = (struct raft_entry){
            .term = terms[i], .type = RAFT_COMMAND, .buf = {nothing, sizeof(nothing)}};
    }
    struct raft_event event = {.type = RAFT_START};
    event.start.term = term;
    event.start.start_index = 1;
    event.start.entries = entries;
    event.start.n_entries = count + 1;
    step(s, &event);
    raft_free(entries[0].buf.base);
    raft_configuration_close(&members);
}

static void server_close(struct server *s)
{
    raft_close(&s->raft, NULL);
}

static void receive(struct server *s, uint64_t from, struct raft_message m)
{
    m.server_id = from;
    m.server_address = from == 2 ? "n2" : "n3";
    struct raft_event event = {.type = RAFT_RECEIVE};
    event.receive.message = &m;
    step(s, &event);
}

/* The one message of that type that the last step requested. */
static const struct raft_message *sent(const struct server *s, enum raft_message_type type)
{
    const struct raft_message *found = NULL;
    assert_true((s->update.flags & (RAFT_UPDATE_MESSAGES)) != 0);
    for (unsigned i = 0; i < s->update.messages.n; i++) {
        if (s->update.messages.batch[i].type == type) {
            assert_null(found);
            found = &s->update.messages.batch[i];
        }
    }
    assert_non_null(found);
    return found;
}

static void receive_vote(struct server *s, uint64_t from, bool pre_vote)
{
    struct raft_message m = {.type = RAFT_REQUEST_VOTE_RESULT};
    m.request_vote_result.version = 2;
    m.request_vote_result.term = raft_current_term(&s->raft) + pre_vote;
    m.request_vote_result.vote_granted = true;
    m.request_vote_result.pre_vote = pre_vote;
    m.request_vote_result.features = 1;
    m.request_vote_result.capacity = UINT16_MAX;
    receive(s, from, m);
}

static void receive_acknowledgement(struct server *s, uint64_t from, uint64_t last)
{
    struct raft_message m = {.type = RAFT_APPEND_ENTRIES_RESULT};
    m.append_entries_result.version = 2;
    m.append_entries_result.term = raft_current_term(&s->raft);
    m.append_entries_result.last_log_index = last;
    m.append_entries_result.features = 1;
    m.append_entries_result.capacity = UINT16_MAX;
    receive(s, from, m);
}

static void lead(struct server *s)
{
    struct raft_event timeout = {.type = RAFT_TIMEOUT};
    s->now_ms = raft_timeout(&s->raft);
    step(s, &timeout);
    receive_vote(s, 2, true);
    receive_vote(s, 2, false);
    assert_int_equal(raft_state(&s->raft), RAFT_LEADER);
}

/* The entry that libraft makes of itself when it begins to lead is on its own disk. */
static void own_entry_is_written(struct server *s, uint64_t index)
{
    struct raft_event written = {.type = RAFT_PERSISTED_ENTRIES};
    written.persisted_entries.index = index;
    step(s, &written);
}

/* Raft's paper, figure 8: entries 2 and 3 are of term 2, their leader is of term 3. They are on the
 * disks of a majority, and may be overwritten yet. */
static void an_entry_of_an_earlier_term_is_not_committed_by_counting(void **state)
{
    (void)state;
    struct server s;
    server_start(&s, 2, (const uint64_t[]){2, 2}, 2, RAFT_VOTER);
    lead(&s);
    assert_int_equal(raft_current_term(&s.raft), 3);
    uint64_t before = raft_commit_index(&s.raft);
    assert_true(before <= 1);
    receive_acknowledgement(&s, 2, 2);
    receive_acknowledgement(&s, 2, 3);
    receive_acknowledgement(&s, 3, 3); /* all of them have it */
    assert_int_equal(raft_commit_index(&s.raft), before);
    own_entry_is_written(&s, 4);
    assert_int_equal(raft_commit_index(&s.raft), before);
    receive_acknowledgement(&s, 2, 4); /* with an entry of its own term, all before it */
    assert_int_equal(raft_commit_index(&s.raft), 4);
    server_close(&s);
}

/* A follower has entries 2 to 4 of an old leader. The new one has shown that entry 2 is its own,
 * and nothing of 3 and 4, which it may not have. */
static void a_follower_acknowledges_nothing_beyond_what_was_matched(void **state)
{
    (void)state;
    struct server s;
    server_start(&s, 2, (const uint64_t[]){2, 2, 2}, 3, RAFT_VOTER);
    struct raft_message heartbeat = {.type = RAFT_APPEND_ENTRIES};
    heartbeat.append_entries.version = 1;
    heartbeat.append_entries.term = 3;
    heartbeat.append_entries.prev_log_index = 2;
    heartbeat.append_entries.prev_log_term = 2;
    receive(&s, 2, heartbeat);
    const struct raft_append_entries_result *r =
        &sent(&s, RAFT_APPEND_ENTRIES_RESULT)->append_entries_result;
    assert_int_equal(r->rejected, 0);
    assert_int_equal(r->last_log_index, 2);
    /* Nor is it committed there, whatever the leader has committed elsewhere. */
    heartbeat.append_entries.leader_commit = 4;
    receive(&s, 2, heartbeat);
    assert_int_equal(sent(&s, RAFT_APPEND_ENTRIES_RESULT)->append_entries_result.last_log_index, 2);
    server_close(&s);
}

/* The same with an entry that it has already: nothing to write, so it is answered at once. */
static void a_follower_that_has_what_it_is_sent_acknowledges_that_and_no_more(void **state)
{
    (void)state;
    struct server s;
    server_start(&s, 2, (const uint64_t[]){2, 2, 2}, 3, RAFT_VOTER);
    struct raft_message append = {.type = RAFT_APPEND_ENTRIES};
    append.append_entries.version = 1;
    append.append_entries.term = 3;
    append.append_entries.prev_log_index = 2;
    append.append_entries.prev_log_term = 2;
    append.append_entries.n_entries = 1;
    append.append_entries.entries = raft_calloc(1, sizeof(struct raft_entry));
    *append.append_entries.entries =
        (struct raft_entry){.term = 2, .type = RAFT_COMMAND, .buf = {raft_calloc(1, 8), 8}};
    append.append_entries.entries->batch = append.append_entries.entries->buf.base;
    struct raft_entry *entries = append.append_entries.entries;
    receive(&s, 2, append);
    raft_free(entries);
    const struct raft_append_entries_result *r =
        &sent(&s, RAFT_APPEND_ENTRIES_RESULT)->append_entries_result;
    assert_int_equal(r->rejected, 0);
    assert_int_equal(r->last_log_index, 3);
    server_close(&s);
}

/* ---- our way of driving it ---- */

/* Votes that `a` requests and gives reach `b`; everything else that it said is lost. */
static void carry_votes(struct alone *a, struct alone *b)
{
    for (uint32_t i = 0; i < a->sent_count; i++) {
        const struct raft_message *m = &a->sent[i].message;
        if (m->server_id == b->options.id &&
            (m->type == RAFT_REQUEST_VOTE || m->type == RAFT_REQUEST_VOTE_RESULT)) {
            alone_receive(b, a->options.id, m, slice_make(NULL, 0), NULL, NULL);
        }
    }
    alone_forget(a);
}

/* Two of three are left. One has the longer log, the other the higher term: each refuses the
 * other's pre-vote, and libraft answers with the term of the candidate (E4). */
static void two_of_whom_one_has_the_log_and_one_the_term_find_a_leader(void **state)
{
    (void)state;
    struct alone longer;
    struct alone higher;
    alone_open_as(&longer, &(struct alone_life){.id = 1, .members = 3, .term = 3, .last = 5});
    alone_open_as(&higher, &(struct alone_life){.id = 2, .members = 3, .term = 9, .last = 1});
    int rounds = 0;
    while (!engine_is_leader(&longer.replica->engine) && rounds++ < 2000) { /* 20 s */
        alone_run(&longer, 10000);
        carry_votes(&longer, &higher);
        alone_run(&higher, 10000);
        carry_votes(&higher, &longer);
        assert_false(engine_is_leader(&higher.replica->engine)); /* it lacks entries */
    }
    assert_true(engine_is_leader(&longer.replica->engine));
    assert_true(raft_current_term(&longer.replica->engine.raft) > 9);
    alone_close(&longer);
    alone_close(&higher);
}

/* Why rule E5 exists. Should this ever fail, the library has become better, and the rule may be
 * looked at again. */
static void a_server_that_does_not_know_that_it_votes_does_not_vote(void **state)
{
    (void)state;
    struct server s;
    server_start(&s, 2, (const uint64_t[]){2}, 1, RAFT_STANDBY);
    struct raft_message request = {.type = RAFT_REQUEST_VOTE};
    request.request_vote.version = 2;
    request.request_vote.term = 3;
    request.request_vote.candidate_id = 2;
    request.request_vote.last_log_index = 9; /* among them the entry that makes it a voter */
    request.request_vote.last_log_term = 2;
    s.now_ms = 10 * ELECTION_MS;
    receive(&s, 2, request);
    assert_false(sent(&s, RAFT_REQUEST_VOTE_RESULT)->request_vote_result.vote_granted);
    server_close(&s);
}

/* So nothing is built on a voter that may not know it: the next change, by which others might leave
 * and its vote be needed, waits for it (E5). */
static void no_change_begins_while_a_voter_may_not_know_that_it_is_one(void **state)
{
    (void)state;
    struct alone a;
    const char *why = "";
    alone_open(&a, 3);
    alone_lead(&a, 3);
    assert_int_equal(replica_change_member(a.replica, REPLICA_ADD, 4, "n4", a.now, &why), HF_OK);
    alone_all_written(&a);
    for (uint64_t id = 2; id <= 4; id++) {
        alone_acknowledge(&a, id, alone_last_index(&a), 0);
    }
    assert_int_equal(replica_change_member(a.replica, REPLICA_PROMOTE, 4, "n4", a.now, &why),
                     HF_OK);
    alone_all_written(&a);
    alone_acknowledge(&a, 2, alone_last_index(&a), 0);
    alone_acknowledge(&a, 3, alone_last_index(&a), 0);
    struct replica_status status;
    replica_status(a.replica, a.now, &status);
    assert_int_equal(status.commit_index,
                     status.last_index); /* it is a voter, and does not have the entry */
    assert_int_equal(replica_change_member(a.replica, REPLICA_REMOVE, 3, "n3", a.now, &why),
                     HF_MEMBERSHIP);
    assert_non_null(strstr(why, "does not have the current membership"));
    alone_acknowledge(&a, 4, alone_last_index(&a), 0);
    assert_int_equal(replica_change_member(a.replica, REPLICA_REMOVE, 3, "n3", a.now, &why), HF_OK);
    alone_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_entry_of_an_earlier_term_is_not_committed_by_counting),
        cmocka_unit_test(a_follower_acknowledges_nothing_beyond_what_was_matched),
        cmocka_unit_test(a_follower_that_has_what_it_is_sent_acknowledges_that_and_no_more),
        cmocka_unit_test(two_of_whom_one_has_the_log_and_one_the_term_find_a_leader),
        cmocka_unit_test(a_server_that_does_not_know_that_it_votes_does_not_vote),
        cmocka_unit_test(no_change_begins_while_a_voter_may_not_know_that_it_is_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

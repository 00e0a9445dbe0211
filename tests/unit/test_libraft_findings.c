/* The defects of docs/evidence/libraft.md, shown with the linked library by raft_step, without any
 * code of ours between. Each test expects the defect that a rule of docs/ENGINE.md guards against.
 * It fails when another version of the library behaves differently, and names the rule: that rule
 * may then be dropped, after its scenario was checked with the new version.
 *
 * Not here: E22, which guards against no defect. Of L14 only what is always so: the answer counts as
 * success. Its index is uninitialised memory. */
#include "base_testing.h"

#include <raft.h>

enum { ELECTION_MS = 300, HEARTBEAT_MS = 50, MOST_ENTRIES = 128 };

struct server {
    struct raft raft;
    struct raft_update update;
    uint64_t now_ms;
};

/* Fails, with the rule to look at, unless the library still behaves so. */
#define shows(rule, defect)                                                                    \
    do {                                                                                       \
        if (!(defect)) {                                                                       \
            fail_msg(                                                                          \
                "libraft has changed, this is no longer true: %s. See whether docs/ENGINE.md " \
                "still needs %s, and correct docs/evidence/libraft.md",                        \
                #defect, rule);                                                                \
        }                                                                                      \
    } while (0)

/* ---- what it is given ---- */

static int try_step(struct server *s, struct raft_event *event)
{
    event->time = s->now_ms;
    event->capacity = UINT16_MAX;
    int error = raft_step(&s->raft, event, &s->update);
    if (error == 0 && (s->update.flags & (RAFT_UPDATE_ENTRIES)) != 0) {
        raft_free(s->update.entries.batch[0].batch);
    }
    return error;
}

static void step(struct server *s, struct raft_event *event)
{
    assert_int_equal(try_step(s, event), 0);
}

static const char *address_of(uint64_t id)
{
    static const char *const addresses[] = {"", "n1", "n2", "n3"};
    return addresses[id];
}

/* "VL-" is voter 1, learner 2, and no server 3. */
static void members_of(const char *roles, struct raft_configuration *out)
{
    raft_configuration_init(out);
    for (uint64_t id = 1; roles[id - 1] != '\0'; id++) {
        int role = roles[id - 1] == 'V' ? RAFT_VOTER : RAFT_STANDBY;
        if (roles[id - 1] != '-') {
            assert_int_equal(raft_configuration_add(out, id, address_of(id), role), 0);
        }
    }
}

/* A membership entry, or with no roles a command. */
static struct raft_entry entry_of(uint64_t term, const char *roles)
{
    struct raft_entry entry = {.term = term, .type = RAFT_COMMAND};
    if (roles != NULL) {
        struct raft_configuration members;
        members_of(roles, &members);
        entry.type = RAFT_CHANGE;
        assert_int_equal(raft_configuration_encode(&members, &entry.buf), 0);
        raft_configuration_close(&members);
    } else {
        entry.buf.len = 8;
        entry.buf.base = raft_calloc(1, 8);
    }
    entry.batch = entry.buf.base;
    return entry;
}

static void server_init(struct server *s, uint64_t id)
{
    memset(s, 0, sizeof(*s));
    assert_int_equal(raft_init(&s->raft, NULL, NULL, id, address_of(id)), 0);
    s->raft.tracer = NULL;
    raft_seed(&s->raft, 7);
    raft_set_pre_vote(&s->raft, true);
    raft_set_election_timeout(&s->raft, ELECTION_MS);
    raft_set_heartbeat_timeout(&s->raft, HEARTBEAT_MS);
    s->now_ms = 1000;
}

/* The log is its first configuration and `commands` of the same term, then perhaps another. */
static void server_start(struct server *s, uint64_t id, uint64_t term, uint64_t vote,
                         const char *first, unsigned commands, const char *then)
{
    struct raft_entry entries[MOST_ENTRIES];
    unsigned count = 0;
    server_init(s, id);
    entries[count++] = entry_of(1, first);
    for (unsigned i = 0; i < commands; i++) {
        entries[count++] = entry_of(1, NULL);
    }
    if (then != NULL) {
        entries[count++] = entry_of(1, then);
    }
    struct raft_event event = {.type = RAFT_START};
    event.start.term = term;
    event.start.voted_for = vote;
    event.start.start_index = 1;
    event.start.entries = entries;
    event.start.n_entries = count;
    step(s, &event);
    for (unsigned i = 0; i < count; i++) {
        raft_free(entries[i].batch);
    }
}

static void server_start_with_snapshot(struct server *s, uint64_t index)
{
    struct raft_snapshot_metadata metadata = {.index = index, .term = 3, .configuration_index = 1};
    server_init(s, 2);
    members_of("VVV", &metadata.configuration);
    struct raft_event event = {.type = RAFT_START};
    event.start.term = 3;
    event.start.metadata = &metadata;
    event.start.start_index = index + 1;
    step(s, &event);
}

static int try_receive(struct server *s, uint64_t from, struct raft_message m)
{
    m.server_id = from;
    m.server_address = address_of(from);
    struct raft_event event = {.type = RAFT_RECEIVE};
    event.receive.message = &m;
    return try_step(s, &event);
}

static void receive(struct server *s, uint64_t from, struct raft_message m)
{
    assert_int_equal(try_receive(s, from, m), 0);
}

static struct raft_message entries_message(uint64_t term, uint64_t prev, uint64_t prev_term,
                                           uint64_t commit)
{
    struct raft_message m = {.type = RAFT_APPEND_ENTRIES};
    m.append_entries.version = 1;
    m.append_entries.term = term;
    m.append_entries.prev_log_index = prev;
    m.append_entries.prev_log_term = prev_term;
    m.append_entries.leader_commit = commit;
    return m;
}

/* `n` entries in one block, or one membership entry. */
static void receive_entries(struct server *s, struct raft_message m, unsigned n, uint64_t term,
                            const char *roles)
{
    struct raft_entry entries[MOST_ENTRIES];
    struct raft_entry one = entry_of(term, roles);
    for (unsigned i = 0; i < MOST_ENTRIES; i++) {
        entries[i] = one; /* all of them: L17 reads behind the end of the message */
    }
    m.append_entries.entries = entries;
    m.append_entries.n_entries = n;
    receive(s, 1, m);
}

static void receive_result(struct server *s, uint64_t from, uint64_t rejected, uint64_t last)
{
    struct raft_message m = {.type = RAFT_APPEND_ENTRIES_RESULT};
    m.append_entries_result.version = 1;
    m.append_entries_result.term = raft_current_term(&s->raft);
    m.append_entries_result.rejected = rejected;
    m.append_entries_result.last_log_index = last;
    m.append_entries_result.features = 1;
    m.append_entries_result.capacity = UINT16_MAX;
    receive(s, from, m);
}

static void receive_vote_request(struct server *s, uint64_t from, uint64_t term, uint64_t last,
                                 uint64_t last_term, bool disrupts)
{
    struct raft_message m = {.type = RAFT_REQUEST_VOTE};
    m.request_vote.version = 2;
    m.request_vote.term = term;
    m.request_vote.candidate_id = from;
    m.request_vote.last_log_index = last;
    m.request_vote.last_log_term = last_term;
    m.request_vote.disrupt_leader = disrupts;
    receive(s, from, m);
}

static void receive_vote(struct server *s, uint64_t from, uint64_t term, bool pre_vote)
{
    struct raft_message m = {.type = RAFT_REQUEST_VOTE_RESULT};
    m.request_vote_result.version = 2;
    m.request_vote_result.term = term;
    m.request_vote_result.vote_granted = true;
    m.request_vote_result.pre_vote = pre_vote;
    receive(s, from, m);
}

static void announce_snapshot(struct server *s, uint64_t term, uint64_t index)
{
    struct raft_message m = {.type = RAFT_INSTALL_SNAPSHOT};
    m.install_snapshot.version = 1;
    m.install_snapshot.term = term;
    m.install_snapshot.last_index = index;
    m.install_snapshot.last_term = term;
    m.install_snapshot.conf_index = 1;
    members_of("VVV", &m.install_snapshot.conf);
    m.install_snapshot.data.base = raft_malloc(8);
    m.install_snapshot.data.len = 8;
    receive(s, 1, m);
    if ((s->update.flags & (RAFT_UPDATE_SNAPSHOT)) != 0) {
        raft_configuration_close(&s->update.snapshot.metadata.configuration);
        raft_free(s->update.snapshot.chunk.base);
    }
}

static void written(struct server *s, uint64_t index)
{
    struct raft_event event = {.type = RAFT_PERSISTED_ENTRIES};
    event.persisted_entries.index = index;
    step(s, &event);
}

static void time_out(struct server *s)
{
    struct raft_event event = {.type = RAFT_TIMEOUT};
    s->now_ms = raft_timeout(&s->raft);
    step(s, &event);
}

static void submit(struct server *s, const char *roles)
{
    struct raft_entry entry = entry_of(raft_current_term(&s->raft), roles);
    struct raft_event event = {.type = RAFT_SUBMIT};
    event.submit.entries = &entry;
    event.submit.n = 1;
    step(s, &event);
}

/* Leads the next term with that server's votes, and has its first entry on disk. */
static void lead(struct server *s, uint64_t with)
{
    time_out(s);
    receive_vote(s, with, raft_current_term(&s->raft) + 1, true);
    receive_vote(s, with, raft_current_term(&s->raft), false);
    assert_int_equal(raft_state(&s->raft), RAFT_LEADER);
    written(s, s->raft.last_stored + 1);
}

/* ---- what it does ---- */

static const struct raft_message *sent(const struct server *s, enum raft_message_type type,
                                       uint64_t to)
{
    for (unsigned i = 0; (s->update.flags & (RAFT_UPDATE_MESSAGES)) && i < s->update.messages.n;
         i++) {
        if (s->update.messages.batch[i].type == type &&
            s->update.messages.batch[i].server_id == to) {
            return &s->update.messages.batch[i];
        }
    }
    return NULL;
}

static const struct raft_message *must_have_sent(const struct server *s,
                                                 enum raft_message_type type, uint64_t to)
{
    const struct raft_message *m = sent(s, type, to);
    assert_non_null(m);
    return m;
}

static bool has_granted(const struct server *s, uint64_t to)
{
    return must_have_sent(s, RAFT_REQUEST_VOTE_RESULT, to)->request_vote_result.vote_granted;
}

static void server_close(struct server *s)
{
    raft_close(&s->raft, NULL);
}

/* ---- L13 ---- */

static void the_only_voter_leads_the_term_in_which_it_voted_for_another(void **state)
{
    (void)state;
    struct server s;
    server_start(&s, 1, 3, 2, "VL", 1, NULL); /* term 3, with its vote for server 2 */
    shows("E13", raft_state(&s.raft) == RAFT_LEADER);
    shows("E13", raft_current_term(&s.raft) == 3);
    shows("E13", raft_voted_for(&s.raft) == 2);
    server_close(&s);

    server_start(&s, 2, 3, 1, "VV", 1, NULL);
    receive_entries(&s, entries_message(3, 2, 1, 0), 1, 3, "LV"); /* server 1 demotes itself */
    written(&s, 3);
    time_out(&s);
    shows("E13", raft_state(&s.raft) == RAFT_LEADER);
    shows("E13", raft_current_term(&s.raft) == 3);
    shows("E13", raft_voted_for(&s.raft) == 1);
    server_close(&s);
}

static void the_only_voter_votes_for_another_in_the_term_that_it_leads(void **state)
{
    (void)state;
    struct server s;
    server_start(&s, 1, 4, 0, "VL", 1, NULL);
    receive_vote_request(&s, 2, 4, 2, 1, true);
    shows("E13", has_granted(&s, 2));
    shows("E13", raft_state(&s.raft) == RAFT_LEADER);
    shows("E13", raft_current_term(&s.raft) == 4);
    server_close(&s);
}

/* ---- L14 ---- */

static void a_snapshot_of_an_older_term_is_answered_with_success(void **state)
{
    (void)state;
    struct server s;
    server_start(&s, 2, 5, 0, "VVV", 1, NULL);
    announce_snapshot(&s, 4, 100);
    const struct raft_message *m = must_have_sent(&s, RAFT_APPEND_ENTRIES_RESULT, 1);
    shows("E14", m->append_entries_result.term == 5);
    shows("E14", m->append_entries_result.rejected == 0);
    server_close(&s);
}

/* ---- L15, L16, L23 ---- */

static void a_learner_refuses_its_vote(void **state)
{
    (void)state;
    struct server s;
    server_start(&s, 2, 1, 0, "VL", 0, NULL);
    receive_vote_request(&s, 1, 2, 9, 1, false);
    shows("E15", !has_granted(&s, 1));
    server_close(&s);
}

/* Also when it votes as E15 makes it do. */
static void a_demoted_voter_with_the_longest_log_neither_votes_nor_campaigns(void **state)
{
    (void)state;
    struct server s;
    server_start(&s, 2, 2, 1, "VV", 1, "VL");
    s.raft.configuration.servers[1].role = RAFT_VOTER;
    receive_vote_request(&s, 1, 3, 2, 1, false);
    s.raft.configuration.servers[1].role = RAFT_STANDBY;
    shows("E16 and E23", !has_granted(&s, 1));
    for (int i = 0; i < 10; i++) {
        time_out(&s);
        shows("E16 and E23", raft_state(&s.raft) == RAFT_FOLLOWER);
    }
    server_close(&s);
}

static void a_leader_that_demoted_itself_leads_on_without_contact(void **state)
{
    (void)state;
    struct server s;
    server_start(&s, 1, 1, 0, "VV", 1, NULL);
    lead(&s, 2);
    receive_result(&s, 2, 2, 1);
    receive_result(&s, 2, 0, 3);
    submit(&s, "LV");
    written(&s, 4);
    uint64_t began_ms = s.now_ms;
    while (s.now_ms < began_ms + 10 * ELECTION_MS) {
        time_out(&s);
    }
    shows("E16", raft_state(&s.raft) == RAFT_LEADER);
    server_close(&s);
}

/* ---- L17, L21 ---- */

static void entries_from_the_first_on_are_stored_behind_a_snapshot(void **state)
{
    (void)state;
    struct server s;
    server_start_with_snapshot(&s, 100);
    receive_entries(&s, entries_message(3, 0, 0, 0), 1, 1, NULL);
    shows("E17", s.update.entries.index == 1);
    shows("E17", s.update.entries.n == 101); /* of a message with one */
    server_close(&s);
}

static void the_commit_index_falls(void **state)
{
    (void)state;
    struct server s;
    server_start(&s, 2, 1, 0, "VVV", 9, NULL);
    receive_entries(&s, entries_message(1, 10, 1, 50), 40, 1, NULL);
    assert_int_equal(raft_commit_index(&s.raft), 50);
    receive_entries(&s, entries_message(1, 10, 1, 51), 32, 1, NULL);
    shows("E21", raft_commit_index(&s.raft) == 42);
    server_close(&s);

    server_start_with_snapshot(&s, 100);
    assert_int_equal(raft_commit_index(&s.raft), 100);
    receive(&s, 1, entries_message(3, 0, 0, 200));
    shows("E17 or E21", raft_commit_index(&s.raft) == 0);
    server_close(&s);
}

static void a_follower_that_refuses_its_match_index_is_sent_nothing_any_more(void **state)
{
    (void)state;
    struct server s;
    server_start(&s, 1, 1, 0, "VVV", 49, NULL);
    lead(&s, 3);
    receive_result(&s, 2, 50, 4);
    receive_result(&s, 2, 0, 5); /* it has 5 */
    for (int i = 0; i < 3; i++) {
        receive_result(&s, 3, 0, 51);
        time_out(&s);
    }
    const struct raft_message *m = must_have_sent(&s, RAFT_APPEND_ENTRIES, 2);
    shows("E17", m->append_entries.prev_log_index == 5); /* by M7 it is probed again */
    for (uint64_t prev = 5; prev > 0; prev--) {
        receive_result(&s, 2, prev, prev - 1);
        m = must_have_sent(&s, RAFT_APPEND_ENTRIES, 2);
        shows("E17", m->append_entries.prev_log_index == prev - 1);
        shows("E17", m->append_entries.n_entries == 0);
    }
    receive_result(&s, 2, 0, 0);
    time_out(&s);
    m = must_have_sent(&s, RAFT_APPEND_ENTRIES, 2);
    shows("E17", m->append_entries.prev_log_index == 0);
    shows("E17", m->append_entries.n_entries == 0);
    server_close(&s);
}

static void a_leader_takes_entries_of_another_leader_of_its_term(void **state)
{
    (void)state;
    struct server s;
    server_start(&s, 2, 3, 1, "LV", 1, NULL);
    shows("E13", raft_state(&s.raft) == RAFT_LEADER && raft_current_term(&s.raft) == 3);
    shows("E21", try_receive(&s, 1, entries_message(3, 2, 1, 0)) == 0);
    shows("E21", raft_state(&s.raft) == RAFT_LEADER);
    shows("E21", s.raft.leader_state.promotee_id != 0); /* it is a pointer now */
    raft_free((void *)(uintptr_t)s.raft.leader_state.promotee_id);
    s.raft.leader_state.promotee_id = 0;
    server_close(&s);
}

/* ---- L18, L19, L20 ---- */

static void a_byte_of_an_address_decides_whether_a_late_pre_vote_raises_the_term(void **state)
{
    (void)state;
    enum { ALIGNMENT = 1 << 16 };
    for (int is_zero = 0; is_zero < 2; is_zero++) {
        struct server s;
        server_start(&s, 2, 1, 0, "VVV", 1, NULL);
        time_out(&s); /* requests pre-votes of term 2 */
        receive(&s, 1, entries_message(1, 2, 1, 2));
        char *address = s.raft.follower_state.current_leader.address;
        char *block = aligned_alloc(ALIGNMENT, ALIGNMENT);
        s.raft.follower_state.current_leader.address = block + (is_zero ? 0 : 0x100);
        receive_vote(&s, 3, 2, true);
        s.raft.follower_state.current_leader.address = address;
        shows("E18", raft_current_term(&s.raft) == (is_zero ? 2U : 1U));
        free(block);
        server_close(&s);
    }
}

static void a_candidate_disrupts_with_each_timeout(void **state)
{
    (void)state;
    struct server s;
    server_start(&s, 2, 1, 0, "VVV", 1, NULL);
    receive(&s, 1, entries_message(1, 2, 1, 2));
    struct raft_message m = {.type = RAFT_TIMEOUT_NOW};
    m.timeout_now.version = 1;
    m.timeout_now.term = 1;
    m.timeout_now.last_log_index = 2;
    m.timeout_now.last_log_term = 1;
    receive(&s, 1, m);
    for (uint64_t term = 2; term < 5; term++) {
        const struct raft_request_vote *request =
            &must_have_sent(&s, RAFT_REQUEST_VOTE, 3)->request_vote;
        shows("E19", request->term == term);
        shows("E19", request->disrupt_leader);
        shows("E19", !request->pre_vote);
        time_out(&s);
    }
    server_close(&s);
}

static void a_server_that_installs_refuses_its_vote_and_takes_another_snapshot(void **state)
{
    (void)state;
    struct server s;
    server_start(&s, 2, 1, 0, "VVV", 1, NULL);
    announce_snapshot(&s, 2, 100);
    receive_vote_request(&s, 3, 3, 300, 2, true);
    shows("E20", !has_granted(&s, 3));
    time_out(&s);
    shows("E20", raft_state(&s.raft) == RAFT_FOLLOWER);
    receive(&s, 1, entries_message(3, 100, 2, 150));
    shows("E20", raft_commit_index(&s.raft) == 100); /* of which nothing is here */

    struct raft_event event = {.type = RAFT_PERSISTED_SNAPSHOT};
    event.persisted_snapshot.metadata.index = 200;
    event.persisted_snapshot.metadata.term = 2;
    event.persisted_snapshot.metadata.configuration_index = 1;
    members_of("VVV", &event.persisted_snapshot.metadata.configuration);
    step(&s, &event);
    shows("E20", s.raft.last_stored == 200);
    receive(&s, 1, entries_message(3, 200, 2, 250));
    const struct raft_message *m = must_have_sent(&s, RAFT_APPEND_ENTRIES_RESULT, 1);
    shows("E20", m->append_entries_result.rejected == 200);
    shows("E20", m->append_entries_result.last_log_index == 100);
    server_close(&s);
}

/* ---- L4, L5 ---- */

static void a_refused_pre_vote_hides_the_higher_term(void **state)
{
    (void)state;
    struct server s;
    server_start(&s, 2, 5, 0, "VVV", 1, NULL);
    struct raft_message m = {.type = RAFT_REQUEST_VOTE};
    m.request_vote.version = 2;
    m.request_vote.term = 3;
    m.request_vote.candidate_id = 3;
    m.request_vote.last_log_index = 9;
    m.request_vote.last_log_term = 1;
    m.request_vote.pre_vote = true;
    receive(&s, 3, m);
    assert_false(has_granted(&s, 3));
    const struct raft_message *answer = must_have_sent(&s, RAFT_REQUEST_VOTE_RESULT, 3);
    shows("E4", answer->request_vote_result.term == 3); /* and not 5 */
    server_close(&s);
}

static void a_leader_that_committed_nothing_yet_may_change_the_members(void **state)
{
    (void)state;
    struct server s;
    server_start(&s, 1, 1, 0, "VVV", 1, NULL);
    lead(&s, 3);
    assert_true(raft_commit_index(&s.raft) < 3); /* its first entry */
    struct raft_entry entry = entry_of(raft_current_term(&s.raft), "VVL");
    struct raft_event event = {.type = RAFT_SUBMIT};
    event.submit.entries = &entry;
    event.submit.n = 1;
    shows("E5", try_step(&s, &event) == 0);
    shows("E5", s.raft.configuration_uncommitted_index == 4);
    server_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_only_voter_leads_the_term_in_which_it_voted_for_another),
        cmocka_unit_test(the_only_voter_votes_for_another_in_the_term_that_it_leads),
        cmocka_unit_test(a_snapshot_of_an_older_term_is_answered_with_success),
        cmocka_unit_test(a_learner_refuses_its_vote),
        cmocka_unit_test(a_demoted_voter_with_the_longest_log_neither_votes_nor_campaigns),
        cmocka_unit_test(a_leader_that_demoted_itself_leads_on_without_contact),
        cmocka_unit_test(entries_from_the_first_on_are_stored_behind_a_snapshot),
        cmocka_unit_test(the_commit_index_falls),
        cmocka_unit_test(a_follower_that_refuses_its_match_index_is_sent_nothing_any_more),
        cmocka_unit_test(a_leader_takes_entries_of_another_leader_of_its_term),
        cmocka_unit_test(a_byte_of_an_address_decides_whether_a_late_pre_vote_raises_the_term),
        cmocka_unit_test(a_candidate_disrupts_with_each_timeout),
        cmocka_unit_test(a_server_that_installs_refuses_its_vote_and_takes_another_snapshot),
        cmocka_unit_test(a_refused_pre_vote_hides_the_higher_term),
        cmocka_unit_test(a_leader_that_committed_nothing_yet_may_change_the_members),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Tests of what a replica believes (S12.11): what cannot be true is refused with a sentence, and
 * changes nothing; what is unlikely and possible is taken. And of the members as bytes, which
 * libraft reads without looking where they end. */
#include "base_testing.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "replica_alone.h"

enum { HOURS_MS = 3600000 };

/* One word of node 2 to the replica, which is node 1. */
struct word {
    struct raft_message message;
    uint64_t cluster_ms;
    const struct replica_entry *entry; /* NULL: none */
    struct slice members;
};

static bool give(void *ctx, uint64_t index, struct replica_entry *out)
{
    (void)index;
    *out = *(const struct replica_entry *)ctx;
    return true;
}

static bool says(struct alone *a, struct word *w)
{
    size_t len = 0;
    uint8_t *bytes = message_encode(&w->message, w->cluster_ms, w->members, give,
                                    (void *)(uintptr_t)w->entry, &len);
    assert_non_null(bytes);
    bool fine = replica_receive(a->replica, 2, slice_make(bytes, len), a->now);
    raft_free(bytes);
    assert_true(fine == (replica_refusal(a->replica) == NULL));
    return fine;
}

static uint64_t term(const struct alone *a)
{
    return raft_current_term(&a->replica->engine.raft);
}

static struct word heartbeat(uint64_t of_term, uint64_t cluster_ms)
{
    struct word w = {.message = {.type = RAFT_APPEND_ENTRIES}, .cluster_ms = cluster_ms};
    w.message.append_entries.term = of_term;
    w.message.append_entries.prev_log_index = 1;
    w.message.append_entries.prev_log_term = 1;
    w.message.append_entries.leader_commit = 1;
    return w;
}

static struct word with_entry(struct word w, const struct replica_entry *entry)
{
    w.entry = entry;
    w.message.append_entries.n_entries = 1;
    return w;
}

static bool hears(struct alone *a, uint64_t of_term, uint64_t cluster_ms)
{
    struct word w = heartbeat(of_term, cluster_ms);
    alone_forget(a);
    return says(a, &w);
}

/* Refused with that word, and nothing changed: neither term, vote and log nor what was sent. */
static void assert_refused(struct alone *a, struct word w, const char *about)
{
    uint64_t before = term(a);
    uint64_t last = alone_last_index(a);
    alone_forget(a);
    assert_false(says(a, &w));
    if (strstr(replica_refusal(a->replica), about) == NULL) {
        fail_msg("\"%s\" says nothing of \"%s\"", replica_refusal(a->replica), about);
    }
    assert_int_equal(term(a), before);
    assert_int_equal(alone_last_index(a), last);
    assert_string_equal(a->trace, "");
}

/* ---- terms ---- */

static struct word of_type(enum raft_message_type type, uint64_t of_term)
{
    struct word w = heartbeat(of_term, 1);
    w.message.type = type;
    switch (type) {
    case RAFT_APPEND_ENTRIES:
        break;
    case RAFT_APPEND_ENTRIES_RESULT:
        w.message.append_entries_result =
            (struct raft_append_entries_result){.version = 1, .term = of_term};
        break;
    case RAFT_REQUEST_VOTE:
        w.message.request_vote = (struct raft_request_vote){.version = 2,
                                                            .term = of_term,
                                                            .candidate_id = 2,
                                                            .last_log_index = 1,
                                                            .last_log_term = 1,
                                                            .disrupt_leader = true};
        break;
    case RAFT_REQUEST_VOTE_RESULT:
        w.message.request_vote_result =
            (struct raft_request_vote_result){.version = 2, .term = of_term};
        break;
    case RAFT_INSTALL_SNAPSHOT: {
        static uint8_t bytes[256];
        w.members = slice_make(bytes, alone_members_entry(3, bytes, sizeof(bytes)));
        w.message.install_snapshot = (struct raft_install_snapshot){
            .term = of_term, .last_index = 50, .last_term = 1, .conf_index = 1};
        break;
    }
    case RAFT_TIMEOUT_NOW:
        w.message.timeout_now = (struct raft_timeout_now){.version = 1, .term = of_term};
        break;
    }
    return w;
}

static void no_message_raises_the_term_further_than_elections_can(void **state)
{
    (void)state;
    for (int type = RAFT_APPEND_ENTRIES; type <= RAFT_TIMEOUT_NOW; type++) {
        struct alone a;
        alone_open(&a, 3);
        assert_refused(&a, of_type((enum raft_message_type)type, UINT64_MAX), "term");
        assert_refused(&a, of_type((enum raft_message_type)type, 1 + (UINT64_C(1) << 33)), "term");
        assert_refused(&a, of_type((enum raft_message_type)type, 0), "term");
        alone_close(&a);
    }
}

/* A node that was off for years, while the others held an election in every second. */
static void a_term_that_years_of_elections_lead_to_is_taken(void **state)
{
    (void)state;
    struct alone a;
    alone_open(&a, 3);
    assert_true(hears(&a, 1000000000, 1));
    assert_int_equal(term(&a), 1000000000);
    alone_close(&a);
}

/* Steps that are each believed cannot add up to a lie: the term is measured from the start. */
static void many_small_lies_do_not_raise_the_term_without_end(void **state)
{
    (void)state;
    struct alone a;
    alone_open(&a, 3);
    assert_true(hears(&a, UINT64_C(1) << 31, 1));
    assert_true(hears(&a, UINT64_C(1) << 32, 1));
    assert_refused(&a, heartbeat((UINT64_C(1) << 32) + 1000, 1), "term");
    alone_pass_us(&a, 1000 * 1000); /* 1,000 elections more are possible by now */
    assert_true(hears(&a, (UINT64_C(1) << 32) + 1000, 1));
    alone_close(&a);
}

/* ---- time ---- */

static void a_time_ahead_of_the_leaders_clock_is_refused(void **state)
{
    (void)state;
    struct alone a;
    alone_open(&a, 3);
    assert_true(hears(&a, 2, 1000000));
    alone_pass_us(&a, 5000000);
    assert_true(hears(&a, 2, 1005000));
    assert_refused(&a, heartbeat(3, 1005000 + 2 * HOURS_MS), "cluster time");
    assert_refused(&a, heartbeat(2, 1005000 + 20000), "cluster time");
    assert_true(hears(&a, 3, 1005000));
    struct replica_status status;
    replica_status(a.replica, a.now, &status);
    assert_int_equal(status.cluster_ms, 1005000);
    alone_close(&a);
}

static void an_entry_that_is_stamped_ahead_of_time_is_refused(void **state)
{
    (void)state;
    struct alone a;
    uint8_t bytes[64];
    struct entry_writer w;
    alone_open(&a, 3);
    assert_true(hears(&a, 2, 1000000));
    alone_pass_us(&a, 2000000);
    entry_writer_init(&w, CORE_VERSION, bytes, sizeof(bytes));
    size_t len = entry_writer_seal(&w, 1002000 + 2 * HOURS_MS, 1);
    struct replica_entry entry = {2, RAFT_COMMAND, slice_make(bytes, len)};
    assert_refused(&a, with_entry(heartbeat(2, 1002000), &entry), "cluster time");
    entry_writer_init(&w, CORE_VERSION, bytes, sizeof(bytes));
    entry.bytes.len = entry_writer_seal(&w, 1002000, 1);
    struct word fine = with_entry(heartbeat(2, 1002000), &entry);
    assert_true(says(&a, &fine));
    alone_close(&a);
}

/* In steps that are each believed, over a day: time gains the slack, and 0.1 % (S1.6). */
static void time_cannot_be_pushed_ahead_in_small_steps(void **state)
{
    (void)state;
    struct alone a;
    alone_open(&a, 3);
    uint64_t begin_us = a.now.boot_us;
    uint64_t reported_ms = 1000000;
    assert_true(hears(&a, 2, reported_ms));
    while (a.now.boot_us - begin_us < UINT64_C(86400000000)) {
        alone_pass_us(&a, 1000000);
        if (hears(&a, 2, reported_ms + 2000)) {
            reported_ms += 2000;
        } else if (hears(&a, 2, reported_ms + 1000)) {
            reported_ms += 1000;
        }
    }
    uint64_t gained_ms = reported_ms - 1000000 - (a.now.boot_us - begin_us) / 1000;
    assert_in_range(gained_ms, 5000, 10000 + 2 * 86400);
    alone_close(&a);
}

/* What a slow clock and a fast one differ by is no lie, however long it goes on. */
static void a_clock_that_runs_faster_as_it_may_is_believed_for_ever(void **state)
{
    (void)state;
    struct alone a;
    alone_open(&a, 3);
    for (uint64_t s = 0; s < 30 * UINT64_C(86400); s += 10) {
        assert_true(hears(&a, 2, 1000000 + s * 1001));
        alone_pass_us(&a, 10000000);
    }
    alone_close(&a);
}

/* A loop that was stopped reads what is hours old, and then what is new. */
static void a_message_that_lay_in_a_queue_does_not_make_the_next_one_a_lie(void **state)
{
    (void)state;
    struct alone a;
    alone_open(&a, 3);
    assert_true(hears(&a, 2, 1000000));
    alone_pass_us(&a, 1000000);
    assert_true(hears(&a, 2, 1001000));
    alone_pass_us(&a, UINT64_C(50) * 1000000);
    for (int i = 0; i < 20; i++) {
        assert_true(hears(&a, 2, 1001000 + (uint64_t)i * 50));
    }
    alone_pass_us(&a, UINT64_C(11) * 1000000); /* another minute begins with it */
    assert_true(hears(&a, 2, 1002000));
    assert_true(hears(&a, 2, 1062000));
    alone_close(&a);
}

/* A machine that was stopped counts no time; so does one that was off. */
static void who_heard_nobody_for_a_minute_believes_the_next_leader(void **state)
{
    (void)state;
    struct alone a;
    alone_open(&a, 3);
    assert_true(hears(&a, 2, 1000000));
    uint64_t years_ms = UINT64_C(20) * 365 * 24 * HOURS_MS;
    alone_pass_us(&a, 2000000);
    assert_refused(&a, heartbeat(3, 1000000 + years_ms), "cluster time");
    alone_pass_us(&a, 61000000);
    assert_true(hears(&a, 3, 1000000 + years_ms));
    alone_close(&a);
    alone_open(&a, 3); /* just started */
    assert_refused(&a, heartbeat(2, (UINT64_C(1) << 53) - 1), "cluster time");
    assert_true(hears(&a, 2, 1000000 + years_ms));
    alone_close(&a);
}

/* What is first may have come late: the highest of the first two seconds counts, not longer. */
static void the_first_message_may_come_late(void **state)
{
    (void)state;
    struct alone a;
    alone_open(&a, 3);
    assert_true(hears(&a, 2, 1000000));
    alone_pass_us(&a, 1999000);
    assert_true(hears(&a, 2, 1060000));
    alone_pass_us(&a, 1000);
    assert_true(hears(&a, 2, 1070000));
    assert_refused(&a, heartbeat(2, 1070100), "cluster time");
    alone_close(&a);
}

static void a_leader_that_was_stopped_is_refused_by_its_term_not_by_its_clock(void **state)
{
    (void)state;
    struct alone a;
    alone_open(&a, 3);
    assert_true(hears(&a, 5, 1000000));
    alone_forget(&a);
    assert_true(hears(&a, 4, 1000000 + 2 * HOURS_MS)); /* it answers, with the later term */
    assert_int_equal(
        alone_last(&a, RAFT_APPEND_ENTRIES_RESULT, 2)->message.append_entries_result.term, 5);
    struct replica_status status;
    replica_status(a.replica, a.now, &status);
    assert_int_equal(status.cluster_ms, 1000000);
    alone_close(&a);
}

static void a_leader_measures_others_by_its_own_clock(void **state)
{
    (void)state;
    struct alone a;
    alone_open(&a, 3);
    alone_lead(&a, 3);
    assert_true(hears(&a, 1, 0)); /* of a leader of the past, which has no say */
    alone_pass_us(&a, 2000000);
    assert_refused(&a, heartbeat(term(&a) + 1, 2 * HOURS_MS), "cluster time");
    alone_run(&a, 1000000);
    assert_true(hears(&a, term(&a) + 1, 1500));
    alone_close(&a);
}

/* ---- entries ---- */

static void what_cannot_be_decoded_is_not_acknowledged(void **state)
{
    (void)state;
    struct alone a;
    alone_open(&a, 3);
    uint8_t garbage[40];
    memset(garbage, 7, sizeof(garbage));
    memset(garbage + 1, 0, 7);
    garbage[0] = 1; /* the format that we know */
    struct replica_entry entry = {2, RAFT_COMMAND, slice_make(garbage, sizeof(garbage))};
    assert_refused(&a, with_entry(heartbeat(2, 1), &entry), "cannot be decoded");
    entry.type = RAFT_CHANGE;
    assert_refused(&a, with_entry(heartbeat(2, 1), &entry), "cannot be decoded");
    garbage[0] = 2; /* one of the future */
    entry.type = RAFT_COMMAND;
    assert_refused(&a, with_entry(heartbeat(2, 1), &entry), "by this version");
    alone_close(&a);
}

/* S12.12: as in a log that was damaged, or written before entries were decoded first. */
static void a_committed_entry_that_cannot_be_decoded_ends_the_node_and_is_named(void **state)
{
    (void)state;
    struct alone a;
    char said[512] = "";
    int out[2];
    uint8_t garbage[40] = {1};
    struct replica_entry entry = {2, RAFT_COMMAND, slice_make(garbage, sizeof(garbage))};
    struct word w = with_entry(heartbeat(2, 1), &entry);
    w.message.append_entries.leader_commit = 2;
    memset(garbage + 8, 7, sizeof(garbage) - 8);
    alone_open(&a, 3);
    assert_int_equal(pipe(out), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        dup2(out[1], STDERR_FILENO);
        a.replica->engine.plausible = NULL;
        (void)says(&a, &w);
        alone_all_written(&a);
        alone_run(&a, 100000); /* what is committed may be applied later */
        _exit(0);
    }
    close(out[1]);
    ssize_t len = read(out[0], said, sizeof(said) - 1);
    close(out[0]);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_true(len > 0);
    assert_non_null(strstr(said, "entry 2 is committed and cannot be decoded"));
    alone_close(&a);
}

static void what_contradicts_committed_entries_is_refused(void **state)
{
    (void)state;
    struct alone a;
    uint8_t batch[256];
    alone_open(&a, 3); /* entry 1 is of term 1 */
    struct replica_entry entry = {2, RAFT_COMMAND,
                                  slice_make(batch, alone_batch(batch, sizeof(batch), 0))};
    struct word w = heartbeat(3, 1);
    w.message.append_entries.prev_log_term = 2;
    assert_refused(&a, w, "contradict");
    struct word taken = with_entry(heartbeat(2, 1), &entry);
    taken.message.append_entries.leader_commit = 2;
    assert_true(says(&a, &taken));
    alone_all_written(&a);
    entry.term = 3; /* instead of the one that was committed */
    assert_refused(&a, with_entry(heartbeat(3, 1), &entry), "contradict");
    w = of_type(RAFT_INSTALL_SNAPSHOT, 3);
    w.message.install_snapshot.last_index = 2;
    w.message.install_snapshot.last_term = 1;
    assert_refused(&a, w, "contradict");
    alone_close(&a);
}

static void a_log_that_cannot_be_is_refused(void **state)
{
    (void)state;
    struct alone a;
    uint8_t batch[256];
    alone_open(&a, 3);
    struct replica_entry entry = {2, RAFT_COMMAND,
                                  slice_make(batch, alone_batch(batch, sizeof(batch), 0))};
    struct word w = heartbeat(2, 1);
    w.message.append_entries.prev_log_term = 3; /* later than the leader */
    assert_refused(&a, w, "no log");
    w = heartbeat(2, 1);
    w.message.append_entries.prev_log_term = 0;
    assert_refused(&a, w, "no log");
    w = heartbeat(2, 1);
    w.message.append_entries.prev_log_index = 0;
    assert_refused(&a, w, "no log");
    w = heartbeat(2, 1);
    w.message.append_entries.prev_log_index = LIMIT_NUMBER - 1;
    assert_refused(&a, w, "no log");
    entry.term = 3;
    assert_refused(&a, with_entry(heartbeat(2, 1), &entry), "no log");
    entry.term = 0;
    assert_refused(&a, with_entry(heartbeat(2, 1), &entry), "no log");
    w = with_entry(heartbeat(2, 1), &entry); /* a log begins with its members */
    w.message.append_entries.prev_log_index = w.message.append_entries.prev_log_term = 0;
    entry.term = 2;
    assert_refused(&a, w, "no log");
    w = of_type(RAFT_REQUEST_VOTE, 2);
    w.message.request_vote.candidate_id = 3;
    assert_refused(&a, w, "no log");
    w = of_type(RAFT_REQUEST_VOTE, 2);
    w.message.request_vote.last_log_term = 9;
    assert_refused(&a, w, "no log");
    w = of_type(RAFT_INSTALL_SNAPSHOT, 2);
    w.message.install_snapshot.conf_index = 51;
    assert_refused(&a, w, "no log");
    w = of_type(RAFT_INSTALL_SNAPSHOT, 2);
    w.message.install_snapshot.last_term = 0;
    assert_refused(&a, w, "no log");
    alone_close(&a);
}

static void a_vote_that_was_not_requested_is_refused(void **state)
{
    (void)state;
    struct alone a;
    alone_open(&a, 3);
    alone_pass_us(&a, replica_next_us(a.replica) - a.now.boot_us);
    replica_on_timer(a.replica, a.now); /* it requests pre-votes */
    struct word w = of_type(RAFT_REQUEST_VOTE_RESULT, 7);
    w.message.request_vote_result.vote_granted = true;
    w.message.request_vote_result.pre_vote = true;
    assert_refused(&a, w, "did not request votes");
    alone_close(&a);
}

/* ---- members as bytes ---- */

static size_t some_members(uint8_t *buffer, size_t size)
{
    struct replica_member members[3] = {{1, "a:1", true}, {2, "b:2", false}, {3, "c:33", true}};
    return replica_bootstrap_entry(members, 3, buffer, size);
}

static void count_member(void *ctx, const struct replica_member *member)
{
    (void)member;
    ++*(int *)ctx;
}

/* From memory of their own, so that the sanitizer sees who reads behind them. */
static bool are_members(const uint8_t *bytes, size_t len)
{
    uint8_t *exact = malloc(len > 0 ? len : 1);
    struct raft_configuration conf;
    int count = 0;
    memcpy(exact, bytes, len);
    bool fine = members_decode(slice_make(exact, len), &conf);
    bool again = replica_members_read(slice_make(exact, len), count_member, &count);
    assert_true(fine == again && (fine ? count == (int)conf.n : count == 0));
    raft_configuration_close(&conf);
    free(exact);
    return fine;
}

static void members_that_are_not_whole_are_refused(void **state)
{
    (void)state;
    uint8_t bytes[256];
    size_t len = some_members(bytes, sizeof(bytes));
    assert_true(are_members(bytes, len));
    for (size_t cut = 0; cut < len; cut++) {
        assert_false(are_members(bytes, cut));
    }
    bytes[1] = 4; /* one more than there are */
    assert_false(are_members(bytes, len));
    bytes[1] = 2; /* one less: it is not padding */
    assert_false(are_members(bytes, len));
    memset(bytes + 1, 0xff, 8);
    assert_false(are_members(bytes, len));
    memset(bytes + 1, 0, 8); /* none */
    assert_false(are_members(bytes, len));
    (void)some_members(bytes, sizeof(bytes));
    memset(bytes + 9, 0, 8); /* an id that nobody has */
    assert_false(are_members(bytes, len));
    (void)some_members(bytes, sizeof(bytes));
    memset(bytes + 17, 'x', len - 17); /* an address without an end */
    assert_false(are_members(bytes, len));
    (void)some_members(bytes, sizeof(bytes));
    bytes[21] = 9; /* no such role */
    assert_false(are_members(bytes, len));
    (void)some_members(bytes, sizeof(bytes));
    bytes[9] = 2; /* the same id twice */
    assert_false(are_members(bytes, len));
}

static void members_without_a_voter_are_refused(void **state)
{
    (void)state;
    uint8_t bytes[64];
    struct replica_member member = {1, "a:1", false};
    size_t len = replica_bootstrap_entry(&member, 1, bytes, sizeof(bytes));
    assert_false(are_members(bytes, len));
}

/* As seen: a snapshot message that claims two servers and has one. */
static void a_snapshot_message_with_half_of_its_members_is_refused(void **state)
{
    (void)state;
    uint8_t members[64];
    struct replica_member member = {1, "a:1", true};
    size_t members_len = replica_bootstrap_entry(&member, 1, members, sizeof(members));
    members[1] = 2;
    struct word w = of_type(RAFT_INSTALL_SNAPSHOT, 2);
    w.members = slice_make(members, members_len);
    size_t len = 0;
    uint8_t *bytes = message_encode(&w.message, 1, w.members, NULL, NULL, &len);
    uint8_t *exact = malloc(len);
    memcpy(exact, bytes, len);
    struct message_in in;
    assert_false(message_decode(slice_make(exact, len), 2, "", &in));
    free(exact);
    raft_free(bytes);
}

static void a_replica_does_not_start_with_members_that_are_not_whole(void **state)
{
    (void)state;
    struct alone a;
    alone_open(&a, 3);
    uint8_t bytes[256];
    size_t len = some_members(bytes, sizeof(bytes));
    bytes[1] = 4;
    struct replica_entry entry = {1, RAFT_CHANGE, slice_make(bytes, len)};
    struct replica_start start = {.term = 1, .first = 1, .entries = &entry, .count = 1};
    const char *problem = NULL;
    assert_null(replica_new(&a.options, &start, a.now, &problem));
    assert_non_null(strstr(problem, "members"));
    start = (struct replica_start){.term = 1, .first = 6};
    start.snapshot = (struct replica_snapshot){5, 1, 1, slice_make(bytes, len)};
    assert_null(replica_new(&a.options, &start, a.now, &problem));
    assert_non_null(strstr(problem, "members"));
    alone_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_message_raises_the_term_further_than_elections_can),
        cmocka_unit_test(a_term_that_years_of_elections_lead_to_is_taken),
        cmocka_unit_test(many_small_lies_do_not_raise_the_term_without_end),
        cmocka_unit_test(a_time_ahead_of_the_leaders_clock_is_refused),
        cmocka_unit_test(an_entry_that_is_stamped_ahead_of_time_is_refused),
        cmocka_unit_test(time_cannot_be_pushed_ahead_in_small_steps),
        cmocka_unit_test(a_clock_that_runs_faster_as_it_may_is_believed_for_ever),
        cmocka_unit_test(a_message_that_lay_in_a_queue_does_not_make_the_next_one_a_lie),
        cmocka_unit_test(who_heard_nobody_for_a_minute_believes_the_next_leader),
        cmocka_unit_test(the_first_message_may_come_late),
        cmocka_unit_test(a_leader_that_was_stopped_is_refused_by_its_term_not_by_its_clock),
        cmocka_unit_test(a_leader_measures_others_by_its_own_clock),
        cmocka_unit_test(what_cannot_be_decoded_is_not_acknowledged),
        cmocka_unit_test(a_committed_entry_that_cannot_be_decoded_ends_the_node_and_is_named),
        cmocka_unit_test(what_contradicts_committed_entries_is_refused),
        cmocka_unit_test(a_log_that_cannot_be_is_refused),
        cmocka_unit_test(a_vote_that_was_not_requested_is_refused),
        cmocka_unit_test(members_that_are_not_whole_are_refused),
        cmocka_unit_test(members_without_a_voter_are_refused),
        cmocka_unit_test(a_snapshot_message_with_half_of_its_members_is_refused),
        cmocka_unit_test(a_replica_does_not_start_with_members_that_are_not_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

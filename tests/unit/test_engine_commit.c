/* How followers learn what is committed (E11), and how entries travel to one that is far behind
 * (E10). */
#include "base_testing.h"

#include "base/codec.h"
#include "replica_alone.h"

/* ---- the commit index ---- */

static void a_follower_receives_the_commit_index_at_once_when_it_waits_for_it(void **state)
{
    (void)state;
    struct alone a;
    alone_open(&a, 3);
    alone_lead(&a, 3);
    assert_int_equal(replica_barrier(a.replica, &a, true, a.now), HF_OK);
    replica_flush(a.replica, a.now);
    uint64_t index = alone_last_index(&a);
    alone_all_written(&a);
    alone_acknowledge(&a, 2, index, 0);
    assert_int_equal(a.barriers_reached, 1);
    alone_forget(&a);
    replica_flush(a.replica, a.now); /* the end of the same turn */
    const struct message_in *sent = alone_last(&a, RAFT_APPEND_ENTRIES, 2);
    assert_non_null(sent);
    assert_true(sent->is_unanswered);
    assert_int_equal(sent->message.append_entries.leader_commit, index);
    assert_int_equal(sent->message.append_entries.prev_log_index, index);
    assert_int_equal(sent->message.append_entries.prev_log_term, 2);
    assert_int_equal(sent->message.append_entries.n_entries, 0);
    /* The other one has not acknowledged it yet: what it lacks could only be refused. */
    assert_null(alone_last(&a, RAFT_APPEND_ENTRIES, 3));
    alone_acknowledge(&a, 3, index, 0);
    alone_run(&a, 1000);
    assert_int_equal(alone_last(&a, RAFT_APPEND_ENTRIES, 3)->message.append_entries.leader_commit,
                     index);
    alone_forget(&a);
    alone_run(&a, 10000);
    assert_int_equal(a.sent_count, 0); /* once */
    alone_close(&a);
}

static void a_node_whose_waiter_got_the_lock_is_notified_at_once(void **state)
{
    (void)state;
    struct alone a;
    struct command command;
    alone_open(&a, 3);
    alone_lead(&a, 3);
    for (uint64_t holder = 1; holder <= 2; holder++) {
        command_init(&command, COMMAND_ACQUIRE);
        command.acquire.lease = (struct id){1, holder};
        command.acquire.node = 2;
        command.acquire.client = slice_of("client");
        command.acquire.owner = slice_of(holder == 1 ? "first" : "second");
        command.acquire.names.count = 1;
        command.acquire.names.at[0] = slice_of("name");
        command.acquire.ttl_ms = 30000;
        command.acquire.wait_ms = holder == 1 ? 0 : 30000;
        assert_int_equal(replica_submit(a.replica, &command, &a, a.now), HF_OK);
    }
    replica_flush(a.replica, a.now);
    alone_all_written(&a);
    alone_acknowledge(&a, 2, alone_last_index(&a), 0);
    alone_acknowledge(&a, 3, alone_last_index(&a), 0);
    alone_run(&a, 10000);
    command_init(&command, COMMAND_RELEASE);
    command.release.name = slice_of("name");
    command.release.client = slice_of("client");
    command.release.lease = (struct id){1, 1};
    assert_int_equal(replica_submit(a.replica, &command, &a, a.now), HF_OK);
    alone_run(&a, BATCH_QUIET_US);
    alone_all_written(&a);
    alone_forget(&a);
    alone_acknowledge(&a, 2, alone_last_index(&a), 0);
    replica_flush(a.replica, a.now);
    assert_int_equal(alone_count(&a, RAFT_APPEND_ENTRIES, 2), 1);
    alone_close(&a);
}

static void when_nobody_waits_the_next_batch_gets_a_moment_to_carry_it(void **state)
{
    (void)state;
    struct alone a;
    alone_open(&a, 3);
    alone_lead(&a, 3);
    alone_submit(&a);
    uint64_t index = alone_last_index(&a);
    alone_all_written(&a);
    alone_forget(&a);
    alone_acknowledge(&a, 2, index, 0);
    alone_acknowledge(&a, 3, index, 0);
    replica_flush(a.replica, a.now);
    assert_int_equal(a.sent_count, 0);
    alone_pass_us(&a, BATCH_QUIET_US / 2);
    alone_submit(&a); /* the next one, in time */
    assert_int_equal(alone_count(&a, RAFT_APPEND_ENTRIES, 0), 2);
    assert_int_equal(alone_last(&a, RAFT_APPEND_ENTRIES, 2)->message.append_entries.leader_commit,
                     index);
    alone_run(&a, 10000);
    assert_int_equal(alone_count(&a, RAFT_APPEND_ENTRIES, 0), 2); /* and nothing besides */
    alone_all_written(&a);
    alone_acknowledge(&a, 2, index + 1, 0);
    alone_acknowledge(&a, 3, index + 1, 0);
    alone_forget(&a);
    alone_run(&a, BATCH_QUIET_US); /* nobody comes */
    assert_int_equal(alone_count(&a, RAFT_APPEND_ENTRIES, 2), 1);
    assert_int_equal(alone_count(&a, RAFT_APPEND_ENTRIES, 3), 1);
    assert_int_equal(alone_last(&a, RAFT_APPEND_ENTRIES, 3)->message.append_entries.leader_commit,
                     index + 1);
    alone_close(&a);
}

static void a_batch_that_gathers_carries_it_even_when_a_follower_waits(void **state)
{
    (void)state;
    struct alone a;
    alone_open(&a, 3);
    alone_lead(&a, 3);
    for (int i = 0; i < 8; i++) { /* the next batch will wait for some of these to come back */
        assert_int_equal(replica_barrier(a.replica, &a, true, a.now), HF_OK);
    }
    replica_flush(a.replica, a.now);
    uint64_t index = alone_last_index(&a);
    alone_all_written(&a);
    alone_acknowledge(&a, 2, index, 0);
    alone_acknowledge(&a, 3, index, 0);
    alone_forget(&a);
    alone_submit(&a); /* one came: not enough to close the batch at once */
    assert_int_equal(a.sent_count, 0);
    alone_run(&a, BATCH_QUIET_US + 1);
    assert_int_equal(alone_count(&a, RAFT_APPEND_ENTRIES, 0), 2);
    assert_int_equal(alone_last(&a, RAFT_APPEND_ENTRIES, 2)->message.append_entries.n_entries, 1);
    assert_int_equal(alone_last(&a, RAFT_APPEND_ENTRIES, 2)->message.append_entries.leader_commit,
                     index);
    alone_close(&a);
}

/* Decision 0013: the time in which those may come back who were answered. */
static void a_batch_counts_from_when_the_answers_have_left(void **state)
{
    (void)state;
    struct alone a;
    alone_open(&a, 3);
    alone_lead(&a, 3);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(replica_barrier(a.replica, &a, true, a.now), HF_OK);
    }
    replica_flush(a.replica, a.now);
    uint64_t index = alone_last_index(&a);
    alone_all_written(&a);
    assert_false(replica_is_answering(a.replica));
    alone_acknowledge(&a, 2, index, 0);
    alone_acknowledge(&a, 3, index, 0);
    assert_true(replica_is_answering(a.replica));
    alone_forget(&a);
    alone_submit(&a);
    alone_pass_us(&a, 5 * BATCH_QUIET_US); /* they are being written */
    replica_answers_left(a.replica, a.now);
    assert_false(replica_is_answering(a.replica));
    replica_flush(a.replica, a.now);
    assert_int_equal(a.sent_count, 0);
    alone_pass_us(&a, BATCH_QUIET_US);
    replica_flush(a.replica, a.now);
    assert_int_equal(alone_count(&a, RAFT_APPEND_ENTRIES, 0), 2);
    alone_close(&a);
}

/* A batch of eight is answered to clients numbered from `first`; one more waits already then. */
static void answer_eight(struct alone *a, uint32_t first)
{
    struct command command;
    command_init(&command, COMMAND_RELEASE);
    command.release.name = slice_of("name");
    command.release.lease = (struct id){1, 1};
    for (uint32_t i = 0; i < 8; i++) {
        command.session = (struct id){1, first + i};
        assert_int_equal(replica_submit(a->replica, &command, a, a->now), HF_OK);
    }
    alone_run(a, BATCH_WAIT_US);
    uint64_t index = alone_last_index(a);
    alone_all_written(a);
    command.session = (struct id){2, first};
    assert_int_equal(replica_submit(a->replica, &command, a, a->now), HF_OK);
    alone_acknowledge(a, 2, index, 0);
    alone_acknowledge(a, 3, index, 0);
    alone_forget(a);
    replica_answers_left(a->replica, a->now);
    replica_flush(a->replica, a->now);
}

/* Decision 0020. */
static void a_batch_waits_for_those_who_come_back_and_not_for_those_who_do_not(void **state)
{
    (void)state;
    for (int comes_back = 0; comes_back < 2; comes_back++) {
        struct alone a;
        alone_open(&a, 3);
        alone_lead(&a, 3);
        for (uint32_t i = 0; i < 40; i++) {
            answer_eight(&a, comes_back ? 100 : 100 + 10 * i);
        }
        assert_int_equal(alone_count(&a, RAFT_APPEND_ENTRIES, 2), comes_back ? 0 : 1);
        alone_close(&a);
    }
}

/* One name that many want: each by a client of his own, whom its number names. */

static void want(struct alone *a, uint64_t number, uint64_t wait_ms)
{
    struct command command;
    char client[32];
    int len = snprintf(client, sizeof(client), "client-%llu", (unsigned long long)number);
    command_init(&command, COMMAND_ACQUIRE);
    command.acquire.lease = (struct id){1, number};
    command.acquire.node = 1;
    command.acquire.client = slice_make(client, (size_t)len);
    command.acquire.owner = command.acquire.client;
    command.acquire.names.count = 1;
    command.acquire.names.at[0] = slice_of("name");
    command.acquire.ttl_ms = 30000;
    command.acquire.wait_ms = wait_ms;
    assert_int_equal(replica_submit(a->replica, &command, a, a->now), HF_OK);
}

static void give_up(struct alone *a, uint64_t number)
{
    struct command command;
    char client[32];
    int len = snprintf(client, sizeof(client), "client-%llu", (unsigned long long)number);
    command_init(&command, COMMAND_RELEASE);
    command.release.name = slice_of("name");
    command.release.client = slice_make(client, (size_t)len);
    command.release.lease = (struct id){1, number};
    assert_int_equal(replica_submit(a->replica, &command, a, a->now), HF_OK);
}

/* What is gathered is closed, applied and answered. */
static void answer_batch(struct alone *a)
{
    alone_run(a, BATCH_WAIT_US);
    alone_all_written(a);
    alone_acknowledge(a, 2, alone_last_index(a), 0);
    alone_acknowledge(a, 3, alone_last_index(a), 0);
    replica_answers_left(a->replica, a->now);
    alone_forget(a);
}

static void open_with_waiters(struct alone *a, uint64_t waiters)
{
    alone_open(a, 3);
    alone_lead(a, 3);
    want(a, 1, 0);
    answer_batch(a);
    for (uint64_t number = 2; number < 2 + waiters; number++) {
        want(a, number, 30000);
    }
    answer_batch(a);
}

/* Decision 0020: "queued" is no answer. A predictor that took it for one would let the
 * release, on which all of them wait, wait for them. */
static void a_release_does_not_wait_for_those_who_are_queued(void **state)
{
    (void)state;
    struct alone a;
    open_with_waiters(&a, 8);
    assert_int_equal(a.results[REPLICA_DONE], 9);
    give_up(&a, 1);
    replica_flush(a.replica, a.now);
    assert_int_equal(alone_count(&a, RAFT_APPEND_ENTRIES, 2), 1);
    alone_close(&a);
}

/* ... the grant is: he who got it and he who gave it up both come back, in one batch. */
static void a_batch_waits_for_him_who_was_granted_what_he_waited_for(void **state)
{
    (void)state;
    for (int granted_first = 0; granted_first < 2; granted_first++) {
        struct alone a;
        open_with_waiters(&a, 8);
        give_up(&a, 1);
        answer_batch(&a);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(alone_count(&a, RAFT_APPEND_ENTRIES, 2), 0);
            if (i == granted_first) {
                want(&a, 1, 30000);
            } else {
                give_up(&a, 2);
            }
            replica_flush(a.replica, a.now);
        }
        assert_int_equal(alone_count(&a, RAFT_APPEND_ENTRIES, 2), 1);
        alone_close(&a);
    }
}

static uint64_t applied_index(const struct alone *a)
{
    struct replica_status status;
    replica_status(a->replica, a->now, &status);
    return status.applied_index;
}

/* Decision 0014. Entry 2 comes, then entry 3 with the notification that 2 is committed. */
static void a_follower_acknowledges_before_it_applies(void **state)
{
    (void)state;
    struct alone a;
    uint8_t batch[256];
    alone_open(&a, 3);
    struct replica_entry entry = {2, RAFT_COMMAND,
                                  slice_make(batch, alone_batch(batch, sizeof(batch), 0))};
    alone_receive_append(&a, (struct alone_append){2, 2, 1, 1, 1, &entry, 1});
    alone_all_written(&a);
    alone_receive_append(&a, (struct alone_append){2, 2, 2, 2, 2, &entry, 1});
    assert_int_equal(applied_index(&a), 1);
    assert_false(replica_may_catch_up(a.replica)); /* it is still being written */
    alone_forget(&a);
    alone_all_written(&a);
    assert_int_equal(alone_count(&a, RAFT_APPEND_ENTRIES_RESULT, 2), 1);
    assert_int_equal(applied_index(&a), 1);
    assert_true(replica_may_catch_up(a.replica));
    assert_true(replica_next_us(a.replica) <= a.now.boot_us); /* and the timer knows */
    replica_catch_up(a.replica, a.now);
    assert_int_equal(applied_index(&a), 2);
    assert_false(replica_may_catch_up(a.replica));
    alone_close(&a);
}

static void a_slow_disk_puts_applying_off_for_a_moment_only(void **state)
{
    (void)state;
    struct alone a;
    uint8_t batch[256];
    alone_open(&a, 3);
    struct replica_entry entry = {2, RAFT_COMMAND,
                                  slice_make(batch, alone_batch(batch, sizeof(batch), 0))};
    alone_receive_append(&a, (struct alone_append){2, 2, 1, 1, 1, &entry, 1});
    alone_all_written(&a);
    alone_receive_append(&a, (struct alone_append){2, 2, 2, 2, 2, &entry, 1});
    uint64_t at_us = replica_next_us(a.replica);
    assert_true(at_us > a.now.boot_us && at_us <= a.now.boot_us + 2000);
    alone_pass_us(&a, at_us - a.now.boot_us);
    replica_on_timer(a.replica, a.now);
    assert_int_equal(applied_index(&a), 2);
    assert_int_equal(a.write_count, 1); /* which hangs */
    alone_close(&a);
}

/* A timer that is set and unset with each batch costs more than it is worth to nobody. */
static void where_nobody_waits_for_it_the_next_message_applies_what_is_overdue(void **state)
{
    (void)state;
    struct alone a;
    uint8_t batch[256];
    alone_open(&a, 3);
    replica_set_unwatched(a.replica, true);
    struct replica_entry entry = {2, RAFT_COMMAND,
                                  slice_make(batch, alone_batch(batch, sizeof(batch), 0))};
    alone_receive_append(&a, (struct alone_append){2, 2, 1, 1, 1, &entry, 1});
    alone_all_written(&a);
    uint64_t silent_us =
        replica_next_us(a.replica); /* without a leader it would stand for election */
    alone_receive_append(&a, (struct alone_append){2, 2, 2, 2, 2, &entry, 1});
    assert_int_equal(a.write_count, 1); /* which hangs */
    assert_int_equal(replica_next_us(a.replica), silent_us);
    alone_pass_us(&a, 50000);
    assert_int_equal(applied_index(&a), 1);
    alone_receive_append(&a, (struct alone_append){2, 2, 3, 2, 2, NULL, 0});
    assert_int_equal(applied_index(&a), 2);
    alone_all_written(&a);
    alone_receive_append(&a, (struct alone_append){2, 2, 3, 2, 3, &entry, 1});
    alone_run(&a, silent_us); /* ... and without the leader, the timer */
    assert_int_equal(applied_index(&a), 3);
    assert_int_equal(a.write_count, 1);
    alone_close(&a);
}

static void the_notification_is_applied_and_not_answered_unless_it_is_refused(void **state)
{
    (void)state;
    struct alone a;
    uint8_t batch[256];
    alone_open(&a, 3);
    struct replica_entry entry = {2, RAFT_COMMAND,
                                  slice_make(batch, alone_batch(batch, sizeof(batch), 0))};
    alone_receive_append(&a, (struct alone_append){2, 2, 1, 1, 1, &entry, 1});
    alone_all_written(&a);
    alone_forget(&a);
    struct raft_message notice = {.type = RAFT_APPEND_ENTRIES};
    notice.append_entries.term = 2;
    notice.append_entries.prev_log_index = 2;
    notice.append_entries.prev_log_term = 2;
    notice.append_entries.leader_commit = 2;
    size_t len = 0;
    uint8_t *bytes = message_encode_commit(&notice, 5, &len);
    assert_true(replica_receive(a.replica, 2, slice_make(bytes, len), a.now));
    raft_free(bytes);
    struct replica_status status;
    replica_status(a.replica, a.now, &status);
    assert_int_equal(status.applied_index, 2);
    assert_int_equal(status.cluster_ms, 5); /* S1.2 */
    assert_int_equal(a.sent_count, 0);
    notice.append_entries.term = 1; /* of a leader that is none any more: it must hear of it */
    notice.append_entries.prev_log_index = 1;
    notice.append_entries.prev_log_term = 1;
    bytes = message_encode_commit(&notice, 5, &len);
    assert_true(replica_receive(a.replica, 3, slice_make(bytes, len), a.now));
    raft_free(bytes);
    assert_int_equal(a.sent_count, 1);
    assert_int_equal(
        alone_last(&a, RAFT_APPEND_ENTRIES_RESULT, 3)->message.append_entries_result.term, 2);
    alone_close(&a);
}

static void a_notification_with_entries_is_malformed(void **state)
{
    (void)state;
    uint8_t bytes[64];
    struct writer w = writer_make(bytes, sizeof(bytes));
    const uint64_t numbers[] = {5, 7, 0, 2, 1, 1, 1, 1, /* one entry: */ 2, 1, 0};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        write_u64(&w, numbers[i]);
    }
    struct message_in in;
    size_t len = (size_t)(w.at - bytes);
    assert_false(message_decode(slice_make(bytes, len), 2, "", &in));
    bytes[1] = RAFT_APPEND_ENTRIES;
    assert_true(message_decode(slice_make(bytes, len), 2, "", &in));
    alone_free_message(&in);
}

/* ---- a follower that is far behind ---- */

enum { LONG = 400 << 10, MANY = 10 };

/* Leads, node 3 acknowledges nothing, and MANY batches of LONG bytes are committed without it. */
static void open_with_long_log(struct alone *a)
{
    static char text[LIMIT_REASON];
    memset(text, 'x', sizeof(text));
    alone_open(a, 3);
    alone_lead(a, 3);
    for (int i = 0; i < MANY; i++) {
        struct command command;
        command_init(&command, COMMAND_FORCE_UNLOCK);
        command.force_unlock.name = slice_of("nothing");
        command.force_unlock.actor = slice_of("test");
        command.force_unlock.reason = slice_make(text, sizeof(text));
        for (size_t len = 0; len < LONG; len += sizeof(text)) {
            assert_int_equal(replica_submit(a->replica, &command, a, a->now), HF_OK);
        }
        alone_run(a, BATCH_QUIET_US);
        alone_all_written(a);
        alone_acknowledge(a, 2, alone_last_index(a), 0);
    }
}

static void entries_are_streamed_whole_in_messages_of_bounded_size(void **state)
{
    (void)state;
    struct alone a;
    open_with_long_log(&a);
    uint64_t last = alone_last_index(&a);
    alone_acknowledge(&a, 3, last - MANY,
                      last); /* it refuses a heartbeat: it has nothing of this */
    alone_forget(&a);
    alone_acknowledge(&a, 3, last - MANY + 1, 0); /* takes the first: now it is streamed to */
    uint64_t at = last - MANY + 1;
    for (uint32_t i = 0; i < a.sent_count; i++) {
        const struct message_in *in = &a.sent[i];
        const struct raft_append_entries *append = &in->message.append_entries;
        if (in->message.type != RAFT_APPEND_ENTRIES || in->message.server_id != 3) {
            continue;
        }
        assert_int_equal(append->prev_log_index, at); /* no gap, no overlap */
        assert_int_equal(append->prev_log_term, 2);
        assert_true(a.sent_bytes[i] <= (1u << 20) + 1024);
        at += append->n_entries;
    }
    assert_int_equal(at, last);
    assert_true(alone_count(&a, RAFT_APPEND_ENTRIES, 3) >= MANY / 3);
    alone_close(&a);
}

static void a_probe_carries_one_piece_however_often_it_is_repeated(void **state)
{
    (void)state;
    struct alone a;
    open_with_long_log(&a);
    uint64_t last = alone_last_index(&a);
    alone_forget(&a);
    alone_acknowledge(&a, 3, last - MANY, last);
    assert_int_equal(alone_count(&a, RAFT_APPEND_ENTRIES, 3), 1);
    for (int i = 0; i < 4; i++) { /* it does not answer */
        alone_acknowledge(&a, 2, last, 0);
        alone_run(&a, 60000);
    }
    size_t bytes = 0;
    int probes = 0;
    for (uint32_t i = 0; i < a.sent_count; i++) {
        const struct message_in *in = &a.sent[i];
        if (in->message.type == RAFT_APPEND_ENTRIES && in->message.server_id == 3) {
            assert_int_equal(in->message.append_entries.prev_log_index, last - MANY);
            assert_int_equal(in->message.append_entries.n_entries, 2);
            bytes += a.sent_bytes[i];
            probes++;
        }
    }
    assert_true(probes >= 4 && probes <= 6);
    assert_true(bytes <= (size_t)probes * ((1u << 20) + 1024));
    alone_close(&a);
}

static void an_entry_longer_than_a_message_should_be_goes_alone(void **state)
{
    (void)state;
    struct alone a;
    open_with_long_log(&a);
    uint64_t last = alone_last_index(&a);
    a.replica->engine.message_bytes = LONG / 2;
    alone_acknowledge(&a, 3, last - MANY, last);
    alone_forget(&a);
    alone_acknowledge(&a, 3, last - MANY + 1, 0);
    assert_int_equal(alone_count(&a, RAFT_APPEND_ENTRIES, 3), MANY - 1);
    alone_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_follower_receives_the_commit_index_at_once_when_it_waits_for_it),
        cmocka_unit_test(a_node_whose_waiter_got_the_lock_is_notified_at_once),
        cmocka_unit_test(when_nobody_waits_the_next_batch_gets_a_moment_to_carry_it),
        cmocka_unit_test(a_batch_that_gathers_carries_it_even_when_a_follower_waits),
        cmocka_unit_test(a_batch_counts_from_when_the_answers_have_left),
        cmocka_unit_test(a_batch_waits_for_those_who_come_back_and_not_for_those_who_do_not),
        cmocka_unit_test(a_release_does_not_wait_for_those_who_are_queued),
        cmocka_unit_test(a_batch_waits_for_him_who_was_granted_what_he_waited_for),
        cmocka_unit_test(a_follower_acknowledges_before_it_applies),
        cmocka_unit_test(a_slow_disk_puts_applying_off_for_a_moment_only),
        cmocka_unit_test(where_nobody_waits_for_it_the_next_message_applies_what_is_overdue),
        cmocka_unit_test(the_notification_is_applied_and_not_answered_unless_it_is_refused),
        cmocka_unit_test(a_notification_with_entries_is_malformed),
        cmocka_unit_test(entries_are_streamed_whole_in_messages_of_bounded_size),
        cmocka_unit_test(a_probe_carries_one_piece_however_often_it_is_repeated),
        cmocka_unit_test(an_entry_longer_than_a_message_should_be_goes_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

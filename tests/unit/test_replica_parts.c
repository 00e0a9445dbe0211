/* The replica's parts that stand alone: when a batch is closed, the cluster clock, the log in
 * memory, messages as bytes. The whole is tested by tests/sim. */
#include "base_testing.h"

#include "replica/batch.h"
#include "replica/clock.h"
#include "replica/entries.h"
#include "replica/message.h"
#include "replica/replica.h"

/* When a batch is closed. */

static uint64_t close_at(bool in_flight, uint32_t waiting, uint32_t lazy, uint32_t last,
                         uint64_t age_us)
{
    struct batch_situation s = {.in_flight = in_flight,
                                .waiting = waiting,
                                .lazy = lazy,
                                .lazy_us = BATCH_LAZY_US,
                                .expected = last,
                                .answered_us = 1000000,
                                .heard_us = 1000000,
                                .first_us = 1000000,
                                .now_us = 1000000 + age_us};
    return batch_close_at_us(&s);
}

static void a_lone_command_goes_at_once(void **state)
{
    (void)state;
    assert_true(close_at(false, 1, 0, 0, 0) == 0);
    assert_true(close_at(false, 1, 0, 1, 0) == 0);
}

static void nothing_is_closed_while_a_batch_is_in_flight_or_nobody_waits(void **state)
{
    (void)state;
    assert_true(close_at(true, 500, 0, 1, 5000000) == UINT64_MAX);
    assert_true(close_at(false, 0, 0, 64, 5000000) == UINT64_MAX);
}

static void a_batch_waits_for_those_who_were_just_answered_but_not_long(void **state)
{
    (void)state;
    assert_true(close_at(false, 10, 0, 64, 0) == 1000000 + BATCH_QUIET_US);
    assert_true(close_at(false, 10, 0, 64, BATCH_QUIET_US) == 0);
    assert_true(close_at(false, 63, 0, 64, 0) != 0);
    assert_true(close_at(false, 64, 0, 64, 0) == 0); /* all are back */
}

static void a_batch_waits_while_others_keep_coming_but_not_for_ever(void **state)
{
    (void)state;
    struct batch_situation s = {.waiting = 32,
                                .expected = 64,
                                .answered_us = 1000000,
                                .heard_us = 1000000,
                                .first_us = 999000, /* gathered while the last was in flight */
                                .now_us = 1000000};
    assert_true(batch_close_at_us(&s) == 1000000 + BATCH_QUIET_US);
    s.now_us = 1000100;
    s.heard_us = batch_heard_us(s.heard_us, s.now_us);
    assert_true(batch_close_at_us(&s) == 1000100 + BATCH_QUIET_US);
    s.now_us = 1000000 + BATCH_WAIT_US - 1;
    s.heard_us = s.now_us;
    assert_true(batch_close_at_us(&s) == 1000000 + BATCH_WAIT_US);
    s.now_us++;
    assert_true(batch_close_at_us(&s) == 0);
}

static void who_comes_after_a_pause_waits_for_nobody(void **state)
{
    (void)state;
    struct batch_situation s = {.waiting = 1,
                                .expected = 2,
                                .answered_us = 1000000,
                                .heard_us = 1000000,
                                .first_us = 1000000 + BATCH_QUIET_US + 1,
                                .now_us = 1000000 + BATCH_QUIET_US + 1};
    s.heard_us = batch_heard_us(s.heard_us, s.now_us);
    assert_true(batch_close_at_us(&s) == 0);
}

static void keep_alives_alone_count_from_the_first_of_them(void **state)
{
    (void)state;
    struct batch_situation s = {.waiting = 1,
                                .lazy = 1,
                                .lazy_us = BATCH_LAZY_US,
                                .expected = 64,
                                .answered_us = 1050000,
                                .heard_us = 1050000,
                                .first_us = 1001000,
                                .now_us = 1050000};
    assert_true(batch_close_at_us(&s) == 1001000 + BATCH_LAZY_US);
}

static void lazy_commands_alone_wait_longer_and_ride_along_with_others(void **state)
{
    (void)state;
    assert_true(close_at(false, 5, 5, 0, 0) == 1000000 + BATCH_LAZY_US);
    assert_true(close_at(false, 5, 5, 0, BATCH_LAZY_US) == 0);
    assert_true(close_at(false, 6, 5, 0, 0) == 0);
}

/* The clock (S1). */

static void the_clock_of_a_new_leader_starts_at_the_highest_heard_and_runs(void **state)
{
    (void)state;
    struct cluster_clock c = {0};
    clock_hear(&c, 1, 5000);
    clock_hear(&c, 1, 4000);
    assert_true(clock_now_ms(&c, 123456789) == 5000);
    clock_start(&c, 2, 4500, 10000000);
    assert_true(clock_now_ms(&c, 10000000) == 5000);
    assert_true(clock_now_ms(&c, 10002500) == 5002);
    assert_true(clock_now_ms(&c, 9000000) == 5000); /* never back */
    assert_true(clock_when_us(&c, 6000) == 11000000);
    clock_stop(&c, 12000000);
    assert_true(clock_now_ms(&c, 99000000) == 7000); /* stands while nobody leads */
}

static void time_that_was_heard_while_leading_does_not_move_the_clock(void **state)
{
    (void)state;
    struct cluster_clock c = {0};
    clock_start(&c, 1, 0, 0); /* at 1: 0 stands for no time */
    clock_hear(&c, 2, 50);
    assert_true(clock_now_ms(&c, 10000) == 11);
    clock_stop(&c, 10000);
    assert_true(clock_now_ms(&c, 10000) == 50);
}

/* A leader that was cut off counted on; its successor had lost some time and gave out leases. */
static void time_of_an_earlier_term_is_not_taken_up_again(void **state)
{
    (void)state;
    struct cluster_clock c = {0};
    clock_start(&c, 5, 0, 0);
    assert_true(clock_now_ms(&c, 9000000) == 9001);
    clock_hear(&c, 6, 7500); /* the successor's */
    clock_stop(&c, 9000000);
    assert_true(clock_now_ms(&c, 9000000) == 7500);
    clock_hear(&c, 5, 9500);
    clock_hear(&c, 6, 7600);
    assert_true(clock_now_ms(&c, 9000000) == 7600);
    clock_start(&c, 7, 0, 9000000);
    assert_true(clock_now_ms(&c, 9000000) == 7600);
}

/* It was cut off with a batch of its own, heard of a later term, and was elected with its batch. */
static void a_clock_does_not_start_behind_the_log(void **state)
{
    (void)state;
    struct cluster_clock c = {0};
    clock_start(&c, 5, 0, 0);
    clock_hear(&c, 6, 8);
    clock_stop(&c, 10000);
    clock_start(&c, 7, 10, 20000);
    assert_true(clock_now_ms(&c, 21000) == 11);
}

/* The log in memory. */

static struct replica_entry entry_of(uint64_t term, const char *text)
{
    return (struct replica_entry){term, 1, slice_of(text)};
}

static void entries_come_back_and_are_cut_at_both_ends(void **state)
{
    (void)state;
    struct counted counted;
    counted_init(&counted);
    struct entries e;
    entries_init(&e, &counted.memory, 5, 1000);
    for (int i = 0; i < 200; i++) {
        char text[16];
        (void)snprintf(text, sizeof(text), "e%d", i);
        struct replica_entry entry = entry_of(1, text);
        entries_append(&e, &entry);
    }
    assert_true(entries_last(&e) == 204);
    assert_null(entries_at(&e, 4));
    assert_null(entries_at(&e, 205));
    assert_memory_equal(entries_at(&e, 5)->bytes, "e0", 2);
    assert_memory_equal(entries_at(&e, 204)->bytes, "e199", 4);
    entries_truncate(&e, 100, 0);
    assert_true(entries_last(&e) == 99);
    entries_drop_before(&e, 50);
    assert_null(entries_at(&e, 49));
    assert_memory_equal(entries_at(&e, 50)->bytes, "e45", 3);
    struct replica_entry more = entry_of(2, "new");
    entries_append(&e, &more);
    assert_true(entries_at(&e, 100)->term == 2);
    entries_reset(&e, 1000, 0);
    assert_true(entries_last(&e) == 999);
    entries_close(&e);
    assert_int_equal(counted.blocks, 0);
}

static void bytes_that_a_write_may_still_read_outlive_their_entry(void **state)
{
    (void)state;
    struct counted counted;
    counted_init(&counted);
    struct entries e;
    entries_init(&e, &counted.memory, 1, 1000);
    struct replica_entry entry = entry_of(1, "being written");
    entries_append(&e, &entry);
    uint8_t *bytes = entries_at(&e, 1)->bytes;
    entries_truncate(&e, 1, 7); /* write number 7 is on its way */
    entries_written(&e, 6);
    assert_memory_equal(bytes, "being written", 13);
    uint64_t before = counted.blocks;
    entries_written(&e, 7);
    assert_int_equal(counted.blocks, before - 1);
    entries_close(&e);
    assert_int_equal(counted.blocks, 0);
}

static void old_bytes_are_given_back_and_what_is_needed_is_kept(void **state)
{
    (void)state;
    struct counted counted;
    counted_init(&counted);
    struct entries e;
    entries_init(&e, &counted.memory, 1, 100);
    for (int i = 0; i < 50; i++) {
        struct replica_entry entry = entry_of(1, "0123456789");
        entries_append(&e, &entry);
    }
    entries_evict(&e, 20);
    assert_null(entries_at(&e, 19)->bytes);
    assert_non_null(entries_at(&e, 20)->bytes);
    assert_int_equal(entries_at(&e, 19)->len, 10);
    entries_evict(&e, 51);
    assert_true(e.bytes <= 100);
    assert_non_null(entries_at(&e, 50)->bytes);
    entries_close(&e);
    assert_int_equal(counted.blocks, 0);
}

/* Messages. */

static bool give_entry(void *ctx, uint64_t index, struct replica_entry *out)
{
    (void)ctx;
    static char text[16];
    (void)snprintf(text, sizeof(text), "entry %llu", (unsigned long long)index);
    *out = (struct replica_entry){3, (uint16_t)(1 + index % 3), slice_of(text)};
    return index < 100;
}

static void free_in(struct message_in *in)
{
    if (in->entries != NULL) {
        raft_free(in->entries[0].batch);
        raft_free(in->entries);
    }
    if (in->message.type == RAFT_INSTALL_SNAPSHOT) {
        raft_configuration_close(&in->message.install_snapshot.conf);
        raft_free(in->message.install_snapshot.data.base);
    }
}

static void every_truncation_is_refused(const uint8_t *bytes, size_t len)
{
    for (size_t cut = 0; cut < len; cut++) {
        struct message_in in;
        assert_false(message_decode(slice_make(bytes, cut), 2, "", &in));
    }
}

static void append_entries_survive_the_wire(void **state)
{
    (void)state;
    struct raft_message m = {.type = RAFT_APPEND_ENTRIES, .server_id = 4};
    m.append_entries.version = 1;
    m.append_entries.term = 9;
    m.append_entries.prev_log_index = 40;
    m.append_entries.prev_log_term = 8;
    m.append_entries.leader_commit = 39;
    m.append_entries.n_entries = 5;
    size_t len = 0;
    uint8_t *bytes = message_encode(&m, 777, slice_make(NULL, 0), give_entry, NULL, &len);
    assert_non_null(bytes);
    struct message_in in;
    assert_true(message_decode(slice_make(bytes, len), 2, "", &in));
    assert_true(in.cluster_ms == 777); /* S1.2 */
    assert_int_equal(in.message.server_id, 2);
    assert_int_equal(in.message.append_entries.term, 9);
    assert_int_equal(in.message.append_entries.prev_log_index, 40);
    assert_int_equal(in.message.append_entries.n_entries, 5);
    for (unsigned i = 0; i < 5; i++) {
        struct replica_entry expected;
        (void)give_entry(NULL, 41 + i, &expected);
        const struct raft_entry *got = &in.message.append_entries.entries[i];
        assert_int_equal(got->type, expected.type);
        assert_int_equal(got->buf.len, expected.bytes.len);
        assert_memory_equal(got->buf.base, expected.bytes.data, expected.bytes.len);
        assert_ptr_equal(got->batch, in.entries[0].batch);
    }
    free_in(&in);
    every_truncation_is_refused(bytes, len);
    raft_free(bytes);
}

static void a_message_whose_entries_are_gone_is_not_sent(void **state)
{
    (void)state;
    struct raft_message m = {.type = RAFT_APPEND_ENTRIES, .server_id = 4};
    m.append_entries.prev_log_index = 98;
    m.append_entries.n_entries = 3;
    size_t len = 0;
    assert_null(message_encode(&m, 1, slice_make(NULL, 0), give_entry, NULL, &len));
}

static void the_other_messages_survive_the_wire(void **state)
{
    (void)state;
    struct replica_member members[2] = {{1, "a:1", true}, {2, "b:2", false}};
    uint8_t conf[256];
    size_t conf_len = replica_bootstrap_entry(members, 2, conf, sizeof(conf));
    assert_true(conf_len > 0);
    struct raft_message all[5] = {
        {.type = RAFT_APPEND_ENTRIES_RESULT, .server_id = 1},
        {.type = RAFT_REQUEST_VOTE, .server_id = 1},
        {.type = RAFT_REQUEST_VOTE_RESULT, .server_id = 1},
        {.type = RAFT_INSTALL_SNAPSHOT, .server_id = 1},
        {.type = RAFT_TIMEOUT_NOW, .server_id = 1},
    };
    all[0].append_entries_result.rejected = 12;
    all[0].append_entries_result.capacity = 65535;
    all[1].request_vote.candidate_id = 3;
    all[1].request_vote.pre_vote = true;
    all[2].request_vote_result.vote_granted = true;
    all[3].install_snapshot.last_index = 55;
    all[3].install_snapshot.last_term = 4;
    all[3].install_snapshot.conf_index = 50;
    all[4].timeout_now.last_log_index = 77;
    for (size_t i = 0; i < 5; i++) {
        size_t len = 0;
        struct slice about =
            all[i].type == RAFT_INSTALL_SNAPSHOT ? slice_make(conf, conf_len) : slice_make(NULL, 0);
        uint8_t *bytes = message_encode(&all[i], 5, about, give_entry, NULL, &len);
        struct message_in in;
        assert_true(message_decode(slice_make(bytes, len), 1, "", &in));
        assert_int_equal(in.message.type, all[i].type);
        if (all[i].type == RAFT_INSTALL_SNAPSHOT) {
            assert_int_equal(in.message.install_snapshot.last_index, 55);
            assert_int_equal(in.message.install_snapshot.conf.n, 2);
        } else if (all[i].type == RAFT_REQUEST_VOTE) {
            assert_true(in.message.request_vote.pre_vote);
        }
        free_in(&in);
        every_truncation_is_refused(bytes, len);
        bytes[1] = 77; /* no such type */
        assert_false(message_decode(slice_make(bytes, len), 1, "", &in));
        raft_free(bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lone_command_goes_at_once),
        cmocka_unit_test(nothing_is_closed_while_a_batch_is_in_flight_or_nobody_waits),
        cmocka_unit_test(a_batch_waits_for_those_who_were_just_answered_but_not_long),
        cmocka_unit_test(a_batch_waits_while_others_keep_coming_but_not_for_ever),
        cmocka_unit_test(who_comes_after_a_pause_waits_for_nobody),
        cmocka_unit_test(keep_alives_alone_count_from_the_first_of_them),
        cmocka_unit_test(lazy_commands_alone_wait_longer_and_ride_along_with_others),
        cmocka_unit_test(the_clock_of_a_new_leader_starts_at_the_highest_heard_and_runs),
        cmocka_unit_test(time_that_was_heard_while_leading_does_not_move_the_clock),
        cmocka_unit_test(time_of_an_earlier_term_is_not_taken_up_again),
        cmocka_unit_test(a_clock_does_not_start_behind_the_log),
        cmocka_unit_test(entries_come_back_and_are_cut_at_both_ends),
        cmocka_unit_test(bytes_that_a_write_may_still_read_outlive_their_entry),
        cmocka_unit_test(old_bytes_are_given_back_and_what_is_needed_is_kept),
        cmocka_unit_test(append_entries_survive_the_wire),
        cmocka_unit_test(a_message_whose_entries_are_gone_is_not_sent),
        cmocka_unit_test(the_other_messages_survive_the_wire),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

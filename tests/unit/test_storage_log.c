/* Tests of the log while nothing goes wrong. Full and failing disks are in test_storage_log_full.c,
 * what a crash leaves is in test_storage_log_crash.c, damage in test_storage_log_damage.c. */
#include "storage_log_fixture.h"

#include "base/limits.h"

/* ---- appending and reading ---- */

static void a_new_log_is_empty_and_begins_at_one(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(log_first(f->log), 1);
    assert_int_equal(log_last(f->log), 0);
    assert_int_equal(log_bytes_from(f->log, 1), 0);
    assert_same_after_reopening(f);
    assert_same_after_reopening(f);
}

static void entries_come_back_as_they_were(void **state)
{
    struct fixture *f = *state;
    struct problem problem;
    for (uint32_t len = 0; len < 70; len++)
        assert_done(append(f, len + 1, 1, len, len / 7, &problem));
    assert_done(append(f, 71, 30, 100, 11, &problem));
    assert_same_after_reopening(f);
    assert_done(append(f, 101, 30, 100, 12, &problem));
    assert_same_after_reopening(f);
    uint64_t term;
    assert_done(log_term(f->log, 1, &term, &problem));
    assert_int_equal(term, 0);
    assert_done(log_term(f->log, 130, &term, &problem));
    assert_int_equal(term, 12);
}

static void a_batch_is_one_write_and_one_sync(void **state)
{
    struct fixture *f = *state;
    struct problem problem;
    assert_done(log_prepare(f->log, &problem));
    assert_false(log_wants_prepare(f->log));
    struct disk_fake_counts before = disk_fake_counts(f->fake);
    assert_done(append(f, 1, 50, 64, 1, &problem));
    struct disk_fake_counts after = disk_fake_counts(f->fake);
    assert_int_equal(after.writes - before.writes, 1);
    assert_int_equal(after.syncs - before.syncs, 1);
    assert_int_equal(after.folder_syncs - before.folder_syncs, 0);
    assert_int_equal(after.written_bytes - before.written_bytes, 50 * (48 + 64));
}

static void a_batch_across_the_end_of_a_segment_is_two(void **state)
{
    struct fixture *f = *state;
    struct problem problem;
    assert_done(log_prepare(f->log, &problem));
    assert_done(append(f, 1, 10, 1000, 1, &problem));
    struct disk_fake_counts before = disk_fake_counts(f->fake);
    assert_done(append(f, 11, 4, 1000, 1, &problem));
    struct disk_fake_counts after = disk_fake_counts(f->fake);
    assert_int_equal(after.writes - before.writes, 2);
    assert_int_equal(after.syncs - before.syncs, 2);
    assert_int_equal(after.folder_syncs - before.folder_syncs, 0);
    assert_true(log_wants_prepare(f->log));
    assert_same_after_reopening(f);
}

static void a_batch_may_take_several_segments(void **state)
{
    struct fixture *f = *state;
    struct problem problem;
    assert_done(append(f, 1, 60, 1000, 1, &problem));
    assert_same_after_reopening(f);
    assert_done(append(f, 30, 60, 1000, 2, &problem));
    assert_same_after_reopening(f);
}

static void entries_of_every_size_that_fits_can_be_appended(void **state)
{
    struct fixture *f = *state;
    struct problem problem;
    uint32_t largest = SMALL - 4096 - 48 - 48;
    for (uint32_t len = largest - 200; len <= largest; len++)
        assert_done(append(f, f->naive.last + 1, 1, len, 1, &problem));
    /* Just before and behind the end of a segment. */
    for (uint32_t len = largest - 200; len <= largest - 48; len += 8) {
        assert_done(append(f, f->naive.last + 1, 1, len, 1, &problem));
        assert_done(append(f, f->naive.last + 1, 1, largest - 48 - len, 1, &problem));
    }
    assert_same_after_reopening(f);
}

static void entries_of_eight_mebibytes_can_be_appended(void **state)
{
    struct fixture *f = *state;
    struct problem problem;
    f->segment_bytes = 0;
    assert_done(reopen(f, &problem));
    assert_done(append(f, 1, 1, LIMIT_ENTRY, 1, &problem));
    assert_done(append(f, 2, 1, 100, 1, &problem));
    assert_done(append(f, 3, 3, LIMIT_ENTRY, 1, &problem));
    assert_done(append(f, 6, 1, 100, 1, &problem));
    assert_same_after_reopening(f);
    struct log_piece piece;
    assert_done(log_read(f->log, 1, 6, 1000, &piece, &problem));
    assert_int_equal(piece.count, 1);
    log_piece_free(&piece);
}

static void a_read_stops_at_its_limits(void **state)
{
    struct fixture *f = *state;
    struct problem problem;
    assert_done(append(f, 1, 200, 100, 1, &problem));
    struct log_piece piece;
    assert_done(log_read(f->log, 5, UINT64_MAX, 1000, &piece, &problem));
    assert_int_equal(piece.first, 5);
    assert_int_equal(piece.count, 10);
    log_piece_free(&piece);
    assert_done(log_read(f->log, 5, UINT64_MAX, 0, &piece, &problem));
    assert_int_equal(piece.count, 1);
    log_piece_free(&piece);
    assert_done(log_read(f->log, 5, 7, 1 << 20, &piece, &problem));
    assert_int_equal(piece.count, 3);
    log_piece_free(&piece);
    assert_done(log_read(f->log, 1, UINT64_MAX, 1 << 20, &piece, &problem));
    assert_int_equal(piece.count, 200);
    log_piece_free(&piece);
    for (uint64_t at = 1; at <= 200; at++)
        assert_int_equal(first_difference(f->log, &f->naive, at, at, 0), 0);
}

/* ---- replacing ---- */

static void an_append_below_the_end_replaces_what_follows(void **state)
{
    struct fixture *f = *state;
    struct problem problem;
    assert_done(append(f, 1, 100, 200, 1, &problem));
    struct disk_fake_counts before = disk_fake_counts(f->fake);
    assert_done(append(f, 95, 2, 200, 2, &problem));
    assert_int_equal(disk_fake_counts(f->fake).syncs - before.syncs, 1);
    assert_same_after_reopening(f);
    assert_done(append(f, 20, 3, 200, 3, &problem)); /* in an older segment */
    assert_same_after_reopening(f);
    assert_done(append(f, 1, 3, 200, 4, &problem)); /* all of it */
    assert_same_after_reopening(f);
    assert_done(append(f, 4, 100, 200, 4, &problem));
    assert_same_after_reopening(f);
}

static void a_truncation_removes_what_follows(void **state)
{
    struct fixture *f = *state;
    struct problem problem;
    assert_done(append(f, 1, 100, 200, 1, &problem));
    assert_done(log_truncate(f->log, 60, &problem));
    f->naive.last = 59;
    assert_same_after_reopening(f);
    assert_done(append(f, 60, 10, 200, 2, &problem));
    assert_same_after_reopening(f);
    assert_done(log_truncate(f->log, 1, &problem));
    f->naive.last = 0;
    assert_same_after_reopening(f);
    assert_done(log_truncate(f->log, 1, &problem)); /* nothing to remove */
    assert_same_after_reopening(f);
}

static void a_reset_starts_the_log_anew(void **state)
{
    struct fixture *f = *state;
    struct problem problem;
    assert_done(append(f, 1, 100, 200, 1, &problem));
    assert_done(log_reset(f->log, 500, 7, &problem));
    f->naive.first = 501;
    f->naive.last = 500;
    assert_int_equal(log_first(f->log), 501);
    assert_same_after_reopening(f);
    assert_int_equal(log_first(f->log), 501);
    assert_done(append(f, 501, 100, 200, 7, &problem));
    assert_same_after_reopening(f);
    assert_int_equal(log_first(f->log), 501);
    assert_done(log_reset(f->log, 0, 0, &problem));
    naive_init(&f->naive);
    assert_same_after_reopening(f);
}

/* ---- dropping and recycling ---- */

static void dropping_keeps_what_is_requested_and_gives_files_back(void **state)
{
    struct fixture *f = *state;
    struct problem problem;
    assert_done(append(f, 1, 200, 200, 1, &problem));
    uint64_t before = log_bytes_on_disk(f->log);
    assert_done(log_drop_before(f->log, 1, &problem));
    assert_int_equal(log_first(f->log), 1);
    assert_done(log_drop_before(f->log, 120, &problem));
    assert_true(log_first(f->log) <= 120 && log_first(f->log) > 60);
    f->naive.first = log_first(f->log);
    assert_same_after_reopening(f);
    assert_int_equal(log_first(f->log), f->naive.first);
    f->spare_limit = 1;
    assert_done(reopen(f, &problem));
    assert_true(log_bytes_on_disk(f->log) < before);
    assert_true(disk_fake_bytes(f->fake) == log_bytes_on_disk(f->log));
    assert_done(log_drop_before(f->log, 201, &problem));
    assert_int_equal(log_last(f->log), 200);
    f->naive.first = log_first(f->log);
    assert_same_after_reopening(f);
}

static void the_last_entry_is_never_dropped_with_its_position(void **state)
{
    struct fixture *f = *state;
    struct problem problem;
    /* Fills the segment, so that the seal is all that there is in the next one. */
    assert_done(append(f, 1, 11, 1000, 1, &problem));
    assert_done(append(f, 12, 1, 624, 1, &problem));
    assert_done(log_prepare(f->log, &problem));
    assert_done(log_seal(f->log, &problem));
    assert_true(log_wants_prepare(f->log));
    assert_done(log_drop_before(f->log, 13, &problem));
    assert_int_equal(log_last(f->log), 12);
    assert_done(reopen(f, &problem));
    assert_int_equal(log_last(f->log), 12);
}

static void a_recycled_segment_is_not_filled_again(void **state)
{
    struct fixture *f = *state;
    struct problem problem;
    assert_done(append(f, 1, 200, 200, 1, &problem));
    assert_done(log_drop_before(f->log, 200, &problem));
    while (!log_wants_prepare(f->log))
        assert_done(append(f, f->naive.last + 1, 1, 2000, 1, &problem));
    struct disk_fake_counts before = disk_fake_counts(f->fake);
    assert_done(log_prepare(f->log, &problem));
    assert_false(log_wants_prepare(f->log));
    struct disk_fake_counts after = disk_fake_counts(f->fake);
    assert_int_equal(after.written_bytes - before.written_bytes, 4096);
    assert_int_equal(after.creates - before.creates, 0);
}

static void old_records_in_a_recycled_segment_are_never_read(void **state)
{
    struct fixture *f = *state;
    struct problem problem;
    f->spare_limit = 16;
    /* All records have one size, so every old one lies where a new one may be looked for. */
    for (int round = 0; round < 30; round++) {
        assert_done(append(f, f->naive.last + 1, 80, 200, (uint64_t)round, &problem));
        assert_done(log_drop_before(f->log, f->naive.last - 5, &problem));
        f->naive.first = log_first(f->log);
        assert_same_after_reopening(f);
    }
    assert_true(disk_fake_counts(f->fake).creates < 12);
}

static void a_new_segment_is_made_in_steps(void **state)
{
    struct fixture *f = *state;
    struct problem problem;
    f->segment_bytes = 4 << 20;
    assert_done(reopen(f, &problem));
    int steps = 0;
    while (log_wants_prepare(f->log)) {
        struct disk_fake_counts before = disk_fake_counts(f->fake);
        assert_done(log_prepare(f->log, &problem));
        struct disk_fake_counts after = disk_fake_counts(f->fake);
        assert_true(after.written_bytes - before.written_bytes <= (1 << 20) + 4096);
        steps++;
        assert_done(append(f, f->naive.last + 1, 1, 100, 1, &problem));
    }
    assert_int_equal(steps, 4);
    assert_same_after_reopening(f);
}

static void segments_of_another_size_are_still_read(void **state)
{
    struct fixture *f = *state;
    struct problem problem;
    static const uint32_t sizes[] = {65536, 16384, 32768, 131072, 16384};
    for (size_t i = 0; i < 5; i++) {
        f->segment_bytes = sizes[i];
        assert_done(reopen(f, &problem));
        assert_log_equals(f->log, &f->naive);
        assert_done(append(f, f->naive.last + 1, 100, 500, 1, &problem));
        assert_same_after_reopening(f);
    }
}

static void the_bytes_since_a_snapshot_are_known(void **state)
{
    struct fixture *f = *state;
    struct problem problem;
    f->segment_bytes = 1 << 20;
    assert_done(reopen(f, &problem));
    for (int i = 0; i < 400; i++)
        assert_done(append(f, f->naive.last + 1, 1, 4000, 1, &problem));
    for (int again = 0; again < 2; again++) {
        uint64_t all = log_bytes_from(f->log, 1);
        assert_int_equal(all, 400 * 4048);
        for (uint64_t index = 1; index <= 400; index += 13) {
            uint64_t exact = (401 - index) * 4048;
            uint64_t said = log_bytes_from(f->log, index);
            assert_true(said >= exact && said < exact + 70000);
        }
        assert_int_equal(log_bytes_from(f->log, 401), 0);
        assert_done(reopen(f, &problem));
    }
}

/* ---- sealing ---- */

static void sealing_is_one_small_write_once(void **state)
{
    struct fixture *f = *state;
    struct problem problem;
    assert_false(log_wants_seal(f->log));
    assert_done(append(f, 1, 3, 300, 1, &problem));
    assert_true(log_wants_seal(f->log));
    struct disk_fake_counts before = disk_fake_counts(f->fake);
    assert_done(log_seal(f->log, &problem));
    assert_false(log_wants_seal(f->log));
    assert_done(log_seal(f->log, &problem));
    struct disk_fake_counts after = disk_fake_counts(f->fake);
    assert_int_equal(after.writes - before.writes, 1);
    assert_int_equal(after.written_bytes - before.written_bytes, 48);
    assert_same_after_reopening(f);
    assert_false(log_wants_seal(f->log));
    for (int i = 0; i < 300; i++) { /* many, and across the end of segments */
        assert_done(append(f, f->naive.last + 1, 1, 8, 1, &problem));
        assert_done(log_seal(f->log, &problem));
    }
    assert_same_after_reopening(f);
}

/* ---- all together ---- */

static void random_step(struct fixture *f, struct random *random)
{
    struct problem problem;
    struct naive *naive = &f->naive;
    uint64_t live = naive->last + 1 - naive->first;
    switch (random_below(random, 16)) {
    case 0:
        if (live > 0) {
            uint64_t at = naive->first + random_below(random, (uint32_t)live);
            assert_done(
                append(f, at, 1 + random_below(random, 5), random_below(random, 900), 2, &problem));
        }
        break;
    case 1: {
        uint64_t at = naive->first + random_below(random, (uint32_t)live + 1);
        assert_done(log_truncate(f->log, at, &problem));
        naive->last = at - 1;
        break;
    }
    case 2: {
        uint64_t at = naive->first + random_below(random, (uint32_t)live + 1);
        assert_done(log_drop_before(f->log, at, &problem));
        assert_true(log_first(f->log) <= at && log_first(f->log) >= naive->first);
        naive->first = log_first(f->log);
        break;
    }
    case 3:
        if (random_below(random, 10) == 0) {
            uint64_t to = naive->last + random_below(random, 50);
            assert_done(log_reset(f->log, to, 5, &problem));
            naive->first = to + 1;
            naive->last = to;
        }
        break;
    case 4:
        assert_done(reopen(f, &problem));
        break;
    case 5:
        assert_done(log_seal(f->log, &problem));
        break;
    case 6:
    case 7:
        assert_done(log_prepare(f->log, &problem));
        break;
    default:
        assert_done(append(f, naive->last + 1, 1 + random_below(random, 20),
                           random_below(random, 600), 3, &problem));
    }
}

static void a_random_history_gives_the_same_log_as_a_naive_one(void **state)
{
    struct fixture *f = *state;
    struct random random;
    random_init(&random, __func__);
    for (int i = 0; i < 4000; i++) {
        random_step(f, &random);
        if (f->naive.last > NAIVE_MAX - 200) {
            struct problem problem;
            assert_done(log_reset(f->log, 0, 0, &problem));
            f->naive.first = 1;
            f->naive.last = 0;
        }
        if (i % 5 == 0)
            assert_log_equals(f->log, &f->naive);
    }
    assert_same_after_reopening(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        T(a_new_log_is_empty_and_begins_at_one),
        T(entries_come_back_as_they_were),
        T(a_batch_is_one_write_and_one_sync),
        T(a_batch_across_the_end_of_a_segment_is_two),
        T(a_batch_may_take_several_segments),
        T(entries_of_every_size_that_fits_can_be_appended),
        T(entries_of_eight_mebibytes_can_be_appended),
        T(a_read_stops_at_its_limits),
        T(an_append_below_the_end_replaces_what_follows),
        T(a_truncation_removes_what_follows),
        T(a_reset_starts_the_log_anew),
        T(dropping_keeps_what_is_requested_and_gives_files_back),
        T(the_last_entry_is_never_dropped_with_its_position),
        T(a_recycled_segment_is_not_filled_again),
        T(old_records_in_a_recycled_segment_are_never_read),
        T(a_new_segment_is_made_in_steps),
        T(segments_of_another_size_are_still_read),
        T(the_bytes_since_a_snapshot_are_known),
        T(sealing_is_one_small_write_once),
        T(a_random_history_gives_the_same_log_as_a_naive_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

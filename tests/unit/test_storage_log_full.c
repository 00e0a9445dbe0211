/* Tests of the log on full disks, which it survives, and on failing ones, on which it stops. */
#include "storage_log_fixture.h"

static void a_full_disk_leaves_the_log_as_it_was(void **state)
{
    struct fixture *f = *state;
    struct problem problem;
    assert_done(append(f, 1, 10, 1000, 1, &problem));
    disk_fake_set_capacity(f->fake, disk_fake_bytes(f->fake) + 5000);
    for (int i = 0; i < 3; i++)
        assert_problem(append(f, 11, 10, 1000, 1, &problem), STORAGE_FULL, "disk is full");
    assert_int_equal(log_last(f->log), 10);
    assert_done(append(f, 11, 1, 1000, 1, &problem)); /* there is space for this one */
    assert_log_equals(f->log, &f->naive);
    disk_fake_set_capacity(f->fake, UINT64_MAX);
    assert_done(append(f, 12, 10, 1000, 1, &problem));
    assert_same_after_reopening(f);
}

static void a_prepared_segment_is_space_in_reserve(void **state)
{
    struct fixture *f = *state;
    struct problem problem;
    assert_done(log_prepare(f->log, &problem));
    disk_fake_set_capacity(f->fake, disk_fake_bytes(f->fake));
    assert_done(append(f, 1, 20, 1000, 1, &problem));
    assert_true(log_wants_prepare(f->log));
    assert_problem(log_prepare(f->log, &problem), STORAGE_FULL, "log.tmp");
    assert_problem(log_prepare(f->log, &problem), STORAGE_FULL, "log.tmp");
    assert_done(append(f, 21, 1, 1000, 1, &problem));
    disk_fake_set_capacity(f->fake, UINT64_MAX);
    assert_done(log_prepare(f->log, &problem));
    assert_false(log_wants_prepare(f->log));
    assert_same_after_reopening(f);
}

static void a_log_with_a_prepared_segment_opens_on_a_full_disk(void **state)
{
    struct fixture *f = *state;
    struct problem problem;
    assert_done(log_prepare(f->log, &problem));
    assert_done(append(f, 1, 5, 1000, 1, &problem));
    disk_fake_set_capacity(f->fake, disk_fake_bytes(f->fake));
    for (int i = 0; i < 5; i++)
        assert_same_after_reopening(f);
}

static void a_write_refused_for_want_of_space_leaves_no_trace(void **state)
{
    struct fixture *f = *state;
    struct problem problem;
    assert_done(log_prepare(f->log, &problem));
    assert_done(append(f, 1, 3, 300, 1, &problem));
    for (int i = 0; i < 50; i++) {
        disk_fake_fail_after(f->fake, 0, STORAGE_FULL);
        assert_problem(append(f, f->naive.last + 1, 4, 300, 1, &problem), STORAGE_FULL, "log-");
        assert_log_equals(f->log, &f->naive);
        /* Neither a crash nor a power cut brings it back. */
        struct disk_fake *copy = disk_fake_copy(f->fake, (uint64_t)i);
        if (i % 2 == 0)
            disk_fake_power_cut(copy);
        struct log_options options = {
            .segment_bytes = SMALL, .store = test_store, .life = 100 + f->life};
        struct log *log;
        assert_done(log_open(disk_fake_disk(copy), &options, &log, &problem));
        assert_log_equals(log, &f->naive);
        log_close(log);
        disk_fake_free(copy);
        if (i % 5 == 0)
            assert_done(append(f, f->naive.last + 1, 1, 300, 1, &problem));
    }
    assert_same_after_reopening(f);
}

static void after_a_failed_write_or_sync_the_log_refuses_everything(void **state)
{
    struct fixture *f = *state;
    struct problem problem;
    assert_done(append(f, 1, 3, 300, 1, &problem));
    assert_done(log_prepare(f->log, &problem));
    for (uint64_t operation = 0; operation < 2; operation++) {
        disk_fake_fail_after(f->fake, operation, STORAGE_IO);
        struct naive_entry entry = {.term = 9, .seed = 1, .len = 10};
        assert_problem(append_naive(f->log, 4, &entry, 1, &problem), STORAGE_IO, "injected");
        assert_problem(append_naive(f->log, 4, &entry, 1, &problem), STORAGE_IO, "injected");
        assert_problem(log_truncate(f->log, 2, &problem), STORAGE_IO, "injected");
        assert_problem(log_reset(f->log, 2, 1, &problem), STORAGE_IO, "injected");
        assert_problem(log_seal(f->log, &problem), STORAGE_IO, "injected");
        assert_problem(log_prepare(f->log, &problem), STORAGE_IO, "injected");
        assert_problem(log_drop_before(f->log, 2, &problem), STORAGE_IO, "injected");
        assert_log_equals(f->log, &f->naive);
        /* What a failed sync lost is still visible; opening must not take it for durable. */
        assert_done(reopen(f, &problem));
        f->naive.last = log_last(f->log);
        assert_true(f->naive.last == 3 || f->naive.last == 4);
        f->naive.entries[4] = entry;
        assert_log_equals(f->log, &f->naive);
        log_close(f->log);
        f->log = NULL;
        disk_fake_power_cut(f->fake);
        assert_done(reopen(f, &problem));
        assert_log_equals(f->log, &f->naive);
        assert_done(log_truncate(f->log, 4, &problem));
        f->naive.last = 3;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        T(a_full_disk_leaves_the_log_as_it_was),
        T(a_prepared_segment_is_space_in_reserve),
        T(a_log_with_a_prepared_segment_opens_on_a_full_disk),
        T(a_write_refused_for_want_of_space_leaves_no_trace),
        T(after_a_failed_write_or_sync_the_log_refuses_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

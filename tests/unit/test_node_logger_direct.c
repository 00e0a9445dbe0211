/* The loop's own writes to the log: order, and what becomes of a write that goes wrong. On a real
 * folder, with direct writes that the test controls: they reach the file when the test wants, or not.
 * The last test has the kernel's. */
#include "base_testing.h"

#include "logger_rig.h"

static void the_loop_reads_and_does_not_wait_while_a_write_is_under_way(void **state)
{
    (void)state;
    struct rig r;
    struct replica_entry entry;
    rig_open(&r, true);
    settle(&r);
    write_some(&r, 1, 10, 1);
    run_until(&r, 10);
    fake.hold = true;
    write_some(&r, 11, 1, 1);
    run_until_begun(&r);
    alarm(30);
    assert_reads(&r, 10, 1);
    assert_false(logger_read(r.logger, 11, &entry));
    snapshots_lock(r.store.snapshots);
    snapshots_unlock(r.store.snapshots);
    uv_run(&r.loop, UV_RUN_NOWAIT);
    assert_int_equal(r.written, 10);
    fake_release();
    run_until(&r, 11);
    assert_reads(&r, 11, 1);
    assert_int_equal(stats_of(&r).direct, stats_of(&r).appends);
    assert_int_equal(stats_of(&r).entries, 11);
    assert_int_equal(stats_of(&r).bytes, 11 * ENTRY);
    rig_close(&r);
}

static void what_comes_meanwhile_becomes_one_write(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, true);
    settle(&r);
    fake.hold = true;
    write_some(&r, 1, 1, 1);
    run_until_begun(&r);
    for (uint64_t i = 2; i <= 20; i++) {
        write_some(&r, i, 1, 1);
    }
    fake_release();
    run_until(&r, 20);
    assert_int_equal(stats_of(&r).appends, 2);
    assert_int_equal(stats_of(&r).direct, 2);
    for (uint64_t i = 1; i <= 20; i++) {
        assert_reads(&r, i, 1);
    }
    rig_close(&r);
}

static enum storage_status note_last(void *ctx, struct problem *problem)
{
    struct rig *r = ctx;
    (void)problem;
    r->done = log_last(r->store.log);
    return STORAGE_OK;
}

static void on_noted(void *ctx, enum storage_status status, const struct problem *problem)
{
    struct rig *r = ctx;
    (void)problem;
    assert_int_equal(status, STORAGE_OK);
    assert_int_equal(r->written, r->done);
}

static void work_waits_for_what_was_requested_before_it_and_is_waited_for(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, true);
    settle(&r);
    fake.hold = true;
    write_some(&r, 1, 1, 1);
    run_until_begun(&r);
    write_some(&r, 2, 1, 1);
    logger_run(r.logger, note_last, on_noted, &r);
    write_some(&r, 3, 1, 1);
    logger_run(r.logger, note_last, on_noted, &r);
    write_some(&r, 4, 1, 1);
    assert_int_equal(r.done, 0);
    fake_release();
    run_until(&r, 4);
    assert_int_equal(r.done, 3); /* it saw the third, and not the fourth */
    assert_int_equal(stats_of(&r).direct, 4);
    rig_close(&r);
}

static void what_is_written_directly_takes_the_place_of_what_was_there(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, true);
    settle(&r);
    write_some(&r, 1, 10, 1);
    run_until(&r, 10);
    assert_reads(&r, 7, 1); /* read ahead, which must be forgotten */
    write_some(&r, 6, 2, 2);
    run_until(&r, 7);
    struct replica_entry entry;
    assert_reads(&r, 5, 1);
    assert_reads(&r, 7, 2);
    assert_false(logger_read(r.logger, 8, &entry));
    assert_int_equal(stats_of(&r).direct, 2);
    rig_stop(&r);
    rig_start(&r);
    assert_int_equal(log_last(r.store.log), 7);
    assert_reads(&r, 6, 2);
    rig_close(&r);
}

static void a_write_that_the_disk_does_not_take_is_the_thread_s(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, true);
    settle(&r);
    fake.begin = DISK_DIRECT_AGAIN;
    write_some(&r, 1, 1, 1);
    run_until(&r, 1);
    assert_int_equal(stats_of(&r).direct, 0);
    settle(&r);
    fake.end = DISK_DIRECT_AGAIN;
    write_some(&r, 2, 1, 1);
    write_some(&r, 3, 1, 1);
    run_until(&r, 3);
    assert_int_equal(stats_of(&r).direct, 0);
    settle(&r);
    write_some(&r, 4, 1, 1);
    run_until(&r, 4);
    assert_int_equal(stats_of(&r).direct, 1);
    fake.end = DISK_DIRECT_NEVER;
    write_some(&r, 5, 1, 1);
    run_until(&r, 5);
    fake.begin = DISK_DIRECT_FAILED; /* nobody requests any more */
    write_some(&r, 6, 1, 1);
    run_until(&r, 6);
    assert_int_equal(stats_of(&r).direct, 1);
    assert_int_equal(stats_of(&r).entries, 6);
    for (uint64_t i = 1; i <= 6; i++) {
        assert_reads(&r, i, 1);
    }
    assert_int_equal(r.failed + r.full, 0);
    rig_close(&r);
}

/* A file system that finds no space for a direct write: disk_direct.c says AGAIN, and the thread's
 * write meets the same. */
static void a_full_disk_is_waited_out(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, true);
    settle(&r);
    write_some(&r, 1, 1, 1);
    run_until(&r, 1);
    fake.end = DISK_DIRECT_AGAIN;
    atomic_store(&fake.full, 1);
    write_some(&r, 2, 1, 1);
    write_some(&r, 3, 1, 1);
    alarm(60);
    while (r.full == 0) {
        uv_run(&r.loop, UV_RUN_ONCE);
    }
    write_some(&r, 4, 1, 1); /* does not overtake what waits for space */
    assert_null(fake.file);
    run_until(&r, 4);
    while (r.space == 0) {
        uv_run(&r.loop, UV_RUN_ONCE);
    }
    assert_int_equal(r.full, 1);
    assert_int_equal(r.space, 1);
    assert_int_equal(r.failed, 0);
    rig_stop(&r);
    rig_start(&r);
    for (uint64_t i = 1; i <= 4; i++) {
        assert_reads(&r, i, 1);
    }
    rig_close(&r);
}

static void a_write_that_failed_is_the_last(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, true);
    settle(&r);
    write_some(&r, 1, 1, 1);
    run_until(&r, 1);
    fake.hold = true;
    fake.end = DISK_DIRECT_FAILED;
    write_some(&r, 2, 1, 1);
    write_some(&r, 3, 1, 1);
    fake_release();
    alarm(30);
    while (r.failed == 0) {
        uv_run(&r.loop, UV_RUN_ONCE);
    }
    alarm(0);
    assert_string_equal(r.text, "the wheel came off");
    write_some(&r, 4, 1, 1);
    rig_stop(&r);
    assert_int_equal(r.failed, 1);
    assert_int_equal(r.written, 1);
    assert_null(fake.file);
    rig_start(&r);
    assert_int_equal(log_last(r.store.log), 1);
    rig_close(&r);
}

static void a_stop_waits_for_what_is_under_way(void **state)
{
    (void)state;
    static const enum disk_direct ends[] = {DISK_DIRECT_DONE, DISK_DIRECT_AGAIN};
    for (int i = 0; i < 2; i++) {
        struct rig r;
        rig_open(&r, true);
        settle(&r);
        fake.hold = true;
        fake.end = ends[i];
        write_some(&r, 1, 2, 1);
        write_some(&r, 3, 2, 1);
        rig_stop(&r);
        assert_null(fake.file);
        assert_int_equal(r.written, 0); /* it calls nobody */
        fake.hold = false;
        rig_start(&r);
        assert_int_equal(log_last(r.store.log), 4);
        for (uint64_t k = 1; k <= 4; k++) {
            assert_reads(&r, k, 1);
        }
        rig_close(&r);
    }
}

static void the_log_is_sealed_when_nothing_has_come_for_a_while(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, true);
    fake.hold = true; /* so the thread, which wants to make a segment, has to wait for it */
    write_some(&r, 1, 1, 1);
    run_until_begun(&r);
    fake_release();
    run_until(&r, 1);
    settle(&r);
    assert_int_equal(stats_of(&r).direct, 1);
    bool wants = true;
    alarm(60);
    while (wants) {
        usleep(50000);
        logger_lock_all(r.logger);
        wants = log_wants_seal(r.store.log);
        logger_unlock_all(r.logger);
    }
    alarm(0);
    write_some(&r, 2, 1, 1); /* behind the seal */
    run_until(&r, 2);
    assert_int_equal(stats_of(&r).direct, 2);
    rig_stop(&r);
    rig_start(&r);
    assert_reads(&r, 1, 1);
    assert_reads(&r, 2, 1);
    rig_close(&r);
}

/* By the kernel, where it can: several segments, work between the writes, reads beside them. */
static void the_kernel_and_the_thread_take_turns(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, false);
    bool direct = log_is_direct(r.store.log);
    for (uint64_t i = 1; i <= 400; i++) {
        write_some(&r, i, 1, 1);
        if (i % 50 == 0) {
            logger_run(r.logger, note_last, on_noted, &r);
        }
        uv_run(&r.loop, UV_RUN_NOWAIT);
        if (i % 10 == 0) {
            run_until(&r, i);
            assert_reads(&r, i, 1);
        }
        if (r.written > 0) {
            assert_reads(&r, (i * 7) % r.written + 1, 1);
        }
    }
    run_until(&r, 400);
    logger_run(r.logger, note_last, on_noted, &r);
    while (r.done != 400) {
        uv_run(&r.loop, UV_RUN_ONCE);
    }
    assert_int_equal(r.done, 400);
    struct logger_stats stats = stats_of(&r);
    assert_int_equal(stats.entries, 400);
    if (direct) {
        assert_true(stats.direct > 0 && stats.direct < stats.appends);
    }
    rig_stop(&r);
    rig_start(&r);
    assert_int_equal(log_last(r.store.log), 400);
    for (uint64_t i = 1; i <= 400; i++) {
        assert_reads(&r, i, 1);
    }
    rig_close(&r);
    if (!direct) {
        skip();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_loop_reads_and_does_not_wait_while_a_write_is_under_way),
        cmocka_unit_test(what_comes_meanwhile_becomes_one_write),
        cmocka_unit_test(work_waits_for_what_was_requested_before_it_and_is_waited_for),
        cmocka_unit_test(what_is_written_directly_takes_the_place_of_what_was_there),
        cmocka_unit_test(a_write_that_the_disk_does_not_take_is_the_thread_s),
        cmocka_unit_test(a_full_disk_is_waited_out),
        cmocka_unit_test(a_write_that_failed_is_the_last),
        cmocka_unit_test(a_stop_waits_for_what_is_under_way),
        cmocka_unit_test(the_log_is_sealed_when_nothing_has_come_for_a_while),
        cmocka_unit_test(the_kernel_and_the_thread_take_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The event log: what is appended is read back, in order, once, or is declared as a gap. */
#include "event_log_world.h"

static void records_are_read_back(void **state)
{
    struct event_world *w = world_new();
    world_open(w);
    world_entries(w, 200, 7);
    expect_all(w);
    struct event_log_stats stats = world_stats(w);
    assert_int_equal(stats.appended, 400);
    assert_int_equal(stats.dropped, 0);
    assert_int_equal(stats.gaps, 0);
    assert_int_equal(stats.first_index, 0);
    assert_int_equal(stats.last_index, 200);
    assert_int_equal(stats.complete_index, 0);
    assert_int_equal(stats.complete_since_ms, 0);
    assert_int_equal(stats.oldest_ms, WORLD_WALL_MS + 10);
    assert_int_equal(stats.newest.index, 200);
    assert_int_equal(stats.newest.ordinal, 1);
    assert_int_equal(stats.bytes, disk_fake_bytes(w->fake));
    assert_true(stats.segments > 1);
    world_free(w);
}

static void audit_records_have_the_id_of_the_event_before(void **state)
{
    struct event_world *w = world_new();
    world_open(w);
    world_entry(w, 2, 1);
    w->index++;
    for (uint32_t i = 1; i <= 3; i++)
        world_add(w, (struct known_record){.kind = LOGGED_AUDIT,
                                           .id = {1, 1},
                                           .position = {2, EVENT_AUDIT, i},
                                           .seed = 40 + i});
    event_log_applied(w->log, 2, w->wall_ms);
    world_entry(w, 1, 9);
    event_log_write(w->log);
    expect_all(w);

    /* They are read again by who has seen that event. */
    struct event_cursor *c = event_cursor_open(w->log, (struct event_id){1, 1});
    expect_records(w, c, 2, 6);
    expect_end(c);
    event_cursor_close(c);
    c = event_cursor_open(w->log, (struct event_id){1, UINT32_MAX});
    expect_records(w, c, 5, 6);
    expect_end(c);
    event_cursor_close(c);
    world_free(w);
}

static void lossy_events_have_the_id_of_the_newest_event(void **state)
{
    struct event_world *w = world_new();
    world_open(w);
    for (int i = 0; i < 3; i++)
        world_add(w, (struct known_record){.kind = LOGGED_EVENT, .is_lossy = true, .seed = 5});
    world_entry(w, 2, 1);
    for (int i = 0; i < 3; i++)
        world_add(w, (struct known_record){
                         .kind = LOGGED_EVENT, .is_lossy = true, .id = {1, 1}, .seed = 5});
    event_log_applied(w->log, 1, w->wall_ms); /* no entry: published all the same */
    event_log_write(w->log);
    expect_all(w);
    world_crash(w);
    world_open(w);
    world_add(
        w, (struct known_record){.kind = LOGGED_EVENT, .is_lossy = true, .id = {1, 1}, .seed = 6});
    event_log_applied(w->log, 1, w->wall_ms);
    event_log_write(w->log);
    expect_all(w);
    world_free(w);
}

static void entries_that_are_applied_again_are_not_written_twice(void **state)
{
    struct event_world *w = world_new();
    world_open(w);
    world_entries(w, 50, 5);
    world_crash(w);
    world_open(w);
    event_log_skipped(w->log, 20, w->wall_ms); /* the state begins there */
    for (uint32_t i = 40; i < w->count; i++) {
        world_append(w, &w->known[i]);
        if (w->known[i].id.ordinal == 1)
            event_log_applied(w->log, w->known[i].id.index, w->wall_ms);
    }
    world_entries(w, 70, 5);
    expect_all(w);
    assert_int_equal(world_stats(w).gaps, 0);
    assert_int_equal(world_stats(w).last_index, 70);
    world_free(w);
}

static void a_restart_continues_the_segment(void **state)
{
    struct event_world *w = world_new();
    w->segment_bytes = 1 << 20;
    world_open(w);
    for (uint64_t i = 1; i <= 10; i++) {
        world_entries(w, i * 5, 2);
        world_close(w);
        world_open(w);
    }
    expect_all(w);
    assert_int_equal(world_stats(w).segments, 1);
    assert_int_equal(world_stats(w).newest.index, 50);
    world_free(w);
}

static void a_log_that_begins_later_says_so(void **state)
{
    struct event_world *w = world_new();
    world_open(w);
    event_log_skipped(w->log, 5000, 77);
    w->index = 5000;
    world_entries(w, 5010, 3);
    struct event_log_stats stats = world_stats(w);
    assert_int_equal(stats.gaps, 0);
    assert_int_equal(stats.first_index, 5000);
    assert_int_equal(stats.complete_index, 5000);
    assert_int_equal(stats.complete_since_ms, 77);
    expect_all(w); /* from the oldest: no gap */
    struct event_cursor *c = event_cursor_open(w->log, (struct event_id){100, UINT32_MAX});
    expect_gap(c, 100, 5000);
    expect_records(w, c, 0, w->count);
    expect_end(c);
    event_cursor_close(c);
    world_free(w);
}

static void a_snapshot_installed_is_a_gap(void **state)
{
    struct event_world *w = world_new();
    world_open(w);
    world_entries(w, 10, 3);
    w->wall_ms += 1000;
    event_log_skipped(w->log, 100, w->wall_ms);
    w->index = 100;
    event_log_write(w->log);
    assert_int_equal(world_stats(w).gaps, 1); /* at once */
    world_entries(w, 120, 3);
    struct event_log_stats stats = world_stats(w);
    assert_int_equal(stats.gaps, 1);
    assert_int_equal(stats.complete_index, 100);
    assert_int_equal(stats.complete_since_ms, WORLD_WALL_MS + 1100);
    struct event_cursor *c = event_cursor_open(w->log, (struct event_id){5, 0});
    expect_records(w, c, 9, 20);
    expect_gap(c, 10, 100);
    expect_records(w, c, 20, 60);
    expect_end(c);
    event_cursor_close(c);
    /* In the gap, and on its edge. */
    c = event_cursor_open(w->log, (struct event_id){50, 3});
    expect_gap(c, 49, 100);
    expect_records(w, c, 20, 60);
    event_cursor_close(c);
    c = event_cursor_open(w->log, (struct event_id){100, UINT32_MAX});
    expect_records(w, c, 20, 60);
    event_cursor_close(c);
    world_crash(w);
    world_open(w);
    assert_int_equal(world_stats(w).gaps, 1);
    world_free(w);
}

static void a_tail_that_is_not_applied_again_is_a_gap(void **state)
{
    struct event_world *w = world_new();
    world_open(w);
    world_entries(w, 10, 1);
    world_entry(w, 2, 1); /* never written */
    struct disk_fake *copy = disk_fake_copy(w->fake, 1);
    world_close(w);
    disk_fake_free(w->fake);
    w->fake = copy;
    world_open(w);
    event_log_skipped(w->log, 11, w->wall_ms);
    event_log_write(w->log);
    struct event_cursor *c = event_cursor_open(w->log, (struct event_id){10, 1});
    expect_gap(c, 10, 11);
    expect_end(c);
    event_cursor_close(c);
    world_free(w);
}

static void entries_without_records_are_no_gap(void **state)
{
    struct event_world *w = world_new();
    world_open(w);
    world_entries(w, 10, 3);
    for (uint64_t i = 11; i <= 30; i++)
        event_log_applied(w->log, i, w->wall_ms);
    w->index = 30;
    event_log_write(w->log);
    assert_int_equal(world_stats(w).last_index, 30);
    world_close(w); /* writes what is covered */
    world_open(w);
    event_log_skipped(w->log, 30, w->wall_ms);
    world_entries(w, 40, 3);
    expect_all(w);
    assert_int_equal(world_stats(w).gaps, 0);
    world_free(w);
}

static void a_full_buffer_is_a_gap(void **state)
{
    struct event_world *w = world_new();
    w->buffer_bytes = 32 << 10;
    world_open(w);
    world_entries(w, 5, 1);
    uint32_t before = w->count;
    while (world_stats(w).dropped == 0)
        world_entry(w, 1, 8);
    uint64_t lost_from = w->index - 1;
    uint32_t kept = w->count - 1;
    world_entry(w, 1, 8);
    world_entry(w, 1, 8);
    assert_true(kept > before + 50);
    event_log_write(w->log);
    event_log_applied(w->log, w->index, w->wall_ms); /* space again */
    uint64_t lost_to = w->index;
    uint32_t next = w->count;
    assert_int_equal(world_stats(w).dropped, 3);
    world_entries(w, w->index + 20, 4);
    assert_int_equal(world_stats(w).gaps, 1);
    struct event_cursor *c = event_cursor_open(w->log, (struct event_id){0, 0});
    expect_records(w, c, 0, kept);
    expect_gap(c, lost_from, lost_to);
    expect_records(w, c, next, w->count);
    expect_end(c);
    event_cursor_close(c);
    world_free(w);
}

static void a_full_disk_is_tried_again(void **state)
{
    struct event_world *w = world_new();
    world_open(w);
    world_entries(w, 20, 4);
    disk_fake_set_capacity(w->fake, disk_fake_bytes(w->fake) + 100);
    for (int i = 0; i < 3; i++) {
        world_entry(w, 2, 3);
        event_log_write(w->log);
        assert_true(world_stats(w).disk_full);
    }
    disk_fake_set_capacity(w->fake, UINT64_MAX);
    event_log_write(w->log);
    assert_false(world_stats(w).disk_full);
    expect_all(w);
    assert_int_equal(world_stats(w).dropped, 0);
    assert_int_equal(world_stats(w).appended, w->count);
    world_free(w);
}

static void a_disk_that_stays_full_is_a_gap(void **state)
{
    struct event_world *w = world_new();
    w->buffer_bytes = 32 << 10;
    world_open(w);
    world_entries(w, 20, 4);
    disk_fake_set_capacity(w->fake, disk_fake_bytes(w->fake) + 100);
    for (int i = 0; i < 2000; i++) {
        world_entry(w, 1, 3);
        event_log_write(w->log);
    }
    assert_true(world_stats(w).dropped > 1000);
    disk_fake_set_capacity(w->fake, UINT64_MAX);
    event_log_write(w->log);
    event_log_applied(w->log, w->index, w->wall_ms);
    uint64_t to = w->index;
    uint32_t next = w->count;
    world_entries(w, w->index + 20, 4);
    struct event_cursor *c = event_cursor_open(w->log, (struct event_id){0, 0});
    struct event_step step;
    uint32_t i = 0;
    for (; cursor_step(c, &step) == EVENT_READ_RECORD; i++)
        assert_true(same_record(&step.record, &w->known[i]));
    assert_int_equal(step.gap_from, w->known[i - 1].id.index);
    assert_int_equal(step.gap_to, to);
    expect_records(w, c, next, w->count);
    expect_end(c);
    event_cursor_close(c);
    world_free(w);
}

/* The disk fails at each of its operations in turn. */
static void a_failed_operation_loses_nothing(void **state)
{
    bool has_failed = true;
    for (uint64_t n = 0; has_failed; n++) {
        struct event_world *w = world_new();
        w->segment_bytes = 2048;
        world_open(w);
        disk_fake_fail_after(w->fake, n, n % 2 == 0 ? STORAGE_FULL : STORAGE_IO);
        for (int i = 0; i < 30; i++) {
            world_entry(w, 3, (uint64_t)i);
            event_log_write(w->log);
        }
        has_failed = disk_fake_has_failed(w->fake);
        assert_true(has_failed || n > 40);
        event_log_write(w->log);
        expect_all(w);
        world_crash(w);
        world_open(w);
        expect_all(w);
        world_free(w);
    }
}

static void old_segments_are_removed_by_bytes(void **state)
{
    struct event_world *w = world_new();
    w->max_bytes = 100 << 10;
    w->segment_bytes = 10 << 10;
    world_open(w);
    struct event_cursor *late = event_cursor_open(w->log, (struct event_id){0, 0});
    world_entries(w, 5, 5);
    expect_records(w, late, 0, 10);
    for (uint64_t i = 1; i <= 20; i++) {
        world_entries(w, i * 100, 10);
        assert_true(disk_fake_bytes(w->fake) <= w->max_bytes);
    }
    struct event_log_stats stats = world_stats(w);
    assert_true(stats.first_index > 1000);
    assert_true(stats.bytes > w->max_bytes / 2);
    assert_int_equal(stats.bytes, disk_fake_bytes(w->fake));
    assert_int_equal(stats.gaps, 0);
    assert_int_equal(stats.complete_index, stats.first_index);
    assert_true(stats.complete_since_ms > WORLD_WALL_MS);

    /* One that fell behind reads the segment that it has open, and then a gap. */
    struct event_step step;
    uint32_t i = 10;
    for (; cursor_step(late, &step) == EVENT_READ_RECORD; i++)
        assert_true(same_record(&step.record, &w->known[i]));
    assert_int_equal(step.gap_from, w->known[i - 1].id.index);
    assert_int_equal(step.gap_to, stats.first_index);
    expect_records(w, late, (uint32_t)stats.first_index * 2, w->count);
    expect_end(late);
    event_cursor_close(late);
    world_free(w);
}

/* Frames, and with them segments, end within what is written at once; entries of many events, too. */
static void no_entry_is_lost_between_segments(void **state)
{
    for (uint32_t events = 1; events <= 820; events += events < 20 ? 1 : 160) {
        struct event_world *w = world_new();
        w->segment_bytes = 20 << 10;
        world_open(w);
        while (w->count + events < 4000) {
            w->wall_ms += 10;
            world_entry(w, events, w->index * 3);
        }
        event_log_write(w->log);
        expect_all(w);
        uint32_t segments = (uint32_t)world_stats(w).segments;
        assert_true(segments > 1);
        world_close(w);
        for (uint32_t i = 1; i < segments; i++) {
            char name[64];
            snprintf(name, sizeof(name), "%020u.events", i << 16);
            assert_true(disk_fake_remove(w->fake, name));
            world_open(w);
            uint32_t first = (uint32_t)world_stats(w).first_index * events;
            struct event_cursor *c = event_cursor_open(w->log, (struct event_id){0, UINT32_MAX});
            expect_gap(c, 0, first / events);
            expect_records(w, c, first, w->count);
            expect_end(c);
            event_cursor_close(c);
            world_close(w);
        }
        world_free(w);
    }
}

static void old_segments_are_removed_by_age(void **state)
{
    struct event_world *w = world_new();
    w->max_age_ms = 64000;
    w->segment_bytes = 1 << 20;
    world_open(w);
    for (uint64_t i = 1; i <= 100; i++) {
        w->wall_ms += 1000;
        world_entry(w, 2, i);
        event_log_write(w->log);
    }
    struct event_log_stats stats = world_stats(w);
    assert_true(stats.oldest_ms + w->max_age_ms + 6000 >= w->wall_ms);
    assert_true(stats.first_index > 25 && stats.first_index < 40);
    assert_true(stats.segments > 10);
    w->wall_ms += 2 * w->max_age_ms; /* the newest one, too */
    event_log_write(w->log);
    stats = world_stats(w);
    assert_int_equal(stats.segments, 0);
    assert_int_equal(stats.first_index, 100);
    assert_int_equal(disk_fake_bytes(w->fake), 0);
    w->count = 0;
    world_entries(w, 110, 3);
    expect_all(w);
    world_free(w);
}

static void files_of_another_cluster_are_removed(void **state)
{
    struct event_world *w = world_new();
    world_open(w);
    world_entries(w, 200, 3);
    world_close(w);
    assert_true(disk_fake_put(w->fake, "README", "hello", 5));
    w->cluster = (struct id){3, 4};
    world_open(w);
    assert_int_equal(world_stats(w).segments, 0);
    assert_int_equal(disk_fake_bytes(w->fake), 5); /* not ours */
    w->count = 0;
    w->index = 0;
    world_entries(w, 10, 3);
    expect_all(w);
    world_free(w);
}

static void a_segment_that_is_gone_is_a_gap(void **state)
{
    struct event_world *w = world_new();
    w->segment_bytes = 4096;
    world_open(w);
    world_entries(w, 100, 2);
    world_close(w);
    assert_true(disk_fake_remove(w->fake, "00000000000000131072.events"));
    world_open(w);
    assert_int_equal(world_stats(w).gaps, 1);
    struct event_cursor *c = event_cursor_open(w->log, (struct event_id){0, 0});
    struct event_step step;
    uint32_t i = 0;
    for (; cursor_step(c, &step) == EVENT_READ_RECORD; i++)
        assert_true(same_record(&step.record, &w->known[i]));
    assert_int_equal(step.gap_from, i / 2);
    expect_records(w, c, (uint32_t)step.gap_to * 2, w->count);
    expect_end(c);
    event_cursor_close(c);
    world_free(w);
}

static void positions_as_text(void **state)
{
    char text[EVENT_CURSOR_TEXT];
    struct event_position p = {LIMIT_NUMBER - 1, UINT32_MAX, UINT32_MAX};
    struct event_position q;
    event_position_format(p, text);
    assert_true(event_position_parse(slice_of(text), &q));
    assert_memory_equal(&p, &q, sizeof(p));
    assert_true(event_position_parse(slice_of("0-0-0"), &q));
    const char *bad[] = {"",
                         "1",
                         "1-2",
                         "1-2-",
                         "-1-2-3",
                         "1-2-3-",
                         "1-2-3 ",
                         "01-2-3",
                         "1--3",
                         "1-4294967296-3",
                         "18446744073709551616-0-0",
                         "a-b-c"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(event_position_parse(slice_of(bad[i]), &q));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_are_read_back),
        cmocka_unit_test(audit_records_have_the_id_of_the_event_before),
        cmocka_unit_test(lossy_events_have_the_id_of_the_newest_event),
        cmocka_unit_test(entries_that_are_applied_again_are_not_written_twice),
        cmocka_unit_test(a_restart_continues_the_segment),
        cmocka_unit_test(a_log_that_begins_later_says_so),
        cmocka_unit_test(a_snapshot_installed_is_a_gap),
        cmocka_unit_test(a_tail_that_is_not_applied_again_is_a_gap),
        cmocka_unit_test(entries_without_records_are_no_gap),
        cmocka_unit_test(a_full_buffer_is_a_gap),
        cmocka_unit_test(a_full_disk_is_tried_again),
        cmocka_unit_test(a_disk_that_stays_full_is_a_gap),
        cmocka_unit_test(a_failed_operation_loses_nothing),
        cmocka_unit_test(old_segments_are_removed_by_bytes),
        cmocka_unit_test(no_entry_is_lost_between_segments),
        cmocka_unit_test(old_segments_are_removed_by_age),
        cmocka_unit_test(files_of_another_cluster_are_removed),
        cmocka_unit_test(a_segment_that_is_gone_is_a_gap),
        cmocka_unit_test(positions_as_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

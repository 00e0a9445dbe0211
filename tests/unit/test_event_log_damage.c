/* Damaged files of the event log: what is read was appended; what is missing is
 * a gap, or the end of the log. */
#include "event_log_world.h"

/* Reads everything: records are known ones in order, what is between them is in
 * a gap. Returns the index of the next known record that should have come:
 * `count` if all were read or declared. */
static uint32_t read_what_is_left(struct event_world *w, uint64_t *gap_entries)
{
    struct event_cursor *c = event_cursor_open(w->log, (struct event_id){0, 0});
    struct event_step step;
    enum event_read read;
    uint32_t at = 0;
    uint64_t covered = 0; /* by gaps */
    *gap_entries = 0;
    while ((read = cursor_step(c, &step)) != EVENT_READ_END) {
        if (read == EVENT_READ_GAP) {
            assert_true(step.gap_from < step.gap_to);
            *gap_entries += step.gap_to - step.gap_from;
            covered = step.gap_to;
            continue;
        }
        while (at < w->count && !same_record(&step.record, &w->known[at])) {
            /* Undeclared: a part of an entry whose rest was lost may be before its
       * gap. */
            if (w->known[at].position.index > covered)
                fail_msg("record %u, %llu-%u, is missing", at,
                         (unsigned long long)w->known[at].id.index, w->known[at].id.ordinal);
            at++;
        }
        if (at == w->count)
            fail_msg("a record that was not appended: %llu-%u",
                     (unsigned long long)step.record.id.index, step.record.id.ordinal);
        at++;
    }
    while (at < w->count && w->known[at].position.index <= covered)
        at++;
    event_cursor_close(c);
    return at;
}

/* The state says that entries up to w->index were applied, and goes on. */
static void go_on(struct event_world *w)
{
    event_log_skipped(w->log, w->index, w->wall_ms);
    world_entry(w, 2, 1);
    event_log_write(w->log);
}

static struct event_world *small_log(void)
{
    struct event_world *w = world_new();
    w->segment_bytes = 2500;
    world_open(w);
    world_entries(w, 40, 4);
    return w;
}

static const char *file_name(char out[64], unsigned number)
{
    snprintf(out, 64, "%020u.events", number << 16);
    return out;
}

static void a_tail_cut_at_each_byte_is_recovered(void **state)
{
    struct event_world *w = small_log();
    char name[64];
    uint64_t size = 0;
    unsigned newest = (unsigned)world_stats(w).segments;
    world_crash(w);
    const uint8_t *file = disk_fake_file(w->fake, file_name(name, newest), &size);
    assert_non_null(file);
    uint8_t *bytes = malloc(size);
    memcpy(bytes, file, size);
    struct disk_fake *original = w->fake;
    uint32_t whole = w->count;
    uint32_t before = UINT32_MAX;
    for (uint64_t cut = size + 1; cut-- > 0;) {
        uint64_t gaps;
        w->fake = disk_fake_copy(original, 1);
        w->count = whole;
        w->index = 40;
        assert_true(disk_fake_put(w->fake, name, bytes, cut));
        world_open(w);
        uint32_t left = read_what_is_left(w, &gaps);
        assert_int_equal(gaps, 0); /* not known yet */
        assert_true(left <= before && (cut < size || left == whole));
        before = left;
        struct event_log_stats stats = world_stats(w);
        assert_int_equal(stats.bytes, disk_fake_bytes(w->fake));

        /* Applied again: nothing is missing. */
        struct disk_fake *copy = disk_fake_copy(w->fake, 1);
        for (uint32_t i = 0; i < whole; i++) {
            world_append(w, &w->known[i]);
            if (w->known[i].id.ordinal == 1)
                event_log_applied(w->log, w->known[i].id.index, w->wall_ms);
        }
        event_log_write(w->log);
        expect_all(w);
        assert_int_equal(world_stats(w).gaps, 0);
        world_close(w);
        disk_fake_free(w->fake);

        /* Not applied again: a gap. */
        w->fake = copy;
        world_open(w);
        go_on(w);
        assert_int_equal(read_what_is_left(w, &gaps), w->count);
        assert_int_equal(gaps, 40 - left / 2);
        assert_int_equal(world_stats(w).gaps, left < whole);
        world_close(w);
        disk_fake_free(w->fake);
    }
    w->fake = original;
    free(bytes);
    world_free(w);
}

/* Without its first file the log begins later, which is no gap. */
static void forget_what_is_before_the_log(struct event_world *w)
{
    uint32_t from = (uint32_t)world_stats(w).first_index * 2;
    w->count = world_stats(w).segments == 0 ? from : w->count;
    memmove(w->known, w->known + from, (w->count - from) * sizeof(w->known[0]));
    w->count -= from;
}

/* In all files: after the flip the log is opened, and the same log is read
 * while it is open. */
static void a_flipped_bit_is_found(void **state)
{
    struct event_world *w = small_log();
    unsigned segments = (unsigned)world_stats(w).segments;
    world_crash(w);
    struct disk_fake *original = w->fake;
    struct known_record *known = malloc(sizeof(w->known));
    memcpy(known, w->known, sizeof(w->known));
    uint32_t whole = w->count;
    for (unsigned number = 1; number <= segments; number++) {
        char name[64];
        uint64_t size = 0;
        file_name(name, number);
        assert_non_null(disk_fake_file(original, name, &size));
        for (uint64_t offset = 0; offset < size; offset += size < 500 ? 1 : 3) {
            uint64_t gaps;
            w->fake = disk_fake_copy(original, 1);
            w->count = whole;
            w->index = 40;
            assert_true(disk_fake_flip(w->fake, name, offset, (unsigned)(offset % 8)));
            world_open(w);
            forget_what_is_before_the_log(w);
            go_on(w);
            assert_int_equal(read_what_is_left(w, &gaps), w->count);
            world_close(w);
            disk_fake_free(w->fake);

            w->fake = disk_fake_copy(original, 1);
            memcpy(w->known, known, sizeof(w->known));
            w->count = whole;
            w->index = 40;
            world_open(w);
            assert_true(disk_fake_flip(w->fake, name, offset, (unsigned)(offset % 8)));
            go_on(w);
            assert_int_equal(read_what_is_left(w, &gaps), w->count);
            if (gaps > 0)
                assert_true(world_stats(w).gaps > 0);
            world_close(w);
            disk_fake_free(w->fake);
        }
    }
    w->fake = original;
    free(known);
    world_free(w);
}

/* Searches in both directions find the same records and the same gap. */
static void a_search_declares_damage(void **state)
{
    struct event_world *w = world_new();
    w->segment_bytes = 1 << 20;
    world_open(w);
    world_entries(w, 2000, 4); /* several blocks in one segment */
    char name[64];
    assert_true(disk_fake_flip(w->fake, file_name(name, 1), 100000, 3));
    struct event_gap gaps[2];
    uint32_t counts[2] = {0, 0};
    for (int backward = 0; backward < 2; backward++) {
        struct event_scan scan = {.kinds = SCAN_EVENTS,
                                  .all_tenants = true,
                                  .newest_first = backward == 1,
                                  .limit = EVENT_SCAN_RECORDS};
        struct event_page page;
        struct problem problem;
        uint32_t found = 0;
        do {
            assert_int_equal(event_scan_page(w->log, &scan, &page, &problem), HF_OK);
            counts[backward] += page.count;
            for (uint32_t i = 0; i < page.gap_count; i++) {
                assert_int_equal(found++, 0);
                gaps[backward] = page.gaps[i];
            }
            scan.is_continued = true;
            scan.after = page.next;
            event_page_close(w->log, &page);
        } while (page.more);
        assert_int_equal(found, 1);
    }
    assert_int_equal(counts[0], counts[1]);
    assert_int_equal(gaps[0].from, gaps[1].from);
    assert_int_equal(gaps[0].to, gaps[1].to);
    assert_int_equal(counts[0], w->count - 2 * (gaps[0].to - gaps[0].from));
    assert_int_equal(world_stats(w).gaps, 1);
    world_free(w);
}

/* A power cut may leave any part of what was not synced: here nothing was. */
static void a_power_cut_leaves_records_or_gaps(void **state)
{
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct event_world *w = small_log();
        struct disk_fake *copy = disk_fake_copy(w->fake, seed);
        world_close(w);
        disk_fake_free(w->fake);
        w->fake = copy;
        disk_fake_set_garbage(w->fake, seed % 2 == 0);
        disk_fake_power_cut(w->fake);
        uint64_t gaps;
        world_open(w);
        forget_what_is_before_the_log(w);
        go_on(w);
        assert_int_equal(read_what_is_left(w, &gaps), w->count);
        world_free(w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tail_cut_at_each_byte_is_recovered),
        cmocka_unit_test(a_flipped_bit_is_found),
        cmocka_unit_test(a_search_declares_damage),
        cmocka_unit_test(a_power_cut_leaves_records_or_gaps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

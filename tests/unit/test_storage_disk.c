/* Tests of both disks: the real one and the one in memory answer alike, and the one in memory
 * breaks exactly what it may. */
#include "storage_testing.h"

#include "storage/disk_posix.h"
#include "temporary.h"

/* ---- alike ---- */

struct seen {
    unsigned count;
    bool found;
    const char *looking_for;
};

static void see(void *ctx, const char *name)
{
    struct seen *seen = ctx;
    seen->count++;
    seen->found = seen->found || strcmp(name, seen->looking_for) == 0;
}

static struct seen look(struct disk *disk, const char *name)
{
    struct problem problem;
    struct seen seen = {.looking_for = name};
    assert_done(disk_list(disk, see, &seen, &problem));
    return seen;
}

static void check_names(struct disk *disk)
{
    struct problem problem;
    struct disk_file *file, *other;
    assert_problem(disk_open(disk, "a", DISK_READ, &file, &problem), STORAGE_MISSING, "a");
    assert_problem(disk_open(disk, "a", DISK_WRITE, &file, &problem), STORAGE_MISSING, "a");
    assert_done(disk_open(disk, "a", DISK_CREATE, &file, &problem));
    assert_problem(disk_open(disk, "a", DISK_CREATE, &other, &problem), STORAGE_EXISTS, "a");
    assert_true(look(disk, "a").found);
    assert_done(disk_write(file, 0, "first", 5, &problem));
    assert_done(disk_rename_file(disk, file, "b", &problem));
    assert_string_equal(file->name, "b");
    assert_false(look(disk, "a").found);
    assert_done(disk_open(disk, "a", DISK_CREATE, &other, &problem));
    assert_done(disk_write(other, 0, "second", 6, &problem));
    assert_done(disk_rename(disk, "a", "b", &problem)); /* replaces */
    assert_int_equal(look(disk, "b").count, 1);
    assert_problem(disk_rename(disk, "a", "c", &problem), STORAGE_MISSING, "a");
    char bytes[8] = "";
    size_t got;
    assert_done(disk_read(file, 0, bytes, 8, &got, &problem)); /* still open */
    assert_memory_equal(bytes, "first", 5);
    assert_done(disk_unlink(disk, "b", &problem));
    assert_done(disk_read(other, 0, bytes, 8, &got, &problem));
    assert_memory_equal(bytes, "second", 6);
    assert_problem(disk_unlink(disk, "b", &problem), STORAGE_MISSING, "b");
    assert_done(disk_remove(disk, "b", &problem));
    assert_done(disk_sync_folder(disk, &problem));
    disk_close(file);
    disk_close(other);
    disk_close(NULL);
    assert_int_equal(look(disk, "b").count, 0);
}

static void check_bytes(struct disk *disk)
{
    struct problem problem;
    struct disk_file *file;
    char bytes[64];
    size_t got;
    uint64_t size;
    assert_done(disk_open(disk, "file", DISK_CREATE, &file, &problem));
    assert_done(disk_read(file, 0, bytes, 10, &got, &problem));
    assert_int_equal(got, 0);
    assert_done(disk_write(file, 10, "hello", 5, &problem));
    assert_done(disk_size(file, &size, &problem));
    assert_int_equal(size, 15);
    assert_done(disk_read(file, 0, bytes, 64, &got, &problem));
    assert_int_equal(got, 15);
    assert_memory_equal(bytes, "\0\0\0\0\0\0\0\0\0\0hello", 15);
    assert_done(disk_read(file, 20, bytes, 10, &got, &problem));
    assert_int_equal(got, 0);
    assert_problem(disk_read_all(file, 10, bytes, 6, &problem), STORAGE_CORRUPT,
                   "file is cut off: it ends at byte 15, at least 16 were expected");
    assert_done(disk_truncate(file, 12, &problem));
    assert_done(disk_truncate(file, 14, &problem));
    assert_done(disk_read_all(file, 10, bytes, 4, &problem));
    assert_memory_equal(bytes, "he\0\0", 4);
    assert_done(disk_sync(file, &problem));
    disk_close(file);
    assert_done(disk_open(disk, "file", DISK_READ, &file, &problem));
    assert_done(disk_read_all(file, 10, bytes, 4, &problem));
    disk_close(file);
    uint64_t space;
    assert_done(disk_space(disk, &space, &problem));
    assert_true(space > 0);
    struct disk_file *lock, *second;
    assert_done(disk_lock(disk, "lock", &lock, &problem));
    assert_problem(disk_lock(disk, "lock", &second, &problem), STORAGE_LOCKED, "in use");
    disk_close(lock);
    assert_done(disk_lock(disk, "lock", &second, &problem));
    disk_close(second);
    assert_done(disk_unlink(disk, "file", &problem));
    assert_done(disk_remove(disk, "lock", &problem));
}

static void the_disk_in_memory_keeps_the_promises(void **state)
{
    (void)state;
    struct disk_fake *fake = disk_fake_new(1);
    check_names(disk_fake_disk(fake));
    check_bytes(disk_fake_disk(fake));
    disk_fake_free(fake);
}

static void the_real_disk_keeps_the_promises(void **state)
{
    (void)state;
    struct problem problem;
    const char *path = temporary_folder(NULL);
    char folder[320];
    snprintf(folder, sizeof(folder), "%s/made/", path);
    struct disk *disk;
    assert_done(disk_posix_new(folder, &disk, &problem));
    check_names(disk);
    check_bytes(disk);
    disk_posix_free(disk);
    assert_done(disk_posix_new(folder, &disk, &problem)); /* it is there now */
    disk_posix_free(disk);
    disk_posix_free(NULL);
    assert_int_equal(rmdir(folder), 0); /* nothing is left in it */
    temporary_remove(path);
}

static void problems_of_the_real_disk_name_operation_and_path(void **state)
{
    (void)state;
    struct problem problem;
    struct disk *disk;
    assert_problem(disk_posix_new("/tmp/no/such/place", &disk, &problem), STORAGE_MISSING,
                   "cannot make the folder /tmp/no/such/place: No such file");
    assert_problem(disk_posix_new("/dev/null", &disk, &problem), STORAGE_DENIED, "/dev/null");
    const char *path = temporary_folder(NULL);
    char said[320];
    snprintf(said, sizeof(said), "cannot open %s/", path);
    assert_done(disk_posix_new(path, &disk, &problem));
    struct disk_file *file;
    assert_problem(disk_open(disk, "log-1", DISK_READ, &file, &problem), STORAGE_MISSING, said);
    assert_problem(disk_open(disk, "log-1", DISK_READ, &file, &problem), STORAGE_MISSING,
                   "/log-1: No such file or directory");
    disk_posix_free(disk);
    temporary_remove(path);
    /* A device that is always full. */
    assert_done(disk_posix_new("/dev", &disk, &problem));
    assert_done(disk_open(disk, "full", DISK_WRITE, &file, &problem));
    assert_problem(disk_write(file, 0, "x", 1, &problem), STORAGE_FULL,
                   "cannot write /dev/full: No space left on device");
    disk_close(file);
    disk_posix_free(disk);
}

/* ---- what the disk in memory breaks ---- */

enum { SECTORS = 8 };

static struct disk_file *make_file(struct disk_fake *fake, const char *name, char fill)
{
    struct problem problem;
    struct disk_file *file;
    char bytes[SECTORS * 512];
    memset(bytes, fill, sizeof(bytes));
    assert_done(disk_open(disk_fake_disk(fake), name, DISK_CREATE, &file, &problem));
    assert_done(disk_write(file, 0, bytes, sizeof(bytes), &problem));
    assert_done(disk_sync(file, &problem));
    assert_done(disk_sync_folder(disk_fake_disk(fake), &problem));
    return file;
}

static void fill(struct disk_file *file, char with)
{
    struct problem problem;
    char bytes[SECTORS * 512];
    memset(bytes, with, sizeof(bytes));
    assert_done(disk_write(file, 0, bytes, sizeof(bytes), &problem));
}

/* How many of the sectors have that content; each has one throughout. */
static unsigned sectors_with(const struct disk_fake *fake, const char *name, char with)
{
    uint64_t size;
    const uint8_t *bytes = disk_fake_file(fake, name, &size);
    assert_int_equal(size, SECTORS * 512);
    unsigned count = 0;
    for (uint64_t at = 0; at < size; at += 512) {
        for (uint64_t i = 1; i < 512; i++)
            assert_int_equal(bytes[at], bytes[at + i]);
        count += bytes[at] == (uint8_t)with;
    }
    return count;
}

static void a_crash_keeps_what_was_written_and_kills_handles(void **state)
{
    (void)state;
    struct problem problem;
    struct disk_fake *fake = disk_fake_new(1);
    struct disk_file *file = make_file(fake, "a", 'o');
    struct disk_file *lock;
    assert_done(disk_lock(disk_fake_disk(fake), "lock", &lock, &problem));
    fill(file, 'n');
    disk_fake_crash(fake);
    assert_int_equal(sectors_with(fake, "a", 'n'), SECTORS);
    assert_problem(disk_write(file, 0, "x", 1, &problem), STORAGE_IO, "earlier life");
    assert_problem(disk_sync(file, &problem), STORAGE_IO, "earlier life");
    disk_close(file);
    disk_close(lock);
    assert_done(disk_lock(disk_fake_disk(fake), "lock", &lock, &problem));
    disk_close(lock);
    /* It is still not durable: of two hundred power cuts some lose it. */
    unsigned lost = 0;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct disk_fake *copy = disk_fake_copy(fake, seed);
        disk_fake_power_cut(copy);
        lost += sectors_with(copy, "a", 'n') < SECTORS;
        disk_fake_free(copy);
    }
    assert_true(lost > 50);
    disk_fake_free(fake);
}

static void a_power_cut_tears_what_was_not_synced_and_nothing_else(void **state)
{
    (void)state;
    struct problem problem;
    unsigned none = 0, all = 0, some = 0;
    for (uint64_t seed = 0; seed < 600; seed++) {
        struct disk_fake *fake = disk_fake_new(seed);
        struct disk_file *file = make_file(fake, "a", 'o');
        struct disk_file *other = make_file(fake, "b", 'o');
        fill(file, 'n');
        fill(other, 'n');
        assert_done(disk_sync(other, &problem));
        disk_fake_power_cut(fake);
        assert_int_equal(sectors_with(fake, "b", 'n'), SECTORS);
        unsigned kept = sectors_with(fake, "a", 'n');
        assert_int_equal(kept + sectors_with(fake, "a", 'o'), SECTORS);
        none += kept == 0;
        all += kept == SECTORS;
        some += kept > 0 && kept < SECTORS;
        disk_close(file);
        disk_close(other);
        disk_fake_free(fake);
    }
    assert_true(none > 100 && all > 100 && some > 100);
}

static void names_that_were_not_synced_may_be_lost_but_never_by_half(void **state)
{
    (void)state;
    struct problem problem;
    unsigned outcomes[8] = {0};
    for (uint64_t seed = 0; seed < 400; seed++) {
        struct disk_fake *fake = disk_fake_new(seed);
        struct disk *disk = disk_fake_disk(fake);
        disk_close(make_file(fake, "a", 'a'));
        disk_close(make_file(fake, "b", 'b'));
        disk_close(make_file(fake, "d", 'd'));
        assert_done(disk_rename(disk, "a", "b", &problem));
        assert_done(disk_unlink(disk, "d", &problem));
        struct disk_file *file;
        assert_done(disk_open(disk, "e", DISK_CREATE, &file, &problem));
        disk_close(file);
        disk_fake_power_cut(fake);
        bool renamed = !look(disk, "a").found;
        assert_int_equal(sectors_with(fake, "b", renamed ? 'a' : 'b'), SECTORS);
        outcomes[(renamed ? 1 : 0) + (look(disk, "d").found ? 0 : 2) +
                 (look(disk, "e").found ? 4 : 0)]++;
        disk_fake_free(fake);
    }
    for (int i = 0; i < 8; i++) /* each by itself, in any combination */
        assert_true(outcomes[i] > 0);
}

static void what_a_failed_sync_lost_is_visible_but_never_durable(void **state)
{
    (void)state;
    struct problem problem;
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct disk_fake *fake = disk_fake_new(seed);
        struct disk_file *file = make_file(fake, "a", 'o');
        fill(file, 'n');
        disk_fake_fail_after(fake, 0, STORAGE_IO);
        assert_problem(disk_sync(file, &problem), STORAGE_IO, "injected");
        assert_true(disk_fake_has_failed(fake));
        assert_done(disk_sync(file, &problem)); /* as if all were well */
        assert_int_equal(sectors_with(fake, "a", 'n'), SECTORS);
        assert_done(disk_write(file, 0, "later", 5, &problem));
        assert_done(disk_sync(file, &problem));
        disk_fake_power_cut(fake);
        uint64_t size;
        const uint8_t *bytes = disk_fake_file(fake, "a", &size);
        assert_memory_equal(bytes, "lateroooo", 9);
        disk_close(file);
        disk_fake_free(fake);
    }
}

static void it_stops_fails_and_fills_up_as_set(void **state)
{
    (void)state;
    struct problem problem;
    struct disk_fake *fake = disk_fake_new(1);
    struct disk *disk = disk_fake_disk(fake);
    struct disk_file *file = make_file(fake, "a", 'o');
    disk_fake_stop_after(fake, 1);
    fill(file, 'p');
    assert_false(disk_fake_has_stopped(fake));
    assert_problem(disk_sync(file, &problem), STORAGE_IO, "stopped");
    assert_true(disk_fake_has_stopped(fake));
    assert_problem(disk_unlink(disk, "a", &problem), STORAGE_IO, "stopped");
    disk_close(file);
    disk_fake_crash(fake);
    assert_done(disk_open(disk, "a", DISK_WRITE, &file, &problem));
    disk_fake_fail_after(fake, 1, STORAGE_DENIED);
    fill(file, 'q');
    assert_problem(disk_sync(file, &problem), STORAGE_DENIED, "cannot sync a");
    assert_done(disk_sync(file, &problem));
    disk_fake_set_capacity(fake, SECTORS * 512 + 100);
    char bytes[200] = "";
    uint64_t size, space;
    assert_done(disk_space(disk, &space, &problem));
    assert_int_equal(space, 100);
    assert_problem(disk_write(file, SECTORS * 512, bytes, 200, &problem), STORAGE_FULL, "full");
    assert_done(disk_size(file, &size, &problem));
    assert_int_equal(size, SECTORS * 512 + 100); /* by half */
    fill(file, 'r');                             /* what is allocated can be written */
    assert_true(disk_fake_flip(fake, "a", 3, 0));
    assert_false(disk_fake_flip(fake, "a", 1 << 20, 0));
    disk_close(file);
    disk_fake_free(fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_disk_in_memory_keeps_the_promises),
        cmocka_unit_test(the_real_disk_keeps_the_promises),
        cmocka_unit_test(problems_of_the_real_disk_name_operation_and_path),
        cmocka_unit_test(a_crash_keeps_what_was_written_and_kills_handles),
        cmocka_unit_test(a_power_cut_tears_what_was_not_synced_and_nothing_else),
        cmocka_unit_test(names_that_were_not_synced_may_be_lost_but_never_by_half),
        cmocka_unit_test(what_a_failed_sync_lost_is_visible_but_never_durable),
        cmocka_unit_test(it_stops_fails_and_fills_up_as_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

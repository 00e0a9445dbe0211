/* Tests of appends in two halves, with the write between them in other hands (storage/log.h). That
 * a power cut at any point is survived is test_storage_log_crash.c's, which does half of its
 * appends so; here is what may happen to the write itself. And one on a real folder. */
#include "storage_log_fixture.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "storage/disk_posix.h"
#include "temporary.h"

static int setup_direct(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    f->fake = disk_fake_new(1);
    f->segment_bytes = SMALL;
    f->direct = true;
    naive_init(&f->naive);
    struct problem problem;
    assert_done(reopen(f, &problem));
    assert_true(log_is_direct(f->log));
    *state = f;
    return 0;
}

/* A batch and its bytes, which stay. */
struct batch {
    uint64_t first;
    size_t count;
    struct naive_entry list[32];
    struct log_entry entries[32];
    uint8_t data[32][4096];
};

static struct batch *make_batch(struct fixture *f, uint64_t first, size_t count, uint32_t len)
{
    static struct batch batch;
    assert_true(count <= 32 && len <= 4096);
    batch.first = first;
    batch.count = count;
    for (size_t i = 0; i < count; i++) {
        batch.list[i] = (struct naive_entry){.term = 1, .seed = ++f->seed, .len = len};
        entry_fill(batch.data[i], &batch.list[i]);
        batch.entries[i] = (struct log_entry){
            .term = 1, .type = entry_type(&batch.list[i]), .data = slice_make(batch.data[i], len)};
    }
    return &batch;
}

static bool begin(struct fixture *f, const struct batch *batch, struct log_write *write)
{
    return log_begin(f->log, batch->first, batch->entries, batch->count, write);
}

static void acknowledge(struct fixture *f, const struct batch *batch)
{
    for (size_t i = 0; i < batch->count; i++)
        naive_set(&f->naive, batch->first + i, batch->list[i]);
}

/* Begins, writes, syncs and ends. */
static void append_one(struct fixture *f, const struct batch *batch)
{
    struct problem problem;
    struct log_write write;
    assert_true(begin(f, batch, &write));
    assert_done(disk_write(write.file, write.offset, write.bytes, write.len, &problem));
    assert_done(disk_sync(write.file, &problem));
    log_end(f->log, DISK_DIRECT_DONE, NULL);
    acknowledge(f, batch);
}

static void a_write_is_of_whole_blocks_and_keeps_what_lies_before_it(void **state)
{
    struct fixture *f = *state;
    struct problem problem;
    struct log_write write;
    assert_done(append(f, 1, 3, 300, 1, &problem)); /* in the middle of a block */
    const struct batch *batch = make_batch(f, 4, 2, 2000);
    assert_true(begin(f, batch, &write));
    assert_int_equal(write.offset, 4096);
    assert_int_equal(write.len, 8192);
    assert_int_equal((uintptr_t)write.bytes % DISK_BLOCK, 0);
    uint64_t size;
    const uint8_t *file = disk_fake_file(f->fake, write.file->name, &size);
    size_t before = 3 * (48 + 304);
    assert_memory_equal(write.bytes, file + 4096, before);
    for (size_t i = before + 2 * (48 + 2000); i < write.len; i++)
        assert_int_equal(write.bytes[i], 0);
    log_end(f->log, DISK_DIRECT_NEVER, NULL);
    assert_false(log_is_direct(f->log));
    assert_same_after_reopening(f);
}

/* The same history by both ways, segments' ends, conflicts, seals and openings among it. */
static void both_ways_leave_the_same_bytes(void **state)
{
    (void)state;
    struct fixture *both[2];
    struct problem problem;
    for (int way = 0; way < 2; way++) {
        void *made;
        way == 0 ? setup(&made) : setup_direct(&made);
        both[way] = made;
        struct fixture *f = made;
        struct random random = {7};
        for (int i = 0; i < 300; i++) {
            uint64_t live = f->naive.last + 1 - f->naive.first;
            uint64_t back = random_below(&random, 8) == 0 && live > 5 ? 5 : 0;
            const struct batch *batch =
                make_batch(f, f->naive.last + 1 - back, 1 + random_below(&random, 6),
                           random_below(&random, 700));
            struct log_write write;
            bool direct = way == 1 && begin(f, batch, &write);
            if (direct) {
                assert_done(disk_write(write.file, write.offset, write.bytes, write.len, &problem));
                assert_done(disk_sync(write.file, &problem));
                log_end(f->log, DISK_DIRECT_DONE, NULL);
            } else {
                assert_done(
                    log_append(f->log, batch->first, batch->entries, batch->count, &problem));
            }
            acknowledge(f, batch);
            if (i % 40 == 39)
                assert_done(i % 80 == 79 ? reopen(f, &problem) : log_seal(f->log, &problem));
        }
        assert_log_equals(f->log, &f->naive);
    }
    struct disk_fake_counts by_thread = disk_fake_counts(both[0]->fake);
    struct disk_fake_counts directly = disk_fake_counts(both[1]->fake);
    assert_true(directly.written_bytes > by_thread.written_bytes); /* it did go the other way */
    unsigned files = 0;
    for (uint64_t number = 1; number < 200; number++) {
        char name[32];
        uint64_t size[2] = {0, 0};
        snprintf(name, sizeof(name), "log-%012llu", (unsigned long long)number);
        const uint8_t *one = disk_fake_file(both[0]->fake, name, &size[0]);
        const uint8_t *other = disk_fake_file(both[1]->fake, name, &size[1]);
        assert_true((one == NULL) == (other == NULL));
        if (one != NULL) {
            assert_int_equal(size[0], size[1]);
            assert_memory_equal(one, other, size[0]);
            files++;
        }
    }
    assert_true(files > 10);
    for (int way = 0; way < 2; way++) {
        void *made = both[way];
        teardown(&made);
    }
}

static void what_was_acknowledged_is_there_after_a_power_cut(void **state)
{
    struct fixture *f = *state;
    struct problem problem;
    for (int i = 0; i < 40; i++) {
        uint64_t back = i % 3 == 2 ? 2 : 0; /* some replace what is there */
        struct batch *batch = make_batch(f, f->naive.last + 1 - back, 3, 100);
        struct log_write write;
        if (begin(f, batch, &write)) {
            log_end(f->log, DISK_DIRECT_AGAIN, NULL);
            append_one(f, batch);
        } else {
            assert_done(log_append(f->log, batch->first, batch->entries, 3, &problem));
            acknowledge(f, batch);
        }
        disk_fake_power_cut(f->fake);
        assert_done(reopen(f, &problem));
        assert_log_equals(f->log, &f->naive);
    }
}

static void what_is_being_written_is_not_read_yet(void **state)
{
    struct fixture *f = *state;
    struct problem problem;
    struct log_piece piece;
    struct log_write write;
    assert_done(append(f, 1, 5, 300, 1, &problem));
    const struct batch *batch = make_batch(f, 4, 4, 300); /* replaces 4 and 5 */
    assert_true(begin(f, batch, &write));
    assert_done(disk_write(write.file, write.offset, write.bytes, write.len, &problem));
    assert_done(log_read_beside(f->log, 1, 1 << 20, &piece, &problem));
    assert_int_equal(piece.count, 5);
    for (size_t i = 0; i < 5; i++)
        assert_true(entry_equals(&piece.entries[i], &f->naive.entries[i + 1]));
    log_piece_free(&piece);
    assert_int_equal(log_read_beside(f->log, 6, 1 << 20, &piece, &problem), STORAGE_MISSING);
    assert_done(disk_sync(write.file, &problem));
    log_end(f->log, DISK_DIRECT_DONE, NULL);
    acknowledge(f, batch);
    assert_int_equal(log_last(f->log), 7);
    assert_same_after_reopening(f);
}

static void what_was_done_by_half_is_done_again(void **state)
{
    struct fixture *f = *state;
    struct problem problem;
    for (int i = 0; i < 30; i++) {
        struct batch *batch = make_batch(f, f->naive.last + 1, 2, 700);
        struct log_write write;
        if (begin(f, batch, &write)) {
            size_t part = (size_t)(i % 3) * write.len / 2;
            if (part > 0)
                assert_done(disk_write(write.file, write.offset, write.bytes, part, &problem));
            log_end(f->log, DISK_DIRECT_AGAIN, NULL);
            assert_int_equal(log_last(f->log), f->naive.last);
        }
        assert_done(log_append(f->log, batch->first, batch->entries, 2, &problem));
        acknowledge(f, batch);
        assert_true(log_is_direct(f->log));
    }
    disk_fake_power_cut(f->fake);
    assert_done(reopen(f, &problem));
    assert_log_equals(f->log, &f->naive);
}

/* As S12.2 has it: after a write that failed nobody knows, and the log refuses all that follows. */
static void a_write_that_failed_breaks_the_log(void **state)
{
    struct fixture *f = *state;
    struct problem problem;
    struct log_write write;
    assert_done(append(f, 1, 3, 300, 1, &problem));
    const struct batch *batch = make_batch(f, 4, 1, 300);
    assert_true(begin(f, batch, &write));
    problem_set(&problem, STORAGE_IO, "cannot write: the wheel came off");
    log_end(f->log, DISK_DIRECT_FAILED, &problem);
    assert_false(begin(f, batch, &write));
    assert_problem(log_append(f->log, 4, batch->entries, 1, &problem), STORAGE_IO, "the wheel");
    assert_problem(log_seal(f->log, &problem), STORAGE_IO, "the wheel");
    assert_problem(log_prepare(f->log, &problem), STORAGE_IO, "the wheel");
    assert_int_equal(log_last(f->log), 3);
}

static void what_does_not_fit_is_left_to_the_other_way(void **state)
{
    struct fixture *f = *state;
    struct problem problem;
    struct log_write write;
    const struct batch *batch = make_batch(f, 1, 6, 2000);
    assert_false(begin(f, batch, &write)); /* 12,288 bytes for records in a segment */
    assert_done(log_append(f->log, 1, batch->entries, 6, &problem));
    acknowledge(f, batch);
    append_one(f, make_batch(f, 7, 1, 2000)); /* in the second segment */
    assert_same_after_reopening(f);
}

static void the_next_file_is_filled_while_a_write_is_under_way(void **state)
{
    struct fixture *f = *state;
    struct problem problem;
    struct log_write write;
    const struct batch *batch = make_batch(f, 1, 3, 700);
    assert_true(begin(f, batch, &write));
    assert_true(log_wants_fill(f->log));
    assert_done(log_fill(f->log, &problem));
    assert_false(log_wants_fill(f->log));
    assert_done(log_fill(f->log, &problem)); /* no more than that */
    assert_true(log_wants_prepare(f->log));
    assert_done(disk_write(write.file, write.offset, write.bytes, write.len, &problem));
    assert_done(disk_sync(write.file, &problem));
    log_end(f->log, DISK_DIRECT_DONE, NULL);
    acknowledge(f, batch);
    assert_done(log_prepare(f->log, &problem));
    assert_false(log_wants_prepare(f->log) || log_wants_fill(f->log));
    append_one(f, make_batch(f, 4, 2, 3000));
    const struct batch *next = make_batch(f, 6, 3, 2000); /* the file is used */
    assert_false(begin(f, next, &write));
    assert_done(log_append(f->log, 6, next->entries, 3, &problem));
    acknowledge(f, next);
    disk_fake_power_cut(f->fake);
    assert_done(reopen(f, &problem));
    assert_log_equals(f->log, &f->naive);
}

static void a_file_that_cannot_be_filled_does_not_break_the_log(void **state)
{
    struct fixture *f = *state;
    struct problem problem;
    disk_fake_fail_after(f->fake, 1, STORAGE_IO); /* its sync, or a write */
    assert_problem(log_fill(f->log, &problem), STORAGE_IO, "injected");
    append_one(f, make_batch(f, 1, 1, 700));
    assert_done(log_fill(f->log, &problem));
    assert_done(log_prepare(f->log, &problem));
    assert_same_after_reopening(f);
}

static void without_a_request_there_are_no_direct_writes(void **state)
{
    struct fixture *f = *state; /* of the plain setup */
    struct log_write write;
    assert_false(log_is_direct(f->log));
    assert_false(begin(f, make_batch(f, 1, 1, 100), &write));
}

/* ---- a real folder ---- */

static void wait_for(int event_fd)
{
    struct pollfd poll_fd = {.fd = event_fd, .events = POLLIN};
    uint64_t times;
    assert_int_equal(poll(&poll_fd, 1, 30000), 1);
    assert_int_equal(read(event_fd, &times, sizeof(times)), sizeof(times));
}

/* Where the file system is one that does it. A child is forked while the write is under way. */
static void the_kernel_writes_what_it_was_given(void **state)
{
    (void)state;
    struct fixture f = {.seed = 5};
    struct problem problem;
    struct disk *disk;
    const char *root = temporary_folder(NULL);
    assert_done(disk_posix_new(root, &disk, &problem));
    struct log_options options = {
        .segment_bytes = 1 << 20, .store = test_store, .life = 1, .create = true, .direct = true};
    assert_done(log_open(disk, &options, &f.log, &problem));
    naive_init(&f.naive);
    bool direct = log_is_direct(f.log);
    int event_fd = eventfd(0, EFD_CLOEXEC);
    for (int i = 0; i < 50 && direct; i++) {
        const struct batch *batch = make_batch(&f, f.naive.last + 1, 1 + (size_t)i % 5, 900);
        struct log_write write;
        struct log_piece piece;
        assert_true(begin(&f, batch, &write));
        assert_int_equal(
            disk_direct_begin(write.file, write.offset, write.bytes, write.len, event_fd),
            DISK_DIRECT_WAITS);
        pid_t child = i % 10 == 0 ? fork() : -1;
        if (child == 0)
            _exit(0);
        if (i > 0) { /* what is there is read meanwhile, into the kernel's cache */
            assert_done(log_read_beside(f.log, f.naive.last, 1 << 20, &piece, &problem));
            assert_true(entry_equals(&piece.entries[0], &f.naive.entries[f.naive.last]));
            log_piece_free(&piece);
        }
        if (i % 2 == 0)
            wait_for(event_fd);
        assert_int_equal(disk_direct_end(write.file, i % 2 == 1, &problem), DISK_DIRECT_DONE);
        if (i % 2 == 1)
            wait_for(event_fd);
        log_end(f.log, DISK_DIRECT_DONE, NULL);
        acknowledge(&f, batch);
        if (i % 7 == 6)
            assert_done(log_seal(f.log, &problem)); /* through the cache */
        if (child > 0)
            assert_int_equal(waitpid(child, NULL, 0), child);
        assert_log_equals(f.log, &f.naive);
    }
    log_close(f.log);
    options.life = 2;
    options.create = false;
    assert_done(log_open(disk, &options, &f.log, &problem));
    assert_log_equals(f.log, &f.naive);
    log_close(f.log);
    close(event_fd);
    disk_posix_free(disk);
    temporary_remove(root);
    if (!direct)
        skip();
}

/* tmpfs is none of those that are known to do it. */
static void a_file_system_that_is_not_known_is_written_by_the_thread(void **state)
{
    (void)state;
    struct problem problem;
    struct disk *disk;
    struct disk_file *file;
    if (access("/dev/shm", W_OK) != 0)
        skip();
    const char *root = temporary_folder("/dev/shm");
    assert_done(disk_posix_new(root, &disk, &problem));
    assert_done(disk_open(disk, "file", DISK_CREATE, &file, &problem));
    assert_false(disk_direct_prepare(file));
    disk_close(file);
    disk_posix_free(disk);
    temporary_remove(root);
}

#define DIRECT_TEST(name) cmocka_unit_test_setup_teardown(name, setup_direct, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        DIRECT_TEST(a_write_is_of_whole_blocks_and_keeps_what_lies_before_it),
        cmocka_unit_test(both_ways_leave_the_same_bytes),
        DIRECT_TEST(what_was_acknowledged_is_there_after_a_power_cut),
        DIRECT_TEST(what_is_being_written_is_not_read_yet),
        DIRECT_TEST(what_was_done_by_half_is_done_again),
        DIRECT_TEST(a_write_that_failed_breaks_the_log),
        DIRECT_TEST(what_does_not_fit_is_left_to_the_other_way),
        DIRECT_TEST(the_next_file_is_filled_while_a_write_is_under_way),
        DIRECT_TEST(a_file_that_cannot_be_filled_does_not_break_the_log),
        cmocka_unit_test_setup_teardown(without_a_request_there_are_no_direct_writes, setup,
                                        teardown),
        cmocka_unit_test(the_kernel_writes_what_it_was_given),
        cmocka_unit_test(a_file_system_that_is_not_known_is_written_by_the_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The loop's own writes to the log: order, and what becomes of a write that goes wrong. On a real
 * folder, with direct writes that the test plays: they reach the file when the test wants, or not.
 * The last test has the kernel's. */
#include "base_testing.h"

#include <unistd.h>

#include "node/logger.h"
#include "storage/disk_posix.h"
#include "temporary.h"

enum { ENTRY = 1000, SEGMENT = 64 << 10, MOST = 512 };

/* The direct writes of the one disk of a test. */
static struct {
    const struct disk_ops *real;
    struct disk_ops ops;
    struct disk_file *file; /* under way; NULL: nothing */
    uint64_t offset;
    const void *data;
    size_t len;
    int event_fd;
    bool hold;              /* it stays under way until play_release */
    enum disk_direct begin; /* what the next begin says, once; WAITS: nothing special */
    enum disk_direct end;   /* what the next end says, once; DONE: nothing special */
    unsigned full;          /* so many more writes of the thread find the disk full */
} play;

static enum storage_status play_open(struct disk *disk, const char *name, enum disk_mode mode,
                                     struct disk_file **out, struct problem *problem)
{
    enum storage_status status = play.real->open(disk, name, mode, out, problem);
    if (status == STORAGE_OK) {
        (*out)->ops = &play.ops;
    }
    return status;
}

/* The undo of a write that found no room has room, as tests/support/bad_disk.c has it. */
static enum storage_status play_write(struct disk_file *file, uint64_t offset, const void *data,
                                      size_t len, struct problem *problem)
{
    if (play.full > 0 && len > 64) {
        play.full--;
        return problem_set(problem, STORAGE_FULL, "no room, the test says");
    }
    return play.real->write(file, offset, data, len, problem);
}

static bool play_prepare(struct disk_file *file)
{
    (void)file;
    return true;
}

static void play_tell(void)
{
    uint64_t one = 1;
    assert_int_equal(write(play.event_fd, &one, sizeof(one)), sizeof(one));
}

static enum disk_direct play_begin(struct disk_file *file, uint64_t offset, const void *data,
                                   size_t len, int event_fd)
{
    enum disk_direct how = play.begin;
    assert_null(play.file);
    assert_true(offset % DISK_BLOCK == 0 && len % DISK_BLOCK == 0);
    play.begin = DISK_DIRECT_WAITS;
    if (how != DISK_DIRECT_WAITS) {
        return how;
    }
    play.file = file;
    play.offset = offset;
    play.data = data;
    play.len = len;
    play.event_fd = event_fd;
    if (!play.hold) {
        play_tell();
    }
    return DISK_DIRECT_WAITS;
}

static enum disk_direct play_end(struct disk_file *file, bool wait, struct problem *problem)
{
    enum disk_direct how = play.end;
    assert_ptr_equal(file, play.file);
    if (play.hold && !wait) {
        return DISK_DIRECT_WAITS;
    }
    play.file = NULL;
    play.end = DISK_DIRECT_DONE;
    if (how == DISK_DIRECT_DONE) {
        assert_int_equal(play.real->write(file, play.offset, play.data, play.len, problem),
                         STORAGE_OK);
        assert_int_equal(play.real->sync(file, problem), STORAGE_OK);
    } else if (how == DISK_DIRECT_FAILED) {
        problem_set(problem, STORAGE_IO, "the wheel came off");
    }
    return how;
}

static void play_release(void)
{
    play.hold = false;
    play_tell();
}

struct rig {
    uv_loop_t loop;
    const char *root;
    struct disk *disk;
    struct store store;
    struct logger *logger;
    uint64_t written;
    uint64_t done; /* what was in the log when the last piece of work was done */
    int full;      /* how often it was told */
    int room;
    int failed;
    char text[128];
};

static void on_written(void *ctx, uint64_t last)
{
    struct rig *r = ctx;
    r->written = last;
}

static void on_full(void *ctx, bool full, const char *text)
{
    struct rig *r = ctx;
    (void)text;
    r->full += full;
    r->room += !full;
}

static void on_failed(void *ctx, const char *text)
{
    struct rig *r = ctx;
    r->failed++;
    snprintf(r->text, sizeof(r->text), "%s", text);
}

static void rig_start(struct rig *r)
{
    struct problem problem = {0};
    struct store_options options = {
        .node = 1, .new_store = {1, 2}, .segment_bytes = SEGMENT, .direct = true};
    if (store_open(&r->store, r->disk, &options, &problem) != STORAGE_OK) {
        fail_msg("%s", problem.text);
    }
    struct meta_state meta = r->store.meta.state; /* terms of entries are saved before them */
    meta.term = 2;
    assert_int_equal(meta_save(&r->store.meta, &meta, &problem), STORAGE_OK);
    struct logger_options logger = {.loop = &r->loop,
                                    .store = &r->store,
                                    .memory = memory_system(),
                                    .ctx = r,
                                    .on_written = on_written,
                                    .on_full = on_full,
                                    .on_failed = on_failed};
    r->logger = logger_new(&logger);
}

static void rig_open(struct rig *r, bool played)
{
    memset(r, 0, sizeof(*r));
    memset(&play, 0, sizeof(play));
    play.end = DISK_DIRECT_DONE;
    play.begin = DISK_DIRECT_WAITS;
    struct problem problem = {0};
    uv_loop_init(&r->loop);
    r->root = temporary_folder(NULL);
    assert_int_equal(disk_posix_new(r->root, &r->disk, &problem), STORAGE_OK);
    play.real = r->disk->ops;
    play.ops = *play.real;
    play.ops.open = play_open;
    play.ops.write = play_write;
    play.ops.direct_prepare = play_prepare;
    play.ops.direct_begin = play_begin;
    play.ops.direct_end = play_end;
    if (played) {
        r->disk->ops = &play.ops;
    }
    rig_start(r);
}

static void rig_stop(struct rig *r)
{
    logger_stop(r->logger);
    uv_run(&r->loop, UV_RUN_DEFAULT);
    logger_free(r->logger);
    store_close(&r->store);
}

static void rig_close(struct rig *r)
{
    rig_stop(r);
    disk_posix_free(r->disk);
    assert_int_equal(uv_loop_close(&r->loop), 0);
    temporary_remove(r->root);
}

/* An entry is ENTRY bytes that say its index and its term. They must outlive the write. */
static const uint8_t *bytes_of(uint64_t index, uint64_t term)
{
    static uint8_t bytes[2][MOST][ENTRY];
    assert_true(index < MOST && term >= 1 && term <= 2);
    memset(bytes[term - 1][index], (int)((index + term * 100) % 251), ENTRY);
    return bytes[term - 1][index];
}

static void write_some(struct rig *r, uint64_t first, uint32_t count, uint64_t term)
{
    struct replica_entry entries[16];
    assert_true(count <= 16);
    for (uint32_t i = 0; i < count; i++) {
        entries[i] = (struct replica_entry){term, 1, slice_make(bytes_of(first + i, term), ENTRY)};
    }
    logger_write(r->logger, first, entries, count);
    logger_begin(r->logger);
}

static void run_until(struct rig *r, uint64_t written)
{
    alarm(60);
    while (r->written != written) {
        uv_run(&r->loop, UV_RUN_ONCE);
    }
    alarm(0);
}

/* The write that was just asked for is under way. */
static void run_until_begun(struct rig *r)
{
    alarm(60);
    while (play.file == NULL) { /* the thread may have been at something */
        uv_run(&r->loop, UV_RUN_ONCE);
    }
    alarm(0);
}

/* The thread has made what it makes ahead of need, and wants nothing: what comes is the loop's. */
static void settle(struct rig *r)
{
    bool busy = true;
    alarm(60);
    while (busy) {
        usleep(1000);
        logger_lock_all(r->logger);
        busy = log_wants_prepare(r->store.log);
        logger_unlock_all(r->logger);
    }
    alarm(0);
}

static struct logger_stats stats_of(struct rig *r)
{
    struct logger_stats stats;
    logger_stats(r->logger, &stats);
    return stats;
}

static void assert_reads(struct rig *r, uint64_t index, uint64_t term)
{
    struct replica_entry entry;
    assert_true(logger_read(r->logger, index, &entry));
    assert_int_equal(entry.term, term);
    assert_int_equal(entry.bytes.len, ENTRY);
    assert_memory_equal(entry.bytes.data, bytes_of(index, term), ENTRY);
}

static void the_loop_reads_and_does_not_wait_while_a_write_is_under_way(void **state)
{
    (void)state;
    struct rig r;
    struct replica_entry entry;
    rig_open(&r, true);
    settle(&r);
    write_some(&r, 1, 10, 1);
    run_until(&r, 10);
    play.hold = true;
    write_some(&r, 11, 1, 1);
    run_until_begun(&r);
    alarm(30);
    assert_reads(&r, 10, 1);
    assert_false(logger_read(r.logger, 11, &entry));
    logger_lock(r.logger);
    logger_unlock(r.logger);
    uv_run(&r.loop, UV_RUN_NOWAIT);
    assert_int_equal(r.written, 10);
    play_release();
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
    play.hold = true;
    write_some(&r, 1, 1, 1);
    run_until_begun(&r);
    for (uint64_t i = 2; i <= 20; i++) {
        write_some(&r, i, 1, 1);
    }
    play_release();
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

static void work_waits_for_what_was_asked_before_it_and_is_waited_for(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, true);
    settle(&r);
    play.hold = true;
    write_some(&r, 1, 1, 1);
    run_until_begun(&r);
    write_some(&r, 2, 1, 1);
    logger_run_on_log(r.logger, note_last, on_noted, &r);
    write_some(&r, 3, 1, 1);
    logger_run(r.logger, note_last, on_noted, &r);
    write_some(&r, 4, 1, 1);
    assert_int_equal(r.done, 0);
    play_release();
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
    play.begin = DISK_DIRECT_AGAIN;
    write_some(&r, 1, 1, 1);
    run_until(&r, 1);
    assert_int_equal(stats_of(&r).direct, 0);
    settle(&r);
    play.end = DISK_DIRECT_AGAIN;
    write_some(&r, 2, 1, 1);
    write_some(&r, 3, 1, 1);
    run_until(&r, 3);
    assert_int_equal(stats_of(&r).direct, 0);
    settle(&r);
    write_some(&r, 4, 1, 1);
    run_until(&r, 4);
    assert_int_equal(stats_of(&r).direct, 1);
    play.end = DISK_DIRECT_NEVER;
    write_some(&r, 5, 1, 1);
    run_until(&r, 5);
    play.begin = DISK_DIRECT_FAILED; /* nobody asks any more */
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

/* A file system that finds no room for a direct write: disk_direct.c says AGAIN, and the thread's
 * write meets the same. */
static void a_full_disk_is_waited_out(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, true);
    settle(&r);
    write_some(&r, 1, 1, 1);
    run_until(&r, 1);
    play.end = DISK_DIRECT_AGAIN;
    play.full = 1;
    write_some(&r, 2, 1, 1);
    write_some(&r, 3, 1, 1);
    alarm(60);
    while (r.full == 0) {
        uv_run(&r.loop, UV_RUN_ONCE);
    }
    write_some(&r, 4, 1, 1); /* does not overtake what waits for room */
    assert_null(play.file);
    run_until(&r, 4);
    while (r.room == 0) {
        uv_run(&r.loop, UV_RUN_ONCE);
    }
    assert_int_equal(r.full, 1);
    assert_int_equal(r.room, 1);
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
    play.hold = true;
    play.end = DISK_DIRECT_FAILED;
    write_some(&r, 2, 1, 1);
    write_some(&r, 3, 1, 1);
    play_release();
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
    assert_null(play.file);
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
        play.hold = true;
        play.end = ends[i];
        write_some(&r, 1, 2, 1);
        write_some(&r, 3, 2, 1);
        rig_stop(&r);
        assert_null(play.file);
        assert_int_equal(r.written, 0); /* it calls nobody */
        play.hold = false;
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
    play.hold = true; /* so the thread, which wants to make a segment, has to wait for it */
    write_some(&r, 1, 1, 1);
    run_until_begun(&r);
    play_release();
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
            logger_run_on_log(r.logger, note_last, on_noted, &r);
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
        cmocka_unit_test(work_waits_for_what_was_asked_before_it_and_is_waited_for),
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

/* A logger on a real folder, with direct writes that the test controls: they reach the file when the
 * test wants, or not. To be included after base_testing.h. */
#ifndef HOLDFAST_TESTS_LOGGER_RIG_H
#define HOLDFAST_TESTS_LOGGER_RIG_H

#include <stdatomic.h>
#include <unistd.h>

#include "node/log/logger.h"
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
    bool hold;              /* it stays under way until fake_release */
    enum disk_direct begin; /* what the next begin says, once; WAITS: nothing special */
    enum disk_direct end;   /* what the next end says, once; DONE: nothing special */
    atomic_uint full;       /* so many more writes of the thread find the disk full */
} fake;

static inline enum storage_status fake_open(struct disk *disk, const char *name,
                                            enum disk_mode mode, struct disk_file **out,
                                            struct problem *problem)
{
    enum storage_status status = fake.real->open(disk, name, mode, out, problem);
    if (status == STORAGE_OK) {
        (*out)->ops = &fake.ops;
    }
    return status;
}

/* The undo of a write that found no space has space, as tests/support/bad_disk.c has it. */
static inline enum storage_status fake_write(struct disk_file *file, uint64_t offset,
                                             const void *data, size_t len, struct problem *problem)
{
    if (len > 64 && atomic_load(&fake.full) > 0) { /* only the thread writes so much */
        atomic_fetch_sub(&fake.full, 1);
        return problem_set(problem, STORAGE_FULL, "no space, the test says");
    }
    return fake.real->write(file, offset, data, len, problem);
}

static inline bool fake_prepare(struct disk_file *file)
{
    (void)file;
    return true;
}

static inline void fake_tell(void)
{
    uint64_t one = 1;
    assert_int_equal(write(fake.event_fd, &one, sizeof(one)), sizeof(one));
}

static inline enum disk_direct fake_begin(struct disk_file *file, uint64_t offset, const void *data,
                                          size_t len, int event_fd)
{
    enum disk_direct how = fake.begin;
    assert_null(fake.file);
    assert_true(offset % DISK_BLOCK == 0 && len % DISK_BLOCK == 0);
    fake.begin = DISK_DIRECT_WAITS;
    if (how != DISK_DIRECT_WAITS) {
        return how;
    }
    fake.file = file;
    fake.offset = offset;
    fake.data = data;
    fake.len = len;
    fake.event_fd = event_fd;
    if (!fake.hold) {
        fake_tell();
    }
    return DISK_DIRECT_WAITS;
}

static inline enum disk_direct fake_end(struct disk_file *file, bool wait, struct problem *problem)
{
    enum disk_direct how = fake.end;
    assert_ptr_equal(file, fake.file);
    if (fake.hold && !wait) {
        return DISK_DIRECT_WAITS;
    }
    fake.file = NULL;
    fake.end = DISK_DIRECT_DONE;
    if (how == DISK_DIRECT_DONE) {
        assert_int_equal(fake.real->write(file, fake.offset, fake.data, fake.len, problem),
                         STORAGE_OK);
        assert_int_equal(fake.real->sync(file, problem), STORAGE_OK);
    } else if (how == DISK_DIRECT_FAILED) {
        problem_set(problem, STORAGE_IO, "the wheel came off");
    }
    return how;
}

static inline void fake_release(void)
{
    fake.hold = false;
    fake_tell();
}

struct rig {
    uv_loop_t loop;
    const char *root;
    struct disk *disk;
    struct store store;
    struct logger *logger;
    uint64_t written;
    uint64_t done; /* what was in the log when the last piece of work was done */
    int full;      /* how often "full" was reported */
    int space;
    int failed;
    char text[128];
};

static inline void on_written(void *ctx, uint64_t last)
{
    struct rig *r = ctx;
    r->written = last;
}

static inline void on_full(void *ctx, bool full, const char *text)
{
    struct rig *r = ctx;
    (void)text;
    r->full += full;
    r->space += !full;
}

static inline void on_failed(void *ctx, const char *text)
{
    struct rig *r = ctx;
    r->failed++;
    snprintf(r->text, sizeof(r->text), "%s", text);
}

static inline void rig_start(struct rig *r)
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

static inline void rig_open(struct rig *r, bool faked)
{
    memset(r, 0, sizeof(*r));
    memset(&fake, 0, sizeof(fake));
    fake.end = DISK_DIRECT_DONE;
    fake.begin = DISK_DIRECT_WAITS;
    struct problem problem = {0};
    uv_loop_init(&r->loop);
    r->root = temporary_folder(NULL);
    assert_int_equal(disk_posix_new(r->root, &r->disk, &problem), STORAGE_OK);
    fake.real = r->disk->ops;
    fake.ops = *fake.real;
    fake.ops.open = fake_open;
    fake.ops.write = fake_write;
    fake.ops.direct_prepare = fake_prepare;
    fake.ops.direct_begin = fake_begin;
    fake.ops.direct_end = fake_end;
    if (faked) {
        r->disk->ops = &fake.ops;
    }
    rig_start(r);
}

static inline void rig_stop(struct rig *r)
{
    logger_stop(r->logger);
    uv_run(&r->loop, UV_RUN_DEFAULT);
    logger_free(r->logger);
    store_close(&r->store);
}

static inline void rig_close(struct rig *r)
{
    rig_stop(r);
    disk_posix_free(r->disk);
    assert_int_equal(uv_loop_close(&r->loop), 0);
    temporary_remove(r->root);
}

/* An entry is ENTRY bytes that say its index and its term. They must outlive the write. */
static inline const uint8_t *bytes_of(uint64_t index, uint64_t term)
{
    static uint8_t bytes[2][MOST][ENTRY];
    assert_true(index < MOST && term >= 1 && term <= 2);
    memset(bytes[term - 1][index], (int)((index + term * 100) % 251), ENTRY);
    return bytes[term - 1][index];
}

static inline void write_some(struct rig *r, uint64_t first, uint32_t count, uint64_t term)
{
    struct replica_entry entries[16];
    assert_true(count <= 16);
    for (uint32_t i = 0; i < count; i++) {
        entries[i] = (struct replica_entry){term, 1, slice_make(bytes_of(first + i, term), ENTRY)};
    }
    logger_write(r->logger, first, entries, count);
    logger_begin(r->logger);
}

static inline void run_until(struct rig *r, uint64_t written)
{
    alarm(60);
    while (r->written != written) {
        uv_run(&r->loop, UV_RUN_ONCE);
    }
    alarm(0);
}

/* The write that was just requested is under way. */
static inline void run_until_begun(struct rig *r)
{
    alarm(60);
    while (fake.file == NULL) { /* the thread may have been at something */
        uv_run(&r->loop, UV_RUN_ONCE);
    }
    alarm(0);
}

/* The thread has made what it makes ahead of need, and wants nothing: what comes is the loop's. */
static inline void settle(struct rig *r)
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

static inline struct logger_stats stats_of(struct rig *r)
{
    struct logger_stats stats;
    logger_stats(r->logger, &stats);
    return stats;
}

static inline void assert_reads(struct rig *r, uint64_t index, uint64_t term)
{
    struct replica_entry entry;
    assert_true(logger_read(r->logger, index, &entry));
    assert_int_equal(entry.term, term);
    assert_int_equal(entry.bytes.len, ENTRY);
    assert_memory_equal(entry.bytes.data, bytes_of(index, term), ENTRY);
}

#endif

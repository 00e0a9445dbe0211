/* The log's thread: while it waits for the disk, the loop does not. On a real folder, with a sync
 * that takes as long as the test wants. */
#include "base_testing.h"

#include <semaphore.h>
#include <stdatomic.h>

#include "node/log/logger.h"
#include "storage/disk_posix.h"
#include "temporary.h"

enum { ENTRY = 1000, SEGMENT = 64 << 10 };

static struct {
    const struct disk_ops *real;
    struct disk_ops ops; /* the real ones, but for open and sync */
    atomic_bool hold;    /* the next sync waits ... */
    sem_t entered;       /* ... says so ... */
    sem_t go;            /* ... and waits for this */
} slow;

static enum storage_status slow_open(struct disk *disk, const char *name, enum disk_mode mode,
                                     struct disk_file **out, struct problem *problem)
{
    enum storage_status status = slow.real->open(disk, name, mode, out, problem);
    if (status == STORAGE_OK) {
        (*out)->ops = &slow.ops;
    }
    return status;
}

static enum storage_status slow_sync(struct disk_file *file, struct problem *problem)
{
    if (atomic_exchange(&slow.hold, false)) {
        sem_post(&slow.entered);
        while (sem_wait(&slow.go) != 0) {
        }
    }
    return slow.real->sync(file, problem);
}

struct rig {
    uv_loop_t loop;
    const char *root;
    struct disk *disk;
    struct store store;
    struct logger *logger;
    uint64_t written;
    int dropped;
};

static void on_written(void *ctx, uint64_t last)
{
    struct rig *r = ctx;
    r->written = last;
}

static void on_full(void *ctx, bool full, const char *text)
{
    (void)ctx;
    (void)full;
    fail_msg("%s", text);
}

static void on_failed(void *ctx, const char *text)
{
    (void)ctx;
    fail_msg("%s", text);
}

static void rig_open(struct rig *r)
{
    memset(r, 0, sizeof(*r));
    struct problem problem = {0};
    struct store_options options = {
        .node = 1, .new_store = {1, 2}, .segment_bytes = SEGMENT, .cluster = {0, 0}};
    uv_loop_init(&r->loop);
    r->root = temporary_folder(NULL);
    assert_int_equal(disk_posix_new(r->root, &r->disk, &problem), STORAGE_OK);
    slow.real = r->disk->ops;
    slow.ops = *slow.real;
    slow.ops.open = slow_open;
    slow.ops.sync = slow_sync;
    r->disk->ops = &slow.ops;
    sem_init(&slow.entered, 0, 0);
    sem_init(&slow.go, 0, 0);
    if (store_open(&r->store, r->disk, &options, &problem) != STORAGE_OK) {
        fail_msg("%s", problem.text);
    }
    struct logger_options logger = {.loop = &r->loop,
                                    .store = &r->store,
                                    .memory = memory_system(),
                                    .ctx = r,
                                    .on_written = on_written,
                                    .on_full = on_full,
                                    .on_failed = on_failed};
    r->logger = logger_new(&logger);
}

static void rig_close(struct rig *r)
{
    logger_stop(r->logger);
    uv_run(&r->loop, UV_RUN_DEFAULT);
    logger_free(r->logger);
    store_close(&r->store);
    disk_posix_free(r->disk);
    assert_int_equal(uv_loop_close(&r->loop), 0);
    temporary_remove(r->root);
}

/* Entry i is ENTRY bytes that say i. They must outlive the write, so they are kept. */
static const uint8_t *bytes_of(uint64_t index)
{
    static uint8_t bytes[512][ENTRY];
    assert_true(index < 512);
    memset(bytes[index], (int)(index % 251), ENTRY);
    return bytes[index];
}

static void write_one(struct rig *r, uint64_t index)
{
    struct replica_entry entry = {1, 1, slice_make(bytes_of(index), ENTRY)};
    logger_write(r->logger, index, &entry, 1);
    logger_begin(r->logger);
}

static void run_until_written(struct rig *r, uint64_t index)
{
    while (r->written < index) {
        uv_run(&r->loop, UV_RUN_ONCE);
    }
}

static void assert_reads(struct rig *r, uint64_t index)
{
    struct replica_entry entry;
    assert_true(logger_read(r->logger, index, &entry));
    assert_int_equal(entry.bytes.len, ENTRY);
    assert_memory_equal(entry.bytes.data, bytes_of(index), ENTRY);
}

static void the_loop_reads_while_the_thread_waits_for_a_sync(void **state)
{
    (void)state;
    struct rig r;
    struct replica_entry entry;
    struct logger_stats stats;
    rig_open(&r);
    for (uint64_t i = 1; i <= 50; i++) {
        write_one(&r, i);
    }
    run_until_written(&r, 50);
    atomic_store(&slow.hold, true);
    write_one(&r, 51);
    while (sem_wait(&slow.entered) != 0) {
    }
    alarm(30); /* whoever waits for the sync waits for ever */
    assert_reads(&r, 1);
    assert_reads(&r, 50);
    assert_false(logger_read(r.logger, 51, &entry));
    assert_false(logger_read(r.logger, 0, &entry));
    snapshots_lock(r.store.snapshots);
    snapshots_unlock(r.store.snapshots);
    logger_stats(r.logger, &stats);
    assert_true(stats.disk_bytes >= SEGMENT);
    alarm(0);
    assert_int_equal(r.written, 50);
    sem_post(&slow.go);
    run_until_written(&r, 51);
    assert_reads(&r, 51);
    rig_close(&r);
}

static enum storage_status drop(void *ctx, struct problem *problem)
{
    struct rig *r = ctx;
    return log_drop_before(r->store.log, 100, problem);
}

static void on_dropped(void *ctx, enum storage_status status, const struct problem *problem)
{
    (void)problem;
    struct rig *r = ctx;
    assert_int_equal(status, STORAGE_OK);
    r->dropped++;
}

static void what_is_read_beside_writes_and_drops_is_right(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r);
    for (uint64_t i = 1; i <= 200; i++) { /* several segments */
        write_one(&r, i);
        if (i == 150) {
            logger_run(r.logger, drop, on_dropped, &r);
        }
        uv_run(&r.loop, UV_RUN_NOWAIT);
        if (r.written > 100) {
            assert_reads(&r, 100 + (i * 7) % (r.written - 100) + 1);
        }
    }
    run_until_written(&r, 200);
    while (r.dropped == 0) {
        uv_run(&r.loop, UV_RUN_ONCE);
    }
    struct replica_entry entry;
    assert_false(logger_read(r.logger, 1, &entry));
    for (uint64_t i = 101; i <= 200; i++) {
        assert_reads(&r, i);
    }
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_loop_reads_while_the_thread_waits_for_a_sync),
        cmocka_unit_test(what_is_read_beside_writes_and_drops_is_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Removing snapshots in steps, and that a thread which opens one does not wait for another that
 * names or removes one. */
#include "storage_testing.h"

#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

#include "storage/disk_posix.h"
#include "storage/snapshot_format.h"
#include "storage/snapshots.h"
#include "temporary.h"

enum { LARGE = 40 << 20, SMALL = 1000 };

static const struct id cluster = {77, 78};

static struct snapshot_output *begin(struct snapshots *snapshots, uint64_t index, size_t len)
{
    static const uint8_t bytes[1 << 16] = {1, 2, 3};
    struct snapshot_info info = {.cluster = cluster, .index = index, .term = 1};
    struct snapshot_output *output;
    struct problem problem;
    assert_done(snapshot_output_begin(snapshots, &info, 0, &output, &problem));
    for (size_t at = 0; at < len;) {
        size_t n = len - at < sizeof(bytes) ? len - at : sizeof(bytes);
        assert_done(snapshot_output_put(output, bytes, n, &problem));
        at += n;
    }
    assert_done(snapshot_output_finish(output, &problem));
    return output;
}

static void take(struct snapshots *snapshots, uint64_t index, size_t len)
{
    struct problem problem;
    assert_done(snapshot_output_commit(begin(snapshots, index, len), &problem));
}

/* How many calls it takes, none of which cuts more than 16 MiB off, or closes more. */
static unsigned trim_all(struct snapshots *snapshots, struct disk_fake *fake)
{
    unsigned steps = 0;
    while (snapshots_wants_trim(snapshots)) {
        uint64_t before = disk_fake_counts(fake).truncates;
        snapshots_trim(snapshots);
        assert_true(disk_fake_counts(fake).truncates <= before + 1);
        steps++;
    }
    return steps;
}

static void a_large_snapshot_goes_in_steps(void **state)
{
    (void)state;
    struct problem problem;
    struct disk_fake *fake = disk_fake_new(1);
    struct snapshots *snapshots;
    uint64_t size;
    assert_done(snapshots_open(disk_fake_disk(fake), cluster, &snapshots, &problem));
    snapshots_remove_in_steps(snapshots);
    take(snapshots, 1, LARGE);
    take(snapshots, 2, SMALL);
    assert_false(snapshots_wants_trim(snapshots));
    assert_done(snapshots_prune(snapshots, &problem));
    assert_null(disk_fake_file(fake, "snapshot-000000000001-000001", &size));
    assert_int_equal(disk_fake_counts(fake).truncates, 0);
    assert_false(snapshots_pin(snapshots, 1, 1));
    assert_int_equal(trim_all(snapshots, fake), 3);
    assert_int_equal(disk_fake_counts(fake).truncates, 2);
    /* One that was not finished. */
    snapshot_output_abort(begin(snapshots, 3, LARGE));
    assert_null(disk_fake_file(fake, SNAPSHOT_TEMPORARY, &size));
    assert_int_equal(trim_all(snapshots, fake), 3);
    /* And one that the process leaves behind. */
    snapshot_output_abort(begin(snapshots, 3, LARGE));
    snapshots_trim(snapshots);
    assert_int_equal(snapshots_newest(snapshots)->index, 2);
    snapshots_close(snapshots);
    disk_fake_free(fake);
}

static void no_snapshot_loses_a_byte_before_it_has_lost_its_name(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct problem problem;
        struct disk_fake *fake = disk_fake_new(seed);
        struct snapshots *snapshots;
        uint64_t size;
        assert_done(snapshots_open(disk_fake_disk(fake), cluster, &snapshots, &problem));
        snapshots_remove_in_steps(snapshots);
        take(snapshots, 1, 17 << 20);
        take(snapshots, 2, SMALL);
        assert_done(snapshots_prune(snapshots, &problem));
        snapshots_trim(snapshots);
        disk_fake_power_cut(fake);
        snapshots_close(snapshots);
        assert_null(disk_fake_file(fake, "snapshot-000000000001-000001", &size));
        assert_done(snapshots_open(disk_fake_disk(fake), cluster, &snapshots, &problem));
        assert_int_equal(snapshots_newest(snapshots)->index, 2);
        assert_done(snapshots_verify_newest(snapshots, &problem));
        snapshots_close(snapshots);
        disk_fake_free(fake);
    }
}

/* ---- two threads ---- */

static struct {
    const struct disk_ops *real;
    struct disk_ops ops;
    bool hold; /* the folder's sync waits for `go` */
    sem_t entered;
    sem_t go;
} slow;

static enum storage_status slow_sync_folder(struct disk *disk, struct problem *problem)
{
    if (slow.hold) {
        sem_post(&slow.entered);
        while (sem_wait(&slow.go) != 0) {
        }
    }
    return slow.real->sync_folder(disk, problem);
}

struct work {
    struct snapshots *snapshots;
    struct snapshot_output *output; /* is named; NULL: the old ones are pruned */
    enum storage_status status;
};

static void *do_work(void *argument)
{
    struct work *work = argument;
    struct problem problem;
    work->status = work->output != NULL ? snapshot_output_commit(work->output, &problem)
                                        : snapshots_prune(work->snapshots, &problem);
    return NULL;
}

/* Does the work on another thread, whose sync hangs, and uses the snapshots meanwhile. */
static void use_beside(struct work *work, uint64_t index)
{
    struct problem problem;
    pthread_t thread;
    slow.hold = true;
    assert_int_equal(pthread_create(&thread, NULL, do_work, work), 0);
    while (sem_wait(&slow.entered) != 0) {
    }
    alarm(60); /* whoever waits for the sync waits for ever */
    struct snapshot_source *source;
    struct snapshot_piece piece;
    snapshots_lock(work->snapshots);
    assert_int_equal(snapshots_newest(work->snapshots)->index, index);
    snapshots_unlock(work->snapshots);
    assert_done(snapshot_source_open(work->snapshots, index, 1, &source, &problem));
    assert_done(snapshot_source_next(source, &piece, &problem));
    snapshot_source_close(source);
    alarm(0);
    slow.hold = false;
    sem_post(&slow.go);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(work->status, STORAGE_OK);
}

static void nobody_waits_for_a_snapshot_that_is_named_or_removed(void **state)
{
    (void)state;
    struct problem problem;
    struct disk *disk;
    struct snapshots *snapshots;
    const char *path = temporary_folder(NULL);
    assert_done(disk_posix_new(path, &disk, &problem));
    sem_init(&slow.entered, 0, 0);
    sem_init(&slow.go, 0, 0);
    slow.real = disk->ops;
    slow.ops = *disk->ops;
    slow.ops.sync_folder = slow_sync_folder;
    disk->ops = &slow.ops;
    assert_done(snapshots_open(disk, cluster, &snapshots, &problem));
    snapshots_remove_in_steps(snapshots);
    take(snapshots, 1, SMALL);
    struct work naming = {snapshots, begin(snapshots, 2, SMALL), STORAGE_IO};
    use_beside(&naming, 1);
    assert_int_equal(snapshots_newest(snapshots)->index, 2);
    struct work pruning = {snapshots, NULL, STORAGE_IO};
    use_beside(&pruning, 2);
    assert_false(snapshots_pin(snapshots, 1, 1));
    snapshots_close(snapshots);
    disk_posix_free(disk);
    temporary_remove(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_large_snapshot_goes_in_steps),
        cmocka_unit_test(no_snapshot_loses_a_byte_before_it_has_lost_its_name),
        cmocka_unit_test(nobody_waits_for_a_snapshot_that_is_named_or_removed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

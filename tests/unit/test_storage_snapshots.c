/* Tests of snapshot files: taking, loading, sending, receiving, and what crashes and damage do. */
#include "storage_testing.h"

#include "storage/bytes.h"
#include "storage/disk_posix.h"
#include "storage/snapshot_format.h"
#include "storage/snapshots.h"
#include "temporary.h"

static const struct id cluster = {77, 78};
static const uint8_t configuration[] = "the members as raft encodes them";

enum { BLOCK = 512 };

static struct snapshot_info info_at(uint64_t index, uint64_t term)
{
    return (struct snapshot_info){.cluster = cluster,
                                  .index = index,
                                  .term = term,
                                  .configuration_index = index / 2,
                                  .configuration =
                                      slice_make(configuration, sizeof(configuration))};
}

static uint8_t *body_of(uint64_t index, size_t len)
{
    uint8_t *body = malloc(len + 8);
    struct naive_entry entry = {.seed = index, .len = (uint32_t)len};
    entry_fill(body, &entry);
    return body;
}

/* Takes a snapshot with a body that follows from its index, in pieces of a few sizes. */
static enum storage_status take(struct snapshots *snapshots, uint64_t index, uint64_t term,
                                size_t len, struct problem *problem)
{
    struct snapshot_info info = info_at(index, term);
    struct snapshot_output *output;
    enum storage_status status = snapshot_output_begin(snapshots, &info, BLOCK, &output, problem);
    if (status != STORAGE_OK)
        return status;
    uint8_t *body = body_of(index, len);
    size_t piece = 1 + index % 700;
    for (size_t at = 0; at < len && status == STORAGE_OK; at += piece)
        status =
            snapshot_output_put(output, body + at, len - at < piece ? len - at : piece, problem);
    free(body);
    if (status == STORAGE_OK)
        status = snapshot_output_finish(output, problem);
    if (status != STORAGE_OK) {
        snapshot_output_abort(output);
        return status;
    }
    return snapshot_output_commit(output, problem);
}

/* Loads it and compares. */
static enum storage_status load(struct snapshots *snapshots, uint64_t index, uint64_t term,
                                size_t len, struct problem *problem)
{
    struct snapshot_source *source;
    enum storage_status status = snapshot_source_open(snapshots, index, term, &source, problem);
    if (status != STORAGE_OK)
        return status;
    uint8_t *body = body_of(index, len);
    size_t at = 0;
    struct snapshot_piece piece = {.last = false};
    while (status == STORAGE_OK && !piece.last) {
        status = snapshot_source_next(source, &piece, problem);
        if (status == STORAGE_OK && piece.body.len > 0) {
            assert_true(at + piece.body.len <= len);
            assert_memory_equal(body + at, piece.body.data, piece.body.len);
            at += piece.body.len;
        }
    }
    if (status == STORAGE_OK)
        assert_int_equal(at, len);
    free(body);
    snapshot_source_close(source);
    return status;
}

struct fixture {
    struct disk_fake *fake;
    struct snapshots *snapshots;
};

static void reopen(struct fixture *f)
{
    struct problem problem;
    snapshots_close(f->snapshots);
    assert_done(snapshots_open(disk_fake_disk(f->fake), cluster, &f->snapshots, &problem));
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    f->fake = disk_fake_new(1);
    reopen(f);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    snapshots_close(f->snapshots);
    disk_fake_free(f->fake);
    free(f);
    return 0;
}

/* ---- taking and loading ---- */

static void a_snapshot_comes_back_as_it_was(void **state)
{
    struct fixture *f = *state;
    struct problem problem;
    assert_null(snapshots_newest(f->snapshots));
    assert_int_equal(snapshots_newest_bytes(f->snapshots), 0);
    static const size_t sizes[] = {0, 1, 511, 512, 513, 1024, 5000, 100000};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        uint64_t index = 100 + 37 * i;
        assert_done(take(f->snapshots, index, 3, sizes[i], &problem));
        for (int again = 0; again < 2; again++) {
            const struct snapshot_info *newest = snapshots_newest(f->snapshots);
            assert_int_equal(newest->index, index);
            assert_int_equal(newest->term, 3);
            assert_int_equal(newest->configuration_index, index / 2);
            assert_true(slice_equal(newest->configuration,
                                    slice_make(configuration, sizeof(configuration))));
            assert_true(snapshots_newest_bytes(f->snapshots) > sizes[i]);
            assert_done(snapshots_verify_newest(f->snapshots, &problem));
            assert_done(load(f->snapshots, index, 3, sizes[i], &problem));
            reopen(f);
        }
    }
}

static void only_the_newest_and_the_pinned_are_kept(void **state)
{
    struct fixture *f = *state;
    struct problem problem;
    for (uint64_t index = 1; index <= 5; index++)
        assert_done(take(f->snapshots, index, 1, 1000, &problem));
    assert_true(snapshots_pin(f->snapshots, 2, 1));
    assert_false(snapshots_pin(f->snapshots, 2, 2));
    struct snapshot_source *source;
    assert_done(snapshot_source_open(f->snapshots, 3, 1, &source, &problem));
    assert_done(snapshots_prune(f->snapshots, &problem));
    assert_problem(load(f->snapshots, 1, 1, 1000, &problem), STORAGE_MISSING,
                   "snapshot-000000000001-000001");
    assert_done(load(f->snapshots, 2, 1, 1000, &problem));
    assert_done(load(f->snapshots, 3, 1, 1000, &problem));
    snapshot_source_close(source);
    snapshots_unpin(f->snapshots, 2, 1);
    assert_done(snapshots_prune(f->snapshots, &problem));
    assert_problem(load(f->snapshots, 2, 1, 1000, &problem), STORAGE_MISSING, "snapshot");
    assert_problem(load(f->snapshots, 4, 1, 1000, &problem), STORAGE_MISSING, "snapshot");
    reopen(f);
    assert_done(load(f->snapshots, 5, 1, 1000, &problem));
}

static void a_snapshot_that_is_given_up_leaves_nothing(void **state)
{
    struct fixture *f = *state;
    struct problem problem;
    assert_done(take(f->snapshots, 7, 1, 1000, &problem));
    struct snapshot_info info = info_at(9, 1);
    struct snapshot_output *output;
    assert_done(snapshot_output_begin(f->snapshots, &info, BLOCK, &output, &problem));
    assert_done(snapshot_output_put(output, configuration, 20, &problem));
    snapshot_output_abort(output);
    snapshot_output_abort(NULL);
    uint64_t size;
    assert_null(disk_fake_file(f->fake, SNAPSHOT_TEMPORARY, &size));
    /* One whose child died without its end does not become one. */
    assert_done(snapshot_output_begin(f->snapshots, &info, BLOCK, &output, &problem));
    assert_done(snapshot_output_put(output, configuration, 20, &problem));
    assert_problem(snapshot_output_commit(output, &problem), STORAGE_CORRUPT, "no end");
    assert_int_equal(snapshots_newest(f->snapshots)->index, 7);
    assert_done(load(f->snapshots, 7, 1, 1000, &problem));
    reopen(f);
    assert_null(disk_fake_file(f->fake, SNAPSHOT_TEMPORARY, &size));
}

static void a_full_disk_leaves_the_snapshots_as_they_were(void **state)
{
    struct fixture *f = *state;
    struct problem problem;
    assert_done(take(f->snapshots, 7, 1, 1000, &problem));
    uint64_t used = disk_fake_bytes(f->fake);
    for (uint64_t space = 0; space < 6000; space += 250) {
        disk_fake_set_capacity(f->fake, used + space);
        enum storage_status status = take(f->snapshots, 9, 1, 5000, &problem);
        if (status == STORAGE_OK)
            break;
        assert_int_equal(status, STORAGE_FULL);
        disk_fake_set_capacity(f->fake, UINT64_MAX);
        assert_int_equal(snapshots_newest(f->snapshots)->index, 7);
        assert_done(load(f->snapshots, 7, 1, 1000, &problem));
    }
    assert_int_equal(snapshots_newest(f->snapshots)->index, 9);
    assert_done(load(f->snapshots, 9, 1, 5000, &problem));
}

/* ---- sending and receiving ---- */

/* Sends the newest of one to another, in pieces of at most `piece` bytes; with a broken connection
 * every so often. */
static enum storage_status transfer(struct snapshots *from, struct snapshots *to, size_t piece_max,
                                    uint32_t breaks, struct random *random, struct problem *problem)
{
    struct snapshot_info info = *snapshots_newest(from);
    struct snapshot_intake *intake;
    enum storage_status status = snapshot_intake_begin(to, &info, &intake, problem);
    if (status != STORAGE_OK)
        return status;
    while (status == STORAGE_OK && !snapshot_intake_is_complete(intake)) {
        struct snapshot_source *source;
        assert_int_equal(snapshot_source_open(from, info.index, info.term, &source, problem),
                         STORAGE_OK);
        uint64_t received = snapshot_intake_received(intake);
        assert_true(snapshot_source_skip(source, received));
        bool connected = true;
        struct snapshot_piece piece = {.last = false};
        while (connected && !piece.last && status == STORAGE_OK) {
            assert_int_equal(snapshot_source_next(source, &piece, problem), STORAGE_OK);
            assert_int_equal(piece.offset, snapshot_intake_received(intake));
            for (size_t at = 0; at < piece.raw.len && connected && status == STORAGE_OK;) {
                size_t n = 1 + random_below(random, (uint32_t)piece_max);
                n = piece.raw.len - at < n ? piece.raw.len - at : n;
                status = snapshot_intake_feed(intake, piece.raw.data + at, n, problem);
                at += n;
                connected = breaks == 0 || random_below(random, breaks) != 0;
            }
        }
        snapshot_source_close(source);
    }
    if (status != STORAGE_OK) {
        snapshot_intake_abort(intake);
        return status;
    }
    return snapshot_intake_commit(intake, problem);
}

static void a_snapshot_is_received_in_pieces_of_any_size(void **state)
{
    struct fixture *f = *state;
    struct problem problem;
    struct random random;
    random_init(&random, __func__);
    for (uint64_t index = 1; index < 60; index++) {
        size_t len = random_below(&random, 6000);
        assert_done(take(f->snapshots, index, 2, len, &problem));
        struct disk_fake *other = disk_fake_new(index);
        struct snapshots *there;
        assert_done(snapshots_open(disk_fake_disk(other), cluster, &there, &problem));
        assert_done(transfer(f->snapshots, there, 1 + 40 * index, index % 3 == 0 ? 7 : 0, &random,
                             &problem));
        assert_int_equal(snapshots_newest(there)->index, index);
        assert_done(load(there, index, 2, len, &problem));
        snapshots_close(there);
        disk_fake_power_cut(other);
        assert_done(snapshots_open(disk_fake_disk(other), cluster, &there, &problem));
        assert_done(load(there, index, 2, len, &problem));
        snapshots_close(there);
        disk_fake_free(other);
    }
}

/* Pieces are fed by a loop that has clients to serve: only the commit may wait for the disk. */
static void a_snapshot_that_is_received_is_synced_once(void **state)
{
    struct fixture *f = *state;
    struct problem problem;
    struct random random;
    random_init(&random, __func__);
    assert_done(take(f->snapshots, 9, 2, 3 << 20, &problem));
    struct disk_fake *other = disk_fake_new(9);
    struct snapshots *there;
    assert_done(snapshots_open(disk_fake_disk(other), cluster, &there, &problem));
    uint64_t before = disk_fake_counts(other).syncs;
    assert_done(transfer(f->snapshots, there, 100000, 0, &random, &problem));
    assert_int_equal(disk_fake_counts(other).syncs - before, 1);
    snapshots_close(there);
    disk_fake_free(other);
}

static void a_transfer_can_go_on_at_every_offset(void **state)
{
    struct fixture *f = *state;
    struct problem problem;
    for (int round = 0; round < 2; round++) {
        uint64_t index = 9 + (uint64_t)round;
        size_t len = round == 0 ? 3 * BLOCK : 3 * BLOCK + 99;
        assert_done(take(f->snapshots, index, 2, len, &problem));
        uint64_t size;
        char name[SNAPSHOT_NAME_MAX];
        snapshot_name(name, index, 2);
        const uint8_t *bytes = disk_fake_file(f->fake, name, &size);
        for (uint64_t offset = 0; offset < size; offset++) {
            struct snapshot_source *source;
            assert_done(snapshot_source_open(f->snapshots, index, 2, &source, &problem));
            assert_int_equal(snapshot_source_bytes(source), size);
            assert_true(snapshot_source_skip(source, offset));
            uint64_t at = offset;
            struct snapshot_piece piece = {.last = false};
            while (!piece.last) {
                assert_done(snapshot_source_next(source, &piece, &problem));
                assert_int_equal(piece.offset, at);
                assert_memory_equal(bytes + at, piece.raw.data, piece.raw.len);
                at += piece.raw.len;
            }
            assert_int_equal(at, size);
            snapshot_source_close(source);
        }
        struct snapshot_source *source;
        assert_done(snapshot_source_open(f->snapshots, index, 2, &source, &problem));
        assert_false(snapshot_source_skip(source, size));
        snapshot_source_close(source);
    }
}

/* Feeds bytes as they are. */
static enum storage_status feed_all(struct snapshots *to, const struct snapshot_info *info,
                                    const uint8_t *bytes, size_t size, struct problem *problem)
{
    struct snapshot_intake *intake;
    enum storage_status status = snapshot_intake_begin(to, info, &intake, problem);
    for (size_t at = 0; at < size && status == STORAGE_OK; at += 100)
        status =
            snapshot_intake_feed(intake, bytes + at, size - at < 100 ? size - at : 100, problem);
    if (status == STORAGE_OK)
        return snapshot_intake_commit(intake, problem);
    snapshot_intake_abort(intake);
    return status;
}

static void damage_on_the_way_is_noticed_at_its_block(void **state)
{
    struct fixture *f = *state;
    struct problem problem;
    assert_done(take(f->snapshots, 9, 2, 2000, &problem));
    uint64_t size;
    const uint8_t *bytes = disk_fake_file(f->fake, "snapshot-000000000009-000002", &size);
    struct disk_fake *other = disk_fake_new(1);
    struct snapshots *there;
    assert_done(snapshots_open(disk_fake_disk(other), cluster, &there, &problem));
    struct snapshot_info info = info_at(9, 2);
    uint8_t *changed = malloc(size);
    for (uint64_t at = 0; at < size; at++) {
        memcpy(changed, bytes, size);
        changed[at] ^= (uint8_t)(1 << at % 8);
        enum storage_status status = feed_all(there, &info, changed, size, &problem);
        if (status == STORAGE_OK)
            fail_msg("a flip at %llu was not noticed", (unsigned long long)at);
        assert_null(snapshots_newest(there));
    }
    for (uint64_t len = 0; len < size; len += 11)
        assert_problem(feed_all(there, &info, bytes, len, &problem), STORAGE_CORRUPT, "cut off");
    uint8_t *more = malloc(size + 1);
    memcpy(more, bytes, size);
    more[size] = 0;
    assert_problem(feed_all(there, &info, more, size + 1, &problem), STORAGE_CORRUPT,
                   "behind its end");
    /* Another one than the one that was announced. */
    struct snapshot_info wrong = info;
    wrong.index = 8;
    assert_problem(feed_all(there, &wrong, bytes, size, &problem), STORAGE_CORRUPT, "announced");
    wrong = info;
    wrong.configuration_index++;
    assert_problem(feed_all(there, &wrong, bytes, size, &problem), STORAGE_CORRUPT, "announced");
    wrong = info;
    wrong.cluster.low = 5;
    assert_problem(feed_all(there, &wrong, bytes, size, &problem), STORAGE_FOREIGN, "cluster");
    assert_null(snapshots_newest(there));
    uint64_t left;
    assert_null(disk_fake_file(other, SNAPSHOT_RECEIVED, &left));
    assert_done(feed_all(there, &info, bytes, size, &problem));
    assert_int_equal(snapshots_newest(there)->index, 9);
    free(changed);
    free(more);
    snapshots_close(there);
    disk_fake_free(other);
}

/* ---- damage ---- */

static void a_flipped_bit_is_named_at_opening_or_loading(void **state)
{
    struct fixture *f = *state;
    struct problem problem;
    assert_done(take(f->snapshots, 8, 2, 700, &problem));
    assert_done(take(f->snapshots, 9, 2, 2000, &problem));
    const char *name = "snapshot-000000000009-000002";
    uint64_t size;
    disk_fake_file(f->fake, name, &size);
    uint64_t at_opening = 0, at_loading = 0;
    for (uint64_t at = 0; at < size; at++) {
        disk_fake_flip(f->fake, name, at, (unsigned)(at % 8));
        struct snapshots *snapshots;
        if (snapshots_open(disk_fake_disk(f->fake), cluster, &snapshots, &problem) == STORAGE_OK) {
            assert_problem(load(snapshots, 9, 2, 2000, &problem), STORAGE_CORRUPT, name);
            assert_problem(snapshots_verify_newest(snapshots, &problem), STORAGE_CORRUPT, name);
            at_loading++;
            snapshots_close(snapshots);
        } else {
            assert_int_equal(problem.status, STORAGE_CORRUPT);
            assert_non_null(strstr(problem.text, name));
            at_opening++;
        }
        disk_fake_flip(f->fake, name, at, (unsigned)(at % 8));
    }
    assert_true(at_opening > 130 && at_loading > 1900);
}

static void a_file_that_was_cut_off_or_grew_is_named(void **state)
{
    struct fixture *f = *state;
    struct problem problem;
    assert_done(take(f->snapshots, 9, 2, 2000, &problem));
    const char *name = "snapshot-000000000009-000002";
    uint64_t size;
    const uint8_t *bytes = disk_fake_file(f->fake, name, &size);
    uint8_t *changed = calloc(1, size + 600);
    memcpy(changed, bytes, size);
    for (uint64_t len = 0; len < size + 600; len++) {
        if (len == size)
            continue;
        disk_fake_put(f->fake, name, changed, len);
        struct snapshots *snapshots;
        assert_problem(snapshots_open(disk_fake_disk(f->fake), cluster, &snapshots, &problem),
                       STORAGE_CORRUPT, name);
    }
    free(changed);
}

static void files_of_others_are_named(void **state)
{
    struct fixture *f = *state;
    struct problem problem;
    assert_done(take(f->snapshots, 9, 2, 2000, &problem));
    struct snapshots *snapshots;
    struct id other = {1, 1};
    assert_problem(snapshots_open(disk_fake_disk(f->fake), other, &snapshots, &problem),
                   STORAGE_FOREIGN, "belongs to cluster");
    struct id none = {0, 0};
    assert_done(snapshots_open(disk_fake_disk(f->fake), none, &snapshots, &problem));
    snapshots_close(snapshots);
    uint64_t size;
    const uint8_t *bytes = disk_fake_file(f->fake, "snapshot-000000000009-000002", &size);
    disk_fake_put(f->fake, "snapshot-000000000010-000002", bytes, size);
    assert_problem(snapshots_open(disk_fake_disk(f->fake), cluster, &snapshots, &problem),
                   STORAGE_CORRUPT, "holds the snapshot of index 9");
    disk_fake_remove(f->fake, "snapshot-000000000010-000002");
    uint8_t newer[4096];
    memcpy(newer, bytes, size);
    put_u32(newer + 16, 2);
    put_u64(newer, storage_checksum(newer + 8, snapshot_header_size(sizeof(configuration)) - 8, 0));
    disk_fake_put(f->fake, "snapshot-000000000009-000002", newer, size);
    assert_problem(snapshots_open(disk_fake_disk(f->fake), cluster, &snapshots, &problem),
                   STORAGE_VERSION, "format version 2");
}

/* ---- crashes ---- */

static void every_crash_point_leaves_the_old_or_the_new_one(void **state)
{
    (void)state;
    uint64_t points = 0;
    struct random random;
    random_init(&random, __func__);
    for (uint64_t seed = 0; seed < 20; seed++) {
        for (uint64_t stop = 0;; stop++, points++) {
            struct problem problem;
            struct fixture f = {.fake = disk_fake_new(seed * 1000 + stop)};
            reopen(&f);
            assert_done(take(f.snapshots, 5, 1, 1500, &problem));
            struct fixture other = {.fake = disk_fake_new(7)};
            reopen(&other);
            assert_done(take(other.snapshots, 9, 1, 2500, &problem));
            disk_fake_stop_after(f.fake, stop);
            enum storage_status status =
                seed % 2 == 0 ? take(f.snapshots, 9, 1, 2500, &problem)
                              : transfer(other.snapshots, f.snapshots, 600, 0, &random, &problem);
            bool acknowledged = status == STORAGE_OK;
            if (acknowledged)
                status = snapshots_prune(f.snapshots, &problem);
            bool stopped = disk_fake_has_stopped(f.fake);
            assert_true(status == STORAGE_OK || stopped);
            snapshots_close(f.snapshots);
            f.snapshots = NULL;
            if (seed % 4 < 2)
                disk_fake_power_cut(f.fake);
            else
                disk_fake_crash(f.fake);
            reopen(&f);
            uint64_t newest = snapshots_newest(f.snapshots)->index;
            assert_true(newest == 9 || (newest == 5 && !acknowledged));
            assert_done(load(f.snapshots, newest, 1, newest == 9 ? 2500 : 1500, &problem));
            uint64_t size;
            assert_null(disk_fake_file(f.fake, SNAPSHOT_TEMPORARY, &size));
            assert_null(disk_fake_file(f.fake, SNAPSHOT_RECEIVED, &size));
            snapshots_close(f.snapshots);
            snapshots_close(other.snapshots);
            disk_fake_free(f.fake);
            disk_fake_free(other.fake);
            if (!stopped)
                break;
        }
    }
    printf("           %llu crash points\n", (unsigned long long)points);
}

/* ---- for real ---- */

static void a_forked_child_writes_a_snapshot_of_its_parent(void **state)
{
    (void)state;
    struct problem problem;
    const char *path = temporary_folder(NULL);
    struct disk *disk;
    struct snapshots *snapshots;
    assert_done(disk_posix_new(path, &disk, &problem));
    assert_done(snapshots_open(disk, cluster, &snapshots, &problem));
    struct snapshot_info info = info_at(9, 2);
    struct snapshot_output *output;
    assert_done(snapshot_output_begin(snapshots, &info, 0, &output, &problem));
    size_t len = 20000000;
    uint8_t *body = body_of(9, len);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        int kept = disk_posix_descriptor(snapshot_output_file(output));
        for (int fd = 3; fd < 64; fd++)
            if (fd != kept)
                close(fd);
        for (size_t at = 0; at < len; at += 65536)
            if (snapshot_output_put(output, body + at, len - at < 65536 ? len - at : 65536,
                                    &problem) != STORAGE_OK)
                _exit(1);
        _exit(snapshot_output_finish(output, &problem) == STORAGE_OK ? 0 : 1);
    }
    memset(body, 0, len); /* the child has its own */
    free(body);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_done(snapshot_output_commit(output, &problem));
    assert_done(load(snapshots, 9, 2, len, &problem));
    snapshots_close(snapshots);
    assert_done(snapshots_open(disk, cluster, &snapshots, &problem));
    assert_int_equal(snapshots_newest(snapshots)->index, 9);
    assert_done(snapshots_verify_newest(snapshots, &problem));
    snapshots_close(snapshots);
    disk_posix_free(disk);
    temporary_remove(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        T(a_snapshot_comes_back_as_it_was),
        T(only_the_newest_and_the_pinned_are_kept),
        T(a_snapshot_that_is_given_up_leaves_nothing),
        T(a_full_disk_leaves_the_snapshots_as_they_were),
        T(a_snapshot_is_received_in_pieces_of_any_size),
        T(a_snapshot_that_is_received_is_synced_once),
        T(a_transfer_can_go_on_at_every_offset),
        T(damage_on_the_way_is_noticed_at_its_block),
        T(a_flipped_bit_is_named_at_opening_or_loading),
        T(a_file_that_was_cut_off_or_grew_is_named),
        T(files_of_others_are_named),
        cmocka_unit_test(every_crash_point_leaves_the_old_or_the_new_one),
        cmocka_unit_test(a_forked_child_writes_a_snapshot_of_its_parent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

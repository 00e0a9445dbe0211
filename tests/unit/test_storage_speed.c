/* What an append costs on the disk of this machine: printed, not asserted, since the disk is shared
 * with whatever else runs. HOLDFAST_TEST_DISK names another folder than /tmp. */
#define _POSIX_C_SOURCE 200809L

#include "storage_testing.h"

#include <time.h>

#include "storage/disk_posix.h"
#include "temporary.h"

static double now_us(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void report(const char *what, double *times, size_t count)
{
    qsort(times, count, sizeof(*times), by_size);
    printf("           %-42s p50 %6.0f us   p90 %6.0f   p99 %6.0f   max %6.0f\n", what,
           times[count / 2], times[count * 9 / 10], times[count * 99 / 100], times[count - 1]);
}

struct place {
    const char *path;
    struct disk *disk;
    struct log *log;
};

static void open_place(struct place *place)
{
    struct problem problem;
    place->path = temporary_folder(getenv("HOLDFAST_TEST_DISK"));
    assert_done(disk_posix_new(place->path, &place->disk, &problem));
    struct log_options options = {.store = test_store, .life = 1, .create = true};
    assert_done(log_open(place->disk, &options, &place->log, &problem));
}

static void close_place(struct place *place)
{
    log_close(place->log);
    disk_posix_free(place->disk);
    temporary_remove(place->path);
}

/* The log prepares itself between appends, as the node does it. */
static void appends_of_four_kibibytes(void **state)
{
    (void)state;
    enum { COUNT = 1000 };
    static double times[COUNT], steps[64];
    struct problem problem;
    struct place place;
    open_place(&place);
    static uint8_t bytes[4096 - 48];
    memset(bytes, 'x', sizeof(bytes));
    struct log_entry entry = {.term = 1, .type = 1, .data = slice_make(bytes, sizeof(bytes))};
    size_t step_count = 0;
    while (log_wants_prepare(place.log) && step_count < 64) {
        double start = now_us();
        assert_done(log_prepare(place.log, &problem));
        steps[step_count++] = now_us() - start;
    }
    for (uint64_t i = 0; i < COUNT; i++) {
        double start = now_us();
        assert_done(log_append(place.log, i + 1, &entry, 1, &problem));
        times[i] = now_us() - start;
    }
    report("append of 4 KiB, one write and one sync", times, COUNT);
    report("a step of log_prepare, 1 MiB of zeros", steps, step_count);
    double start = now_us();
    size_t pieces = 0;
    for (uint64_t index = 1; index <= COUNT; pieces++) {
        struct log_piece piece;
        assert_done(log_read(place.log, index, COUNT, 256 << 10, &piece, &problem));
        index += piece.count;
        log_piece_free(&piece);
    }
    printf("           %-42s %.0f us each\n", "reading 256 KiB of entries",
           (now_us() - start) / (double)pieces);
    log_close(place.log);
    start = now_us();
    struct log_options options = {.store = test_store, .life = 2};
    assert_done(log_open(place.disk, &options, &place.log, &problem));
    printf("           %-42s %.0f ms\n", "opening a log of 4 MiB in a 16 MiB segment",
           (now_us() - start) / 1e3);
    close_place(&place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appends_of_four_kibibytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

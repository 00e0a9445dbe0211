/* A log on a disk in memory, with a naive one beside it. To be included first. */
#ifndef HOLDFAST_TESTS_STORAGE_LOG_FIXTURE_H
#define HOLDFAST_TESTS_STORAGE_LOG_FIXTURE_H

#include "storage_testing.h"

enum { SMALL = 16384 }; /* a segment, with 12 KiB for records */

struct fixture {
    struct disk_fake *fake;
    struct log *log;
    uint64_t life;
    uint32_t segment_bytes;
    uint32_t spare_limit;
    bool direct;
    struct naive naive;
    uint64_t seed;
};

static inline enum storage_status reopen(struct fixture *f, struct problem *problem)
{
    log_close(f->log);
    f->log = NULL;
    struct log_options options = {.segment_bytes = f->segment_bytes,
                                  .spare_limit = f->spare_limit,
                                  .store = test_store,
                                  .life = ++f->life,
                                  .create = f->life == 1,
                                  .direct = f->direct};
    return log_open(disk_fake_disk(f->fake), &options, &f->log, problem);
}

static inline int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    f->fake = disk_fake_new(1);
    f->segment_bytes = SMALL;
    naive_init(&f->naive);
    struct problem problem;
    assert_done(reopen(f, &problem));
    *state = f;
    return 0;
}

static inline int teardown(void **state)
{
    struct fixture *f = *state;
    log_close(f->log);
    disk_fake_free(f->fake);
    free(f);
    return 0;
}

/* Appends `count` entries of `len` bytes each from `first` on, as one batch. */
static inline enum storage_status append(struct fixture *f, uint64_t first, size_t count,
                                         uint32_t len, uint64_t term, struct problem *problem)
{
    struct naive_entry list[512];
    assert_true(count <= 512);
    for (size_t i = 0; i < count; i++)
        list[i] = (struct naive_entry){.term = term, .seed = ++f->seed, .len = len};
    enum storage_status status = append_naive(f->log, first, list, count, problem);
    for (size_t i = 0; i < count && status == STORAGE_OK; i++)
        naive_set(&f->naive, first + i, list[i]);
    return status;
}

static inline void assert_same_after_reopening(struct fixture *f)
{
    struct problem problem;
    assert_log_equals(f->log, &f->naive);
    assert_done(reopen(f, &problem));
    assert_log_equals(f->log, &f->naive);
}

#endif

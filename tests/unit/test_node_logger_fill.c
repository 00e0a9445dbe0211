/* The file of the next segment is filled beside the loop's own writes: they do not wait for it, and
 * what goes wrong with it. */
#include "base_testing.h"

#include "logger_rig.h"

/* What becomes of writes to the file that is being filled. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool hold;  /* they wait until fill_release */
    bool holds; /* one does */
    bool fail;
    unsigned full; /* so many find no space */
} fill = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static enum storage_status fill_write(struct disk_file *file, uint64_t offset, const void *data,
                                      size_t len, struct problem *problem)
{
    enum storage_status status = STORAGE_OK;
    if (strcmp(file->name, "log.tmp") == 0) {
        pthread_mutex_lock(&fill.lock);
        while (fill.hold) {
            fill.holds = true;
            pthread_cond_broadcast(&fill.changed);
            pthread_cond_wait(&fill.changed, &fill.lock);
        }
        fill.holds = false;
        if (fill.full > 0) {
            fill.full--;
            status = problem_set(problem, STORAGE_FULL, "no space, the test says");
        } else if (fill.fail) {
            status = problem_set(problem, STORAGE_IO, "log.tmp fell off");
        }
        pthread_mutex_unlock(&fill.lock);
    }
    return status == STORAGE_OK ? fake.real->write(file, offset, data, len, problem) : status;
}

static void fill_wait_until_held(void)
{
    alarm(60);
    pthread_mutex_lock(&fill.lock);
    while (!fill.holds) {
        pthread_cond_wait(&fill.changed, &fill.lock);
    }
    pthread_mutex_unlock(&fill.lock);
    alarm(0);
}

static void fill_release(void)
{
    pthread_mutex_lock(&fill.lock);
    fill.hold = false;
    pthread_cond_broadcast(&fill.changed);
    pthread_mutex_unlock(&fill.lock);
}

/* The first segment is full and a prepared one is used, so that another is wanted. */
static uint64_t open_in_second_segment(struct rig *r)
{
    uint64_t last = 0;
    rig_open(r, true);
    settle(r);
    fake.ops.write = fill_write;
    for (size_t bytes = 0; bytes < SEGMENT; bytes += (size_t)10 * ENTRY) {
        write_some(r, last + 1, 10, 1);
        last += 10;
        run_until(r, last);
    }
    return last;
}

static void appends_do_not_wait_while_the_next_file_is_filled(void **state)
{
    (void)state;
    struct rig r;
    fill.hold = true;
    uint64_t last = open_in_second_segment(&r);
    fill_wait_until_held();
    struct logger_stats before = stats_of(&r);
    for (int i = 0; i < 3; i++) {
        write_some(&r, last + 1, 1, 1);
        run_until(&r, ++last);
    }
    assert_int_equal(stats_of(&r).direct, before.direct + 3);
    fill_release();
    settle(&r); /* it becomes a segment all the same */
    for (uint64_t i = 1; i <= last; i++) {
        assert_reads(&r, i, 1);
    }
    rig_close(&r);
}

static void what_is_the_thread_s_comes_before_the_next_step(void **state)
{
    (void)state;
    struct rig r;
    fill.hold = true;
    uint64_t last = open_in_second_segment(&r);
    fill_wait_until_held();
    fake.begin = DISK_DIRECT_AGAIN; /* the thread is to write that, when it can */
    write_some(&r, last + 1, 1, 1);
    fill_release();
    run_until(&r, last + 1);
    settle(&r);
    assert_reads(&r, last + 1, 1);
    rig_close(&r);
}

static void appends_go_on_where_there_is_no_space_for_the_next_file(void **state)
{
    (void)state;
    struct rig r;
    fill.full = 2;
    uint64_t last = open_in_second_segment(&r);
    write_some(&r, last + 1, 1, 1);
    run_until(&r, last + 1);
    assert_int_equal(r.full, 0); /* nobody waits for it yet */
    settle(&r);                  /* and it is tried again */
    pthread_mutex_lock(&fill.lock);
    unsigned left = fill.full;
    pthread_mutex_unlock(&fill.lock);
    assert_int_equal(left, 0);
    rig_close(&r);
}

static void a_file_that_cannot_be_filled_ends_the_logger(void **state)
{
    (void)state;
    struct rig r;
    fill.hold = true;
    (void)open_in_second_segment(&r);
    fill_wait_until_held();
    fill.fail = true;
    fill_release();
    alarm(60);
    while (r.failed == 0) {
        uv_run(&r.loop, UV_RUN_ONCE);
    }
    alarm(0);
    assert_int_equal(r.failed, 1);
    assert_string_equal(r.text, "log.tmp fell off");
    fill.fail = false;
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appends_do_not_wait_while_the_next_file_is_filled),
        cmocka_unit_test(what_is_the_thread_s_comes_before_the_next_step),
        cmocka_unit_test(appends_go_on_where_there_is_no_space_for_the_next_file),
        cmocka_unit_test(a_file_that_cannot_be_filled_ends_the_logger),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* When `holdfast dev` starts a node again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/dev_restart.h"

enum { PAUSE = 3000 };

static const struct dev_end killed = {.was_ready = true, .was_signalled = true};
static const struct dev_end crashed = {.was_ready = true};
static const struct dev_end not_started = {.was_ready = false};

static void a_killed_node_starts_again_after_the_pause_each_time(void **state)
{
    struct dev_restart r = {.started_ms = 0};
    for (int64_t now = 100; now < 2000; now += 100) {
        assert_true(dev_restart_plan(&r, killed, PAUSE, now));
        assert_int_equal(r.due_ms, now + PAUSE);
        r.started_ms = now;
    }
}

static void a_node_that_fails_at_its_start_waits_longer_each_time_and_then_stays_down(void **state)
{
    struct dev_restart r = {.started_ms = 1000};
    int64_t pause = PAUSE;
    for (int i = 1; i < DEV_FAILURES_MAX; i++) {
        assert_true(dev_restart_plan(&r, i % 2 == 0 ? crashed : not_started, PAUSE, 1500));
        assert_int_equal(r.due_ms, 1500 + pause);
        pause *= 2;
    }
    assert_false(dev_restart_plan(&r, crashed, PAUSE, 1500));
    assert_int_equal(r.due_ms, 0);
}

static void a_node_that_ran_long_enough_begins_the_count_anew(void **state)
{
    struct dev_restart r = {.started_ms = 0};
    for (int i = 1; i < DEV_FAILURES_MAX; i++) {
        assert_true(dev_restart_plan(&r, crashed, PAUSE, 10));
    }
    assert_true(dev_restart_plan(&r, crashed, PAUSE, DEV_STEADY_MS));
    assert_int_equal(r.failures, 0);
    assert_int_equal(r.due_ms, DEV_STEADY_MS + PAUSE);
}

static void the_pause_has_a_limit(void **state)
{
    struct dev_restart r = {.failures = DEV_FAILURES_MAX - 2};
    assert_true(dev_restart_plan(&r, not_started, DEV_PAUSE_MAX_MS, 5));
    assert_int_equal(r.due_ms, 5 + DEV_PAUSE_MAX_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killed_node_starts_again_after_the_pause_each_time),
        cmocka_unit_test(a_node_that_fails_at_its_start_waits_longer_each_time_and_then_stays_down),
        cmocka_unit_test(a_node_that_ran_long_enough_begins_the_count_anew),
        cmocka_unit_test(the_pause_has_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What `holdfast ttl-advice` measures of renewals, and the TTL that it computes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/ttl_advice.h"

struct fixture {
    struct ttl_measure m;
    struct ttl_values gaps;
    struct ttl_values late;
    struct ttl_kinds kinds;
};

static int set_up(void **state)
{
    static struct fixture f;
    assert_true(ttl_measure_init(&f.m) && ttl_values_init(&f.gaps) && ttl_values_init(&f.late));
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    ttl_measure_close(&f->m);
    ttl_values_close(&f->gaps);
    ttl_values_close(&f->late);
    return 0;
}

/* A lease of `ttl_ms` that was renewed at `renewed_ms` is read at `now_ms`. */
static void see(struct fixture *f, uint64_t id, uint64_t ttl_ms, uint64_t renewed_ms,
                uint64_t now_ms)
{
    ttl_measure_see(&f->m, id, 1000000 + renewed_ms + ttl_ms, renewed_ms + ttl_ms - now_ms,
                    (int64_t)now_ms);
}

static void sum(struct fixture *f)
{
    ttl_measure_sum(&f->m, &f->gaps, &f->late, &f->kinds);
}

static void gaps_are_exact_whenever_the_list_is_read(void **state)
{
    struct fixture *f = *state;
    see(f, 1, 9000, 0, 100);
    see(f, 1, 9000, 0, 2900);
    see(f, 1, 9000, 3000, 5800);
    see(f, 1, 9000, 6000, 6001);
    see(f, 1, 9000, 10500, 12000); /* 1.5 s late */
    sum(f);
    assert_int_equal(f->gaps.count, 3);
    assert_int_equal(ttl_values_quantile(&f->gaps, 500), 3000);
    assert_int_equal(ttl_values_quantile(&f->gaps, 1000), 4500);
    assert_int_equal(ttl_values_quantile(&f->late, 1000), 1500);
    assert_int_equal(f->kinds.renewed, 1);
    assert_int_equal(f->kinds.ttl_max_ms, 8999);
}

static void a_corrected_wall_clock_is_no_renewal(void **state)
{
    struct fixture *f = *state;
    see(f, 1, 30000, 0, 0);
    ttl_measure_see(&f->m, 1, 1000000 + 30000 + 700, 29000, 1000);
    sum(f);
    assert_int_equal(f->gaps.count, 0);
    assert_int_equal(f->kinds.renewed, 0);
}

static void a_lease_without_renewals_counts_when_half_of_it_is_over(void **state)
{
    struct fixture *f = *state;
    see(f, 1, 60000, 0, 0);
    see(f, 1, 60000, 0, 29000); /* nothing is known yet */
    see(f, 2, 60000, 0, 0);
    see(f, 2, 60000, 0, 31000);
    sum(f);
    assert_int_equal(f->kinds.renewed, 0);
    assert_int_equal(f->kinds.not_renewed, 1);
    assert_int_equal(f->m.count, 2);
}

static void two_renewals_tell_no_lateness(void **state)
{
    struct fixture *f = *state;
    see(f, 1, 9000, 0, 0);
    see(f, 1, 9000, 3000, 3000);
    see(f, 1, 9000, 8000, 8000);
    sum(f);
    assert_int_equal(f->gaps.count, 2);
    assert_int_equal(f->late.count, 0);
}

static void further_leases_are_counted_and_not_measured(void **state)
{
    struct fixture *f = *state;
    for (uint64_t id = 0; id < TTL_LEASES + 3; id++) {
        see(f, id, 1000, 0, 0);
    }
    assert_int_equal(f->m.count, TTL_LEASES);
    assert_int_equal(f->m.omitted, 3);
    assert_int_equal(ttl_measure_pause_ms(&f->m), 125); /* an eighth of the shortest TTL */
}

static void the_ttl_outlasts_what_its_rule_names(void **state)
{
    (void)state;
    /* From a confirmed message: a third of the TTL, then all of these. */
    for (uint64_t late_ms = 0; late_ms < 20000; late_ms += 777) {
        uint64_t ttl_ms = ttl_rule_ms(late_ms, 3000, 5);
        assert_true(ttl_ms - ttl_ms / 3 + 1 >= late_ms + 3000 + TTL_RETRY_MS + 5);
        assert_true(ttl_rounded_ms(ttl_ms) >= ttl_ms);
    }
    assert_int_equal(ttl_rounded_ms(0), 1000);
    assert_int_equal(ttl_rounded_ms(5001), 10000);
    assert_int_equal(ttl_rounded_ms(UINT64_MAX), 86400000);
}

static void the_pause_of_the_operator_counts_if_it_is_longer(void **state)
{
    struct fixture *f = *state;
    struct ttl_report r = {.name = "a", .outage_ms = 1000, .pause_ms = 5000};
    r.late = f->late;
    ttl_values_add(&r.late, 2000);
    ttl_decide(&r);
    assert_int_equal(r.basis, TTL_BY_RENEWALS);
    assert_int_equal(r.late_ms, 5000);
    r.pause_ms = 3000;
    ttl_decide(&r);
    assert_int_equal(r.late_ms, 4000);
    r.late.count = 0;
    ttl_decide(&r);
    assert_int_equal(r.basis, TTL_BY_DEFAULTS);
    assert_int_equal(r.late_ms, 3000);
    r.pause_ms = 0;
    ttl_decide(&r);
    assert_int_equal(r.late_ms, TTL_ASSUMED_PAUSE_MS);
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH(gaps_are_exact_whenever_the_list_is_read),
        WITH(a_corrected_wall_clock_is_no_renewal),
        WITH(a_lease_without_renewals_counts_when_half_of_it_is_over),
        WITH(two_renewals_tell_no_lateness),
        WITH(further_leases_are_counted_and_not_measured),
        WITH(the_ttl_outlasts_what_its_rule_names),
        WITH(the_pause_of_the_operator_counts_if_it_is_longer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

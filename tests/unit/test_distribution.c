/* Unit tests of base/distribution.h. */
#include "base_testing.h"

#include "base/distribution.h"

static struct distribution d;

static int empty_it(void **state)
{
    (void)state;
    d = (struct distribution){0};
    return 0;
}

static void an_empty_one_has_no_quantile(void **state)
{
    (void)state;
    assert_int_equal(distribution_quantile(&d, NULL, 500), UINT64_MAX);
    assert_int_equal(distribution_up_to(&d, 1000), 0);
}

static void a_quantile_is_at_most_a_tenth_too_high(void **state)
{
    (void)state;
    for (uint64_t value = 1; value < UINT64_C(9000000000000); value += value / 7 + 1) {
        d = (struct distribution){0};
        distribution_add(&d, value);
        uint64_t found = distribution_quantile(&d, NULL, 990);
        assert_true(found >= value && found - value <= value / 10);
    }
}

static void every_1_2_and_5_is_the_end_of_a_bucket(void **state)
{
    (void)state;
    static const uint64_t firsts[] = {1, 2, 5};
    for (uint64_t power = 1; power <= UINT64_C(1000000000000); power *= 10) {
        for (unsigned i = 0; i < 3; i++) {
            uint64_t end = firsts[i] * power;
            d = (struct distribution){0};
            distribution_add(&d, end);
            distribution_add(&d, end + 1);
            assert_int_equal(distribution_up_to(&d, end), 1);
        }
    }
}

static void quantiles_are_those_of_the_values(void **state)
{
    (void)state;
    for (uint64_t value = 1; value <= 1000; value++) {
        distribution_add(&d, value * 1000);
    }
    assert_int_equal(d.count, 1000);
    assert_int_equal(d.sum, 500500000);
    assert_int_equal(distribution_quantile(&d, NULL, 500), 500000);
    assert_int_equal(distribution_quantile(&d, NULL, 1000), 1000000);
    assert_int_equal(distribution_up_to(&d, 200000), 200);
    uint64_t p99 = distribution_quantile(&d, NULL, 990);
    assert_true(p99 >= 990000 && p99 <= 1000000);
}

static void a_window_has_only_the_values_added_since(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) {
        distribution_add(&d, 5);
    }
    struct distribution before = d;
    assert_int_equal(distribution_quantile(&d, &before, 500), UINT64_MAX);
    distribution_add(&d, 2000);
    assert_int_equal(distribution_quantile(&d, &before, 500), 2000);
    assert_int_equal(distribution_quantile(&d, NULL, 500), 5);
}

static void zero_and_the_largest_value_are_counted(void **state)
{
    (void)state;
    distribution_add(&d, 0);
    distribution_add(&d, UINT64_MAX);
    assert_int_equal(d.count, 2);
    assert_int_equal(distribution_up_to(&d, 1), 1);
    assert_true(distribution_quantile(&d, NULL, 1000) >= UINT64_C(1000000000000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(an_empty_one_has_no_quantile, empty_it),
        cmocka_unit_test_setup(a_quantile_is_at_most_a_tenth_too_high, empty_it),
        cmocka_unit_test_setup(every_1_2_and_5_is_the_end_of_a_bucket, empty_it),
        cmocka_unit_test_setup(quantiles_are_those_of_the_values, empty_it),
        cmocka_unit_test_setup(a_window_has_only_the_values_added_since, empty_it),
        cmocka_unit_test_setup(zero_and_the_largest_value_are_counted, empty_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

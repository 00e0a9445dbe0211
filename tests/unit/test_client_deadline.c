/* The client's own deadline (S5): pure arithmetic, in a time that is an argument. */
#include "client/deadline.h"

#include "base_testing.h"

static void it_is_safe_for_the_ttl_less_a_thousandth_and_five_ms(void **state)
{
    struct life life = {100000, 30000};
    assert_int_equal(life_safe_until(life), 100000 + 30000 - 30 - 5);
    assert_int_equal(life_left(life_safe_until(life), 100000), 29965);
    assert_int_equal(life_left(life_safe_until(life), 129964), 1);
    assert_int_equal(life_left(life_safe_until(life), 129965), 0);
    assert_int_equal(life_left(life_safe_until(life), 200000), 0);
}

static void the_thousandth_is_rounded_up(void **state)
{
    struct life life = {0, 100};
    assert_int_equal(life_safe_until(life), 100 - 1 - 5);
    life.ttl_ms = 1001;
    assert_int_equal(life_safe_until(life), 1001 - 2 - 5);
}

static void jeopardy_comes_when_a_third_of_the_ttl_is_left(void **state)
{
    struct life life = {0, 30000};
    int64_t jeopardy = life_jeopardy_at(life);
    int64_t lost = life_safe_until(life);
    assert_int_equal(lost - jeopardy, 10000);
    assert_int_equal(life_standing(jeopardy, lost, jeopardy - 1), STANDING_SAFE);
    assert_int_equal(life_standing(jeopardy, lost, jeopardy), STANDING_JEOPARDY);
    assert_int_equal(life_standing(jeopardy, lost, lost - 1), STANDING_JEOPARDY);
    assert_int_equal(life_standing(jeopardy, lost, lost), STANDING_LOST);
}

static void a_confirmation_counts_from_its_sending_and_never_goes_back(void **state)
{
    struct life life = {1000, 30000};
    life_confirm(&life, 5000);
    assert_int_equal(life.confirmed_ms, 5000);
    life_confirm(&life, 4000);
    assert_int_equal(life.confirmed_ms, 5000);
}

static void what_confirms_the_session_confirms_its_locks(void **state)
{
    struct life session = {50000, 30000};
    struct life lock = {10000, 3000};
    assert_int_equal(life_lock_safe_until(lock, session), 50000 + 3000 - 3 - 5);
}

static void a_lock_does_not_outlive_its_session(void **state)
{
    struct life session = {50000, 1000};
    struct life lock = {50100, 30000};
    assert_int_equal(life_lock_safe_until(lock, session), life_safe_until(session));
    assert_int_equal(life_lock_jeopardy_at(lock, session), life_jeopardy_at(session));
}

static const struct life session = {100000, 30000};

static void a_shorter_ttl_counts_from_the_sending_of_its_renewal(void **state)
{
    struct lock_life l = {.known = {100000, 30000}};
    lock_life_renewal_sent(&l, 2000, 110000);
    assert_int_equal(lock_life_safe_until(&l, session), 110000 + 2000 - 2 - 5);
    assert_int_equal(lock_life_ttl(&l), 2000);
    lock_life_renewal_ended(&l, RENEWAL_APPLIED);
    assert_int_equal(lock_life_safe_until(&l, session), 110000 + 2000 - 2 - 5);
    lock_life_renewal_sent(&l, 30000, 111000);
    assert_int_equal(lock_life_safe_until(&l, session), 110000 + 2000 - 2 - 5);
    lock_life_renewal_ended(&l, RENEWAL_APPLIED);
    assert_int_equal(lock_life_safe_until(&l, session), life_safe_until(session));
    assert_int_equal(lock_life_ttl(&l), 30000);
}

static void a_renewal_that_was_not_applied_leaves_the_ttl_as_it_was(void **state)
{
    struct lock_life l = {.known = {100000, 30000}};
    lock_life_renewal_sent(&l, 2000, 110000);
    lock_life_renewal_ended(&l, RENEWAL_NOT_APPLIED);
    assert_int_equal(lock_life_safe_until(&l, session), life_safe_until(session));
    assert_int_equal(lock_life_ttl(&l), 30000);
}

static void a_renewal_without_an_answer_counts_after_a_later_one_is_confirmed(void **state)
{
    struct lock_life l = {.known = {100000, 30000}};
    lock_life_renewal_sent(&l, 2000, 110000);
    lock_life_renewal_ended(&l, RENEWAL_UNANSWERED);
    lock_life_renewal_sent(&l, 3000, 110500);
    lock_life_renewal_ended(&l, RENEWAL_UNANSWERED);
    assert_int_equal(lock_life_safe_until(&l, session), 110000 + 2000 - 2 - 5);
    lock_life_renewal_sent(&l, 20000, 111000);
    lock_life_renewal_ended(&l, RENEWAL_APPLIED);
    assert_int_equal(lock_life_safe_until(&l, session), 111000 + 2000 - 2 - 5);
    lock_life_confirm(&l, 112000);
    assert_int_equal(lock_life_safe_until(&l, session), 112000 + 2000 - 2 - 5);
    assert_int_equal(lock_life_ttl(&l), 2000);
}

static void a_lock_with_a_max_hold_ends_then_although_it_is_confirmed(void **state)
{
    struct lock_life l = {.known = {100000, 30000}, .hold = {100000, 60000}};
    assert_int_equal(lock_life_safe_until(&l, session), life_safe_until(session));
    assert_false(lock_life_ends_by_hold(&l, session));
    struct life confirmed = {150000, 30000};
    lock_life_confirm(&l, 150000);
    assert_int_equal(lock_life_safe_until(&l, confirmed), 100000 + 60000 - 60 - 5);
    assert_int_equal(lock_life_jeopardy_at(&l, confirmed), 100000 + 60000 - 60 - 5 - 15000);
    assert_true(lock_life_ends_by_hold(&l, confirmed));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_safe_for_the_ttl_less_a_thousandth_and_five_ms),
        cmocka_unit_test(the_thousandth_is_rounded_up),
        cmocka_unit_test(jeopardy_comes_when_a_third_of_the_ttl_is_left),
        cmocka_unit_test(a_confirmation_counts_from_its_sending_and_never_goes_back),
        cmocka_unit_test(what_confirms_the_session_confirms_its_locks),
        cmocka_unit_test(a_lock_does_not_outlive_its_session),
        cmocka_unit_test(a_shorter_ttl_counts_from_the_sending_of_its_renewal),
        cmocka_unit_test(a_renewal_that_was_not_applied_leaves_the_ttl_as_it_was),
        cmocka_unit_test(a_renewal_without_an_answer_counts_after_a_later_one_is_confirmed),
        cmocka_unit_test(a_lock_with_a_max_hold_ends_then_although_it_is_confirmed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

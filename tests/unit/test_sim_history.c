/* The checker of histories, on histories known to be good and known to be bad. Times are in
 * microseconds; a lease of 100 means that the holder is safe for that long after its call. */
#include "base_testing.h"

#include "../sim/history.h"
#include "../sim/register.h"

#define CALL(from, to) .call_us = (from), .return_us = (to)
#define GRANTED(t, from, to)                                                 \
    {                                                                        \
        .kind = HISTORY_GRANT, .token = (t), CALL(from, to), .lease_us = 100 \
    }
#define GRANTED_SHARED(t, from, to)                                                          \
    {                                                                                        \
        .kind = HISTORY_GRANT, .token = (t), CALL(from, to), .lease_us = 100, .shared = true \
    }
#define REFUSED(from, to)                       \
    {                                           \
        .kind = HISTORY_REFUSAL, CALL(from, to) \
    }
#define RELEASED(t, from, to)                                               \
    {                                                                       \
        .kind = HISTORY_RELEASE, .token = (t), .held = true, CALL(from, to) \
    }
#define WAS_GONE(t, from, to)                                 \
    {                                                         \
        .kind = HISTORY_RELEASE, .token = (t), CALL(from, to) \
    }
#define RENEWED(t, from, to)                                                               \
    {                                                                                      \
        .kind = HISTORY_RENEW, .token = (t), .held = true, CALL(from, to), .lease_us = 100 \
    }
#define READ(t, from, to)                                  \
    {                                                      \
        .kind = HISTORY_READ, .token = (t), CALL(from, to) \
    }
#define UNKNOWN(from, to)                       \
    {                                           \
        .kind = HISTORY_ACQUIRE, CALL(from, to) \
    }

#define VERDICT(...)                                  \
    verdict((const struct history_op[]){__VA_ARGS__}, \
            sizeof((const struct history_op[]){__VA_ARGS__}) / sizeof(struct history_op))

static enum history_verdict verdict(const struct history_op *ops, size_t count)
{
    char problem[400] = "";
    enum history_verdict verdict = history_check(ops, count, 100000, problem, sizeof(problem));
    assert_true((verdict == HISTORY_BAD) == (problem[0] != '\0'));
    return verdict;
}

/* ---- good ---- */

static void nothing_at_all_is_good(void **state)
{
    (void)state;
    assert_int_equal(verdict(NULL, 0), HISTORY_GOOD);
}

static void one_after_the_other_is_good(void **state)
{
    (void)state;
    assert_int_equal(VERDICT(GRANTED(1, 0, 10), REFUSED(12, 14), READ(1, 14, 16),
                             RELEASED(1, 20, 25), READ(0, 26, 28), GRANTED(2, 30, 35),
                             RENEWED(2, 40, 45), RELEASED(2, 150, 160)),
                     HISTORY_GOOD);
}

static void a_grant_after_the_lease_is_over_is_good(void **state)
{
    (void)state;
    assert_int_equal(VERDICT(GRANTED(1, 0, 10), GRANTED(2, 50, 101), WAS_GONE(1, 110, 120)),
                     HISTORY_GOOD);
}

static void calls_that_overlap_may_take_effect_in_any_order(void **state)
{
    (void)state;
    assert_int_equal(VERDICT(GRANTED(1, 0, 10), RELEASED(1, 20, 60), GRANTED(2, 21, 40)),
                     HISTORY_GOOD);
    assert_int_equal(VERDICT(GRANTED(1, 0, 50), REFUSED(5, 9), READ(1, 1, 3)), HISTORY_GOOD);
}

static void readers_share(void **state)
{
    (void)state;
    assert_int_equal(VERDICT(GRANTED_SHARED(1, 0, 10), GRANTED_SHARED(2, 20, 30), REFUSED(31, 33),
                             RELEASED(1, 40, 45), RELEASED(2, 50, 55), GRANTED(3, 56, 60)),
                     HISTORY_GOOD);
}

static void what_nobody_knows_may_have_happened(void **state)
{
    (void)state;
    assert_int_equal(VERDICT(UNKNOWN(0, 500), REFUSED(10, 20), READ(7, 30, 40)), HISTORY_GOOD);
    struct history_op lost = WAS_GONE(1, 20, HISTORY_NEVER);
    assert_int_equal(VERDICT(GRANTED(1, 0, 10), lost, GRANTED(2, 30, 40)), HISTORY_GOOD);
}

static void a_long_history_with_much_at_once_is_checked(void **state)
{
    (void)state;
    enum { ROUNDS = 500 };
    static struct history_op ops[ROUNDS * 4];
    for (uint64_t i = 0; i < ROUNDS; i++) {
        uint64_t t = i * 100;
        ops[i * 4] = (struct history_op)GRANTED(i + 1, t, t + 60);
        ops[i * 4 + 1] = (struct history_op)RELEASED(i + 1, t + 61, t + 170);
        ops[i * 4 + 2] = (struct history_op)REFUSED(t + 1, t + 90);
        ops[i * 4 + 3] = (struct history_op)READ(i + 1, t + 1, t + 90);
    }
    assert_int_equal(verdict(ops, ROUNDS * 4), HISTORY_GOOD);
    ops[4 * 250 + 3].token = 9; /* somebody who is long gone */
    assert_int_equal(verdict(ops, ROUNDS * 4), HISTORY_BAD);
}

#define FORCED(from, to)                                    \
    {                                                       \
        .kind = HISTORY_FORCE, .held = true, CALL(from, to) \
    }
#define NOBODY_TO_FORCE(from, to)             \
    {                                         \
        .kind = HISTORY_FORCE, CALL(from, to) \
    }
#define REVOKED(grace, from, to)                                                  \
    {                                                                             \
        .kind = HISTORY_REVOKE, .held = true, CALL(from, to), .lease_us = (grace) \
    }
#define KEPT_ALIVE(t, from, to)                                                            \
    {                                                                                      \
        .kind = HISTORY_RENEW, .token = (t), .held = true, .maybe = true, .lease_us = 100, \
        CALL(from, to)                                                                     \
    }

static void what_an_operator_took_away_is_gone_before_its_lease_is_over(void **state)
{
    (void)state;
    assert_int_equal(VERDICT(GRANTED(1, 0, 10), FORCED(20, 30), GRANTED(2, 35, 40),
                             WAS_GONE(1, 41, 45), NOBODY_TO_FORCE(200, 210)),
                     HISTORY_GOOD);
    assert_int_equal(VERDICT(GRANTED(1, 0, 10), FORCED(20, 60), GRANTED(2, 25, 40)), HISTORY_GOOD);
    assert_int_equal(VERDICT(GRANTED(1, 0, 10), REVOKED(20, 20, 30), GRANTED(2, 35, 45)),
                     HISTORY_GOOD);
    assert_int_equal(
        VERDICT(GRANTED(1, 0, 10), FORCED(20, 30), KEPT_ALIVE(1, 35, 40), GRANTED(2, 45, 50)),
        HISTORY_GOOD);
    struct history_op lost = FORCED(20, HISTORY_NEVER);
    assert_int_equal(VERDICT(GRANTED(1, 0, 10), lost, GRANTED(2, 30, 40)), HISTORY_GOOD);
}

static void what_an_operator_took_away_elsewhere_ends_only_multi_locks(void **state)
{
    (void)state;
    struct history_op force = FORCED(20, 30);
    force.nearby = true;
    struct history_op of_many = GRANTED(1, 0, 10);
    of_many.multi = true;
    assert_int_equal(VERDICT(of_many, force, GRANTED(2, 35, 40)), HISTORY_GOOD);
    assert_int_equal(VERDICT(GRANTED(1, 0, 10), force, GRANTED(2, 35, 40)), HISTORY_BAD);
    struct history_op kept = KEPT_ALIVE(1, 35, 40); /* of a session that does not know it yet */
    kept.multi = true;
    assert_int_equal(VERDICT(of_many, force, kept, GRANTED(2, 45, 50)), HISTORY_GOOD);
    struct history_op renewed = RENEWED(1, 35, 40); /* so it was not meant */
    renewed.multi = true;
    assert_int_equal(VERDICT(of_many, force, renewed, GRANTED(2, 45, 50)), HISTORY_BAD);
}

static void what_names_a_token_ends_only_its_holder(void **state)
{
    (void)state;
    struct history_op force = FORCED(20, 30);
    force.token = 1;
    assert_int_equal(VERDICT(GRANTED_SHARED(1, 0, 10), GRANTED_SHARED(2, 11, 15), force,
                             WAS_GONE(1, 31, 35), RELEASED(2, 36, 40)),
                     HISTORY_GOOD);
    assert_int_equal(
        VERDICT(GRANTED_SHARED(1, 0, 10), GRANTED_SHARED(2, 11, 15), force, WAS_GONE(2, 31, 35)),
        HISTORY_BAD);
    assert_int_equal(VERDICT(GRANTED(2, 0, 10), force), HISTORY_BAD); /* which nobody holds */
    struct history_op revoke = REVOKED(20, 20, 30);
    revoke.token = 1;
    assert_int_equal(VERDICT(GRANTED_SHARED(1, 0, 10), GRANTED_SHARED(2, 11, 15), revoke,
                             WAS_GONE(1, 45, 50), RENEWED(2, 51, 55)),
                     HISTORY_GOOD);
    assert_int_equal(
        VERDICT(GRANTED_SHARED(1, 0, 10), GRANTED_SHARED(2, 11, 15), revoke, WAS_GONE(2, 45, 50)),
        HISTORY_BAD);
}

/* ---- bad ---- */

static void what_an_operator_did_is_no_excuse_for_others(void **state)
{
    (void)state;
    /* Before it was requested; after it, again; earlier than the grace allows. */
    assert_int_equal(VERDICT(GRANTED(1, 0, 10), GRANTED(2, 12, 15), FORCED(20, 30)), HISTORY_BAD);
    assert_int_equal(VERDICT(FORCED(0, 5)), HISTORY_BAD);
    assert_int_equal(VERDICT(GRANTED(1, 0, 10), NOBODY_TO_FORCE(20, 30)), HISTORY_BAD);
    assert_int_equal(VERDICT(GRANTED(1, 0, 10), FORCED(20, 30), RELEASED(1, 35, 40)), HISTORY_BAD);
    assert_int_equal(VERDICT(GRANTED(1, 0, 10), FORCED(20, 30), READ(1, 35, 40)), HISTORY_BAD);
    assert_int_equal(VERDICT(GRANTED(1, 0, 10), REVOKED(50, 20, 30), GRANTED(2, 35, 60)),
                     HISTORY_BAD);
}

static void two_holders_at_once_are_bad(void **state)
{
    (void)state;
    assert_int_equal(VERDICT(GRANTED(1, 0, 10), GRANTED(2, 20, 30)), HISTORY_BAD);
    assert_int_equal(VERDICT(GRANTED_SHARED(1, 0, 10), GRANTED(2, 20, 30)), HISTORY_BAD);
    assert_int_equal(VERDICT(GRANTED(1, 0, 10), GRANTED_SHARED(2, 20, 30)), HISTORY_BAD);
}

static void a_lease_that_is_cut_short_is_bad(void **state)
{
    (void)state;
    assert_int_equal(VERDICT(GRANTED(1, 0, 10), GRANTED(2, 50, 99)), HISTORY_BAD);
    assert_int_equal(VERDICT(GRANTED(1, 0, 10), RENEWED(1, 50, 60), GRANTED(2, 110, 149)),
                     HISTORY_BAD);
    assert_int_equal(VERDICT(GRANTED(1, 0, 10), WAS_GONE(1, 20, 30)), HISTORY_BAD);
}

static void tokens_that_go_back_are_bad(void **state)
{
    (void)state;
    assert_int_equal(VERDICT(GRANTED(2, 0, 10), RELEASED(2, 20, 30), GRANTED(1, 40, 50)),
                     HISTORY_BAD);
    assert_int_equal(VERDICT(GRANTED(2, 0, 10), RELEASED(2, 20, 30), GRANTED(2, 40, 50)),
                     HISTORY_BAD);
}

static void a_refusal_without_a_holder_is_bad(void **state)
{
    (void)state;
    assert_int_equal(VERDICT(REFUSED(0, 10), GRANTED(1, 20, 30)), HISTORY_BAD);
    assert_int_equal(VERDICT(GRANTED(1, 0, 10), RELEASED(1, 20, 30), REFUSED(40, 50)), HISTORY_BAD);
    assert_int_equal(VERDICT(UNKNOWN(0, 5), REFUSED(10, 20)),
                     HISTORY_BAD); /* it was over by then */
}

static void a_stale_read_is_bad(void **state)
{
    (void)state;
    assert_int_equal(VERDICT(GRANTED(1, 0, 10), RELEASED(1, 20, 30), READ(1, 31, 35)), HISTORY_BAD);
    assert_int_equal(VERDICT(GRANTED(1, 0, 10), READ(0, 20, 30)), HISTORY_BAD);
    assert_int_equal(
        VERDICT(GRANTED(1, 0, 10), RELEASED(1, 11, 12), GRANTED(2, 13, 20), READ(1, 21, 25)),
        HISTORY_BAD);
}

static void what_was_released_is_not_held_any_more(void **state)
{
    (void)state;
    assert_int_equal(VERDICT(GRANTED(1, 0, 10), RELEASED(1, 20, 30), RELEASED(1, 40, 50)),
                     HISTORY_BAD);
    assert_int_equal(VERDICT(GRANTED(1, 0, 10), RELEASED(1, 20, 30), RENEWED(1, 40, 50)),
                     HISTORY_BAD);
    assert_int_equal(VERDICT(RELEASED(1, 0, 10)), HISTORY_BAD);
}

static void it_says_so_when_it_gives_up(void **state)
{
    (void)state;
    const struct history_op ops[] = {GRANTED(1, 0, 10), RELEASED(1, 20, 30), GRANTED(2, 40, 50)};
    assert_int_equal(history_check(ops, 3, 2, NULL, 0), HISTORY_UNDECIDED);
}

/* ---- counters ---- */

#define RAISED(value, from, to)                                                    \
    {                                                                              \
        .outcome = REGISTER_RAISED, .alone = true, .seen = (value), CALL(from, to) \
    }
#define CONFLICT(value, from, to)                                                    \
    {                                                                                \
        .outcome = REGISTER_CONFLICT, .alone = true, .seen = (value), CALL(from, to) \
    }
#define MAYBE_RAISED(value, from)                                                               \
    {                                                                                           \
        .outcome = REGISTER_UNKNOWN, .alone = true, .seen = (value), CALL(from, REGISTER_NEVER) \
    }
#define COUNT(...)                             \
    count((struct register_op[]){__VA_ARGS__}, \
          sizeof((struct register_op[]){__VA_ARGS__}) / sizeof(struct register_op))

static bool count(struct register_op *ops, size_t n)
{
    char problem[300] = "";
    bool fine = register_check(ops, n, problem, sizeof(problem));
    assert_true(fine == (problem[0] == '\0'));
    return fine;
}

static void a_counter_that_each_raises_once_is_good(void **state)
{
    (void)state;
    assert_true(register_check(NULL, 0, (char[8]){0}, 8));
    assert_true(COUNT(RAISED(1, 20, 30), RAISED(0, 0, 10), CONFLICT(1, 21, 40), RAISED(2, 41, 50)));
    assert_true(COUNT(RAISED(0, 0, 100), CONFLICT(0, 1, 5), RAISED(1, 50, 60))); /* at once */
    assert_true(COUNT(MAYBE_RAISED(0, 0), RAISED(1, 5, 10), CONFLICT(0, 6, 7)));
    assert_true(COUNT(MAYBE_RAISED(0, 0), RAISED(0, 5, 10), RAISED(1, 11, 12)));
}

static void a_counter_that_loses_or_invents_a_change_is_bad(void **state)
{
    (void)state;
    assert_false(COUNT(RAISED(0, 0, 10), RAISED(0, 1, 20)));    /* a lost update */
    assert_false(COUNT(RAISED(0, 0, 10), RAISED(2, 20, 30)));   /* nobody made 2 */
    assert_false(COUNT(RAISED(1, 0, 10), RAISED(0, 20, 30)));   /* seen before it was made */
    assert_false(COUNT(CONFLICT(0, 0, 10)));                    /* with whom? */
    assert_false(COUNT(CONFLICT(0, 0, 10), RAISED(0, 20, 30))); /* that was later */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_at_all_is_good),
        cmocka_unit_test(one_after_the_other_is_good),
        cmocka_unit_test(a_grant_after_the_lease_is_over_is_good),
        cmocka_unit_test(calls_that_overlap_may_take_effect_in_any_order),
        cmocka_unit_test(readers_share),
        cmocka_unit_test(what_nobody_knows_may_have_happened),
        cmocka_unit_test(a_long_history_with_much_at_once_is_checked),
        cmocka_unit_test(what_an_operator_took_away_is_gone_before_its_lease_is_over),
        cmocka_unit_test(what_an_operator_took_away_elsewhere_ends_only_multi_locks),
        cmocka_unit_test(what_names_a_token_ends_only_its_holder),
        cmocka_unit_test(what_an_operator_did_is_no_excuse_for_others),
        cmocka_unit_test(a_counter_that_each_raises_once_is_good),
        cmocka_unit_test(a_counter_that_loses_or_invents_a_change_is_bad),
        cmocka_unit_test(two_holders_at_once_are_bad),
        cmocka_unit_test(a_lease_that_is_cut_short_is_bad),
        cmocka_unit_test(tokens_that_go_back_are_bad),
        cmocka_unit_test(a_refusal_without_a_holder_is_bad),
        cmocka_unit_test(a_stale_read_is_bad),
        cmocka_unit_test(what_was_released_is_not_held_any_more),
        cmocka_unit_test(it_says_so_when_it_gives_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* When a node may seal a batch after it stood still (S1.5): simulated time, no sleeping. */
#include "base_testing.h"

#include "node/stall.h"

enum { BEGIN_US = 5000000, TURN_US = 100 };

static struct stall running(void)
{
    return (struct stall){.turn_us = BEGIN_US, .bytes = 10};
}

static void a_turn_without_a_pause_may_seal(void **state)
{
    (void)state;
    struct stall s = running();
    assert_false(stall_begin_turn(&s, BEGIN_US + STALL_US, 10));
    assert_true(stall_may_seal(&s, BEGIN_US + STALL_US + TURN_US));
    assert_true(stall_may_seal(&s, BEGIN_US + 2 * STALL_US));
}

static void after_a_stall_nothing_is_sealed_until_the_sockets_are_empty(void **state)
{
    (void)state;
    struct stall s = running();
    uint64_t now_us = BEGIN_US + STALL_US + 1;
    assert_true(stall_is_late(&s, now_us));
    assert_true(stall_begin_turn(&s, now_us, 10));
    assert_false(stall_may_seal(&s, now_us));
    assert_true(stall_begin_turn(&s, now_us + TURN_US, 20));
    assert_false(stall_may_seal(&s, now_us + TURN_US));
    assert_true(stall_is_late(&s, now_us + TURN_US));
    assert_false(stall_begin_turn(&s, now_us + 2 * TURN_US, 20)); /* this turn has read nothing */
    assert_true(stall_may_seal(&s, now_us + 2 * TURN_US));
    assert_false(stall_is_late(&s, now_us + 2 * TURN_US));
}

static void a_pause_within_a_turn_delays_the_seal_until_the_sockets_are_read(void **state)
{
    (void)state;
    struct stall s = running();
    uint64_t now_us = BEGIN_US + TURN_US;
    assert_false(stall_begin_turn(&s, now_us, 10));
    assert_true(stall_may_seal(&s, now_us + STALL_US));
    now_us += STALL_US + 1;
    assert_false(stall_may_seal(&s, now_us));
    assert_true(stall_begin_turn(&s, now_us, 10)); /* the pause counts for the next turn */
    assert_false(stall_may_seal(&s, now_us));
    assert_false(stall_begin_turn(&s, now_us + TURN_US, 10));
    assert_true(stall_may_seal(&s, now_us + TURN_US));
}

static void a_pause_while_sockets_are_read_first_changes_nothing(void **state)
{
    (void)state;
    struct stall s = running();
    uint64_t now_us = BEGIN_US + STALL_US + 1;
    assert_true(stall_begin_turn(&s, now_us, 10));
    now_us += 3 * STALL_US;
    assert_false(stall_may_seal(&s, now_us));
    assert_true(stall_begin_turn(&s, now_us, 11));
    assert_false(stall_begin_turn(&s, now_us + TURN_US, 11));
}

static void clients_that_never_stop_sending_delay_it_for_a_bounded_number_of_turns(void **state)
{
    (void)state;
    struct stall s = running();
    uint64_t now_us = BEGIN_US + STALL_US + 1;
    uint32_t turns = 0;
    while (stall_begin_turn(&s, now_us, 10 + turns)) {
        turns++;
        now_us += TURN_US;
        assert_true(turns <= STALL_TURNS + 1);
    }
    assert_int_equal(turns, STALL_TURNS + 1);
    assert_true(stall_may_seal(&s, now_us));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_turn_without_a_pause_may_seal),
        cmocka_unit_test(after_a_stall_nothing_is_sealed_until_the_sockets_are_empty),
        cmocka_unit_test(a_pause_within_a_turn_delays_the_seal_until_the_sockets_are_read),
        cmocka_unit_test(a_pause_while_sockets_are_read_first_changes_nothing),
        cmocka_unit_test(clients_that_never_stop_sending_delay_it_for_a_bounded_number_of_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

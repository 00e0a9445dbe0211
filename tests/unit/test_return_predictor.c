/* Who comes back: crowd.h. */
#include "base_testing.h"

#include "replica/return_predictor.h"

static struct predictor predictor;

static int open_node_waiters(void **state)
{
    (void)state;
    return_predictor_init(&predictor);
    return 0;
}

/* One batch answers `answered` clients, numbered from `first`; those up to `back` come again. */
static void play(uint32_t first, uint32_t answered, uint32_t back)
{
    return_predictor_begin_batch(&predictor);
    for (uint32_t i = 0; i < answered; i++) {
        return_predictor_note_answer(&predictor, first + i);
    }
    for (uint32_t i = 0; i < back; i++) {
        return_predictor_note_request(&predictor, first + i);
    }
}

static void at_first_everybody_is_expected_back(void **state)
{
    (void)state;
    assert_int_equal(return_predictor_expected(&predictor), 0);
    play(1, 64, 0);
    assert_int_equal(return_predictor_expected(&predictor), 64);
}

static void those_who_always_come_back_are_all_expected(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) {
        play(1, 64, 64);
        assert_int_equal(return_predictor_expected(&predictor), 64);
    }
}

static void those_who_never_come_back_are_soon_not_expected(void **state)
{
    (void)state;
    for (int i = 0; i < 40; i++) {
        play(1 + 64 * (uint32_t)i, 64, 0); /* others each time */
    }
    assert_int_equal(return_predictor_expected(&predictor), 0);
}

static void strangers_do_not_count_as_those_who_come_back(void **state)
{
    (void)state;
    for (int i = 0; i < 40; i++) {
        play(1, 14, 0);
        for (uint32_t who = 1000; who < 1020; who++) {
            return_predictor_note_request(&predictor, who);
        }
    }
    assert_int_equal(return_predictor_expected(&predictor), 0);
}

static void who_comes_twice_is_back_once(void **state)
{
    (void)state;
    for (int i = 0; i < 40; i++) {
        play(1, 10, 5);
        for (uint32_t who = 1; who <= 5; who++) {
            return_predictor_note_request(&predictor, who);
        }
    }
    assert_int_equal(return_predictor_expected(&predictor), 5);
}

static void half_of_them_are_expected_where_half_come(void **state)
{
    (void)state;
    for (int i = 0; i < 40; i++) {
        play(1, 14, 7);
    }
    play(1, 14, 0);
    assert_int_equal(return_predictor_expected(&predictor), 7);
    play(1, 1, 0); /* a lone one as soon as not */
    assert_true(return_predictor_expected(&predictor) <= 1);
}

static void where_most_come_back_all_are_expected(void **state)
{
    (void)state;
    for (int i = 0; i < 40; i++) {
        play(1, 64, 48);
    }
    play(1, 64, 0);
    assert_int_equal(return_predictor_expected(&predictor), 64);
    for (int i = 0; i < 40; i++) {
        play(1, 64, 40);
    }
    play(1, 64, 0);
    assert_int_equal(return_predictor_expected(&predictor), 40);
}

static void changed_behaviour_of_clients_is_noticed_after_a_few_batches(void **state)
{
    (void)state;
    for (int i = 0; i < 1000; i++) {
        play(1, 64, 0);
    }
    for (int i = 0; i < 20; i++) {
        play(1, 64, 64);
    }
    play(1, 64, 0);
    assert_true(return_predictor_expected(&predictor) > 56);
    for (int i = 0; i < 20; i++) {
        play(1, 64, 0);
    }
    assert_true(return_predictor_expected(&predictor) < 8);
}

static void batches_that_answer_nobody_change_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < 40; i++) {
        play(1, 14, 7);
    }
    for (int i = 0; i < 10000; i++) {
        play(1, 0, 0);
    }
    play(1, 14, 0);
    assert_int_equal(return_predictor_expected(&predictor), 7);
}

static void the_threads_of_one_session_are_counted_one_by_one(void **state)
{
    (void)state;
    for (int round = 0; round < 40; round++) {
        return_predictor_begin_batch(&predictor);
        for (int i = 0; i < 300; i++) {
            return_predictor_note_answer(&predictor, 7);
        }
        for (int i = 0; i < 300; i++) {
            return_predictor_note_request(&predictor, 7);
        }
    }
    assert_int_equal(predictor.returned, 300);
    assert_int_equal(return_predictor_expected(&predictor), 300);
}

static void a_place_that_is_full_takes_no_more(void **state)
{
    (void)state;
    return_predictor_begin_batch(&predictor);
    for (int i = 0; i < UINT16_MAX + 10; i++) {
        return_predictor_note_answer(&predictor, 0);
    }
    assert_int_equal(predictor.answered, UINT16_MAX);
    for (int i = 0; i < UINT16_MAX + 10; i++) {
        return_predictor_note_request(&predictor, 0);
    }
    assert_int_equal(predictor.returned, UINT16_MAX);
}

static void a_client_is_known_by_its_session_or_else_by_its_name(void **state)
{
    (void)state;
    struct command acquire;
    struct command release;
    command_init(&acquire, COMMAND_ACQUIRE);
    command_init(&release, COMMAND_RELEASE);
    assert_int_equal(client_hash_of_command(&acquire), 0);
    acquire.acquire.client = slice_of("worker-1");
    release.release.client = slice_of("worker-1");
    assert_int_equal(client_hash_of_command(&acquire), client_hash_of_command(&release));
    assert_int_not_equal(client_hash_of_command(&acquire), 0);
    release.release.client = slice_of("worker-2");
    assert_int_not_equal(client_hash_of_command(&acquire), client_hash_of_command(&release));
    acquire.session = (struct id){1, 2};
    release.session = (struct id){1, 2};
    assert_int_equal(client_hash_of_command(&acquire), client_hash_of_command(&release));
    release.session = (struct id){1, 5};
    assert_int_not_equal(client_hash_of_command(&acquire), client_hash_of_command(&release));
}

#define T(name) cmocka_unit_test_setup(name, open_node_waiters)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(at_first_everybody_is_expected_back),
        T(those_who_always_come_back_are_all_expected),
        T(those_who_never_come_back_are_soon_not_expected),
        T(strangers_do_not_count_as_those_who_come_back),
        T(who_comes_twice_is_back_once),
        T(half_of_them_are_expected_where_half_come),
        T(where_most_come_back_all_are_expected),
        T(changed_behaviour_of_clients_is_noticed_after_a_few_batches),
        T(batches_that_answer_nobody_change_nothing),
        T(the_threads_of_one_session_are_counted_one_by_one),
        T(a_place_that_is_full_takes_no_more),
        T(a_client_is_known_by_its_session_or_else_by_its_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

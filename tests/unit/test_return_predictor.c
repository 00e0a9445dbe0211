/* Unit tests of replica/return_predictor.h. */
#include "base_testing.h"

#include "replica/return_predictor.h"

static struct return_predictor predictor;

static int init_predictor(void **state)
{
    (void)state;
    return_predictor_init(&predictor);
    return 0;
}

/* One batch answers `answered` clients, numbered from `first`; the first `back` of them return. */
static void run_batch(uint32_t first, uint32_t answered, uint32_t back)
{
    return_predictor_begin_batch(&predictor);
    for (uint32_t i = 0; i < answered; i++) {
        return_predictor_note_answer(&predictor, first + i);
    }
    for (uint32_t i = 0; i < back; i++) {
        return_predictor_note_request(&predictor, first + i);
    }
}

static void at_first_all_clients_are_expected(void **state)
{
    (void)state;
    assert_int_equal(return_predictor_expected(&predictor), 0);
    run_batch(1, 64, 0);
    assert_int_equal(return_predictor_expected(&predictor), 64);
}

static void clients_that_always_return_are_all_expected(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) {
        run_batch(1, 64, 64);
        assert_int_equal(return_predictor_expected(&predictor), 64);
    }
}

static void clients_that_never_return_are_soon_not_expected(void **state)
{
    (void)state;
    for (int i = 0; i < 40; i++) {
        run_batch(1 + 64 * (uint32_t)i, 64, 0); /* different clients each time */
    }
    assert_int_equal(return_predictor_expected(&predictor), 0);
}

static void a_client_whose_next_request_is_refused_counts_as_not_answered(void **state)
{
    (void)state;
    for (int i = 0; i < 40; i++) {
        run_batch(1, 64, 32);
        for (uint32_t hash = 33; hash <= 64; hash++) {
            assert_true(return_predictor_forget(&predictor, hash));
        }
        assert_false(return_predictor_forget(&predictor, 33));
        assert_false(return_predictor_forget(&predictor, 1000));
        assert_int_equal(return_predictor_expected(&predictor), 32);
    }
    run_batch(1, 64, 0);
    assert_int_equal(return_predictor_expected(&predictor), 64); /* all others returned */
}

static void requests_of_other_clients_do_not_count_as_returns(void **state)
{
    (void)state;
    for (int i = 0; i < 40; i++) {
        run_batch(1, 14, 0);
        for (uint32_t hash = 1000; hash < 1020; hash++) {
            return_predictor_note_request(&predictor, hash);
        }
    }
    assert_int_equal(return_predictor_expected(&predictor), 0);
}

static void a_client_with_two_requests_returns_once(void **state)
{
    (void)state;
    for (int i = 0; i < 40; i++) {
        run_batch(1, 10, 5);
        for (uint32_t hash = 1; hash <= 5; hash++) {
            return_predictor_note_request(&predictor, hash);
        }
    }
    assert_int_equal(return_predictor_expected(&predictor), 5);
}

static void half_are_expected_where_half_return(void **state)
{
    (void)state;
    for (int i = 0; i < 40; i++) {
        run_batch(1, 14, 7);
    }
    run_batch(1, 14, 0);
    assert_int_equal(return_predictor_expected(&predictor), 7);
    run_batch(1, 1, 0); /* a single client: either prediction is right */
    assert_true(return_predictor_expected(&predictor) <= 1);
}

static void all_are_expected_where_most_return(void **state)
{
    (void)state;
    for (int i = 0; i < 40; i++) {
        run_batch(1, 64, 48);
    }
    run_batch(1, 64, 0);
    assert_int_equal(return_predictor_expected(&predictor), 64);
    for (int i = 0; i < 40; i++) {
        run_batch(1, 64, 40);
    }
    run_batch(1, 64, 0);
    assert_int_equal(return_predictor_expected(&predictor), 40);
}

static void changed_behaviour_of_clients_is_noticed_after_a_few_batches(void **state)
{
    (void)state;
    for (int i = 0; i < 1000; i++) {
        run_batch(1, 64, 0);
    }
    for (int i = 0; i < 20; i++) {
        run_batch(1, 64, 64);
    }
    run_batch(1, 64, 0);
    assert_true(return_predictor_expected(&predictor) > 56);
    for (int i = 0; i < 20; i++) {
        run_batch(1, 64, 0);
    }
    assert_true(return_predictor_expected(&predictor) < 8);
}

static void batches_without_answers_change_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < 40; i++) {
        run_batch(1, 14, 7);
    }
    for (int i = 0; i < 10000; i++) {
        run_batch(1, 0, 0);
    }
    run_batch(1, 14, 0);
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

static void a_full_slot_counts_no_further(void **state)
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

#define T(name) cmocka_unit_test_setup(name, init_predictor)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(at_first_all_clients_are_expected),
        T(clients_that_always_return_are_all_expected),
        T(clients_that_never_return_are_soon_not_expected),
        T(a_client_whose_next_request_is_refused_counts_as_not_answered),
        T(requests_of_other_clients_do_not_count_as_returns),
        T(a_client_with_two_requests_returns_once),
        T(half_are_expected_where_half_return),
        T(all_are_expected_where_most_return),
        T(changed_behaviour_of_clients_is_noticed_after_a_few_batches),
        T(batches_without_answers_change_nothing),
        T(the_threads_of_one_session_are_counted_one_by_one),
        T(a_full_slot_counts_no_further),
        T(a_client_is_known_by_its_session_or_else_by_its_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

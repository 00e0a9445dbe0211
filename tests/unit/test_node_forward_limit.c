/* Tests of forwarding at the limit of the state (S12.14): who is refused, and what is pending. */
#include "base_testing.h"

#include "forward_world.h"

static void a_full_state_refuses_at_once_and_proposes_nothing(void **state)
{
    (void)state;
    struct admission limit = {.max = 1};
    struct forward *f = forward_begin_with_limit(&limit);
    struct forwarded_call durable;
    struct forwarded_call quick;
    forward_lead();
    fake.admission = HF_STATE_FULL;
    forward_request(f, &durable, 1);
    forward_request_memory(f, &quick, 2);
    forward_run(f);
    assert_int_equal(durable.answers, 1);
    assert_int_equal(durable.result.error, HF_STATE_FULL);
    assert_int_equal(quick.answers, 1);
    assert_int_equal(quick.result.error, HF_STATE_FULL);
    assert_int_equal(fake.submitted, 0);
    assert_int_equal(fake.offered, 0); /* the tier EFFICIENCY did not see it either */
    assert_int_equal(limit.refused, 2);
    forward_end(f);
}

static void what_is_proposed_is_pending_until_its_outcome_is_known(void **state)
{
    (void)state;
    struct admission limit = {.max = 1 << 20};
    struct forward *f = forward_begin_with_limit(&limit);
    struct forwarded_call first;
    struct forwarded_call second;
    struct result done = {.type = COMMAND_ACQUIRE};
    forward_lead();
    fake.adds = 700;
    forward_request(f, &first, 1);
    forward_request(f, &second, 2);
    forward_run(f);
    assert_int_equal(limit.pending, 1400);
    forward_on_result(f, fake.cookies[0], REPLICA_DONE, &done);
    assert_int_equal(limit.pending, 700);
    forward_on_result(f, fake.cookies[1], REPLICA_NOT_DONE, NULL);
    assert_int_equal(limit.pending, 0);
    forward_pass(f, 100); /* it is proposed again, and counted again */
    assert_int_equal(limit.pending, 700);
    forward_on_result(f, fake.cookies[2], REPLICA_DONE, &done);
    assert_int_equal(limit.pending, 0);
    assert_int_equal(second.answers, 1);
    forward_end(f);
}

static void what_is_in_flight_is_awaited_before_a_refusal(void **state)
{
    (void)state;
    struct admission limit = {.max = 1};
    struct forward *f = forward_begin_with_limit(&limit);
    struct forwarded_call made;
    struct result done = {.type = COMMAND_ACQUIRE};
    forward_lead();
    fake.admission = HF_BUSY;
    forward_request(f, &made, 1);
    forward_pass(f, 100);
    assert_int_equal(made.answers, 0);
    fake.admission = HF_OK;
    forward_on_change(f);
    forward_run(f);
    assert_int_equal(fake.submitted, 1);
    forward_on_result(f, fake.cookies[0], REPLICA_DONE, &done);
    assert_int_equal(made.answers, 1);
    assert_int_equal(limit.refused, 0);
    forward_end(f);
}

/* A leader that was cut off may not know that an earlier try was done elsewhere. */
static void only_a_leader_with_a_majority_refuses(void **state)
{
    (void)state;
    struct admission limit = {.max = 1};
    struct forward *f = forward_begin_with_limit(&limit);
    struct forwarded_call made;
    uint8_t bytes[256];
    forward_lead();
    fake.admission = HF_STATE_FULL;
    fake.no_majority = true;
    forward_request(f, &made, 1);
    forward_pass(f, 100);
    assert_int_equal(made.answers, 0);
    assert_int_equal(limit.refused, 0);
    fake.no_majority = false;
    forward_on_change(f);
    forward_run(f);
    assert_int_equal(made.result.error, HF_STATE_FULL);
    forward_follow(f, 2);
    assert_true(
        forward_on_request(f, 3, 10, 7, COMMAND, forward_encode_acquire(bytes, sizeof(bytes))));
    assert_int_equal(fake.answer_status, NOT_DONE);
    assert_int_equal(limit.refused, 1);
    forward_end(f);
}

static enum hf_error answer_to_a_peer(void)
{
    struct result result;
    struct result_scratch scratch;
    assert_int_equal(fake.answer_status, DONE);
    assert_true(result_decode(buffer_bytes(&fake.answer_body), &scratch, &result));
    return result.error;
}

static void a_peer_of_an_older_version_gets_an_error_that_it_knows(void **state)
{
    (void)state;
    struct admission limit = {.max = 1};
    struct forward *f = forward_begin_with_limit(&limit);
    uint8_t bytes[256];
    struct slice acquire = forward_encode_acquire(bytes, sizeof(bytes));
    forward_lead();
    fake.admission = HF_STATE_FULL;
    fake.peer_state_max = 1 << 20;
    assert_true(forward_on_request(f, 2, 10, 1, COMMAND, acquire));
    assert_int_equal(answer_to_a_peer(), HF_STATE_FULL);
    fake.peer_state_max = 0;
    assert_true(forward_on_request(f, 2, 10, 2, COMMAND, acquire));
    assert_int_equal(answer_to_a_peer(), HF_TOO_MANY_SESSIONS);
    forward_end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_state_refuses_at_once_and_proposes_nothing),
        cmocka_unit_test(what_is_proposed_is_pending_until_its_outcome_is_known),
        cmocka_unit_test(what_is_in_flight_is_awaited_before_a_refusal),
        cmocka_unit_test(only_a_leader_with_a_majority_refuses),
        cmocka_unit_test(a_peer_of_an_older_version_gets_an_error_that_it_knows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

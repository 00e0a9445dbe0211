/* Tests of forwarding when more is requested than there is space for: the error says so, and not
 * as a leader that is missing. Nothing of it was done (S8.4). */
#include "base_testing.h"

#include "forward_world.h"

enum { SLOTS = 1 << 16 }; /* FORWARD_SLOTS, which is private */

static uint32_t answered[HF_ERROR_COUNT];

static void count_answer(struct gateway_call *call, enum hf_error error,
                         const struct result *result)
{
    (void)call;
    (void)result;
    answered[error]++;
}

static void request_often(struct forward *f, struct gateway_call *calls, uint32_t count)
{
    struct command command;
    for (uint32_t i = 0; i < count; i++) {
        forward_make_acquire(&command, i + 1);
        calls[i] = (struct gateway_call){.done = count_answer};
        forward_submit(f, &command, &calls[i]);
    }
}

static void one_more_than_there_is_space_for_is_busy_at_once(void **state)
{
    (void)state;
    struct gateway_call *calls = calloc(SLOTS + 2, sizeof(*calls));
    struct forward *f = forward_begin();
    memset(answered, 0, sizeof(answered));
    forward_follow(f, 3);
    fake.link_up = false; /* so that they stay */
    forward_run(f);
    request_often(f, calls, SLOTS + 2);
    forward_run(f);
    assert_int_equal(answered[HF_BUSY], 2);
    assert_int_equal(forward_outstanding(f), SLOTS);
    /* For the others it is the leader that is out of reach. */
    forward_pass(f, 3100);
    assert_int_equal(answered[HF_BUSY], 2);
    assert_int_equal(answered[HF_UNAVAILABLE], SLOTS);
    forward_end(f);
    free(calls);
}

static void without_a_leader_the_error_says_so(void **state)
{
    (void)state;
    struct gateway_call *calls = calloc(SLOTS + 1, sizeof(*calls));
    struct forward *f = forward_begin();
    memset(answered, 0, sizeof(answered));
    forward_follow(f, 0);
    forward_run(f);
    request_often(f, calls, SLOTS + 1);
    forward_run(f);
    assert_int_equal(answered[HF_UNAVAILABLE], 1);
    assert_int_equal(answered[HF_BUSY], 0);
    forward_end(f);
    free(calls);
}

static void what_the_leaders_batches_never_had_space_for_is_busy(void **state)
{
    (void)state;
    struct forward *f = forward_begin();
    struct forwarded_call first;
    struct forwarded_call behind;
    forward_lead();
    fake.submit_error = HF_BUSY;
    forward_request(f, &first, 1);
    forward_request(f, &behind, 2);
    forward_pass(f, 2900);
    assert_int_equal(first.answers, 0);
    forward_pass(f, 200);
    assert_int_equal(first.error, HF_BUSY);
    assert_int_equal(behind.error, HF_BUSY);
    forward_end(f);
}

static void what_another_leader_had_no_space_for_is_busy_while_it_leads(void **state)
{
    (void)state;
    for (uint64_t later = 0; later <= 3; later += 3) {
        struct forward *f = forward_begin();
        struct forwarded_call a;
        forward_follow(f, 3);
        forward_request(f, &a, 1);
        forward_run(f);
        forward_answer_remotely(f, 0, BUSY, 0);
        forward_follow(f, later);
        fake.link_up = false;
        forward_pass(f, 3100);
        assert_int_equal(a.answers, 1);
        assert_int_equal(a.error, later == 0 ? HF_UNAVAILABLE : HF_BUSY);
        forward_end(f);
    }
}

static void a_tier_without_a_majority_is_not_busy_but_unavailable(void **state)
{
    (void)state;
    struct forward *f = forward_begin_with_tier();
    struct forwarded_call a;
    forward_lead();
    fake.taken = TIER_LATER;
    forward_request_memory(f, &a, 1);
    forward_pass(f, 3100);
    assert_int_equal(a.error, HF_UNAVAILABLE);
    forward_end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_more_than_there_is_space_for_is_busy_at_once),
        cmocka_unit_test(without_a_leader_the_error_says_so),
        cmocka_unit_test(what_the_leaders_batches_never_had_space_for_is_busy),
        cmocka_unit_test(what_another_leader_had_no_space_for_is_busy_while_it_leads),
        cmocka_unit_test(a_tier_without_a_majority_is_not_busy_but_unavailable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

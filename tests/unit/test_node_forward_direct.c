/* Tests of commands that go into the open batch when they are submitted, and of those that must wait
 * for forward_run. */
#include "base_testing.h"

#include "forward_world.h"

static void a_command_of_the_leader_is_in_the_batch_at_once(void **state)
{
    (void)state;
    struct forward *f = forward_begin_with_tier();
    struct forwarded_call made;
    struct result done = {.type = COMMAND_ACQUIRE, .token = 9};
    forward_lead();
    forward_request(f, &made, 1);
    assert_int_equal(fake.submitted, 1);
    assert_int_equal(fake.proposed, 1); /* the other tier counts it */
    forward_run(f);
    assert_int_equal(fake.submitted, 1);
    forward_on_result(f, fake.cookies[0], REPLICA_DONE, &done);
    assert_int_equal(made.answers, 1);
    assert_int_equal(made.result.token, 9);
    assert_int_equal(fake.settled, 1);
    forward_end(f);
}

static void a_command_that_was_not_done_goes_to_the_next_leader_unchanged(void **state)
{
    (void)state;
    struct forward *f = forward_begin();
    struct forwarded_call made;
    uint8_t bytes[256];
    forward_lead();
    forward_request(f, &made, 5);
    assert_int_equal(fake.submitted, 1);
    forward_on_result(f, fake.cookies[0], REPLICA_NOT_DONE, NULL);
    forward_follow(f, 2);
    forward_run(f);
    struct slice expected = forward_encode_acquire(bytes, sizeof(bytes));
    assert_int_equal(fake.requests, 1);
    assert_int_equal(fake.request_len, expected.len);
    assert_memory_equal(fake.request, expected.data, expected.len);
    forward_answer_remotely(f, 0, DONE, 7);
    assert_int_equal(made.result.token, 7);
    forward_end(f);
}

/* The second attempt of a command needs its bytes, and a long one has memory of its own. */
static void a_long_command_that_was_not_done_is_submitted_again(void **state)
{
    (void)state;
    struct forward *f = forward_begin();
    char value[2000];
    struct command command;
    struct forwarded_call made = {.call = {.done = forward_on_done, .owner = &made}};
    struct result done = {.type = COMMAND_ACQUIRE, .token = 3};
    memset(value, 'v', sizeof(value));
    forward_make_acquire(&command, 1);
    command.acquire.value = slice_make(value, sizeof(value));
    forward_lead();
    forward_submit(f, &command, &made.call);
    assert_int_equal(fake.submitted, 1);
    size_t first_len = fake.bytes_len;
    memset(value, 'x', sizeof(value)); /* the caller's buffer has other contents now */
    forward_on_result(f, fake.cookies[0], REPLICA_NOT_DONE, NULL);
    forward_pass(f, 100);
    assert_int_equal(fake.submitted, 2);
    assert_int_equal(fake.bytes_len, first_len);
    assert_non_null(memchr(fake.bytes, 'v', fake.bytes_len));
    assert_null(memchr(fake.bytes, 'x', fake.bytes_len));
    forward_on_result(f, fake.cookies[1], REPLICA_DONE, &done);
    assert_int_equal(made.result.token, 3);
    forward_end(f);
}

static void a_command_that_the_other_tier_answers_waits_for_the_next_run(void **state)
{
    (void)state;
    struct forward *f = forward_begin_with_tier();
    struct forwarded_call made;
    forward_lead();
    fake.tier_answers = true;
    fake.tells_at_once = true;
    fake.taken = TIER_TAKEN;
    forward_request(f, &made, 1); /* asserts that there is no answer yet */
    assert_int_equal(fake.offered, 0);
    forward_run(f);
    assert_int_equal(made.answers, 1);
    assert_int_equal(fake.submitted, 0);
    forward_end(f);
}

static void a_command_does_not_overtake_one_that_waits(void **state)
{
    (void)state;
    struct forward *f = forward_begin();
    struct forwarded_call made[2];
    forward_lead();
    fake.submit_error = HF_BUSY;
    forward_request(f, &made[0], 1);
    fake.submit_error = HF_OK;
    forward_request(f, &made[1], 2);
    assert_int_equal(fake.submitted, 0);
    forward_run(f);
    assert_int_equal(fake.submitted, 2);
    assert_int_equal(fake.leases[0].low, 1);
    assert_int_equal(fake.leases[1].low, 2);
    forward_end(f);
}

static void nothing_is_submitted_while_the_leadership_is_transferred(void **state)
{
    (void)state;
    struct forward *f = forward_begin();
    struct forwarded_call made;
    forward_lead();
    forward_set_paused(f, true);
    forward_request(f, &made, 1);
    forward_run(f);
    assert_int_equal(fake.submitted, 0);
    forward_set_paused(f, false);
    forward_run(f);
    assert_int_equal(fake.submitted, 1);
    forward_end(f);
}

static void nothing_is_submitted_while_the_disk_is_full(void **state)
{
    (void)state;
    struct forward *f = forward_begin();
    struct forwarded_call made;
    forward_lead();
    forward_set_read_only(f, true, true);
    forward_request(f, &made, 1);
    assert_int_equal(fake.submitted, 0);
    forward_run(f);
    assert_int_equal(made.error, HF_DISK_FULL);
    forward_end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_command_of_the_leader_is_in_the_batch_at_once),
        cmocka_unit_test(a_command_that_was_not_done_goes_to_the_next_leader_unchanged),
        cmocka_unit_test(a_long_command_that_was_not_done_is_submitted_again),
        cmocka_unit_test(a_command_that_the_other_tier_answers_waits_for_the_next_run),
        cmocka_unit_test(a_command_does_not_overtake_one_that_waits),
        cmocka_unit_test(nothing_is_submitted_while_the_leadership_is_transferred),
        cmocka_unit_test(nothing_is_submitted_while_the_disk_is_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

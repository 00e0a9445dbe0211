/* Tests of forwarding at the quotas of a tenant (S15): who is refused, who waits, and for whom. */
#include "base_testing.h"

#include "forward_world.h"

enum { RED = 5, BLUE = 6 };

static void request_of(struct forward *f, struct forwarded_call *made, uint32_t tenant,
                       uint64_t source, uint64_t lease)
{
    fake.tenant = tenant;
    forward_request_of(f, made, source, lease);
}

static struct forward *begin(struct admission *admission, enum hf_error quota)
{
    struct forward *f = forward_begin_with_limit(admission);
    forward_lead();
    fake.limits_tenant = true;
    fake.limited_tenant = RED;
    fake.quota = quota;
    return f;
}

static void a_refusal_says_which_quota_and_when_to_try_again(void **state)
{
    (void)state;
    struct admission admission = {.max = 0};
    struct forward *f = begin(&admission, HF_QUOTA);
    struct forwarded_call red;
    struct forwarded_call blue;
    request_of(f, &red, RED, 1, 1);
    request_of(f, &blue, BLUE, 2, 2);
    forward_run(f);
    assert_int_equal(red.answers, 1);
    assert_int_equal(red.result.error, HF_QUOTA);
    assert_int_equal(red.result.count, QUOTA_WAITERS);
    assert_int_equal(red.result.highest, 7);
    assert_int_equal(red.result.ttl_ms, 250);
    assert_int_equal(fake.submitted, 1); /* that of the other tenant */
    assert_int_equal(fake.quota_tenant.refused[QUOTA_WAITERS], 1);
    assert_int_equal(fake.noted_refused, 1); /* no batch waits for it */
    assert_int_equal(fake.tokens, 1);
    forward_end(f);
}

static void only_a_leader_with_a_majority_refuses(void **state)
{
    (void)state;
    struct admission admission = {.max = 0};
    struct forward *f = begin(&admission, HF_QUOTA);
    struct forwarded_call red;
    fake.no_majority = true;
    request_of(f, &red, RED, 1, 1);
    forward_pass(f, 100);
    assert_int_equal(red.answers, 0);
    fake.no_majority = false;
    forward_on_change(f);
    forward_run(f);
    assert_int_equal(red.result.error, HF_QUOTA);
    forward_end(f);
}

/* Its commands in flight decide; the calls of other tenants pass it, whoever came first. */
static void a_tenant_that_waits_for_its_own_commands_delays_no_other(void **state)
{
    enum { MANY = 50 };
    (void)state;
    struct admission admission = {.max = 0};
    struct forward *f = begin(&admission, HF_BUSY);
    struct forwarded_call red[MANY];
    struct forwarded_call blue[MANY];
    for (uint64_t i = 0; i < MANY; i++) {
        request_of(f, &red[i], RED, 1 + i % 3, 1000 + i);
        request_of(f, &blue[i], BLUE, 11 + i % 3, i);
    }
    forward_run(f);
    assert_int_equal(fake.submitted, MANY);
    for (uint32_t i = 0; i < MANY; i++) {
        assert_true(fake.leases[i].low < MANY);
    }
    fake.quota = HF_OK;
    struct result done = {.type = COMMAND_ACQUIRE};
    forward_on_result(f, fake.cookies[0], REPLICA_DONE, &done);
    forward_run(f);
    assert_int_equal(fake.submitted, 2 * MANY);
    assert_int_equal(fake.leases[MANY].low, 1000);
    forward_end(f);
}

static void a_call_without_turns_is_not_delayed_either(void **state)
{
    (void)state;
    struct admission admission = {.max = 0};
    struct forward *f = begin(&admission, HF_BUSY);
    struct forwarded_call red;
    struct forwarded_call blue;
    request_of(f, &red, RED, 0, 1);
    request_of(f, &blue, BLUE, 0, 2);
    forward_run(f);
    assert_int_equal(fake.submitted, 1);
    assert_int_equal(fake.leases[0].low, 2);
    forward_end(f);
}

static void a_tenant_that_waits_too_long_learns_that_nothing_was_done(void **state)
{
    (void)state;
    struct admission admission = {.max = 0};
    struct forward *f = begin(&admission, HF_BUSY);
    struct forwarded_call red;
    request_of(f, &red, RED, 1, 1);
    forward_pass(f, 4000);
    assert_int_equal(red.answers, 1);
    assert_int_equal(red.error, HF_BUSY);
    forward_end(f);
}

static void a_follower_learns_which_quota_it_was(void **state)
{
    (void)state;
    struct admission admission = {.max = 0};
    struct forward *f = begin(&admission, HF_QUOTA);
    uint8_t bytes[256];
    struct result result;
    struct result_scratch scratch;
    fake.tenant = RED;
    struct slice acquire = forward_encode_acquire(bytes, sizeof(bytes));
    fake.peer_state_max = 1 << 20;
    assert_true(forward_on_request(f, 2, 10, 1, COMMAND, acquire));
    assert_int_equal(fake.answer_status, DONE);
    assert_true(result_decode(buffer_bytes(&fake.answer_body), &scratch, &result));
    assert_int_equal(result.error, HF_QUOTA);
    assert_int_equal(result.count, QUOTA_WAITERS);
    assert_int_equal(result.highest, 7);
    assert_int_equal(result.ttl_ms, 250);
    fake.quota = HF_BUSY;
    assert_true(forward_on_request(f, 2, 10, 2, COMMAND, acquire));
    assert_int_equal(fake.answer_status, BUSY); /* it sends the command again */
    forward_end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_refusal_says_which_quota_and_when_to_try_again),
        cmocka_unit_test(only_a_leader_with_a_majority_refuses),
        cmocka_unit_test(a_tenant_that_waits_for_its_own_commands_delays_no_other),
        cmocka_unit_test(a_call_without_turns_is_not_delayed_either),
        cmocka_unit_test(a_tenant_that_waits_too_long_learns_that_nothing_was_done),
        cmocka_unit_test(a_follower_learns_which_quota_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

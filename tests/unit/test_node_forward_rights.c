/* Tests of the leader's check of rights (decision 29): what never reaches the log or the tier
 * EFFICIENCY, and which commands need no principal. */
#include "base_testing.h"

#include "core/policy.h"
#include "forward_world.h"
#include "node/forward/forward_state.h"

enum { SOMEBODY = 5 };
enum { NO_PRINCIPAL = 0, LOCK = 1 }; /* reasons of denials */

static enum hf_error answer_to_a_peer(void)
{
    struct result result;
    struct result_scratch scratch;
    assert_int_equal(fake.answer_status, DONE);
    assert_true(result_decode(buffer_bytes(&fake.answer_body), &scratch, &result));
    return result.error;
}

static void request_of_a_peer(struct forward *f, uint8_t kind)
{
    uint8_t bytes[256];
    assert_true(
        forward_on_request(f, 3, 10, 7, kind, forward_encode_acquire(bytes, sizeof(bytes))));
}

static void a_denied_command_of_this_node_never_reaches_the_log(void **state)
{
    (void)state;
    struct forward *f = forward_begin_with_auth();
    struct forwarded_call durable;
    struct forwarded_call quick;
    forward_lead();
    fake.principal = SOMEBODY;
    fake.denies = RIGHT_LOCK;
    forward_request(f, &durable, 1);
    forward_request_memory(f, &quick, 2);
    forward_run(f);
    assert_int_equal(durable.answers, 1);
    assert_int_equal(durable.result.error, HF_DENIED);
    assert_int_equal(quick.answers, 1);
    assert_int_equal(quick.result.error, HF_DENIED);
    assert_int_equal(fake.submitted, 0);
    assert_int_equal(fake.offered, 0); /* the tier EFFICIENCY did not see it either */
    assert_int_equal(forward_denied(f, LOCK), 2);
    assert_int_equal(forward_denied(f, NO_PRINCIPAL), 0);
    assert_string_equal(forward_denial_reason(LOCK), "lock");
    fake.denies = 0;
    forward_request(f, &durable, 3);
    assert_int_equal(fake.submitted, 1);
    forward_end(f);
}

static void a_denied_command_of_a_follower_never_reaches_the_log(void **state)
{
    (void)state;
    struct forward *f = forward_begin_with_auth();
    forward_lead();
    fake.principal = SOMEBODY;
    fake.denies = RIGHT_LOCK;
    request_of_a_peer(f, COMMAND);
    assert_int_equal(answer_to_a_peer(), HF_DENIED);
    request_of_a_peer(f, MEMORY);
    assert_int_equal(fake.submitted, 0);
    assert_int_equal(fake.offered, 0);
    assert_int_equal(forward_denied(f, LOCK), 2);
    /* What a principal does is no less its own because a node says otherwise. */
    request_of_a_peer(f, COMMAND | OWN);
    assert_int_equal(answer_to_a_peer(), HF_DENIED);
    fake.denies = 0;
    request_of_a_peer(f, COMMAND);
    assert_int_equal(fake.submitted, 1);
    forward_end(f);
}

/* It is authorised when it is taken, not when it arrived. */
static void a_command_that_waits_is_authorised_by_the_policy_of_then(void **state)
{
    (void)state;
    struct forward *f = forward_begin_with_auth();
    struct forwarded_call made;
    fake.principal = SOMEBODY;
    forward_request(f, &made, 1);
    forward_pass(f, 40);
    fake.denies = RIGHT_LOCK;
    forward_lead();
    forward_pass(f, 40);
    assert_int_equal(made.answers, 1);
    assert_int_equal(made.result.error, HF_DENIED);
    assert_int_equal(fake.submitted, 0);
    forward_end(f);
}

/* Another leader may have a later policy. */
static void only_a_leader_with_a_majority_denies(void **state)
{
    (void)state;
    struct forward *f = forward_begin_with_auth();
    struct forwarded_call made;
    forward_lead();
    fake.principal = SOMEBODY;
    fake.denies = RIGHT_LOCK;
    fake.no_majority = true;
    forward_request(f, &made, 1);
    forward_pass(f, 100);
    request_of_a_peer(f, COMMAND);
    assert_int_equal(fake.answer_status, BUSY);
    assert_int_equal(made.answers, 0);
    assert_int_equal(forward_denied(f, LOCK), 0);
    fake.no_majority = false;
    forward_pass(f, 40);
    assert_int_equal(made.answers, 1);
    assert_int_equal(made.result.error, HF_DENIED);
    forward_end(f);
}

static void with_auth_a_client_without_a_principal_is_refused(void **state)
{
    (void)state;
    struct forward *f = forward_begin_with_auth();
    struct forwarded_call made;
    forward_lead();
    forward_request(f, &made, 1);
    forward_run(f);
    assert_int_equal(made.result.error, HF_UNAUTHENTICATED);
    request_of_a_peer(f, COMMAND);
    assert_int_equal(answer_to_a_peer(), HF_UNAUTHENTICATED);
    request_of_a_peer(f, MEMORY);
    assert_int_equal(fake.submitted, 0);
    assert_int_equal(fake.offered, 0);
    assert_int_equal(forward_denied(f, NO_PRINCIPAL), 3);
    assert_string_equal(forward_denial_reason(NO_PRINCIPAL), "no_principal");
    forward_end(f);
}

static void the_nodes_own_commands_need_no_principal(void **state)
{
    (void)state;
    struct forward *f = forward_begin_with_auth();
    struct forwarded_call made;
    forward_lead();
    fake.is_own = true;
    forward_request(f, &made, 1);
    assert_int_equal(fake.submitted, 1);
    request_of_a_peer(f, COMMAND | OWN);
    assert_int_equal(fake.submitted, 2);
    request_of_a_peer(f, MEMORY | OWN);
    assert_int_equal(fake.offered, 2); /* the acquire of this node does not pass the tier */
    forward_end(f);
}

static void without_auth_nobody_needs_a_principal(void **state)
{
    (void)state;
    struct forward *f = forward_begin();
    struct forwarded_call made;
    forward_lead();
    forward_request(f, &made, 1);
    request_of_a_peer(f, COMMAND);
    assert_int_equal(fake.submitted, 2);
    forward_end(f);
}

/* Members of earlier versions send no principals. */
static void before_the_state_has_principals_nobody_needs_one(void **state)
{
    (void)state;
    struct forward *f = forward_begin_with_auth();
    struct forwarded_call made;
    fake.state_version = 5;
    forward_lead();
    forward_request(f, &made, 1);
    request_of_a_peer(f, COMMAND);
    assert_int_equal(fake.submitted, 2);
    fake.state_version = 6;
    request_of_a_peer(f, COMMAND);
    assert_int_equal(answer_to_a_peer(), HF_UNAUTHENTICATED);
    forward_end(f);
}

static void a_follower_says_which_commands_are_its_own(void **state)
{
    (void)state;
    struct forward *f = forward_begin_with_auth();
    struct forwarded_call made[5];
    forward_follow(f, 2);
    fake.peer_version = 6;
    forward_request(f, &made[0], 1);
    fake.is_own = true;
    forward_request(f, &made[1], 2);
    forward_request_memory(f, &made[2], 3);
    forward_request_barrier(f, &made[3]);
    forward_run(f);
    assert_int_equal(fake.requests, 4);
    uint32_t kinds[0x80] = {0};
    for (uint32_t i = 0; i < fake.requests; i++) {
        kinds[fake.kinds[i]]++;
    }
    assert_int_equal(kinds[COMMAND], 1);
    assert_int_equal(kinds[COMMAND | OWN], 1);
    assert_int_equal(kinds[MEMORY | OWN], 1);
    assert_int_equal(kinds[BARRIER], 1);
    fake.peer_version = 5; /* its program would not read it */
    forward_request(f, &made[4], 5);
    forward_run(f);
    assert_int_equal(fake.kinds[4], COMMAND);
    forward_end(f);
}

static void barriers_are_nobodys(void **state)
{
    (void)state;
    static const uint8_t kinds[] = {BARRIER | OWN, LOOK | OWN, INTEREST | OWN, OWN, 0x80 | COMMAND};
    struct forward *f = forward_begin_with_auth();
    forward_lead();
    for (size_t i = 0; i < sizeof(kinds); i++) {
        assert_true(forward_on_request(f, 3, 10, 7, kinds[i], slice_make(NULL, 0)));
        assert_int_equal(fake.answer_status, MALFORMED);
    }
    assert_int_equal(fake.barriers, 0);
    forward_end(f);
}

static uint32_t changes;

static enum hf_error count_change(void *ctx, enum gateway_change change, uint64_t id,
                                  const char *address, const char **problem)
{
    (void)ctx;
    (void)change;
    (void)id;
    (void)address;
    *problem = "";
    changes++;
    return HF_OK;
}

static struct slice encode_change(uint8_t buffer[CHANGE_BYTES])
{
    struct change change = {.change = GATEWAY_REMOVE, .id = 3};
    return slice_make(buffer, change_encode(&change, buffer));
}

static void a_change_of_members_needs_a_node_that_knows_its_client(void **state)
{
    (void)state;
    uint8_t bytes[CHANGE_BYTES];
    struct slice change = encode_change(bytes);
    struct forward *f = forward_begin_with_auth();
    f->options.change = count_change;
    changes = 0;
    forward_lead();
    assert_true(forward_on_request(f, 3, 10, 7, CHANGE, change));
    assert_int_equal(fake.answer_status, REFUSED);
    assert_int_equal(changes, 0);
    assert_true(forward_on_request(f, 3, 10, 7, CHANGE | OWN, change));
    assert_int_equal(fake.answer_status, DONE);
    assert_int_equal(changes, 1);
    fake.state_version = 5;
    assert_true(forward_on_request(f, 3, 10, 7, CHANGE, change));
    assert_int_equal(fake.answer_status, DONE);
    assert_int_equal(changes, 2);
    forward_end(f);
}

static void ignore_change(struct gateway_change_call *call, enum hf_error error,
                          const char *problem)
{
    (void)call;
    (void)error;
    (void)problem;
}

static void a_node_with_auth_says_that_it_knows_the_client(void **state)
{
    (void)state;
    struct gateway_change_call call = {.done = ignore_change};
    struct forward *f = forward_begin_with_auth();
    forward_follow(f, 2);
    forward_change(f, GATEWAY_REMOVE, 3, "", &call);
    forward_run(f);
    assert_int_equal(fake.kinds[0], CHANGE | OWN);
    forward_end(f);
    f = forward_begin();
    forward_follow(f, 2);
    forward_change(f, GATEWAY_REMOVE, 3, "", &call);
    forward_run(f);
    assert_int_equal(fake.kinds[0], CHANGE);
    forward_end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_denied_command_of_this_node_never_reaches_the_log),
        cmocka_unit_test(a_denied_command_of_a_follower_never_reaches_the_log),
        cmocka_unit_test(a_command_that_waits_is_authorised_by_the_policy_of_then),
        cmocka_unit_test(only_a_leader_with_a_majority_denies),
        cmocka_unit_test(with_auth_a_client_without_a_principal_is_refused),
        cmocka_unit_test(the_nodes_own_commands_need_no_principal),
        cmocka_unit_test(without_auth_nobody_needs_a_principal),
        cmocka_unit_test(before_the_state_has_principals_nobody_needs_one),
        cmocka_unit_test(a_follower_says_which_commands_are_its_own),
        cmocka_unit_test(barriers_are_nobodys),
        cmocka_unit_test(a_change_of_members_needs_a_node_that_knows_its_client),
        cmocka_unit_test(a_node_with_auth_says_that_it_knows_the_client),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

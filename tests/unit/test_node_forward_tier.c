/* Tests of forwarding for the tier EFFICIENCY: what the leader keeps in memory, and the pages of it
 * that are looked at (S10). */
#include "base_testing.h"

#include "forward_world.h"

static char seen[64];

static void on_page(struct gateway_call *call, enum hf_error error, const struct result *result)
{
    assert_int_equal(error, HF_OK);
    assert_null(result);
    snprintf(seen, sizeof(seen), "%.*s", (int)call->page.len, (const char *)call->page.data);
}

static void who_looks_gets_the_page_with_the_barrier(void **state)
{
    (void)state;
    struct forward *f = forward_begin_with_tier();
    struct gateway_call here = {.done = on_page, .look = slice_of("names")};
    forward_lead();
    forward_barrier(f, &here);
    forward_run(f);
    forward_on_barrier(f, fake.cookies[0], true);
    assert_string_equal(seen, "page of names");
    /* For another node: behind the index; and there the own state has to get so far first. */
    fake.core_index = 300;
    assert_true(forward_on_request(f, 2, 10, 77, LOOK, slice_of("more")));
    assert_true(forward_on_request(f, 2, 10, 78, LOOK, slice_of("")));
    assert_int_equal(fake.answer_status, MALFORMED);
    forward_on_barrier(f, fake.cookies[1], true);
    assert_int_equal(fake.answer_status, DONE);
    struct slice body = buffer_bytes(&fake.answer_body);
    assert_int_equal(body.len, 8 + strlen("page of more"));
    seen[0] = '\0';
    fake.core_index = 299;
    forward_follow(f, 2);
    struct gateway_call there = {.done = on_page, .look = slice_of("more")};
    forward_barrier(f, &there);
    forward_run(f);
    assert_int_equal(fake.kinds[0], LOOK);
    assert_true(forward_on_answer(f, 2, fake.numbers[0], DONE, body));
    forward_run(f);
    assert_string_equal(seen, "");
    fake.core_index = 300;
    forward_run(f);
    assert_string_equal(seen, "page of more");
    forward_end(f);
}

static void an_older_leader_that_knows_no_pages_gets_a_request_for_the_barrier_alone(void **state)
{
    (void)state;
    struct forward *f = forward_begin_with_tier();
    static const uint8_t index[8] = {1};
    struct gateway_call call = {.done = on_page, .look = slice_of("names")};
    snprintf(seen, sizeof(seen), "nothing yet");
    fake.core_index = 1;
    forward_follow(f, 2);
    forward_barrier(f, &call);
    forward_run(f);
    assert_int_equal(fake.kinds[0], LOOK);
    assert_true(forward_on_answer(f, 2, fake.numbers[0], MALFORMED, slice_of("")));
    forward_run(f);
    assert_int_equal(fake.kinds[1], BARRIER);
    assert_true(forward_on_answer(f, 2, fake.numbers[1], DONE, slice_make(index, 8)));
    forward_run(f);
    assert_string_equal(seen, ""); /* and there is nothing to show */
    forward_end(f);
}

static void on_checked(struct gateway_call *call, enum hf_error error, const struct result *result)
{
    assert_int_equal(error, HF_OK);
    assert_int_equal(result->type, COMMAND_KEEPALIVE);
    snprintf(seen, sizeof(seen), "%.*s", (int)call->page.len, (const char *)call->page.data);
}

static void keep_alive(struct forward *f, struct gateway_call *call)
{
    static const uint8_t id[16] = {1, [8] = 1};
    struct command command;
    command_init(&command, COMMAND_KEEPALIVE);
    command.keepalive.sessions = (struct ids){1, id};
    *call = (struct gateway_call){.done = on_checked, .look = slice_of("tokens")};
    snprintf(seen, sizeof(seen), "nothing yet");
    forward_submit(f, &command, call);
    forward_run(f);
}

/* S4.8: with the command, and answered when it is applied. */
static void a_query_rides_with_a_keepalive(void **state)
{
    (void)state;
    static const uint8_t alive[1] = {HF_OK};
    struct result result = {.type = COMMAND_KEEPALIVE, .count = 1, .alive = alive};
    struct gateway_call call;
    struct forward *f = forward_begin_with_tier();
    forward_lead();
    keep_alive(f, &call);
    assert_string_equal(seen, "nothing yet");
    forward_on_result(f, fake.cookies[0], REPLICA_DONE, &result);
    assert_string_equal(seen, "page of tokens");
    /* Through another node: the leader takes the command, and answers with page and result. */
    uint32_t barriers = fake.barriers;
    forward_follow(f, 2);
    keep_alive(f, &call);
    assert_int_equal(fake.kinds[0], CHECKED);
    uint8_t request[512];
    size_t len = fake.request_len;
    assert_true(len <= sizeof(request));
    memcpy(request, fake.request, len);
    forward_lead();
    assert_true(forward_on_request(f, 2, 10, 77, CHECKED, slice_make(request, len)));
    assert_int_equal(fake.submitted, 2);
    assert_int_equal(fake.barriers, barriers);
    forward_on_result(f, fake.cookies[1], REPLICA_DONE, &result);
    assert_int_equal(fake.answer_status, DONE);
    assert_true(forward_on_answer(f, 2, fake.numbers[0], DONE, buffer_bytes(&fake.answer_body)));
    assert_string_equal(seen, "page of tokens");
    /* What is not a query and a command is refused. */
    assert_true(forward_on_request(f, 2, 10, 78, CHECKED, slice_of("")));
    assert_int_equal(fake.answer_status, MALFORMED);
    assert_true(forward_on_request(f, 2, 10, 79, CHECKED, slice_make(request, 3)));
    assert_int_equal(fake.answer_status, MALFORMED);
    assert_true(forward_on_request(f, 2, 10, 80, CHECKED, slice_make(request, len - 1)));
    assert_int_equal(fake.answer_status, MALFORMED);
    forward_end(f);
}

static void an_older_leader_gets_the_keepalive_without_its_query(void **state)
{
    (void)state;
    static const uint8_t alive[1] = {HF_OK};
    struct result result = {.type = COMMAND_KEEPALIVE, .count = 1, .alive = alive};
    struct gateway_call call;
    struct buffer body;
    buffer_init(&body, memory_system(), RESULT_BYTES_MAX);
    struct forward *f = forward_begin_with_tier();
    forward_follow(f, 2);
    keep_alive(f, &call);
    assert_int_equal(fake.kinds[0], CHECKED);
    assert_false(forward_on_answer(f, 2, fake.numbers[0], DONE, slice_of(""))); /* garbled */
    assert_true(forward_on_answer(f, 2, fake.numbers[0], MALFORMED, slice_of("")));
    forward_run(f);
    assert_int_equal(fake.kinds[1], COMMAND);
    assert_true(result_encode(&result, CORE_VERSION, &body));
    assert_true(forward_on_answer(f, 2, fake.numbers[1], DONE, buffer_bytes(&body)));
    assert_string_equal(seen, "");
    forward_end(f);
    buffer_close(&body);
}

static void the_leaders_memory_answers_at_once_and_nothing_is_proposed(void **state)
{
    (void)state;
    struct forward *f = forward_begin_with_tier();
    struct forwarded_call a;
    forward_lead();
    fake.taken = TIER_TAKEN;
    fake.tells_at_once = true;
    forward_request_memory(f, &a, 7);
    assert_false(forward_has_answered(f));
    forward_run(f);
    assert_int_equal(fake.queried_tier, TIER_EFFICIENCY);
    assert_int_equal(a.answers, 1);
    assert_int_equal(a.result.token, 1025);
    assert_true(forward_has_answered(f));
    assert_false(forward_has_answered(f));
    assert_int_equal(fake.submitted, 0);
    assert_int_equal(forward_outstanding(f), 0);
    forward_end(f);
}

static void what_memory_confirms_later_is_answered_then(void **state)
{
    (void)state;
    struct forward *f = forward_begin_with_tier();
    struct forwarded_call a;
    struct forwarded_call b;
    forward_lead();
    fake.taken = TIER_TAKEN;
    forward_request_memory(f, &a, 7);
    forward_request_memory(f, &b, 8);
    forward_run(f);
    assert_int_equal(a.answers, 0);
    struct result result = {.token = 1026};
    forward_on_tier_result(f, fake.cookies[1], &result);
    assert_int_equal(b.answers, 1);
    forward_on_tier_result(f, fake.cookies[0], NULL); /* the leadership ended: not known */
    assert_int_equal(a.answers, 0);                   /* it is requested again, under the same id */
    forward_pass(f, 6000);
    assert_int_equal(a.answers, 1);
    assert_int_equal(a.error, HF_OUTCOME_UNKNOWN);
    forward_end(f);
}

static void what_memory_holds_back_is_in_nobodys_way(void **state)
{
    (void)state;
    struct forward *f = forward_begin_with_tier();
    struct forwarded_call a;
    struct forwarded_call b;
    forward_lead();
    fake.taken = TIER_LATER;
    forward_request_memory(f, &a, 7);
    forward_run(f);
    assert_int_equal(a.answers, 0);
    forward_request(f, &b, 8);
    forward_run(f);
    assert_int_equal(fake.submitted, 1);
    assert_int_equal(fake.leases[0].low, 8);
    fake.taken = TIER_TAKEN;
    fake.tells_at_once = true;
    forward_pass(f, 20);
    assert_int_equal(a.answers, 1);
    fake.taken = TIER_LATER;
    forward_request_memory(f, &a, 9);
    forward_pass(f, 3100); /* no majority all the while: surely not done */
    assert_int_equal(a.answers, 1);
    assert_int_equal(a.error, HF_UNAVAILABLE);
    forward_end(f);
}

static void an_acquire_for_the_log_is_counted_until_it_is_settled(void **state)
{
    (void)state;
    struct forward *f = forward_begin_with_tier();
    struct forwarded_call a;
    forward_lead();
    forward_request(f, &a, 7);
    forward_run(f);
    assert_int_equal(fake.proposed, 1);
    assert_int_equal(fake.settled, 0);
    forward_on_result(f, fake.cookies[0], REPLICA_NOT_DONE, NULL);
    assert_int_equal(fake.settled, 1);
    forward_pass(f, 20);
    assert_int_equal(fake.proposed, 2);
    struct result result = {.token = 2048};
    forward_on_result(f, fake.cookies[1], REPLICA_DONE, &result);
    assert_int_equal(fake.settled, 2);
    assert_int_equal(a.answers, 1);
    forward_end(f);
}

static void a_follower_says_which_tier_and_hears_the_epoch(void **state)
{
    (void)state;
    struct forward *f = forward_begin_with_tier();
    struct forwarded_call a;
    forward_follow(f, 2);
    forward_request_memory(f, &a, 7);
    forward_run(f);
    assert_int_equal(fake.offered, 0);
    assert_int_equal(fake.kinds[0], MEMORY);
    struct buffer body;
    buffer_init(&body, memory_system(), RESULT_BYTES_MAX + 64);
    static const uint8_t head[16] = {9, 0, 0, 0, 0, 0, 0, 0, 0x10, 0x27};
    struct result result = {.type = COMMAND_ACQUIRE, .token = 9217};
    assert_true(buffer_append(&body, head, sizeof(head)));
    assert_true(result_encode(&result, CORE_VERSION, &body));
    assert_true(forward_on_answer(f, 2, fake.numbers[0], DONE, buffer_bytes(&body)));
    buffer_close(&body);
    assert_int_equal(a.answers, 1);
    assert_int_equal(a.result.token, 9217);
    assert_int_equal(forward_epoch(f), 9);
    assert_int_equal(forward_leader_ms(f), 10000);
    forward_end(f);
}

static void a_forwarded_request_of_memory_is_answered_with_the_epoch(void **state)
{
    (void)state;
    struct forward *f = forward_begin_with_tier();
    uint8_t buffer[512];
    struct slice good = forward_encode_acquire(buffer, 512);
    forward_lead();
    fake.taken = TIER_LATER;
    assert_true(forward_on_request(f, 2, 10, 77, MEMORY, good));
    assert_int_equal(fake.answer_status, BUSY);
    fake.taken = TIER_TAKEN;
    fake.tells_at_once = true;
    assert_true(forward_on_request(f, 2, 10, 78, MEMORY, good));
    assert_int_equal(fake.answer_status, DONE);
    static const uint8_t epoch[8] = {7};
    assert_memory_equal(buffer_bytes(&fake.answer_body).data, epoch, 8);
    assert_int_equal(fake.submitted, 0);
    forward_end(f);
}

static void events_and_calls_need_no_answer(void **state)
{
    (void)state;
    struct forward *f = forward_begin_with_tier();
    assert_true(forward_on_request(f, 2, 10, 0, INTEREST, slice_of("\x02")));
    assert_int_equal(fake.interest, 2);
    assert_false(forward_on_request(f, 2, 10, 0, INTEREST, slice_of("")));
    assert_int_equal(fake.answers, 0);
    assert_true(forward_on_answer(f, 2, 0, EVENT, slice_of("bytes")));
    assert_int_equal(fake.events, 1);
    forward_end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_looks_gets_the_page_with_the_barrier),
        cmocka_unit_test(a_query_rides_with_a_keepalive),
        cmocka_unit_test(an_older_leader_gets_the_keepalive_without_its_query),
        cmocka_unit_test(an_older_leader_that_knows_no_pages_gets_a_request_for_the_barrier_alone),
        cmocka_unit_test(the_leaders_memory_answers_at_once_and_nothing_is_proposed),
        cmocka_unit_test(what_memory_confirms_later_is_answered_then),
        cmocka_unit_test(what_memory_holds_back_is_in_nobodys_way),
        cmocka_unit_test(an_acquire_for_the_log_is_counted_until_it_is_settled),
        cmocka_unit_test(a_follower_says_which_tier_and_hears_the_epoch),
        cmocka_unit_test(a_forwarded_request_of_memory_is_answered_with_the_epoch),
        cmocka_unit_test(events_and_calls_need_no_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
